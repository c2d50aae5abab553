//! The graph of a job file: names are resolved, cycles are found, and the tasks are brought into an order in which each
//! comes after those it waits for.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use hq_model::dependency::{After, Edges, Mapping, find_cycle};
use hq_model::job::TaskIds;
use hq_model::{Dependencies, Entries, IdSet, JobId, Submit, TaskId};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// A task that another one of the file waits for.
#[derive(Clone)]
pub(super) enum Dep {
    Id(u32),
    Name(String),
}

impl<'de> Deserialize<'de> for Dep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Dep, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Dep;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the id of a task, from 0, or a string: its name or key")
            }

            fn visit_i64<E: Error>(self, id: i64) -> Result<Dep, E> {
                let wrong = |_| E::invalid_value(Unexpected::Signed(id), &self);
                u32::try_from(id).map(Dep::Id).map_err(wrong)
            }

            fn visit_u64<E: Error>(self, id: u64) -> Result<Dep, E> {
                let wrong = |_| E::invalid_value(Unexpected::Unsigned(id), &self);
                u32::try_from(id).map(Dep::Id).map_err(wrong)
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Dep, E> {
                Ok(Dep::Name(name.to_owned()))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// The tasks of a file, in its order.
#[derive(Default)]
pub(super) struct Graph {
    names: BTreeMap<String, TaskId>,
    keys: BTreeMap<String, TaskId>,
    tasks: Vec<(TaskId, Vec<Dep>)>,
}

impl Graph {
    /// Adds a task.
    ///
    /// # Errors
    /// When its name is taken or empty.
    pub(super) fn add(&mut self, id: TaskId, name: Option<String>, deps: Vec<Dep>) -> Result<(), String> {
        if let Some(name) = name {
            if name.is_empty() {
                return Err("name is empty".into());
            }
            if let Some(other) = self.names.insert(name.clone(), id) {
                return Err(format!("the name `{name}` is already used by {}", self.place_of(other)));
            }
        }
        self.tasks.push((id, deps));
        Ok(())
    }

    /// Notes the key of a task: `deps` may name it, too.
    ///
    /// # Errors
    /// When it is taken.
    pub(super) fn note_key(&mut self, key: &str, id: TaskId) -> Result<(), String> {
        match self.keys.insert(key.to_owned(), id) {
            Some(other) => Err(format!("the key `{key}` is already used by {}", self.place_of(other))),
            None => Ok(()),
        }
    }

    /// The task of the file that has a name or a key.
    pub(super) fn named_task(&self, name: &str) -> Option<TaskId> {
        self.names.get(name).or_else(|| self.keys.get(name)).copied()
    }

    // Where a task stands in the file, counted as for whatever is wrong with a table.
    fn place_of(&self, id: TaskId) -> String {
        let place = self.tasks.iter().position(|task| task.0 == id);
        place.map_or_else(|| format!("task {id}"), |place| format!("task {} of the file", place + 1))
    }

    /// The submits, one for each task in the order in which they were added, so that each comes after those it waits
    /// for. Neighbors that differ only in what they wait for become one. With `into`, tasks may wait for others
    /// that are in this job already, by their ids or keys.
    ///
    /// # Errors
    /// When tasks wait for each other, or for tasks that are not there.
    pub(super) fn in_order(
        self,
        mut submits: Vec<Submit>,
        into: Option<JobId>,
    ) -> Result<Vec<Submit>, String> {
        let places: BTreeMap<TaskId, usize> =
            self.tasks.iter().enumerate().map(|(place, (id, _))| (*id, place)).collect();
        let mut targets: Vec<Vec<TaskId>> = Vec::with_capacity(self.tasks.len());
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); self.tasks.len()];
        let mut open: Vec<usize> = Vec::with_capacity(self.tasks.len());
        for (place, (_, deps)) in self.tasks.iter().enumerate() {
            let invalid = |what: String| format!("deps of task {} of the file: {what}", place + 1);
            let mut list: Vec<TaskId> = Vec::with_capacity(deps.len());
            for dep in deps {
                let target = match dep {
                    Dep::Id(id) => TaskId(*id),
                    Dep::Name(name) => match (self.named_task(name), into) {
                        (Some(target), _) => target,
                        (None, Some(job)) => {
                            let after = After { key: Some(name.clone()), ..After::of(job) };
                            Arc::make_mut(&mut submits[place].dependencies).after.push(after);
                            continue;
                        }
                        (None, None) => {
                            return Err(invalid(format!("no task of the file is named `{name}`")));
                        }
                    },
                };
                if into.is_none() && !places.contains_key(&target) {
                    return Err(invalid(format!("there is no task with id {target} in the file")));
                }
                list.push(target);
            }
            list.sort_unstable();
            list.dedup();
            let inner = list.iter().filter_map(|target| places.get(target));
            open.push(inner.clone().count());
            inner.for_each(|target| waiting[*target].push(place));
            targets.push(list);
        }
        let mut free: VecDeque<usize> = (0..open.len()).filter(|place| open[*place] == 0).collect();
        let mut order = Vec::with_capacity(open.len());
        while let Some(place) = free.pop_front() {
            order.push(place);
            for next in &waiting[place] {
                open[*next] -= 1;
                if open[*next] == 0 {
                    free.push_back(*next);
                }
            }
        }
        if order.len() < self.tasks.len() {
            return Err(self.cycle(&targets));
        }
        Ok(merged(submits, &order, targets))
    }

    fn cycle(&self, targets: &[Vec<TaskId>]) -> String {
        let lists: BTreeMap<TaskId, &Vec<TaskId>> =
            self.tasks.iter().map(|task| task.0).zip(targets).collect();
        let ids: IdSet = lists.keys().copied().collect();
        let found = Edges::new(lists.into_values()).and_then(|edges| find_cycle(&ids, &edges));
        let words: Vec<String> = found.iter().flatten().map(|id| self.named(*id)).collect();
        format!("deps: tasks wait for each other in a cycle: {}", words.join(" -> "))
    }

    // A task as the file calls it.
    fn named(&self, id: TaskId) -> String {
        let names = self.names.iter().chain(&self.keys);
        match names.into_iter().find(|(_, named)| **named == id) {
            Some((name, _)) => format!("`{name}`"),
            None => format!("task with id {id}"),
        }
    }
}

// What a task of a merged submit has for itself.
struct Part {
    list: Vec<TaskId>,
    key: Option<Vec<u8>>,
}

// The submits in that order; those that differ only in their edges become one as long as they are neighbors.
fn merged(submits: Vec<Submit>, order: &[usize], mut targets: Vec<Vec<TaskId>>) -> Vec<Submit> {
    let mut submits: Vec<Option<Submit>> = submits.into_iter().map(Some).collect();
    let mut found: Vec<(Submit, BTreeMap<TaskId, Part>)> = Vec::new();
    for place in order {
        let Some(submit) = submits[*place].take() else { continue };
        let TaskIds::Given(ids) = &submit.ids else { continue };
        let list = std::mem::take(&mut targets[*place]);
        let key = submit.keys.get(0).map(<[u8]>::to_vec);
        let lists = ids.iter().map(|id| (id, Part { list: list.clone(), key: key.clone() }));
        match found.last_mut().filter(|(last, _)| are_alike(last, &submit)) {
            Some((_, last)) => last.extend(lists),
            None => {
                let lists = lists.collect();
                found.push((submit, lists));
            }
        }
    }
    let whole = |(submit, lists): (Submit, BTreeMap<TaskId, Part>)| {
        let ids = TaskIds::Given(lists.keys().copied().collect());
        // A file is far too short for more edges than can be counted.
        let edges = Edges::new(lists.values().map(|part| &part.list)).unwrap_or_default();
        let keys = lists.values().filter_map(|part| part.key.as_deref());
        let keys = Entries::new(keys).unwrap_or_default();
        let (after, files) = (submit.dependencies.after.clone(), submit.dependencies.files.clone());
        Submit {
            ids,
            keys,
            dependencies: Arc::new(Dependencies { after, files, edges, ..Dependencies::default() }),
            ..submit
        }
    };
    found.into_iter().map(whole).collect()
}

/// True when nobody waits for those at certain places: then tasks may have other neighbors in their submit.
pub(super) fn maps_all(dependencies: &Dependencies) -> bool {
    dependencies.after.iter().all(|after| after.mapping == Mapping::All)
}

fn are_alike(one: &Submit, other: &Submit) -> bool {
    let no_entries = Entries::default();
    one.spec == other.spec
        && one.keys.is_empty() == other.keys.is_empty()
        && one.dependencies.after == other.dependencies.after
        && maps_all(&one.dependencies)
        && one.dependencies.files == other.dependencies.files
        && one.entries == no_entries
        && other.entries == no_entries
}
