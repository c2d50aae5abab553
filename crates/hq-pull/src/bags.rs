//! Bags by their names: open jobs, found or made when somebody names one.

use std::rc::Rc;

use hq_core::client_messages::{ClientRequest, ClientResponse, JobSummary};
use hq_core::record::RequestKey;
use hq_model::{JobId, JobSpec};

use crate::contract::{BagRef, Problem};
use crate::shared::Shared;

/// The bag where nobody says which.
pub(crate) const DEFAULT: &str = "pull";
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// What is done with a bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// Tasks are created there: it must be open.
    Creating,
    /// Tasks are taken there: the last one of its name, open or not.
    Taking,
    /// It is only looked at: it is not made.
    Looking,
}

/// The job of a bag. One that is named and not there is made.
pub(crate) async fn find(shared: &Rc<Shared>, bag: Option<&BagRef>, what_for: For) -> Result<JobId, Problem> {
    if let Some(job) = known(shared, bag) {
        return Ok(job);
    }
    let name = match bag {
        None => DEFAULT,
        Some(BagRef::Id(id)) => return by_id(shared, JobId(*id), what_for).await,
        Some(BagRef::Name(name)) => match name.parse() {
            Ok(id) => return by_id(shared, JobId(id), what_for).await,
            Err(_) => name,
        },
    };
    check_name(name)?;
    let known = BagRef::Name(name.to_owned());
    if let Some(job) = shared.bags.borrow().get(&known) {
        return Ok(*job);
    }
    let job = look_up(shared, name, what_for, None).await?.0;
    shared.bags.borrow_mut().insert(known, job);
    Ok(job)
}

/// The job of a bag that was named before, as far as that is known.
pub(crate) fn known(shared: &Shared, bag: Option<&BagRef>) -> Option<JobId> {
    shared.bags.borrow().get(bag?).copied()
}

// The server says of one that is not there when something is done with it, but not when its tasks are waited for.
async fn by_id(shared: &Rc<Shared>, job: JobId, what_for: For) -> Result<JobId, Problem> {
    let known = BagRef::Id(job.0);
    if what_for == For::Taking && !shared.bags.borrow().contains_key(&known) {
        if list(shared).await?.iter().all(|listed| listed.job != job) {
            return Err(Problem::new("no-job", format!("there is no job {job}")));
        }
        shared.bags.borrow_mut().insert(known, job);
    }
    Ok(job)
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
    check_name(name)?;
    if name.parse::<u32>().is_ok() {
        let text =
            format!("`{name}` is the id of a bag for all others who name it: take a name that is no number");
        return Err(Problem::bad(text));
    }
    let (job, is_new) = look_up(shared, name, For::Creating, max_fails).await?;
    shared.bags.borrow_mut().insert(BagRef::Name(name.to_owned()), job);
    Ok((job, is_new))
}

async fn look_up(
    shared: &Rc<Shared>,
    name: &str,
    what_for: For,
    max_fails: Option<u64>,
) -> Result<(JobId, bool), Problem> {
    let jobs = list(shared).await?;
    let named: Vec<&JobSummary> = jobs.iter().filter(|job| job.name == name).collect();
    let open = named.iter().rev().find(|job| job.is_open);
    let last = named.last().filter(|_| what_for != For::Creating);
    if let Some(found) = open.or(last) {
        return Ok((found.job, false));
    }
    if what_for == For::Looking {
        return Err(Problem::new("no-bag", format!("no bag has the name `{name}`")));
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
    // Two relays that find none at the same time ask for the same thing, and get one.
    let key = key_of(name, named.last().map_or(0, |job| job.job.0));
    let spec = JobSpec { name: name.to_owned(), max_fails, ..JobSpec::default() };
    match shared.client.ask(ClientRequest::OpenJob { key, spec }).await? {
        ClientResponse::Submitted { job, .. } => Ok((job, true)),
        _ => Err(unexpected()),
    }
}

/// All jobs.
pub(crate) async fn list(shared: &Rc<Shared>) -> Result<Vec<JobSummary>, Problem> {
    match shared.client.ask(ClientRequest::ListJobs { states: Vec::new() }).await? {
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

fn check_name(name: &str) -> Result<(), Problem> {
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
    fn the_key_of_a_bag_depends_on_its_name_and_on_the_one_before() {
        assert_eq!(key_of("dock", 0), key_of("dock", 0));
        assert_ne!(key_of("dock", 0), key_of("dock", 1));
        assert_ne!(key_of("dock", 0), key_of("dark", 0));
    }
}
