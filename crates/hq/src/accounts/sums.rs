//! The sums: for each worker its time is cut where something begins or ends, and each piece divided.

use std::collections::BTreeMap;

use hq_model::{JobId, Timestamp, WorkerId};

use super::waiting::{Phase, Waiting};
use super::{Attempt, Gathered, KINDS, Kind, Offer, PARTS, Part};

/// Amounts times µs, in 1/10000 µs: one number for each part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    parts: [u128; PARTS.len()],
}

impl Account {
    /// Of one part, in seconds of one CPU or GPU.
    pub(crate) fn seconds(&self, part: Part) -> f64 {
        self.parts[part as usize] as f64 / 1e10
    }

    /// All together: what was offered.
    pub(crate) fn total_seconds(&self) -> f64 {
        self.total() as f64 / 1e10
    }

    /// All together, in 1/10000 µs.
    pub(crate) fn total(&self) -> u128 {
        self.parts.iter().sum()
    }

    fn add(&mut self, part: Part, amount: u64, time_us: u64) {
        self.parts[part as usize] += u128::from(amount) * u128::from(time_us);
    }

    /// Adds another one.
    pub(crate) fn take(&mut self, other: &Account) {
        for (sum, part) in self.parts.iter_mut().zip(other.parts) {
            *sum += part;
        }
    }
}

/// What the attempts of a job took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobAccount {
    /// Attempts that ended.
    pub(crate) attempts: u64,
    /// CPU time: only what attempts are charged with, since idle time is nobody's.
    pub(crate) cpus: Account,
    /// GPU time.
    pub(crate) gpus: Account,
}

/// Everything that is shown.
pub(crate) struct Accounts {
    /// From when.
    pub(crate) from: Timestamp,
    /// To when.
    pub(crate) to: Timestamp,
    /// CPU time of all workers.
    pub(crate) cpus: Account,
    /// GPU time of all workers.
    pub(crate) gpus: Account,
    /// CPU and GPU time by worker.
    pub(crate) workers: BTreeMap<WorkerId, (Account, Account)>,
    /// By job.
    pub(crate) jobs: BTreeMap<JobId, JobAccount>,
    /// Attempts that ended with a result, without one, and that were lost.
    pub(crate) attempts: [u64; 3],
    /// In µs: from the first submit to the last end, as far as it lies within the time that is looked at.
    pub(crate) ttc_us: u64,
    /// In µs: how long at least one attempt ran.
    pub(crate) ttx_us: u64,
}

impl Accounts {
    /// Divides what was offered between two moments.
    pub(crate) fn new(gathered: &mut Gathered, from: Timestamp, to: Timestamp) -> Accounts {
        let phases = std::mem::take(&mut gathered.waiting).map(Waiting::phases);
        let within = |attempt: &&Attempt| attempt.end > from && attempt.start < to;
        let mut by_worker: BTreeMap<WorkerId, Vec<&Attempt>> = BTreeMap::new();
        let mut jobs: BTreeMap<JobId, JobAccount> = BTreeMap::new();
        let mut attempts = [0; 3];
        let mut spans = Vec::new();
        for attempt in gathered.attempts.iter().filter(within) {
            by_worker.entry(attempt.worker).or_default().push(attempt);
            let job = jobs.entry(attempt.job).or_default();
            let time_us = attempt.end.min(to).0 - attempt.start.max(from).0;
            job.cpus.add(attempt.part, attempt.amounts.of(Kind::Cpus), time_us);
            job.gpus.add(attempt.part, attempt.amounts.of(Kind::Gpus), time_us);
            if attempt.leads {
                job.attempts += 1;
                attempts[(attempt.part as usize).min(2)] += 1;
                spans.push((attempt.start.max(from), attempt.end.min(to)));
            }
        }
        let mut workers = BTreeMap::new();
        let (mut cpus, mut gpus) = (Account::default(), Account::default());
        for (id, offer) in &gathered.offers {
            let mine = by_worker.remove(id).unwrap_or_default();
            let window = (offer.joined.max(from), offer.ended.unwrap_or(gathered.latest).min(to));
            let known = gathered.compacted;
            let [cpu, gpu] = KINDS.map(|kind| {
                Sweep { offer, kind, window, known, phases: &phases[kind as usize] }.divide(&mine)
            });
            cpus.take(&cpu);
            gpus.take(&gpu);
            workers.insert(*id, (cpu, gpu));
        }
        let first = gathered.first_submit.unwrap_or(from).max(from);
        let last = spans.iter().map(|span| span.1).max().unwrap_or(first);
        let ttc_us = last.0.saturating_sub(first.0);
        Accounts { from, to, cpus, gpus, workers, jobs, attempts, ttc_us, ttx_us: union_us(spans) }
    }
}

// How long at least one of these lasted.
fn union_us(mut spans: Vec<(Timestamp, Timestamp)>) -> u64 {
    spans.sort_unstable();
    let (mut sum, mut until) = (0, Timestamp(0));
    for (start, end) in spans {
        let start = start.max(until);
        if end > start {
            sum += end.0 - start.0;
            until = end;
        }
    }
    sum
}

struct Sweep<'a> {
    offer: &'a Offer,
    kind: Kind,
    window: (Timestamp, Timestamp),
    known: Timestamp,
    phases: &'a [Phase],
}

// What runs at a moment, by part: work, failed, lost, starting.
type Running = [i128; 4];

impl Sweep<'_> {
    fn divide(&self, attempts: &[&Attempt]) -> Account {
        let mut account = Account::default();
        let offered = self.offer.amounts.of(self.kind);
        let (from, to) = self.window;
        if offered == 0 || to <= from {
            return account;
        }
        let changes = self.changes(attempts);
        let last_lease = attempts.iter().map(|attempt| attempt.leased).max().unwrap_or(from);
        let mut running: Running = [0; 4];
        let mut at = from;
        let mut phase = self.phases.partition_point(|phase| phase.from <= from).saturating_sub(1);
        for (when, part, amount) in changes.into_iter().chain([(to, Part::Work, 0)]) {
            let when = when.clamp(from, to);
            if when > at {
                self.piece(&mut account, offered, running, (at, when), &mut phase, last_lease);
                at = when;
            }
            running[part as usize] += amount;
        }
        account
    }

    // When how much of which part begins (above zero) and ends.
    fn changes(&self, attempts: &[&Attempt]) -> Vec<(Timestamp, Part, i128)> {
        let mut ends: Vec<Timestamp> = attempts.iter().map(|attempt| attempt.end).collect();
        ends.sort_unstable();
        let mut changes = Vec::with_capacity(attempts.len() * 4);
        for attempt in attempts {
            let amount = i128::from(attempt.amounts.of(self.kind));
            if amount == 0 {
                continue;
            }
            // What waits in the worker's backlog could start when something there had ended.
            let before = ends.partition_point(|end| *end <= attempt.start);
            let room = before.checked_sub(1).map_or(Timestamp(0), |place| ends[place]);
            let could = attempt.leased.max(room);
            if could < attempt.start {
                changes.push((could, Part::Starting, amount));
                changes.push((attempt.start, Part::Starting, -amount));
            }
            changes.push((attempt.start, attempt.part, amount));
            changes.push((attempt.end, attempt.part, -amount));
        }
        changes.sort_unstable_by_key(|change| change.0);
        changes
    }

    // A piece of time in which the same runs.
    fn piece(
        &self,
        account: &mut Account,
        offered: u64,
        running: Running,
        (from, to): (Timestamp, Timestamp),
        phase: &mut usize,
        last_lease: Timestamp,
    ) {
        let mut left = offered;
        for (part, amount) in PARTS.into_iter().zip(running) {
            let amount = u64::try_from(amount.max(0)).unwrap_or(u64::MAX).min(left);
            account.add(part, amount, to.0 - from.0);
            left -= amount;
        }
        if left == 0 {
            return;
        }
        let mut at = from;
        while at < to {
            while self.phases.get(*phase + 1).is_some_and(|next| next.from <= at) {
                *phase += 1;
            }
            let next = self.phases.get(*phase + 1).map_or(to, |next| next.from);
            let mut until = next.min(to);
            for edge in [self.known, last_lease] {
                if at < edge {
                    until = until.min(edge);
                }
            }
            let now = self.phases[*phase];
            let part = if at < self.known {
                Part::Unknown
            } else if now.has_ready && self.offer.was_sent_away && at >= last_lease {
                Part::Leaving
            } else if now.has_ready {
                Part::NoRoom
            } else if now.has_blocked {
                Part::Dependencies
            } else {
                Part::NoWork
            };
            account.add(part, left, until.0 - at.0);
            at = until;
        }
    }
}
