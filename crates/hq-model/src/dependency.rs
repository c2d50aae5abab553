//! What tasks wait for before they may start.
//!
//! Arrays wait for arrays as wholes or element by element, at the cost of an interval; single tasks wait for single
//! tasks, at the cost of an edge.

use std::collections::VecDeque;
use std::fmt;
use std::num::{IntErrorKind, NonZeroU32, ParseIntError};
use std::str::FromStr;

use crate::idset::IdSetError;
use crate::key::{KeyError, check_key};
use crate::{ByteString, Entries, IdSet, JobId, TaskId};

/// All that the tasks of one submit wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// What all of them wait for, or each for its part of it.
    pub after: Vec<After>,
    /// Files that all of them wait for, absolute paths: until they exist.
    pub files: Vec<ByteString>,
    /// What each of them waits for in its own job.
    pub edges: Edges,
    /// The same by keys, instead of `edges`; only until the server has looked them up.
    pub named: NamedEdges,
}

impl Dependencies {
    /// True when the tasks wait for nothing.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty() && self.files.is_empty() && self.edges.is_empty() && self.named.is_empty()
    }
}

/// Tasks that others wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    /// Their job; [`After::LAST`] only until the server has looked it up.
    pub job: JobId,
    /// Which of it; `None` for the whole job, which has to be closed, too.
    pub tasks: Option<IdSet>,
    /// One of it, by its key; only until the server has looked it up.
    pub key: Option<String>,
    /// How they must end.
    pub condition: Condition,
    /// Who of the waiting tasks waits for which of them.
    pub mapping: Mapping,
}

impl After {
    /// Stands for the job that was made last. No job has this id.
    pub const LAST: JobId = JobId(0);

    /// The success of a whole job.
    pub fn of(job: JobId) -> After {
        let (condition, mapping) = (Condition::default(), Mapping::default());
        After { job, tasks: None, key: None, condition, mapping }
    }
}

/// How a task must end for those that wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Condition {
    /// With success; when it ends otherwise, those that wait are aborted.
    #[default]
    Success,
    /// In any way.
    AnyEnd,
}

/// Who of the waiting tasks waits for which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// Each for all.
    #[default]
    All,
    /// The element at place `i` for those at the places from `i - K` to `i + K`, as far as there are; both sides have
    /// equally many tasks. With 0, element after element.
    Window(u32),
}

/// Single dependencies in one job: for each task of a submit, in order of ids, a list of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    // Where the list of each task ends in `targets`; empty when there is no edge.
    ends: Vec<u32>,
    targets: Vec<TaskId>,
}

impl Edges {
    /// The lists of all tasks of a submit, in order of ids. `None` when there are more than 4 294 967 295 edges.
    pub fn new<L: AsRef<[TaskId]>>(lists: impl IntoIterator<Item = L>) -> Option<Edges> {
        let mut edges = Edges::default();
        for list in lists {
            edges.targets.extend_from_slice(list.as_ref());
            edges.ends.push(u32::try_from(edges.targets.len()).ok()?);
        }
        Some(if edges.targets.is_empty() { Edges::default() } else { edges })
    }

    /// Number of tasks whose lists are given; 0 when there is no edge.
    pub fn lists(&self) -> usize {
        self.ends.len()
    }

    /// True when there is no edge.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Number of edges.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// What the task at a place in its submit waits for.
    pub fn of(&self, place: usize) -> &[TaskId] {
        let Some(&end) = self.ends.get(place) else { return &[] };
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.targets[start as usize..end as usize]
    }

    /// The lists, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[TaskId]> {
        (0..self.ends.len()).map(|place| self.of(place))
    }

    /// All targets, list after list.
    pub fn targets(&self) -> &[TaskId] {
        &self.targets
    }
}

/// Single dependencies in one job, by the keys of what is waited for: for each task of a submit, in order of ids, a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedEdges {
    // Where the list of each task ends in `keys`; empty when there is no edge.
    ends: Vec<u32>,
    keys: Entries,
}

impl NamedEdges {
    /// The lists of all tasks of a submit, in order of ids. `None` when there are more than 4 294 967 295 edges, or their keys
    /// have more than 4 GiB.
    pub fn new<'a, L: IntoIterator<Item = &'a [u8]>>(
        lists: impl IntoIterator<Item = L>,
    ) -> Option<NamedEdges> {
        let (mut ends, mut keys) = (Vec::new(), Vec::new());
        for list in lists {
            keys.extend(list);
            ends.push(u32::try_from(keys.len()).ok()?);
        }
        if keys.is_empty() {
            return Some(NamedEdges::default());
        }
        Some(NamedEdges { ends, keys: Entries::new(keys)? })
    }

    /// Number of tasks whose lists are given; 0 when there is no edge.
    pub fn lists(&self) -> usize {
        self.ends.len()
    }

    /// True when there is no edge.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Keys of what the task at a place in its submit waits for.
    pub fn of(&self, place: usize) -> impl Iterator<Item = &[u8]> {
        let end = self.ends.get(place).copied().unwrap_or(0);
        let start = place.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        (start.min(end)..end).filter_map(|at| self.keys.get(at as usize))
    }

    /// All keys, list after list.
    pub fn keys(&self) -> &Entries {
        &self.keys
    }
}

/// A text that names no job and no tasks to wait for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AfterError {
    /// The job is missing or no number.
    #[error("`{0}` is not JOB, JOB@TASKS or JOB@KEY, such as 3, last, 3@7, 3@1-10,20 or 3@dock")]
    Job(String),
    /// The job is a number that no job has.
    #[error("the job id in `{0}` is too large: ids go up to 4294967295")]
    TooLarge(String),
    /// The tasks are no ids.
    #[error("invalid tasks in `{0}`: {1}")]
    Tasks(String, IdSetError),
    /// The task has a name that cannot be.
    #[error("invalid task in `{0}`: {1}")]
    Key(String, KeyError),
}

/// Reads `JOB`, `JOB@TASKS` and `JOB@KEY`, where the job may be `last`, as tasks that must end with success and that everyone waits for.
impl FromStr for After {
    type Err = AfterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (job, tasks) = match text.split_once('@') {
            Some((job, tasks)) => (job, Some(tasks)),
            None => (text, None),
        };
        let bad = |error: ParseIntError| match error.kind() {
            IntErrorKind::PosOverflow => AfterError::TooLarge(text.into()),
            _ => AfterError::Job(text.into()),
        };
        let job = match job.trim() {
            "last" => After::LAST,
            job => JobId(job.parse::<NonZeroU32>().map_err(bad)?.get()),
        };
        let mut after = After::of(job);
        match tasks {
            None => {}
            // Keys do not begin with a digit.
            Some(key) if key.starts_with(|first: char| !first.is_ascii_digit() && first != ' ') => {
                check_key(key.as_bytes()).map_err(|error| AfterError::Key(text.into(), error))?;
                after.key = Some(key.to_owned());
            }
            Some(tasks) => {
                let tasks = tasks.parse().map_err(|error| AfterError::Tasks(text.into(), error))?;
                after.tasks = Some(tasks);
            }
        }
        Ok(after)
    }
}

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.job {
            After::LAST => write!(f, "last")?,
            job => write!(f, "{job}")?,
        }
        match (&self.tasks, &self.key) {
            (Some(tasks), _) => write!(f, "@{tasks}"),
            (None, Some(key)) => write!(f, "@{key}"),
            (None, None) => Ok(()),
        }
    }
}

/// A cycle among tasks and what they wait for, beginning and ending with the same task.
pub fn find_cycle(ids: &IdSet, edges: &Edges) -> Option<Vec<TaskId>> {
    let tasks: Vec<TaskId> = ids.iter().collect();
    let place = |task: &TaskId| tasks.binary_search(task).ok();
    // How many of what it waits for is not yet known to be free of cycles.
    let mut open: Vec<u32> = Vec::with_capacity(tasks.len());
    let mut waiting: Vec<Vec<u32>> = vec![Vec::new(); tasks.len()];
    for (from, list) in edges.iter().enumerate() {
        let inner = list.iter().filter_map(place);
        let mut count = 0;
        for to in inner {
            waiting[to].push(from as u32);
            count += 1;
        }
        open.push(count);
    }
    let mut free: VecDeque<usize> = (0..open.len()).filter(|at| open[*at] == 0).collect();
    while let Some(at) = free.pop_front() {
        for from in std::mem::take(&mut waiting[at]) {
            open[from as usize] -= 1;
            if open[from as usize] == 0 {
                free.push_back(from as usize);
            }
        }
    }
    // Each of the rest waits for another of the rest: going on from one to the next comes back at last.
    let mut at = open.iter().position(|count| *count > 0)?;
    let mut seen = vec![None; tasks.len()];
    let mut path = Vec::new();
    while seen[at].is_none() {
        seen[at] = Some(path.len());
        path.push(tasks[at]);
        at = edges.of(at).iter().filter_map(place).find(|to| open[*to] > 0)?;
    }
    let mut cycle = path.split_off(seen[at]?);
    cycle.push(tasks[at]);
    Some(cycle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_tasks_are_read_and_printed() {
        for text in ["3", "3@7", "3@1-10,20", "3@dock 1", "last", "last@2"] {
            assert_eq!(text.parse::<After>().map(|after| after.to_string()), Ok(text.into()));
        }
        for text in ["", "x", "@3", "3@", "3@\n", "3@5-1", "3@5x", "-1", "0"] {
            assert!(text.parse::<After>().is_err(), "{text}");
        }
        let large = "5000000000@1".parse::<After>().map_err(|error| error.to_string());
        assert_eq!(large, Err("the job id in `5000000000@1` is too large: ids go up to 4294967295".into()));
    }

    #[test]
    fn edges_are_lists() {
        let edges = Edges::new([vec![], vec![TaskId(1), TaskId(2)], vec![TaskId(1)]]).expect("few");
        assert_eq!((edges.lists(), edges.len()), (3, 3));
        assert_eq!((edges.of(0), edges.of(2), edges.of(3)), (&[][..], &[TaskId(1)][..], &[][..]));
        assert!(Edges::new([vec![], vec![]]).expect("few").is_empty());
    }

    #[test]
    fn cycles_are_found() {
        let tasks = |ids: &[u32]| ids.iter().copied().map(TaskId).collect::<Vec<_>>();
        let ids = IdSet::range(5, 9);
        let chain =
            Edges::new([tasks(&[6]), tasks(&[7]), tasks(&[1]), tasks(&[5]), tasks(&[])]).expect("few");
        assert_eq!(find_cycle(&ids, &chain), None);
        let cycle =
            Edges::new([tasks(&[6]), tasks(&[7]), tasks(&[6]), tasks(&[5]), tasks(&[])]).expect("few");
        assert_eq!(find_cycle(&ids, &cycle), Some(tasks(&[6, 7, 6])));
        let own = Edges::new([tasks(&[]), tasks(&[6])]).expect("few");
        assert_eq!(find_cycle(&IdSet::range(5, 6), &own), Some(tasks(&[6, 6])));
    }
}
