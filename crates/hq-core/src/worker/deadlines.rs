//! Moments at which something is due of running tasks: found by their time, and by their task when that ends.

use std::collections::BTreeSet;

use hq_model::{TaskRef, Timestamp};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Deadline {
    Warning,
    TimeLimit,
    /// Whoever has taken it was silent for too long.
    Lease,
    Kill,
    /// It was killed long ago and lives.
    Unkillable,
}

/// All of a worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Deadlines {
    by_time: BTreeSet<(Timestamp, TaskRef, Deadline)>,
    by_task: BTreeSet<(TaskRef, Deadline, Timestamp)>,
}

impl Deadlines {
    pub(super) fn insert(&mut self, at: Timestamp, task: TaskRef, deadline: Deadline) {
        self.by_time.insert((at, task, deadline));
        self.by_task.insert((task, deadline, at));
    }

    pub(super) fn remove(&mut self, at: Timestamp, task: TaskRef, deadline: Deadline) {
        self.by_time.remove(&(at, task, deadline));
        self.by_task.remove(&(task, deadline, at));
    }

    /// Nothing of this task is due any more. The work is that of its own.
    pub(super) fn remove_all(&mut self, task: TaskRef) {
        while let Some(&(of, deadline, at)) =
            self.by_task.range((task, Deadline::Warning, Timestamp(0))..).next()
            && of == task
        {
            self.remove(at, task, deadline);
        }
    }

    /// The next of all.
    pub(super) fn first(&self) -> Option<(Timestamp, TaskRef, Deadline)> {
        self.by_time.first().copied()
    }

    pub(super) fn clear(&mut self) {
        *self = Deadlines::default();
    }
}

#[cfg(test)]
mod tests {
    use hq_model::{JobId, TaskId};

    use super::*;

    #[test]
    fn what_is_due_of_a_task_goes_with_it_and_nothing_else() {
        let task = |id: u32| TaskRef::new(JobId(1), TaskId(id));
        let mut deadlines = Deadlines::default();
        for id in 1..=3 {
            deadlines.insert(Timestamp(10 + u64::from(id)), task(id), Deadline::TimeLimit);
            deadlines.insert(Timestamp(20), task(id), Deadline::Warning);
        }
        deadlines.remove_all(task(1));
        deadlines.remove(Timestamp(20), task(2), Deadline::Warning);
        deadlines.remove_all(task(4));
        let mut left = Vec::new();
        while let Some((at, task, deadline)) = deadlines.first() {
            deadlines.remove(at, task, deadline);
            left.push((at.0, task.task.0, deadline));
        }
        let expected =
            [(12, 2, Deadline::TimeLimit), (13, 3, Deadline::TimeLimit), (20, 3, Deadline::Warning)];
        assert_eq!(left, expected);
        assert!(deadlines.by_task.is_empty());
    }
}
