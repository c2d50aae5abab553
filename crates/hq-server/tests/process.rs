//! Servers as processes of their own: signals, threads, a full disk, the background.
//!
//! The program starts itself again as the server. It has no harness, because a process that goes to the
//! background must have one thread.

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use common::{Client, Worker, runtime, spec, start, stop};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_net::AccessFile;
use hq_server::directory::access_path;
use hq_server::{Detached, ServerOptions, detach};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

const DIR: &str = "HQ_TEST_SERVER_DIR";
const IN_BACKGROUND: &str = "HQ_TEST_IN_BACKGROUND";
const TESTS: [(&str, fn()); 6] = [
    ("a_server_has_few_threads_and_survives_hanging_up", a_server_has_few_threads_and_survives_hanging_up),
    ("both_ending_signals_end_cleanly", both_ending_signals_end_cleanly),
    ("answers_wait_for_a_full_disk", answers_wait_for_a_full_disk),
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
    for (name, test) in TESTS.iter().filter(|(name, _)| wanted(name)) {
        if arguments.iter().any(|argument| argument == "--list") {
            print(&format!("{name}: test"));
        } else {
            test();
            print(&format!("test {name} ... ok"));
        }
    }
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
            Detached::Started(instance) => {
                print(&instance.display().to_string());
                return 0;
            }
            Detached::Failed { error, hint } => {
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
        assert!(threads <= 8, "{threads} threads");
    });
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

fn both_ending_signals_end_cleanly() {
    let dir = tempfile::tempdir().expect("a directory");
    for signal in [Signal::TERM, Signal::INT] {
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
    assert!(text.starts_with("a server is already running at 127.0.0.1:"), "{text}");

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
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}
