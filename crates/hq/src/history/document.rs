//! What the page of `hq journal report` is told: one document, in which times are µs after its begin.

use std::collections::{BTreeMap, BTreeSet};

use hq_core::cause;
use hq_model::{JobId, Timestamp, WorkerId};
use serde_json::{Value, json};

use super::Past;
use super::bars::{BARS_MAX, Timeline, text_of, unit_us};
use super::chains::{Chains, Link};
use super::columns::{Columns, rounded};
use crate::accounts::{Account, Accounts, Attempt, PARTS, Part, Step};
use crate::efficiency::Kind;

/// Columns of what is shown over time.
const COLUMNS: usize = 2_000;
/// Workers with a row: those of the lowest ids.
const WORKERS_MAX: usize = 10_000;
/// Jobs listed: those that took most time.
const JOBS_MAX: usize = 1_000;
/// Causes of failures listed: those of most failures.
const CAUSES_MAX: usize = 200;
/// Kinds of tasks listed: those that took most time.
const KINDS_MAX: usize = 100;
/// Tasks of the critical path listed: the longest ones.
const LINKS_MAX: usize = 1_000;
/// Letters of a name that are shown.
const NAME_MAX: usize = 200;
/// Steps of waiting times, in µs: three to a power of ten.
const WAIT_STEPS: [u64; 16] = [
    1_000,
    3_000,
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
    u64::MAX,
];

impl Past {
    /// Name of the server.
    pub(crate) fn server(&self) -> &str {
        &self.history.gathered.uid
    }

    /// Everything that the page shows. The kinds of tasks are taken out.
    pub(crate) fn document(&mut self) -> Value {
        let kinds = std::mem::take(&mut self.history.kinds);
        let kinds_left_out = kinds.left_out;
        let kinds = kinds.sorted();
        let past = &*self;
        let mut chains = Chains::new(&past.history.submits, past.attempts());
        let waits = chains.waits();
        let (workers, timeline) = past.workers();
        json!({
            "server": past.server(),
            "version": env!("CARGO_PKG_VERSION"),
            "from_us": past.accounts.from.0,
            "span_us": past.span_us(),
            "unit_us": unit_us(past.span_us()),
            "totals": past.totals(),
            "parts": parts(&past.accounts.cpus, &past.accounts.gpus),
            "workers": workers,
            "timeline": timeline,
            "over_time": past.over_time(),
            "waits": waits_of_all(&waits),
            "kinds": kinds.iter().take(KINDS_MAX).map(kind_row).collect::<Vec<_>>(),
            "kinds_left_out": kinds_left_out + kinds.iter().skip(KINDS_MAX).map(|kind| kind.tasks).sum::<u64>(),
            "failures": past.failures(),
            "path": past.path(&chains.longest()),
            "jobs": past.jobs(&waits),
        })
    }

    fn attempts(&self) -> &[Attempt] {
        &self.history.gathered.attempts
    }

    fn span_us(&self) -> u64 {
        self.accounts.to.0.saturating_sub(self.accounts.from.0).max(1)
    }

    // µs after the begin.
    fn after(&self, at: Timestamp) -> u64 {
        at.min(self.accounts.to).0.saturating_sub(self.accounts.from.0)
    }

    fn totals(&self) -> Value {
        let Accounts { attempts, ttc_us, ttx_us, presence_us, .. } = &self.accounts;
        json!({
            "attempts": {"finished": attempts[0], "failed": attempts[1], "lost": attempts[2]},
            "not_kept": self.history.gathered.left_out,
            "restarts": self.history.restarts,
            "starts": self.history.starts.len(),
            "node_hours": self.accounts.node_hours(presence_us.keys()),
            "ttc_us": ttc_us,
            "ttx_us": ttx_us,
            "compacted_us": self.after(self.history.gathered.compacted),
        })
    }

    fn workers(&self) -> (Value, Value) {
        let timeline = Timeline::new(self.attempts(), &self.lanes, self.span_us(), BARS_MAX);
        let offers = &self.history.gathered.offers;
        let mut counts: BTreeMap<WorkerId, [u64; 3]> = BTreeMap::new();
        for attempt in self.attempts() {
            counts.entry(attempt.worker).or_default()[(attempt.part as usize).min(2)] += 1;
        }
        let (from, to) = (self.accounts.from, self.accounts.to);
        let was_there = |id: &&WorkerId| {
            offers.get(id).is_none_or(|offer| offer.joined <= to && offer.ended.is_none_or(|at| at >= from))
        };
        let ids: BTreeSet<WorkerId> = offers.keys().chain(counts.keys()).filter(was_there).copied().collect();
        let total = ids.len();
        let unit = unit_us(self.span_us());
        let rows: Vec<Value> = ids
            .into_iter()
            .take(WORKERS_MAX)
            .map(|id| {
                let offer = offers.get(&id);
                let [finished, failed, lost] = counts.get(&id).copied().unwrap_or_default();
                let lanes = timeline.workers.get(&id).map(Vec::as_slice).unwrap_or_default();
                json!({
                    "id": id.0,
                    "host": offer.map(|offer| short(&offer.hostname)),
                    "allocation": offer.and_then(|offer| offer.allocation.clone()),
                    "joined_us": offer.map(|offer| self.after(offer.joined)),
                    "ended_us": offer.and_then(|offer| offer.ended).filter(|at| *at <= to).map(|at| self.after(at)),
                    "cpus": offer.map(|offer| offer.amounts.cpus()),
                    "gpus": offer.map(|offer| offer.amounts.gpus()),
                    "attempts": {"finished": finished, "failed": failed, "lost": lost},
                    "work": self.accounts.workers.get(&id).map(|(cpus, gpus)| work(cpus, gpus)),
                    "lanes": lanes.len(),
                    "bars": text_of(lanes, from, unit),
                })
            })
            .collect();
        let about = json!({
            "resolution_us": timeline.resolution_us,
            "bars": timeline.bars(),
            "left_out": timeline.left_out,
            "workers": total,
        });
        (Value::Array(rows), about)
    }

    fn over_time(&self) -> Value {
        let (from, to) = (self.accounts.from, self.accounts.to);
        let columns = || Columns::new(from, to, COLUMNS);
        let [mut running, mut cpus, mut gpus] = [(); 3].map(|()| columns());
        let [mut cpus_offered, mut gpus_offered, mut ready, mut blocked] = [(); 4].map(|()| columns());
        for attempt in self.attempts() {
            let taken = self.history.gathered.taken_by(attempt);
            if attempt.leads {
                running.add(attempt.start, attempt.end, 1.0);
            }
            cpus.add(attempt.start, attempt.end, taken.cpus());
            gpus.add(attempt.start, attempt.end, taken.gpus());
        }
        for offer in self.history.gathered.offers.values() {
            let end = offer.ended.unwrap_or(to);
            cpus_offered.add(offer.joined, end, offer.amounts.cpus());
            gpus_offered.add(offer.joined, end, offer.amounts.gpus());
        }
        for (place, Step { from, ready: now_ready, blocked: now_blocked }) in self.steps.iter().enumerate() {
            let until = self.steps.get(place + 1).map_or(to, |next| next.from);
            ready.add(*from, until, *now_ready as f64);
            blocked.add(*from, until, *now_blocked as f64);
        }
        json!({
            "running": running.averages(),
            "ready": ready.averages(),
            "blocked": blocked.averages(),
            "cpus": cpus.averages(),
            "cpus_offered": cpus_offered.averages(),
            "gpus": gpus.averages(),
            "gpus_offered": gpus_offered.averages(),
        })
    }

    fn failures(&self) -> Value {
        let causes = self.history.causes.iter();
        let mut causes: Vec<_> =
            causes.flat_map(|(job, causes)| causes.iter().map(move |cause| (*job, cause))).collect();
        causes.sort_by_key(|(job, cause)| (std::cmp::Reverse(cause.count), *job));
        let rows = causes.iter().take(CAUSES_MAX).map(|(job, cause)| {
            json!({
                "job": job.0,
                "kind": cause.kind.word(),
                "text": cause.text,
                "count": cause.count,
                "first": cause.first.0,
                "first_error": cause.first_error,
                "workers": cause.workers.iter().map(|worker| worker.0).collect::<Vec<_>>(),
            })
        });
        let rows: Vec<Value> = rows.collect();
        let list = self.history.failures.iter().map(|failure| {
            json!({
                "at_us": self.after(failure.at),
                "job": failure.job.0,
                "task": failure.task.0,
                "worker": failure.worker.map(|worker| worker.0),
                "kind": failure.kind,
                "error": failure.error,
            })
        });
        let list: Vec<Value> = list.collect();
        json!({"total": self.history.failures_total, "causes": rows, "causes_total": causes.len(), "list": list})
    }

    fn path(&self, links: &[Link]) -> Value {
        let attempts = self.attempts();
        let length = |link: &Link| attempts[link.last].end.0.saturating_sub(link.ready.min(link.start).0);
        let mut shown: Vec<usize> = (0..links.len()).collect();
        if links.len() > LINKS_MAX {
            shown.sort_unstable_by_key(|place| (std::cmp::Reverse(length(&links[*place])), *place));
            shown.truncate(LINKS_MAX);
            shown.sort_unstable();
        }
        let rows = shown.iter().map(|place| {
            let link = &links[*place];
            let attempt = &attempts[link.last];
            json!({
                "job": attempt.job.0,
                "task": attempt.task.0,
                "worker": attempt.worker.0,
                "lane": self.lanes[link.last],
                "attempts": link.attempts,
                "outcome": attempt.part.word(),
                "ready_us": self.after(link.ready),
                "start_us": self.after(link.start),
                "last_start_us": self.after(attempt.start),
                "end_us": self.after(attempt.end),
            })
        });
        let rows: Vec<Value> = rows.collect();
        let waited: u64 = links.iter().map(|link| link.start.0.saturating_sub(link.ready.0)).sum();
        let ran: u64 = links.iter().map(|link| attempts[link.last].end.0.saturating_sub(link.start.0)).sum();
        json!({"tasks": links.len(), "waited_us": waited, "ran_us": ran, "links": rows})
    }

    fn jobs(&self, waits: &BTreeMap<JobId, Vec<u64>>) -> Value {
        let all = self.history.all_jobs();
        let total = all.len();
        let took = |id: &JobId| self.accounts.jobs.get(id).map_or(0, |job| job.cpus.total());
        let mut ids: Vec<JobId> = all.keys().copied().collect();
        if total > JOBS_MAX {
            ids.sort_by_key(|id| (std::cmp::Reverse(took(id)), *id));
            ids.truncate(JOBS_MAX);
            ids.sort_unstable();
        }
        let rows = ids.iter().map(|id| {
            let job = &all[id];
            let [finished, failed, canceled, aborted] = job.ended;
            let account = self.accounts.jobs.get(id).copied().unwrap_or_default();
            json!({
                "id": id.0,
                "name": short(&job.name),
                "submitted_us": self.after(job.submitted),
                "last_end_us": (job.last_end > Timestamp(0)).then(|| self.after(job.last_end)),
                "tasks": job.tasks,
                "finished": finished,
                "failed": failed,
                "canceled": canceled,
                "aborted": aborted,
                "attempts": account.attempts,
                "cpu_seconds": account.cpus.total_seconds(),
                "gpu_seconds": account.gpus.total_seconds(),
                "wait_us": waits.get(id).and_then(|waits| part_of(waits, 0.5)),
            })
        });
        let rows: Vec<Value> = rows.collect();
        json!({"total": total, "rows": rows})
    }
}

fn short(name: &str) -> String {
    cause::shortened(name).chars().take(NAME_MAX).collect()
}

fn parts(cpus: &Account, gpus: &Account) -> Value {
    let rows = PARTS.iter().map(|part| {
        json!({"part": part.word(), "cpu_seconds": cpus.seconds(*part), "gpu_seconds": gpus.seconds(*part)})
    });
    let rows: Vec<Value> = rows.collect();
    json!({"cpu_seconds": cpus.total_seconds(), "gpu_seconds": gpus.total_seconds(), "rows": rows})
}

// The part of the time of a worker that was work, of its GPUs where it offered no CPUs.
fn work(cpus: &Account, gpus: &Account) -> Option<f64> {
    let account = if cpus.total() > 0 { cpus } else { gpus };
    (account.total() > 0).then(|| rounded(account.seconds(Part::Work) / account.total_seconds()))
}

fn kind_row(kind: &Kind) -> Value {
    let (memory, memory_most) = kind.memory_used_mib();
    let (time, time_most) = kind.time_used_us();
    json!({
        "asks": short(&kind.asks),
        "jobs": [kind.jobs.0.0, kind.jobs.1.0],
        "tasks": kind.tasks,
        "failed": kind.failed,
        "core_hours_unused": kind.core_hours_unused(),
        "cpu_part": kind.cpu_part(),
        "cpus_advised": kind.cpus_advised(),
        "cpus": kind.cpus,
        "memory_mib": kind.memory_mib,
        "memory_used_mib": [memory, memory_most],
        "memory_advised_mib": kind.memory_advised_mib(),
        "time_us": kind.time_us,
        "time_used_us": [time, time_most],
    })
}

fn waits_of_all(by_job: &BTreeMap<JobId, Vec<u64>>) -> Value {
    let mut all: Vec<u64> = by_job.values().flatten().copied().collect();
    all.sort_unstable();
    let mut before = 0;
    let steps = WAIT_STEPS.iter().map(|step| {
        let until = all.partition_point(|wait| wait < step);
        let count = until - std::mem::replace(&mut before, until);
        json!([Some(step).filter(|step| **step < u64::MAX), count])
    });
    let steps: Vec<Value> = steps.collect();
    let parts = [0.0, 0.5, 0.9, 0.99, 1.0].map(|part| part_of(&all, part));
    json!({"count": all.len(), "steps": steps, "quantiles_us": parts})
}

// The value that this part of all does not exceed.
fn part_of(sorted: &[u64], part: f64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * part) as usize).copied()
}
