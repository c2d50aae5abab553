//! Which objects a worker stores, and what it has to say of them.
//!
//! The shell has the files, and tells of each that is there or is lost. When the server is found again it hears all of it.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::ObjectId;

use super::ahead::Ahead;
use super::{Effect, Input};
use crate::never;
use crate::object_messages::{ObjectCopy, ObjectNews, ObjectsHeld, Unfetched};
use crate::worker_messages::ToWorker;

#[derive(Clone, Debug, Default)]
pub(super) struct Storing {
    pub(super) copies: BTreeMap<ObjectId, ObjectCopy>,
    pub(super) ahead: Ahead,
    news: ObjectNews,
    spilled: ObjectsHeld,
    // The server counts on this worker for them, or has not said yet whether it does.
    counted_on: BTreeSet<ObjectId>,
}

impl Storing {
    /// The server orders something of objects.
    pub(super) fn ordered(&mut self, message: ToWorker, effects: &mut Vec<Effect>) {
        match message {
            ToWorker::TakeFile { object, file, is_dir } => {
                effects.push(Effect::TakeFile { object, file, is_dir });
            }
            ToWorker::BringObjects(sources) => {
                effects.push(Effect::BringObjects { sources, is_ahead: false });
            }
            ToWorker::Relay { ticket } => effects.push(Effect::Relay { ticket }),
            ToWorker::GuardObjects { guard, release } => {
                for object in &release {
                    self.counted_on.remove(object);
                }
                let is_here = |object: &&ObjectId| self.copies.contains_key(*object);
                self.counted_on.extend(guard.iter().filter(is_here).cloned());
                effects.push(Effect::GuardObjects { guard, release });
            }
            ToWorker::FreeObjects(objects) => {
                for object in &objects {
                    self.copies.remove(object);
                    self.counted_on.remove(object);
                }
                effects.push(Effect::FreeObjects(objects));
            }
            _ => never!("a store is told what is not of objects"),
        }
    }

    /// The shell says something of objects.
    pub(super) fn hear(&mut self, input: Input) {
        match input {
            Input::Stored(copy) => {
                self.ahead.ended(&copy.object);
                self.stored(copy);
            }
            Input::NotAhead(object) => self.ahead.ended(&object),
            Input::ObjectLost(object) => self.lost(object, false),
            Input::ObjectDamaged(object) => self.lost(object, true),
            Input::Spilled(held) => {
                self.spilled = held;
                self.news.spilled = Some(held);
            }
            // It was to be an object, and is none.
            Input::FileRefused { object, why } => self.news.refused.push((object, why)),
            _ => never!("a store hears what is not of objects"),
        }
    }

    // A file is there.
    fn stored(&mut self, copy: ObjectCopy) {
        // Fetched for a task that was told of it before there was a later one.
        if self.copies.get(&copy.object).is_some_and(|known| known.instance > copy.instance) {
            return;
        }
        self.news.lost.retain(|lost| *lost != copy.object);
        self.news.damaged.retain(|damaged| *damaged != copy.object);
        self.copies.insert(copy.object.clone(), copy.clone());
        self.counted_on.insert(copy.object.clone());
        self.news.stored.push(copy);
    }

    // A file is gone, though nobody asked for that.
    fn lost(&mut self, object: ObjectId, is_damaged: bool) {
        self.counted_on.remove(&object);
        if self.copies.remove(&object).is_some() {
            self.news.stored.retain(|copy| copy.object != object);
            let gone = if is_damaged { &mut self.news.damaged } else { &mut self.news.lost };
            gone.push(object);
        }
    }

    /// A task did not start.
    pub(super) fn unfetched(&mut self, unfetched: Unfetched) {
        self.news.unfetched.push(unfetched);
    }

    /// True when the server may need something of what is here, as far as this worker was told.
    pub(super) fn is_counted_on(&self) -> bool {
        !self.counted_on.is_empty()
    }

    /// True when there is something to say.
    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// What there is to say.
    pub(super) fn take_news(&mut self) -> Option<Box<ObjectNews>> {
        self.has_news().then(|| Box::new(std::mem::take(&mut self.news)))
    }

    /// All that is stored, in order, for a server that may know nothing of it.
    pub(super) fn all(&mut self) -> Vec<ObjectCopy> {
        self.news.spilled = (self.spilled.count > 0).then_some(self.spilled);
        self.copies.values().cloned().collect()
    }
}
