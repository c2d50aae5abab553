//! Clients that wait for the ends of a job's tasks. Each says which it knows, and is told of others as soon as there are
//! some; so nothing is kept here for a client that does not ask, and one that lost its server asks the next one the same.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{Entries, IdSet, JobId, TaskId};

use super::clients::Asked;
use super::job::Job;
use super::machine::Server;
use super::{ConnectionId, Effect, Gate};
use crate::client_messages::{ClientResponse, JobEnds, RequestError};
use crate::limits::RESULTS_PAGE_BYTES;
use crate::record::FailureKind;

/// What a failure takes of an answer beside its words.
const FAILURE_BYTES: usize = 64;

impl Server {
    /// A client waits for ends that it does not know. Who knows more by now asks again, and what it has asked before is not
    /// answered any more.
    pub(super) fn client_awaits_ends(
        &mut self,
        asked: Asked,
        job: JobId,
        known: IdSet,
        effects: &mut Vec<Effect>,
    ) {
        match self.ends_of(job, &known, RESULTS_PAGE_BYTES) {
            Some(body) => {
                // Results need not be on disk for one who waits for them: a worker keeps what it has told until they are. But a
                // reducer acknowledges them, to this server or the next one.
                let is_fed = self.state.jobs.get(&job).is_some_and(|job| job.feed.is_some());
                let gate = if is_fed { Gate::Synced } else { Gate::Open };
                let (connection, request) = asked;
                effects.push(Effect::Answer { connection, request, body, gate });
            }
            None => {
                self.end_waits.add_last(job, asked, known);
                self.lingering.look(job);
            }
        }
    }

    /// A client has gone that may have waited for ends.
    pub(super) fn no_more_awaits_ends(&mut self, connection: ConnectionId) {
        for job in self.end_waits.forget(connection) {
            self.lingering.look(job);
        }
    }

    /// Answers those that wait for ends in jobs that have changed.
    pub(super) fn tell_ends(&mut self, changed: &BTreeSet<JobId>, effects: &mut Vec<Effect>) {
        for (job, asked, known) in self.end_waits.take(changed) {
            self.lingering.look(job);
            self.client_awaits_ends(asked, job, known, effects);
        }
    }

    // Ends that are not known, as many as fit. `None` when there is nothing to say yet.
    fn ends_of(&self, id: JobId, known: &IdSet, page_bytes: usize) -> Option<ClientResponse> {
        let Some(job) = self.state.jobs.get(&id) else {
            return Some(ClientResponse::Error(RequestError::NoJob(id)));
        };
        let mut room = page_bytes;
        let finished = job.finished.difference(known);
        let (mut ids, mut results, next) = self.state.results.page(id, &finished, &mut room);
        let finished = match next {
            Some(next) => finished.intersection(&before(next)),
            None => finished,
        };
        let mut ends = JobEnds { job: id, finished, ..JobEnds::default() };
        let mut is_whole = next.is_none();
        let mut packed: BTreeMap<TaskId, &[u8]> = ids.iter().zip(results.drain(..)).collect();
        for task in job.failed.difference(known).iter() {
            let (found, left_behind, next) = self.state.results.page(id, &IdSet::single(task), &mut room);
            let (kind, error) = failure(job, task);
            let bytes = FAILURE_BYTES + error.len();
            if next.is_some() || room < bytes {
                is_whole = false;
                break;
            }
            room -= bytes;
            packed.extend(found.iter().zip(left_behind));
            ids.union_with(&found);
            ends.failed.push((task, kind, error));
        }
        ends.canceled = job.canceled.difference(known);
        let aborted = job.abort_reasons.iter().map(|(ids, reason)| (ids.difference(known), reason.clone()));
        ends.aborted = aborted.filter(|(ids, _)| !ids.is_empty()).collect();
        // A reducer is to hear of the last one before its job is closed.
        let is_decomposed = job.feed.as_ref().is_some_and(|feed| feed.is_decomposed);
        ends.is_over = is_whole && (job.has_ended() || is_decomposed && job.tasks_ended());
        ends.ids = ids;
        ends.results = Entries::new(packed.into_values()).unwrap_or_default();
        let is_news = !ends.finished.is_empty()
            || !ends.failed.is_empty()
            || !ends.canceled.is_empty()
            || !ends.aborted.is_empty();
        (is_news || ends.is_over).then(|| ClientResponse::Ends(Box::new(ends)))
    }
}

pub(super) fn before(task: TaskId) -> IdSet {
    task.0.checked_sub(1).map_or_else(IdSet::new, |last| IdSet::range(0, last))
}

// Details of the oldest failures are dropped when there are very many.
fn failure(job: &Job, task: TaskId) -> (FailureKind, String) {
    match job.failures.get(&task) {
        Some((_, failure)) => (failure.kind, failure.error.clone()),
        None => (FailureKind::Exit(1), "The reason is not kept any more.".to_owned()),
    }
}
