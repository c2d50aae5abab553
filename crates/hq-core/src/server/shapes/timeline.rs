//! How many tasks of a job ran when: a number of steps that is bounded, and grows longer with the age of the job.
//!
//! An attempt is added once, at a cost that does not depend on how long it was: to the steps in which it began and ended in part,
//! and to those between as the first and the last of these.

use std::time::Duration;

use hq_model::{IdSet, JobId, TaskState, Timestamp};

use crate::job_shape::{Bar, SlowTask, Timeline};
use crate::limits::{SLOWEST_TOLD, TIMELINE_BARS};
use crate::record::Failure;
use crate::server::job::Job;
use crate::server::state::details::Details;

/// Attempts of a job by time.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    from: Timestamp,
    step_us: u64,
    all: Vec<Bucket>,
    attempts: u64,
    // Spans of finished tasks that are in it: all before this number.
    next_span: u64,
    // Those that ended otherwise and are in it, or never ran.
    ended: IdSet,
    is_complete: bool,
    // Those that took longest, the longest first.
    slowest: Vec<SlowTask>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    // Of those that ran in a part of it, how long, µs.
    part_us: u64,
    // How many more than in the step before ran for all of it.
    whole: i64,
    ended: u32,
    failed: u32,
}

impl Buckets {
    pub(super) fn new(from: Timestamp) -> Buckets {
        let all = vec![Bucket::default(); TIMELINE_BARS];
        Buckets {
            from,
            step_us: 1000,
            all,
            attempts: 0,
            next_span: 0,
            ended: IdSet::new(),
            is_complete: true,
            slowest: Vec::new(),
        }
    }

    /// The attempts that took longest, the longest first.
    pub(super) fn slowest(&self) -> &[SlowTask] {
        &self.slowest
    }

    /// Adds attempts that have ended since the last question, about so many at most.
    pub(super) fn add_ended(
        &mut self,
        now: Timestamp,
        (id, job): (JobId, &Job),
        details: &Details,
        attempts_max: u64,
    ) {
        let mut room = attempts_max;
        for (number, kept) in details.spans_of(id, self.next_span) {
            if room == 0 {
                break;
            }
            self.next_span = number + 1;
            for (task, (start, usage)) in kept.span.ids.iter().zip(kept.span.measures.iter()) {
                self.add(now, (start, start.0.saturating_add(usage.wall_us)), false);
                let took = Duration::from_micros(usage.wall_us);
                self.compare(SlowTask { task, took, worker: Some(kept.worker), state: TaskState::Finished });
            }
            room = room.saturating_sub(u64::from(kept.span.measures.count()));
        }
        for (state, set) in [(TaskState::Failed, &job.failed), (TaskState::Canceled, &job.canceled)] {
            let mut rest = set.difference(&self.ended);
            let next = rest.take_first(room);
            room -= next.len();
            for task in next.iter() {
                if let Some((at, Failure { started: Some(start), usage, worker, .. })) =
                    job.failures.get(&task)
                {
                    let end = if usage.wall_us > 0 { start.0.saturating_add(usage.wall_us) } else { at.0 };
                    self.add(now, (*start, end), true);
                    let took = Duration::from_micros(end.saturating_sub(start.0));
                    self.compare(SlowTask { task, took, worker: *worker, state });
                }
            }
            self.ended.union_with(&next);
        }
        self.is_complete = room > 0;
    }

    /// The bars up to now, or to the end of the job, with the attempts that run since so long.
    pub(super) fn timeline(
        &mut self,
        now: Timestamp,
        job: &Job,
        running: impl Iterator<Item = Timestamp>,
    ) -> Timeline {
        let until = if job.has_ended() { job.last_end.max(self.from) } else { now.max(self.from) };
        self.make_room(until.0 - self.from.0);
        let mut with_running = self.clone();
        for since in running {
            with_running.add_time(since.0.clamp(self.from.0, until.0), until.0);
        }
        let count = (until.0 - self.from.0).div_ceil(self.step_us).max(1) as usize;
        let mut whole = 0;
        let bar = |(place, bucket): (usize, &Bucket)| {
            whole += bucket.whole;
            let busy_us = (whole.max(0) as u64).saturating_mul(self.step_us).saturating_add(bucket.part_us);
            // The last one is not over.
            let long_us = self.step_us.min(until.0 - self.from.0 - place as u64 * self.step_us).max(1);
            Bar {
                running_milli: (busy_us as f64 / long_us as f64 * 1000.0).round() as u64,
                ended: bucket.ended,
                failed: bucket.failed,
            }
        };
        let bars = with_running.all.iter().take(count).enumerate().map(bar).collect();
        Timeline {
            from: self.from,
            step: Duration::from_micros(self.step_us),
            bars,
            attempts: self.attempts,
            is_complete: self.is_complete,
        }
    }

    // Of a task that ran again the last attempt counts, also where it is the shorter one.
    fn compare(&mut self, slow: SlowTask) {
        self.slowest.retain(|other| other.task != slow.task);
        let place = self.slowest.partition_point(|other| other.took >= slow.took);
        self.slowest.insert(place, slow);
        self.slowest.truncate(SLOWEST_TOLD);
    }

    // The clock of a worker may be wrong: nothing ran before the job was there, or will have.
    fn add(&mut self, now: Timestamp, (start, end): (Timestamp, u64), has_failed: bool) {
        let latest = now.0.max(self.from.0);
        let start = start.0.clamp(self.from.0, latest);
        let end = end.clamp(start, latest);
        self.make_room(end - self.from.0);
        self.add_time(start, end);
        let place = self.place(end);
        let bucket = &mut self.all[place];
        bucket.ended = bucket.ended.saturating_add(1);
        bucket.failed = bucket.failed.saturating_add(u32::from(has_failed));
        self.attempts += 1;
    }

    fn add_time(&mut self, start: u64, end: u64) {
        let (first, last) = (self.place(start), self.place(end));
        if first == last {
            self.all[first].part_us += end - start;
            return;
        }
        self.all[first].part_us += self.begin(first + 1) - start;
        self.all[last].part_us += end - self.begin(last);
        self.all[first + 1].whole += 1;
        self.all[last].whole -= 1;
    }

    fn begin(&self, place: usize) -> u64 {
        self.from.0 + place as u64 * self.step_us
    }

    // The step in which this lies; the end of the last one is in it, too.
    fn place(&self, at: u64) -> usize {
        ((at - self.from.0) / self.step_us).min(TIMELINE_BARS as u64 - 1) as usize
    }

    // Makes steps longer until so much time has passed in them.
    fn make_room(&mut self, us: u64) {
        while us > self.step_us.saturating_mul(TIMELINE_BARS as u64) {
            let mut whole = 0;
            let mut whole_us = |bucket: &Bucket| {
                whole += bucket.whole;
                (whole.max(0) as u64).saturating_mul(self.step_us)
            };
            let mut longer: Vec<Bucket> = Vec::with_capacity(TIMELINE_BARS);
            for pair in self.all.chunks(2) {
                let mut both = Bucket::default();
                for bucket in pair {
                    both.part_us =
                        both.part_us.saturating_add(bucket.part_us).saturating_add(whole_us(bucket));
                    both.ended = both.ended.saturating_add(bucket.ended);
                    both.failed = both.failed.saturating_add(bucket.failed);
                }
                longer.push(both);
            }
            longer.resize(TIMELINE_BARS, Bucket::default());
            self.all = longer;
            self.step_us = self.step_us.saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use hq_model::{Entries, Instance, JobSpec, TaskId, Usage, WorkerId};

    use super::*;
    use crate::measures::MeasuresWriter;
    use crate::record::FinishedSpan;

    const JOB: JobId = JobId(1);

    fn finished(first: u32, count: u32) -> FinishedSpan {
        let mut measures = MeasuresWriter::new(false);
        for _ in 0..count {
            measures.push(Timestamp(1_000_000), &Usage { wall_us: 1_000_000, ..Usage::default() });
        }
        let ids = IdSet::range(first, first + count - 1);
        let (instance, measures, results) = (Instance(0), measures.finish(), Entries::default());
        FinishedSpan { job: JOB, instance, ids, measures, results, variant: None }
    }

    #[test]
    fn of_a_task_that_ran_again_the_last_attempt_is_compared() {
        let mut buckets = Buckets::new(Timestamp(0));
        let mut ran = |task, seconds| {
            let took = Duration::from_secs(seconds);
            buckets.compare(SlowTask { task: TaskId(task), took, worker: None, state: TaskState::Finished });
            buckets.slowest().iter().map(|slow| slow.task.0).collect::<Vec<_>>()
        };
        for task in 0..10 {
            ran(task, 100 - u64::from(task));
        }
        assert_eq!(ran(10, 1), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "it took the least");
        assert_eq!(ran(0, 95), [1, 2, 3, 4, 5, 0, 6, 7, 8, 9]);
        assert_eq!(ran(1, 2), [2, 3, 4, 5, 0, 6, 7, 8, 9, 1]);
    }

    #[test]
    fn one_question_adds_so_many_attempts_and_the_next_one_more() {
        let (now, mut details) = (Timestamp(10_000_000), Details::default());
        let job = Job::new(JobSpec::default(), false, Timestamp(0));
        let mut buckets = Buckets::new(Timestamp(0));
        let mut told = Vec::new();
        (0..4).for_each(|part| details.add(WorkerId(1), finished(part * 100, 100), Vec::new()));
        for _ in 0..4 {
            buckets.add_ended(now, (JOB, &job), &details, 150);
            let timeline = buckets.timeline(now, &job, [].into_iter());
            told.push((timeline.attempts, timeline.is_complete));
        }
        assert_eq!(told, [(200, false), (400, false), (400, true), (400, true)]);
        details.add(WorkerId(1), finished(400, 1), Vec::new());
        buckets.add_ended(now, (JOB, &job), &details, 150);
        assert_eq!(buckets.attempts, 401, "what was added is not added again");
    }
}
