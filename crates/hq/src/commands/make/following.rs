//! `hq make --follow`: what another one does in this directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use hq_client::Session;
use hq_core::client_messages::ClientRequest;
use hq_model::{JobId, TaskId};

use super::before::jobs_of;
use super::{Context, home_path};
use crate::cli::make::MakeArgs;
use crate::embedded::StateDir;
use crate::error::HqError;
use crate::jobs::only;
use crate::make::{
    Ending, FailedRun, Follower, Job, Place, Started, job_in, last_lines, started_in, taken_so_far, too_late,
};
use crate::render::make::MakeEnded;
use crate::signals::Signals;

/// How the runs of a job ended.
#[derive(Default)]
pub(super) struct Ends {
    completed: usize,
    unchanged: usize,
    failed: BTreeMap<TaskId, String>,
    canceled: usize,
    aborted: usize,
}

impl Ends {
    /// Hears of one, and says what it is called.
    pub(super) fn hear(&mut self, task: TaskId, ending: &Ending, is_unchanged: bool) -> &'static str {
        match ending {
            Ending::Completed if is_unchanged => {
                self.unchanged += 1;
                "unchanged"
            }
            Ending::Completed => {
                self.completed += 1;
                "completed"
            }
            Ending::Failed(_, error) => {
                self.failed.insert(task, error.clone());
                "failed"
            }
            Ending::Canceled => {
                self.canceled += 1;
                "not run"
            }
            Ending::Aborted(_) => {
                self.aborted += 1;
                "not run"
            }
        }
    }

    /// Whether all of them have ended well.
    pub(super) fn are_good(&self) -> bool {
        self.failed.is_empty() && self.canceled + self.aborted == 0
    }

    /// What is said at the end.
    ///
    /// # Errors
    /// When the server that has the job is lost.
    pub(super) fn ended(
        self,
        session: &mut Session,
        job: JobId,
        runs: &[Started],
        begin: Instant,
    ) -> Result<MakeEnded, HqError> {
        let not_in_time = if self.canceled > 0 { too_late(session, job)? } else { 0 };
        let failed = self.failed.into_iter().filter_map(|(task, error)| {
            let run = runs.get(task.0 as usize)?;
            Some(FailedRun { name: run.name.clone(), error, log: run.log.clone() })
        });
        let failed: Vec<FailedRun> = failed.collect();
        let tails = failed.iter().map(|run| last_lines(&run.log)).collect();
        Ok(MakeEnded {
            completed: self.completed,
            unchanged: self.unchanged,
            failed,
            tails,
            not_run: self.canceled + self.aborted,
            not_in_time,
            missing: 0,
            duration: begin.elapsed(),
        })
    }
}

pub(super) fn follow(context: &Context, args: &MakeArgs) -> Result<u8, HqError> {
    let path = std::path::absolute(home_path(args))?;
    let nothing = || HqError::failed("bad-input", "Nothing is being made here now").hint("`hq make` starts");
    let Some(remembered @ Job { job: Some(job), .. }) = &job_in(&path) else { return Err(nothing()) };
    let runs = started_in(&path)?;
    let dir = match &remembered.place {
        Place::Here => StateDir::within(&path).server_dir(),
        Place::Server { dir, .. } => dir.clone(),
    };
    let mut session = Session::connect(&dir).map_err(|error| match &remembered.place {
        // Whoever was killed has left its state, and nobody answers.
        Place::Here => nothing(),
        Place::Server { dir, .. } => silent(*job, dir, HqError::from(error)),
    })?;
    if let Place::Server { uid, dir } = &remembered.place
        && session.server_uid() != uid
    {
        let text = format!("the server there is now {}", session.server_uid());
        return Err(silent(*job, dir, HqError::failed("no-job", text)));
    }
    let job = match &remembered.place {
        Place::Here => JobId(*job),
        Place::Server { .. } => {
            let jobs = jobs_of(&mut session, &path, remembered)?;
            // The latest, but rather one that goes on.
            let latest = jobs.iter().filter(|job| job.is_same).max_by_key(|job| (!job.has_ended, job.job));
            latest.map(|latest| latest.job).ok_or_else(|| {
                let text = format!(
                    "Nothing is being made here now: job {job}, which made files here last, is forgotten"
                );
                HqError::failed("no-job", text)
                    .hint("`hq make --list` shows what is missing, and `hq make` makes it")
            })?
        }
    };
    Ok(follow_to_the_end(context, &mut session, job, &runs)?.exit())
}

// Its job may still go on: workers keep running what they have.
fn silent(job: u32, dir: &Path, why: HqError) -> HqError {
    let text = format!(
        "The server in {} that has job {job}, which was the last to make files here, does not answer: {}",
        dir.display(),
        why.text
    );
    let hint = "start that server again with `hq server start`: jobs of its journal go on";
    HqError { text, ..why }.hint(hint)
}

/// Follows a job that somebody else has begun: when this is interrupted, it goes on.
pub(super) fn follow_to_the_end(
    context: &Context,
    session: &mut Session,
    job: JobId,
    runs: &[Started],
) -> Result<MakeEnded, HqError> {
    // Whoever comes late tells how long the job took, and not how long that was watched.
    let (before, is_over) = taken_so_far(session, job)?;
    let mut signals = session.enter(Signals::catch)?;
    let begin = Instant::now();
    let mut ends = Ends::default();
    Follower::new(job, runs, context.printer).follow(
        session,
        &mut |task, ending| Ok(ends.hear(task, ending, false)),
        async || signals.next().await,
        |_, _, signal| Err(HqError::interrupted(signal, format!("Interrupted; job {job} continues"))),
    )?;
    let mut ended = ends.ended(session, job, runs, begin)?;
    ended.duration = if is_over { before } else { before + ended.duration };
    context.printer.print(&mut ended)?;
    Ok(ended)
}

/// Cancels what is left of a job.
pub(super) fn cancel(session: &mut Session, job: JobId, reason: &str) -> Result<(), HqError> {
    let reason = Some(reason.to_owned());
    session.request(ClientRequest::Cancel { jobs: only([job]), tasks: None, reason })?;
    Ok(())
}
