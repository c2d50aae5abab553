//! A server and two workers as processes of their own, killed without a word; on hosts, disks and connections that
//! fail when asked to.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::net::{LinkFault, Net, SERVER_ADDRESS, run};
use crate::patience::until;
use crate::relay::Relay;

/// Options of the workers: they come back fast, and are given up soon.
const WORKER: &str = "worker start --cpus 4 --heartbeat 500ms";
const SERVER: &str = "server start --host localhost";
/// Longest wait for a command that is not to take long, or for all jobs to end.
const PATIENCE: Duration = Duration::from_secs(200);

/// Everything that runs. It ends with the value.
pub(crate) struct Cluster {
    workers: Vec<Child>,
    server: Child,
    // How both are started.
    lines: [String; 2],
    net: Option<Net>,
    relay: Option<Relay>,
    // Before the directory that it is mounted in.
    disk: Option<Disk>,
    root: TempDir,
}

/// A small file system for the journal. It goes with the value.
struct Disk {
    path: PathBuf,
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run(&format!("umount -l {}", self.path.display()));
    }
}

/// What fills a disk.
pub(crate) struct Filler {
    path: PathBuf,
}

impl Drop for Filler {
    fn drop(&mut self) {
        fs::remove_file(&self.path).expect("it is there");
    }
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Answer {
    /// `None` when it was killed, for it took too long.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) time: Duration,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}

/// Where a cluster runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Here,
    /// Each on a host of its own.
    Net,
    /// With the journal on a disk of two megabytes.
    SmallDisk,
    /// With a relay between workers and server.
    Relayed,
    /// With both: such a journal, and such a relay.
    RelayedSmallDisk,
}

impl Where {
    fn has_small_disk(self) -> bool {
        matches!(self, Where::SmallDisk | Where::RelayedSmallDisk)
    }

    fn is_relayed(self) -> bool {
        matches!(self, Where::Relayed | Where::RelayedSmallDisk)
    }
}

/// How much later the relay passes on what it hears.
const RELAY_DELAY: Duration = Duration::from_millis(120);

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
    /// Starts everything there. A worker that cannot be reached is given up after the grace.
    ///
    /// # Errors
    /// What this system does not permit.
    pub(crate) fn start(place: Where, grace: Duration) -> Result<Cluster, String> {
        Cluster::start_with(place, &format!("{SERVER} --worker-grace {}s", grace.as_secs()), WORKER)
    }

    /// With these lines for the server and its workers.
    pub(crate) fn start_with(place: Where, server_line: &str, worker_line: &str) -> Result<Cluster, String> {
        let root = tempfile::Builder::new().prefix("hq-chaos-").tempdir().expect("a directory");
        let script = "echo \"$HQ_TASK_ID $HQ_INSTANCE_ID\" >> \"$1\"\n";
        fs::write(root.path().join("task.sh"), script).expect("a file");
        let mut server_line = server_line.to_owned();
        let net = if place == Where::Net { Some(Net::new()?) } else { None };
        if net.is_some() {
            server_line = server_line.replace("localhost", SERVER_ADDRESS);
        }
        let disk = if place.has_small_disk() { Some(small_disk(&root)?) } else { None };
        if disk.is_some() {
            server_line.push_str(" --journal disk/journal");
        }
        let server = command_on(&root, net.as_ref().map(|net| net.host(0)));
        let server = spawn(server, &server_line, log(&root, "server.log"));
        let lines = [server_line, worker_line.to_owned()];
        let mut cluster = Cluster { workers: Vec::new(), server, root, lines, net, disk, relay: None };
        cluster.ok(&["server", "wait", "--timeout", "60s"]);
        if place.is_relayed() {
            cluster.relay = Some(cluster.start_relay());
        }
        for index in 0..2 {
            let worker = cluster.new_worker(index);
            cluster.workers.push(worker);
        }
        cluster.ok(&["worker", "wait", "2"]);
        Ok(cluster)
    }

    // The workers' own server directory names the relay's port.
    fn start_relay(&self) -> Relay {
        let text = fs::read_to_string(self.root.path().join("server/hq-current/access.json"));
        let text = text.expect("an access file");
        let mut access: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let port = access["worker"]["port"].as_u64().expect("a port");
        let relay = Relay::start(port as u16, RELAY_DELAY).expect("a port");
        access["worker"]["port"] = relay.port().into();
        let dir = self.root.path().join("relayed");
        fs::create_dir_all(dir.join("001")).expect("a directory");
        symlink("001", dir.join("hq-current")).expect("a link");
        let mut options = OpenOptions::new();
        let file = options.create(true).write(true).mode(0o600).open(dir.join("001/access.json"));
        serde_json::to_writer(file.expect("a file"), &access).expect("a file");
        relay
    }

    fn new_worker(&self, index: usize) -> Child {
        let host = self.net.as_ref().map(|net| net.host(index + 1));
        let mut command = command_on(&self.root, host);
        if self.relay.is_some() {
            command.env("HQ_SERVER_DIR", self.root.path().join("relayed"));
        }
        spawn(command, &self.lines[1], log(&self.root, "worker.log"))
    }

    fn out(&self, round: u64) -> PathBuf {
        self.root.path().join(format!("out-{round}"))
    }

    /// Begins to submit an array of a round.
    pub(crate) fn submit(&self, round: u64, tasks: u32) -> Submit {
        let (array, out) = (format!("1-{tasks}"), self.out(round));
        let mut command = self.command();
        command.args(["--output-mode", "quiet", "submit", "--array", &array, "--crash-limit", "unlimited"]);
        command.args(["--stdout", "none", "--stderr", "none", "--", "sh", "task.sh"]).arg(out);
        command.stdout(Stdio::piped()).stderr(log(&self.root, "client.log"));
        Submit { child: Some(command.spawn().expect("hq can be run")), job: None }
    }

    /// A command of the program in the cluster's directory.
    pub(crate) fn command(&self) -> Command {
        command_on(&self.root, self.net.as_ref().map(|net| net.host(0)))
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
        let mut command = self.command();
        command.args(args).stdout(Stdio::null()).stderr(log(&self.root, "client.log"));
        let words = args.iter().map(|&word| word.to_owned()).collect();
        Running { child: command.spawn().expect("hq can be run"), words }
    }

    /// Runs a command that must succeed, and gives what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let answer = self.ask(args);
        assert!(answer.is_success(), "hq {args:?}: {answer:?}");
        answer.stdout
    }

    /// Runs a command to its end; one that hangs is killed.
    pub(crate) fn ask(&self, args: &[&str]) -> Answer {
        let mut command = self.command();
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let begun = Instant::now();
        let child = command.spawn().expect("hq can be run");
        let pid = child.id().to_string();
        let (ended, end) = mpsc::channel::<()>();
        let watch = std::thread::spawn(move || {
            if end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                Command::new("kill").args(["-KILL", &pid]).status().expect("kill can be run");
            }
        });
        let output = child.wait_with_output().expect("a child");
        drop(ended);
        watch.join().expect("the watch ends");
        Answer {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            time: begun.elapsed(),
        }
    }

    /// The directory that everything is in.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The server's directory.
    pub(crate) fn server_dir(&self) -> PathBuf {
        self.root.path().join("server")
    }

    /// The processes that a worker has started itself: its launcher.
    pub(crate) fn launcher_pid(&self, index: usize) -> u32 {
        *children(&self.workers[index]).first().expect("a launcher")
    }

    /// Whether a worker's process has ended.
    pub(crate) fn worker_has_ended(&mut self, index: usize) -> bool {
        self.workers[index].try_wait().expect("a child").is_some()
    }

    /// Kills the server, and starts it again with these variables in its environment.
    pub(crate) fn restart_server_with(&mut self, variables: &[(String, String)]) {
        end(&mut self.server);
        let mut command = self.command();
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        self.server = spawn(command, &self.lines[0], log(&self.root, "server.log"));
        self.ok(&["server", "wait", "--timeout", "60s"]);
    }

    /// Kills the server.
    pub(crate) fn end_server(&mut self) {
        end(&mut self.server);
    }

    /// Kills the server and starts it again.
    pub(crate) fn kill_server(&mut self) {
        self.restart_server_with(&[]);
    }

    /// Kills a worker and starts another one.
    pub(crate) fn kill_worker(&mut self, index: usize) {
        end(&mut self.workers[index]);
        self.workers[index] = self.new_worker(index);
    }

    /// Something happens to the link of a worker for a while.
    pub(crate) fn break_link(&self, index: usize, what: LinkFault, time: Duration) {
        let net = self.net.as_ref().expect("a network");
        net.inject(index, what, time).unwrap_or_else(|error| panic!("{what:?}: {error}"));
    }

    /// Leaves no room on the journal's disk for a while.
    pub(crate) fn fill_disk(&self, time: Duration) {
        let filler = self.full_disk();
        std::thread::sleep(time);
        drop(filler);
    }

    /// Leaves no room on the journal's disk as long as the value lives.
    pub(crate) fn full_disk(&self) -> Filler {
        let disk = self.disk.as_ref().expect("a disk");
        let path = disk.path.join("filler");
        let mut filler = File::create(&path).expect("a file");
        while std::io::Write::write_all(&mut filler, &[1; 4096]).is_ok() {}
        Filler { path }
    }

    /// Cuts the connections of the workers.
    pub(crate) fn cut_relay(&self) {
        self.relay.as_ref().expect("a relay").cut();
    }

    /// How many connections workers have made since they were cut.
    pub(crate) fn relayed(&self) -> usize {
        self.relay.as_ref().expect("a relay").connections()
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
        until("it is given up", || (offline() > before).then_some(()).ok_or("it is not".into()));
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
        let launchers: Vec<u32> = self.workers.iter().flat_map(children).collect();
        self.workers.iter_mut().for_each(end);
        end(&mut self.server);
        if std::thread::panicking() {
            for name in ["server.log", "worker.log", "client.log"] {
                let text = fs::read_to_string(self.root.path().join(name)).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                eprintln!("--- {name}\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
            }
            return;
        }
        // They end the tasks, which write into the directory.
        until("the launchers end", || {
            let lives = |pid: &&u32| Path::new(&format!("/proc/{pid}")).exists();
            launchers.iter().find(lives).map_or(Ok(()), |pid| Err(format!("{pid} lives")))
        });
    }
}

// The processes that a living one has started.
fn children(child: &Child) -> Vec<u32> {
    let path = format!("/proc/{0}/task/{0}/children", child.id());
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

// Killed without a word.
fn end(child: &mut Child) {
    // One that has ended cannot be killed.
    let _ = child.kill();
    let _ = child.wait();
    // What `faketime` shares is left behind when a program under another clock is killed.
    for name in ["faketime_shm_", "sem.faketime_sem_"] {
        let _ = fs::remove_file(format!("/dev/shm/{name}{}", child.id()));
    }
}

fn spawn(mut command: Command, line: &str, log: File) -> Child {
    command.args(line.split(' ')).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("hq can be run")
}

fn small_disk(root: &TempDir) -> Result<Disk, String> {
    let path = root.path().join("disk");
    fs::create_dir(&path).expect("a directory");
    run(&format!("mount -t tmpfs -o size=2m none {}", path.display()))?;
    Ok(Disk { path })
}

fn command_on(root: &TempDir, host: Option<&str>) -> Command {
    let hq = env!("CARGO_BIN_EXE_hq");
    let mut command = match host {
        Some(host) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", host, hq]);
            command
        }
        None => Command::new(hq),
    };
    command.current_dir(root.path()).env("HQ_SERVER_DIR", root.path().join("server"));
    command.env("TMPDIR", root.path()).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

fn log(root: &TempDir, name: &str) -> File {
    OpenOptions::new().create(true).append(true).open(root.path().join(name)).expect("a log")
}
