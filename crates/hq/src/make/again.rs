//! The jobs of a server that make files of one directory: what `hq make` has submitted, and what runs such tasks again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hq_client::Session;
use hq_core::client_messages::{ClientRequest, ClientResponse, JobDetail, JobPage, JobSummary};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskState, Timestamp};

use super::home::{Job, KeptOut, Place, keep_out};
use super::mark::Mark;
use super::settle::Ran;
use crate::commands::unexpected;
use crate::error::HqError;
use crate::jobs::only;
use crate::logging;

/// Where things are remembered, below the directory in which `hq make` is called, unless another one is said.
pub(crate) const HOME: &str = ".hq-make";

/// A job that makes files of a directory, or has.
#[derive(Clone, Debug)]
pub(crate) struct MakingJob {
    /// Its number.
    pub job: JobId,
    /// Its tasks have the numbers of those that are remembered: it is that job, or runs tasks of it again.
    pub is_same: bool,
    /// All of its tasks have ended.
    pub has_ended: bool,
    /// So many have ended.
    pub done: u64,
    /// So many it has.
    pub total: u64,
    /// When the last one ended, if all have.
    pub ended: Option<Timestamp>,
}

/// Which jobs are looked for.
pub(crate) struct Wanted<'a> {
    /// The directory in which things are remembered.
    pub home: &'a Path,
    /// What all of them are called.
    pub name: &'a str,
    /// The job that is remembered, if its number is known.
    pub job: Option<JobId>,
    /// What its tasks carry.
    pub mark: Option<&'a Mark>,
}

/// Those that are remembered or run their tasks again, and others that have not ended; ascending.
///
/// # Errors
/// When the server is lost.
pub(crate) fn making_jobs(session: &mut Session, wanted: &Wanted<'_>) -> Result<Vec<MakingJob>, HqError> {
    let ClientResponse::JobList(jobs) = session.request(ClientRequest::ListJobs { states: Vec::new() })?
    else {
        return unexpected();
    };
    let mut found = Vec::new();
    for summary in jobs {
        let is_known = wanted.job == Some(summary.job);
        let may_be_same = wanted.mark.is_some() && wanted.job.is_none_or(|job| summary.job > job);
        if !is_known && (summary.name != wanted.name || !may_be_same && has_ended(&summary)) {
            continue;
        }
        let Some((detail, mark)) = looked_at(session, summary.job)? else { continue };
        let is_same = is_known || mark.is_some() && mark.as_ref() == wanted.mark;
        let goes_on = !has_ended(&detail.summary) && mark.is_some_and(|mark| mark.is_for(wanted.home));
        if is_same || goes_on {
            found.push(MakingJob {
                job: summary.job,
                is_same,
                has_ended: has_ended(&detail.summary),
                done: detail.summary.counters.terminal(),
                total: detail.summary.counters.total(),
                ended: detail.ended,
            });
        }
    }
    Ok(found)
}

/// What keeps others from making the files of a job while its tasks are run again.
#[derive(Debug, Default)]
pub(crate) struct NotMade {
    /// The job whose runs were made there, and how many it has: what was ended from outside may still write.
    pub ran: Option<(Ran, usize)>,
    /// Nobody begins to make files there as long as this lives.
    _kept_out: Vec<KeptOut>,
}

/// Refuses to run tasks of a job again where a process makes the same files, or is about to. What jobs of the server do, the
/// server knows.
///
/// # Errors
/// When one does, or the server is lost.
pub(crate) fn keep_from_making(session: &mut Session, jobs: &Selector) -> Result<NotMade, HqError> {
    let request = ClientRequest::TaskIds { jobs: jobs.clone(), states: Vec::new() };
    // Whoever runs them again says what is wrong with the job.
    let Ok(ClientResponse::TaskIds(tasks)) = session.request(request) else { return Ok(NotMade::default()) };
    let [(job, ref all)] = tasks[..] else { return Ok(NotMade::default()) };
    let Some((detail, Some(mark))) = looked_at(session, job)? else { return Ok(NotMade::default()) };
    let mut homes: Vec<PathBuf> = Vec::new();
    for submit in &detail.submits {
        // One that remembers things elsewhere cannot be found.
        let home = Path::new(OsStr::from_bytes(&submit.submit_dir)).join(HOME);
        if mark.is_for(&home) && !homes.contains(&home) {
            homes.push(home);
        }
    }
    let mut kept_out = Vec::new();
    for home in homes {
        kept_out.extend(keep_out(&home, |job| goes_on(session, job))?);
    }
    let runs = all.last().map_or(0, |last| last.0 as usize + 1);
    let ran = Ran::OnServer(vec![(job, detail.ended)]);
    Ok(NotMade { ran: Some((ran, runs)), _kept_out: kept_out })
}

// Whether a job that is remembered is one of this server that has not ended.
fn goes_on(session: &mut Session, remembered: &Job) -> Result<bool, HqError> {
    let (Place::Server { uid, .. }, Some(job)) = (&remembered.place, remembered.job) else {
        return Ok(false);
    };
    if uid != session.server_uid() {
        return Ok(false);
    }
    let page = Some(JobPage { tasks: Some(IdSet::new()), from: None });
    match session.request(ClientRequest::JobInfo { jobs: only([JobId(job)]), page }) {
        Ok(ClientResponse::JobDetails { jobs, .. }) => Ok(jobs.iter().any(|job| !has_ended(&job.summary))),
        // It is forgotten.
        _ => Ok(false),
    }
}

/// All tasks of a job, or those in one of these states.
///
/// # Errors
/// When the server refuses or is lost.
pub(crate) fn tasks_of(session: &mut Session, job: JobId, states: &[TaskState]) -> Result<IdSet, HqError> {
    match session.request(ClientRequest::TaskIds { jobs: only([job]), states: states.to_vec() })? {
        ClientResponse::TaskIds(jobs) => Ok(jobs.into_iter().next().map_or_else(IdSet::new, |(_, ids)| ids)),
        _ => unexpected(),
    }
}

/// How long a job has taken so far, and whether that is all: from its submit to its end, by the clock of its server.
///
/// # Errors
/// When the server refuses or is lost.
pub(crate) fn taken_so_far(session: &mut Session, job: JobId) -> Result<(Duration, bool), HqError> {
    let (jobs, now) = page_of(session, job, IdSet::new())?;
    let Some(detail) = jobs.into_iter().next() else { return Ok((Duration::ZERO, false)) };
    let until = detail.ended.or(now).unwrap_or_else(logging::now);
    Ok((until.since(detail.submitted), detail.ended.is_some()))
}

// With what its tasks carry: all came with submits of one call.
fn looked_at(session: &mut Session, job: JobId) -> Result<Option<(JobDetail, Option<Mark>)>, HqError> {
    let first = tasks_of(session, job, &[])?.first();
    let (jobs, _) = page_of(session, job, first.map_or_else(IdSet::new, IdSet::single))?;
    Ok(jobs.into_iter().next().map(|detail| {
        let mark = detail.submits.first().and_then(|submit| Mark::among(&submit.spec.env));
        (detail, mark)
    }))
}

/// A job with the submits of these tasks, and the time of the server.
///
/// # Errors
/// When the server refuses or is lost.
pub(super) fn page_of(
    session: &mut Session,
    job: JobId,
    tasks: IdSet,
) -> Result<(Vec<JobDetail>, Option<Timestamp>), HqError> {
    let page = Some(JobPage { tasks: Some(tasks), from: None });
    match session.request(ClientRequest::JobInfo { jobs: only([job]), page })? {
        ClientResponse::JobDetails { jobs, now, .. } => Ok((jobs, now)),
        _ => unexpected(),
    }
}

fn has_ended(job: &JobSummary) -> bool {
    !job.is_open && job.counters.terminal() == job.counters.total()
}
