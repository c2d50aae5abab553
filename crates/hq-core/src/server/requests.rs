//! Requests of clients that change something.

mod checks;

use std::collections::BTreeMap;

use hq_model::job::{FedEnd, Target, TaskIds};
use hq_model::selector::Selector;
use hq_model::{
    AmountRequest, IdSet, JobId, JobSpec, Request, Submit, TaskId, TaskState, Timestamp, Usage, WorkerId,
    counted, counted_are, similar,
};

pub(super) use checks::check_spec;
use checks::is_change;

use super::feeding::is_fed;
use super::job::SubmitState;
use super::last_moments::over_already;
use super::live::{LiveWorker, Stop};
use super::machine::{Answer, Server};
use super::{Effect, Gate};
use crate::client_messages::{ClientRequest, ClientResponse, RequestError};
use crate::limits::{CANCEL_REASON_MAX, JOB_BYTES, KEYED_TASKS_MAX, SUBMITS_BYTES_MAX, SUBMITS_MAX};
use crate::record::{Failure, FailureKind, Record, RequestKey};
use crate::worker_messages::{TemplateId, ToWorker, WorkerEnd};

impl Server {
    /// Handles a request that changes something; `None` when it does not.
    pub(super) fn change(
        &mut self,
        now: Timestamp,
        body: &ClientRequest,
        effects: &mut Vec<Effect>,
    ) -> Option<Answer> {
        if is_change(body)
            && let Err(error) = self.refuse_when_read_only()
        {
            return Some(Err(error));
        }
        let result = match body {
            ClientRequest::Submit { key, submit } => self.submit(now, *key, submit, effects),
            ClientRequest::SubmitAll { key, submits } => self.submit_all(now, *key, submits, effects),
            ClientRequest::Resubmit { key, jobs, tasks, states } => {
                self.resubmit(now, *key, (jobs, tasks.as_ref(), states), effects)
            }
            ClientRequest::SubmitJobs { key, jobs } => self.submit_jobs(now, *key, jobs, effects),
            ClientRequest::OpenJob { key, spec } => self.open_job(now, *key, spec, effects),
            ClientRequest::Defer { task, instance, after } => {
                self.defer(now, *task, *instance, after, effects)
            }
            ClientRequest::Ready { task, instance, text } => self.ready(now, *task, *instance, text, effects),
            ClientRequest::CloseJobs { jobs } => self.close_jobs(now, jobs, effects),
            ClientRequest::SetBudget { jobs, budget } => self.set_budgets(now, jobs, *budget, effects),
            ClientRequest::Cancel { jobs, tasks, reason } => {
                self.cancel(now, jobs, tasks.as_ref(), reason.as_deref(), effects)
            }
            ClientRequest::ForgetJobs { jobs, states } => self.forget_jobs(now, jobs, states, effects),
            ClientRequest::StopWorkers { workers, drain } => self.stop_workers(now, workers, *drain, effects),
            _ => return None,
        };
        Some(result)
    }

    /// Refuses what changes something while the journal cannot be written.
    pub(super) fn refuse_when_read_only(&self) -> Result<(), RequestError> {
        match &self.options.info.journal_trouble {
            Some((_, error)) => Err(RequestError::ReadOnly(error.clone())),
            None => Ok(()),
        }
    }

    fn submit(
        &mut self,
        now: Timestamp,
        key: RequestKey,
        submit: &Submit,
        effects: &mut Vec<Effect>,
    ) -> Answer {
        if let Some(answer) = self.answer_again(key, std::slice::from_ref(submit)) {
            return Ok(answer);
        }
        if self.is_stopping() {
            return Err(RequestError::Stopping);
        }
        check_spec(submit)?;
        let (job, spec) = match &submit.target {
            Target::New(spec) => {
                check_name(spec)?;
                (JobId(self.state.last_job.0 + 1), Some(spec.clone()))
            }
            Target::Open(job) => match self.state.jobs.get(job) {
                None => return Err(RequestError::NoJob(*job)),
                Some(state) if !state.is_open => return Err(RequestError::JobNotOpen(*job)),
                Some(state) if state.feed.is_some() => return Err(is_fed(*job)),
                Some(_) => (*job, None),
            },
        };
        if !submit.keys.is_empty() {
            let existing = self.existing(job, submit)?;
            if !existing.is_empty() {
                if existing.len() == submit.keys.len() {
                    let (ids, warnings) = (IdSet::new(), Vec::new());
                    return Ok(ClientResponse::Submitted { job, ids, existing, warnings });
                }
                let rest = super::readiness::without(submit, &existing)?;
                let (ids, warnings) = self.add_tasks(now, key, job, None, &rest, effects)?;
                return Ok(ClientResponse::Submitted { job, ids, existing, warnings });
            }
        }
        let (ids, warnings) = self.add_tasks(now, key, job, spec, submit, effects)?;
        Ok(ClientResponse::Submitted { job, ids, existing: Vec::new(), warnings })
    }

    // The answer of the first time to a request that is repeated.
    fn answer_again(&self, key: RequestKey, submits: &[Submit]) -> Option<ClientResponse> {
        let (job, ids) = self.state.answered.get(&key)?;
        let (mut all, mut place) = (Vec::new(), 0);
        for submit in submits {
            let existing = self.existing(*job, submit).unwrap_or_default();
            let existing = existing.into_iter().filter(|(_, task)| !ids.contains(*task));
            all.extend(existing.map(|(at, task)| (place + at, task)));
            place += count_of(&submit.ids);
        }
        let (job, ids) = (*job, ids.clone());
        Some(ClientResponse::Submitted { job, ids, existing: all, warnings: Vec::new() })
    }

    // Several submits into one open job, all or none: one record holds them.
    fn submit_all(
        &mut self,
        now: Timestamp,
        key: RequestKey,
        submits: &[Submit],
        effects: &mut Vec<Effect>,
    ) -> Answer {
        let count = submits.len();
        if count == 0 || count > SUBMITS_MAX {
            let text = format!("A request holds 1 to {SUBMITS_MAX} submits, and not {count}.");
            return Err(RequestError::Invalid(text));
        }
        if let Some(answer) = self.answer_again(key, submits) {
            return Ok(answer);
        }
        if self.is_stopping() {
            return Err(RequestError::Stopping);
        }
        let Target::Open(job) = submits[0].target else {
            return match submits {
                [submit] => self.submit(now, key, submit, effects),
                _ => Err(RequestError::Invalid("Several submits of one request go to an open job.".into())),
            };
        };
        if submits.iter().any(|submit| submit.target != Target::Open(job)) {
            return Err(RequestError::Invalid("Submits of one request go to one job.".into()));
        }
        match self.state.jobs.get(&job) {
            None => return Err(RequestError::NoJob(job)),
            Some(state) if !state.is_open && !self.are_there(job, submits)? => {
                return Err(RequestError::JobNotOpen(job));
            }
            Some(state) if state.feed.is_some() => return Err(is_fed(job)),
            Some(_) => {}
        }
        let (ids, existing) = self.add_all(now, key, job, submits, Vec::new(), effects)?;
        Ok(ClientResponse::Submitted { job, ids, existing, warnings: self.warnings_of(now, submits) })
    }

    /// True when all of the tasks have keys, and the job has them: to name them again changes nothing.
    pub(super) fn are_there(&self, job: JobId, submits: &[Submit]) -> Result<bool, RequestError> {
        for submit in submits {
            if submit.keys.is_empty() || self.existing(job, submit)?.len() < submit.keys.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the tasks of several submits to an open job, by one record, perhaps with others, and remembers them for the
    /// request with this key. Those that are new, and those with keys that were there.
    pub(super) fn add_all(
        &mut self,
        now: Timestamp,
        key: RequestKey,
        job: JobId,
        submits: &[Submit],
        beside: Vec<Record>,
        effects: &mut Vec<Effect>,
    ) -> Result<(IdSet, Vec<(u32, TaskId)>), RequestError> {
        let before = self.state.jobs[&job].submits.len();
        let prepared = self.prepare_all(now, job, submits);
        // What was tried is taken back: only a record changes the state.
        self.state.take_back_submits(job, before);
        let Block { mut records, ids, existing } = prepared?;
        if !records.is_empty() {
            if key != 0 {
                records.push(Record::Answered { key, job, ids: ids.clone() });
            }
            records.extend(beside);
            self.record(now, Record::Together { records }, effects);
            for submit in before..self.state.jobs[&job].submits.len() {
                self.begin_submit(TemplateId { job, submit: submit as u32 });
            }
        }
        Ok((ids, existing))
    }

    /// Things the user should know about accepted submits.
    pub(super) fn warnings_of(&self, now: Timestamp, submits: &[Submit]) -> Vec<String> {
        let mut warnings: Vec<String> = Vec::new();
        let of = |submit: &Submit| {
            over_already(now, &submit.spec).map_or_else(|| self.warnings(now, submit), |over| vec![over])
        };
        for warning in submits.iter().flat_map(of) {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        warnings
    }

    // Checks each of the submits as if those before it were there, and leaves them in the job.
    fn prepare_all(&mut self, now: Timestamp, job: JobId, submits: &[Submit]) -> Result<Block, RequestError> {
        let mut block = Block { records: Vec::new(), ids: IdSet::new(), existing: Vec::new() };
        let (mut place, mut bytes) = (0, 0);
        for submit in submits {
            check_spec(submit)?;
            let count = count_of(&submit.ids);
            let existing = match submit.keys.is_empty() {
                true => Vec::new(),
                false => self.existing(job, submit)?,
            };
            let is_known = !existing.is_empty() && existing.len() == submit.keys.len();
            let rest = match existing.is_empty() {
                true => None,
                false if is_known => None,
                false => Some(super::readiness::without(submit, &existing)?),
            };
            block.existing.extend(existing.into_iter().map(|(at, task)| (place + at, task)));
            place += count;
            if is_known {
                continue;
            }
            let (record, state) = self.prepare(now, 0, job, None, rest.as_ref().unwrap_or(submit), bytes)?;
            bytes += state.bytes();
            block.ids.union_with(&state.ids);
            block.records.push(record);
            self.state.try_submit(job, state);
        }
        Ok(block)
    }

    pub(super) fn add_tasks(
        &mut self,
        now: Timestamp,
        key: RequestKey,
        job: JobId,
        spec: Option<JobSpec>,
        submit: &Submit,
        effects: &mut Vec<Effect>,
    ) -> Result<(IdSet, Vec<String>), RequestError> {
        let (record, state) = self.prepare(now, key, job, spec, submit, 0)?;
        self.record(now, record, effects);
        let submits = self.state.jobs[&job].submits.len() as u32;
        self.begin_submit(TemplateId { job, submit: submits - 1 });
        Ok((state.ids, self.warnings_of(now, std::slice::from_ref(submit))))
    }

    // The tasks of a new submit wait for others, or are ready.
    pub(super) fn begin_submit(&mut self, template: TemplateId) {
        let job = template.job;
        let ids = &self.state.jobs[&job].submits[template.submit as usize].ids;
        let ready = match self.readiness.blocked(job) {
            Some(blocked) => ids.difference(blocked),
            None => ids.clone(),
        };
        self.make_ready(job, &ready);
    }

    // Checks new tasks for a job, beside so many bytes of others of the request, and says them as they are kept.
    pub(super) fn prepare(
        &self,
        now: Timestamp,
        key: RequestKey,
        job: JobId,
        spec: Option<JobSpec>,
        submit: &Submit,
        bytes_before: usize,
    ) -> Result<(Record, SubmitState), RequestError> {
        if let Some(state) = self.state.jobs.get(&job)
            && let Some(limit) = state.exceeded_max_fails()
        {
            return Err(RequestError::TooManyFailed { job, failed: state.failed.len(), limit });
        }
        let ids = self.new_ids(job, &submit.ids)?;
        if !submit.entries.is_empty() && submit.entries.len() as u64 != ids.len() {
            let entries = counted_are(submit.entries.len(), "entry", "was", "were");
            let tasks = counted(ids.len(), "task");
            return Err(RequestError::Invalid(format!("{entries} given for {tasks}.")));
        }
        if submit.spec.locality.is_some() && ids.len() > KEYED_TASKS_MAX {
            let count = ids.len();
            return Err(RequestError::Invalid(format!(
                "{count} tasks are too many for a submit with locality keys: split it into some of at most \
                 {KEYED_TASKS_MAX} tasks, or leave the keys out."
            )));
        }
        let task = super::objects::with_last(&submit.spec, self.state.last_of_users())?;
        let dependencies = if submit.dependencies.is_empty() && task.input_objects.is_empty() {
            submit.dependencies.clone()
        } else {
            let mut wanted = super::readiness::with_names_found(&self.state, job, &ids, submit)?;
            if !task.input_objects.is_empty() {
                wanted = self.with_objects(job, &ids, &task, &wanted)?.into();
            }
            self.dependencies_of(job, &ids, &wanted)?.into()
        };
        let state = SubmitState {
            ids,
            entries: submit.entries.clone(),
            entries_gone: IdSet::new(),
            keys: submit.keys.clone(),
            dependencies,
            task,
            submit_dir: submit.submit_dir.clone(),
            submitted: now,
        };
        let of_job = if spec.is_some() { JOB_BYTES } else { 0 };
        let (held, wanted) = (self.state.held_bytes() + bytes_before, state.bytes() + of_job);
        if held + wanted > SUBMITS_BYTES_MAX {
            return Err(RequestError::Full { held: held as u64, wanted: wanted as u64 });
        }
        let record = Record::Submitted {
            job,
            key,
            spec,
            ids: state.ids.clone(),
            entries: state.entries.clone(),
            entries_gone: Box::default(),
            keys: state.keys.clone(),
            dependencies: state.dependencies.clone(),
            task: state.task.clone(),
            submit_dir: state.submit_dir.clone(),
        };
        Ok((record, state))
    }

    fn new_ids(&self, id: JobId, wanted: &TaskIds) -> Result<IdSet, RequestError> {
        let job = self.state.jobs.get(&id);
        match wanted {
            TaskIds::Given(ids) => {
                if ids.is_empty() {
                    return Err(RequestError::Invalid("A submit needs at least one task.".into()));
                }
                let taken = job.and_then(|job| job.ids.intersection(ids).first());
                match taken {
                    Some(task) => Err(RequestError::TaskExists(id, task)),
                    None => Ok(ids.clone()),
                }
            }
            TaskIds::Next(count) => {
                let next = job.and_then(|job| job.ids.last()).map_or(0, |TaskId(last)| u64::from(last) + 1);
                let last = (next + u64::from(*count)).checked_sub(1).filter(|_| *count > 0);
                let Some(last) = last else {
                    return Err(RequestError::Invalid("A submit needs at least one task.".into()));
                };
                match u32::try_from(last) {
                    Ok(last) => Ok(IdSet::range(next as u32, last)),
                    Err(_) => Err(RequestError::Invalid(format!("Job {id} has no task ids left."))),
                }
            }
        }
    }

    // Things the user should know about an accepted submit.
    fn warnings(&self, now: Timestamp, submit: &Submit) -> Vec<String> {
        let requests = &submit.spec.requests;
        let too_long = self.too_long_told(now, submit);
        if self.some_worker_could_run(now, requests) {
            return too_long.into_iter().collect();
        }
        let fleet = self.fleet(now);
        if fleet.is_empty() {
            return misnamed(requests);
        }
        if fleet.could_run(requests) {
            return too_long.into_iter().collect();
        }
        vec![format!(
            "No worker could ever run these tasks, not even one that an allocation queue may start: {}. \
             They wait for one that can.",
            fleet.what_lacks(requests)
        )]
    }

    fn open_job(
        &mut self,
        now: Timestamp,
        key: RequestKey,
        spec: &JobSpec,
        effects: &mut Vec<Effect>,
    ) -> Answer {
        // One that is forgotten since then is no answer: whoever asks wants one that is there.
        if let Some((job, _)) = self.state.answered.get(&key)
            && self.state.jobs.contains_key(job)
        {
            return Ok(opened(*job));
        }
        check_name(spec)?;
        let held = self.state.held_bytes();
        if held + JOB_BYTES > SUBMITS_BYTES_MAX {
            return Err(RequestError::Full { held: held as u64, wanted: JOB_BYTES as u64 });
        }
        let job = JobId(self.state.last_job.0 + 1);
        self.record(now, Record::JobOpened { job, key, spec: spec.clone() }, effects);
        Ok(opened(job))
    }

    fn close_jobs(&mut self, now: Timestamp, jobs: &Selector, effects: &mut Vec<Effect>) -> Answer {
        let selected = self.select_jobs(jobs)?;
        let open: Vec<JobId> = selected.iter().copied().filter(|id| self.state.jobs[id].is_open).collect();
        for job in &open {
            self.close_feeding(now, *job, effects);
        }
        Ok(ClientResponse::Jobs(open))
    }

    /// Takes no more submits into a job.
    pub(super) fn close(&mut self, now: Timestamp, job: JobId, effects: &mut Vec<Effect>) {
        self.record(now, Record::JobClosed { job }, effects);
        self.when_closed(job);
    }

    /// What follows the record of that.
    pub(super) fn when_closed(&mut self, job: JobId) {
        self.note_closed(job);
        self.forget_if_over(job);
    }

    fn cancel(
        &mut self,
        now: Timestamp,
        jobs: &Selector,
        tasks: Option<&IdSet>,
        reason: Option<&str>,
        effects: &mut Vec<Effect>,
    ) -> Answer {
        if reason.is_some_and(|reason| reason.chars().count() > CANCEL_REASON_MAX) {
            let text = format!("A reason may have {CANCEL_REASON_MAX} characters at most.");
            return Err(RequestError::Invalid(text));
        }
        let mut selected = self.select_jobs(jobs)?;
        if tasks.is_none() {
            selected.extend(self.feeders_of(&selected));
        }
        let mut answer = Vec::with_capacity(selected.len());
        for id in selected {
            let (ids, ended) = self.cancel_one(now, id, tasks, reason, effects);
            // Nobody makes more of them.
            if tasks.is_none() && self.state.jobs[&id].is_open && self.state.jobs[&id].feed.is_some() {
                self.give_up_feeding(now, id, FedEnd::Canceled, effects);
            }
            answer.push((id, ids, ended));
        }
        Ok(ClientResponse::Canceled(answer))
    }

    /// Tasks that have not ended end now, as the record says; those that run are told to.
    pub(super) fn end_by(&mut self, now: Timestamp, record: Record, ids: &IdSet, effects: &mut Vec<Effect>) {
        let Some(id) = record.job() else { return };
        let attempts = self.running_attempts(now, id, ids);
        self.end_early(now, id, ids, effects);
        self.record(now, record, effects);
        // Allocations may have nothing left to come for.
        self.alloc.look();
        self.note_ended_early(now, id, attempts, effects);
    }

    /// Keeps where and when tasks ran that were canceled or given up.
    pub(super) fn note_ended_early(
        &mut self,
        now: Timestamp,
        job: JobId,
        attempts: Vec<Failure>,
        effects: &mut Vec<Effect>,
    ) {
        if !attempts.is_empty() {
            self.spend_on_ended(now, job, &attempts, effects);
            self.record(now, Record::EndedEarly { job, attempts }, effects);
        }
    }

    // What runs of some tasks, as it ends now.
    fn running_attempts(&self, now: Timestamp, id: JobId, ids: &IdSet) -> Vec<Failure> {
        let Some(job) = self.state.jobs.get(&id) else { return Vec::new() };
        let running = self.running.of_job(id);
        let here =
            ids.ranges().flat_map(|range| running.range(TaskId(*range.start())..=TaskId(*range.end())));
        let ended = here.map(|(task, run)| Failure {
            task: *task,
            instance: run.instance,
            worker: Some(run.worker),
            kind: FailureKind::EndedEarly,
            error: String::new(),
            started: Some(run.since),
            usage: Usage { wall_us: now.0.saturating_sub(run.since.0), ..Usage::default() },
            nodes: job.nodes.get(task).cloned().unwrap_or_default(),
            result: Vec::new(),
            variant: run.variant,
        });
        ended.collect()
    }

    /// Tasks that have not ended will end now without running on: tells the workers that hold them,
    /// and takes them out of the queue. The record that says what becomes of them follows.
    pub(super) fn end_early(&mut self, now: Timestamp, id: JobId, ids: &IdSet, effects: &mut Vec<Effect>) {
        self.note_seconds(now, id, ids, effects);
        self.make_unready(id, ids);
        self.end_running(id, ids);
        self.end_other_attempts(None, id, ids, effects);
        let leased = &self.state.jobs[&id].leased;
        for (worker, held) in leased {
            let ids = held.intersection(ids);
            let connection = self.live.get(worker).and_then(|worker| worker.connection);
            if let (false, Some(connection)) = (ids.is_empty(), connection) {
                let message = ToWorker::Cancel { job: id, ids, are_elsewhere: false };
                effects.push(Effect::ToWorker { connection, message, gate: Gate::Written });
            }
        }
    }

    fn forget_jobs(
        &mut self,
        now: Timestamp,
        jobs: &Selector,
        states: &[hq_model::JobState],
        effects: &mut Vec<Effect>,
    ) -> Answer {
        let mut selected = self.select_jobs(jobs)?;
        selected.retain(|id| {
            let job = &self.state.jobs[id];
            job.has_ended()
                && self.taker_of(*id).is_none()
                && (states.is_empty() || states.contains(&job.state(0)))
        });
        for job in &selected {
            self.forget_job(now, *job, effects);
        }
        Ok(ClientResponse::Jobs(selected))
    }

    fn stop_workers(
        &mut self,
        now: Timestamp,
        workers: &Selector,
        drain: bool,
        effects: &mut Vec<Effect>,
    ) -> Answer {
        let mut selected = self.select_workers(workers)?;
        if *workers == Selector::All {
            selected.retain(|id| self.live.get(id).is_some_and(|worker| worker.is_one_of_all(drain)));
        }
        // A new worker is told nothing before its id is saved. A server that is killed before that forgets the worker and
        // that it was stopped, and the worker goes on as another one: that must not be acknowledged. Nor can it be kept
        // that one was stopped which is away.
        let is_saved = |id: &WorkerId| {
            self.live.get(id).is_none_or(|worker| worker.is_welcomed && worker.connection.is_some())
        };
        if self.is_read_only() && !selected.iter().all(is_saved) {
            if *workers != Selector::All || !selected.iter().any(is_saved) {
                self.refuse_when_read_only()?;
            }
            selected.retain(is_saved);
        }
        // One that has lost its connection cannot be told: that it was stopped is kept, and it is told when it comes back.
        let is_away = |id: &WorkerId| self.live.get(id).is_some_and(|worker| worker.connection.is_none());
        let away: Vec<WorkerId> = selected.iter().copied().filter(is_away).collect();
        // It ends what runs: that cannot be taken back.
        let is_stopping = |id: &WorkerId| drain && self.live.get(id).is_some_and(LiveWorker::ends_tasks);
        let (stopping, changed): (Vec<_>, Vec<_>) = selected.iter().copied().partition(is_stopping);
        let (alone, alone_count) = self.begin_leaving(&changed, drain);
        for id in &changed {
            let Some(live) = self.live.get_mut(id) else { continue };
            let Some(connection) = live.connection else { continue };
            self.watching.touch();
            live.end = Some(WorkerEnd::Stopped);
            live.stop = Some(Stop { drain });
            let message = ToWorker::Stop { drain };
            // It passes whatever waits for the disk, but for the first word that a worker hears.
            let gate = if live.is_welcomed { Gate::Open } else { Gate::Synced };
            effects.push(Effect::ToWorker { connection, message, gate });
            self.end_feeders_on(*id, effects);
        }
        for id in &away {
            self.worker_ends(now, *id, WorkerEnd::Stopped, effects);
        }
        Ok(ClientResponse::WorkersStopped { workers: selected, away, stopping, alone, alone_count })
    }

    /// The jobs a selector means, ascending. A draft is meant by nothing but its number.
    pub(super) fn select_jobs(&self, jobs: &Selector) -> Result<Vec<JobId>, RequestError> {
        match jobs {
            Selector::All => {
                let whole = self.state.jobs.iter().filter(|(_, job)| !job.is_draft());
                Ok(whole.map(|(id, _)| *id).collect())
            }
            Selector::Last => self.state.last_of_users().map(|job| vec![job]).ok_or(RequestError::NoJobs),
            Selector::Ids(ids) => {
                let ids = ids.iter().map(|id| JobId(id.0));
                let known =
                    |id| self.state.jobs.contains_key(&id).then_some(id).ok_or(RequestError::NoJob(id));
                ids.map(known).collect()
            }
        }
    }

    /// The workers a selector means, ascending; ended ones too.
    pub(super) fn select_workers(&self, workers: &Selector) -> Result<Vec<WorkerId>, RequestError> {
        let all = &self.state.workers;
        match workers {
            Selector::All => Ok(all.keys().copied().collect()),
            Selector::Last => all.last_key_value().map(|w| vec![*w.0]).ok_or(RequestError::NoWorkers),
            Selector::Ids(ids) => {
                let ids = ids.iter().map(|id| WorkerId(id.0));
                let known = |id| all.contains_key(&id).then_some(id).ok_or(RequestError::NoWorker(id));
                ids.map(known).collect()
            }
        }
    }

    /// Drops what was kept to place tasks of a job that is over.
    pub(super) fn forget_if_over(&mut self, id: JobId) {
        if self.state.jobs.get(&id).is_none_or(|job| job.has_ended()) {
            let of_job = templates_of(id);
            self.speculation.forget(id);
            self.locality.forget(id);
            let over: Vec<_> = self.classes.range(of_job).map(|entry| *entry.0).collect();
            for template in over {
                // Workers may still hold canceled tasks; what those take is released by class.
                if !self.live.values().any(|worker| worker.held().contains_key(&template))
                    && let Some(class) = self.classes.remove(&template)
                {
                    self.queue.leave(class);
                }
            }
            self.live.values_mut().for_each(|worker| worker.forget(id));
        }
    }
}

// The submits of one request.
struct Block {
    records: Vec<Record>,
    ids: IdSet,
    existing: Vec<(u32, TaskId)>,
}

fn count_of(ids: &TaskIds) -> u32 {
    match ids {
        TaskIds::Given(ids) => ids.len() as u32,
        TaskIds::Next(count) => *count,
    }
}

/// All submits of a job.
pub(super) fn templates_of(job: JobId) -> std::ops::RangeInclusive<crate::worker_messages::TemplateId> {
    let template = |submit| crate::worker_messages::TemplateId { job, submit };
    template(0)..=template(u32::MAX)
}

pub(super) fn opened(job: JobId) -> ClientResponse {
    ClientResponse::Submitted { job, ids: IdSet::new(), existing: Vec::new(), warnings: Vec::new() }
}

pub(super) fn check_name(spec: &JobSpec) -> Result<(), RequestError> {
    if spec.name.contains(['\n', '\t']) {
        return Err(RequestError::Invalid("A job name may not contain a newline or a tab.".into()));
    }
    Ok(())
}

/// The state of a task for filters: `running` says whether it is reported as started.
pub(super) fn shown_state(state: TaskState, running: bool) -> TaskState {
    match state {
        TaskState::Waiting if running => TaskState::Running,
        state => state,
    }
}

// Resources that may go by another name, where no worker is there that could tell.
fn misnamed(requests: &[Request]) -> Vec<String> {
    let asked = requests.iter().flat_map(|request| &request.resources);
    let asked: BTreeMap<&str, AmountRequest> = asked.map(|one| (one.name.as_str(), one.amount)).collect();
    let warning = |(name, amount): (&str, AmountRequest)| {
        let meant = similar::hint(name, amount, [])?;
        Some(format!("Only workers that declare it have `{name}`: {meant}"))
    };
    asked.into_iter().filter_map(warning).collect()
}
