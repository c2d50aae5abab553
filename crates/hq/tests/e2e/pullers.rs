//! Pullers on other nodes, who have the access file of a puller and no relay: what they may, and what becomes of what they have
//! when they, their connections or the server are killed.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::cluster::{Cluster, PATIENCE, Place, Process};
use crate::patience;
use crate::pulled::stop_with_relay;

const SIGKILL: i32 = 9;

// A server with a file for pullers, and another node that has it.
struct Nodes {
    cluster: Cluster,
    far: Place,
}

impl Nodes {
    fn new() -> Nodes {
        let (cluster, _) =
            Cluster::server_with_access("--pull-file pull.json --pull-bag dock --pull-bag numbers");
        let nodes = Nodes { cluster, far: Place::new() };
        fs::create_dir_all(nodes.access().parent().expect("a directory")).expect("a directory");
        fs::copy(nodes.cluster.path("pull.json"), nodes.access()).expect("a copy");
        nodes
    }

    fn access(&self) -> PathBuf {
        self.far.server_dir().join("hq-current/access.json")
    }

    // The server is killed, and started again.
    fn restart(&mut self) {
        let server = self.cluster.server.take().expect("running");
        server.signal(SIGKILL);
        server.end();
        self.cluster.start_server("--access-file full.json");
    }

    // Where programs of any language speak on the far node, as long as a process lives.
    fn listen(&self) -> (Process, PathBuf) {
        let path = self.far.root().join("own/socket");
        let mut command = self.far.command(["pull", "relay", "--socket"]);
        command.arg(&path).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process::start(command);
        patience::answer(|| UnixStream::connect(&path)).expect("it listens");
        (process, path)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // The relay of the server's node ends with it.
        let socket = self.cluster.root().join("hq");
        if !std::thread::panicking() {
            self.cluster.ok("server stop");
            let ended = || if socket.exists() { Err("it is there".into()) } else { Ok(()) };
            patience::until("the end of the relay", ended);
        }
    }
}

struct Line(BufReader<UnixStream>);

impl Line {
    fn to(path: &PathBuf) -> Line {
        let stream = UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Line(BufReader::new(stream))
    }

    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.0.get_mut(), "{request}").expect("connected");
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{request}: {error}: {line}"))
    }
}

#[test]
fn a_node_that_has_the_file_of_a_puller_takes_tasks_without_a_relay() {
    let nodes = Nodes::new();
    let far = &nodes.far;
    assert_eq!(far.ok("pull create a --bag dock --payload 'ligand 1'"), "1 new in bag 1\n");
    assert_eq!(far.ok("pull create b a --bag dock"), "1 new in bag 1\n");
    assert_eq!(far.ok("pull steal -q --bag dock"), "a\n");
    far.ok("pull complete a --bag dock --result 7");
    assert_eq!(far.ok("pull look a b --bag dock"), "a finished 7\nb waiting\n");
    far.ok("pull close dock");
    assert_eq!(far.ok("pull run --bag dock --last-line -- echo done"), "1 task finished, 0 failed\n");
    assert_eq!(far.hq("pull steal -q --bag dock").exit, 4);
    let status = far.ok("pull status");
    assert!(status.contains("Bag 1 (dock): finished") && status.lines().count() == 1, "{status}");
    assert!(!far.root().join("hq").exists(), "nothing was started there");
    assert_eq!(nodes.cluster.ok("job result 1"), "0: 7\n1: done\n");
}

#[test]
fn a_puller_has_no_relay_below_that_of_the_server() {
    let nodes = Nodes::new();
    let (_listens, path) = nodes.listen();
    let below = nodes.far.root().join("own/below");
    let line = format!("pull relay --parent {} --socket {}", path.display(), below.display());
    let refused = nodes.far.fails(3, &line);
    assert!(refused.contains("refuses one below it: ") && refused.contains("may take tasks"), "{refused}");
}

#[test]
fn a_puller_may_nothing_but_speak_of_its_bags() {
    let nodes = Nodes::new();
    let far = &nodes.far;
    nodes.cluster.ok("job open --name secret");
    nodes.cluster.ok("pull create x --bag other");
    nodes.cluster.ok("pull create a --bag dock");
    nodes.cluster.ok("pull steal -q --bag dock --as me");
    let denied = "does not let you speak of";
    for line in [
        "pull create y --bag other",
        "pull open other",
        "pull look x --bag other",
        "pull close 1",
        "pull status other",
        "pull complete a --bag other --as me",
    ] {
        let refused = far.fails(1, line);
        assert!(refused.contains(denied) && refused.contains("`dock`, `numbers`"), "{line}: {refused}");
    }
    assert!(far.fails(5, "pull steal --bag other").contains(denied));
    let refused = far.fails(1, "pull look x --bag numbers");
    assert!(refused.contains("there is no such bag") && !refused.contains("secret"), "{refused}");
    // Who has the same label on the server's node is somebody else.
    assert!(far.fails(1, "pull complete a --as me").contains("not-held"));
    assert!(far.fails(1, "pull exit me").contains("nobody with the label"));
    for line in ["job list", "submit -- true", "server stop", "job cancel 1"] {
        let refused = far.fails(3, line);
        assert!(refused.contains("has no section for a client"), "{line}: {refused}");
    }
    assert!(far.hq("worker start --cpus 1").stderr.contains("has no section for a worker"));
    // Whatever it calls itself, its key says what it may.
    let text = fs::read_to_string(nodes.access()).expect("an access file");
    fs::write(nodes.access(), text.replace("\"puller\"", "\"client\"")).expect("writable");
    let refused = far.fails(3, "job list");
    assert!(refused.contains("for a puller, not for a client"), "{refused}");
    nodes.cluster.ok("pull complete a --as me");
}

#[test]
fn programs_in_any_language_speak_at_a_socket_there() {
    let nodes = Nodes::new();
    let (process, path) = nodes.listen();
    let mut line = Line::to(&path);
    line.ask(&json!({"create": {"bag": "dock", "tasks": [{"name": "a"}]}}));
    let taken = line.ask(&json!({"next": {"take": 1, "bags": ["dock"]}}));
    assert_eq!(taken["tasks"][0]["name"], "a");
    assert_eq!(line.ask(&json!({"open": {"name": "other"}}))["error"]["code"], "denied");
    let mut web = UnixStream::connect(&path).expect("it listens");
    web.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let body = r#"{"bags":["other"]}"#;
    let head = "POST /v1/pull/take HTTP/1.1\r\nConnection: close\r\nContent-Length";
    write!(web, "{head}: {}\r\n\r\n{body}", body.len()).expect("connected");
    let mut answer = String::new();
    web.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    // Nobody gives himself other rights.
    let mut more = UnixStream::connect(&path).expect("it listens");
    more.set_read_timeout(Some(PATIENCE)).expect("a socket");
    more.write_all(b"\x02\x00\x00\x00\x12{\"bags\":[\"other\"]}\n{\"open\":{\"name\":\"other\"}}\n")
        .expect("connected");
    let mut answers = BufReader::new(more).lines();
    let mut code =
        || serde_json::from_str::<Value>(&answers.next().expect("a line").expect("text")).expect("JSON");
    assert_eq!(code()["error"]["code"], "bad-request");
    assert_eq!(code()["error"]["code"], "denied");
    drop(process);
}

#[test]
fn what_a_puller_had_whose_connection_is_cut_is_given_to_others() {
    let nodes = Nodes::new();
    nodes.cluster.ok("pull create a --bag dock");
    let (process, path) = nodes.listen();
    let mut line = Line::to(&path);
    line.ask(&json!({"hello": {"label": "far", "grace": 0.1}}));
    let taken = line.ask(&json!({"next": {"take": 1, "bags": ["dock"]}}));
    assert_eq!(taken["tasks"][0]["name"], "a");
    let status = nodes.cluster.ok("pull status dock");
    assert!(status.contains("puller/far has 1 task"), "{status}");
    process.signal(SIGKILL);
    process.end();
    assert_eq!(nodes.cluster.ok("pull steal -q --wait=60s --bag dock"), "a\n");
    nodes.cluster.ok("pull complete a");
}

#[test]
fn what_a_puller_has_taken_stays_taken_when_the_server_is_killed() {
    let mut nodes = Nodes::new();
    nodes.far.ok("pull create a --bag dock");
    assert_eq!(nodes.far.ok("pull steal -q --bag dock"), "a\n");
    nodes.restart();
    assert_eq!(nodes.far.hq("pull steal -q --bag dock").exit, 1, "it is not given twice");
    nodes.far.ok("pull complete a --bag dock");
    assert_eq!(nodes.far.ok("pull look a --bag dock"), "a finished\n");
}

#[test]
fn a_server_that_was_started_without_pullers_lets_none_in() {
    let nodes = Nodes::new();
    let other = Cluster::server();
    let [mut theirs, other] = [nodes.access(), other.server_dir().join("hq-current/access.json")]
        .map(|path| serde_json::from_slice::<Value>(&fs::read(path).expect("there")).expect("JSON"));
    for part in ["port", "server_key"] {
        theirs["puller"][part] = other["client"][part].clone();
    }
    fs::write(nodes.access(), theirs.to_string()).expect("writable");
    let refused = nodes.far.fails(3, "pull status");
    assert!(refused.contains("refuses the puller key"), "{refused}");
}

#[test]
fn a_puller_waits_until_its_bag_is_over_and_is_told_how_it_ended() {
    let nodes = Nodes::new();
    let far = &nodes.far;
    far.ok("pull create a --bag dock");
    far.ok("pull create b --bag numbers");
    far.ok("pull steal -q --bag dock");
    far.ok("pull steal -q --bag numbers");
    assert!(far.fails(1, "pull wait other").contains("does not let you speak of"));
    let waiting = ["dock", "numbers"].map(|bag| Process::start(far.command(["pull", "wait", bag])));
    far.ok("pull complete a --bag dock");
    far.ok("pull close dock");
    far.ok("pull close numbers");
    far.ok("pull fail b --bag numbers");
    let [well, badly] = waiting.map(Process::end);
    assert_eq!((well, badly), (0, 1));
    let told = far.ok("pull wait dock");
    assert_eq!(told, "Bag 1 (dock): finished, 0 waiting, 0 taken, 1 finished, 0 failed\n");
}

#[test]
fn the_file_of_a_worker_or_of_a_client_begins_no_relay() {
    let (cluster, _) = Cluster::server_with_access("--worker-file worker.json --client-file client.json");
    for (name, has) in [("worker", "client"), ("client", "worker")] {
        let far = Place::new();
        let access = far.server_dir().join("hq-current/access.json");
        fs::create_dir_all(access.parent().expect("a directory")).expect("a directory");
        fs::copy(cluster.path(format!("{name}.json")), access).expect("a copy");
        let lacks = format!("has no section for a {has}");
        for line in ["pull create a", "pull steal", "pull env", "pull relay --socket own/socket"] {
            let refused = far.fails(3, line);
            assert!(refused.contains(&lacks), "{line}: {refused}");
        }
        if name == "worker" {
            let refused = far.hq("worker start --pull --cpus 1").stderr;
            assert!(refused.contains(&lacks), "{refused}");
        }
    }
    cluster.ok("pull create a");
    assert_eq!(cluster.ok("pull steal -q"), "a\n");
    stop_with_relay(&cluster);
}
