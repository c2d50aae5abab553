//! Entries of tasks that have finished, in jobs that may have any number of tasks: bags, and jobs that a generator feeds.
//! What lies there is bounded; over that, the entries of the oldest jobs and submits are dropped.
//!
//! Only tasks that finished lose theirs, and only when their reducer has acknowledged them, if they have one: others may be
//! wanted again as they were. A submit is looked at when half of its entries may go, so that what is left of it is copied
//! seldom.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{IdSet, JobId, Timestamp};

use super::Effect;
use super::job::{Job, SubmitState};
use super::machine::Server;
use super::requests::templates_of;
use super::state::State;
use crate::feed::FeedChange;
use crate::record::Record;
use crate::worker_messages::TemplateId;

/// Which entries may go.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EndedEntries {
    // Of each submit: the tasks, and the bytes of their entries.
    of: BTreeMap<TemplateId, (IdSet, usize)>,
    // Those submits of which half may go.
    mostly: BTreeSet<TemplateId>,
    bytes: usize,
}

impl EndedEntries {
    /// What has ended before this server started.
    pub(super) fn recount(state: &State) -> EndedEntries {
        let mut entries = EndedEntries::default();
        for (id, job) in state.jobs.iter().filter(|(_, job)| is_long(job)) {
            entries.add(*id, job, &job.finished);
        }
        entries
    }

    /// Hears a record that is in the state already.
    pub(super) fn hear(&mut self, state: &State, record: &Record) {
        for part in record.parts() {
            let found = part.job().and_then(|id| Some((id, state.jobs.get(&id).filter(|job| is_long(job))?)));
            match (part, found) {
                (Record::JobForgotten { job }, _) => self.forget(*job),
                (Record::EntriesDropped { ids, .. }, Some((id, job))) => self.drop_of(id, job, ids),
                (Record::Finished { span, .. }, Some((id, job))) => self.add(id, job, &span.ids),
                (Record::Feed { change, .. }, Some((id, job))) => match change.as_ref() {
                    FeedChange::Reduced { ids, .. } => self.add(id, job, ids),
                    FeedChange::Made { .. } => self.add(id, job, &job.finished),
                    FeedChange::Fed { .. } | FeedChange::GivenUp(_) => {}
                },
                (Record::JobClosed { .. } | Record::JobLeft { .. }, Some((id, job))) => {
                    self.add(id, job, &job.finished);
                }
                _ => {}
            }
        }
    }

    /// Checks what was heard against a recount.
    ///
    /// # Errors
    /// Says what differs.
    pub(super) fn check(&self, state: &State) -> Result<(), String> {
        let recount = EndedEntries::recount(state);
        if *self == recount {
            return Ok(());
        }
        Err(format!("entries of {recount:?} may go, known as such are those of {self:?}"))
    }

    // Those of these tasks whose entries may go now.
    fn add(&mut self, id: JobId, job: &Job, ids: &IdSet) {
        let mut ids = ids.intersection(&job.finished);
        if let Some(feed) = job.feed.as_ref().filter(|feed| feed.reducer.is_some() && job.is_open) {
            ids = ids.intersection(&feed.reduced);
        }
        for (index, ids) in job.by_submit(&ids) {
            let submit = &job.submits[index as usize];
            if submit.entries.is_empty() || must_stay(submit) {
                continue;
            }
            let template = TemplateId { job: id, submit: index };
            let (known, bytes) = self.of.entry(template).or_default();
            let new = ids.difference(&submit.entries_gone).difference(known);
            let more = submit.entries_bytes(&new);
            known.union_with(&new);
            (*bytes, self.bytes) = (*bytes + more, self.bytes + more);
            if known.is_empty() {
                self.of.remove(&template);
            } else if known.len() * 2 >= submit.entries.len() as u64 {
                self.mostly.insert(template);
            }
        }
    }

    // They are gone.
    fn drop_of(&mut self, id: JobId, job: &Job, ids: &IdSet) {
        for (index, _) in job.by_submit(ids) {
            let template = TemplateId { job: id, submit: index };
            self.bytes -= self.of.remove(&template).map_or(0, |(_, bytes)| bytes);
            self.mostly.remove(&template);
            self.add(id, job, &job.finished.intersection(&job.submits[index as usize].ids));
        }
    }

    fn forget(&mut self, id: JobId) {
        let of_job: Vec<TemplateId> =
            self.of.range(templates_of(id)).map(|(template, _)| *template).collect();
        for template in of_job {
            self.bytes -= self.of.remove(&template).map_or(0, |(_, bytes)| bytes);
            self.mostly.remove(&template);
        }
    }

    // What is to go, so that a quarter less than that is left.
    fn excess(&self, bytes_max: usize) -> BTreeMap<JobId, IdSet> {
        let mut excess: BTreeMap<JobId, IdSet> = BTreeMap::new();
        let mut left = self.bytes;
        if left <= bytes_max {
            return excess;
        }
        for template in &self.mostly {
            if left <= bytes_max - bytes_max / 4 {
                break;
            }
            if let Some((ids, bytes)) = self.of.get(template) {
                excess.entry(template.job).or_default().union_with(ids);
                left -= bytes;
            }
        }
        excess
    }
}

impl Server {
    /// Drops entries of finished tasks over the bound.
    pub(super) fn drop_entries(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        for (job, ids) in self.ended_entries.excess(self.options.ended_entries_bytes_max) {
            self.record(now, Record::EntriesDropped { job, ids }, effects);
        }
    }
}

// There may be any number of tasks, which come one after the other.
fn is_long(job: &Job) -> bool {
    job.feed.is_some() || job.submits.first().is_some_and(|submit| submit.task.body.is_pulled())
}

// Where paths depend on them, files could not be found any more; where objects may be lost, their tasks run once more.
fn must_stay(submit: &SubmitState) -> bool {
    submit.task.has_paths_of_entry() || submit.task.body.is_packed_call() || submit.needs_store()
}
