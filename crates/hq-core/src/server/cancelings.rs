//! Tasks that are canceled: all that have not ended, or those alone that have not begun. Clients want to know which those
//! were: what a worker has is asked back, and is canceled when it comes. What has begun goes on.

use std::collections::BTreeMap;

use hq_model::{IdSet, JobId, Timestamp, WorkerId};

use super::clients::{Asked, Asks, WAIT_BYTES};
use super::machine::Server;
use super::{ConnectionId, Effect};
use crate::client_messages::{ClientResponse, RequestError};
use crate::mark;
use crate::record::Record;
use crate::worker_messages::TemplateId;

/// Requests that are not decided yet.
#[derive(Debug, Default)]
pub(super) struct Cancelings {
    waits: BTreeMap<Asked, Canceling>,
    // What they take.
    bytes: usize,
}

#[derive(Debug)]
struct Canceling {
    job: JobId,
    // It is not known whether these have begun.
    open: IdSet,
    canceled: IdSet,
    // How many were asked for.
    count: u64,
}

impl Canceling {
    fn bytes(&self) -> usize {
        WAIT_BYTES + self.open.bytes() + self.canceled.bytes()
    }
}

impl Cancelings {
    fn add(&mut self, asked: Asked, canceling: Canceling) {
        self.bytes += canceling.bytes();
        let before = self.waits.insert(asked, canceling);
        self.bytes -= before.map_or(0, |before| before.bytes());
    }

    // Who has to wait on is added again.
    fn take(&mut self) -> BTreeMap<Asked, Canceling> {
        self.bytes = 0;
        std::mem::take(&mut self.waits)
    }

    /// How many requests of a client wait here.
    pub(super) fn count_of(&self, connection: ConnectionId) -> usize {
        self.waits.range((connection, 0)..=(connection, u64::MAX)).count()
    }

    /// About what all that wait here take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A client has left: what it has asked for and is not canceled yet stays.
    pub(super) fn forget(&mut self, connection: ConnectionId) {
        let left = self.waits.extract_if((connection, 0)..=(connection, u64::MAX), |_, _| true);
        self.bytes -= left.map(|(_, canceling)| canceling.bytes()).sum::<usize>();
    }
}

impl Server {
    /// Cancels tasks of one job, or all of them: those that are canceled now, and how many had ended before.
    pub(super) fn cancel_one(
        &mut self,
        now: Timestamp,
        id: JobId,
        tasks: Option<&IdSet>,
        reason: Option<&str>,
        effects: &mut Vec<Effect>,
    ) -> (IdSet, u64) {
        let (alive, all) = (self.state.jobs[&id].alive(), &self.state.jobs[&id].ids);
        let wanted = tasks.map_or_else(|| all.clone(), |tasks| tasks.intersection(all));
        let ids = alive.intersection(&wanted);
        let ended = wanted.len() - ids.len();
        if !ids.is_empty() {
            let reason = reason.map(str::to_owned);
            let record = Record::Canceled { job: id, ids: ids.clone(), reason, end_by: None };
            self.end_by(now, record, &ids, effects);
        }
        self.forget_if_over(id);
        (ids, ended)
    }

    /// Cancels those of the tasks that have not begun. Answered when that is known of each.
    pub(super) fn client_cancels_waiting(
        &mut self,
        now: Timestamp,
        asked: Asked,
        id: JobId,
        tasks: &IdSet,
        effects: &mut Vec<Effect>,
    ) {
        let refusal = match self.refuse_when_read_only() {
            Ok(()) if !self.state.jobs.contains_key(&id) => Some(RequestError::NoJob(id)),
            result => result.err(),
        };
        if let Some(error) = refusal {
            let (connection, request) = asked;
            let (body, gate) = (ClientResponse::Error(error), self.gate_of_change());
            effects.push(Effect::Answer { connection, request, body, gate });
            return;
        }
        let mut open = self.state.jobs[&id].alive().intersection(tasks);
        open.subtract(&self.running.ids_of(id));
        self.ask_all_back(id, &open, effects);
        let canceling = Canceling { job: id, open, canceled: IdSet::new(), count: tasks.len() };
        self.cancelings.add(asked, canceling);
        self.touched.insert(id);
        self.settle_cancelings(now, effects);
    }

    /// Asks back those that are with workers.
    pub(super) fn ask_all_back(&mut self, id: JobId, ids: &IdSet, effects: &mut Vec<Effect>) {
        let job = &self.state.jobs[&id];
        let leased = job.leased.iter().map(|(worker, leased)| (*worker, leased.intersection(ids)));
        let there: Vec<(WorkerId, u32, IdSet)> = leased
            .filter(|(_, ids)| !ids.is_empty())
            .flat_map(|(worker, ids)| {
                job.by_submit(&ids).into_iter().map(move |(submit, ids)| (worker, submit, ids))
            })
            .collect();
        for (worker, submit, ids) in there {
            self.ask_back(worker, TemplateId { job: id, submit }, ids, effects);
        }
    }

    /// Cancels what has come back, and answers where all is known. To be called before anything is handed out again.
    pub(super) fn settle_cancelings(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.cancelings.waits.is_empty() || self.is_read_only() {
            let mut waits = self.cancelings.waits.values();
            mark!("who cancels waits for the journal", waits.any(|wait| self.touched.contains(&wait.job)));
            return;
        }
        for (asked, mut canceling) in self.cancelings.take() {
            let id = canceling.job;
            if self.touched.contains(&id) {
                let queued = self.state.jobs.get(&id).map(|job| job.queued.intersection(&canceling.open));
                let queued = queued.unwrap_or_default();
                if !queued.is_empty() {
                    let record =
                        Record::Canceled { job: id, ids: queued.clone(), reason: None, end_by: None };
                    self.end_by(now, record, &queued, effects);
                    canceling.canceled.union_with(&queued);
                }
                let alive = self.state.jobs.get(&id).map_or_else(IdSet::new, |job| job.alive());
                canceling.open = canceling.open.intersection(&alive);
                for task in self.running.of_job(id).keys() {
                    canceling.open.remove(*task);
                }
                self.forget_if_over(id);
            }
            if !canceling.open.is_empty() {
                self.cancelings.add(asked, canceling);
                continue;
            }
            let Canceling { job, canceled, count, .. } = canceling;
            let others = count - canceled.len();
            let body = ClientResponse::Canceled(vec![(job, canceled, others)]);
            let (connection, request) = asked;
            effects.push(Effect::Answer { connection, request, body, gate: self.gate_of_change() });
        }
    }
}
