//! A log: the file of a stream that the server writes. What tasks print goes there in batches, one at a time, each of which
//! is kept until the server has answered that it is in the file.
//!
//! So what is said for the first time is never there already; what is said again carries where it belongs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use hq_core::log::{LogBatch, LogEntry, LogPiece};
use hq_core::worker_messages::FromWorker;
use hq_proto::encode_from_worker;
use hq_stream::Channel;
use tokio::sync::mpsc::UnboundedSender;

use super::file::Ended;
use super::{Key, now};
use crate::limits;

/// The way to the server, shared with the worker's loop.
#[derive(Debug)]
pub(crate) struct LogLink {
    frames: UnboundedSender<Vec<u8>>,
    is_up: AtomicBool,
    is_over: AtomicBool,
    last_number: AtomicU64,
    // Of all logs, what is kept.
    bytes: AtomicUsize,
}

impl LogLink {
    /// What is said goes to `frames`; whoever sends these on drops them while the server is away.
    pub(crate) fn new(frames: UnboundedSender<Vec<u8>>) -> LogLink {
        LogLink {
            frames,
            is_up: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            last_number: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    /// The server is there, or is not.
    pub(crate) fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Relaxed);
        self.is_over.fetch_and(!is_up, Ordering::Relaxed);
    }

    /// The worker ends without it.
    pub(crate) fn give_up(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Nobody will hear of what is not there.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn send(&self, batch: Box<LogBatch>) -> Box<LogBatch> {
        let message = FromWorker::Log(batch);
        // The loop ends after this thread, or nothing is to be said any more.
        let _ = self.frames.send(encode_from_worker(&message));
        match message {
            FromWorker::Log(batch) => batch,
            _ => unreachable!("it was made above"),
        }
    }
}

/// What is kept for one log.
#[derive(Debug)]
pub(super) struct RemoteLog {
    link: Arc<LogLink>,
    // How much the attempts that print here have printed.
    offsets: HashMap<Key, [u64; 2]>,
    next: LogBatch,
    sent: Option<Sent>,
    // Of both.
    bytes: usize,
}

#[derive(Debug)]
struct Sent {
    batch: Box<LogBatch>,
    ends: Vec<Ended>,
    // Until then nothing is done; nothing while the server has not answered.
    again_at: Option<Instant>,
}

impl RemoteLog {
    pub(super) fn new(link: Arc<LogLink>) -> RemoteLog {
        RemoteLog { link, offsets: HashMap::new(), next: LogBatch::default(), sent: None, bytes: 0 }
    }

    pub(super) fn append(&mut self, (task, instance): Key, channel: Channel, bytes: &[u8]) {
        let offsets = self.offsets.entry((task, instance)).or_default();
        let offset = &mut offsets[usize::from(channel.number())];
        let (is_stderr, begin) = (channel == Channel::Stderr, *offset);
        let length = bytes.len() as u32;
        *offset += u64::from(length);
        self.next.content.extend_from_slice(bytes);
        self.count(bytes.len());
        if let Some(LogPiece { task: last, instance: of, entry, .. }) = self.next.pieces.last_mut()
            && (*last, *of) == (task, instance)
            && let LogEntry::Printed { is_stderr: same, length: known, .. } = entry
            && *same == is_stderr
        {
            *known += length;
            return;
        }
        self.push((task, instance), LogEntry::Printed { is_stderr, offset: begin, length });
    }

    pub(super) fn end(&mut self, key: Key, channels: &[Channel]) {
        self.offsets.remove(&key);
        let has = |channel| channels.contains(&channel);
        self.push(key, LogEntry::End { stdout: has(Channel::Stdout), stderr: has(Channel::Stderr) });
    }

    /// The attempt says nothing more.
    pub(super) fn forget(&mut self, key: Key) {
        self.offsets.remove(&key);
    }

    fn push(&mut self, (task, instance): Key, entry: LogEntry) {
        self.next.pieces.push(LogPiece { task, instance, at: now(), entry });
        self.count(size_of::<LogPiece>());
    }

    fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.link.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// True when nothing more is to be read for it. A little always is, lest one log that finds no room stops all others.
    pub(super) fn is_full(&self) -> bool {
        let total = self.link.bytes.load(Ordering::Relaxed);
        self.bytes >= limits::STREAM_CHUNK && total >= limits::LOG_KEPT_MAX
    }

    /// True when something is kept.
    pub(super) fn is_kept(&self) -> bool {
        self.sent.is_some() || !self.next.pieces.is_empty()
    }

    /// True when what was said has no answer.
    pub(super) fn is_asked(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.again_at.is_none())
    }

    /// When what was said is to be said again, if that is so.
    pub(super) fn again_at(&self) -> Option<Instant> {
        self.sent.as_ref()?.again_at
    }

    /// True when so much is kept that it is said without waiting for more.
    pub(super) fn has_much(&self) -> bool {
        self.sent.is_none() && (self.next.content.len() >= limits::LOG_BATCH || self.is_full())
    }

    /// Says what is kept, or says it again when it is time. The ends are those whose tasks have printed nothing since.
    pub(super) fn say(&mut self, ends: &mut Vec<Ended>) {
        if !self.link.is_up.load(Ordering::Relaxed) {
            return;
        }
        if let Some(Sent { batch, again_at, .. }) = &mut self.sent {
            if again_at.is_some_and(|at| at <= Instant::now()) {
                *again_at = None;
                *batch = self.link.send(std::mem::take(batch));
            }
            return;
        }
        if self.next.pieces.is_empty() {
            return;
        }
        let number = self.link.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let batch = LogBatch { number, ..std::mem::take(&mut self.next) };
        let batch = self.link.send(Box::new(batch));
        self.sent = Some(Sent { batch, ends: std::mem::take(ends), again_at: None });
    }

    /// The server is found: it may not have heard what was said last, or its answer was lost.
    pub(super) fn ask_again(&mut self) {
        if let Some(sent) = &mut self.sent {
            sent.batch.is_again = true;
            sent.again_at = Some(Instant::now());
        }
    }

    /// True when this batch has no answer yet.
    pub(super) fn waits_for(&self, number: u64) -> bool {
        self.is_asked() && self.sent.as_ref().is_some_and(|sent| sent.batch.number == number)
    }

    /// What was said is to be said again then; some of it may be in the file.
    pub(super) fn retry(&mut self, at: Instant, is_again: bool) {
        if let Some(sent) = &mut self.sent {
            sent.batch.is_again |= is_again;
            sent.again_at = Some(at);
        }
    }

    /// What was said is in the file: gives the ends that waited for it.
    pub(super) fn done(&mut self) -> Vec<Ended> {
        let Some(Sent { batch, ends, .. }) = self.sent.take() else { return Vec::new() };
        self.release(batch.content.len() + batch.pieces.len() * size_of::<LogPiece>());
        ends
    }

    /// Nothing of what is kept is ever written: gives the ends that waited for it.
    pub(super) fn clear(&mut self) -> Vec<Ended> {
        self.next = LogBatch::default();
        let ends = self.sent.take().map(|sent| sent.ends).unwrap_or_default();
        self.release(self.bytes);
        ends
    }

    /// Ends that wait for what was said.
    pub(super) fn ends(&mut self) -> &mut [Ended] {
        self.sent.as_mut().map_or(&mut [], |sent| &mut sent.ends)
    }

    /// Takes ends out of those that wait.
    pub(super) fn take_ends(&mut self, is_taken: impl Fn(&Ended) -> bool) -> Vec<Ended> {
        let ends = self.sent.as_mut().map(|sent| &mut sent.ends);
        ends.map(|ends| ends.extract_if(.., |ended| is_taken(ended)).collect()).unwrap_or_default()
    }

    fn release(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.link.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for RemoteLog {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}
