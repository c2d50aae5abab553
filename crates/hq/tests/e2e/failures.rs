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
    let killed = "10 Program terminated with exit code 137. Received signal 9 (SIGKILL).";
    assert_eq!(lines, [killed, "10 Program terminated with exit code 3."]);
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
