//! Jobs that cannot end: those whose generator or reducer has ended without success, those that wait for nothing but such jobs,
//! and those whose budget is spent. Whoever waits for them is told so, for nothing else would ever be said.

use std::collections::BTreeSet;

use hq_model::JobId;
use hq_model::job::FedEnd;

use super::job::Job;
use super::machine::Server;
use crate::limits::STALLED_LOOKED_AT_MAX;

// How a submit stands whose tasks wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    // It waits for the whole of a job that is stalled: for this one, in the end.
    Barred(JobId),
    // It waits for tasks of its own job alone.
    Inner,
    // Something else may let it go on.
    Open,
}

impl Server {
    /// Why a job does not end unless somebody does something: it is stalled, or all that is left of it waits for one that does.
    pub(super) fn why_never_ends(&self, id: JobId) -> Option<String> {
        if let Some(why) = self.why_spent(id) {
            return Some(why);
        }
        if self.state.feeders.is_empty() {
            return None;
        }
        let mut looks = STALLED_LOOKED_AT_MAX;
        match self.stalled_root(id, &mut looks)? {
            root if root == id => self.why_stalled(id),
            root => {
                let name = &self.state.jobs.get(&root)?.spec.name;
                let why = self.why_stalled(root)?;
                Some(format!("it waits for job {root} (`{name}`), which is stalled: {why}"))
            }
        }
    }

    /// Jobs that cannot end now because of what has changed: those who wait for others that wait for them are to be told, too.
    pub(super) fn has_stalled(&self, changed: &BTreeSet<JobId>) -> bool {
        let is_new = |id: &JobId| {
            let ended = self.state.jobs.get(id).is_some_and(Job::has_ended);
            let fed = self.state.feeders.get(id).filter(|_| ended);
            let stands = self.state.jobs.get(id).is_some_and(|job| job.leased.is_empty() && !job.has_ended());
            fed.is_some_and(|fed| self.why_stalled(*fed).is_some())
                || stands && self.why_never_ends(*id).is_some()
        };
        !self.state.feeders.is_empty() && changed.iter().any(is_new)
    }

    /// Why a job does not end, where its generator or its reducer has ended without success, and what goes on with it.
    pub(super) fn why_stalled(&self, id: JobId) -> Option<String> {
        let fed = self.state.jobs.get(&id).filter(|fed| fed.is_open)?;
        let feed = fed.feed.as_deref()?;
        let generator = (!feed.is_decomposed).then_some((feed.generator, "generator"));
        let both = generator.into_iter().chain(feed.reducer.map(|reducer| (reducer, "reducer")));
        let ended: Vec<String> = both
            .filter_map(|(own, what)| {
                let Some(job) = self.state.jobs.get(&own) else {
                    return Some(format!(
                        "its {what}, job {own}, is forgotten; `hq job close {id}` leaves it with the tasks it has, `hq job \
                         cancel {id}` ends it"
                    ));
                };
                let how = match (job.causes.first(), job.cancel_reason.as_deref()) {
                    _ if !job.has_ended() || job.finished == job.ids => return None,
                    (Some(cause), _) => format!("has failed: {}", cause.first_error),
                    (None, Some(reason)) => format!("was canceled: {reason}"),
                    (None, None) => "was canceled".to_owned(),
                };
                Some(format!(
                    "its {what}, job {own}, {how}; `hq job resubmit {own}` goes on where it was, `hq job cancel {id}` ends all"
                ))
            })
            .collect();
        (!ended.is_empty()).then(|| ended.join("; "))
    }

    /// Why a job with a generator has or gets fewer tasks than were to be made, or fewer that are reduced.
    pub(super) fn why_stopped(&self, id: JobId, job: &Job) -> Option<String> {
        let why = match job.fed_end() {
            FedEnd::ByTasks | FedEnd::Enough => {
                return self.why_stalled(id).map(|why| format!("it is stalled: {why}"));
            }
            FedEnd::Canceled => "it was canceled before all of its tasks were made",
            FedEnd::Aborted => "it was given up before all of its tasks were made",
            FedEnd::Failed => "it was closed after its generator or its reducer had failed",
        };
        Some(why.to_owned())
    }

    // The job without which this one cannot end, and which is stalled.
    fn stalled_root(&self, id: JobId, looks: &mut usize) -> Option<JobId> {
        *looks = looks.checked_sub(1)?;
        let job = self.state.jobs.get(&id).filter(|job| !job.has_ended())?;
        if self.why_stalled(id).is_some() {
            return Some(id);
        }
        let generator = job.feed.as_ref().filter(|feed| !feed.is_decomposed).map(|feed| feed.generator);
        if job.tasks_ended() {
            return self.stalled_root(generator?, looks);
        }
        // Somebody may add tasks to an open job, and whatever runs or is ready goes on.
        let blocked = self.readiness.blocked(id);
        let is_all_blocked = blocked.is_some_and(|blocked| job.queued.difference(blocked).is_empty());
        if job.is_open || !job.leased.is_empty() || !is_all_blocked {
            return None;
        }
        let mut root = None;
        for place in 0..job.submits.len() {
            match self.way_of(id, job, place, looks) {
                Way::Barred(behind) => root = root.or(Some(behind)),
                Way::Inner => {}
                Way::Open => return None,
            }
        }
        root
    }

    fn way_of(&self, id: JobId, job: &Job, place: usize, looks: &mut usize) -> Way {
        let submit = &job.submits[place];
        if submit.ids.intersection(&job.queued).is_empty() {
            return Way::Inner;
        }
        let outer = || submit.dependencies.after.iter().filter(|after| after.job != id);
        for after in outer().filter(|after| after.tasks.is_none()) {
            if let Some(root) = self.stalled_root(after.job, looks) {
                return Way::Barred(root);
            }
        }
        let is_met = |of: JobId| self.state.jobs.get(&of).is_none_or(Job::has_ended);
        match submit.dependencies.files.is_empty() && outer().all(|after| is_met(after.job)) {
            true => Way::Inner,
            false => Way::Open,
        }
    }
}
