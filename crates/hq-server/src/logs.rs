//! The thread that writes logs: what workers say of what their tasks print, appended to the files that the machine has
//! looked up for it, and answered when it is in them.
//!
//! It keeps nothing that it cannot write. What finds no room, on the disk or here, is answered so, and stays with its
//! worker, which says it again: so the server's memory has a bound, and no file holds up what is decided.

mod files;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};

use hq_core::log::{LogBatch, LogPart, Written};
use hq_core::worker_messages::ToWorker;

use crate::limits::{LOG_IDLE, LOGS_BYTES_MAX, LOGS_TOGETHER};
use crate::outbox::{Message, Outbox};
use files::LogFiles;

/// The way to the thread, which ends when this is dropped and all is written.
pub(crate) struct Logs {
    queue: Sender<Said>,
    bytes_waiting: Arc<AtomicUsize>,
}

/// What a worker has said.
struct Said {
    by: Arc<Outbox>,
    batch: Box<LogBatch>,
    parts: Vec<LogPart>,
    bytes: usize,
}

impl Logs {
    /// The way, and what the thread runs, for the server of this name.
    pub(crate) fn new(server_uid: String) -> (Logs, impl FnOnce() + Send) {
        let (queue, said) = mpsc::channel();
        let bytes_waiting = Arc::new(AtomicUsize::new(0));
        let waiting = bytes_waiting.clone();
        (Logs { queue, bytes_waiting }, move || run(LogFiles::new(server_uid), &said, &waiting))
    }

    /// Has a batch written and answered. Without room for it here, that is the answer.
    pub(crate) fn write(&self, by: Arc<Outbox>, batch: Box<LogBatch>, parts: Vec<LogPart>) {
        let bytes = batch.content.len() + size_of_val(&batch.pieces[..]);
        if self.bytes_waiting.load(Ordering::Relaxed) > LOGS_BYTES_MAX {
            return answer(&by, batch.number, Written::Busy);
        }
        self.bytes_waiting.fetch_add(bytes, Ordering::Relaxed);
        if let Err(mpsc::SendError(Said { by, batch, .. })) =
            self.queue.send(Said { by, batch, parts, bytes })
        {
            answer(
                &by,
                batch.number,
                Written::Refused("The thread of the server that writes logs has ended.".into()),
            );
        }
    }
}

fn run(mut files: LogFiles, said: &Receiver<Said>, waiting: &AtomicUsize) {
    loop {
        let first = if files.are_open() {
            said.recv_timeout(LOG_IDLE)
        } else {
            said.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        let first = match first {
            Ok(first) => first,
            Err(RecvTimeoutError::Timeout) => {
                files.close_idle();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        // What waits together shares one write of each file.
        let together: Vec<Said> = [first].into_iter().chain(said.try_iter().take(LOGS_TOGETHER)).collect();
        for said in &together {
            files.append(&said.batch, &said.parts);
        }
        files.flush();
        for Said { by, batch, parts, bytes } in together {
            waiting.fetch_sub(bytes, Ordering::Relaxed);
            answer(&by, batch.number, files.outcome(&parts));
        }
        files.close_broken();
    }
    files.close();
}

fn answer(by: &Outbox, number: u64, written: Written) {
    by.send(Message::Worker(ToWorker::Logged { number, written }));
}
