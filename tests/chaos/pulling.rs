//! Tasks that programs take, while the server, relays and those who take tasks are killed at any moment: what somebody was
//! told is saved counts, and counts once.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{Cluster, Where};
use crate::patience::{answer, until};
use crate::{Chance, number, pause, seed};

/// Relays, each with so many who take tasks there.
const RELAYS: usize = 2;
const PULLERS: u64 = 2;
/// Tasks that are created in each round.
const TASKS: u64 = 60;
/// Rounds when nobody says how many.
const ROUNDS: u64 = 12;
/// Until an answer comes: servers and relays are started again all the time.
const PATIENCE: Duration = Duration::from_secs(120);

/// What each task has left, as those say who were told that it is saved.
type Saved = Arc<Mutex<BTreeMap<String, String>>>;

#[test]
fn pullers_relays_and_servers_are_killed_and_what_is_saved_counts_once() {
    play(number("HQ_CHAOS_ROUNDS").map_or(ROUNDS, |rounds| rounds.div_ceil(2)));
}

fn play(rounds: u64) {
    let begin = Instant::now();
    let mut chance = Chance(seed());
    let mut cluster = Cluster::start(Where::Here, Duration::from_secs(2)).expect("this needs nothing");
    cluster.ok(&["pull", "open", "chaos"]);
    let mut relays: Vec<Relay> = (0..RELAYS).map(|number| Relay::start(&cluster, number)).collect();
    let saved = Saved::default();
    let mut pullers: Vec<JoinHandle<()>> = Vec::new();
    for (at, relay) in relays.iter().enumerate() {
        for number in 0..PULLERS {
            let puller = Puller {
                socket: relay.socket.clone(),
                label: format!("puller-{at}-{number}"),
                chance: Chance(chance.draw()),
                saved: Arc::clone(&saved),
            };
            pullers.push(std::thread::spawn(move || puller.work()));
        }
    }
    let mut program = Program::start(&cluster, &relays[0]);
    for round in 0..rounds {
        create(&relays[chance.below(RELAYS as u64) as usize].socket, round);
        pause(chance.below(300));
        match chance.below(4) {
            0 | 1 => cluster.kill_server(),
            2 => {
                let victim = chance.below(RELAYS as u64) as usize;
                relays[victim].kill();
                relays[victim] = Relay::start(&cluster, victim);
            }
            _ => {}
        }
        // It ends by itself when its relay has gone.
        if chance.below(2) == 0 || program.has_ended() {
            program.kill();
            program = Program::start(&cluster, &relays[chance.below(RELAYS as u64) as usize]);
        }
    }
    cluster.ok(&["job", "close", "1"]);
    cluster.wait_for_all();
    for puller in pullers {
        puller.join().expect("nobody who takes tasks has found a fault");
    }
    let saved = std::mem::take(&mut *saved.lock().unwrap_or_else(PoisonError::into_inner));
    check(&cluster, rounds * TASKS, &saved);
    program.kill();
    relays.iter_mut().for_each(Relay::kill);
    let (count, s) = (saved.len(), begin.elapsed().as_secs_f64());
    eprintln!("{rounds} rounds, {} tasks, {count} known to be saved, {s:.0} s", rounds * TASKS);
}

// All have finished, each once, and what somebody was told is saved is what is there.
fn check(cluster: &Cluster, tasks: u64, saved: &BTreeMap<String, String>) {
    let info: Value =
        serde_json::from_str(&cluster.ok(&["--output-mode", "json", "job", "info", "1"])).expect("JSON");
    assert_eq!(info[0]["info"]["task_stats"]["finished"], tasks, "{info}");
    let results = cluster.ok(&["job", "result", "1"]);
    let left: BTreeMap<String, &str> = results
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(task, result)| (format!("1@{task}"), result))
        .collect();
    assert_eq!(left.len() as u64, tasks, "each task has left something");
    for (task, result) in saved {
        assert_eq!(left.get(task), Some(&result.as_str()), "what {task} has left was saved, and counts");
    }
}

// All of them, however often that has to be asked: those that are there already are no new ones.
fn create(socket: &Path, round: u64) {
    let names = (round * TASKS..(round + 1) * TASKS).map(|number| format!("task-{number:05}"));
    let tasks: Vec<Value> = names.map(|name| json!({"name": name, "crash_limit": "unlimited"})).collect();
    let request = json!({"create": {"bag": "chaos", "tasks": tasks}});
    until("tasks are created", || {
        let mut line = Line::to(socket).ok_or("no relay")?;
        let answer = line.ask(&request).ok_or("no answer")?;
        if answer["created"].is_object() { Ok(()) } else { Err(answer.to_string()) }
    });
}

// Takes tasks and says how they ended, and is gone without a word now and then.
struct Puller {
    socket: PathBuf,
    label: String,
    chance: Chance,
    saved: Saved,
}

impl Puller {
    fn work(mut self) {
        loop {
            let mut line = answer(|| Line::to(&self.socket).ok_or("none")).expect("a relay listens");
            let hello = json!({"hello": {"label": self.label, "lease": 20, "grace": 0}});
            if line.ask(&hello).is_some() && self.work_on(&mut line) {
                return;
            }
        }
    }

    // Until the bag is over, which is true then, or somebody has died.
    fn work_on(&mut self, line: &mut Line) -> bool {
        loop {
            let take = json!({"take": {"count": 1 + self.chance.below(3), "wait": 2, "bags": ["chaos"]}});
            let Some(answer) = line.ask(&take) else { return false };
            if answer["state"] == "over" {
                return true;
            }
            let tasks = answer["tasks"].as_array().cloned().unwrap_or_default();
            if tasks.is_empty() {
                continue;
            }
            if self.chance.below(8) == 0 {
                return false;
            }
            let result =
                |task: &Value| format!("{} {}", self.label, task["attempt"].as_str().expect("a text"));
            let ends: Vec<Value> = tasks
                .iter()
                .map(|task| json!({"id": task["id"], "attempt": task["attempt"], "result": result(task)}))
                .collect();
            let Some(answer) = line.ask(&json!({"complete": {"tasks": ends}})) else { return false };
            let items = answer["done"].as_array().cloned().unwrap_or_default();
            let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
            // It is given out again when it was lost, and its end was that of another attempt when it is refused.
            for (task, _) in tasks.iter().zip(&items).filter(|(_, item)| item["error"].is_null()) {
                let id = task["id"].as_str().expect("a text").to_owned();
                let before = saved.insert(id.clone(), result(task));
                assert_eq!(before, None, "{id} was saved twice");
            }
        }
    }
}

struct Line {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Line {
    fn to(socket: &Path) -> Option<Line> {
        let writer = UnixStream::connect(socket).ok()?;
        writer.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(Line { reader: BufReader::new(writer.try_clone().ok()?), writer })
    }

    // The answer, unless the relay has died.
    fn ask(&mut self, request: &Value) -> Option<Value> {
        self.writer.write_all(format!("{request}\n").as_bytes()).ok()?;
        let mut line = String::new();
        self.reader.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

struct Relay {
    child: Child,
    socket: PathBuf,
}

impl Relay {
    fn start(cluster: &Cluster, number: usize) -> Relay {
        let socket = cluster.root().join(format!("relay-{number}/socket"));
        let mut command = cluster.command();
        command.args(["pull", "relay", "--socket"]).arg(&socket);
        command.stdout(Stdio::null()).stderr(cluster.client_log());
        let child = command.spawn().expect("hq can be run");
        until("a relay listens", || Line::to(&socket).map(drop).ok_or_else(|| "none".to_owned()));
        Relay { child, socket }
    }

    fn kill(&mut self) {
        end(&mut self.child);
    }
}

// `hq pull run`, which is killed with whatever it runs.
struct Program(Child);

impl Program {
    fn start(cluster: &Cluster, relay: &Relay) -> Program {
        let mut command = cluster.command();
        command.args([
            "pull",
            "run",
            "--bag",
            "chaos",
            "--last-line",
            "--",
            "sh",
            "-c",
            "echo run $HQ_PULL_ATTEMPT",
        ]);
        command.env("HQ_PULL_SOCKET", &relay.socket).stdout(Stdio::null()).stderr(cluster.client_log());
        Program(command.spawn().expect("hq can be run"))
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_some()
    }

    fn kill(&mut self) {
        end(&mut self.0);
    }
}

fn end(child: &mut Child) {
    // One that has ended cannot be killed.
    let _ = child.kill();
    let _ = child.wait();
}
