//! `hq task list` and `info`.

use std::cell::RefCell;
use std::io::Write;

use hq_core::client_messages::TaskInfo;
use hq_model::dependency::{After, Condition};
use hq_model::entry::Entry;
use hq_model::left_behind::{LeftBehind, Packed};
use hq_model::paths::TaskPaths;
use hq_model::pattern::Pattern;
use hq_model::{IdSet, JobId, TaskRef, TaskSpec, TaskState, Timestamp, counted};
use serde::ser::{SerializeMap, Serializer};

use super::job::{key, usage, write_error};
use super::job_document::TaskArray;
use super::results::{left_behind, line_of};
use super::style::{Color, Style};
use super::table::{self, Cell, TableWriter};
use super::{Report, attempts, load, text};
use crate::error::HqError;
use crate::report::{TaskDetails, Tasks};
use crate::results::{LeftReader, TaskResult};
use crate::tasks::TaskStream;

/// Characters of an entry that are shown.
const ENTRY_SHOWN: usize = 120;
/// The first byte of a pickle, with which no text begins.
const PICKLE: u8 = 0x80;
/// Characters of an error that a list of tasks shows; `task info` shows all of them.
const ERROR_SHOWN: usize = 200;
/// Rows printed at once: what a list of any length takes of memory.
const ROWS: usize = 5_000;
/// What is said of a failure whose details the server has dropped.
const FORGOTTEN_ERROR: &str = "no longer kept; see `hq job failures` for the causes";
const HEADER: [&str; 5] = ["Task ID", "State", "Worker", "Makespan", "Error"];
const HEADER_VERBOSE: [&str; 11] = [
    "Task ID",
    "State",
    "Worker",
    "Makespan",
    "Error",
    "Instance",
    "CPU time",
    "Peak memory",
    "Workdir",
    "Stdout",
    "Stderr",
];

impl Report for Tasks {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        let several = self.jobs.len() > 1;
        let of_task = if self.verbose { &HEADER_VERBOSE[..] } else { &HEADER[..] };
        let header = several.then_some("Job ID").into_iter().chain(of_task.iter().copied());
        let mut table = TableWriter::new(out, style, &header.collect::<Vec<_>>());
        let mut rows = Vec::new();
        for job in self.jobs.iter().copied() {
            while let Some(task) = self.tasks.next_of(job)? {
                let paths = if self.verbose { self.tasks.paths_of(job, &task) } else { None };
                let mut row = row(&task, paths, (self.verbose, self.now), style);
                if several {
                    row.insert(0, Cell::number(job));
                }
                rows.push(row);
                if rows.len() == ROWS {
                    table.rows(&rows)?;
                    rows.clear();
                }
            }
        }
        table.rows(&rows)?;
        Ok(table.finish()?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let error = RefCell::new(None);
        let stream = RefCell::new(&mut self.tasks);
        let mut serializer = serde_json::Serializer::pretty(&mut *out);
        let mut map = serializer.serialize_map(None).map_err(write_error)?;
        for job in self.jobs.iter().copied() {
            let (told, left) = (RefCell::default(), RefCell::default());
            let tasks = TaskArray {
                job,
                is_detailed: false,
                stream: &stream,
                left: &left,
                error: &error,
                told: &told,
            };
            let written = map.serialize_entry(&key(job), &tasks);
            if let Some(error) = error.take() {
                return Err(error);
            }
            written.map_err(write_error)?;
        }
        SerializeMap::end(map).map_err(write_error)?;
        Ok(out.write_all(b"\n")?)
    }
}

impl Report for TaskDetails {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        while let Some(task) = self.tasks.next_of(self.job)? {
            let mut rows = details(self, &task, &style);
            let left = left_by(self.left.as_mut(), &self.tasks, self.job, &task)?;
            if let Some(left) = &left
                && task.state == TaskState::Finished
            {
                rows.push(("Result", line_of(&left.result, left.is_text)?.into()));
            }
            if let Some(LeftBehind::Packed(Packed { failure: Some(raised), .. })) =
                left.as_ref().map(|left| left_behind(&left.result, left.is_text))
            {
                let at = rows.iter().position(|(name, _)| *name == "Instance").unwrap_or(rows.len());
                rows.insert(at, ("Traceback", Cell::colored(raised.traceback.trim_end(), Color::Red)));
            }
            table::record(out, style, rows)?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let error = RefCell::new(None);
        let stream = RefCell::new(&mut self.tasks);
        let told = RefCell::default();
        let left = RefCell::new(self.left.as_mut());
        let tasks = TaskArray {
            job: self.job,
            is_detailed: true,
            stream: &stream,
            left: &left,
            error: &error,
            told: &told,
        };
        let written = serde_json::to_writer_pretty(&mut *out, &tasks);
        if let Some(error) = error.take() {
            return Err(error);
        }
        written.map_err(write_error)?;
        Ok(out.write_all(b"\n")?)
    }
}

/// What a task left that finished, and a packed call that failed.
pub(super) fn left_by(
    left: Option<&mut LeftReader>,
    tasks: &TaskStream,
    job: JobId,
    task: &TaskInfo,
) -> Result<Option<TaskResult>, HqError> {
    let spec = tasks.submit_of(job, task).map(|submit| &submit.spec);
    let has_left = spec.is_some_and(|spec| match task.state {
        TaskState::Finished => spec.has_results(),
        TaskState::Failed => spec.body.is_packed_call(),
        _ => false,
    });
    match left.filter(|_| has_left) {
        Some(left) => left.of(TaskRef::new(job, task.task)),
        None => Ok(None),
    }
}

// The first one leads.
/// Its worker; of one on several nodes all of them, the one that runs the program first.
pub(super) fn workers_of(task: &TaskInfo) -> String {
    let all: Vec<String> = task.nodes.iter().map(ToString::to_string).collect();
    if all.is_empty() {
        task.worker.map_or(String::new(), |worker| worker.to_string())
    } else {
        all.join(", ")
    }
}

fn makespan(task: &TaskInfo, now: Timestamp) -> String {
    match (task.started, task.ended) {
        (Some(start), Some(end)) => text::measured(end.since(start)),
        (Some(start), None) if task.state == TaskState::Running => text::measured(now.since(start)),
        _ => String::new(),
    }
}

// What a program has said stays as it is; of a task that was canceled it is our own text.
fn error(task: &TaskInfo, style: &Style) -> Cell {
    let text = error_text(task);
    let is_ours = task.state == TaskState::Canceled;
    Cell::colored(if is_ours { style.times_in(text).into_owned() } else { text.to_owned() }, Color::Red)
}

/// Why it failed, or that this is not known any more.
pub(crate) fn error_text(task: &TaskInfo) -> &str {
    let forgotten = if task.state == TaskState::Failed { FORGOTTEN_ERROR } else { "" };
    task.error.as_deref().unwrap_or(forgotten)
}

// On a terminal the beginning of it, so that one long error does not make the rows of all tasks high. Programs read all of it.
fn error_in_list(task: &TaskInfo, style: Style) -> Cell {
    let whole = error_text(task);
    match whole.char_indices().nth(ERROR_SHOWN) {
        Some((end, _)) if style.has_lines => Cell::colored(format!("{}…", &whole[..end]), Color::Red),
        _ => error(task, &style),
    }
}

// Its directory, and where its channels go.
fn places(paths: Option<&TaskPaths>) -> [String; 3] {
    let Some(paths) = paths else { return [text::NONE; 3].map(str::to_owned) };
    let channel = |path: &Option<Vec<u8>>, is_streamed: bool| match path {
        _ if is_streamed => text::STREAM.to_owned(),
        Some(path) => text::bytes(path),
        None => text::NO_OUTPUT.to_owned(),
    };
    let [of_stdout, of_stderr] = paths.is_streamed;
    [text::bytes(&paths.cwd), channel(&paths.stdout, of_stdout), channel(&paths.stderr, of_stderr)]
}

fn row(
    task: &TaskInfo,
    paths: Option<TaskPaths>,
    (verbose, now): (bool, Timestamp),
    style: Style,
) -> Vec<Cell> {
    let mut row = vec![
        Cell::number(task.task),
        text::task_state(task.state),
        workers_of(task).into(),
        makespan(task, now).into(),
        error_in_list(task, style),
    ];
    if verbose {
        let used = task.measured();
        let places = places(paths.as_ref());
        row.extend([
            Cell::number(task.instance),
            used.map_or(String::new(), |u| text::measured(u.cpu())).into(),
            used.map_or(String::new(), |u| text::size(u.rss_max_kib)).into(),
            places[0].as_str().into(),
            places[1].as_str().into(),
            places[2].as_str().into(),
        ]);
    }
    row
}

fn details(report: &TaskDetails, task: &TaskInfo, style: &Style) -> Vec<(&'static str, Cell)> {
    let spec = report.tasks.submit_of(report.job, task).map(|submit| submit.spec.as_ref());
    let paths = report.tasks.paths_of(report.job, task);
    let of_spec = |what: &dyn Fn(&hq_model::TaskSpec) -> String| spec.map_or(String::new(), what);
    let [cwd, stdout, stderr] = places(paths.as_ref());
    let mut rows = vec![
        ("Task ID", Cell::from(task.task.to_string())),
        ("State", text::task_state(task.state)),
        ("Command", of_spec(&|s| text::body_lines(&s.body)).into()),
        ("Environment", of_spec(&|s| text::environment(&s.env)).into()),
        ("Worker", workers_of(task).into()),
        ("Start", style.optional_clock(task.started).into()),
        ("End", style.optional_clock(task.ended).into()),
        ("Makespan", makespan(task, report.now).into()),
        ("Workdir", cwd.into()),
        ("Stdout", stdout.into()),
        ("Stderr", stderr.into()),
        ("Time limit", of_spec(&|s| text::optional_duration(s.time_limit)).into()),
        ("Resources", of_spec(&|s| text::request_lines(&s.requests)).into()),
        ("Time request", of_spec(&|s| text::time_requests(&s.requests)).into()),
        ("Priority", of_spec(&|s| s.priority.to_string()).into()),
        ("Pin", of_spec(&|s| text::pin(s.pin).into()).into()),
        ("Task dir", of_spec(&|s| if s.task_dir { "yes" } else { "no" }.into()).into()),
        ("Crash limit", of_spec(&|s| s.crash_limit.to_string()).into()),
        ("Dependencies", dependencies(report.job, task).into()),
        ("Error", error(task, style)),
        ("Instance", task.instance.to_string().into()),
        ("Crashes", task.crashes.to_string().into()),
    ];
    if !task.attempts.is_empty() {
        let lines = task.attempts.iter().map(|attempt| attempts::line(attempt, |at| style.clock(at)));
        rows.push(("Other attempts", lines.collect::<Vec<_>>().join("\n").into()));
    }
    if let Some(entry) = &task.entry {
        rows.push(("Entry", entry_shown(entry).into()));
    } else if task.entry_gone {
        rows.push(("Entry", "no longer kept, because the task has finished".into()));
    }
    if let Some(expected) = spec.and_then(|spec| spec.expected) {
        rows.push(("Expected", text::optional_duration(Some(expected)).into()));
    }
    if let Some(locality) = spec.and_then(|spec| locality(report.job, task, spec)) {
        rows.push(("Locality", locality.into()));
    }
    if let Some(spec) = spec.filter(|spec| spec.has_objects()) {
        rows.push(("Output objects", text::listed(&spec.output_objects).into()));
        rows.push(("Input objects", text::listed(&spec.input_objects).into()));
    }
    if let Some(key) = &task.key {
        rows.push(("Key", key.as_str().into()));
    }
    if let Some(used) = task.measured() {
        rows.extend(usage(used, false));
    } else if let Some(used) = &task.load {
        rows.extend(load::task_rows(used));
    }
    rows
}

/// The key of a task that likes to run where those ran that have the same.
pub(super) fn locality(job: JobId, task: &TaskInfo, spec: &TaskSpec) -> Option<String> {
    let entry = Entry::new(task.entry.as_deref().unwrap_or_default());
    let mut key = Vec::new();
    Pattern::new(spec.locality.as_ref()?).expand_into(&mut key, &|name, out| {
        let id = match name {
            "JOB_ID" => job.0,
            "TASK_ID" => task.task.0,
            _ => return entry.append(name, out),
        };
        out.extend_from_slice(id.to_string().as_bytes());
        true
    });
    Some(text::bytes(&key))
}

// The arguments of a call are a pickle, which only Python reads.
fn entry_shown(entry: &[u8]) -> String {
    match entry.first() {
        Some(&PICKLE) => format!("<arguments: pickle of {}>", counted(entry.len() as u64, "byte")),
        _ => shortened(entry),
    }
}

// One line of it, which shows what it is: all of it is in JSON.
fn shortened(entry: &[u8]) -> String {
    let shown = String::from_utf8_lossy(entry);
    let line: String =
        shown.chars().take(ENTRY_SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() == shown.len() { line } else { format!("{line}… ({} bytes)", entry.len()) }
}

// As --after reads them; ids alone within the job.
fn dependencies(own: JobId, task: &TaskInfo) -> String {
    let is_plain = |after: &After| {
        let of_ids = After { tasks: after.tasks.clone(), ..After::of(own) };
        after.tasks.is_some() && *after == of_ids
    };
    let (plain, others): (Vec<&After>, Vec<&After>) =
        task.dependencies.iter().partition(|after| is_plain(after));
    let mut ids = IdSet::new();
    plain.iter().filter_map(|after| after.tasks.as_ref()).for_each(|tasks| ids.union_with(tasks));
    let words = others.iter().map(|after| match after.condition {
        Condition::Success => after.to_string(),
        Condition::AnyEnd => format!("{after} (any end)"),
    });
    let own = (!ids.is_empty()).then(|| ids.to_string());
    own.into_iter().chain(words).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_line_and_a_pickle_is_told_by_its_length() {
        let long = "x".repeat(200);
        for (entry, shown) in [
            (&b"query\tblock"[..], "query block".to_owned()),
            (b"\x80\x05K\x01.", "<arguments: pickle of 5 bytes>".to_owned()),
            (long.as_bytes(), format!("{}… (200 bytes)", &long[..ENTRY_SHOWN])),
        ] {
            assert_eq!(entry_shown(entry), shown);
        }
    }
}
