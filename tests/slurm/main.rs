//! Allocations end to end: the real program and a real Slurm. Left out where Slurm is not installed.

#[path = "../allocations.rs"]
mod allocations;
mod cluster;
mod make;
#[path = "../patience.rs"]
mod patience;
#[allow(dead_code, reason = "shared with the end-to-end tests")]
#[path = "../../crates/hq/tests/e2e/cluster.rs"]
mod place;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use allocations::{allocations, one_finishes, reaches, statuses};
use cluster::{Slurm, left_out};
use patience::until;
use place::Cluster;

/// The Slurm that tests share which do not break its nodes.
static SHARED: LazyLock<Option<Slurm>> = LazyLock::new(|| Slurm::start(&[]));

fn server(slurm: &Slurm) -> Cluster {
    let conf = slurm.conf();
    // Slurm makes this directory when a job starts, also when its test is over.
    let tmp = Path::new(&conf).parent().expect("a directory").display().to_string();
    Cluster::server_in(vec![("SLURM_CONF", conf), ("TMPDIR", tmp)])
}

/// The batch jobs of a name that Slurm knows, living or ended, as `id state`.
fn jobs(slurm: &Slurm, name: &str) -> Vec<String> {
    let text = slurm.command("squeue", &["--noheader", "--states=all", "--name", name, "--format=%i %T"]);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn work_without_workers_brings_an_allocation_that_vanishes_when_idle() {
    let Some(slurm) = &*SHARED else { return };
    let server = server(slurm);
    server.ok(
        "alloc add slurm --name idle --time-limit 5m --idle-timeout 1s -- --partition=cpu --comment 'a #b'",
    );
    let trials = jobs(slurm, "hq-trial");
    assert!(trials.iter().any(|job| job.ends_with("CANCELLED")), "it was tried: {trials:?}");
    assert!(statuses(&server, 1).is_empty(), "nothing waits, so nothing is asked for");
    server.ok("submit --wait -- sh -c 'echo $SLURMD_NODENAME >node; echo $SLURM_JOB_NAME >name'");
    assert!(server.read("node").starts_with("node"));
    assert_eq!(server.read("name"), "idle-1\n");
    reaches(&server, 1, &["finished"]);
    let id = allocations(&server, 1)[0]["id"].as_str().expect("an id").to_owned();
    until("Slurm knows that it has ended", || {
        let seen = jobs(slurm, "idle-1");
        (seen == [format!("{id} COMPLETED")]).then_some(()).ok_or(format!("{seen:?}"))
    });
    server.ok(&format!("alloc log {id} stderr"));
    server.ok("alloc remove 1");
}

#[test]
fn each_partition_gets_what_only_it_can_serve() {
    let Some(slurm) = &*SHARED else { return };
    let server = server(slurm);
    server.ok("alloc add slurm --name plain --time-limit 5m --idle-timeout 1s -- --partition=cpu");
    server.ok("alloc add slurm --name gpu --time-limit 5m --idle-timeout 1s -- --partition=gpu --gres=gpu:1");
    let script = "sh -c 'echo $SLURM_JOB_PARTITION ${#CUDA_VISIBLE_DEVICES} >%{JOB_ID}'";
    server.ok(&format!("submit --wait --resource gpus/nvidia=1 -- {script}"));
    assert_eq!(server.read("1"), "gpu 1\n");
    assert!(statuses(&server, 1).is_empty(), "the CPU partition was not asked for GPUs");
    server.ok(&format!("submit --wait -- {script}"));
    reaches(&server, 2, &["finished"]);
}

#[test]
fn what_slurm_refuses_is_an_error_at_once() {
    let Some(slurm) = &*SHARED else { return };
    let server = server(slurm);
    let error = server.fails(1, "alloc add slurm --time-limit 5m -- --partition=nope");
    assert!(error.contains("invalid partition specified: nope"), "{error}");
    let error = server.fails(1, "alloc add slurm --time-limit 2h -- --partition=cpu");
    assert!(error.contains("1h"), "the longest time is named: {error}");
    let error = server.fails(1, "alloc add slurm --time-limit 5m -- --no-such-option");
    assert!(error.contains("no-such-option"), "{error}");
    let error = server.fails(1, "alloc add torque --time-limit 5m");
    assert!(error.contains("torque"), "{error}");
    assert_eq!(server.json("alloc list").as_array().map(Vec::len), Some(0), "no queue was made");
}

#[test]
fn what_contradicts_the_queue_is_refused_with_both_values() {
    let Some(slurm) = &*SHARED else { return };
    let server = server(slurm);
    for (args, words) in [
        ("-- -p cpu -N2", ["2 nodes", "1 worker"]),
        ("--max-workers-per-alloc 2 -- -p cpu -N1", ["1 node", "2 workers"]),
        ("-- -p cpu -t 1", ["1m", "5m"]),
        ("-- -p cpu --array=1-2", ["an array", "omit that"]),
        ("-- -p cpu --mem=100G", ["100 GiB", "4 GiB"]),
        ("--cpus 4 -- -p cpu -c 2", ["4 CPUs", "gives them 2"]),
        ("--resource gpus/nvidia=[0,1] -- -p gpu --gres=gpu:1", ["2 GPUs", "ask for 1"]),
    ] {
        let error = server.fails(1, &format!("alloc add slurm --time-limit 5m {args}"));
        assert!(words.iter().all(|word| error.contains(word)), "{args}: {error}");
    }
    server.ok("alloc add slurm --time-limit 5m -- -p cpu");
    let error = server.fails(1, "alloc edit 1 -- -p cpu -N2");
    assert!(error.contains("2 nodes"), "{error}");
    server.ok("alloc edit 1 --max-workers-per-alloc 2 -- -p cpu -N2");
}

#[test]
fn a_worker_offers_what_slurm_gave_to_its_job() {
    let Some(slurm) = &*SHARED else { return };
    let server = server(slurm);
    let pools = |args: &str| {
        let id =
            server.json(&format!("alloc add slurm --time-limit 5m --idle-timeout 1s {args}"))["id"].clone();
        let queues = server.json("alloc list");
        let queue = queues.as_array().expect("a list").iter().find(|queue| queue["id"] == id);
        let known = queue.expect("it is there")["known_worker_resources"].to_string();
        server.ok(&format!("alloc remove {id}"));
        known
    };
    for gpus in ["--gres=gpu:1", "--gpus=1", "-G1", "--gpus-per-node=1", "-n1 --gpus-per-task=1"] {
        let known = pools(&format!("-- -p gpu {gpus}"));
        assert!(known.contains("gpus/nvidia"), "{gpus}: {known}");
    }
    let [one, four] = ["", "--exclusive"].map(|args| pools(&format!("-- -p cpu {args}")));
    assert_ne!(one, four, "one CPU, and the node");
    // A shared partition gives one CPU, and the worker offers no more.
    server.ok("alloc add slurm --name one --time-limit 5m --idle-timeout 1s -- -p cpu");
    server.ok("submit --wait --cpus all -- sh -c 'echo $HQ_CPUS $SLURM_CPUS_ON_NODE >cpus'");
    assert_eq!(
        server.read("cpus").trim().split_once(' ').map(|(own, given)| (own.split(',').count(), given)),
        Some((1, "1"))
    );
}

#[test]
fn an_allocation_cancelled_by_somebody_else_is_replaced() {
    let Some(slurm) = &*SHARED else { return };
    let server = server(slurm);
    server.pipe("never");
    server.ok("alloc add slurm --name cancelled --time-limit 5m --idle-timeout 1s -- --partition=cpu");
    server.ok("submit -- sh -c 'test $HQ_INSTANCE_ID != 0 || { echo >started; read word <>never; }'");
    until("the task runs", || server.path("started").exists().then_some(()).ok_or("it does not".into()));
    slurm.command("scancel", &["--name", "cancelled-1"]);
    one_finishes(&server);
    until("the first one is known to have ended", || {
        let seen = statuses(&server, 1);
        (seen.len() == 2 && seen[0] != "running").then_some(()).ok_or(format!("{seen:?}"))
    });
    assert_eq!(server.json("alloc list")[0]["state"], "Active");
}

#[test]
fn an_allocation_of_several_nodes_has_a_worker_on_each() {
    let Some(slurm) = &*SHARED else { return };
    let server = server(slurm);
    server.pipe("meeting");
    server.ok(
        "alloc add slurm --name wide --time-limit 5m --idle-timeout 1s --max-workers-per-alloc 2 --cpus 4 \
         --worker-start-cmd 'export ON=$SLURMD_NODENAME' -- --partition=cpu",
    );
    // Each task fills a worker, and both must run at once to end.
    let meet = "test %{TASK_ID} = 1 && echo here >meeting || read word <meeting";
    server.ok(&format!(
        "submit --wait --array 1-2 --cpus 4 -- sh -c '{meet}; echo $SLURM_JOB_ID $ON >%{{TASK_ID}}'"
    ));
    let (one, other) = (server.read("1"), server.read("2"));
    let (one, other) = (one.trim().split_once(' ').expect("two"), other.trim().split_once(' ').expect("two"));
    assert_eq!(one.0, other.0, "one allocation");
    assert_ne!(one.1, other.1, "two nodes");
    reaches(&server, 1, &["finished"]);
}

#[test]
fn a_server_that_is_killed_finds_its_allocations_again() {
    let Some(slurm) = &*SHARED else { return };
    let mut server = server(slurm);
    let (started, go) = (server.pipe("started"), server.pipe("go"));
    server.ok("alloc add slurm --name runs --time-limit 5m --idle-timeout 30s -- --partition=cpu");
    server.ok(
        "alloc add slurm --name waits --time-limit 5m --resource 'licence=sum(1)' -- --partition=cpu --begin=now+3600",
    );
    server.ok("submit -- sh -c 'echo $HQ_INSTANCE_ID >started; read word <go'");
    assert_eq!(server.line_from(&started), "0");
    server.ok("submit --resource licence=1 -- true");
    reaches(&server, 1, &["running"]);
    reaches(&server, 2, &["queued"]);
    let ids = |server: &Cluster| [1, 2].map(|queue| allocations(server, queue)[0]["id"].clone());
    let before = ids(&server);
    drop(server.server.take());
    server.start_server("");
    assert_eq!(ids(&server), before);
    // What it prints is where the server was that asked for it.
    server.ok(&format!("alloc log {} stderr", before[0].as_str().expect("an id")));
    // The task goes on in the same allocation, and its worker comes back to say so.
    fs::write(go, "go\n").expect("the task reads");
    server.ok("job wait 1");
    reaches(&server, 1, &["running"]);
    reaches(&server, 2, &["queued"]);
    for name in ["runs-1", "waits-1"] {
        assert_eq!(jobs(slurm, name).len(), 1, "submitted once");
    }
    for name in ["runs-2", "waits-2"] {
        assert!(jobs(slurm, name).is_empty(), "nothing more was asked for");
    }
    server.ok("server stop");
    until("the server's end is theirs", || {
        let seen = [jobs(slurm, "runs-1"), jobs(slurm, "waits-1")].concat();
        let is_over = |job: &String| job.ends_with("CANCELLED") || job.ends_with("COMPLETED");
        seen.iter().all(is_over).then_some(()).ok_or(format!("{seen:?}"))
    });
}

#[test]
fn allocations_that_are_kept_serve_the_next_server() {
    let Some(slurm) = &*SHARED else { return };
    let mut server = server(slurm);
    server.ok("server stop");
    drop(server.server.take());
    server.start_server("--keep-allocations");
    let (started, go) = (server.pipe("started"), server.pipe("go"));
    server.ok("alloc add slurm --name kept --time-limit 5m --idle-timeout 30s -- --partition=cpu");
    server.ok("submit -- sh -c 'echo $HQ_INSTANCE_ID >started; read word <go'");
    assert_eq!(server.line_from(&started), "0");
    server.ok("server stop");
    drop(server.server.take());
    server.start_server("");
    reaches(&server, 1, &["running"]);
    fs::write(go, "go\n").expect("the task reads");
    server.ok("job wait 1");
    assert_eq!(jobs(slurm, "kept-1").len(), 1, "submitted once");
    server.ok("server stop");
}

#[test]
fn programs_on_several_nodes_are_started_by_srun_and_by_open_mpi() {
    let Some(slurm) = &*SHARED else { return };
    let server = server(slurm);
    server.ok(
        "alloc add slurm --name mpi --time-limit 5m --idle-timeout 1s --max-workers-per-alloc 2 -- --partition=cpu --exclusive",
    );
    let ranks = "--nodes 2 --ranks-per-node 2";
    let line = "sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME'";
    server.ok(&format!("submit --wait {ranks} --launcher srun --stdout srun -- %{{MPIRUN}} {line}"));
    assert_eq!(spread(&server.read("srun")), [2, 2], "ranks of a node: {}", server.read("srun"));
    if std::process::Command::new("mpirun.openmpi").arg("--version").output().is_err() {
        return left_out("Open MPI in an allocation: install openmpi-bin");
    }
    server.write("bin/mpirun", "#!/bin/sh\nexec mpirun.openmpi \"$@\"\n");
    server.ok("submit --wait -- chmod +x bin/mpirun");
    let path = format!("{}:{}", server.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let root = "--env OMPI_ALLOW_RUN_AS_ROOT=1 --env OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
    // mpirun hands its own variables to all ranks, so the node is that of the daemon which started them.
    server.write(
        "rank.sh",
        "node=$(tr '\\0' '\\n' </proc/$PPID/environ | sed -n 's/^SLURMD_NODENAME=//p')\n\
         echo $OMPI_COMM_WORLD_RANK $node\n",
    );
    server.ok(&format!(
        "submit --wait {ranks} --launcher openmpi4 {root} --env 'PATH={path}' --stdout openmpi -- %{{MPIRUN}} sh rank.sh"
    ));
    assert_eq!(spread(&server.read("openmpi")), [2, 2], "ranks of a node: {}", server.read("openmpi"));
}

// How many ranks each node has, from lines of `RANK NODE`; each rank is there once.
fn spread(text: &str) -> Vec<usize> {
    let mut nodes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (rank, node) in text.lines().filter_map(|line| line.split_once(' ')) {
        assert!(nodes.entry(node).or_default().insert(rank), "rank {rank} is there twice: {text}");
    }
    nodes.values().map(BTreeSet::len).collect()
}

#[test]
fn work_that_outlasts_an_allocation_goes_on_in_the_next() {
    let Some(slurm) = &*SHARED else { return };
    let server = server(slurm);
    server.ok("alloc add slurm --name short --time-limit 1m --idle-timeout 1s -- --partition=cpu");
    let script = "trap 'echo checkpoint >>seen' USR1; echo $HQ_INSTANCE_ID >>seen; \
                  test $HQ_INSTANCE_ID = 1 && exit; while :; do read word <>never; done";
    server.pipe("never");
    server.write("task.sh", script);
    server.ok("submit --crash-limit 1 --signal USR1@5s --wait -- bash task.sh");
    assert_eq!(server.read("seen"), "0\ncheckpoint\n1\n", "warned, started twice, and no crash");
    reaches(&server, 1, &["finished", "finished"]);
    assert_eq!(server.json("alloc list")[0]["state"], "Active");
}

#[test]
fn a_node_without_power_and_a_controller_that_is_away_are_survived() {
    let Some(slurm) = Slurm::start(&["--nodes", "2", "--gpu-nodes", "0"]) else { return };
    let server = server(&slurm);
    let started = server.pipe("started");
    server.ok("alloc add slurm --name power --time-limit 5m --idle-timeout 1s -- --partition=cpu");
    server
        .ok("submit -- sh -c 'echo $SLURMD_NODENAME >started; test $HQ_INSTANCE_ID = 1 || exec sleep 1000'");
    let node = server.line_from(&started);
    // Nobody answers while a new allocation is wanted.
    slurm.tell("crash", &["head"]);
    slurm.tell("kill", &[&node]);
    slurm.tell("start", &["head"]);
    let next = server.line_from(&started);
    assert_ne!(next, node, "the task runs elsewhere");
    server.ok("job wait 1");
    assert_eq!(server.json("alloc list")[0]["state"], "Active");
    slurm.tell("down", &[]);
}
