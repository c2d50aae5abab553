//! The file of this worker in the directory of a stream, and what waits for it.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome};
use hq_stream::{Attempt, Channel, Header, Writer};
use tracing::{info, warn};

use super::{Key, Place, is_no_room, now};
use crate::limits;
use crate::outputs::Aftermath;

/// A task that has ended, and waits until what it has printed is in the file.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) key: Key,
    pub(super) aftermath: Box<Aftermath>,
    pub(super) since: Instant,
}

/// How a write went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Written {
    /// It is in the file or its buffer, or in neither for good, which those that end are told.
    Done,
    /// There was no room; it is kept, and is to be tried again.
    NoRoom,
}

/// The file, open while something prints into it.
#[derive(Debug)]
pub(super) struct StreamFile {
    place: Place,
    writer: Option<Writer>,
    /// Nothing is read for it while it has no room. Since then nothing is taken in.
    stalled: Option<(Instant, String)>,
    // What was read when there was no room.
    kept: Option<(Attempt, Channel, Vec<u8>)>,
    // It cannot be written at all.
    broken: Option<String>,
    /// Ends whose pipes are not read yet.
    pub(super) ends: VecDeque<Ended>,
    /// Ends that only wait to be in the file.
    pub(super) unflushed: Vec<Ended>,
    /// The first byte that is in no file, since then.
    pub(super) dirty: Option<Instant>,
    /// Attempts that print here.
    pub(super) attempts: usize,
    /// The attempt that ended last printed much.
    pub(super) prints_much: bool,
    /// When it was used last.
    pub(super) used: Instant,
}

impl StreamFile {
    pub(super) fn new(place: Place) -> StreamFile {
        StreamFile {
            place,
            writer: None,
            stalled: None,
            kept: None,
            broken: None,
            ends: VecDeque::new(),
            unflushed: Vec::new(),
            dirty: None,
            attempts: 0,
            prints_much: false,
            used: Instant::now(),
        }
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.is_some()
    }

    /// True when something is to be done for it without being told.
    pub(super) fn wakeup(&self) -> Option<Instant> {
        if let Some((at, _)) = self.stalled {
            return Some(at + limits::STREAM_RETRY);
        }
        match self.dirty {
            Some(since) => Some(since + limits::STREAM_FLUSH),
            None if self.attempts == 0 => Some(self.used + limits::STREAM_IDLE),
            None => None,
        }
    }

    /// Takes in what an attempt has printed.
    pub(super) fn append(&mut self, key: Key, channel: Channel, bytes: &[u8]) -> Written {
        let attempt = Attempt { task: key.0, instance: key.1 };
        let written = self.with_writer(|writer| writer.append(attempt, channel, now(), bytes));
        if written == Written::NoRoom {
            self.kept = Some((attempt, channel, bytes.to_vec()));
        }
        written
    }

    /// These channels of an attempt are complete.
    pub(super) fn end(&mut self, key: Key, channels: &[Channel]) -> Written {
        let attempt = Attempt { task: key.0, instance: key.1 };
        self.with_writer(|writer| writer.end(attempt, channels, now()))
    }

    /// Puts all that was taken in into the file, and gives the ends that waited for that.
    pub(super) fn flush(&mut self) -> Vec<Ended> {
        if let Some((attempt, channel, bytes)) = self.kept.take()
            && self.with_writer(|writer| writer.append(attempt, channel, now(), &bytes)) == Written::NoRoom
        {
            self.kept = Some((attempt, channel, bytes));
            return Vec::new();
        }
        let is_used = self.writer.is_some() || self.stalled.is_some();
        if is_used && self.with_writer(Writer::flush) == Written::NoRoom {
            return Vec::new();
        }
        if self.stalled.take().is_some() {
            info!(dir = %self.place.path().display(), "a stream has room again");
        }
        self.dirty = None;
        let mut ended = std::mem::take(&mut self.unflushed);
        if let Some(why) = &self.broken {
            ended.iter_mut().for_each(|ended| fail(&mut ended.aftermath, why));
        }
        ended
    }

    /// Ends that have waited for room for too long: they fail.
    pub(super) fn overdue(&mut self) -> Vec<Ended> {
        let Some((_, why)) = &self.stalled else { return Vec::new() };
        let is_over = |ended: &Ended| ended.since.elapsed() >= limits::STREAM_ROOM_WAIT;
        let mut over: Vec<Ended> = self.unflushed.extract_if(.., |ended| is_over(ended)).collect();
        while self.ends.front().is_some_and(is_over) {
            over.extend(self.ends.pop_front());
        }
        over.iter_mut().for_each(|ended| fail(&mut ended.aftermath, why));
        over
    }

    /// All is written, and nothing more comes.
    pub(super) fn finish(self) {
        let Some(writer) = self.writer else { return };
        let mut writer = writer;
        if let Err(error) = writer.finish() {
            warn!(dir = %self.place.path().display(), %error, "the file of a stream could not be closed");
        }
    }

    fn with_writer(&mut self, act: impl FnOnce(&mut Writer) -> io::Result<()>) -> Written {
        if self.broken.is_some() {
            return Written::Done;
        }
        self.used = Instant::now();
        let result = match &mut self.writer {
            Some(writer) => act(writer),
            None => self.create().and_then(|writer| act(self.writer.insert(writer))),
        };
        let path = self.place.path().display();
        match result {
            Ok(()) => {
                self.dirty.get_or_insert(self.used);
                Written::Done
            }
            Err(error) if is_no_room(&error) => {
                if self.stalled.is_none() {
                    warn!(dir = %path, %error, "a stream finds no room; what its tasks print waits");
                }
                let text = format!("What the task printed found no room in the stream {path}: {error}");
                self.stalled = Some((self.used, text));
                Written::NoRoom
            }
            Err(error) => {
                warn!(dir = %path, %error, "a stream cannot be written; its tasks fail");
                self.broken = Some(format!("Cannot write the stream {path}: {error}"));
                Written::Done
            }
        }
    }

    fn create(&self) -> io::Result<Writer> {
        let Place { server_uid, worker, .. } = &self.place;
        let header = Header { server_uid: server_uid.clone(), worker: *worker, created: now() };
        Writer::create(self.place.path(), &header)
    }
}

// What a task printed belongs to its success.
fn fail(aftermath: &mut Aftermath, why: &str) {
    if let Input::Ended { outcome, .. } = &mut aftermath.input
        && *outcome == Outcome::Finished
    {
        *outcome = Outcome::Failed(FailureKind::Output, why.to_owned());
    }
}
