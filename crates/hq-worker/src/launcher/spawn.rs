//! A thread that turns orders into processes.
//!
//! The new process shares the launcher's memory until it executes its program (`CLONE_VM | CLONE_VFORK`), so
//! the cost does not depend on the size of anything, and what goes wrong before is told through memory.
//! In between it makes only system calls. Everything that can be prepared is prepared by the thread.

use std::ffi::{OsStr, c_char, c_int, c_void};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hq_model::Usage;

use super::armed::Waiting;
use super::process::{BasePointers, Shared, last_error};
use super::wire::{self, End, Ended, Received, Slot, Stage};
use crate::limits;
use crate::socket::{despite_removal, make_private};

const STACK_BYTES: usize = 64 << 10;

/// Executes orders until there are no more; then sleeps, because the processes it made die with the thread.
pub(super) fn run(shared: &'static Shared, number: usize) {
    let mut spawner = Spawner::new(shared, number);
    let mut packet = vec![0; limits::PACKET_MAX + 1024];
    loop {
        let Some((length, files)) = receive(shared.orders.as_raw_fd(), &mut packet) else {
            loop {
                std::thread::park();
            }
        };
        let Some((slot, has_stdin)) = wire::slot_of(&packet[..length]) else { continue };
        let packet = &packet[..length];
        match wire::after_of(packet) {
            Some(leader) => shared.arm(leader, Waiting { slot, has_stdin, packet: packet.to_vec(), files }),
            None => spawner.begin(slot, has_stdin, packet, files),
        }
    }
}

/// One packet and the files sent along. `None` when the worker is gone.
fn receive(socket: RawFd, packet: &mut [u8]) -> Option<(usize, [Option<OwnedFd>; 2])> {
    let mut iov = libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: packet.len() };
    let mut control = [0u64; 8];
    loop {
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the header describes buffers that outlive the call.
        let got = unsafe { libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC) };
        if got < 0 && last_error() == libc::EINTR {
            continue;
        }
        if got <= 0 {
            return None;
        }
        return Some((got as usize, files_of(&message)));
    }
}

fn files_of(message: &libc::msghdr) -> [Option<OwnedFd>; 2] {
    let mut files = [None, None];
    // SAFETY: the header was filled in by recvmsg; the macros walk within its control buffer, and each
    // descriptor found there is new and ours.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
            let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let data = libc::CMSG_DATA(header).cast::<c_int>();
            for (i, file) in files.iter_mut().enumerate().take(bytes / size_of::<c_int>()) {
                *file = Some(OwnedFd::from_raw_fd(ptr::read_unaligned(data.add(i))));
            }
        }
    }
    files
}

/// Makes processes, one at a time.
pub(super) struct Spawner {
    pub(super) shared: &'static Shared,
    number: usize,
    base: BasePointers,
    pub(super) received: Received,
    stack: Box<[u8]>,
}

impl Spawner {
    pub(super) fn new(shared: &'static Shared, number: usize) -> Spawner {
        Spawner {
            shared,
            number,
            base: BasePointers::new(shared),
            received: Received::default(),
            stack: vec![0; STACK_BYTES].into_boxed_slice(),
        }
    }

    /// Executes an order, and those that waited for its end where that comes before anybody waits for it.
    pub(super) fn begin(&mut self, slot: Slot, has_stdin: bool, packet: &[u8], files: [Option<OwnedFd>; 2]) {
        let mut follower = self.begin_one(slot, has_stdin, packet, files);
        while let Some(Waiting { slot, has_stdin, packet, files }) = follower {
            follower = self.begin_one(slot, has_stdin, &packet, files);
        }
    }

    fn begin_one(
        &mut self,
        slot: Slot,
        has_stdin: bool,
        packet: &[u8],
        files: [Option<OwnedFd>; 2],
    ) -> Option<Waiting> {
        if !self.shared.begin(self.number, slot) {
            return None;
        }
        let report = self.order(slot, has_stdin, packet, files);
        self.shared.done(self.number);
        report.and_then(|report| self.shared.report(report))
    }

    fn order(
        &mut self,
        slot: Slot,
        has_stdin: bool,
        packet: &[u8],
        files: [Option<OwnedFd>; 2],
    ) -> Option<Ended> {
        let mut large = Vec::new();
        let [first, second] = files;
        let (stdin, second) = if has_stdin { (first, second) } else { (None, first) };
        let mut zygote = None;
        let packet = match wire::length_in_file(packet) {
            None => {
                zygote = second;
                Some(packet)
            }
            Some(length) => {
                large.resize(length, 0);
                let read = second.and_then(|file| fs::File::from(file).read_exact_at(&mut large, 0).ok());
                read.map(|()| large.as_slice())
            }
        };
        let started = Instant::now();
        let result = match packet.and_then(|p| self.received.decode(p, &self.base.0).map(|()| p)) {
            Some(packet) if self.received.is_forked => {
                self.fork_from(zygote.as_ref(), packet, stdin.as_ref(), started)
            }
            Some(packet) => self.start(packet, stdin.as_ref(), started),
            None => Err((Stage::Order, libc::EBADMSG)),
        };
        match result {
            Ok(ended) => ended,
            Err((stage, errno)) => {
                self.shared.failed(slot);
                let usage = Usage { wall_us: started.elapsed().as_micros() as u64, ..Usage::default() };
                Some(Ended { slot, end: End::NotStarted(stage, errno), usage })
            }
        }
    }

    /// Starts the received order. Directories are made only when the system says that they are missing:
    /// nothing has to be remembered, and one that was removed comes back.
    fn start(
        &mut self,
        packet: &[u8],
        stdin: Option<&OwnedFd>,
        started: Instant,
    ) -> Result<Option<Ended>, (Stage, i32)> {
        let path = |index: usize| {
            let (start, end) = self.received.paths[index];
            &packet[start..end]
        };
        let [cwd, task_dir, stdout, stderr] = [path(0), path(1), path(2), path(3)];
        if !task_dir.is_empty() {
            make_task_dir(task_dir).map_err(|e| (Stage::TaskDir, e))?;
        }
        let mut stdin_path = [0u8; 32];
        if let Some(file) = stdin {
            // Opening it anew gives each task a position of its own.
            let text = format!("/proc/self/fd/{}", file.as_raw_fd());
            stdin_path[..text.len()].copy_from_slice(text.as_bytes());
        }
        let pointer = |text: &[u8]| if text.is_empty() { ptr::null() } else { text.as_ptr().cast() };
        let mut plan = Plan {
            launcher: self.shared.pid,
            is_killed: &self.shared.spawners[self.number].is_killed,
            is_at_program: &self.shared.spawners[self.number].is_at_program,
            programs: self.received.programs.as_ptr(),
            args: self.received.args.as_ptr(),
            env: self.received.env.as_ptr(),
            groups: self.received.groups.as_ptr(),
            cwd: pointer(cwd),
            stdin: if stdin.is_some() { stdin_path.as_ptr().cast() } else { ptr::null() },
            stdin_socket: stdin.filter(|_| self.received.is_stdin_socket).map_or(-1, AsRawFd::as_raw_fd),
            stdout: pointer(stdout),
            stderr: pointer(stderr),
            is_one_output: !stdout.is_empty() && stdout == stderr,
            cpus: ptr::null(),
            cpus_bytes: 0,
            failed: None,
        };
        let mask = mask(&self.received.cpus);
        if !mask.is_empty() {
            plan.cpus = mask.as_ptr();
            plan.cpus_bytes = size_of_val(mask.as_slice());
        }
        let memory_bytes = self.received.memory_bytes;
        if memory_bytes > 0 {
            self.shared.look_at_memory();
        }
        let mut directories_made = 0;
        let mut forks_refused = 0;
        loop {
            match self.fork(&mut plan) {
                Ok(pid) => match plan.failed.take() {
                    None => {
                        let slot = self.received.slot;
                        return Ok(self.shared.enter(self.number, pid, slot, started, memory_bytes));
                    }
                    Some((stage, errno)) => {
                        self.shared.abandon(self.number, pid);
                        let (missing, directory) = match stage {
                            Stage::EnterCwd => (Stage::MakeCwd, cwd),
                            Stage::Stdout => (Stage::MakeStdoutDir, parent(stdout)),
                            Stage::Stderr => (Stage::MakeStderrDir, parent(stderr)),
                            _ => return Err((stage, errno)),
                        };
                        if errno != libc::ENOENT || directories_made == limits::DIRECTORY_ATTEMPTS {
                            return Err((stage, errno));
                        }
                        directories_made += 1;
                        make_all(directory).map_err(|e| (missing, e))?;
                    }
                },
                Err(libc::EAGAIN) if forks_refused < limits::FORK_ATTEMPTS => {
                    forks_refused += 1;
                    std::thread::sleep(limits::FORK_PAUSE);
                }
                Err(errno) => return Err((Stage::Fork, errno)),
            }
        }
    }

    /// Makes a process and returns when it executes its program or has ended.
    fn fork(&mut self, plan: &mut Plan) -> Result<i32, i32> {
        plan.is_at_program.store(false, Ordering::SeqCst);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
        // SAFETY: the stack is ours alone and large enough for `child`, which runs while this thread is
        // suspended (CLONE_VFORK) and neither allocates, locks nor unwinds; `plan` outlives that. The
        // kernel writes the new id to `newborn`, an atomic of the right size, before the child runs.
        let pid = unsafe {
            let top = self.stack.as_mut_ptr().add(STACK_BYTES);
            let top = top.sub(top as usize % 64);
            libc::clone(
                child,
                top.cast(),
                flags,
                ptr::from_mut(plan).cast(),
                self.shared.spawners[self.number].newborn.as_ptr(),
            )
        };
        if pid < 0 { Err(last_error()) } else { Ok(pid) }
    }
}

/// What the new process does before its program. All pointers outlive its use of them.
struct Plan {
    launcher: c_int,
    is_killed: &'static AtomicBool,
    is_at_program: &'static AtomicBool,
    programs: *const *const c_char,
    args: *const *const c_char,
    env: *const *const c_char,
    groups: *const *const c_char,
    cwd: *const c_char,
    stdin: *const c_char,
    // Instead of it; -1 without.
    stdin_socket: c_int,
    stdout: *const c_char,
    stderr: *const c_char,
    is_one_output: bool,
    cpus: *const u64,
    cpus_bytes: usize,
    failed: Option<(Stage, i32)>,
}

/// Runs in the new process, in the launcher's memory: system calls only.
extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: `fork` passes its plan, which nobody else touches while the spawner is suspended.
    let plan = unsafe { &mut *plan.cast::<Plan>() };
    if let Err(stage) = become_task(plan) {
        plan.failed = Some((stage, errno()));
    }
    127
}

fn errno() -> i32 {
    // SAFETY: the address of this thread's error number; the child runs on the spawner's.
    unsafe { *libc::__errno_location() }
}

/// Everything between birth and program; returns only when something went wrong.
fn become_task(plan: &Plan) -> Result<(), Stage> {
    // SAFETY: system calls with pointers to NUL-terminated strings and null-terminated arrays that the
    // suspended spawner holds.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != plan.launcher {
            return Err(Stage::Fork);
        }
        // Whoever wants it killed sets this before it looks for the process.
        if plan.is_killed.load(Ordering::SeqCst) {
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
        let mut group = plan.groups;
        while !(*group).is_null() {
            let file = libc::open(*group, libc::O_WRONLY | libc::O_CLOEXEC);
            // Zero is whoever writes.
            if file < 0 || libc::write(file, c"0".as_ptr().cast(), 1) != 1 {
                return Err(Stage::Group);
            }
            libc::close(file);
            group = group.add(1);
        }
        if !plan.cpus.is_null() && libc::sched_setaffinity(0, plan.cpus_bytes, plan.cpus.cast()) != 0 {
            return Err(Stage::Affinity);
        }
        if !plan.cwd.is_null() && libc::chdir(plan.cwd) != 0 {
            return Err(Stage::EnterCwd);
        }
        if plan.stdin_socket >= 0 {
            if libc::dup2(plan.stdin_socket, 0) != 0 {
                return Err(Stage::Stdin);
            }
        } else if !plan.stdin.is_null() && !replace(0, plan.stdin, libc::O_RDONLY) {
            return Err(Stage::Stdin);
        }
        let create = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_NOCTTY;
        if !plan.stdout.is_null() && !replace(1, plan.stdout, create) {
            return Err(Stage::Stdout);
        }
        if plan.is_one_output {
            libc::dup2(1, 2);
        } else if !plan.stderr.is_null() && !replace(2, plan.stderr, create) {
            // Who reads a pipe would take it for ended if this process did, and another one opened the pipe again.
            if errno() != libc::ENOENT || !is_pipe(1) {
                return Err(Stage::Stderr);
            }
            make_parents(plan.stderr);
            if !replace(2, plan.stderr, create) {
                return Err(Stage::Stderr);
            }
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        // Opening files may have taken long.
        plan.is_at_program.store(true, Ordering::SeqCst);
        if plan.is_killed.load(Ordering::SeqCst) {
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
        let mut refused = false;
        let mut program = plan.programs;
        while !(*program).is_null() {
            libc::execve(*program, plan.args, plan.env);
            match errno() {
                libc::EACCES => refused = true,
                libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
                _ => return Err(Stage::Exec),
            }
            program = program.add(1);
        }
        if refused {
            *libc::__errno_location() = libc::EACCES;
        }
    }
    Err(Stage::Exec)
}

/// Opens a file in the place of a standard descriptor. The lower ones are always open, so the new one
/// is the lowest that is free.
unsafe fn replace(fd: c_int, path: *const c_char, flags: c_int) -> bool {
    // SAFETY: system calls; the caller gives a NUL-terminated path.
    unsafe {
        libc::close(fd);
        libc::open(path, flags, 0o666) == fd
    }
}

unsafe fn is_pipe(fd: c_int) -> bool {
    // SAFETY: system calls; all zeros is a value of this type.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut found) == 0 && found.st_mode & libc::S_IFMT == libc::S_IFIFO
    }
}

/// Makes the directories above a file, as far as that is possible. System calls only.
unsafe fn make_parents(path: *const c_char) {
    let mut above = [0; libc::PATH_MAX as usize];
    // SAFETY: the caller gives a NUL-terminated path; `above` ends with a zero that nothing replaces.
    unsafe {
        let (mut at, mut next) = (path, above.as_mut_ptr());
        let last = next.add(above.len() - 1);
        while *at != 0 && next < last {
            if *at == b'/' as c_char && at != path {
                libc::mkdir(above.as_ptr(), 0o777);
            }
            *next = *at;
            (at, next) = (at.add(1), next.add(1));
        }
    }
}

fn mask(cpus: &[u32]) -> Vec<u64> {
    let Some(last) = cpus.iter().max() else { return Vec::new() };
    let mut mask = vec![0u64; *last as usize / 64 + 1];
    for cpu in cpus {
        mask[*cpu as usize / 64] |= 1 << (cpu % 64);
    }
    mask
}

fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|b| *b == b'/') {
        None | Some(0) => b"/",
        Some(end) => &path[..end],
    }
}

fn make_all(path: &[u8]) -> Result<(), i32> {
    fs::create_dir_all(OsStr::from_bytes(path)).map_err(|e| number(&e))
}

fn make_task_dir(path: &[u8]) -> Result<(), i32> {
    let path = Path::new(OsStr::from_bytes(path));
    let make = || fs::DirBuilder::new().mode(0o700).create(path);
    let made = make().or_else(|error| match path.parent() {
        // Somebody has cleaned up, or is about to, and the worker's own directory is gone.
        Some(parent) if error.kind() == io::ErrorKind::NotFound => {
            despite_removal(|| make_private(parent).and_then(|()| make()))
        }
        _ => Err(error),
    });
    made.map_err(|e| number(&e))
}

fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
