//! `hq job list`, `summary`, `info`, `cancel`, `forget`, `close` and `task-ids`.

use std::cell::RefCell;
use std::io::Write;
use std::time::Duration;

use hq_core::client_messages::{JobDetail, JobSummary, SubmitInfo};
use hq_model::{JobId, JobState, Timestamp, Usage, duration};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use super::json::{self, SCHEMA_VERSION};
use super::style::Style;
use super::table::{self, Cell};
use super::{Report, task, text, wait};
use crate::error::HqError;
use crate::report::{Canceled, JobCounts, JobDetails, JobFiles, Jobs, JobsDone, TaskIds};
use crate::tasks::TaskStream;

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
                    Cell::from(format!("{}{open}", job.job)),
                    job.name.as_str().into(),
                    text::job_state(job.state()),
                    job.counters.total().to_string().into(),
                ];
                if self.verbose {
                    row.push(job.cancel_reason.clone().unwrap_or_default().into());
                }
                row
            })
            .collect();
        let header = ["ID", "Name", "State", "Tasks", "Cancel Reason"];
        table::table(out, style, &header[..if self.verbose { 5 } else { 4 }], &rows)?;
        for job in self.jobs.iter().filter(|job| job.unrunnable > 0) {
            writeln!(out, "Job {}: {}", job.job, unrunnable(job))?;
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

fn unrunnable(job: &JobSummary) -> String {
    let tasks = text::count(job.unrunnable, "task");
    let fit = if job.unrunnable == 1 { "fits" } else { "fit" };
    format!("{tasks} {fit} no worker that is there or to come; see `hq job explain {}`", job.job)
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
            .map(|(state, count)| vec![text::job_state(state), count.to_string().into()])
            .collect();
        Ok(table::table(out, style, &["Status", "Count"], &rows)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut document = serde_json::Map::new();
        for (state, count) in self.rows() {
            let (first, rest) = state.word().split_at(1);
            document.insert(format!("{}{rest}", first.to_ascii_uppercase()), count.into());
        }
        document.insert("schema_version".into(), SCHEMA_VERSION.into());
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
        for (i, job) in self.jobs.iter().enumerate() {
            table::record(out, style, details(job, self.now))?;
            match self.failed.get(i) {
                Some(failed) if !failed.is_empty() => {
                    let (shown, all) = (failed.len() as u64, job.summary.counters.failed);
                    let which = if shown < all { format!(", {shown} of them shown") } else { String::new() };
                    writeln!(out, "{} failed{which}:", text::count(all, "task"))?;
                    wait::failed_tasks(out, style, failed)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let error = RefCell::new(None);
        let stream = RefCell::new(self.tasks.as_mut());
        let mut serializer = serde_json::Serializer::pretty(&mut *out);
        let mut list = serializer.serialize_seq(Some(self.jobs.len())).map_err(write_error)?;
        for job in &self.jobs {
            let files = JobFiles::new(job, &self.server_uid);
            let document = Document { job, files, stream: &stream, error: &error };
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

// One job with all its tasks, which are read while they are written.
struct Document<'a> {
    job: &'a JobDetail,
    files: JobFiles,
    stream: &'a RefCell<Option<&'a mut TaskStream>>,
    error: &'a RefCell<Option<HqError>>,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let job = self.job;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("info", &json::job(&job.summary))?;
        map.serialize_entry("max_fails", &job.max_fails)?;
        map.serialize_entry("started_at", &json::time(job.submitted))?;
        map.serialize_entry("finished_at", &json::optional_time(job.ended))?;
        map.serialize_entry("submits", &job.submits.iter().map(json::submit).collect::<Vec<_>>())?;
        let mut stream = self.stream.borrow_mut();
        if let Some(stream) = stream.as_deref_mut() {
            let stream = RefCell::new(stream);
            map.serialize_entry(
                "tasks",
                &TaskArray { files: &self.files, stream: &stream, error: self.error },
            )?;
        }
        map.serialize_entry("usage", &json::usage(&job.usage))?;
        map.serialize_entry("workers", &job.workers.iter().map(|w| w.0).collect::<Vec<_>>())?;
        map.end()
    }
}

/// The tasks of a job, read while they are written. An error of the stream is left in `error`.
pub(super) struct TaskArray<'a> {
    pub files: &'a JobFiles,
    pub stream: &'a RefCell<&'a mut TaskStream>,
    pub error: &'a RefCell<Option<HqError>>,
}

impl Serialize for TaskArray<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut stream = self.stream.borrow_mut();
        loop {
            match stream.next_of(self.files.job()) {
                Ok(Some(info)) => list.serialize_element(&task::document(&info, self.files))?,
                Ok(None) => return list.end(),
                Err(error) => {
                    *self.error.borrow_mut() = Some(error);
                    return Err(serde::ser::Error::custom("the list of tasks ended early"));
                }
            }
        }
    }
}

fn details(job: &JobDetail, now: Timestamp) -> Vec<(&'static str, Cell)> {
    let summary = &job.summary;
    let c = &summary.counters;
    let each = |what: &dyn Fn(&SubmitInfo) -> String| per_submit(job, what);
    let ids = match job.submits.as_slice() {
        [] => "0".into(),
        submits => {
            let mut all = hq_model::IdSet::new();
            submits.iter().for_each(|s| all.union_with(&s.ids));
            format!("{}; Ids: {all}", c.total())
        }
    };
    let workers: Vec<String> = job.workers.iter().map(ToString::to_string).collect();
    let mut rows = vec![
        ("ID", Cell::from(summary.job.to_string())),
        ("Name", summary.name.as_str().into()),
        ("State", text::job_state(summary.state())),
    ];
    if let Some(reason) = &summary.cancel_reason {
        rows.push(("Cancel Reason", reason.as_str().into()));
    }
    rows.extend([
        ("Session", if summary.is_open { "open" } else { "closed" }.into()),
        ("Tasks", ids.into()),
        ("Workers", workers.join(",").into()),
        ("Resources", each(&|s| text::requests(&s.spec.requests)).into()),
        ("Pin", each(&|s| text::pin(s.spec.pin).into()).into()),
        ("Priority", each(&|s| s.spec.priority.to_string()).into()),
        ("Command", each(&|s| text::command(&s.spec.args)).into()),
        ("Stdout", each(&|s| text::output(&s.spec.stdout)).into()),
        ("Stderr", each(&|s| text::output(&s.spec.stderr)).into()),
        ("Environment", each(&|s| text::environment(&s.spec.env)).into()),
        ("Working directory", each(&|s| text::bytes(&s.spec.cwd)).into()),
        ("Task time limit", each(&|s| text::optional_duration(s.spec.time_limit)).into()),
        ("Crash limit", each(&|s| s.spec.crash_limit.to_string()).into()),
        ("Submission date", job.submitted.to_string().into()),
        ("Submission directory", each(&|s| text::bytes(&s.submit_dir)).into()),
        ("Makespan", text::measured(job.ended.unwrap_or(now).since(job.submitted)).into()),
        ("Task states", states(c).into()),
        ("Max fails", job.max_fails.map_or(text::NONE.into(), |n| n.to_string()).into()),
        ("Retries", each(&|s| retries(&s.spec.retry)).into()),
    ]);
    if summary.unrunnable > 0 {
        rows.push(("Unrunnable", unrunnable(summary).into()));
    }
    rows.extend(job.share.map(|share| ("Share", share.to_string().into())));
    rows.extend(usage(&job.usage, true));
    rows
}

fn states(c: &hq_model::job::Counters) -> String {
    let parts: Vec<String> = [
        (c.waiting, "waiting"),
        (c.running, "running"),
        (c.finished, "finished"),
        (c.failed, "failed"),
        (c.canceled, "canceled"),
        (c.aborted, "aborted"),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, word)| format!("{count} {word}"))
    .collect();
    parts.join(", ")
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

// What all submits share, or a line for each.
fn per_submit(job: &JobDetail, what: &dyn Fn(&SubmitInfo) -> String) -> String {
    let Some(first) = job.submits.first() else {
        return String::new();
    };
    let value = what(first);
    if job.submits.iter().all(|s| what(s) == value) {
        return value;
    }
    let mut lines: Vec<String> =
        job.submits.iter().take(SUBMITS_SHOWN).map(|s| format!("{}: {}", s.ids, what(s))).collect();
    if job.submits.len() > SUBMITS_SHOWN {
        lines.push(format!("… and {} submits more", job.submits.len() - SUBMITS_SHOWN));
    }
    lines.join("\n")
}

impl Report for Canceled {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        if self.jobs.is_empty() {
            writeln!(out, "No job to cancel")?;
        }
        for (job, ids, ended) in &self.jobs {
            let canceled = text::count(ids.len(), "task");
            match self.of_tasks {
                true => writeln!(out, "Job {job}: {canceled} canceled, {ended} already ended")?,
                false => writeln!(out, "Job {job} canceled ({canceled} canceled, {ended} already ended)")?,
            }
        }
        Ok(())
    }
}

impl Report for JobsDone {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        if self.jobs.is_empty() {
            writeln!(out, "No job was {}", self.done)?;
        }
        for job in &self.jobs {
            writeln!(out, "Job {job} {}", self.done)?;
        }
        Ok(())
    }
}

impl Report for TaskIds {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        match self.0.as_slice() {
            [(_, ids)] => writeln!(out, "{ids}")?,
            several => {
                for (job, ids) in several {
                    writeln!(out, "{job}: {ids}")?;
                }
            }
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut serializer = serde_json::Serializer::pretty(&mut *out);
        let mut map = serializer.serialize_map(None).map_err(write_error)?;
        for (job, ids) in &self.0 {
            map.serialize_entry(&key(*job), &Ids(ids)).map_err(write_error)?;
        }
        map.serialize_entry("schema_version", &SCHEMA_VERSION).map_err(write_error)?;
        SerializeMap::end(map).map_err(write_error)?;
        Ok(out.write_all(b"\n")?)
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
