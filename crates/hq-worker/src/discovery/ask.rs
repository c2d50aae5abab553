//! Asks the running system what detection is given as arguments.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use hq_model::worker::Manager;
use rustix::param::clock_ticks_per_second;
use rustix::process::getsid;

use super::{DetectOptions, Kinds, batch};
use crate::limits;

/// Options for this node and process: its files, environment, affinity mask, and `nvidia-smi` where it is.
pub fn this_node(kinds: Kinds, hyper_threading: bool) -> DetectOptions {
    DetectOptions {
        root: PathBuf::from("/"),
        environment: environment(),
        affinity: affinity(),
        hyper_threading,
        kinds,
        nvidia_smi: if kinds.nvidia { output(Command::new("nvidia-smi").arg("-L")) } else { None },
    }
}

/// The environment variables of this process that are text.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect()
}

/// The CPUs this process may run on.
#[expect(unsafe_code, reason = "the safe wrapper knows 1 024 CPUs, and fails where the kernel knows more")]
pub fn affinity() -> Vec<u32> {
    let mut mask = [0u64; 1024];
    // SAFETY: pointer and size describe the mask; the kernel fills in as much as it knows of.
    let bytes =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    let words = usize::try_from(bytes).unwrap_or(0) / size_of::<u64>();
    let bits = mask[..words].iter().enumerate();
    bits.flat_map(|(i, word)| (0..64).filter(move |b| word & (1 << b) != 0).map(move |b| i as u32 * 64 + b))
        .collect()
}

/// How much time the allocation has left, asked from its batch system. `None` without a limit or an answer in time.
pub fn time_left(manager: Manager, allocation: &str) -> Option<Duration> {
    match manager {
        Manager::Slurm => {
            // The first may be switched off for users, or know the job no more for a moment.
            match output(Command::new("squeue").args(["-h", "-j", allocation, "-o", "%L"])) {
                Some(text) if !text.trim().is_empty() => batch::slurm_time_left(&text),
                _ => {
                    let text = output(Command::new("scontrol").args(["show", "job", allocation]))?;
                    batch::slurm_job_time_left(&text)
                }
            }
        }
        Manager::Pbs => {
            let text = output(Command::new("qstat").args(["-f", "-F", "json", allocation]))?;
            batch::pbs_time_left(&text, session_age().unwrap_or_default())
        }
    }
}

/// How long the leader of this session runs: in a batch job, the job on this node.
fn session_age() -> Option<Duration> {
    let session = getsid(None).ok()?.as_raw_pid();
    let stat = fs::read_to_string(format!("/proc/{session}/stat")).ok()?;
    // The command in parentheses may hold anything; the other fields follow the last one.
    let started: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let uptime: f64 = fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(uptime - started as f64 / clock_ticks_per_second().max(1) as f64).ok()
}

/// What a program prints; `None` when it is missing, fails or takes too long.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.take(limits::ANSWER_MAX).read_to_end(&mut text);
        // Nobody listens any more after the time is over.
        let _ = sender.send(read.map(|_| text));
    });
    let answer = receiver.recv_timeout(limits::ANSWER_TIME_MAX);
    if answer.is_err() {
        // It may have ended in this moment.
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    let text = answer.ok()?.ok()?;
    status.success().then(|| String::from_utf8_lossy(&text).into_owned())
}
