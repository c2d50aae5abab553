//! Ends that were taken in and could not be said to be saved: whoever said them may say them again, and they count once.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};

use hq_model::{ByteString, TaskRef};

use super::{Branch, How, SessionId, Which};
use crate::limits::ENDED_ATTEMPTS_KEPT;

/// Who said it: a label outlives its sessions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    Label(String),
    Session(SessionId),
}

/// What was said of a task.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) task: TaskRef,
    pub(super) branch: Branch,
    pub(super) attempt: String,
    pub(super) name: ByteString,
    pub(super) way: Way,
}

/// In which of the ways the task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way(Discriminant<How>);

impl Way {
    pub(super) fn of(how: &How) -> Way {
        Way(discriminant(how))
    }
}

/// All of a relay, the oldest dropped first.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    by_task: BTreeMap<TaskRef, (u64, Who, Said)>,
    by_name: BTreeMap<(Who, ByteString), BTreeSet<TaskRef>>,
    in_order: BTreeMap<u64, TaskRef>,
    last: u64,
}

impl Repeats {
    pub(super) fn insert(&mut self, who: Who, said: Said) {
        let task = said.task;
        self.remove(task);
        self.last += 1;
        self.in_order.insert(self.last, task);
        self.by_name.entry((who.clone(), said.name.clone())).or_default().insert(task);
        self.by_task.insert(task, (self.last, who, said));
        if self.by_task.len() > ENDED_ATTEMPTS_KEPT
            && let Some((_, oldest)) = self.in_order.pop_first()
        {
            self.remove(oldest);
        }
    }

    /// The task is there anew, or what was said of it is lost.
    pub(super) fn remove(&mut self, task: TaskRef) {
        let Some((number, who, said)) = self.by_task.remove(&task) else { return };
        self.in_order.remove(&number);
        let key = (who, said.name);
        if let Some(named) = self.by_name.get_mut(&key) {
            named.remove(&task);
            if named.is_empty() {
                self.by_name.remove(&key);
            }
        }
    }

    pub(super) fn lose_branch(&mut self, branch: Branch) {
        let of_branch = self.by_task.iter().filter(|(_, (_, _, said))| said.branch == branch);
        let of_branch: Vec<TaskRef> = of_branch.map(|(task, _)| *task).collect();
        of_branch.into_iter().for_each(|task| self.remove(task));
    }

    /// The task, if just this was said of it before.
    pub(super) fn find(&self, who: &Who, which: &Which, way: Way) -> Option<TaskRef> {
        let is_same = |task: &TaskRef, attempt: Option<&str>| {
            self.by_task.get(task).is_some_and(|(_, by, said)| {
                by == who && said.way == way && attempt.is_none_or(|attempt| attempt == said.attempt)
            })
        };
        match which {
            Which::Task(task, attempt) => is_same(task, attempt.as_deref()).then_some(*task),
            Which::Named(name, bag) => {
                let named = self.by_name.get(&(who.clone(), name.clone()))?;
                let is_meant = |task: &&TaskRef| bag.is_none_or(|bag| bag == task.job) && is_same(task, None);
                let mut meant = named.iter().filter(is_meant);
                meant.next().filter(|_| meant.next().is_none()).copied()
            }
        }
    }
}
