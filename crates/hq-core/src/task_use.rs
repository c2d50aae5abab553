//! What a running task uses: now, at most, and over its whole time in a few points.
//!
//! When the points are full, each two neighbors become one, so the distance between them doubles with the age of the task.

use hq_model::{Instance, TaskLoad, Timestamp, WorkerId};

use crate::limits::TASK_POINTS_MAX;

/// The use of a running attempt, as far as its worker has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskUse {
    /// The worker.
    pub worker: WorkerId,
    /// The instance.
    pub instance: Instance,
    /// When the server heard the first sample.
    pub from: Timestamp,
    /// When it heard the latest one.
    pub at: Timestamp,
    /// The latest one.
    pub load: TaskLoad,
    /// Most CPUs in any sample, in 1/1000.
    pub cpus_max: u64,
    /// Most memory in any sample, bytes.
    pub memory_max: u64,
    /// From the first to the latest sample, at equal distances in samples; the last point may be of fewer.
    pub points: Vec<TaskPoint>,
    /// Samples in a full point.
    pub stride: u32,
    /// Samples in the last point.
    pub last_count: u32,
}

/// What the tasks of a worker use together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TasksSum {
    /// Tasks that have processes.
    pub count: u64,
    /// All of them together.
    pub load: TaskLoad,
}

/// Some samples of a task in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskPoint {
    /// CPUs on average, in 1/1000.
    pub cpus: u32,
    /// Most memory, KiB.
    pub memory_kib: u32,
}

impl TaskUse {
    /// Nothing is known yet of this attempt.
    pub fn new(worker: WorkerId, instance: Instance, now: Timestamp) -> TaskUse {
        TaskUse { worker, instance, from: now, at: now, stride: 1, ..TaskUse::default() }
    }

    /// A sample is heard.
    pub fn push(&mut self, now: Timestamp, load: TaskLoad) {
        self.at = self.at.max(now);
        self.cpus_max = self.cpus_max.max(load.cpus);
        self.memory_max = self.memory_max.max(load.memory_bytes);
        self.load = load;
        let cpus = u32::try_from(load.cpus).unwrap_or(u32::MAX);
        let memory_kib = u32::try_from(load.memory_bytes / 1024).unwrap_or(u32::MAX);
        match self.points.last_mut() {
            Some(last) if self.last_count < self.stride => {
                let sum = u64::from(last.cpus) * u64::from(self.last_count) + u64::from(cpus);
                self.last_count += 1;
                last.cpus = (sum / u64::from(self.last_count)) as u32;
                last.memory_kib = last.memory_kib.max(memory_kib);
            }
            _ => {
                self.make_room();
                self.points.push(TaskPoint { cpus, memory_kib });
                self.last_count = 1;
            }
        }
    }

    // All points are full then.
    fn make_room(&mut self) {
        if self.points.len() < TASK_POINTS_MAX {
            return;
        }
        let pairs = self.points.chunks(2).map(|pair| TaskPoint {
            cpus: (pair.iter().map(|point| u64::from(point.cpus)).sum::<u64>() / pair.len() as u64) as u32,
            memory_kib: pair.iter().map(|point| point.memory_kib).max().unwrap_or(0),
        });
        self.points = pairs.collect();
        self.stride = self.stride.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn load(cpus: u64, memory_bytes: u64) -> TaskLoad {
        TaskLoad { cpus, memory_bytes, ..TaskLoad::default() }
    }

    fn used(samples: &[(u64, u64)]) -> TaskUse {
        let mut used = TaskUse::new(WorkerId(1), Instance(0), Timestamp(5));
        for (number, (cpus, memory)) in samples.iter().enumerate() {
            used.push(Timestamp(10 + number as u64), load(*cpus, *memory));
        }
        used
    }

    #[test]
    fn one_takes_no_more_than_what_is_counted_for_it() {
        let samples: Vec<(u64, u64)> = (0..1000).map(|number| (number, number)).collect();
        let used = used(&samples);
        // The entry of the map has the task, and room for others beside it.
        let entry = 2 * (size_of::<TaskUse>() + size_of::<hq_model::TaskRef>());
        let points = used.points.capacity() * size_of::<TaskPoint>();
        assert!(entry + points <= crate::limits::TASK_USE_BYTES, "{entry} and {points}");
    }

    #[test]
    fn the_latest_and_the_largest_are_told() {
        let used = used(&[(500, 4096), (2000, 1024), (100, 2048)]);
        assert_eq!((used.load, used.cpus_max, used.memory_max), (load(100, 2048), 2000, 4096));
        assert_eq!((used.from, used.at), (Timestamp(5), Timestamp(12)));
    }

    proptest! {
        #[test]
        fn points_cover_all_samples_in_bounded_memory(samples in vec((0..1_000_000_u64, 0..1_u64 << 40), 1..500)) {
            let used = used(&samples);
            prop_assert!(used.points.len() <= TASK_POINTS_MAX);
            let stride = used.stride as usize;
            prop_assert_eq!(used.points.len(), samples.len().div_ceil(stride));
            for (point, of) in used.points.iter().zip(samples.chunks(stride)) {
                let memory = of.iter().map(|sample| sample.1 / 1024).max().unwrap_or(0);
                prop_assert_eq!(u64::from(point.memory_kib), memory);
                let mean = of.iter().map(|sample| sample.0).sum::<u64>() / of.len() as u64;
                // Each rounding down loses less than one.
                let rounded = u64::from(point.cpus);
                prop_assert!(rounded <= mean && mean - rounded <= 16 + of.len() as u64, "{rounded} of {mean}");
            }
        }
    }
}
