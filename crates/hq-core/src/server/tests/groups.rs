//! Jobs that are submitted together, and may wait for each other.

use hq_model::TaskRef;
use hq_model::dependency::{After, Condition};
use hq_model::task::EndBy;

use super::*;
use crate::client_messages::{NewJob, NewTasks, RequestError, TakenBroadcast};
use crate::feed::{FeedOrder, FeedRequest};
use crate::mark;

fn job(name: &str, after: &[(u32, Condition)], count: u32) -> NewJob {
    let spec = JobSpec { name: name.into(), ..JobSpec::default() };
    let submit =
        Submit::new(Target::New(spec.clone()), TaskIds::Given(IdSet::range(0, count - 1)), one_cpu());
    let after =
        after.iter().map(|(place, condition)| After { condition: *condition, ..After::of(JobId(*place)) });
    NewJob { spec, after: after.collect(), takes: Vec::new(), tasks: NewTasks::Submits(vec![submit]) }
}

fn fed(name: &str, after: &[(u32, Condition)]) -> NewJob {
    let own = |what: &str| {
        let spec = JobSpec { name: format!("{name}: {what}"), ..JobSpec::default() };
        Box::new(Submit::new(Target::New(spec), TaskIds::Given(IdSet::range(0, 0)), no_cpu()))
    };
    let tasks = NewTasks::Fed { generator: own("generate"), reducer: Some(own("reduce")) };
    NewJob { tasks, ..job(name, after, 1) }
}

fn no_cpu() -> TaskSpec {
    TaskSpec { requests: vec![Request::default()], ..one_cpu() }
}

fn request(jobs: Vec<NewJob>) -> ClientRequest {
    ClientRequest::SubmitJobs { key: 5, jobs }
}

fn group() -> Vec<NewJob> {
    use Condition::{AnyEnd, Success};
    vec![job("a", &[], 2), fed("b", &[(0, Success)]), job("c", &[(1, AnyEnd)], 1)]
}

// `name state` of all jobs.
fn jobs(world: &mut World) -> Vec<String> {
    let ClientResponse::JobList(jobs) = world.ask(ClientRequest::ListJobs { states: Vec::new() }) else {
        panic!("a list")
    };
    jobs.iter().map(|job| format!("{} {} {}", job.job, job.name, job.state())).collect()
}

#[test]
fn jobs_that_are_submitted_together_wait_for_each_other() {
    let mut world = World::new();
    world.worker(2, 4);
    let made = ClientResponse::JobsSubmitted { jobs: [1, 4, 5].map(JobId).into(), warnings: Vec::new() };
    assert_eq!(world.ask(request(group())), made);
    assert_eq!(world.ask(request(group())), made, "asked again");
    let expected =
        ["1 a waiting", "2 b: generate waiting", "3 b: reduce waiting", "4 b opened", "5 c waiting"];
    assert_eq!(jobs(&mut world), expected);
    assert_eq!(world.sent(2), "1:0-1/0 3:0/0", "the generator waits, the reducer has nothing to wait for");
    world.reports(2, |r| r.finished = vec![finished(JobId(1), 0, 1, 0)]);
    assert_eq!(world.sent(2), "2:0/0");
    world.ask(ClientRequest::CloseJobs { jobs: Selector::Ids(IdSet::single(TaskId(4))) });
    assert_eq!(world.sent(2), "-2:0", "the generator of a closed job is of no use");
    world.reports(2, |r| r.finished = vec![finished(JobId(3), 0, 0, 0)]);
    assert_eq!(world.sent(2), "5:0/0", "any end");
    world.restart();
    assert_eq!(world.ask(request(group())), made, "asked again after a restart");
}

// A job that leaves an object for the one behind it.
fn with_broadcast() -> Vec<NewJob> {
    let mut first = job("broadcast genome", &[], 1);
    let NewTasks::Submits(submits) = &mut first.tasks else { panic!("tasks") };
    let output = "genome=/data/genome".parse().expect("an object");
    submits[0].spec = TaskSpec { output_objects: vec![output], ..one_cpu() }.into();
    let takes = vec![TakenBroadcast { job: 0, name: "genome".parse().expect("a name") }];
    vec![first, NewJob { takes, ..job("align", &[], 2) }]
}

#[test]
fn tasks_take_what_a_job_of_the_same_request_leaves() {
    let mut world = World::new();
    world.worker(2, 4);
    let made = ClientResponse::JobsSubmitted { jobs: [1, 2].map(JobId).into(), warnings: Vec::new() };
    assert_eq!(world.ask(request(with_broadcast())), made);
    let taken: Vec<String> = world.server.state().jobs[&JobId(2)].submits[0]
        .task
        .input_objects
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(taken, ["genome=1@0:genome->%{BROADCAST_DIR}/genome"]);
    assert_eq!(jobs(&mut world), ["1 broadcast genome waiting", "2 align waiting"]);
    let second = Selector::Ids(IdSet::single(TaskId(2)));
    let why = format!("{:?}", world.ask(ClientRequest::ExplainTask { jobs: second, task: TaskId(0) }));
    assert!(why.contains("it waits for the broadcast of genome, task 1@0"), "{why}");
}

#[test]
fn a_job_takes_nothing_of_those_behind_it() {
    let mut world = World::new();
    let mut refused = |jobs: Vec<NewJob>| match world.ask(request(jobs)) {
        ClientResponse::Error(RequestError::Invalid(text)) => text,
        other => panic!("{other:?}"),
    };
    let mut jobs = with_broadcast();
    jobs.reverse();
    assert!(refused(jobs).contains("takes objects of those before it"));
    let mut jobs = with_broadcast();
    jobs[1].tasks = fed("b", &[]).tasks;
    assert!(refused(jobs).contains("A generator takes objects that are there"));
    let mut jobs = with_broadcast();
    let NewTasks::Submits(submits) = &mut jobs[1].tasks else { panic!("tasks") };
    let several = vec![Request { nodes: 2, ..Request::default() }];
    submits[0].spec = TaskSpec { requests: several, ..one_cpu() }.into();
    assert!(refused(jobs).contains("A broadcast comes to one node of a task"));
}

#[test]
fn when_one_of_them_is_refused_none_is_there() {
    let mut world = World::new();
    world.worker(2, 4);
    let mut jobs_wanted = group();
    let NewTasks::Submits(submits) = &mut jobs_wanted[2].tasks else { panic!("tasks") };
    let other =
        hq_model::Dependencies { after: vec![After::of(JobId(99))], ..hq_model::Dependencies::default() };
    submits[0].dependencies = other.into();
    let ClientResponse::Error(error) = world.ask(request(jobs_wanted)) else { panic!("refused") };
    assert_eq!(error.to_string(), "Job `c`: Job 99 not found.");
    assert_eq!(jobs(&mut world), Vec::<String>::new());
    assert_eq!(world.sent(2), "");
    world.restart();
    assert_eq!(jobs(&mut world), Vec::<String>::new());
    let mut refused = |jobs: Vec<NewJob>| match world.ask(request(jobs)) {
        ClientResponse::Error(RequestError::Invalid(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(refused(Vec::new()).contains("1 to 1000 jobs"));
    assert!(refused(vec![job("a", &[(0, Condition::Success)], 1)]).contains("waits for those before it"));
    let empty = NewJob { tasks: NewTasks::Submits(Vec::new()), ..job("a", &[], 1) };
    assert!(refused(vec![empty]).contains("Job 1 of the request has no tasks"));
}

#[test]
fn a_server_that_is_killed_between_has_all_of_them_or_none() {
    let mut server = Server::new(ServerOptions::default());
    let mut effects = Vec::new();
    server.start(Timestamp(1), "abc123".into(), &mut effects);
    let input = Input::Client { connection: CLIENT, request: 1, body: request(group()) };
    server.handle(Timestamp(2), input, &mut effects);
    let persisted = effects.into_iter().filter_map(|effect| match effect {
        Effect::Persist { at, record } => Some((at, record)),
        _ => None,
    });
    let records: Vec<_> = persisted.collect();
    for cut in 1..=records.len() {
        let mut server = Server::new(ServerOptions::default());
        records[..cut].iter().for_each(|(at, record)| server.restore(*at, record));
        server.start(Timestamp(9), "abc123".into(), &mut Vec::new());
        let is_whole = cut == records.len();
        // Others try to close what is half there, before their maker asks once more.
        let ids = IdSet::range(1, 5);
        for jobs in if is_whole { vec![] } else { vec![Selector::All, Selector::Last, Selector::Ids(ids)] } {
            let body = ClientRequest::CloseJobs { jobs };
            let input = Input::Client { connection: ConnectionId(77), request: 1, body };
            server.handle(Timestamp(9), input, &mut Vec::new());
        }
        // Nobody goes on with them.
        let later = Timestamp(9).after(crate::limits::DRAFT_GRACE * 2);
        server.settle(later, &mut Vec::new());
        let jobs: Vec<u32> = server.state().jobs.keys().map(|job| job.0).collect();
        let expected = if cut < records.len() { vec![] } else { vec![1, 2, 3, 4, 5] };
        assert_eq!(jobs, expected, "{cut} of {} records", records.len());
    }
    assert!(mark::take().contains("a draft waits for a half made fed job"));
}

// What waits for the success of a fed job, and for any end of it.
fn group_with_waiters() -> Vec<NewJob> {
    use Condition::{AnyEnd, Success};
    vec![
        job("a", &[], 1),
        fed("b", &[(0, Success)]),
        job("c", &[(1, Success)], 1),
        job("d", &[(1, AnyEnd)], 1),
        fed("e", &[(1, Success)]),
    ]
}

#[test]
fn a_fed_job_whose_generator_never_runs_is_over_and_has_not_succeeded() {
    let mut world = World::new();
    world.worker(2, 4);
    world.ask(request(group_with_waiters()));
    world.sent(2);
    world.reports(2, |r| r.failed = vec![(JobId(1), failed(0, 0, 1))]);
    assert_eq!(world.states(JobId(2)), "aborted: 1 aborted");
    assert_eq!(world.states(JobId(3)), "canceled: 1 canceled");
    let states = jobs(&mut world);
    assert!(!states.iter().any(|job| job.ends_with("opened")), "{states:?}");
    assert_eq!(world.states(JobId(5)), "aborted: 1 aborted", "it waits for success");
    assert!(world.sent(2).contains("6:0/0"), "it waits for any end");
    assert_eq!(world.states(JobId(7)), "aborted: 1 aborted", "the generator of the next");
    world.restart();
    assert_eq!(jobs(&mut world), states, "after a restart");
}

// The same, where the first job has succeeded and the generator of the second runs.
fn whose_generator_runs() -> World {
    let mut world = World::new();
    world.worker(2, 4);
    world.ask(request(group_with_waiters()));
    world.sent(2);
    world.reports(2, |r| r.finished = vec![finished(JobId(1), 0, 0, 0)]);
    world.sent(2);
    world.reports(2, |r| r.started = vec![started(JobId(2), 0, 0)]);
    world
}

fn feed(world: &mut World, own: u32, order: FeedOrder) {
    let by = TaskRef::new(JobId(own), TaskId(0));
    let answer = world.ask(ClientRequest::Feed(Box::new(FeedRequest { by, instance: Instance(0), order })));
    assert!(matches!(answer, ClientResponse::Feed(_)), "{answer:?}");
}

// Its next lines.
fn add(world: &mut World, at: u64, submits: Vec<Submit>) {
    feed(world, 2, FeedOrder::Add { at, submits, cursor: None, is_last: false });
}

#[test]
fn a_job_of_which_a_reducer_had_enough_has_succeeded() {
    let mut world = whose_generator_runs();
    add(&mut world, 0, vec![Submit::new(Target::Open(JobId(4)), TaskIds::Next(3), one_cpu())]);
    world.sent(2);
    world.reports(2, |r| r.finished = vec![finished(JobId(4), 0, 0, 0)]);
    feed(&mut world, 3, FeedOrder::Save { ids: IdSet::range(0, 0), state: None, is_enough: true });
    assert_eq!(world.states(JobId(4)), "opened: 1 finished, 2 canceled");
    world.sent(2);
    world.reports(2, |r| r.finished = vec![finished(JobId(3), 0, 0, 0)]);
    assert_eq!(world.states(JobId(4)), "finished: 1 finished, 2 canceled");
    let sent = world.sent(2);
    let run = ["5:0/0", "6:0/0", "7:0/0"].map(|task| sent.contains(task));
    assert_eq!(run, [true; 3], "those that wait for its success, too: {sent}");
    world.restart();
    assert_eq!(world.states(JobId(4)), "finished: 1 finished, 2 canceled", "after a restart");
}

#[test]
fn a_fed_job_whose_generator_fails_after_it_was_closed_stays_a_success() {
    let mut world = whose_generator_runs();
    world.ask(ClientRequest::CloseJobs { jobs: Selector::Ids(IdSet::single(TaskId(4))) });
    world.reports(2, |r| r.failed = vec![(JobId(2), failed(0, 0, 1))]);
    world.reports(2, |r| r.finished = vec![finished(JobId(3), 0, 0, 0)]);
    assert_eq!(world.states(JobId(4)), "finished: ");
    assert!(world.sent(2).contains("5:0/0"), "it waited for a success");
}

#[test]
fn a_fed_job_that_is_canceled_before_it_has_tasks_has_not_succeeded() {
    let mut world = World::new();
    world.worker(2, 4);
    world.ask(request(group_with_waiters()));
    world.sent(2);
    let selected = Selector::Ids(IdSet::single(TaskId(4)));
    world.ask(ClientRequest::Cancel { jobs: selected, tasks: None, reason: None });
    assert_eq!(world.states(JobId(5)), "aborted: 1 aborted", "it waits for success");
    assert!(world.sent(2).contains("6:0/0"), "it waits for any end");
}

#[test]
fn too_many_failures_stop_the_generator() {
    let mut world = World::new();
    world.worker(2, 4);
    let mut jobs_wanted = group_with_waiters();
    jobs_wanted[1].spec.max_fails = Some(0);
    world.ask(request(jobs_wanted));
    world.sent(2);
    world.reports(2, |r| r.finished = vec![finished(JobId(1), 0, 0, 0)]);
    world.sent(2);
    add(&mut world, 0, vec![Submit::new(Target::Open(JobId(4)), TaskIds::Next(2), one_cpu())]);
    world.sent(2);
    world.reports(2, |r| r.failed = vec![(JobId(4), failed(0, 0, 1))]);
    assert_eq!(world.states(JobId(4)), "failed: 1 failed, 1 aborted");
    assert_eq!(world.states(JobId(2)), "canceled: 1 canceled", "its generator");
    assert_eq!(world.states(JobId(5)), "aborted: 1 aborted", "it waits for success");
}

#[test]
fn a_line_that_comes_too_late_stops_the_generator() {
    let mut world = whose_generator_runs();
    let spec = TaskSpec { end_by: Some(EndBy::Within(Duration::from_secs(60))), ..one_cpu() };
    let line = |id| {
        let ids = TaskIds::Given(IdSet::range(id, id));
        vec![Submit::new(Target::Open(JobId(4)), ids, spec.clone())]
    };
    world.wait(Duration::from_secs(50));
    add(&mut world, 0, line(0));
    assert_eq!(world.states(JobId(2)), "running: 1 running");
    world.sent(2);
    world.reports(2, |r| r.finished = vec![finished(JobId(4), 0, 0, 0)]);
    // The minute counts from the submit of the job.
    world.wait(Duration::from_secs(50));
    add(&mut world, 1, line(1));
    world.wait(Duration::from_secs(1));
    assert_eq!(world.states(JobId(4)), "canceled: 1 finished, 1 canceled");
    assert_eq!(world.states(JobId(2)), "canceled: 1 canceled", "its generator");
}

#[test]
fn a_generator_of_a_job_that_is_over_is_not_submitted_again() {
    let mut world = whose_generator_runs();
    let selected = || Selector::Ids(IdSet::single(TaskId(4)));
    world.ask(ClientRequest::Cancel { jobs: selected(), tasks: None, reason: None });
    let again = |own: u32| ClientRequest::Resubmit {
        key: 77,
        jobs: Selector::Ids(IdSet::single(TaskId(own))),
        tasks: None,
        states: Vec::new(),
    };
    for own in [2, 3] {
        let ClientResponse::Error(error) = world.ask(again(own)) else { panic!("refused") };
        let expected = format!("Job {own} belongs to job 4, which is over: submit both again as they were.");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn the_last_job_is_the_one_before_the_request() {
    let after_last = || {
        let mut jobs = vec![fed("b", &[])];
        let NewTasks::Fed { generator, .. } = &mut jobs[0].tasks else { panic!("fed") };
        let after = vec![After::of(After::LAST)];
        generator.dependencies = hq_model::Dependencies { after, ..hq_model::Dependencies::default() }.into();
        request(jobs)
    };
    let mut world = World::new();
    let ClientResponse::Error(error) = world.ask(after_last()) else { panic!("refused") };
    assert!(matches!(error, RequestError::NoJobs), "{error}");
    world.worker(2, 4);
    let first = world.submit(1, |_| {});
    world.sent(2);
    world.ask(after_last());
    assert_eq!(world.sent(2), "3:0/0", "the reducer waits for nothing");
    world.reports(2, |r| r.finished = vec![finished(first, 0, 0, 0)]);
    assert_eq!(world.sent(2), "2:0/0");
}

#[test]
fn lines_that_need_whole_nodes_run_beside_their_generator_and_reducer() {
    let mut world = whose_generator_runs();
    let spec = TaskSpec { requests: vec![Request { nodes: 1, ..Request::default() }], ..one_cpu() };
    add(&mut world, 0, vec![Submit::new(Target::Open(JobId(4)), TaskIds::Next(2), spec)]);
    assert_eq!(world.sent(2), "4:0/0", "on the only worker, and one at a time");
    world.reports(2, |r| r.finished = vec![finished(JobId(4), 0, 0, 0)]);
    assert_eq!(world.sent(2), "4:1/0");
}
