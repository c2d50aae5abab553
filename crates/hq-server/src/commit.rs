//! The journal thread: writes records in groups and lets out what was waiting for them.
//!
//! Records and messages come in the order in which they were decided. A message leaves when all
//! records before it are as safe as its gate demands, and never before an earlier one to the same
//! peer. While the journal cannot write (a full disk), everything gated waits, the write is tried
//! again, and nothing that is not saved is acknowledged.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hq_core::record::Record;
use hq_core::server::Gate;
use hq_model::Timestamp;
use tracing::{info, warn};

use crate::limits::{
    JOURNAL_QUEUE_BYTES_MAX, JOURNAL_RETRY, JOURNAL_STOP_TIME, JOURNAL_SYNC_DELAY, JOURNAL_WARNING_INTERVAL,
};
use crate::outbox::{Message, Outbox};

/// Where records go: the journal, or a test's idea of one.
pub(crate) trait Log: Send {
    /// Takes a record; it is kept in memory until it is written.
    fn append(&mut self, at: Timestamp, record: &Record);
    /// Hands all appended records to the system. After an error it can be called again.
    fn write(&mut self) -> Result<(), String>;
    /// Has all written records on disk. After an error it can be called again.
    fn sync(&mut self) -> Result<(), String>;
}

/// One thing to do, in order.
#[derive(Debug)]
pub(crate) enum Step {
    /// Save this.
    Record(Timestamp, Box<Record>),
    /// Send this when the gate is passed.
    Send(Arc<Outbox>, Message, Gate),
    /// Save everything, send everything, and end.
    End,
}

/// The queue between the deciding thread and the journal thread.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    queue: Mutex<Queue>,
    wake: Condvar,
    room: Condvar,
    /// Number of records that are written.
    written: AtomicU64,
    /// Number of records that are on disk.
    synced: AtomicU64,
    /// The process was asked to end: nothing waits for long any more.
    is_stopping: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    steps: Vec<Step>,
    bytes: usize,
    is_asleep: bool,
}

impl Commits {
    /// True when so many records are as safe as the gate demands.
    pub(crate) fn is_passed(&self, gate: Gate, records: u64) -> bool {
        match gate {
            Gate::Open => true,
            Gate::Written => self.written.load(Ordering::Acquire) >= records,
            Gate::Synced => self.synced.load(Ordering::Acquire) >= records,
        }
    }

    /// Hands steps of so many bytes over, leaving `steps` empty. Waits while the queue is full.
    pub(crate) fn push(&self, steps: &mut Vec<Step>, bytes: usize) {
        let mut queue = self.lock();
        while queue.bytes > JOURNAL_QUEUE_BYTES_MAX && !self.is_stopping.load(Ordering::Acquire) {
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.steps.append(steps);
        queue.bytes += bytes;
        if queue.is_asleep {
            queue.is_asleep = false;
            self.wake.notify_one();
        }
    }

    /// The process was asked to end: nobody waits for room from now on.
    pub(crate) fn stop(&self) {
        let _queue = self.lock();
        self.is_stopping.store(true, Ordering::Release);
        self.room.notify_all();
    }

    /// Nothing comes any more: everything is saved and sent, and the thread ends.
    pub(crate) fn end(&self) {
        self.stop();
        self.push(&mut vec![Step::End], 0);
    }

    // Records that were not even taken in.
    fn records_waiting(&self) -> u64 {
        let queue = self.lock();
        queue.steps.iter().filter(|step| matches!(step, Step::Record(..))).count() as u64
    }

    /// Sleeps until there are steps, or for the time given. Moves them into `steps`, which must be empty.
    fn take(&self, steps: &mut Vec<Step>, time: Option<Duration>) {
        let mut queue = self.lock();
        let deadline = time.map(|time| Instant::now() + time);
        queue.is_asleep = queue.steps.is_empty();
        while queue.is_asleep {
            queue = match deadline {
                None => self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let time = deadline.saturating_duration_since(Instant::now());
                    if time.is_zero() {
                        break;
                    }
                    self.wake.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        queue.is_asleep = false;
        std::mem::swap(&mut queue.steps, steps);
        queue.bytes = 0;
        self.room.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The journal thread's work.
pub(crate) struct Committer<L> {
    log: L,
    commits: Arc<Commits>,
    /// Messages that wait for a write, then those that wait for a sync, each in order.
    for_write: VecDeque<(Arc<Outbox>, Message)>,
    for_sync: VecDeque<(Arc<Outbox>, Message)>,
    /// Records taken in, written and synced so far.
    taken: u64,
    written: u64,
    synced: u64,
    /// When the oldest record that is not synced was taken in, about.
    unsynced_since: Option<Instant>,
    trouble: Option<Trouble>,
    is_ending: bool,
}

/// The journal cannot write.
#[derive(Debug)]
struct Trouble {
    since: Instant,
    warned: Instant,
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

impl<L: Log> Committer<L> {
    /// A committer that takes steps from `commits`.
    pub(crate) fn new(log: L, commits: Arc<Commits>) -> Self {
        Committer {
            log,
            commits,
            for_write: VecDeque::new(),
            for_sync: VecDeque::new(),
            taken: 0,
            written: 0,
            synced: 0,
            unsynced_since: None,
            trouble: None,
            is_ending: false,
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
                Next::Take(time) => self.commits.take(&mut steps, time),
                Next::Retry(time) => std::thread::sleep(time),
                Next::End => return Ok(self.log),
            }
            next = self.turn(&mut steps);
            if self.commits.is_stopping.load(Ordering::Acquire) && matches!(next, Next::Retry(_)) {
                let since = *ending_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= JOURNAL_STOP_TIME {
                    return Err(Unsaved {
                        records: self.taken - self.written + self.commits.records_waiting(),
                    });
                }
            }
        }
    }

    /// Takes steps in, saves what was taken in and lets out what waited for it.
    pub(crate) fn turn(&mut self, steps: &mut Vec<Step>) -> Next {
        for step in steps.drain(..) {
            self.take_in(step);
        }
        if self.written < self.taken {
            if let Err(error) = self.log.write() {
                return self.in_trouble(&error);
            }
            self.written = self.taken;
            self.commits.written.store(self.written, Ordering::Release);
        }
        for (outbox, message) in self.for_write.drain(..) {
            outbox.release(message, false);
        }
        let mut time_left = self.time_until_sync();
        if time_left.is_some_and(|time| time.is_zero()) {
            if let Err(error) = self.log.sync() {
                return self.in_trouble(&error);
            }
            self.synced = self.written;
            self.commits.synced.store(self.synced, Ordering::Release);
            self.unsynced_since = None;
            time_left = None;
        }
        if time_left.is_none() {
            for (outbox, message) in self.for_sync.drain(..) {
                outbox.release(message, true);
            }
        }
        if let Some(trouble) = self.trouble.take() {
            info!(after_s = trouble.since.elapsed().as_secs(), "the journal is written again");
        }
        if self.is_ending {
            return Next::End;
        }
        Next::Take(time_left)
    }

    // Records that nobody waits for are synced together with others, or after a while. `None` when all are.
    fn time_until_sync(&mut self) -> Option<Duration> {
        if self.synced == self.written {
            return None;
        }
        let since = *self.unsynced_since.get_or_insert_with(Instant::now);
        if self.is_ending || !self.for_sync.is_empty() {
            return Some(Duration::ZERO);
        }
        Some(JOURNAL_SYNC_DELAY.saturating_sub(since.elapsed()))
    }

    fn take_in(&mut self, step: Step) {
        match step {
            Step::Record(at, record) => {
                self.log.append(at, &record);
                self.taken += 1;
            }
            Step::Send(outbox, message, gate) => {
                let after_sync = gate == Gate::Synced && self.synced < self.taken;
                if after_sync || !(outbox.is_clear_of_syncs() || message.may_be_passed()) {
                    outbox.hold_for_sync(&message);
                    self.for_sync.push_back((outbox, message));
                } else {
                    self.for_write.push_back((outbox, message));
                }
            }
            Step::End => self.is_ending = true,
        }
    }

    fn in_trouble(&mut self, error: &str) -> Next {
        let now = Instant::now();
        let trouble = self.trouble.get_or_insert(Trouble { since: now, warned: now, delay: JOURNAL_RETRY.0 });
        if trouble.since == now || now.duration_since(trouble.warned) >= JOURNAL_WARNING_INTERVAL {
            trouble.warned = now;
            let waiting = self.taken - self.synced;
            warn!(error, waiting, "the journal cannot be written; answers wait until it can");
        }
        let delay = trouble.delay;
        trouble.delay = (delay * 2).min(JOURNAL_RETRY.1);
        Next::Retry(delay)
    }
}
