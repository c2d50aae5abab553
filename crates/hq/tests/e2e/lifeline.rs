//! Servers and workers on a lifeline: they end with whoever started them.

use std::process::{Command, Stdio};

use crate::cluster::{Place, Process, is_alive};
use crate::patience;

// `hq` on a pipe; what it needs to be let go comes with it.
fn on_a_pipe(place: &Place, line: &str) -> (Process, std::io::PipeWriter) {
    let (end, lifeline) = std::io::pipe().expect("a pipe");
    let mut command = place.command(line.split(' '));
    command.stdin(end).stdout(Stdio::null()).stderr(Stdio::null());
    (Process::start(command), lifeline)
}

#[test]
fn a_closed_pipe_ends_them_and_what_runs() {
    let place = Place::new();
    let (server, of_server) = on_a_pipe(&place, "server start --host localhost --lifeline");
    place.ok("server wait --timeout 60s");
    let (worker, of_worker) = on_a_pipe(&place, "worker start --lifeline");
    let pipe = place.pipe("told");
    let mut submit = place.command(["submit", "--", "sh", "-c", "echo $$ > told; exec sleep 1000"]);
    assert!(submit.stdout(Stdio::null()).status().expect("hq can be run").success());
    let task = place.line_from(&pipe);
    assert!(is_alive(&task));
    drop(of_worker);
    assert_eq!(worker.end(), 0);
    patience::until("the task ends with its worker", || {
        if is_alive(&task) { Err("it runs".into()) } else { Ok(()) }
    });
    assert_eq!(place.json("server info")["schema_version"], 1, "the server has a lifeline of its own");
    drop(of_server);
    assert_eq!(server.end(), 0);
    assert!(place.server_dir().join("hq-current").symlink_metadata().is_err(), "it ended cleanly");
}

#[test]
fn they_end_with_a_program_that_is_killed() {
    let place = Place::new();
    place.pipe("life");
    // What it starts has no end for writing: that is opened afterwards.
    let script = format!(
        "{} server start --host localhost --lifeline <life >server.out 2>&1 & exec 9>life; echo $! >pid; wait",
        env!("CARGO_BIN_EXE_hq")
    );
    let mut parent = Command::new("sh");
    parent.args(["-c", &script]).current_dir(place.work()).env("HQ_SERVER_DIR", place.server_dir());
    let parent = Process::start(parent);
    place.ok("server wait --timeout 60s");
    let server = place.read("pid").trim().to_owned();
    assert!(is_alive(&server));
    parent.signal(libc::SIGKILL);
    assert_eq!(parent.end(), 128 + libc::SIGKILL);
    patience::until("the server ends", || if is_alive(&server) { Err("it runs".into()) } else { Ok(()) });
    assert!(place.server_dir().join("hq-current").symlink_metadata().is_err(), "it ended cleanly");
}

#[test]
fn a_server_in_the_background_has_none() {
    let error = Place::new().fails(2, "server start --detach --lifeline");
    assert!(error.contains("cannot be used with"), "{error}");
}
