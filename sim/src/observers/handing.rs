//! A worker that ends itself hands on first what the server counts on it for: for want of time or of tasks, or when it was told to
//! finish what runs and then to stop.

use std::collections::BTreeSet;

use hq_core::limits::HAND_ON_TIME_MAX;
use hq_core::worker::Input;
use hq_core::worker_messages::{ToWorker, WorkerEnd};
use hq_model::worker::Life;
use hq_model::{ObjectId, Timestamp};

use crate::objects::Store;

/// What a worker was told.
#[derive(Debug, Default)]
pub struct Handing {
    stored: BTreeSet<ObjectId>,
    // For these of them the server counts on it.
    counted_on: BTreeSet<ObjectId>,
    has_server: bool,
    // It has no time for anything any more.
    is_hurried: bool,
    leaves_since: Option<Timestamp>,
}

impl Handing {
    /// It hears something.
    pub fn heard(&mut self, input: &Input) {
        match input {
            Input::Server(ToWorker::Welcome(_)) => self.has_server = true,
            // What it does without its server, or without its launcher, may hurry it.
            Input::ServerLost
            | Input::LauncherLost
            | Input::Interrupt
            | Input::Server(ToWorker::Stop { drain: false }) => self.is_hurried = true,
            Input::Stored(copy) => {
                self.stored.insert(copy.object.clone());
            }
            Input::Server(ToWorker::GuardObjects { guard, release }) => {
                self.counted_on.retain(|object| !release.contains(object));
                self.counted_on.extend(guard.iter().filter(|object| self.stored.contains(object)).cloned());
            }
            Input::Server(ToWorker::FreeObjects(objects)) => {
                objects.iter().for_each(|object| self.stores_not(object));
            }
            Input::ObjectLost(object) | Input::ObjectDamaged(object) => self.stores_not(object),
            _ => {}
        }
    }

    fn stores_not(&mut self, object: &ObjectId) {
        self.stored.remove(object);
        self.counted_on.remove(object);
    }

    /// It takes nothing new.
    pub fn leaves(&mut self, now: Timestamp) {
        self.leaves_since.get_or_insert(now);
    }

    /// It ends.
    ///
    /// # Errors
    /// When it stores something for which the server counts on it, and had time to wait until another worker has that.
    pub fn ends(
        &self,
        now: Timestamp,
        end: WorkerEnd,
        life: Option<Life>,
        store: &Store,
    ) -> Result<(), String> {
        let in_order = matches!(end, WorkerEnd::TimeLimit | WorkerEnd::IdleTimeout | WorkerEnd::Stopped);
        let is_over = life.is_some_and(|life| life.ends_at_last() <= now)
            || self.leaves_since.is_some_and(|since| since.after(HAND_ON_TIME_MAX) <= now);
        if !in_order || is_over || !self.has_server || self.is_hurried {
            return Ok(());
        }
        let left = store.copies().map(|copy| copy.object).find(|object| self.counted_on.contains(object));
        match left {
            Some(object) => Err(format!("a worker ended ({end:?}) that the server counted on for {object}")),
            None => Ok(()),
        }
    }
}
