//! Workers on the other nodes of the batch job that this process is in, started by the batch system's own means.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hq_batch::Nodes;
use hq_worker::discovery::ask;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long workers that were asked to end have for that, beside the time that their tasks take.
const END_TIME: Duration = Duration::from_secs(30);

/// The nodes of the batch job that this process is in, if there are some beside this machine.
pub(crate) fn nodes_of_batch_job() -> Option<Nodes> {
    Nodes::of(&ask::environment(), &|path| std::fs::read_to_string(path).ok())
}

/// What started workers there: it ends when all of them have ended.
#[derive(Debug)]
pub(super) struct OtherNodes {
    group: Pid,
    is_ending: Arc<AtomicBool>,
    ended: oneshot::Receiver<()>,
}

impl OtherNodes {
    /// Starts a worker on each. They find the server by its directory, which all nodes must see, and end when they have
    /// lost it.
    pub(super) fn start(
        nodes: &Nodes,
        server_dir: &Path,
        worker_args: &[OsString],
    ) -> io::Result<OtherNodes> {
        let mut worker: Vec<OsString> = vec![std::env::current_exe()?.into(), "--server-dir".into()];
        worker.push(server_dir.into());
        worker.extend(
            ["--output-mode", "quiet", "worker", "start", "--on-server-lost", "stop"].map(OsString::from),
        );
        worker.extend(worker_args.iter().cloned());
        let words = nodes.start_on_others(&worker);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null());
        // Signals of the terminal are for us: tasks are to have their time.
        command.process_group(0);
        let child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{} cannot be started: {error}", words[0].display()))
        })?;
        let group = Pid::from_child(&child);
        let is_ending = Arc::new(AtomicBool::new(false));
        let (tell, ended) = oneshot::channel();
        let wait = {
            let is_ending = Arc::clone(&is_ending);
            move || {
                wait(child, &is_ending);
                // Nobody may wait any more.
                let _ = tell.send(());
            }
        };
        std::thread::Builder::new().name("hq-nodes".into()).spawn(wait)?;
        Ok(OtherNodes { group, is_ending, ended })
    }

    /// Waits until all of them have ended by themselves.
    pub(super) async fn have_ended(&mut self) {
        // The other end is dropped with the thread.
        let _ = (&mut self.ended).await;
    }

    /// From now on their ends are what is wanted.
    pub(super) fn are_to_end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Waits until they have ended, and ends what started them when that takes too long.
    pub(super) async fn end(mut self) {
        self.are_to_end();
        for signal in [Signal::TERM, Signal::KILL] {
            if self.ended.is_terminated() || timeout(END_TIME, self.have_ended()).await.is_ok() {
                return;
            }
            // What is gone needs no signal.
            let _ = kill_process_group(self.group, signal);
        }
    }
}

impl Drop for OtherNodes {
    fn drop(&mut self) {
        // Something went wrong, or they are gone: tasks are not waited for.
        self.are_to_end();
        if !self.ended.is_terminated() && self.ended.try_recv().is_err() {
            let _ = kill_process_group(self.group, Signal::TERM);
        }
    }
}

fn wait(mut child: Child, is_ending: &AtomicBool) {
    let status = child.wait();
    if is_ending.load(Ordering::Relaxed) {
        return;
    }
    match status {
        Ok(status) if status.success() => tracing::warn!("the workers of the other nodes have ended"),
        Ok(status) => tracing::warn!("the workers of the other nodes have ended: {status}"),
        Err(error) => tracing::warn!(%error, "the workers of the other nodes cannot be observed"),
    }
}
