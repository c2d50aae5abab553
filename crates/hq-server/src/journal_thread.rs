//! The journal thread: writes records in groups and lets out what was waiting for them.
//!
//! Records and messages come in the order in which they were decided. A message leaves when all
//! records before it are as safe as its gate demands, and never before an earlier one to the same
//! peer. While the journal cannot write (a full disk), everything gated waits, the write is tried
//! again, and nothing that is not saved is acknowledged.

pub(crate) mod compaction;
mod dead;
pub(crate) mod disk_log;
pub(crate) mod queue;
mod submits;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hq_core::alloc::BatchOrder;
use hq_core::client_messages::{ClientResponse, EventFilter, RequestError};
use hq_core::record::Record;
use hq_core::server::{Gate, JournalOrder};
use hq_model::{Notice, Timestamp};
use tracing::{info, warn};

use crate::batch::Batch;
use crate::events::{Follower, Reply};
use crate::journal_thread::queue::{JournalQueue, Step};
use crate::limits::{
    self, FOLLOWERS_BYTES_MAX, FOLLOWERS_MAX, JOURNAL_RETRY, JOURNAL_STOP_TIME, JOURNAL_SYNC_DELAY,
    JOURNAL_WARNING_INTERVAL,
};
use crate::memory;
use crate::notices::Notices;
use crate::outbox::{Message, Outbox};

/// Where records go: the journal, or a test's idea of one.
pub(crate) trait Log: Send {
    /// Takes a record and gives its number; it is kept in memory until it is written.
    fn append(&mut self, at: Timestamp, record: &Record) -> u64;
    /// Hands all appended records to the system. After an error it can be called again.
    fn write(&mut self) -> Result<(), String>;
    /// Has all written records as safe as the server was told to. After an error it can be called again.
    fn sync(&mut self) -> Result<(), String>;
    /// Has all written records on disk. After an error it can be called again.
    fn flush(&mut self) -> Result<(), String>;
    /// Gives up what goes on in the background and takes room: the journal itself has none.
    fn make_room(&mut self);
    /// Looks after what goes on in the background, and begins it where it is due.
    fn tend(&mut self, queue: &Arc<JournalQueue>);
    /// Replaces history by the records that rebuild the present, in the background, and answers then.
    fn compact(&mut self, reply: Reply, queue: &Arc<JournalQueue>);
    /// Sends the records appended so far, from a number on and as far as they are wanted, in the background; they are on disk. At the end the flag is set,
    /// or without one the client is told that this was all.
    fn send_past(
        &mut self,
        reply: Reply,
        wanted: (u64, EventFilter),
        has_past: Option<Arc<AtomicBool>>,
        queue: &Arc<JournalQueue>,
    );
}

/// Told why the journal cannot be written, and with `None` that it is written again.
pub(crate) type Alarm = Box<dyn Fn(Option<String>) + Send>;

/// The journal thread's work.
pub(crate) struct JournalThread<L> {
    log: L,
    queue: Arc<JournalQueue>,
    alarm: Alarm,
    /// Orders that wait for everything before them to be on disk.
    orders: Vec<(Reply, JournalOrder)>,
    /// Orders to batch systems that wait for the same.
    for_batch: VecDeque<(Arc<Batch>, BatchOrder)>,
    for_notices: VecDeque<(Arc<Notices>, Box<Notice>)>,
    /// Clients that want to know what happens.
    followers: Vec<Follower>,
    /// Messages that wait for a write, then those that wait for a sync, each in order.
    for_write: VecDeque<(Arc<Outbox>, Message, Gate)>,
    for_sync: VecDeque<(Arc<Outbox>, Message, Gate)>,
    /// Records taken in, written and synced so far.
    taken: u64,
    written: u64,
    synced: u64,
    /// When the oldest record that is not synced was taken in, about.
    unsynced_since: Option<Instant>,
    fault: Option<WriteFault>,
    is_ending: bool,
    begun: Instant,
}

/// Since when and why the journal cannot be written.
#[derive(Debug)]
struct WriteFault {
    since: Instant,
    warned: Instant,
    error: String,
    delay: Duration,
}

/// What the thread does next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Take more steps as soon as there are any, or look again after this time.
    Take(Option<Duration>),
    /// Try again after this time, and take nothing more before.
    Retry(Duration),
    /// End.
    End,
}

/// The journal could not be written before the end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unsaved {
    /// Records that are lost; none of them was acknowledged.
    pub(crate) records: u64,
}

impl<L: Log> JournalThread<L> {
    /// A thread that takes steps from `queue`.
    pub(crate) fn new(log: L, queue: Arc<JournalQueue>, alarm: Alarm) -> Self {
        JournalThread {
            log,
            queue,
            alarm,
            orders: Vec::new(),
            for_batch: VecDeque::new(),
            for_notices: VecDeque::new(),
            followers: Vec::new(),
            for_write: VecDeque::new(),
            for_sync: VecDeque::new(),
            taken: 0,
            written: 0,
            synced: 0,
            unsynced_since: None,
            fault: None,
            is_ending: false,
            begun: Instant::now(),
        }
    }

    /// Works until [`Step::End`]. Gives the log back.
    ///
    /// # Errors
    /// When the log could not be written until [`JOURNAL_STOP_TIME`] after the end was asked for.
    pub(crate) fn run(mut self) -> Result<L, Unsaved> {
        let mut steps = Vec::new();
        let mut next = Next::Take(None);
        let mut ending_since = None;
        loop {
            match next {
                Next::Take(time) => self.queue.take(&mut steps, time),
                Next::Retry(time) => std::thread::sleep(time),
                Next::End => {
                    self.followers.drain(..).for_each(Follower::end);
                    return Ok(self.log);
                }
            }
            next = self.turn(&mut steps);
            if self.queue.is_stopping() && matches!(next, Next::Retry(_)) {
                let since = *ending_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= JOURNAL_STOP_TIME {
                    return Err(self.give_up());
                }
            }
        }
    }

    /// Takes steps in, saves what was taken in and lets out what waited for it.
    pub(crate) fn turn(&mut self, steps: &mut Vec<Step>) -> Next {
        for step in steps.drain(..) {
            self.take_in(step);
        }
        limits::trim(steps);
        if self.written < self.taken {
            if let Err(error) = self.log.write() {
                return self.has_failed(&error);
            }
            self.written = self.taken;
            self.queue.set_written(self.written);
        }
        for (outbox, message, _) in self.for_write.drain(..) {
            outbox.release(message, false);
        }
        let mut time_left = self.time_until_sync();
        if time_left.is_some_and(|time| time.is_zero()) {
            let saved = if self.orders.is_empty() { self.log.sync() } else { self.log.flush() };
            if let Err(error) = saved {
                return self.has_failed(&error);
            }
            self.synced = self.written;
            self.queue.set_synced(self.synced);
            self.unsynced_since = None;
            time_left = None;
        }
        if time_left.is_none() {
            for (outbox, message, _) in self.for_sync.drain(..) {
                outbox.release(message, true);
            }
            for (batch, order) in self.for_batch.drain(..) {
                batch.send(order);
            }
            for (notices, notice) in self.for_notices.drain(..) {
                notices.send(notice);
            }
            let now = self.now();
            self.followers.retain_mut(|follower| follower.send(now));
        }
        if let Some(fault) = self.fault.take() {
            info!(after_s = fault.since.elapsed().as_secs(), "the journal is written again");
            self.queue.set_failing(false);
            (self.alarm)(None);
        }
        self.carry_out_orders();
        self.log.tend(&self.queue);
        if self.is_ending {
            return Next::End;
        }
        let now = self.now();
        let soon = self.followers.iter().filter_map(|follower| follower.sends_in(now)).min();
        Next::Take(soon.into_iter().chain(time_left).min())
    }

    // A clock that nobody sets.
    fn now(&self) -> Timestamp {
        Timestamp(0).after(self.begun.elapsed())
    }

    // What is not written stays so. Whoever asked for the end hears that it has come, and what is lost.
    fn give_up(&mut self) -> Unsaved {
        let records = self.taken - self.written + self.queue.records_waiting();
        let error = self.fault.as_ref().map_or("", |fault| &fault.error);
        let lost = match records {
            1 => "the last change is lost. It was not acknowledged".to_owned(),
            _ => format!("the last {records} changes are lost. None of them was acknowledged"),
        };
        let refused = vec![RequestError::Journal(format!("written before the end ({error}): {lost}."))];
        let held = self.for_write.drain(..).chain(self.for_sync.drain(..));
        let held =
            held.filter(|(.., gate)| *gate == Gate::Last).map(|(outbox, message, _)| (outbox, message));
        let last: Vec<(Arc<Outbox>, Message)> = held.chain(self.queue.take_last()).collect();
        for (outbox, message) in last {
            let message = match message {
                Message::Answer(request, body) => Message::Answer(request, beside(refused.clone(), body)),
                message => message,
            };
            outbox.send(message);
        }
        Unsaved { records }
    }

    // Everything that was taken in is on disk.
    fn carry_out_orders(&mut self) {
        for (reply, order) in std::mem::take(&mut self.orders) {
            match order {
                JournalOrder::Flush => reply.done(Ok(())),
                JournalOrder::Compact => self.log.compact(reply, &self.queue),
                JournalOrder::Events { follow: true, .. } if self.followers.len() >= FOLLOWERS_MAX => {
                    reply.done(Err(format!("sent: {FOLLOWERS_MAX} clients follow it already")));
                }
                JournalOrder::Events { follow, after, filter } => {
                    let has_past = follow.then(Arc::<AtomicBool>::default);
                    if let Some(has_past) = &has_past {
                        self.followers.push(Follower::new(reply.clone(), filter.clone(), has_past.clone()));
                    }
                    self.log.send_past(reply, (after, filter), has_past, &self.queue);
                }
            }
        }
    }

    // Records that nobody waits for are synced together with others, or after a while. `None` when all are.
    fn time_until_sync(&mut self) -> Option<Duration> {
        if !self.orders.is_empty() {
            return Some(Duration::ZERO);
        }
        if self.synced == self.written {
            return None;
        }
        let since = *self.unsynced_since.get_or_insert_with(Instant::now);
        let is_awaited =
            !(self.for_sync.is_empty() && self.for_batch.is_empty() && self.for_notices.is_empty());
        if self.is_ending || is_awaited {
            return Some(Duration::ZERO);
        }
        Some(JOURNAL_SYNC_DELAY.saturating_sub(since.elapsed()))
    }

    fn take_in(&mut self, step: Step) {
        match step {
            Step::Record(at, record) => {
                let seq = self.log.append(at, &record);
                self.taken += 1;
                self.followers.iter_mut().for_each(|follower| follower.note(seq, at, &record));
                self.relieve();
            }
            Step::Send(outbox, message, gate) => {
                let after_sync = gate >= Gate::Synced && self.synced < self.taken;
                if after_sync || !(outbox.is_clear_of_syncs() || message.keeps_no_order()) {
                    outbox.hold_for_sync(&message);
                    self.for_sync.push_back((outbox, message, gate));
                } else {
                    self.for_write.push_back((outbox, message, gate));
                }
            }
            Step::Order(reply, order) => self.orders.push((reply, order)),
            Step::Batch(batch, order) => self.for_batch.push_back((batch, *order)),
            Step::Notice(notices, notice) => self.for_notices.push_back((notices, notice)),
            Step::Tend => {}
            Step::GiveBack => memory::give_back(),
            Step::End => self.is_ending = true,
        }
    }

    // Where followers together are behind by too much, the one that is most has to go.
    fn relieve(&mut self) {
        if self.followers.iter().map(Follower::bytes).sum::<usize>() <= FOLLOWERS_BYTES_MAX {
            return;
        }
        let most = self.followers.iter().enumerate().max_by_key(|(_, follower)| follower.bytes());
        if let Some((place, _)) = most {
            self.followers.swap_remove(place).give_up();
        }
    }

    fn has_failed(&mut self, error: &str) -> Next {
        let now = Instant::now();
        let is_new = self.fault.is_none();
        let fault = self.fault.get_or_insert_with(|| WriteFault {
            since: now,
            warned: now,
            error: String::new(),
            delay: JOURNAL_RETRY.0,
        });
        if fault.error != error || now.duration_since(fault.warned) >= JOURNAL_WARNING_INTERVAL {
            fault.warned = now;
            error.clone_into(&mut fault.error);
            let waiting = self.taken - self.synced;
            warn!(error, waiting, "the journal cannot be written; nothing is changed until it can");
            (self.alarm)(Some(error.to_owned()));
        }
        let delay = fault.delay;
        fault.delay = (delay * 2).min(JOURNAL_RETRY.1);
        self.log.make_room();
        self.queue.set_failing(true);
        self.send_shown();
        // What ails it at first, as a file that is gone, the next attempt may mend.
        if !is_new {
            self.refuse_orders(error);
        }
        Next::Retry(delay)
    }

    // Whoever wants something of the journal is not kept waiting either. But what is to be compacted was forgotten before:
    // that is a change, which waits as all changes do that were asked for before the fault was known.
    fn refuse_orders(&mut self, error: &str) {
        let taken =
            self.orders.extract_if(.., |(_, order)| *order != JournalOrder::Compact).collect::<Vec<_>>();
        for (reply, order) in taken.into_iter().chain(self.queue.take_refused()) {
            let what = match order {
                JournalOrder::Flush => "flushed",
                JournalOrder::Compact | JournalOrder::Events { .. } => "read through the server",
            };
            reply.done(Err(format!("{what}: it cannot be written now: {error}")));
        }
    }

    // Who only looks is not kept waiting for room. Answers to one peer keep their order.
    fn send_shown(&mut self) {
        let mut held = HashSet::new();
        for (list, waited_for_sync) in [(&mut self.for_write, false), (&mut self.for_sync, true)] {
            for (outbox, message, gate) in std::mem::take(list) {
                if gate == Gate::Shown && !held.contains(&Arc::as_ptr(&outbox)) {
                    outbox.release(message, waited_for_sync);
                } else {
                    held.insert(Arc::as_ptr(&outbox));
                    list.push_back((outbox, message, gate));
                }
            }
        }
        self.queue.send_shown(&mut held);
    }
}

// The answer with what else was not done.
fn beside(lost: Vec<RequestError>, body: ClientResponse) -> ClientResponse {
    match body {
        ClientResponse::Partly { refused, rest } => {
            ClientResponse::Partly { refused: [refused, lost].concat(), rest }
        }
        body => ClientResponse::Partly { refused: lost, rest: Box::new(body) },
    }
}

#[cfg(test)]
mod tests;
