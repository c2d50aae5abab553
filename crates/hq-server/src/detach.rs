//! Putting the server in the background, before any thread exists.
//!
//! The process forks twice, so that the server has no terminal and is nobody's child. The first
//! process waits until the server answers or says why it does not, and keeps it by a word of its own: when it dies before
//! that, interrupted by a user, nobody knows of the server, and it ends.

#![expect(unsafe_code, reason = "forks before there are threads")]

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::error::ServerError;

/// Who returns from [`detach()`].
#[derive(Debug)]
pub enum Detached {
    /// The first process, after the server has started.
    Started(Started),
    /// The first process, after the server has given up.
    Failed {
        /// Why.
        error: String,
        /// What the user can do about it; may be empty.
        hint: String,
        /// A short word that never changes, for programs.
        code: &'static str,
    },
    /// The process in the background; goes into [`crate::ServerOptions::detached`].
    Child(Child),
}

/// A server in the background that ends, cleanly, unless it is kept.
#[derive(Debug)]
pub struct Started {
    line: UnixStream,
    instance: PathBuf,
}

/// The background process' line to the process that waits for it.
#[derive(Debug)]
pub struct Child {
    line: UnixStream,
}

const KEPT: u8 = b'+';
const STARTED: u8 = b'+';
const FAILED: u8 = b'-';
const FAILED_NO_ACCESS: u8 = b'!';

/// Splits off a process in the background. To be called while the process has one thread.
///
/// # Errors
/// When the system refuses to fork.
pub fn detach() -> io::Result<Detached> {
    let (here, there) = UnixStream::pair()?;
    if fork()? {
        drop(there);
        return Ok(listen(here));
    }
    drop(here);
    rustix::process::setsid()?;
    if fork()? {
        exit_quietly();
    }
    close_inherited(Some(there.as_raw_fd()));
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(Detached::Child(Child { line: there }))
}

/// Closes what a process in the background has from whoever started it: a lock that is held by such a file would never be free.
/// To be called before anything is opened.
pub fn close_inherited(keep: Option<RawFd>) {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let open: Vec<RawFd> = numbers.filter(|fd| *fd > 2 && Some(*fd) != keep).collect();
    for fd in open {
        // SAFETY: nothing was opened here yet but what is kept, so none of these has an owner.
        unsafe { libc::close(fd) };
    }
}

impl Child {
    /// From now on, what the process says goes to this file.
    pub(crate) fn log_to(&self, path: &Path) -> io::Result<()> {
        let log = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        rustix::stdio::dup2_stdout(&log)?;
        rustix::stdio::dup2_stderr(&log)?;
        Ok(())
    }

    /// Tells the waiting process that the server answers, and waits until that keeps it. False when it does not: it is dead, or
    /// could not say where the server is.
    pub(crate) fn started(mut self, instance: &Path) -> bool {
        self.tell(STARTED, instance.as_os_str().as_bytes());
        let mut word = [0];
        self.line.read_exact(&mut word).is_ok() && word == [KEPT]
    }

    /// Tells the waiting process why there is no server.
    pub(crate) fn failed(mut self, error: &ServerError) {
        let word = if error.code() == "no-access" { FAILED_NO_ACCESS } else { FAILED };
        self.tell(word, format!("{error}\0{}", error.hint()).as_bytes());
    }

    fn tell(&mut self, word: u8, text: &[u8]) {
        // When nobody waits any more, there is nobody to tell.
        let _ = self.line.write_all(&[&[word], text].concat());
        let _ = self.line.shutdown(Shutdown::Write);
    }
}

impl Started {
    /// The server's numbered directory.
    pub fn instance(&self) -> &Path {
        &self.instance
    }

    /// From now on it runs on without this process.
    ///
    /// # Errors
    /// When it has ended meanwhile.
    pub fn keep(mut self) -> io::Result<()> {
        self.line.write_all(&[KEPT])
    }
}

fn listen(mut line: UnixStream) -> Detached {
    let mut said = Vec::new();
    if let Err(error) = line.read_to_end(&mut said) {
        let error = format!("the server's process cannot be heard: {error}");
        return Detached::Failed { error, hint: String::new(), code: "server" };
    }
    match said.split_first() {
        Some((&STARTED, said)) => {
            let instance = std::ffi::OsString::from_vec(said.to_vec()).into();
            Detached::Started(Started { line, instance })
        }
        Some((word, reason)) => {
            let reason = String::from_utf8_lossy(reason);
            let (error, hint) = reason.split_once('\0').unwrap_or((&reason, ""));
            let code = if *word == FAILED_NO_ACCESS { "no-access" } else { "server" };
            Detached::Failed { error: error.to_owned(), hint: hint.to_owned(), code }
        }
        None => Detached::Failed {
            error: "the server's process ended before the server answered".to_owned(),
            hint: "see server.log in the latest numbered directory of the server directory".to_owned(),
            code: "server",
        },
    }
}

// True in the parent.
fn fork() -> io::Result<bool> {
    assert_eq!(threads(), 1, "a process with threads cannot be split");
    // SAFETY: the process has one thread, so the child's memory is whole.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(child != 0),
    }
}

fn threads() -> usize {
    // Where /proc cannot be read, the caller is trusted.
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

// Without running what was registered for the exit of the first process.
fn exit_quietly() -> ! {
    // SAFETY: ends the process; nothing runs after it.
    unsafe { libc::_exit(0) }
}
