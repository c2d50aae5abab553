//! Everything in counts, for dashboards and metrics.
//!
//! Whoever watches says what it has seen, and is answered when that has changed: one answer for one question, so a client
//! that does not read is told nothing, and however many watch, the counts are taken once for all of them and only so often.

use std::collections::BTreeMap;

use hq_model::job::Counters;
use hq_model::{Amount, Epoch, JobState, Pace, Timestamp};

use super::clients::{Asked, WAIT_BYTES};
use super::machine::Server;
use super::{ConnectionId, Effect, Gate};
use crate::client_messages::{ClientResponse, JobSummary};
use crate::limits::{JOBS_PAGE_MAX, LOADS_NEWS_INTERVAL, OVERVIEW_BURST, OVERVIEW_GAP, OVERVIEW_INTERVAL};
use crate::overview::{Ended, Overview, ResourceUse, ServerProcess, WorkerCounts};
use crate::record::Record;

/// Changes of one start of the server are counted in so many bits, behind how often it was started.
const EPOCH_BITS: u32 = 40;

/// What changes, and who waits for that.
#[derive(Debug)]
pub(super) struct Watching {
    // How often something has changed.
    changes: u64,
    ended: Ended,
    // What each of those that wait has seen.
    waits: BTreeMap<Asked, u64>,
    // What watching clients were told last.
    told: Option<Overview>,
    pace: Pace,
    // When what workers tell of loads was news last.
    loads_told: Timestamp,
}

impl Default for Watching {
    fn default() -> Watching {
        Watching {
            changes: 0,
            ended: Ended::default(),
            waits: BTreeMap::new(),
            told: None,
            pace: Pace::new(OVERVIEW_GAP, OVERVIEW_INTERVAL, OVERVIEW_BURST),
            loads_told: Timestamp(0),
        }
    }
}

impl Watching {
    /// Numbers of another start of the server name nothing of this one.
    pub(super) fn begin(&mut self, epoch: Epoch) {
        self.changes = u64::from(epoch.0) << EPOCH_BITS;
    }

    /// Something has changed that is no record.
    pub(super) fn touch(&mut self) {
        self.changes += 1;
    }

    /// Workers have told of loads: now and then that is news.
    pub(super) fn loads_told(&mut self, now: Timestamp) {
        if now >= self.loads_told.after(LOADS_NEWS_INTERVAL) || now < self.loads_told {
            self.loads_told = now;
            self.changes += 1;
        }
    }

    /// Something has changed.
    pub(super) fn hear(&mut self, record: &Record) {
        self.changes += 1;
        let ended = &mut self.ended;
        match record {
            Record::Together { records } => records.iter().for_each(|record| self.hear(record)),
            Record::Finished { span, .. } => ended.finished += span.ids.len(),
            Record::Failed { .. } => ended.failed += 1,
            Record::Canceled { ids, .. } => ended.canceled += ids.len(),
            Record::Aborted { ids, .. } => ended.aborted += ids.len(),
            Record::Restarted { ids, .. } => ended.restarted += ids.len(),
            _ => {}
        }
    }

    /// How many requests of a client wait here.
    pub(super) fn count_of(&self, connection: ConnectionId) -> usize {
        self.waits.range((connection, 0)..=(connection, u64::MAX)).count()
    }

    /// About what all that wait here take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.waits.len() * WAIT_BYTES
    }

    /// A client has left.
    pub(super) fn forget(&mut self, connection: ConnectionId) {
        self.waits.retain(|asked, _| asked.0 != connection);
    }

    /// When those that wait may be told what has changed.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        let is_new = self.waits.values().any(|seen| *seen != self.changes);
        is_new.then(|| self.pace.next())
    }
}

impl Server {
    /// A client wants everything in counts: at once, unless it has seen what there is to see.
    pub(super) fn client_looks(
        &mut self,
        now: Timestamp,
        asked: Asked,
        seen: Option<u64>,
        effects: &mut Vec<Effect>,
    ) {
        let body = match (seen, &self.watching.told) {
            (None, _) => self.overview(now),
            // Never what is older than what it has seen.
            (Some(seen), Some(told)) if seen < told.change => told.clone(),
            (Some(seen), None) if seen != self.watching.changes => self.overview(now),
            (Some(seen), _) => {
                self.watching.waits.insert(asked, seen);
                return;
            }
        };
        answer(asked, body, effects);
    }

    /// Tells those that watch what has changed.
    pub(super) fn tell_overview(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.watching.next_wakeup().is_none_or(|at| at > now) {
            return;
        }
        let overview = self.overview(now);
        let has_news = |_: &Asked, seen: &mut u64| *seen != overview.change;
        for (asked, _) in self.watching.waits.extract_if(.., has_news) {
            answer(asked, overview.clone(), effects);
        }
        self.watching.told = Some(overview);
        self.watching.pace.told(now);
    }

    fn overview(&self, now: Timestamp) -> Overview {
        let mut tasks = Counters::default();
        let mut jobs: BTreeMap<JobState, u64> = JobState::ALL.into_iter().map(|state| (state, 0)).collect();
        // Those that are in line and whose job may go on, and those that wait on a worker for room alone.
        let classes = self.queue.in_order().chain(self.queue.pulled());
        let mut ready: u64 =
            classes.filter(|class| !self.is_spent(*class)).map(|class| self.queue.count(class)).sum();
        for (id, job) in &self.state.jobs {
            let running = self.running.count(*id);
            ready += job.leased_count().saturating_sub(running);
            let counters = job.counters(running);
            tasks.add(&counters);
            *jobs.entry(job.state(running)).or_default() += 1;
        }
        ready = ready.saturating_sub(self.followers.count());
        let info = &self.options.info;
        let process =
            ServerProcess { journal_fails: info.journal_trouble.is_some(), ..ServerProcess::default() };
        Overview {
            change: self.watching.changes,
            now,
            started: info.started,
            epoch: info.epoch,
            uid: info.uid.clone(),
            version: info.version.clone(),
            jobs: JobState::ALL.into_iter().map(|state| (state, jobs[&state])).collect(),
            tasks,
            ready,
            ended: self.watching.ended,
            workers: self.worker_counts(),
            resources: self.resource_use(),
            nodes: self.loads.nodes(),
            process,
        }
    }

    fn worker_counts(&self) -> WorkerCounts {
        let mut counts = WorkerCounts::default();
        for (id, live) in self.live.iter().filter(|(_, live)| !live.is_relay) {
            if live.connection.is_none() {
                counts.away += 1;
            } else if live.is_open() {
                counts.active += 1;
                counts.idle += u64::from(self.running.count_on(*id) == 0);
            } else {
                counts.closed += 1;
            }
        }
        counts
    }

    fn resource_use(&self) -> Vec<ResourceUse> {
        // What relays have room for is nothing that the cluster has.
        let connected = self.live.values().filter(|live| live.connection.is_some() && !live.is_relay);
        let taken = |(pool, taken): (_, Amount)| (pool, taken.0);
        ResourceUse::sums(connected.flat_map(|live| live.resources.pools.iter().zip(live.taken()).map(taken)))
    }

    /// The latest jobs before one, in some states, of which the name or the number has a text in it; ascending.
    pub(super) fn latest_jobs(
        &self,
        (states, text): (&[JobState], &str),
        before: Option<hq_model::JobId>,
        limit: u32,
    ) -> Vec<JobSummary> {
        let text = text.to_lowercase();
        let jobs = match before {
            Some(before) => self.state.jobs.range(..before),
            None => self.state.jobs.range(..),
        };
        let named = |(id, job): &(&hq_model::JobId, &super::job::Job)| {
            text.is_empty() || job.spec.name.to_lowercase().contains(&text) || id.0.to_string() == text
        };
        let jobs = jobs.rev().filter(named).map(|(id, job)| self.summary(*id, job));
        let shown = jobs.filter(|job| states.is_empty() || states.contains(&job.state()));
        let mut list: Vec<JobSummary> = shown.take(limit.min(JOBS_PAGE_MAX) as usize).collect();
        list.reverse();
        list
    }
}

// What a crash could undo is not shown, as with everything that is only looked at.
fn answer((connection, request): Asked, overview: Overview, effects: &mut Vec<Effect>) {
    let body = ClientResponse::Overview(Box::new(overview));
    effects.push(Effect::Answer { connection, request, body, gate: Gate::Shown });
}
