//! The threads that wait, one at a time, for the ends of tasks.

use std::os::raw::c_int;
use std::time::Instant;

use hq_model::Usage;

use super::armed::Waiting;
use super::process::{Exit, Shared, Who, kill_group, last_error};
use super::spawn::Spawner;
use super::wire::{End, Ended};
use crate::limits;

/// Waits for ends while it is its turn, and starts what waited for one while it is not.
pub(super) fn run(shared: &'static Shared, number: usize) {
    let mut spawner = Spawner::new(shared, number);
    let mut reports = Vec::with_capacity((limits::REPORTS_PER_PACKET + 2) * Ended::BYTES);
    loop {
        let Waiting { slot, has_stdin, packet, files } = reap_until_one_follows(shared, &mut reports);
        spawner.begin(slot, has_stdin, &packet, files);
    }
}

/// Waits, kills what is left in the group of each ended task, reports in batches; until something is to begin.
fn reap_until_one_follows(shared: &'static Shared, reports: &mut Vec<u8>) -> Waiting {
    let _turn = shared.reaping.take_turn();
    loop {
        let started = shared.started_count();
        match next(reports.is_empty()) {
            Next::Ended(pid, exit) => {
                let (who, waiting) = shared.ended(pid, exit);
                if !matches!(who, Who::Stranger) {
                    // The leader is a zombie still, so its number cannot have been given to somebody else.
                    kill_group(pid, libc::SIGKILL);
                }
                reap(pid);
                if let Who::Task(report) = who {
                    let is_somebody_there = shared.reaping.has_substitute();
                    let follower = shared.follow(report, waiting, is_somebody_there, reports);
                    if let Some(follower) = follower {
                        shared.tell_end(reports, Some(&follower));
                        reports.clear();
                        return follower;
                    }
                } else if let Some(waiting) = waiting {
                    shared.lock().drop_waiting(waiting, reports);
                }
                if reports.len() < limits::REPORTS_PER_PACKET * Ended::BYTES {
                    continue;
                }
            }
            Next::NotYet => {}
            Next::Childless => {
                if reports.is_empty() {
                    shared.wait_for_start(started);
                    continue;
                }
            }
        }
        if !reports.is_empty() {
            shared.tell(reports);
            reports.clear();
        }
    }
}

enum Next {
    Ended(i32, Exit),
    NotYet,
    Childless,
}

/// Finds an ended process without removing it.
fn next(block: bool) -> Next {
    // SAFETY: all-zero bytes are valid values of these plain structures.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOWAIT | if block { 0 } else { libc::WNOHANG };
    // The system call itself, because the library's function leaves out the use.
    // SAFETY: both pointers are to structures of the right type that outlive the call.
    let result =
        unsafe { libc::syscall(libc::SYS_waitid, libc::P_ALL, 0, &raw mut info, flags, &raw mut usage) };
    if result != 0 {
        return if last_error() == libc::ECHILD { Next::Childless } else { Next::NotYet };
    }
    // SAFETY: after a successful waitid these fields are the ones filled in.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return Next::NotYet;
    }
    let end = match info.si_code {
        libc::CLD_EXITED => End::Exited(status as u8),
        _ => End::Signaled(status as u8),
    };
    Next::Ended(pid, Exit { end, usage: convert(&usage), at: Instant::now() })
}

fn reap(pid: c_int) {
    // SAFETY: no pointers are given.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

fn convert(usage: &libc::rusage) -> Usage {
    let micros = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    Usage {
        wall_us: 0,
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
        rss_max_kib: usage.ru_maxrss as u64,
        blocks_read: usage.ru_inblock as u64,
        blocks_written: usage.ru_oublock as u64,
    }
}
