//! The disk of the journal is full, and the workers' connections are cut: they and their tasks stay.

use super::{SERVER, WORKER, size};
use crate::cluster::{Cluster, Where};
use crate::patience::until;

#[test]
fn attack_workers_that_are_cut_from_a_server_with_a_full_disk_keep_their_tasks() {
    let cluster = match Cluster::start_with(Where::RelayedSmallDisk, SERVER, WORKER) {
        Ok(cluster) => cluster,
        Err(refused) => return eprintln!("left out, for this system does not permit it: {refused}"),
    };
    let rounds = size(1, 10);
    for round in 0..rounds {
        let marks = cluster.root().join(format!("marks-{round}"));
        let script = format!(
            "echo $HQ_TASK_ID $HQ_INSTANCE_ID >> {0}; while [ ! -e {0}.go ]; do sleep 0.1; done",
            marks.display()
        );
        cluster.ok(&[
            "submit",
            "--array",
            "1-8",
            "--crash-limit",
            "never-restart",
            "--",
            "sh",
            "-c",
            &script,
        ]);
        let started = || std::fs::read_to_string(&marks).unwrap_or_default().lines().count();
        until("all run", || (started() == 8).then_some(()).ok_or_else(|| format!("{} of 8 run", started())));
        let full = cluster.full_disk();
        // The one that meets the full disk waits for room, and those after it are refused. It is larger than what is
        // left of the last page.
        let mut waits = cluster.hq(&["submit", "--", "true", &"x".repeat(20_000)]);
        until("the server sees that the disk is full", || match cluster.ok(&["server", "info"]) {
            info if info.contains("could not be written since") => Ok(()),
            info => Err(info),
        });
        let refused = cluster.ask(&["submit", "--", "true"]);
        assert!(!refused.is_success(), "there is no room for a submit: {refused:?}");
        cluster.cut_relay();
        // Reading goes on, and the workers come back.
        until("both workers are connected again", || {
            let online = cluster.ok(&["--output-mode", "quiet", "worker", "list"]);
            let running = online.lines().filter(|line| line.ends_with(" RUNNING")).count();
            (cluster.relayed() >= 2 && running == 2).then_some(()).ok_or(online)
        });
        drop(full);
        std::fs::write(format!("{}.go", marks.display()), "").expect("a file");
        waits.wait();
        cluster.ok(&["job", "wait", "all"]);
        let text = std::fs::read_to_string(&marks).expect("marks");
        assert!(text.lines().all(|line| line.ends_with(" 0")), "each started once: {text}");
        assert_eq!(text.lines().count(), 8, "each started once: {text}");
    }
    eprintln!("{rounds} full disks with cut connections: no worker and no task was lost");
}
