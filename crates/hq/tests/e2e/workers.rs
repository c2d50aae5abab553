//! Workers as users start, see and stop them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::cluster::{Cluster, Place, Process, is_alive};

#[test]
fn workers_are_listed_with_what_they_offer() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 2x4 --resource gpus/amd=[0,7] --resource mem=sum(8GiB) --resource x=sum(2.5) --hostname nodeA --group g --detect-resources none");
    let table = cluster.ok("worker list");
    assert!(table.contains("|  1 | RUNNING | nodeA"), "{table}");
    assert_eq!(cluster.ok("--output-mode quiet worker list"), "1 RUNNING\n");
    assert_eq!(cluster.ok("worker address 1"), "nodeA\n");
    let worker = &cluster.json("worker info 1")[0];
    let config = &worker["configuration"];
    assert_eq!((&config["hostname"], &config["group"]), (&"nodeA".into(), &"g".into()));
    let names: Vec<&str> = config["resources"]["resources"]
        .as_array()
        .expect("pools")
        .iter()
        .filter_map(|p| p["name"].as_str())
        .collect();
    assert_eq!(names, ["cpus", "gpus/amd", "io", "mem", "x"]);
    assert_eq!(config["heartbeat_interval"], 8.0);
    assert!(cluster.fails(1, "worker info 9").contains("Worker 9 not found."));
    assert!(cluster.fails(1, "worker address 9").contains("Worker 9 not found."));
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn a_worker_shows_what_it_is_once_it_is_registered() {
    let cluster = Cluster::server();
    let start = "worker start --cpus 3 --time-limit 1s --output-mode";
    let table = cluster.ok(&format!("{start} cli"));
    assert!(table.contains("| Worker ") && table.contains("cpus: 3"), "{table}");
    let told = cluster.json(&start.replace(" --output-mode", ""));
    let told = told.as_array().expect("as of `hq worker info`");
    assert_eq!((told.len(), &told[0]["id"]), (1, &2.into()), "{told:?}");
    assert_eq!(cluster.ok(&format!("{start} quiet")), "");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn a_worker_samples_its_node() {
    let mut cluster = Cluster::server();
    let error = cluster.fails(2, "worker start --overview-interval 1ms");
    assert!(error.contains("give 100ms or more, or 0 for none"), "{error}");
    let mut command = cluster.command(["journal", "stream", "--kind", "worker"]);
    let mut stream = command.stdout(Stdio::piped()).spawn().expect("hq can be run");
    let mut events = BufReader::new(stream.stdout.take().expect("a pipe")).lines();
    cluster.worker("--cpus 1 --detect-resources none --overview-interval 100ms");
    let state = loop {
        let line = events.next().expect("more").expect("a line");
        let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        if event["event"]["type"] == "worker-overview" {
            assert_eq!(event["event"]["id"], 1);
            break event["event"]["hw-state"]["state"].clone();
        }
    };
    let is_a_part = |cpu: &serde_json::Value| cpu.as_f64().is_some_and(|cpu| (0.0..=100.0).contains(&cpu));
    let cpus = state["cpu_usage"]["cpu_per_core_percent_usage"].as_array().expect("CPUs");
    assert!(!cpus.is_empty() && cpus.iter().all(is_a_part), "{state}");
    assert!(state["memory_usage"]["total"].as_u64() > state["memory_usage"]["free"].as_u64(), "{state}");
    assert!(state["nvidia_gpus"].is_null() && state["network_usage"]["rx_errors"].is_u64(), "{state}");
    let table = cluster.ok("worker info 1");
    assert!(table.contains("CPUs: ") && table.contains("memory: "), "{table}");
    let shown = &cluster.json("worker info 1")[0]["hw_state"];
    assert_eq!(shown["cpu_usage"]["cpu_per_core_percent_usage"].as_array().map(Vec::len), Some(cpus.len()));
    stream.kill().expect("a child");
    stream.wait().expect("a child");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn what_a_running_task_uses_is_shown() {
    let mut cluster = Cluster::server();
    let error = cluster.fails(2, "worker start --sample-interval 1ms");
    assert!(error.contains("give 100ms or more, or 0 for never"), "{error}");
    cluster.worker("--cpus 1 --detect-resources none --sample-interval 100ms");
    // The shell's child is a process of the task, too.
    let ran = cluster.run(["submit", "--", "sh", "-c", "cat /proc/self/stat; (while :; do :; done) & wait"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let used = loop {
        let used = cluster.json("task info 1 0")[0]["use_now"].clone();
        if used["cpus_max"].as_f64().is_some_and(|cpus| cpus > 0.0) && used["processes"] == 2 {
            break used;
        }
    };
    assert!(used["memory"].as_u64() > Some(0) && used["read"].as_u64() > Some(0), "{used}");
    assert!(used["cpus"].as_f64() <= Some(2.0), "{used}");
    let table = cluster.ok("task info 1 0");
    assert!(table.contains("Use now") && table.contains("CPU time: "), "{table}");
    let worker = cluster.json("worker info 1")[0].clone();
    assert_eq!(worker["tasks_now"]["count"], 1);
    assert_eq!(worker["load"]["now"]["nodes"], 1);
    assert_eq!(worker["load"]["step"], 60.0);
    assert!(!worker["load"]["points"].as_array().expect("points").is_empty(), "{worker}");
    assert!(cluster.ok("metrics").contains("hq_nodes_sampled 1\n"));
    assert!(cluster.json("server info")["load_bytes"].as_u64() > Some(0));
    cluster.ok("job cancel 1");
    cluster.fails(1, "job wait 1");
    assert!(cluster.json("task info 1 0")[0]["use_now"].is_null(), "it has ended");
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn detected_resources_can_be_replaced_but_not_twice() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 3");
    let pools = cluster.json("worker info 1")[0]["configuration"]["resources"]["resources"].clone();
    assert_eq!(pools[0], serde_json::json!({ "name": "cpus", "kind": "range", "start": 0, "end": 2 }));
    assert!(pools.as_array().expect("pools").iter().any(|pool| pool["name"] == "mem"), "{pools}");
    for (line, word) in [
        ("worker start --resource x=[0] --resource x=[1]", "x"),
        ("worker start --cpus sum(3)", "--cpus"),
        ("worker start --resource x", "NAME=DEFINITION"),
        ("worker start --detect-resources cpus,foo", "foo"),
        ("worker start --coupling cpus[0]:nope[0]", "nope"),
        ("worker start --coupling foo[0]:goo[1]", "Resource not found: foo"),
        (
            "worker start --cpus 2x1 --resource yyy=[[a],[b]] --coupling cpus[0]:yyy[3]",
            "Invalid group id 3 for resource 'yyy'",
        ),
        (
            "worker start --cpus 2x1 --resource xxx=[a,b] --coupling cpus[0]:xxx[0]",
            "Resource 'xxx' has only a single group",
        ),
        ("worker start --manager slurm", "SLURM_JOB_ID"),
        ("worker start --min-utilization 2", "0 to 1"),
        ("worker start --heartbeat 0s", "longer than zero"),
        ("worker start --heartbeat 1ms", "the worker lost too soon; give 100ms or more"),
        ("worker start --time-limit 20s --time-reserve 30s", "leaves no time of the time limit, 20s"),
        ("worker start --group=", "--group"),
        ("worker start --hostname=", "--hostname"),
    ] {
        let error = cluster.fails(2, line);
        assert!(error.contains(word), "{line}: {error}");
    }
}

#[test]
fn hwdetect_shows_this_machine() {
    let cluster = crate::cluster::Place::new();
    assert!(cluster.ok("worker hwdetect").starts_with("Summary:\ncpus: "));
    let found = cluster.json("worker hwdetect --no-hyper-threading");
    assert_eq!(found["resources"][0]["name"], "cpus");
}

#[test]
fn a_stopped_worker_ends_and_its_task_runs_elsewhere() {
    let mut cluster = Cluster::new();
    let pipe = cluster.pipe("running");
    cluster.ok("submit --crash-limit 1 -- sh -c 'echo started > running; test $HQ_INSTANCE_ID = 1 || exec sleep 1000'");
    cluster.line_from(&pipe);
    assert_eq!(cluster.says("worker stop 1"), "Worker 1 is stopping\n");
    assert_eq!(cluster.workers.remove(0).end(), 0);
    assert_eq!(cluster.ok("--output-mode quiet worker list --filter offline"), "1 STOPPED\n");
    assert_eq!(cluster.ok("--output-mode quiet worker list"), "");
    cluster.worker("--cpus 4");
    cluster.line_from(&pipe);
    cluster.ok("job wait 1");
    assert_eq!(cluster.json("task info 1 0")[0]["worker"], 2);
    assert!(
        cluster.fails(1, "worker stop 1").contains("Stopping worker 1 failed; worker is already stopped")
    );
    assert!(cluster.fails(1, "worker stop 7").contains("Stopping worker 7 failed; worker not found"));
}

#[test]
fn a_task_that_takes_long_is_started_on_another_worker_and_the_first_result_wins() {
    let mut cluster = Cluster::new();
    let pipe = cluster.pipe("running");
    // On the first worker one task hangs until it is ended.
    cluster.ok("submit --array 0-5 --speculate 2 -- sh -c 'test $HQ_TASK_ID$HQ_INSTANCE_ID != 50 || { echo hangs > running; exec sleep 1000; }'");
    cluster.line_from(&pipe);
    cluster.worker("--cpus 1");
    cluster.ok("job wait 1");
    let task = &cluster.json("task info 1 5")[0];
    assert_eq!((&task["worker"], &task["instance"]), (&2.into(), &1.into()), "{task}");
    assert!(cluster.ok("journal export").contains("\"task-speculated\""));
    cluster.ok("submit --cpus 4 --wait -- true");
}

#[test]
fn a_draining_worker_finishes_what_runs() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1");
    let (running, go) = (cluster.pipe("running"), cluster.pipe("go"));
    cluster.ok("submit -- sh -c 'echo started > running; cat go'");
    cluster.line_from(&running);
    cluster.ok("submit true");
    assert_eq!(cluster.says("worker stop 1 --drain"), "Worker 1 finishes its running tasks, then stops\n");
    assert_eq!(cluster.ok("--output-mode quiet worker list"), "1 DRAINING\n");
    std::fs::write(go, "done\n").expect("a reader");
    assert_eq!(cluster.workers.remove(0).end(), 0);
    assert_eq!(cluster.ok("job cat 1 stdout"), "done\n");
    let jobs = cluster.json("job list --all");
    assert_eq!((&jobs[0]["state"], &jobs[1]["state"]), (&"finished".into(), &"waiting".into()));
}

#[test]
fn a_worker_without_work_or_time_ends_by_itself() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1 --idle-timeout 50ms");
    assert_eq!(cluster.workers.remove(0).end(), 0);
    cluster.worker("--cpus 1 --time-limit 1s --time-reserve 900ms");
    assert_eq!(cluster.workers.remove(0).end(), 0);
    cluster.worker("--cpus 1 --time-limit 1s");
    let info = &cluster.json("worker info 3")[0];
    assert_eq!(info["configuration"]["time_limit"], 1.0, "as given: {info}");
    assert_eq!(info["configuration"]["time_reserve"], 0.1, "{info}");
    assert_eq!(cluster.workers.remove(0).end(), 0);
    assert_eq!(
        cluster.ok("--output-mode quiet worker list --all"),
        "1 IDLE TIMEOUT\n2 TIME LIMIT REACHED\n3 TIME LIMIT REACHED\n"
    );
}

#[test]
fn a_worker_without_a_server_says_so() {
    let place = crate::cluster::Place::new();
    let error = place.fails(3, "worker start");
    assert!(error.contains("No running instance of HQ found at"), "{error}");
}

#[test]
fn signals_stop_a_worker() {
    for signal in [2, 15] {
        let mut cluster = Cluster::new();
        let worker = cluster.workers.remove(0);
        worker.signal(signal);
        assert_eq!(worker.end(), 0, "signal {signal}");
        let ended = cluster.json("worker list --all")[0]["ended"]["reason"].clone();
        assert_eq!(ended, "interrupted");
    }
}

#[test]
fn deploying_starts_a_worker_for_each_host() {
    let cluster = Cluster::server();
    cluster.write("hosts", "# two of them\nnode1\nnode2:2222\n");
    cluster.write("ssh", "#!/bin/sh\nfor last; do :; done\necho \"$*\" >> calls\nexec sh -c \"$last\"\n");
    let mut chmod = std::process::Command::new("chmod");
    assert!(chmod.arg("+x").arg(cluster.path("ssh")).status().expect("chmod can be run").success());
    let mut command =
        cluster.command(["worker", "deploy-ssh", "hosts", "--cpus", "1", "--idle-timeout", "300ms"]);
    command
        .env("PATH", format!("{}:{}", cluster.work().display(), std::env::var("PATH").unwrap_or_default()));
    let output = command.output().expect("hq can be run");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(cluster.json("worker list --all").as_array().map(Vec::len), Some(2));
    let calls = cluster.read("calls");
    assert!(calls.contains("-t -t node1 ") && calls.contains("-t -t -p 2222 node2 "), "{calls}");
    cluster.write("none", "# nobody\n");
    assert!(cluster.fails(1, "worker deploy-ssh none").contains("contains no hosts"));
    assert!(cluster.fails(1, "worker deploy-ssh missing").contains("cannot read the host file missing"));
}

#[test]
fn what_a_worker_does_when_the_server_is_lost_is_its_users_choice() {
    for (choice, output) in [("stop", ""), ("finish-running", "finished\n")] {
        let mut cluster = Cluster::server();
        cluster.worker(&format!("--cpus 1 --on-server-lost {choice} --reconnect-timeout 1s"));
        let (started, go) = (cluster.pipe("started"), cluster.pipe("go"));
        cluster.write("task.sh", "echo > started\nread -r line < go && echo finished\n");
        cluster.ok("submit --stdout out sh task.sh");
        cluster.line_from(&started);
        let server = cluster.server.take().expect("a server");
        server.signal(9);
        server.end();
        if choice == "finish-running" {
            std::fs::write(&go, "\n").expect("a reader");
        }
        assert_eq!(cluster.workers.remove(0).end(), 3, "{choice}: it was lost");
        assert_eq!(cluster.read("out"), output, "{choice}");
    }
}

#[test]
fn a_worker_warns_its_tasks_and_ends_before_the_wall_and_nothing_counts_as_a_crash() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1 --time-limit 6s --time-reserve 1s");
    cluster.write("task.sh", "trap 'echo warned; exit 0' USR1\nsleep 1000 & wait\n");
    cluster.ok("submit --stdout warned --signal USR1@2s bash task.sh");
    cluster.ok("job wait 1");
    assert_eq!(cluster.read("warned"), "warned\n");
    cluster.ok("submit --crash-limit 1 sleep 1000");
    assert_eq!(cluster.workers.remove(0).end(), 0);
    let job = cluster.json("job list");
    assert_eq!(job[0]["state"], "waiting", "it was lost with its worker's time, which is not a crash: {job}");
    assert_eq!(cluster.json("task info 2 0")[0]["crashes"], 0);
}

#[test]
fn what_must_never_run_twice_fails_when_its_worker_is_stopped_or_asked_to_end() {
    for way in ["stop", "signal", "drain"] {
        let mut cluster = Cluster::server();
        cluster.worker("--cpus 1");
        let (running, go) = (cluster.pipe("running"), cluster.pipe("go"));
        cluster
            .ok("submit --array 0-1 --crash-limit never-restart -- sh -c 'echo started > running; cat go'");
        cluster.line_from(&running);
        let worker = cluster.workers.remove(0);
        match way {
            "stop" => drop(cluster.ok("worker stop 1")),
            "signal" => worker.signal(15),
            _ => {
                cluster.ok("worker stop 1 --drain");
                std::fs::write(go, "done\n").expect("a reader");
            }
        }
        assert_eq!(worker.end(), 0, "{way}");
        let tasks = &cluster.json("task list 1")["1"];
        let first = if way == "drain" { "finished" } else { "failed" };
        assert_eq!(
            (&tasks[0]["state"], &tasks[1]["state"]),
            (&first.into(), &"waiting".into()),
            "{way}: {tasks}"
        );
        let info = &cluster.json("task info 1 0")[0];
        assert_eq!(info["crashes"], 0);
        if way != "drain" {
            let why = if way == "stop" { "it was stopped" } else { "it was asked to end" };
            let error = info["error"].as_str().expect("a text");
            let (begin, end) = (
                "Task was running on a lost worker while never restart flag was set. It was worker 1 (",
                format!("): {why}."),
            );
            assert!(error.starts_with(begin) && error.ends_with(&end), "{error}");
        }
    }
}

#[test]
fn an_interrupted_worker_says_what_it_waits_for() {
    let cluster = Cluster::server();
    let (running, told) = (cluster.pipe("running"), cluster.pipe("told"));
    let mut command = cluster.command(["worker", "start", "--cpus", "1"]);
    command.stdout(Stdio::null()).stderr(File::create(cluster.path("said")).expect("a file"));
    let worker = Process::start(command);
    let script = "trap 'echo told > told' TERM; echo $$ > running; while :; do sleep 1000 & wait; done";
    cluster.write("task.sh", script);
    cluster.ok("submit --kill-grace 1000s bash task.sh");
    let task = cluster.line_from(&running);
    worker.signal(2);
    assert_eq!(cluster.line_from(&told), "told");
    let said = cluster.read("said");
    assert!(said.contains("press Ctrl-C again to end at once tasks=1"), "{said}");
    worker.signal(2);
    assert_eq!(worker.end(), 0);
    assert!(!is_alive(&task), "the task {task} lives");
}

#[test]
fn a_wait_says_what_is_there_and_what_it_waits_for() {
    let mut cluster = Cluster { workers: Vec::new(), server: None, place: Place::new() };
    let (line, mut wait) = first_line(&cluster, &["server", "wait"]);
    assert!(line.starts_with("No server answers in ") && line.contains("waiting up to"), "{line}");
    cluster.start_server("");
    assert!(wait.wait().expect("a child").success());
    cluster.worker("--cpus 1");
    let (line, mut wait) = first_line(&cluster, &["worker", "wait", "2"]);
    assert_eq!(line, "Connected workers: 1; waiting for 2\n");
    cluster.worker("--cpus 1");
    assert!(wait.wait().expect("a child").success());
}

// A command that waits, and the first line that it says.
fn first_line(place: &Place, words: &[&str]) -> (String, Child) {
    let mut child = place.command(words).stderr(Stdio::piped()).spawn().expect("hq can be run");
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    said.read_line(&mut line).expect("a line");
    (line, child)
}
