//! Tasks that are to have ended by some moment: what has not started when it could not end by then any more is canceled.
//!
//! There is one last moment for the tasks of each submit, and nothing is looked at before it has passed. What waits here is
//! canceled then, all at once; what a worker has and has not begun is asked back, and canceled when it comes. Workers begin
//! nothing after that moment either, by their own clocks, also while they have no server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_model::job::FedEnd;
use hq_model::{IdSet, JobId, TaskSpec, Timestamp};

use super::Effect;
use super::job::Job;
use super::machine::Server;
use super::requests::templates_of;
use super::state::State;
use crate::explanation::{Reason, ReasonKind};
use crate::record::Record;
use crate::worker_messages::TemplateId;

/// A moment is over when the next microsecond has come.
const OVER: Duration = Duration::from_micros(1);

/// When tasks of submits may start at the latest.
#[derive(Clone, Debug, Default)]
pub(super) struct LastMoments {
    of: BTreeMap<TemplateId, Timestamp>,
    // Those that are to be looked at when they have passed.
    due: BTreeSet<(Timestamp, TemplateId)>,
}

impl LastMoments {
    /// What the submits of all jobs say.
    pub(super) fn recount(state: &State) -> LastMoments {
        let mut moments = LastMoments::default();
        for (id, job) in &state.jobs {
            for index in 0..job.submits.len() as u32 {
                moments.add(state, TemplateId { job: *id, submit: index });
            }
        }
        moments
    }

    /// The state has changed.
    pub(super) fn hear(&mut self, state: &State, record: &Record) {
        match record {
            Record::Submitted { job, .. } => self.add_latest(state, *job, 1),
            Record::Together { records } => {
                // The submits of one request go to one job, which has all of them by now.
                let submits = records.iter().filter(|record| matches!(record, Record::Submitted { .. }));
                let count = submits.count();
                if let Some(job) = record.job().filter(|_| count > 0) {
                    self.add_latest(state, job, count);
                }
                let others = records.iter().filter(|record| !matches!(record, Record::Submitted { .. }));
                others.for_each(|record| self.hear(state, record));
            }
            Record::Returned { job, .. } | Record::Restarted { job, .. } | Record::Deferred { job, .. } => {
                self.look_again(*job);
            }
            Record::JobForgotten { job } => {
                let of_job: Vec<TemplateId> =
                    self.of.range(templates_of(*job)).map(|(template, _)| *template).collect();
                for template in of_job {
                    if let Some(last) = self.of.remove(&template) {
                        self.due.remove(&(last, template));
                    }
                }
            }
            _ => {}
        }
    }

    /// Compares with a recount.
    ///
    /// # Errors
    /// Says what differs.
    pub(super) fn check(&self, state: &State) -> Result<(), String> {
        let expected = LastMoments::recount(state).of;
        if self.of != expected {
            return Err(format!("tasks may start until {:?}, heard was {:?}", expected, self.of));
        }
        Ok(())
    }

    /// Tasks of this job wait again, here or on a worker that has come back.
    pub(super) fn look_again(&mut self, job: JobId) {
        if !self.of.is_empty() {
            self.due.extend(self.of.range(templates_of(job)).map(|(template, last)| (*last, *template)));
        }
    }

    /// When the next one has passed.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        self.due.first().map(|(last, _)| last.after(OVER))
    }

    fn add_latest(&mut self, state: &State, job: JobId, count: usize) {
        let submits = state.jobs.get(&job).map_or(0, |job| job.submits.len());
        for index in submits.saturating_sub(count)..submits {
            self.add(state, TemplateId { job, submit: index as u32 });
        }
    }

    fn add(&mut self, state: &State, template: TemplateId) {
        let submit = state.jobs.get(&template.job).and_then(|job| job.submits.get(template.submit as usize));
        let last = submit.and_then(|submit| submit.task.last_start(submit.submitted));
        if let Some(last) = last {
            self.of.insert(template, last);
            self.due.insert((last, template));
        }
    }

    fn take_due(&mut self, now: Timestamp) -> Vec<TemplateId> {
        let mut due = Vec::new();
        while let Some((last, template)) = self.due.first().copied().filter(|(last, _)| *last < now) {
            self.due.remove(&(last, template));
            due.push(template);
        }
        due
    }
}

impl Server {
    /// Cancels what could not end in time any more. To be called before anything is handed out.
    pub(super) fn end_too_late(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.last_moments.next_wakeup().is_none_or(|at| at > now) {
            return;
        }
        for template in self.last_moments.take_due(now) {
            let id = template.job;
            let Some(job) = self.state.jobs.get(&id) else { continue };
            let Some(submit) = job.submits.get(template.submit as usize) else { continue };
            let end_by = submit.task.end_by.map(|end_by| end_by.after(submit.submitted));
            let mut with_workers = IdSet::new();
            job.leased.values().for_each(|leased| with_workers.union_with(&leased.intersection(&submit.ids)));
            let queued = job.queued.intersection(&submit.ids);
            let came_too_late = self.last_moment(template).is_some_and(|(last, ..)| last <= submit.submitted);
            if !queued.is_empty() {
                let record = Record::Canceled { job: id, ids: queued.clone(), reason: None, end_by };
                self.end_by(now, record, &queued, effects);
            }
            for task in self.running.of_job(id).keys() {
                with_workers.remove(*task);
            }
            self.ask_all_back(id, &with_workers, effects);
            if came_too_late && let Some(end) = end_by {
                self.stop_feeding(now, id, (FedEnd::Canceled, &too_late(end)), effects);
            }
            self.forget_if_over(id);
        }
    }

    /// True unless a task of a submit that starts then could not end in time.
    pub(super) fn may_start(&self, template: TemplateId, at: Timestamp) -> bool {
        self.last_moments.of.get(&template).is_none_or(|last| at <= *last)
    }

    /// What becomes of a task that does not start soon enough.
    pub(super) fn too_late_reason(&self, now: Timestamp, template: TemplateId) -> Option<Reason> {
        let (last, end, takes) = self.last_moment(template)?;
        let takes = takes.map_or_else(String::new, |takes| format!(" and is said to take {takes}"));
        let text = match left(now, last) {
            Some(left) => {
                format!("it is to end by {end:#}{takes}, so it is canceled unless it starts within {left}")
            }
            None => format!(
                "it was to end by {end:#}{takes}: it is too late for it to start, and it is being canceled"
            ),
        };
        Some(Reason::new(ReasonKind::EndBy, text).until(Some(last)))
    }

    /// The same of tasks of a job that wait: of the submit among theirs that is the first to be too late.
    pub(super) fn too_late_reason_of(&self, now: Timestamp, id: JobId, ids: &IdSet) -> Option<Reason> {
        let job = self.state.jobs.get(&id)?;
        let waiting = |template: &TemplateId| {
            let submit = job.submits.get(template.submit as usize)?;
            Some(submit.ids.intersection(ids).len()).filter(|count| *count > 0)
        };
        let of_job = self.last_moments.of.range(templates_of(id));
        let counted = of_job.filter_map(|(template, last)| Some((last, template, waiting(template)?)));
        let (_, template, count) = counted.min()?;
        if ids.len() == 1 {
            return self.too_late_reason(now, *template);
        }
        let (last, end, takes) = self.last_moment(*template)?;
        let who = if count == ids.len() { "they".to_owned() } else { format!("{count} of them") };
        let (are, were) = if count == 1 { ("is", "was") } else { ("are", "were") };
        let takes = takes.map_or_else(String::new, |takes| format!(", and each is said to take {takes}"));
        let text = match left(now, last) {
            Some(left) => {
                format!("{who} {are} to end by {end:#}{takes}: what does not start within {left} is canceled")
            }
            None => format!(
                "{who} {were} to end by {end:#}{takes}: it is too late to start, and what has not is being canceled"
            ),
        };
        Some(Reason::new(ReasonKind::EndBy, text).until(Some(last)))
    }

    // When its tasks may start at the latest, by when they are to end, and what they take.
    fn last_moment(&self, template: TemplateId) -> Option<(Timestamp, Timestamp, Option<String>)> {
        let last = *self.last_moments.of.get(&template)?;
        let submit = self.state.jobs.get(&template.job)?.submits.get(template.submit as usize)?;
        let end = submit.task.end_by?.after(submit.submitted);
        let takes = Some(submit.task.time_needed()).filter(|takes| !takes.is_zero());
        Some((last, end, takes.map(hq_model::duration::format)))
    }
}

// How long tasks may still start.
fn left(now: Timestamp, last: Timestamp) -> Option<String> {
    (now <= last).then(|| super::explain::about(last.since(now)))
}

/// What whoever submits tasks hears when their moment has passed.
pub(super) fn over_already(now: Timestamp, spec: &TaskSpec) -> Option<String> {
    let end = spec.end_by?.after(now);
    (end <= now).then(|| {
        format!(
            "These tasks were to end by {end:#}, and by the server's clock it is {now:#}: none of them starts, and all are \
             canceled. `--end-by` says another time."
        )
    })
}

/// Why tasks of a job were canceled, as far as it is known: in the words of whoever did it, or because it was too late for them.
pub(super) fn why_canceled(job: &Job) -> Option<String> {
    job.cancel_reason.clone().or_else(|| {
        let (_, end) = job.too_late.first()?;
        let count: u64 = job.too_late.iter().map(|(ids, _)| ids.len()).sum();
        let by = if job.too_late.len() == 1 { format!("by {end:#}") } else { "in time".to_owned() };
        let text = match count {
            1 => format!("1 task was not started: it could not have ended {by}"),
            count => format!("{count} tasks were not started: they could not have ended {by}"),
        };
        Some(text)
    })
}

/// What is said of tasks that were canceled for it.
pub(super) fn too_late(end: Timestamp) -> String {
    format!("Not started: it could not have ended by {end:#}.")
}
