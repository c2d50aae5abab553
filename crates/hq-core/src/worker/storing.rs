//! Which objects a worker stores, and what it has to say of them.
//!
//! The shell has the files, and tells of each that is there or is lost. When the server is found again it hears all of it.

use std::collections::BTreeMap;

use hq_model::ObjectId;

use super::Effect;
use crate::object_messages::{ObjectCopy, ObjectNews, Unfetched};

#[derive(Clone, Debug, Default)]
pub(super) struct Storing {
    copies: BTreeMap<ObjectId, ObjectCopy>,
    news: ObjectNews,
}

impl Storing {
    /// A file is there.
    pub(super) fn stored(&mut self, copy: ObjectCopy) {
        // Fetched for a task that was told of it before there was a later one.
        if self.copies.get(&copy.object).is_some_and(|known| known.instance > copy.instance) {
            return;
        }
        self.news.lost.retain(|lost| *lost != copy.object);
        self.copies.insert(copy.object.clone(), copy.clone());
        self.news.stored.push(copy);
    }

    /// A file is gone, though nobody asked for that.
    pub(super) fn lost(&mut self, object: ObjectId) {
        if self.copies.remove(&object).is_some() {
            self.news.stored.retain(|copy| copy.object != object);
            self.news.lost.push(object);
        }
    }

    /// A file that was to be an object is none.
    pub(super) fn refused(&mut self, object: ObjectId, why: String) {
        self.news.refused.push((object, why));
    }

    /// A task did not start.
    pub(super) fn unfetched(&mut self, unfetched: Unfetched) {
        self.news.unfetched.push(unfetched);
    }

    /// Nobody needs these any more.
    pub(super) fn free(&mut self, objects: Vec<ObjectId>, effects: &mut Vec<Effect>) {
        for object in &objects {
            self.copies.remove(object);
        }
        effects.push(Effect::FreeObjects(objects));
    }

    /// True when there is something to say.
    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// What there is to say.
    pub(super) fn take_news(&mut self) -> Option<Box<ObjectNews>> {
        self.has_news().then(|| Box::new(std::mem::take(&mut self.news)))
    }

    /// All that is stored, in order.
    pub(super) fn all(&self) -> Vec<ObjectCopy> {
        self.copies.values().cloned().collect()
    }
}
