//! Servers as processes of their own: signals, threads, a full disk, the background.
//!
//! The program starts itself again as the server. It has no harness, because a process that goes to the
//! background must have one thread.

#![expect(unsafe_code, reason = "changes how a signal is taken")]

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::{Client, Worker, finished, runtime, spec, start, stop, watch};
use hq_core::WorkerSecret;
use hq_core::client_messages::{ClientRequest, ClientResponse, EventFilter};
use hq_core::record::Record;
use hq_core::worker_messages::{FromWorker, Held, Report, ToWorker, WorkerHello};
use hq_model::worker::WorkerConfig;
use hq_model::{IdSet, JobId, Timestamp};
use hq_net::AccessFile;
use hq_server::directory::access_path;
use hq_server::{Detached, ServerOptions, detach};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

const DIR: &str = "HQ_TEST_SERVER_DIR";
const IN_BACKGROUND: &str = "HQ_TEST_IN_BACKGROUND";
/// Longest time of one test.
const TEST_TIME_MAX: Duration = Duration::from_secs(180);
/// Longest wait for what must come at once.
const PATIENCE: Duration = Duration::from_secs(200);
const TESTS: [(&str, fn()); 10] = [
    ("clients_that_never_read_cost_little", clients_that_never_read_cost_little),
    ("watchers_of_events_cost_no_thread_each", watchers_of_events_cost_no_thread_each),
    ("a_server_has_few_threads_and_survives_hanging_up", a_server_has_few_threads_and_survives_hanging_up),
    ("all_ending_signals_end_cleanly", all_ending_signals_end_cleanly),
    ("answers_wait_for_a_full_disk", answers_wait_for_a_full_disk),
    (
        "workers_and_their_tasks_stay_while_the_disk_is_full",
        workers_and_their_tasks_stay_while_the_disk_is_full,
    ),
    ("a_worker_comes_back_with_its_secret_alone", a_worker_comes_back_with_its_secret_alone),
    ("a_second_signal_ends_at_once", a_second_signal_ends_at_once),
    ("a_server_in_the_background_answers_when_its_starter_returns", in_the_background),
    ("a_killed_server_is_continued", a_killed_server_is_continued),
];

fn main() {
    if let Some(dir) = std::env::var_os(DIR) {
        std::process::exit(serve(Path::new(&dir)));
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| {
        let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
    };
    let is_list = arguments.iter().any(|argument| argument == "--list");
    let mut passed = 0;
    for (name, test) in TESTS.iter().filter(|(name, _)| wanted(name)) {
        if is_list {
            print(&format!("{name}: test"));
        } else {
            watched(name, *test);
            print(&format!("test {name} ... ok"));
            passed += 1;
        }
    }
    if !is_list {
        print(&format!("test result: ok. {passed} passed; 0 failed"));
    }
}

// Names a test that hangs, and ends the process: nothing can end a thread.
fn watched(name: &'static str, test: fn()) {
    let (ended, end) = mpsc::channel::<()>();
    thread::spawn(move || {
        if end.recv_timeout(TEST_TIME_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
            print(&format!("test {name} has been running for over {} seconds", TEST_TIME_MAX.as_secs()));
            std::process::abort();
        }
    });
    test();
    drop(ended);
}

#[expect(clippy::print_stdout)]
fn print(text: &str) {
    println!("{text}");
}

// The server's process.
fn serve(dir: &Path) -> i32 {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let mut options = ServerOptions::new(dir);
    options.host = Some("127.0.0.1".to_owned());
    if std::env::var_os(IN_BACKGROUND).is_some() {
        match detach().expect("it can fork") {
            Detached::Started(started) => {
                print(&started.instance().display().to_string());
                return started.keep().map_or(1, |()| 0);
            }
            Detached::Failed { error, hint, .. } => {
                print(&format!("{error}; {hint}"));
                return 1;
            }
            Detached::Child(child) => options.detached = Some(child),
        }
    }
    // Writes beyond the limit on file sizes fail instead of ending the process.
    // SAFETY: changes how a signal is taken, before there are threads.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let result = hq_server::start(options).and_then(|server| {
        print("ready");
        server.wait()
    });
    match result {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!("{error}");
            1
        }
    }
}

/// A server that is a child of this process.
struct Server {
    process: Child,
    output: BufReader<ChildStdout>,
    log: BufReader<std::process::ChildStderr>,
    access: AccessFile,
}

impl Server {
    fn start(dir: &Path) -> Server {
        let mut process = command(dir).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let log = BufReader::new(process.stderr.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        let access = AccessFile::load(&access_path(dir)).expect("an access file");
        Server { process, output, log, access }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it lives");
    }

    // Reads the log up to a line with this text.
    fn wait_for_log(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(self.log.read_line(&mut line).expect("a line"), 0, "the log has no {text:?}");
        }
    }

    // While it is zero, no file can grow.
    fn set_file_size_limit(&self, limit: Option<u64>) {
        let limit = Rlimit { current: limit, maximum: None };
        prlimit(Some(self.pid()), Resource::Fsize, limit).expect("our own child");
    }

    fn wait(mut self) -> ExitStatus {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).expect("text");
        self.output.read_to_string(&mut rest).expect("text");
        self.process.wait().expect("our own child")
    }
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(DIR, dir).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn a_server_has_few_threads_and_survives_hanging_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::start(dir.path());
    server.signal(Signal::HUP);
    server.wait_for_log("SIGHUP");
    runtime().block_on(async {
        let mut clients = Vec::new();
        for key in 0..20 {
            let mut client = Client::connect(&server.access).await;
            client.submit(key, 10, spec()).await;
            clients.push((client, Worker::connect(&server.access).await));
        }
        let tasks = format!("/proc/{}/task", server.pid().as_raw_nonzero());
        let threads = fs::read_dir(tasks).expect("it lives").count();
        assert!(threads <= 10, "{threads} threads");
    });
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

fn clients_that_never_read_cost_little() {
    const CLIENTS: usize = 4;
    const REQUESTS: usize = 5000;
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path());
    runtime().block_on(async {
        let mut good = Client::connect(&server.access).await;
        let mut lazy = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = Client::connect(&server.access).await;
            for _ in 0..REQUESTS {
                client.send(&ClientRequest::ServerInfo).await;
            }
            lazy.push(client);
        }
        for _ in 0..100 {
            assert_eq!(good.jobs().await, [0; 0]);
        }
        // Their answers would take 200 MB.
        let used = resident_bytes(server.pid());
        assert!(used < 100 << 20, "{used} bytes");
        // They are all there for who reads in the end.
        for request in 1..=REQUESTS as u64 {
            assert!(matches!(lazy[0].answer(request).await, ClientResponse::ServerInfo(_)));
        }
    });
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

fn resident_bytes(pid: Pid) -> usize {
    let path = format!("/proc/{}/statm", pid.as_raw_nonzero());
    let text = fs::read_to_string(path).expect("it lives");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * 4096
}

fn watchers_of_events_cost_no_thread_each() {
    const WATCHERS: usize = 100;
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path());
    runtime().block_on(async {
        let mut client = Client::connect(&server.access).await;
        client.submit(1, 10, spec()).await;
        let mut watchers = Vec::new();
        for _ in 0..WATCHERS {
            let mut watcher = Client::connect(&server.access).await;
            let request = watcher
                .send(&ClientRequest::Events { follow: true, after: 0, filter: EventFilter::default() })
                .await;
            watchers.push((watcher, request));
        }
        // The past, and then what happens.
        for wanted in [JobId(1), JobId(2)] {
            for (watcher, request) in &mut watchers {
                while !told(&watcher.answer(*request).await, wanted) {}
            }
            let tasks = format!("/proc/{}/task", server.pid().as_raw_nonzero());
            let threads = fs::read_dir(tasks).expect("it lives").count();
            assert!(threads <= 11, "{threads} threads");
            client.submit(2, 10, spec()).await;
        }
    });
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

// True when these events have a submit to the job.
fn told(answer: &ClientResponse, wanted: JobId) -> bool {
    match answer {
        ClientResponse::Events { records, .. } => records
            .iter()
            .any(|(_, record)| matches!(record, Record::Submitted { job, .. } if *job == wanted)),
        other => panic!("{other:?}"),
    }
}

fn all_ending_signals_end_cleanly() {
    let dir = tempfile::tempdir().expect("a directory");
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let server = Server::start(dir.path());
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0));
        assert!(!access_path(dir.path()).exists());
    }
}

fn answers_wait_for_a_full_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::start(dir.path());
    let job = runtime().block_on(async {
        let mut client = Client::connect(&server.access).await;
        let submit = async |client: &mut Client, key| client.submit(key, 1, spec()).await;
        submit(&mut client, 1).await;
        server.set_file_size_limit(Some(0));
        let mut waiting = Box::pin(submit(&mut client, 2));
        // It is sent, and the server has tried to save it.
        let mut poll = async || {
            std::future::poll_fn(|context| {
                std::task::Poll::Ready(waiting.as_mut().poll(context).is_pending())
            })
            .await
        };
        assert!(poll().await);
        server.wait_for_log("the journal cannot be written");
        assert!(poll().await, "nothing is acknowledged that is not saved");
        server.set_file_size_limit(None);
        let job = waiting.await;
        server.wait_for_log("the journal is written again");
        job
    });
    assert_eq!(job.0, 2);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    let again = start(dir.path());
    let jobs = runtime().block_on(async { Client::connect(again.access()).await.jobs().await });
    assert_eq!(jobs, [1, 2]);
    stop(again);
}

fn workers_and_their_tasks_stay_while_the_disk_is_full() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::start(dir.path());
    runtime().block_on(async {
        let mut client = Client::connect(&server.access).await;
        let mut worker = Worker::connect(&server.access).await;
        client.submit(1, 1, spec()).await;
        let Some(ToWorker::Run(batches)) = worker.hear().await else { panic!("a task") };
        server.set_file_size_limit(Some(0));
        let opened = ClientRequest::OpenJob { key: 2, spec: hq_model::JobSpec::default() };
        client.send(&opened).await;
        server.wait_for_log("the journal cannot be written");

        // Its connection is cut. It is welcomed again under its id, and keeps its task.
        let held = Held {
            template: batches[0].template,
            instance: batches[0].instance,
            variant: None,
            queued: IdSet::new(),
            running: batches[0].ids.clone(),
            started: vec![Timestamp(1)],
        };
        let hello = WorkerHello { known_as: Some(worker.id), holds: vec![held], ..common::hello() };
        let again = Worker::connect_as(&server.access, hello);
        let mut again = tokio::time::timeout(PATIENCE, again).await.expect("it is welcomed without a disk");
        assert_eq!(again.id, worker.id);
        // A new one is welcomed when its id is on disk, however long it was silent until then.
        let short = WorkerHello {
            config: WorkerConfig { heartbeat: Duration::from_millis(50), ..common::worker_config() },
            ..common::hello()
        };
        let mut new = Box::pin(Worker::connect_as(&server.access, short));
        let looks = async {
            // Several times as long as it may be silent once it is welcomed; whoever looks is answered.
            let begin = std::time::Instant::now();
            while begin.elapsed() < Duration::from_secs(1) {
                let mut looker = Client::connect(&server.access).await;
                assert_eq!(looker.jobs().await, [1, 2]);
            }
        };
        tokio::select! {
            _ = &mut new => panic!("nothing is acknowledged that is not saved"),
            () = looks => {}
        }
        server.set_file_size_limit(None);
        let mut new = tokio::time::timeout(PATIENCE, new).await.expect("it is welcomed when there is room");
        new.say(&FromWorker::Heartbeat).await;
        assert_ne!(new.id, again.id);

        // The task goes on as it was: its end is taken in, and it was not started elsewhere.
        let finished = batches.iter().map(finished).collect();
        again.say(&FromWorker::Report(Report { number: 1, finished, ..Report::default() })).await;
        let mut looker = Client::connect(&server.access).await;
        assert_eq!(watch(&mut looker, hq_model::JobId(1)).await, (1, 1));
        assert!(matches!(again.hear().await, Some(ToWorker::Saved { report: 1 })));
    });
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

fn a_worker_comes_back_with_its_secret_alone() {
    let secret = |byte| Some(WorkerSecret([byte; 32]));
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::start(dir.path());
    let access = server.access.clone();
    let first = runtime().block_on(async {
        let first =
            Worker::connect_as(&access, WorkerHello { secret: secret(0xa5), ..common::hello() }).await;
        let known_as = Some(first.id);
        for secret in [secret(0x5a), None] {
            let other =
                Worker::connect_as(&access, WorkerHello { known_as, secret, ..common::hello() }).await;
            assert_ne!(other.id, first.id);
            server.wait_for_log("a worker cannot show that it is the one it says");
        }
        first.id
    });
    server.signal(Signal::KILL);
    assert!(!server.wait().success());
    let mut journal = fs::read_dir(dir.path().join("journal")).expect("a journal");
    let holds = |bytes: &[u8]| bytes.windows(32).any(|window| window == [0xa5; 32]);
    assert!(!journal.any(|file| holds(&fs::read(file.expect("a file").path()).expect("a file"))));
    let server = Server::start(dir.path());
    let again = runtime().block_on(async {
        let hello = WorkerHello { known_as: Some(first), secret: secret(0xa5), ..common::hello() };
        Worker::connect_as(&access, hello).await.id
    });
    assert_eq!(again, first);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

fn a_second_signal_ends_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::start(dir.path());
    // It cannot end cleanly while it cannot save what it knows.
    server.set_file_size_limit(Some(0));
    let runtime = runtime();
    let _client = runtime.block_on(async {
        let mut client = Client::connect(&server.access).await;
        client.send(&ClientRequest::OpenJob { key: 1, spec: hq_model::JobSpec::default() }).await;
        client
    });
    server.wait_for_log("the journal cannot be written");
    server.signal(Signal::TERM);
    server.wait_for_log("asked to end");
    server.signal(Signal::INT);
    server.wait_for_log("ended at once");
    assert_eq!(server.wait().code(), Some(1));
    assert!(!access_path(dir.path()).exists());
}

fn in_the_background() {
    let dir = tempfile::tempdir().expect("a directory");
    let starter = || command(dir.path()).env(IN_BACKGROUND, "1").output().expect("it starts");
    let said = starter();
    let real = fs::canonicalize(dir.path()).expect("a directory");
    let expected = format!("{}\n", real.join("001").display());
    assert_eq!((said.status.code(), String::from_utf8_lossy(&said.stdout)), (Some(0), expected.into()));

    let access = AccessFile::load(&access_path(dir.path())).expect("an access file");
    let runtime = runtime();
    let (mut client, pid) = runtime.block_on(async {
        let mut client = Client::connect(&access).await;
        match client.ask(ClientRequest::ServerInfo).await {
            ClientResponse::ServerInfo(info) => (client, info.pid),
            other => panic!("{other:?}"),
        }
    });
    let again = starter();
    let text = String::from_utf8_lossy(&again.stdout).into_owned();
    assert_eq!(again.status.code(), Some(1));
    assert!(text.contains("is already online") && text.contains("it runs at 127.0.0.1:"), "{text}");

    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::TERM).expect("it lives");
    assert!(runtime.block_on(client.is_closed()));
    // It has said goodbye; the next one waits until it is gone.
    stop(start(dir.path()));
    let mut log = String::new();
    let file = File::open(dir.path().join("001/server.log")).expect("a log");
    BufReader::new(file).read_to_string(&mut log).expect("text");
    assert!(log.contains("server starts") && log.contains("ended"), "{log}");
}

fn a_killed_server_is_continued() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path());
    let before = server.access.clone();
    runtime().block_on(async {
        let mut client = Client::connect(&before).await;
        for key in 1..=100 {
            client.submit(key, 1000, spec()).await;
        }
    });
    server.signal(Signal::KILL);
    assert!(!server.wait().success());
    let server = Server::start(dir.path());
    assert_eq!(server.access, before);
    let jobs = runtime().block_on(async { Client::connect(&before).await.jobs().await });
    assert_eq!(jobs.len(), 100, "what was acknowledged is there");
    assert!(!dir.path().join("001").exists(), "the keys of the dead one are gone");
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}
