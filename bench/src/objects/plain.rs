//! The limits: bytes over plain TCP between threads of this process, from memory into memory and from a file into another one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::MIB;
use crate::row::BoxError;

/// Bytes that are handed to the system at once.
const PIECE: usize = MIB as usize / 4;

/// How long so many transfers at once take, of so many bytes each.
///
/// # Errors
/// When the system refuses a connection.
pub(super) fn send(transfers: usize, size: u64) -> Result<Duration, BoxError> {
    let ends = (0..transfers).map(|_| (io::repeat(7).take(size), io::sink()));
    carry(ends.collect())
}

/// How long it takes to carry a file into another one.
///
/// # Errors
/// When the system refuses a connection or a file.
pub(super) fn send_file(from: &Path, to: &Path) -> Result<Duration, BoxError> {
    carry(vec![(File::open(from)?, File::create(to)?)])
}

fn carry<R: Read + Send, W: Write + Send>(ends: Vec<(R, W)>) -> Result<Duration, BoxError> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let mut ways = Vec::new();
    for end in ends {
        ways.push((end, TcpStream::connect(address)?, listener.accept()?.0));
    }
    let begun = Instant::now();
    thread::scope(|scope| -> Result<(), BoxError> {
        let mut threads = Vec::new();
        for ((source, target), near, far) in ways {
            threads.push(scope.spawn(move || pass(source, near)));
            threads.push(scope.spawn(move || pass(far, target)));
        }
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })?;
    Ok(begun.elapsed())
}

// To the end.
fn pass(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(()),
            count => to.write_all(&piece[..count])?,
        }
    }
}
