//! What tests of allocations ask a server.

use serde_json::Value;

use crate::patience::until;
use crate::place::Cluster;

/// The allocations of a queue, the first one first.
pub(crate) fn allocations(server: &Cluster, queue: u32) -> Vec<Value> {
    server.json(&format!("alloc info {queue}")).as_array().expect("an array").clone()
}

/// The states of a queue's allocations, the first one first.
pub(crate) fn statuses(server: &Cluster, queue: u32) -> Vec<String> {
    allocations(server, queue).iter().map(|one| one["status"].as_str().expect("text").to_owned()).collect()
}

/// Waits until the states of a queue's allocations are these.
pub(crate) fn reaches(server: &Cluster, queue: u32, wanted: &[&str]) {
    until(&format!("allocations of queue {queue} are {wanted:?}"), || {
        let seen = statuses(server, queue);
        (seen == wanted).then_some(()).ok_or_else(|| {
            let why = server.ok(&format!("alloc explain {queue}"));
            format!("{seen:?}\n{}\n{why}", server.ok(&format!("alloc info {queue}")))
        })
    });
}

/// Waits until a task of job 1 has ended well.
pub(crate) fn one_finishes(server: &Cluster) {
    until("a task of job 1 ends", || {
        let tasks = server.ok("task list 1");
        tasks.contains("FINISHED").then_some(()).ok_or(format!("{tasks}{}", server.ok("alloc info 1")))
    });
}
