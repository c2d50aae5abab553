//! No work waits beside room for it, and server and workers count the same.
//!
//! Whenever a machine has settled, nothing that waits fits into what is free, unless a hold with a name and an end says
//! so. When nothing is on its way between a server and a worker, what the server counts as taken there is what runs there,
//! and explanations say so.

use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::server::{ConnectionId, Effect, Input, Server};
use hq_core::worker::Worker;
use hq_model::selector::Selector;
use hq_model::{IdSet, TaskId, Timestamp, WorkerId};

/// Looks at a server that has settled.
///
/// # Errors
/// Names a task and a worker that has room for it.
pub fn server_wastes_nothing(now: Timestamp, server: &mut Server) -> Result<(), String> {
    server.wastes_nothing(now)
}

/// Looks at a worker that has settled.
///
/// # Errors
/// Names a task that fits.
pub fn worker_wastes_nothing(now: Timestamp, node: usize, worker: &Worker) -> Result<(), String> {
    worker.wastes_nothing(now).map_err(|what| format!("node {node}: {what}"))
}

/// Compares a server with a worker when each has heard all that the other one has said.
///
/// # Errors
/// Names the worker and what each counts.
pub fn counts_agree(server: &Server, id: WorkerId, worker: &Worker) -> Result<(), String> {
    match server.taken_on(id) {
        Some(taken) if worker.has_started_all() && taken != worker.taken() => {
            let really = worker.taken();
            let (there, here) = (server.story_of(id), worker.story());
            Err(format!(
                "of worker {id} the server counts {taken:?} as taken, and {really:?} are: {there}; {here}"
            ))
        }
        _ => Ok(()),
    }
}

/// Compares what a server says of the first task that waits with what is so on a worker, when each has heard all that the
/// other one has said.
///
/// # Errors
/// Names what was said, and what is so.
pub fn tells_the_truth(
    now: Timestamp,
    server: &mut Server,
    id: WorkerId,
    worker: &Worker,
) -> Result<(), String> {
    if server.taken_on(id).is_none() || !worker.has_started_all() {
        return Ok(());
    }
    let first = server.state().jobs.iter().find_map(|(id, job)| Some((*id, job.queued.first()?)));
    let Some((job, task)) = first else { return Ok(()) };
    let body = ClientRequest::ExplainTask { jobs: Selector::Ids(IdSet::single(TaskId(job.0))), task };
    let connection = ConnectionId(u64::MAX);
    let mut effects = Vec::new();
    server.handle(now, Input::Client { connection, request: 1, body }, &mut effects);
    let reasons = effects.into_iter().filter_map(|effect| match effect {
        Effect::Answer { body: ClientResponse::Explained(said), .. } => Some(said.reasons),
        _ => None,
    });
    let resources = &worker.config().resources;
    for reason in reasons.flatten().filter(|reason| reason.worker == Some(id)) {
        // `cpus: 0 of 4 are free, the task needs 1`
        let Some((name, rest)) = reason.text.split_once(": ") else { continue };
        let Some((free, _)) = rest.split_once(" of ").filter(|(_, rest)| rest.contains(" are free")) else {
            continue;
        };
        let Some(pool) = resources.pools.iter().position(|pool| pool.name == name) else { continue };
        let Ok(said) = free.parse::<f64>() else { continue };
        let really = (resources.pools[pool].kind.total().0 - worker.taken()[pool]) as f64 / 10_000.0;
        if (said - really).abs() > 0.000_05 {
            return Err(format!("of task {job}@{task} it is said that {}, and {really} are", reason.text));
        }
    }
    Ok(())
}
