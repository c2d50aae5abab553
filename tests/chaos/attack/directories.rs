//! Directories vanish below those who use them, and others may write where keys are kept.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use super::{SERVER, WORKER, is_root};
use crate::cluster::{Cluster, Where};
use crate::patience::until;

#[test]
fn attack_a_worker_whose_directory_has_vanished_fails_no_task() {
    let worker = "worker start --cpus 4 --heartbeat 500ms --work-dir scratch";
    let cluster = Cluster::start_with(Where::Here, SERVER, worker).expect("a cluster");
    cluster.ok(&[
        "submit",
        "--wait",
        "--array",
        "1-8",
        "--task-dir",
        "--",
        "sh",
        "-c",
        "test -d \"$HQ_TASK_DIR\"",
    ]);
    // The workers may put it back while it is being removed.
    let _ = fs::remove_dir_all(cluster.root().join("scratch"));
    let script = "test -d \"$HQ_TASK_DIR\" && hq task notify here";
    let script = script.replace("hq ", &format!("{} ", env!("CARGO_BIN_EXE_hq")));
    cluster.ok(&["submit", "--array", "1-50", "--task-dir", "--", "sh", "-c", &script]);
    let answer = cluster.ask(&["job", "wait", "last"]);
    let list = cluster.ok(&["job", "list", "--all"]);
    assert!(answer.is_success(), "50 tasks run on workers whose directory had vanished: {answer:?}\n{list}");
}

#[test]
fn attack_a_server_whose_journal_was_deleted_acknowledges_nothing_that_is_lost() {
    let mut cluster = Cluster::start_with(Where::Here, SERVER, WORKER).expect("a cluster");
    cluster.ok(&["submit", "--wait", "--", "true"]);
    fs::remove_dir_all(cluster.server_dir().join("journal")).expect("the journal");
    // The one that meets it waits until the journal is back.
    let mut waits = cluster.hq(&["submit", "--", "true"]);
    until("the server sees that its journal is gone", || match cluster.ok(&["server", "info"]) {
        info if info.contains("could not be written since") => Ok(()),
        info => Err(info),
    });
    for _ in 0..5 {
        let answer = cluster.ask(&["--output-mode", "quiet", "submit", "--", "true"]);
        assert!(!answer.is_success(), "acknowledged by a server without a journal: {answer:?}");
    }
    cluster.end_server();
    waits.wait();
    // It does not begin with job 1 either.
    let answer = cluster.ask(&["server", "start", "--host", "localhost"]);
    assert!(!answer.is_success() && answer.stderr.contains("there is none at"), "{answer:?}");
    eprintln!("a deleted journal: 5 of 5 submits refused, and a start without it");
}

#[test]
fn attack_directories_and_keys_that_others_may_write_are_refused() {
    let cluster = Cluster::start_with(Where::Here, SERVER, WORKER).expect("a cluster");
    let server = cluster.server_dir();
    let current = fs::canonicalize(server.join("hq-current")).expect("a link");
    let refused = |what: &str| {
        for command in [&["job", "list"][..], &["worker", "start", "--cpus", "1"]] {
            let answer = cluster.ask(command);
            assert!(!answer.is_success(), "{what}: {command:?} trusts it");
            assert!(answer.stderr.contains("ch"), "it says how to mend it: {answer:?}");
        }
    };
    for (path, lax) in [(&server, 0o777), (&current, 0o770), (&current.join("access.json"), 0o666)] {
        let strict = fs::metadata(path).expect("it is there").permissions();
        fs::set_permissions(path, Permissions::from_mode(lax)).expect("ours");
        refused(&format!("{} of mode {lax:o}", path.display()));
        fs::set_permissions(path, strict).expect("ours");
        cluster.ok(&["job", "list"]);
    }
    if !is_root() {
        return eprintln!("left out: only root can make a directory of somebody else");
    }
    // Somebody else's server in the way of the victim's workers.
    let foreign = cluster.root().join("foreign");
    fs::create_dir(&foreign).expect("a directory");
    fs::copy(current.join("access.json"), foreign.join("access.json")).expect("a file");
    for path in [&foreign.join("access.json"), &foreign] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).expect("root may");
    }
    let link = server.join("hq-current");
    let own = fs::read_link(&link).expect("a link");
    fs::remove_file(&link).expect("ours");
    symlink(&foreign, &link).expect("a link");
    refused("the directory of another user");
    fs::remove_file(&link).expect("ours");
    symlink(own, &link).expect("a link");
    until("ours is found again", || match cluster.ask(&["job", "list"]) {
        answer if answer.is_success() => Ok(()),
        answer => Err(answer.stderr),
    });
}
