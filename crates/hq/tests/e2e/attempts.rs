//! What is told of attempts that did not end their tasks.

use crate::cluster::Cluster;

const SIGKILL: i32 = 9;

#[test]
fn a_task_that_was_retried_tells_each_attempt_also_after_a_restart() {
    let mut cluster = Cluster::new();
    cluster.ok("submit --retry 2 --wait -- bash -c 'test $HQ_INSTANCE_ID = 2 || exit 7$HQ_INSTANCE_ID'");
    cluster.ok("submit --wait -- true");
    for is_restarted in [false, true] {
        if is_restarted {
            let server = cluster.server.take().expect("a server");
            server.signal(SIGKILL);
            server.end();
            cluster.start_server("");
        }
        let info = cluster.ok("task info 1 0");
        let first = info.lines().position(|line| line.contains("Other attempts")).expect("attempts");
        let lines: Vec<&str> = info.lines().skip(first).take(2).collect();
        assert!(lines[0].contains("0: worker 1, started ") && lines[0].contains("exit code 70."), "{info}");
        assert!(lines[1].contains("1: worker 1, started ") && lines[1].contains("exit code 71."), "{info}");
        let task = cluster.json("task info 1 0").as_array_mut().expect("a list").remove(0);
        assert_eq!((task["state"].as_str(), task["instance"].as_u64()), (Some("finished"), Some(2)));
        let attempts = task["attempts"].as_array().expect("attempts");
        let told: Vec<_> =
            attempts.iter().map(|attempt| (&attempt["instance"], &attempt["exit_code"])).collect();
        assert_eq!(format!("{told:?}"), "[(Number(0), Number(70)), (Number(1), Number(71))]");
        for attempt in attempts {
            assert_eq!((attempt["end"].as_str(), attempt["worker"].as_u64()), (Some("failed"), Some(1)));
            assert!(attempt["started_at"].as_str() < attempt["finished_at"].as_str(), "{attempt}");
        }
        // Whoever reads what the reference prints finds nothing new.
        assert_eq!(cluster.json("--output-version 0 task info 1 0")[0].get("attempts"), None);
        let once = cluster.json("task info 2 0");
        assert_eq!(once[0]["attempts"], serde_json::json!([]));
        assert!(!cluster.ok("task info 2 0").contains("Other attempts"));
    }
    // Whoever reads events hears the same.
    let attempts = cluster.json("task info 1 0")[0]["attempts"].take();
    let told = attempts.as_array().expect("attempts").iter().map(|attempt| {
        [&attempt["instance"], &attempt["started_at"], &attempt["finished_at"]].map(ToString::to_string)
    });
    let events = cluster.ok("journal replay --jobs 1");
    let events = events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let ended = events.filter(|line| line["event"]["type"] == "attempt-ended").map(|line| {
        assert_eq!(line["event"]["end"], "failed", "{line}");
        [&line["event"]["instance"], &line["event"]["started_at"], &line["time"]].map(ToString::to_string)
    });
    assert_eq!(ended.collect::<Vec<_>>(), told.collect::<Vec<_>>());
}
