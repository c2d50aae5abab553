//! Executes tasks: a tiny process beside the worker that starts, signals and reaps programs.
//!
//! It is forked from the worker's program before anything else exists, so making a process from it costs
//! the same whatever the worker's size. It outlives a worker that is killed just long enough to kill every
//! process that descends from it. If it is killed itself, the worker sees the end of the socket, becomes the parent
//! of what is left, and kills that.
//!
//! Assumed: Linux 3.17 or later (anonymous files; `PR_SET_CHILD_SUBREAPER`, `CLONE_VFORK`, packet sockets are
//! older), and `/proc` mounted.

#![expect(
    unsafe_code,
    reason = "starts, signals and reaps processes by system calls that have no safe wrapper"
)]

mod armed;
mod endings;
pub(crate) mod family;
mod fork;
mod process;
mod reap;
mod spawn;
mod telling;
pub mod text;
mod watch;
mod wire;

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use endings::MARK;
pub use wire::{End, Ended, Order, Slot, Stage};

use crate::limits;
use wire::{RECALL, SignalOrder};

/// The worker's end of its launcher. Dropping it ends every task.
#[derive(Debug)]
pub struct Launcher {
    orders: OwnedFd,
    control: OwnedFd,
    pid: i32,
    /// When it was born, as the kernel counts.
    born: u64,
    is_gone: bool,
    environment: Vec<CString>,
    outbox: Outbox,
    inbox: Box<[u8]>,
}

/// Orders that the kernel has not taken yet.
#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    /// End of each packet in `bytes`, and what goes along.
    packets: Vec<(usize, Attached)>,
    /// Packets sent already.
    sent: usize,
    signals: Vec<u8>,
    signals_sent: usize,
}

#[derive(Debug, Default)]
struct Attached {
    stdin: Option<Arc<OwnedFd>>,
    zygote: Option<Arc<OwnedFd>>,
    // Not where a zygote is.
    body: Option<OwnedFd>,
}

impl Launcher {
    /// Forks the launcher. To be called first thing in `main`: the new process is a copy of this one and
    /// goes on to make threads of its own.
    ///
    /// Tasks will start from the environment this process has now, less what belongs to a task of an outer worker.
    ///
    /// # Errors
    /// When this process has other threads already, or the system refuses sockets or processes.
    pub fn fork() -> io::Result<Launcher> {
        if std::fs::read_dir("/proc/self/task")?.count() != 1 {
            return Err(io::Error::other("the launcher must be forked before any thread is made"));
        }
        let environment = base_environment(std::env::vars_os());
        let (orders, orders_there) = pair(libc::SOCK_SEQPACKET)?;
        let (control, control_there) = pair(libc::SOCK_STREAM)?;
        // What loses the launcher as its parent becomes a child of this process, which can find it then.
        // SAFETY: a plain system call.
        if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let pid = fork_deaf();
        match pid {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop((orders, control));
                process::run(orders_there, control_there, environment)
            }
            pid => {
                for fd in [&orders, &control] {
                    set_nonblocking(fd.as_fd())?;
                }
                let inbox = vec![0; limits::REPORTS_PER_PACKET * Ended::BYTES + Ended::BYTES];
                let outbox = Outbox::default();
                let born = family::process(pid).map_or(0, |launcher| launcher.born);
                let inbox = inbox.into();
                Ok(Launcher { orders, control, pid, born, is_gone: false, environment, outbox, inbox })
            }
        }
    }

    /// Process id of the launcher.
    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// Lets the launcher go on if a signal has stopped it: a task may have stopped its parent. True when it was stopped
    /// since this was asked last.
    pub fn continue_if_stopped(&self) -> bool {
        // SAFETY: system calls on a child of ours; one that has ended is not reaped.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WSTOPPED | libc::WNOHANG;
            if self.is_gone
                || libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, flags) != 0
                || info.si_pid() == 0
            {
                return false;
            }
            libc::kill(self.pid, libc::SIGCONT);
        }
        true
    }

    /// `KEY=VALUE` of the environment that tasks start from; orders name variables by their position here.
    pub fn environment(&self) -> &[CString] {
        &self.environment
    }

    /// Adds an order; [`Launcher::flush`] hands it over. Answered by one [`Ended`] that is an end; one that waits for
    /// another start says [`End::Begun`] before, after the end of that one.
    ///
    /// # Errors
    /// When no file can be made for an order too large for a packet.
    pub fn start(&mut self, order: &Order<'_>, stdin: Option<&Arc<OwnedFd>>) -> io::Result<()> {
        debug_assert_eq!(order.has_stdin, stdin.is_some(), "the order says whether a file comes along");
        let out = &mut self.outbox;
        let begin = out.bytes.len();
        order.encode(&mut out.bytes);
        let length = out.bytes.len() - begin;
        let mut attached = Attached { stdin: stdin.cloned(), ..Attached::default() };
        if length > limits::PACKET_MAX {
            let file = memory_file(&out.bytes[begin..]);
            out.bytes.truncate(begin);
            attached.body = Some(file?);
            wire::encode_in_file(order, length as u32, &mut out.bytes);
        }
        out.packets.push((out.bytes.len(), attached));
        Ok(())
    }

    /// As [`Launcher::start`]: the process is forked from a zygote, which reads these orders at the other end of `zygote`, and
    /// has the socket in place of `stdin`. What cannot be had from there is answered by [`Stage::Zygote`]. False when the order
    /// is too large for that.
    pub fn fork_from(&mut self, zygote: &Arc<OwnedFd>, order: &Order<'_>, stdin: &Arc<OwnedFd>) -> bool {
        debug_assert!(order.is_forked && order.has_stdin, "the order says that it is one");
        let out = &mut self.outbox;
        let begin = out.bytes.len();
        order.encode(&mut out.bytes);
        if out.bytes.len() - begin > limits::PACKET_MAX {
            out.bytes.truncate(begin);
            return false;
        }
        let attached = Attached { stdin: Some(stdin.clone()), zygote: Some(zygote.clone()), body: None };
        out.packets.push((out.bytes.len(), attached));
        true
    }

    /// Sends a signal to the process group of a start, as soon as it has one. Nothing happens after its end.
    pub fn signal(&mut self, slot: Slot, signal: u8) {
        SignalOrder { slot, signal }.encode(b"", &mut self.outbox.signals);
    }

    /// Calls back a start that waits for another one. Answered by [`End::Recalled`], unless it has begun already: then
    /// nothing happens.
    pub fn recall(&mut self, slot: Slot) {
        self.signal(slot, RECALL);
    }

    /// Sends a signal to the process group of a start that is to end. When it has ended, everything else that it started
    /// is killed, and then its end is reported: what descended from it, and what has `mark` in its environment, a
    /// variable that begins with [`MARK`].
    pub fn end(&mut self, slot: Slot, signal: u8, mark: &[u8]) {
        SignalOrder { slot, signal }.encode(mark, &mut self.outbox.signals);
    }

    /// Ends the launcher, at once or after it had `time` to do so itself, and everything that it started. Returns when
    /// nothing of that is left, or cannot be killed. Nothing can be started any more.
    pub fn kill(&mut self, time: Duration) {
        if std::mem::replace(&mut self.is_gone, true) {
            return;
        }
        let deadline = Instant::now() + time;
        // SAFETY: system calls on sockets and a child of ours. The sockets are shut down for both ends, which tells
        // the launcher to clean up and exit.
        unsafe {
            libc::shutdown(self.orders.as_raw_fd(), libc::SHUT_RDWR);
            libc::shutdown(self.control.as_raw_fd(), libc::SHUT_RDWR);
            while libc::waitpid(self.pid, std::ptr::null_mut(), libc::WNOHANG) == 0 {
                if Instant::now() >= deadline {
                    libc::kill(self.pid, libc::SIGKILL);
                    libc::waitpid(self.pid, std::ptr::null_mut(), 0);
                    break;
                }
                std::thread::sleep(limits::LAUNCHER_LOOK);
            }
        }
        self.kill_orphans();
    }

    /// Kills what was left without a launcher: it has become a child of this process.
    fn kill_orphans(&self) {
        let deadline = Instant::now() + limits::CLEANUP_LIMIT;
        // SAFETY: plain system calls.
        let (own, group) = unsafe { (libc::getpid(), libc::getpgrp()) };
        while has_children() && Instant::now() < deadline {
            let processes = family::processes();
            // Other children of this process were there before, or are in its own group.
            let is_orphan = |process: &family::Process| {
                process.parent == own && process.group != group && process.born >= self.born
            };
            let orphans: Vec<i32> =
                processes.iter().filter(|(_, process)| is_orphan(process)).map(|(pid, _)| *pid).collect();
            if orphans.is_empty() {
                return;
            }
            for pid in family::with_descendants(&processes, orphans.clone()) {
                family::kill(pid);
            }
            for pid in orphans {
                // SAFETY: a plain system call on a child of ours.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
            }
            std::thread::sleep(limits::LAUNCHER_LOOK);
        }
    }

    /// Hands over orders and signals without blocking. True when everything is handed over; else to be
    /// called again when the sockets take more.
    ///
    /// # Errors
    /// When the launcher is gone.
    pub fn flush(&mut self) -> io::Result<bool> {
        let orders_done = self.flush_orders()?;
        Ok(self.flush_signals()? && orders_done)
    }

    fn flush_orders(&mut self) -> io::Result<bool> {
        let Outbox { bytes, packets, sent, .. } = &mut self.outbox;
        while *sent < packets.len() {
            match send_packets(self.orders.as_raw_fd(), bytes, packets, *sent) {
                Ok(count) => *sent += count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        bytes.clear();
        packets.clear();
        *sent = 0;
        Ok(true)
    }

    fn flush_signals(&mut self) -> io::Result<bool> {
        let Outbox { signals, signals_sent, .. } = &mut self.outbox;
        while *signals_sent < signals.len() {
            let rest = &signals[*signals_sent..];
            // SAFETY: pointer and length describe `rest`.
            let count = unsafe {
                libc::send(self.control.as_raw_fd(), rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL)
            };
            if count >= 0 {
                *signals_sent += count as usize;
                continue;
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(false),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            }
        }
        signals.clear();
        *signals_sent = 0;
        Ok(true)
    }

    /// Takes in the reports that are there, without blocking. Appends to `ended`.
    ///
    /// # Errors
    /// When the launcher is gone.
    pub fn receive(&mut self, ended: &mut Vec<Ended>) -> io::Result<()> {
        loop {
            // SAFETY: pointer and length describe the inbox.
            let got = unsafe {
                libc::recv(self.orders.as_raw_fd(), self.inbox.as_mut_ptr().cast(), self.inbox.len(), 0)
            };
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if got < 0 {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                }
            }
            ended.extend(self.inbox[..got as usize].chunks(Ended::BYTES).filter_map(Ended::decode));
        }
    }

    /// Blocks until reports are there, or the launcher is gone. For use without an event loop.
    ///
    /// # Errors
    /// When the system cannot wait.
    pub fn wait(&self) -> io::Result<()> {
        let mut poll = libc::pollfd { fd: self.orders.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        if unsafe { libc::poll(&mut poll, 1, -1) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The sockets to wait at in an event loop: the first becomes readable when reports are there and writable
    /// when the launcher takes more orders, the second writable when it takes more signals.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn sockets(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        Ok((self.orders.try_clone()?, self.control.try_clone()?))
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        // Its exit is waited for: when the worker is gone, its tasks are.
        self.kill(limits::LAUNCHER_EXIT_LIMIT);
    }
}

fn has_children() -> bool {
    // SAFETY: all-zero bytes are a valid value of this plain structure, which outlives the call; nothing is removed.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_ALL, 0, &mut info, flags) == 0
    }
}

/// Two ends of a socket that carries packets; the first one does not block.
///
/// # Errors
/// When the system refuses them.
pub(crate) fn packet_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let (here, there) = pair(libc::SOCK_SEQPACKET)?;
    set_nonblocking(here.as_fd())?;
    Ok((here, there))
}

/// An anonymous file with these bytes, for standard input.
///
/// # Errors
/// When the system refuses one.
pub fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    // SAFETY: a valid name; the new descriptor is ours.
    let file = unsafe {
        let fd = libc::memfd_create(c"hq".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let mut file = std::fs::File::from(file);
    io::Write::write_all(&mut file, bytes)?;
    Ok(file.into())
}

/// What a task of this worker must not inherit from a task around the worker.
fn base_environment(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<CString> {
    const NAMES: [&[u8]; 34] = [
        b"HQ_JOB_ID",
        b"HQ_TASK_ID",
        b"HQ_INSTANCE_ID",
        b"HQ_SUBMIT_DIR",
        b"HQ_ENTRY",
        b"HQ_CPUS",
        b"HQ_PIN",
        b"HQ_TASK_DIR",
        b"HQ_BROADCAST_DIR",
        b"HQ_ERROR_FILENAME",
        b"HQ_ACCESS_KEY",
        b"HQ_NODE_FILE",
        b"HQ_HOST_FILE",
        b"HQ_NUM_NODES",
        b"HQ_MPIRUN",
        b"HQ_RANKS_PER_NODE",
        b"HQ_CPUS_PER_RANK",
        b"HQ_RANK",
        b"HQ_RANKS",
        b"HQ_NODE_RANK",
        b"HQ_LOCAL_RANK",
        b"HQ_WORKER_ID",
        b"HQ_RESOURCE_VARIANT",
        b"HQ",
        b"HQ_PRIORITY",
        b"HQ_PULL_ATTEMPT",
        b"HQ_PULL_BAG",
        b"HQ_PULL_ID",
        b"HQ_PULL_NAME",
        b"HQ_CURSOR",
        b"HQ_GENERATED",
        b"HQ_STATE",
        b"HQ_PYTHON_ENV",
        b"HQ_PYTHON_RECYCLE",
    ];
    const PREFIXES: [&[u8]; 3] = [b"HQ_RESOURCE_REQUEST_", b"HQ_RESOURCE_VALUES_", b"HQ_SERVICE_"];
    let is_of_a_task =
        |name: &[u8]| NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    variables
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .filter(|(name, _)| !is_of_a_task(name))
        .filter_map(|(name, value)| CString::new([&name[..], b"=", &value].concat()).ok())
        .collect()
}

fn pair(kind: i32) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors, which are ours afterwards.
    let (here, there) = unsafe {
        if libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1]))
    };
    for fd in [&here, &there] {
        let bytes = limits::LAUNCHER_BUFFER as libc::c_int;
        // SAFETY: a pointer to an integer and its size. The system may give less than asked for.
        unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                (&raw const bytes).cast(),
                size_of_val(&bytes) as u32,
            );
        }
    }
    Ok((here, there))
}

// The child blocks every signal from its birth on: one to the whole group, such as Ctrl-C, would end it before it has left
// that group.
fn fork_deaf() -> libc::pid_t {
    // SAFETY: both sets are initialized before they are read. This process has one thread, so the child may do whatever it
    // likes.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
        let pid = libc::fork();
        if pid != 0 {
            libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
        pid
    }
}

fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: plain system calls on a descriptor of ours.
    unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        if flags < 0 || libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Sends packets from number `first` on; says how many the kernel took.
fn send_packets(
    socket: RawFd,
    bytes: &[u8],
    packets: &[(usize, Attached)],
    first: usize,
) -> io::Result<usize> {
    let mut begin = if first == 0 { 0 } else { packets[first - 1].0 };
    let mut iovs = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; limits::ORDERS_PER_CALL];
    let mut controls = [[0u64; 4]; limits::ORDERS_PER_CALL];
    // SAFETY: all-zero bytes are valid message headers.
    let mut messages: [libc::mmsghdr; limits::ORDERS_PER_CALL] = unsafe { std::mem::zeroed() };
    let mut count = 0;
    for (end, attached) in packets[first..].iter().take(limits::ORDERS_PER_CALL) {
        let iov = &mut iovs[count];
        *iov = libc::iovec { iov_base: bytes[begin..*end].as_ptr().cast_mut().cast(), iov_len: end - begin };
        begin = *end;
        let header = &mut messages[count].msg_hdr;
        header.msg_iov = iov;
        header.msg_iovlen = 1;
        attach(header, &mut controls[count], attached);
        count += 1;
    }
    // SAFETY: `count` headers are filled in, and all they point to outlives the call.
    let sent =
        unsafe { libc::sendmmsg(socket, messages.as_mut_ptr(), count as u32, libc::MSG_NOSIGNAL as _) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

fn attach(header: &mut libc::msghdr, control: &mut [u64; 4], attached: &Attached) {
    let files = [attached.stdin.as_deref(), attached.zygote.as_deref().or(attached.body.as_ref())];
    let mut fds = [0; 2];
    let mut count = 0;
    for file in files.into_iter().flatten() {
        fds[count] = file.as_raw_fd();
        count += 1;
    }
    attach_files(header, control, &fds[..count]);
}

// At most two files.
fn attach_files(header: &mut libc::msghdr, control: &mut [u64; 4], fds: &[libc::c_int]) {
    let count = fds.len();
    if count == 0 {
        return;
    }
    let bytes = size_of_val(fds) as u32;
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: the buffer has room and alignment for one header with two descriptors.
    unsafe {
        header.msg_controllen = libc::CMSG_SPACE(bytes) as _;
        let first = libc::CMSG_FIRSTHDR(header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
        std::ptr::copy_nonoverlapping(fds.as_ptr(), libc::CMSG_DATA(first).cast(), count);
    }
}
