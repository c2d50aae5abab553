//! Ready tasks, grouped into request classes: the unit of placement.
//!
//! A class is all submits with equal requests and priority. Classes are visited by priority, then by weight, then by
//! when their first tasks are due ([`super::step`]): the earlier they came and the longer the path to the end of their graph
//! is; then by the age of their oldest job. So are the tasks within a class. Classes on several nodes have an order of their own, and so have the pulled tasks of each bag: only relays have room for them, which
//! have room for nothing else.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use hq_model::request::CPUS;
use hq_model::{AmountRequest, IdSet, JobId, Request, TaskId};

use super::step::Due;
use crate::worker_messages::TemplateId;

/// Names a request class; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl ClassId {
    // Set in the numbers of classes whose tasks leave or take objects.
    const STORE: u32 = 1 << 31;

    /// True when only workers that store objects can run its tasks.
    pub fn needs_store(self) -> bool {
        self.0 & ClassId::STORE != 0
    }
}

/// What tasks of a class have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassKey {
    /// Larger first.
    pub priority: i32,
    /// Variants.
    pub requests: Vec<Request>,
    /// The job whose share they have.
    pub share: Option<JobId>,
    /// They leave or take objects.
    pub stores: bool,
}

/// The ready tasks of all jobs.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    ids: BTreeMap<ClassKey, ClassId>,
    classes: BTreeMap<ClassId, Class>,
    last: u32,
    order: BTreeSet<Place>,
    multi_node: BTreeSet<Place>,
    // Of each bag, by the resource that its tasks ask for.
    pulled: BTreeMap<String, BTreeSet<Place>>,
    // Classes in `order` of which some variant needs no CPUs.
    without_cpus: usize,
}

/// Where a class stands: priority and weight, when its head is due, and of which submit that is.
pub(super) type Place = (Reverse<i32>, Reverse<u32>, Due, TemplateId, ClassId);

// Tasks of a submit that are due at one time.
type Group = (Due, TemplateId);

#[derive(Clone, Debug)]
struct Class {
    key: ClassKey,
    // The largest of its variants.
    weight: u32,
    // Units of CPUs that a task takes at least, whatever its variant.
    cpus_least: u64,
    order: Order,
    // Submits that are known to be of this class.
    submits: u64,
    ready: BTreeMap<Group, IdSet>,
    // When those in `ready` are due.
    dues: BTreeMap<TemplateId, BTreeSet<Due>>,
    count: u64,
}

// In which order a class stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Order {
    WithinWorker,
    MultiNode,
    // The resource of the bag.
    Pulled(String),
}

impl Order {
    fn of(requests: &[Request]) -> Order {
        if let Some(resource) = requests.iter().find_map(Request::pulled_resource) {
            return Order::Pulled(resource.to_owned());
        }
        let is_multi_node = requests.iter().any(|request| request.nodes > 0);
        if is_multi_node { Order::MultiNode } else { Order::WithinWorker }
    }
}

impl Queue {
    /// The class of these requests and priority, for one submit more; jobs with a share have classes of their own.
    pub fn class(
        &mut self,
        priority: i32,
        requests: &[Request],
        share: Option<JobId>,
        stores: bool,
    ) -> ClassId {
        let key = ClassKey { priority, requests: requests.to_vec(), share, stores };
        if let Some(id) = self.ids.get(&key) {
            if let Some(class) = self.classes.get_mut(id) {
                class.submits += 1;
            }
            return *id;
        }
        self.last += 1;
        let id = ClassId(self.last | if stores { ClassId::STORE } else { 0 });
        self.ids.insert(key.clone(), id);
        let weight = requests.iter().map(|request| request.weight).max().unwrap_or_default();
        let class = Class {
            weight,
            cpus_least: requests.iter().map(cpus_least).min().unwrap_or(0),
            order: Order::of(requests),
            submits: 1,
            ready: BTreeMap::new(),
            dues: BTreeMap::new(),
            count: 0,
            key,
        };
        self.classes.insert(id, class);
        id
    }

    /// A submit of a class is over. The class is forgotten with its last one.
    pub fn leave(&mut self, id: ClassId) {
        let Some(class) = self.classes.get_mut(&id) else { return };
        class.submits -= 1;
        if class.submits == 0 && class.count == 0 {
            self.ids.remove(&class.key);
            self.classes.remove(&id);
        }
    }

    /// True when some submit of the class is not over.
    pub fn knows(&self, class: ClassId) -> bool {
        self.classes.contains_key(&class)
    }

    /// Number of classes with submits that are not over.
    pub fn class_count(&self) -> usize {
        self.classes.len()
    }

    /// What the tasks of a class have in common.
    ///
    /// # Panics
    /// When the class is forgotten.
    pub fn key(&self, class: ClassId) -> &ClassKey {
        &self.classes[&class].key
    }

    /// The priority and the weight of a class: what users say of its order.
    pub fn wish(&self, class: ClassId) -> (i32, u32) {
        let class = &self.classes[&class];
        (class.key.priority, class.weight)
    }

    /// Ready tasks of a class.
    pub fn count(&self, class: ClassId) -> u64 {
        self.classes.get(&class).map_or(0, |class| class.count)
    }

    /// Units of CPUs that a task of a class takes at least, whatever its variant.
    pub fn cpus_least(&self, class: ClassId) -> u64 {
        self.classes.get(&class).map_or(0, |class| class.cpus_least)
    }

    /// True when its tasks run on several nodes.
    pub fn is_multi_node(&self, class: ClassId) -> bool {
        self.classes.get(&class).is_some_and(|class| class.order == Order::MultiNode)
    }

    /// The resource of the bag of which its tasks are.
    pub fn pulled_resource(&self, class: ClassId) -> Option<&str> {
        match &self.classes.get(&class)?.order {
            Order::Pulled(resource) => Some(resource),
            Order::WithinWorker | Order::MultiNode => None,
        }
    }

    /// Classes of a bag with ready tasks, in the order in which they are placed.
    pub fn of_bag(&self, resource: &str) -> impl Iterator<Item = ClassId> + '_ {
        self.pulled.get(resource).into_iter().flatten().map(|place| place.4)
    }

    /// Classes of all bags with ready tasks.
    pub fn pulled(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.pulled.values().flatten().map(|place| place.4)
    }

    /// Classes on several nodes with ready tasks, in the order in which they are placed.
    pub fn multi_node(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.multi_node.iter().map(|place| place.4)
    }

    /// As [`Queue::next`], of classes on several nodes.
    pub fn next_multi_node(&self, after: Option<Place>) -> Option<Place> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.multi_node.range((from, Bound::Unbounded)).next().copied()
    }

    /// The place in the order of who comes first, on one worker or on several.
    pub fn first(&self) -> Option<Place> {
        self.next(None).map(|next| next.0).into_iter().chain(self.next_multi_node(None)).min()
    }

    /// Where a task of a class would stand.
    pub fn place_as(&self, class: ClassId, template: TemplateId, due: Due) -> Place {
        let Class { key, weight, .. } = &self.classes[&class];
        (Reverse(key.priority), Reverse(*weight), due, template, class)
    }

    /// Classes within one worker with ready tasks, in the order in which they are placed, without pulled ones.
    pub fn in_order(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.order.iter().map(|place| place.4)
    }

    /// True when tasks of more than one class are ready.
    pub fn is_mixed(&self) -> bool {
        self.order.len() > 1
    }

    /// The class that comes after a place in the order, or the first one.
    pub fn next(&self, after: Option<Place>) -> Option<(Place, ClassId)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.order.range((from, Bound::Unbounded)).next().map(|place| (*place, place.4))
    }

    /// Classes of a priority with ready tasks, in the order in which they are placed.
    pub fn of_priority(&self, priority: i32) -> impl Iterator<Item = ClassId> + '_ {
        let oldest = TemplateId { job: JobId(0), submit: 0 };
        let first: Place = (Reverse(priority), Reverse(u32::MAX), Due::MIN, oldest, ClassId(0));
        self.order.range(first..).take_while(move |place| place.0.0 == priority).map(|place| place.4)
    }

    /// True when no ready task can run without CPUs.
    pub fn all_need_cpus(&self) -> bool {
        self.without_cpus == 0
    }

    /// True when no task is ready, but for pulled ones.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.multi_node.is_empty()
    }

    /// Adds ready tasks that are due at a time.
    pub fn add(&mut self, class: ClassId, template: TemplateId, due: Due, ids: &IdSet) {
        if ids.is_empty() {
            return;
        }
        self.change(class, |class| {
            let ready = class.ready.entry((due, template)).or_default();
            let before = ready.len();
            ready.union_with(ids);
            class.count += ready.len() - before;
            class.dues.entry(template).or_default().insert(due);
        });
    }

    /// Removes tasks, as far as they are ready.
    pub fn remove(&mut self, class: ClassId, template: TemplateId, ids: &IdSet) {
        self.change(class, |class| {
            let dues: Vec<Due> = class.dues.get(&template).into_iter().flatten().copied().collect();
            for due in dues {
                class.take_out((due, template), |ready| {
                    let taken = ready.intersection(ids);
                    ready.subtract(&taken);
                    taken
                });
            }
        });
    }

    /// Where a ready task stands: the place of its class if it was at its head.
    pub fn place_of(&self, id: ClassId, template: TemplateId, task: TaskId) -> Option<Place> {
        let class = self.classes.get(&id)?;
        let holds =
            |due: &&Due| class.ready.get(&(**due, template)).is_some_and(|ready| ready.contains(task));
        let due = class.dues.get(&template)?.iter().find(holds)?;
        Some((Reverse(class.key.priority), Reverse(class.weight), *due, template, id))
    }

    /// Classes on several nodes with ready tasks of at least this priority.
    pub fn multi_node_of(&self, priority_min: i32) -> impl Iterator<Item = (Place, ClassId)> + '_ {
        let is_of = move |place: &&Place| place.0.0 >= priority_min;
        self.multi_node.iter().take_while(is_of).map(|place| (*place, place.4))
    }

    /// As [`Queue::multi_node_of`], of classes within one worker, with more than this priority.
    pub fn within_worker_above(&self, priority: i32) -> impl Iterator<Item = (Place, ClassId)> + '_ {
        let is_above = move |place: &&Place| place.0.0 > priority;
        self.order.iter().take_while(is_above).map(|place| (*place, place.4))
    }

    /// Classes with ready tasks, in the order in which the class of a place stands, whose head goes before that place.
    pub fn before(&self, place: Place) -> impl Iterator<Item = (Place, ClassId)> + '_ {
        let order = match self.classes.get(&place.4).map(|class| &class.order) {
            Some(Order::MultiNode) => Some(&self.multi_node),
            Some(Order::Pulled(resource)) => self.pulled.get(resource),
            Some(Order::WithinWorker) | None => Some(&self.order),
        };
        order.into_iter().flat_map(move |order| order.range(..place)).map(|before| (*before, before.4))
    }

    /// The ready tasks of a class in their order: of which submit how many are due when.
    pub fn groups(&self, class: ClassId) -> impl Iterator<Item = (Due, TemplateId, &IdSet)> + '_ {
        let ready = self.classes.get(&class).map(|class| &class.ready);
        ready.into_iter().flatten().map(|((due, template), ids)| (*due, *template, ids))
    }

    /// The first submit of a class that has ready tasks, and when they are due.
    pub fn head(&self, class: ClassId) -> Option<(Due, TemplateId)> {
        Some(*self.classes.get(&class)?.ready.first_key_value()?.0)
    }

    /// Ready tasks at the head of a class.
    pub fn head_ids(&self, class: ClassId) -> Option<&IdSet> {
        self.classes.get(&class)?.ready.first_key_value().map(|ready| ready.1)
    }

    /// Takes up to `count` tasks of the head of a class.
    pub fn take(&mut self, class: ClassId, count: u64) -> Option<(TemplateId, IdSet)> {
        let (due, template) = self.head(class)?;
        let mut taken = IdSet::new();
        self.change(class, |class| {
            taken = class.take_out((due, template), |ready| ready.take_first(count));
        });
        Some((template, taken))
    }

    /// The ready tasks of one submit.
    pub fn ready(&self, class: ClassId, template: TemplateId) -> IdSet {
        let mut all = IdSet::new();
        let Some(class) = self.classes.get(&class) else { return all };
        for due in class.dues.get(&template).into_iter().flatten() {
            if let Some(ids) = class.ready.get(&(*due, template)) {
                all.union_with(ids);
            }
        }
        all
    }

    // Keeps `order` in step with the head of the class.
    fn change(&mut self, id: ClassId, change: impl FnOnce(&mut Class)) {
        let Some(class) = self.classes.get_mut(&id) else { return };
        let place = |class: &Class| {
            let (group, _) = class.ready.first_key_value()?;
            Some((Reverse(class.key.priority), Reverse(class.weight), group.0, group.1, id))
        };
        let before = place(class);
        change(class);
        let after = place(class);
        if before != after {
            if class.cpus_least == 0 && class.order == Order::WithinWorker {
                self.without_cpus += usize::from(after.is_some());
                self.without_cpus -= usize::from(before.is_some());
            }
            let order = match &class.order {
                Order::WithinWorker => &mut self.order,
                Order::MultiNode => &mut self.multi_node,
                Order::Pulled(resource) => self.pulled.entry(resource.clone()).or_default(),
            };
            if let Some(before) = before {
                order.remove(&before);
            }
            if let Some(after) = after {
                order.insert(after);
            } else if let Order::Pulled(resource) = &class.order
                && order.is_empty()
            {
                self.pulled.remove(resource);
            }
        }
    }
}

fn cpus_least(request: &Request) -> u64 {
    let cpus = request.resources.iter().find(|resource| resource.name == CPUS);
    cpus.map_or(0, |cpus| match cpus.amount {
        AmountRequest::All => 1,
        AmountRequest::Some(amount, _) => amount.0.saturating_mul(request.ranks.max(1).into()),
    })
}

impl Class {
    fn take_out(&mut self, group: Group, take: impl FnOnce(&mut IdSet) -> IdSet) -> IdSet {
        let Some(ready) = self.ready.get_mut(&group) else { return IdSet::new() };
        let taken = take(ready);
        self.count -= taken.len();
        if ready.is_empty() {
            self.ready.remove(&group);
            if let Some(dues) = self.dues.get_mut(&group.1) {
                dues.remove(&group.0);
                if dues.is_empty() {
                    self.dues.remove(&group.1);
                }
            }
        }
        taken
    }
}
