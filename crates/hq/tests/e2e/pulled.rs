//! Tasks that programs take from a relay: by commands and lines of JSON, with servers and relays that are killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cluster::{Cluster, PATIENCE, Process};
use crate::patience;

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

// A relay that lives as long as the test.
pub(crate) struct Relay {
    process: Option<Process>,
    pub(crate) path: PathBuf,
}

impl Relay {
    pub(crate) fn start(cluster: &Cluster) -> Relay {
        let mut relay = Relay { process: None, path: cluster.root().join("own/relay") };
        relay.again(cluster);
        relay
    }

    fn again(&mut self, cluster: &Cluster) {
        let mut command = cluster.command(["pull", "relay", "--socket"]);
        command.arg(&self.path).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(Process::start(command));
        let connected = patience::answer(|| UnixStream::connect(&self.path));
        drop(connected.expect("a relay listens"));
    }

    pub(crate) fn line(&self) -> Line {
        Line::to(&self.path)
    }

    pub(crate) fn labeled(&self, label: &str) -> Line {
        let mut line = self.line();
        line.ask(&json!({"hello": {"label": label}}));
        line
    }
}

pub(crate) struct Line {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Line {
    pub(crate) fn to(path: &Path) -> Line {
        let stream = UnixStream::connect(path).expect("a relay");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Line { reader: BufReader::new(stream.try_clone().expect("a descriptor")), writer: stream }
    }

    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).expect("the relay reads");
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("the relay answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        self.say(format!("{request}\n").as_bytes());
        self.hear()
    }

    pub(crate) fn take(&mut self, count: u32) -> Vec<Value> {
        let answer = self.ask(&json!({"take": {"count": count, "wait": 60}}));
        answer["tasks"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
    }

    // All that comes until the relay closes.
    pub(crate) fn rest(mut self) -> String {
        self.writer.shutdown(std::net::Shutdown::Write).expect("open");
        let mut text = String::new();
        self.reader.read_to_string(&mut text).expect("the relay closes");
        text
    }
}

pub(crate) fn error_of(answer: &Value) -> &str {
    answer["error"]["code"].as_str().unwrap_or_else(|| panic!("an error: {answer}"))
}

fn finished(task: &Value) -> Value {
    json!({"id": task["id"], "attempt": task["attempt"]})
}

#[test]
fn a_shell_creates_takes_and_completes_and_starts_its_relay_by_itself() {
    let cluster = Cluster::server();
    assert_eq!(cluster.ok("pull create dock-1 --payload 'ligand 1'"), "1 new in bag 1\n");
    assert_eq!(cluster.ok("pull create dock-1 --payload 'ligand 1'"), "0 new in bag 1, 1 was there\n");
    let other = cluster.fails(1, "pull create dock-1 --payload 'ligand 2'");
    assert!(other.contains("has a task `dock-1` already, with another payload"), "{other}");
    assert_eq!(cluster.ok("pull create 17 dock-1"), "1 new in bag 1\n");
    let explained = cluster.ok("task explain 1 0");
    assert!(explained.contains("hq pull steal --bag 1"), "{explained}");
    assert_eq!(cluster.ok("pull steal -q"), "dock-1\n");
    assert_eq!(cluster.hq("pull steal -q").exit, 1, "the other one waits for it");
    cluster.fails(1, "pull complete dock-1 --as somebody-else");
    cluster.ok("pull complete dock-1 --result -7.3");
    let looked = cluster.json("pull look dock-1 17");
    assert_eq!(looked["looked"]["tasks"][0]["result"], "-7.3");
    assert_eq!(cluster.ok("pull steal -q --wait=60s"), "17\n");
    cluster.ok("pull fail 17 --message 'no such thing'");
    let failures = cluster.ok("job failures 1");
    assert!(failures.contains("no such thing"), "{failures}");
    cluster.ok("pull close");
    assert_eq!(cluster.hq("pull steal -q --wait=60s").exit, 4, "nothing will come");
    cluster.fails(1, "pull wait");
    // It ends with its server.
    let socket = PathBuf::from(cluster.json("pull env")["socket"].as_str().expect("a path"));
    let directory = socket.parent().expect("a directory").metadata().expect("there");
    assert_eq!(directory.permissions().mode() & 0o777, 0o700);
    assert_eq!(socket.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    stop_with_relay(&cluster);
    crate::events::keep_their_schema(&cluster);
}

// A relay that started by itself ends with its server.
pub(crate) fn stop_with_relay(cluster: &Cluster) {
    let socket = PathBuf::from(cluster.json("pull env")["socket"].as_str().expect("a path"));
    cluster.ok("server stop");
    let ended = || if socket.exists() { Err("it is there".into()) } else { Ok(()) };
    patience::until("the end of the relay", ended);
}

#[test]
fn tasks_of_a_worker_find_the_relay_beside_it_which_ends_with_the_worker() {
    let cluster = Cluster::server();
    let worker = Process::start(cluster.command("worker start --cpus 1 --pull".split(' ')));
    let hq = env!("CARGO_BIN_EXE_hq");
    cluster.ok(&format!(
        "submit --wait -- sh -c '{hq} pull create a && {hq} pull steal -q && echo \"$HQ_PULL_SOCKET\"'"
    ));
    let printed = cluster.ok("job cat 1 stdout");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..2], ["1 new in bag 2", "a"]);
    let socket = PathBuf::from(lines[2]);
    assert!(socket.exists(), "{}", socket.display());
    worker.signal(SIGKILL);
    worker.end();
    let ended = || if socket.exists() { Err("it is there".into()) } else { Ok(()) };
    patience::until("the end of the relay", ended);
    assert_eq!(cluster.ok("pull steal -q --wait=60s"), "a\n", "what was taken there was given back");
    stop_with_relay(&cluster);
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn who_died_while_it_waited_is_given_nothing() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    relay.line().ask(&json!({"open": {"name": "b"}}));
    for number in 0..20 {
        let mut dead = relay.labeled(&format!("dead{number}"));
        dead.say(b"{\"next\":{\"take\":1,\"wait\":60,\"bags\":[\"b\"]}}\n");
        drop(dead);
        let mut line = relay.labeled("alive");
        let name = format!("t{number}");
        line.ask(&json!({"create": {"bag": "b", "tasks": [{"name": name}]}}));
        let taken = line.ask(&json!({"next": {"take": 1, "wait": 50, "bags": ["b"]}}));
        assert_eq!(taken["tasks"][0]["name"], name);
    }
    crate::events::keep_their_schema(&cluster);
}

#[test]
fn a_relay_whose_server_has_vanished_ends_when_nobody_speaks_to_it_although_it_has_tasks() {
    let mut cluster = Cluster::server();
    let directory = cluster.path("relay");
    std::fs::create_dir(&directory).expect("a directory");
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).expect("ours");
    let socket = directory.join("socket");
    let words = ["pull", "relay", "--idle-timeout", "10s", "--socket", socket.to_str().expect("text")];
    let relay = Process::start(cluster.command(words));
    patience::answer(|| UnixStream::connect(&socket)).expect("a relay listens");
    let mut line = Line::to(&socket);
    line.ask(&json!({"create": {"bag": "b", "tasks": [{"name": "a"}]}}));
    assert_eq!(line.ask(&json!({"next": {"take": 1, "bags": ["b"]}}))["tasks"][0]["name"], "a");
    let server = cluster.server.take().expect("a server");
    server.signal(SIGKILL);
    server.end();
    std::fs::remove_dir_all(cluster.server_dir()).expect("removed");
    drop(line);
    assert_eq!(relay.end(), 0);
}

#[test]
fn a_program_that_is_not_there_fails_no_task() {
    let cluster = Cluster::server();
    cluster.ok("pull create a");
    cluster.ok("pull close --bag pull");
    let refused = cluster.fails(2, "pull run -j4 -- true");
    assert!(refused.contains("`-j4` is not a program; give option values as separate words"), "{refused}");
    let refused = cluster.fails(1, "pull run -- /no/such/program");
    assert!(refused.contains("`/no/such/program` cannot be started"), "{refused}");
    cluster.ok("pull run -- true");
    cluster.ok("pull wait --bag pull");
    stop_with_relay(&cluster);
}

#[test]
fn a_task_that_its_puller_calls_failed_is_no_program_that_exited() {
    let cluster = Cluster::server();
    cluster.ok("pull create a");
    cluster.ok("pull steal");
    cluster.ok("pull fail a --message nothing-found");
    let told = cluster.ok("job failures 1");
    assert!(told.contains("nothing-found") && !told.contains("exit code"), "{told}");
    assert_eq!(cluster.json("job failures 1")[0]["causes"][0]["kind"], "puller");
    assert_eq!(cluster.json("job failures 1")[0]["causes"][0]["exit_code"], Value::Null);
    stop_with_relay(&cluster);
}

// The exit code of a command of `hq pull` that is refused: for the one that takes tasks, 1 means that none is ready.
fn refused(command: &str) -> i32 {
    if command.starts_with("steal") { 5 } else { 1 }
}

#[test]
fn a_bag_that_is_not_there_is_made_for_tasks_alone() {
    let cluster = Cluster::server();
    for command in
        ["steal --bag dokc", "run --bag dokc -- true", "look a --bag dokc", "status dokc", "close dokc"]
    {
        let told = cluster.fails(refused(command), &format!("pull {command}"));
        let expected = "no bag has the name `dokc`: no job is open; `hq pull open dokc` makes one";
        assert!(told.contains(expected), "{command}: {told}");
    }
    // Nor is the one that nobody has to name made by those who take tasks.
    for command in ["steal", "run -- true", "status pull", "close"] {
        let told = cluster.fails(refused(command), &format!("pull {command}"));
        let expected = "no bag has the name `pull`: no job is open; `hq pull open pull` makes one";
        assert!(told.contains(expected), "{command}: {told}");
    }
    for command in ["open a --bag b", "close a --bag b", "wait a --bag b", "steal a --as b"] {
        let told = cluster.fails(2, &format!("pull {command}"));
        assert!(told.contains("cannot be used with"), "{command}: {told}");
    }
    // The first task of a bag is refused: there is no such bag.
    let told = cluster.fails(1, "pull create b nobody --bag dock");
    assert!(told.contains("no task has the name `nobody`, for the bag is new"), "{told}");
    assert_eq!(cluster.json("job list --all"), json!([]));
    assert_eq!(cluster.ok("pull create a --bag dock"), "1 new in bag 1\n");
    let told = cluster.fails(1, "pull create b nobody --bag dock");
    assert!(told.contains("no task of bag 1 has the name `nobody`"), "{told}");
    assert_eq!(cluster.json("job list --all")[0]["task_count"], 1);
    let told = cluster.fails(5, "pull steal --bag dokc");
    assert!(told.contains("open jobs are `dock` (job 1); `hq pull open dokc` makes one"), "{told}");
    for name in ["4@17", "-"] {
        let told = cluster.fails(2, &format!("pull create {name} --bag dock"));
        assert!(told.contains(&format!("invalid name: `{name}`")), "{told}");
        let told = cluster.fails(2, &format!("pull open {name}"));
        assert!(told.contains(&format!("`{name}` is no name of a bag")), "{told}");
    }
    stop_with_relay(&cluster);
}

#[test]
fn the_status_of_a_bag_names_those_who_have_tasks_of_it() {
    let mut cluster = Cluster::server();
    for bag in ["x", "y"] {
        cluster.ok(&format!("pull create a --bag {bag}"));
        cluster.ok(&format!("pull steal --bag {bag} --as has-{bag}"));
    }
    let status = cluster.ok("pull status x");
    let told = "has-x has 1 task; `hq pull exit has-x` returns all of them\n  a (1@0) for ";
    assert!(status.contains(told) && !status.contains("has-y"), "{status}");
    assert!(cluster.ok("pull status").contains("has-y has 1"));
    cluster.worker("--cpus 1");
    cluster.ok("submit --name made --generate 'seq 3' --wait -- true");
    for command in ["steal --bag made", "create z --bag 4", "status 4", "run --bag made -- true"] {
        let told = cluster.fails(refused(command), &format!("pull {command}"));
        let expected = "job 4 is no bag: its tasks are made by a generator (job 3) and run by workers";
        assert!(told.contains(expected), "{command}: {told}");
    }
    stop_with_relay(&cluster);
}

#[test]
fn a_graph_from_a_file_is_worked_off_by_programs() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let run = |line: &str| {
        let mut command = cluster.command(shlex::split(line).expect("words"));
        let output = command.env("HQ_PULL_SOCKET", &relay.path).output().expect("hq can be run");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    cluster.write("tasks.txt", "a\nb,a\nc,a\nd,b,c\n");
    assert_eq!(run("pull addfile tasks.txt --bag graph"), (Some(0), "4 new in bag 1\n".to_owned()));
    assert_eq!(
        run("pull addfile tasks.txt --bag graph"),
        (Some(0), "0 new in bag 1, 4 were there\n".to_owned())
    );
    cluster.write("more.txt", "e,nobody\n");
    assert_eq!(run("pull addfile more.txt --bag graph").0, Some(1));
    assert_eq!(run("pull addfile more.txt --bag graph --missing-is-done").0, Some(0));
    run("pull close graph");
    let (exit, _) = run(
        "pull run -j 2 --block 2 --last-line --bag graph -- sh -c 'echo $HQ_PULL_NAME >> order; echo done $HQ_PULL_NAME'",
    );
    assert_eq!(exit, Some(0));
    let order = cluster.read("order");
    let place = |name: &str| order.lines().position(|line| line == name).expect("each is run");
    assert!(place("a") < place("b") && place("b") < place("d") && place("c") < place("d"), "{order}");
    assert_eq!(order.lines().count(), 5);
    let looked = run("--output-mode json pull look d --bag graph").1;
    assert!(looked.contains("done d"), "{looked}");
    assert_eq!(cluster.json("job list --all")[0]["state"].as_str(), Some("finished"));
}

#[test]
fn programs_and_pulled_tasks_wait_for_each_other() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1");
    let relay = Relay::start(&cluster);
    let mut line = relay.line();
    cluster.ok("submit -- true");
    let created = line.ask(&json!({"create": {"bag": "middle", "tasks": [
        {"name": "m", "payload_base64": "/w==", "after_tasks": ["1"]},
    ]}}));
    assert_eq!(created["created"], json!({"bag": 2, "new": 1, "known": 0}));
    cluster.ok("submit --after 2 -- true");
    line.ask(&json!({"close": {"bag": "middle"}}));
    let answer = line.ask(&json!({"take": {"wait": 60, "bags": ["middle"]}}));
    assert_eq!(answer["tasks"][0]["payload_base64"], "/w==", "{answer}");
    let ended = line.ask(&json!({"complete": {"tasks": [finished(&answer["tasks"][0])]}}));
    assert_eq!((&ended["accepted"], &ended["saved"]), (&json!(1), &json!(1)));
    cluster.ok("job wait 3");
    let again = line.ask(&json!({"take": {"wait": 60, "bags": ["middle"]}}));
    assert_eq!(again["state"], "over");
}

#[test]
fn who_takes_tasks_and_says_things_twice_or_too_late_is_told_so() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let (mut one, mut other) = (relay.labeled("one"), relay.labeled("other"));
    one.ask(&json!({"create": {"tasks": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}}));
    let tasks = one.take(2);
    let items = json!([
        finished(&tasks[0]),
        finished(&tasks[0]),
        {"id": tasks[1]["id"], "attempt": "9.9"},
        {"name": "nobody"},
        {"id": "1"},
        {"name": "b", "failed": "x", "released": true},
    ]);
    let answer = one.ask(&json!({"next": {"done": items}}));
    let errors: Vec<&str> = answer["done"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| item["error"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(errors, ["", "not-held", "stale", "not-held", "bad-request", "bad-request"]);
    assert_eq!(
        other.ask(&json!({"complete": {"tasks": [finished(&tasks[1])]}}))["done"][0]["error"],
        "not-held"
    );
    // What a dead one has, anybody gives back.
    assert_eq!(other.ask(&json!({"leave": {"label": "one"}}))["left"]["returned"], 1);
    let mut left = 2;
    while left > 0 {
        left -= other.take(9).len();
    }
    assert_eq!(one.ask(&json!({"complete": {"tasks": [finished(&tasks[1])]}}))["done"][0]["error"], "stale");
    cluster.ok("job cancel 1");
    patience::until("the news", || {
        let told = other.ask(&json!({"extend": {"tasks": [{"name": "c"}]}}));
        if told["done"][0]["error"].is_null() { Err(told.to_string()) } else { Ok(()) }
    });
}

#[test]
fn a_lease_that_is_over_gives_a_task_to_others() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let mut short = relay.line();
    short.ask(&json!({"hello": {"label": "short", "lease": 0.1}}));
    short.ask(&json!({"create": {"tasks": [{"name": "a"}]}}));
    let taken = short.take(1);
    let mut patient = relay.labeled("patient");
    let again = patient.take(1);
    assert_eq!(again[0]["id"], taken[0]["id"]);
    assert_eq!(
        short.ask(&json!({"complete": {"tasks": [finished(&taken[0])]}}))["done"][0]["error"],
        "stale"
    );
    assert_eq!(patient.ask(&json!({"complete": {"tasks": [finished(&again[0])]}}))["done"][0], json!({}));
}

#[test]
fn what_is_taken_survives_a_server_that_is_killed() {
    let mut cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let mut line = relay.labeled("one");
    line.ask(&json!({"create": {"tasks": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}}));
    let tasks = line.take(2);
    let server = cluster.server.take().expect("running");
    server.signal(SIGKILL);
    server.end();
    // Accepted, and not saved before somebody is there.
    let answer = line.ask(&json!({"next": {"done": [finished(&tasks[0])]}}));
    assert_eq!((&answer["accepted"], &answer["saved"]), (&json!(1), &json!(0)));
    cluster.start_server("");
    let answer = line.ask(&json!({"complete": {"tasks": [finished(&tasks[1])]}}));
    assert_eq!((&answer["accepted"], &answer["saved"]), (&json!(2), &json!(2)), "{answer}");
    let last = line.take(1);
    assert_eq!(last[0]["name"], "c");
    line.ask(&json!({"complete": {"tasks": [finished(&last[0])]}}));
    line.ask(&json!({"close": {}}));
    cluster.ok("job wait 1");
}

#[test]
fn what_a_killed_relay_had_is_taken_again() {
    let cluster = Cluster::server_with("--worker-grace 1s");
    let mut relay = Relay::start(&cluster);
    let mut line = relay.labeled("one");
    let tasks: Vec<Value> = (0..100).map(|number| json!({"name": number.to_string()})).collect();
    line.ask(&json!({"create": {"tasks": tasks}}));
    let taken = line.take(50);
    assert_eq!(taken.len(), 50);
    let process = relay.process.take().expect("running");
    process.signal(SIGKILL);
    process.end();
    relay.again(&cluster);
    let mut line = relay.labeled("one");
    let mut names = std::collections::BTreeSet::new();
    while names.len() < 100 {
        let tasks = line.take(100);
        let done: Vec<Value> = tasks.iter().map(finished).collect();
        names.extend(tasks.iter().map(|task| task["name"].as_str().expect("a name").to_owned()));
        line.ask(&json!({"complete": {"tasks": done}}));
    }
    line.ask(&json!({"close": {}}));
    cluster.ok("job wait 1");
    assert_eq!(cluster.json("job list --all")[0]["task_stats"]["finished"], 100);
}

#[test]
fn bad_lines_are_answered_and_end_nobody() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let mut line = relay.line();
    let deep = format!("{{\"create\":{}", "[".repeat(100_000));
    for bad in [
        "{",
        "{}",
        "{\"take\":3}",
        "{\"x\":{}}",
        "\u{1}\u{2}\u{3}",
        "[]",
        deep.as_str(),
        "{\"take\":{\"wait\":-1}}",
    ] {
        line.say(format!("{bad}\n").as_bytes());
        assert_eq!(error_of(&line.hear()), "bad-request", "{}", &bad[..bad.len().min(40)]);
    }
    let named = |name: &str| json!({"create": {"tasks": [{"name": name}]}});
    let long = "x".repeat(5000);
    for bad in ["", "a\0b", "a\nb", long.as_str()] {
        assert_eq!(error_of(&line.ask(&named(bad))), "bad-request");
    }
    let twice = json!({"create": {"tasks": [{"name": "a"}, {"name": "a"}]}});
    assert_eq!(error_of(&line.ask(&twice)), "invalid");
    let large = json!({"create": {"tasks": [{"name": "a", "payload": "x".repeat(1 << 20)}]}});
    assert_eq!(error_of(&line.ask(&large)), "bad-request");
    let unknown = json!({"create": {"tasks": [{"name": "a", "after": ["nobody"]}]}});
    assert_eq!(error_of(&line.ask(&unknown)), "unknown-name");
    let itself = json!({"create": {"tasks": [{"name": "a", "after": ["a"]}]}});
    assert_eq!(error_of(&line.ask(&itself)), "unknown-name");
    // All or nothing.
    let half = json!({"create": {"tasks": [{"name": "good"}, {"name": "bad", "after": ["nobody"]}]}});
    assert_eq!(error_of(&line.ask(&half)), "unknown-name");
    assert_eq!(
        error_of(&line.ask(&json!({"look": {"names": ["good"]}}))),
        "no-bag",
        "there is not even a bag"
    );
    // Half a line, and one that is too long.
    let mut half = relay.line();
    half.say(b"{\"take\"");
    assert_eq!(error_of(&serde_json::from_str(&half.rest()).expect("an answer")), "bad-request");
    let mut long = relay.line();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..17 {
        // The relay may have closed it before.
        if long.writer.write_all(&piece).is_err() {
            break;
        }
    }
    // Somebody who takes and goes, and all others go on.
    line.ask(&named("left"));
    let mut goes = relay.labeled("goes");
    goes.say(b"{\"take\":{\"count\":1,\"wait\":60}}\n");
    drop(goes);
    line.ask(&json!({"leave": {"label": "goes"}}));
    line.ask(&named("more"));
    assert!(!line.take(1).is_empty());
    let process = relay.process.as_ref().expect("running");
    process.signal(SIGTERM);
}

#[test]
fn who_does_not_read_or_takes_all_there_is_holds_up_nobody() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let mut line = relay.line();
    let most = 100_000;
    for first in (0..most + 10).step_by(50_000) {
        let names = first..(first + 50_000).min(most + 10);
        let tasks: Vec<Value> = names.map(|number| json!({"name": number.to_string()})).collect();
        line.ask(&json!({"create": {"tasks": tasks}}));
    }
    let mut greedy = relay.labeled("greedy");
    let mut taken = 0;
    while taken < most {
        let some = greedy.take(1_000_000).len();
        assert!(some > 0, "{taken}");
        taken += some;
    }
    assert_eq!(taken, most, "one session has no more at once");
    assert_eq!(error_of(&greedy.ask(&json!({"take": {"wait": 60}}))), "full");
    // Its answers are not read: the relay reads its questions no more, and keeps little.
    let deaf = relay.line();
    deaf.writer.set_nonblocking(true).expect("a socket");
    let questions = "{\"status\":{}}\n".repeat(1000);
    while (&deaf.writer).write(questions.as_bytes()).is_ok() {}
    assert_eq!(line.take(100).len(), 10);
    assert_eq!(line.ask(&json!({"leave": {"label": "greedy"}}))["left"]["returned"], most);
}

// The programs that people begin with.
fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pull").join(name)
}

#[test]
fn samples_in_several_languages_share_the_work() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let mut commands = vec![vec!["python3".into(), sample("worker.py").into_os_string()]];
    if is_there("curl") {
        commands.push(vec![sample("worker.sh").into_os_string()]);
    }
    let binary = cluster.path("worker-c");
    let built =
        Command::new("cc").args(["-Wall", "-Werror", "-o"]).arg(&binary).arg(sample("worker.c")).status();
    assert!(built.expect("a C compiler").success());
    commands.push(vec![binary.into_os_string()]);
    // Go writes about itself into the directory for settings.
    let go = || {
        let mut command = Command::new("go");
        command.env("XDG_CONFIG_HOME", cluster.path("go-config")).env("HOME", cluster.path("go-home"));
        command
    };
    if go().arg("version").output().is_ok() {
        let binary = cluster.path("worker-go");
        let mut build = go();
        build.args(["build", "-o"]).arg(&binary).arg(sample("worker.go"));
        build.env("GOCACHE", cluster.path("go-cache")).env("GOFLAGS", "-mod=mod");
        assert!(build.status().expect("go can be run").success());
        commands.push(vec![binary.into_os_string()]);
    }
    let mut line = relay.line();
    let task =
        |number: u64| json!({"name": format!("task-{number}"), "payload": "x".repeat(number as usize % 50)});
    let tasks: Vec<Value> = (0..200).map(task).collect();
    line.ask(&json!({"create": {"bag": "lengths", "tasks": tasks}}));
    line.ask(&json!({"close": {"bag": "lengths"}}));
    let workers: Vec<Process> = commands
        .iter()
        .map(|words| {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).arg("lengths").env("HQ_PULL_SOCKET", &relay.path);
            Process::start(command)
        })
        .collect();
    for worker in workers {
        assert_eq!(worker.end(), 0);
    }
    let names: Vec<String> = (0..200).map(|number| format!("task-{number}")).collect();
    let looked = line.ask(&json!({"look": {"bag": "lengths", "names": names}}));
    for (number, task) in looked["looked"]["tasks"].as_array().expect("tasks").iter().enumerate() {
        assert_eq!(task["result"], json!((number % 50).to_string()), "{task}");
    }
}

// The module of the package, used by itself, as it may be.
const PYTHON: &str = r#"
import asyncio, importlib.util, sys
spec = importlib.util.spec_from_file_location("pull", sys.argv[1])
pull = importlib.util.module_from_spec(spec)
sys.modules["pull"] = pull
spec.loader.exec_module(pull)

bag = pull.Bag("snakes")
assert bag.open() and not bag.open()
assert bag.create_many((f"t{i}", bytes([i, 255])) for i in range(250)) == 250
assert bag.create("t0", bytes([0, 255])) is False
assert bag.create("last", "text", after=["t0"], priority=3)
try:
    bag.create("bad", after=["nobody"])
except pull.PullError as error:
    assert error.code == "unknown-name", error.code
else:
    raise AssertionError("an unknown name")
with pull.Puller("snakes", block=7) as puller:
    for count, task in enumerate(puller):
        if task.name == "t1":
            puller.fail(task, "no")
        else:
            puller.done(task, task.payload[:1])
        if count == 99:
            break
assert not puller.refused, puller.refused
bag.close()

async def rest():
    seen = set()
    async with pull.AsyncPuller("snakes", block=16) as puller:
        async for task in puller:
            if task.name == "last" and "back" not in seen:
                seen.add("back")
                puller.release(task)
                continue
            seen.add(task.name)
            puller.done(task)
    assert not puller.refused, puller.refused
    return len(seen - {"back"})

assert asyncio.run(rest()) == 151
states = [task["state"] for task in bag.look(*(f"t{i}" for i in range(250)), "last")]
assert states.count("failed") == 1 and states.count("finished") == 250, states
"#;

#[test]
fn the_module_of_python_takes_tasks_by_turns_and_beside_others() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/headquarters/pull.py");
    let output = Command::new("python3")
        .args(["-c", PYTHON])
        .arg(module)
        .env("HQ_PULL_SOCKET", &relay.path)
        .output()
        .expect("python3 can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_bag_keeps_its_limit_of_failures_and_has_a_name_that_means_it() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let mut line = relay.line();
    let mut open = |name: &str, max_fails: Value| {
        let answer = line.ask(&json!({"open": {"name": name, "max_fails": max_fails}}));
        answer["error"]["message"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(open("dock", json!(3)), "");
    assert_eq!((open("dock", json!(3)), open("dock", Value::Null)), (String::new(), String::new()));
    assert!(open("dock", json!(4)).contains("`max_fails` (3) stays as it is"));
    for name in ["all", "last", " ", "1-3"] {
        assert!(open(name, Value::Null).contains("no name of a bag"), "{name}");
    }
    let answer = line.ask(&json!({"create": {"bag": "all", "tasks": [{"name": "a"}]}}));
    assert_eq!(error_of(&answer), "bad-request");
    assert_eq!(cluster.json("job list --all").as_array().map(Vec::len), Some(1));
}
