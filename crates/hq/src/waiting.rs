//! Following jobs until they end: counters for the progress bar, notifications for the user's program.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use hq_client::{ClientError, Next, Watch};
use hq_core::client_messages::{ClientResponse, JobSummary};
use hq_model::selector::Selector;
use hq_model::{ByteString, IdSet, Instance, JobId, TaskId, TaskRef, WorkerId};
use tracing::warn;

use crate::cli::OutputMode;
use crate::error::HqError;
use crate::progress::Progress;
use crate::render::{Printer, unrunnable};
use crate::report::Waited;
use crate::signals::Signals;
use crate::telling::Teller;

/// How many intervals of jobs are named in a command that says more of them.
pub(crate) const RANGES_NAMED: usize = 8;

/// How to follow jobs.
pub(crate) struct Follow {
    /// Run for each notification.
    pub on_notify: Option<NotifyCommand>,
    /// Where it is shown.
    pub progress: Progress,
    /// Who is told from here.
    pub teller: Teller,
}

/// A program that is run for each notification.
pub(crate) struct NotifyCommand {
    words: Vec<OsString>,
    /// What it prints goes to standard error: what is printed here is for programs.
    is_aside: bool,
    server_dir: Option<PathBuf>,
}

impl NotifyCommand {
    /// From the text of `--on-notify`, for a command that prints like this and speaks to the server of a directory; `hq run`
    /// has none.
    pub(crate) fn parse(
        text: &str,
        mode: OutputMode,
        server_dir: Option<&Path>,
    ) -> Result<NotifyCommand, HqError> {
        match shlex::split(text) {
            Some(words) if !words.is_empty() => {
                let words = words.into_iter().map(OsString::from).collect();
                let server_dir = server_dir.map(Path::to_owned);
                Ok(NotifyCommand { words, is_aside: mode != OutputMode::Cli, server_dir })
            }
            Some(_) => Err(HqError::usage("--on-notify contains no program")),
            None => Err(HqError::usage("--on-notify has an unclosed quote")),
        }
    }

    // The user's program may fail as it likes; the wait goes on.
    fn run(&self, task: TaskRef, instance: Instance, worker: WorkerId, text: ByteString) {
        let (program, args) = (&self.words[0], &self.words[1..]);
        let stdout = match self.is_aside {
            true => {
                std::io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from)
            }
            false => Stdio::inherit(),
        };
        let mut command = Command::new(program);
        hq_notice::server_of(&mut command, self.server_dir.as_deref());
        let status = command
            .args(args)
            .arg(OsString::from_vec(text))
            .env("HQ_JOB_ID", task.job.to_string())
            .env("HQ_TASK_ID", task.task.to_string())
            .env("HQ_INSTANCE_ID", instance.to_string())
            .env("HQ_WORKER_ID", worker.to_string())
            .stdin(Stdio::null())
            .stdout(stdout)
            .status();
        let program = program.display();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => warn!("`{program}`, the program of --on-notify, ended with {status}"),
            Err(error) => warn!("`{program}`, the program of --on-notify, cannot be run: {error}"),
        }
    }
}

/// Follows jobs until all have ended. `again` is the command that waits again when a signal ends the wait, and for what.
///
/// # Errors
/// When the server refuses or is lost, or a signal came: then the user is told, in JSON with a document.
pub(crate) fn follow(
    watch: &mut Watch<'_>,
    follow: Follow,
    again: (&str, &Selector),
) -> Result<Waited, HqError> {
    let mut signals = watch.enter(Signals::catch)?;
    let interrupted = |_: &mut Watch<'_>, _: &mut Progress, known: &Known, signal| {
        Err(interrupted(signal, &unended(known, again.1), again.0))
    };
    let (waited, teller) = follow_or(watch, follow, async || signals.next().await, interrupted)?;
    let told = teller.finish(watch, signals.next());
    told.map(|()| waited).map_err(|(signal, text)| HqError::interrupted(signal, text))
}

/// Jobs as they were told last.
pub(crate) type Known = BTreeMap<JobId, JobSummary>;

// Those of the jobs that go on, as far as that is known; `None` for all jobs.
fn unended(known: &Known, jobs: &Selector) -> Option<IdSet> {
    let Selector::Ids(ids) = jobs else { return None };
    let ended: IdSet = known.values().filter(|job| has_ended(job)).map(|job| TaskId(job.job.0)).collect();
    Some(ids.difference(&ended))
}

fn has_ended(job: &JobSummary) -> bool {
    !job.is_open && job.counters.terminal() == job.counters.total()
}

fn interrupted(signal: u8, jobs: &Option<IdSet>, again: &str) -> HqError {
    let (what, how) = match jobs {
        Some(one) if one.len() == 1 => {
            (format!("job {one} continues"), format!("use `{again} {one}` to wait for it again"))
        }
        Some(few) if !few.is_empty() && few.range_count() <= RANGES_NAMED => {
            (format!("jobs {few} continue"), format!("use `{again} {few}` to wait for them again"))
        }
        _ => ("the jobs continue".to_owned(), format!("use `{again} all` to wait for all jobs")),
    };
    HqError::interrupted(signal, format!("The wait was interrupted; {what}")).hint(how)
}

/// Follows jobs until all have ended. Whenever `other` is done, `act` is called with its output, and with what shows the
/// progress. Who is told may not be told of everything yet.
///
/// # Errors
/// When the server refuses or is lost, or `act` says so.
pub(crate) fn follow_or<T>(
    watch: &mut Watch<'_>,
    follow: Follow,
    mut other: impl AsyncFnMut() -> T,
    mut act: impl FnMut(&mut Watch<'_>, &mut Progress, &Known, T) -> Result<(), HqError>,
) -> Result<(Waited, Teller), HqError> {
    let begin = Instant::now();
    let Follow { on_notify, mut progress, mut teller } = follow;
    let (mut known, mut warned) = (Known::new(), Warned::default());
    loop {
        let response = match watch.next_or(std::pin::pin!(other()))? {
            Next::Response(response) => response,
            Next::Other(output) => {
                act(watch, &mut progress, &known, output)?;
                continue;
            }
        };
        match response {
            ClientResponse::Progress(jobs) => {
                progress.suspend(|| {
                    warned.warn_of(&jobs);
                    teller.look(watch, &jobs);
                });
                known.extend(jobs.into_iter().map(|job| (job.job, job)));
                progress.update(&known);
                check_goes_on(&known)?;
                progress.suspend(|| warned.warn_of_stalled(&known));
            }
            ClientResponse::Notification { task, instance, worker, text } => {
                if let Some(command) = &on_notify {
                    progress.suspend(|| command.run(task, instance, worker, text));
                }
            }
            ClientResponse::WatchEnded => break,
            _ => return Err(ClientError::Unexpected.into()),
        }
    }
    drop(progress);
    Ok((Waited { jobs: known.into_values().collect(), duration: begin.elapsed() }, teller))
}

/// Jobs of which whoever waits was warned, whatever the output mode.
#[derive(Default)]
pub(crate) struct Warned {
    // Some of their tasks can never run: those of generators, whose lines come when nobody can be warned at submit.
    unrunnable: BTreeSet<JobId>,
    // They stand still.
    stalled: BTreeSet<JobId>,
}

impl Warned {
    /// Warns once of each that has tasks which can never run.
    pub(crate) fn warn_of(&mut self, jobs: &[JobSummary]) {
        Printer::alarm(&self.unrunnable_of(jobs));
    }

    // Warns of each that is stalled, once for each time that it comes to that.
    fn warn_of_stalled(&mut self, known: &Known) {
        Printer::alarm(&self.stalled_of(known));
    }

    fn unrunnable_of(&mut self, jobs: &[JobSummary]) -> Vec<String> {
        let new = jobs.iter().filter(|job| job.unrunnable > 0 && self.unrunnable.insert(job.job));
        new.map(|job| format!("Job {}: {}", job.job, unrunnable(job))).collect()
    }

    fn stalled_of(&mut self, known: &Known) -> Vec<String> {
        let stands = |job: &&JobSummary| job.stalled.is_some() && !has_ended(job);
        let (stand, go_on): (Vec<&JobSummary>, Vec<&JobSummary>) =
            known.values().filter(|job| !has_ended(job)).partition(stands);
        self.stalled.retain(|id| stand.iter().any(|job| job.job == *id));
        let go_on: IdSet = go_on.iter().map(|job| TaskId(job.job.0)).collect();
        let goes_on = match go_on.len() {
            1 => format!("job {go_on} continues"),
            _ if go_on.range_count() > RANGES_NAMED => "others continue".to_owned(),
            _ => format!("jobs {go_on} continue"),
        };
        let new = stand.into_iter().filter(|job| self.stalled.insert(job.job));
        new.map(|job| format!("{}; {goes_on}, so waiting for it", stands_still(job))).collect()
    }
}

fn stands_still(job: &JobSummary) -> String {
    format!("Job {} is stalled: {}", job.job, job.stalled.as_deref().unwrap_or_default())
}

// What has not ended must be able to end, or the wait would have no end.
fn check_goes_on(known: &Known) -> Result<(), HqError> {
    let open: Vec<&JobSummary> = known.values().filter(|job| !has_ended(job)).collect();
    let stalled = open.iter().filter(|job| job.stalled.is_some());
    let whys: Vec<String> = stalled.map(|job| stands_still(job)).collect();
    if whys.is_empty() || whys.len() < open.len() {
        return Ok(());
    }
    Err(HqError::failed("source-failed", whys.join("\n")))
}

#[cfg(test)]
mod tests {
    use hq_model::job::{Counters, FedEnd};

    use super::*;

    fn job(id: u32, unrunnable: u64) -> JobSummary {
        JobSummary {
            job: JobId(id),
            name: String::new(),
            is_open: true,
            counters: Counters { waiting: 3, ..Counters::default() },
            cancel_reason: None,
            unrunnable,
            fed_end: FedEnd::ByTasks,
            stalled: None,
        }
    }

    #[test]
    fn whoever_is_interrupted_is_told_what_goes_on_and_how_to_wait_again() {
        let many: IdSet = (0..20).map(|id| TaskId(2 * id)).collect();
        for (jobs, text, hint) in [
            (Some(IdSet::range(3, 3)), "job 3 continues", "use `hq job wait 3` to wait for it again"),
            (Some(IdSet::range(1, 4)), "jobs 1-4 continue", "use `hq job wait 1-4` to wait for them again"),
            (Some(many), "the jobs continue", "use `hq job wait all` to wait for all jobs"),
            (None, "the jobs continue", "use `hq job wait all` to wait for all jobs"),
        ] {
            let error = interrupted(2, &jobs, "hq job wait");
            assert_eq!(error.text, format!("The wait was interrupted; {text}"));
            assert_eq!((error.hint.as_deref(), error.exit), (Some(hint), 130));
        }
    }

    #[test]
    fn lines_that_nobody_can_run_are_warned_of_once() {
        let mut warned = Warned::default();
        assert_eq!(warned.unrunnable_of(&[job(3, 0)]), [""; 0]);
        let told = "Job 3: 1 task fits no current or expected worker; see `hq job explain 3`";
        assert_eq!(warned.unrunnable_of(&[job(3, 1), job(4, 0)]), [told]);
        assert_eq!(warned.unrunnable_of(&[job(3, 2)]), [""; 0], "once");
    }

    #[test]
    fn a_wait_ends_when_nothing_can_go_on_and_says_before_what_cannot() {
        let known = |stalled: &[u32]| -> Known {
            let why = |id| stalled.contains(&id).then(|| "no license".to_owned());
            (3..=4).map(|id| (JobId(id), JobSummary { stalled: why(id), ..job(id, 0) })).collect()
        };
        let mut warned = Warned::default();
        let mut told = |stalled: &[u32]| warned.stalled_of(&known(stalled));
        assert_eq!(told(&[]), [""; 0]);
        let text = "Job 3 is stalled: no license; job 4 continues, so waiting for it";
        assert_eq!(told(&[3]), [text]);
        assert_eq!(told(&[3]), [""; 0], "once");
        assert_eq!(told(&[]), [""; 0], "it was submitted again");
        assert_eq!(told(&[3]), [text]);
        assert!(check_goes_on(&known(&[3])).is_ok());
        let error = check_goes_on(&known(&[3, 4])).expect_err("nothing goes on");
        assert_eq!(error.text, "Job 3 is stalled: no license\nJob 4 is stalled: no license");
        assert_eq!(error.exit, 1);
    }
}
