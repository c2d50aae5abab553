//! Clients that read the journal through the server: first the past, read from its files by one thread for
//! all of them, then what happens, once it is on disk.
//!
//! Nobody is sent more than some megabytes that it has not read. Whoever reads the past slowly is left alone
//! until it has read, and then its reading begins again where it was.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use hq_core::client_messages::{ClientResponse, EventFilter, RequestError};
use hq_core::record::Record;
use hq_journal::{RealDisk, replay_until};
use hq_model::{Pace, Timestamp};
use hq_proto::{ProtoError, decode_record};
use tracing::warn;

use crate::journal_thread::queue::{JournalQueue, Step};
use crate::limits::{
    EVENTS_AT_ONCE, EVENTS_BURST, EVENTS_GAP, EVENTS_INTERVAL, EVENTS_UNREAD_MAX, FOLLOWER_BYTES_MAX,
    FOLLOWER_TIME_MAX, LINGER_TIME,
};
use crate::memory_size;
use crate::outbox::{Message, Outbox};

/// How often it is looked whether a client has read some. Only while one is slow.
pub(crate) const ROOM_INTERVAL: Duration = Duration::from_millis(5);

/// Whom to answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) request: u64,
}

impl Reply {
    /// Says that it is done, or why not.
    pub(crate) fn done(&self, result: Result<(), String>) {
        let body = match result {
            Ok(()) => ClientResponse::Done,
            Err(error) => ClientResponse::Error(RequestError::Journal(error)),
        };
        self.send(body);
    }

    // True when the client has read most of what it was sent.
    fn has_room(&self) -> bool {
        self.outbox.bytes() < EVENTS_UNREAD_MAX / 2
    }

    fn send(&self, body: ClientResponse) {
        self.outbox.send(Message::Answer(self.request, body));
    }
}

/// A client that wants to know what happens.
#[derive(Debug)]
pub(crate) struct Follower {
    reply: Reply,
    /// Set when all of the past was sent.
    has_past: Arc<AtomicBool>,
    /// What it wants to hear of.
    filter: EventFilter,
    /// What has happened since and was not sent, each with its number.
    pending: VecDeque<(u64, Timestamp, Record)>,
    bytes: usize,
    /// The number of the record after them.
    next: u64,
    /// How often it is sent something that would also go together with what comes.
    pace: Pace,
}

impl Follower {
    /// A follower that gets nothing before it has the past.
    pub(crate) fn new(reply: Reply, filter: EventFilter, has_past: Arc<AtomicBool>) -> Follower {
        let pace = Pace::new(EVENTS_GAP, EVENTS_INTERVAL, EVENTS_BURST);
        Follower { reply, has_past, filter, pending: VecDeque::new(), bytes: 0, next: 0, pace }
    }

    /// Something happened that is not on disk yet.
    pub(crate) fn note(&mut self, seq: u64, at: Timestamp, record: &Record) {
        self.next = seq + 1;
        let Some(record) = self.filter.part(record) else { return };
        if let Some((_, last_at, last)) = self.pending.back_mut() {
            let before = memory_size::of_record(last);
            if self.filter.joins(last, &record) {
                *last_at = at;
                self.bytes += memory_size::of_record(last).saturating_sub(before);
                return;
            }
        }
        self.bytes += memory_size::of_record(&record);
        self.pending.push_back((seq, at, record.into_owned()));
    }

    /// Bytes of what was not sent.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// When more of what has happened may be sent, where that waits for nothing else than its time, or for the client to read what
    /// it was sent.
    pub(crate) fn sends_in(&self, now: Timestamp) -> Option<Duration> {
        self.is_behind().then(|| match self.is_due(now) {
            true => ROOM_INTERVAL,
            false => self.pace.next().since(now),
        })
    }

    fn is_behind(&self) -> bool {
        self.has_past.load(Ordering::Acquire) && !self.pending.is_empty()
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.pending.len() >= EVENTS_AT_ONCE || self.bytes >= EVENTS_UNREAD_MAX / 8 || self.pace.next() <= now
    }

    /// Sends what is on disk now, as far as the client reads it; little of it not too often. False when the follower is gone.
    pub(crate) fn send(&mut self, now: Timestamp) -> bool {
        if self.reply.outbox.is_gone() {
            return false;
        }
        if self.bytes > FOLLOWER_BYTES_MAX {
            self.give_up();
            return false;
        }
        if self.is_behind() && self.is_due(now) {
            self.pace.told(now);
            self.send_pending();
        }
        true
    }

    fn send_pending(&mut self) {
        while self.is_behind() && self.reply.outbox.bytes() < EVENTS_UNREAD_MAX {
            let count = self.pending.len().min(EVENTS_AT_ONCE);
            let records = self.pending.drain(..count).map(|(_, at, record)| (at, record));
            let records: Vec<_> = records.collect();
            self.bytes -= records.iter().map(|(_, record)| memory_size::of_record(record)).sum::<usize>();
            let next = self.pending.front().map_or(self.next, |first| first.0);
            self.reply.send(ClientResponse::Events { records, next });
        }
    }

    /// The client does not keep up.
    pub(crate) fn give_up(&self) {
        self.reply.done(Err("sent: this client does not read as fast as things happen".into()));
    }

    /// The server ends: what only waited for its time is sent.
    pub(crate) fn end(mut self) {
        self.send_pending();
        self.reply.done(Ok(()));
    }
}

/// The thread that sends the past.
#[derive(Debug)]
pub(crate) struct Past {
    readings: Sender<Reading>,
}

/// A client that is sent the past.
#[derive(Debug)]
pub(crate) struct Reading {
    /// Numbers of the records.
    pub(crate) wanted: Range<u64>,
    /// And what they are about.
    pub(crate) filter: EventFilter,
    pub(crate) reply: Reply,
    /// Set at the end; without it, the client is told that this was all.
    pub(crate) has_past: Option<Arc<AtomicBool>>,
    /// Held as long as files are read.
    pub(crate) _files: Arc<()>,
}

// A reading and how far it is.
struct Progress {
    reading: Reading,
    /// Records that were sent or are of no interest.
    passed: u64,
    /// When something was sent last.
    sent: Instant,
}

impl Past {
    /// Starts the thread, for the journal in a directory.
    pub(crate) fn start(path: &Path, journal_queue: Arc<JournalQueue>) -> Result<Past, String> {
        let (readings, receiver) = channel();
        let path = path.to_owned();
        let work = move || serve(&path, &receiver, &journal_queue);
        match thread::Builder::new().name("hq-events".to_owned()).spawn(work) {
            Ok(_) => Ok(Past { readings }),
            Err(error) => Err(format!("read: no more threads: {error}")),
        }
    }

    /// Has the past sent to one more client.
    pub(crate) fn send(&self, reading: Reading) {
        if let Err(lost) = self.readings.send(reading) {
            lost.0.reply.done(Err("read: the thread that reads it broke one of its own rules".to_owned()));
        }
    }
}

// Serves clients in turn until the server ends.
fn serve(path: &Path, receiver: &Receiver<Reading>, journal_queue: &Arc<JournalQueue>) {
    let mut clients: VecDeque<Progress> = VecDeque::new();
    loop {
        let ready = clients.iter().position(Progress::is_ready);
        let new = match (ready, clients.is_empty()) {
            (_, true) => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            (None, _) => receiver.recv_timeout(ROOM_INTERVAL),
            (Some(_), _) => receiver.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
        };
        match new {
            Ok(reading) => {
                clients.push_back(Progress { reading, passed: 0, sent: Instant::now() });
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let Some(mut client) = ready.and_then(|place| clients.remove(place)) else { continue };
        if client.proceed(path, clients.is_empty()) {
            clients.push_back(client);
        } else {
            drop(client);
            // The files may be wanted by a compaction, and what has happened since by the client.
            journal_queue.push(&mut vec![Step::Tend], 0);
        }
    }
}

impl Progress {
    // False while the client is to read first.
    fn is_ready(&self) -> bool {
        let outbox = &self.reading.reply.outbox;
        outbox.is_gone() || self.reading.reply.has_room() || self.sent.elapsed() >= FOLLOWER_TIME_MAX
    }

    // Sends a part. False when that was the last one.
    fn proceed(&mut self, path: &Path, is_alone: bool) -> bool {
        let reply = self.reading.reply.clone();
        if reply.outbox.is_gone() {
            return false;
        }
        if !reply.has_room() {
            let time = FOLLOWER_TIME_MAX.as_secs();
            reply.done(Err(format!("sent: this client has read nothing for {time} s")));
            return false;
        }
        match self.send_some(path, is_alone) {
            Ok(true) => match &self.reading.has_past {
                Some(has_past) => has_past.store(true, Ordering::Release),
                None => reply.done(Ok(())),
            },
            Ok(false) => {
                self.sent = Instant::now();
                return true;
            }
            Err(error) => {
                warn!(error, peer = reply.outbox.peer(), "the past could not be sent");
                reply.done(Err(format!("read: {error}")));
            }
        }
        false
    }

    // True when all was sent, false when the client has to read first.
    fn send_some(&mut self, path: &Path, is_alone: bool) -> Result<bool, String> {
        let Progress { reading: Reading { wanted, filter, reply, .. }, passed, .. } = self;
        if wanted.is_empty() {
            // Nothing of the past is wanted: what follows begins here.
            reply.send(ClientResponse::Events { records: Vec::new(), next: wanted.end });
            return Ok(true);
        }
        let disk = RealDisk::open(path).map_err(|error| error.to_string())?;
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut next = 0;
        let mut last = None;
        let mut count = 0;
        let mut must_wait = false;
        let mut apply = |seq: u64, record: &[u8]| {
            if seq < wanted.start {
                return Ok(());
            }
            // What a compaction left has one number for all of it.
            next = if last.is_some_and(|last| last != seq) || wanted.start > 0 { seq + 1 } else { 0 };
            last = Some(seq);
            count += 1;
            if count <= *passed {
                return Ok(());
            }
            match decode_record(record) {
                Ok((at, record)) => {
                    let Some(part) = filter.part(&record) else { return Ok(()) };
                    bytes += memory_size::of_record(&part);
                    let part = match part {
                        Cow::Borrowed(_) => record,
                        Cow::Owned(part) => part,
                    };
                    records.push((at, part));
                }
                Err(ProtoError::UnknownRecord { critical: false, .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
            if records.len() >= EVENTS_AT_ONCE || bytes > EVENTS_UNREAD_MAX / 2 {
                bytes = 0;
                reply.send(ClientResponse::Events { records: std::mem::take(&mut records), next });
                *passed = count;
                must_wait = !has_room_soon(reply, is_alone);
                if must_wait {
                    return Err(String::new());
                }
            }
            Ok(())
        };
        let read = replay_until(&disk, wanted.end, &mut apply);
        if must_wait {
            return Ok(false);
        }
        read.map_err(|error| error.to_string())?;
        reply.send(ClientResponse::Events { records, next: wanted.end });
        Ok(true)
    }
}

// Beginning again costs more than a short wait, as long as nobody else is kept from reading.
fn has_room_soon(reply: &Reply, is_alone: bool) -> bool {
    let begin = Instant::now();
    while reply.outbox.bytes() >= EVENTS_UNREAD_MAX {
        if !is_alone || reply.outbox.is_gone() || begin.elapsed() >= LINGER_TIME {
            return false;
        }
        thread::sleep(ROOM_INTERVAL);
    }
    true
}
