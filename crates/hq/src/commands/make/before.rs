//! The job before, whose end nobody has seen: what it has done, and what it left half done.

use hq_client::{ClientError, Session};
use hq_core::client_messages::{ClientRequest, ClientResponse, JobSummary};
use hq_model::job::JobState;
use hq_model::{IdSet, JobId, TaskState, counted_are};

use super::Context;
use super::following::has_ended;
use crate::commands::unexpected;
use crate::embedded::{Cluster, ClusterOptions};
use crate::error::HqError;
use crate::jobs::only;
use crate::make::{Home, Job, Place, Started, settle};
use crate::render::text;

/// What became of it.
#[derive(Default)]
pub(super) struct Before {
    /// It is not over, and is to be joined.
    pub goes_on: Option<(JobId, Vec<Started>)>,
    /// Those of its runs that have ended well.
    pub completed: Vec<Started>,
}

impl Before {
    /// Looks at it, and moves aside what its runs left that never ended. `joins` when one that goes on is to be joined.
    ///
    /// # Errors
    /// When its server cannot be asked, or it goes on.
    pub(super) fn of(context: &Context, home: &Home, joins: bool) -> Result<Before, HqError> {
        let Some(Job { place, job, .. }) = home.unended() else { return Ok(Before::default()) };
        let Ok(runs) = home.started() else { return Ok(Before::default()) };
        match place {
            Place::Here => {
                let state = home.state();
                if !state.server_dir().join(hq_server::directory::JOURNAL).exists() {
                    return Ok(Before::default());
                }
                let options = ClusterOptions { state: Some(state), jobs_before: 0, is_shared: false };
                let cluster = Cluster::start(options)?;
                let mut session = Session::connect_to(cluster.access().clone())?;
                let before = interrupted(context, &mut session, job, runs)?;
                drop(session);
                cluster.stop()?;
                // Files that somebody puts there now are not of those runs.
                home.end()?;
                Ok(before)
            }
            Place::Server { uid, dir } => {
                let busy = |why: String| {
                    let job = job.map_or_else(|| "A job".to_owned(), |job| format!("Job {job}"));
                    HqError::failed(
                        "make-busy",
                        format!(
                            "{job} of the server in {} may still be making files here: {why}",
                            dir.display()
                        ),
                    )
                    .hint(format!(
                        "start that server again, or remove {} if the job is gone for good",
                        home.path().display()
                    ))
                };
                let mut session = Session::connect(&dir).map_err(|error| busy(error.to_string()))?;
                if session.server_uid() != uid {
                    return Err(busy(format!("the server there is now {}", session.server_uid())));
                }
                let Some(job) =
                    job.map(JobId).map_or_else(|| unnamed(&mut session, &runs), |job| Ok(Some(job)))?
                else {
                    return Ok(Before::default());
                };
                match has_ended(&mut session, job)? {
                    None => Ok(Before::default()),
                    Some((true, ..)) => over(context, &mut session, job, &runs),
                    Some((false, done, total)) if !joins => Err(HqError::failed(
                        "make-busy",
                        format!(
                            "Job {job} of the server in {} is making files here: {done} of {} ended",
                            dir.display(),
                            counted_are(total, "run", "has", "have")
                        ),
                    )
                    .hint(format!("`hq make --follow` shows its progress, `hq job cancel {job}` ends it"))),
                    Some((false, ..)) => Ok(Before { goes_on: Some((job, runs)), completed: Vec::new() }),
                }
            }
        }
    }
}

// A server of our own that was interrupted: what has begun and not ended is moved aside.
fn interrupted(
    context: &Context,
    session: &mut Session,
    job: Option<u32>,
    runs: Vec<Started>,
) -> Result<Before, HqError> {
    // It may have died before it told its number.
    let jobs = match session.request(ClientRequest::ListJobs { states: Vec::new() })? {
        ClientResponse::JobList(jobs) => jobs,
        _ => return unexpected(),
    };
    let known = job.map(JobId).or_else(|| jobs.last().map(|job| job.job));
    let Some(job) = known.filter(|known| jobs.iter().any(|job| job.job == *known)) else {
        return Ok(Before::default());
    };
    over(context, session, job, &runs)
}

// A job that does not go on.
fn over(context: &Context, session: &mut Session, job: JobId, runs: &[Started]) -> Result<Before, HqError> {
    clear(context, session, job, runs)?;
    Ok(Before { goes_on: None, completed: completed(session, job, runs)? })
}

/// Moves aside what the runs of a job left that nobody has seen to their end, and says so.
///
/// # Errors
/// When the server is lost, or a file cannot be moved.
pub(super) fn clear(
    context: &Context,
    session: &mut Session,
    job: JobId,
    runs: &[Started],
) -> Result<(), HqError> {
    for (from, to) in settle(session, job, runs)? {
        context.printer.note(&format!(
            "{} was left by an interrupted run: it is now {}",
            from.display(),
            to.file_name().unwrap_or_default().display()
        ));
    }
    Ok(())
}

// Those of the runs of a job that have ended well.
fn completed(session: &mut Session, job: JobId, runs: &[Started]) -> Result<Vec<Started>, HqError> {
    let request = ClientRequest::TaskIds { jobs: only([job]), states: vec![TaskState::Finished] };
    match session.request(request)? {
        ClientResponse::TaskIds(jobs) => {
            let ids = jobs.into_iter().next().map_or_else(IdSet::new, |(_, ids)| ids);
            Ok(ids.iter().filter_map(|task| runs.get(task.0 as usize).cloned()).collect())
        }
        _ => Err(ClientError::Unexpected.into()),
    }
}

// The job of a submit whose client was killed before it heard the number: one that goes on, with its name and its runs.
fn unnamed(session: &mut Session, runs: &[Started]) -> Result<Option<JobId>, HqError> {
    let name = job_name()?;
    match session.request(ClientRequest::ListJobs { states: vec![JobState::Waiting, JobState::Running] })? {
        ClientResponse::JobList(jobs) => {
            let is_it = |job: &&JobSummary| job.name == name && job.counters.total() == runs.len() as u64;
            Ok(jobs.iter().rev().find(is_it).map(|job| job.job))
        }
        _ => unexpected(),
    }
}

/// What a job that makes files here is called.
pub(super) fn job_name() -> Result<String, HqError> {
    let dir = std::env::current_dir()?;
    let name = dir.file_name().map_or_else(|| "make".into(), |name| format!("make {}", name.display()));
    Ok(text::one_line(&name))
}
