//! What is kept of attempts that did not end their tasks. Each step compares with the fold of the records, and with
//! what a compacted journal rebuilds.

use hq_model::TaskRef;
use hq_model::task::{OnWalltime, SpeculateFactor};

use super::losses::{lose, task};
use super::*;
use crate::attempt::{AttemptEnd, PastAttempt};
use crate::limits::{ATTEMPTS_BYTES_MAX, ATTEMPTS_OF_TASK_MAX};
use crate::record::Record;

// Attempts of a task in words: `instance on worker: why`, and that the times are known.
fn told(world: &mut World, job: JobId, of: u32) -> String {
    let attempts = task(world, job, of).attempts;
    let words = attempts.iter().map(|attempt| {
        let worker = attempt.worker.map_or("none".to_owned(), |worker| worker.to_string());
        let time = if attempt.started.is_some() { "" } else { ", never started" };
        let said = if attempt.error.is_empty() { "" } else { " " };
        format!("{} on {worker}: {}{said}{}{time}", attempt.instance, attempt.end.word(), attempt.error)
    });
    words.collect::<Vec<_>>().join("; ")
}

#[test]
fn a_retried_task_tells_how_each_attempt_failed() {
    let mut world = World::new();
    let job = world.submit(2, |spec| spec.retry = Retry { max: 2, ..Retry::default() });
    world.worker(2, 2);
    assert_eq!(told(&mut world, job, 0), "");
    world.reports(2, |r| r.failed = vec![(job, failed(0, 0, 7))]);
    world.wait(Duration::from_secs(60));
    let no_program =
        || Failure { kind: FailureKind::Start, started: None, error: "no x".into(), ..failed(0, 1, 1) };
    world.reports(2, |r| r.failed = vec![(job, no_program())]);
    let both = "0 on 1: failed exit code 7; 1 on 1: failed no x, never started";
    assert_eq!(told(&mut world, job, 0), both);
    assert_eq!(told(&mut world, job, 1), "", "a task that runs once has none");
    world.restart();
    assert_eq!(told(&mut world, job, 0), both);
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    world.ask(ClientRequest::ForgetJobs { jobs: Selector::All, states: Vec::new() });
    assert_eq!(world.server.state().attempts.bytes(), 0);
}

#[test]
fn lost_attempts_say_where_and_why_and_what_never_started_is_none() {
    let mut world = World::new();
    let job = world.submit(2, |_| {});
    world.worker(2, 1);
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    lose(&mut world, 2);
    assert_eq!(told(&mut world, job, 0), "0 on 1: worker-lost");
    assert_eq!(told(&mut world, job, 1), "", "it waited on that worker");
    world.worker(3, 1);
    world.reports(3, |r| r.started = vec![started(job, 0, 1)]);
    world.ask(ClientRequest::StopWorkers { workers: Selector::All, drain: false });
    world.reports(3, |r| {
        r.is_leaving = true;
        r.interrupted = vec![(job, IdSet::range(0, 0))];
    });
    assert_eq!(told(&mut world, job, 0), "0 on 1: worker-lost; 1 on 2: worker-left");
    let attempt = task(&mut world, job, 0).attempts.remove(1);
    assert!(attempt.started < Some(attempt.ended));
}

#[test]
fn an_attempt_that_is_ended_with_its_worker_says_so() {
    let mut world = World::new();
    let job = world.submit(1, |spec| spec.on_walltime = OnWalltime::Wait);
    world.worker_saying(2, 1, |hello| hello.config.time_limit = Some(Duration::from_secs(100)));
    world.reports(2, |r| r.started = vec![Started { at: world_start(), ..started(job, 0, 0) }]);
    world.wait(Duration::from_secs(100));
    world.reports(2, |r| {
        r.is_leaving = true;
        r.interrupted = vec![(job, IdSet::range(0, 0))];
    });
    assert_eq!(told(&mut world, job, 0), "0 on 1: walltime");
}

fn world_start() -> Timestamp {
    Timestamp(1_000_000)
}

#[test]
fn of_two_attempts_the_one_that_did_not_finish_is_told() {
    for (winner, loser, instance, told_of) in
        [(3, 2, 1, "0 on 1: superseded"), (2, 3, 0, "1 on 2: superseded")]
    {
        let mut world = World::new();
        world.worker(2, 8);
        let factor: SpeculateFactor = "3".parse().expect("a factor");
        let job = world.submit(8, |spec| spec.speculate = Some(factor));
        world.worker(3, 4);
        world.reports(2, |r| r.started = (0..8).map(|task| started(job, task, 0)).collect());
        world.reports(2, |r| r.finished = vec![finished(job, 0, 5, 0)]);
        world.wait(Duration::from_secs(4));
        world.reports(3, |r| r.started = vec![started(job, 6, 1), started(job, 7, 1)]);
        world.reports(winner, |r| r.finished = vec![finished(job, 6, 6, instance)]);
        assert_eq!(told(&mut world, job, 6), told_of);
        // The other task: one attempt fails, and its task is canceled.
        world.reports(loser, |r| r.failed = vec![(job, failed(7, 1 - instance, 9))]);
        assert!(told(&mut world, job, 7).ends_with(": failed exit code 9"), "{}", told(&mut world, job, 7));
        world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
        world.restart();
        assert_eq!(told(&mut world, job, 6), told_of);
    }
}

#[test]
fn the_last_ones_of_a_task_are_kept_and_a_bounded_number_of_all() {
    let mut world = World::new();
    let job = world.submit(100_000, |_| {});
    world.is_unchecked = true;
    let attempt = |task: u32, instance: u32| PastAttempt {
        task: TaskId(task),
        instance: Instance(instance),
        worker: None,
        nodes: Vec::new(),
        started: None,
        ended: Timestamp(1),
        end: AttemptEnd::WorkerLost,
        error: "x".repeat(200),
    };
    let instances = |state: &State, task: u32| {
        let all = state.attempts.of(TaskRef::new(job, TaskId(task)));
        all.map(|attempt| attempt.instance.0).collect::<Vec<_>>()
    };
    let mut state = world.fold.clone();
    let add = |state: &mut State, task, instance| {
        state.apply(Timestamp(1), &Record::AttemptsEnded { job, attempts: vec![attempt(task, instance)] });
    };
    for instance in 0..12 {
        add(&mut state, 5, instance);
        add(&mut state, 5, instance);
    }
    assert_eq!(instances(&state, 5), (4..12).collect::<Vec<_>>());
    assert_eq!(instances(&state, 5).len(), ATTEMPTS_OF_TASK_MAX);
    for task in 6..50_000 {
        add(&mut state, task, 0);
    }
    assert!(state.attempts.bytes() <= ATTEMPTS_BYTES_MAX);
    assert_eq!((instances(&state, 5), instances(&state, 49_999)), (vec![], vec![0]));
    assert_eq!(compacted(&state).attempts, state.attempts);
    state.apply(Timestamp(2), &Record::JobForgotten { job });
    assert_eq!((state.attempts.bytes(), state.attempts.all().count()), (0, 0));
}
