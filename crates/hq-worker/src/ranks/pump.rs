//! Carries what a process writes to whoever asked for it.

use std::io;
use std::os::fd::AsRawFd;

use hq_core::node_messages::{FromNode, ProcessEnd};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::limits::{PROCESS_CHUNK, PROCESS_DRAIN_TIME};

/// The ends of the pipes that a process opens by path. Dropped when it has ended, so that the other ends see it.
#[derive(Debug)]
pub(crate) struct Writers {
    stdout: pipe::Sender,
    stderr: pipe::Sender,
}

impl Writers {
    /// Pipes for a process, with their other ends. To be called within a tokio runtime.
    pub(crate) fn new() -> io::Result<(Writers, [pipe::Receiver; 2])> {
        let (stdout, read_stdout) = pipe::pipe()?;
        let (stderr, read_stderr) = pipe::pipe()?;
        Ok((Writers { stdout, stderr }, [read_stdout, read_stderr]))
    }

    /// What the launcher opens for the process: it runs as the same user.
    pub(crate) fn paths(&self) -> [String; 2] {
        let path = |end: &pipe::Sender| format!("/proc/{}/fd/{}", std::process::id(), end.as_raw_fd());
        [path(&self.stdout), path(&self.stderr)]
    }
}

/// Carries until the process has ended and its pipes are empty; what its children write after that is lost.
pub(crate) async fn pump(
    process: u32,
    [mut stdout, mut stderr]: [pipe::Receiver; 2],
    mut ended: oneshot::Receiver<Result<ProcessEnd, String>>,
    out: mpsc::Sender<FromNode>,
) {
    let mut buffers = [vec![0; PROCESS_CHUNK], vec![0; PROCESS_CHUNK]];
    let mut open = [true, true];
    let mut end = None;
    let mut until = Instant::now();
    let [out_buffer, err_buffer] = &mut buffers;
    while open != [false, false] || end.is_none() {
        let (channel, read) = tokio::select! {
            read = stdout.read(out_buffer), if open[0] => (0, read),
            read = stderr.read(err_buffer), if open[1] => (1, read),
            result = &mut ended, if end.is_none() => {
                end = Some(result.unwrap_or_else(|_| Err("the worker is ending".to_owned())));
                until = Instant::now() + PROCESS_DRAIN_TIME;
                continue;
            }
            () = sleep_until(until), if end.is_some() => break,
        };
        let count = read.unwrap_or(0);
        if count == 0 {
            open[channel] = false;
            continue;
        }
        let bytes = if channel == 0 { &out_buffer[..count] } else { &err_buffer[..count] }.to_vec();
        if out.send(FromNode::Output { process, is_error: channel == 1, bytes }).await.is_err() {
            // Nobody listens: the process is being killed.
            return;
        }
    }
    let last = match end {
        Some(Ok(end)) => FromNode::Ended { process, end },
        Some(Err(reason)) => FromNode::Refused { process, reason },
        None => return,
    };
    // Whoever is gone does not want to know.
    let _ = out.send(last).await;
}
