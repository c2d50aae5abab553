//! What fits into a frame: a task must reach a worker, so a submit that no frame could carry is refused
//! where it comes in, and many tasks are sent in several messages.

use hq_core::client_messages::{ClientRequest, RequestError};
use hq_core::worker_messages::RunBatch;
use hq_model::{Entries, Submit};

use crate::limits::{ENTRY_BYTES_MAX, RUN_BYTES, TASK_BYTES_MAX};
use crate::memory_size;

/// Why the tasks of a request could never be sent to a worker.
pub(crate) fn refusal(request: &ClientRequest) -> Option<RequestError> {
    match request {
        ClientRequest::Submit { submit, .. } => refusal_of(submit),
        ClientRequest::SubmitAll { submits, .. } => submits.iter().find_map(refusal_of),
        _ => None,
    }
}

fn refusal_of(submit: &Submit) -> Option<RequestError> {
    let task = memory_size::of_task(&submit.spec);
    if task > TASK_BYTES_MAX {
        return Some(RequestError::Invalid(format!(
            "Arguments, environment and standard input of a task have {task} bytes together, the limit is \
             {TASK_BYTES_MAX}. Pass large data in files."
        )));
    }
    let longest = submit.entries.iter().map(<[u8]>::len).enumerate().max_by_key(|entry| entry.1);
    longest.filter(|entry| entry.1 > ENTRY_BYTES_MAX).map(|(index, length)| {
        RequestError::Invalid(format!(
            "Entry {index} has {length} bytes, the limit is {ENTRY_BYTES_MAX}. Pass large data in files."
        ))
    })
}

/// Cuts tasks for a worker into messages of about [`RUN_BYTES`], in the same order.
pub(crate) fn messages(batches: Vec<RunBatch>) -> Vec<Vec<RunBatch>> {
    let mut messages = Vec::new();
    let mut message = Vec::new();
    let mut bytes = 0;
    for part in batches.into_iter().flat_map(parts) {
        let more = memory_size::of_batch(&part);
        if bytes + more > RUN_BYTES && !message.is_empty() {
            messages.push(std::mem::take(&mut message));
            bytes = 0;
        }
        bytes += more;
        message.push(part);
    }
    messages.push(message);
    messages
}

// Only entries make a batch large: its ids are intervals, its content is bounded.
fn parts(batch: RunBatch) -> Vec<RunBatch> {
    if batch.entries.bytes_len() <= RUN_BYTES {
        return vec![batch];
    }
    let mut parts = Vec::new();
    let mut ids = batch.ids;
    let mut content = batch.content;
    let mut begin = 0;
    while begin < batch.entries.len() {
        let mut bytes = 0;
        let fits = |entry: &&[u8]| {
            bytes += entry.len();
            bytes <= RUN_BYTES
        };
        // One entry at least, however long.
        let count = batch.entries.iter().skip(begin).take_while(fits).count().max(1);
        let entries = Entries::new(batch.entries.iter().skip(begin).take(count));
        parts.push(RunBatch {
            template: batch.template,
            content: content.take(),
            ids: ids.take_first(count as u64),
            instance: batch.instance,
            services: batch.services.clone(),
            nodes: batch.nodes.clone(),
            after: batch.after,
            variant: batch.variant,
            entries: entries.expect("a part of entries is no longer than all of them"),
        });
        begin += count;
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hq_core::worker_messages::{Template, TemplateId};
    use hq_model::job::{Target, TaskIds};
    use hq_model::{IdSet, Instance, JobId, JobSpec, Submit, TaskSpec};

    use super::*;

    const TEMPLATE: TemplateId = TemplateId { job: JobId(1), submit: 0 };

    fn batch(first: u32, entries: &[Vec<u8>]) -> RunBatch {
        let last = first + entries.len() as u32 - 1;
        RunBatch {
            template: TEMPLATE,
            content: Some(Template {
                id: TEMPLATE,
                spec: Arc::default(),
                submit_dir: Vec::new(),
                submitted: hq_model::Timestamp(0),
            }),
            ids: IdSet::range(first, last),
            instance: Instance(0),
            services: Vec::new(),
            entries: Entries::new(entries.iter().map(Vec::as_slice)).expect("short"),
            nodes: Vec::new(),
            after: None,
            variant: None,
        }
    }

    #[test]
    fn tasks_with_long_entries_are_sent_in_parts_that_together_say_the_same() {
        let entries: Vec<Vec<u8>> = (1..=10).map(|i| vec![i; RUN_BYTES / 3]).collect();
        let messages = messages(vec![batch(1, &entries), batch(101, &entries[..1])]);
        let sizes: Vec<_> =
            messages.iter().map(|m| m.iter().map(|b| b.ids.len()).collect::<Vec<_>>()).collect();
        assert_eq!(sizes, [vec![3], vec![3], vec![3], vec![1, 1]]);
        let parts: Vec<&RunBatch> = messages.iter().flatten().collect();
        assert_eq!(parts.iter().filter(|part| part.content.is_some()).count(), 2);
        assert!(parts[0].content.is_some(), "the content comes first");
        for part in &parts[..4] {
            for (id, entry) in part.ids.iter().zip(part.entries.iter()) {
                assert_eq!(entry, entries[id.0 as usize - 1]);
            }
        }
    }

    #[test]
    fn an_entry_longer_than_a_part_goes_alone_and_a_small_message_stays_whole() {
        let long = vec![vec![1], vec![2; RUN_BYTES + 1], vec![3]];
        let sizes: Vec<u64> = messages(vec![batch(1, &long)]).iter().map(|m| m[0].ids.len()).collect();
        assert_eq!(sizes, [1, 1, 1]);
        let small = vec![batch(1, &[vec![1]]), batch(5, &[vec![2]])];
        assert_eq!(messages(small.clone()), [small]);
    }

    #[test]
    fn what_no_frame_could_carry_is_refused() {
        let submit = |stdin: usize, entry: usize| {
            let entries = [vec![0; 3], vec![0; entry]];
            let submit = Submit {
                target: Target::New(JobSpec::default()),
                ids: TaskIds::Next(2),
                entries: Entries::new(entries.iter().map(Vec::as_slice)).expect("short"),
                keys: Entries::default(),
                dependencies: Arc::default(),
                spec: Arc::new(TaskSpec { stdin: vec![0; stdin], ..TaskSpec::default() }),
                submit_dir: Vec::new(),
            };
            refusal(&ClientRequest::Submit { key: 1, submit: Box::new(submit) })
                .map(|error| error.to_string())
        };
        assert_eq!(submit(TASK_BYTES_MAX, ENTRY_BYTES_MAX), None);
        let task = submit(TASK_BYTES_MAX + 1, 1).expect("too large");
        assert!(task.contains("standard input of a task have 33554433 bytes"), "{task}");
        let entry = submit(1, ENTRY_BYTES_MAX + 1).expect("too large");
        assert!(entry.starts_with("Entry 1 has 16777217 bytes"), "{entry}");
        assert_eq!(refusal(&ClientRequest::CountJobs), None);
    }
}
