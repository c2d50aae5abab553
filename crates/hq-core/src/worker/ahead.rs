//! Objects that waiting tasks take: fetched while others run, so that each of them finds its own here when it starts.
//!
//! What is fetched ahead stays within a number and an amount of bytes, and few come at once: a task that has started waits for its
//! objects behind none of them. Whether there is room is for the shell, which moves nothing that is needed out of its way.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{Instance, ObjectId};

use super::Effect;
use super::machine::{Batch, Worker};
use crate::limits::{AHEAD_BYTES_MAX, AHEAD_COMING_MAX, AHEAD_MAX, AHEAD_SCAN_MAX};
use crate::object_messages::{ObjectCopy, ObjectSource};

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Ahead {
    // For tasks that wait still, and how large it is. Also what could not be had, which is not asked for again.
    asked: BTreeMap<(ObjectId, Instance), u64>,
    coming: BTreeSet<ObjectId>,
    is_due: bool,
}

impl Ahead {
    /// Other tasks wait than before.
    pub(super) fn look_again(&mut self) {
        self.is_due = true;
    }

    /// An object is here, or is not fetched ahead.
    pub(super) fn ended(&mut self, object: &ObjectId) {
        self.is_due |= self.coming.remove(object);
    }

    // What is to be asked for, of what is wanted, in this order.
    fn ask<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a ObjectSource> + Clone,
        is_here: impl Fn(&ObjectCopy) -> bool,
    ) -> Vec<ObjectSource> {
        let key = |copy: &ObjectCopy| (copy.object.clone(), copy.instance);
        let still: BTreeSet<(ObjectId, Instance)> = wanted.clone().map(|source| key(&source.copy)).collect();
        self.asked.retain(|key, _| still.contains(key));
        let mut bytes: u64 = self.asked.values().sum();
        let mut sources = Vec::new();
        for source in wanted {
            if self.coming.len() >= AHEAD_COMING_MAX || self.asked.len() >= AHEAD_MAX {
                break;
            }
            let copy = &source.copy;
            if is_here(copy) || self.coming.contains(&copy.object) || self.asked.contains_key(&key(copy)) {
                continue;
            }
            bytes = bytes.saturating_add(copy.size);
            if bytes > AHEAD_BYTES_MAX {
                break;
            }
            self.asked.insert(key(copy), copy.size);
            self.coming.insert(copy.object.clone());
            sources.push(source.clone());
        }
        sources
    }
}

impl Worker {
    /// Has objects fetched for tasks that wait, in the order in which these start.
    pub(super) fn fetch_ahead(&mut self, effects: &mut Vec<Effect>) {
        let Some(storing) = &mut self.storing else { return };
        if self.leaving.is_some() || !std::mem::take(&mut storing.ahead.is_due) {
            return;
        }
        let wanted = self.queue.values().flat_map(sources_of).take(AHEAD_SCAN_MAX);
        let (ahead, copies) = (&mut storing.ahead, &storing.copies);
        let is_here =
            |copy: &ObjectCopy| copies.get(&copy.object).is_some_and(|here| here.instance == copy.instance);
        let sources = ahead.ask(wanted, is_here);
        if !sources.is_empty() {
            effects.push(Effect::BringObjects { sources, is_ahead: true });
        }
    }
}

// What tasks of a batch take that have not started here.
fn sources_of(batch: &Batch) -> impl Iterator<Item = &ObjectSource> + Clone {
    let objects = batch.objects.iter().filter(move |_| !batch.is_part);
    let waiting = objects.filter(move |objects| !objects.tasks.intersection(&batch.left).is_empty());
    waiting.flat_map(|objects| &objects.inputs)
}
