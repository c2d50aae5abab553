//! A past of a minute, replayed.

use std::time::Duration;

use hq_core::alloc::messages::{AllocRequest, AllocResponse};
use hq_core::client_messages::{ClientRequest, ClientResponse, Overview};
use hq_core::measures::MeasuresWriter;
use hq_core::record::{FinishedSpan, Record};
use hq_core::worker_messages::WorkerEnd;
use hq_model::selector::Selector;
use hq_model::worker::WorkerConfig;
use hq_model::{
    Amount, AmountRequest, Body, Entries, Epoch, IdSet, Instance, JobId, JobSpec, Policy, Request,
    ResourceRequest, TaskSpec, TaskState, Timestamp, Usage, WorkerId, WorkerResources,
};

use super::Replayer;

const JOB: JobId = JobId(1);
const WORKER: WorkerId = WorkerId(1);

fn at(seconds: u64) -> Timestamp {
    Timestamp(1_780_000_000_000_000 + seconds * 1_000_000)
}

fn finished(first: u32, last: u32) -> Record {
    let mut measures = MeasuresWriter::new(false);
    for _ in first..=last {
        measures.push(at(10), &Usage { wall_us: 1_000_000, ..Usage::default() });
    }
    let span = FinishedSpan {
        job: JOB,
        instance: Instance(0),
        ids: IdSet::range(first, last),
        measures: measures.finish(),
        results: Entries::default(),
        variant: None,
    };
    Record::Finished { worker: WORKER, span }
}

fn records() -> Vec<(Timestamp, Record)> {
    let amount = AmountRequest::Some(Amount::whole(2), Policy::Compact);
    let request =
        Request { resources: vec![ResourceRequest { name: "cpus".into(), amount }], ..Request::default() };
    let task = TaskSpec { body: Body::program(["true"]), requests: vec![request], ..TaskSpec::default() };
    let submitted = Record::Submitted {
        job: JOB,
        key: 5,
        spec: Some(JobSpec { name: "score".into(), ..JobSpec::default() }),
        ids: IdSet::range(1, 4),
        entries: Entries::default(),
        entries_gone: Default::default(),
        keys: Entries::default(),
        dependencies: Default::default(),
        task: task.into(),
        submit_dir: b"/home".to_vec(),
    };
    let joined = Record::WorkerJoined {
        worker: WORKER,
        config: Box::new(WorkerConfig::new(WorkerResources::cpus(4))),
        secret: None,
    };
    let started = Record::ServerStarted { epoch: Epoch(1), uid: "abc".into(), release: "0.1.0".into() };
    vec![
        (at(0), started),
        (at(5), submitted),
        (at(10), joined),
        (at(20), Record::Leased { worker: WORKER, job: JOB, ids: IdSet::range(1, 2) }),
        (at(30), finished(1, 2)),
        // A clock that went back: order counts.
        (at(29), Record::Leased { worker: WORKER, job: JOB, ids: IdSet::range(3, 4) }),
        (at(50), finished(3, 4)),
        (at(60), Record::WorkerEnded { worker: WORKER, end: WorkerEnd::Stopped, is_away: false }),
    ]
}

fn replayer() -> Replayer {
    Replayer::new(records(), None).expect("records")
}

fn overview(replayer: &mut Replayer) -> Overview {
    match replayer.ask(ClientRequest::Overview { seen: None }) {
        Ok(ClientResponse::Overview(overview)) => *overview,
        other => panic!("{other:?}"),
    }
}

// What is shown at a second: tasks that wait, run and have finished, CPUs that are taken and offered.
fn seen(replayer: &mut Replayer, second: u64) -> (u64, u64, u64, Option<(u64, u64)>) {
    replayer.seek(second as f64 / 60.0);
    let Overview { tasks, resources, .. } = overview(replayer);
    let cpus = resources.first().map(|cpus| (cpus.taken.wholes(), cpus.offered.wholes()));
    (tasks.waiting, tasks.running, tasks.finished, cpus)
}

#[test]
fn every_moment_is_shown_as_it_was_forward_and_back() {
    let mut replayer = replayer();
    let moments = [
        (0, (0, 0, 0, None)),
        (7, (4, 0, 0, None)),
        (12, (4, 0, 0, Some((0, 4)))),
        (25, (2, 2, 0, Some((4, 4)))),
        (35, (0, 2, 2, Some((4, 4)))),
        (55, (0, 0, 4, Some((0, 4)))),
        (60, (0, 0, 4, None)),
    ];
    for (second, expected) in moments.iter().chain(moments.iter().rev()) {
        assert_eq!(seen(&mut replayer, *second), *expected, "after {second} s");
    }
}

#[test]
fn time_passes_as_fast_as_it_is_told_and_stands_still_when_paused() {
    let mut replayer = replayer();
    assert_eq!(replayer.replay().speed, 1.0);
    assert!(replayer.pass(Duration::from_secs(10)));
    assert_eq!(replayer.replay().at, at(10));
    replayer.speed(4.0);
    replayer.pass(Duration::from_secs(5));
    assert_eq!(replayer.replay().at, at(30));
    replayer.pause();
    assert!(!replayer.pass(Duration::from_secs(5)));
    replayer.pause();
    replayer.pass(Duration::from_secs(500));
    assert_eq!(replayer.replay().at, at(60), "the end is the end");
    assert!(!replayer.pass(Duration::from_secs(5)));
    replayer.pause();
    assert_eq!(replayer.replay().at, at(0), "it begins again");
}

#[test]
fn the_series_knows_the_whole_past_and_shows_what_has_been() {
    let mut replayer = replayer();
    assert_eq!(replayer.series().span(), Duration::ZERO);
    replayer.seek(0.5);
    let span = replayer.series().span().as_secs_f64();
    assert!((29.0..=30.0).contains(&span), "{span}");
}

#[test]
fn screens_are_answered_as_by_a_server() {
    let mut replayer = replayer();
    replayer.seek(25.0 / 60.0);
    let latest =
        ClientRequest::LatestJobs { states: Vec::new(), text: "sco".into(), before: None, limit: 10 };
    match replayer.ask(latest) {
        Ok(ClientResponse::JobList(jobs)) => {
            assert_eq!((jobs[0].counters.running, jobs[0].counters.waiting), (2, 2));
        }
        other => panic!("{other:?}"),
    }
    let workers = ClientRequest::ListWorkers { workers: Selector::All, filter: Default::default() };
    match replayer.ask(workers) {
        Ok(ClientResponse::Workers(workers)) => {
            assert_eq!((workers[0].tasks_running, workers[0].taken.first()), (2, Some(&Amount::whole(4))));
        }
        other => panic!("{other:?}"),
    }
    let tasks = ClientRequest::ListTasks {
        jobs: crate::jobs::only([JobId(1)]),
        tasks: None,
        states: vec![TaskState::Running],
        after: None,
        limit: 10,
        grouped: false,
        with_entries: false,
    };
    match replayer.ask(tasks) {
        Ok(ClientResponse::Tasks { tasks, .. }) => {
            assert_eq!(tasks.len(), 2, "{tasks:?}");
            assert!(
                tasks.iter().all(|(_, task)| task.worker.is_some() && task.started.is_none()),
                "{tasks:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(seen(&mut replayer, 25), (2, 2, 0, Some((4, 4))), "no task counts twice");
    let queues = replayer.ask(ClientRequest::Alloc(AllocRequest::List));
    assert!(matches!(queues, Ok(ClientResponse::Alloc(AllocResponse::Queues(_)))), "{queues:?}");
    let job = ClientRequest::JobFailures { jobs: crate::jobs::only([JobId(9)]), from: None };
    assert!(replayer.ask(job).is_err_and(|why| why.contains("Job 9 not found")));
    assert!(Replayer::new(Vec::new(), None).is_none());
}
