//! Ready tasks, grouped into request classes: the unit of placement.
//!
//! A class is all submits with equal requests and priority. Classes are visited by priority, then by weight, then
//! by the age of their oldest job; within a class, older jobs and submits go first. Classes on several nodes have an
//! order of their own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use hq_model::request::CPUS;
use hq_model::{IdSet, JobId, Request, TaskId};

use crate::worker_messages::TemplateId;

/// Names a request class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

/// What tasks of a class have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassKey {
    /// Larger first.
    pub priority: i32,
    /// Variants.
    pub requests: Vec<Request>,
    /// The job whose share they have.
    pub share: Option<JobId>,
}

/// The ready tasks of all jobs.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    ids: BTreeMap<ClassKey, ClassId>,
    classes: Vec<Class>,
    order: BTreeSet<Place>,
    multi_node: BTreeSet<Place>,
    // Classes in `order` of which some variant needs no CPUs.
    without_cpus: usize,
}

/// Where a class stands: priority, weight, age of its head.
pub type Place = (Reverse<i32>, Reverse<u32>, TemplateId, ClassId);

#[derive(Clone, Debug)]
struct Class {
    key: ClassKey,
    // The largest of its variants.
    weight: u32,
    needs_cpus: bool,
    is_multi_node: bool,
    ready: BTreeMap<TemplateId, IdSet>,
    count: u64,
}

impl Queue {
    /// The class of these requests and priority; jobs with a share have classes of their own.
    pub fn class(&mut self, priority: i32, requests: &[Request], share: Option<JobId>) -> ClassId {
        let key = ClassKey { priority, requests: requests.to_vec(), share };
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let id = ClassId(self.classes.len() as u32);
        self.ids.insert(key.clone(), id);
        let weight = requests.iter().map(|request| request.weight).max().unwrap_or_default();
        let needs = |request: &Request| request.resources.iter().any(|resource| resource.name == CPUS);
        let needs_cpus = requests.iter().all(needs);
        let is_multi_node = requests.iter().any(|request| request.nodes > 0);
        let ready = BTreeMap::new();
        self.classes.push(Class { key, weight, needs_cpus, is_multi_node, ready, count: 0 });
        id
    }

    /// What the tasks of a class have in common.
    pub fn key(&self, class: ClassId) -> &ClassKey {
        &self.classes[class.0 as usize].key
    }

    /// Ready tasks of a class.
    pub fn count(&self, class: ClassId) -> u64 {
        self.classes[class.0 as usize].count
    }

    /// True when its tasks run on several nodes.
    pub fn is_multi_node(&self, class: ClassId) -> bool {
        self.classes[class.0 as usize].is_multi_node
    }

    /// Classes on several nodes with ready tasks, in the order in which they are placed.
    pub fn multi_node(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.multi_node.iter().map(|place| place.3)
    }

    /// As [`Queue::next`], of classes on several nodes.
    pub fn next_multi_node(&self, after: Option<Place>) -> Option<Place> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.multi_node.range((from, Bound::Unbounded)).next().copied()
    }

    /// Classes within one worker with ready tasks, in the order in which they are placed.
    pub fn in_order(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.order.iter().map(|place| place.3)
    }

    /// The class that comes after a place in the order, or the first one.
    pub fn next(&self, after: Option<Place>) -> Option<(Place, ClassId)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.order.range((from, Bound::Unbounded)).next().map(|place| (*place, place.3))
    }

    /// Classes of a priority with ready tasks, in the order in which they are placed.
    pub fn of_priority(&self, priority: i32) -> impl Iterator<Item = ClassId> + '_ {
        let oldest = TemplateId { job: JobId(0), submit: 0 };
        let first: Place = (Reverse(priority), Reverse(u32::MAX), oldest, ClassId(0));
        self.order.range(first..).take_while(move |place| place.0.0 == priority).map(|place| place.3)
    }

    /// True when no ready task can run without CPUs.
    pub fn all_need_cpus(&self) -> bool {
        self.without_cpus == 0
    }

    /// True when no task is ready.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.multi_node.is_empty()
    }

    /// Adds ready tasks.
    pub fn add(&mut self, class: ClassId, template: TemplateId, ids: &IdSet) {
        if ids.is_empty() {
            return;
        }
        self.change(class, |class| {
            let ready = class.ready.entry(template).or_default();
            let before = ready.len();
            ready.union_with(ids);
            class.count += ready.len() - before;
        });
    }

    /// Removes tasks, as far as they are ready.
    pub fn remove(&mut self, class: ClassId, template: TemplateId, ids: &IdSet) {
        self.change(class, |class| {
            let Some(ready) = class.ready.get_mut(&template) else { return };
            let before = ready.len();
            ready.subtract(ids);
            class.count -= before - ready.len();
            if ready.is_empty() {
                class.ready.remove(&template);
            }
        });
    }

    /// Ready tasks of a class that go before one of its own.
    pub fn ready_before(&self, class: ClassId, template: TemplateId, task: TaskId) -> u64 {
        let ready = &self.classes[class.0 as usize].ready;
        let older: u64 = ready.range(..template).map(|(_, ids)| ids.len()).sum();
        older + ready.get(&template).and_then(|ids| ids.rank(task)).unwrap_or(0)
    }

    /// The oldest submit of a class that has ready tasks.
    pub fn head(&self, class: ClassId) -> Option<TemplateId> {
        self.classes[class.0 as usize].ready.first_key_value().map(|ready| *ready.0)
    }

    /// Takes up to `count` tasks of the oldest submit of a class that has some.
    pub fn take(&mut self, class: ClassId, count: u64) -> Option<(TemplateId, IdSet)> {
        let mut taken = None;
        self.change(class, |class| {
            let Some((&template, ready)) = class.ready.iter_mut().next() else { return };
            let ids = ready.take_first(count);
            class.count -= ids.len();
            if ready.is_empty() {
                class.ready.remove(&template);
            }
            taken = Some((template, ids));
        });
        taken
    }

    /// Removes all tasks of a job.
    pub fn forget(&mut self, job: JobId) {
        let first = TemplateId { job, submit: 0 };
        let last = TemplateId { job, submit: u32::MAX };
        for index in 0..self.classes.len() {
            let keys: Vec<TemplateId> = self.classes[index].ready.range(first..=last).map(|e| *e.0).collect();
            for template in keys {
                self.change(ClassId(index as u32), |class| {
                    class.count -= class.ready.remove(&template).map_or(0, |ids| ids.len());
                });
            }
        }
    }

    /// The ready tasks of one submit.
    pub fn ready(&self, class: ClassId, template: TemplateId) -> Option<&IdSet> {
        self.classes[class.0 as usize].ready.get(&template)
    }

    // Keeps `order` in step with the head of the class.
    fn change(&mut self, id: ClassId, change: impl FnOnce(&mut Class)) {
        let class = &mut self.classes[id.0 as usize];
        let place = |class: &Class| {
            let (template, _) = class.ready.first_key_value()?;
            Some((Reverse(class.key.priority), Reverse(class.weight), *template, id))
        };
        let before = place(class);
        change(class);
        let after = place(class);
        if before != after {
            if !class.needs_cpus && !class.is_multi_node {
                self.without_cpus += usize::from(after.is_some());
                self.without_cpus -= usize::from(before.is_some());
            }
            let order = if class.is_multi_node { &mut self.multi_node } else { &mut self.order };
            if let Some(before) = before {
                order.remove(&before);
            }
            if let Some(after) = after {
                order.insert(after);
            }
        }
    }
}
