//! What the tasks of a worker use at one moment, as it sees their processes.

use crate::{Instance, TaskRef};

/// Most tasks that one sample names; of more, those that use most. Their sum counts all.
pub const SAMPLED_TASKS_MAX: usize = 256;

/// What the processes of a task use: all that its program started and that is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskLoad {
    /// CPUs that it kept busy since the sample before, or since it started, in 1/1000.
    pub cpus: u64,
    /// Resident memory, bytes. What several of its processes share counts for each of them.
    pub memory_bytes: u64,
    /// CPU time since it started, µs; 0 for a call, whose interpreter has served others, too.
    pub cpu_us: u64,
    /// Bytes that it has read, from files, pipes and sockets, since it started; 0 for a call, likewise.
    pub read_bytes: u64,
    /// Bytes that it has written, likewise.
    pub written_bytes: u64,
    /// Its processes.
    pub processes: u64,
}

impl TaskLoad {
    /// Both together.
    pub fn plus(&self, other: &TaskLoad) -> TaskLoad {
        TaskLoad {
            cpus: self.cpus.saturating_add(other.cpus),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
            cpu_us: self.cpu_us.saturating_add(other.cpu_us),
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            written_bytes: self.written_bytes.saturating_add(other.written_bytes),
            processes: self.processes.saturating_add(other.processes),
        }
    }
}

/// What one attempt uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSample {
    /// The task.
    pub task: TaskRef,
    /// Its instance.
    pub instance: Instance,
    /// What it uses.
    pub load: TaskLoad,
}

/// What all tasks of a worker use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TasksSample {
    /// Tasks that have processes.
    pub count: u64,
    /// All of them together.
    pub sum: TaskLoad,
    /// One by one, at most [`SAMPLED_TASKS_MAX`].
    pub tasks: Vec<TaskSample>,
}

impl TasksSample {
    /// Of these tasks: names those that use most, half of them for their CPUs, half for their memory.
    pub fn of(mut tasks: Vec<TaskSample>) -> TasksSample {
        let count = tasks.len() as u64;
        let sum = tasks.iter().fold(TaskLoad::default(), |sum, sample| sum.plus(&sample.load));
        if tasks.len() > SAMPLED_TASKS_MAX {
            // Equal ones in order of tasks: the same ones are named each time.
            tasks.sort_by_key(|sample| (std::cmp::Reverse(sample.load.cpus), sample.task));
            let half = SAMPLED_TASKS_MAX / 2;
            tasks[half..].sort_by_key(|sample| (std::cmp::Reverse(sample.load.memory_bytes), sample.task));
            tasks.truncate(SAMPLED_TASKS_MAX);
            tasks.sort_by_key(|sample| sample.task);
        }
        TasksSample { count, sum, tasks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobId, TaskId};

    fn sample(task: u32, cpus: u64, memory_bytes: u64) -> TaskSample {
        let load = TaskLoad { cpus, memory_bytes, processes: 1, ..TaskLoad::default() };
        TaskSample { task: TaskRef { job: JobId(1), task: TaskId(task) }, instance: Instance(0), load }
    }

    #[test]
    fn a_few_tasks_are_all_named() {
        let all = TasksSample::of(vec![sample(1, 500, 10), sample(2, 250, 20)]);
        assert_eq!((all.count, all.sum.cpus, all.sum.memory_bytes, all.sum.processes), (2, 750, 30, 2));
        assert_eq!(all.tasks.len(), 2);
    }

    #[test]
    fn of_many_tasks_those_that_use_most_are_named_and_all_are_counted() {
        // The first ones are idle and small, the next one busy, the last one large.
        let mut tasks: Vec<TaskSample> = (1..=1000).map(|task| sample(task, 1, 1)).collect();
        tasks.extend([sample(1001, 4000, 1), sample(1002, 0, 1 << 30)]);
        let all = TasksSample::of(tasks);
        assert_eq!((all.count, all.sum.cpus, all.tasks.len()), (1002, 5000, SAMPLED_TASKS_MAX));
        let named: Vec<u32> = all.tasks.iter().map(|sample| sample.task.task.0).collect();
        assert!(named.contains(&1001) && named.contains(&1002) && named.is_sorted());
    }
}
