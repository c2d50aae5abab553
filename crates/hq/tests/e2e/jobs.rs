//! Looking at jobs and tasks, waiting for them, canceling and forgetting them.

use crate::cluster::{Cluster, Process};

#[test]
fn lists_show_what_was_asked_for() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait true");
    cluster.hq("submit --wait false");
    cluster.ok("submit --priority -1 --cpus 4 --name sleeper -- sleep 1000");
    cluster.ok("submit --cpus 100 --name waiter true");
    let ids = |line: &str| {
        let jobs = cluster.json(line);
        jobs.as_array().expect("a list").iter().map(|job| job["id"].as_u64().unwrap_or(0)).collect::<Vec<_>>()
    };
    assert_eq!(ids("job list"), [3, 4]);
    assert_eq!(ids("job list --all"), [1, 2, 3, 4]);
    assert_eq!(ids("job list --filter finished,failed"), [1, 2]);
    assert_eq!(ids("jobs --filter FAILED"), [2]);
    assert_eq!(cluster.json("job summary")["Failed"], 1);
    assert_eq!(cluster.json("job list --filter failed")[0]["task_stats"]["failed"], 1);
    let state = cluster.ok("job info 2");
    let line = state.lines().find(|l| l.contains("State")).expect("a state");
    assert_eq!(line.split_whitespace().nth(3), Some("FAILED"), "the fourth word is the state");
    assert!(cluster.fails(2, "job list --filter bogus").contains("bogus"));
}

#[test]
fn a_canceled_job_of_which_too_much_failed_takes_no_more() {
    let cluster = Cluster::new();
    cluster.ok("job open --max-fails 0");
    cluster.fails(1, "submit --job 1 --wait false");
    let said = cluster.says("job cancel 1");
    let over = "Job 1 is open, but accepts no more tasks because too many failed; use `hq job close 1` to close it\n";
    assert_eq!(said, format!("Canceling job 1 failed; all tasks are already finished\n{over}"));
}

#[test]
fn a_canceled_job_that_is_open_stays_open() {
    let cluster = Cluster::server();
    cluster.ok("job open");
    cluster.ok("submit --job 1 true");
    cluster.ok("submit true");
    let said = cluster.says("job cancel all");
    assert!(said.ends_with("Job 1 stays open for more tasks; use `hq job close 1` to close it\n"), "{said}");
    cluster.ok("submit --job 1 true");
    assert!(!cluster.says("job cancel 1 --tasks 1").contains("stays open"));
    cluster.ok("job close 1");
    assert!(!cluster.says("job cancel 1").contains("stays open"));
    assert_eq!(cluster.says("job cancel 2"), "Canceling job 2 failed; all tasks are already finished\n");
}

#[test]
fn what_is_possible_of_a_list_is_done_and_the_rest_named() {
    let cluster = Cluster::server();
    cluster.ok("submit --array 0-2 true");
    cluster.ok("submit true");
    let ran = cluster.hq("job cancel 7,2,9");
    let said = "ERROR Canceling job 7 failed; job not found\nERROR Canceling job 9 failed; job not found\nJob 2 canceled (1 task canceled, \
         0 tasks already finished)\n";
    assert_eq!((ran.exit, ran.stdout.as_str(), ran.stderr.as_str()), (1, "", said));
    let ran = cluster.hq("job forget 1-2");
    assert_eq!(
        (ran.exit, ran.stderr.as_str()),
        (
            1,
            "ERROR Job 1 has not ended yet.\n1 job was forgotten, 1 was ignored due to wrong state or invalid ID (forgotten: 2)\n"
        )
    );
    for (line, error) in [
        ("--output-mode quiet job task-ids 1,3", "Job 3 not found."),
        ("job info 1,3", "Job 3 not found."),
        ("job progress 3,4", "Job 4 not found."),
        ("task list 1,3", "Job 3 not found."),
        ("task info 1 1,9", "Task 9 not found in job 1."),
        ("task list 1 --tasks 2,99", "Task 99 not found in job 1."),
        ("job explain 1,3", "Job 3 not found."),
        ("worker info 3-4", "Worker 4 not found."),
    ] {
        let ran = cluster.hq(line);
        assert_eq!(ran.exit, 1, "{line}: {ran:?}");
        // Where nothing is left, a hint follows.
        assert!(ran.stderr.contains(&format!("ERROR {error}\n")), "{line}: {ran:?}");
        let has_answer = !line.contains("3,4") && !line.contains("3-4");
        assert_eq!(ran.stdout.is_empty(), !has_answer, "{line}: {ran:?}");
    }
    let ran = cluster.hq("--output-mode json task list 1 --tasks 2,99");
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one document");
    let ids: Vec<_> =
        document["1"].as_array().expect("tasks").iter().map(|task| task["id"].clone()).collect();
    assert_eq!((ran.exit, ids), (1, vec![2.into()]));
}

#[test]
fn a_cancel_says_in_json_what_has_become_of_each_job() {
    let cluster = Cluster::server();
    cluster.ok("submit --array 0-2 true");
    cluster.ok("submit true");
    cluster.ok("job cancel 2");
    let ran = cluster.hq("--output-mode json job cancel 1-2,8-9");
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one document");
    let of = |id: u32, ids: &str, count: u32, before: u32| {
        serde_json::json!({
            "id": id, "canceled_tasks": ids, "canceled_count": count, "ended_before": before, "is_open": false
        })
    };
    assert_eq!(
        (ran.exit, &document["canceled"], &document["ended"], &document["unknown"]),
        (1, &serde_json::json!([of(1, "0-2", 3, 0)]), &serde_json::json!([of(2, "", 0, 1)]), &"8-9".into(),)
    );
    assert!(ran.stderr.contains("ERROR Canceling job 8 failed; job not found"), "{ran:?}");
}

#[test]
fn unknown_jobs_are_errors() {
    let cluster = Cluster::server();
    for line in ["job info 7", "job cancel 7", "job wait 7", "task list 7", "job cat 7 stdout", "job close 7"]
    {
        let error = cluster.fails(1, line);
        assert!(
            error.contains("Job 7 not found.") || error.contains("job 7 failed; job not found"),
            "{line}: {error}"
        );
    }
    let ran = cluster.hq("--output-mode json job info 7");
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("a document");
    assert_eq!(
        (ran.exit, &document["error"], &document["code"]),
        (1, &"Job 7 not found.".into(), &"no-job".into())
    );
    assert_eq!(ran.stderr, "");
    for (command, words) in
        [("job info", "Job 106 not found."), ("job cancel", "Canceling job 106 failed; job not found.")]
    {
        let ran = cluster.hq(&format!("--output-mode json {command} 7-109"));
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("a document");
        let text = format!("{words} 3 more of what was named were refused, too.");
        assert_eq!((&document["error"], &document["code"]), (&text.into(), &"no-job".into()));
        assert!(document["hint"].is_string(), "{document}");
        assert_eq!((ran.exit, ran.stderr.lines().count()), (1, 99), "{}", ran.stderr);
    }
    let nothing = serde_json::json!({"schema_version": 1, "canceled": [], "ended": [], "unknown": ""});
    assert_eq!(cluster.json("job cancel all"), nothing);
    cluster.ok("job wait all");
    for line in ["job info last", "task list last", "worker info last"] {
        assert_eq!(cluster.ok(line), "", "{line}");
    }
    for line in ["job wait last", "job progress last"] {
        assert_eq!(cluster.says(line), "There are no jobs to wait for\n", "{line}");
    }
}

#[test]
fn jobs_and_single_tasks_can_be_cancelled() {
    let cluster = Cluster::new();
    let pipe = cluster.pipe("running");
    cluster.ok(
        "submit --array 1-8 -- sh -c 'test $HQ_TASK_ID -gt 1 || echo started > running; exec sleep 1000'",
    );
    cluster.line_from(&pipe);
    assert_eq!(cluster.says("job cancel 1 --tasks 3-8"), "Job 1: 6 tasks canceled, 0 already ended\n");
    assert_eq!(cluster.ok("job task-ids 1 --filter canceled"), "3-8\n");
    assert_eq!(cluster.ok("--output-mode quiet job task-ids 1 --filter canceled"), "3-8\n");
    cluster.ok("job cancel 1 --reason 'enough of it'");
    cluster.fails(1, "job wait 1");
    let job = &cluster.json("job list --all")[0];
    assert_eq!((&job["state"], &job["cancel_reason"]), (&"canceled".into(), &"enough of it".into()));
    assert!(cluster.ok("job list --all --verbose").contains("enough of it"));
    assert!(cluster.fails(2, &format!("job cancel 1 --reason {}", "x".repeat(201))).contains("200"));
}

#[test]
fn a_wait_says_how_many_tasks_were_canceled_beside_others() {
    let cluster = Cluster::new();
    cluster.ok("job open");
    cluster.ok("submit --job 1 --wait -- true");
    cluster.ok("submit --job 1 --array 5-7 --cpus 99 -- true");
    cluster.ok("job cancel 1 --tasks 5-7");
    for line in ["job wait 1 --without-close", "job wait 1"] {
        let said = cluster.fails(1, line);
        assert!(said.contains("3 of 4 tasks of job 1 were canceled\n"), "{line}: {said}");
        // For the next one.
        cluster.hq("job close 1");
    }
}

#[test]
fn too_many_failures_abort_the_rest() {
    let cluster = Cluster::server();
    cluster.ok("submit --array 1-100 --max-fails 2 --stdout none --stderr none -- false");
    let mut cluster = cluster;
    cluster.worker("--cpus 1");
    cluster.fails(1, "job wait 1");
    let stats = &cluster.json("job list --all")[0]["task_stats"];
    assert!(stats["failed"].as_u64() >= Some(3) && stats["aborted"].as_u64() > Some(0), "{stats}");
}

#[test]
fn what_tasks_used_is_measured_and_summed_up() {
    let cluster = Cluster::new();
    let burn = "i=0; while test $i -lt 20000; do i=$((i+1)); done";
    cluster.ok(&format!("submit --wait --array 1-2 --stdout none -- sh -c '{burn}'"));
    let task = &cluster.json("task info 1 1")[0]["usage"];
    let job = &cluster.json("job info 1")[0]["usage"];
    for field in ["wall", "cpu_user", "memory_peak_bytes"] {
        let (one, all) = (task[field].as_f64().unwrap_or(0.0), job[field].as_f64().unwrap_or(0.0));
        assert!(one > 0.0 && all >= one, "{field}: {one} of {all}");
    }
    let shown = cluster.ok("task info 1 1");
    assert!(shown.contains("| CPU time") && shown.contains("| Peak memory"), "{shown}");
}

#[test]
fn task_lists_are_complete_and_in_order() {
    let mut cluster = Cluster::server();
    cluster.worker("--executor null");
    cluster.ok("submit --wait --array 1-12000 --stdout none --stderr none true");
    let tasks = cluster.json("task list 1");
    let ids: Vec<u64> =
        tasks["1"].as_array().expect("tasks").iter().filter_map(|t| t["id"].as_u64()).collect();
    assert_eq!(ids, (1..=12000).collect::<Vec<_>>());
    assert_eq!(cluster.ok("task list 1").lines().filter(|l| l.contains("FINISHED")).count(), 12000);
    assert_eq!(
        cluster.json("task list 1 --tasks 5-6 --task-status finished")["1"].as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(cluster.json("task list 1 --task-status failed")["1"].as_array().map(Vec::len), Some(0));
    assert!(cluster.fails(1, "task info 1 5,20000").contains("Task 20000 not found in job 1."));
}

#[test]
fn ended_jobs_can_be_forgotten() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait true");
    cluster.hq("submit --wait false");
    assert!(cluster.fails(2, "job forget all --filter running").contains("has not ended"));
    assert_eq!(cluster.says("job forget all --filter failed"), "1 job was forgotten (forgotten: 2)\n");
    assert!(cluster.fails(1, "job info 2").contains("Job 2 not found."));
    let ran = cluster.hq("--output-mode json job forget 1,99");
    assert_eq!((ran.exit, ran.stderr.as_str()), (1, "ERROR Job 99 not found.\n"));
    let done: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let forgotten = serde_json::json!({
        "schema_version": 1, "forgotten": "1", "forgotten_count": 1, "ignored_count": 1
    });
    assert_eq!(done, forgotten);
    assert_eq!(cluster.json("--output-version 0 job forget all"), serde_json::json!({}));
    assert_eq!(cluster.json("job list --all"), serde_json::json!([]));
    assert_eq!(cluster.json("submit true")["id"], 3, "ids are not used twice");
}

#[test]
fn a_waiting_client_learns_of_the_end_of_the_server() {
    let mut cluster = Cluster::new();
    cluster.ok("submit -- sleep 1000");
    let mut waiting = cluster.command(["job", "wait", "1"]);
    waiting.stderr(std::process::Stdio::piped());
    let waiting = waiting.spawn().expect("hq can be run");
    cluster.ok("server stop");
    cluster.server.take().map(Process::end);
    let output = waiting.wait_with_output().expect("a child");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_waiting_client_survives_a_restart_of_the_server() {
    let mut cluster = Cluster::new();
    let (heard, go) = (cluster.pipe("heard"), cluster.pipe("go"));
    let script = "\"$HQ\" task notify x; cat go > /dev/null";
    let on_notify = "sh -c 'echo heard > heard'";
    let submit = ["submit", "--wait", "--on-notify", on_notify, "--", "sh", "-c", script];
    let waiting = Process::start(cluster.command(submit));
    cluster.line_from(&heard);
    let server = cluster.server.take().expect("a server");
    server.signal(9);
    server.end();
    cluster.start_server("");
    std::fs::write(&go, "go").expect("a reader");
    assert_eq!(waiting.end(), 0);
    assert_eq!(cluster.json("job list --all")[0]["state"], "finished");
}

#[test]
fn what_tasks_say_while_the_server_is_away_is_heard_when_it_is_back() {
    let mut cluster = Cluster::new();
    let (runs, go, said) = (cluster.pipe("runs"), cluster.pipe("go"), cluster.pipe("said"));
    let script = "echo up > runs; cat go > /dev/null
        \"$HQ\" task notify one && \"$HQ\" task notify two; echo $? > said";
    let on_notify = "sh -c 'echo $HQ_INSTANCE_ID $0 >> heard'";
    let submit = ["submit", "--wait", "--on-notify", on_notify, "--", "sh", "-c", script];
    let waiting = Process::start(cluster.command(submit));
    cluster.line_from(&runs);
    let server = cluster.server.take().expect("a server");
    server.signal(9);
    server.end();
    std::fs::write(&go, "go").expect("a reader");
    assert_eq!(cluster.line_from(&said), "0");
    cluster.start_server("");
    assert_eq!(waiting.end(), 0);
    assert_eq!(cluster.read("heard"), "0 one\n0 two\n");
}

#[test]
fn an_empty_result_is_one_and_a_task_that_never_ran_has_its_places() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --result last-line -- true");
    assert_eq!(cluster.ok("job result 1"), "0: \n");
    assert_eq!(cluster.json("job result 1")[0]["result"], "");
    cluster.ok(
        "submit --wait --result last-line --array 1-3 -- sh -c 'test $HQ_TASK_ID = 2 || echo $HQ_TASK_ID'",
    );
    assert_eq!(cluster.ok("job result 2"), "1: 1\n2: \n3: 3\n");
    cluster.ok("submit --cpus 100 -- true");
    let waiting = cluster.json("task list 3")["3"][0].clone();
    cluster.ok("job cancel 3");
    let canceled = cluster.json("task list 3")["3"][0].clone();
    for key in ["cwd", "stdout", "stderr"] {
        assert!(canceled[key].is_string(), "{canceled}");
        assert_eq!(canceled[key], waiting[key]);
    }
}
