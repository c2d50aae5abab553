//! A thread that ends tasks that were canceled, ran out of time or have to go: with all that they started.
//!
//! What left the group of its task is found in three ways: it descended from the task when that was told to end, it
//! descends from something that did, or the variable that names the attempt is in its environment. The end of such a task
//! is reported when nothing of it is left. Tasks that end by themselves never come here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

use super::family::{self, Process};
use super::process::Shared;
use super::wire::{Ended, SignalOrder, Slot};
use crate::limits;

/// The environment variable whose value differs from attempt to attempt.
pub const MARK: &[u8] = b"HQ_ACCESS_KEY=";

/// What waits for the thread.
#[derive(Debug, Default)]
pub(super) struct Endings {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    orders: Vec<(SignalOrder, Vec<u8>)>,
    ended: Vec<Ended>,
}

/// A task that is being ended.
#[derive(Debug)]
struct Ending {
    mark: Vec<u8>,
    // By number and birth.
    seen: BTreeSet<(i32, u64)>,
    ended: Option<(Ended, Instant)>,
}

impl Endings {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whatever has `mark` in its environment is to end with this task.
    pub(super) fn order(&self, order: SignalOrder, mark: Vec<u8>) {
        self.lock().orders.push((order, mark));
        self.filled.notify_one();
    }

    /// The program of a task has ended, for which an order came before.
    pub(super) fn ended(&self, report: Ended) {
        self.lock().ended.push(report);
        self.filled.notify_one();
    }

    /// Waits until something is there; not for long when something is left to be looked at again.
    fn next(&self, is_something_left: bool) -> Queue {
        let mut queue = self.lock();
        if is_something_left {
            let waited = self.filled.wait_timeout(queue, limits::CLEANUP_PAUSE);
            queue = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        } else {
            while queue.orders.is_empty() && queue.ended.is_empty() {
                queue = self.filled.wait(queue).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
        }
        std::mem::take(&mut *queue)
    }
}

/// Ends tasks again and again.
pub(super) fn run(shared: &'static Shared) {
    let mut tasks: BTreeMap<Slot, Ending> = BTreeMap::new();
    loop {
        let Queue { orders, ended } = shared.endings.next(tasks.values().any(|task| task.ended.is_some()));
        let processes = family::processes();
        for (order, mark) in &orders {
            let new = || Ending { mark: mark.clone(), seen: BTreeSet::new(), ended: None };
            let task = tasks.entry(order.slot).or_insert_with(new);
            if let Some(pid) = shared.pid_of(order.slot) {
                task.seen = family::members(&processes, pid, &task.seen);
            }
        }
        // Only now: what a task started is known while it is still its child.
        for (order, _) in orders {
            shared.signal(order);
        }
        for report in ended {
            if let Some(task) = tasks.get_mut(&report.slot) {
                task.ended = Some((report, Instant::now()));
            }
        }
        kill_what_is_left(shared, &mut tasks);
    }
}

/// Kills what ended tasks left behind, and reports those that left nothing.
fn kill_what_is_left(shared: &Shared, tasks: &mut BTreeMap<Slot, Ending>) {
    let ended = tasks.iter().filter(|(_, task)| task.ended.is_some());
    let marks: BTreeMap<&[u8], Slot> = ended.map(|(slot, task)| (task.mark.as_slice(), *slot)).collect();
    if marks.is_empty() {
        return;
    }
    let processes = family::processes();
    let mut roots: BTreeMap<Slot, Vec<i32>> = BTreeMap::new();
    for pid in strangers(shared, &processes) {
        let slot = family::variable(pid, MARK).and_then(|mark| marks.get(mark.as_slice()).copied());
        if let Some(slot) = slot {
            roots.entry(slot).or_default().push(pid);
        }
    }
    let mut reports = Vec::new();
    tasks.retain(|slot, task| {
        let Some((report, since)) = task.ended else { return true };
        let mut roots = roots.remove(slot).unwrap_or_default();
        let is_same = |(pid, born): &&(i32, u64)| processes.get(pid).is_some_and(|found| found.born == *born);
        roots.extend(task.seen.iter().filter(is_same).map(|(pid, _)| *pid));
        let mut left = family::with_descendants(&processes, roots);
        left.retain(|pid| !processes[pid].is_over);
        left.iter().for_each(|pid| family::kill(*pid));
        // What cannot be killed is waiting for a file system that does not answer.
        let is_over = left.is_empty() || since.elapsed() > limits::CLEANUP_LIMIT;
        if is_over {
            report.encode(&mut reports);
        }
        !is_over
    });
    shared.tell(&reports);
}

/// What descends from the launcher and from no task that runs.
fn strangers(shared: &Shared, processes: &BTreeMap<i32, Process>) -> BTreeSet<i32> {
    let mut all = family::with_descendants(processes, vec![shared.pid]);
    let running = family::with_descendants(processes, shared.running_pids());
    all.retain(|pid| *pid != shared.pid && !running.contains(pid) && !processes[pid].is_over);
    all
}
