//! Locality keys: tasks with one key like to run where such tasks ran before, because what they read is there.
//!
//! A worker first gets tasks whose key it has run, then a key that nobody has, and only then one that is at home
//! elsewhere: no worker idles for the sake of a key. A new key opens on the worker with the least to do. Keys are kept
//! as hashes; two keys that look alike only share their workers.
//!
//! A call without a key of its own has that of the largest value that it takes, which is at home where that is stored.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hq_model::pattern::Pattern;
use hq_model::{ByteString, Entry, IdSet, JobId, ObjectId, TaskId, WorkerId};

use super::job::SubmitState;
use super::machine::Server;
use super::queue::ClassId;
use super::requests::templates_of;
use crate::limits::{KEYS_LOOKED_AT_MAX, KEYS_OF_WORKER_MAX};
use crate::worker_messages::TemplateId;

/// A hash of a key.
type Key = u64;

/// Keys of tasks and where they are at home.
#[derive(Clone, Debug, Default)]
pub(super) struct Locality {
    templates: BTreeMap<TemplateId, Keyed>,
    homes: BTreeMap<Key, BTreeSet<WorkerId>>,
    // The one that ran last is the last.
    of_worker: BTreeMap<WorkerId, VecDeque<Key>>,
}

#[derive(Clone, Debug, Default)]
struct Keyed {
    // Without one the tasks have keys of values, if any.
    pattern: Option<Pattern>,
    // Tasks that may be ready; those that are not are found out when their turn comes.
    ready: BTreeMap<Key, IdSet>,
    // Keys that may be at home nowhere, in the order in which they were met.
    new: VecDeque<Key>,
    // Tasks without a key that may be ready: they are near everywhere.
    others: IdSet,
}

/// The key of a call, and which workers store its value.
pub(super) type ValueKey = (Key, Vec<WorkerId>);

/// Which tasks a worker may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Near {
    /// Those whose key it has run.
    Own,
    /// Those of one key that nobody has run.
    New,
    /// Any, the nearest ones first.
    Any,
}

impl Locality {
    /// True when the tasks of a submit have keys.
    pub(super) fn has(&self, id: TemplateId) -> bool {
        !self.templates.is_empty() && self.templates.contains_key(&id)
    }

    /// Tasks of a submit are ready.
    pub(super) fn add(&mut self, id: TemplateId, submit: &SubmitState, ids: &IdSet) {
        let Some(locality) = &submit.task.locality else { return };
        let keyed = self.templates.entry(id).or_default();
        let pattern = keyed.pattern.get_or_insert_with(|| Pattern::new(locality));
        let mut text = ByteString::new();
        for task in ids.iter() {
            let entry = Entry::new(submit.entry_of(task).unwrap_or_default());
            text.clear();
            pattern.expand_into(&mut text, &|name, out| value(name, id.job, task, &entry, out));
            let key = hash(&text);
            let ready = keyed.ready.entry(key).or_default();
            if ready.is_empty() && !self.homes.contains_key(&key) {
                keyed.new.push_back(key);
            }
            ready.insert(task);
        }
    }

    /// Calls of a submit are ready, of which some take values.
    pub(super) fn add_calls(&mut self, id: TemplateId, ids: &IdSet, keys: Vec<(TaskId, ValueKey)>) {
        if keys.is_empty() && !self.has(id) {
            return;
        }
        let mut others = ids.clone();
        for (task, (key, workers)) in keys {
            others.remove(task);
            for worker in workers {
                self.settle_at(key, worker);
            }
            let keyed = self.templates.entry(id).or_default();
            if !self.homes.contains_key(&key) {
                keyed.new.push_back(key);
            }
            keyed.ready.entry(key).or_default().insert(task);
        }
        self.templates.entry(id).or_default().others.union_with(&others);
    }

    /// Takes up to `count` of the ready tasks of a submit that are near a worker; that becomes their keys' home.
    pub(super) fn pick(
        &mut self,
        id: TemplateId,
        ready: &IdSet,
        worker: WorkerId,
        count: u64,
        near: Near,
    ) -> IdSet {
        let mut picked = IdSet::new();
        if matches!(near, Near::Own | Near::Any) {
            let own = self.of_worker.get(&worker).into_iter().flatten().rev().take(KEYS_LOOKED_AT_MAX);
            let own: Vec<Key> = own.copied().collect();
            for key in own {
                self.take(id, key, ready, count, &mut picked);
                if picked.len() >= count {
                    break;
                }
            }
            self.take_others(id, ready, count, &mut picked);
        }
        while near != Near::Own && picked.len() < count {
            let Some(key) = self.new_key(id) else { break };
            let before = picked.len();
            self.take(id, key, ready, count, &mut picked);
            if picked.len() > before {
                self.settle_at(key, worker);
                if near == Near::New {
                    break;
                }
            } else {
                // Its tasks are ready later.
                break;
            }
        }
        while near == Near::Any && picked.len() < count {
            let Some(keyed) = self.templates.get(&id) else { break };
            let others = keyed.ready.iter().take(KEYS_LOOKED_AT_MAX);
            let Some(key) = others.max_by_key(|(_, ids)| ids.len()).map(|entry| *entry.0) else { break };
            let before = picked.len();
            self.take(id, key, ready, count, &mut picked);
            if picked.len() > before {
                self.settle_at(key, worker);
            }
        }
        self.forget_empty(id);
        picked
    }

    fn take_others(&mut self, id: TemplateId, ready: &IdSet, count: u64, picked: &mut IdSet) {
        let Some(keyed) = self.templates.get_mut(&id) else { return };
        let mut found = keyed.others.intersection(ready);
        let taken = found.take_first(count - picked.len());
        picked.union_with(&taken);
        keyed.others = found;
    }

    // An executor may submit for weeks.
    fn forget_empty(&mut self, id: TemplateId) {
        let is_empty =
            |keyed: &Keyed| keyed.pattern.is_none() && keyed.ready.is_empty() && keyed.others.is_empty();
        if self.templates.get(&id).is_some_and(is_empty) {
            self.templates.remove(&id);
        }
    }

    // Takes ready tasks with a key; forgets those that are not ready.
    fn take(&mut self, id: TemplateId, key: Key, ready: &IdSet, count: u64, picked: &mut IdSet) {
        let Some(keyed) = self.templates.get_mut(&id) else { return };
        let Some(ids) = keyed.ready.get_mut(&key) else { return };
        let mut found = ids.intersection(ready);
        let taken = found.take_first(count - picked.len());
        picked.union_with(&taken);
        if found.is_empty() {
            keyed.ready.remove(&key);
        } else {
            *ids = found;
        }
    }

    fn new_key(&mut self, id: TemplateId) -> Option<Key> {
        let keyed = self.templates.get_mut(&id)?;
        while let Some(key) = keyed.new.front() {
            if keyed.ready.contains_key(key) && !self.homes.contains_key(key) {
                return Some(*key);
            }
            keyed.new.pop_front();
        }
        None
    }

    fn settle_at(&mut self, key: Key, worker: WorkerId) {
        if !self.homes.entry(key).or_default().insert(worker) {
            return;
        }
        let keys = self.of_worker.entry(worker).or_default();
        keys.push_back(key);
        if keys.len() > KEYS_OF_WORKER_MAX
            && let Some(oldest) = keys.pop_front()
        {
            self.leave(oldest, worker);
        }
    }

    fn leave(&mut self, key: Key, worker: WorkerId) {
        let Some(homes) = self.homes.get_mut(&key) else { return };
        homes.remove(&worker);
        if homes.is_empty() {
            self.homes.remove(&key);
            for keyed in self.templates.values_mut().filter(|keyed| keyed.ready.contains_key(&key)) {
                keyed.new.push_back(key);
            }
        }
    }

    /// A worker is gone.
    pub(super) fn worker_gone(&mut self, worker: WorkerId) {
        for key in self.of_worker.remove(&worker).into_iter().flatten() {
            self.leave(key, worker);
        }
    }

    /// A job is over.
    pub(super) fn forget(&mut self, job: JobId) {
        if self.templates.is_empty() {
            return;
        }
        let over: Vec<TemplateId> = self.templates.range(templates_of(job)).map(|entry| *entry.0).collect();
        for template in over {
            self.templates.remove(&template);
        }
    }
}

impl Server {
    /// Takes ready tasks of a submit at the head of a class for a worker.
    pub(super) fn take_near(
        &mut self,
        class: ClassId,
        id: TemplateId,
        worker: WorkerId,
        count: u64,
        near: Near,
    ) -> IdSet {
        if !self.locality.has(id) {
            let taken = if near == Near::Any { self.queue.take(class, count) } else { None };
            return taken.map_or_else(IdSet::new, |taken| taken.1);
        }
        let Some(ready) = self.queue.head_ids(class) else { return IdSet::new() };
        let picked = self.locality.pick(id, ready, worker, count, near);
        if picked.is_empty() && near == Near::Any {
            // Nothing is lost when what is known of keys is not all.
            return self.queue.take(class, count).map_or_else(IdSet::new, |taken| taken.1);
        }
        self.queue.remove(class, id, &picked);
        picked
    }
}

// What a placeholder stands for.
fn value(name: &str, job: JobId, task: TaskId, entry: &Entry<'_>, out: &mut ByteString) -> bool {
    match name {
        "JOB_ID" => out.extend_from_slice(job.0.to_string().as_bytes()),
        "TASK_ID" => out.extend_from_slice(task.0.to_string().as_bytes()),
        _ => return entry.append(name, out),
    }
    true
}

/// The key of a value.
pub(super) fn key_of_value(value: &ObjectId) -> Key {
    let name = format!("{}@{}:{}", value.task.job, value.task.task, value.name);
    hash(name.as_bytes())
}

// FNV-1a: the same in every process.
fn hash(text: &[u8]) -> Key {
    text.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_of_the_task_and_the_words_of_its_entry() {
        let expand = |text: &str, entry: &str| {
            let mut out = ByteString::new();
            let entry = Entry::new(entry.as_bytes());
            Pattern::new(text.as_bytes())
                .expand_into(&mut out, &|name, out| value(name, JobId(3), TaskId(7), &entry, out));
            String::from_utf8_lossy(&out).into_owned()
        };
        for (text, entry, expected) in [
            ("all", "", "all"),
            ("%{JOB_ID}/%{TASK_ID}", "", "3/7"),
            ("%{ENTRY}", "query1  block2", "query1  block2"),
            ("%{ENTRY_2}", "query1  block2", "block2"),
            ("%{ENTRY_1}%{ENTRY_3}", "query1  block2", "query1"),
            ("%{ENTRY.block}", r#"{"block":"block2"}"#, "block2"),
            ("%{ENTRY_0}%{ENTRY_x}%{ENTRY.x}", "a", "%{ENTRY_0}%{ENTRY_x}%{ENTRY.x}"),
        ] {
            assert_eq!(expand(text, entry), expected, "{text} of `{entry}`");
        }
    }
}
