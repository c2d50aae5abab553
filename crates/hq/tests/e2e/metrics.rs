//! `hq metrics`: once, over HTTP, as a file; and events of some jobs and kinds.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cluster::{Cluster, Process};
use crate::patience;

const SIGTERM: i32 = 15;

fn value<'a>(text: &'a str, sample: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '))
}

#[test]
fn what_is_there_and_what_has_ended_is_counted() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --name good --array 1-5 -- true");
    cluster.hq("submit --wait --name bad -- false");
    cluster.ok("submit --cpus 4 --name long -- sleep 1000");
    let text = cluster.ok("metrics");
    assert!(text.ends_with("# EOF\n"), "{text}");
    for (sample, expected) in [
        ("hq_up", "1"),
        ("hq_tasks_ended_total{outcome=\"finished\"}", "5"),
        ("hq_tasks_ended_total{outcome=\"failed\"}", "1"),
        ("hq_jobs{state=\"finished\"}", "1"),
        ("hq_workers{state=\"active\"}", "1"),
        ("hq_resource_offered{resource=\"cpus\"}", "4"),
        ("hq_resource_taken{resource=\"cpus\"}", "4"),
        ("hq_jobs_left_out", "0"),
    ] {
        assert_eq!(value(&text, sample), Some(expected), "{sample} in {text}");
    }
    let memory = value(&text, "hq_server_memory_bytes").and_then(|bytes| bytes.parse::<u64>().ok());
    assert!(memory.is_some_and(|bytes| bytes > 1 << 20), "{text}");
    assert!(text.contains("hq_job_tasks{job=\"3\",name=\"long\","), "{text}");
    assert!(!cluster.ok("metrics --jobs 0").contains("hq_job_tasks{"));
    assert_eq!(value(&cluster.ok("metrics --jobs 0"), "hq_jobs_left_out"), Some("1"));
    let document = cluster.json("metrics");
    let up =
        document["metrics"].as_array().and_then(|all| all.iter().find(|family| family["name"] == "hq_up"));
    assert_eq!(up.map(|up| &up["samples"][0]["value"]), Some(&Value::from(1.0)));
}

// What is answered to a request: status and body.
fn ask(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.write_all(request.replace('\n', "\r\n").as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    if status == 200 {
        assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    }
    (status, body.to_owned())
}

// `hq metrics --listen` and where it listens.
fn listening(cluster: &Cluster) -> (Process, String) {
    let mut command: Command = cluster.command(["metrics", "--listen", "127.0.0.1:0"]);
    command.stderr(Stdio::null());
    let (read, write) = std::io::pipe().expect("a pipe");
    command.stdout(write);
    let process = Process::start(command);
    let mut line = String::new();
    BufReader::new(read).read_line(&mut line).expect("a line");
    let address = line.trim_end().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics"));
    (process, address.unwrap_or_else(|| panic!("{line}")).to_owned())
}

#[test]
fn over_http_only_metrics_are_read_and_a_server_may_come_and_go() {
    let mut cluster = Cluster::server();
    let (process, address) = listening(&cluster);
    let get = |path: &str, host: &str| {
        ask(&address, &format!("GET {path} HTTP/1.1\nHost: {host}\nConnection: close\n\n"))
    };
    let (status, body) = get("/metrics", &address);
    assert_eq!((status, value(&body, "hq_up")), (200, Some("1")));
    assert_eq!(get("/", &address).0, 404);
    assert_eq!(get("/metrics", "evil.example.org").0, 421);
    let post = format!("POST /metrics HTTP/1.1\nHost: {address}\nContent-Length: 0\nConnection: close\n\n");
    assert_eq!(ask(&address, &post).0, 405);
    assert_eq!(ask(&address, "nonsense\n\n").0, 400);

    cluster.ok("server stop");
    cluster.server.take().map(Process::end);
    let (status, body) = get("/metrics", "localhost");
    assert_eq!((status, value(&body, "hq_up")), (200, Some("0")));
    cluster.start_server("");
    let (_, body) = get("/metrics", "localhost");
    assert_eq!((value(&body, "hq_up"), value(&body, "hq_server_starts_total")), (Some("1"), Some("2")));
    process.signal(SIGTERM);
    assert_eq!(process.end(), 0);
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    let cluster = Cluster::server();
    let (process, address) = listening(&cluster);
    let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(&address).expect("room")).collect();
    let (status, _) = ask(&address, "GET /metrics HTTP/1.1\nHost: localhost\nConnection: close\n\n");
    assert_eq!(status, 200);
    drop(silent);
    process.signal(SIGTERM);
    assert_eq!(process.end(), 0);
}

#[test]
fn other_machines_are_kept_out_unless_they_are_let_in() {
    let cluster = Cluster::server();
    let refused = cluster.fails(2, "metrics --listen 0.0.0.0:0");
    assert!(
        refused.contains("other machines could reach 0.0.0.0:0") && refused.contains("--allow-remote"),
        "{refused}"
    );
    for bad in ["9464", "localhost:1", "127.0.0.1"] {
        assert!(
            cluster.fails(2, &format!("metrics --listen {bad}")).contains("not an address with a port"),
            "{bad}"
        );
    }
    cluster.fails(2, "metrics --allow-remote");
    cluster.fails(2, "metrics --interval 5s");
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    let cluster = Cluster::server();
    let mut command = cluster.command(["metrics", "--write", "hq.prom", "--interval", "1s"]);
    command.stderr(Stdio::null());
    let process = Process::start(command);
    let until = |sample: &'static str, expected: &'static str| {
        patience::until("the file", || {
            let text = std::fs::read_to_string(cluster.path("hq.prom")).unwrap_or_default();
            if !text.is_empty() {
                assert!(text.ends_with("# EOF\n"), "half a file: {text}");
            }
            if value(&text, sample) == Some(expected) { Ok(()) } else { Err(text) }
        });
    };
    until("hq_jobs{state=\"waiting\"}", "0");
    cluster.ok("submit true");
    until("hq_jobs{state=\"waiting\"}", "1");
    process.signal(SIGTERM);
    assert_eq!(process.end(), 0);
    let left: Vec<_> = std::fs::read_dir(cluster.work()).expect("a directory").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let error = cluster.fails(1, "metrics --write no/such/hq.prom");
    assert!(error.contains("no/such/hq.prom cannot be written"), "{error}");
}

// The types of events that a stream prints until something of this type comes.
fn streamed(cluster: &Cluster, options: &str, last: &str) -> Vec<String> {
    let mut command = cluster.command(["journal", "stream"].into_iter().chain(options.split_whitespace()));
    let (read, write) = std::io::pipe().expect("a pipe");
    command.stdout(write);
    let _process = Process::start(command);
    let mut types = Vec::new();
    for line in BufReader::new(read).lines() {
        let line: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
        types.push(line["event"]["type"].as_str().unwrap_or_default().to_owned());
        if types.last().is_some_and(|word| word == last) {
            break;
        }
    }
    types
}

#[test]
fn a_stream_tells_of_some_jobs_and_some_kinds() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --name one -- true");
    cluster.ok("submit --wait --name two -- true");
    cluster.hq("submit --wait --name three -- false");
    let types = streamed(&cluster, "--jobs 2", "job-completed");
    assert_eq!(types, ["job-created", "task-assigned", "task-started", "task-finished", "job-completed"]);
    let types = streamed(&cluster, "--kind worker,server", "worker-connected");
    assert_eq!(types, ["server-start", "worker-connected"]);
    let types = streamed(&cluster, "--kind job --jobs 3,4", "job-completed");
    assert_eq!(types, ["job-created", "job-completed"]);
    let types = streamed(&cluster, "--kind task --jobs 3", "task-failed");
    assert_eq!(types, ["task-assigned", "task-started", "task-failed"]);
    cluster.fails(2, "journal stream --kind stars");
}

#[test]
fn a_stream_from_now_on_leaves_out_the_past() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --name one -- true");
    cluster.ok("job open --name open");
    let mut command = cluster.command(["journal", "stream", "--from-now", "--kind", "job"]);
    let (read, write) = std::io::pipe().expect("a pipe");
    command.stdout(write);
    let _process = Process::start(command);
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(read).lines() {
            // Nobody listens when the test has given up.
            if told.send(line.map_err(|error| error.to_string())).is_err() {
                return;
            }
        }
    });
    // When it has begun nobody knows: jobs are submitted until it has heard of one.
    let hear = || {
        let line = patience::answer(|| {
            cluster.ok("submit -- true");
            heard.try_recv().map_err(drop)
        });
        serde_json::from_str::<Value>(&line.expect("an event").expect("text")).expect("JSON")["event"].clone()
    };
    let first = hear();
    assert_eq!((&first["type"], &first["job"]), (&"job-progress".into(), &2.into()));
    assert_eq!(
        (&first["name"], &first["tasks"]),
        (&"open".into(), &"".into()),
        "job 1 has ended: it is past"
    );
    let next = std::iter::from_fn(|| Some(hear())).find(|event| event["type"] == "job-created");
    assert!(next.is_some_and(|event| event["job"].as_u64() > Some(2)));
}
