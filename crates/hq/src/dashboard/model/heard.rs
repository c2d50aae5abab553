//! What answers change.

use hq_core::alloc::messages::AllocResponse;
use hq_core::client_messages::{ClientResponse, Overview};

use super::super::series::Point;
use super::super::wants::{Action, Want};
use super::{Link, Model, Screen};
use hq_model::counted;

/// How long a word is shown, in ms.
const MESSAGE_MS: u64 = 8_000;

impl Model {
    /// Everything in counts has changed: what else is known may have, too.
    pub(crate) fn hear_overview(&mut self, now_ms: u64, overview: Overview) {
        if matches!(self.link, Link::Connecting | Link::Lost(..)) {
            self.link = Link::Live;
        }
        let is_other =
            |(known, _): &(Overview, u64)| known.uid != overview.uid || known.epoch != overview.epoch;
        if self.overview.as_ref().is_some_and(is_other) {
            self.forget_answers();
            if self.link == Link::Live {
                self.say(now_ms, "The server was restarted".to_owned());
            }
        }
        self.series.push(Point::of(&overview));
        self.overview = Some((overview, now_ms));
        self.heard.values_mut().for_each(|heard| heard.1 = true);
    }

    /// The server does not answer.
    pub(crate) fn hear_lost(&mut self, now_ms: u64, why: String) {
        let since = match &self.link {
            Link::Lost(_, since) => *since,
            _ => now_ms,
        };
        self.asked.clear();
        self.link = Link::Lost(why, since);
    }

    /// An answer, or why there is none.
    pub(crate) fn hear(&mut self, now_ms: u64, want: Want, answer: Result<ClientResponse, String>) {
        // What was asked for another server, or before another time was chosen, is no news.
        if self.asked.remove(&want).is_none() {
            return;
        }
        self.heard.insert(want, (now_ms, false));
        match answer {
            Ok(ClientResponse::Partly { rest, .. }) => self.take(want, *rest),
            Ok(answer) => self.take(want, answer),
            Err(why) => self.refused(now_ms, want, why),
        }
    }

    /// What became of an order.
    pub(crate) fn hear_done(&mut self, now_ms: u64, action: Action, result: Result<ClientResponse, String>) {
        self.say(
            now_ms,
            match result {
                Ok(ClientResponse::Submitted { job, ids, .. }) => {
                    format!("{}: {} as job {job}", action.done(), counted(ids.len(), "task"))
                }
                Ok(_) => action.done(),
                Err(why) => why,
            },
        );
        self.heard.values_mut().for_each(|heard| *heard = (0, true));
    }

    /// Shows a word for a while.
    pub(crate) fn say(&mut self, now_ms: u64, text: String) {
        self.message = Some((text, now_ms + MESSAGE_MS));
    }

    fn refused(&mut self, now_ms: u64, want: Want, why: String) {
        match want {
            // A job that was forgotten meanwhile, or a task that never was.
            Want::Job(_) => self.job = None,
            Want::Task(_) => self.task = None,
            // What a task has printed may be out of reach, what it waits for may be over: that is said there.
            Want::Output(..) => self.output = Some(format!("({why})").into_bytes()),
            // A server of an earlier release keeps no loads, knows no shapes, and does not say what is on a worker.
            Want::Reasons(_) | Want::Explanation(_) | Want::Load(_) | Want::Shape(_) | Want::OnWorker(_) => {
                return;
            }
            _ => {}
        }
        if !matches!(want, Want::Output(..)) {
            self.say(now_ms, why);
        }
    }

    fn take(&mut self, want: Want, answer: ClientResponse) {
        match (want, answer) {
            (Want::Jobs, ClientResponse::JobList(jobs)) => {
                let chosen = self.chosen_job();
                self.jobs = jobs;
                self.sort_jobs();
                // The line follows its job.
                if let (Screen::Jobs, Some(chosen)) = (self.screen(), chosen)
                    && let Some(line) = self.jobs.iter().position(|job| job.job == chosen)
                {
                    self.choose(line);
                }
            }
            (Want::Job(_), ClientResponse::JobDetails { mut jobs, now, .. }) => {
                self.job = jobs.pop();
                if let (Some(job), Some(now)) = (&self.job, now) {
                    self.job_series.push(Point::of_job(now, &job.summary.counters));
                }
            }
            (Want::Shape(_), ClientResponse::JobShape(shape)) => {
                // There is more to be told.
                if let Some(heard) = self.heard.get_mut(&want).filter(|_| !shape.timeline.is_complete) {
                    heard.1 = true;
                }
                self.shape = Some(*shape);
            }
            (Want::Failures(_), ClientResponse::Failures { mut jobs, .. }) => self.failures = jobs.pop(),
            (Want::Tasks(_), ClientResponse::Tasks { tasks, next, .. }) => {
                self.tasks = (tasks.into_iter().map(|(_, task)| task).collect(), next.is_some());
            }
            (Want::Running(_), ClientResponse::Tasks { tasks, .. }) => {
                self.running = tasks.into_iter().map(|(_, task)| task).collect();
            }
            (Want::OnWorker(worker), ClientResponse::Tasks { tasks, .. }) => {
                self.on_worker = Some((worker, tasks));
            }
            (Want::Task(_), ClientResponse::Tasks { mut tasks, .. }) => {
                self.task = tasks.pop().map(|(_, task)| task);
            }
            (Want::Reasons(_), ClientResponse::Explained(reasons)) => self.reasons = Some(*reasons),
            (Want::Output(..), ClientResponse::Output(output)) => self.output = Some(output.bytes),
            (Want::Workers, ClientResponse::Workers(workers)) => self.workers = workers,
            (Want::Load(_), ClientResponse::Load(history)) => self.load = Some(*history),
            (Want::Queues, ClientResponse::Alloc(AllocResponse::Queues(queues))) => self.queues = queues,
            (Want::Queue(_), ClientResponse::Alloc(AllocResponse::Details { allocations, .. })) => {
                self.allocations = allocations;
            }
            (Want::Explanation(_), ClientResponse::Alloc(AllocResponse::Explained(explanation))) => {
                self.explanation = Some(*explanation);
            }
            // A server that answers something else is of a release that knows more than this one.
            _ => {}
        }
    }

    /// Puts jobs in the order that was chosen.
    pub(super) fn sort_jobs(&mut self) {
        self.sort.apply(&mut self.jobs);
    }
}
