//! Ended tasks on the wire and in the journal: spans of finished ones with their measures, failures.

use hq_core::cause::{Aborted, FailureCause, JobFailures};
use hq_core::client_messages::{JobEnds, JobResults};
use hq_core::limits::RESULT_BYTES_MAX;
use hq_core::measures::Measures;
use hq_core::record::{Failure, FailureKind, FinishedSpan};
use hq_core::worker_messages::WorkerEnd;
use hq_model::{Instance, JobId, TaskId, Timestamp, Usage, WorkerId};

use crate::ProtoError;
use crate::error::{byte, count, present, rule};
use crate::generated::{self as form, failure_kind::Kind};
use crate::idset;
use crate::task::{entries_from_wire, entries_to_wire};
use crate::wire::{Wire, list_from_wire, required, wire_enum};

wire_enum!(
    WorkerEnd = WorkerEnd, "end of a worker":
    ConnectionLost, HeartbeatLost, Stopped, IdleTimeout, TimeLimit, Interrupted, LauncherLost
);

/// `time` as the message around it says it, relative to its own time `base`.
pub(crate) fn relative(time: Timestamp, base: Timestamp) -> i64 {
    time.0.wrapping_sub(base.0).cast_signed()
}

/// The time that `relative` to `base` means.
pub(crate) fn absolute(relative: i64, base: Timestamp) -> Timestamp {
    Timestamp(base.0.wrapping_add(relative.cast_unsigned()))
}

/// The form of a span in a message of time `base`.
pub(crate) fn span_to_wire(span: &FinishedSpan, base: Timestamp) -> form::FinishedSpan {
    form::FinishedSpan {
        job: span.job.0,
        instance: span.instance.0,
        ids: idset::to_wire(&span.ids),
        measures: span.measures.bytes().to_vec(),
        has_usage: span.measures.has_usage(),
        start_us: relative(span.measures.base(), base),
        results: entries_to_wire(&span.results),
        variant: span.variant,
    }
}

/// The span in a message of time `base`. A record of the journal may say in `total` what its tasks used together: what
/// was checked when it was written is guarded by a checksum, and not looked at again.
pub(crate) fn span_from_wire(
    span: form::FinishedSpan,
    base: Timestamp,
    total: Option<Usage>,
) -> Result<FinishedSpan, ProtoError> {
    let ids = idset::from_wire("ids of finished tasks", &span.ids)?;
    let damaged = ProtoError::Rule { field: "measures", rule: "must describe each finished task" };
    let count = u32::try_from(ids.len()).map_err(|_| damaged.clone())?;
    let start = absolute(span.start_us, base);
    let measures = match total {
        Some(total) => Measures::kept(count, span.has_usage, start, span.measures, total),
        None => Measures::parse(count, span.has_usage, start, span.measures).map_err(|_| damaged)?,
    };
    let results = entries_from_wire(span.results, ids.len())?;
    rule(
        "results",
        results.iter().all(|result| result.len() <= RESULT_BYTES_MAX),
        "must be at most 16 KiB each",
    )?;
    let (job, instance, variant) = (JobId(span.job), Instance(span.instance), span.variant);
    Ok(FinishedSpan { job, instance, ids, measures, results, variant })
}

impl Wire for Failure {
    type Form = form::Failure;

    fn to_wire(&self) -> form::Failure {
        form::Failure {
            task: self.task.0,
            instance: self.instance.0,
            worker: self.worker.map(|worker| worker.0),
            kind: Some(self.kind.to_wire()),
            error: self.error.clone(),
            started_us: self.started.map(|time| time.0),
            usage: Some(self.usage.to_wire()),
            nodes: self.nodes.iter().map(|worker| worker.0).collect(),
            result: self.result.clone(),
            variant: self.variant,
        }
    }

    fn from_wire(failure: form::Failure) -> Result<Failure, ProtoError> {
        let fits = failure.result.len() <= RESULT_BYTES_MAX;
        rule("result of a failed task", fits, "must not be larger than those of others")?;
        Ok(Failure {
            task: TaskId(failure.task),
            instance: Instance(failure.instance),
            worker: failure.worker.map(WorkerId),
            kind: required("kind of a failure", failure.kind)?,
            error: failure.error,
            started: failure.started_us.map(Timestamp),
            usage: failure.usage.map(Usage::from_wire).transpose()?.unwrap_or_default(),
            nodes: failure.nodes.into_iter().map(WorkerId).collect(),
            result: failure.result,
            variant: failure.variant,
        })
    }
}

impl Wire for FailureCause {
    type Form = form::FailureCause;

    fn to_wire(&self) -> form::FailureCause {
        form::FailureCause {
            kind: Some(self.kind.to_wire()),
            text: self.text.clone(),
            count: self.count,
            workers: self.workers.iter().map(|worker| worker.0).collect(),
            first: self.first.0,
            first_worker: self.first_worker.map(|worker| worker.0),
            first_error: self.first_error.clone(),
        }
    }

    fn from_wire(cause: form::FailureCause) -> Result<FailureCause, ProtoError> {
        Ok(FailureCause {
            kind: required("kind of a cause of failures", cause.kind)?,
            text: cause.text,
            count: cause.count,
            workers: cause.workers.into_iter().map(WorkerId).collect(),
            first: TaskId(cause.first),
            first_worker: cause.first_worker.map(WorkerId),
            first_error: cause.first_error,
        })
    }
}

impl Wire for JobFailures {
    type Form = form::JobFailures;

    fn to_wire(&self) -> form::JobFailures {
        form::JobFailures {
            job: self.job.0,
            tasks: self.tasks,
            failed: self.failed,
            causes: self.causes.iter().map(|(cause, _)| cause.to_wire()).collect(),
            instances: self.causes.iter().map(|(_, instance)| instance.0).collect(),
            aborted: self.aborted.as_ref().map(|aborted| form::WhyAborted {
                count: aborted.count,
                first: aborted.first.0,
                reason: aborted.reason.clone(),
            }),
            first_stderr: self.first_stderr.clone(),
            stopped: self.stopped.clone(),
        }
    }

    fn from_wire(failures: form::JobFailures) -> Result<JobFailures, ProtoError> {
        count("instances of failed tasks", failures.instances.len() as u64, failures.causes.len() as u64)?;
        let causes: Vec<FailureCause> = list_from_wire(failures.causes)?;
        let instances = failures.instances.into_iter().map(Instance);
        Ok(JobFailures {
            job: JobId(failures.job),
            tasks: failures.tasks,
            failed: failures.failed,
            causes: causes.into_iter().zip(instances).collect(),
            aborted: failures.aborted.map(|aborted| Aborted {
                count: aborted.count,
                first: TaskId(aborted.first),
                reason: aborted.reason,
            }),
            first_stderr: failures.first_stderr,
            stopped: failures.stopped,
        })
    }
}

impl Wire for JobResults {
    type Form = form::JobResults;

    fn to_wire(&self) -> form::JobResults {
        form::JobResults {
            job: self.job.0,
            ids: idset::to_wire(&self.ids),
            results: entries_to_wire(&self.results),
            texts: idset::to_wire(&self.texts),
            failed: idset::to_wire(&self.failed),
            dropped: idset::to_wire(&self.dropped),
            without: idset::to_wire(&self.without),
        }
    }

    fn from_wire(results: form::JobResults) -> Result<JobResults, ProtoError> {
        let ids = idset::from_wire("ids of tasks with results", &results.ids)?;
        let entries = entries_from_wire(results.results, ids.len())?;
        count("results", ids.len(), entries.len() as u64)?;
        Ok(JobResults {
            job: JobId(results.job),
            ids,
            results: entries,
            texts: idset::from_wire("ids of tasks whose results are texts", &results.texts)?,
            failed: idset::from_wire("ids of failed functions", &results.failed)?,
            dropped: idset::from_wire("ids of tasks whose results are dropped", &results.dropped)?,
            without: idset::from_wire("ids of tasks without results", &results.without)?,
        })
    }
}

impl Wire for JobEnds {
    type Form = form::JobEnds;

    fn to_wire(&self) -> form::JobEnds {
        let failed = self.failed.iter().map(|(task, kind, error)| form::EndedTask {
            task: task.0,
            kind: Some(kind.to_wire()),
            error: error.clone(),
        });
        let aborted = self.aborted.iter();
        let aborted = aborted
            .map(|(ids, reason)| form::AbortedTasks { ids: idset::to_wire(ids), reason: reason.clone() });
        form::JobEnds {
            job: self.job.0,
            finished: idset::to_wire(&self.finished),
            canceled: idset::to_wire(&self.canceled),
            failed: failed.collect(),
            aborted: aborted.collect(),
            ids: idset::to_wire(&self.ids),
            results: entries_to_wire(&self.results),
            is_over: self.is_over,
        }
    }

    fn from_wire(ends: form::JobEnds) -> Result<JobEnds, ProtoError> {
        let ids = idset::from_wire("ids of tasks with results", &ends.ids)?;
        let results = entries_from_wire(ends.results, ids.len())?;
        count("results", ids.len(), results.len() as u64)?;
        let failed = ends.failed.into_iter().map(|failed| {
            let kind = required("kind of a failure", failed.kind)?;
            Ok((TaskId(failed.task), kind, failed.error))
        });
        let aborted = ends.aborted.into_iter().map(|aborted| {
            Ok((idset::some_from_wire("ids of aborted tasks", &aborted.ids)?, aborted.reason))
        });
        Ok(JobEnds {
            job: JobId(ends.job),
            finished: idset::from_wire("ids of finished tasks", &ends.finished)?,
            canceled: idset::from_wire("ids of canceled tasks", &ends.canceled)?,
            failed: failed.collect::<Result<_, ProtoError>>()?,
            aborted: aborted.collect::<Result<_, ProtoError>>()?,
            ids,
            results,
            is_over: ends.is_over,
        })
    }
}

impl Wire for FailureKind {
    type Form = form::FailureKind;

    fn to_wire(&self) -> form::FailureKind {
        let kind = match *self {
            FailureKind::Exit(code) => Kind::Exit(u32::from(code)),
            FailureKind::Puller => Kind::Exit(1),
            FailureKind::Signal(signal) => Kind::Signal(u32::from(signal)),
            FailureKind::Timeout => Kind::Timeout(form::Nothing {}),
            FailureKind::Start => Kind::Start(form::Nothing {}),
            FailureKind::Crashes => Kind::Crashes(form::Nothing {}),
            FailureKind::Output => Kind::Output(form::Nothing {}),
            FailureKind::Lost => Kind::Lost(form::Nothing {}),
            FailureKind::EndedEarly => Kind::EndedEarly(form::Nothing {}),
        };
        form::FailureKind { kind: Some(kind), by_puller: *self == FailureKind::Puller }
    }

    fn from_wire(kind: form::FailureKind) -> Result<FailureKind, ProtoError> {
        Ok(match present("kind of a failure", kind.kind)? {
            Kind::Exit(1) if kind.by_puller => FailureKind::Puller,
            Kind::Exit(code) => FailureKind::Exit(byte("exit code", code)?),
            Kind::Signal(signal) => FailureKind::Signal(byte("signal", signal)?),
            Kind::Timeout(_) => FailureKind::Timeout,
            Kind::Start(_) => FailureKind::Start,
            Kind::Crashes(_) => FailureKind::Crashes,
            Kind::Output(_) => FailureKind::Output,
            Kind::Lost(_) => FailureKind::Lost,
            Kind::EndedEarly(_) => FailureKind::EndedEarly,
        })
    }
}
