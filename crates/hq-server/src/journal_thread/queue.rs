//! What waits for the journal thread: records and messages in the order in which they were decided,
//! bounded by their bytes; and how far the journal has got.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hq_core::alloc::BatchOrder;
use hq_core::record::Record;
use hq_core::server::{Gate, JournalOrder};
use hq_model::{Notice, Timestamp};

use crate::batch::Batch;
use crate::events::Reply;
use crate::limits::JOURNAL_QUEUE_BYTES_MAX;
use crate::notices::Notices;
use crate::outbox::{Message, Outbox};

/// One thing to do, in order.
#[derive(Debug)]
pub(crate) enum Step {
    /// Save this.
    Record(Timestamp, Box<Record>),
    /// Send this when the gate is passed.
    Send(Arc<Outbox>, Message, Gate),
    /// Do this to the journal itself when everything before is on disk, and answer.
    Order(Reply, JournalOrder),
    /// Have this done with a batch system when everything before is on disk.
    Batch(Arc<Batch>, Box<BatchOrder>),
    /// Send this notice when everything before is on disk.
    Notice(Arc<Notices>, Box<Notice>),
    /// Something in the background is done.
    Tend,
    /// Much was forgotten before: its memory is given back.
    GiveBack,
    /// Save everything, send everything, and end.
    End,
}

/// The queue between the deciding thread and the journal thread.
#[derive(Debug, Default)]
pub(crate) struct JournalQueue {
    queue: Mutex<Queue>,
    wake: Condvar,
    room: Condvar,
    /// Number of records that are written.
    written: AtomicU64,
    /// Number of records that are on disk.
    synced: AtomicU64,
    /// The process was asked to end: nothing waits for long any more.
    is_stopping: AtomicBool,
    /// The journal cannot be written.
    is_failing: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    steps: Vec<Step>,
    bytes: usize,
    is_asleep: bool,
}

impl JournalQueue {
    /// True when so many records are as safe as the gate demands.
    pub(crate) fn is_passed(&self, gate: Gate, records: u64) -> bool {
        match gate {
            Gate::Open => true,
            Gate::Written => self.written.load(Ordering::Acquire) >= records,
            Gate::Synced | Gate::Last => self.synced.load(Ordering::Acquire) >= records,
            Gate::Shown => {
                self.is_failing.load(Ordering::Acquire) || self.synced.load(Ordering::Acquire) >= records
            }
        }
    }

    /// Number of records that are on disk.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// The journal cannot be written, or it can again.
    pub(crate) fn set_failing(&self, is_failing: bool) {
        self.is_failing.store(is_failing, Ordering::Release);
    }

    /// Sends what waits in the queue and only shows something, unless it would pass something that waits for the same
    /// peer; `held` names those for whom something waits.
    pub(crate) fn send_shown(&self, held: &mut HashSet<*const Outbox>) {
        let mut queue = self.lock();
        for step in std::mem::take(&mut queue.steps) {
            match step {
                Step::Send(outbox, message, Gate::Shown) if !held.contains(&Arc::as_ptr(&outbox)) => {
                    queue.bytes = queue.bytes.saturating_sub(message.memory_bytes());
                    outbox.release(message, false);
                }
                step => {
                    if let Step::Send(outbox, ..) = &step {
                        held.insert(Arc::as_ptr(outbox));
                    }
                    queue.steps.push(step);
                }
            }
        }
    }

    /// Takes the orders out of the queue that do not wait for a journal that cannot be written.
    pub(crate) fn take_refused(&self) -> Vec<(Reply, JournalOrder)> {
        let mut orders = Vec::new();
        let mut queue = self.lock();
        for step in std::mem::take(&mut queue.steps) {
            match step {
                Step::Order(reply, order) if order != JournalOrder::Compact => orders.push((reply, order)),
                step => queue.steps.push(step),
            }
        }
        orders
    }

    /// Takes out of the queue what is sent also when the journal could not be written.
    pub(crate) fn take_last(&self) -> Vec<(Arc<Outbox>, Message)> {
        let mut last = Vec::new();
        let mut queue = self.lock();
        for step in std::mem::take(&mut queue.steps) {
            match step {
                Step::Send(outbox, message, Gate::Last) => last.push((outbox, message)),
                step => queue.steps.push(step),
            }
        }
        last
    }

    /// So many records are written.
    pub(crate) fn set_written(&self, records: u64) {
        self.written.store(records, Ordering::Release);
    }

    /// So many records are on disk.
    pub(crate) fn set_synced(&self, records: u64) {
        self.synced.store(records, Ordering::Release);
    }

    /// True when the process was asked to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Hands steps of so many bytes over, leaving `steps` empty. Waits while the queue is full.
    pub(crate) fn push(&self, steps: &mut Vec<Step>, bytes: usize) {
        let mut queue = self.lock();
        while queue.bytes > JOURNAL_QUEUE_BYTES_MAX && !self.is_stopping() {
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

    /// Number of records that wait in the queue.
    pub(crate) fn records_waiting(&self) -> u64 {
        let queue = self.lock();
        queue.steps.iter().filter(|step| matches!(step, Step::Record(..))).count() as u64
    }

    /// Sleeps until there are steps, or for the time given. Moves them into `steps`, which must be empty.
    pub(crate) fn take(&self, steps: &mut Vec<Step>, time: Option<Duration>) {
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

#[cfg(test)]
mod tests {
    use hq_model::JobId;

    use super::*;

    fn record(at: u64) -> Step {
        Step::Record(Timestamp(at), Box::new(Record::JobClosed { job: JobId(1) }))
    }

    #[test]
    fn a_full_queue_lets_go_when_the_process_is_asked_to_end() {
        let journal_queue = JournalQueue::default();
        journal_queue.push(&mut vec![record(1)], JOURNAL_QUEUE_BYTES_MAX + 1);
        thread_waits_until(&journal_queue, || journal_queue.stop());
        let mut steps = Vec::new();
        journal_queue.take(&mut steps, None);
        assert_eq!(steps.len(), 2);
    }

    #[test]
    fn a_full_queue_takes_more_when_some_was_taken() {
        let journal_queue = JournalQueue::default();
        journal_queue.push(&mut vec![record(1)], JOURNAL_QUEUE_BYTES_MAX + 1);
        let mut steps = Vec::new();
        thread_waits_until(&journal_queue, || journal_queue.take(&mut steps, None));
        assert_eq!(steps.len(), 1);
        assert_eq!(journal_queue.records_waiting(), 1);
    }

    // A push from another thread ends, and not before `release`.
    fn thread_waits_until(journal_queue: &JournalQueue, release: impl FnOnce()) {
        let is_released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let pushing = scope.spawn(|| {
                journal_queue.push(&mut vec![record(2)], 1);
                assert!(is_released.load(Ordering::SeqCst), "the queue was full");
            });
            is_released.store(true, Ordering::SeqCst);
            release();
            pushing.join().expect("it ends after the release");
        });
    }
}
