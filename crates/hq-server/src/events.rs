//! Clients that read the journal through the server: first the past, read from its files by a thread of
//! their own, then what happens, once it is on disk.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hq_core::client_messages::{ClientResponse, RequestError};
use hq_core::record::Record;
use hq_journal::{RealDisk, replay_until};
use hq_model::Timestamp;
use hq_proto::{ProtoError, decode_record};
use tracing::warn;

use crate::commits::{Commits, Step};
use crate::limits::{EVENTS_AT_ONCE, FOLLOWER_BYTES_MAX, FOLLOWER_TIME_MAX};
use crate::outbox::{Message, Outbox};
use crate::weight;

/// How often the reader of the past looks whether its client has read some. Only while the client is slow.
const ROOM_INTERVAL: Duration = Duration::from_millis(5);

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
    /// What has happened since and was not sent.
    pending: Vec<(Timestamp, Record)>,
    bytes: usize,
    /// The number of the record after them.
    next: u64,
}

impl Follower {
    /// A follower that gets nothing before it has the past.
    pub(crate) fn new(reply: Reply, has_past: Arc<AtomicBool>) -> Follower {
        Follower { reply, has_past, pending: Vec::new(), bytes: 0, next: 0 }
    }

    /// Something happened that is not on disk yet.
    pub(crate) fn note(&mut self, seq: u64, at: Timestamp, record: &Record) {
        self.next = seq + 1;
        self.bytes += weight::of_record(record);
        self.pending.push((at, record.clone()));
    }

    /// Sends what is on disk now. False when the follower is gone.
    pub(crate) fn send(&mut self) -> bool {
        if self.reply.outbox.is_gone() {
            return false;
        }
        if self.has_past.load(Ordering::Acquire) && !self.pending.is_empty() {
            let records = std::mem::take(&mut self.pending);
            self.bytes = 0;
            send_in_parts(&self.reply, records, self.next);
        } else if self.bytes > FOLLOWER_BYTES_MAX {
            self.reply.done(Err("sent: this client does not read the past as fast as things happen".into()));
            return false;
        }
        true
    }

    /// The server ends.
    pub(crate) fn end(self) {
        self.reply.done(Ok(()));
    }
}

fn send_in_parts(reply: &Reply, mut records: Vec<(Timestamp, Record)>, next: u64) {
    while records.len() > EVENTS_AT_ONCE {
        let rest = records.split_off(EVENTS_AT_ONCE);
        let next = next - rest.len() as u64;
        reply.send(ClientResponse::Events { records: std::mem::replace(&mut records, rest), next });
    }
    reply.send(ClientResponse::Events { records, next });
}

/// Sends the records of these numbers from a thread of its own. At the end `has_past` is set, or with
/// `is_all` the client is told that this was all. `_reading` is held as long as files are read.
pub(crate) fn send_past(
    path: &Path,
    wanted: Range<u64>,
    reply: Reply,
    has_past: Option<Arc<AtomicBool>>,
    reading: Arc<()>,
    commits: Arc<Commits>,
) {
    let path = path.to_owned();
    let told = reply.clone();
    let work = move || {
        let result = read_past(&path, wanted, &reply);
        drop(reading);
        match (result, has_past) {
            (Ok(()), Some(has_past)) => has_past.store(true, Ordering::Release),
            (Ok(()), None) => reply.done(Ok(())),
            (Err(error), _) => {
                warn!(error, peer = reply.outbox.peer(), "the past could not be sent");
                reply.done(Err(format!("read: {error}")));
            }
        }
        commits.push(&mut vec![Step::Tend], 0);
    };
    if let Err(error) = thread::Builder::new().name("hq-events".to_owned()).spawn(work) {
        told.done(Err(format!("read: no more threads: {error}")));
    }
}

fn read_past(path: &Path, wanted: Range<u64>, reply: &Reply) -> Result<(), String> {
    let disk = RealDisk::open(path).map_err(|error| error.to_string())?;
    let mut records = Vec::new();
    let mut bytes = 0;
    let mut next = 0;
    let mut last = None;
    let mut apply = |seq: u64, record: &[u8]| {
        if seq < wanted.start {
            return Ok(());
        }
        // What a compaction left has one number for all of it.
        next = if last.is_some_and(|last| last != seq) || wanted.start > 0 { seq + 1 } else { 0 };
        last = Some(seq);
        match decode_record(record) {
            Ok(record) => {
                bytes += weight::of_record(&record.1);
                records.push(record);
            }
            Err(ProtoError::UnknownRecord { critical: false, .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
        if records.len() >= EVENTS_AT_ONCE || bytes > FOLLOWER_BYTES_MAX / 16 {
            bytes = 0;
            wait_for_room(reply)?;
            reply.send(ClientResponse::Events { records: std::mem::take(&mut records), next });
        }
        Ok(())
    };
    replay_until(&disk, wanted.end, &mut apply).map_err(|error| error.to_string())?;
    wait_for_room(reply)?;
    reply.send(ClientResponse::Events { records, next: wanted.end });
    Ok(())
}

fn wait_for_room(reply: &Reply) -> Result<(), String> {
    let begin = Instant::now();
    while reply.outbox.bytes() > FOLLOWER_BYTES_MAX / 8 && begin.elapsed() < FOLLOWER_TIME_MAX {
        if reply.outbox.is_gone() {
            return Err("the client has left".to_owned());
        }
        thread::sleep(ROOM_INTERVAL);
    }
    Ok(())
}
