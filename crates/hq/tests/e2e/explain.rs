//! Why tasks wait, as users see it.

use std::fs::File;
use std::process::Stdio;

use crate::cluster::{Cluster, Process};

#[test]
fn who_would_wait_for_what_nobody_can_run_is_told_so_without_a_terminal_too() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1 --detect-resources none");
    let ran = cluster.hq("submit --resource foo=2 -- true");
    assert_eq!((ran.exit, ran.stderr.as_str()), (0, ""), "tools read both channels as one answer");
    cluster.write("jobs.toml", "[[task]]\ncommand = ['true']\n[[task.request]]\nresources = { foo = '2' }\n");
    let ran = cluster.hq("job submit-file jobs.toml");
    assert_eq!((ran.exit, ran.stderr.as_str()), (0, ""));
    for how in [
        "submit --wait --resource foo=2 -- true",
        "submit --progress --resource foo=2 -- true",
        "job submit-file --wait jobs.toml",
    ] {
        let mut command = cluster.command(how.split(' '));
        command.stdout(Stdio::null()).stderr(File::create(cluster.path("err")).expect("a file"));
        let process = Process::start(command);
        process.until_it_catches(libc::SIGINT);
        process.signal(libc::SIGINT);
        process.end();
        let said = cluster.read("err");
        assert!(said.starts_with("WARN No worker could ever run these tasks"), "{how}: {said}");
    }
}

#[test]
fn what_nobody_can_run_is_warned_about_listed_and_explained() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 2 --detect-resources none");
    let submitted = cluster.json("submit --name train --array 1-3 --resource gpus=1 -- ./train");
    let warning = submitted["warnings"][0].as_str().expect("a warning");
    assert!(warning.starts_with("No worker could ever run these tasks"), "{warning}");
    assert!(warning.contains("no worker has gpus"), "{warning}");
    let list = cluster.ok("job list");
    assert!(
        list.ends_with("Job 1: 3 tasks fit no current or expected worker; see `hq job explain 1`\n"),
        "{list}"
    );
    assert_eq!(cluster.json("job list")[0]["unrunnable_tasks"], 3);
    let why = cluster.ok("job explain 1");
    assert!(why.starts_with("Job 1 waits\n3 tasks (1-3):\n- no worker could ever run it"), "{why}");
    let document = cluster.json("task explain 1 2");
    assert_eq!(document["task_id"], serde_json::json!({ "job_id": 1, "job_task_id": 2 }));
    let cpus = serde_json::json!({ "resource": "cpus", "request_amount": 1, "worker_amount": 2 });
    let lack = serde_json::json!({ "resource": "gpus", "request_amount": 1, "worker_amount": 0 });
    assert_eq!(
        document["explanation"]["workers"][0]["variants"],
        serde_json::json!([[{ "Resources": cpus }, { "Resources": lack }]])
    );
    assert_eq!(document["reasons"][0]["kind"], "unfit");
    cluster.worker("--cpus 1 --detect-resources none --resource gpus/amd=[0]");
    // They may have run by now.
    assert_eq!(cluster.json("job list --all")[0]["unrunnable_tasks"], 0);
}

#[test]
fn what_runs_and_what_it_holds_back_is_explained() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 2 --detect-resources none");
    let pipe = cluster.pipe("started");
    cluster.ok("submit --cpus 2 --time-limit 1h -- sh -c 'echo up >started; sleep 60'");
    assert_eq!(cluster.line_from(&pipe), "up");
    // The server hears of it a little later.
    while cluster.json("job list")[0]["task_stats"]["running"] != 1 {}
    cluster.ok("submit --array 0-299 -- true");
    let why = cluster.ok("task explain 2 299");
    assert!(
        why.contains("worker 1: cpus: 0 of 2 are free, the task needs 1; task 1@0 has run there for "),
        "{why}"
    );
    assert!(why.contains("at the latest in 59m"), "{why}");
    let why = cluster.ok("job explain all");
    assert!(why.contains("Job 1 runs\nTask 0:\n- it runs on worker 1\n"), "{why}");
    assert!(why.contains("- they are handed to worker 1 and start there as soon as they fit"), "{why}");
    cluster.ok("submit --after 2 -- true");
    assert!(cluster.ok("task explain 3 0").contains("it waits for task 2@0 of `true`, which is waiting"));
    assert_eq!(cluster.json("task explain 3 0")["explanation"]["n_waiting_deps"], 300);
    cluster.ok("job cancel all");
}

#[test]
fn coupled_resources_are_given_together_and_tasks_are_bound_to_them() {
    let mut cluster = Cluster::server();
    cluster.worker(
        "--cpus [[0],[1]] --detect-resources none --resource gpus/nvidia=[[a],[b]] \
         --coupling cpus[0]:gpus/nvidia[1],cpus[1]:gpus/nvidia[0]",
    );
    cluster.ok("submit --array 1-2 --cpus 1 --resource gpus=1 --pin taskset --wait -- sh -c \
         'echo $CUDA_VISIBLE_DEVICES $HQ_CPUS $(grep Cpus_allowed_list /proc/self/status | cut -f 2)'");
    let mut lines: Vec<String> = cluster.ok("job cat 1 stdout").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["a 1 1", "b 0 0"]);
}
