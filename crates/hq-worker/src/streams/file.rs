//! The file of a stream, that of this worker in a directory or a log that the server writes, and what waits for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hq_core::log;
use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome};
use hq_model::{JobId, Stream};
use hq_stream::{Attempt, Channel, Header, Writer};
use tracing::{info, warn};

use super::remote::{LogLink, RemoteLog};
use super::room::Room;
use super::{Hurried, Key, Place, is_no_room, now};
use crate::limits;
use crate::outputs::Aftermath;

/// A task that has ended, and waits until what it has printed is in the file.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) key: Key,
    pub(super) aftermath: Box<Aftermath>,
    pub(super) since: Instant,
    /// Others are waited for a little, lest each is written by itself.
    pub(super) may_wait: bool,
    /// It does not wait for room.
    pub(super) is_hurried: bool,
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
    sink: Sink,
    /// Nothing is read for it while it has no room. Since then nothing is taken in.
    stalled: Option<(Instant, String)>,
    room: Room,
    // What was read when there was no room.
    kept: Option<(Attempt, Channel, Vec<u8>)>,
    // It cannot be written at all.
    broken: Option<String>,
    // Attempts that have printed into it and go on.
    printed: BTreeSet<Key>,
    // Those of which something is nowhere, and why: what a task printed belongs to its success.
    lost: BTreeMap<Key, String>,
    // The job of the attempt that came last.
    job: Option<JobId>,
    // Something is to be done for it at once.
    is_due: bool,
    // Something was not read because there was no room.
    lacks_room: bool,
    // Ends that are in the file, or never will be.
    written: Vec<Ended>,
    /// Ends whose pipes are not read yet.
    pub(super) ends: VecDeque<Ended>,
    /// Ends that only wait to be in the file.
    pub(super) unflushed: Vec<Ended>,
    /// The first byte that is in no file, or that the server has not said to be there, since then.
    pub(super) dirty: Option<Instant>,
    /// Somebody waits for what was taken in.
    pub(super) is_awaited: bool,
    /// Attempts that print here.
    pub(super) attempts: usize,
    /// The attempt that ended last printed much.
    pub(super) prints_much: bool,
    /// When it was used last.
    pub(super) used: Instant,
}

/// Who writes it.
#[derive(Debug)]
enum Sink {
    Local(Option<Writer>),
    Remote(RemoteLog),
}

impl StreamFile {
    pub(super) fn new(place: Place, link: &Arc<LogLink>) -> StreamFile {
        let sink = match &place.stream {
            Stream::Directory(_) => Sink::Local(None),
            Stream::Log(_) => Sink::Remote(RemoteLog::new(link.clone())),
        };
        StreamFile {
            place,
            sink,
            stalled: None,
            room: Room::default(),
            kept: None,
            broken: None,
            printed: BTreeSet::new(),
            lost: BTreeMap::new(),
            job: None,
            is_due: false,
            lacks_room: false,
            written: Vec::new(),
            ends: VecDeque::new(),
            unflushed: Vec::new(),
            dirty: None,
            is_awaited: false,
            attempts: 0,
            prints_much: false,
            used: Instant::now(),
        }
    }

    /// An attempt that will print here. If the file was removed, or if nobody else prints and it was renamed, the next is a new
    /// file. What could not be written before is tried again.
    pub(super) fn add_attempt(&mut self, (task, _): Key) {
        let is_alone = self.attempts == 0 && self.dirty.is_none();
        let is_new_job = self.job.replace(task.job) != Some(task.job);
        self.attempts += 1;
        self.broken = None;
        let Sink::Local(Some(writer)) = &self.sink else { return };
        let is_looked_for = is_new_job || self.used.elapsed() >= limits::STREAM_LEFT;
        let is_gone = || writer.is_removed() || writer.altered().is_some();
        let is_left = if is_alone && is_looked_for { writer.is_left() } else { is_gone() };
        if is_left && self.stalled.is_none() {
            self.begin_anew();
        }
    }

    // What is printed next goes into another file.
    fn begin_anew(&mut self) {
        let Sink::Local(writer) = &mut self.sink else { return };
        let Some(writer) = writer.take() else { return };
        let path = writer.path().display();
        let how = writer.altered().unwrap_or("was removed");
        warn!("the file {path} of a stream {how}");
        let why = format!("The file {path} of the stream {how} while the task was writing to it");
        self.lose(&why);
    }

    // Something of all that have printed is nowhere.
    fn lose(&mut self, why: &str) {
        let unflushed = self.unflushed.iter().map(|ended| ended.key);
        self.lost.extend(
            std::mem::take(&mut self.printed).into_iter().chain(unflushed).map(|key| (key, why.to_owned())),
        );
    }

    // Those of which something is nowhere fail.
    fn settle(&mut self, ended: &mut [Ended]) {
        for ended in ended {
            if let Some(why) = self.lost.remove(&ended.key).as_ref().or(self.broken.as_ref()) {
                fail(&mut ended.aftermath, why);
            }
        }
        if self.attempts == 0 && self.unflushed.is_empty() && self.ends.is_empty() {
            // Those of attempts whose end nobody waits for.
            self.lost.clear();
        }
    }

    /// True when nothing is to be read for it.
    pub(super) fn is_stalled(&self) -> bool {
        let is_full = match &self.sink {
            Sink::Local(_) => false,
            Sink::Remote(log) => log.is_full(),
        };
        is_full || self.stalled.is_some()
    }

    /// Why there is no room, if that is so.
    pub(super) fn lacks(&self) -> Option<&str> {
        self.stalled.as_ref().map(|(_, why)| why.as_str())
    }

    /// Where it is, once something was written.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.sink {
            Sink::Local(Some(writer)) => Some(writer.path()),
            Sink::Local(None) | Sink::Remote(_) => None,
        }
    }

    /// Something was not read because there was no room.
    pub(super) fn lacks_room(&mut self) {
        self.lacks_room = true;
    }

    /// True once when there is room again for what was not read.
    pub(super) fn takes_again(&mut self) -> bool {
        !self.is_stalled() && std::mem::take(&mut self.lacks_room)
    }

    /// True when the pipes of those that have ended are to be read now.
    pub(super) fn has_ends_due(&self, now: Instant) -> bool {
        let is_over = |ended: &Ended| now >= ended.since + limits::STREAM_GATHER;
        self.ends.front().is_some_and(is_over) || self.ends.iter().any(|ended| !ended.may_wait)
    }

    /// When something is to be done for it without being told.
    pub(super) fn wakeup(&self) -> Option<Instant> {
        let first = self.ends.front().filter(|_| !self.is_stalled());
        let gathered = first.map(|ended| ended.since + limits::STREAM_GATHER);
        self.written_at().into_iter().chain(gathered).min()
    }

    fn written_at(&self) -> Option<Instant> {
        if self.is_due {
            return Some(self.used);
        }
        if let Some((at, _)) = self.stalled {
            return Some(at + limits::STREAM_RETRY);
        }
        if let Sink::Remote(log) = &self.sink
            && (log.again_at().is_some() || log.is_asked())
        {
            return log.again_at();
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
        match &self.broken {
            Some(why) => _ = self.lost.insert(key, why.clone()),
            None => _ = self.printed.insert(key),
        }
        if let Some(log) = self.log() {
            log.append(key, channel, bytes);
            self.is_due |= log.has_much();
            return Written::Done;
        }
        let written = self.with_writer(|writer| writer.append(attempt, channel, now(), bytes));
        if written == Written::NoRoom {
            self.kept = Some((attempt, channel, bytes.to_vec()));
        }
        written
    }

    /// These channels of an attempt are complete.
    pub(super) fn end(&mut self, key: Key, channels: &[Channel]) -> Written {
        if let Some(why) = &self.broken {
            self.lost.insert(key, why.clone());
        }
        if let Some(log) = self.log() {
            log.end(key, channels);
            return Written::Done;
        }
        let attempt = Attempt { task: key.0, instance: key.1 };
        self.with_writer(|writer| writer.end(attempt, channels, now()))
    }

    /// These ends do not wait for room any more, if they do.
    pub(super) fn wait_no_more(&mut self, of: Hurried) {
        let mut is_here = false;
        let mut mark = |ended: &mut Ended| {
            if of.contains(ended.key.0) {
                ended.is_hurried = true;
                is_here = true;
            }
        };
        self.unflushed.iter_mut().chain(&mut self.ends).for_each(&mut mark);
        if let Sink::Remote(log) = &mut self.sink {
            log.ends().iter_mut().for_each(mark);
        }
        self.is_due |= is_here;
    }

    /// An attempt has ended, and its pipes are to be read.
    pub(super) fn ended(&mut self, ended: Ended) {
        self.is_due |= ended.is_hurried && self.stalled.is_some();
        self.ends.push_back(ended);
    }

    /// The attempt prints nothing more.
    pub(super) fn forget(&mut self, key: Key) {
        self.attempts = self.attempts.saturating_sub(1);
        self.printed.remove(&key);
        if let Sink::Remote(log) = &mut self.sink {
            log.forget(key);
        }
    }

    // The log, if it is one that is or will be written.
    fn log(&mut self) -> Option<&mut RemoteLog> {
        let Sink::Remote(log) = &mut self.sink else { return None };
        if self.broken.is_some() {
            return None;
        }
        self.used = Instant::now();
        self.dirty.get_or_insert(self.used);
        Some(log)
    }

    /// Puts all that was taken in into the file, or says it to the server, and gives the ends that do not wait for that any
    /// more.
    pub(super) fn flush(&mut self) -> Vec<Ended> {
        self.is_due = false;
        self.is_awaited = false;
        match &self.sink {
            Sink::Local(_) => self.flush_local(),
            Sink::Remote(_) => self.flush_remote(),
        }
    }

    fn flush_remote(&mut self) -> Vec<Ended> {
        if let Some((at, _)) = &mut self.stalled
            && at.elapsed() >= limits::STREAM_RETRY
        {
            *at = Instant::now();
        }
        let Sink::Remote(log) = &mut self.sink else { return Vec::new() };
        if self.broken.is_some() {
            self.written.append(&mut self.unflushed);
        } else {
            log.say(&mut self.unflushed);
        }
        if !log.is_kept() {
            self.dirty = None;
            self.written.append(&mut self.unflushed);
        }
        let mut ended = std::mem::take(&mut self.written);
        self.settle(&mut ended);
        ended
    }

    /// The server has answered a batch. False when it is none of this log.
    pub(super) fn answered(&mut self, number: u64, answer: &log::Written) -> bool {
        let Sink::Remote(log) = &mut self.sink else { return false };
        if !log.waits_for(number) {
            return false;
        }
        let now = Instant::now();
        match answer {
            log::Written::Done => {
                self.written.append(&mut log.done());
                self.stalled = None;
                if self.room.is_written(now) {
                    info!(path = %self.place.path().display(), "a log has room again");
                }
            }
            log::Written::Busy => log.retry(now + limits::LOG_AGAIN, false),
            log::Written::NoRoom(text) => {
                if self.room.is_full(now) {
                    warn!("{text}; further output there waits");
                }
                self.stalled = Some((now, text.clone()));
                log.retry(now + limits::STREAM_RETRY, true);
            }
            log::Written::Refused(text) => self.give_up(text),
        }
        self.is_due = true;
        true
    }

    /// The server is found again, or the worker ends without it.
    pub(super) fn link_changed(&mut self, link: &LogLink) {
        let Sink::Remote(log) = &mut self.sink else { return };
        if link.is_over() {
            self.give_up("The server was not available to write the task's output to its log.");
        } else {
            log.ask_again();
        }
        self.is_due = true;
    }

    // Nothing of it is ever written.
    fn give_up(&mut self, why: &str) {
        let Sink::Remote(log) = &mut self.sink else { return };
        warn!(path = %self.place.path().display(), "{why}");
        let ends = log.clear();
        self.lost.extend(ends.iter().map(|ended| (ended.key, why.to_owned())));
        self.written.extend(ends);
        self.lose(why);
        self.stalled = None;
        self.broken = Some(why.to_owned());
    }

    fn flush_local(&mut self) -> Vec<Ended> {
        if let Some((attempt, channel, bytes)) = self.kept.take()
            && self.with_writer(|writer| writer.append(attempt, channel, now(), &bytes)) == Written::NoRoom
        {
            self.kept = Some((attempt, channel, bytes));
            return Vec::new();
        }
        // What was written is nowhere when somebody has cut the file short meanwhile.
        if matches!(&self.sink, Sink::Local(Some(writer)) if writer.altered().is_some()) {
            self.begin_anew();
        }
        let has_writer = matches!(self.sink, Sink::Local(Some(_))) || self.stalled.is_some();
        // What puts things into the file is no use of it: else its wake-up would put off its end for good.
        let used = self.used;
        if has_writer && self.with_writer(Writer::flush) == Written::NoRoom {
            return Vec::new();
        }
        self.used = used;
        self.stalled = None;
        if self.room.is_written(Instant::now()) {
            info!(dir = %self.place.path().display(), "a stream has room again");
        }
        self.dirty = None;
        // What was written is nowhere when somebody has removed the file meanwhile.
        if matches!(&self.sink, Sink::Local(Some(writer)) if writer.is_removed()) {
            self.begin_anew();
        }
        let mut ended = std::mem::take(&mut self.unflushed);
        self.settle(&mut ended);
        ended
    }

    /// Ends that have waited for room for too long: they fail. Those of canceled tasks, and of a worker that leaves, do not
    /// wait.
    pub(super) fn overdue(&mut self) -> Vec<Ended> {
        let Some((_, why)) = &self.stalled else { return Vec::new() };
        let is_over = |ended: &Ended| ended.is_hurried || ended.since.elapsed() >= limits::STREAM_ROOM_WAIT;
        let mut over: Vec<Ended> = self.unflushed.extract_if(.., |ended| is_over(ended)).collect();
        if let Sink::Remote(log) = &mut self.sink {
            over.append(&mut log.take_ends(is_over));
        }
        let (ended, waiting) = std::mem::take(&mut self.ends).into_iter().partition(is_over);
        self.ends = waiting;
        over.append(&mut Vec::from(ended));
        over.iter_mut().for_each(|ended| fail(&mut ended.aftermath, why));
        over
    }

    /// True when all is written, and nothing has come for long: it is to be closed.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_idle = self.attempts == 0 && self.ends.is_empty() && self.unflushed.is_empty();
        is_idle && self.dirty.is_none() && !self.is_stalled() && now >= self.used + limits::STREAM_IDLE
    }

    /// All is written, and nothing more comes.
    pub(super) fn finish(self) {
        let Sink::Local(Some(mut writer)) = self.sink else { return };
        if let Err(error) = writer.finish() {
            warn!(dir = %self.place.path().display(), %error, "the file of a stream could not be closed");
        }
    }

    fn with_writer(&mut self, act: impl FnOnce(&mut Writer) -> io::Result<()>) -> Written {
        if self.broken.is_some() {
            return Written::Done;
        }
        self.used = Instant::now();
        let result = match &mut self.sink {
            Sink::Local(Some(writer)) => act(writer),
            Sink::Local(none) => create(&self.place).and_then(|writer| act(none.insert(writer))),
            // Whoever writes it is told otherwise.
            Sink::Remote(_) => Ok(()),
        };
        let path = self.place.path().display();
        match result {
            Ok(()) => {
                self.dirty.get_or_insert(self.used);
                Written::Done
            }
            Err(error) if is_no_room(&error) => {
                if self.room.is_full(self.used) {
                    warn!(dir = %path, %error, "a stream finds no room; what its tasks print waits");
                }
                let text = format!("There was no space for the task's output in the stream {path}: {error}");
                self.stalled = Some((self.used, text));
                Written::NoRoom
            }
            Err(error) => {
                warn!(dir = %path, %error, "a stream cannot be written; its tasks fail");
                let why = format!("Cannot write the stream {path}: {error}");
                self.lose(&why);
                self.broken = Some(why);
                Written::Done
            }
        }
    }
}

fn create(place: &Place) -> io::Result<Writer> {
    let header = Header { server_uid: place.server_uid.clone(), worker: place.worker, created: now() };
    let mut writer = Writer::create(place.path(), &header)?;
    writer.compress(place.compression);
    Ok(writer)
}

// What a task printed belongs to its success.
fn fail(aftermath: &mut Aftermath, why: &str) {
    if let Input::Ended { outcome, .. } = &mut aftermath.input
        && *outcome == Outcome::Finished
    {
        *outcome = Outcome::Failed(FailureKind::Output, why.to_owned());
    }
}
