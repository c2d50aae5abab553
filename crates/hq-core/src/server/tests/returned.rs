//! Calls that return other calls instead of values.

use hq_model::TaskRef;
use hq_model::dependency::{Dependencies, Edges};

use super::calls::packed;
use super::*;

fn of(job: u32, task: u32) -> TaskRef {
    TaskRef::new(JobId(job), TaskId(task))
}

// What an interpreter says of a call that has returned another one.
fn returned(of: TaskRef) -> Vec<u8> {
    [&b"E\x0b\x08\x00"[..], &of.job.0.to_le_bytes(), &of.task.0.to_le_bytes()].concat()
}

impl World {
    // Calls of which each waits for some before it.
    fn calls_behind(&mut self, behind: &[&[u32]]) -> JobId {
        let lists = behind.iter().map(|list| list.iter().copied().map(TaskId).collect::<Vec<_>>());
        let edges = Edges::new(lists).expect("few");
        let dependencies = Arc::new(Dependencies { edges, ..Dependencies::default() });
        let mut spec = one_cpu();
        packed(&mut spec);
        let entries = Entries::new(behind.iter().map(|_| &b"entry"[..])).expect("few");
        let ids = TaskIds::Next(behind.len() as u32);
        let target = Target::New(JobSpec::default());
        self.submits(Submit { dependencies, entries, ..Submit::new(target, ids, spec) })
    }

    fn ends_with(&mut self, job: JobId, task: u32, instance: u32, result: &[u8]) {
        let results = Entries::new([result]).expect("little");
        self.reports(1, |report| {
            report.finished.push(FinishedSpan { results, ..finished(job, task, task, instance) });
        });
    }

    // Of all calls that were handed out: id and instance, entry, and what comes with it.
    fn handed(&mut self) -> String {
        let told = self.to_workers.drain(..).filter_map(|(_, message)| match message {
            ToWorker::Run(batches) => Some(batches),
            _ => None,
        });
        let mut said = Vec::new();
        for batch in told.flatten() {
            for (task, entry) in batch.ids.iter().zip(batch.entries.iter()) {
                let inputs = batch.inputs.iter().filter(|input| input.task == task);
                let inputs = inputs.map(|input| format!(" {}={}", input.of, input.result.escape_ascii()));
                let inputs: String = inputs.collect();
                said.push(format!("{task}/{} {}{inputs}", batch.instance, entry.escape_ascii()));
            }
        }
        said.join(", ")
    }
}

#[test]
fn a_call_ends_when_the_one_does_that_it_has_returned() {
    let mut world = World::new();
    world.worker(1, 1);
    let job = world.calls_behind(&[&[], &[0], &[]]);
    assert_eq!(world.handed(), "0/0 entry, 2/0 entry");
    world.ends_with(job, 0, 0, &returned(of(1, 2)));
    // It holds nothing, has not ended, and neither does who waits for it begin.
    assert_eq!(world.states(job), "waiting: 3 waiting");
    assert_eq!(world.handed(), "");
    world.ends_with(job, 2, 0, b"two");
    assert_eq!(world.handed(), "0/1 F\\x01\\x00\\x00\\x00\\x02\\x00\\x00\\x00 1@2=two");
    world.ends_with(job, 0, 1, b"two");
    assert_eq!(world.handed(), "1/0 entry 1@0=two");
    world.ends_with(job, 1, 0, b"one");
    assert_eq!(world.states(job), "finished: 3 finished");
    assert!(world.server.state().jobs[&job].values_of.is_empty());
}

#[test]
fn what_it_has_returned_may_have_ended_and_may_fail() {
    let mut world = World::new();
    world.worker(1, 4);
    let job = world.calls_behind(&[&[], &[], &[], &[2]]);
    world.handed();
    world.ends_with(job, 1, 0, b"one");
    world.ends_with(job, 0, 0, &returned(of(1, 1)));
    assert_eq!(world.handed(), "0/1 F\\x01\\x00\\x00\\x00\\x01\\x00\\x00\\x00 1@1=one");
    // What nobody knows, and what waits for the call itself, is nothing to end with.
    world.ends_with(job, 0, 1, &returned(of(1, 9)));
    world.ends_with(job, 2, 0, &returned(of(1, 3)));
    assert_eq!(world.states(job), "failed: 1 finished, 2 failed, 1 aborted");
    let failures = &world.server.state().jobs[&job].failures;
    let said = |task| failures[&TaskId(task)].1.error.clone();
    assert!(said(0).starts_with("It has returned call 1@9, with whose value it cannot end: "), "{}", said(0));
    assert!(said(2).starts_with("It has returned call 1@3, with whose value it cannot end: "), "{}", said(2));
    let second = world.calls_behind(&[&[], &[]]);
    world.handed();
    world.ends_with(second, 0, 0, &returned(of(2, 1)));
    world.reports(1, |report| report.failed.push((second, failed(1, 0, 1))));
    assert_eq!(world.states(second), "failed: 1 failed, 1 aborted");
    assert!(world.server.state().jobs[&second].values_of.is_empty());
}

#[test]
fn a_server_that_starts_again_knows_what_was_returned() {
    let mut world = World::new();
    world.worker(1, 1);
    let job = world.calls_behind(&[&[], &[]]);
    world.ends_with(job, 0, 0, &returned(of(1, 1)));
    world.ends_with(job, 1, 0, b"one");
    world.handed();
    world.restart();
    world.worker(2, 4);
    world.wait(crate::limits::WORKER_GRACE);
    assert_eq!(world.handed(), "0/2 F\\x01\\x00\\x00\\x00\\x01\\x00\\x00\\x00 1@1=one");
}
