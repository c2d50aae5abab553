//! Those who take tasks while the disk of the server's journal is full: they are told so, and go on when there is room.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{Cluster, Place};
use crate::patience;
use crate::pulled::{Line, Relay, error_of};

/// An answer that takes longer is one that nobody waits for.
const SOON: Duration = Duration::from_secs(20);

fn refused(line: &mut Line, request: Value) {
    let begin = Instant::now();
    let answer = line.ask(&request);
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(error_of(&answer) == "read-only" && message.contains("No space left"), "{request}: {answer}");
    assert!(begin.elapsed() < SOON, "{request}");
}

fn counts(line: &mut Line) -> [u64; 3] {
    let status = line.ask(&json!({"status": {"bags": ["dock"]}}));
    ["waiting", "running", "finished"]
        .map(|state| status["status"]["bags"][0][state].as_u64().unwrap_or_else(|| panic!("{status}")))
}

#[test]
fn on_a_full_disk_who_looks_is_answered_who_changes_is_refused_and_all_go_on_when_there_is_room() {
    let cluster = Cluster::on_a_small_disk(Place::new(), 256, "true", "--journal disk/journal");
    let relay = Relay::start(&cluster);
    let (mut line, mut looks) = (relay.labeled("one"), relay.line());
    let named = |names: &[&str]| {
        let tasks = names.iter().map(|name| json!({"name": name})).collect::<Vec<Value>>();
        json!({"create": {"bag": "dock", "tasks": tasks}})
    };
    assert_eq!(line.ask(&named(&["a", "b", "c"]))["created"]["new"], 3);
    let taken = line.ask(&json!({"take": {"count": 2, "wait": 60, "bags": ["dock"]}}));
    let tasks = taken["tasks"].as_array().expect("tasks").clone();
    assert_eq!(tasks.len(), 2);

    let pid = cluster.json("server info")["pid"].as_u64().expect("a number");
    let disk = PathBuf::from(format!("/proc/{pid}/root"))
        .join(cluster.path("disk").strip_prefix("/").expect("absolute"));
    let mut filler = fs::File::create(disk.join("filler")).expect("a file");
    while filler.write_all(&[1; 4096]).is_ok() {}
    // The first ones are asked before the server knows: what is left of the last page does not take them.
    let payload = "x".repeat(50_000);
    let large = json!({"create": {"bag": "dock", "tasks": [{"name": "d", "payload": payload}]}});
    refused(&mut line, large.clone());
    refused(&mut line, named(&["e"]));
    refused(&mut line, json!({"open": {"name": "other"}}));
    refused(&mut line, json!({"close": {"bag": "dock"}}));
    let own = |task: &Value| json!({"id": task["id"], "attempt": task["attempt"], "result": "good"});
    let complete = json!({"complete": {"tasks": [own(&tasks[0])]}});
    refused(&mut line, complete.clone());
    refused(&mut line, complete.clone());
    refused(&mut line, json!({"sync": {}}));
    refused(&mut looks, json!({"take": {"count": 9, "bags": ["dock"]}}));
    let told = line.ask(&json!({"next": {"done": [own(&tasks[1])]}}));
    assert_eq!((&told["done"], &told["accepted"], &told["saved"]), (&json!([{}]), &json!(2), &json!(0)));
    let seen = looks.ask(&json!({"look": {"bag": "dock", "names": ["a"]}}));
    assert_eq!(seen["looked"]["tasks"][0]["name"], "a", "{seen}");
    counts(&mut looks);
    let steal = cluster.command(["pull", "steal", "--bag", "dock", "--as", "two"]);
    let mut steal = steal;
    let said = steal.env("HQ_PULL_SOCKET", &relay.path).output().expect("hq can be run");
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.code() == Some(5) && text.contains("journal cannot be written"), "{said:?}");

    fs::remove_file(disk.join("filler")).expect("it is there");
    drop(filler);
    patience::until("a journal that is written", || match &cluster.json("server info")["journal_trouble"] {
        Value::Null => Ok(()),
        trouble => Err(trouble.to_string()),
    });
    // What was said is said again, and counts once.
    assert_eq!(line.ask(&complete)["done"], json!([{}]));
    let synced = line.ask(&json!({"sync": {}}));
    assert_eq!((&synced["accepted"], &synced["saved"]), (&json!(2), &json!(2)));
    let created = line.ask(&large);
    assert_eq!(
        created["created"]["new"].as_u64().zip(created["created"]["known"].as_u64()).map(|(a, b)| a + b),
        Some(1)
    );
    assert_eq!(line.ask(&named(&["e"]))["created"]["new"], 1, "it was refused before anything was changed");
    assert_eq!(counts(&mut looks), [3, 0, 2]);
    let mut left = Vec::new();
    while left.len() < 3 {
        left.extend(
            line.ask(&json!({"take": {"count": 9, "wait": 60, "bags": ["dock"]}}))["tasks"]
                .as_array()
                .expect("tasks")
                .clone(),
        );
    }
    let ends: Vec<Value> = left.iter().map(own).collect();
    assert_eq!(line.ask(&json!({"complete": {"tasks": ends}}))["done"], json!([{}, {}, {}]));
    assert!(line.ask(&json!({"close": {"bag": "dock"}}))["closed"].is_object());
    assert_eq!(counts(&mut looks), [0, 0, 5]);
}
