//! A line for each run of a job that is launched, completed or failed, as it happens.

use std::collections::BTreeMap;
use std::io::Write;
use std::pin::pin;

use hq_client::{Asking, ClientError, NextOf, Session};
use hq_core::client_messages::{ClientRequest, ClientResponse, JobSummary};
use hq_core::end_messages::JobEnds;
use hq_core::limits::TASK_PAGE_MAX;
use hq_core::record::FailureKind;
use hq_model::{IdSet, Instance, JobId, TaskId, TaskState};

use super::home::Started;
use crate::cli::OutputMode;
use crate::error::HqError;
use crate::jobs::only;
use crate::progress::Progress;
use crate::render::{Printer, text};

/// Names of the requests.
const JOB: u64 = 0;
const ENDS: u64 = 1;
const RUNNING: u64 = 2;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    /// Well.
    Completed,
    /// It failed: how, and why in words.
    Failed(FailureKind, String),
    /// It was canceled.
    Canceled,
    /// It was given up, for this reason.
    Aborted(String),
}

/// Whoever follows a job.
pub(crate) struct Follower<'a> {
    job: JobId,
    runs: &'a [Started],
    printer: Printer,
    progress: Progress,
    asking: Asking,
    // Said to be launched, and which attempts of those that were launched again.
    launched: IdSet,
    again: BTreeMap<TaskId, Instance>,
    // Said to have ended.
    ended: IdSet,
    is_asked_what_runs: bool,
}

impl<'a> Follower<'a> {
    /// Of a job with these runs, in the order of its tasks.
    pub(crate) fn new(job: JobId, runs: &'a [Started], printer: Printer) -> Follower<'a> {
        let progress = if printer.mode == OutputMode::Cli { Progress::shown() } else { Progress::hidden() };
        let mut asking = Asking::default();
        asking.ask(
            JOB,
            ClientRequest::WatchJobs { jobs: only([job]), until_closed: true, notifications: false },
        );
        asking.ask(ENDS, ClientRequest::AwaitEnds { job, known: IdSet::new() });
        Follower {
            job,
            runs,
            printer,
            progress,
            asking,
            launched: IdSet::new(),
            again: BTreeMap::new(),
            ended: IdSet::new(),
            is_asked_what_runs: false,
        }
    }

    /// Follows it until all of its runs have ended. `end` hears of each end; `other` is waited for besides, and `act` says
    /// what to do then.
    ///
    /// # Errors
    /// When the server is lost, a line cannot be printed, or `end` or `act` says so.
    pub(crate) fn follow<T>(
        mut self,
        session: &mut Session,
        end: &mut dyn FnMut(TaskId, &Ending) -> Result<&'static str, HqError>,
        mut other: impl AsyncFnMut() -> T,
        mut act: impl FnMut(&mut Session, &mut Progress, T) -> Result<(), HqError>,
    ) -> Result<(), HqError> {
        loop {
            let next = session.next_of(&mut self.asking, pin!(other()))?;
            match next {
                NextOf::Response(_, ClientResponse::Error(error)) => {
                    return Err(ClientError::from(error).into());
                }
                NextOf::Response(JOB, ClientResponse::Progress(jobs)) => self.is_so_far(jobs),
                NextOf::Response(JOB, ClientResponse::WatchEnded) => {}
                NextOf::Response(RUNNING, ClientResponse::Tasks { tasks, .. }) => {
                    self.is_asked_what_runs = false;
                    self.launch(tasks.into_iter().map(|(_, task)| (task.task, task.instance)))?;
                }
                NextOf::Response(ENDS, ClientResponse::Ends(ends)) => {
                    if self.hear(*ends, end)? {
                        self.progress.end();
                        return Ok(());
                    }
                }
                NextOf::Response(..) => return Err(ClientError::Unexpected.into()),
                NextOf::Other(output) => act(session, &mut self.progress, output)?,
            }
        }
    }

    // A name may hold anything; a line is a line.
    fn name(&self, task: TaskId) -> String {
        match self.runs.get(task.0 as usize) {
            Some(run) => text::one_line(&run.name),
            None => format!("run {task}"),
        }
    }

    fn is_so_far(&mut self, jobs: Vec<JobSummary>) {
        self.progress.update(&jobs.into_iter().map(|job| (job.job, job)).collect());
        if !self.is_asked_what_runs && self.printer.mode == OutputMode::Cli {
            self.is_asked_what_runs = true;
            let request = ClientRequest::ListTasks {
                jobs: only([self.job]),
                tasks: None,
                states: vec![TaskState::Running],
                after: None,
                limit: TASK_PAGE_MAX,
                grouped: false,
                with_entries: false,
            };
            self.asking.ask(RUNNING, request);
        }
    }

    fn launch(&mut self, running: impl Iterator<Item = (TaskId, Instance)>) -> Result<(), HqError> {
        let mut lines = String::new();
        for (task, instance) in running.filter(|(task, _)| !self.ended.contains(*task)) {
            let is_new = !self.launched.contains(task);
            if is_new {
                lines.push_str(&format!("launched   {}\n", self.name(task)));
                self.launched.insert(task);
            }
            if instance.0 > 0 && self.again.insert(task, instance) != Some(instance) {
                lines.push_str(&format!("again      {}: attempt {}\n", self.name(task), instance.0 + 1));
            }
        }
        self.print(&lines)
    }

    // True when that was the last one.
    fn hear(
        &mut self,
        ends: JobEnds,
        end: &mut dyn FnMut(TaskId, &Ending) -> Result<&'static str, HqError>,
    ) -> Result<bool, HqError> {
        let mut all: Vec<(TaskId, Ending)> =
            ends.finished.iter().map(|task| (task, Ending::Completed)).collect();
        all.extend(ends.failed.into_iter().map(|(task, kind, text)| (task, Ending::Failed(kind, text))));
        all.extend(ends.canceled.iter().map(|task| (task, Ending::Canceled)));
        for (tasks, reason) in &ends.aborted {
            all.extend(tasks.iter().map(|task| (task, Ending::Aborted(reason.clone()))));
        }
        let mut lines = String::new();
        for (task, ending) in all {
            if self.ended.contains(task) {
                continue;
            }
            self.ended.insert(task);
            let name = self.name(task);
            let word = end(task, &ending)?;
            let has_run = matches!(ending, Ending::Completed | Ending::Failed(..));
            if has_run && !self.launched.contains(task) {
                lines.push_str(&format!("launched   {name}\n"));
            }
            match &ending {
                Ending::Completed => lines.push_str(&format!("{word:<10} {name}\n")),
                Ending::Failed(_, error) => {
                    lines.push_str(&format!("{word:<10} {name}: {}\n", text::one_line(error)));
                }
                // What did not run is counted at the end.
                Ending::Canceled | Ending::Aborted(_) => {}
            }
        }
        self.print(&lines)?;
        if ends.is_over {
            return Ok(true);
        }
        self.asking.ask(ENDS, ClientRequest::AwaitEnds { job: self.job, known: self.ended.clone() });
        Ok(false)
    }

    fn print(&self, lines: &str) -> Result<(), HqError> {
        if lines.is_empty() || self.printer.mode != OutputMode::Cli {
            return Ok(());
        }
        let print = || {
            let mut out = std::io::stdout().lock();
            out.write_all(lines.as_bytes()).and_then(|()| out.flush()).map_err(crate::render::cannot_write)
        };
        Ok(self.progress.suspend(print)?)
    }
}
