//! Orders that wait for the end of another start.
//!
//! Between the end of a task and the start of the next one, launcher and worker would have to wake each other up, while
//! the resources of both lie idle. So the worker may say beforehand what follows a start. When that exits with 0, the
//! thread that saw it begins the follower at once, and another thread takes its place.
//!
//! What holds:
//! - An order that waits is answered once: by [`End::Recalled`], and then there never was a process, or by
//!   [`End::Begun`], and then it is a start like all others from that moment on.
//! - `Begun` comes after the end of what it waited for, and says that this was a success.
//! - An order may wait for one that waits itself. When that does not begin, neither does this one.
//! - A call to come back is answered by `Recalled`, or comes after `Begun` was said or decided, and changes nothing.
//! - Whatever does not go its way (another kind of end, nobody to take the place) is `Recalled`: the worker knows best.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::process::{Shared, Table};
use super::wire::{End, Ended, Slot};

/// An order that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) slot: Slot,
    pub(super) has_stdin: bool,
    pub(super) packet: Vec<u8>,
    pub(super) files: [Option<OwnedFd>; 2],
}

/// Who waits for ends: whoever has the lock.
#[derive(Debug, Default)]
pub(super) struct Reaping {
    turn: Mutex<()>,
    // Reapers that want it.
    waiting: AtomicUsize,
}

impl Reaping {
    /// Blocks until no other thread waits for ends.
    pub(super) fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let turn = self.turn.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        turn
    }

    /// True when another thread takes the place of the one that has it.
    pub(super) fn has_substitute(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }
}

impl Table {
    /// Takes out what waits for the end of a start.
    pub(super) fn take_armed(&mut self, leader: Slot) -> Option<Waiting> {
        if self.armed.is_empty() { None } else { self.armed.remove(&leader) }
    }

    /// What waited does not begin, nor what waits for that. Appends what is to be told of it.
    pub(super) fn drop_waiting(&mut self, waiting: Waiting, reports: &mut Vec<u8>) {
        let mut next = Some(waiting);
        while let Some(waiting) = next {
            self.slot(waiting.slot).ended = true;
            Ended::of_waiting(waiting.slot, End::Recalled).encode(reports);
            next = self.take_armed(waiting.slot);
        }
    }
}

impl Shared {
    /// Keeps an order until a start ends. It goes back when that is over.
    pub(super) fn arm(&self, leader: Slot, waiting: Waiting) {
        let mut table = self.lock();
        let is_recalled = table.slot(waiting.slot).is_recalled;
        let state = table.slot(leader);
        let is_over = state.generation != leader.generation || state.ended;
        let before = if is_recalled || is_over { Some(waiting) } else { table.armed.insert(leader, waiting) };
        self.give_back(table, before);
    }

    /// An order that waits is called back.
    pub(super) fn recall(&self, slot: Slot) {
        let mut table = self.lock();
        let state = table.slot(slot);
        if state.generation != slot.generation || state.ended {
            return;
        }
        // Its order may still be on its way.
        state.is_recalled = true;
        let leader = table.armed.iter().find(|(_, waiting)| waiting.slot == slot).map(|(leader, _)| *leader);
        let waiting = leader.and_then(|leader| table.take_armed(leader));
        self.give_back(table, waiting);
    }

    fn give_back(&self, mut table: MutexGuard<'_, Table>, waiting: Option<Waiting>) {
        let Some(waiting) = waiting else { return };
        let mut reports = Vec::new();
        table.drop_waiting(waiting, &mut reports);
        drop(table);
        self.tell(&reports);
    }

    /// A start has ended: what waited for it begins, when that was a success and somebody is there to begin it. Appends
    /// what is to be told of it all.
    pub(super) fn follow(
        &self,
        report: Ended,
        waiting: Option<Waiting>,
        is_somebody_there: bool,
        reports: &mut Vec<u8>,
    ) -> Option<Waiting> {
        report.encode(reports);
        let waiting = waiting?;
        if report.end == End::Exited(0) && is_somebody_there {
            Ended::of_waiting(waiting.slot, End::Begun).encode(reports);
            return Some(waiting);
        }
        self.lock().drop_waiting(waiting, reports);
        None
    }

    /// True when something waits for the end of a start.
    pub(super) fn is_followed(&self, leader: Slot) -> bool {
        self.lock().armed.contains_key(&leader)
    }
}
