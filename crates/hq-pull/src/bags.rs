//! Bags by their names: open jobs, found or made when somebody names one.

use std::rc::Rc;

use hq_core::client_messages::{ClientRequest, ClientResponse, JobPage, JobSummary};
use hq_core::record::RequestKey;
use hq_model::key::is_task_id;
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, JobSpec, TaskId};

use crate::contract::{BagRef, Problem};
use crate::shared::Shared;

/// The bag where nobody says which.
pub const DEFAULT: &str = "pull";
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// Open jobs that are named where a bag is not there.
const NAMED_MAX: usize = 8;

/// What is done with a bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// Tasks are created there: it must be open.
    Creating,
    /// Tasks are taken there: the last one of its name, open or not.
    Taking,
    /// It is only looked at.
    Looking,
}

/// The job of a bag.
pub(crate) async fn find(shared: &Rc<Shared>, bag: Option<&BagRef>, what_for: For) -> Result<JobId, Problem> {
    find_or_make(shared, bag, what_for, |_| Ok(())).await.map(|found| found.0)
}

/// The job of a bag from which somebody has taken tasks. The server is not asked for an id.
pub(crate) async fn named(shared: &Rc<Shared>, bag: &BagRef) -> Result<JobId, Problem> {
    let id = match bag {
        BagRef::Id(id) => Some(JobId(*id)),
        BagRef::Name(name) => id_of(name)?,
    };
    match id {
        Some(job) => Ok(job),
        None => find(shared, Some(bag), For::Taking).await,
    }
}

/// The job of a bag, and whether it is new: one that is not there is made for tasks that are created, unless they are refused
/// before, in the sight of all jobs.
pub(crate) async fn find_or_make(
    shared: &Rc<Shared>,
    bag: Option<&BagRef>,
    what_for: For,
    before_making: impl FnOnce(&[JobSummary]) -> Result<(), Problem>,
) -> Result<(JobId, bool), Problem> {
    if let Some(job) = known(shared, bag) {
        return Ok((job, false));
    }
    let name = match bag {
        None => DEFAULT,
        Some(BagRef::Id(id)) => return by_id(shared, JobId(*id), what_for).await,
        Some(BagRef::Name(name)) => match id_of(name)? {
            Some(id) => return by_id(shared, id, what_for).await,
            None => name,
        },
    };
    check_name(name)?;
    let named = BagRef::Name(name.to_owned());
    if let Some(job) = known(shared, Some(&named)) {
        return Ok((job, false));
    }
    let (job, is_new) = look_up(shared, name, what_for, (None, before_making)).await?;
    if !is_new {
        check_is_bag(shared, job).await?;
    }
    // Who looks at an ended one must not find it for those who take from the next one of its name.
    if what_for != For::Looking {
        shared.bags.borrow_mut().insert(named, job);
    }
    Ok((job, is_new))
}

/// The job of a bag that was named before, as far as that is known. Where it is over, there may be another one of its name.
pub(crate) fn known(shared: &Shared, bag: Option<&BagRef>) -> Option<JobId> {
    let bag = bag?;
    let job = shared.bags.borrow().get(bag).copied()?;
    let may_be_another = matches!(bag, BagRef::Name(_)) && shared.look(|relay| relay.knows_over(job));
    (!may_be_another).then_some(job)
}

// What is only looked at need not be one that others name.
async fn by_id(shared: &Rc<Shared>, job: JobId, what_for: For) -> Result<(JobId, bool), Problem> {
    let known = BagRef::Id(job.0);
    if !shared.bags.borrow().contains_key(&known) {
        check_is_bag(shared, job).await?;
        if what_for != For::Looking {
            shared.bags.borrow_mut().insert(known, job);
        }
    }
    Ok((job, false))
}

// A number is the id of a job.
fn id_of(name: &str) -> Result<Option<JobId>, Problem> {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    let id = name.parse().map_err(|_| Problem::new("no-job", format!("there is no job {name}")))?;
    Ok(Some(JobId(id)))
}

// Nobody can take what workers run, or create what a generator makes. Gives how many tasks of a bag may fail.
async fn check_is_bag(shared: &Rc<Shared>, job: JobId) -> Result<Option<u64>, Problem> {
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    let page = Some(JobPage { tasks: Some(IdSet::new()), from: None });
    let ClientResponse::JobDetails { jobs, .. } =
        shared.client.look(ClientRequest::JobInfo { jobs, page }).await?
    else {
        return Err(unexpected());
    };
    match jobs.iter().find_map(|detail| detail.feed.as_ref()) {
        None => Ok(jobs.first().and_then(|detail| detail.max_fails)),
        Some(feed) => Err(Problem::new(
            "no-bag",
            format!(
                "job {job} is no bag: its tasks are made by a generator (job {}) and run by workers; `hq job info {job}` \
                 shows it",
                feed.feed.generator
            ),
        )),
    }
}

/// What was known of a bag is not true any more.
pub(crate) fn forget(shared: &Shared, job: JobId) {
    shared.bags.borrow_mut().retain(|_, known| *known != job);
}

/// The open bag of this name, and whether it is new.
pub(crate) async fn open(
    shared: &Rc<Shared>,
    name: &str,
    max_fails: Option<u64>,
) -> Result<(JobId, bool), Problem> {
    check_new_name(name).map_err(Problem::bad)?;
    let (job, is_new) = look_up(shared, name, For::Creating, (max_fails, |_| Ok(()))).await?;
    if !is_new {
        let own = check_is_bag(shared, job).await?;
        if max_fails.is_some() && max_fails != own {
            let own = own.map_or("none".to_owned(), |most| most.to_string());
            let text = format!(
                "bag {job} (`{name}`) is open already, and its `max_fails` ({own}) stays as it is: leave it out, or take another name"
            );
            return Err(Problem::bad(text));
        }
    }
    shared.bags.borrow_mut().insert(BagRef::Name(name.to_owned()), job);
    Ok((job, is_new))
}

async fn look_up(
    shared: &Rc<Shared>,
    name: &str,
    what_for: For,
    (max_fails, before_making): (Option<u64>, impl FnOnce(&[JobSummary]) -> Result<(), Problem>),
) -> Result<(JobId, bool), Problem> {
    let jobs = list(shared).await?;
    let named: Vec<&JobSummary> = jobs.iter().filter(|job| job.name == name).collect();
    let open = named.iter().rev().find(|job| job.is_open);
    let last = named.last().filter(|_| what_for != For::Creating);
    if let Some(found) = open.or(last) {
        return Ok((found.job, false));
    }
    if what_for != For::Creating {
        return Err(no_bag(name, &jobs));
    }
    // Who takes tasks by the name would never get what is left there.
    if let Some(closed) = named.last().filter(|job| job.counters.terminal() < job.counters.total()) {
        let (job, left) = (closed.job, closed.counters.total() - closed.counters.terminal());
        let text = format!(
            "bag {job} (`{name}`) takes no more tasks, and {left} of its tasks have not ended: wait for them, or take \
             another name"
        );
        return Err(Problem::new("job-not-open", text));
    }
    check_new_name(name).map_err(Problem::bad)?;
    before_making(&jobs)?;
    // Two relays that find none at the same time ask for the same thing, and get one.
    let key = key_of(name, named.last().map_or(0, |job| job.job.0));
    let spec = JobSpec { name: name.to_owned(), max_fails, ..JobSpec::default() };
    match shared.client.change(ClientRequest::OpenJob { key, spec }).await? {
        ClientResponse::Submitted { job, .. } => Ok((job, true)),
        _ => Err(unexpected()),
    }
}

fn no_bag(name: &str, jobs: &[JobSummary]) -> Problem {
    let open = jobs.iter().rev().filter(|job| job.is_open).take(NAMED_MAX);
    let open: Vec<String> = open.map(|job| format!("`{}` (job {})", job.name, job.job)).collect();
    let others = match open.is_empty() {
        true => "no job is open".to_owned(),
        false => format!("open jobs are {}", open.join(", ")),
    };
    Problem::new("no-bag", format!("no bag has the name `{name}`: {others}; `hq pull open {name}` makes one"))
}

/// Drops a bag that was made for tasks which the server has refused, unless others have found it.
pub(crate) async fn take_back(shared: &Rc<Shared>, job: JobId) {
    let is_empty = |jobs: &[JobSummary]| {
        jobs.iter().any(|listed| listed.job == job && listed.is_open && listed.counters.total() == 0)
    };
    if list(shared).await.is_ok_and(|jobs| is_empty(&jobs)) {
        forget(shared, job);
        let jobs = || Selector::Ids(IdSet::single(TaskId(job.0)));
        // What was refused is told; an empty bag that is left because the server has gone is no harm.
        if shared.client.change(ClientRequest::CloseJobs { jobs: jobs() }).await.is_ok() {
            let _ =
                shared.client.change(ClientRequest::ForgetJobs { jobs: jobs(), states: Vec::new() }).await;
        }
    }
}

/// All jobs.
pub(crate) async fn list(shared: &Rc<Shared>) -> Result<Vec<JobSummary>, Problem> {
    match shared.client.look(ClientRequest::ListJobs { states: Vec::new() }).await? {
        ClientResponse::JobList(jobs) => Ok(jobs),
        _ => Err(unexpected()),
    }
}

pub(crate) fn unexpected() -> Problem {
    Problem::new(
        "unexpected-answer",
        "the server gave an answer to another question; it may be of another release",
    )
}

/// Whether a bag of this name can be made, so that all who name it mean it.
///
/// # Errors
/// Says why not.
pub fn check_new_name(name: &str) -> Result<(), String> {
    check_name(name).map_err(|problem| problem.message)?;
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "`{name}` is the id of a bag for all others who name it: take a name that is no number"
        ));
    }
    if name.trim() != name {
        return Err(format!(
            "`{name}` is no name of a bag: it begins or ends with a blank, which nobody sees"
        ));
    }
    if name.parse::<Selector>().is_ok() {
        return Err(format!("`{name}` is no name of a bag: `hq job` takes it for other jobs"));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), Problem> {
    if name == "-" || is_task_id(name.as_bytes()) {
        return Err(Problem::bad(format!(
            "`{name}` is no name of a bag: commands take it for something else"
        )));
    }
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(char::is_control) {
        let text =
            format!("the name of a bag is a text of 1 to {NAME_BYTES_MAX} bytes without control characters");
        return Err(Problem::bad(text));
    }
    Ok(())
}

// FNV-1a with 128 bits.
fn key_of(name: &str, after: u32) -> RequestKey {
    let begin = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let bytes = b"hq pull bag ".iter().chain(name.as_bytes()).copied().chain(after.to_be_bytes());
    bytes.fold(begin, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_id_of_a_job_and_no_name() {
        assert_eq!(id_of("17").ok(), Some(Some(JobId(17))));
        for name in ["", "+17", "17a", "1.7"] {
            assert_eq!(id_of(name).ok(), Some(None), "{name}");
        }
        assert_eq!(id_of("99999999999").expect_err("too large").message, "there is no job 99999999999");
    }

    #[test]
    fn what_commands_take_for_something_else_is_no_name() {
        for name in ["-", "4@17"] {
            let told = check_name(name).expect_err("refused").message;
            assert_eq!(told, format!("`{name}` is no name of a bag: commands take it for something else"));
        }
        assert!(check_name("dock-1").is_ok() && check_name("a@1").is_ok());
    }

    #[test]
    fn no_bag_is_made_that_others_could_not_name() {
        for (name, told) in [
            ("dock 1", None),
            ("all-of-it", None),
            ("all", Some("takes it for other jobs")),
            ("last", Some("takes it for other jobs")),
            ("1-3", Some("takes it for other jobs")),
            ("17", Some("no number")),
            ("4@17", Some("for something else")),
            (" ", Some("with a blank")),
            ("dock ", Some("with a blank")),
            ("", Some("1 to 256 bytes")),
        ] {
            let error = check_new_name(name).err();
            assert_eq!(error.is_some(), told.is_some(), "{name}: {error:?}");
            assert!(error.iter().all(|error| error.contains(told.unwrap_or_default())), "{name}: {error:?}");
        }
    }

    #[test]
    fn the_key_of_a_bag_depends_on_its_name_and_on_the_one_before() {
        assert_eq!(key_of("dock", 0), key_of("dock", 0));
        assert_ne!(key_of("dock", 0), key_of("dock", 1));
        assert_ne!(key_of("dock", 0), key_of("dark", 0));
    }
}
