//! How bags and tasks stand.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hq_core::client_messages::{ClientRequest, ClientResponse, TaskInfo};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskId, TaskRef, TaskState};

use crate::answers::{Answer, Bag, Held, Looked, Seen, Session, Standing};
use crate::bags::{self, For};
use crate::contract::{BagRef, Look, Problem};
use crate::rights::Rights;
use crate::shared::Shared;

/// Tasks of a page.
const PAGE: u32 = 10_000;

pub(super) async fn look(shared: &Rc<Shared>, look: Look) -> Result<Answer, Problem> {
    let bag = bags::find(shared, look.bag.as_ref(), For::Looking).await?;
    let found = find(shared, bag, &look.names).await?;
    let results = results(shared, bag, found.values().map(|task| task.task).collect()).await?;
    let seen = look.names.into_iter().map(|name| {
        let Some(task) = found.get(&name) else {
            return Seen { name, error: Some("unknown-name"), ..Seen::default() };
        };
        // The server is told a little later that it is taken.
        let id = TaskRef::new(bag, task.task);
        let state = match task.state {
            TaskState::Waiting if shared.look(|relay| relay.is_taken(id)) => TaskState::Running,
            state => state,
        };
        Seen {
            name,
            id: Some(id.to_string()),
            state: Some(state.word()),
            message: task.error.clone(),
            result: results.get(&task.task).cloned(),
            error: None,
        }
    });
    Ok(Answer::Looked(Looked { bag: bag.0, tasks: seen.collect() }))
}

/// Tasks of a bag by their names; those that are not there are left out.
pub(super) async fn find(
    shared: &Rc<Shared>,
    bag: JobId,
    names: &[String],
) -> Result<BTreeMap<String, TaskInfo>, Problem> {
    let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut found = BTreeMap::new();
    let mut after = None;
    while found.len() < wanted.len() {
        let request = ClientRequest::ListTasks {
            jobs: only(bag),
            tasks: None,
            states: Vec::new(),
            after,
            limit: PAGE,
            grouped: false,
            with_entries: false,
        };
        let ClientResponse::Tasks { tasks, next, .. } = shared.client.look(request).await? else {
            return Err(bags::unexpected());
        };
        for (_, task) in tasks {
            let name = task.key.clone().filter(|name| wanted.contains(name.as_str()));
            name.into_iter().for_each(|name| drop(found.insert(name, task.clone())));
        }
        if next.is_none() {
            break;
        }
        after = next;
    }
    Ok(found)
}

async fn results(
    shared: &Rc<Shared>,
    bag: JobId,
    tasks: IdSet,
) -> Result<BTreeMap<TaskId, Vec<u8>>, Problem> {
    let mut found = BTreeMap::new();
    let mut from = None;
    while !tasks.is_empty() {
        let request =
            ClientRequest::Results { jobs: only(bag), tasks: Some(tasks.clone()), from, with_failed: false };
        let ClientResponse::Results { jobs, next } = shared.client.look(request).await? else {
            return Err(bags::unexpected());
        };
        for job in jobs {
            found
                .extend(job.ids.iter().zip(job.results.iter()).map(|(task, result)| (task, result.to_vec())));
        }
        if next.is_none() {
            break;
        }
        from = next;
    }
    Ok(found)
}

pub(super) async fn status(
    shared: &Rc<Shared>,
    named: &[BagRef],
    rights: &Rights,
) -> Result<Answer, Problem> {
    let mut wanted = IdSet::new();
    for bag in named {
        wanted.insert(TaskId(bags::find(shared, Some(bag), For::Looking).await?.0));
    }
    let here = shared.look(hq_core::relay::Relay::bags);
    if named.is_empty() && rights.bags().is_none() {
        let named = shared.bags.borrow();
        for bag in here.iter().map(|(bag, ..)| bag).chain(named.values()) {
            wanted.insert(TaskId(bag.0));
        }
    }
    let jobs = bags::list(shared).await?;
    if let (true, Some(names)) = (named.is_empty(), rights.bags()) {
        let last = names.iter().filter_map(|name| jobs.iter().rev().find(|job| job.name == *name));
        for job in last {
            wanted.insert(TaskId(job.job.0));
        }
    }
    let told = jobs.iter().filter(|job| wanted.contains(TaskId(job.job.0))).map(|job| {
        let (taken, ahead) = here.iter().find(|bag| bag.0 == job.job).map_or((0, 0), |bag| (bag.1, bag.2));
        // The server is told a little later what is taken here.
        let mut counters = job.counters;
        let untold = taken.saturating_sub(counters.running).min(counters.waiting);
        counters.waiting -= untold;
        counters.running += untold;
        Bag {
            bag: job.job.0,
            name: job.name.clone(),
            state: job.fed_end.state_of(&counters, job.is_open).word(),
            open: job.is_open,
            waiting: counters.waiting,
            running: counters.running,
            finished: counters.finished,
            failed: counters.failed,
            canceled: counters.canceled,
            aborted: counters.aborted,
            taken_here: taken,
            ahead_here: ahead,
        }
    });
    let bags = told.collect();
    // Of bags that are named only those who have some of their tasks.
    let only = (!named.is_empty() || rights.bags().is_some())
        .then(|| wanted.iter().map(|bag| JobId(bag.0)).collect());
    let sessions = shared.look(|relay| relay.sessions(only.as_ref())).into_iter();
    let sessions =
        sessions.filter(|session| session.taken > 0 || (only.is_none() && session.label.is_some()));
    let now = shared.now();
    let sessions = sessions.map(|session| Session {
        label: session.label,
        connected: session.is_connected,
        taken: session.taken,
        tasks: session.tasks.iter().map(|held| Held::of(held, now)).collect(),
        accepted: session.accepted,
        saved: session.saved,
    });
    let (above, below) = match rights {
        Rights::All => (shared.way_up().relays(), shared.relays_below()),
        Rights::Bags(_) => (Vec::new(), Vec::new()),
    };
    Ok(Answer::Status(Standing { bags, sessions: sessions.collect(), above, below }))
}

fn only(bag: JobId) -> Selector {
    Selector::Ids(IdSet::single(TaskId(bag.0)))
}
