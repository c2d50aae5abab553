//! What waits on a worker and asks for more time than the worker has left goes elsewhere.
//!
//! A worker starts such a task in time or not at all; when that moment has passed, the server asks for what has not
//! started. Nothing is looked at before: there is one moment for each template on each worker with a limit.

use hq_model::{IdSet, Timestamp, WorkerId};

use super::Effect;
use super::machine::Server;
use crate::worker_messages::TemplateId;

impl Server {
    /// Tasks of a template were handed to a worker: when it will be too late for those that wait there.
    pub(super) fn may_be_late(&mut self, worker: WorkerId, template: TemplateId) {
        let Some(live) = self.live.get_mut(&worker) else { return };
        let Some(life) = live.life else { return };
        let submit = self.state.jobs.get(&template.job).map(|job| &job.submits[template.submit as usize]);
        let requests = submit.into_iter().flat_map(|submit| &submit.task.requests);
        let Some(asked) = requests.map(|request| request.time_request).min().filter(|time| !time.is_zero())
        else {
            return;
        };
        let at = life.too_late_at(asked);
        live.late.insert(template, at);
        self.late_from = self.late_from.min(at);
    }

    /// Asks for what has become too late.
    pub(super) fn take_back_late(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if now < self.late_from {
            return;
        }
        self.late_from = Timestamp(u64::MAX);
        let mut due = Vec::new();
        for (worker, live) in &mut self.live {
            // What one that is away holds is counted again when it is back.
            let late =
                live.late.iter().filter(|(_, at)| **at <= now).map(|(template, _)| (*worker, *template));
            due.extend(late);
            live.late.retain(|_, at| *at > now);
            let next = live.late.values().min().copied();
            self.late_from = self.late_from.min(next.unwrap_or(Timestamp(u64::MAX)));
        }
        for (worker, template) in due {
            let held = self.live.get(&worker).and_then(|live| live.held().get(&template));
            // What is thought to have started, and was not said to, may wait there as well.
            let all = held.map_or_else(IdSet::new, |held| held.ids.difference(&held.followers));
            let waits = all.iter().filter(|task| self.may_wait(worker, template.job, *task));
            let ids: IdSet = waits.collect();
            self.ask_back(worker, template, ids, effects);
        }
    }
}
