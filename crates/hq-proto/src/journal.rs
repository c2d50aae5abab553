//! Records of the journal.
//!
//! The frequent ones (handed out, finished) take a few bytes whatever the number of tasks; times
//! inside are relative to the record's own.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use hq_core::record::{
    BudgetChange, FinishedSpan, JobProgress, Outlasted, Record, RestartCause, SecondAttempt,
};
use hq_core::worker_messages::WorkerEnd;
use hq_model::dependency::After;
use hq_model::worker::WorkerConfig;
use hq_model::{Epoch, Instance, JobId, JobSpec, NodeSample, TaskId, TaskSpec, Timestamp, Usage, WorkerId};
use prost::Message;

use crate::ProtoError;
use crate::dependency::{dependencies_from_wire, dependencies_to_wire};
use crate::ended::{absolute, relative, span_from_wire, span_to_wire};
use crate::error::{count, present, rule};
use crate::feed::{change_from_wire, change_to_wire};
use crate::generated::{self as form, record::Kind, restarted::Cause};
use crate::idset;
use crate::job::{key_from_wire, key_to_wire};
use crate::notice::{record_from_wire, record_to_wire, told_from_wire};
use crate::task::{entries_from_wire, entries_to_wire};
use crate::wire::{Wire, decode, list_from_wire, list_to_wire, name, nanos, required, unknown_field};
use crate::worker::{secret_from_wire, secret_to_wire};

/// The first field number of kinds that a release may skip when it does not know them.
const SKIPPABLE_FROM: u32 = 1000;
/// The field numbers of the kinds that this release knows.
const KINDS: [RangeInclusive<u32>; 10] =
    [1..=23, 60..=60, 70..=71, 80..=80, 90..=92, 170..=170, 190..=190, 1000..=1003, 1010..=1010, 1020..=1020];

/// The bytes of a record of time `at`.
pub fn encode_record(at: Timestamp, record: &Record) -> Vec<u8> {
    form::Record { at_us: at.0, kind: Some(kind_to_wire(at, record)) }.encode_to_vec()
}

/// The time and the record in `bytes`.
///
/// # Errors
/// When they are none; [`ProtoError::UnknownRecord`] when a later release wrote it.
pub fn decode_record(bytes: &[u8]) -> Result<(Timestamp, Record), ProtoError> {
    let record: form::Record = decode("record", bytes)?;
    let at = Timestamp(record.at_us);
    let Some(kind) = record.kind else {
        return Err(match unknown_field(bytes, |number| KINDS.iter().any(|kinds| kinds.contains(&number))) {
            Some(number) => ProtoError::UnknownRecord { number, critical: number < SKIPPABLE_FROM },
            None => ProtoError::Missing { field: "kind of a record" },
        });
    };
    Ok((at, kind_from_wire(at, kind)?))
}

fn kind_to_wire(at: Timestamp, record: &Record) -> Kind {
    match record {
        Record::ServerStarted { epoch, uid, release } => {
            let (uid, release) = (uid.clone(), release.clone());
            Kind::ServerStarted(form::ServerStarted { epoch: epoch.0, uid, release })
        }
        Record::JobOpened { job, key, spec } => {
            let (key, spec) = (key_to_wire(*key), Some(spec.to_wire()));
            Kind::JobOpened(form::JobOpened { job: job.0, key, spec })
        }
        Record::EntriesDropped { job, ids } => {
            Kind::EntriesDropped(form::EntriesDropped { job: job.0, ids: idset::to_wire(ids) })
        }
        Record::Submitted {
            job,
            key,
            spec,
            ids,
            entries,
            entries_gone,
            keys,
            dependencies,
            task,
            submit_dir,
        } => Kind::Submitted(form::Submitted {
            job: job.0,
            key: key_to_wire(*key),
            spec: spec.as_ref().map(Wire::to_wire),
            ids: idset::to_wire(ids),
            entries: entries_to_wire(entries),
            task: Some(task.to_wire()),
            submit_dir: submit_dir.clone(),
            dependencies: dependencies_to_wire(dependencies),
            keys: entries_to_wire(keys),
            entries_gone: idset::to_wire(entries_gone),
        }),
        Record::JobClosed { job } => Kind::JobClosed(job.0),
        Record::JobLeft { job, linger } => {
            Kind::JobLeft(form::JobLeft { job: job.0, linger_ns: nanos(*linger) })
        }
        Record::Budget { job, change } => Kind::Budget(budget_to_wire(*job, *change)),
        Record::JobForgotten { job } => Kind::JobForgotten(job.0),
        Record::Leased { worker, job, ids } => {
            Kind::Leased(form::Leased { worker: worker.0, job: job.0, ids: idset::to_wire(ids) })
        }
        Record::LeasedNodes { job, task, workers } => {
            let nodes = Some(nodes_to_wire((task, workers)));
            Kind::LeasedNodes(form::LeasedNodes { job: job.0, nodes })
        }
        Record::Returned { worker, job, ids } => {
            Kind::Returned(form::Returned { worker: worker.0, job: job.0, ids: idset::to_wire(ids) })
        }
        Record::Restarted { job, ids, instance, cause } => Kind::Restarted(form::Restarted {
            job: job.0,
            ids: idset::to_wire(ids),
            instance: instance.0,
            cause: Some(cause_to_wire(cause)),
        }),
        Record::Deferred { job, task, instance, after, not_before, value_of } => {
            Kind::Deferred(form::Deferred {
                job: job.0,
                task: task.0,
                instance: instance.0,
                after: list_to_wire(after),
                not_before_us: not_before.map(|at| at.0),
                value_of: value_of.as_ref().map(Wire::to_wire),
            })
        }
        Record::ServiceReady { job, task, text } => {
            Kind::ServiceReady(form::ServiceReady { job: job.0, task: task.0, text: text.clone() })
        }
        Record::FilesFound { job, files } => {
            Kind::FilesFound(form::FilesFound { job: job.0, files: files.clone() })
        }
        Record::Speculated { worker, job, task, instance } => Kind::Speculated(form::Speculated {
            worker: worker.0,
            job: job.0,
            task: task.0,
            instance: instance.0,
        }),
        Record::AttemptDropped { job, task, instance } => {
            Kind::AttemptDropped(form::AttemptDropped { job: job.0, task: task.0, instance: instance.0 })
        }
        Record::Finished { worker, span } => Kind::Finished(finished_to_wire(*worker, span, at)),
        Record::Failed { job, failure } => {
            Kind::Failed(form::Failed { job: job.0, failure: Some(failure.to_wire()) })
        }
        Record::Canceled { job, ids, reason, end_by } => {
            let (ids, reason) = (idset::to_wire(ids), reason.clone());
            let end_by_us = end_by.map(|end| end.0);
            Kind::Canceled(form::TasksCanceled { job: job.0, ids, reason, end_by_us })
        }
        Record::Aborted { job, ids, reason } => {
            let (ids, reason) = (idset::to_wire(ids), reason.clone());
            Kind::Aborted(form::TasksAborted { job: job.0, ids, reason })
        }
        Record::WorkerJoined { worker, config, secret } => Kind::WorkerJoined(form::WorkerJoined {
            worker: worker.0,
            config: Some(config.to_wire()),
            secret: secret.map(secret_to_wire),
        }),
        Record::LoadKept { point } => Kind::LoadKept(point.to_wire()),
        Record::WorkerSampled { worker, sample } => {
            Kind::WorkerSampled(form::WorkerSampled { worker: worker.0, sample: Some(sample.to_wire()) })
        }
        Record::WorkerEnded { worker, end, is_away } => {
            let (worker, end, is_away) = (worker.0, end.to_wire(), *is_away);
            Kind::WorkerEnded(form::WorkerEnded { worker, end, is_away })
        }
        Record::WorkerForgotten { worker } => Kind::WorkerForgotten(worker.0),
        Record::IdsGiven { job, worker } => Kind::IdsGiven(form::IdsGiven { job: job.0, worker: worker.0 }),
        Record::Feed { job, change } => Kind::Feed(change_to_wire(*job, change)),
        Record::Objects(change) => Kind::Objects(change.to_wire()),
        Record::Notice { job, rule, change } => Kind::Notice(record_to_wire(*job, *rule, change)),
        Record::JobKept { job, progress } => Kind::JobKept(progress_to_wire(*job, progress, at)),
        Record::DetailKept { worker, span, nodes } => {
            let nodes = nodes.iter().map(|(task, workers)| nodes_to_wire((task, workers))).collect();
            Kind::DetailKept(form::Finished { nodes, ..finished_to_wire(*worker, span, at) })
        }
        Record::AttemptsEnded { job, attempts } => {
            Kind::AttemptsEnded(form::AttemptsEnded { job: job.0, attempts: list_to_wire(attempts) })
        }
        Record::EndedEarly { job, attempts } => {
            Kind::EndedEarly(form::EndedEarly { job: job.0, attempts: list_to_wire(attempts) })
        }
        Record::FailureKept { job, failure } => {
            Kind::FailureKept(form::Failed { job: job.0, failure: Some(failure.to_wire()) })
        }
        Record::ResultsKept { job, ids, results } => Kind::ResultsKept(form::ResultsKept {
            job: job.0,
            ids: idset::to_wire(ids),
            results: entries_to_wire(results),
        }),
        Record::Alloc(record) => Kind::Alloc(record.to_wire()),
        Record::Together { records } => {
            let records = records.iter();
            let records =
                records.map(|record| form::Record { at_us: 0, kind: Some(kind_to_wire(at, record)) });
            Kind::Together(form::Together { records: records.collect() })
        }
        Record::TimeSkipped { gaps } => {
            let (at_us, skipped_us) = gaps.iter().map(|(at, skipped)| (at.0, *skipped)).unzip();
            Kind::TimeSkipped(form::TimeSkipped { at_us, skipped_us })
        }
        Record::Answered { key, job, ids } => {
            Kind::Answered(form::Answered { key: key_to_wire(*key), job: job.0, ids: idset::to_wire(ids) })
        }
    }
}

fn kind_from_wire(at: Timestamp, kind: Kind) -> Result<Record, ProtoError> {
    Ok(match kind {
        Kind::ServerStarted(started) => {
            let (uid, release) = (name("server uid", started.uid)?, name("release", started.release)?);
            Record::ServerStarted { epoch: Epoch(started.epoch), uid, release }
        }
        Kind::JobOpened(opened) => Record::JobOpened {
            job: JobId(opened.job),
            key: key_from_wire(&opened.key)?,
            spec: required("spec of a job", opened.spec)?,
        },
        Kind::Submitted(submitted) => submitted_from_wire(submitted)?,
        Kind::JobClosed(job) => Record::JobClosed { job: JobId(job) },
        Kind::JobLeft(left) => {
            Record::JobLeft { job: JobId(left.job), linger: Duration::from_nanos(left.linger_ns) }
        }
        Kind::Budget(budget) => budget_from_wire(budget)?,
        Kind::JobForgotten(job) => Record::JobForgotten { job: JobId(job) },
        Kind::Leased(leased) => Record::Leased {
            worker: WorkerId(leased.worker),
            job: JobId(leased.job),
            ids: idset::from_wire("ids of leased tasks", &leased.ids)?,
        },
        Kind::LeasedNodes(leased) => {
            let (task, workers) = nodes_from_wire(present("nodes of a task", leased.nodes)?)?;
            Record::LeasedNodes { job: JobId(leased.job), task, workers }
        }
        Kind::Returned(returned) => Record::Returned {
            worker: WorkerId(returned.worker),
            job: JobId(returned.job),
            ids: idset::from_wire("ids of returned tasks", &returned.ids)?,
        },
        Kind::Restarted(restarted) => Record::Restarted {
            job: JobId(restarted.job),
            ids: idset::from_wire("ids of restarted tasks", &restarted.ids)?,
            instance: Instance(restarted.instance),
            cause: cause_from_wire(present("cause of a restart", restarted.cause)?),
        },
        Kind::Deferred(deferred) => Record::Deferred {
            job: JobId(deferred.job),
            task: TaskId(deferred.task),
            instance: Instance(deferred.instance),
            after: list_from_wire(deferred.after)?,
            not_before: deferred.not_before_us.map(Timestamp),
            value_of: deferred.value_of.map(Wire::from_wire).transpose()?,
        },
        Kind::ServiceReady(ready) => {
            Record::ServiceReady { job: JobId(ready.job), task: TaskId(ready.task), text: ready.text }
        }
        Kind::FilesFound(found) => Record::FilesFound { job: JobId(found.job), files: found.files },
        Kind::Speculated(second) => Record::Speculated {
            worker: WorkerId(second.worker),
            job: JobId(second.job),
            task: TaskId(second.task),
            instance: Instance(second.instance),
        },
        Kind::AttemptDropped(dropped) => Record::AttemptDropped {
            job: JobId(dropped.job),
            task: TaskId(dropped.task),
            instance: Instance(dropped.instance),
        },
        Kind::Finished(finished) => {
            let (worker, span) = finished_from_wire(finished, at)?;
            Record::Finished { worker, span }
        }
        Kind::Failed(failed) => {
            Record::Failed { job: JobId(failed.job), failure: required("failure", failed.failure)? }
        }
        Kind::Canceled(canceled) => Record::Canceled {
            job: JobId(canceled.job),
            ids: idset::from_wire("ids of canceled tasks", &canceled.ids)?,
            reason: canceled.reason,
            end_by: canceled.end_by_us.map(Timestamp),
        },
        Kind::Aborted(aborted) => Record::Aborted {
            job: JobId(aborted.job),
            ids: idset::from_wire("ids of aborted tasks", &aborted.ids)?,
            reason: aborted.reason,
        },
        Kind::WorkerJoined(joined) => {
            let config: WorkerConfig = required("configuration of a worker", joined.config)?;
            let secret = joined.secret.map(secret_from_wire).transpose()?;
            Record::WorkerJoined { worker: WorkerId(joined.worker), config: Box::new(config), secret }
        }
        Kind::LoadKept(point) => Record::LoadKept { point: Box::new(Wire::from_wire(point)?) },
        Kind::WorkerSampled(sampled) => {
            let sample: NodeSample = required("sample of a node", sampled.sample)?;
            Record::WorkerSampled { worker: WorkerId(sampled.worker), sample: Box::new(sample) }
        }
        Kind::WorkerEnded(ended) => {
            let (worker, end) = (WorkerId(ended.worker), WorkerEnd::from_wire(ended.end)?);
            Record::WorkerEnded { worker, end, is_away: ended.is_away }
        }
        Kind::WorkerForgotten(worker) => Record::WorkerForgotten { worker: WorkerId(worker) },
        Kind::IdsGiven(given) => Record::IdsGiven { job: JobId(given.job), worker: WorkerId(given.worker) },
        Kind::JobKept(kept) => {
            let job = JobId(kept.job);
            Record::JobKept { job, progress: Box::new(progress_from_wire(kept, at)?) }
        }
        Kind::DetailKept(mut finished) => {
            let nodes = std::mem::take(&mut finished.nodes).into_iter().map(nodes_from_wire);
            let nodes = nodes.collect::<Result<_, _>>()?;
            let (worker, span) = finished_from_wire(finished, at)?;
            Record::DetailKept { worker, span, nodes }
        }
        Kind::AttemptsEnded(ended) => {
            Record::AttemptsEnded { job: JobId(ended.job), attempts: list_from_wire(ended.attempts)? }
        }
        Kind::EndedEarly(ended) => {
            Record::EndedEarly { job: JobId(ended.job), attempts: list_from_wire(ended.attempts)? }
        }
        Kind::FailureKept(failed) => {
            Record::FailureKept { job: JobId(failed.job), failure: required("failure", failed.failure)? }
        }
        Kind::EntriesDropped(dropped) => {
            let ids = idset::from_wire("ids of dropped entries", &dropped.ids)?;
            Record::EntriesDropped { job: JobId(dropped.job), ids }
        }
        Kind::ResultsKept(kept) => {
            let ids = idset::from_wire("ids of tasks with results", &kept.ids)?;
            let results = entries_from_wire(kept.results, ids.len())?;
            Record::ResultsKept { job: JobId(kept.job), ids, results }
        }
        Kind::Alloc(record) => Record::Alloc(Box::new(Wire::from_wire(record)?)),
        Kind::Together(together) => {
            let part = |record: form::Record| match present("kind of a record", record.kind)? {
                Kind::Together(_) => {
                    Err(ProtoError::Rule { field: "records that count together", rule: "must not be nested" })
                }
                kind => kind_from_wire(at, kind),
            };
            let records = together.records.into_iter().map(part).collect::<Result<_, _>>()?;
            Record::Together { records }
        }
        Kind::TimeSkipped(skipped) => {
            count("skipped times", skipped.skipped_us.len() as u64, skipped.at_us.len() as u64)?;
            let at = skipped.at_us.into_iter().map(Timestamp);
            Record::TimeSkipped { gaps: at.zip(skipped.skipped_us).collect() }
        }
        Kind::Feed(change) => change_from_wire(change)?,
        Kind::Notice(record) => record_from_wire(record)?,
        Kind::Objects(change) => Record::Objects(Box::new(Wire::from_wire(change)?)),
        Kind::Answered(answered) => Record::Answered {
            key: key_from_wire(&answered.key)?,
            job: JobId(answered.job),
            ids: idset::from_wire("ids of an answered request", &answered.ids)?,
        },
    })
}

fn submitted_from_wire(submitted: form::Submitted) -> Result<Record, ProtoError> {
    let ids = idset::from_wire("ids of submitted tasks", &submitted.ids)?;
    let entries_gone = idset::from_wire("tasks without entries", &submitted.entries_gone)?;
    if !ids.contains_all(&entries_gone) {
        return Err(ProtoError::Rule {
            field: "tasks without entries",
            rule: "must be among the submitted tasks",
        });
    }
    let task: TaskSpec = required("spec of submitted tasks", submitted.task)?;
    Ok(Record::Submitted {
        job: JobId(submitted.job),
        key: key_from_wire(&submitted.key)?,
        spec: submitted.spec.map(JobSpec::from_wire).transpose()?,
        entries: entries_from_wire(submitted.entries, ids.len() - entries_gone.len())?,
        entries_gone: Box::new(entries_gone),
        keys: entries_from_wire(submitted.keys, ids.len())?,
        ids,
        dependencies: Arc::new(dependencies_from_wire(submitted.dependencies)?),
        task: Arc::new(task),
        submit_dir: submitted.submit_dir,
    })
}

// Spans of so many tasks are kept with their sums.
const SUMMED_TASKS_MIN: u64 = 256;

fn finished_to_wire(worker: WorkerId, span: &FinishedSpan, at: Timestamp) -> form::Finished {
    // Who is told of ends alone is told no measures: then the sum is all there is to know.
    let is_summed = span.ids.len() >= SUMMED_TASKS_MIN || span.measures.count() == 0;
    let total = is_summed.then(|| span.measures.total().to_wire());
    form::Finished { worker: worker.0, span: Some(span_to_wire(span, at)), total, nodes: Vec::new() }
}

fn finished_from_wire(
    finished: form::Finished,
    at: Timestamp,
) -> Result<(WorkerId, FinishedSpan), ProtoError> {
    let span = present("finished tasks", finished.span)?;
    let total = finished.total.map(Usage::from_wire).transpose()?;
    Ok((WorkerId(finished.worker), span_from_wire(span, at, total)?))
}

fn progress_to_wire(job: JobId, progress: &JobProgress, at: Timestamp) -> form::JobKept {
    let leased = progress.leased.iter();
    let aborted = progress.abort_reasons.iter();
    let instances = progress.instances.iter();
    form::JobKept {
        job: job.0,
        is_open: progress.is_open,
        last_end_us: relative(progress.last_end, at),
        cancel_reason: progress.cancel_reason.clone(),
        leased: leased
            .map(|(worker, ids)| form::TasksOfWorker { worker: worker.0, ids: idset::to_wire(ids) })
            .collect(),
        finished: idset::to_wire(&progress.finished),
        failed: idset::to_wire(&progress.failed),
        canceled: idset::to_wire(&progress.canceled),
        aborted: aborted
            .map(|(ids, reason)| form::AbortedTasks { ids: idset::to_wire(ids), reason: reason.clone() })
            .collect(),
        instances: instances
            .map(|(instance, ids)| form::TasksOfInstance { instance: instance.0, ids: idset::to_wire(ids) })
            .collect(),
        crashes: progress.crashes.iter().flat_map(|(task, count)| [task.0, *count]).collect(),
        retries: progress.retries.iter().flat_map(|(task, count)| [task.0, *count]).collect(),
        delayed: progress.delayed.keys().map(|task| task.0).collect(),
        delayed_until_us: progress.delayed.values().map(|until| relative(*until, at)).collect(),
        usage: Some(progress.usage.to_wire()),
        workers: progress.workers.iter().map(|worker| worker.0).collect(),
        seconds: progress.seconds.iter().map(second_to_wire).collect(),
        files: progress.files.iter().cloned().collect(),
        ready: (progress.ready.iter())
            .map(|(task, text)| form::ReadyService { task: task.0, text: text.clone() })
            .collect(),
        deferred: progress.deferred.iter().map(deferred_to_wire).collect(),
        values_of: (progress.values_of.iter())
            .map(|(task, of)| form::ValueOf { task: task.0, of: Some(of.to_wire()) })
            .collect(),
        nodes: progress.nodes.iter().map(nodes_to_wire).collect(),
        causes: list_to_wire(&progress.causes),
        too_late: (progress.too_late.iter())
            .map(|(ids, end)| form::TasksTooLate { ids: idset::to_wire(ids), end_by_us: end.0 })
            .collect(),
        outlasted: progress.outlasted.iter().map(outlasted_to_wire).collect(),
        feed: progress.feed.as_ref().map(|feed| feed.to_wire()),
        told: (progress.told.iter())
            .map(|(rule, told)| form::ToldNotice { rule: *rule, told: Some(told.to_wire()) })
            .collect(),
        is_stalled: progress.is_stalled,
        budget_ns: progress.budget.map(nanos),
        spent_us: progress.spent_us,
    }
}

fn budget_to_wire(job: JobId, change: BudgetChange) -> form::BudgetRecord {
    use form::budget_record::Change;
    let change = match change {
        BudgetChange::Set(limit) => Change::Set(form::JobBudget { limit_ns: limit.map(nanos), used_ns: 0 }),
        BudgetChange::Spent(time) => Change::SpentNs(nanos(time)),
    };
    form::BudgetRecord { job: job.0, change: Some(change) }
}

fn budget_from_wire(budget: form::BudgetRecord) -> Result<Record, ProtoError> {
    use form::budget_record::Change;
    let change = match present("change of a budget", budget.change)? {
        Change::Set(set) => BudgetChange::Set(set.limit_ns.map(Duration::from_nanos)),
        Change::SpentNs(time) => BudgetChange::Spent(Duration::from_nanos(time)),
    };
    Ok(Record::Budget { job: JobId(budget.job), change })
}

fn progress_from_wire(kept: form::JobKept, at: Timestamp) -> Result<JobProgress, ProtoError> {
    let ids = |numbers: &[u32]| idset::from_wire("ids of a kept job", numbers);
    count("ends of delays", kept.delayed_until_us.len() as u64, kept.delayed.len() as u64)?;
    let until = kept.delayed_until_us.iter().map(|until| absolute(*until, at));
    let leased = kept.leased.into_iter().map(|part| Ok((WorkerId(part.worker), ids(&part.ids)?)));
    let aborted = kept.aborted.into_iter().map(|part| Ok((ids(&part.ids)?, part.reason)));
    let instances = kept.instances.into_iter().map(|part| Ok((Instance(part.instance), ids(&part.ids)?)));
    Ok(JobProgress {
        is_open: kept.is_open,
        last_end: absolute(kept.last_end_us, at),
        cancel_reason: kept.cancel_reason,
        leased: leased.collect::<Result<_, ProtoError>>()?,
        finished: ids(&kept.finished)?,
        failed: ids(&kept.failed)?,
        canceled: ids(&kept.canceled)?,
        abort_reasons: aborted.collect::<Result<_, ProtoError>>()?,
        instances: instances.collect::<Result<_, ProtoError>>()?,
        crashes: counts("crashes", &kept.crashes)?,
        retries: counts("retries", &kept.retries)?,
        delayed: kept.delayed.iter().map(|task| TaskId(*task)).zip(until).collect(),
        usage: required("usage of a job", kept.usage)?,
        workers: kept.workers.into_iter().map(WorkerId).collect(),
        seconds: kept.seconds.into_iter().map(second_from_wire).collect(),
        files: kept.files.into_iter().collect(),
        ready: kept.ready.into_iter().map(|ready| (TaskId(ready.task), ready.text)).collect(),
        deferred: kept.deferred.into_iter().map(deferred_from_wire).collect::<Result<_, _>>()?,
        values_of: (kept.values_of.into_iter())
            .map(|value| Ok((TaskId(value.task), required("call whose value another one gives", value.of)?)))
            .collect::<Result<_, ProtoError>>()?,
        nodes: kept.nodes.into_iter().map(nodes_from_wire).collect::<Result<_, _>>()?,
        causes: list_from_wire(kept.causes)?,
        too_late: (kept.too_late.into_iter())
            .map(|late| Ok((ids(&late.ids)?, Timestamp(late.end_by_us))))
            .collect::<Result<_, ProtoError>>()?,
        outlasted: kept.outlasted.into_iter().map(outlasted_from_wire).collect(),
        feed: kept.feed.map(Wire::from_wire).transpose()?.map(Box::new),
        told: told_from_wire(kept.told)?.into_iter().collect(),
        is_stalled: kept.is_stalled,
        budget: kept.budget_ns.map(Duration::from_nanos),
        spent_us: kept.spent_us,
    })
}

// Tasks, each with a number.
fn counts(field: &'static str, numbers: &[u32]) -> Result<BTreeMap<TaskId, u32>, ProtoError> {
    let (pairs, rest) = numbers.as_chunks::<2>();
    rule(field, rest.is_empty(), "must hold two numbers for each task")?;
    Ok(pairs.iter().map(|&[task, count]| (TaskId(task), count)).collect())
}

fn deferred_to_wire((task, after): (&TaskId, &Vec<After>)) -> form::DeferredTask {
    form::DeferredTask { task: task.0, after: list_to_wire(after) }
}

fn deferred_from_wire(deferred: form::DeferredTask) -> Result<(TaskId, Vec<After>), ProtoError> {
    Ok((TaskId(deferred.task), list_from_wire(deferred.after)?))
}

fn nodes_to_wire((task, workers): (&TaskId, &Vec<WorkerId>)) -> form::NodesOfTask {
    form::NodesOfTask { task: task.0, workers: workers.iter().map(|worker| worker.0).collect() }
}

fn nodes_from_wire(nodes: form::NodesOfTask) -> Result<(TaskId, Vec<WorkerId>), ProtoError> {
    rule("nodes of a task", !nodes.workers.is_empty(), "must not be empty")?;
    Ok((TaskId(nodes.task), nodes.workers.into_iter().map(WorkerId).collect()))
}

fn second_to_wire((task, second): (&TaskId, &SecondAttempt)) -> form::SecondAttempt {
    let worker = second.worker.map(|worker| worker.0);
    form::SecondAttempt { task: task.0, instance: second.instance.0, worker }
}

fn second_from_wire(second: form::SecondAttempt) -> (TaskId, SecondAttempt) {
    let (instance, worker) = (Instance(second.instance), second.worker.map(WorkerId));
    (TaskId(second.task), SecondAttempt { worker, instance })
}

fn outlasted_to_wire((task, known): (&TaskId, &Outlasted)) -> form::OutlastedTask {
    form::OutlastedTask { task: task.0, times: known.times, life_ns: nanos(known.life) }
}

fn outlasted_from_wire(kept: form::OutlastedTask) -> (TaskId, Outlasted) {
    (TaskId(kept.task), Outlasted { times: kept.times, life: Duration::from_nanos(kept.life_ns) })
}

fn cause_to_wire(cause: &RestartCause) -> Cause {
    match cause {
        RestartCause::Crash => Cause::Crash(form::Nothing {}),
        RestartCause::Left => Cause::Left(form::Nothing {}),
        RestartCause::TimeOver { life, waits } => {
            Cause::TimeOver(form::TimeOver { life_ns: nanos(*life), waits: *waits })
        }
        RestartCause::Unfetched { not_before } => Cause::UnfetchedNotBeforeUs(not_before.0),
        RestartCause::Retry { not_before } => Cause::RetryNotBeforeUs(not_before.0),
    }
}

fn cause_from_wire(cause: Cause) -> RestartCause {
    match cause {
        Cause::Crash(_) => RestartCause::Crash,
        Cause::Left(_) => RestartCause::Left,
        Cause::TimeOver(over) => {
            RestartCause::TimeOver { life: Duration::from_nanos(over.life_ns), waits: over.waits }
        }
        Cause::UnfetchedNotBeforeUs(time) => RestartCause::Unfetched { not_before: Timestamp(time) },
        Cause::RetryNotBeforeUs(time) => RestartCause::Retry { not_before: Timestamp(time) },
    }
}
