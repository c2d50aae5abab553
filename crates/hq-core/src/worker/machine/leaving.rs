//! How a worker leaves: for want of time, of tasks or of its server, because it was told to, or without its launcher.

use hq_model::{ByteString, TaskRef, Timestamp, Usage};

use super::ending::SIGKILL;
use super::{Ending, Link, Worker};
use crate::record::FailureKind;
use crate::worker::arming::Why;
use crate::worker::pulling::Pulling;
use crate::worker::{Effect, Outcome};
use crate::worker_messages::WorkerEnd;

/// What leaves a worker little time for what others want of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pressed {
    /// Its time limit came.
    pub(super) is_out_of_time: bool,
    /// Somebody wants it to end what runs and go.
    pub(super) was_interrupted: bool,
}

impl Worker {
    /// True when it is about to end.
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// True when it is about to end, and ends what runs.
    pub fn ends_what_runs(&self) -> bool {
        self.leaving.is_some() && !self.drains
    }

    pub(super) fn check_life(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.has_left {
            return;
        }
        if self.ends_at().is_some_and(|end| end <= now) {
            self.leave(now, WorkerEnd::TimeLimit, false, effects);
        }
        if let Link::Down(since) = self.link
            && self.id.is_some()
            && self.leaving.is_none()
            && since.after(self.config.reconnect_timeout) <= now
        {
            self.leave(now, WorkerEnd::ConnectionLost, true, effects);
        }
    }

    pub(super) fn check_idle(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let is_idle = self.link == Link::Up
            && self.leaving.is_none()
            && self.running.is_empty()
            && self.queue.is_empty()
            && self.armed.is_empty()
            && self.pulling.as_ref().is_none_or(Pulling::is_idle);
        self.idle_since = is_idle.then(|| self.idle_since.unwrap_or(now));
        if let (Some(since), Some(timeout)) = (self.idle_since, self.idle_timeout)
            && since.after(timeout) <= now
        {
            self.idle_since = None;
            self.leave(now, WorkerEnd::IdleTimeout, true, effects);
        }
    }

    // Takes nothing new and gives back what has not started. A second call that does not drain ends
    // what runs.
    pub(super) fn leave(&mut self, now: Timestamp, end: WorkerEnd, drain: bool, effects: &mut Vec<Effect>) {
        if self.leaving.is_none() {
            self.leaving_since = now;
        }
        match self.leaving.get_or_insert(end) {
            WorkerEnd::Interrupted if !drain => self.outside.interrupted(&mut self.reporting),
            _ => self.outside.release(None, &mut self.reporting),
        }
        self.give_back(effects);
        self.runners.zygotes.iter_mut().for_each(|zygotes| zygotes.leave(effects));
        self.drains = drain;
        self.leaving_is_news |= self.is_counted_on();
        // Who stops it has time enough for its results.
        self.is_hurried |= !drain && end != WorkerEnd::Stopped;
        self.pressed.is_out_of_time |= end == WorkerEnd::TimeLimit;
        self.pressed.was_interrupted |= !drain && end != WorkerEnd::TimeLimit;
        if !drain {
            self.call_all_back(Why::Ended(Ending::Stopped), effects);
            let mut tasks: Vec<TaskRef> = self.running.keys().copied().collect();
            tasks.sort_unstable();
            for task in tasks {
                self.end(now, task, Ending::Stopped, effects);
            }
        } else if end == WorkerEnd::ConnectionLost {
            // Nobody will say that they are over.
            let mut parts: Vec<TaskRef> =
                self.running.iter().filter(|(_, run)| run.is_part).map(|(task, _)| *task).collect();
            parts.sort_unstable();
            for task in parts {
                self.end(now, task, Ending::Stopped, effects);
            }
        }
    }

    // What has not started goes elsewhere.
    pub(super) fn give_back(&mut self, effects: &mut Vec<Effect>) {
        self.call_all_back(Why::Returned, effects);
        let followers = std::mem::take(&mut self.followers).into_values();
        for batch in std::mem::take(&mut self.queue).into_values().chain(followers) {
            self.reporting.returned(batch.template.job, &batch.left);
        }
    }

    // Nothing will be heard of what runs. What was being ended has ended; the rest crashed with the launcher, which the
    // server sees when the worker leaves.
    pub(super) fn lose_launcher(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.launcher_is_lost = true;
        self.deadlines.clear();
        let ending = self.running.iter().filter(|(_, run)| run.ending.is_some());
        let mut ending: Vec<TaskRef> = ending.map(|(task, _)| *task).collect();
        ending.sort_unstable();
        for task in ending {
            let killed = Outcome::Failed(FailureKind::Signal(SIGKILL), String::new());
            self.task_ended(now, task, killed, (Usage::default(), ByteString::new()), effects);
        }
        self.runners.all_ended();
        self.lose_armed();
    }
}
