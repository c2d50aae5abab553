//! Orders that a zygote executes: it forks the process, and what others are before they execute their program this one
//! becomes by itself.
//!
//! The order goes to the zygote as it came, with the socket of the new process and one on which that answers: its number, or
//! what went wrong. It waits until it is entered here as the process of this start, so that its end is never that of a
//! stranger. It is a child of this process by then, for who forked it has ended.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::process::{Shared, last_error};
use super::spawn::Spawner;
use super::wire::{Ended, Stage};
use super::{attach_files, pair};
use crate::limits::FORK_LIMIT;

// Number of the process, place of the stage where something went wrong counted from 1 or 0, number of the error.
const ANSWER_BYTES: usize = 12;

impl Spawner {
    /// Has the received order executed by the zygote at the other end of this socket.
    pub(super) fn fork_from(
        &mut self,
        zygote: Option<&OwnedFd>,
        packet: &[u8],
        stdin: Option<&OwnedFd>,
        started: Instant,
    ) -> Result<Option<Ended>, (Stage, i32)> {
        let failed = |errno: i32| (Stage::Zygote, errno);
        let (Some(zygote), Some(stdin)) = (zygote, stdin) else { return Err((Stage::Order, libc::EBADF)) };
        let (slot, memory_bytes) = (self.received.slot, self.received.memory_bytes);
        let no_socket = |error: std::io::Error| failed(error.raw_os_error().unwrap_or(libc::EIO));
        let (here, there) = pair(libc::SOCK_SEQPACKET).map_err(no_socket)?;
        wait_for(zygote.as_raw_fd(), libc::POLLOUT, FORK_LIMIT).map_err(failed)?;
        send(zygote.as_raw_fd(), packet, [stdin.as_raw_fd(), there.as_raw_fd()]).map_err(failed)?;
        drop(there);
        wait_for(here.as_raw_fd(), libc::POLLIN, FORK_LIMIT).map_err(failed)?;
        let mut answer = [0u8; ANSWER_BYTES];
        // SAFETY: pointer and length describe the buffer.
        let got = unsafe { libc::recv(here.as_raw_fd(), answer.as_mut_ptr().cast(), ANSWER_BYTES, 0) };
        if got != ANSWER_BYTES as isize {
            return Err(failed(libc::ECHILD));
        }
        let word =
            |at: usize| i32::from_ne_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
        let (pid, stage, errno) = (word(0), word(4), word(8));
        if stage != 0 {
            let stage = usize::try_from(stage - 1).ok().and_then(|place| Stage::ALL.get(place));
            return Err((*stage.unwrap_or(&Stage::Zygote), errno));
        }
        if memory_bytes > 0 {
            self.shared.look_at_memory();
        }
        if !self.shared.enter_forked(pid, slot, started, memory_bytes) {
            return Err(failed(libc::ESRCH));
        }
        // One that has ended by now is reported like all others.
        // SAFETY: pointer and length describe one byte.
        unsafe { libc::send(here.as_raw_fd(), [1u8].as_ptr().cast(), 1, libc::MSG_NOSIGNAL) };
        Ok(None)
    }
}

fn wait_for(socket: RawFd, events: i16, most: Duration) -> Result<(), i32> {
    let mut poll = libc::pollfd { fd: socket, events, revents: 0 };
    // SAFETY: one valid entry.
    match unsafe { libc::poll(&mut poll, 1, most.as_millis() as i32) } {
        0 => Err(libc::ETIMEDOUT),
        count if count > 0 => Ok(()),
        _ => Err(last_error()),
    }
}

fn send(socket: RawFd, packet: &[u8], files: [RawFd; 2]) -> Result<(), i32> {
    let mut iov = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
    let mut control = [0u64; 4];
    // SAFETY: all-zero bytes are a valid header; all it points to outlives the call.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut iov;
        message.msg_iovlen = 1;
        attach_files(&mut message, &mut control, &files);
        libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    if sent < 0 { Err(last_error()) } else { Ok(()) }
}

impl Shared {
    // What the zygote says is a process, and nothing else.
    fn is_own_child(&self, pid: i32) -> bool {
        super::family::process(pid).is_some_and(|process| process.parent == self.pid && !process.is_over)
    }

    /// Enters a process that a zygote has forked. False when it is none of this launcher, or is gone.
    fn enter_forked(&self, pid: i32, slot: super::wire::Slot, started: Instant, memory_bytes: u64) -> bool {
        let mut table = self.lock();
        // Under the lock: the reaper asks for it when it has seen the end of one, and before that is no process any more.
        self.is_own_child(pid) && self.enter_in(&mut table, pid, slot, started, memory_bytes)
    }
}
