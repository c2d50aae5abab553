//! The energy that workers used: measured where the journal has it, and else estimated by a number of watts for each CPU.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::sample::{EnergyOf, NodeEnergy};
use hq_model::{Timestamp, WorkerId};

use super::{Accounts, Gathered};

/// Readings of a worker that are kept: of more, every second one goes.
const READINGS_MAX: usize = 1_000;

/// What a worker measured: readings of a counter that begins with it.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    readings: Vec<(Timestamp, u64)>,
    // Of what, the last one says.
    of: EnergyOf,
}

impl Measured {
    /// The worker has told of its counter.
    pub(super) fn heard(&mut self, at: Timestamp, energy: NodeEnergy) {
        self.of = energy.of;
        if self.readings.len() >= READINGS_MAX {
            let mut place = 0;
            self.readings.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
        self.readings.push((at, energy.used_uj));
    }

    // Between the last readings before two times, in joules.
    fn between(&self, from: Timestamp, to: Timestamp) -> Option<f64> {
        let first = self.readings.iter().rfind(|reading| reading.0 <= from).or(self.readings.first())?;
        let last = self.readings.iter().rfind(|reading| reading.0 <= to)?;
        (last.0 > first.0).then(|| last.1.saturating_sub(first.1) as f64 / 1e6)
    }
}

/// Energy of some workers, in joules.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EnergySum {
    /// What was measured.
    pub(crate) measured: f64,
    /// Of so many workers.
    pub(crate) measured_workers: u64,
    /// And of what.
    pub(crate) measured_of: BTreeSet<EnergyOf>,
    /// What the accounting of Slurm has.
    pub(crate) accounted: f64,
    /// Of so many workers.
    pub(crate) accounted_workers: u64,
    /// What others used, by the watts of a CPU.
    pub(crate) estimated: f64,
    /// So many others.
    pub(crate) estimated_workers: u64,
}

impl EnergySum {
    /// The energy of all workers: what was measured, of others what the accounting of Slurm has, and of the rest so many watts for
    /// each CPU, if that is said. Each measures its whole node, so of several that were on one node at a time one counts.
    pub(crate) fn of(
        gathered: &Gathered,
        accounts: &Accounts,
        slurm: &BTreeMap<String, u64>,
        watts_per_cpu: Option<f64>,
    ) -> EnergySum {
        let mut sum = EnergySum::default();
        // Until when somebody has measured a node.
        let mut measured_until: BTreeMap<&str, Timestamp> = BTreeMap::new();
        let mut workers: Vec<_> = accounts.workers.iter().map(|(id, pair)| (*id, pair)).collect();
        workers.sort_by_key(|(id, _)| gathered.offers[id].joined);
        let parts = Parts::of(gathered, accounts, slurm);
        for (worker, (cpus, _)) in workers {
            let offer = &gathered.offers[&worker];
            let measured = gathered.energy.get(&worker);
            let joules = measured.and_then(|measured| measured.between(accounts.from, accounts.to));
            let is_of_gpus = measured.is_some_and(|measured| measured.of == EnergyOf::Gpus);
            if let Some((measured, joules)) = measured.zip(joules) {
                let until = measured_until.entry(&offer.hostname).or_default();
                if offer.joined >= *until {
                    *until = offer.ended.unwrap_or(gathered.latest);
                    sum.measured += joules;
                    sum.measured_workers += 1;
                    sum.measured_of.insert(measured.of);
                }
                // Its processors have used some, too.
                if !is_of_gpus {
                    continue;
                }
            } else if let Some(joules) = parts.joules(worker) {
                sum.accounted += joules;
                sum.accounted_workers += 1;
                continue;
            }
            if let Some(watts) = watts_per_cpu {
                sum.estimated += cpus.total_seconds() * watts;
                sum.estimated_workers += 1;
            }
        }
        sum
    }
}

/// What the accounting of Slurm has of the jobs of workers none of whom measured anything: each has a part by the time that it was
/// there.
struct Parts<'a> {
    gathered: &'a Gathered,
    accounts: &'a Accounts,
    // The joules of a job, and for how long its workers were there, in µs.
    jobs: BTreeMap<&'a str, (u64, u64)>,
}

impl<'a> Parts<'a> {
    fn of(gathered: &'a Gathered, accounts: &'a Accounts, slurm: &'a BTreeMap<String, u64>) -> Parts<'a> {
        let mut jobs: BTreeMap<&str, (u64, u64)> =
            slurm.iter().map(|(job, joules)| (job.as_str(), (*joules, 0))).collect();
        for (worker, offer) in &gathered.offers {
            let Some(job) = offer.slurm_job.as_deref() else { continue };
            if gathered.energy.contains_key(worker) {
                jobs.remove(job);
            } else if let Some((_, us)) = jobs.get_mut(job) {
                *us += offer.ended.unwrap_or(gathered.latest).since(offer.joined).as_micros() as u64;
            }
        }
        Parts { gathered, accounts, jobs }
    }

    fn joules(&self, worker: WorkerId) -> Option<f64> {
        let job = self.gathered.offers[&worker].slurm_job.as_deref()?;
        let (joules, all_us) = self.jobs.get(job).filter(|(_, us)| *us > 0)?;
        let us = self.accounts.presence_us.get(&worker)?;
        Some(*joules as f64 * *us as f64 / *all_us as f64)
    }
}

impl Gathered {
    /// The jobs of Slurm in which workers ran that measured nothing.
    pub(crate) fn unmeasured_slurm_jobs(&self) -> Vec<String> {
        let unmeasured = self.offers.iter().filter(|(worker, _)| !self.energy.contains_key(worker));
        let jobs: BTreeSet<&String> = unmeasured.filter_map(|(_, offer)| offer.slurm_job.as_ref()).collect();
        jobs.into_iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp(second * 1_000_000)
    }

    fn used(used_uj: u64) -> NodeEnergy {
        NodeEnergy { used_uj, of: EnergyOf::Processors }
    }

    #[test]
    fn energy_is_what_a_counter_has_counted_between_two_times() {
        let mut measured = Measured::default();
        assert_eq!(measured.between(at(0), at(9)), None);
        measured.heard(at(10), used(1_000_000));
        assert_eq!(measured.between(at(0), at(20)), None, "one reading says nothing");
        measured.heard(at(20), used(3_000_000));
        measured.heard(at(30), used(7_000_000));
        for (from, to, joules) in [(0, 30, 6.0), (0, 25, 2.0), (12, 99, 6.0), (20, 30, 4.0)] {
            assert_eq!(measured.between(at(from), at(to)), Some(joules), "{from} to {to}");
        }
    }

    #[test]
    fn readings_are_few_and_the_last_one_counts() {
        let mut measured = Measured::default();
        (0..10_000).for_each(|second| measured.heard(at(second), used(second * 1_000_000)));
        assert!(measured.readings.len() <= READINGS_MAX);
        assert_eq!(measured.between(at(0), at(9_999)), Some(9_999.0));
    }
}
