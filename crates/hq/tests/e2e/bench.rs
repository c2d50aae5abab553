//! `hq bench`.

use std::fs::File;
use std::process::Stdio;

use crate::cluster::{Cluster, Process};
use crate::patience;

#[test]
fn how_short_tasks_may_be_is_measured_and_nothing_is_left() {
    let cluster = Cluster::new();
    let found = cluster.json("bench metg --longest 4ms --shortest 2ms --round 8ms");
    assert_eq!((&found["workers"], &found["cpus"]), (&1.into(), &4.into()), "{found}");
    let jobs = found["jobs"].as_array().expect("a list");
    assert_eq!(jobs.len(), 2, "{found}");
    for (job, length) in jobs.iter().zip([0.004, 0.002]) {
        assert_eq!((&job["length"], &job["tasks"]), (&length.into(), &32.into()), "{found}");
        let (makespan, efficiency) = (job["makespan"].as_f64(), job["efficiency"].as_f64());
        assert!(makespan.is_some_and(|makespan| makespan >= 8.0 * length), "{found}");
        assert!(efficiency.is_some_and(|efficiency| efficiency > 0.0 && efficiency <= 1.0), "{found}");
    }
    assert!(found["metg"].is_f64() && found["bound"].is_string(), "{found}");
    assert_eq!(cluster.json("job list --all").as_array().map(Vec::len), Some(0), "the jobs are forgotten");
    cluster.ok("--output-mode quiet bench metg --longest 2ms --shortest 2ms --round 2ms --keep");
    let kept = cluster.json("job list --all");
    assert_eq!(kept[0]["name"], "metg 2ms", "{kept}");
}

#[test]
fn where_nothing_can_be_measured_it_says_so() {
    let cluster = Cluster::server();
    let refused = cluster.fails(1, "bench metg");
    assert!(refused.contains("No worker with CPUs is connected"), "{refused}");
    let crossed = cluster.fails(2, "bench metg --longest 1ms --shortest 1s");
    assert!(crossed.contains("--longest 1ms is shorter than --shortest 1s"), "{crossed}");
    let none = cluster.fails(2, "bench metg --longest 0");
    assert!(none.contains("from 1ms to 1h"), "{none}");
}

#[test]
fn what_was_measured_before_an_interruption_is_shown() {
    let cluster = Cluster::new();
    let measure = "bench metg --longest 500ms --shortest 1ms --round 500ms --keep";
    let mut command = cluster.command(measure.split(' '));
    command.stdout(File::create(cluster.path("said")).expect("a file")).stderr(Stdio::null());
    let measuring = Process::start(command);
    patience::until("the second round", || match cluster.json("job list --all").as_array().map(Vec::len) {
        Some(0 | 1) | None => Err("the first one".to_owned()),
        Some(_) => Ok(()),
    });
    measuring.signal(2);
    assert_eq!(measuring.end(), 130);
    assert!(cluster.read("said").contains("500ms"), "{}", cluster.read("said"));
}
