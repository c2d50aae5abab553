//! How much memory a message or record takes, roughly and quickly: what bounded queues count.

use hq_core::client_messages::ClientResponse;
use hq_core::record::Record;
use hq_core::worker_messages::{RunBatch, ToWorker};
use hq_model::{IdSet, TaskSpec};

/// What anything takes at least, in bytes.
const LEAST: usize = 256;

/// Bytes of an answer.
pub(crate) fn of_response(response: &ClientResponse) -> usize {
    let more = match response {
        ClientResponse::Submitted { ids, existing, warnings, .. } => {
            existing.len() * 8 + of_ids(ids) + warnings.iter().map(String::len).sum::<usize>()
        }
        ClientResponse::Jobs(jobs) => jobs.len() * 4,
        ClientResponse::JobList(jobs) | ClientResponse::Progress(jobs) => {
            jobs.iter().map(|job| 160 + job.name.len()).sum()
        }
        ClientResponse::JobDetails(jobs) => (jobs.iter())
            .map(|job| {
                let submits = job.submits.iter().map(|s| LEAST + of_ids(&s.ids) + of_task(&s.spec));
                LEAST + submits.sum::<usize>() + job.workers.len() * 4
            })
            .sum(),
        ClientResponse::Canceled(jobs) => jobs.iter().map(|(_, ids, _)| 48 + of_ids(ids)).sum(),
        ClientResponse::Tasks { tasks, .. } => {
            tasks.iter().map(|(_, task)| 200 + task.error.as_ref().map_or(0, String::len)).sum()
        }
        ClientResponse::TaskIds(jobs) => jobs.iter().map(|(_, ids)| 32 + of_ids(ids)).sum(),
        ClientResponse::Notification { text, .. } => text.len(),
        ClientResponse::Workers(workers) => {
            workers.iter().map(|worker| 512 + worker.config.resources.pools.len() * 128).sum()
        }
        ClientResponse::WorkersStopped(workers) => workers.len() * 4,
        ClientResponse::Events { records, .. } => records.iter().map(|(_, record)| of_record(record)).sum(),
        _ => 0,
    };
    LEAST + more
}

/// Bytes of a message to a worker.
pub(crate) fn of_worker_message(message: &ToWorker) -> usize {
    let more = match message {
        ToWorker::Run(batches) => batches.iter().map(of_batch).sum(),
        ToWorker::Cancel { ids, .. } | ToWorker::Retract { ids, .. } => of_ids(ids),
        _ => 0,
    };
    LEAST + more
}

/// Bytes of some tasks for a worker.
pub(crate) fn of_batch(batch: &RunBatch) -> usize {
    let content = batch.content.as_ref().map_or(0, |template| of_task(&template.spec));
    let nodes: usize = batch.nodes.iter().map(|node| 56 + node.hostname.len() + node.address.len()).sum();
    LEAST + nodes + of_ids(&batch.ids) + batch.entries.bytes_len() + batch.entries.len() * 4 + content
}

/// Bytes of a record.
pub(crate) fn of_record(record: &Record) -> usize {
    let more = match record {
        Record::Submitted { ids, entries, keys, dependencies, task, .. } => {
            let texts = [entries, keys].map(|texts| texts.bytes_len() + texts.len() * 4);
            of_ids(ids) + texts.iter().sum::<usize>() + dependencies.edges.len() * 4 + of_task(task)
        }
        Record::Leased { ids, .. }
        | Record::Returned { ids, .. }
        | Record::Restarted { ids, .. }
        | Record::Canceled { ids, .. }
        | Record::Aborted { ids, .. } => of_ids(ids),
        Record::LeasedNodes { workers, .. } => workers.len() * 4,
        Record::Finished { span, .. } | Record::DetailKept { span, .. } => {
            of_ids(&span.ids) + span.measures.bytes().len()
        }
        Record::Failed { failure, .. } | Record::FailureKept { failure, .. } => failure.error.len(),
        _ => 0,
    };
    LEAST + more
}

fn of_ids(ids: &IdSet) -> usize {
    ids.range_count() * 8
}

/// Bytes of a template.
pub(crate) fn of_task(task: &TaskSpec) -> usize {
    let args: usize = task.args.iter().map(|arg| 24 + arg.len()).sum();
    let env: usize = task.env.iter().map(|(name, value)| 48 + name.len() + value.len()).sum();
    let outputs: usize = task.outputs.iter().map(|path| 24 + path.len()).sum();
    args + env + outputs + task.stdin.len()
}
