//! A whole worker process against a server that the test plays.

#![expect(unsafe_code, reason = "asks the kernel about processes")]

mod harness;
#[path = "worker/node_faults.rs"]
mod node_faults;
#[path = "worker/objects.rs"]
mod objects;
#[path = "worker/values.rs"]
mod values;

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hq_core::record::FailureKind;
use hq_core::worker_messages::{
    FromWorker, Report, RunBatch, Template, TemplateId, ToWorker, Welcome, WorkerHello,
};
use hq_model::task::Pin;
use hq_model::worker::{Executor, WorkerConfig};
use hq_model::{
    Amount, AmountRequest, Body, Entries, Epoch, IdSet, Instance, JobId, OnClose, OutputSink, Policy,
    PoolKind, Request, ResourcePool, ResourceRequest, TaskSpec, Timestamp, WorkerId, WorkerResources,
};
use hq_net::{AccessFile, FrameReceiver, FrameSender, Listener, Role};
use hq_proto::{decode_from_worker, encode_to_worker};
use hq_worker::launcher::Launcher;
use hq_worker::{Interrupts, ServerSource, WorkerOptions, notify};

use node_faults::{
    a_directory_that_was_removed_comes_back, a_launcher_that_a_task_stops_goes_on,
    a_node_that_cannot_start_tasks_gives_them_back,
    a_worker_without_its_launcher_leaves_at_once_and_leaves_nothing,
};
use objects::a_file_goes_from_worker_to_worker;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("worker") => worker(&words[2..]),
        Some("notify") => speak(&words[2]),
        _ => {}
    }
    harness::main(
        &mut (),
        &[
            ("an_array_runs_with_its_variables_and_files", an_array_runs_with_its_variables_and_files),
            ("failures_say_what_went_wrong", failures_say_what_went_wrong),
            (
                "task_directories_and_files_go_when_they_should",
                task_directories_and_files_go_when_they_should,
            ),
            ("a_task_speaks_through_its_worker", a_task_speaks_through_its_worker),
            ("tasks_outlive_their_server", tasks_outlive_their_server),
            ("an_interrupted_worker_ends_its_tasks", an_interrupted_worker_ends_its_tasks),
            ("a_second_interrupt_ends_a_worker_at_once", a_second_interrupt_ends_a_worker_at_once),
            (
                "a_worker_that_looks_for_its_server_can_be_ended",
                a_worker_that_looks_for_its_server_can_be_ended,
            ),
            ("a_canceled_task_is_ended", a_canceled_task_is_ended),
            (
                "a_worker_without_its_launcher_leaves_at_once_and_leaves_nothing",
                a_worker_without_its_launcher_leaves_at_once_and_leaves_nothing,
            ),
            ("a_launcher_that_a_task_stops_goes_on", a_launcher_that_a_task_stops_goes_on),
            ("a_directory_that_was_removed_comes_back", a_directory_that_was_removed_comes_back),
            (
                "a_node_that_cannot_start_tasks_gives_them_back",
                a_node_that_cannot_start_tasks_gives_them_back,
            ),
            ("a_file_goes_from_worker_to_worker", a_file_goes_from_worker_to_worker),
            ("a_large_value_goes_from_call_to_call", values::a_large_value_goes_from_call_to_call),
            (
                "a_value_that_cannot_be_stored_fails_or_comes_again",
                values::a_value_that_cannot_be_stored_fails_or_comes_again,
            ),
            ("a_file_of_a_client_becomes_an_object", values::a_file_of_a_client_becomes_an_object),
            ("many_tasks_that_do_nothing", many_tasks_that_do_nothing),
            ("without_a_server_there_is_no_worker", without_a_server_there_is_no_worker),
        ],
    )
}

// --- the worker process ---

/// `worker ACCESS WORK_DIR EXECUTOR`
fn worker(words: &[String]) -> ! {
    let launcher = Launcher::fork().expect("the first thing this process does");
    let cpus = ResourcePool { name: "cpus".into(), kind: PoolKind::Range { first: 0, last: 3 } };
    let named = PoolKind::Groups(vec![vec!["2".into(), "MIG-x".into()]]);
    let gpus = ResourcePool { name: "gpus/nvidia".into(), kind: named };
    let config = WorkerConfig {
        executor: if words[2] == "null" { Executor::Null } else { Executor::Process },
        pid: std::process::id(),
        ..WorkerConfig::new(WorkerResources { pools: vec![cpus, gpus], coupling: Vec::new() })
    };
    let options = WorkerOptions {
        registered: None,
        sample_interval: None,
        config,
        server: ServerSource::File(PathBuf::from(&words[0])),
        hq_binary: PathBuf::from("/opt/hq"),
        work_dir: Some(PathBuf::from(&words[1])),
        interrupts: Interrupts::Signals,
        enforce: hq_worker::enforce::Enforce::default(),
        pull_socket: None,
        objects: Some(hq_worker::ObjectStore {
            bytes: (words[2] == "small").then_some(1_000_000),
            ..hq_worker::ObjectStore::default()
        }),
    };
    let text = match hq_worker::run(options, launcher) {
        Ok(end) => format!("{end:?}"),
        Err(error) => error.to_string(),
    };
    std::io::stdout().write_all(text.as_bytes()).expect("a reader");
    std::process::exit(0)
}

/// A task that speaks.
fn speak(text: &str) -> ! {
    let key = std::env::var_os("HQ_ACCESS_KEY").expect("inside a task");
    let sent = notify::send(&key.into_vec(), text.as_bytes());
    std::process::exit(i32::from(sent.is_err()))
}

// --- the server's side ---

struct Server {
    dir: tempfile::TempDir,
    access: AccessFile,
    listener: Listener,
    worker: Option<Child>,
}

struct Connection {
    sender: FrameSender,
    receiver: FrameReceiver,
}

/// What reports said, added up.
#[derive(Debug, Default)]
struct Seen {
    finished: IdSet,
    failed: Vec<(u32, FailureKind, String)>,
    canceled: IdSet,
    interrupted: IdSet,
    words: Vec<Vec<u8>>,
    last_report: u64,
    cpu_us: u64,
}

fn listen() -> (AccessFile, Listener) {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let draft = AccessFile::generate("uid123", ("127.0.0.1", 0), ("127.0.0.1", 0), true, true);
    let endpoint = draft.endpoint(Role::Worker).expect("a full file");
    let listener = Listener::bind(address, 0, endpoint, Role::Worker).expect("a free port");
    let mut access = draft.clone();
    access.worker.as_mut().expect("a full file").port = listener.port();
    (access, listener)
}

impl Server {
    fn start(executor: &str) -> Server {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (access, listener) = listen();
        let mut server = Server { dir, access, listener, worker: None };
        server.save_access();
        fs::create_dir(server.work_base()).expect("writable");
        let child = Command::new(std::env::current_exe().expect("this program"))
            .arg("worker")
            .args([server.access_path(), server.work_base()])
            .arg(executor)
            .envs(["HQ_ENTRY", "HQ_SERVICE_db", "HQ_STATE"].map(|name| (name, "of an outer task")))
            .env("CUDA_VISIBLE_DEVICES", "2,MIG-x")
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs");
        server.worker = Some(child);
        server
    }

    fn access_path(&self) -> PathBuf {
        self.dir.path().join("access.json")
    }

    fn work_base(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn save_access(&self) {
        let file = self.access.without_server_keys(Some(Role::Worker));
        file.save(&self.access_path()).expect("writable");
    }

    async fn accept(&self) -> (Connection, WorkerHello) {
        let (incoming, _) = self.listener.accept().await;
        let (sender, receiver) = self.listener.handshake(incoming).await.expect("our worker");
        let mut connection = Connection { sender, receiver };
        match connection.next().await {
            Some(FromWorker::Hello(hello)) => (connection, *hello),
            other => panic!("a hello comes first, not {other:?}"),
        }
    }

    /// Takes the worker in.
    async fn welcome(&self) -> (Connection, WorkerHello) {
        let (mut connection, hello) = self.accept().await;
        let welcome = Welcome {
            worker: WorkerId(1),
            epoch: Epoch(1),
            server_uid: "uid123".into(),
            idle_timeout: None,
            hears: true,
        };
        connection.say(&ToWorker::Welcome(welcome)).await;
        (connection, hello)
    }

    /// What the worker said at its end. It left nothing behind.
    fn ended(mut self) -> String {
        let mut worker = self.worker.take().expect("it was started");
        let mut text = String::new();
        worker.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
        worker.wait().expect("our child");
        let left = fs::read_dir(self.work_base()).expect("readable").count();
        assert_eq!(left, 0, "the worker's directory is gone");
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.kill().expect("our child");
            worker.wait().expect("our child");
        }
    }
}

impl Connection {
    async fn say(&mut self, message: &ToWorker) {
        self.sender.send(&encode_to_worker(message)).await.expect("a reader");
        self.sender.flush().await.expect("a reader");
    }

    async fn next(&mut self) -> Option<FromWorker> {
        let frame = self.receiver.next().await.expect("a whole frame")?;
        Some(decode_from_worker(&frame).expect("a message"))
    }

    async fn run(&mut self, spec: TaskSpec, dir: &Path, ids: IdSet, entries: &[&[u8]]) {
        let id = TemplateId { job: JobId(3), submit: 0 };
        let submit_dir = dir.as_os_str().as_bytes().to_vec();
        let (spec, submitted) = (Arc::new(spec), Timestamp(1));
        let content = Some(Template { id, spec, submit_dir, submitted, has_siblings: false });
        let batch = RunBatch {
            template: id,
            content,
            ids,
            instance: Instance(0),
            entries: Entries::new(entries.iter().copied()).expect("few bytes"),
            nodes: Vec::new(),
            services: Vec::new(),
            after: None,
            variant: None,
            head_start: Duration::ZERO,
            inputs: Vec::new(),
            objects: Vec::new(),
        };
        self.say(&ToWorker::Run(vec![batch])).await;
    }

    /// Reads until so many tasks have ended in any way, saving each report.
    async fn until_ended(&mut self, seen: &mut Seen, count: u64) {
        while seen.ended() < count {
            match self.next().await {
                Some(FromWorker::Report(report)) => {
                    self.say(&ToWorker::Saved { report: report.number }).await;
                    seen.take(report);
                }
                Some(_) => {}
                None => panic!("the worker left after {} of {count} tasks", seen.ended()),
            }
        }
    }

    async fn stop(&mut self) {
        self.say(&ToWorker::Stop { drain: false }).await;
        while let Some(message) = self.next().await {
            // It waits a while for the answer to its last report, and may have gone before it comes.
            if let FromWorker::Report(report) = message {
                let saved = encode_to_worker(&ToWorker::Saved { report: report.number });
                let _ = self.sender.send(&saved).await;
                let _ = self.sender.flush().await;
            }
        }
    }
}

impl Seen {
    fn ended(&self) -> u64 {
        self.finished.len() + self.failed.len() as u64 + self.canceled.len() + self.interrupted.len()
    }

    fn take(&mut self, report: Report) {
        // Reports that were not saved come again after a reconnect.
        if report.number <= self.last_report {
            return;
        }
        self.last_report = report.number;
        for span in report.finished {
            assert!(!self.finished.intersects(&span.ids), "each task ends once");
            self.finished.union_with(&span.ids);
            assert_eq!(u64::from(span.measures.count()), span.ids.len());
            self.cpu_us += span.measures.total().user_us + span.measures.total().system_us;
        }
        self.words.extend(report.words.into_iter().map(|words| words.text));
        for (_, failure) in report.failed {
            self.failed.push((failure.task.0, failure.kind, failure.error));
        }
        report.canceled.iter().for_each(|(_, ids)| self.canceled.union_with(ids));
        report.interrupted.iter().for_each(|(_, ids)| self.interrupted.union_with(ids));
    }
}

fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(240), future).await.expect("it does not take that long");
    });
}

fn spec(args: &[&str]) -> TaskSpec {
    let one = |name: &str| ResourceRequest {
        name: name.into(),
        amount: AmountRequest::Some(Amount::whole(1), Policy::Compact),
    };
    TaskSpec {
        body: Body::program(args.iter().copied()),
        requests: vec![Request { resources: vec![one("cpus")], weight: 10_000, ..Request::default() }],
        kill_grace: Duration::from_secs(5),
        ..TaskSpec::default()
    }
}

fn file(path: &str) -> OutputSink {
    OutputSink::File { path: path.into(), on_close: OnClose::Keep }
}

fn named_pipe(path: &Path) {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: a NUL-terminated path.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

// --- tests ---

fn an_array_runs_with_its_variables_and_files(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let (mut connection, hello) = server.welcome().await;
        assert!(hello.config.work_dir.starts_with(server.work_base().to_str().expect("UTF-8")));
        let mut spec =
            spec(&["sh", "-c", "env -0; echo to stderr >&2; read line; echo got $line", "%{TASK_ID}"]);
        spec.env = vec![
            (b"MINE".into(), b"%{JOB_ID}-%{TASK_ID} \xff".into()),
            (b"HQ_TASK_ID".into(), b"99".into()),
            (b"TWICE".into(), b"1".into()),
            (b"TWICE".into(), b"2".into()),
        ];
        spec.stdin = b"some input\n".into();
        spec.pin = Pin::Omp;
        spec.cwd = b"in/%{TASK_ID}".into();
        spec.stdout = file("%{CWD}/out");
        spec.stderr = file("%{SUBMIT_DIR}/err.%{JOB_ID}.%{TASK_ID}.%{INSTANCE_ID}.%{SERVER_UID}");
        let gpu = ResourceRequest {
            name: "gpus/nvidia".into(),
            amount: AmountRequest::Some(Amount::whole(1), Policy::Compact),
        };
        spec.requests[0].resources.push(gpu);
        connection.run(spec, &dir, IdSet::range(5, 8), &[b"five", b"\xfe", b"", b"8 8"]).await;
        let mut seen = Seen::default();
        connection.until_ended(&mut seen, 4).await;
        assert_eq!(seen.finished, IdSet::range(5, 8), "{:?}", seen.failed);
        assert!(seen.cpu_us > 0);
        let output = fs::read(dir.join("in/6/out")).expect("the output file");
        let variables: Vec<String> =
            output.split(|b| *b == 0).map(|v| String::from_utf8_lossy(v).into_owned()).collect();
        let of = |name: &str| -> Vec<&str> {
            variables.iter().filter_map(|v| v.strip_prefix(name)?.strip_prefix('=')).collect()
        };
        assert!(of("HQ_SERVICE_db").is_empty(), "of an outer task");
        let submit_dir = dir.to_str().expect("UTF-8");
        for (name, value) in [
            ("HQ_JOB_ID", "3"),
            ("HQ_TASK_ID", "6"),
            ("HQ_INSTANCE_ID", "0"),
            ("HQ_SUBMIT_DIR", submit_dir),
            ("HQ_ENTRY", "\u{fffd}"),
            ("HQ", "/opt/hq"),
            ("HQ_PIN", "omp"),
            ("HQ_RESOURCE_REQUEST_cpus", "1 compact"),
            ("HQ_RESOURCE_REQUEST_gpus_nvidia", "1 compact"),
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
            ("OMP_NUM_THREADS", "1"),
            ("OMP_PROC_BIND", "close"),
            ("MINE", "3-6 \u{fffd}"),
            ("TWICE", "2"),
        ] {
            assert_eq!(of(name), [value], "{name}");
        }
        let [cpu] = of("HQ_CPUS")[..] else { panic!("one list of CPUs") };
        assert_eq!(of("HQ_RESOURCE_VALUES_cpus"), [cpu]);
        assert_eq!(of("OMP_PLACES"), [format!("{{{cpu}}}")]);
        let [gpu] = of("CUDA_VISIBLE_DEVICES")[..] else { panic!("one list of GPUs") };
        assert!(["2", "MIG-x"].contains(&gpu));
        assert_eq!(of("HQ_RESOURCE_VALUES_gpus_nvidia"), [gpu]);
        assert_eq!(of("HQ_ACCESS_KEY").len(), 1);
        assert_eq!(variables.last().map(String::as_str), Some("got some input\n"));
        assert_eq!(fs::read(dir.join("err.3.8.0.uid123")).expect("the other file"), b"to stderr\n");
        connection.stop().await;
        assert_eq!(server.ended(), "Stopped");
    });
}

fn failures_say_what_went_wrong(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let script = dir.join("script");
        fs::write(&script, "#!/nonexistent/shell\n").expect("writable");
        fs::write(dir.join("plain"), "text").expect("writable");
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("ours");
        let (mut connection, _) = server.welcome().await;
        let long = "x".repeat(200_000);
        let mut cases: Vec<(TaskSpec, FailureKind, &str)> = vec![
            (spec(&["sh", "-c", "exit 3"]), FailureKind::Exit(3), "Program terminated with exit code 3."),
            (
                spec(&["sh", "-c", "kill -9 $$"]),
                FailureKind::Signal(9),
                "Program terminated with exit code 137. Received signal 9 (SIGKILL).",
            ),
            (
                spec(&["no-such-program"]),
                FailureKind::Start,
                "Cannot execute \"no-such-program\": No such file or directory (os error 2): the program that you have tried to \
                 execute (`no-such-program`) was not found in any directory of the task's PATH",
            ),
            (
                spec(&["./none"]),
                FailureKind::Start,
                "Cannot execute \"./none\": No such file or directory (os error 2)",
            ),
            (
                spec(&["./plain"]),
                FailureKind::Start,
                "Cannot execute \"./plain\": Permission denied (os error 13): the script that you have tried to execute (`./plain`) is \
                 not executable; `chmod +x",
            ),
            (
                spec(&["./script"]),
                FailureKind::Start,
                "the interpreter in its first line `#!/nonexistent/shell`",
            ),
            (
                spec(&["true", &long]),
                FailureKind::Start,
                "its longest argument or variable has 200000 bytes, and this system allows 131071 for one",
            ),
        ];
        let mut bad_cwd = spec(&["true"]);
        bad_cwd.cwd = b"plain/below".into();
        cases.push((bad_cwd, FailureKind::Start, "cannot enter the working directory"));
        let mut bad_output = spec(&["true"]);
        bad_output.stdout = file("/proc/no/where");
        cases.push((
            bad_output,
            FailureKind::Start,
            "cannot create the directory for the stdout file \"/proc/no/where\"",
        ));
        let mut bad_cpu = spec(&["true"]);
        bad_cpu.pin = Pin::Taskset;
        bad_cpu.stdout = file("plain/out");
        cases.push((bad_cpu, FailureKind::Start, "cannot"));
        for (number, (spec, kind, text)) in cases.into_iter().enumerate() {
            let mut seen = Seen { last_report: number as u64, ..Seen::default() };
            connection.run(spec, &dir, IdSet::range(number as u32, number as u32), &[]).await;
            connection.until_ended(&mut seen, 1).await;
            let [(_, found, error)] = &seen.failed[..] else { panic!("case {number} did not fail") };
            assert_eq!(*found, kind, "{error}");
            assert!(error.contains(text), "{error}");
        }
        connection.stop().await;
        assert_eq!(server.ended(), "Stopped");
    });
}

fn task_directories_and_files_go_when_they_should(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let (mut connection, _) = server.welcome().await;
        let script = "echo $HQ_TASK_DIR; touch $HQ_TASK_DIR/x; test -d $HQ_TASK_DIR || exit 9; \
            case $HQ_TASK_ID in 1) exit 0;; 2) echo 'no license' >$HQ_ERROR_FILENAME;; 3) : >$HQ_ERROR_FILENAME;; esac; exit 4";
        let mut spec = spec(&["sh", "-c", script]);
        spec.task_dir = true;
        spec.stdout =
            OutputSink::File { path: b"out.%{TASK_ID}".into(), on_close: OnClose::RemoveIfFinished };
        connection.run(spec, &dir, IdSet::range(1, 4), &[]).await;
        let mut seen = Seen::default();
        connection.until_ended(&mut seen, 4).await;
        seen.failed.sort_by_key(|failed| failed.0);
        let failed: Vec<_> =
            seen.failed.iter().map(|(task, kind, text)| (*task, *kind, text.trim())).collect();
        let kind = FailureKind::Exit(4);
        assert_eq!(
            failed,
            [
                (2, kind, "no license"),
                (3, kind, "Task created an error file, but it is empty"),
                (4, kind, "Program terminated with exit code 4."),
            ]
        );
        assert_eq!(seen.finished, IdSet::range(1, 1));
        assert!(!dir.join("out.1").exists(), "a finished task's file was to be removed");
        for task in 2..=4 {
            let text =
                fs::read_to_string(dir.join(format!("out.{task}"))).expect("a failed task's file stays");
            assert!(text.contains(server.work_base().to_str().expect("UTF-8")), "{text}");
            assert!(!Path::new(text.trim()).exists(), "the directory is gone");
        }
        connection.stop().await;
        assert_eq!(server.ended(), "Stopped");
    });
}

fn a_task_speaks_through_its_worker(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let (mut connection, _) = server.welcome().await;
        let this = std::env::current_exe().expect("this program");
        let spec = spec(&[this.to_str().expect("UTF-8"), "notify", "half of it is done: %{TASK_ID}"]);
        connection.run(spec, &dir, IdSet::range(1, 1), &[]).await;
        let mut seen = Seen::default();
        connection.until_ended(&mut seen, 1).await;
        assert_eq!(seen.finished.len(), 1, "{:?}", seen.failed);
        assert_eq!(seen.words, [b"half of it is done: 1"]);
        connection.stop().await;
        assert_eq!(server.ended(), "Stopped");
    });
}

fn tasks_outlive_their_server(_: &mut ()) {
    block_on(async {
        let mut server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let (mut connection, hello) = server.welcome().await;
        assert_eq!(hello.known_as, None);
        named_pipe(&dir.join("begun"));
        named_pipe(&dir.join("go"));
        let spec = spec(&["sh", "-c", "echo >begun; read x <go; echo done"]);
        connection.run(spec, &dir, IdSet::range(1, 1), &[]).await;
        fs::read(dir.join("begun")).expect("readable");
        // The server dies, and comes back somewhere else.
        let (access, listener) = listen();
        server.access = access;
        server.listener = listener;
        server.save_access();
        drop(connection);
        let (mut connection, hello) = server.welcome().await;
        assert_eq!(hello.known_as, Some(WorkerId(1)));
        assert_eq!(hello.holds.len(), 1);
        assert_eq!(hello.holds[0].running, IdSet::range(1, 1));
        fs::write(dir.join("go"), "\n").expect("a reader");
        let mut seen = Seen::default();
        connection.until_ended(&mut seen, 1).await;
        assert_eq!(seen.finished, IdSet::range(1, 1));
        connection.stop().await;
        assert_eq!(server.ended(), "Stopped");
    });
}

fn an_interrupted_worker_ends_its_tasks(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let (mut connection, hello) = server.welcome().await;
        named_pipe(&dir.join("begun"));
        let spec = spec(&["sh", "-c", "trap 'echo ended >end; exit 1' TERM; echo >begun; sleep 1000 & wait"]);
        connection.run(spec, &dir, IdSet::range(1, 1), &[]).await;
        fs::read(dir.join("begun")).expect("readable");
        // SAFETY: a plain system call on a child of ours.
        assert_eq!(unsafe { libc::kill(hello.config.pid as i32, libc::SIGHUP) }, 0);
        interrupt(hello.config.pid);
        let mut seen = Seen::default();
        connection.until_ended(&mut seen, 1).await;
        assert_eq!(seen.interrupted, IdSet::range(1, 1));
        assert_eq!(fs::read(dir.join("end")).expect("it was asked politely"), b"ended\n");
        while connection.next().await.is_some() {}
        assert_eq!(server.ended(), "Interrupted");
    });
}

fn interrupt(pid: u32) {
    // SAFETY: a plain system call on a child of ours.
    assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGTERM) }, 0);
}

fn a_second_interrupt_ends_a_worker_at_once(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let (mut connection, hello) = server.welcome().await;
        named_pipe(&dir.join("pipe"));
        let script = "trap 'echo asked >pipe' TERM; echo $$ >pipe; while :; do sleep 1000 & wait; done";
        let mut spec = spec(&["sh", "-c", script]);
        spec.kill_grace = Duration::from_secs(1000);
        connection.run(spec, &dir, IdSet::range(1, 1), &[]).await;
        let task: i32 =
            fs::read_to_string(dir.join("pipe")).expect("readable").trim().parse().expect("an id");
        interrupt(hello.config.pid);
        assert_eq!(fs::read(dir.join("pipe")).expect("readable"), b"asked\n");
        // The batch system's words reach a worker twice; a person who repeats them means it.
        interrupt(hello.config.pid);
        // SAFETY: a plain system call on a child of ours.
        assert_eq!(unsafe { libc::kill(hello.config.pid as i32, libc::SIGINT) }, 0);
        assert_eq!(server.ended(), "Interrupted");
        // SAFETY: a plain system call that changes nothing.
        assert_eq!(unsafe { libc::kill(task, 0) }, -1, "the task is gone with its worker");
    });
}

fn a_worker_that_looks_for_its_server_can_be_ended(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let (_connecting, _) = server.listener.accept().await;
        interrupt(server.worker.as_ref().expect("it was started").id());
        assert_eq!(server.ended(), "Interrupted");
    });
}

fn a_canceled_task_is_ended(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let (mut connection, _) = server.welcome().await;
        named_pipe(&dir.join("begun"));
        let spec = spec(&["sh", "-c", "echo >begun; exec sleep 1000"]);
        connection.run(spec, &dir, IdSet::range(1, 1), &[]).await;
        fs::read(dir.join("begun")).expect("readable");
        connection
            .say(&ToWorker::Cancel { job: JobId(3), ids: IdSet::range(1, 1), are_elsewhere: false })
            .await;
        let mut seen = Seen::default();
        connection.until_ended(&mut seen, 1).await;
        assert_eq!(seen.canceled, IdSet::range(1, 1));
        connection.stop().await;
        assert_eq!(server.ended(), "Stopped");
    });
}

fn many_tasks_that_do_nothing(_: &mut ()) {
    block_on(async {
        let server = Server::start("null");
        let dir = server.dir.path().to_owned();
        let (mut connection, _) = server.welcome().await;
        connection.run(spec(&["true"]), &dir, IdSet::range(1, 100_000), &[]).await;
        let mut seen = Seen::default();
        connection.until_ended(&mut seen, 100_000).await;
        assert_eq!(seen.finished, IdSet::range(1, 100_000));
        connection.stop().await;
        assert_eq!(server.ended(), "Stopped");
    });
}

fn without_a_server_there_is_no_worker(_: &mut ()) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new(std::env::current_exe().expect("this program"))
        .arg("worker")
        .args([dir.path().join("access.json"), dir.path().to_owned()])
        .arg("process")
        .output()
        .expect("this program runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text, format!("no access file at {}", dir.path().join("access.json").display()));
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0);
}
