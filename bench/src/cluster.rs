//! A server and workers of the program under test, in a private directory, ended at the end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hq_client::Session;
use hq_core::client_messages::ClientRequest;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::row::BoxError;

/// No command of a benchmark may take longer.
const COMMAND_LIMIT: Duration = Duration::from_secs(900);

/// What is measured, and how thoroughly.
pub(crate) struct Bench {
    /// The program.
    pub hq: PathBuf,
    /// A tenth of the tasks.
    pub is_quick: bool,
}

impl Bench {
    /// So many tasks, or a tenth of them.
    pub(crate) fn tasks(&self, count: u32) -> u32 {
        if self.is_quick { count / 10 } else { count }
    }

    /// Starts a server and workers, each with these arguments.
    ///
    /// # Errors
    /// When one does not start.
    pub(crate) fn cluster(
        &self,
        server: &[&str],
        workers: u32,
        worker: &[&str],
    ) -> Result<Cluster, BoxError> {
        self.cluster_in(&[], server, workers, worker)
    }

    /// As `cluster`, with these environment variables.
    ///
    /// # Errors
    /// When one does not start.
    pub(crate) fn cluster_in(
        &self,
        variables: &[(&str, &str)],
        server: &[&str],
        workers: u32,
        worker: &[&str],
    ) -> Result<Cluster, BoxError> {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let (hq, home) = (self.hq.clone(), tempfile::tempdir()?);
        let mut cluster = Cluster { hq, home, variables, processes: Vec::new() };
        cluster.start("server", server)?;
        cluster.run(&["server", "wait", "--timeout", "30s"])?;
        for _ in 0..workers {
            cluster.start("worker", worker)?;
        }
        if workers > 0 {
            cluster.run(&["worker", "wait", &workers.to_string()])?;
        }
        Ok(cluster)
    }
}

/// A running cluster. The first process is the server.
pub(crate) struct Cluster {
    hq: PathBuf,
    home: TempDir,
    variables: Vec<(String, String)>,
    processes: Vec<Child>,
}

impl Cluster {
    /// Its private directory.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Its server directory.
    pub(crate) fn server_dir(&self) -> PathBuf {
        self.home().join("server")
    }

    /// Process id of the server.
    pub(crate) fn server_pid(&self) -> u32 {
        self.processes[0].id()
    }

    /// Process id of the first worker.
    pub(crate) fn worker_pid(&self) -> u32 {
        self.processes[1].id()
    }

    /// A command of the program, in the private directory, printing nothing.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.hq);
        command.args(arguments).current_dir(self.home()).env("HQ_SERVER_DIR", self.server_dir());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs a command and says how long it took.
    ///
    /// # Errors
    /// When it fails, or hangs.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Duration, BoxError> {
        let begun = Instant::now();
        let mut child = self.command(arguments).spawn()?;
        // A watchdog costs a thread, which is nothing against a process.
        let pid = Pid::from_child(&child);
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let watchdog = thread::spawn(move || {
            if is_done
                .recv_timeout(COMMAND_LIMIT)
                .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                // Nobody has waited for this child.
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        let status = child.wait();
        let elapsed = begun.elapsed();
        drop(done);
        let _ = watchdog.join();
        let status = status?;
        if status.success() {
            Ok(elapsed)
        } else {
            Err(format!("`hq {}` ended with {status}", arguments.join(" ")).into())
        }
    }

    /// Runs a command and gives what it prints.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) fn read(&self, arguments: &[&str]) -> Result<String, BoxError> {
        let output = self.command(arguments).stdout(Stdio::piped()).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout)?),
            false => Err(format!("`hq {}` ended with {}", arguments.join(" "), output.status).into()),
        }
    }

    /// Kills a worker, the first being 0.
    ///
    /// # Errors
    /// When it has ended already.
    pub(crate) fn kill_worker(&mut self, number: usize) -> Result<(), BoxError> {
        self.processes[1 + number].kill()?;
        self.processes[1 + number].wait()?;
        Ok(())
    }

    /// Submits an array of `count` times `true` without outputs, and waits for it.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) fn array(&self, count: u32) -> Result<Duration, BoxError> {
        let ids = format!("1-{count}");
        self.run(&["submit", "--array", &ids, "--stdout=none", "--stderr=none", "--wait", "--", "true"])
    }

    /// Kills the server and starts it again; how long that takes from its start to its first answer.
    ///
    /// # Errors
    /// When it does not come back.
    pub(crate) fn kill_and_restart(&mut self) -> Result<Duration, BoxError> {
        self.processes[0].kill()?;
        self.processes[0].wait()?;
        let begun = Instant::now();
        self.start("server", &[])?;
        let server = self.processes.pop().ok_or("it was started")?;
        self.processes[0] = server;
        while begun.elapsed() < COMMAND_LIMIT {
            let answer = Session::connect(&self.server_dir())
                .and_then(|mut session| session.request(ClientRequest::ServerInfo));
            if answer.is_ok() {
                return Ok(begun.elapsed());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Err("the server did not come back".into())
    }

    /// Starts a worker, too.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn start(&mut self, what: &str, arguments: &[&str]) -> Result<(), BoxError> {
        let log = File::create(self.home().join(format!("{what}-{}.log", self.processes.len())))?;
        let mut command = self.command(&[what, "start"]);
        self.processes.push(command.args(arguments).stdout(log.try_clone()?).stderr(log).spawn()?);
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.run(&["server", "stop"]);
        let until = Instant::now() + Duration::from_secs(5);
        for process in &mut self.processes {
            while matches!(process.try_wait(), Ok(None)) && Instant::now() < until {
                thread::sleep(Duration::from_millis(10));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
