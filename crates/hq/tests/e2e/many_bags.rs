//! Relays that may have few open files.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cluster::{Cluster, Process};
use crate::patience;
use crate::pulled::Line;

const SIGKILL: i32 = 9;

// A relay that may have so many open files, and its socket.
fn relay(cluster: &Cluster, files: u32) -> (Process, PathBuf) {
    let path = cluster.root().join("own/relay");
    let hq = cluster.command(["pull", "relay", "--socket"]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")]);
    command.arg(hq.get_program()).args(hq.get_args()).arg(&path);
    for (name, value) in hq.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(cluster.work()).stdout(Stdio::null()).stderr(Stdio::null());
    let process = Process::start(command);
    drop(patience::answer(|| UnixStream::connect(&path)).expect("a relay listens"));
    (process, path)
}

fn finished(task: &Value) -> Value {
    json!({"id": task["id"], "attempt": task["attempt"]})
}

#[test]
fn tasks_of_many_bags_come_over_one_connection_and_stay_taken_when_the_server_is_killed() {
    let bags = 90;
    let mut cluster = Cluster::server();
    // Fewer than there are bags, with those of programs that are connected.
    let (_relay, path) = relay(&cluster, 80);
    let mut line = Line::to(&path);
    line.ask(&json!({"hello": {"label": "one"}}));
    let mut taken = Vec::new();
    for bag in 0..bags {
        let bag = format!("bag-{bag}");
        let created = line.ask(&json!({"create": {"bag": bag, "tasks": [{"name": "a"}]}}));
        assert_eq!(created["created"]["new"], 1, "{created}");
        let given = line.ask(&json!({"take": {"count": 1, "wait": 60, "bags": [bag]}}));
        taken.push(finished(&given["tasks"][0]));
        assert_eq!(given["tasks"][0]["name"], "a", "{given}");
    }
    let server = cluster.server.take().expect("running");
    server.signal(SIGKILL);
    server.end();
    let last = taken.pop().expect("one of them");
    let answer = line.ask(&json!({"next": {"done": taken}}));
    assert_eq!(answer["accepted"], json!(bags - 1), "{answer}");
    cluster.start_server("");
    let answer = line.ask(&json!({"complete": {"tasks": [last]}}));
    assert_eq!((&answer["accepted"], &answer["saved"]), (&json!(bags), &json!(bags)), "{answer}");
}

// What somebody is answered who connects, with the connection while it is served.
fn connect(path: &Path) -> Result<Line, String> {
    let mut line = Line::to(path);
    let answer = line.ask(&json!({"hello": {}}));
    match answer["error"]["code"].as_str() {
        None => Ok(line),
        Some("full") => Err(answer["error"]["message"].as_str().expect("a text").to_owned()),
        Some(_) => panic!("{answer}"),
    }
}

#[test]
fn who_connects_when_the_descriptors_are_used_up_is_told_the_limit_until_somebody_has_gone() {
    let cluster = Cluster::server();
    let (_relay, path) = relay(&cluster, 67);
    let mut served = Vec::new();
    let refused = loop {
        match connect(&path) {
            Ok(line) => served.push(line),
            Err(refused) => break refused,
        }
    };
    // Whoever looked whether there is a relay may not have gone yet.
    assert!((2..=3).contains(&served.len()), "{} are served", served.len());
    assert!(refused.contains("3 programs are connected") && refused.contains("`ulimit -n`"), "{refused}");
    served.pop();
    assert!(patience::answer(|| connect(&path)).is_ok(), "there is a place again");
}
