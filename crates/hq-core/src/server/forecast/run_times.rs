//! How long tasks take: as `--expect` says, then as those that ended did.
//!
//! It is learned for each submit. Until something of a submit has ended, what is known of bodies of its name is taken.

use std::collections::BTreeMap;

use hq_model::{ByteString, JobId, TaskSpec};

use crate::limits::{NAME_KNOWN_BYTES, NAMES_KNOWN_MAX, RUN_TIMES_SURE, SPAN_LEARNED_SINGLY_MAX};
use crate::measures::Measures;
use crate::worker_messages::TemplateId;

/// What is known of run times.
#[derive(Clone, Debug, Default)]
pub(super) struct RunTimes {
    templates: BTreeMap<TemplateId, Learned>,
    /// By the names of bodies.
    names: BTreeMap<ByteString, Learned>,
}

/// How long a task is expected to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct Estimate {
    /// In µs.
    pub(in crate::server) us: u64,
    /// Those that ended took nearly the same time.
    pub(in crate::server) is_sure: bool,
}

// Latest tasks weigh more: the mean follows a change within some dozens of tasks.
const WEIGHT_MIN: f64 = 1.0 / 64.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Learned {
    count: u64,
    mean_us: f64,
    deviation_us: f64,
}

impl Learned {
    // Some tasks that took so long on average.
    fn add(&mut self, count: u64, mean_us: f64) {
        self.count += count;
        let weight = (count as f64 / self.count as f64).max(WEIGHT_MIN);
        let off = mean_us - self.mean_us;
        if self.count > count {
            self.deviation_us += (off.abs() - self.deviation_us) * weight;
        }
        self.mean_us += off * weight;
    }

    fn estimate(&self) -> Estimate {
        let is_sure = self.count >= RUN_TIMES_SURE && self.deviation_us * 16.0 <= self.mean_us;
        Estimate { us: self.mean_us as u64, is_sure }
    }
}

impl RunTimes {
    /// Tasks of a submit have finished. How much they differ can be told from single ones; of many at once the mean has
    /// to do.
    pub(super) fn learn_all(&mut self, template: TemplateId, spec: &TaskSpec, measures: &Measures) {
        let count = u64::from(measures.count());
        if count <= SPAN_LEARNED_SINGLY_MAX {
            for (_, usage) in measures.iter() {
                self.learn(template, spec, 1, usage.wall_us as f64);
            }
        } else {
            self.learn(template, spec, count, measures.total().wall_us as f64 / count as f64);
        }
    }

    // Some tasks of a submit have ended, which took so long on average.
    fn learn(&mut self, template: TemplateId, spec: &TaskSpec, count: u64, mean_us: f64) {
        if count == 0 {
            return;
        }
        self.templates.entry(template).or_default().add(count, mean_us);
        let name = spec.body.name();
        if name.len() > NAME_KNOWN_BYTES {
            return;
        }
        if let Some(known) = self.names.get_mut(name) {
            return known.add(count, mean_us);
        }
        if self.names.len() >= NAMES_KNOWN_MAX {
            self.names.clear();
        }
        self.names.entry(name.to_vec()).or_default().add(count, mean_us);
    }

    /// How long tasks of a submit should take; `None` when nothing is known.
    pub(super) fn of(&self, template: TemplateId, spec: &TaskSpec) -> Option<Estimate> {
        let learned = self.templates.get(&template);
        if let Some(learned) = learned.filter(|learned| learned.count >= RUN_TIMES_SURE) {
            return Some(learned.estimate());
        }
        if let Some(expected) = spec.expected {
            return Some(Estimate { us: expected.as_micros() as u64, is_sure: false });
        }
        let named = self.names.get(spec.body.name());
        let sure = named.filter(|named| named.count >= RUN_TIMES_SURE);
        sure.or(learned).or(named).map(Learned::estimate)
    }

    /// The same by what is known of the submit alone: how long tasks of it took, or what was said of it.
    pub(super) fn of_submit(&self, template: TemplateId, spec: &TaskSpec) -> Option<u64> {
        let learned = self.templates.get(&template).filter(|_| spec.expected.is_none());
        learned.map(|learned| learned.estimate().us).or_else(|| self.for_order(template, spec))
    }

    /// The same for the order of jobs: what is known of other submits does not count, so that jobs of one program stay
    /// in the order in which they came.
    pub(super) fn for_order(&self, template: TemplateId, spec: &TaskSpec) -> Option<u64> {
        let learned = self.templates.get(&template).filter(|learned| learned.count >= RUN_TIMES_SURE);
        let expected = spec.expected.map(|expected| expected.as_micros() as u64);
        learned.map(|learned| learned.estimate().us).or(expected)
    }

    /// A job is over.
    pub(super) fn forget(&mut self, job: JobId) {
        let of_job = self.templates.range(TemplateId::of_job(job));
        let over: Vec<TemplateId> = of_job.map(|entry| *entry.0).collect();
        for template in over {
            self.templates.remove(&template);
        }
    }

    /// True when the same is known of each submit. Names are known for longer than the tasks that told of them.
    pub(super) fn is_alike(&self, other: &RunTimes) -> bool {
        self.templates == other.templates
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hq_model::Body;

    use super::*;

    const FIRST: TemplateId = TemplateId { job: JobId(1), submit: 0 };
    const SECOND: TemplateId = TemplateId { job: JobId(2), submit: 0 };

    fn spec(program: &str, expected_s: Option<u64>) -> TaskSpec {
        let expected = expected_s.map(Duration::from_secs);
        TaskSpec { body: Body::program([program]), expected, ..TaskSpec::default() }
    }

    fn check(times: &RunTimes, template: TemplateId, spec: &TaskSpec, expected: Option<(u64, bool)>) {
        let known = times.of(template, spec).map(|estimate| (estimate.us / 1000, estimate.is_sure));
        assert_eq!(known, expected);
    }

    #[test]
    fn what_was_expected_counts_until_enough_has_ended() {
        let mut times = RunTimes::default();
        let hinted = spec("a", Some(9));
        check(&times, FIRST, &hinted, Some((9_000, false)));
        for _ in 1..RUN_TIMES_SURE {
            times.learn(FIRST, &hinted, 1, 200_000.0);
        }
        check(&times, FIRST, &hinted, Some((9_000, false)));
        times.learn(FIRST, &hinted, 1, 200_000.0);
        check(&times, FIRST, &hinted, Some((200, true)));
    }

    #[test]
    fn a_new_submit_of_a_known_program_is_expected_to_take_as_long() {
        let mut times = RunTimes::default();
        check(&times, SECOND, &spec("a", None), None);
        times.learn(FIRST, &spec("a", None), 10, 200_000.0);
        check(&times, SECOND, &spec("a", None), Some((200, true)));
        check(&times, SECOND, &spec("b", None), None);
        times.forget(JobId(1));
        check(&times, FIRST, &spec("c", None), None);
    }

    #[test]
    fn nothing_is_sure_of_tasks_that_differ() {
        let mut times = RunTimes::default();
        for wall_us in [1_000_000.0, 32_000_000.0, 4_000_000.0, 2_000_000.0, 16_000_000.0] {
            times.learn(FIRST, &spec("a", None), 1, wall_us);
        }
        check(&times, FIRST, &spec("a", None), Some((11_000, false)));
    }
}
