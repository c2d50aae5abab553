//! The limit for who answers questions over a Unix socket: a process that reads as many bytes and writes as many, and does
//! nothing else.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::row::BoxError;

/// A process that answers, and a connection to it.
pub(super) struct Echo {
    stream: UnixStream,
    process: Child,
    question: Vec<u8>,
    answer: Vec<u8>,
    _directory: TempDir,
}

impl Echo {
    /// Starts this program once more, to answer questions of a size.
    ///
    /// # Errors
    /// When it does not start.
    pub(super) fn start(hq: &Path, (question, answer): (usize, usize)) -> Result<Echo, BoxError> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("echo");
        let listener = UnixListener::bind(&path)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--hq").arg(hq).arg("--echo").arg(&path).stdin(Stdio::null());
        let process = command.spawn()?;
        let mut stream = listener.accept()?.0;
        stream.write_all(&(question as u64).to_le_bytes())?;
        stream.write_all(&(answer as u64).to_le_bytes())?;
        Ok(Echo {
            stream,
            process,
            question: vec![b'q'; question],
            answer: vec![0; answer],
            _directory: directory,
        })
    }

    /// How long so many questions take, one after the other.
    ///
    /// # Errors
    /// When the other process is gone.
    pub(super) fn round_trips(&mut self, count: u32) -> io::Result<Duration> {
        let begun = Instant::now();
        for _ in 0..count {
            self.stream.write_all(&self.question)?;
            self.stream.read_exact(&mut self.answer)?;
        }
        Ok(begun.elapsed())
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // It ends with the connection.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let _ = self.process.wait();
    }
}

/// The other end: answers until the connection ends.
///
/// # Errors
/// When there is nobody who asks.
pub(crate) fn echo(path: &Path) -> Result<(), BoxError> {
    let mut stream = UnixStream::connect(path)?;
    let mut size = || -> io::Result<usize> {
        let mut bytes = [0; 8];
        stream.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes) as usize)
    };
    let (mut question, answer) = (vec![0; size()?], vec![b'a'; size()?]);
    while stream.read_exact(&mut question).is_ok() {
        stream.write_all(&answer)?;
    }
    Ok(())
}
