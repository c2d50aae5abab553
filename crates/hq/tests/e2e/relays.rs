//! Relays whose files are removed under them or whose worker is interrupted, who gets what from them, and what commands say of and to
//! them.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::cluster::{Cluster, Process};
use crate::patience;

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;

fn socket(cluster: &Cluster) -> PathBuf {
    PathBuf::from(cluster.json("pull env")["socket"].as_str().expect("a path"))
}

fn stop(cluster: &Cluster) {
    let socket = socket(cluster);
    cluster.ok("server stop");
    let ended = || if socket.exists() { Err("it is there".into()) } else { Ok(()) };
    patience::until("the end of the relay", ended);
}

#[test]
fn a_relay_whose_files_a_cleaner_removed_is_found_again_with_what_it_has() {
    let cluster = Cluster::server();
    cluster.ok("pull create a");
    cluster.ok("pull create b");
    cluster.ok("pull steal -q");
    let socket = socket(&cluster);
    for files in [vec![socket.clone()], vec![socket.clone(), socket.with_extension("lock")]] {
        files.iter().for_each(|file| fs::remove_file(file).expect("there"));
        let status = cluster.ok("pull status");
        assert!(status.contains("1 taken") || files.len() == 2, "{status}");
    }
    stop(&cluster);
}

#[test]
fn a_worker_that_is_interrupted_leaves_nothing_of_its_relay() {
    let cluster = Cluster::server();
    let worker = Process::start(cluster.command("worker start --cpus 1 --pull".split(' ')));
    cluster.ok("worker wait 1");
    let directory = cluster.root().join("hq");
    assert!(directory.exists());
    worker.signal(SIGINT);
    worker.end();
    let ended = || if directory.exists() { Err("it is there".into()) } else { Ok(()) };
    patience::until("the end of the relay", ended);
}

#[test]
fn commands_say_what_is_refused_on_standard_error_and_ids_when_they_are_to_be_quiet() {
    let cluster = Cluster::server();
    assert_eq!(cluster.ok("pull open dock --output-mode quiet"), "1\n");
    assert_eq!(cluster.ok("pull create a --bag dock --output-mode quiet"), "1\n");
    assert_eq!(cluster.ok("pull create a --bag other --output-mode quiet"), "2\n");
    for mode in ["cli", "quiet"] {
        let ran = cluster.hq(&format!("pull complete nosuch --output-mode {mode}"));
        assert_eq!((ran.exit, ran.stdout.as_str()), (1, ""));
        let text = "nosuch: no task of bags 1 (`dock`), 2 (`other`) has this name: `hq pull create` makes one (not-held)";
        assert!(ran.stderr.contains(text), "{}", ran.stderr);
    }
    let waits = cluster.fails(1, "pull complete a --bag other");
    assert!(
        waits.contains("a: it is waiting in bag 2 (`other`); nobody has such a task here now:"),
        "{waits}"
    );
    assert_eq!(cluster.ok("pull steal --bag other --output-mode quiet"), "a\n");
    let others = cluster.fails(1, "pull complete a --as somebody");
    assert!(others.contains("has it and not this session: `--as "), "{others}");
    let relay = cluster.ok("worker list");
    assert!(relay.contains("tasks of bag 2") && !relay.contains("pulled/"), "{relay}");
    cluster.ok("pull complete a");
    assert_eq!(cluster.ok("pull look a --bag dock --output-mode quiet"), "a WAITING\n");
    assert_eq!(cluster.ok("pull look a --bag other --output-mode quiet"), "a FINISHED\n");
    assert_eq!(cluster.ok("pull status dock --output-mode quiet"), "1 WAITING\n");
    let refused = cluster.fails(2, "pull steal --lease 0s");
    assert!(refused.contains("less than 0.1 s"), "{refused}");
    stop(&cluster);
}

#[test]
fn bytes_that_are_no_text_are_in_json() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1");
    cluster.ok("submit --wait --result file:out -- sh -c 'printf \"a\\377\" > out'");
    let result = &cluster.json("job result 1")[0];
    assert_eq!((&result["result"], &result["result_base64"]), (&"a\u{fffd}".into(), &"Yf8=".into()));
    assert_eq!(cluster.json("task info 1 0")[0]["result_base64"], "Yf8=");
    cluster.ok("submit --wait --result last-line -- echo text");
    assert!(cluster.json("job result 2")[0].get("result_base64").is_none());
}

#[test]
fn what_cannot_be_a_bag_a_payload_or_a_task_is_refused_with_its_place() {
    let cluster = Cluster::server();
    cluster.ok("pull create a");
    assert!(cluster.fails(2, "pull open 1").contains("take a name that is no number"));
    let refused = cluster.fails(1, "pull create b --payload @/dev/zero");
    assert!(refused.contains("more than 65536 bytes"), "{refused}");
    let refused = cluster.fails(1, "pull addfile /dev/zero");
    assert!(refused.contains("Line 1 of /dev/zero"), "{refused}");
    cluster.write("tasks", "c\nd,nosuch\n");
    let refused = cluster.fails(1, "pull addfile tasks");
    assert!(refused.contains("Line 2 of tasks: ") && refused.contains("`--missing-is-done`"), "{refused}");
    let refused = cluster.fails(1, "pull addfile tasks --bag new");
    assert!(refused.contains("no task has the name `nosuch`, for the bag is new"), "{refused}");
    assert_eq!(cluster.ok("pull create a --bag new"), "1 new in bag 2\n", "what was refused cost no id");
    cluster.ok("pull close new");
    let refused = cluster.fails(1, "pull create b --bag 2");
    assert!(
        refused.contains("bag 2 is closed and takes no more tasks; `hq pull open NAME` makes"),
        "{refused}"
    );
    let refused = cluster.fails(1, "pull complete -");
    assert!(refused.contains("standard input contains no task names"), "{refused}");
    let refused = cluster.fails(2, "pull steal --wait 1");
    assert!(refused.contains("use `--wait=1`"), "{refused}");
    stop(&cluster);
}

#[test]
fn what_nobody_was_told_of_is_given_back() {
    let cluster = Cluster::server();
    cluster.ok("pull create a");
    let mut command = cluster.command(["pull", "steal"]);
    let full = fs::File::options().write(true).open("/dev/full").expect("a full device");
    let ran = command.stdout(full).stderr(Stdio::piped()).output().expect("run");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(1) && said.contains("have been returned: 1@0"), "{said}");
    assert_eq!(cluster.ok("pull steal -q"), "a\n");
    stop(&cluster);
}

#[test]
fn who_asks_while_the_server_is_away_is_told_so_and_nothing_is_done_later() {
    let mut cluster = Cluster::server();
    cluster.ok("pull create a");
    let server = cluster.server.take().expect("running");
    server.signal(SIGKILL);
    server.end();
    for asked in ["pull create b", "pull status"] {
        let refused = cluster.fails(3, asked);
        assert!(refused.contains("the server does not answer at the moment"), "{refused}");
    }
    cluster.start_server("");
    cluster.ok("pull create c");
    let looked = cluster.hq("pull look a b c");
    assert_eq!(looked.stdout, "a waiting\nb unknown\nc waiting\n");
    stop(&cluster);
}

#[test]
fn a_program_of_a_puller_leaves_any_bytes_and_is_counted_in_one_document() {
    let cluster = Cluster::server();
    cluster.ok("pull create a");
    cluster.ok("pull create b");
    cluster.ok("pull close");
    cluster.write("print", "echo more; printf '\\377\\n'; test $HQ_PULL_NAME = a");
    let ran = cluster.hq("pull run --output-mode json --last-line -- sh print");
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one document");
    assert_eq!((&document["finished"], &document["failed"]), (&1.into(), &1.into()));
    assert_eq!(cluster.json("job result 1")[0]["result_base64"], "/w==");
    cluster.ok("pull create c --bag more");
    cluster.ok("pull close more");
    let ran = cluster.hq("pull run --bag more --output-mode json -- echo aside");
    assert_eq!((ran.exit, ran.stderr.as_str()), (0, "aside\n"));
    serde_json::from_str::<serde_json::Value>(&ran.stdout).expect("one document");
    stop(&cluster);
}

#[test]
fn all_workers_are_stopped_without_relays_and_it_is_said() {
    let mut cluster = Cluster::server();
    cluster.ok("pull create a");
    cluster.ok("pull steal -q");
    cluster.worker("--cpus 1");
    let stopped = cluster.hq("worker stop all");
    assert!(stopped.stderr.contains("Worker 2 is stopping\nRelay 1 was not stopped, "), "{stopped:?}");
    cluster.ok("pull complete a");
    stop(&cluster);
}

#[test]
fn a_task_is_taken_by_those_alone_who_have_its_tags() {
    let cluster = Cluster::server();
    cluster.ok("pull create fold --needs gpu --needs big");
    cluster.ok("pull create plain");
    assert_eq!(cluster.ok("pull steal -q -n 9"), "plain\n");
    let explained = cluster.ok("task explain 1 0");
    assert!(explained.contains("it waits for somebody with the tags big, gpu"), "{explained}");
    assert_eq!(cluster.hq("pull steal -q --tag gpu").exit, 1, "it lacks one");
    assert_eq!(cluster.ok("pull steal -q --tag big --tag gpu"), "fold\n");
    cluster.ok("pull complete fold plain");
    cluster.write("tasks", "a\nb,a\n");
    cluster.ok("pull addfile tasks --needs gpu");
    cluster.ok("pull close");
    assert_eq!(cluster.ok("pull run --tag gpu -- true"), "2 tasks finished, 0 failed\n");
    for command in ["create x --needs a/b", "steal --tag a/b", "run --tag a/b -- true"] {
        let refused = cluster.hq(&format!("pull {command}"));
        assert!(refused.exit != 0 && refused.stderr.contains("`a/b` is no tag"), "{}", refused.stderr);
    }
    stop(&cluster);
}

#[test]
fn a_bag_that_was_submitted_again_is_found_by_its_name() {
    let cluster = Cluster::server();
    cluster.write("tasks", "a\nb\n");
    cluster.ok("pull addfile tasks --bag v");
    cluster.ok("pull close v");
    assert_eq!(cluster.hq("pull run --bag v -- false").exit, 1);
    assert!(cluster.ok("pull look a --bag v").contains("failed"));
    cluster.ok("pull status v");
    cluster.ok("job resubmit last --failed");
    assert_eq!(cluster.ok("pull steal -q --bag v"), "a\n");
    cluster.ok("pull complete a");
    assert_eq!(cluster.ok("pull run --bag v -- true"), "1 task finished, 0 failed\n");
    stop(&cluster);
}
