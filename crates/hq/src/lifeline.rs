//! `--lifeline`: a process that ends with whoever started it, however that one ends.
//!
//! Its standard input is a pipe of which the other process holds the end for writing, and which is never written to. The
//! kernel closes that end when the other process dies, also when it is killed.

use std::io::{self, Read};
use std::thread;

use rustix::process::{Signal, getpid, kill_process};

/// From now on the process ends as by SIGTERM when its standard input has reached its end. Anything in it is skipped.
///
/// # Errors
/// When the system has no thread left.
pub(crate) fn hold() -> io::Result<()> {
    thread::Builder::new().name("lifeline".into()).spawn(wait).map(drop)
}

fn wait() {
    let mut stdin = io::stdin().lock();
    let mut skipped = [0; 1024];
    loop {
        match stdin.read(&mut skipped) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    // Ourselves: it cannot fail.
    let _ = kill_process(getpid(), Signal::TERM);
}
