//! When a worker speaks to the server, and what it says.

use hq_model::worker::Executor;
use hq_model::{IdSet, JobId, TaskRef, Timestamp};

use super::{Link, Worker};
use crate::limits::{AWAITED_REPORT_INTERVAL, HAND_ON_TIME_MAX, REPORT_INTERVAL};
use crate::worker::Effect;
use crate::worker::pulling::Pulling;
use crate::worker::words::WordsRefused;
use crate::worker_messages::{FromWorker, TaskWords};

impl Worker {
    // An end is reported at once after a quiet time, and always when nothing is queued: then the server may have
    // something that waits for it. A start can wait a little: most tasks that end soon are then reported once, and
    // never by themselves as running.
    pub(super) fn report_due(&self) -> Timestamp {
        match self.reporting.has_ends() || self.storing.as_ref().is_some_and(|storing| storing.has_news()) {
            _ if self.node_fault.is_news || self.is_asked_in_vain() => Timestamp(0),
            true if !self.has_more_here() => Timestamp(0),
            true if self.reporting.is_awaited() => {
                self.last_report.after(AWAITED_REPORT_INTERVAL).min(self.next_report)
            }
            true => self.next_report,
            false => self.next_report.max(self.starts_due),
        }
    }

    // Something that has not started.
    fn has_more_here(&self) -> bool {
        !self.queue.is_empty() || !self.followers.is_empty() || !self.armed.is_empty()
    }

    pub(super) fn is_done(&self) -> bool {
        let is_over = self.running.is_empty() && self.armed.is_empty();
        self.leaving.is_some() && (is_over || self.launcher_is_lost)
    }

    // Until when a worker that is done stays for results that are not safe: it looks for a lost server to tell them, or
    // waits until the server has them on disk, which may be full.
    pub(super) fn tells_until(&self) -> Option<Timestamp> {
        let since = match self.link {
            Link::Down(since) => since,
            Link::Greeting => return None,
            Link::Up => self.leaving_since,
        };
        let has_news = self.reporting.has_results() || self.reporting.has_words();
        let has_more = self.id.is_some() && !self.is_hurried && has_news;
        has_more.then(|| since.max(self.last_end).after(self.config.reconnect_timeout))
    }

    // Until when a worker that is done stays, for results or for objects.
    pub(super) fn stays_until(&self) -> Option<Timestamp> {
        self.tells_until().max(self.hands_on_until())
    }

    // Until when it stays for objects on which the server counts: another worker is to have them first, or none can. Where its
    // time is over, shortly before its limit.
    fn hands_on_until(&self) -> Option<Timestamp> {
        if !self.is_counted_on() || self.link != Link::Up {
            return None;
        }
        let last = self.config.life(self.started).map(|life| life.ends_at_last());
        if self.pressed.is_out_of_time {
            return last.filter(|_| !self.pressed.was_interrupted);
        }
        let until = self.leaving_since.max(self.last_end).after(HAND_ON_TIME_MAX);
        (self.drains && !self.is_hurried).then(|| last.map_or(until, |last| until.min(last)))
    }

    // The server may need something that is stored here.
    pub(super) fn is_counted_on(&self) -> bool {
        self.storing.as_ref().is_some_and(|storing| storing.is_counted_on())
    }

    /// A running task says something to whoever waits for its job. It is told to the server with the next report, and kept
    /// until that is saved.
    ///
    /// # Errors
    /// When it may never be told.
    pub fn hear(&mut self, words: TaskWords) -> Result<(), WordsRefused> {
        if self.is_hurried && self.link != Link::Up {
            return Err(WordsRefused::Ending);
        }
        self.reporting.says(words)
    }

    /// Tasks that have ended here by themselves, of which the server has not said that it knows.
    pub fn untold(&self) -> Vec<(JobId, IdSet)> {
        self.reporting.results()
    }

    pub(in crate::worker) fn has_news(&self) -> bool {
        let has_room_news = self.pulling.as_ref().is_some_and(Pulling::has_news);
        let has_object_news = self.storing.as_ref().is_some_and(|storing| storing.has_news());
        let has_more = self.node_fault.is_news || self.leaving_is_news || self.output_waits.is_news;
        self.reporting.has_news() || has_more || has_room_news || has_object_news
    }

    pub(super) fn make_report(&mut self) -> FromWorker {
        self.node_fault.is_news = false;
        self.leaving_is_news = false;
        self.output_waits.is_news = false;
        let trouble = self.node_fault.reason().map(str::to_owned);
        let running = &self.running;
        let runs = |task: TaskRef| running.get(&task).map(|run| (run.instance, run.since, run.variant));
        let lends = |task: TaskRef| Some((running.get(&task)?.instance, self.lending.lends(task)));
        let has_usage = self.config.executor == Executor::Process;
        let is_leaving = (self.leaving.is_some(), self.drains);
        let number = self.reporting.next_number();
        let room = self.pulling.as_mut().map(|pulling| pulling.tell_room(number));
        let objects = self.storing.as_mut().and_then(|storing| storing.take_news());
        let waits = (trouble, self.output_waits.why.clone());
        FromWorker::Report(
            self.reporting.make(has_usage, is_leaving, (room, waits, objects), runs, lends).clone(),
        )
    }

    pub(super) fn speak(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.has_left {
            return;
        }
        let is_done = self.is_done();
        if self.link == Link::Up {
            for TaskWords { task, text, .. } in self.reporting.take_words_apart() {
                effects.push(Effect::Send(FromWorker::Notify { task, text }));
            }
            let is_due = now >= self.report_due() || is_done || self.reporting.is_full();
            // Results may need several.
            while self.has_news() && is_due {
                effects.push(Effect::Send(self.make_report()));
                (self.last_report, self.next_report) = (now, now.after(REPORT_INTERVAL));
                self.next_heartbeat = now.after(self.config.heartbeat);
            }
            if now >= self.next_heartbeat {
                effects.push(Effect::Send(FromWorker::Heartbeat));
                self.next_heartbeat = now.after(self.config.heartbeat);
            }
        }
        if self.stays_until().is_some_and(|until| now < until) {
            return;
        }
        if let (true, Some(end)) = (is_done, self.leaving) {
            if self.link == Link::Greeting {
                // The server knows it from the hello on: it need not wait for the answer to leave in order.
                while self.has_news() {
                    self.make_report();
                }
                for report in self.reporting.unsaved() {
                    effects.push(Effect::Send(FromWorker::Report(report.clone())));
                }
            }
            if !matches!(self.link, Link::Down(_)) {
                effects.push(Effect::Send(FromWorker::Leaving { end }));
            }
            self.has_left = true;
            effects.push(Effect::Exit(end));
        }
    }
}
