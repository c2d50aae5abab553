//! Allocations end to end: the real program and a stand-in for PBS.

#[allow(dead_code, reason = "shared with the end-to-end tests")]
#[path = "../../crates/hq/tests/e2e/cluster.rs"]
mod place;
#[allow(dead_code, reason = "shared with the tests of hq-batch")]
mod stand_in;

use std::fs;
use std::time::{Duration, Instant};

use place::Cluster;
use serde_json::Value;
use stand_in::Pbs;

/// How long the server, which asks a batch system rarely, may take to notice.
const PATIENCE: Duration = Duration::from_secs(150);
/// How often it is asked meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

fn server(pbs: &Pbs) -> Cluster {
    Cluster::server_in(vec![("PATH", pbs.path())])
}

/// Waits until the states of the first queue's allocations are these.
fn reaches(server: &Cluster, wanted: &[&str]) {
    let begun = Instant::now();
    loop {
        let seen = allocations(server);
        let statuses: Vec<&str> = seen.iter().filter_map(|one| one["status"].as_str()).collect();
        if statuses == wanted {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{wanted:?}: {}", server.ok("alloc info 1"));
        std::thread::sleep(PAUSE);
    }
}

fn allocations(server: &Cluster) -> Vec<Value> {
    server.json("alloc info 1").as_array().expect("an array").clone()
}

#[test]
fn work_without_workers_brings_an_allocation_that_vanishes_when_idle() {
    // The second time as most sites have it: PBS forgets a job that has ended.
    for options in [&[][..], &["--no-history"]] {
        let Some(pbs) = Pbs::start(options) else { return };
        let server = server(&pbs);
        server.ok("alloc add pbs --time-limit 5m --idle-timeout 1s -- -q workq");
        server.ok("submit --wait -- sh -c 'echo $PBS_JOBNAME >name'");
        assert_eq!(server.read("name"), "hq-1-1\n");
        reaches(&server, &["finished"]);
        assert!(!pbs.run("qstat", &["-f", "-F", "json"]).contains("Jobs"), "nothing is left there");
    }
}

#[test]
fn several_nodes_have_a_worker_each() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let server = server(&pbs);
    server.ok("alloc add pbs --time-limit 5m --idle-timeout 1s --max-workers-per-alloc 2 \
         -- -l select=2:ncpus=2:mpiprocs=2 -l place=scatter");
    server.ok("submit --wait --nodes 2 -- sh -c 'wc -l <$HQ_NODE_FILE >count'");
    assert_eq!(server.read("count").trim(), "2");
    reaches(&server, &["finished"]);
}

#[test]
fn what_pbs_refuses_is_an_error_at_once() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let server = server(&pbs);
    let error = server.fails(1, "alloc add pbs --time-limit 5m -- -q nope");
    assert!(error.contains("Unknown queue"), "{error}");
    let error = server.fails(1, "alloc add pbs --time-limit 2h -- -q workq");
    assert!(error.contains("1h"), "the longest time is named: {error}");
}

#[test]
fn an_allocation_deleted_by_somebody_else_is_replaced() {
    let Some(pbs) = Pbs::start(&[]) else { return };
    let server = server(&pbs);
    let (started, go) = (server.pipe("started"), server.pipe("go"));
    server.ok("alloc add pbs --time-limit 5m --idle-timeout 1s -- -q workq");
    server.ok("submit --crash-limit 1 -- sh -c 'echo $HQ_INSTANCE_ID >started; read word <go'");
    assert_eq!(server.line_from(&started), "0");
    reaches(&server, &["running"]);
    let id = allocations(&server)[0]["id"].as_str().expect("an id").to_owned();
    pbs.run("qdel", &[&id]);
    assert_eq!(server.line_from(&started), "1");
    fs::write(go, "go\n").expect("the task reads");
    server.ok("job wait 1");
    assert_eq!(server.json("alloc list")[0]["state"], "active");
}
