//! Who is told when a job ends, when its first task fails, and when it is stalled.
//!
//! That something is to be told is a record, and that it was told is another one: so it is told at least once, and twice at
//! most where a server dies between both. What waits has all that is told, within a bound; beyond it only jobs wait here,
//! and are looked at again by a server that starts.

mod stalls;

use std::collections::{BTreeMap, BTreeSet};

use hq_model::notice::{Moment, Notice, NoticeEvent, cut};
use hq_model::paths::{PathTemplates, Place};
use hq_model::{ByteString, Channel, Entry, JobId, TaskRef, Timestamp};

use self::stalls::Stalls;
use super::Effect;
use super::job::Job;
use super::machine::Server;
use super::state::State;
use super::state::notices::NoticeId;
use crate::client_messages::NoticeInfo;
use crate::limits::{NOTICE_PAUSES, NOTICE_TEXT_BYTES_MAX, NOTICES_AT_ONCE, NOTICES_BYTES_MAX};
use crate::record::{FailureKind, NoticeChange, Record};

/// No file has a longer name.
const PATH_BYTES_MAX: usize = 4096;

/// Which notices are being sent, and which jobs may stand still.
#[derive(Debug, Default)]
pub(super) struct Notices {
    // Of all that are to be sent: those that can be sent now, first come first served.
    ready: BTreeSet<(Timestamp, NoticeId)>,
    sending: BTreeSet<NoticeId>,
    // Those that could not be sent, until they are tried again.
    paused: BTreeSet<(Timestamp, NoticeId)>,
    // How often sending has failed, and why.
    troubles: BTreeMap<NoticeId, (usize, String)>,
    // What was heard of those that were sent.
    reports: Vec<(NoticeId, Result<(), String>)>,
    // Jobs that are to be looked at.
    jobs: BTreeSet<JobId>,
    stalls: Stalls,
}

impl Notices {
    /// What is to be sent, whatever was under way when the last server ended.
    pub(super) fn recount(state: &State) -> Notices {
        let ready = state.notices.iter().map(|(id, notice)| (notice.at, id)).collect();
        Notices { ready, ..Notices::default() }
    }

    /// The state has changed.
    pub(super) fn hear(&mut self, record: &Record) {
        match record {
            Record::Together { records } => records.iter().for_each(|record| self.hear(record)),
            Record::Notice { job, rule, change: NoticeChange::Due(notice) } => {
                self.ready.insert((notice.at, (*job, *rule)));
            }
            _ => {}
        }
    }

    /// Compares with the state.
    ///
    /// # Errors
    /// Says what differs.
    pub(super) fn check(&self, state: &State) -> Result<(), String> {
        let waiting = self.ready.iter().chain(&self.paused).map(|(_, id)| *id);
        let mut here: Vec<NoticeId> = waiting.chain(self.sending.iter().copied()).collect();
        here.sort();
        let there: Vec<NoticeId> = state.notices.iter().map(|(id, _)| id).collect();
        if here != there {
            return Err(format!("notices {there:?} are to be sent, and known are {here:?}"));
        }
        Ok(())
    }

    /// It was said what became of one. What that means is decided with everything else.
    pub(super) fn sent(&mut self, id: NoticeId, result: Result<(), String>) {
        self.reports.push((id, result));
    }

    /// When the next one is tried again, or the next job may stand still.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        let paused = self.paused.first().map(|(at, _)| *at);
        [paused, self.stalls.next_wakeup()].into_iter().flatten().min()
    }

    fn wake(&mut self, now: Timestamp) {
        while let Some((at, id)) = self.paused.first().copied().filter(|(at, _)| *at <= now) {
            self.paused.remove(&(at, id));
            self.ready.insert((at, id));
        }
    }
}

impl Server {
    /// Decides what is to be told, and has it sent.
    pub(super) fn settle_notices(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        for (id, result) in std::mem::take(&mut self.notices.reports) {
            self.notice_sent(now, id, result, effects);
        }
        let is_told = |id: &&JobId| self.state.jobs.get(id).is_some_and(|job| !job.spec.notices.is_empty());
        self.notices.jobs.extend(self.touched.iter().filter(is_told));
        while self.state.notices.bytes() < NOTICES_BYTES_MAX
            && let Some(id) = self.notices.jobs.pop_first()
        {
            self.look_for_notices(now, id, effects);
        }
        if self.state.notices.bytes() < NOTICES_BYTES_MAX {
            self.look_for_stalls(now, effects);
        }
        self.notices.wake(now);
        // The next server sends what this one has not begun, where there will be one.
        if self.is_stopping() && self.has_journal() {
            return;
        }
        while self.notices.sending.len() < NOTICES_AT_ONCE
            && let Some((_, id)) = self.notices.ready.pop_first()
        {
            let Some(notice) = self.state.notices.get(id) else { continue };
            self.notices.sending.insert(id);
            effects.push(Effect::Notify { notice: Box::new(notice.clone()) });
        }
    }

    /// Makes what is to be told of how far a job is.
    pub(super) fn look_for_notices(&mut self, now: Timestamp, id: JobId, effects: &mut Vec<Effect>) {
        let Some(job) = self.state.jobs.get(&id).filter(|job| !job.spec.notices.is_empty()) else { return };
        if job.is_draft() {
            return;
        }
        let mut events = Vec::new();
        if !job.failed.is_empty() {
            events.push(first_failure(job, self.first_stderr(id, job)));
        }
        if job.has_ended() {
            events.push(NoticeEvent::End);
        }
        for event in events {
            self.tell(now, id, &event, effects);
        }
        self.watch_for_stall(now, id);
    }

    /// The file with the standard error of the first task that failed; empty where it is in none, or did not run.
    pub(super) fn first_stderr(&self, id: JobId, job: &Job) -> ByteString {
        let cause = job.causes.first().filter(|cause| {
            use FailureKind::{Exit, Output, Signal, Timeout};
            matches!(cause.kind, Exit(_) | Signal(_) | Timeout | Output)
        });
        let path = cause.and_then(|cause| {
            let submit = &job.submits[job.submit_of(cause.first)? as usize];
            let templates = PathTemplates::new(&submit.task, &submit.submit_dir, &self.state.uid);
            let entry = submit.entry_of(cause.first).map(Entry::new);
            let (task, instance) = (TaskRef::new(id, cause.first), job.instance_of(cause.first));
            match templates.place(Channel::Stderr, task, instance, entry.as_ref())? {
                Place::File(path) => Some(path).filter(|path| path.len() <= PATH_BYTES_MAX),
                Place::Stream(_) => None,
            }
        });
        path.unwrap_or_default()
    }

    /// Makes the notices of a moment, for the rules that were not told of it.
    pub(super) fn tell(&mut self, now: Timestamp, id: JobId, event: &NoticeEvent, effects: &mut Vec<Effect>) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let moment = event.moment();
        let is_new = |rule: u32| match job.told.get(&rule) {
            None => true,
            Some(told) => moment == Moment::Stall && told.end.is_some(),
        };
        let rules = job.spec.notices.iter().zip(0_u32..);
        let rules = rules.filter(|(rule, number)| rule.on == moment && is_new(*number));
        let running = self.running.count(id);
        let directory = match job.submits.first() {
            _ if !job.spec.directory.is_empty() => &job.spec.directory,
            Some(submit) => &submit.submit_dir,
            None => &b"/"[..],
        };
        let notice = |(rule, number): (&hq_model::NoticeRule, u32)| Notice {
            job: id,
            name: job.spec.name.clone(),
            rule: number,
            target: rule.target.clone(),
            at: now,
            state: job.state(running),
            counters: job.counters(running),
            submit_dir: directory.to_vec(),
            event: event.clone(),
        };
        let notices: Vec<Notice> = rules.map(notice).collect();
        for notice in notices {
            let (job, rule) = (notice.job, notice.rule);
            let change = NoticeChange::Due(Box::new(notice));
            self.record(now, Record::Notice { job, rule, change }, effects);
        }
    }

    fn notice_sent(
        &mut self,
        now: Timestamp,
        id: NoticeId,
        result: Result<(), String>,
        effects: &mut Vec<Effect>,
    ) {
        if !self.notices.sending.remove(&id) {
            return;
        }
        let change = match result {
            Ok(()) => NoticeChange::Sent,
            Err(error) => {
                let error = cut(&error, NOTICE_TEXT_BYTES_MAX);
                let tried = self.notices.troubles.get(&id).map_or(0, |trouble| trouble.0);
                if let Some(pause) = NOTICE_PAUSES.get(tried) {
                    self.notices.troubles.insert(id, (tried + 1, error));
                    self.notices.paused.insert((now.after(*pause), id));
                    return;
                }
                NoticeChange::GivenUp(error)
            }
        };
        self.notices.troubles.remove(&id);
        self.record(now, Record::Notice { job: id.0, rule: id.1, change }, effects);
    }

    /// True while a server that is to end has to send notices: what was begun, and without a journal everything.
    pub(super) fn must_send_notices(&self) -> bool {
        self.notices_to_send() > 0
    }

    /// How many these are.
    pub(super) fn notices_to_send(&self) -> usize {
        if self.has_journal() { self.notices.sending.len() } else { self.state.notices.iter().count() }
    }

    fn has_journal(&self) -> bool {
        self.options.info.journal.is_some()
    }

    /// Who is told of a job, and what became of that.
    pub(super) fn notice_infos(&self, id: JobId, job: &Job) -> Vec<NoticeInfo> {
        let rules = job.spec.notices.iter().zip(0_u32..);
        let info = |(rule, number): (&hq_model::NoticeRule, u32)| NoticeInfo {
            rule: rule.clone(),
            told: job.told.get(&number).cloned(),
            trouble: self.notices.troubles.get(&(id, number)).map(|trouble| trouble.1.clone()),
        };
        rules.map(info).collect()
    }
}

// The causes of failures are kept in the order in which they came up.
fn first_failure(job: &Job, stderr: ByteString) -> NoticeEvent {
    match job.causes.first() {
        Some(cause) => {
            let error = cut(&cause.first_error, NOTICE_TEXT_BYTES_MAX);
            NoticeEvent::Failure { task: cause.first, error, stderr }
        }
        None => {
            let task = job.failed.first().unwrap_or_default();
            NoticeEvent::Failure { task, error: String::new(), stderr: ByteString::new() }
        }
    }
}
