//! What is told to the worker, in order.
//!
//! A report wakes the worker up. While it has said what follows, nothing depends on when it hears of an end: such reports
//! are held for a moment, so that it wakes up once for several. Whatever else is told takes them along.

use std::sync::{Condvar, Mutex, MutexGuard};

use super::process::{Shared, send, thread};
use super::wire::Ended;
use crate::limits;

/// Reports that the worker need not hear at once.
#[derive(Debug, Default)]
pub(super) struct Telling {
    held: Mutex<Held>,
    /// There are some.
    holds: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    reports: Vec<u8>,
    /// A thread tells them when nobody else does.
    has_teller: bool,
}

impl Telling {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Shared {
    /// From now on reports may be held. Without a thread they are told at once.
    pub(super) fn hold_reports(&'static self) {
        self.telling.lock().has_teller = thread("teller", move || self.tell_held()).is_ok();
    }

    /// Tells the worker, at once.
    pub(super) fn tell(&self, reports: &[u8]) {
        let mut held = self.telling.lock();
        held.reports.extend_from_slice(reports);
        // Under the lock: what is told later must not overtake it.
        for packet in held.reports.chunks(limits::REPORTS_PER_PACKET * Ended::BYTES) {
            send(self, packet);
        }
        held.reports.clear();
    }

    /// Tells the worker, with what is told next or a moment later.
    pub(super) fn tell_soon(&self, reports: &[u8]) {
        let mut held = self.telling.lock();
        let is_full = held.reports.len() + reports.len() > limits::REPORTS_PER_PACKET * Ended::BYTES;
        if is_full || !held.has_teller {
            drop(held);
            return self.tell(reports);
        }
        if held.reports.is_empty() {
            self.telling.holds.notify_one();
        }
        held.reports.extend_from_slice(reports);
    }

    fn tell_held(&self) {
        loop {
            let mut held = self.telling.lock();
            while held.reports.is_empty() {
                held = self.telling.holds.wait(held).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            drop(held);
            std::thread::sleep(limits::REPORTS_HELD);
            self.tell(&[]);
        }
    }
}
