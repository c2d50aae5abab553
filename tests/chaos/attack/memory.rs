//! After each kind of load has ended and was forgotten, the server is about as small as before.

use std::fmt::Write as _;
use std::fs;

use super::{SERVER, memory_mb, size};
use crate::cluster::{Cluster, Where};
use crate::patience::until;

const WORKER: &str = "worker start --executor null --cpus 4 --heartbeat 500ms";
/// How much larger than before it may be, in megabytes.
const STAYS_MB: f64 = 64.0;

fn forget_all(cluster: &Cluster) {
    cluster.wait_for_all();
    cluster.ok(&["job", "forget", "all"]);
    cluster.ok(&["journal", "prune"]);
}

fn is_back(cluster: &Cluster, before: f64, what: &str) {
    let now = || memory_mb(cluster.server_pid());
    let most = now();
    until("memory is given back", || match now() {
        now if now < before + STAYS_MB => Ok(()),
        now => Err(format!("{before:.0} MB before, {now:.0} MB after {what} had ended and were forgotten")),
    });
    eprintln!(
        "{what}: {before:.0} MB before, {most:.0} MB with all of it, {:.0} MB when it was forgotten",
        now()
    );
}

#[test]
fn attack_the_memory_of_what_was_forgotten_comes_back() {
    let cluster = Cluster::start_with(Where::Here, SERVER, WORKER).expect("a cluster");
    cluster.ok(&["submit", "--wait", "--", "null"]);
    let before = memory_mb(cluster.server_pid());

    let count = size(2, 100);
    for _ in 0..count {
        cluster.ok(&[
            "submit", "--wait", "--array", "1-100000", "--stdout", "none", "--stderr", "none", "--", "null",
        ]);
    }
    forget_all(&cluster);
    is_back(&cluster, before, &format!("{count} arrays of 100 000 tasks"));

    let lines = cluster.root().join("lines");
    let text = (0..size(20_000, 150_000)).fold(String::new(), |mut text, number| {
        writeln!(text, "input number {number} of an array, with a text of some length").expect("memory");
        text
    });
    fs::write(&lines, text).expect("a file");
    let path = lines.to_str().expect("a name");
    let count = size(3, 84);
    for _ in 0..count {
        cluster.ok(&["submit", "--each-line", path, "--stdout", "none", "--stderr", "none", "--", "null"]);
    }
    forget_all(&cluster);
    is_back(&cluster, before, &format!("{count} arrays with an entry for each task"));

    let count = size(1_000, 100_000);
    let mut file = String::new();
    writeln!(file, "name = \"chain\"").expect("memory");
    for number in 0..count {
        writeln!(file, "[[task]]\nid = {number}\ncommand = [\"null\"]\nstdout = \"none\"\nstderr = \"none\"")
            .expect("memory");
        if number > 0 {
            writeln!(file, "deps = [{}]", number - 1).expect("memory");
        }
    }
    let path = cluster.root().join("chain.toml");
    fs::write(&path, file).expect("a file");
    cluster.ok(&["job", "submit-file", path.to_str().expect("a name")]);
    forget_all(&cluster);
    is_back(&cluster, before, &format!("a chain of {count} tasks"));

    let count = size(200, 3_000);
    for _ in 0..count {
        cluster.ok(&["submit", "--", "null"]);
    }
    forget_all(&cluster);
    is_back(&cluster, before, &format!("{count} small jobs"));
}
