//! The journal as events: one JSON object a line, with the names that readers of such streams know.
//!
//! A record may be several events: tasks that finished together are one record and two events each.

use std::io::{self, BufWriter, Stdout, Write};

use hq_core::attempt::PastAttempt;
use hq_core::client_messages::{EventKind, JobSummary};
use hq_core::object_messages::{ObjectChange, ObjectEnd};
use hq_core::record::{BudgetChange, Failure, FinishedSpan, JobProgress, NoticeChange, Record, RestartCause};
use hq_core::server::state::State;
use hq_core::worker_messages::WorkerEnd;
use hq_model::allocation::in_hours;
use hq_model::{IdSet, Instance, JobId, JobSpec, ObjectId, TaskId, Timestamp, WorkerId};
use serde_json::{Value, json};

use super::json::{self, bytes};
use super::results::base64_of;
use super::{StandardOutput, sample};
use crate::error::HqError;

/// The JSON Schema of events.
pub(crate) const EVENT_SCHEMA: &str = include_str!("../../../../docs/reference/events.schema.json");

/// Tasks that an event names at most; more are several events.
const TASKS_IN_EVENT: usize = 10_000;
/// Events that name the tasks that ended together; of further ones there is one that has their ids alone.
const EVENTS_NAMING_TASKS: usize = 100;

/// Prints events. It keeps what jobs there are, to say when one is complete.
pub(crate) struct Events<W: Write> {
    out: W,
    state: State,
    // Only these; all when empty.
    kinds: Vec<EventKind>,
}

impl Events<BufWriter<StandardOutput<Stdout>>> {
    /// Prints to standard output, which may be read while more comes.
    pub(crate) fn to_stdout() -> Self {
        Events::new(BufWriter::with_capacity(64 * 1024, StandardOutput(io::stdout())))
    }
}

impl<W: Write> Events<W> {
    /// What they are printed to.
    pub(crate) fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Prints to `out`.
    pub(crate) fn new(out: W) -> Self {
        Events { out, state: State::default(), kinds: Vec::new() }
    }

    /// From now on only events of these kinds are printed; all when there are none.
    pub(crate) fn only(&mut self, kinds: Vec<EventKind>) {
        self.kinds = kinds;
    }

    /// Has everything printed reach its reader.
    pub(crate) fn flush(&mut self) -> Result<(), HqError> {
        Ok(self.out.flush()?)
    }

    /// Begins with how a job is, as events of a journal from its beginning would have left it: what comes after that is
    /// printed as if these had been.
    pub(crate) fn begin_with(
        &mut self,
        at: Timestamp,
        summary: &JobSummary,
        ids: IdSet,
        progress: JobProgress,
    ) -> Result<(), HqError> {
        let job = summary.job;
        let made = Record::Submitted {
            job,
            key: 0,
            spec: Some(JobSpec { name: summary.name.clone(), ..JobSpec::default() }),
            ids,
            entries: Default::default(),
            entries_gone: Default::default(),
            keys: Default::default(),
            dependencies: Default::default(),
            task: Default::default(),
            submit_dir: Vec::new(),
        };
        self.state.apply(at, &made);
        self.print(at, &Record::JobKept { job, progress: Box::new(progress) })
    }

    /// Knows a record without printing it.
    pub(crate) fn recall(&mut self, at: Timestamp, record: &Record) {
        self.state.apply(at, record);
    }

    /// Prints a record.
    pub(crate) fn print(&mut self, at: Timestamp, record: &Record) -> Result<(), HqError> {
        let job = job_of(record);
        let was_complete = job.is_none_or(|job| self.is_complete(job));
        self.state.apply(at, record);
        self.events(at, record)?;
        if let Some(job) = job.filter(|job| !was_complete && self.is_complete(*job)) {
            self.line(at, "job-completed", json!({ "job": job.0 }))?;
        }
        Ok(())
    }

    fn notice(
        &mut self,
        at: Timestamp,
        (job, rule): (JobId, u32),
        change: &NoticeChange,
    ) -> Result<(), HqError> {
        let about = |more: Value| {
            let mut event = json!({ "job": job.0, "rule": rule });
            if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
                event.extend(more);
            }
            event
        };
        match change {
            NoticeChange::Due(notice) => {
                let (reason, target) = (notice.event.moment().word(), notice.target.shown());
                self.line(at, "job-notice-due", about(json!({ "reason": reason, "target": target })))
            }
            NoticeChange::Sent => self.line(at, "job-notice-sent", about(json!({}))),
            NoticeChange::GivenUp(error) => {
                self.line(at, "job-notice-failed", about(json!({ "error": error })))
            }
        }
    }

    fn is_complete(&self, job: JobId) -> bool {
        self.state.jobs.get(&job).is_some_and(|job| job.has_ended() && !job.ids.is_empty())
    }

    fn line(&mut self, at: Timestamp, kind: &str, mut event: Value) -> Result<(), HqError> {
        if !self.kinds.is_empty() && !self.kinds.contains(&kind_of(kind)) {
            return Ok(());
        }
        if let Value::Object(event) = &mut event {
            event.insert("type".to_owned(), kind.into());
        }
        serde_json::to_writer(&mut self.out, &json!({ "time": json::time(at), "event": event }))
            .map_err(io::Error::from)?;
        Ok(self.out.write_all(b"\n")?)
    }

    // Tasks that ended without a result, each by its ids: so many in an event.
    fn ended_together(
        &mut self,
        at: Timestamp,
        kind: &'static str,
        job: JobId,
        ids: &IdSet,
        with: impl Fn(&mut Value),
    ) -> Result<(), HqError> {
        let mut rest = ids.clone();
        for _ in 0..EVENTS_NAMING_TASKS {
            let part: IdSet = rest.iter().take(TASKS_IN_EVENT).collect();
            if part.is_empty() {
                break;
            }
            let tasks = part.iter().map(|task| json!({ "job_id": job.0, "job_task_id": task.0 }));
            let mut event =
                json!({ "job": job.0, "ids": part.to_string(), "tasks": tasks.collect::<Vec<_>>() });
            with(&mut event);
            self.line(at, kind, event)?;
            rest.subtract(&part);
        }
        if rest.is_empty() {
            return Ok(());
        }
        let mut event = json!({ "job": job.0, "ids": rest.to_string() });
        with(&mut event);
        self.line(at, kind, event)
    }

    fn events(&mut self, at: Timestamp, record: &Record) -> Result<(), HqError> {
        // But for these, which may be events of jobs, too.
        let is_of_tasks = EventKind::of(record) == EventKind::Task
            && !matches!(record, Record::Together { .. } | Record::Canceled { .. });
        if is_of_tasks && !self.kinds.is_empty() && !self.kinds.contains(&EventKind::Task) {
            return Ok(());
        }
        match record {
            Record::ServerStarted { epoch, uid, release } => {
                let event = json!({ "server_uid": uid, "starts": epoch.0, "version": release });
                self.line(at, "server-start", event)
            }
            Record::WorkerJoined { worker, config, .. } => {
                let configuration = json!({
                    "hostname": config.hostname,
                    "group": config.group,
                    "work_dir": config.work_dir,
                    "listen_address": config.listen_address,
                    "resources": json::resources(&config.resources),
                    "heartbeat_interval": json::seconds(config.heartbeat),
                    "idle_timeout": json::optional_seconds(config.idle_timeout),
                    "time_limit": json::optional_seconds(config.time_limit),
                    "on_server_lost": config.on_server_lost.to_string(),
                    "min_utilization": f64::from(config.min_utilization) / 10_000.0,
                    "overview_configuration": { "interval": json::optional_seconds(config.overview_interval) },
                });
                self.line(at, "worker-connected", json!({ "id": worker.0, "configuration": configuration }))
            }
            Record::WorkerSampled { worker, sample: seen } => {
                let state = sample::state(at, seen);
                self.line(at, "worker-overview", json!({ "id": worker.0, "hw-state": { "state": state } }))
            }
            Record::WorkerEnded { worker, end, .. } => {
                self.line(at, "worker-lost", json!({ "id": worker.0, "reason": reason(*end) }))
            }
            Record::WorkerForgotten { worker } => {
                self.line(at, "worker-forgotten", json!({ "id": worker.0 }))
            }
            Record::JobOpened { job, spec, .. } => {
                self.line(at, "job-open", json!({
                    "job": job.0, "job_id": job.0, "name": spec.name, "max_fails": spec.max_fails, "job_desc": job_desc(spec),
                }))
            }
            Record::Submitted { job, ids, task, submit_dir, .. } => {
                let known = self.state.jobs.get(job);
                let event = json!({
                    "job": job.0,
                    "closed_job": known.is_some_and(|job| !job.is_open),
                    "job_desc": known.map(|job| job_desc(&job.spec)),
                    "submit_desc": {
                        "ids": ids.to_string(),
                        "task_desc": json::task_desc(task, at),
                        "submit_dir": bytes(submit_dir),
                        "stream_path": task.stream.as_ref().map(|stream| bytes(stream.path())),
                    },
                });
                self.line(at, "job-created", event)
            }
            Record::Budget { job, change } => {
                let change = match change {
                    BudgetChange::Set(budget) => json!({ "job": job.0, "node_hours": budget.map(in_hours) }),
                    BudgetChange::Spent(time) => json!({ "job": job.0, "used_node_hours": in_hours(*time) }),
                };
                self.line(at, "job-budget", change)
            }
            Record::JobClosed { job } => self.line(at, "job-close", json!({ "job": job.0, "job_id": job.0 })),
            Record::JobLeft { job, linger } => {
                let reason = format!("it had no unfinished tasks, and no client was connected for {}", hq_model::duration::format(*linger));
                self.line(at, "job-close", json!({ "job": job.0, "job_id": job.0, "reason": reason }))
            }
            Record::JobForgotten { job } => self.line(at, "job-forgotten", json!({ "job": job.0 })),
            Record::Leased { worker, job, ids } => self.line(
                at,
                "task-assigned",
                json!({ "job": job.0, "tasks": tasks(ids), "worker": worker.0 }),
            ),
            Record::LeasedNodes { job, task, workers } => {
                let workers: Vec<u32> = workers.iter().map(|worker| worker.0).collect();
                let one = hq_model::IdSet::single(*task);
                let value =
                    json!({ "job": job.0, "tasks": tasks(&one), "worker": workers[0], "workers": workers });
                self.line(at, "task-assigned", value)
            }
            Record::Returned { worker, job, ids } => self.line(
                at,
                "task-returned",
                json!({ "job": job.0, "tasks": tasks(ids), "worker": worker.0 }),
            ),
            Record::Restarted { job, ids, instance, cause } => {
                let cause = match cause {
                    RestartCause::Crash => "crash",
                    RestartCause::Left => "worker-left",
                    RestartCause::TimeOver { .. } => "worker-time-over",
                    RestartCause::Retry { .. } => "retry",
                    RestartCause::Unfetched { .. } => "object-unfetched",
                };
                let event =
                    json!({ "job": job.0, "tasks": tasks(ids), "instance": instance.0, "cause": cause });
                self.line(at, "task-restarted", event)
            }
            Record::Deferred { job, task, instance, after, .. } => {
                let after: Vec<String> = after.iter().map(ToString::to_string).collect();
                let event = json!({ "job": job.0, "task": task.0, "instance": instance.0, "after": after });
                self.line(at, "task-deferred", event)
            }
            Record::FilesFound { job, files } => {
                let files: Vec<Value> = files.iter().map(|file| bytes(file)).collect();
                self.line(at, "files-found", json!({ "job": job.0, "files": files }))
            }
            Record::ServiceReady { job, task, text } => {
                self.line(at, "service-ready", json!({ "job": job.0, "task": task.0, "text": bytes(text) }))
            }
            Record::Speculated { worker, job, task, instance } => {
                let event = json!({
                    "job": job.0,
                    "task": task.0,
                    "instance": instance.0,
                    "worker": worker.0,
                });
                self.line(at, "task-speculated", event)
            }
            Record::AttemptDropped { job, task, instance } => {
                let event = json!({ "job": job.0, "task": task.0, "instance": instance.0 });
                self.line(at, "attempt-dropped", event)
            }
            Record::Finished { worker, span } | Record::DetailKept { worker, span, .. } => {
                self.finished(*worker, span)
            }
            Record::Failed { job, failure } | Record::FailureKept { job, failure } => {
                self.failed(at, *job, failure)
            }
            Record::Canceled { job, ids, reason, end_by } => {
                self.ended_together(at, "task-canceled", *job, ids, |event| {
                    if let Some(end) = end_by {
                        event["cause"] = "end-by".into();
                        event["end_by"] = end.to_string().into();
                    }
                })?;
                match reason {
                    Some(reason) => self.line(at, "job-cancel", json!({ "job": job.0, "job_id": job.0, "reason": reason })),
                    None => Ok(()),
                }
            }
            Record::Aborted { job, ids, reason } => {
                self.ended_together(at, "task-aborted", *job, ids, |event| {
                    event["reason"] = reason.as_str().into();
                })
            }
            Record::EndedEarly { job, attempts } => {
                attempts.iter().try_for_each(|attempt| self.started(*job, attempt))
            }
            Record::JobKept { job, progress } => {
                let mut event = kept(*job, progress);
                if let Some(job) = self.state.jobs.get(job) {
                    event["name"] = job.spec.name.clone().into();
                    event["tasks"] = tasks(&job.ids).into();
                }
                self.line(at, "job-progress", event)
            }
            Record::Alloc(record) => match super::alloc_events::event(record) {
                Some((kind, event)) => self.line(at, kind, event),
                None => Ok(()),
            },
            Record::Objects(change) => self.objects(at, change),
            Record::Notice { job, rule, change } => self.notice(at, (*job, *rule), change),
            Record::Together { records } => records.iter().try_for_each(|record| self.events(at, record)),
            Record::AttemptsEnded { job, attempts } => {
                attempts.iter().try_for_each(|attempt| self.attempt_ended(*job, attempt))
            }
            Record::IdsGiven { .. }
            | Record::EntriesDropped { .. }
            | Record::TimeSkipped { .. }
            | Record::LoadKept { .. }
            | Record::ResultsKept { .. }
            | Record::Feed { .. }
            | Record::Answered { .. } => Ok(()),
        }
    }

    fn objects(&mut self, at: Timestamp, change: &ObjectChange) -> Result<(), HqError> {
        let named = |object: &ObjectId| json!({ "job": object.task.job.0, "task": object.task.task.0, "object": object.name.as_str() });
        match change {
            ObjectChange::Stored(copies) => copies.iter().try_for_each(|copy| {
                let mut event = named(&copy.object);
                event["instance"] = copy.instance.0.into();
                event["size"] = copy.size.into();
                event["checksum"] = format!("{:016x}", copy.checksum).into();
                self.line(at, "object-stored", event)
            }),
            ObjectChange::Kept(objects) => {
                objects.iter().try_for_each(|object| self.line(at, "object-kept", named(object)))
            }
            ObjectChange::Released(objects) => {
                objects.iter().try_for_each(|object| self.line(at, "object-released", named(object)))
            }
            ObjectChange::Gone { objects, why } => objects.iter().try_for_each(|object| match why {
                ObjectEnd::Dropped => self.line(at, "object-dropped", named(object)),
                ObjectEnd::Lost(why) => {
                    let mut event = named(object);
                    event["reason"] = why.as_str().into();
                    self.line(at, "object-lost", event)
                }
            }),
        }
    }

    fn finished(&mut self, worker: WorkerId, span: &FinishedSpan) -> Result<(), HqError> {
        let job = span.job;
        for (place, (task, (started, usage))) in span.ids.iter().zip(span.measures.iter()).enumerate() {
            let event = started_event(job, task, span.instance, worker, span.variant);
            self.line(started, "task-started", event)?;
            let ended = Timestamp(started.0.saturating_add(usage.wall_us));
            let mut event = json!({ "job": job.0, "task": task.0 });
            // What a function returned; Python says NaN where JSON has no word for it.
            if let Some(result) = span.results.get(place).filter(|result| !result.is_empty()) {
                let text = || String::from_utf8_lossy(result).into();
                let said = Some(result).filter(|_| !self.is_text(job, task)).map(serde_json::from_slice);
                event["result"] = said.and_then(Result::ok).unwrap_or_else(text);
                if let Some(bytes) = base64_of(result, self.is_text(job, task)) {
                    event["result_base64"] = bytes.into();
                }
            }
            self.line(ended, "task-finished", event)?;
        }
        Ok(())
    }

    // What programs leave, and those who take pulled tasks; of a function it is JSON.
    fn is_text(&self, job: JobId, task: TaskId) -> bool {
        let job = self.state.jobs.get(&job);
        let submit = job.and_then(|job| job.submits.get(job.submit_of(task)? as usize));
        submit.is_some_and(|submit| submit.task.body.function().is_none())
    }

    fn failed(&mut self, at: Timestamp, job: JobId, failure: &Failure) -> Result<(), HqError> {
        self.started(job, failure)?;
        let event = json!({ "job": job.0, "task": failure.task.0, "error": failure.error });
        self.line(failure.ended(at), "task-failed", event)
    }

    // One that did not end its task, which runs again or has ended by another one.
    fn attempt_ended(&mut self, job: JobId, attempt: &PastAttempt) -> Result<(), HqError> {
        let mut event = json!({
            "job": job.0,
            "task": attempt.task.0,
            "instance": attempt.instance.0,
            "worker": attempt.worker.map(|worker| worker.0),
            "started_at": attempt.started.map(json::time),
            "end": attempt.end.word(),
        });
        if !attempt.error.is_empty() {
            event["error"] = attempt.error.as_str().into();
        }
        self.line(attempt.ended, "attempt-ended", event)
    }

    fn started(&mut self, job: JobId, attempt: &Failure) -> Result<(), HqError> {
        let (Some(started), Some(worker)) = (attempt.started, attempt.worker) else { return Ok(()) };
        let event = started_event(job, attempt.task, attempt.instance, worker, attempt.variant);
        self.line(started, "task-started", event)
    }
}

// What is said of a start.
fn started_event(
    job: JobId,
    task: TaskId,
    instance: Instance,
    worker: WorkerId,
    variant: Option<u32>,
) -> Value {
    let mut event = json!({ "job": job.0, "task": task.0, "instance": instance.0, "worker": worker.0 });
    // A key only where there are several.
    if let Some(variant) = variant {
        event["variant"] = variant.into();
    }
    event
}

// What an event is about, by the first word of its type.
fn kind_of(event: &str) -> EventKind {
    match event.split('-').next().unwrap_or_default() {
        "server" => EventKind::Server,
        "job" => EventKind::Job,
        "worker" => EventKind::Worker,
        "autoalloc" => EventKind::Allocation,
        _ => EventKind::Task,
    }
}

fn job_of(record: &Record) -> Option<JobId> {
    match record {
        Record::JobClosed { job }
        | Record::JobLeft { job, .. }
        | Record::Failed { job, .. }
        | Record::Canceled { job, .. }
        | Record::Aborted { job, .. }
        | Record::JobKept { job, .. } => Some(*job),
        Record::Finished { span, .. } => Some(span.job),
        _ => None,
    }
}

fn job_desc(spec: &JobSpec) -> Value {
    json!({ "name": spec.name, "max_fails": spec.max_fails })
}

fn kept(job: JobId, progress: &JobProgress) -> Value {
    json!({
        "job": job.0,
        "is_open": progress.is_open,
        "finished": tasks(&progress.finished),
        "failed": tasks(&progress.failed),
        "canceled": tasks(&progress.canceled),
        "aborted": progress.abort_reasons.iter().map(|(ids, _)| tasks(ids)).collect::<Vec<_>>(),
        "cancel_reason": progress.cancel_reason,
    })
}

fn tasks(ids: &IdSet) -> String {
    ids.to_string()
}

fn reason(end: WorkerEnd) -> &'static str {
    match end {
        WorkerEnd::ConnectionLost => "ConnectionLost",
        WorkerEnd::HeartbeatLost => "HeartbeatLost",
        WorkerEnd::Stopped => "Stopped",
        WorkerEnd::IdleTimeout => "IdleTimeout",
        WorkerEnd::TimeLimit => "TimeLimitReached",
        WorkerEnd::Interrupted => "Interrupted",
        WorkerEnd::LauncherLost => "LauncherLost",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hq_core::measures::MeasuresWriter;
    use hq_core::record::FinishedSpan;
    use hq_model::{Body, Entries, Epoch, Instance, TaskSpec, Usage};

    use super::*;

    // All types of events: words in quotation marks after a time, or in pairs.
    fn types() -> BTreeSet<&'static str> {
        let sources = [include_str!("events.rs"), include_str!("alloc_events.rs")];
        let words = sources.into_iter().flat_map(|source| source.split('"').skip(1).step_by(2));
        let begins = [
            "server-",
            "worker-",
            "job-",
            "task-",
            "autoalloc-",
            "attempt-",
            "files-",
            "service-",
            "object-",
        ];
        let is_type = |word: &&str| {
            begins.iter().any(|begin| word.len() > begin.len() && word.starts_with(begin))
                && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        };
        words.filter(is_type).collect()
    }

    #[test]
    fn the_reference_has_every_type_of_event() {
        let page = include_str!("../../../../docs/reference/events.md");
        let types = types();
        assert!(types.len() > 25, "{types:?}");
        let missing: Vec<_> = types.iter().filter(|word| !page.contains(&format!("`{word}`"))).collect();
        assert_eq!(missing, Vec::<&&str>::new());
        let schema: Value = serde_json::from_str(EVENT_SCHEMA).expect("JSON");
        let list = |value: &'_ Value| value.as_array().cloned().expect("a list");
        let word = |value: &Value| value.as_str().expect("a word").to_owned();
        let described = list(&schema["properties"]["event"]["allOf"]);
        let described: BTreeSet<String> =
            described.iter().map(|one| word(&one["if"]["properties"]["type"]["const"])).collect();
        // Why tasks run again is told in such words, too.
        let causes = list(&schema["$defs"]["task-restarted"]["properties"]["cause"]["enum"]);
        let causes: BTreeSet<String> = causes.iter().map(word).collect();
        let types: BTreeSet<String> = types.into_iter().map(str::to_owned).collect();
        assert_eq!(types.difference(&causes).collect::<Vec<_>>(), described.iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_job_that_was_there_before_is_complete_when_its_last_task_ends() {
        let at = Timestamp(1_780_000_000_000_000);
        let mut events = Events::new(Vec::new());
        events.only(vec![EventKind::Job]);
        let counters = hq_model::job::Counters { waiting: 1, finished: 2, ..Default::default() };
        let summary = JobSummary {
            job: JobId(7),
            name: "score".into(),
            is_open: false,
            counters,
            cancel_reason: None,
            unrunnable: 0,
            fed_end: Default::default(),
            stalled: None,
        };
        let progress = JobProgress { finished: IdSet::range(1, 2), ..JobProgress::default() };
        events.begin_with(at, &summary, IdSet::range(1, 3), progress).expect("memory");
        // What the beginning knew already comes once more, and then the last one.
        for ids in [IdSet::range(1, 2), IdSet::range(3, 3)] {
            let record = Record::Canceled { job: JobId(7), ids, reason: None, end_by: None };
            events.print(at, &record).expect("memory");
        }
        let text = String::from_utf8(events.out).expect("JSON is text");
        let types: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let words: Vec<_> = types.iter().map(|line| line["event"]["type"].clone()).collect();
        assert_eq!(words, ["job-progress", "job-completed"]);
        assert_eq!(
            (&types[0]["event"]["tasks"], &types[0]["event"]["finished"]),
            (&"1-3".into(), &"1-2".into())
        );
    }

    #[test]
    fn of_more_than_a_million_canceled_tasks_the_last_event_has_ids_alone() {
        let mut events = Events::new(Vec::new());
        let ids = IdSet::range(0, u32::MAX);
        let record = Record::Canceled { job: JobId(7), ids, reason: None, end_by: None };
        events.print(Timestamp(1), &record).expect("memory");
        let text = String::from_utf8(events.out).expect("JSON is text");
        assert_eq!(text.lines().count(), EVENTS_NAMING_TASKS + 1);
        let last: Value = serde_json::from_str(text.lines().last().expect("an event")).expect("JSON");
        assert_eq!(last["event"]["ids"], "1000000-4294967295");
        assert_eq!(last["event"].get("tasks"), None);
    }

    #[test]
    fn a_job_from_its_submit_to_its_end() {
        let at = Timestamp(1_780_000_000_000_000);
        let mut measures = MeasuresWriter::new(false);
        for start in [1_000_000, 2_000_000] {
            measures.push(
                at.after(std::time::Duration::from_micros(start)),
                &Usage { wall_us: 500_000, ..Usage::default() },
            );
        }
        let records = [
            Record::ServerStarted { epoch: Epoch(1), uid: "abc123".into(), release: "0.1.0".into() },
            Record::Submitted {
                job: JobId(1),
                key: 5,
                spec: Some(JobSpec { name: "score".into(), ..JobSpec::default() }),
                ids: IdSet::range(1, 2),
                entries: Entries::default(),
                entries_gone: Default::default(),
                keys: Entries::default(),
                dependencies: Default::default(),
                task: TaskSpec { body: Body::program(["./score"]), ..TaskSpec::default() }.into(),
                submit_dir: b"/home".to_vec(),
            },
            Record::Leased { worker: WorkerId(3), job: JobId(1), ids: IdSet::range(1, 2) },
            Record::Finished {
                worker: WorkerId(3),
                span: FinishedSpan {
                    job: JobId(1),
                    instance: Instance(0),
                    ids: IdSet::range(1, 2),
                    measures: measures.finish(),
                    results: Entries::new([&b"[1.5]"[..], b""]).expect("little"),
                    variant: Some(1),
                },
            },
            Record::WorkerSampled {
                worker: WorkerId(3),
                sample: Box::new(super::super::sample::tests::busy_node()),
            },
            Record::WorkerEnded { worker: WorkerId(3), end: WorkerEnd::Stopped, is_away: false },
            Record::JobForgotten { job: JobId(1) },
        ];
        let mut events = Events::new(Vec::new());
        for record in &records {
            events.print(at, record).expect("memory");
        }
        insta::assert_snapshot!(String::from_utf8(events.out).expect("JSON is text"));
    }
}
