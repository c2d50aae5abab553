//! The minimum effective task granularity (METG): the shortest tasks that use half of the CPU time that they are given.
//! The term is of Slaughter and others, "Task Bench" (SC 2020), the threshold, too.

use std::time::Duration;

/// Shortest tasks that can be measured: below, `sleep` itself takes longer.
pub(crate) const LENGTH_MIN: Duration = Duration::from_millis(1);
/// Longest tasks that can be measured.
pub(crate) const LENGTH_MAX: Duration = Duration::from_secs(3600);
/// Tasks for each CPU in a job: fewer would say more of its begin and its end than of what is between.
const PER_CPU_MIN: u64 = 8;
const PER_CPU_MAX: u64 = 10_000;
/// Tasks of a job.
const TASKS_MAX: u64 = 1_000_000;
/// The part of the time that tasks of the minimum length use.
const HALF: f64 = 0.5;

/// A job that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// How long each task takes by itself.
    pub length: Duration,
    /// How many there were.
    pub tasks: u64,
    /// From the submit to the end of the last one, by the server's clock.
    pub makespan: Duration,
    /// The part of the time of all CPUs that tasks used.
    pub efficiency: f64,
}

impl Point {
    /// From a job whose tasks ran on so many CPUs.
    pub(crate) fn new(length: Duration, tasks: u64, cpus: u64, makespan: Duration) -> Point {
        let used = length.as_secs_f64() * tasks as f64;
        let given = makespan.as_secs_f64() * cpus as f64;
        let efficiency = if given > 0.0 { (used / given).min(1.0) } else { 1.0 };
        Point { length, tasks, makespan, efficiency }
    }

    /// How many tasks ran in a second.
    pub(crate) fn rate(&self) -> f64 {
        self.tasks as f64 / self.makespan.as_secs_f64().max(1e-6)
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Found {
    /// Tasks of this length use half of the time.
    Metg(Duration),
    /// The shortest ones that were tried use more than half.
    Below(Duration),
    /// The longest ones that were tried use less than half.
    Above(Duration),
}

/// How many tasks of a length a job has.
pub(crate) fn tasks_of(length: Duration, cpus: u64, round: Duration) -> u64 {
    let per_cpu = (round.as_secs_f64() / length.as_secs_f64()).ceil() as u64;
    (cpus * per_cpu.clamp(PER_CPU_MIN, PER_CPU_MAX)).min(TASKS_MAX.max(cpus))
}

/// The length to be measured after these, if there is one: half of the last one, until tasks of two lengths in a row have
/// used less than half of the time, as one alone may have been disturbed.
pub(crate) fn next(points: &[Point], longest: Duration, shortest: Duration) -> Option<Duration> {
    let Some(last) = points.last() else { return Some(longest) };
    let is_past = points.iter().rev().take_while(|point| point.efficiency < HALF).count() >= 2;
    let half = last.length / 2;
    (!is_past && half >= shortest).then_some(half)
}

/// The length at which half of the time is used, between the two that it lies between: on a line through their efficiencies
/// over the logarithm of their lengths. Of `points`, the longest first; `None` of none.
pub(crate) fn find(points: &[Point]) -> Option<Found> {
    let Some(at) = points.iter().rposition(|point| point.efficiency >= HALF) else {
        return points.first().map(|first| Found::Above(first.length));
    };
    let enough = points[at];
    let Some(short) = points.get(at + 1) else { return Some(Found::Below(enough.length)) };
    let part = (HALF - short.efficiency) / (enough.efficiency - short.efficiency);
    let (from, to) = (short.length.as_secs_f64().ln(), enough.length.as_secs_f64().ln());
    Some(Found::Metg(Duration::from_secs_f64((from + part * (to - from)).exp())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    // Tasks on one CPU, each of which takes `overhead` beside its length.
    fn measured(overhead: Duration, longest: Duration, shortest: Duration) -> Vec<Point> {
        let mut points = Vec::new();
        while let Some(length) = next(&points, longest, shortest) {
            points.push(Point::new(length, 100, 1, (length + overhead) * 100));
        }
        points
    }

    #[test]
    fn the_length_at_which_half_is_overhead_is_found() {
        let points = measured(ms(8), ms(512), ms(1));
        let lengths: Vec<u128> = points.iter().map(|point| point.length.as_millis()).collect();
        assert_eq!(lengths, [512, 256, 128, 64, 32, 16, 8, 4, 2], "two below it, and no more");
        assert_eq!(find(&points), Some(Found::Metg(ms(8))));
        let Some(Found::Metg(between)) = find(&measured(ms(11), ms(512), ms(1))) else { panic!("found") };
        assert!((10.5..11.5).contains(&(between.as_secs_f64() * 1e3)), "{between:?}");
    }

    #[test]
    fn what_lies_outside_of_the_lengths_that_were_tried_is_told_so() {
        assert_eq!(find(&measured(ms(1), ms(512), ms(16))), Some(Found::Below(ms(16))));
        assert_eq!(find(&measured(ms(9_000), ms(512), ms(16))), Some(Found::Above(ms(512))));
        assert_eq!(find(&[]), None);
        assert_eq!(measured(ms(9_000), ms(512), ms(16)).len(), 2);
    }

    #[test]
    fn one_disturbed_job_does_not_end_the_search() {
        let mut points = vec![Point::new(ms(512), 8, 1, ms(512 * 8 * 3))];
        assert_eq!(next(&points, ms(512), ms(1)), Some(ms(256)));
        points.push(Point::new(ms(256), 8, 1, ms(256 * 8)));
        assert_eq!(find(&points), Some(Found::Below(ms(256))));
    }

    #[test]
    fn jobs_have_tasks_for_a_round_within_bounds() {
        assert_eq!(tasks_of(ms(512), 4, ms(2_000)), 32, "8 for each CPU at least");
        assert_eq!(tasks_of(ms(10), 4, ms(2_000)), 800);
        assert_eq!(tasks_of(ms(1), 2, Duration::from_secs(3600)), 20_000, "10 000 for each CPU at most");
        assert_eq!(tasks_of(ms(1), 50_000, ms(2_000)), 1_000_000);
        assert_eq!(tasks_of(ms(1), 2_000_000, ms(2_000)), 2_000_000, "one for each CPU at least");
    }
}
