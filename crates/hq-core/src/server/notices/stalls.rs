//! Which jobs stand still: nothing of them is with a worker for a while, and nothing that they wait for is under way.
//!
//! Waiting for one's turn is no standstill: tasks behind others, beside busy workers, for allocations that are in a queue,
//! or to be tried again, go on by themselves.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use hq_model::notice::{Moment, NoticeEvent, STALL_AFTER_DEFAULT, cut};
use hq_model::{JobId, Timestamp, counted};

use crate::explanation::{JobExplanation, Reason, ReasonKind, TaskGroup};
use crate::limits::{NOTICE_TEXT_BYTES_MAX, STALL_DEPTH_MAX, STALLS_JUDGED_MAX};
use crate::server::Effect;
use crate::server::job::Job;
use crate::server::machine::Server;

/// Jobs with tasks of which none is with a worker.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    // Since when.
    quiet: BTreeMap<JobId, Timestamp>,
    // When they are looked at.
    due: BTreeSet<(Timestamp, JobId)>,
}

impl Stalls {
    /// When the next job is looked at.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    fn watch(&mut self, id: JobId, since: Timestamp, look_at: Timestamp) {
        if let Entry::Vacant(entry) = self.quiet.entry(id) {
            entry.insert(since);
            self.due.insert((look_at, id));
        }
    }

    fn take_due(&mut self, now: Timestamp) -> Option<JobId> {
        let (at, id) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, id));
        Some(id)
    }

    fn forget(&mut self, id: JobId) {
        if self.quiet.remove(&id).is_some() {
            self.due.retain(|(_, due)| *due != id);
        }
    }
}

impl Server {
    /// A job has changed: from when on it may stand still.
    pub(super) fn watch_for_stall(&mut self, now: Timestamp, id: JobId) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let is_watched = job.spec.notices.iter().any(|rule| rule.on == Moment::Stall);
        if !is_watched {
            return;
        }
        if !is_quiet(job) || job.is_stalled {
            self.notices.stalls.forget(id);
        } else {
            let after = job.spec.stall_after.unwrap_or(STALL_AFTER_DEFAULT);
            self.notices.stalls.watch(id, now, now.after(after));
        }
    }

    /// Looks at the jobs of which nothing has run for long enough.
    pub(super) fn look_for_stalls(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        for _ in 0..STALLS_JUDGED_MAX {
            let Some(id) = self.notices.stalls.take_due(now) else { return };
            let since = self.notices.stalls.quiet.get(&id).copied();
            let Some((since, job)) = since.zip(self.state.jobs.get(&id)) else {
                self.notices.stalls.forget(id);
                continue;
            };
            let after = job.spec.stall_after.unwrap_or(STALL_AFTER_DEFAULT);
            if self.goes_on(now, id, 0) {
                self.notices.stalls.due.insert((now.after(after), id));
                continue;
            }
            let explanation = text_of(&self.explain_job(now, &self.fleet(now), id));
            let event = NoticeEvent::Stall { quiet: now.since(since), explanation };
            self.tell(now, id, &event, effects);
        }
    }

    // True when something of a job is with a worker, or will be without anybody doing anything.
    fn goes_on(&self, now: Timestamp, id: JobId, depth: u32) -> bool {
        let Some(job) = self.state.jobs.get(&id) else { return false };
        if job.leased_count() > 0 || depth >= STALL_DEPTH_MAX {
            return true;
        }
        let feeders = job.feed.iter().flat_map(|feed| feed.own_jobs());
        let is_fed = job.is_open && feeders.into_iter().any(|own| self.goes_on(now, own, depth + 1));
        if is_fed || job.tasks_ended() {
            return is_fed;
        }
        let explanation = self.explain_job(now, &self.fleet(now), id);
        explanation.groups.iter().any(|group| self.group_goes_on(now, id, group, depth))
    }

    fn group_goes_on(&self, now: Timestamp, id: JobId, group: &TaskGroup, depth: u32) -> bool {
        if group.reasons.iter().any(|reason| self.passes(reason)) {
            return true;
        }
        let waits = group.reasons.iter().any(|reason| reason.kind == ReasonKind::Dependency);
        let Some(first) = group.ids.first().filter(|_| waits) else { return false };
        let others = self.unresolved(id, first).into_iter().map(|(other, _)| other);
        others.filter(|other| *other != id).any(|other| self.goes_on(now, other, depth + 1))
    }

    // True when what a reason says comes to an end by itself.
    fn passes(&self, reason: &Reason) -> bool {
        match reason.kind {
            ReasonKind::Running
            | ReasonKind::HandedOut
            | ReasonKind::Delay
            | ReasonKind::Share
            | ReasonKind::Priority
            | ReasonKind::Busy
            | ReasonKind::Room
            | ReasonKind::Ended
            | ReasonKind::Other => true,
            ReasonKind::Queue => {
                let queue = reason.queue.and_then(|queue| self.state.alloc.queues.get(&queue));
                queue.is_some_and(|queue| {
                    queue.allocations.values().any(|allocation| allocation.ended.is_none())
                })
            }
            ReasonKind::Puller
            | ReasonKind::Budget
            | ReasonKind::Dependency
            | ReasonKind::Unfit
            | ReasonKind::NoWorker
            | ReasonKind::Server
            | ReasonKind::Lacks
            | ReasonKind::Life
            | ReasonKind::Utilization
            | ReasonKind::Closed
            | ReasonKind::EndBy => false,
        }
    }
}

// It has tasks, and no worker has one of them.
fn is_quiet(job: &Job) -> bool {
    !job.is_draft() && !job.queued.is_empty() && job.leased_count() == 0
}

// As `hq job explain` says it, in lines.
fn text_of(explanation: &JobExplanation) -> String {
    let job = explanation.job;
    let mut lines = Vec::new();
    lines.extend(explanation.reasons.iter().map(|reason| format!("job {job}: {}", reason.text)));
    for group in &explanation.groups {
        let tasks = if group.ids.len() == 1 { "task" } else { "tasks" };
        let ids = cut(&group.ids.to_string(), 100);
        let told = |reason: &Reason| match reason.worker {
            Some(worker) => format!("worker {worker}: {}", reason.text),
            None => reason.text.clone(),
        };
        let reasons: Vec<String> = group.reasons.iter().map(told).collect();
        lines.push(format!("{tasks} {ids}: {}", reasons.join("; ")));
    }
    if explanation.others > 0 {
        lines.push(format!("and {}", counted(explanation.others, "more task")));
    }
    cut(&lines.join("\n"), NOTICE_TEXT_BYTES_MAX)
}
