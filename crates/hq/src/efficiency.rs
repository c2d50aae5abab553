//! What tasks asked for and what they used, by kind of task: those that ask for the same. Bounded in memory, however many
//! tasks there are: quantiles come from histograms whose buckets are two percent wide.

use std::collections::BTreeMap;
use std::sync::Arc;

use hq_model::amount::UNITS;
use hq_model::node_share::{node_share, node_time_us};
use hq_model::request::{CPUS, MEM};
use hq_model::{AmountRequest, JobId, Request, TaskSpec, Usage, WorkerResources};

/// Kinds that are told apart; the others are counted together.
pub(crate) const KINDS_MAX: usize = 1_000;
/// Buckets of a histogram: up to 10^19 in steps of two percent.
const BUCKETS: usize = 2_250;
/// The part of the tasks that must have had enough.
pub(crate) const ENOUGH: f64 = 0.99;
/// Shapes of workers of which it is known how long tasks of a kind ran there.
const OFFERS_MAX: usize = 64;
/// Room above what was used, for what varies from run to run.
const MARGIN: f64 = 1.1;

/// Values in buckets that grow by two percent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    buckets: BTreeMap<u16, u64>,
    count: u64,
    largest: u64,
}

impl Histogram {
    /// Counts a value.
    pub(crate) fn add(&mut self, value: u64) {
        let bucket = ((value.max(1) as f64).ln() / 1.02_f64.ln()).floor() as usize;
        *self.buckets.entry(bucket.min(BUCKETS) as u16).or_default() += 1;
        self.count += 1;
        self.largest = self.largest.max(value);
    }

    /// The value that this part of all does not exceed: at most two percent too much, and never more than the largest.
    pub(crate) fn quantile(&self, part: f64) -> u64 {
        let wanted = (self.count as f64 * part).ceil() as u64;
        let mut passed = 0;
        for (bucket, count) in &self.buckets {
            passed += count;
            if passed >= wanted {
                let upper = 1.02_f64.powi(i32::from(*bucket) + 1).ceil();
                return (upper as u64).min(self.largest);
            }
        }
        self.largest
    }

    /// The largest value.
    pub(crate) fn largest(&self) -> u64 {
        self.largest
    }
}

/// Tasks that ask for the same.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// What they ask for, in words.
    pub asks: String,
    /// CPUs that each of them asks for, where that is a number.
    pub cpus: Option<f64>,
    /// Memory, in MiB, if they ask for some.
    pub memory_mib: Option<f64>,
    /// How long each may take or asks for, in µs.
    pub time_us: Option<u64>,
    /// Their jobs; of many only the first and the last.
    pub jobs: (JobId, JobId),
    /// How many there were.
    pub tasks: u64,
    /// How many of them failed.
    pub failed: u64,
    /// Of how many the use is known.
    pub measured: u64,
    /// Sums of time, µs.
    pub wall_us: u128,
    /// Time on CPUs, µs.
    pub cpu_us: u128,
    /// Node time, µs: of those whose workers are known.
    pub node_us: u128,
    /// Of how many that is known.
    pub on_known: u64,
    walls_us: Histogram,
    rss_kib: Histogram,
    // CPUs that were busy on average, in 1/1000.
    busy: Histogram,
    requests: Vec<Request>,
    // How long they ran on workers that offer this, µs.
    on: Vec<(WorkerResources, u128)>,
}

/// All kinds of some jobs.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    kinds: BTreeMap<String, Kind>,
    // What the task before executed, and its kind: most tasks are of the submit of the one before.
    last: Option<(Arc<TaskSpec>, String)>,
    /// Tasks of kinds for which there was no room.
    pub left_out: u64,
}

impl Kinds {
    /// Counts a task that has ended, with what it used and what its worker offered, as far as that is known.
    pub(crate) fn add(
        &mut self,
        job: JobId,
        spec: &Arc<TaskSpec>,
        has_failed: bool,
        used: Option<(&Usage, Option<&WorkerResources>)>,
    ) {
        let (_, asks) = match self.last.take() {
            Some(last) if Arc::ptr_eq(&last.0, spec) => self.last.insert(last),
            _ => self.last.insert((Arc::clone(spec), asked(spec))),
        };
        if !self.kinds.contains_key(asks) {
            if self.kinds.len() >= KINDS_MAX {
                self.left_out += 1;
                return;
            }
            self.kinds.insert(asks.clone(), Kind::new(asks.clone(), spec, job));
        }
        let Some(kind) = self.kinds.get_mut(asks) else { return };
        kind.jobs.1 = kind.jobs.1.max(job);
        kind.tasks += 1;
        kind.failed += u64::from(has_failed);
        if let Some((usage, offer)) = used {
            kind.measure(usage);
            kind.charge(usage, spec, offer);
        }
    }

    /// Those that used most time first.
    pub(crate) fn sorted(self) -> Vec<Kind> {
        let mut all: Vec<Kind> = self.kinds.into_values().collect();
        all.sort_by(|a, b| b.wall_us.cmp(&a.wall_us).then_with(|| a.asks.cmp(&b.asks)));
        all
    }
}

impl Kind {
    fn new(asks: String, spec: &TaskSpec, job: JobId) -> Kind {
        let request = spec.requests.first();
        let amount = |name: &str| amount_of(request?, name);
        let time_request = request.map(|request| request.time_request).filter(|time| !time.is_zero());
        let time = spec.time_limit.or(time_request);
        Kind {
            asks,
            cpus: amount(CPUS),
            memory_mib: amount(MEM),
            time_us: time.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
            jobs: (job, job),
            tasks: 0,
            failed: 0,
            measured: 0,
            wall_us: 0,
            cpu_us: 0,
            node_us: 0,
            on_known: 0,
            walls_us: Histogram::default(),
            rss_kib: Histogram::default(),
            busy: Histogram::default(),
            requests: spec.requests.clone(),
            on: Vec::new(),
        }
    }

    fn measure(&mut self, usage: &Usage) {
        let cpu_us = usage.user_us.saturating_add(usage.system_us);
        self.measured += 1;
        self.wall_us += u128::from(usage.wall_us);
        self.cpu_us += u128::from(cpu_us);
        self.walls_us.add(usage.wall_us);
        self.rss_kib.add(usage.rss_max_kib);
        self.busy.add((u128::from(cpu_us) * 1000 / u128::from(usage.wall_us.max(1))) as u64);
    }

    fn charge(&mut self, usage: &Usage, spec: &TaskSpec, offer: Option<&WorkerResources>) {
        let Some(offer) = offer else { return };
        self.on_known += 1;
        self.node_us += u128::from(node_time_us(usage.wall_us, node_share(&spec.requests, offer)));
        // Most tasks ran where the one before did.
        match self.on.iter().rposition(|(known, _)| known == offer) {
            Some(place) => {
                self.on[place].1 += u128::from(usage.wall_us);
                let last = self.on.len() - 1;
                self.on.swap(place, last);
            }
            None if self.on.len() < OFFERS_MAX => self.on.push((offer.clone(), usage.wall_us.into())),
            None => {}
        }
    }

    /// Time of the CPUs that tasks asked for, as long as they ran; that which they used where they asked for all. In seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.cpus.map_or(self.cpu_us as f64, |cpus| self.wall_us as f64 * cpus) / 1e6
    }

    /// Node hours that its tasks used, as far as it is known what their workers offered.
    pub(crate) fn node_hours(&self) -> f64 {
        self.node_us as f64 / 3.6e9
    }

    /// Node hours that its tasks would not have used if they had asked for what is advised, as far as it is known what their workers
    /// offered.
    pub(crate) fn node_hours_saved(&self) -> f64 {
        let Some(first) = self.requests.first() else { return 0.0 };
        let mut advised = first.clone();
        for resource in &mut advised.resources {
            let AmountRequest::Some(asked, _) = &mut resource.amount else { continue };
            let enough = match resource.name.as_str() {
                CPUS => self.cpus_advised(),
                MEM => self.memory_advised_mib().map(|mib| mib as f64),
                _ => None,
            };
            if let Some(enough) = enough {
                asked.0 = asked.0.min((enough * UNITS as f64) as u64);
            }
        }
        let advised = [advised];
        let of = |(offer, wall_us): &(WorkerResources, u128)| {
            let wall_us = u64::try_from(*wall_us).unwrap_or(u64::MAX);
            let [used, enough] = [&self.requests[..], &advised[..]]
                .map(|requests| node_time_us(wall_us, node_share(requests, offer)));
            used.saturating_sub(enough) as f64
        };
        self.on.iter().map(of).sum::<f64>() / 3.6e9
    }

    /// The part of the CPU time asked for that was used.
    pub(crate) fn cpu_part(&self) -> Option<f64> {
        let asked = self.cpus? * self.wall_us as f64;
        (asked > 0.0).then(|| self.cpu_us as f64 / asked)
    }

    /// Memory that 99 of 100 tasks did not exceed, and the most that one used, in MiB.
    pub(crate) fn memory_used_mib(&self) -> (u64, u64) {
        (self.rss_kib.quantile(ENOUGH).div_ceil(1024), self.rss_kib.largest().div_ceil(1024))
    }

    /// Time that 99 of 100 tasks did not exceed, and the longest, in µs.
    pub(crate) fn time_used_us(&self) -> (u64, u64) {
        (self.walls_us.quantile(ENOUGH), self.walls_us.largest())
    }

    /// Core hours that were asked for and not used.
    pub(crate) fn core_hours_unused(&self) -> Option<f64> {
        let unused = self.cpus? * self.wall_us as f64 - self.cpu_us as f64;
        Some(unused.max(0.0) / 3.6e9)
    }

    /// Memory to ask for next time, in MiB: what 99 of 100 used and a tenth more.
    pub(crate) fn memory_advised_mib(&self) -> Option<u64> {
        (self.measured > 0).then(|| rounded((self.memory_used_mib().0 as f64 * MARGIN).ceil() as u64))
    }

    /// CPUs to ask for: as many as 99 of 100 kept busy, and not more than before.
    pub(crate) fn cpus_advised(&self) -> Option<f64> {
        let asked = self.cpus.filter(|_| self.measured > 0)?;
        let busy = (self.busy.quantile(ENOUGH) as f64 / 1000.0 - 0.05).ceil().max(1.0);
        Some(busy.min(asked))
    }
}

// What a kind is told by: words of its request, and how long its tasks may take.
fn asked(spec: &TaskSpec) -> String {
    let mut asks = crate::render::text::requests(&spec.requests);
    if let Some(limit) = spec.time_limit {
        asks.push_str(&format!(", at most {}", hq_model::duration::format(limit)));
    }
    asks
}

// How much of a resource a request asks for by name; `None` for nothing and for all there is.
fn amount_of(request: &Request, name: &str) -> Option<f64> {
    let asked = request.resources.iter().find(|resource| resource.name == name)?;
    match asked.amount {
        AmountRequest::All => None,
        AmountRequest::Some(amount, _) => Some(amount.0 as f64 / UNITS as f64),
    }
}

// Up to a number that people write.
fn rounded(mib: u64) -> u64 {
    let step = match mib {
        0..=255 => 16,
        256..=1023 => 64,
        1024..=8191 => 256,
        _ => 1024,
    };
    mib.max(1).div_ceil(step) * step
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hq_model::{Amount, Policy, ResourceRequest};

    use super::*;

    fn spec(cpus: u64, mem_mib: Option<u64>) -> Arc<TaskSpec> {
        let one = |name: &str, count| ResourceRequest {
            name: name.into(),
            amount: AmountRequest::Some(Amount::whole(count), Policy::Compact),
        };
        let resources = [Some(one(CPUS, cpus)), mem_mib.map(|mib| one(MEM, mib))];
        let request = Request { resources: resources.into_iter().flatten().collect(), ..Request::default() };
        let time_limit = Some(Duration::from_secs(3600));
        Arc::new(TaskSpec { requests: vec![request], time_limit, ..TaskSpec::default() })
    }

    fn usage(wall_s: u64, cpu_s: u64, rss_mib: u64) -> Usage {
        Usage {
            wall_us: wall_s * 1_000_000,
            user_us: cpu_s * 1_000_000,
            rss_max_kib: rss_mib * 1024,
            ..Usage::default()
        }
    }

    #[test]
    fn a_quantile_is_never_too_small_and_at_most_two_percent_too_large() {
        let mut histogram = Histogram::default();
        (1..=10_000).for_each(|value| histogram.add(value));
        for (part, exact) in [(0.5, 5_000), (0.9, 9_000), (0.99, 9_900), (1.0, 10_000)] {
            let found = histogram.quantile(part);
            assert!((exact..=exact + exact / 49).contains(&found), "{part}: {found}");
        }
        let mut same = Histogram::default();
        (0..5).for_each(|_| same.add(777));
        assert_eq!(same.quantile(0.99), 777, "never more than the largest");
        same.add(u64::MAX);
        assert_eq!((same.quantile(1.0), Histogram::default().quantile(0.99)), (u64::MAX, 0));
    }

    #[test]
    fn what_to_ask_for_is_what_99_of_100_used_and_some_room() {
        let mut kinds = Kinds::default();
        for task in 0..1000 {
            // One of them needs far more than the others.
            let rss = if task == 7 { 7_000 } else { 2_500 };
            kinds.add(JobId(3), &spec(4, Some(8192)), false, Some((&usage(100, 95, rss), None)));
        }
        let kind = kinds.sorted().remove(0);
        assert_eq!((kind.tasks, kind.memory_used_mib()), (1000, (2_544, 7_000)));
        assert_eq!((kind.memory_advised_mib(), kind.cpus_advised()), (Some(2_816), Some(1.0)));
        assert_eq!(kind.cpu_part().map(|part| (part * 1000.0).round()), Some(238.0));
        assert_eq!(kind.core_hours_unused().map(f64::round), Some(85.0));
        assert_eq!(kind.time_us, Some(3_600_000_000));
    }

    #[test]
    fn tasks_that_ask_for_the_same_are_one_kind_whatever_their_job() {
        let mut kinds = Kinds::default();
        kinds.add(JobId(1), &spec(1, None), false, Some((&usage(1, 1, 10), None)));
        kinds.add(JobId(5), &spec(1, None), true, None);
        kinds.add(JobId(2), &spec(2, None), false, Some((&usage(50, 100, 10), None)));
        let all = kinds.sorted();
        let told: Vec<_> = all.iter().map(|kind| (kind.cpus, kind.jobs, kind.tasks, kind.failed)).collect();
        let of = |first, last| (JobId(first), JobId(last));
        assert_eq!(
            told,
            [(Some(2.0), of(2, 2), 1, 0), (Some(1.0), of(1, 5), 2, 1)],
            "what used most comes first"
        );
        assert_eq!(all[0].cpus_advised(), Some(2.0));
        assert_eq!(all[1].measured, 1, "a task that was never measured is counted, and no more");
    }

    #[test]
    fn node_hours_are_those_of_tasks_on_known_workers() {
        let (mut kinds, offer) = (Kinds::default(), WorkerResources::cpus(8));
        kinds.add(JobId(1), &spec(4, None), false, Some((&usage(3600, 1, 10), Some(&offer))));
        kinds.add(JobId(1), &spec(4, None), true, Some((&usage(1800, 1, 10), Some(&offer))));
        kinds.add(JobId(1), &spec(4, None), false, Some((&usage(3600, 1, 10), None)));
        let kind = kinds.sorted().remove(0);
        assert_eq!((kind.node_hours(), kind.on_known, kind.measured), (0.75, 2, 3));
    }

    #[test]
    fn node_hours_are_saved_where_what_is_advised_is_a_smaller_part_of_a_worker() {
        let (mut kinds, small, large) =
            (Kinds::default(), WorkerResources::cpus(8), WorkerResources::cpus(16));
        for offer in [&small, &large, &small] {
            kinds.add(JobId(1), &spec(4, None), false, Some((&usage(3600, 3500, 10), Some(offer))));
        }
        let kind = kinds.sorted().remove(0);
        // One CPU would have been enough: an eighth and a sixteenth instead of a half and a quarter.
        assert_eq!((kind.node_hours(), kind.cpus_advised()), (1.25, Some(1.0)));
        assert_eq!(kind.node_hours_saved(), 1.25 - 0.3125);
        let mut busy = Kinds::default();
        busy.add(JobId(1), &spec(4, None), false, Some((&usage(3600, 4 * 3600, 10), Some(&small))));
        assert_eq!(busy.sorted().remove(0).node_hours_saved(), 0.0);
    }

    #[test]
    fn there_is_a_limit_on_kinds() {
        let mut kinds = Kinds::default();
        for cpus in 0..KINDS_MAX as u64 + 5 {
            kinds.add(JobId(1), &spec(cpus + 1, None), false, None);
        }
        kinds.add(JobId(1), &spec(1, None), false, None);
        assert_eq!(kinds.left_out, 5);
        assert_eq!(kinds.sorted().len(), KINDS_MAX);
    }
}
