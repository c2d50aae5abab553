//! The sums: for each worker its time is cut where something begins or ends, and each piece divided.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

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
    /// How long each worker was there, in µs.
    pub(crate) presence_us: BTreeMap<WorkerId, u64>,
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
        let turns = std::mem::take(&mut gathered.budgets).turns();
        let phases = std::mem::take(&mut gathered.waiting).map(|waiting: Waiting| waiting.phases(&turns));
        // In place, since there may be millions: first by worker, then those of one by when they could start.
        let mut all = std::mem::take(&mut gathered.attempts);
        all.retain(|attempt| attempt.end > from && attempt.start < to);
        all.sort_unstable_by_key(|attempt| attempt.worker);
        let mut jobs: BTreeMap<JobId, JobAccount> = BTreeMap::new();
        let mut attempts = [0; 3];
        let mut spans = Vec::new();
        let (mut workers, mut presence_us) = (BTreeMap::new(), BTreeMap::new());
        let (mut cpus, mut gpus) = (Account::default(), Account::default());
        for mine in all.chunk_by_mut(|one, next| one.worker == next.worker) {
            for attempt in mine.iter() {
                let job = jobs.entry(attempt.job).or_default();
                let taken = gathered.taken_by(attempt);
                let time_us = attempt.end.min(to).0 - attempt.start.max(from).0;
                job.cpus.add(attempt.part, taken.of(Kind::Cpus), time_us);
                job.gpus.add(attempt.part, taken.of(Kind::Gpus), time_us);
                if attempt.leads {
                    job.attempts += 1;
                    attempts[(attempt.part as usize).min(2)] += 1;
                }
            }
            mine.sort_unstable_by_key(|attempt| attempt.start);
            let leading = mine.iter().filter(|attempt| attempt.leads);
            unite(leading.map(|attempt| (attempt.start.max(from), attempt.end.min(to))), &mut spans);
        }
        let mut of_worker: BTreeMap<WorkerId, &mut [Attempt]> = all
            .chunk_by_mut(|one, next| one.worker == next.worker)
            .filter_map(|mine| Some((mine.first()?.worker, mine)))
            .collect();
        for (id, offer) in &gathered.offers {
            let mine = of_worker.remove(id).unwrap_or_default();
            let window = (offer.joined.max(from), offer.ended.unwrap_or(gathered.latest).min(to));
            let known = gathered.compacted;
            let last_lease = mine.iter().map(|attempt| attempt.leased).max();
            find_when_they_could_start(mine);
            let [cpu, gpu] = KINDS.map(|kind| {
                let phases = &phases[kind as usize];
                let taken = |attempt: &Attempt| gathered.taken_by(attempt).of(kind);
                Sweep { offer, kind, window, known, phases, last_lease }.divide(mine, taken)
            });
            cpus.take(&cpu);
            gpus.take(&gpu);
            workers.insert(*id, (cpu, gpu));
            presence_us.insert(*id, window.1.0.saturating_sub(window.0.0));
        }
        gathered.attempts = all;
        let first = gathered.first_submit.unwrap_or(from).max(from);
        let last = spans.iter().map(|span| span.1).max().unwrap_or(first);
        let ttc_us = last.0.saturating_sub(first.0);
        Accounts {
            from,
            to,
            cpus,
            gpus,
            workers,
            presence_us,
            jobs,
            attempts,
            ttc_us,
            ttx_us: union_us(spans),
        }
    }
}

impl Accounts {
    /// Node hours of these workers: how long they were there.
    pub(crate) fn node_hours<'a>(&self, workers: impl Iterator<Item = &'a WorkerId>) -> f64 {
        let us = workers.filter_map(|worker| self.presence_us.get(worker));
        us.map(|us| *us as f64 / 3.6e9).sum()
    }

    /// Node hours that so many seconds of a CPU are, on average over all workers.
    pub(crate) fn node_hours_of_cpu(&self, seconds: f64) -> f64 {
        let all = self.cpus.total_seconds();
        if all == 0.0 { 0.0 } else { self.node_hours(self.presence_us.keys()) * seconds / all }
    }
}

// Adds spans in order of their begins, those that touch each other as one.
fn unite(spans: impl Iterator<Item = (Timestamp, Timestamp)>, united: &mut Vec<(Timestamp, Timestamp)>) {
    let first = united.len();
    for (start, end) in spans {
        match united[first..].last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => united.push((start, end)),
        }
    }
}

// What waits in the worker's backlog could start when something there had ended: that becomes the time of the lease, and the
// order is by it.
fn find_when_they_could_start(attempts: &mut [Attempt]) {
    let mut ends: Vec<Timestamp> = attempts.iter().map(|attempt| attempt.end).collect();
    ends.sort_unstable();
    for attempt in attempts.iter_mut() {
        let before = ends.partition_point(|end| *end <= attempt.start);
        let room = before.checked_sub(1).map_or(Timestamp(0), |place| ends[place]);
        attempt.leased = attempt.leased.max(room).min(attempt.start);
    }
    attempts.sort_unstable_by_key(|attempt| attempt.leased);
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
    last_lease: Option<Timestamp>,
}

// When of a part so much begins (above zero) or ends.
type Change = (Timestamp, u8, i64);

// The changes of attempts that are in order of when they could start: only those of attempts that go on are known at a time.
struct Changes<'a, F> {
    attempts: std::slice::Iter<'a, Attempt>,
    soon: BinaryHeap<Reverse<Change>>,
    taken: F,
}

impl<F: Fn(&Attempt) -> u64> Iterator for Changes<'_, F> {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        loop {
            let begins = self.attempts.as_slice().first().map(|attempt| attempt.leased);
            if let Some(Reverse(change)) = self.soon.peek().copied()
                && begins.is_none_or(|begins| change.0 <= begins)
            {
                self.soon.pop();
                return Some(change);
            }
            let attempt = self.attempts.next()?;
            let amount = i64::try_from((self.taken)(attempt)).unwrap_or(i64::MAX);
            if amount == 0 {
                continue;
            }
            let (starting, part) = (Part::Starting as u8, attempt.part as u8);
            self.soon.push(Reverse((attempt.leased, starting, amount)));
            self.soon.push(Reverse((attempt.start, starting, -amount)));
            self.soon.push(Reverse((attempt.start, part, amount)));
            self.soon.push(Reverse((attempt.end, part, -amount)));
        }
    }
}

// What runs at a moment, by part: work, failed, lost, starting.
type Running = [i128; 4];

impl Sweep<'_> {
    fn divide(&self, attempts: &[Attempt], taken: impl Fn(&Attempt) -> u64) -> Account {
        let mut account = Account::default();
        let offered = self.offer.amounts.of(self.kind);
        let (from, to) = self.window;
        if offered == 0 || to <= from {
            return account;
        }
        let changes = Changes { attempts: attempts.iter(), soon: BinaryHeap::new(), taken };
        let last_lease = self.last_lease.unwrap_or(from);
        let mut running: Running = [0; 4];
        let mut at = from;
        let mut phase = self.phases.partition_point(|phase| phase.from <= from).saturating_sub(1);
        for (when, part, amount) in changes.chain([(to, Part::Work as u8, 0)]) {
            let when = when.clamp(from, to);
            if when > at {
                self.piece(&mut account, offered, running, (at, when), &mut phase, last_lease);
                at = when;
            }
            running[usize::from(part)] += i128::from(amount);
        }
        account
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
            } else if now.has_unpaid {
                Part::OverBudget
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
