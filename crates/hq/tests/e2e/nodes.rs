//! Tasks on several nodes, and ranks that the workers start.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::cluster::{Cluster, is_alive};

fn cluster(nodes: u32) -> Cluster {
    let mut cluster = Cluster::server();
    for node in 1..=nodes {
        cluster.worker(&format!("--cpus 4 --hostname node{node}.test --group g --detect-resources none"));
    }
    cluster
}

#[test]
fn a_task_on_several_nodes_knows_them_and_has_them_alone() {
    let cluster = cluster(3);
    let held = cluster.pipe("held");
    cluster.write(
        "task.sh",
        "echo $HQ_NUM_NODES > seen; cat $HQ_NODE_FILE $HQ_HOST_FILE >> seen; \
         test -d $HQ_TASK_DIR && echo $HQ_ERROR_FILENAME > named; echo $HQ_TASK_DIR > dir; echo ready > held; cat held\n",
    );
    cluster.ok("submit --nodes 2 -- sh task.sh");
    assert_eq!(cluster.line_from(&held), "ready");
    assert_eq!(cluster.read("seen"), "2\nnode1\nnode2\nnode1.test\nnode2.test\n");
    let task = &cluster.json("task list 1")["1"][0];
    assert_eq!(task["workers"], serde_json::json!([1, 2]));
    let worker = &cluster.json("worker info 2")[0]["runtime_info"]["MultiNodeTask"];
    assert_eq!((&worker["main_node"], &worker["main_worker"]), (&false.into(), &1.into()));
    // The third one is still there for others; the nodes of the task are not.
    cluster.ok("submit --cpus 4 --wait -- true");
    cluster.ok("submit --cpus 4 -- true");
    cluster.ok("submit --cpus 4 -- true");
    std::fs::write(&held, "go\n").expect("a reader");
    cluster.ok("job wait all");
    assert_eq!(cluster.json("job list --all")[0]["task_stats"]["finished"], 1);
    assert_eq!(
        cluster.json("task info 1 0")[0]["workers"],
        serde_json::json!([1, 2]),
        "also when it has ended"
    );
    let dir = cluster.read("dir").trim().to_owned();
    assert_eq!(cluster.read("named").trim(), format!("{dir}/hq-error"));
    assert!(!Path::new(&dir).exists(), "it is removed with the task");
}

#[test]
fn ranks_are_started_by_the_workers_and_their_outputs_are_carried() {
    let cluster = cluster(2);
    cluster.write(
        "rank.sh",
        "echo out $HQ_RANK $HQ_RANKS $HQ_NODE_RANK $HQ_LOCAL_RANK $HQ_CPUS; echo err $HQ_RANK >&2\n",
    );
    cluster.ok("submit --wait --nodes 2 --ranks-per-node 2 --cpus-per-rank 2 -- sh rank.sh");
    let lines = |name: &str| -> BTreeSet<String> {
        cluster.read(format!("job-1/{name}")).lines().map(str::to_owned).collect()
    };
    let expected = ["out 0 4 0 0 0,1", "out 1 4 0 1 2,3", "out 2 4 1 0 0,1", "out 3 4 1 1 2,3"];
    assert_eq!(lines("0.stdout"), expected.map(str::to_owned).into());
    assert_eq!(lines("0.stderr"), ["err 0", "err 1", "err 2", "err 3"].map(str::to_owned).into());
}

#[test]
fn captured_input_goes_to_the_first_rank_and_much_output_arrives_whole() {
    let cluster = cluster(2);
    cluster.write("input", "hello\n");
    cluster.write("rank.sh", "cat; seq 1 20000\n");
    cluster.ok("submit --wait --stdin=input --nodes 2 --ranks-per-node 1 -- sh rank.sh");
    let out = cluster.read("job-1/0.stdout");
    assert_eq!(out.lines().filter(|line| *line == "hello").count(), 1);
    let sum: u64 = out.lines().filter_map(|line| line.parse::<u64>().ok()).sum();
    assert_eq!((out.lines().count(), sum), (40_001, 2 * 200_010_000));
}

#[test]
fn all_ranks_end_when_one_fails() {
    let cluster = cluster(2);
    cluster.write(
        "rank.sh",
        "echo $$ > pid-$HQ_RANK; if [ $HQ_RANK = 3 ]; then \
         while ! [ -s pid-0 ] || ! [ -s pid-1 ] || ! [ -s pid-2 ]; do sleep 0.02; done; exit 7; fi; \
         exec sleep 600\n",
    );
    let ran = cluster.hq("submit --wait --nodes 2 --ranks-per-node 2 -- sh rank.sh");
    assert_eq!(ran.exit, 1, "{ran:?}");
    let error = cluster.read("job-1/0.stderr");
    assert!(error.contains("rank 3 on node 1 (node2) terminated with exit code 7"), "{error}");
    for rank in 0..3 {
        assert!(!is_alive(cluster.read(format!("pid-{rank}")).trim()), "rank {rank}");
    }
    assert!(cluster.ok("task info 1 0").contains("exit code 7"));
}

#[test]
fn all_ranks_end_when_the_task_is_canceled_or_a_node_is_lost() {
    let mut cluster = cluster(3);
    let held = cluster.pipe("held");
    // What has left the session of its rank ends with it.
    cluster.write(
        "rank.sh",
        "echo $$ > pid-$HQ_INSTANCE_ID-$HQ_RANK; setsid sleep 600 & echo $! > away-$HQ_INSTANCE_ID-$HQ_RANK; \
         echo up > held; sleep 600\n",
    );
    cluster.ok("submit --nodes 2 --ranks-per-node 1 --exclusive -- sh rank.sh");
    two_lines(&held);
    cluster.workers.remove(1).signal(9);
    // It runs again, with the third worker in the place of the second one.
    two_lines(&held);
    for rank in 0..2 {
        for what in ["pid", "away"] {
            let pid = cluster.read(format!("{what}-0-{rank}"));
            assert!(!is_alive(pid.trim()), "{what}, rank {rank} of the first instance");
        }
        assert!(is_alive(cluster.read(format!("pid-1-{rank}")).trim()), "rank {rank} of the second one");
    }
    cluster.ok("job cancel 1");
    cluster.ok("submit --wait --nodes 2 -- true");
    for rank in 0..2 {
        for what in ["pid", "away"] {
            let pid = cluster.read(format!("{what}-1-{rank}"));
            assert!(!is_alive(pid.trim()), "{what}, rank {rank} of the second instance");
        }
    }
}

// Each rank opens the pipe by itself; both may have written at once.
fn two_lines(pipe: &Path) {
    let mut lines = 0;
    while lines < 2 {
        lines += std::fs::read_to_string(pipe).expect("a pipe").lines().count();
    }
}

#[test]
fn what_is_canceled_while_its_ranks_start_frees_its_nodes_at_once() {
    let cluster = cluster(2);
    for _ in 0..8 {
        // Nobody would wait for so long.
        cluster.ok("submit --nodes 2 --ranks-per-node 2 --kill-grace 1h -- sleep 600");
        cluster.ok("job cancel last");
        cluster.ok("submit --wait --nodes 2 -- true");
    }
}

#[test]
fn a_rank_that_cannot_start_is_named() {
    let cluster = cluster(2);
    let ran = cluster.hq("submit --wait --nodes 2 --ranks-per-node 1 -- ./no-such-program");
    assert_eq!(ran.exit, 1);
    let error = cluster.read("job-1/0.stderr");
    assert!(error.contains("did not start: "), "{error}");
    assert!(error.contains("no-such-program"), "{error}");
}

#[test]
fn requests_that_cannot_be_are_refused_or_warned_of() {
    let cluster = cluster(1);
    for (line, expected) in [
        ("submit --nodes 2 --cpus 3 -- true", "--cpus"),
        ("submit --nodes 2 --pin taskset -- true", "cannot be used together with --pin"),
        ("submit --cpus-per-rank 2 -- true", "works only together with --ranks-per-node"),
        ("submit --nodes 200000 -- true", "are too many"),
        ("submit --ranks-per-node 2 --cpus-per-rank all -- true", "several ranks on a node"),
    ] {
        let error = cluster.fails(2, line);
        assert!(error.contains(expected), "{line}: {error}");
    }
    let warning = |cluster: &Cluster, line: &str| cluster.json(line)["warnings"][0].to_string();
    let warned = warning(&cluster, "submit --resource nodes=3 -- true");
    assert!(warned.contains("no worker has nodes (did you mean `--nodes 3`?)"), "{warned}");
    let warned = warning(&Cluster::server(), "submit --resource nodes=3 -- true");
    let expected = "Only workers that declare it have `nodes`: did you mean `--nodes 3`?";
    assert!(warned.contains(expected), "{warned}");
    let warned = warning(&cluster, "submit --nodes 2 --ranks-per-node 2 -- true");
    assert!(warned.contains("2 nodes asked for, no group has more than 1"), "{warned}");
    let text = cluster.ok("task explain 2 0");
    assert!(text.contains("2 nodes asked for, no group has more than 1"), "{text}");
}

#[test]
fn a_task_can_use_its_own_launcher() {
    let cluster = cluster(2);
    cluster.write("bin-mpirun", "#!/bin/sh\n[ $1 = --version ] && echo mine || echo \"$@\" \"$(cat $2)\"\n");
    let made = Command::new("chmod").args(["+x", "bin-mpirun"]).current_dir(cluster.work()).status();
    assert!(made.expect("chmod").success());
    std::fs::create_dir(cluster.path("config")).expect("a directory");
    let program = cluster.path("bin-mpirun").display().to_string();
    cluster.write(
        "config/launchers.toml",
        format!(
            "[[launcher]]\nname = \"mine\"\nabout = \"a test\"\nrank = \"R\"\n\
             probe = {{ command = [\"{program}\", \"--version\"], holds = \"mine\" }}\n\
             args = [\"{program}\", \"-f\", \"%{{HOSTFILE}}\", \"-n\", \"%{{RANKS}}\"]\nhostfile = \"%{{HOST}}:%{{RANKS_PER_NODE}}\"\n"
        ),
    );
    let config = cluster.path("config").display().to_string();
    let line = format!(
        "submit --wait --nodes 2 --ranks-per-node 3 --cpus-per-rank 1 --env HQ_CONFIG_DIR={config} -- '%{{MPIRUN}}' ./a"
    );
    cluster.ok(&line);
    let out = cluster.read("job-1/0.stdout");
    assert!(out.contains("-n 6 ./a node1:3\nnode2:3"), "{out}");
    // Whoever may write the file would say what is executed.
    let lax = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(cluster.path("config/launchers.toml"), lax).expect("it is ours");
    assert_ne!(cluster.hq(&line).exit, 0);
    assert!(cluster.read("job-2/0.stderr").contains("everyone can write to it: use chmod o-w"));
}
