//! The job before, whose end nobody has seen: what it has done, and what it left half done.

use std::path::Path;
use std::time::{Duration, Instant};

use hq_client::Session;
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_model::{IdSet, JobId, counted_are};

use super::Context;
use crate::commands::unexpected;
use crate::embedded::{Cluster, ClusterOptions};
use crate::error::HqError;
use crate::make::{
    Home, Job, KILL_GRACE, MakingJob, Place, Ran, Started, StillRuns, Wanted, completed, half_done, job_in,
    making_jobs, settle, started_in, still_runs, tasks_of,
};
use crate::render::text;

/// How much longer than its grace a program may take to end.
const GRACE_MORE: Duration = Duration::from_secs(1);
/// Time between two looks at whether they have ended.
const ENDED_PAUSE: Duration = Duration::from_millis(50);
/// How long another one may take to submit what is to be joined.
const JOIN_TIME: Duration = Duration::from_secs(60);
/// Time between two looks at what it does.
const JOIN_PAUSE: Duration = Duration::from_millis(50);

/// What became of it.
#[derive(Default)]
pub(super) struct Before {
    /// It is not over, and is to be joined.
    pub goes_on: Option<GoesOn>,
    /// Those of its runs that have ended well.
    pub completed: Vec<Started>,
}

/// A job that makes files here now.
pub(super) struct GoesOn {
    /// Its number.
    pub job: JobId,
    /// The runs that are remembered.
    pub runs: Vec<Started>,
    /// Those of them that it has.
    pub tasks: IdSet,
}

/// The directory, or what another one that has it makes here.
pub(super) enum Taken {
    /// It is ours.
    Home(Home),
    /// A job that is to be joined.
    GoesOn(GoesOn),
}

/// Takes the directory. When another process has it that submits, or follows, a job, and this one `joins`, that job is
/// joined: it is waited for until it is submitted.
///
/// # Errors
/// When the directory cannot be used, or somebody makes files here now who cannot be joined.
pub(super) fn take(path: &Path, joins: bool) -> Result<Taken, HqError> {
    let begin = Instant::now();
    loop {
        let busy = match Home::take(path) {
            Ok(home) => return Ok(Taken::Home(home)),
            Err(error) if !joins || error.code != "make-busy" => return Err(error),
            Err(error) => error,
        };
        match job_in(path) {
            Some(Job { place: Place::Here, .. }) => return Err(busy),
            Some(remembered) => {
                if let Some(goes_on) = joined(path, &remembered)? {
                    return Ok(Taken::GoesOn(goes_on));
                }
            }
            None => {}
        }
        if begin.elapsed() > JOIN_TIME {
            return Err(busy);
        }
        std::thread::sleep(JOIN_PAUSE);
    }
}

// The job that another one has submitted, once it is known to its server.
fn joined(home: &Path, remembered: &Job) -> Result<Option<GoesOn>, HqError> {
    let (Place::Server { uid, dir }, Some(_), Ok(runs)) =
        (&remembered.place, remembered.job, started_in(home))
    else {
        return Ok(None);
    };
    let session = Session::connect(dir).ok().filter(|session| session.server_uid() == uid);
    let Some(mut session) = session else { return Ok(None) };
    let jobs = jobs_of(&mut session, home, remembered)?;
    let active: Vec<&MakingJob> = jobs.iter().filter(|job| !job.has_ended).collect();
    match active[..] {
        [one] if one.is_same => {
            let tasks = tasks_of(&mut session, one.job, &[])?;
            Ok(Some(GoesOn { job: one.job, runs, tasks }))
        }
        _ => Ok(None),
    }
}

impl Before {
    /// Looks at it, and moves aside what its runs left that never ended. `joins` when one that goes on is to be joined.
    ///
    /// # Errors
    /// When its server cannot be asked, or it goes on.
    pub(super) fn of(context: &Context, home: &Home, joins: bool) -> Result<Before, HqError> {
        let Some(remembered) = home.unended() else {
            nothing_goes_on(home)?;
            return Ok(Before::default());
        };
        let Ok(runs) = home.started() else { return Ok(Before::default()) };
        match &remembered.place {
            Place::Here => {
                let state = home.state();
                if !state.server_dir().join(hq_server::directory::JOURNAL).exists() {
                    return Ok(Before::default());
                }
                let options = ClusterOptions { state: Some(state), jobs_before: 0, is_shared: false };
                let cluster = Cluster::start(options)?;
                let mut session = Session::connect_to(cluster.access().clone())?;
                let before = interrupted(context, &mut session, remembered.job, runs)?;
                drop(session);
                cluster.stop()?;
                // Files that somebody puts there now are not of those runs.
                home.end()?;
                Ok(before)
            }
            Place::Server { uid, dir } => {
                let busy = |why: String| {
                    let job = remembered.job.map_or_else(|| "A job".to_owned(), |job| format!("Job {job}"));
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
                let mut session = Session::connect(dir).map_err(|error| busy(error.to_string()))?;
                if session.server_uid() != uid {
                    return Err(busy(format!("the server there is now {}", session.server_uid())));
                }
                let jobs = jobs_of(&mut session, home.path(), &remembered)?;
                let active: Vec<&MakingJob> = jobs.iter().filter(|job| !job.has_ended).collect();
                match active[..] {
                    [] => over(context, &mut session, &on_server(&jobs), &runs),
                    [one] if joins && one.is_same => {
                        let tasks = tasks_of(&mut session, one.job, &[])?;
                        let goes_on = GoesOn { job: one.job, runs, tasks };
                        Ok(Before { goes_on: Some(goes_on), completed: Vec::new() })
                    }
                    [.., last] => Err(goes_on(last, dir)),
                }
            }
        }
    }
}

/// The jobs that are remembered or run their tasks again, and others that make files here.
///
/// # Errors
/// When the server is lost.
pub(super) fn jobs_of(
    session: &mut Session,
    home: &Path,
    remembered: &Job,
) -> Result<Vec<MakingJob>, HqError> {
    let (name, mark) = (job_name()?, remembered.mark());
    let job = remembered.job.map(JobId);
    let mut jobs = making_jobs(session, &Wanted { home, name: &name, job, mark: mark.as_ref() })?;
    // Its client was killed before it heard the number; of a job that was never submitted as a whole nothing is left.
    if job.is_none()
        && jobs.iter().find(|job| job.is_same).is_some_and(|job| job.total != remembered.runs as u64)
    {
        jobs.retain(|job| !job.is_same);
    }
    Ok(jobs)
}

/// Those that are remembered or run their tasks again, where all have ended.
pub(super) fn on_server(jobs: &[MakingJob]) -> Ran {
    Ran::OnServer(jobs.iter().filter(|job| job.is_same).map(|job| (job.job, job.ended)).collect())
}

fn goes_on(job: &MakingJob, dir: &Path) -> HqError {
    let MakingJob { job, done, total, .. } = job;
    HqError::failed(
        "make-busy",
        format!(
            "Job {job} of the server in {} is making files here: {done} of {} ended",
            dir.display(),
            counted_are(*total, "run", "has", "have")
        ),
    )
    .hint(format!("`hq make --follow` shows its progress, `hq job cancel {job}` ends it"))
}

// Tasks of a job whose end was seen may run again. A server that cannot be asked any more runs none.
fn nothing_goes_on(home: &Home) -> Result<(), HqError> {
    let Some(Place::Server { uid, dir }) = home.server_before() else { return Ok(()) };
    let session = Session::connect(&dir).ok().filter(|session| session.server_uid() == uid);
    let Some(mut session) = session else { return home.forget_server() };
    let name = job_name()?;
    let wanted = Wanted { home: home.path(), name: &name, job: None, mark: None };
    match making_jobs(&mut session, &wanted)?.last() {
        Some(job) => Err(goes_on(job, &dir)),
        None => Ok(()),
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
    over(context, session, &Ran::Here(job), &runs)
}

// Jobs that do not go on.
fn over(context: &Context, session: &mut Session, ran: &Ran, runs: &[Started]) -> Result<Before, HqError> {
    await_ended(context, session, ran, runs.len())?;
    clear(context, session, ran, runs)?;
    Ok(Before { goes_on: None, completed: completed(session, ran, runs)? })
}

/// Waits until nothing runs any more of so many runs that were ended from outside: until then they may write, and what they
/// leave is moved aside, whoever made it.
///
/// # Errors
/// When the server refuses or is lost.
pub(in crate::commands) fn await_ended(
    context: &Context,
    session: &mut Session,
    ran: &Ran,
    runs: usize,
) -> Result<(), HqError> {
    let mut is_said = false;
    while may_go_on(still_runs(session, ran, runs)?) {
        if !is_said {
            context.printer.note("Waiting until the runs that were canceled have ended");
            is_said = true;
        }
        std::thread::sleep(ENDED_PAUSE);
    }
    Ok(())
}

/// Whether programs may go on that were ended from outside.
pub(super) fn may_go_on(runs: StillRuns) -> bool {
    match runs {
        StillRuns::No => false,
        StillRuns::Yes => true,
        // Clocks may differ.
        StillRuns::Perhaps(last) => crate::logging::now().since(last) < KILL_GRACE + GRACE_MORE,
    }
}

/// Moves aside what runs left that nobody has seen to their end, and says so.
///
/// # Errors
/// When the server is lost, or a file cannot be moved.
pub(super) fn clear(
    context: &Context,
    session: &mut Session,
    ran: &Ran,
    runs: &[Started],
) -> Result<(), HqError> {
    for (from, to) in settle(&half_done(session, ran, runs)?)? {
        context.printer.note(&format!(
            "{} was left by an interrupted run: it is now {}",
            from.display(),
            to.file_name().unwrap_or_default().display()
        ));
    }
    Ok(())
}

/// What a job that makes files here is called.
pub(super) fn job_name() -> Result<String, HqError> {
    let dir = std::env::current_dir()?;
    let name = dir.file_name().map_or_else(|| "make".into(), |name| format!("make {}", name.display()));
    Ok(text::one_line(&name))
}
