//! After each kind of load has ended and was forgotten, the server is about as small as before.

use std::fmt::Write as _;
use std::fs;
use std::process::Stdio;

use super::{SERVER, WORKER, memory_mb, size};
use crate::cluster::{Cluster, Where};
use crate::patience::until;

const NULL_WORKER: &str = "worker start --executor null --cpus 4 --heartbeat 500ms";
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
    let cluster = Cluster::start_with(Where::Here, SERVER, NULL_WORKER).expect("a cluster");
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

#[test]
fn attack_the_memory_of_what_tasks_leave_comes_back() {
    let cluster = Cluster::start_with(Where::Here, SERVER, WORKER).expect("a cluster");
    cluster.ok(&["submit", "--wait", "--", "true"]);
    let before = memory_mb(cluster.server_pid());
    let load = |what: &str, count: u32, options: &str, program: &str| {
        let array = format!("1-{count}");
        let args = ["submit", "--array", &array].into_iter().chain(options.split_whitespace());
        cluster.ok(&args.chain(["--", "sh", "-c", program]).collect::<Vec<_>>());
        forget_all(&cluster);
        is_back(&cluster, before, &format!("{count} tasks {what}"));
    };
    // It hears of all that happens, and does not read.
    let mut follower = cluster.command();
    follower.args(["journal", "stream"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut follower = follower.spawn().expect("hq can be run");

    let count = size(300, 30_000);
    let text = "head -c 2000 /dev/zero | tr '\\0' x";
    load("that print into a log", count, "--log all.log", text);
    load("that print into a stream", count, "--stream streams", text);
    let silent = "--stdout none --stderr none";
    let object = format!("{silent} --output-object left=left-%{{TASK_ID}}");
    load("that leave an object", count, &object, "echo $$ > left-$HQ_TASK_ID");
    load("that fail with many codes", count, silent, "exit $((HQ_TASK_ID % 99 + 1))");

    let count = size(50, 3_000);
    for _ in 0..count {
        cluster.ok(&["submit", "--on-finish", "true", "--budget", "1", "--stdout", "none", "--", "true"]);
    }
    forget_all(&cluster);
    is_back(&cluster, before, &format!("{count} jobs with a notice and a budget"));

    let count = size(1_000, 100_000);
    let generate = format!("seq {count}");
    let (feed, into) =
        (["--generate", &generate, "--result", "last-line"], ["--reduce", "sh -c 'cat > /dev/null'"]);
    let args = ["submit", "--stdout", "none"].into_iter().chain(feed).chain(into);
    cluster.ok(&args.chain(["--", "sh", "-c", "echo $HQ_ENTRY"]).collect::<Vec<_>>());
    forget_all(&cluster);
    is_back(&cluster, before, &format!("{count} lines of a generator, and results for a reducer"));
    follower.kill().expect("it runs");
    follower.wait().expect("a child");
}
