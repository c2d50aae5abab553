//! After something failed: why, in few words, whatever the number of tasks.

use serde_json::{Value, json};

use crate::cluster::Cluster;

// Of each four tasks one says why it fails, one is killed, and two finish.
const MIXED: &str = "sh -c 'case $((HQ_TASK_ID % 4)) in \
                     0) echo begin >&2; echo \"no license at try $HQ_TASK_ID\" >&2; exit 3;; \
                     1) kill -9 $$;; esac'";

fn causes(cluster: &Cluster, jobs: &str) -> Vec<Value> {
    let mut document = cluster.json(&format!("job failures {jobs}"));
    document[0]["causes"].take().as_array().expect("causes").clone()
}

#[test]
fn failures_are_told_by_cause() {
    let cluster = Cluster::new();
    cluster.fails(1, &format!("submit --wait --array 1-40 --stdout none -- {MIXED}"));
    let causes = causes(&cluster, "last");
    assert_eq!(causes.len(), 2);
    let of_kind = |kind: &str| causes.iter().find(|cause| cause["kind"] == kind).expect("a cause");
    let (exit, signal) = (of_kind("exit"), of_kind("signal"));
    assert_eq!((&exit["count"], &exit["exit_code"], &exit["workers"]), (&json!(10), &json!(3), &json!("1")));
    assert_eq!(exit["cause"], "Program terminated with exit code 3.");
    let first = &exit["first"];
    assert_eq!(first["stderr_last_line"], format!("no license at try {}", first["id"]));
    assert_eq!((&signal["count"], &signal["signal"]), (&json!(10), &json!(9)));
    assert_eq!(signal["first"]["stderr_last_line"], Value::Null, "it has written nothing");
    let said = cluster.ok("job failures 1");
    assert!(said.starts_with("Job 1: 20 of 40 tasks failed, 2 causes\n"), "{said}");
    assert!(said.contains("no license at try "), "{said}");
    let quiet = cluster.ok("--output-mode quiet job failures 1");
    let mut lines: Vec<&str> = quiet.lines().collect();
    lines.sort_unstable();
    let killed = "1 10 Program terminated with exit code 137. Received signal 9 (SIGKILL).";
    assert_eq!(lines, [killed, "1 10 Program terminated with exit code 3."]);
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn the_same_exit_code_is_told_apart_by_last_words() {
    let cluster = Cluster::new();
    let says = "sh -c 'test $((HQ_TASK_ID % 3)) = 0 || { echo \"no room at $HQ_TASK_ID\" >&2; exit 1; }; \
                echo \"no file x\" >&2; exit 1'";
    cluster.fails(1, &format!("submit --wait --array 1-30 --stdout none -- {says}"));
    cluster.fails(1, &format!("submit --wait --array 1-30 --stdout none --stream s -- {says}"));
    for job in ["1", "2"] {
        let causes = causes(&cluster, job);
        let counts: Vec<&Value> = causes.iter().map(|cause| &cause["count"]).collect();
        assert_eq!(counts, [20, 10], "{causes:?}");
        let line = |cause: &Value| cause["first"]["stderr_last_line"].as_str().map(str::to_owned);
        assert!(line(&causes[0]).is_some_and(|line| line.starts_with("no room at ")), "{causes:?}");
        assert_eq!(line(&causes[1]).as_deref(), Some("no file x"));
        assert_eq!(causes[0]["count_is_estimate"], false);
    }
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn whoever_waits_is_told_of_the_first_failure() {
    let cluster = Cluster::new();
    let line = "submit --array 1-4 --wait -- sh -c 'test $HQ_TASK_ID != 3 || { echo \"no x\" >&2; exit 5; }'";
    let why = "1 of 4 tasks of job 1 failed, task 3: Program terminated with exit code 5.\n  \
                The last line of its stderr: no x\n  `hq job failures 1` shows the causes\n";
    for line in [line, "job wait 1", "job wait 1 --allow-failures"] {
        let said = cluster.hq(line).stderr;
        let (end, rest) = said.split_once('\n').expect("several lines");
        assert!(end.starts_with("Wait ended after ") && end.ends_with(": 1 job failed"), "{said}");
        assert_eq!(rest, why);
    }
    assert_eq!(cluster.hq("job info 1").stderr, why);
    for mode in ["json", "quiet"] {
        for command in ["job wait 1", "job info 1", "submit --wait false"] {
            assert_eq!(cluster.hq(&format!("--output-mode {mode} {command}")).stderr, "", "{mode} {command}");
        }
    }
    let said = cluster.fails(1, "submit --wait --stderr none false");
    let why = "Task 0 of job 4 failed: Program terminated with exit code 1.\n  `hq job failures 4` shows the causes\n";
    assert_eq!(said.split_once('\n').map(|said| said.1), Some(why));
    cluster.ok("submit --wait true");
    assert_eq!(cluster.hq("job wait 5").stderr.lines().count(), 1, "nothing failed");
    cluster.fails(1, "submit --wait false");
    for (line, named) in [("job info all", "all"), ("job info 1-6", "1-6"), ("job wait 1-6", "1-6")] {
        let said = cluster.hq(line).stderr;
        let last = format!("Tasks of other jobs also failed: `hq job failures {named}` shows all of them");
        assert_eq!(said.lines().last(), Some(last.as_str()), "{line}: {said}");
    }
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn words_of_tasks_are_one_cause_although_numbers_differ() {
    let mut cluster = Cluster::new();
    let says = "sh -c 'echo \"cannot read part $HQ_TASK_ID\" > \"$HQ_ERROR_FILENAME\"; exit 1'";
    cluster.fails(1, &format!("submit --wait --array 5-8 --task-dir --stderr none -- {says}"));
    let expected = |found: &[Value]| {
        let [cause] = found else { panic!("one cause: {found:?}") };
        assert_eq!((&cause["count"], &cause["cause"]), (&json!(4), &json!("cannot read part #")));
        let first = &cause["first"];
        assert_eq!(first["error"], format!("cannot read part {}", first["id"]));
        assert_eq!(first["stderr"], Value::Null);
    };
    expected(&causes(&cluster, "1"));
    // So it is after a restart.
    cluster.server.take();
    cluster.start_server("");
    expected(&causes(&cluster, "1"));
    crate::events::keep_their_schema(&cluster);
}

// Fails in what it was given until somebody makes a file.
const UNTIL_FIXED: &str =
    "sh -c 'test -e fixed || test \"$HQ_ENTRY\" != c || exit 2; echo \"$HQ_TASK_ID $HQ_ENTRY\"'";

#[test]
fn what_failed_runs_again_as_it_was() {
    let cluster = Cluster::new();
    cluster.write("lines", "a\nc\nb\nc\n");
    cluster.write("values.json", "[\"x\", \"c\", 3]");
    cluster.fails(1, &format!("submit --name mine --cpus 2 --wait --each-line lines -- {UNTIL_FIXED}"));
    let says = "sh -c 'test -e fixed || test $HQ_TASK_ID != 1 || exit 2; echo \"$HQ_TASK_ID $HQ_ENTRY\"'";
    cluster.fails(1, &format!("submit --wait --from-json values.json -- {says}"));
    cluster.write("fixed", "");
    assert_eq!(cluster.ok("--output-mode quiet job resubmit 1"), "3\n");
    assert_eq!(cluster.ok("job resubmit 2 --failed"), "Job submitted successfully, job ID: 4\n");
    cluster.ok("job wait 3-4");
    assert_eq!(cluster.ok("job cat 3 stdout"), "1 c\n3 c\n");
    assert_eq!(cluster.ok("job cat 4 stdout"), "1 \"c\"\n");
    let info = &cluster.json("job info 3")[0];
    assert_eq!(info["info"]["name"], "mine");
    let array = |job: u32| {
        let info = cluster.json(&format!("job info {job}")).to_string();
        // Each writes into a directory of its own.
        let info = info.replace(&format!("job-{job}/"), "job-N/");
        let mut info: serde_json::Value = serde_json::from_str(&info).expect("a document");
        info[0]["submits"][0]["array"].take()
    };
    assert_eq!(array(3), array(1));
    let said = cluster.fails(1, "job resubmit 3");
    assert!(
        said.contains("Nothing to resubmit: no task of job 3 failed, was canceled or aborted."),
        "{said}"
    );
    assert_eq!(cluster.json("job resubmit 3 --tasks 1"), json!({ "id": 5, "schema_version": 1 }));
}

#[test]
fn of_a_graph_what_did_not_finish_runs_again_in_order() {
    let cluster = Cluster::new();
    let task = |id: u32, deps: &str, command: &str| {
        format!("[[task]]\nid = {id}\ncommand = [\"sh\", \"-c\", \"{command}\"]\ndeps = [{deps}]\n")
    };
    let graph = [
        task(1, "", "echo 1 >> order"),
        task(2, "1", "test -e fixed && echo 2 >> order"),
        task(3, "1, 2", "echo 3 >> order"),
        task(4, "3", "echo 4 >> order"),
    ];
    cluster.write("graph.toml", graph.concat());
    cluster.ok("job submit-file graph.toml");
    cluster.fails(1, "job wait 1");
    assert_eq!(cluster.json("job info 1")[0]["info"]["task_stats"]["aborted"], 2);
    let said = cluster.fails(1, "job resubmit 1 --tasks 3-4");
    assert!(said.contains("Task 3 of job 1 waits for task 2, which failed"), "{said}");
    cluster.write("fixed", "");
    cluster.ok("job resubmit last");
    cluster.ok("job wait last");
    assert_eq!(cluster.ok("job task-ids last"), "2-4\n");
    assert_eq!(cluster.read("order"), "1\n2\n3\n4\n");
}

#[test]
fn submits_of_an_open_job_run_again_as_one_job_after_a_restart_too() {
    let mut cluster = Cluster::server();
    cluster.ok("job open --name sweep");
    cluster.ok("submit --job 1 --array 1-3 -- sh -c 'echo $HQ_TASK_ID'");
    cluster.ok("submit --job 1 --array 10-20 -- sh -c 'echo $HQ_TASK_ID'");
    cluster.ok("job cancel 1 --tasks 2,3,10,20");
    cluster.ok("job resubmit 1 --canceled");
    cluster.server.take();
    cluster.start_server("");
    assert_eq!(cluster.ok("job task-ids 2"), "2-3,10,20\n");
    let job = &cluster.json("job info 2")[0];
    assert_eq!((&job["info"]["name"], &job["info"]["is_open"]), (&json!("sweep"), &json!(false)));
    cluster.worker("--cpus 2");
    cluster.ok("job wait 2");
    assert_eq!(cluster.ok("job cat 2 stdout"), "2\n3\n10\n20\n");
}

#[test]
fn what_is_forgotten_cannot_run_again() {
    let cluster = Cluster::server();
    cluster.ok("submit true");
    cluster.ok("job cancel 1");
    cluster.ok("job forget 1");
    assert!(cluster.fails(1, "job resubmit 1").contains("Job 1 has been forgotten"));
    assert!(cluster.fails(1, "job resubmit 2").contains("Job 2 not found."));
    assert!(cluster.fails(1, "job resubmit last").contains("There are no jobs."));
    cluster.fails(2, "job resubmit all");
    cluster.fails(2, "job resubmit 1-2");
    cluster.fails(2, "job resubmit 1 --failed --tasks 1");
}

#[test]
fn where_nothing_failed_nothing_is_told() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait true");
    assert_eq!(cluster.ok("job failures last"), "Job 1: no task failed\n");
    assert_eq!(cluster.ok("job failures all"), "No task of these jobs failed\n");
    assert_eq!(cluster.ok("--output-mode quiet job failures all"), "");
    assert_eq!(cluster.json("job failures 1")[0]["causes"], json!([]));
    assert!(cluster.fails(1, "job failures 7").contains("Job 7 not found."));
    cluster.fails(1, "submit --wait --stdout none --stderr none false");
    cluster.fails(1, "submit --wait /nonexistent/program");
    let quiet = cluster.ok("--output-mode quiet job failures all");
    assert!(quiet.starts_with("2 1 Program terminated with exit code 1.\n3 1 "), "{quiet}");
}
