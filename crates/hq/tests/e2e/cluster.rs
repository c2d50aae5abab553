//! A server and workers of a test, each in directories of its own, ended when the test ends however it ends.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::patience;

/// Longest wait for a server or workers to come up, as `hq` options take it.
const START_TIMEOUT: &str = "60s";

/// Longest wait for a command to end, and for a task to write a line.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A place to run `hq` in: a server directory and a working directory.
pub(crate) struct Place {
    root: TempDir,
    /// Variables of all commands.
    variables: Vec<(&'static str, String)>,
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        // What still ends, as workers in a batch system, may write into it while it is being removed.
        let _ = patience::answer(|| match fs::remove_dir_all(self.root.path()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        });
    }
}

impl Place {
    pub(crate) fn new() -> Place {
        let root = tempfile::Builder::new().prefix("hq-e2e-").tempdir().expect("a directory");
        fs::create_dir(root.path().join("work")).expect("a directory");
        Place { root, variables: Vec::new() }
    }

    /// Where commands run.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// A path in the working directory.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.work().join(name)
    }

    pub(crate) fn server_dir(&self) -> PathBuf {
        self.root.path().join("server")
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, content).expect("a file");
    }

    pub(crate) fn read(&self, name: impl AsRef<Path>) -> String {
        let path = self.path(name);
        let content = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        String::from_utf8_lossy(&content).into_owned()
    }

    /// `hq` with these arguments, in the working directory, with this place's server.
    pub(crate) fn command<I, S>(&self, args: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hq"));
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("HQ_") || text.starts_with("SLURM_") || text.starts_with("PBS_") {
                command.env_remove(&name);
            }
        }
        command
            .args(args)
            .current_dir(self.work())
            .env("HQ_SERVER_DIR", self.server_dir())
            .env("TMPDIR", self.root.path())
            .env("XDG_CONFIG_HOME", self.root.path())
            .env("XDG_RUNTIME_DIR", self.root.path())
            .env_remove("RUST_LOG")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        // Whoever started the tests, as `nohup` or a shell in the background, may ignore some.
        #[expect(unsafe_code, reason = "changes how signals are taken")]
        let heed_signals = || {
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
                // SAFETY: async-signal-safe, and no handler of ours is lost between fork and exec.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            Ok(())
        };
        // SAFETY: the closure does nothing but the above.
        #[expect(unsafe_code, reason = "changes how signals are taken")]
        unsafe {
            command.pre_exec(heed_signals);
        }
        command
    }

    pub(crate) fn run<I, S>(&self, args: I) -> Ran
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = self.command(args);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("hq can be run");
        let pid = child.id().to_string();
        let (ended, end) = mpsc::channel::<()>();
        // Whatever hangs is killed, so that a test says what it waited for.
        let watch = std::thread::spawn(move || {
            let hangs = end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
            if hangs {
                Command::new("kill").args(["-KILL", &pid]).status().expect("kill can be run");
            }
            hangs
        });
        let output = child.wait_with_output().expect("hq ends");
        drop(ended);
        let hung = watch.join().expect("the watch ends");
        let ran = output.into();
        assert!(!hung, "hq {} did not end within {PATIENCE:?} and was killed: {ran:?}", words.join(" "));
        ran
    }

    /// Runs a command given as one text, split as a shell would.
    pub(crate) fn hq(&self, line: &str) -> Ran {
        self.run(shlex::split(line).expect("words"))
    }

    /// As `hq`, for a command that must succeed: its standard output.
    pub(crate) fn ok(&self, line: &str) -> String {
        let ran = self.hq(line);
        assert_eq!(ran.exit, 0, "hq {line}: {ran:?}");
        ran.stdout
    }

    /// As `ok`, for a command that answers nothing: what it says of what it has done.
    pub(crate) fn says(&self, line: &str) -> String {
        let ran = self.hq(line);
        assert_eq!((ran.exit, ran.stdout.as_str()), (0, ""), "hq {line}: {ran:?}");
        ran.stderr
    }

    /// As `ok`, in JSON.
    pub(crate) fn json(&self, line: &str) -> Value {
        let stdout = self.ok(&format!("--output-mode json {line}"));
        serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("hq {line}: {e}: {stdout}"))
    }

    /// As `hq`, for a command that must fail with this exit status: its standard error.
    pub(crate) fn fails(&self, exit: i32, line: &str) -> String {
        let ran = self.hq(line);
        assert_eq!(ran.exit, exit, "hq {line}: {ran:?}");
        ran.stderr
    }

    /// A named pipe: opening one of its ends waits for the other, so tests and tasks can wait for each other.
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let status = Command::new("mkfifo").arg(&path).status().expect("mkfifo can be run");
        assert!(status.success());
        path
    }

    /// Waits until a task has written a line into a pipe, and gives the line.
    pub(crate) fn line_from(&self, pipe: &Path) -> String {
        let (told, heard) = mpsc::channel();
        let path = pipe.to_owned();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = fs::File::open(path).and_then(|file| BufReader::new(file).read_line(&mut line));
            // Nobody listens when the test has given up.
            let _ = told.send(read.map(|_| line.trim_end().to_owned()));
        });
        let read = heard.recv_timeout(PATIENCE);
        read.unwrap_or_else(|_| panic!("nothing writes to {}", pipe.display())).expect("a line")
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let status = output.status;
        Ran {
            exit: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// True when a process with this id exists and has not ended.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    // The state follows the name, which is in brackets.
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// A long-running `hq`, killed when it is dropped.
pub(crate) struct Process(Child, String);

impl Process {
    pub(crate) fn start(mut command: Command) -> Process {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        Process(command.spawn().expect("hq can be run"), words.join(" "))
    }

    /// Waits for its end; one that hangs is killed and fails the test.
    #[track_caller]
    pub(crate) fn end(mut self) -> i32 {
        let ended = patience::answer(|| self.0.try_wait().expect("a child").ok_or(()));
        let status = ended.unwrap_or_else(|()| panic!("{} did not end", self.1));
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
    }

    /// Its process id.
    // Of the tests that share this file, those against batch systems do not need it.
    #[allow(dead_code)]
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it takes a signal in itself, as a client does once it follows jobs.
    // As above.
    #[allow(dead_code)]
    #[track_caller]
    pub(crate) fn until_it_catches(&self, signal: i32) {
        let catches = || {
            let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("a process");
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("signals");
            u64::from_str_radix(caught.trim(), 16).expect("a number") & 1 << (signal - 1) != 0
        };
        patience::until(&self.1, || {
            if catches() { Ok(()) } else { Err(format!("it does not catch signal {signal}")) }
        });
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pid = self.0.id().to_string();
        let status = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(status.expect("kill can be run").success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A worker's launcher ends the tasks when the worker is dead. They write into directories that go next.
        let pid = self.0.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        // One that has ended cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
        let lives = |child: &str| Path::new("/proc").join(child).exists();
        let _ = patience::answer(|| if children.split_whitespace().any(lives) { Err(()) } else { Ok(()) });
    }
}

/// A place with a server, and perhaps workers. They end in this order: workers, server, directories.
pub(crate) struct Cluster {
    pub(crate) workers: Vec<Process>,
    pub(crate) server: Option<Process>,
    pub(crate) place: Place,
}

impl std::ops::Deref for Cluster {
    type Target = Place;
    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Cluster {
    /// A server that sees `disk` in its working directory as a file system of its own, which nobody else sees. `prepare` is
    /// a command of a shell that runs before it, with the disk there.
    pub(crate) fn on_a_small_disk(place: Place, kib: u32, prepare: &str, options: &str) -> Cluster {
        fs::create_dir(place.path("disk")).expect("a directory");
        let script = format!(
            "mount -t tmpfs -o size={kib}k none disk && {prepare} && exec {} server start --host localhost {options}",
            env!("CARGO_BIN_EXE_hq")
        );
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]);
        command.current_dir(place.work()).env("HQ_SERVER_DIR", place.server_dir());
        command.stdout(Stdio::null());
        let server = Process::start(command);
        place.ok("server wait --timeout 60s");
        Cluster { workers: Vec::new(), server: Some(server), place }
    }

    /// A server without workers.
    pub(crate) fn server() -> Cluster {
        Cluster::server_with("")
    }

    /// A server with these options, without workers.
    pub(crate) fn server_with(options: &str) -> Cluster {
        let mut cluster = Cluster { workers: Vec::new(), server: None, place: Place::new() };
        cluster.start_server(options);
        cluster
    }

    /// A server without workers whose access file, `full.json`, was made before, and others beside it by these options. And its
    /// ports: for clients, and for workers.
    #[allow(dead_code)]
    pub(crate) fn server_with_access(options: &str) -> (Cluster, [u16; 2]) {
        let mut cluster = Cluster { workers: Vec::new(), server: None, place: Place::new() };
        let ports = [(); 2]
            .map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"))
            .map(|listener| listener.local_addr().expect("an address").port());
        let [client, worker] = ports;
        cluster.ok(&format!(
            "server generate-access full.json --host localhost --client-port {client} --worker-port {worker} {options}"
        ));
        cluster.start_server("--access-file full.json");
        (cluster, ports)
    }

    /// A server with these variables, without workers.
    // Of the tests that share this file, those against batch systems need it.
    #[allow(dead_code)]
    pub(crate) fn server_in(variables: Vec<(&'static str, String)>) -> Cluster {
        let mut place = Place::new();
        place.variables = variables;
        let mut cluster = Cluster { workers: Vec::new(), server: None, place };
        cluster.start_server("");
        cluster
    }

    /// A server and one worker with four CPUs.
    pub(crate) fn new() -> Cluster {
        let mut cluster = Cluster::server();
        cluster.worker("--cpus 4");
        cluster
    }

    pub(crate) fn start_server(&mut self, options: &str) {
        let args = format!("server start --host localhost {options}");
        let mut command = self.place.command(shlex::split(&args).expect("words"));
        command.stdout(Stdio::null()).stderr(self.log("server.log"));
        self.server = Some(Process::start(command));
        self.ok(&format!("server wait --timeout {START_TIMEOUT}"));
    }

    /// Starts a worker with these options and waits until it is connected.
    pub(crate) fn worker(&mut self, options: &str) {
        // Relays do not count.
        let listed = self.json("worker list");
        let workers = listed.as_array().into_iter().flatten();
        let connected = workers.filter(|worker| worker["configuration"]["group"] != "relay").count();
        let args = format!("worker start {options}");
        let mut command = self.place.command(shlex::split(&args).expect("words"));
        command.stdout(Stdio::null()).stderr(self.log("worker.log"));
        self.workers.push(Process::start(command));
        self.ok(&format!("worker wait {}", connected + 1));
    }

    fn log(&self, name: &str) -> fs::File {
        let path = self.place.root.path().join(name);
        fs::OpenOptions::new().create(true).append(true).open(path).expect("a log")
    }
}
