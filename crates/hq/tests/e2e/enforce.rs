//! Tasks are held to what they asked for, and nothing is left of it on the node.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cluster::Cluster;

const HOG: &str = r#"sh -c 'x=$(head -c 90000000 /dev/zero | tr "\0" x); sleep 60'"#;

// Control groups of the workers with this process id.
fn groups_of(pid: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((directory, depth)) = next.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if !path.is_dir() || path.is_symlink() {
                continue;
            }
            if entry.file_name().to_string_lossy().starts_with(&format!("hq-{pid}-")) {
                found.push(path);
            } else if depth < 5 {
                next.push((path, depth + 1));
            }
        }
    }
    found
}

// True when groups of version 1 for memory and CPU time can be made beside that of this process.
fn has_version_1() -> bool {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let may_make = |controller: &str| {
        let has =
            |line: &&str| line.split(':').nth(1).is_some_and(|list| list.split(',').any(|c| c == controller));
        let Some(path) = text.lines().find(has).and_then(|line| line.splitn(3, ':').nth(2)) else {
            return false;
        };
        let probe = Path::new("/sys/fs/cgroup").join(controller).join(path.trim_matches('/'));
        let probe = probe.join(format!("probe-{}", std::process::id()));
        fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).is_ok()
    };
    may_make("memory") && may_make("cpu")
}

#[test]
fn a_task_over_its_memory_fails_and_says_what_it_asked_for_and_used() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 4 --detect-resources none --resource mem=sum(2GiB) --enforce memory,cpu");
    let pid = cluster.workers[0].id();
    cluster.ok(&format!("submit --resource mem=48MiB -- {HOG}"));
    cluster.fails(1, "job wait 1");
    let error = cluster.json("task info 1 0")[0]["error"].as_str().expect("an error").to_owned();
    assert!(error.starts_with("The task used more memory than it requested: 48 MiB requested, "), "{error}");
    // Within what was asked for, or nothing asked for.
    let small = HOG.replace("sleep 60", "true");
    cluster.ok(&format!("submit --wait --resource mem=1GiB -- {small}"));
    cluster.ok(&format!("submit --wait -- {small}"));
    cluster.ok("submit --wait --resource mem=1GiB --cpus 2 -- cat /proc/self/cgroup");
    if has_version_1() {
        let groups = cluster.ok("job cat 4 stdout");
        let is_in = |controller: &str| {
            groups.lines().any(|l| {
                l.contains(controller) && l.contains(&format!("/hq-{pid}-")) && l.ends_with("/task-4-0-0")
            })
        };
        assert!(is_in("memory") && is_in("cpu"), "{groups}");
        assert!(!groups_of(pid).is_empty());
    }
    cluster.ok("worker stop 1");
    cluster.workers.pop().expect("a worker").end();
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
}

#[test]
fn the_next_worker_removes_what_one_that_was_killed_left() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1 --detect-resources none --resource mem=sum(2GiB) --enforce memory");
    let pipe = cluster.pipe("started");
    cluster
        .ok("submit --resource mem=64MiB --crash-limit never-restart -- sh -c 'echo up >started; sleep 60'");
    assert_eq!(cluster.line_from(&pipe), "up");
    let pid = cluster.workers[0].id();
    cluster.workers[0].signal(9);
    cluster.workers.pop().expect("a worker").end();
    // The one that was killed counts for some time, so that others cannot be counted.
    let args = ["worker", "start", "--cpus", "1", "--detect-resources", "none", "--enforce", "memory"];
    let mut next = cluster.command(args);
    next.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    cluster.workers.push(crate::cluster::Process::start(next));
    cluster.ok("submit --wait -- true");
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
}

#[test]
fn what_may_be_enforced_is_said() {
    let cluster = crate::cluster::Place::new();
    let error = cluster.fails(2, "worker start --enforce disk");
    assert!(error.contains("`disk` is not memory, cpu or none"), "{error}");
}
