//! Running tasks that speak for themselves: they put themselves back behind others, or say that their service is ready.

use hq_model::dependency::After;
use hq_model::{IdSet, Instance, TaskRef, Timestamp, WorkerId};

use super::{Answer, Server};
use crate::attempt::AttemptEnd;
use crate::client_messages::{ClientResponse, RequestError};
use crate::limits::{DEFER_PAUSE, NOTIFY_TEXT_MAX};
use crate::record::Record;
use crate::server::Effect;
use crate::worker_messages::TemplateId;

impl Server {
    /// A running task waits for these, and then runs again as another instance; its present one is ended.
    pub(in crate::server) fn defer(
        &mut self,
        now: Timestamp,
        task: TaskRef,
        instance: Instance,
        after: &[After],
        effects: &mut Vec<Effect>,
    ) -> Answer {
        if self.is_stopping() {
            return Err(RequestError::Stopping);
        }
        let ids = IdSet::single(task.task);
        self.check_speaker(task, instance)?;
        let after = self.readiness.deferral_of(&self.state, task, after)?;
        let parts = self.state.jobs[&task.job].by_last_instance(&ids);
        let last = parts.last().map_or(instance, |(last, _)| *last);
        self.note_parting(task);
        self.note_running(now, task.job, &ids, Some(AttemptEnd::PutBack), effects);
        self.end_early(now, task.job, &ids, effects);
        let instance = Instance(last.0 + 1);
        // One that puts itself back again and again behind what has ended would start as often as it can be started.
        let is_over = after.iter().all(|after| self.readiness.is_over(&self.state, after));
        let not_before = is_over.then(|| now.after(DEFER_PAUSE));
        let record =
            Record::Deferred { job: task.job, task: task.task, instance, after, not_before, value_of: None };
        self.record(now, record, effects);
        if !is_over {
            self.make_ready(task.job, &ids);
        }
        Ok(ClientResponse::Done)
    }

    /// A service says that it is ready; saying it again replaces the text.
    pub(in crate::server) fn ready(
        &mut self,
        now: Timestamp,
        task: TaskRef,
        instance: Instance,
        text: &[u8],
        effects: &mut Vec<Effect>,
    ) -> Answer {
        self.check_speaker(task, instance)?;
        let job = &self.state.jobs[&task.job];
        let submit = job.submit_of(task.task).map(|submit| &job.submits[submit as usize]);
        if !submit.is_some_and(|submit| submit.task.service) {
            return Err(RequestError::NoService(task));
        }
        if text.len() > NOTIFY_TEXT_MAX || text.contains(&0) {
            let text = format!("What a service says is a text of {NOTIFY_TEXT_MAX} bytes at most.");
            return Err(RequestError::Invalid(text));
        }
        if job.ready.get(&task.task).is_none_or(|said| said != text) {
            let record = Record::ServiceReady { job: task.job, task: task.task, text: text.to_vec() };
            self.record(now, record, effects);
        }
        Ok(ClientResponse::Done)
    }

    // The next attempt starts when those that are there now have ended.
    fn note_parting(&mut self, task: TaskRef) {
        let holders = self.live.iter().filter(|(_, live)| live.has(task));
        self.parting.add(task, holders.map(|(worker, _)| *worker));
    }

    /// Forgets attempts that have ended: what runs next may start.
    pub(in crate::server) fn end_parting(&mut self) {
        let live = &self.live;
        let has_ended =
            |task: TaskRef, worker: WorkerId| !live.get(&worker).is_some_and(|live| live.has(task));
        for TaskRef { job, task } in self.parting.end(has_ended) {
            let submit = self.state.jobs.get(&job).and_then(|job| job.submit_of(task));
            let template = submit.map(|submit| TemplateId { job, submit });
            self.changes.of_classes(template.and_then(|template| self.classes.get(&template)).copied());
        }
    }

    /// Only the present attempt of a task speaks for it.
    pub(in crate::server) fn check_speaker(
        &self,
        task: TaskRef,
        instance: Instance,
    ) -> Result<(), RequestError> {
        let job = self.state.jobs.get(&task.job).ok_or(RequestError::NoJob(task.job))?;
        let state = job.state_of(task.task).ok_or(RequestError::NoTask(task.job, task.task))?;
        let second = job.seconds.get(&task.task).map(|second| second.instance);
        let is_leased = job.leased.values().any(|leased| leased.contains(task.task));
        if is_leased && (job.instance_of(task.task) == instance || second == Some(instance)) {
            return Ok(());
        }
        let now = if state.is_terminal() {
            format!("any more: it is {state}")
        } else if job.instance_of(task.task) > instance {
            format!("any more: instance {} is its present one", job.instance_of(task.task))
        } else {
            "now".to_owned()
        };
        Err(RequestError::NotRunning { task, instance, now })
    }
}
