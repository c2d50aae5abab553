//! What becomes of objects when servers die, workers come back and stores lose files.

use hq_model::WorkerId;

use super::objects::{PRODUCER, READER, copy, leaves, leaves_once, object, stored, takes};
use super::*;
use crate::object_messages::{ObjectEnd, ObjectNews};
use crate::server::Keep;
use crate::worker_messages::{Held, TemplateId};

fn comes_back(world: &mut World, connection: u64, last_report: u64) {
    world.worker_saying(connection, 1, |hello| {
        hello.known_as = Some(WorkerId(1));
        hello.objects = vec![copy("1@0:parts", 0)];
        hello.last_report = last_report;
    });
}

#[test]
fn what_a_report_that_is_to_come_calls_left_is_not_freed() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    assert_eq!(world.sent(1), "1:0/0");
    // The task ends while there is no server.
    world.restart();
    comes_back(&mut world, 2, 1);
    world.leaves_object(2, 0, 0);
    assert_eq!(world.sent(2), "");
    world.submit(1, takes("in=1@0:parts"));
    assert_eq!(world.sent(2), "2:0/0");
}

#[test]
fn where_a_copy_was_damaged_is_said() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves_once);
    world.leaves_object(1, 0, 0);
    let damaged = ObjectNews { damaged: vec![object("1@0:parts")], ..ObjectNews::default() };
    world.reports(1, |report| report.objects = Some(Box::new(damaged)));
    let known = world.server.state.objects.get(&object("1@0:parts")).expect("known");
    assert!(known.is_gone);
    let ObjectEnd::Lost(why) = world.server.state.objects.why_gone(&object("1@0:parts")).expect("gone")
    else {
        panic!("lost")
    };
    assert!(why.contains("it was last on worker 1 (") && why.contains("where its copy was damaged"), "{why}");
}

#[test]
fn what_a_report_says_a_second_time_is_not_freed() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    let left = Report { number: 1, objects: stored("1@0:parts", 0), ..Report::default() };
    world.says(1, FromWorker::Report(left.clone()));
    world.sent(1);
    world.restart();
    world.worker_saying(2, 1, |hello| {
        hello.known_as = Some(WorkerId(1));
        hello.objects = vec![copy("1@0:parts", 0)];
        hello.holds = vec![Held {
            template: TemplateId { job: PRODUCER, submit: 0 },
            instance: Instance(0),
            variant: Some(0),
            queued: IdSet::new(),
            running: IdSet::range(0, 0),
            started: vec![Timestamp(1)],
        }];
        hello.last_report = 1;
    });
    world.says(2, FromWorker::Report(left));
    assert_eq!(world.sent(2), "");
}

#[test]
fn what_was_lost_before_it_was_told_of_is_gone() {
    let mut world = World::new();
    world.worker(1, 1);
    world.worker(2, 1);
    world.submit(1, leaves_once);
    world.submit(1, takes("in=1@0:parts"));
    world.restart();
    comes_back(&mut world, 3, 1);
    // The other one may come back, but not with that.
    world.reports(3, |report| report.finished = vec![finished(PRODUCER, 0, 0, 0)]);
    assert_eq!(world.states(PRODUCER), "finished: 1 finished");
    assert_eq!(world.states(READER), "aborted: 1 aborted");
    let reason = &world.server.state().jobs[&READER].abort_reasons[0].1;
    assert!(reason.starts_with("Object 1@0:parts is gone, which this task takes: "), "{reason}");
}

#[test]
fn what_a_worker_has_that_was_given_up_is_freed() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves_once);
    world.leaves_object(1, 0, 0);
    world.step(Input::WorkerGone { connection: ConnectionId(1), is_closed: true });
    world.wait(Duration::from_secs(3600));
    let gone = world.server.state().objects.why_gone(&object("1@0:parts")).cloned();
    assert!(matches!(gone, Some(ObjectEnd::Lost(_))), "{gone:?}");
    comes_back(&mut world, 2, 0);
    assert_eq!(world.sent(2), "free 1@0:parts");
}

#[test]
fn what_an_attempt_that_does_not_count_has_replaced_is_lost_and_freed() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves_once);
    world.leaves_object(1, 0, 0);
    world.sent(1);
    // It was told to stop, and has stored this before it heard of that: its store keeps the later one.
    crate::mark::take();
    world.reports(1, |report| report.objects = stored("1@0:parts", 1));
    assert!(
        crate::mark::take().contains("an attempt that does not count has taken the place of what is meant")
    );
    assert_eq!(world.sent(1), "free 1@0:parts");
    assert!(world.server.state().objects.get(&object("1@0:parts")).expect("known").is_gone);
}

#[test]
fn what_is_left_once_more_for_a_forgotten_job_is_freed() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    world.submit(1, takes("in=1@0:parts"));
    world.worker(2, 1);
    assert_eq!(world.sent(2), "3:0/0", "it is left once more");
    world.starts(2, JobId(3), 0);
    let jobs = |id: u32| Selector::Ids(IdSet::single(TaskId(id)));
    world.ask(ClientRequest::Cancel { jobs: jobs(2), tasks: None, reason: None });
    let forgotten = world.ask(ClientRequest::ForgetJobs { jobs: jobs(1), states: Vec::new() });
    assert_eq!(forgotten, ClientResponse::Jobs(vec![PRODUCER]));
    world.sent(2);
    crate::mark::take();
    world.reports(2, |report| {
        report.objects = stored("1@0:parts", 1);
        report.finished = vec![finished(JobId(3), 0, 0, 0)];
    });
    assert!(crate::mark::take().contains("an object is left once more for a forgotten job"));
    assert_eq!(world.sent(2), "free 1@0:parts");
}

#[test]
fn a_job_is_not_forgotten_whose_objects_others_take() {
    let forget = |world: &mut World| {
        let jobs = Selector::Ids(IdSet::range(1, 1));
        world.ask(ClientRequest::ForgetJobs { jobs, states: Vec::new() })
    };
    let mut world = World::with(ServerOptions {
        keep_jobs: Keep { jobs: Some(0), time: None },
        ..ServerOptions::default()
    });
    world.worker(1, 1);
    // There is no room for this one.
    world.submit_as(JobSpec::default(), 1, leaves);
    world.submit(1, |spec| {
        takes("in=1@0:parts")(spec);
        spec.requests = vec![cpus(2)];
    });
    world.leaves_object(1, 0, 0);
    assert!(matches!(forget(&mut world), ClientResponse::Error(_)));
    world.wait(Duration::from_secs(1));
    assert!(world.server.state().jobs.contains_key(&PRODUCER));
    let jobs = Selector::Ids(IdSet::range(2, 2));
    world.ask(ClientRequest::Cancel { jobs, tasks: None, reason: None });
    world.wait(Duration::from_secs(1));
    assert!(!world.server.state().jobs.contains_key(&PRODUCER));
    assert!(world.sent(1).ends_with("free 1@0:parts"));
}

#[test]
fn a_hundred_thousand_objects_have_a_reader_each() {
    const TASKS: u32 = 100_000;
    let mut world = World { is_unchecked: true, ..World::new() };
    world.worker(1, TASKS);
    let job = world.submit(TASKS, leaves_once);
    let reader = world.submit(TASKS, takes("in=1@%{TASK_ID}:parts"));
    for first in (0..TASKS).step_by(1000) {
        world.reports(1, |report| {
            let stored = (first..first + 1000).map(|task| copy(&format!("1@{task}:parts"), 0)).collect();
            report.objects = Some(Box::new(ObjectNews { stored, ..ObjectNews::default() }));
            report.finished = vec![finished(job, first, first + 999, 0)];
        });
    }
    let told = |world: &mut World| {
        let sent = world.to_workers.drain(..).map(|(_, message)| match message {
            ToWorker::Run(batches) => batches.iter().map(|batch| batch.objects.len()).sum(),
            _ => 0,
        });
        sent.sum::<usize>()
    };
    assert_eq!(told(&mut world), TASKS as usize);
    // It has lost half of them, and says so when it comes back; then it is gone for good.
    let held: Vec<_> = (0..TASKS / 2).map(|task| copy(&format!("1@{task}:parts"), 0)).collect();
    world.worker_saying(2, TASKS, |hello| {
        hello.known_as = Some(WorkerId(1));
        hello.objects = held;
    });
    let gone = |world: &World| {
        world
            .server
            .state()
            .objects
            .iter()
            .filter(|(task, _, object)| task.job == job && object.is_gone)
            .count()
    };
    assert_eq!(gone(&world), TASKS as usize / 2);
    world.says(2, FromWorker::Leaving { end: WorkerEnd::Stopped });
    assert_eq!(gone(&world), TASKS as usize);
    assert_eq!(world.states(reader), format!("aborted: {TASKS} aborted"));
    world.ask(ClientRequest::ForgetJobs { jobs: Selector::All, states: Vec::new() });
    assert_eq!(world.server.state().objects.iter().count(), 0);
}

#[test]
fn a_hundred_thousand_tasks_each_take_the_object_of_the_one_before() {
    const LINKS: u32 = 100_000;
    let mut world = World { is_unchecked: true, ..World::new() };
    world.worker(1, 1);
    let spec = JobSpec::default();
    world.ask(ClientRequest::OpenJob { key: 7, spec });
    for first in (0..LINKS).step_by(1000) {
        let link = |task: u32| {
            let mut spec = one_cpu();
            leaves_once(&mut spec);
            if let Some(before) = task.checked_sub(1) {
                takes(&format!("in=@{before}:parts"))(&mut spec);
            }
            Submit::new(Target::Open(PRODUCER), TaskIds::Next(1), spec)
        };
        let submits = (first..first + 1000).map(link).collect();
        world.ask(ClientRequest::SubmitAll { key: 100 + u128::from(first), submits });
    }
    for task in 0..100 {
        world.leaves_object(1, task, 0);
    }
    // The last link is lost, and all that hang on it are given up.
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    world.ask(ClientRequest::CloseJobs { jobs: Selector::All });
    assert_eq!(world.states(PRODUCER), format!("aborted: 100 finished, {} aborted", LINKS - 100));
}

#[test]
fn what_is_lost_together_is_left_once_more_by_one_job() {
    const TASKS: u32 = 2000;
    let mut world = World { is_unchecked: true, ..World::new() };
    world.worker(1, TASKS);
    let job = world.submit(TASKS, leaves);
    world.reports(1, |report| {
        let stored = (0..TASKS).map(|task| copy(&format!("1@{task}:parts"), 0)).collect();
        report.objects = Some(Box::new(ObjectNews { stored, ..ObjectNews::default() }));
        report.finished = vec![finished(job, 0, TASKS - 1, 0)];
    });
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    world.submit(TASKS / 2, takes("in=1@%{TASK_ID}:parts"));
    let jobs = &world.server.state().jobs;
    assert_eq!((jobs.len(), jobs[&JobId(3)].spec.name.as_str()), (3, "rebuild 1@0-999"));
    world.worker(2, TASKS);
    assert_eq!(world.sent(2), "3:0-999/0");
}

#[test]
fn what_is_of_an_earlier_attempt_stays_while_another_one_is_to_leave_it_there() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    world.submit(1, takes("in=1@0:parts"));
    world.worker(2, 1);
    assert_eq!(world.sent(2), "3:0/0", "it is left once more");
    let earlier = copy("1@0:parts", 7);
    let stores = |report: &mut Report| {
        report.objects =
            Some(Box::new(ObjectNews { stored: vec![earlier.clone()], ..ObjectNews::default() }));
    };
    world.reports(2, stores);
    assert_eq!(world.sent(2), "", "what is about to be stored there would be freed");
    world.reports(2, |report| report.returned.push((JobId(3), IdSet::single(TaskId(0)))));
    assert!(world.sent(2).contains("free 1@0:parts"));
}
