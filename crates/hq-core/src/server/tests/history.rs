//! What is kept of the past: by the rule of retention, and over a compaction after any history.

use std::time::Duration;

use hq_model::job::{Target, TaskIds};
use hq_model::selector::Selector;
use hq_model::{Body, IdSet, JobId, JobSpec, Submit, TaskId, TaskSpec};
use proptest::collection::vec;
use proptest::prelude::*;

use hq_model::dependency::{After, Condition, Edges, Mapping};

use super::graphs::restarted;
use super::*;
use crate::record::Record;
use crate::server::Keep;
use hq_model::Epoch;

fn kept(world: &mut World) -> Vec<u32> {
    world.server.state().jobs.keys().map(|job| job.0).collect()
}

pub(super) fn with(keep_jobs: Keep) -> World {
    let mut world = World::new();
    world.server = Server::new(ServerOptions { keep_jobs, ..ServerOptions::default() });
    world.fold = State::default();
    let mut effects = Vec::new();
    world.server.start(world.now, "abc123".into(), &mut effects);
    world.take(effects);
    world
}

#[test]
fn the_latest_ended_jobs_are_kept() {
    let mut world = with(Keep { jobs: Some(2), time: None });
    world.worker(2, 8);
    let jobs: Vec<JobId> = (0..5).map(|_| world.submit(1, |_| {})).collect();
    for job in [3, 0, 4, 1] {
        world.reports(2, |r| r.finished = vec![finished(jobs[job], 0, 0, 0)]);
    }
    assert_eq!(kept(&mut world), [2, 3, 5], "those that ended last, and what has not ended");
    assert_eq!(world.submit(1, |_| {}), JobId(6), "ids are not given again");
}

#[test]
fn ended_jobs_are_kept_for_a_time() {
    let mut world = with(Keep { jobs: None, time: Some(Duration::from_secs(60)) });
    let job = world.submit(1, |_| {});
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    world.ask(ClientRequest::Cancel { jobs, tasks: None, reason: None });
    world.wait(Duration::from_secs(59));
    assert_eq!(kept(&mut world), [1]);
    let at = world.server.next_wakeup().expect("the end of its time");
    world.now = at;
    world.step(Input::Tick);
    assert_eq!(kept(&mut world), []);
}

const DAY: Duration = Duration::from_secs(24 * 3600);

fn jump(world: &mut World, days: u32) {
    world.now = world.now.after(days * DAY);
    world.restart();
    world.step(Input::Tick);
}

#[test]
fn a_clock_that_jumps_ahead_at_a_restart_forgets_nothing() {
    let mut world = World::new();
    world.submit(1, |_| {});
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    jump(&mut world, 60);
    assert_eq!(kept(&mut world), [1], "a day of the sixty counts");
    jump(&mut world, 0);
    jump(&mut world, 300);
    assert_eq!(kept(&mut world), [1], "whatever was skipped before stays skipped");
    // What a server sees pass counts as ever.
    world.wait(27 * DAY);
    assert_eq!(kept(&mut world), [1]);
    let at = world.server.next_wakeup().expect("the end of its time");
    world.wait(DAY);
    assert_eq!((kept(&mut world), at <= world.now), (vec![], true));
}

#[test]
fn what_ends_after_a_jump_is_kept_as_long_as_all_else() {
    let mut world = World::new();
    jump(&mut world, 60);
    world.submit(1, |_| {});
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    world.wait(29 * DAY);
    assert_eq!(kept(&mut world), [1]);
    world.wait(2 * DAY);
    assert_eq!(kept(&mut world), []);
}

#[test]
fn jumps_without_number_take_no_room_and_forget_nothing() {
    let mut world = World::new();
    world.submit(1, |_| {});
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    for _ in 0..crate::limits::TIME_GAPS_MAX + 5 {
        world.now = world.now.after(40 * DAY);
        let fold = &mut world.fold;
        let (epoch, uid, release) = (Epoch(fold.epoch.0 + 1), fold.uid.clone(), fold.release.clone());
        fold.apply(world.now, &Record::ServerStarted { epoch, uid, release });
    }
    assert_eq!(world.fold.gaps.len(), crate::limits::TIME_GAPS_MAX);
    let skipped = world.fold.skipped_since(Timestamp(0));
    assert_eq!(skipped, 39 * DAY * (crate::limits::TIME_GAPS_MAX as u32 + 5));
}

#[test]
fn ended_jobs_with_much_in_them_leave_first_when_they_are_too_much() {
    let mut world = World::new();
    world.is_unchecked = true;
    let large = |spec: &mut TaskSpec| spec.stdin = vec![b'x'; 30 << 20];
    for _ in 0..10 {
        world.submit(1, large);
        world.ask(ClientRequest::Cancel { jobs: Selector::Last, tasks: None, reason: None });
    }
    assert_eq!(kept(&mut world), (2..=10).collect::<Vec<_>>(), "256 MiB at most beside the last one");
}

#[test]
fn a_submit_beyond_what_all_may_take_is_refused_with_the_way_out() {
    let mut world = World::new();
    world.is_unchecked = true;
    let submit = |world: &mut World| {
        let spec = TaskSpec { stdin: vec![b'x'; 400 << 20], ..one_cpu() };
        world.answer_to(Submit::new(Target::New(JobSpec::default()), TaskIds::Next(1), spec))
    };
    for _ in 0..5 {
        assert!(matches!(submit(&mut world), ClientResponse::Submitted { .. }));
    }
    let ClientResponse::Error(error) = submit(&mut world) else { panic!("refused") };
    assert_eq!(error.code(), "full");
    assert_eq!(
        error.to_string(),
        "The submit takes 401 MiB beside the 2001 MiB that the submits of all jobs take already; the limit is 2048 \
         MiB. Forget ended jobs (`hq job forget`), or wait until some have ended."
    );
    let first = Selector::Ids(IdSet::single(TaskId(1)));
    world.ask(ClientRequest::Cancel { jobs: first.clone(), tasks: None, reason: None });
    world.ask(ClientRequest::ForgetJobs { jobs: first, states: Vec::new() });
    assert!(matches!(submit(&mut world), ClientResponse::Submitted { .. }));
}

#[test]
fn objects_count_with_the_submit_whose_tasks_leave_them() {
    let mut world = World::new();
    let submit = |world: &mut World, tasks| {
        let output_objects = vec!["a=a".parse().expect("an object"), "b=b".parse().expect("an object")];
        let spec = TaskSpec { output_objects, ..one_cpu() };
        world.answer_to(Submit::new(Target::New(JobSpec::default()), TaskIds::Next(tasks), spec))
    };
    let ClientResponse::Error(error) = submit(&mut world, 6_000_000) else { panic!("refused") };
    assert_eq!(error.code(), "full");
    assert!(error.to_string().starts_with("The submit takes 2289 MiB beside the 0 MiB"), "{error}");
    assert!(matches!(submit(&mut world, 1_000), ClientResponse::Submitted { .. }));
}

#[test]
fn error_texts_of_failures_are_bounded_by_their_bytes() {
    let mut world = World::new();
    world.is_unchecked = true;
    let job = world.submit(10_000, |_| {});
    world.worker(2, 1);
    let failures = (0..10_000).map(|task| {
        let failure = Failure { error: "e".repeat(crate::limits::ERROR_TEXT_MAX), ..failed(task, 0, 1) };
        (job, failure)
    });
    let mut state = world.server.state().clone();
    failures.for_each(|(job, failure)| state.apply(Timestamp(9), &Record::Failed { job, failure }));
    let bytes: usize = state.jobs[&job].failures.values().map(|failure| failure.1.bytes()).sum();
    assert!((31 << 20..=32 << 20).contains(&bytes), "{bytes}");
    state.apply(Timestamp(9), &Record::JobForgotten { job });
    assert_eq!(compacted(&state), state);
}

/// Something that happens to a server.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    Submit { count: u32, max_fails: Option<u64>, crash_limit: CrashLimit },
    After { job: u32, count: u32, any: bool, each: bool },
    Graph(Vec<Vec<u32>>),
    Open { is_draft: bool },
    ClientGone,
    SubmitToLast(u32),
    Close,
    Cancel { job: u32, task: Option<u32> },
    Forget(u32),
    Resubmit { job: u32, task: Option<u32>, failed: bool },
    Worker,
    Finish { worker: u64, share: u32 },
    Fail { worker: u64, retried: bool },
    Return { worker: u64 },
    Start { worker: u64 },
    Lose { worker: u64 },
    Wait(u64),
}

pub(super) fn deed() -> impl Strategy<Value = Deed> {
    use Deed::*;
    let limit =
        prop_oneof![Just(CrashLimit::Times(2)), Just(CrashLimit::NeverRestart), Just(CrashLimit::Unlimited)];
    let worker = || 10..14u64;
    prop_oneof![
        3 => (1..30u32, proptest::option::of(0..3u64), limit)
            .prop_map(|(count, max_fails, crash_limit)| Submit { count, max_fails, crash_limit }),
        3 => (1..8u32, 1..30u32, any::<bool>(), any::<bool>())
            .prop_map(|(job, count, any, each)| After { job, count, any, each }),
        2 => vec(vec(0..20u32, 0..3), 1..20).prop_map(Graph),
        1 => any::<bool>().prop_map(|is_draft| Open { is_draft }),
        1 => Just(ClientGone),
        1 => (1..9u32).prop_map(SubmitToLast),
        1 => Just(Close),
        1 => (1..8u32, proptest::option::of(0..9u32)).prop_map(|(job, task)| Cancel { job, task }),
        1 => (1..8u32).prop_map(Forget),
        2 => (1..9u32, proptest::option::of(0..9u32), any::<bool>())
            .prop_map(|(job, task, failed)| Resubmit { job, task, failed }),
        2 => Just(Worker),
        4 => (worker(), 1..4u32).prop_map(|(worker, share)| Finish { worker, share }),
        2 => (worker(), any::<bool>()).prop_map(|(worker, retried)| Fail { worker, retried }),
        1 => worker().prop_map(|worker| Return { worker }),
        2 => worker().prop_map(|worker| Start { worker }),
        1 => worker().prop_map(|worker| Lose { worker }),
        1 => (1..100u64).prop_map(Wait),
    ]
}

// What a worker holds, by job and instance.
fn held(world: &World, connection: u64) -> Vec<(JobId, IdSet, u32)> {
    let Some(worker) = world.server.worker_connections.get(&ConnectionId(connection)) else {
        return Vec::new();
    };
    let jobs = world.server.state().jobs.iter();
    jobs.filter_map(|(id, job)| Some((*id, job, job.leased.get(worker)?)))
        .flat_map(|(id, job, ids)| {
            job.by_instance(ids)
                .into_iter()
                .map(move |(instance, ids)| (id, ids, instance.0))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn only(job: u32) -> Selector {
    Selector::Ids(IdSet::single(TaskId(job)))
}

pub(super) fn happens(world: &mut World, deed: Deed) {
    match deed {
        Deed::Submit { count, max_fails, crash_limit } => {
            world.submit_as(JobSpec { max_fails, ..JobSpec::default() }, count, |spec| {
                spec.crash_limit = crash_limit;
                spec.retry = Retry { max: 1, delay: Duration::from_secs(5), ..Retry::default() };
            });
        }
        Deed::After { job, count, any, each } => {
            let mut after: After = job.to_string().parse().expect("a job");
            let mut count = count;
            if any {
                after.condition = Condition::AnyEnd;
            }
            if let (true, Some(job)) = (each, world.server.state().jobs.get(&JobId(job))) {
                after.mapping = Mapping::Window(count % 3);
                count = job.ids.len().max(1) as u32;
            }
            // Some of them are refused.
            let _ = world.graph(count, vec![after], Edges::default());
        }
        Deed::Graph(lists) => {
            let earlier = |(task, list): (usize, Vec<u32>)| -> Vec<TaskId> {
                list.into_iter().filter(|other| *other < task as u32).map(TaskId).collect()
            };
            let count = lists.len() as u32;
            let edges = Edges::new(lists.into_iter().enumerate().map(earlier)).expect("few");
            world.graph(count, Vec::new(), edges).expect("accepted");
        }
        Deed::ClientGone => {
            world.step(Input::ClientGone { connection: CLIENT });
        }
        Deed::Open { is_draft } => {
            let spec = JobSpec { name: "open".into(), is_draft, ..JobSpec::default() };
            world.ask(ClientRequest::OpenJob { key: world.key, spec });
        }
        Deed::SubmitToLast(count) => {
            let submit = Submit::new(
                Target::Open(world.server.state().last_job),
                TaskIds::Next(count),
                TaskSpec { body: Body::program(["x"]), requests: vec![cpus(1)], ..TaskSpec::default() },
            );
            world.answer_to(submit);
        }
        Deed::Close => {
            world.ask(ClientRequest::CloseJobs { jobs: Selector::All });
            // One that is a draft goes by its number.
            let last = IdSet::single(TaskId(world.server.state().last_job.0));
            world.ask(ClientRequest::CloseJobs { jobs: Selector::Ids(last) });
        }
        Deed::Cancel { job, task } => {
            let tasks = task.map(|task| IdSet::single(TaskId(task)));
            world.ask(ClientRequest::Cancel { jobs: only(job), tasks, reason: Some("why".into()) });
        }
        Deed::Forget(job) => {
            world.ask(ClientRequest::ForgetJobs { jobs: only(job), states: Vec::new() });
        }
        Deed::Resubmit { job, task, failed } => {
            let tasks = task.map(|task| IdSet::range(task, task + 2));
            let states = if failed { vec![hq_model::TaskState::Failed] } else { Vec::new() };
            world.key += 1;
            // Some are refused.
            world.ask(ClientRequest::Resubmit { key: world.key, jobs: only(job), tasks, states });
        }
        Deed::Worker => {
            let connection =
                (10..14).find(|c| !world.server.worker_connections.contains_key(&ConnectionId(*c)));
            if let Some(connection) = connection {
                world.worker(connection, 3);
            }
        }
        Deed::Finish { worker, share } => {
            for (job, mut ids, instance) in held(world, worker) {
                let some = ids.take_first(u64::from(share));
                let mut span = finished(job, 0, 0, instance);
                let mut measures = MeasuresWriter::new(true);
                some.iter().for_each(|_| measures.push(world.now, &Usage { wall_us: 9, ..Usage::default() }));
                (span.ids, span.measures) = (some, measures.finish());
                world.reports(worker, |r| r.finished = vec![span]);
            }
        }
        Deed::Fail { worker, retried } => {
            if let Some((job, ids, instance)) = held(world, worker).pop() {
                let task = ids.first().map_or(0, |task| task.0);
                let code = u8::from(retried);
                world.reports(worker, |r| r.failed = vec![(job, failed(task, instance, code))]);
            }
        }
        Deed::Return { worker } => {
            for (job, ids, _) in held(world, worker) {
                world.reports(worker, |r| r.returned = vec![(job, ids)]);
            }
        }
        Deed::Start { worker } => {
            for (job, ids, instance) in held(world, worker) {
                let task = ids.first().map_or(0, |task| task.0);
                world.reports(worker, |r| r.started = vec![started(job, task, instance)]);
            }
        }
        Deed::Lose { worker } => {
            world.step(Input::WorkerGone { connection: ConnectionId(worker), is_closed: false });
            world.wait(Duration::from_secs(31));
        }
        Deed::Wait(seconds) => world.wait(Duration::from_secs(seconds)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    // The world compares after each step: the fold with the live state, and a compacted journal with the fold.
    #[test]
    fn a_compacted_journal_rebuilds_the_present_after_any_history(deeds in vec(deed(), 1..60), few: bool) {
        let jobs = few.then_some(3);
        let mut world = with(Keep { jobs, time: Some(Duration::from_secs(300)) });
        for deed in deeds {
            happens(&mut world, deed);
        }
        let again = restarted(&world.fold);
        prop_assert_eq!(again.check(), Ok(()));
        for id in world.fold.jobs.keys() {
            prop_assert_eq!(again.readiness.blocked(*id), world.server.readiness.blocked(*id));
        }
    }
}
