//! Generators and reducers: what they ask, and when their jobs are over.
//!
//! Only the present attempt of a generator's or a reducer's task is listened to, so one that was lost and lives on changes
//! nothing. Tasks and the place of the generator become durable by one record, as do the state of the reducer and what is in it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hq_model::job::{FedEnd, Target, TaskIds};
use hq_model::request::CPUS;
use hq_model::task::EndBy;
use hq_model::{Entries, IdSet, JobId, Submit, TaskRef, Timestamp, WorkerId, counted};

use super::clients::{Asked, Asks};
use super::job::Job;
use super::live::Stop;
use super::machine::Server;
use super::{Effect, Gate};
use crate::client_messages::{ClientResponse, JobSummary, RequestError};
use crate::feed::{Feed, FeedChange, FeedOrder, FeedRequest, FeedState};
use crate::limits::{
    FED_SUBMITS_LOOKED_AT_MAX, FEED_TEXT_BYTES_MAX, RESULTS_PAGE_BYTES, UNREDUCED_BYTES_MAX,
    UNREDUCED_TASKS_MAX,
};
use crate::record::Record;
use crate::worker_messages::{TemplateId, ToWorker};

/// What tasks are canceled with that a reducer does not want any more.
const ENOUGH: &str = "its reducer has enough";
/// What a reducer is canceled with that will have nothing to reduce.
const NEVER_GENERATED: &str = "its generator never runs";

// Who waits for room says no more than how much.
impl Asks for FeedRequest {
    fn bytes(&self) -> usize {
        0
    }
}

/// Why nobody else adds tasks to a fed job.
pub(super) fn is_fed(job: JobId) -> RequestError {
    RequestError::Invalid(format!("Tasks of job {job} are made by its generator, and by nobody else."))
}

impl Server {
    /// A generator or a reducer that is submitted again is that of its job from now on.
    pub(super) fn go_on_as(&mut self, now: Timestamp, old: JobId, new: JobId, effects: &mut Vec<Effect>) {
        let Some(job) = self.state.feeders.get(&old).copied() else { return };
        let fed = self.state.jobs.get(&job).filter(|fed| fed.is_open);
        let Some(feed) = fed.and_then(|fed| fed.feed.as_deref()) else { return };
        let replaced = |own: JobId| if own == old { new } else { own };
        let (generator, reducer) = (replaced(feed.generator), feed.reducer.map(replaced));
        let change = Box::new(FeedChange::Made { generator, reducer });
        self.record(now, Record::Feed { job, change }, effects);
    }

    /// Refuses a generator or a reducer of a job that is over, and one in whose place another one is.
    pub(super) fn check_goes_on(&self, old: JobId) -> Result<(), RequestError> {
        let Some(job) = self.state.feeders.get(&old) else { return Ok(()) };
        let fed = self.state.jobs.get(job).filter(|fed| fed.is_open);
        let Some(feed) = fed.and_then(|fed| fed.feed.as_deref()) else {
            return Err(RequestError::Invalid(format!(
                "Job {old} belongs to job {job}, which is over: submit both again as they were."
            )));
        };
        if !feed.earlier.contains(&old) {
            return Ok(());
        }
        let reducer =
            feed.reducer.map_or(String::new(), |reducer| format!(", and its reducer job {reducer}"));
        Err(RequestError::Invalid(format!(
            "Job {old} was submitted again before, and another one is in its place: the generator of job {job} is job {}\
             {reducer}.",
            feed.generator
        )))
    }

    /// Jobs of the generators and reducers of some jobs, as far as they have not ended: they end with them.
    pub(super) fn feeders_of(&self, jobs: &[JobId]) -> Vec<JobId> {
        let feeds = jobs.iter().filter_map(|id| self.state.jobs.get(id)?.feed.as_ref());
        let all = feeds.flat_map(|feed| [Some(feed.generator), feed.reducer]).flatten();
        let is_alive = |id: &JobId| self.state.jobs.get(id).is_some_and(|own| !own.has_ended());
        all.filter(|id| is_alive(id) && !jobs.contains(id)).collect()
    }

    /// A generator or a reducer asks something. A generator waits for room once: with what it asks last.
    pub(super) fn client_feeds(
        &mut self,
        now: Timestamp,
        asked: Asked,
        request: FeedRequest,
        effects: &mut Vec<Effect>,
    ) {
        if let FeedOrder::AwaitRoom { below } = request.order
            && let Ok((job, _)) = self.fed_by(&request)
            && !self.has_room(job, below)
        {
            self.feed_waits.add_last(job, asked, request);
            return;
        }
        // It goes on from what it is told, also where it only looks; so nothing is told that a crash could undo.
        let (body, gate) = match self.feed(now, &request, effects) {
            Ok(state) => (ClientResponse::Feed(Box::new(state)), Gate::Synced),
            Err(error) => (ClientResponse::Error(error), self.gate_of_change()),
        };
        effects.push(Effect::Answer { connection: asked.0, request: asked.1, body, gate });
    }

    /// Answers generators that may go on.
    pub(super) fn tell_feeds(
        &mut self,
        now: Timestamp,
        changed: &BTreeSet<JobId>,
        effects: &mut Vec<Effect>,
    ) {
        for (_, asked, request) in self.feed_waits.take(changed) {
            self.client_feeds(now, asked, request, effects);
        }
    }

    /// Closes jobs whose reducers have ended, or whose generators never run; `is_all` looks at all. True when there were some.
    pub(super) fn close_fed(&mut self, now: Timestamp, effects: &mut Vec<Effect>, is_all: bool) -> bool {
        let over = |id: &JobId| {
            let own = self.state.jobs.get(id)?;
            let job = *self.state.feeders.get(id).filter(|_| own.has_ended())?;
            let fed = self.state.jobs.get(&job).filter(|fed| fed.is_open)?;
            let feed = fed.feed.as_ref()?;
            let is_reduced = feed.reducer == Some(*id) && !own.finished.is_empty();
            let is_hopeless = feed.generator == *id && !own.aborted.is_empty();
            (is_reduced || is_hopeless).then_some((job, is_hopeless))
        };
        let over: BTreeMap<JobId, bool> = match is_all {
            true => self.state.jobs.keys().filter_map(over).collect(),
            false if self.state.feeders.is_empty() => return false,
            false => self.touched.iter().filter_map(over).collect(),
        };
        for (job, is_hopeless) in &over {
            if !is_hopeless {
                self.end_reducing(now, *job, effects);
                continue;
            }
            self.give_up_feeding(now, *job, FedEnd::Aborted, effects);
            let reducer = self.state.jobs.get(job).and_then(|fed| fed.feed.as_ref()?.reducer);
            if let Some(reducer) = reducer.filter(|reducer| self.state.jobs.contains_key(reducer)) {
                self.cancel_one(now, reducer, None, Some(NEVER_GENERATED), effects);
            }
        }
        !over.is_empty()
    }

    /// Says of fed jobs how many lines nobody could ever run. Whoever submitted such a job was not warned of them, for they came
    /// later.
    pub(super) fn count_unrunnable_lines(&self, now: Timestamp, summaries: &mut [JobSummary]) {
        let is_looked_at = |summary: &&mut JobSummary| {
            let job = self.state.jobs.get(&summary.job).filter(|job| job.feed.is_some());
            let is_short = |job: &Job| job.submits.len() <= FED_SUBMITS_LOOKED_AT_MAX;
            summary.counters.waiting > 0
                && job.is_some_and(|job| is_short(job) || summary.counters.running == 0)
        };
        for summary in summaries.iter_mut().filter(is_looked_at) {
            let counts = self.unrunnable(now, &[summary.job]);
            summary.unrunnable = counts.get(&summary.job).copied().unwrap_or_default();
        }
    }

    /// A worker that is to finish what runs there, and has nothing left but generators and reducers, ends these: they may have
    /// no end of their own, and go on elsewhere where they were.
    pub(super) fn end_feeders_on(&mut self, worker: WorkerId, effects: &mut Vec<Effect>) {
        let Some(live) = self.live.get_mut(&worker).filter(|live| live.stop.is_some_and(|stop| stop.drain))
        else {
            return;
        };
        let feeds = |template: &TemplateId| self.state.feeders.contains_key(&template.job);
        let mut held = live.held().iter().filter(|(_, held)| !held.ids.is_empty()).peekable();
        let has_only_feeders = held.peek().is_some() && held.all(|(template, _)| feeds(template));
        let Some(connection) = live.connection.filter(|_| has_only_feeders) else { return };
        self.watching.touch();
        live.stop = Some(Stop { drain: false });
        let message = ToWorker::Stop { drain: false };
        effects.push(Effect::ToWorker { connection, message, gate: Gate::Open });
    }

    // A reducer that has ended with success has in what it leaves behind all that it was told.
    fn end_reducing(&mut self, now: Timestamp, job: JobId, effects: &mut Vec<Effect>) {
        let Some(fed) = self.state.jobs.get(&job) else { return };
        let feed = fed.feed.as_ref().filter(|feed| feed.end != FedEnd::Enough);
        let ids = feed.map(|feed| fed.ids.difference(&fed.alive()).difference(&feed.reduced));
        let change = ids.filter(|ids| !ids.is_empty()).map(|ids| FeedChange::Reduced {
            ids,
            state: None,
            is_enough: false,
        });
        self.close_with(now, job, change, effects);
    }

    // Closes a job for the reason that its feed has changed: both by one record. A server that dies between them would
    // come back with a job that takes no more tasks and that nobody closes.
    fn close_with(
        &mut self,
        now: Timestamp,
        job: JobId,
        change: Option<FeedChange>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(change) = change else { return self.close(now, job, effects) };
        let records = vec![Record::Feed { job, change: Box::new(change) }, Record::JobClosed { job }];
        self.record(now, Record::Together { records }, effects);
        self.when_closed(job);
    }

    /// Closes a job, which has not succeeded unless all of its tasks were made.
    pub(super) fn give_up_feeding(
        &mut self,
        now: Timestamp,
        job: JobId,
        end: FedEnd,
        effects: &mut Vec<Effect>,
    ) {
        let feed = self.state.jobs.get(&job).and_then(|fed| fed.feed.as_ref());
        let is_cut_short = feed.is_some_and(|feed| !feed.is_decomposed);
        self.close_with(now, job, is_cut_short.then_some(FeedChange::GivenUp(end)), effects);
    }

    /// The same where nobody has asked for it: its generator is ended, too. Nothing where no generator feeds it any more.
    pub(super) fn stop_feeding(
        &mut self,
        now: Timestamp,
        job: JobId,
        (end, reason): (FedEnd, &str),
        effects: &mut Vec<Effect>,
    ) {
        let fed = self.state.jobs.get(&job).filter(|fed| fed.is_open);
        let Some(generator) = fed.and_then(|fed| fed.feed.as_ref()).map(|feed| feed.generator) else {
            return;
        };
        self.give_up_feeding(now, job, end, effects);
        self.end_generator(now, generator, reason, effects);
    }

    /// A user wants no more tasks of a job: those that are there are all. It has failed when its generator or its reducer has. One
    /// that has no feed is closed.
    pub(super) fn close_feeding(&mut self, now: Timestamp, job: JobId, effects: &mut Vec<Effect>) {
        let feed = self.state.jobs.get(&job).and_then(|fed| fed.feed.as_ref());
        let generator = feed.filter(|feed| !feed.is_decomposed).map(|feed| feed.generator);
        // One that is forgotten did not end well, or the job would not be open.
        let has_failed = |own: JobId| self.state.jobs.get(&own).is_none_or(|own| !own.failed.is_empty());
        let reducer = feed.and_then(|feed| feed.reducer);
        let is_failed = [generator, reducer].into_iter().flatten().any(has_failed);
        let made = generator.map(|_| FeedChange::Fed { cursor: None, is_decomposed: true });
        let failed = is_failed.then_some(FeedChange::GivenUp(FedEnd::Failed));
        let changes = made.into_iter().chain(failed).map(Box::new);
        let mut records: Vec<Record> = changes.map(|change| Record::Feed { job, change }).collect();
        let is_closed = !self.ends_with_reducer(job);
        if is_closed {
            records.push(Record::JobClosed { job });
        }
        match records.pop() {
            Some(only) if records.is_empty() => self.record(now, only, effects),
            Some(last) => {
                records.push(last);
                self.record(now, Record::Together { records }, effects);
            }
            None => {}
        }
        if is_closed {
            self.when_closed(job);
        }
        if let Some(generator) = generator {
            self.end_generator(now, generator, &format!("job {job} was closed"), effects);
        }
    }

    /// True of a job that ends with its reducer, which has not ended.
    fn ends_with_reducer(&self, job: JobId) -> bool {
        let feed = self.state.jobs.get(&job).and_then(|fed| fed.feed.as_ref());
        feed.and_then(|feed| feed.reducer)
            .is_some_and(|reducer| self.state.jobs.get(&reducer).is_some_and(|reducer| !reducer.has_ended()))
    }

    /// A server that died after a reducer had enough, and before the rest was canceled for that, cancels it when it is back.
    pub(super) fn end_what_is_enough(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let has_enough = |(id, fed): (&JobId, &Job)| {
            let feed = fed.feed.as_deref().filter(|feed| feed.end == FedEnd::Enough)?;
            Some((*id, feed.generator))
        };
        let enough: Vec<(JobId, JobId)> = self.state.jobs.iter().filter_map(has_enough).collect();
        for (job, generator) in enough {
            self.cancel_rest(now, job, generator, effects);
        }
    }

    // Nobody wants what has not ended of a job, nor more of it.
    fn cancel_rest(&mut self, now: Timestamp, job: JobId, generator: JobId, effects: &mut Vec<Effect>) {
        for id in [generator, job] {
            if self.state.jobs.get(&id).is_some_and(|job| !job.tasks_ended()) {
                self.cancel_one(now, id, None, Some(ENOUGH), effects);
            }
        }
    }

    fn end_generator(&mut self, now: Timestamp, id: JobId, reason: &str, effects: &mut Vec<Effect>) {
        if self.state.jobs.contains_key(&id) {
            self.cancel_one(now, id, None, Some(reason), effects);
        }
    }

    // The job that a task feeds or drains, and what is kept of that. Only its present attempt may ask.
    fn fed_by(&self, request: &FeedRequest) -> Result<(JobId, &Feed), RequestError> {
        let FeedRequest { by, instance, .. } = request;
        let own = self.state.jobs.get(&by.job).ok_or(RequestError::NoJob(by.job))?;
        let fed = self.state.feeders.get(&by.job);
        let Some((job, feed)) = fed.and_then(|job| Some((*job, self.state.jobs.get(job)?.feed.as_deref()?)))
        else {
            return Err(RequestError::Invalid(format!(
                "Task {by} neither makes nor reduces tasks of a job."
            )));
        };
        let is_leased = own.leased.values().any(|ids| ids.contains(by.task));
        let present = own.instance_of(by.task);
        if !is_leased || present != *instance {
            let now = match is_leased {
                true => format!("but as instance {present}"),
                false => "now".to_owned(),
            };
            return Err(RequestError::NotRunning { task: *by, instance: *instance, now });
        }
        Ok((job, feed))
    }

    fn feed(
        &mut self,
        now: Timestamp,
        request: &FeedRequest,
        effects: &mut Vec<Effect>,
    ) -> Result<FeedState, RequestError> {
        let (job, feed) = self.fed_by(request)?;
        let is_generator = feed.generator == request.by.job;
        let invalid = |text: &str| Err(RequestError::Invalid(text.to_owned()));
        let is_change = matches!(request.order, FeedOrder::Add { .. } | FeedOrder::Save { .. });
        if is_change {
            self.refuse_when_read_only()?;
        }
        match &request.order {
            FeedOrder::Look | FeedOrder::AwaitRoom { .. } => {}
            FeedOrder::Add { .. } if !is_generator => return invalid("A reducer makes no tasks."),
            FeedOrder::Save { .. } if is_generator => return invalid("A generator reduces no tasks."),
            FeedOrder::Add { at, submits, cursor, is_last } => {
                check_text("cursor", cursor.as_ref())?;
                self.feed_adds(now, (job, request.by), (*at, submits), (cursor.clone(), *is_last), effects)?;
            }
            FeedOrder::Save { ids, state, is_enough } => {
                check_text("state", state.as_ref())?;
                self.feed_saves(now, job, ids, (state.clone(), *is_enough), effects)?;
            }
            FeedOrder::Entries { ids } => {
                let (entries, entries_gone) = self.feed_entries(job, ids);
                return Ok(FeedState { entries, entries_gone, ..self.feed_state(job) });
            }
        }
        Ok(self.feed_state(job))
    }

    fn feed_adds(
        &mut self,
        now: Timestamp,
        (job, by): (JobId, TaskRef),
        (at, submits): (u64, &[Submit]),
        (cursor, is_last): (Option<Vec<u8>>, bool),
        effects: &mut Vec<Effect>,
    ) -> Result<(), RequestError> {
        let fed = &self.state.jobs[&job];
        let made = fed.ids.len();
        let has_no_reducer = fed.feed.as_ref().is_some_and(|feed| feed.reducer.is_none());
        let invalid = |text: &str| Err(RequestError::Invalid(text.into()));
        let (mut count, mut last) = (0, None);
        for submit in submits {
            if submit.target != Target::Open(job) {
                return invalid("A generator makes tasks of its own job.");
            }
            match &submit.ids {
                TaskIds::Next(more) => count += u64::from(*more),
                TaskIds::Given(_) if !submit.keys.is_empty() => {
                    return invalid("Tasks of a generator with keys have the next ids.");
                }
                TaskIds::Given(ids) if ids.first().is_none_or(|first| u64::from(first.0) < at) => {
                    return invalid("Tasks of a generator come behind those that it has made.");
                }
                TaskIds::Given(ids) => {
                    count += ids.len();
                    last = last.max(ids.last().map(|last| u64::from(last.0)));
                }
            }
        }
        if last.is_some_and(|last| last != at + count - 1) {
            return invalid("The ids of the tasks of a generator have no gaps.");
        }
        let is_keyed = submits.first().is_some_and(|submit| !submit.keys.is_empty());
        let had_keys = fed.submits.first().map(|submit| !submit.keys.is_empty());
        if submits.iter().any(|submit| submit.keys.is_empty() == is_keyed)
            || (!submits.is_empty() && had_keys.is_some_and(|had| had != is_keyed))
        {
            return invalid("All tasks of a generator have keys, or none has one.");
        }
        // Those with keys need not all be new.
        let are_there = is_keyed && self.are_there(job, submits)?;
        let is_repeated = if is_keyed {
            at < made && are_there
        } else {
            at + count == made && (at < made || fed.feed.as_ref().is_some_and(|f| f.is_decomposed))
        };
        if !fed.is_open && !is_repeated {
            return Err(RequestError::JobNotOpen(job));
        }
        let is_over = is_last && has_no_reducer;
        if is_repeated {
            // Earlier releases kept that it was the last one and that the job is closed by two records.
            if is_over && fed.is_open {
                self.close(now, job, effects);
            }
            return Ok(());
        }
        if at != made {
            let tasks = counted(at, "task");
            return Err(RequestError::Invalid(format!(
                "Task {by} has made {tasks} of job {job}, by its own account, and there are {made}."
            )));
        }
        let change = FeedChange::Fed { cursor, is_decomposed: is_last };
        let mut beside = vec![Record::Feed { job, change: Box::new(change) }];
        if is_over {
            beside.push(Record::JobClosed { job });
        }
        if submits.is_empty() || are_there {
            self.record(now, Record::Together { records: beside }, effects);
        } else {
            let submits = self.counted_from_submit(job, submits);
            self.add_all(now, 0, job, &submits, beside, effects)?;
        }
        if is_over {
            self.when_closed(job);
        }
        Ok(())
    }

    // A duration until which tasks are to have ended counts from when their job was submitted.
    fn counted_from_submit<'a>(&self, job: JobId, submits: &'a [Submit]) -> Cow<'a, [Submit]> {
        let submitted = self.state.jobs[&job].submitted;
        let mut submits = Cow::Borrowed(submits);
        for at in 0..submits.len() {
            if let Some(end_by @ EndBy::Within(_)) = submits[at].spec.end_by {
                let spec = &mut submits.to_mut()[at].spec;
                Arc::make_mut(spec).end_by = Some(EndBy::At(end_by.after(submitted)));
            }
        }
        submits
    }

    fn feed_saves(
        &mut self,
        now: Timestamp,
        job: JobId,
        ids: &IdSet,
        (state, is_enough): (Option<Vec<u8>>, bool),
        effects: &mut Vec<Effect>,
    ) -> Result<(), RequestError> {
        let fed = &self.state.jobs[&job];
        let Some(feed) = &fed.feed else { return Ok(()) };
        let (unknown, alive) = (ids.difference(&fed.ids), ids.intersection(&fed.alive()));
        if let Some(task) = unknown.first().or(alive.first()) {
            return Err(RequestError::Invalid(format!(
                "The reducer of job {job} acknowledges task {task}, which has not ended."
            )));
        }
        let (generator, ids) = (feed.generator, ids.difference(&feed.reduced));
        let change = FeedChange::Reduced { ids, state, is_enough };
        self.record(now, Record::Feed { job, change: Box::new(change) }, effects);
        if is_enough {
            self.cancel_rest(now, job, generator, effects);
        }
        Ok(())
    }

    // With those of them that are not kept any more.
    fn feed_entries(&self, job: JobId, ids: &IdSet) -> (Entries, IdSet) {
        let fed = &self.state.jobs[&job];
        let mut gone = IdSet::new();
        for (index, ids) in fed.by_submit(ids) {
            gone.union_with(&ids.intersection(&fed.submits[index as usize].entries_gone));
        }
        let mut room = RESULTS_PAGE_BYTES;
        let entries = ids.iter().map_while(|task| {
            let submit = &fed.submits[fed.submit_of(task)? as usize];
            let entry = submit.entry_of(task).unwrap_or_default();
            room = room.checked_sub(entry.len() + 8)?;
            Some(entry)
        });
        (Entries::new(entries).unwrap_or_default(), gone)
    }

    // How a fed job is.
    pub(super) fn feed_state(&self, id: JobId) -> FeedState {
        let job = &self.state.jobs[&id];
        let running = self.running.count(id);
        let counters = job.counters(running);
        FeedState {
            job: id,
            feed: job.feed.as_deref().cloned().unwrap_or_default(),
            made: job.ids.len(),
            is_open: job.is_open,
            waiting: counters.waiting,
            ended: counters.terminal(),
            slots: self.slots(),
            unreduced_bytes: self.state.results.held_bytes(id) as u64,
            entries: Entries::default(),
            entries_gone: IdSet::new(),
            is_keyed: job.submits.first().is_some_and(|submit| !submit.keys.is_empty()),
        }
    }

    fn has_room(&self, id: JobId, below: u64) -> bool {
        let Some(job) = self.state.jobs.get(&id) else { return true };
        let Some(feed) = job.feed.as_deref().filter(|feed| job.is_open && !feed.is_decomposed) else {
            return true;
        };
        let counters = job.counters(self.running.count(id));
        let is_behind = feed.unreduced(counters.terminal()) >= UNREDUCED_TASKS_MAX
            || self.state.results.held_bytes(id) >= UNREDUCED_BYTES_MAX;
        counters.waiting < below && !is_behind
    }

    // CPUs of workers that are there.
    fn slots(&self) -> u64 {
        let there = self.live.iter().filter(|(_, live)| live.connection.is_some());
        let workers = there.filter_map(|(id, _)| self.state.workers.get(id));
        let cpus =
            workers.flat_map(|worker| worker.config.resources.pools.iter().filter(|pool| pool.name == CPUS));
        cpus.map(|pool| pool.kind.total().0 / hq_model::Amount::whole(1).0).sum()
    }
}

fn check_text(what: &str, text: Option<&Vec<u8>>) -> Result<(), RequestError> {
    match text.map_or(0, Vec::len) {
        bytes if bytes > FEED_TEXT_BYTES_MAX => Err(RequestError::Invalid(format!(
            "The {what} has {bytes} bytes, and at most {FEED_TEXT_BYTES_MAX} are kept: put the rest into a file, and let \
             the {what} say where."
        ))),
        _ => Ok(()),
    }
}
