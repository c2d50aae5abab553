//! What fits into a frame: a task must reach a worker, so a submit that no frame could carry is refused
//! where it comes in, and many tasks are sent in several messages.

use std::collections::BTreeMap;

use hq_core::client_messages::{ClientRequest, NewTasks, RequestError};
use hq_core::object_messages::TaskObjects;
use hq_core::worker_messages::RunBatch;
use hq_model::{Entries, Submit, TaskId};

use crate::limits::{ENTRY_BYTES_MAX, RUN_BYTES, TASK_BYTES_MAX};
use crate::memory_size;

/// Why the tasks of a request could never be sent to a worker.
pub(crate) fn refusal(request: &ClientRequest) -> Option<RequestError> {
    match request {
        ClientRequest::Submit { submit, .. } => refusal_of(submit),
        ClientRequest::SubmitAll { submits, .. } => submits.iter().find_map(refusal_of),
        ClientRequest::SubmitJobs { jobs, .. } => jobs.iter().find_map(|job| match &job.tasks {
            NewTasks::Submits(submits) => submits.iter().find_map(refusal_of),
            NewTasks::Fed { generator, reducer } => {
                [Some(generator), reducer.as_ref()].into_iter().flatten().find_map(|own| refusal_of(own))
            }
        }),
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

// Only entries, inputs and objects make a batch large: its ids are intervals, its content is bounded.
fn parts(batch: RunBatch) -> Vec<RunBatch> {
    let input_bytes: usize = batch.inputs.iter().map(|input| input.result.len()).sum();
    let object_bytes: usize = batch.objects.iter().map(memory_size::of_objects).sum();
    if batch.entries.bytes_len() + input_bytes + object_bytes <= RUN_BYTES {
        return vec![batch];
    }
    // What several tasks take in common is said in each part once.
    let own = batch.objects.iter().filter(|objects| objects.tasks.len() == 1);
    let own: BTreeMap<Option<TaskId>, usize> =
        own.map(|objects| (objects.tasks.first(), memory_size::of_objects(objects))).collect();
    let mut inputs = batch.inputs;
    let mut parts = Vec::new();
    let mut ids = batch.ids;
    let mut content = batch.content;
    let mut begin = 0;
    while !ids.is_empty() {
        let (mut bytes, mut taken) = (0, 0);
        let fits = |(at, id): &(usize, TaskId)| {
            let of_task = inputs[taken..].iter().take_while(|input| input.task == *id);
            let (count, input_bytes) =
                of_task.fold((0, 0), |(count, bytes), input| (count + 1, bytes + input.result.len()));
            let entry_bytes = batch.entries.get(begin + at).map_or(0, <[u8]>::len);
            bytes += entry_bytes + input_bytes + own.get(&Some(*id)).copied().unwrap_or(0);
            let fits = bytes <= RUN_BYTES;
            taken += if fits { count } else { 0 };
            fits
        };
        // One task at least, however much is said of it.
        let count = ids.iter().enumerate().take_while(fits).count().max(1);
        let part = ids.take_first(count as u64);
        let rest = inputs.partition_point(|input| part.last().is_some_and(|last| input.task <= last));
        let rest = inputs.split_off(rest);
        let entries = Entries::new(batch.entries.iter().skip(begin).take(count));
        parts.push(RunBatch {
            template: batch.template,
            content: content.take(),
            objects: TaskObjects::of(&batch.objects, &part),
            ids: part,
            instance: batch.instance,
            services: batch.services.clone(),
            nodes: batch.nodes.clone(),
            after: batch.after,
            variant: batch.variant,
            head_start: batch.head_start,
            inputs: std::mem::replace(&mut inputs, rest),
            entries: entries.expect("a part of entries is no longer than all of them"),
        });
        begin += count;
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hq_core::object_messages::{ObjectCopy, ObjectSource};
    use hq_core::worker_messages::{CallInput, Template, TemplateId};
    use hq_model::job::{Target, TaskIds};
    use hq_model::{IdSet, Instance, JobId, JobSpec, Submit, TaskRef, TaskSpec};

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
                has_siblings: false,
            }),
            ids: IdSet::range(first, last),
            instance: Instance(0),
            services: Vec::new(),
            entries: Entries::new(entries.iter().map(Vec::as_slice)).expect("short"),
            nodes: Vec::new(),
            after: None,
            variant: None,
            head_start: std::time::Duration::ZERO,
            inputs: Vec::new(),
            objects: Vec::new(),
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
    fn what_others_left_behind_goes_with_the_call_that_gets_it() {
        let entries = vec![vec![1]; 4];
        let input = |task: u32, of: u32, bytes: usize| CallInput {
            task: TaskId(task),
            of: TaskRef::new(JobId(1), TaskId(of)),
            result: vec![0; bytes],
        };
        let large = RUN_BYTES - 20;
        let inputs = vec![input(1, 90, 3), input(1, 91, large), input(3, 90, 5), input(4, 92, 2 * large)];
        let messages = messages(vec![RunBatch { inputs, ..batch(1, &entries) }]);
        let told = messages.iter().flatten().map(|part| {
            let inputs: Vec<(u32, u32)> = part.inputs.iter().map(|i| (i.task.0, i.of.task.0)).collect();
            (part.ids.to_string(), inputs)
        });
        let expected = [("1-3".to_owned(), vec![(1, 90), (1, 91), (3, 90)]), ("4".to_owned(), vec![(4, 92)])];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn objects_are_sent_with_the_tasks_that_take_them() {
        let source = |path: usize| ObjectSource {
            copy: ObjectCopy {
                object: "1@2:a".parse().expect("an object"),
                instance: Instance(0),
                size: 1,
                checksum: 2,
                is_dir: false,
            },
            path: vec![b'x'; path],
            holders: Vec::new(),
        };
        let takes = |first: u32, last: u32, path: usize| TaskObjects {
            tasks: IdSet::range(first, last),
            inputs: vec![source(path)],
        };
        let batch = |objects: Vec<TaskObjects>| RunBatch {
            ids: IdSet::range(1, 5),
            entries: Entries::default(),
            objects,
            ..batch(1, &[Vec::new()])
        };
        let told = |batch: RunBatch| -> Vec<(String, usize)> {
            let messages = messages(vec![batch]);
            messages.iter().flatten().map(|part| (part.ids.to_string(), part.objects.len())).collect()
        };
        assert_eq!(told(batch(vec![takes(1, 5, 100)])), [("1-5".to_owned(), 1)]);
        let half = RUN_BYTES / 2;
        let each = (1..=5).map(|task| takes(task, task, half)).collect();
        assert_eq!(told(batch(each)), ["1", "2", "3", "4", "5"].map(|ids| (ids.to_owned(), 1)));
        let third = RUN_BYTES / 3 - 1000;
        let each = vec![takes(1, 1, third), takes(2, 4, third), takes(5, 5, third)];
        assert_eq!(told(batch(each)), [("1-5".to_owned(), 3)]);
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
