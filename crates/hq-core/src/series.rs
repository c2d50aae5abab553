//! How loaded nodes were over time, at a resolution that falls with age, in bounded memory.
//!
//! A series has levels: the latest minutes in short steps, the latest days in long ones. Each sample counts in each of
//! them, so a step of any level has the true mean and the true maximum of the samples in it. What counts is when the server
//! heard of a sample, by its own clock: no other one is asked.

use std::collections::VecDeque;
use std::time::Duration;

use hq_model::Timestamp;

use crate::limits::{SERIES_LEVELS, SERIES_ROOM};

/// What nodes do, in numbers that can be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// CPUs that are busy, in 1/1000.
    pub cpus: u32,
    /// Memory that is taken, MiB.
    pub memory_mib: u32,
    /// GPUs that are busy, in 1/1000.
    pub gpus: u32,
    /// Memory of GPUs that is taken, in 1/1000 of that of one GPU.
    pub gpu_memory: u32,
    /// What goes over the network, both ways, KiB in a second.
    pub network_kib: u32,
    /// What is read from disks and written to them, KiB in a second.
    pub disk_kib: u32,
}

const PARTS: usize = 6;

impl NodeLoad {
    fn parts(&self) -> [u32; PARTS] {
        let NodeLoad { cpus, memory_mib, gpus, gpu_memory, network_kib, disk_kib } = *self;
        [cpus, memory_mib, gpus, gpu_memory, network_kib, disk_kib]
    }

    fn of_parts([cpus, memory_mib, gpus, gpu_memory, network_kib, disk_kib]: [u32; PARTS]) -> NodeLoad {
        NodeLoad { cpus, memory_mib, gpus, gpu_memory, network_kib, disk_kib }
    }

    fn with(&self, other: &NodeLoad, join: impl Fn(u32, u32) -> u32) -> NodeLoad {
        let (own, others) = (self.parts(), other.parts());
        NodeLoad::of_parts(std::array::from_fn(|part| join(own[part], others[part])))
    }

    /// Both together.
    pub fn plus(&self, other: &NodeLoad) -> NodeLoad {
        self.with(other, u32::saturating_add)
    }

    /// Without that of one among them.
    pub fn minus(&self, other: &NodeLoad) -> NodeLoad {
        self.with(other, u32::saturating_sub)
    }

    /// The larger one of each number.
    pub fn max(&self, other: &NodeLoad) -> NodeLoad {
        self.with(other, u32::max)
    }
}

/// What was heard within one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadPoint {
    /// Its begin.
    pub start: Timestamp,
    /// Samples in it, at least one.
    pub count: u32,
    /// Their mean, rounded down.
    pub mean: NodeLoad,
    /// The largest of each number.
    pub max: NodeLoad,
}

/// The load of a node, or of many together, over time.
#[derive(Clone, Debug)]
pub struct Series {
    levels: [Level; SERIES_LEVELS.len()],
}

#[derive(Clone, Debug)]
struct Level {
    step_us: u64,
    points_max: usize,
    // Steps that are over, the oldest first.
    points: VecDeque<LoadPoint>,
    open: Option<Open>,
}

// A step that is going on.
#[derive(Clone, Copy, Debug)]
struct Open {
    start: u64,
    count: u32,
    sum: [u64; PARTS],
    max: NodeLoad,
}

impl Default for Series {
    fn default() -> Series {
        let level = |(step, points_max): (Duration, usize)| Level {
            step_us: step.as_micros() as u64,
            points_max,
            points: VecDeque::new(),
            open: None,
        };
        Series { levels: SERIES_LEVELS.map(level) }
    }
}

impl Series {
    /// A sample is heard. One that would be earlier than the step that is going on counts in that. Gives the longest step
    /// that is over by this.
    pub fn push(&mut self, at: Timestamp, load: NodeLoad) -> Option<LoadPoint> {
        // The longest ones come last.
        self.levels.iter_mut().fold(None, |_, level| level.push(at.0, load))
    }

    /// What was kept of the longest steps in an earlier life.
    pub fn restore(&mut self, points: &VecDeque<LoadPoint>) {
        if let Some(longest) = self.levels.last_mut() {
            longest.points.clone_from(points);
        }
    }

    /// What was heard so far in the longest step that is going on: for another life.
    pub fn take_going_on(&mut self) -> Option<LoadPoint> {
        let point = self.levels.last_mut()?.open.take()?.point();
        if let Some(longest) = self.levels.last_mut() {
            longest.close(point);
        }
        Some(point)
    }

    /// The steps, the oldest first, that began within this time before `now` or later, and how long each is: the shortest that
    /// tell of so much, or of all that is known. The last one may be going on.
    pub fn since(&self, now: Timestamp, time: Duration) -> (Duration, Vec<LoadPoint>) {
        let from = now.0.saturating_sub(time.as_micros() as u64);
        let longest = &self.levels[SERIES_LEVELS.len() - 1];
        let begin = longest.all_since(from).next().map_or(u64::MAX, |point| point.start.0);
        // All levels begin with the same sample, unless the longest one was restored.
        let tells = |level: &&Level| {
            let first = level.all_since(0).next().map_or(u64::MAX, |point| point.start.0);
            level.reach() >= time && first <= from.max(begin.saturating_add(longest.step_us))
        };
        let level = self.levels.iter().find(tells).unwrap_or(longest);
        (Duration::from_micros(level.step_us), level.all_since(from).collect())
    }

    /// What it takes, in bytes.
    pub fn bytes(&self) -> usize {
        let points: usize = self.levels.iter().map(|level| level.points.capacity()).sum();
        size_of::<Series>() + points * size_of::<LoadPoint>()
    }
}

impl Level {
    fn reach(&self) -> Duration {
        Duration::from_micros(self.step_us * self.points_max as u64)
    }

    // All steps from the one on in which this time is.
    fn all_since(&self, from: u64) -> impl Iterator<Item = LoadPoint> {
        let from = from - from % self.step_us;
        let going_on = self.open.map(Open::point);
        // A part of it may have been kept before.
        let (closed, last) = match (self.points.back(), going_on) {
            (Some(part), Some(open)) if part.start == open.start => {
                (self.points.len() - 1, Some(part.plus(&open)))
            }
            (_, open) => (self.points.len(), open),
        };
        let points = self.points.iter().take(closed).copied().chain(last);
        points.filter(move |point| point.start.0 >= from)
    }

    // Gives the step that is over.
    fn push(&mut self, at: u64, load: NodeLoad) -> Option<LoadPoint> {
        let start = at - at % self.step_us;
        let over = self.open.take_if(|open| start > open.start).map(Open::point);
        if let Some(over) = over {
            self.close(over);
        }
        let new = Open { start, count: 0, sum: [0; PARTS], max: NodeLoad::default() };
        let open = self.open.get_or_insert(new);
        open.count = open.count.saturating_add(1);
        for (sum, part) in open.sum.iter_mut().zip(load.parts()) {
            *sum += u64::from(part);
        }
        open.max = open.max.max(&load);
        over
    }

    fn close(&mut self, point: LoadPoint) {
        append(&mut self.points, point, self.points_max);
    }
}

/// Adds a step that is over to those before, of which so many are kept. Parts of one step become one.
pub fn append(points: &mut VecDeque<LoadPoint>, point: LoadPoint, points_max: usize) {
    if let Some(last) = points.back_mut().filter(|last| last.start == point.start) {
        return *last = last.plus(&point);
    }
    if points.len() == points_max {
        points.pop_front();
    }
    if points.len() == points.capacity() {
        // Twice the room each time would be more than it ever needs.
        points.reserve_exact(SERIES_ROOM);
    }
    points.push_back(point);
}

impl LoadPoint {
    // Both parts of one step.
    fn plus(&self, other: &LoadPoint) -> LoadPoint {
        let count = u64::from(self.count) + u64::from(other.count);
        let mean = |own: u32, others: u32| {
            let sum = u64::from(own) * u64::from(self.count) + u64::from(others) * u64::from(other.count);
            (sum / count.max(1)) as u32
        };
        LoadPoint {
            start: self.start,
            count: u32::try_from(count).unwrap_or(u32::MAX),
            mean: self.mean.with(&other.mean, mean),
            max: self.max.max(&other.max),
        }
    }
}

impl Open {
    fn point(self) -> LoadPoint {
        let mean = self.sum.map(|sum| (sum / u64::from(self.count.max(1))) as u32);
        LoadPoint {
            start: Timestamp(self.start),
            count: self.count,
            mean: NodeLoad::of_parts(mean),
            max: self.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000;

    fn load(cpus: u32) -> NodeLoad {
        NodeLoad { cpus, memory_mib: cpus / 2, ..NodeLoad::default() }
    }

    fn cpus(points: &[LoadPoint]) -> Vec<(u64, u32, u32)> {
        points.iter().map(|point| (point.start.0 / SECOND, point.mean.cpus, point.max.cpus)).collect()
    }

    #[test]
    fn a_step_has_the_mean_and_the_maximum_of_what_was_heard_in_it() {
        let mut series = Series::default();
        for (second, busy) in [(1, 100), (9, 300), (10, 7), (25, 40)] {
            series.push(Timestamp(second * SECOND), load(busy));
        }
        let (step, points) = series.since(Timestamp(30 * SECOND), Duration::from_secs(30));
        assert_eq!(step, Duration::from_secs(10));
        assert_eq!(cpus(&points), [(0, 200, 300), (10, 7, 7), (20, 40, 40)]);
        let (step, points) = series.since(Timestamp(30 * SECOND), Duration::from_secs(3600));
        assert_eq!((step, cpus(&points)), (Duration::from_secs(60), vec![(0, 111, 300)]));
    }

    #[test]
    fn a_clock_that_is_set_back_or_forth_breaks_nothing() {
        let mut series = Series::default();
        let day = 86_400;
        for (second, busy) in [(10 * day, 100), (9 * day, 300), (10 * day + 1, 200), (400 * day, 5)] {
            series.push(Timestamp(second * SECOND), load(busy));
        }
        let (_, points) = series.since(Timestamp(400 * day * SECOND), Duration::from_secs(400 * day));
        assert_eq!(cpus(&points), [(10 * day, 200, 300), (400 * day, 5, 5)]);
    }

    #[test]
    fn what_was_kept_of_an_earlier_life_is_there_again() {
        let minute = 60 * SECOND;
        let mut series = Series::default();
        let over: Vec<_> = (0..25).filter_map(|at| series.push(Timestamp(at * minute), load(100))).collect();
        assert_eq!(cpus(&over), [(0, 100, 100), (600, 100, 100)]);
        let mut kept: VecDeque<LoadPoint> = over.into();
        append(&mut kept, series.take_going_on().expect("samples"), 288);
        assert_eq!(series.take_going_on(), None);
        let mut again = Series::default();
        again.restore(&kept);
        again.push(Timestamp(26 * minute), load(700));
        let (step, points) = again.since(Timestamp(26 * minute), Duration::from_secs(3600));
        assert_eq!(step, Duration::from_secs(600), "shorter ones tell only of this life");
        assert_eq!(cpus(&points), [(0, 100, 100), (600, 100, 100), (1200, 200, 700)]);
        again.push(Timestamp(31 * minute), load(5));
        let (_, points) = again.since(Timestamp(31 * minute), Duration::from_secs(3600));
        assert_eq!(cpus(&points[2..]), [(1200, 200, 700), (1800, 5, 5)]);
        assert_eq!(points[2].count, 6);
        let (step, _) = again.since(Timestamp(31 * minute), Duration::from_secs(300));
        assert_eq!(step, Duration::from_secs(10));
    }

    #[test]
    fn memory_is_bounded() {
        let mut series = Series::default();
        let week = 7 * 86_400;
        for second in (0..week).step_by(10) {
            series.push(Timestamp(second * SECOND), load(1));
        }
        assert!(series.bytes() <= crate::limits::SERIES_BYTES_MAX, "{} bytes", series.bytes());
        let (step, points) = series.since(Timestamp(week * SECOND), Duration::from_secs(week));
        let most = SERIES_LEVELS[2];
        assert_eq!((step, points.len()), (most.0, most.1 + 1), "two days of a week are left");
    }

    proptest! {
        // Against all that was ever heard, gone through once for each step.
        #[test]
        fn all_levels_agree_with_all_samples(samples in vec((0..2000_u64, any::<u32>()), 1..200)) {
            let mut series = Series::default();
            let mut at = 0;
            let mut heard = Vec::new();
            for (wait, busy) in samples {
                at += wait * SECOND / 10;
                series.push(Timestamp(at), load(busy));
                heard.push((at, load(busy)));
            }
            for (step, points_max) in SERIES_LEVELS {
                let step_us = step.as_micros() as u64;
                let mut naive: BTreeMap<u64, Vec<NodeLoad>> = BTreeMap::new();
                for (at, load) in &heard {
                    naive.entry(at - at % step_us).or_default().push(*load);
                }
                let expected: Vec<LoadPoint> = naive.into_iter().map(|(start, loads)| {
                    let count = loads.len() as u64;
                    let mean = |of: fn(&NodeLoad) -> u32| {
                        (loads.iter().map(|load| u64::from(of(load))).sum::<u64>() / count) as u32
                    };
                    let mean = NodeLoad { cpus: mean(|l| l.cpus), memory_mib: mean(|l| l.memory_mib), ..load(0) };
                    let max = loads.iter().fold(load(0), |max, load| max.max(load));
                    LoadPoint { start: Timestamp(start), count: count as u32, mean, max }
                }).collect();
                let kept = expected.len().saturating_sub(points_max + 1);
                let (got_step, got) = series.since(Timestamp(at), step * points_max as u32);
                prop_assert_eq!(got_step, step);
                let from = at.saturating_sub(step_us * points_max as u64);
                let from = from - from % step_us;
                let expected: Vec<_> =
                    expected[kept..].iter().filter(|point| point.start.0 >= from).copied().collect();
                prop_assert_eq!(got, expected);
            }
        }
    }
}
