//! Launchers are killed and frozen, tasks leave processes behind that hide: nothing of an attempt outlives it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{SERVER, WORKER, size};
use crate::cluster::{Cluster, Where};
use crate::patience::until;

fn lives(pid: u32) -> bool {
    // One that has ended and was not waited for does nothing any more.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

fn pids(file: &Path) -> Vec<u32> {
    fs::read_to_string(file).unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect()
}

fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(status.expect("kill can be run").success());
}

#[test]
fn attack_a_task_kills_its_launcher_and_nothing_of_it_runs_beside_the_next_instance() {
    let mut cluster = Cluster::start_with(Where::Here, SERVER, WORKER).expect("a cluster");
    let rounds = size(2, 40);
    for round in 0..rounds {
        let file = cluster.root().join(format!("launcher-{round}"));
        // The first instance leaves children in its session and in another one, and kills its launcher.
        let script = format!(
            "cd {root}; n=$HQ_INSTANCE_ID\n\
             if [ $n -gt 0 ]; then for i in 1 2 3 4 5 6 7 8 9 10; do echo $n >> {file}; sleep 0.05; done; exit 0; fi\n\
             sh -c 'while :; do echo 0 >> {file}; sleep 0.01; done' &\n\
             setsid sh -c 'while :; do echo 0 >> {file}; sleep 0.01; done' &\n\
             while [ ! -s {file} ]; do sleep 0.01; done\n\
             kill -KILL $PPID; sleep 600",
            root = cluster.root().display(),
            file = file.display(),
        );
        cluster.ok(&["submit", "--wait", "--", "sh", "-c", &script]);
        let text = fs::read_to_string(&file).expect("marks");
        let first = text.lines().position(|line| line != "0").expect("a second instance");
        let beside = text.lines().skip(first).filter(|&line| line == "0").count();
        assert_eq!(beside, 0, "round {round}: the first instance wrote {beside} lines beside the next one");
        // A worker leaves with its launcher.
        let ended: Vec<usize> = (0..2).filter(|&index| cluster.worker_has_ended(index)).collect();
        assert_eq!(ended.len(), 1, "round {round}: the worker without a launcher has left");
        cluster.kill_worker(ended[0]);
    }
    eprintln!("{rounds} launchers killed by their tasks: nothing ran beside the next instance");
}

#[test]
fn attack_children_in_sessions_of_their_own_end_with_a_cancel_and_a_time_limit() {
    let cluster = Cluster::start_with(Where::Here, SERVER, WORKER).expect("a cluster");
    let rounds = size(1, 20);
    for round in 0..rounds {
        for way in ["cancel", "limit"] {
            let file = cluster.root().join(format!("{way}-{round}"));
            // Some also are children of nobody.
            let script = format!(
                "for i in 1 2 3; do setsid sh -c 'trap \"\" TERM; echo $$ >> {0}; while :; do sleep 0.2; done' & done\n\
                 (setsid sh -c 'trap \"\" TERM; echo $$ >> {0}; while :; do sleep 0.2; done' & )\n\
                 sleep 600",
                file.display()
            );
            let limit = if way == "limit" { "2s" } else { "10m" };
            cluster.ok(&["submit", "--array", "1-3", "--time-limit", limit, "--", "sh", "-c", &script]);
            until("they run", || (pids(&file).len() == 12).then_some(()).ok_or("they do not".to_owned()));
            if way == "cancel" {
                cluster.ok(&["job", "cancel", "last"]);
            }
            cluster.ask(&["job", "wait", "last"]);
            let left = || pids(&file).into_iter().filter(|&pid| lives(pid)).count();
            until("what they left ends", || match left() {
                0 => Ok(()),
                left => Err(format!("{left} of 12 processes live after the {way}")),
            });
        }
    }
    eprintln!("{rounds} cancels and time limits: no process in a session of its own was left");
}

#[test]
fn attack_a_worker_with_a_frozen_launcher_leaves_with_its_tasks() {
    let mut cluster = Cluster::start_with(Where::Here, SERVER, WORKER).expect("a cluster");
    let file = cluster.root().join("frozen");
    let script = format!("echo $$ >> {}; sleep 600", file.display());
    cluster.ok(&["submit", "--array", "1-8", "--", "sh", "-c", &script]);
    until("they run", || (pids(&file).len() == 8).then_some(()).ok_or("they do not".to_owned()));
    let launchers = [cluster.launcher_pid(0), cluster.launcher_pid(1)];
    launchers.iter().for_each(|&pid| signal("-STOP", pid));
    cluster.ok(&["worker", "stop", "all"]);
    for index in 0..2 {
        until("the worker leaves", || {
            if cluster.worker_has_ended(index) { Ok(()) } else { Err(format!("worker {index} lives")) }
        });
    }
    let left: Vec<u32> = pids(&file).into_iter().chain(launchers).filter(|&pid| lives(pid)).collect();
    until("nothing is left", || match left.iter().find(|&&pid| lives(pid)) {
        None => Ok(()),
        Some(pid) => Err(format!("process {pid} lives")),
    });
    eprintln!("two workers with frozen launchers left with all of their tasks");
}
