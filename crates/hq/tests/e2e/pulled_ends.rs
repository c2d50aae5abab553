//! Those who take tasks are stopped, killed or cut off from their relay.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::cluster::{Cluster, Process};
use crate::patience;
use crate::pulled::{Relay, stop_with_relay};

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

#[test]
fn who_is_stopped_by_a_signal_gives_back_what_has_not_ended() {
    let cluster = Cluster::server();
    cluster.ok("pull create a");
    cluster.ok("pull create b");
    // One of them ends well, the other one does not. Nobody tells them of the signal.
    let pipes = ["go-a", "go-b"].map(|name| cluster.pipe(name));
    let script =
        "trap 'touch told' TERM; touch on-$HQ_PULL_NAME; cat go-$HQ_PULL_NAME; test $HQ_PULL_NAME = a";
    let mut command = cluster.command(["pull", "run", "-j", "2", "--", "sh", "-c", script]);
    command.stderr(std::fs::File::create(cluster.path("said")).expect("a file"));
    let running = Process::start(command);
    for name in ["on-a", "on-b"] {
        let is_there = || if cluster.path(name).exists() { Ok(()) } else { Err("it is not there".into()) };
        patience::until("a program", is_there);
    }
    running.signal(SIGTERM);
    is_said(
        &cluster,
        "Signal 15: no more tasks are started, and 2 programs finish first; a second signal kills running programs",
    );
    pipes.iter().for_each(|pipe| std::fs::write(pipe, "").expect("it is read"));
    assert_eq!(running.end(), 128 + SIGTERM);
    assert!(!cluster.path("told").exists(), "they may end as they like");
    is_said(&cluster, "Stopped by signal 15: 1 task was given back.");
    assert_eq!(cluster.ok("pull steal -q"), "b\n", "at once");
    assert_eq!(cluster.json("task info 1 1")[0]["crashes"], 0);
    cluster.ok("pull complete b");
    cluster.ok("pull close --bag pull");
    cluster.ok("pull wait --bag pull");
    stop_with_relay(&cluster);
}

#[test]
fn programs_of_tasks_that_are_over_end_and_what_was_tried_again_has_not_failed() {
    let cluster = Cluster::server();
    cluster.ok("pull create a --retry 1");
    let script = "test -e once || { touch once; exit 1; }";
    cluster.ok("pull close --bag pull");
    let ran = cluster.run(["pull", "run", "--", "sh", "-c", script]);
    assert_eq!((ran.exit, ran.stdout.as_str()), (0, "1 task finished, 0 failed\n"), "{ran:?}");

    cluster.ok("pull create b --bag other");
    cluster.ok("pull close --bag other");
    cluster.pipe("go");
    let script = "touch on; cat go";
    let mut command = cluster.command(["pull", "run", "--bag", "other", "--", "sh", "-c", script]);
    command.stdout(std::fs::File::create(cluster.path("said")).expect("a file"));
    let running = Process::start(command);
    let begun = || if cluster.path("on").exists() { Ok(()) } else { Err("it is not there".into()) };
    patience::until("a program", begun);
    cluster.ok("job cancel last");
    assert_eq!(running.end(), 1);
    is_said(&cluster, "0 tasks finished, 0 failed, 1 other was canceled or over time");
    stop_with_relay(&cluster);
}

fn is_said(cluster: &Cluster, expected: &str) {
    patience::until("what is said", || match std::fs::read_to_string(cluster.path("said")) {
        Ok(said) if said.contains(expected) => Ok(()),
        said => Err(format!("{said:?}")),
    });
}

#[test]
fn a_second_signal_kills_what_runs() {
    let cluster = Cluster::server();
    cluster.ok("pull create a");
    let pipe = cluster.pipe("never");
    let mut command = cluster.command(["pull", "run", "--", "sh", "-c", "trap '' TERM; touch on; cat never"]);
    command.stderr(std::fs::File::create(cluster.path("said")).expect("a file"));
    let running = Process::start(command);
    let is_there = || if cluster.path("on").exists() { Ok(()) } else { Err("it is not there".into()) };
    patience::until("a program", is_there);
    running.signal(SIGTERM);
    is_said(&cluster, "and 1 program finishes first");
    // SIGTERM so soon after the first would be taken for the same one.
    running.signal(SIGINT);
    assert_eq!(running.end(), 128 + SIGINT);
    drop(pipe);
    assert_eq!(cluster.ok("pull steal -q"), "a\n", "at once");
    stop_with_relay(&cluster);
}

// A program that has one connection for all it does says so; a shell that takes tasks by commands has none between them.
#[test]
fn what_somebody_has_whose_connection_was_cut_goes_to_others_if_it_said_so() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let mut other = relay.labeled("other");
    other.ask(&json!({"create": {"tasks": [{"name": "a"}, {"name": "b", "after": ["a"]}]}}));
    let mut line = relay.line();
    line.ask(&json!({"hello": {"label": "one", "grace": 0}}));
    assert_eq!(line.take(1)[0]["name"], "a");
    let status = other.ask(&json!({"status": {"bags": ["pull"]}}));
    let session = &status["status"]["sessions"][0];
    assert_eq!((&session["label"], &session["connected"]), (&json!("one"), &json!(true)), "{status}");
    assert_eq!((&session["tasks"][0]["name"], &session["tasks"][0]["id"]), (&json!("a"), &json!("1@0")));
    let explained = |expected: &str| {
        let mut command = cluster.command(["task", "explain", "1@0"]);
        command.env("HQ_PULL_SOCKET", &relay.path);
        // The server hears a little later who has taken it.
        patience::until("the server knows it", || {
            let told = command.output().expect("it runs").stdout;
            match String::from_utf8(told) {
                Ok(told) if told.contains(expected) => Ok(()),
                told => Err(format!("{told:?}")),
            }
        });
    };
    explained("somebody took it from the relay on ");
    explained("on this node `one` has had it for ");
    drop(line);
    assert_eq!(other.take(1)[0]["name"], "a");
    explained("`hq pull exit other` returns all of its tasks");
}

#[test]
fn a_program_ends_with_the_command_that_runs_it_also_when_that_is_killed() {
    let cluster = Cluster::server();
    cluster.ok("pull create a");
    let script = "echo $$ > pid.new; mv pid.new pid; exec sleep 1000";
    let running = Process::start(cluster.command(["pull", "run", "--", "sh", "-c", script]));
    let is_there = || if cluster.path("pid").exists() { Ok(()) } else { Err("it is not there".into()) };
    patience::until("a program", is_there);
    running.signal(SIGKILL);
    running.end();
    let process = PathBuf::from(format!("/proc/{}", cluster.read("pid").trim()));
    // One that nobody has waited for yet has no command line any more.
    let has_ended = || match std::fs::read(process.join("cmdline")) {
        Ok(words) if !words.is_empty() => Err("it runs".into()),
        _ => Ok(()),
    };
    patience::until("the end of the program", has_ended);
    stop_with_relay(&cluster);
}

// The process that listens where all commands find a relay.
fn relay_of(cluster: &Cluster) -> Pid {
    let socket = cluster.json("pull env")["socket"].as_str().expect("a path").to_owned();
    let relay = UnixStream::connect(socket).expect("a relay");
    socket_peercred(&relay).expect("a process").pid
}

#[test]
fn who_runs_programs_goes_on_when_the_relay_is_killed_and_what_was_taken_there_is_run_again() {
    let cluster = Cluster::server_with("--worker-grace 1s");
    cluster.ok("pull create a");
    cluster.ok("pull create b a");
    cluster.ok("pull close --bag pull");
    let never = cluster.pipe("never");
    let script = "echo $HQ_PULL_NAME >> all; mkdir first && { touch on; cat never; }; true";
    let mut command = cluster.command(["pull", "run", "--bag", "1", "--", "sh", "-c", script]);
    command.stderr(std::fs::File::create(cluster.path("said")).expect("a file"));
    command.stdout(std::fs::File::create(cluster.path("printed")).expect("a file"));
    let running = Process::start(command);
    let is_there = || if cluster.path("on").exists() { Ok(()) } else { Err("it is not there".into()) };
    patience::until("a program", is_there);
    // What has not begun as far as the server knows has not crashed either.
    patience::until("the server knows that it runs", || match &cluster.json("task info 1 0")[0]["state"] {
        state if state == "running" => Ok(()),
        state => Err(state.to_string()),
    });
    let killed = relay_of(&cluster);
    kill_process(killed, Signal::KILL).expect("it is there");
    assert_eq!(running.end(), 0);
    drop(never);
    is_said(
        &cluster,
        "The relay is gone: the tasks taken from it (1 task) go to others; looking for another one",
    );
    assert_eq!(cluster.read("printed"), "2 tasks finished, 0 failed\n");
    assert_eq!(cluster.read("all"), "a\na\nb\n");
    assert_ne!(relay_of(&cluster), killed);
    assert_eq!(cluster.json("task info 1 0")[0]["crashes"], 1);
    stop_with_relay(&cluster);
}

#[test]
fn who_runs_programs_ends_with_the_server() {
    let cluster = Cluster::server();
    cluster.ok("pull create a");
    let mut command = cluster.command(["pull", "run", "--", "sh", "-c", "touch on; sleep 1000"]);
    command.stderr(std::fs::File::create(cluster.path("said")).expect("a file"));
    let running = Process::start(command);
    let is_there = || if cluster.path("on").exists() { Ok(()) } else { Err("it is not there".into()) };
    patience::until("a program", is_there);
    cluster.ok("server stop");
    assert_eq!(running.end(), 3);
    is_said(&cluster, "ERROR ");
}

#[test]
fn names_of_tasks_are_those_of_the_bag_that_is_named() {
    let cluster = Cluster::server();
    for bag in ["one", "two", "three"] {
        cluster.ok(&format!("pull create a --bag {bag}"));
        cluster.ok(&format!("pull steal --bag {bag}"));
    }
    let refused = cluster.fails(1, "pull complete a");
    assert!(refused.contains("(ambiguous)"), "{refused}");
    cluster.ok("pull extend a --bag two");
    cluster.ok("pull complete a --bag two");
    assert_eq!(cluster.ok("pull look a --bag two --output-mode quiet"), "a FINISHED\n");
    let refused = cluster.fails(1, "pull fail a --bag 2");
    assert!(refused.contains("(not-held)"), "{refused}");
    let mut command = cluster.command(["pull", "release", "a"]);
    assert!(command.env("HQ_PULL_BAG", "three").status().expect("it runs").success());
    assert_eq!(cluster.ok("pull look a --bag three --output-mode quiet"), "a WAITING\n");
    cluster.ok("pull complete a");
    assert_eq!(cluster.ok("pull look a --bag one --output-mode quiet"), "a FINISHED\n");
    stop_with_relay(&cluster);
}

#[test]
fn slots_begin_as_tasks_come_and_a_signal_is_heeded_before_any_came() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    relay.line().ask(&json!({"open": {"name": "many"}}));
    let run = |script: &str| {
        let words = ["pull", "run", "--bag", "many", "-j", "99999", "--", "sh", "-c", script];
        let mut command = cluster.command(words);
        command.env("HQ_PULL_SOCKET", &relay.path);
        command.stdout(std::fs::File::create(cluster.path("said")).expect("a file"));
        Process::start(command)
    };
    let waits = || relay.line().ask(&json!({"status": {}}))["status"]["sessions"].as_array().map(Vec::len);
    let idle = run("true");
    patience::until("a session", || if waits() == Some(1) { Ok(()) } else { Err("none".into()) });
    idle.signal(SIGINT);
    assert_eq!(idle.end(), 128 + SIGINT);

    // As many as there are tasks run beside each other.
    let tasks = [1, 2, 3].map(|number| json!({"name": number.to_string()}));
    relay.line().ask(&json!({"create": {"bag": "many", "tasks": tasks}}));
    relay.line().ask(&json!({"close": {"bag": "many"}}));
    let pipes = ["go-1", "go-2", "go-3"].map(|name| cluster.pipe(name));
    let running = run("touch on-$HQ_PULL_NAME; cat go-$HQ_PULL_NAME");
    for name in ["on-1", "on-2", "on-3"] {
        let is_there = || if cluster.path(name).exists() { Ok(()) } else { Err("it is not there".into()) };
        patience::until("a program", is_there);
    }
    pipes.iter().for_each(|pipe| std::fs::write(pipe, "").expect("it is read"));
    assert_eq!(running.end(), 0);
    is_said(&cluster, "3 tasks finished, 0 failed");
}

#[test]
fn where_only_some_slots_can_be_had_these_do_all_of_the_work() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let tasks: Vec<_> = (0..60).map(|number| json!({"name": format!("task-{number}")})).collect();
    relay.line().ask(&json!({"create": {"bag": "many", "tasks": tasks}}));
    relay.line().ask(&json!({"close": {"bag": "many"}}));
    let hq = env!("CARGO_BIN_EXE_hq");
    let script = format!("ulimit -n 40; exec timeout 60 {hq} pull run --bag many -j 99 -- sleep 0.2");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(cluster.work());
    command.env("HQ_SERVER_DIR", cluster.server_dir()).env("HQ_PULL_SOCKET", &relay.path);
    let said = command.output().expect("sh can be run");
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success() && out.contains("60 tasks finished, 0 failed"), "{said:?}");
    assert!(err.contains("At most "), "{err}");
}

#[test]
fn whoever_has_as_many_tasks_as_may_be_is_told_so() {
    let cluster = Cluster::server();
    let names: String = (0..100_000).map(|task| format!("t{task}\n")).collect();
    cluster.write("names", names);
    cluster.ok("pull addfile names");
    cluster.ok("pull create one-more");
    let mut taken = 0;
    while taken < 100_000 {
        taken += cluster.ok("pull steal -q -n 100000 --wait --as one").lines().count();
    }
    let refused = cluster.fails(5, "pull steal --wait --as one");
    assert!(refused.contains("this session has 100000 tasks, and can have no more"), "{refused}");
    assert_eq!(cluster.ok("pull steal -q --as other"), "one-more\n");
    stop_with_relay(&cluster);
}
