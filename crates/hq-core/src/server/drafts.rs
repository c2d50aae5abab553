//! Drafts: open jobs that count when they are closed, and not at all when whoever makes them goes before.
//!
//! What is too much for one request is submitted in several, into a draft. None of its tasks is handed out until it is
//! closed, so it can be dropped as if it had never been there. Only who makes it adds to it and closes it, and nothing that
//! means all jobs, or the last one, means a draft. A client may lose its connection and come back, and the server may be started
//! again: a draft is dropped when its maker has not come back for a while. Those that a server makes itself, within one request,
//! have no maker after a restart, and are always dropped.

use std::collections::BTreeMap;

use hq_model::{JobId, Timestamp};

use super::machine::{Answer, Server};
use super::{ConnectionId, Effect};
use crate::client_messages::{ClientRequest, ClientResponse, RequestError};
use crate::limits::DRAFT_GRACE;
use crate::record::Record;

/// Who makes the drafts that there are.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    makers: BTreeMap<JobId, Maker>,
}

#[derive(Clone, Copy, Debug)]
enum Maker {
    Connected(ConnectionId),
    // Until then it may come back.
    Away(Timestamp),
}

impl Server {
    /// Finds the drafts of before a start; who makes them may come back.
    pub(super) fn find_drafts(&mut self, now: Timestamp) {
        let drafts = self.state.jobs.iter().filter(|(_, job)| job.is_draft());
        self.drafts.makers = drafts.map(|(id, _)| (*id, Maker::Away(now.after(DRAFT_GRACE)))).collect();
    }

    /// Whoever opens a draft makes it. One that comes back over another connection opens it again: nobody else knows the key
    /// of that request.
    pub(super) fn note_maker(&mut self, connection: ConnectionId, body: &ClientRequest, answer: &Answer) {
        let (ClientRequest::OpenJob { .. }, Ok(ClientResponse::Submitted { job, .. })) = (body, answer)
        else {
            return;
        };
        if self.state.jobs.get(job).is_some_and(|job| job.is_draft()) {
            self.drafts.makers.insert(*job, Maker::Connected(connection));
        }
    }

    /// Nobody but its maker adds to a draft or closes it: half of it would count.
    pub(super) fn refuse_others_draft(
        &self,
        connection: ConnectionId,
        id: JobId,
    ) -> Result<(), RequestError> {
        let is_of = |maker: &Maker| matches!(maker, Maker::Connected(by) if *by == connection);
        match self.drafts.makers.get(&id) {
            Some(maker) if !is_of(maker) => Err(RequestError::Invalid(format!(
                "Job {id} is not submitted as a whole yet: only the client that submits it adds tasks to it and closes it. \
                 Should that client not come back within {} s, the job is dropped.",
                DRAFT_GRACE.as_secs()
            ))),
            _ => Ok(()),
        }
    }

    /// A client has gone.
    pub(super) fn maker_gone(&mut self, now: Timestamp, connection: ConnectionId) {
        for maker in self.drafts.makers.values_mut() {
            if matches!(maker, Maker::Connected(other) if *other == connection) {
                *maker = Maker::Away(now.after(DRAFT_GRACE));
            }
        }
    }

    /// A job was closed: a draft counts from here on.
    pub(super) fn note_closed(&mut self, id: JobId) {
        if self.drafts.makers.remove(&id).is_none() {
            return;
        }
        let Some(job) = self.state.jobs.get(&id) else { return };
        let queued = job.queued.clone();
        self.make_ready(id, &queued);
    }

    /// Ends the drafts that nobody has gone on with: first for those that wait for them, and then
    /// [`Server::forget_drafts`] forgets them.
    pub(super) fn end_drafts(&mut self, now: Timestamp, effects: &mut Vec<Effect>) -> Vec<JobId> {
        if self.drafts.makers.is_empty() || self.is_read_only() {
            return Vec::new();
        }
        let is_over = |maker: &Maker| matches!(maker, Maker::Away(until) if *until <= now);
        let makers = self.drafts.makers.iter();
        let over: Vec<JobId> = makers.filter(|(_, maker)| is_over(maker)).map(|(id, _)| *id).collect();
        for id in &over {
            self.drafts.makers.remove(id);
            self.end_draft(now, *id, effects);
        }
        over
    }

    fn end_draft(&mut self, now: Timestamp, id: JobId, effects: &mut Vec<Effect>) {
        let ids = self.state.jobs[&id].alive();
        if !ids.is_empty() {
            let reason = Some("its client went before it was complete".to_owned());
            self.end_by(
                now,
                Record::Canceled { job: id, ids: ids.clone(), reason, end_by: None },
                &ids,
                effects,
            );
        }
        self.record(now, Record::JobClosed { job: id }, effects);
    }

    /// Takes back a draft that the server itself made, and of which nobody knows.
    pub(super) fn drop_draft(&mut self, now: Timestamp, id: JobId, effects: &mut Vec<Effect>) {
        self.end_draft(now, id, effects);
        self.forget_job(now, id, effects);
    }

    /// Forgets drafts that have been ended.
    pub(super) fn forget_drafts(&mut self, now: Timestamp, over: Vec<JobId>, effects: &mut Vec<Effect>) {
        for id in over {
            self.forget_job(now, id, effects);
        }
    }

    /// When the next draft is to be dropped.
    pub(super) fn next_draft_end(&self) -> Option<Timestamp> {
        let ends = self.drafts.makers.values().filter_map(|maker| match maker {
            Maker::Connected(_) => None,
            Maker::Away(until) => Some(*until),
        });
        ends.min().filter(|_| !self.is_read_only())
    }

    /// Each draft has somebody who makes it or may come back, and nothing else has.
    pub(super) fn drafts_have_makers(&self) -> Result<(), String> {
        let drafts = self.state.jobs.iter().filter(|(_, job)| job.is_draft()).map(|(id, _)| id);
        if !drafts.eq(self.drafts.makers.keys()) {
            return Err(format!("drafts are made by {:?}", self.drafts.makers));
        }
        Ok(())
    }
}
