//! Attempts that did not end their tasks: the last ones of each task, and bounded over all of them, oldest dropped
//! first. A task that runs once is not here.

use std::collections::BTreeMap;

use hq_model::{JobId, TaskId, TaskRef};

use crate::attempt::PastAttempt;
use crate::limits::{ATTEMPTS_BYTES_MAX, ATTEMPTS_OF_TASK_MAX};
use crate::never;

/// What is kept of the earlier attempts of all tasks.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    kept: BTreeMap<u64, (JobId, PastAttempt)>,
    by_task: BTreeMap<TaskRef, Vec<u64>>,
    next: u64,
    bytes: usize,
}

// Their numbers say their order and nothing else.
impl PartialEq for Attempts {
    fn eq(&self, other: &Attempts) -> bool {
        self.kept.values().eq(other.kept.values())
    }
}

impl Attempts {
    /// Adds one. What was known of the same attempt before is told anew.
    pub(super) fn add(&mut self, job: JobId, attempt: &PastAttempt) {
        let task = TaskRef::new(job, attempt.task);
        let known = self.by_task.get(&task).map_or(&[][..], Vec::as_slice);
        let is_same =
            |number: &&u64| self.kept.get(number).is_some_and(|(_, k)| k.instance == attempt.instance);
        let over = (known.len() >= ATTEMPTS_OF_TASK_MAX).then(|| known[0]);
        if let Some(number) = known.iter().find(is_same).copied().or(over) {
            self.remove(number);
        }
        self.bytes += attempt.bytes();
        self.by_task.entry(task).or_default().push(self.next);
        self.kept.insert(self.next, (job, attempt.clone()));
        self.next += 1;
        while self.bytes > ATTEMPTS_BYTES_MAX
            && let Some((&oldest, _)) = self.kept.first_key_value()
        {
            self.remove(oldest);
        }
    }

    /// Drops all of a job.
    pub(super) fn forget(&mut self, job: JobId) {
        let of_job = TaskRef::new(job, TaskId(0))..=TaskRef::new(job, TaskId(u32::MAX));
        let numbers: Vec<u64> =
            self.by_task.range(of_job).flat_map(|(_, numbers)| numbers).copied().collect();
        numbers.into_iter().for_each(|number| self.remove(number));
    }

    /// Those of a task whose present or last attempt is another one, in the order in which they ended.
    pub fn of(&self, task: TaskRef) -> impl Iterator<Item = &PastAttempt> {
        let numbers = self.by_task.get(&task).into_iter().flatten();
        numbers.filter_map(|number| Some(&self.kept.get(number)?.1))
    }

    /// All of them, in the order in which they ended.
    pub fn all(&self) -> impl Iterator<Item = (JobId, &PastAttempt)> {
        self.kept.values().map(|(job, attempt)| (*job, attempt))
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove(&mut self, number: u64) {
        let Some((job, attempt)) = self.kept.remove(&number) else {
            return never!("attempt {number} is dropped and is not there");
        };
        self.bytes -= attempt.bytes();
        let task = TaskRef::new(job, attempt.task);
        if let Some(numbers) = self.by_task.get_mut(&task) {
            numbers.retain(|known| *known != number);
            if numbers.is_empty() {
                self.by_task.remove(&task);
            }
        }
    }
}
