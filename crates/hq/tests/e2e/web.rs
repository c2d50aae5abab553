//! `hq dashboard --web` over plain HTTP: who may read and change what, and that what happens arrives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::{Cluster, Process};
use crate::patience;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// How long what must come may take.
const PATIENCE: Duration = Duration::from_secs(150);

// A dashboard, and what it prints.
pub(crate) struct Web {
    process: Process,
    lines: BufReader<std::io::PipeReader>,
    address: String,
    pub(crate) link: String,
}

// An answer: status, headers and body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Web {
    pub(crate) fn start(cluster: &Cluster, options: &[&str]) -> Web {
        let mut command =
            cluster.command(["--output-mode", "quiet", "dashboard", "--web"].iter().chain(options));
        command.stderr(Stdio::null());
        let (read, write) = std::io::pipe().expect("a pipe");
        command.stdout(write);
        let process = Process::start(command);
        let mut web =
            Web { process, lines: BufReader::new(read), address: String::new(), link: String::new() };
        web.link = web.next_link();
        let rest = web.link.strip_prefix("http://").expect("an address");
        web.address = rest.split('/').next().expect("a host").to_owned();
        web
    }

    fn next_link(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    fn ask(&self, line: &str, headers: &[&str]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).expect("somebody listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        let has_host = headers.iter().any(|header| header.starts_with("Host:"));
        let host = if has_host { String::new() } else { format!("Host: {}\r\n", self.address) };
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let request = format!("{line} HTTP/1.1\r\n{host}Connection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        answer(&text)
    }

    // Opens a session. Its cookie is returned as a header.
    fn open(&mut self) -> String {
        let path = self.link[self.link.find("/?").expect("a token")..].to_owned();
        let opened = self.ask(&format!("GET {path}"), &[]);
        assert_eq!(opened.status, 200, "{}", opened.head);
        let cookie = opened.header("set-cookie").expect("a cookie");
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        self.link = self.next_link();
        assert!(!self.link.ends_with(&path), "the next link is another one");
        assert_eq!(self.ask(&format!("GET {path}"), &[]).status, 403, "a link is used once");
        format!("Cookie: {}", cookie.split(';').next().expect("a pair"))
    }

    fn get(&self, path: &str, cookie: &str) -> Value {
        let answer = self.ask(&format!("GET {path}"), &[cookie]);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{path}: {error}: {}", answer.body))
    }

    // Events as they come.
    fn watch(&self, path: &str, headers: &[&str]) -> Stream {
        let mut stream = TcpStream::connect(&self.address).expect("somebody listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.address);
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).expect("a head") > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Stream(lines)
    }

    pub(crate) fn end(self) {
        self.process.signal(SIGTERM);
        assert_eq!(self.process.end(), 0);
    }
}

fn answer(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn code(&self) -> String {
        let document: Value = serde_json::from_str(&self.body).unwrap_or_default();
        format!("{} {}", self.status, document["code"].as_str().unwrap_or_default())
    }
}

struct Stream(BufReader<TcpStream>);

impl Stream {
    // Reads until a line fits.
    #[track_caller]
    fn until(&mut self, fits: impl Fn(&str) -> bool) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line);
            assert!(matches!(read, Ok(1..)), "{read:?} after {all}");
            if fits(line.trim_end()) {
                return line.trim_end().to_owned();
            }
            all.push_str(&line);
        }
    }
}

#[test]
fn a_link_opens_a_session_that_reads_what_commands_print() {
    let cluster = Cluster::new();
    cluster.ok("submit --wait --name good --array 1-3 -- true");
    cluster.hq("submit --wait --name <b>bad</b> -- sh -c 'echo why >&2; exit 3'");
    cluster.ok("submit --name long --cpus 2 --array 1-5 -- sleep 1000");
    let mut web = Web::start(&cluster, &[]);
    let cookie = web.open();

    let page = web.ask("GET /", &[]);
    assert!(page.status == 200 && page.body.contains("<script type=\"module\""), "{}", page.head);
    for (name, part) in [
        ("content-security-policy", "default-src 'none'; script-src 'self'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
    ] {
        assert!(page.header(name).is_some_and(|value| value.contains(part)), "{name} in {}", page.head);
    }
    assert_eq!(page.header("access-control-allow-origin"), None);

    let overview = web.get("/api/v1/overview", &cookie);
    assert_eq!(overview["workers"]["active"], 1);
    assert_eq!(overview["task_stats"]["finished"], 3);
    let jobs = web.get("/api/v1/jobs?limit=2", &cookie);
    let ids: Vec<u64> =
        jobs["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["id"].as_u64()).collect();
    assert_eq!((ids, jobs["next"].as_u64()), (vec![3, 2], Some(2)));
    assert_eq!(web.get("/api/v1/jobs?before=2", &cookie)["jobs"][0]["name"], "good");
    let failed = web.get("/api/v1/jobs?state=failed&text=BAD", &cookie);
    assert_eq!(failed["jobs"][0]["name"], "<b>bad</b>");
    assert_eq!(web.get("/api/v1/jobs?sort=name", &cookie)["jobs"][0]["id"], 2);

    let same = |path: &str, line: &str| {
        let mut printed = cluster.json(line);
        let mut answered = web.get(path, &cookie);
        if let Some(first) = printed.as_array_mut().map(|list| list.remove(0)) {
            printed = first;
        }
        assert_eq!(answered["schema_version"], 1, "{path}");
        // Loads change from one look to the next.
        for name in ["tasks", "submits_are_all", "schema_version", "load", "hw_state", "tasks_now"] {
            printed.as_object_mut().map(|document| document.remove(name));
            answered.as_object_mut().map(|document| document.remove(name));
        }
        assert_eq!(answered, printed, "{path}");
    };
    same("/api/v1/jobs/1", "job info 1");
    same("/api/v1/jobs/1/tasks/2", "task info 1 2");
    same("/api/v1/workers/1", "worker info 1");
    let tasks = web.get("/api/v1/jobs/1/tasks?limit=2", &cookie);
    let printed = cluster.json("task list 1");
    assert_eq!(tasks["tasks"].as_array().map(Vec::as_slice), printed["1"].as_array().map(|all| &all[..2]));
    assert_eq!(tasks["next"], 2);
    assert_eq!(web.get("/api/v1/jobs/1/tasks?after=2", &cookie)["tasks"][0]["id"], 3);
    assert_eq!(web.get("/api/v1/jobs/3/tasks?state=failed", &cookie)["tasks"], Value::Array(Vec::new()));
    assert_eq!(web.get("/api/v1/jobs/2/failures", &cookie)["causes"][0]["first"]["stderr_last_line"], "why");
    let output = web.get("/api/v1/jobs/2/tasks/0/output?channel=stderr", &cookie);
    assert_eq!(output["text"], "why\n");
    assert_eq!(web.get("/api/v1/jobs/3/tasks/5/explain", &cookie)["state"], "waiting");
    let workers = web.get("/api/v1/workers", &cookie);
    assert_eq!((&workers["total"], &workers["next"]), (&Value::from(1), &Value::Null));
    assert_eq!(workers["workers"][0]["resources_taken"][0]["name"], "cpus");
    assert_eq!(web.get("/api/v1/allocations", &cookie)["queues"], Value::Array(Vec::new()));
    let layers = web.get("/api/v1/jobs/3/layers", &cookie);
    assert_eq!((&layers["depth"], &layers["layers"][0]["last"]), (&Value::from(1), &Value::from(1)));
    let stats = &layers["layers"][0]["task_stats"];
    assert_eq!(stats["waiting"].as_u64().zip(stats["running"].as_u64()).map(|(a, b)| a + b), Some(5));
    let timeline = web.get("/api/v1/jobs/1/timeline", &cookie);
    assert_eq!((&timeline["attempts"], &timeline["is_complete"]), (&Value::from(3), &Value::from(true)));
    let ended: u64 = timeline["ended"].as_array().expect("bars").iter().filter_map(Value::as_u64).sum();
    assert_eq!(ended, 3);
    let slowest = timeline["slowest"].as_array().expect("a list");
    assert!(slowest.len() == 3 && slowest.iter().all(|slow| slow["worker"] == 1), "{timeline}");
    let failed = &web.get("/api/v1/jobs/2/timeline", &cookie)["slowest"][0];
    assert_eq!((&failed["task"], &failed["state"]), (&Value::from(0), &Value::from("failed")));
    let there = web.get("/api/v1/workers/1/tasks", &cookie);
    assert_eq!((&there["tasks"][0]["job_id"], &there["are_all"]), (&Value::from(3), &Value::from(true)));
    let count = there["tasks"].as_array().map_or(0, Vec::len);
    assert!((1..=5).contains(&count), "{there}");
    let one = web.get("/api/v1/workers/1/tasks?limit=1", &cookie);
    assert_eq!(one["tasks"].as_array().map(Vec::len), Some(1));
    for path in [
        "jobs",
        "jobs/1/layers",
        "jobs/1/timeline",
        "series",
        "allocations",
        "workers",
        "jobs/1/tasks",
        "jobs/2/failures",
        "jobs/2/tasks/0/output",
        "workers/1/tasks",
    ] {
        assert_eq!(web.get(&format!("/api/v1/{path}"), &cookie)["schema_version"], 1, "{path}");
    }
    assert_eq!(web.get("/api/v1/series", &cookie)["at"].as_array().map(Vec::is_empty), Some(false));
    assert_eq!(web.get("/api/v1/openapi.json", &cookie)["openapi"], "3.1.0");

    for (line, code) in [
        ("GET /api/v1/jobs/99", "404 no-job"),
        ("GET /api/v1/jobs/99/layers", "404 no-job"),
        ("GET /api/v1/jobs/99/timeline", "404 no-job"),
        ("GET /api/v1/jobs/1/tasks/99", "404 no-task"),
        ("GET /api/v1/workers/99", "404 no-worker"),
        ("GET /api/v1/workers/99/tasks", "404 no-worker"),
        ("GET /api/v1/workers/1/tasks?limit=0", "400 invalid"),
        ("GET /api/v1/jobs/x", "400 invalid"),
        ("GET /api/v1/jobs?stat=failed", "400 invalid"),
        ("GET /api/v1/nothing", "404 no-path"),
        ("DELETE /api/v1/jobs/1", "405 method"),
    ] {
        assert_eq!(web.ask(line, &[&cookie]).code(), code, "{line}");
    }
    web.end();
}

#[test]
fn strangers_are_refused() {
    let cluster = Cluster::server();
    cluster.ok("submit -- true");
    let mut web = Web::start(&cluster, &[]);
    let wrong = web.ask("GET /?token=wrong", &[]);
    assert!(wrong.status == 403 && wrong.body.contains("hq dashboard --web"), "{}", wrong.body);
    assert_eq!(web.ask(&format!("HEAD /?{}", web.link.split('?').nth(1).expect("a token")), &[]).status, 200);
    let cookie = web.open();
    let origin = format!("Origin: http://{}", web.address);
    let ask = |line: &str, headers: &[&str]| web.ask(line, headers).code();
    assert_eq!(ask("GET /api/v1/overview", &[]), "401 no-session");
    assert_eq!(ask("GET /api/v1/events", &[]), "401 no-session");
    assert_eq!(ask("GET /api/v1/overview", &["Cookie: hq-0000000000000000=1"]), "401 no-session");
    for host in ["Host: evil.example.org", "Host: 10.0.0.1", "Host:"] {
        assert_eq!(ask("GET /api/v1/overview", &[host, &cookie]), "421 foreign-host", "{host}");
        assert_eq!(web.ask("GET /", &[host]).status, 421, "{host}");
    }
    assert_eq!(web.ask("GET /api/v1/overview", &["Host: localhost:1", &cookie]).status, 200);
    let foreign = "Origin: http://127.0.0.1:1";
    assert_eq!(ask("GET /api/v1/overview", &[&cookie, foreign]), "403 foreign-origin");
    assert_eq!(ask("GET /api/v1/overview", &[&cookie, "Sec-Fetch-Site: cross-site"]), "403 foreign-origin");
    assert_eq!(ask("POST /api/v1/jobs/1/cancel", &[&cookie, foreign]), "403 foreign-origin");
    assert_eq!(ask("POST /api/v1/jobs/1/cancel", &[&cookie]), "403 foreign-origin");
    assert_eq!(ask("POST /api/v1/jobs/1/cancel", &[&origin]), "401 no-session");
    assert_eq!(ask("POST /api/v1/jobs/1/cancel", &[&cookie, &origin]), "403 not-allowed");
    assert_eq!(cluster.json("job info 1")[0]["info"]["state"], "waiting");
    let long = format!("X: {}", "x".repeat(64 << 10));
    assert_eq!(web.ask("GET /", &[&long]).status, 431);
    // Who says nothing keeps nobody out.
    let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(&web.address).expect("room")).collect();
    assert_eq!(web.ask("GET /", &[]).status, 200);
    drop(silent);
    web.end();
    for (place, words) in
        [("0.0.0.0:0", "other machines could reach 0.0.0.0:0"), ("8080", "not an address to serve on")]
    {
        let refused = cluster.fails(2, &format!("dashboard --web {place}"));
        assert!(refused.contains(words), "{refused}");
    }
    assert!(cluster.fails(2, "dashboard --allow-actions").contains("--web"));
}

#[test]
fn what_is_allowed_is_done() {
    let cluster = Cluster::new();
    cluster.ok("submit --array 1-3 -- sleep 1000");
    let mut web = Web::start(&cluster, &["--allow-actions"]);
    let cookie = web.open();
    assert_eq!(web.get("/api/v1/overview", &cookie)["allows_actions"], true);
    let origin = format!("Origin: http://{}", web.address);
    let post = |path: &str| web.ask(&format!("POST {path}"), &[&cookie, &origin, "Content-Length: 0"]);
    let canceled = post("/api/v1/jobs/1/cancel");
    assert_eq!(
        (canceled.status, canceled.body.contains("Job 1 is canceled")),
        (200, true),
        "{}",
        canceled.body
    );
    assert_eq!(cluster.json("job info 1")[0]["info"]["state"], "canceled");
    let again: Value = serde_json::from_str(&post("/api/v1/jobs/1/resubmit").body).expect("a document");
    assert_eq!(again["job"], 2);
    assert_eq!(again["schema_version"], 1);
    assert_eq!(post("/api/v1/jobs/1/cancel").code(), "409 nothing-to-do", "it has ended");
    assert_eq!(post("/api/v1/jobs/2/cancel").status, 200);
    cluster.ok("submit --wait -- true");
    assert_eq!(post("/api/v1/jobs/3/resubmit").code(), "409 nothing-to-do", "it finished");
    cluster.hq("submit --wait -- false");
    assert_eq!(post("/api/v1/jobs/4/cancel").code(), "409 nothing-to-do", "it failed");
    assert_eq!(post("/api/v1/jobs/9/cancel").code(), "404 no-job");
    assert_eq!(post("/api/v1/queues/9/pause").code(), "404 no-queue");
    cluster.ok("submit --array 1-3 -- sleep 1000");
    assert_eq!(post("/api/v1/workers/1/stop").status, 200);
    assert_eq!(cluster.json("worker info 1")[0]["is_draining"], true);
    web.end();
}

#[test]
fn what_happens_arrives_and_a_reader_goes_on_where_it_was() {
    let mut cluster = Cluster::new();
    let mut web = Web::start(&cluster, &[]);
    let cookie = web.open();
    let mut counts = web.watch("/api/v1/events", &[&cookie]);
    counts.until(|line| line == "event: overview");
    let mut events = web.watch("/api/v1/events?kind=job,task", &[&cookie]);
    cluster.ok("submit --wait --array 1-2 -- true");
    counts.until(|line| line.starts_with("data: ") && line.contains("\"finished\":2,\"failed\":0"));
    events.until(|line| line.contains("job-created"));
    events.until(|line| line.contains("task-finished"));
    events.until(|line| line.contains("job-completed"));
    // An id stands before the last one of those that came together.
    let mut all = web.watch("/api/v1/events?kind=job,task&after=0", &[&cookie]);
    let id = all.until(|line| line.starts_with("id: "));
    all.until(|line| line.contains("job-completed"));
    drop((all, events));
    cluster.ok("submit --wait --name second -- true");
    let last_id = format!("Last-Event-ID: {}", id.strip_prefix("id: ").expect("an id"));
    let mut again = web.watch("/api/v1/events?kind=job,task", &[&cookie, &last_id]);
    let first = again.until(|line| line.starts_with("data: "));
    assert!(first.contains("job-created") && first.contains("second"), "{first}");
    again.until(|line| line.contains("job-completed") && line.contains("\"job\":2"));

    if let Some(server) = cluster.server.take() {
        server.signal(SIGKILL);
        server.end();
    }
    counts.until(|line| line == "event: lost");
    patience::until("the loss is told", || match &web.get("/api/v1/overview", &cookie)["server_lost"] {
        Value::String(_) => Ok(()),
        other => Err(other.to_string()),
    });
    assert_eq!(web.ask("GET /api/v1/jobs", &[&cookie]).status, 503);
    cluster.start_server("");
    counts.until(|line| line == "event: overview");
    assert_eq!(web.get("/api/v1/jobs", &cookie)["jobs"][0]["name"], "second");
    cluster.ok("submit --name third -- true");
    again.until(|line| line.contains("job-created") && line.contains("third"));
    web.end();
}

#[test]
fn so_many_may_watch() {
    let cluster = Cluster::server();
    let mut web = Web::start(&cluster, &[]);
    let cookie = web.open();
    let readers: Vec<Stream> = (0..16).map(|_| web.watch("/api/v1/events?kind=task", &[&cookie])).collect();
    assert_eq!(web.ask("GET /api/v1/events?kind=task", &[&cookie]).code(), "503 busy");
    let watchers: Vec<Stream> = (0..48).map(|_| web.watch("/api/v1/events", &[&cookie])).collect();
    assert_eq!(web.ask("GET /api/v1/events", &[&cookie]).code(), "503 busy");
    assert_eq!(web.get("/api/v1/overview", &cookie)["schema_version"], 1);
    drop((readers, watchers));
    patience::until("there is room again", || {
        match web.ask("GET /api/v1/events?kind=nonsense", &[&cookie]).code().as_str() {
            "400 invalid" => Ok(()),
            other => Err(other.to_owned()),
        }
    });
    web.end();
}

#[test]
fn a_socket_is_served_to_its_user() {
    let cluster = Cluster::server();
    let path = cluster.path("socket");
    let place = format!("unix:{}", path.display());
    let mut web = Web::start(&cluster, &[&place]);
    let ask = |line: &str| {
        let mut stream = UnixStream::connect(&path).expect("somebody listens");
        let request = format!("{line} HTTP/1.1\r\nHost: localhost:8642\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        answer(&text)
    };
    let token = web.link.strip_prefix("http://localhost:8642").expect("an address of a laptop").to_owned();
    assert!(ask(&format!("GET {token}")).header("set-cookie").is_some());
    assert_ne!(web.next_link(), web.link);
    // Who closes its sending end behind the request is answered.
    let mut stream = UnixStream::connect(&path).expect("somebody listens");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
    stream.shutdown(std::net::Shutdown::Write).expect("open");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    assert_eq!(answer(&text).status, 200);
    web.end();
    assert!(!path.exists());
}
