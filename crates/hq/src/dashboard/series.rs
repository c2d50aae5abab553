//! How things were over time: a point for each look, fewer for what is long ago.

use std::time::Duration;

use hq_core::client_messages::Overview;
use hq_model::Timestamp;
use hq_model::job::Counters;

/// Points that are kept. When there are more, every second one of the older half goes.
const POINTS_MAX: usize = 1024;
/// Over how long a rate is taken at least.
const RATE_TIME: Duration = Duration::from_secs(10);

/// How it was at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    /// When.
    pub at: Timestamp,
    /// Tasks that had ended since the server started.
    pub ended: u64,
    /// Those of them that had failed.
    pub failed: u64,
    /// Tasks that ran.
    pub running: u64,
    /// Tasks that waited.
    pub waiting: u64,
    /// Part of the CPUs that was taken.
    pub cpus: f64,
    /// Part of the GPUs.
    pub gpus: f64,
    /// Part of the memory.
    pub memory: f64,
}

/// Points in order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    points: Vec<Point>,
}

impl Point {
    /// What an overview says.
    pub(crate) fn of(overview: &Overview) -> Point {
        let ended = &overview.ended;
        Point {
            at: overview.now,
            ended: ended.finished + ended.failed + ended.canceled + ended.aborted,
            failed: ended.failed,
            running: overview.tasks.running,
            waiting: overview.tasks.waiting,
            cpus: part(overview, |name| name == "cpus"),
            gpus: part(overview, |name| name.starts_with("gpus")),
            memory: part(overview, |name| name == "mem"),
        }
    }
}

impl Point {
    /// What is said of one job.
    pub(crate) fn of_job(at: Timestamp, tasks: &Counters) -> Point {
        let (running, waiting) = (tasks.running, tasks.waiting);
        Point { at, ended: tasks.terminal(), failed: tasks.failed, running, waiting, ..Point::default() }
    }
}

/// Which part of resources is taken.
pub(crate) fn part(overview: &Overview, is_it: impl Fn(&str) -> bool) -> f64 {
    let those = overview.resources.iter().filter(|resource| is_it(&resource.name));
    let (taken, offered) = those.fold((0.0, 0.0), |(taken, offered), resource| {
        (taken + resource.taken.0 as f64, offered + resource.offered.0 as f64)
    });
    if offered > 0.0 { taken / offered } else { 0.0 }
}

impl Series {
    /// Adds a point. One that is earlier than the last, or of a server that counts anew, begins a new series.
    pub(crate) fn push(&mut self, point: Point) {
        if self.points.last().is_some_and(|last| point.at < last.at || point.ended < last.ended) {
            self.points.clear();
        }
        self.points.push(point);
        if self.points.len() > POINTS_MAX {
            let half = self.points.len() / 2;
            let mut place = 0;
            self.points.retain(|_| {
                place += 1;
                place > half || place % 2 == 1
            });
        }
    }

    /// Forgets what is later.
    pub(crate) fn cut(&mut self, at: Timestamp) {
        self.points.retain(|point| point.at <= at);
    }

    /// All points.
    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    /// From the first point to the last.
    pub(crate) fn span(&self) -> Duration {
        match (self.points.first(), self.points.last()) {
            (Some(first), Some(last)) => last.at.since(first.at),
            _ => Duration::ZERO,
        }
    }

    /// Tasks that end in a second now: over the last seconds. `None` before enough is known.
    pub(crate) fn rate(&self, now: Timestamp) -> Option<f64> {
        let last = self.points.last()?;
        let before = self.points.iter().rev().find(|point| now.since(point.at) >= RATE_TIME);
        let before = before.or(self.points.first())?;
        let time = now.max(last.at).since(before.at).as_secs_f64();
        (time >= 1.0).then(|| last.ended.saturating_sub(before.ended) as f64 / time)
    }

    /// Tasks that ended in a second, in so many equal parts of the time until now.
    pub(crate) fn rates(&self, now: Timestamp, parts: usize) -> Vec<f64> {
        let Some(bounds) = self.bounds(now, parts) else { return Vec::new() };
        let seconds = bounds.1.as_secs_f64().max(1e-6);
        let sums: Vec<f64> = (0..=parts).map(|part| self.ended(bounds.at(part))).collect();
        sums.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0) / seconds).collect()
    }

    /// A value in so many equal parts of the time until now: as it was at their ends.
    pub(crate) fn values(&self, now: Timestamp, parts: usize, value: impl Fn(&Point) -> f64) -> Vec<f64> {
        let Some(bounds) = self.bounds(now, parts) else { return Vec::new() };
        (1..=parts).map(|part| self.before(bounds.at(part)).map_or(0.0, &value)).collect()
    }

    fn bounds(&self, now: Timestamp, parts: usize) -> Option<Bounds> {
        let first = self.points.first()?.at;
        let time = now.max(self.points.last()?.at).since(first);
        (parts > 0 && !time.is_zero()).then(|| Bounds(first, time / parts as u32))
    }

    // Tasks that had ended, evenly between two points: else parts that are as short as looks are far apart would show stripes.
    fn ended(&self, at: Timestamp) -> f64 {
        let after = self.points.partition_point(|point| point.at <= at);
        let (before, next) = (after.checked_sub(1).map(|place| self.points[place]), self.points.get(after));
        match (before, next) {
            (Some(before), Some(next)) => {
                let part =
                    at.since(before.at).as_secs_f64() / next.at.since(before.at).as_secs_f64().max(1e-6);
                before.ended as f64 + (next.ended.saturating_sub(before.ended)) as f64 * part
            }
            (Some(point), None) => point.ended as f64,
            (None, next) => next.map_or(0.0, |point| point.ended as f64),
        }
    }

    // The last point that is not later.
    fn before(&self, at: Timestamp) -> Option<&Point> {
        self.points[..self.points.partition_point(|point| point.at <= at)].last()
    }
}

// A first time, and the length of a part.
struct Bounds(Timestamp, Duration);

impl Bounds {
    fn at(&self, part: usize) -> Timestamp {
        // Rounding must not leave the last point out.
        self.0.after(self.1 * part as u32 + Duration::from_micros(if part > 0 { part as u64 } else { 0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(seconds: u64, ended: u64) -> Point {
        Point { at: Timestamp(seconds * 1_000_000), ended, running: ended / 2, ..Point::default() }
    }

    fn series(points: &[(u64, u64)]) -> Series {
        let mut series = Series::default();
        points.iter().for_each(|&(at, ended)| series.push(point(at, ended)));
        series
    }

    #[test]
    fn a_rate_is_that_of_the_last_seconds() {
        let series = series(&[(0, 0), (10, 1000), (20, 1100), (30, 1200)]);
        assert_eq!(series.rate(Timestamp(30_000_000)), Some(10.0));
        // Nothing has come since: it is falling.
        assert_eq!(series.rate(Timestamp(40_000_000)), Some(0.0));
        assert_eq!(Series::default().rate(Timestamp(5)), None);
    }

    #[test]
    fn time_is_cut_into_equal_parts() {
        let series = series(&[(0, 0), (10, 1000), (20, 1100), (40, 1100)]);
        let rates = series.rates(Timestamp(40_000_000), 4);
        assert_eq!(rates.iter().map(|rate| rate.round()).collect::<Vec<_>>(), [100.0, 10.0, 0.0, 0.0]);
        let steady = self::series(&[(0, 0), (10, 100), (20, 200), (30, 300)]);
        let rates = steady.rates(Timestamp(30_000_000), 7);
        assert!(rates.iter().all(|rate| (9.9..=10.1).contains(rate)), "{rates:?}");
        let running = series.values(Timestamp(40_000_000), 4, |point| point.running as f64);
        assert_eq!(running, [500.0, 550.0, 550.0, 550.0]);
    }

    #[test]
    fn old_points_thin_out_and_the_span_stays() {
        let mut series = Series::default();
        (0..10_000).for_each(|at| series.push(point(at, at)));
        assert!(series.points.len() <= POINTS_MAX, "{}", series.points.len());
        assert_eq!(series.span(), Duration::from_secs(9_999));
        series.push(point(10_000, 5));
        assert_eq!(series.points.len(), 1, "a server that counts anew");
        series.cut(Timestamp(0));
        assert_eq!(series.span(), Duration::ZERO);
    }
}
