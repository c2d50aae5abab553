//! Runs a program of somebody else to its end: with a time limit, and with bounds on what is kept of its output. Blocking.
//!
//! When its time is over, or somebody stops it, it is killed with all that it has started, as far as that can be told: its
//! process group, and what descends from it, in whatever session. What has left the group and lost its parent goes on.

mod family;
mod output;
mod stop;

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

pub use output::Keep;
pub use stop::Stop;

/// How far a program may go.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    /// It is killed after this time.
    pub time: Duration,
    /// What is kept of each of its outputs; the rest is read and dropped.
    pub keep: Keep,
    /// How long what it leaves running may keep its outputs open after its end.
    pub grace: Duration,
    /// Who can end it before.
    pub stop: Option<&'a Stop>,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub how: How,
    /// What is kept of its standard output.
    pub stdout: Vec<u8>,
    /// What is kept of its standard error.
    pub stderr: Vec<u8>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By itself, or by a signal of somebody else.
    Status(ExitStatus),
    /// It took too long, and was killed.
    TimedOut,
    /// It was stopped, or was not begun for that.
    Stopped,
}

/// A file without a name as standard input, and no pipe: a program need not read it, and nobody has to wait until it does.
///
/// # Errors
/// When the system has no room for it.
pub fn input(content: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("hq-input", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

/// Runs a program to its end, in a process group of its own. Its standard input is what the command says.
///
/// # Errors
/// When it cannot be run.
pub fn run(command: &mut Command, bounds: &Bounds<'_>) -> io::Result<Ended> {
    if bounds.stop.is_some_and(Stop::has_ended) {
        return Ok(Ended { how: How::Stopped, stdout: Vec::new(), stderr: Vec::new() });
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn()?;
    let pid = Pid::from_child(&child);
    let outputs =
        [output::read(child.stdout.take(), bounds.keep), output::read(child.stderr.take(), bounds.keep)];
    if let Some(stop) = bounds.stop {
        stop.begin(pid);
    }
    let is_in_time = has_ended(pid).recv_timeout(bounds.time).is_ok();
    if !is_in_time {
        kill_all(pid);
    }
    // It is not reaped yet, so its number still means this one.
    let is_stopped = bounds.stop.is_some_and(|stop| stop.end_of(pid));
    let status = child.wait()?;
    let how = match () {
        () if is_stopped && status.signal() == Some(Signal::KILL.as_raw()) => How::Stopped,
        () if !is_in_time => How::TimedOut,
        () => How::Status(status),
    };
    let end = Instant::now() + bounds.grace;
    let [stdout, stderr] = outputs.map(|output| output.collect(end));
    Ok(Ended { how, stdout, stderr })
}

/// Kills a child that has not been reaped, its group, and what descends from it.
pub(crate) fn kill_all(child: Pid) {
    // Before they lose their parents, or start others.
    let family = family::frozen(child);
    let _ = rustix::process::kill_process_group(child, Signal::KILL);
    for process in family {
        let _ = rustix::process::kill_process(process, Signal::KILL);
    }
}

// Says when a child has ended, without reaping it.
fn has_ended(pid: Pid) -> Receiver<()> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(rustix::process::waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
        let _ = sender.send(());
    });
    receiver
}

#[cfg(test)]
mod tests;
