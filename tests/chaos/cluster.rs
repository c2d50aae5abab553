//! A server and two workers as processes of their own, killed without a word.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Options of the workers: they come back fast, and are given up soon.
const WORKER: &str = "worker start --cpus 4 --heartbeat 500ms";
const SERVER: &str = "server start --host localhost --worker-grace 2s";

/// Everything that runs. It ends with the value.
pub(crate) struct Cluster {
    workers: Vec<Child>,
    server: Child,
    root: TempDir,
    // How both are started.
    lines: [&'static str; 2],
}

/// A submit that may have been acknowledged.
pub(crate) struct Submit {
    child: Option<Child>,
    job: Option<u64>,
}

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    words: Vec<String>,
}

impl Running {
    pub(crate) fn wait(&mut self) {
        self.child.wait().expect("a child");
    }

    /// True when it is a command of this name.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == word)
    }
}

impl Submit {
    /// The id that the client was told, once it has ended.
    pub(crate) fn finish(&mut self) -> Option<u64> {
        if let Some(child) = self.child.take() {
            let output = child.wait_with_output().expect("a child");
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            self.job = output.status.success().then(|| text.parse().expect("a job id"));
        }
        self.job
    }

    pub(crate) fn job(&self) -> Option<u64> {
        self.job
    }
}

impl Cluster {
    pub(crate) fn start() -> Cluster {
        Cluster::start_with(SERVER, WORKER)
    }

    /// With these lines for the server and its workers.
    pub(crate) fn start_with(server_line: &'static str, worker_line: &'static str) -> Cluster {
        let root = tempfile::Builder::new().prefix("hq-chaos-").tempdir().expect("a directory");
        let script = "echo \"$HQ_TASK_ID $HQ_INSTANCE_ID\" >> \"$1\"\n";
        fs::write(root.path().join("task.sh"), script).expect("a file");
        let server = spawn(&root, server_line, "server.log");
        let mut cluster = Cluster { workers: Vec::new(), server, root, lines: [server_line, worker_line] };
        cluster.ok(&["server", "wait", "--timeout", "60s"]);
        for _ in 0..2 {
            cluster.workers.push(spawn(&cluster.root, worker_line, "worker.log"));
        }
        cluster.ok(&["worker", "wait", "2"]);
        cluster
    }

    fn out(&self, round: u64) -> PathBuf {
        self.root.path().join(format!("out-{round}"))
    }

    /// Begins to submit an array of a round.
    pub(crate) fn submit(&self, round: u64, tasks: u32) -> Submit {
        let (array, out) = (format!("1-{tasks}"), self.out(round));
        let mut command = command(&self.root);
        command.args(["--output-mode", "quiet", "submit", "--array", &array, "--crash-limit", "unlimited"]);
        command.args(["--stdout", "none", "--stderr", "none", "--", "sh", "task.sh"]).arg(out);
        command.stdout(Stdio::piped()).stderr(log(&self.root, "client.log"));
        Submit { child: Some(command.spawn().expect("hq can be run")), job: None }
    }

    /// A command of the program in the cluster's directory.
    pub(crate) fn command(&self) -> Command {
        command(&self.root)
    }

    /// Where clients write what they have to say.
    pub(crate) fn client_log(&self) -> File {
        log(&self.root, "client.log")
    }

    /// Process id of the server.
    pub(crate) fn server_pid(&self) -> u32 {
        self.server.id()
    }

    /// Size of the journal.
    pub(crate) fn journal_mb(&self) -> f64 {
        let files = fs::read_dir(self.root.path().join("server/journal")).into_iter().flatten().flatten();
        // A compaction may remove one meanwhile.
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len() as f64 / 1e6).sum()
    }

    /// Begins some command.
    pub(crate) fn hq(&self, args: &[&str]) -> Running {
        let mut command = command(&self.root);
        command.args(args).stdout(Stdio::null()).stderr(log(&self.root, "client.log"));
        let words = args.iter().map(|&word| word.to_owned()).collect();
        Running { child: command.spawn().expect("hq can be run"), words }
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = command(&self.root).args(args).output().expect("hq can be run");
        assert!(output.status.success(), "hq {args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Kills the server and starts it again.
    pub(crate) fn kill_server(&mut self) {
        end(&mut self.server);
        self.server = spawn(&self.root, self.lines[0], "server.log");
        self.ok(&["server", "wait", "--timeout", "60s"]);
    }

    /// Kills a worker and starts another one.
    pub(crate) fn kill_worker(&mut self, index: usize) {
        end(&mut self.workers[index]);
        self.workers[index] = spawn(&self.root, self.lines[1], "worker.log");
    }

    /// Has a worker stand still until the server has given it up.
    pub(crate) fn freeze_worker(&self, index: usize) {
        let pid = self.workers[index].id().to_string();
        let signal = |name: &str| {
            let status = Command::new("kill").args([name, &pid]).status();
            assert!(status.expect("kill can be run").success());
        };
        let offline =
            || self.ok(&["--output-mode", "quiet", "worker", "list", "--filter", "offline"]).lines().count();
        let before = offline();
        signal("-STOP");
        while offline() == before {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        signal("-CONT");
        self.ok(&["worker", "wait", "2"]);
    }

    /// Waits until every job has ended.
    pub(crate) fn wait_for_all(&self) {
        self.ok(&["job", "wait", "all", "--allow-failures"]);
    }

    /// The instances of each task of a round that ran.
    pub(crate) fn runs(&self, round: u64) -> BTreeMap<u32, Vec<u32>> {
        let mut runs: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let text = fs::read_to_string(self.out(round)).unwrap_or_default();
        for line in text.lines() {
            let (task, instance) = line.split_once(' ').expect("two numbers");
            let task = task.parse().expect("a task id");
            runs.entry(task).or_default().push(instance.parse().expect("an instance"));
        }
        runs
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.workers.iter_mut().for_each(end);
        end(&mut self.server);
        if std::thread::panicking() {
            for name in ["server.log", "worker.log", "client.log"] {
                let text = fs::read_to_string(self.root.path().join(name)).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                eprintln!("--- {name}\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
            }
        }
    }
}

// Killed without a word.
fn end(child: &mut Child) {
    // One that has ended cannot be killed.
    let _ = child.kill();
    let _ = child.wait();
}

fn spawn(root: &TempDir, line: &str, name: &str) -> Child {
    let mut command = command(root);
    command.args(line.split(' ')).stdout(Stdio::null()).stderr(log(root, name));
    command.spawn().expect("hq can be run")
}

fn command(root: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hq"));
    command.current_dir(root.path()).env("HQ_SERVER_DIR", root.path().join("server"));
    command.env("TMPDIR", root.path()).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

fn log(root: &TempDir, name: &str) -> File {
    OpenOptions::new().create(true).append(true).open(root.path().join(name)).expect("a log")
}
