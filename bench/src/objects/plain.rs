//! The limit: bytes over plain TCP between threads of this process.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::MIB;
use crate::row::BoxError;

/// How long so many transfers at once take, of so many bytes each.
///
/// # Errors
/// When the system refuses a connection.
pub(super) fn send(transfers: usize, size: u64) -> Result<Duration, BoxError> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let mut pairs = Vec::new();
    for _ in 0..transfers {
        let near = TcpStream::connect(address)?;
        pairs.push((near, listener.accept()?.0));
    }
    let begun = Instant::now();
    thread::scope(|scope| -> Result<(), BoxError> {
        let mut readers = Vec::new();
        for (mut near, mut far) in pairs {
            scope.spawn(move || {
                let piece = vec![7; MIB as usize];
                // Who reads misses what is not sent.
                (0..size / MIB).all(|_| near.write_all(&piece).is_ok())
            });
            readers.push(scope.spawn(move || {
                let mut piece = vec![0; MIB as usize];
                (0..size / MIB).try_for_each(|_| far.read_exact(&mut piece))
            }));
        }
        for reader in readers {
            reader.join().map_err(|_| "a reader panicked")??;
        }
        Ok(())
    })?;
    Ok(begun.elapsed())
}
