//! `hq job list`, `summary`, `info`, `forget`, `close` and `task-ids`.

use std::cell::RefCell;
use std::io::Write;
use std::ops::RangeInclusive;
use std::time::Duration;

use hq_core::client_messages::{JobBudget, JobDetail, JobSummary, SubmitInfo};
use hq_model::allocation::{node_hours, node_hours_told};
use hq_model::job::Counters;
use hq_model::paths::{PathTemplates, TaskPaths};
use hq_model::{
    Compression, IdSet, JobId, JobState, Stream, TaskId, TaskState, Timestamp, Usage, counted, duration,
};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};

use super::job_document::Document;
use super::json;
use super::style::Style;
use super::table::{self, Cell};
use super::wait::{self, IDS_CHARS_MAX};
use super::{Report, text};
use crate::error::HqError;
use crate::report::{JobCounts, JobDetails, Jobs, JobsDone, JobsForgotten, TaskIds};

/// Submits of a job that are shown one by one; more are summed up.
const SUBMITS_SHOWN: usize = 10;

impl Report for Jobs {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let rows: Vec<Vec<Cell>> = self
            .jobs
            .iter()
            .map(|job| {
                let open = if job.is_open { "*" } else { "" };
                let mut row = vec![
                    Cell::number(format!("{open}{}", job.job)),
                    name_in_list(&job.name).into(),
                    text::job_state(job.state()),
                    Cell::number(job.counters.total()),
                ];
                if style.has_lines {
                    row.push(progress(&job.counters).into());
                }
                if self.verbose {
                    row.push(job.cancel_reason.clone().unwrap_or_default().into());
                }
                row
            })
            .collect();
        let mut header = vec!["ID", "Name", "State", "Tasks"];
        // What scripts read keeps its columns.
        header.extend(style.has_lines.then_some("Progress"));
        header.extend(self.verbose.then_some("Cancel Reason"));
        table::table(out, style, &header, &rows)?;
        if self.jobs.iter().any(|job| job.is_open) {
            writeln!(out, "* = Open jobs")?;
        }
        if self.total > self.jobs.len() as u64 {
            let are = if self.total == 1 { "is" } else { "are" };
            let total = counted(self.total, "job");
            writeln!(out, "There {are} {total} in total. Use `--all` to display all jobs.")?;
        }
        for job in self.jobs.iter().filter(|job| job.unrunnable > 0) {
            writeln!(out, "Job {}: {}", job.job, unrunnable(job))?;
        }
        for (job, why) in self.jobs.iter().filter_map(|job| Some((job.job, job.stalled.as_ref()?))) {
            writeln!(out, "Job {job} is stalled: {why}")?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let jobs: Vec<Value> = self.jobs.iter().map(json::job).collect();
        Ok(json::write(out, &jobs.into())?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for job in &self.jobs {
            writeln!(out, "{} {}", job.job, job.state().word().to_ascii_uppercase())?;
        }
        Ok(())
    }
}

// A long name is cut in the middle, where it says least.
fn name_in_list(name: &str) -> String {
    const SHOWN: usize = 50;
    const BEGIN: usize = 24;
    const END: usize = SHOWN - BEGIN - "...".len();
    let count = name.chars().count();
    if count <= SHOWN {
        return name.into();
    }
    let begin: String = name.chars().take(BEGIN).collect();
    let end: String = name.chars().skip(count - END).collect();
    format!("{begin}...{end}")
}

// How much has ended, and how much of that without success.
fn progress(c: &Counters) -> String {
    let total = c.total();
    let Some(percent) = (c.terminal() * 100).checked_div(total) else { return String::new() };
    let lost = [(c.failed, "failed"), (c.aborted, "aborted"), (c.canceled, "canceled")];
    let lost: String = lost
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!(", {count} {word}"))
        .collect();
    format!("{percent} %{lost}")
}

/// That some tasks of a job can never run.
pub(crate) fn unrunnable(job: &JobSummary) -> String {
    let tasks = counted(job.unrunnable, "task");
    let fit = if job.unrunnable == 1 { "fits" } else { "fit" };
    format!("{tasks} {fit} no current or expected worker; see `hq job explain {}`", job.job)
}

impl JobCounts {
    // In the order of the reference; opened jobs only when there are some.
    fn rows(&self) -> Vec<(JobState, u64)> {
        let order = [
            JobState::Running,
            JobState::Waiting,
            JobState::Finished,
            JobState::Failed,
            JobState::Aborted,
            JobState::Canceled,
            JobState::Opened,
        ];
        let count = |state| self.0.iter().filter(|(s, _)| *s == state).map(|(_, count)| *count).sum();
        order
            .into_iter()
            .map(|state| (state, count(state)))
            .filter(|(state, count)| *state != JobState::Opened || *count > 0)
            .collect()
    }
}

impl Report for JobCounts {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let rows: Vec<Vec<Cell>> = self
            .rows()
            .into_iter()
            .map(|(state, count)| vec![text::job_state(state), Cell::number(count)])
            .collect();
        Ok(table::table(out, style, &["Status", "Count"], &rows)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut document = serde_json::Map::new();
        for (state, count) in self.rows() {
            let (first, rest) = state.word().split_at(1);
            document.insert(format!("{}{rest}", first.to_ascii_uppercase()), count.into());
        }
        Ok(json::write(out, &document.into())?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for (state, count) in self.rows() {
            writeln!(out, "{} {count}", state.word().to_ascii_uppercase())?;
        }
        Ok(())
    }
}

impl Report for JobDetails {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        while let Some(job) = self.jobs.next_job()? {
            let mut submits = Submits::default();
            while let Some(submit) = self.jobs.next_submit()? {
                let templates = PathTemplates::new(&submit.spec, &submit.submit_dir, &self.server_uid);
                let job = job.summary.job;
                let places =
                    Places { paths: templates.expand_for_all(job), stream: templates.stream(job), style };
                submits.add(&submit, &places);
            }
            table::record(out, style, details(&job, submits, self.now, style))?;
            let all = job.summary.counters.failed;
            let failed = if all > 0 { (self.failed)(job.summary.job)? } else { Vec::new() };
            if !failed.is_empty() {
                let shown = failed.len() as u64;
                wait::failed_tasks(out, style, &failed)?;
                let which = if shown < all { format!(", {shown} of them shown") } else { String::new() };
                writeln!(out, "{} failed{which}.", counted(all, "task"))?;
            }
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let error = RefCell::new(None);
        let tasks = RefCell::new(self.tasks.as_mut());
        let jobs = RefCell::new(&mut self.jobs);
        let mut serializer = serde_json::Serializer::pretty(&mut *out);
        let mut list = serializer.serialize_seq(None).map_err(write_error)?;
        loop {
            let Some(job) = jobs.borrow_mut().next_job()? else { break };
            let document =
                Document { job, server_uid: &self.server_uid, jobs: &jobs, tasks: &tasks, error: &error };
            let written = list.serialize_element(&document);
            if let Some(error) = error.take() {
                return Err(error);
            }
            written.map_err(write_error)?;
        }
        SerializeSeq::end(list).map_err(write_error)?;
        Ok(out.write_all(b"\n")?)
    }
}

/// An error of a document that could not be written.
pub(super) fn write_error(error: serde_json::Error) -> HqError {
    std::io::Error::from(error).into()
}

// Where tasks of a submit work and print.
struct Places {
    paths: TaskPaths,
    stream: Option<Stream>,
    style: Style,
}

type Saying = fn(&SubmitInfo, &Places) -> String;

// What submits say of their tasks, by the names of the rows.
const SAID: [(&str, Saying); 17] = [
    ("Resources", |s, _| text::request_lines(&s.spec.requests)),
    ("Time request", |s, _| text::time_requests(&s.spec.requests)),
    ("Pin", |s, _| text::pin(s.spec.pin).into()),
    ("Priority", |s, _| s.spec.priority.to_string()),
    ("Command", |s, _| text::body_lines(&s.spec.body)),
    ("Stdout", |s, at| text::output(&s.spec.stdout, at.paths.stdout.as_ref())),
    ("Stderr", |s, at| text::output(&s.spec.stderr, at.paths.stderr.as_ref())),
    ("Stream", |s, at| {
        let Some(path) = at.stream.as_ref().map(|stream| text::bytes(stream.path())) else {
            return text::NONE.into();
        };
        match s.spec.compression {
            Compression::None => path,
            compression => format!("{path} ({compression})"),
        }
    }),
    ("Environment", |s, _| text::environment(&s.spec.env)),
    ("Working directory", |_, at| text::bytes(&at.paths.cwd)),
    ("Task time limit", |s, _| text::optional_duration(s.spec.time_limit)),
    ("Crash limit", |s, _| s.spec.crash_limit.to_string()),
    ("Submission directory", |s, _| text::bytes(&s.submit_dir)),
    ("Retries", |s, _| retries(&s.spec.retry)),
    ("End by", |s, at| {
        s.spec.end_by.map_or_else(|| text::NONE.into(), |end| at.style.time(end.after(s.submitted)))
    }),
    ("Output objects", |s, _| text::listed(&s.spec.output_objects)),
    ("Input objects", |s, _| text::listed(&s.spec.input_objects)),
];

// What the submits of a job say, summed up while they come.
#[derive(Default)]
struct Submits {
    ids: Vec<RangeInclusive<u32>>,
    count: usize,
    has_objects: bool,
    has_end: bool,
    said: [Said; SAID.len()],
}

// What submits say of one thing: the first of them, whether others differ, and a line for each of the first ones.
#[derive(Default)]
struct Said {
    first: String,
    differs: bool,
    lines: Vec<String>,
}

impl Submits {
    fn add(&mut self, submit: &SubmitInfo, places: &Places) {
        self.ids.extend(submit.ids.ranges());
        self.has_objects |= submit.spec.has_objects();
        self.has_end |= submit.spec.end_by.is_some();
        let is_shown = self.count < SUBMITS_SHOWN;
        for ((_, what), said) in SAID.iter().zip(&mut self.said) {
            if said.differs && !is_shown {
                continue;
            }
            let value = what(submit, places);
            if is_shown {
                let apart = if value.contains('\n') { "\n" } else { " " };
                said.lines.push(format!("{}:{apart}{value}", text::ids(&submit.ids)));
            }
            if self.count == 0 {
                said.first = value;
            } else {
                said.differs |= value != said.first;
            }
        }
        self.count += 1;
    }

    fn ids(&mut self, total: u64) -> String {
        if self.count == 0 {
            return "0".into();
        }
        let ids: IdSet = std::mem::take(&mut self.ids).into_iter().collect();
        format!("{total}; Ids: {}", text::ids(&ids))
    }

    // What all submits share, or a line for each of the first ones.
    fn row(&mut self, name: &'static str) -> (&'static str, Cell) {
        let place = SAID.iter().position(|(said, _)| *said == name);
        let Some(said) = place.map(|place| std::mem::take(&mut self.said[place])) else {
            unreachable!("{name} is said by submits");
        };
        if !said.differs {
            return (name, said.first.into());
        }
        let mut lines = said.lines;
        if self.count > SUBMITS_SHOWN {
            lines.push(format!("… and {}", counted(self.count - SUBMITS_SHOWN, "more submit")));
        }
        (name, lines.join("\n").into())
    }
}

fn details(job: &JobDetail, mut submits: Submits, now: Timestamp, style: Style) -> Vec<(&'static str, Cell)> {
    let summary = &job.summary;
    let c = &summary.counters;
    let ids = submits.ids(c.total());
    let mut each = |name| submits.row(name);
    let workers: Vec<String> = job.workers.iter().map(ToString::to_string).collect();
    let mut rows = vec![
        ("ID", Cell::from(summary.job.to_string())),
        ("Name", summary.name.as_str().into()),
        ("State", if c.total() > 1 { states(c).into() } else { text::job_state(summary.state()) }),
        ("Cancel Reason", summary.cancel_reason.clone().unwrap_or_default().into()),
        ("Session", if summary.is_open { "open" } else { "closed" }.into()),
        ("Tasks", ids.into()),
        ("Workers", workers.join(",").into()),
        each("Resources"),
        each("Time request"),
        each("Pin"),
        each("Priority"),
        each("Command"),
        each("Stdout"),
        each("Stderr"),
        each("Stream"),
        each("Environment"),
        each("Working directory"),
        each("Task time limit"),
        each("Crash limit"),
        ("Submission date", style.time(job.submitted).into()),
        each("Submission directory"),
        ("Makespan", text::measured(job.ended.unwrap_or(now).since(job.submitted)).into()),
        ("Max fails", job.max_fails.map_or(text::NONE.into(), |n| n.to_string()).into()),
        each("Retries"),
    ];
    if submits.has_end {
        rows.push(submits.row("End by"));
    }
    if submits.has_objects {
        rows.extend([submits.row("Output objects"), submits.row("Input objects")]);
    }
    if summary.unrunnable > 0 {
        rows.push(("Unrunnable", unrunnable(summary).into()));
    }
    rows.extend(summary.stalled.iter().map(|why| ("Stands still", why.as_str().into())));
    rows.extend(job.feed.iter().flat_map(|state| super::feed::rows(state)));
    rows.extend(super::notices::row(&job.notices, style));
    rows.extend(job.share.map(|share| ("Share", share.to_string().into())));
    rows.extend(job.budget.map(|budget| ("Budget", budget_words(budget).into())));
    rows.extend(usage(&job.usage, true));
    rows
}

fn budget_words(JobBudget { limit, used }: JobBudget) -> String {
    let limit = limit.map_or_else(|| "no limit".to_owned(), node_hours_told);
    format!("{limit}, {} used", node_hours(used))
}

// How far the tasks of a job are, as a bar without blanks, and how many are in each state.
fn states(c: &Counters) -> String {
    const WIDTH: u64 = 40;
    let done = (c.terminal() * WIDTH).checked_div(c.total()).unwrap_or(0);
    let bar = |sign: &str, width: u64| sign.repeat(usize::try_from(width).unwrap_or(0));
    let counts = [
        (c.running, TaskState::Running),
        (c.failed, TaskState::Failed),
        (c.finished, TaskState::Finished),
        (c.canceled, TaskState::Canceled),
        (c.waiting, TaskState::Waiting),
        (c.aborted, TaskState::Aborted),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, state)| format!("{} ({count})", state.word().to_ascii_uppercase()));
    let bar = format!("[{}{}]", bar("#", done), bar(".", WIDTH - done));
    std::iter::once(bar).chain(counts).collect::<Vec<_>>().join("\n")
}

fn retries(retry: &hq_model::task::Retry) -> String {
    if retry.max == 0 {
        return text::NONE.into();
    }
    let delay = if retry.delay.is_zero() {
        String::new()
    } else {
        format!(" after {}", duration::format(retry.delay))
    };
    format!("{}{delay}", retry.max)
}

/// Rows of measured use; `is_sum` over several tasks.
pub(super) fn usage(usage: &Usage, is_sum: bool) -> Vec<(&'static str, Cell)> {
    let micros = |us| text::measured(Duration::from_micros(us));
    let cpu = format!(
        "{} ({} user, {} system)",
        text::measured(usage.cpu()),
        micros(usage.user_us),
        micros(usage.system_us)
    );
    let blocks = |blocks: u64| text::size(blocks.div_ceil(2));
    let io = format!("{} read, {} written", blocks(usage.blocks_read), blocks(usage.blocks_written));
    let wall = if is_sum { "Wall time of all tasks" } else { "Wall time" };
    vec![
        (wall, micros(usage.wall_us).into()),
        ("CPU time", cpu.into()),
        ("Peak memory", text::size(usage.rss_max_kib).into()),
        ("Block IO", io.into()),
    ]
}

impl Report for JobsDone {
    fn is_message(&self) -> bool {
        true
    }

    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        if self.jobs.is_empty() {
            writeln!(out, "No job was {}", self.done)?;
        }
        for job in &self.jobs {
            writeln!(out, "Job {job} {}", self.done)?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let ids: IdSet = self.jobs.iter().map(|job| TaskId(job.0)).collect();
        Ok(json::write_change(out, json!({ self.done: ids.to_string() }))?)
    }
}

impl Report for JobsForgotten {
    fn is_message(&self) -> bool {
        true
    }

    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        // Callers look for the first words; which they were comes last.
        let ids = self.forgotten.to_string();
        match self.forgotten.len() {
            1 => write!(out, "1 job was forgotten")?,
            count => write!(out, "{count} jobs were forgotten")?,
        }
        if self.ignored > 0 {
            let were = if self.ignored == 1 { "was" } else { "were" };
            write!(out, ", {} {were} ignored due to wrong state or invalid ID", self.ignored)?;
        }
        match ids.len() {
            1..=IDS_CHARS_MAX => writeln!(out, " (forgotten: {ids})")?,
            _ => writeln!(out)?,
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let document = json!({
            "forgotten": self.forgotten.to_string(),
            "forgotten_count": self.forgotten.len(),
            "ignored_count": self.ignored,
        });
        Ok(json::write_change(out, document)?)
    }
}

impl Report for TaskIds {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        self.lines(out)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut serializer = serde_json::Serializer::pretty(&mut *out);
        let mut map = serializer.serialize_map(None).map_err(write_error)?;
        for (job, ids) in &self.jobs {
            map.serialize_entry(&key(*job), &Ids(ids)).map_err(write_error)?;
        }
        SerializeMap::end(map).map_err(write_error)?;
        Ok(out.write_all(b"\n")?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        self.lines(out)
    }
}

impl TaskIds {
    // Of one job as --array takes them.
    fn lines(&self, out: &mut dyn Write) -> Result<(), HqError> {
        if let ([(_, ids)], false) = (self.jobs.as_slice(), self.are_several) {
            return Ok(writeln!(out, "{ids}")?);
        }
        for (job, ids) in &self.jobs {
            writeln!(out, "{job}: {ids}")?;
        }
        Ok(())
    }
}

/// The key of a job in a document.
pub(super) fn key(job: JobId) -> String {
    job.0.to_string()
}

struct Ids<'a>(&'a hq_model::IdSet);

impl Serialize for Ids<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|id| id.0))
    }
}
