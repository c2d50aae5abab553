//! Tasks that take longer than their workers live.

use hq_model::allocation::{BatchState, QueueParams};
use hq_model::task::OnWalltime;

use super::*;
use crate::alloc::messages::{AllocRequest, AllocResponse};
use crate::alloc::{BatchOrder, BatchReport};
use crate::client_messages::{NewJob, NewTasks};
use crate::explanation::ReasonKind;

const MINUTE: Duration = Duration::from_secs(60);

fn params(minutes: u32) -> QueueParams {
    QueueParams {
        manager: "slurm".into(),
        backlog: 1,
        max_workers_per_alloc: 1,
        time_limit: MINUTE * minutes,
        resources: config(1).resources.pools,
        ..QueueParams::default()
    }
}

impl World {
    fn with_queue(minutes: u32) -> World {
        let mut world = World::new();
        let request = AllocRequest::Add { params: Box::new(params(minutes)), dry_run: false };
        world.ask(ClientRequest::Alloc(request));
        world
    }

    fn asks(&mut self) -> usize {
        self.batch.drain(..).filter(|order| matches!(order, BatchOrder::Submit { .. })).count()
    }

    // An allocation is asked for and comes; its worker starts the task of a job.
    fn comes_and_starts(&mut self, number: u32, job: JobId, instance: u32) {
        self.wait(MINUTE);
        let allocation = hq_model::AllocationRef::new(hq_model::QueueId(1), number);
        let batch_id = format!("{}", 99 + number);
        self.step(Input::Batch(BatchReport::Submitted { allocation, batch_id }));
        let limit = self.fold.alloc.queues[&hq_model::QueueId(1)].params.time_limit;
        self.worker_saying(u64::from(number) + 1, 1, |hello| {
            hello.config.origin = Some(allocation);
            hello.config.time_limit = Some(limit);
        });
        self.reports(u64::from(number) + 1, |r| r.started = vec![started(job, 0, instance)]);
    }

    fn time_is_over(&mut self, number: u32, job: JobId) {
        let limit = self.fold.alloc.queues[&hq_model::QueueId(1)].params.time_limit;
        self.wait(limit);
        self.reports(u64::from(number) + 1, |r| {
            r.is_leaving = true;
            r.interrupted = vec![(job, IdSet::range(0, 0))];
        });
        self.says(u64::from(number) + 1, FromWorker::Leaving { end: WorkerEnd::TimeLimit });
        self.wait(MINUTE / 20);
        let states = Ok(vec![(format!("{}", 99 + number), BatchState::Finished.into())]);
        self.step(Input::Batch(BatchReport::States { manager: "slurm".into(), states }));
    }

    fn why_it_waits(&mut self, job: JobId) -> (ReasonKind, String) {
        let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
        let request = ClientRequest::ExplainTask { jobs: jobs.clone(), task: TaskId(0) };
        let ClientResponse::Explained(task) = self.ask(request) else { panic!("an explanation") };
        let ClientResponse::ExplainedJobs(of_job) = self.ask(ClientRequest::ExplainJobs { jobs }) else {
            panic!("an explanation")
        };
        let [one] = &task.reasons[..] else { panic!("{:?}", task.reasons) };
        assert_eq!(of_job[0].groups[0].reasons[0].text, one.text, "the job says the same");
        (one.kind, one.text.clone())
    }

    fn stuck(&mut self, job: JobId) -> u64 {
        let ClientResponse::JobList(jobs) = self.ask(ClientRequest::ListJobs { states: Vec::new() }) else {
            panic!("a list")
        };
        jobs.iter().find(|summary| summary.job == job).map_or(0, |summary| summary.unrunnable)
    }
}

fn lost_and_used(world: &mut World) -> (u64, u64) {
    let request = ClientRequest::Alloc(AllocRequest::Info { queue: hq_model::QueueId(1) });
    let ClientResponse::Alloc(AllocResponse::Details { queue, .. }) = world.ask(request) else { panic!() };
    (queue.time.lost_us / 60_000_000, queue.time.used_us / 60_000_000)
}

#[test]
fn a_task_that_outlasts_two_workers_waits_for_one_that_lives_longer() {
    let mut world = World::with_queue(10);
    let job = world.submit(1, |_| {});
    for number in 1..=2 {
        world.comes_and_starts(number, job, number - 1);
        assert_eq!(world.stuck(job), 0);
        world.time_is_over(number, job);
    }
    assert_eq!(lost_and_used(&mut world), (20, 0), "nothing came of it");
    let words =
        "it takes longer than its workers live: 2 attempts of it began with workers of 10m and were ended";
    let (kind, text) = world.why_it_waits(job);
    assert!(kind == ReasonKind::Unfit && text.starts_with(words), "{text}");
    assert_eq!(world.stuck(job), 1);
    world.asks();
    world.wait(MINUTE * 60);
    assert_eq!(world.asks(), 0, "nothing more is asked for");
    world.restart();
    world.wait(MINUTE * 60);
    assert_eq!((world.asks(), world.why_it_waits(job).0), (0, ReasonKind::Unfit), "nor after a restart");
    // A queue with more time brings what it needs.
    let edited =
        AllocRequest::Edit { queue: hq_model::QueueId(1), params: Box::new(params(30)), dry_run: false };
    world.ask(ClientRequest::Alloc(edited));
    world.wait(MINUTE);
    assert_eq!((world.asks(), world.stuck(job)), (1, 0));
    world.comes_and_starts(3, job, 2);
    world.reports(4, |r| r.finished = vec![super::finished(job, 0, 0, 2)]);
    assert_eq!(world.states(job), "finished: 1 finished");
}

#[test]
fn a_task_that_outlasts_two_workers_fails_when_it_is_told_to() {
    let mut world = World::with_queue(10);
    let job = world.submit(1, |task| task.on_walltime = OnWalltime::Fail);
    for number in 1..=2 {
        world.comes_and_starts(number, job, number - 1);
        world.time_is_over(number, job);
    }
    assert_eq!(world.states(job), "failed: 1 failed");
    let failure = &world.fold.jobs[&job].failures[&TaskId(0)].1;
    assert!(failure.error.starts_with("it takes longer than its workers live: 2 attempts"), "{failure:?}");
}

#[test]
fn a_worker_that_lives_longer_takes_what_waits_for_it() {
    let mut world = World::with_queue(10);
    let job = world.submit(1, |_| {});
    for number in 1..=2 {
        world.comes_and_starts(number, job, number - 1);
        world.time_is_over(number, job);
    }
    world.worker_saying(8, 1, |hello| hello.config.time_limit = Some(MINUTE * 10));
    assert_eq!(world.sent(8), "", "it is as short as those before");
    world.says(8, FromWorker::Leaving { end: WorkerEnd::IdleTimeout });
    world.worker(9, 1);
    assert_eq!(world.sent(9), "1:0/2");
}

#[test]
fn of_two_queues_the_one_with_more_time_is_asked_for_what_outlasted_the_other() {
    let mut world = World::with_queue(10);
    let long = AllocRequest::Add { params: Box::new(params(60)), dry_run: false };
    world.ask(ClientRequest::Alloc(long));
    let second = hq_model::QueueId(2);
    world.ask(ClientRequest::Alloc(AllocRequest::Pause { queue: second }));
    let job = world.submit(1, |_| {});
    for number in 1..=2 {
        world.comes_and_starts(number, job, number - 1);
        world.time_is_over(number, job);
    }
    world.asks();
    world.wait(MINUTE * 60);
    assert_eq!((world.asks(), world.stuck(job)), (0, 1), "a queue that is paused brings nobody");
    world.ask(ClientRequest::Alloc(AllocRequest::Resume { queue: second }));
    world.wait(MINUTE);
    let asked = world.batch.drain(..).filter_map(|order| match order {
        BatchOrder::Submit { allocation, .. } => Some(allocation.queue),
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), [second]);
}

#[test]
fn what_began_late_on_a_worker_is_not_too_long_for_it() {
    let mut world = World::with_queue(10);
    let job = world.submit(1, |_| {});
    for number in 1..=4 {
        world.wait(MINUTE);
        let allocation = hq_model::AllocationRef::new(hq_model::QueueId(1), number);
        let batch_id = format!("{}", 99 + number);
        world.step(Input::Batch(BatchReport::Submitted { allocation, batch_id }));
        world.worker_saying(u64::from(number) + 1, 1, |hello| {
            hello.config.origin = Some(allocation);
            hello.config.time_limit = Some(MINUTE * 10);
        });
        world.wait(MINUTE * 2);
        let at = world.now;
        world.reports(u64::from(number) + 1, |r| {
            r.started = vec![Started { at, ..started(job, 0, number - 1) }];
        });
        world.time_is_over(number, job);
    }
    assert_eq!(world.stuck(job), 0);
    world.wait(MINUTE);
    assert_eq!(world.asks(), 5, "it is tried again");
}

#[test]
fn what_is_expected_to_take_longer_than_workers_live_is_warned_of_at_submit() {
    for (expected, warnings) in [(8, 0), (9, 0), (10, 1), (60, 1)] {
        let mut world = World::with_queue(10);
        let mut spec = one_cpu();
        spec.expected = Some(MINUTE * expected);
        let submit = Submit::new(Target::New(JobSpec::default()), TaskIds::Next(1), spec);
        let ClientResponse::Submitted { warnings: said, .. } = world.answer_to(submit) else { panic!() };
        assert_eq!(said.len(), warnings, "{said:?}");
        if let Some(text) = said.first() {
            assert!(text.contains("(--expect)") && text.contains("has more than 9m 30s for them"), "{text}");
        }
    }
}

#[test]
fn a_generator_goes_on_however_many_workers_it_outlasts() {
    let mut world = World::new();
    let own = |name: &str| {
        let spec = TaskSpec {
            body: Body::program(["hq"]),
            requests: vec![Request::default()],
            on_walltime: OnWalltime::Fail,
            ..TaskSpec::default()
        };
        let job = JobSpec { name: name.into(), ..JobSpec::default() };
        Box::new(Submit::new(Target::New(job), TaskIds::Given(IdSet::range(0, 0)), spec))
    };
    let spec = JobSpec { name: "search".into(), ..JobSpec::default() };
    let tasks = NewTasks::Fed { generator: own("search: generate"), reducer: Some(own("search: reduce")) };
    let jobs = vec![NewJob { spec, after: Vec::new(), takes: Vec::new(), tasks }];
    world.ask(ClientRequest::SubmitJobs { key: 9, jobs });
    let feeders = [JobId(1), JobId(2)];
    for instance in 0..4 {
        let connection = 2 + u64::from(instance);
        world.worker_saying(connection, 1, |hello| hello.config.time_limit = Some(MINUTE * 10));
        assert_eq!(world.sent(connection), format!("1:0/{instance} 2:0/{instance}"));
        world.reports(connection, |r| r.started = feeders.map(|job| started(job, 0, instance)).to_vec());
        world.wait(MINUTE * 10);
        world.reports(connection, |r| {
            r.is_leaving = true;
            r.interrupted = feeders.map(|job| (job, IdSet::range(0, 0))).to_vec();
        });
        world.says(connection, FromWorker::Leaving { end: WorkerEnd::TimeLimit });
        world.wait(MINUTE / 60);
    }
    assert_eq!(feeders.map(|job| world.states(job)), ["waiting: 1 waiting", "waiting: 1 waiting"]);
}
