//! A sorted map from objects to something small, for very many entries.
//!
//! Entries lie in leaves: rows of up to 128 of one job, which have the number of each task and a pointer to each name, and not
//! the nodes of a tree. What comes in order fills one leaf after the other.

use std::collections::BTreeMap;

use hq_model::{JobId, ObjectId, ObjectName, TaskId, TaskRef};

/// Most entries of a leaf.
const LEAF_MAX: usize = 128;

/// The map.
#[derive(Clone, Debug)]
pub(in crate::server) struct ObjectMap<V> {
    // Each has entries of the job of its key, from the key on and before the next leaf. None is empty.
    leaves: BTreeMap<ObjectId, Leaf<V>>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Leaf<V> {
    tasks: Vec<TaskId>,
    names: Vec<ObjectName>,
    values: Vec<V>,
}

impl<V> Default for ObjectMap<V> {
    fn default() -> ObjectMap<V> {
        ObjectMap { leaves: BTreeMap::new(), len: 0 }
    }
}

// Where a leaf ends depends on the order in which things came.
impl<V: PartialEq> PartialEq for ObjectMap<V> {
    fn eq(&self, other: &ObjectMap<V>) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<V> ObjectMap<V> {
    /// How many entries there are.
    pub(in crate::server) fn len(&self) -> usize {
        self.len
    }

    /// True when there is none.
    pub(in crate::server) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// That of an object.
    pub(in crate::server) fn get(&self, object: &ObjectId) -> Option<&V> {
        let (_, leaf) = self.leaves.range(..=object).next_back().filter(|(key, _)| is_of_job(key, object))?;
        Some(&leaf.values[leaf.find(object).ok()?])
    }

    /// That of an object, to be changed.
    pub(in crate::server) fn get_mut(&mut self, object: &ObjectId) -> Option<&mut V> {
        let leaf = self.leaf_mut(object)?;
        let at = leaf.find(object).ok()?;
        Some(&mut leaf.values[at])
    }

    /// True when there is one for an object.
    pub(in crate::server) fn contains(&self, object: &ObjectId) -> bool {
        self.get(object).is_some()
    }

    /// A name equal to that of an object, near to where that would be: who takes this one shares its text.
    pub(in crate::server) fn name_like(&self, object: &ObjectId) -> Option<&ObjectName> {
        let (_, leaf) = self.leaves.range(..=object).next_back()?;
        leaf.names.iter().rev().find(|name| **name == object.name)
    }

    /// The entry of an object is this one; returns that before.
    pub(in crate::server) fn insert(&mut self, object: ObjectId, value: V) -> Option<V> {
        if let Some(leaf) = self.leaf_mut(&object) {
            match leaf.find(&object) {
                Ok(at) => return Some(std::mem::replace(&mut leaf.values[at], value)),
                Err(at) if leaf.tasks.len() < LEAF_MAX => {
                    leaf.insert(at, object, value);
                    self.len += 1;
                    return None;
                }
                Err(at) if at < LEAF_MAX => {
                    let tail = leaf.split(at);
                    let first = tail.first(object.task.job);
                    self.leaves.insert(first, tail);
                    return self.insert(object, value);
                }
                Err(_) => {}
            }
        }
        self.insert_between(object, value);
        None
    }

    // No leaf may have it as it is: the next one of the job begins with it, or one of its own.
    fn insert_between(&mut self, object: ObjectId, value: V) {
        let next = self.leaves.range(&object..).next();
        let next = next.filter(|(key, leaf)| is_of_job(key, &object) && leaf.tasks.len() < LEAF_MAX);
        let next = next.map(|(key, _)| key.clone());
        let leaf = next.and_then(|key| self.leaves.remove(&key));
        let mut leaf =
            leaf.unwrap_or_else(|| Leaf { tasks: Vec::new(), names: Vec::new(), values: Vec::new() });
        leaf.insert(0, object.clone(), value);
        self.leaves.insert(object, leaf);
        self.len += 1;
    }

    /// Takes the entry of an object out.
    pub(in crate::server) fn remove(&mut self, object: &ObjectId) -> Option<V> {
        let (key, leaf) =
            self.leaves.range_mut(..=object).next_back().filter(|(key, _)| is_of_job(key, object))?;
        let at = leaf.find(object).ok()?;
        let value = leaf.remove(at);
        if leaf.tasks.is_empty() {
            let key = key.clone();
            self.leaves.remove(&key);
        }
        self.len -= 1;
        Some(value)
    }

    /// Takes all entries of a job out.
    pub(in crate::server) fn remove_job(&mut self, job: JobId) {
        let begin = |job| ObjectId::before_all(TaskRef::new(job, TaskId(0)));
        let of_job = begin(job)..begin(JobId(job.0.saturating_add(1)));
        let removed = self.leaves.extract_if(of_job, |_, _| true);
        self.len -= removed.map(|(_, leaf)| leaf.tasks.len()).sum::<usize>();
    }

    /// All of them, in order.
    pub(in crate::server) fn iter(&self) -> impl Iterator<Item = (TaskRef, &ObjectName, &V)> {
        self.leaves.iter().flat_map(|(key, leaf)| leaf.iter(key.task.job))
    }

    /// The same from an object on, which need not be there.
    pub(in crate::server) fn iter_from<'a>(
        &'a self,
        from: &ObjectId,
    ) -> impl Iterator<Item = (TaskRef, &'a ObjectName, &'a V)> + use<'a, V> {
        let before = self.leaves.range(..=from).next_back().filter(|(key, _)| is_of_job(key, from));
        let skipped = before.map_or(0, |(_, leaf)| leaf.find(from).unwrap_or_else(|at| at));
        let begin = before.map_or(from, |(key, _)| key);
        self.leaves.range(begin..).flat_map(|(key, leaf)| leaf.iter(key.task.job)).skip(skipped)
    }

    /// Those of a job from one task to another, in order.
    pub(in crate::server) fn of_tasks(
        &self,
        job: JobId,
        (first, last): (TaskId, TaskId),
    ) -> impl Iterator<Item = (TaskRef, &ObjectName, &V)> + use<'_, V> {
        let from = ObjectId::before_all(TaskRef::new(job, first));
        let last = TaskRef::new(job, last);
        self.iter_from(&from).take_while(move |(task, _, _)| *task <= last)
    }

    // The leaf in which the entry of an object is, if it is anywhere.
    fn leaf_mut(&mut self, object: &ObjectId) -> Option<&mut Leaf<V>> {
        let before = self.leaves.range_mut(..=object).next_back();
        before.filter(|(key, _)| is_of_job(key, object)).map(|(_, leaf)| leaf)
    }
}

impl<V: Default> ObjectMap<V> {
    /// That of an object, which is made where there is none.
    pub(in crate::server) fn get_or_default(&mut self, object: &ObjectId) -> &mut V {
        if !self.contains(object) {
            self.insert(object.clone(), V::default());
        }
        self.get_mut(object).expect("it is there now")
    }
}

impl<V> Leaf<V> {
    // Where it is, or would be.
    fn find(&self, object: &ObjectId) -> Result<usize, usize> {
        let task = object.task.task;
        let begin = self.tasks.partition_point(|other| *other < task);
        let count = self.tasks[begin..].partition_point(|other| *other == task);
        let found = self.names[begin..begin + count].binary_search(&object.name);
        found.map(|at| begin + at).map_err(|at| begin + at)
    }

    fn insert(&mut self, at: usize, object: ObjectId, value: V) {
        if self.tasks.len() == self.tasks.capacity() {
            let more = self.tasks.len().clamp(4, LEAF_MAX / 2).min(LEAF_MAX - self.tasks.len());
            self.tasks.reserve_exact(more);
            self.names.reserve_exact(more);
            self.values.reserve_exact(more);
        }
        self.tasks.insert(at, object.task.task);
        self.names.insert(at, object.name);
        self.values.insert(at, value);
    }

    fn remove(&mut self, at: usize) -> V {
        self.tasks.remove(at);
        self.names.remove(at);
        let value = self.values.remove(at);
        if self.tasks.len() * 4 <= self.tasks.capacity() {
            self.shrink();
        }
        value
    }

    fn shrink(&mut self) {
        self.tasks.shrink_to_fit();
        self.names.shrink_to_fit();
        self.values.shrink_to_fit();
    }

    // What is behind a place becomes a leaf of its own, or the second half: what comes nearly in order leaves full ones behind.
    fn split(&mut self, at: usize) -> Leaf<V> {
        let is_near_end = at >= LEAF_MAX / 4 * 3;
        let from = if is_near_end { at } else { self.tasks.len() / 2 };
        let tail = Leaf {
            tasks: self.tasks.split_off(from),
            names: self.names.split_off(from),
            values: self.values.split_off(from),
        };
        if !is_near_end {
            self.shrink();
        }
        tail
    }

    fn first(&self, job: JobId) -> ObjectId {
        ObjectId { task: TaskRef::new(job, self.tasks[0]), name: self.names[0].clone() }
    }

    fn iter(&self, job: JobId) -> impl Iterator<Item = (TaskRef, &ObjectName, &V)> {
        let tasks = self.tasks.iter().map(move |task| TaskRef::new(job, *task));
        tasks.zip(&self.names).zip(&self.values).map(|((task, name), value)| (task, name, value))
    }
}

fn is_of_job(key: &ObjectId, object: &ObjectId) -> bool {
    key.task.job == object.task.job
}

#[cfg(test)]
mod tests {
    use super::*;

    type Known = BTreeMap<ObjectId, u32>;

    fn object(number: u32) -> ObjectId {
        let name = ["b", "a", "c"][number as usize % 3].parse().expect("a name");
        ObjectId { task: TaskRef::new(JobId(number / 3000 + 1), TaskId(number % 3000 / 3)), name }
    }

    // Numbers in an order that looks like none.
    fn mixed(count: u32) -> impl Iterator<Item = u32> {
        (0..count).map(move |place| (u64::from(place) * 7919 % u64::from(count)) as u32)
    }

    fn check(map: &ObjectMap<u32>, known: &Known) {
        let all = map.iter().map(|(task, name, value)| (ObjectId { task, name: name.clone() }, *value));
        assert!(all.eq(known.iter().map(|(object, value)| (object.clone(), *value))));
        assert_eq!((map.len(), map.is_empty()), (known.len(), known.is_empty()));
        for (key, leaf) in &map.leaves {
            assert!(*key <= leaf.first(key.task.job) && leaf.tasks.len() <= LEAF_MAX);
        }
    }

    #[test]
    fn it_is_what_a_tree_is_in_whatever_order_things_come_and_go() {
        const COUNT: u32 = 9000;
        let orders: [fn() -> Vec<u32>; 3] =
            [|| (0..COUNT).collect(), || (0..COUNT).rev().collect(), || mixed(COUNT).collect()];
        for order in orders {
            let (mut map, mut known) = (ObjectMap::default(), Known::new());
            for number in order() {
                assert_eq!(map.insert(object(number), number), known.insert(object(number), number));
                assert_eq!(map.insert(object(number), number + 1), known.insert(object(number), number + 1));
            }
            check(&map, &known);
            for number in mixed(COUNT).filter(|number| number % 5 != 0) {
                assert_eq!(map.remove(&object(number)), known.remove(&object(number)));
                assert!(!map.contains(&object(number)) && map.remove(&object(number)).is_none());
            }
            check(&map, &known);
            for number in mixed(COUNT) {
                *map.get_or_default(&object(number)) += 1;
                *known.entry(object(number)).or_default() += 1;
            }
            check(&map, &known);
            map.remove_job(JobId(2));
            known.retain(|object, _| object.task.job != JobId(2));
            check(&map, &known);
        }
    }

    #[test]
    fn it_is_read_from_any_place_on() {
        let numbers = || mixed(9000).filter(|number| number % 7 > 2);
        let (mut map, mut known) = (ObjectMap::default(), Known::new());
        for number in numbers() {
            map.insert(object(number), number);
            known.insert(object(number), number);
        }
        for number in (0..9010).step_by(37) {
            let from = object(number);
            let all = map.iter_from(&from).map(|(_, _, value)| *value);
            assert!(all.eq(known.range(&from..).map(|(_, value)| *value)), "from {from}");
            let tasks = (from.task.task, TaskId(from.task.task.0 + 50));
            let some = map.of_tasks(from.task.job, tasks).map(|(task, _, _)| task);
            let is_among = |task: &TaskRef| (tasks.0..=tasks.1).contains(&task.task);
            let meant = known.keys().map(|object| object.task).filter(|task| task.job == from.task.job);
            assert!(some.eq(meant.filter(is_among)), "from {from}");
        }
    }

    #[test]
    fn two_are_equal_however_they_came_to_be() {
        let of = |numbers: Vec<u32>| {
            let mut map = ObjectMap::default();
            for number in numbers {
                map.insert(object(number), number);
            }
            map
        };
        let (first, mut second) = (of((0..900).collect()), of(mixed(900).collect()));
        assert_eq!(first, second);
        second.insert(object(3), 4);
        assert_ne!(first, second);
        second.remove(&object(3));
        assert_ne!(first, second);
    }

    #[test]
    fn leaves_are_full_where_things_come_in_order_or_nearly() {
        let near = (0..2560).map(|number| number ^ 3).collect();
        for numbers in [(0..2560).collect::<Vec<u32>>(), (0..2560).rev().collect(), near] {
            let mut map = ObjectMap::default();
            for number in numbers {
                map.insert(object(number * 3), number);
            }
            let room: usize = map.leaves.values().map(|leaf| leaf.values.capacity()).sum();
            assert!(room < 2560 + 3 * LEAF_MAX, "there is room for {room}");
        }
    }
}
