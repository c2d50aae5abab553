//! What is kept of the output of a program, which is read to its end, so that the program never waits for us.

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Which part of an output is kept, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Its beginning.
    First(usize),
    /// Its end.
    Last(usize),
}

impl Keep {
    fn add(self, kept: &mut Vec<u8>, part: &[u8]) {
        match self {
            Keep::First(most) => {
                let room = most.saturating_sub(kept.len());
                kept.extend(&part[..part.len().min(room)]);
            }
            Keep::Last(most) => {
                kept.extend(part);
                kept.drain(..kept.len().saturating_sub(most));
            }
        }
    }
}

/// What came through a pipe so far, and a word when it is closed.
pub(crate) struct Output {
    kept: Arc<Mutex<Vec<u8>>>,
    closed: Receiver<()>,
}

impl Output {
    /// What came until the pipe was closed, or until then: something may keep it open that the program has left running.
    pub(crate) fn collect(self, end: Instant) -> Vec<u8> {
        let _ = self.closed.recv_timeout(end.saturating_duration_since(Instant::now()));
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads a pipe to its end, on a thread of its own.
pub(crate) fn read(pipe: Option<impl Read + Send + 'static>, keep: Keep) -> Output {
    let kept = Arc::<Mutex<Vec<u8>>>::default();
    let (sender, closed) = mpsc::channel();
    let output = Output { kept: kept.clone(), closed };
    let Some(mut pipe) = pipe else { return output };
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    keep.add(&mut kept.lock().unwrap_or_else(PoisonError::into_inner), &buffer[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = sender.send(());
    });
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_or_the_end_is_kept() {
        for (keep, expected) in
            [(Keep::First(4), "abcd"), (Keep::Last(4), "efgh"), (Keep::First(20), "abcdefgh")]
        {
            let mut kept = Vec::new();
            for part in ["abc", "defg", "h"] {
                keep.add(&mut kept, part.as_bytes());
            }
            assert_eq!(String::from_utf8(kept).expect("text"), expected, "{keep:?}");
        }
    }
}
