//! What only a person at a terminal is told.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Stdio;

use crate::cluster::{Cluster, Place};
use crate::patience;

// Runs `hq` with a terminal as its standard input and error: the answer, and what the terminal shows.
fn on_terminal(place: &Place, line: &str) -> (String, String) {
    let (mut master, mut slave) = (-1, -1);
    let none = std::ptr::null_mut();
    #[expect(unsafe_code, reason = "there is no safe way to make a terminal")]
    // SAFETY: both places for descriptors are valid, and nothing else is asked for.
    let opened = unsafe { libc::openpty(&mut master, &mut slave, none, none.cast(), none.cast()) };
    assert_eq!(opened, 0, "a terminal can be made");
    #[expect(unsafe_code, reason = "these are new descriptors")]
    // SAFETY: nobody else has these.
    let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let mut command = place.command(shlex::split(line).expect("words"));
    let input = slave.try_clone().expect("another descriptor");
    let child = command.stdin(input).stdout(Stdio::piped()).stderr(slave).spawn().expect("hq can be run");
    // It holds the terminal as well.
    drop(command);
    let mut shown = Vec::new();
    // A terminal without a program at its other end cannot be read.
    let _ = File::from(master).read_to_end(&mut shown);
    let answer = child.wait_with_output().expect("hq ends").stdout;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace('\r', "");
    (text(answer), text(shown))
}

#[test]
fn who_waits_for_nobody_is_told_what_to_do_and_programs_read_the_answer_alone() {
    let mut cluster = Cluster::server();
    cluster.write("slurm.sh", "#!/bin/sh\n#SBATCH --ntasks=4\ntrue\n");
    let (answer, shown) = on_terminal(&cluster, "submit slurm.sh");
    assert_eq!(answer, "Job submitted successfully, job ID: 1\n");
    assert!(shown.contains("The script has #SBATCH lines, which are ignored"), "{shown}");
    assert!(
        shown.contains(
            "No worker is connected, so nothing is running yet: start one here with `hq worker \
        start`"
        ),
        "{shown}"
    );
    let (_, shown) = on_terminal(&cluster, "submit --gpus 1 'echo hi'");
    assert!(shown.contains("omit the quotes, or use a shell: sh -c 'echo hi'"), "{shown}");
    let ran = cluster.hq("submit slurm.sh");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("Job submitted successfully, job ID: 3\n", ""));
    cluster.ok("job cancel all");

    cluster.worker("--cpus 1");
    cluster.ok("job open");
    let (_, shown) = on_terminal(&cluster, "submit --cpus 2 --job 4 true");
    assert!(shown.contains("WARN No worker could ever run these tasks"), "{shown}");
    assert_eq!(cluster.hq("submit --cpus 2 --job 4 true").stderr, "");
}

#[test]
fn a_server_is_not_stopped_at_a_terminal_while_tasks_run() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 2");
    cluster.ok("submit --array 1-2 -- sleep 1000");
    patience::until(
        "both tasks run",
        || match cluster.json("job info 1")[0]["info"]["task_stats"]["running"].as_u64() {
            Some(2) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    );
    let (_, shown) = on_terminal(&cluster, "server stop");
    assert!(shown.contains("stopping the server would kill 2 tasks that run, of 1 job"), "{shown}");
    assert!(shown.contains("`hq server stop --force`"), "{shown}");
    assert_eq!(cluster.ok("--output-mode quiet job list"), "1 RUNNING\n");
    let (_, shown) = on_terminal(&cluster, "server stop --force");
    assert_eq!(shown, "The server is stopping\n");
}

#[test]
fn a_bar_is_drawn_when_there_is_something_to_show() {
    let cluster = Cluster::new();
    let (_, shown) = on_terminal(&cluster, "submit --progress --array 1-3 -- sleep 0.3");
    assert!(shown.contains("/3 ") && !shown.contains("0/0"), "{shown}");
    let (_, shown) = on_terminal(&cluster, "job progress 1");
    assert!(!shown.contains("0/0") && !shown.contains("/s, "), "{shown}");
}
