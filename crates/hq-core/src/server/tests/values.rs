//! Values of calls that stay on workers, and what clients give.

use hq_model::body::Body;
use hq_model::dependency::{After, Dependencies, Edges};
use hq_model::{TaskRef, WorkerId};

use super::calls::packed;
use super::losses::lose;
use super::objects::{copy, object};
use super::*;
use crate::mark;
use crate::object_messages::{GiveObject, ObjectCopy, ObjectNews, ObjectRequest, ObjectState, Unfetched};
use crate::server::Keep;

const JOB: JobId = JobId(1);

impl World {
    // An open job of calls.
    fn session(&mut self) {
        self.key += 1;
        let opened = self.ask(ClientRequest::OpenJob { key: self.key, spec: JobSpec::default() });
        assert!(matches!(opened, ClientResponse::Submitted { .. }), "{opened:?}");
    }

    // One more call, which waits for others of its job.
    fn call(&mut self, after: &[u32]) {
        let mut spec = one_cpu();
        packed(&mut spec);
        let edges = Edges::new([after.iter().map(|task| TaskId(*task)).collect::<Vec<_>>()]).expect("few");
        let dependencies = Arc::new(Dependencies { edges, ..Dependencies::default() });
        let submit = Submit { dependencies, ..Submit::new(Target::Open(JOB), TaskIds::Next(1), spec) };
        self.submits(submit);
    }

    fn returns(&mut self, connection: u64, text: &str, instance: u32) {
        let left = copy(text, instance);
        let TaskRef { job, task } = left.object.task;
        self.reports(connection, |report| {
            report.objects = Some(Box::new(ObjectNews { stored: vec![left], ..ObjectNews::default() }));
            report.finished = vec![finished(job, task.0, task.0, instance)];
        });
    }

    // A call comes back without one of its arguments.
    fn lacks(&mut self, connection: u64, (task, instance): (TaskRef, u32), text: &str) {
        let unfetched = Unfetched {
            task,
            instance: Instance(instance),
            object: object(text),
            holders: Vec::new(),
            reason: "no worker is known to hold it".into(),
            wanted: 0,
        };
        self.reports(connection, |report| {
            let unfetched = vec![unfetched];
            report.objects = Some(Box::new(ObjectNews { unfetched, ..ObjectNews::default() }));
        });
    }

    fn releases(&mut self, text: &str) {
        let release = ClientRequest::Objects(ObjectRequest::Release(vec![object(text)]));
        assert_eq!(self.ask(release), ClientResponse::Done);
    }

    fn gives(&mut self, job: Result<JobId, String>) -> Vec<ClientResponse> {
        let name = "value".parse().expect("a name");
        let give = GiveObject { job, name, worker: WorkerId(1), file: "c1".into(), is_dir: false };
        let body = ClientRequest::Objects(ObjectRequest::Give(Box::new(give)));
        self.step(Input::Client { connection: CLIENT, request: 5, body })
    }

    fn takes_file(&mut self, text: &str) -> Vec<ClientResponse> {
        self.reports += 1;
        let objects = Some(Box::new(ObjectNews { stored: vec![copy(text, 0)], ..ObjectNews::default() }));
        let report = Report { number: self.reports, objects, ..Report::default() };
        self.step(Input::Worker { connection: ConnectionId(1), message: FromWorker::Report(report) })
    }
}

#[test]
fn a_call_is_told_where_the_values_are_that_it_waited_for() {
    let mut world = World::new();
    world.session();
    world.worker(1, 1);
    world.call(&[]);
    world.call(&[0]);
    world.returns(1, "1@0:value", 0);
    assert_eq!(world.told_objects(1), "1@0:value/0  from 1");
    assert_eq!(world.object_state("1@0:value"), ObjectState::Stored);
    // The second one leaves little, and nothing is there for it.
    world.reports(1, |report| report.finished = vec![finished(JOB, 1, 1, 0)]);
    let info = world.ask(ClientRequest::Objects(ObjectRequest::Info(object("1@1:value"))));
    assert!(matches!(info, ClientResponse::Error(RequestError::NoObject(..))), "{info:?}");
    let all = ObjectRequest::List { jobs: Selector::All, phases: Vec::new(), after: None };
    let ClientResponse::Objects(page) = world.ask(ClientRequest::Objects(all)) else { panic!("a page") };
    assert_eq!(page.objects.len(), 1);
}

#[test]
fn a_call_that_takes_what_others_return_needs_a_worker_with_a_store() {
    let mut world = World::new();
    world.session();
    world.worker_saying(1, 4, |hello| hello.stores = false);
    world.call(&[]);
    world.call(&[0]);
    assert_eq!(world.sent(1), "1:0/0");
    world.reports(1, |report| report.finished = vec![finished(JOB, 0, 0, 0)]);
    assert_eq!(world.sent(1), "");
    world.worker(2, 4);
    assert_eq!(world.sent(2), "1:1/0");
}

#[test]
fn calls_that_take_the_same_are_told_together() {
    let mut world = World::new();
    world.session();
    world.worker(1, 8);
    world.call(&[]);
    world.returns(1, "1@0:value", 0);
    world.to_workers.clear();
    let mut spec = one_cpu();
    packed(&mut spec);
    let edges = Edges::new([[TaskId(0)], [TaskId(0)], [TaskId(0)]]).expect("few");
    let dependencies = Arc::new(Dependencies { edges, ..Dependencies::default() });
    world.submits(Submit { dependencies, ..Submit::new(Target::Open(JOB), TaskIds::Next(3), spec) });
    assert_eq!(world.told_objects(1), "1@0:value/0  from 1");
}

// Two workers with a CPU each, of which each has left a value.
fn two_values(sizes: [u64; 2]) -> World {
    let mut world = World::new();
    world.session();
    world.worker(1, 1);
    world.worker(2, 1);
    world.call(&[]);
    world.call(&[]);
    assert_eq!((world.sent(1), world.sent(2)), ("1:0/0".into(), "1:1/0".into()));
    for (task, size) in (0..).zip(sizes) {
        let left = ObjectCopy { size, ..copy(&format!("1@{task}:value"), 0) };
        world.reports(u64::from(task) + 1, |report| {
            report.objects = Some(Box::new(ObjectNews { stored: vec![left], ..ObjectNews::default() }));
            report.finished = vec![finished(JOB, task, task, 0)];
        });
    }
    world.to_workers.clear();
    world
}

#[test]
fn calls_go_where_their_values_are_and_nobody_idles_for_that() {
    let mut world = two_values([7, 7]);
    let mut spec = one_cpu();
    packed(&mut spec);
    spec.expected = Some(Duration::from_secs(60));
    // The third takes nothing, and is near everywhere.
    let edges = Edges::new([vec![TaskId(1)], vec![TaskId(0)], vec![], vec![TaskId(1)], vec![TaskId(1)]])
        .expect("few");
    let dependencies = Arc::new(Dependencies { edges, ..Dependencies::default() });
    world.submits(Submit { dependencies, ..Submit::new(Target::Open(JOB), TaskIds::Next(5), spec) });
    assert_eq!((world.sent(1), world.sent(2)), ("1:3/0".into(), "1:2/0".into()));
    world.reports(2, |report| report.finished = vec![finished(JOB, 2, 2, 0)]);
    assert_eq!(world.sent(2), "1:5/0", "it takes what is there");
    world.reports(1, |report| report.finished = vec![finished(JOB, 3, 3, 0)]);
    assert_eq!(world.sent(1), "1:4/0", "it takes nothing");
    world.reports(1, |report| report.finished = vec![finished(JOB, 4, 4, 0)]);
    assert_eq!(world.sent(1), "1:6/0", "better there than later");
}

#[test]
fn a_call_with_a_key_of_its_own_goes_by_that() {
    let mut world = two_values([7, 7]);
    let mut spec = one_cpu();
    packed(&mut spec);
    spec.locality = Some(b"mine".to_vec());
    let edges = Edges::new([[TaskId(1)]]).expect("few");
    let dependencies = Arc::new(Dependencies { edges, ..Dependencies::default() });
    world.submits(Submit { dependencies, ..Submit::new(Target::Open(JOB), TaskIds::Next(1), spec) });
    assert_eq!((world.sent(1), world.sent(2)), ("1:2/0".into(), String::new()));
}

#[test]
fn the_largest_of_its_values_says_where_a_call_goes() {
    for (sizes, sent) in [([5, 9], ["", "1:2/0"]), ([9, 5], ["1:2/0", ""])] {
        let mut world = two_values(sizes);
        world.call(&[0, 1]);
        assert_eq!([world.sent(1), world.sent(2)], sent);
    }
}

#[test]
fn a_value_stays_as_long_as_its_job_and_is_freed_when_it_is_needed_no_more() {
    let mut world = World::new();
    world.session();
    world.worker(1, 2);
    world.call(&[]);
    world.call(&[]);
    world.returns(1, "1@0:value", 0);
    world.returns(1, "1@1:value", 0);
    assert_eq!(world.guards(1), "+1@0:value +1@1:value");
    world.releases("1@0:value");
    assert_eq!(world.sent(1), "free 1@0:value");
    // Once more changes nothing.
    world.releases("1@0:value");
    assert_eq!(world.sent(1), "");
    assert!(matches!(world.object_state("1@0:value"), ObjectState::Lost { .. }));
    // It is not missed.
    let all = ObjectRequest::List { jobs: Selector::All, phases: Vec::new(), after: None };
    let ClientResponse::Objects(page) = world.ask(ClientRequest::Objects(all)) else { panic!("a page") };
    assert_eq!(
        page.objects.iter().map(|view| view.copy.object.to_string()).collect::<Vec<_>>(),
        ["1@1:value"]
    );
    world.ask(ClientRequest::CloseJobs { jobs: Selector::Last });
    assert_eq!(world.guards(1), "-1@1:value");
    world.restart();
    assert!(matches!(world.object_state("1@0:value"), ObjectState::Lost { .. }));
}

#[test]
fn what_is_kept_is_not_released() {
    let mut world = World::new();
    world.session();
    world.worker(1, 1);
    world.call(&[]);
    world.returns(1, "1@0:value", 0);
    let keep = ClientRequest::Objects(ObjectRequest::Keep(vec![object("1@0:value")]));
    assert_eq!(world.ask(keep), ClientResponse::Done);
    world.releases("1@0:value");
    assert_eq!(world.sent(1).matches("free").count(), 0);
}

#[test]
fn lost_values_are_left_once_more_with_all_that_led_to_them() {
    let mut world = World::new();
    world.session();
    world.worker(1, 1);
    world.call(&[]);
    world.call(&[0]);
    world.returns(1, "1@0:value", 0);
    world.returns(1, "1@1:value", 0);
    world.releases("1@0:value");
    lose(&mut world, 1);
    world.worker(2, 1);
    world.call(&[1]);
    assert_eq!(world.sent(2), "1:2/0", "that it is lost shows when it is wanted");
    world.lacks(2, (TaskRef::new(JOB, TaskId(2)), 0), "1@1:value");
    // It is called once more, and finds out that its argument is lost, too.
    assert_eq!(world.sent(2), "2:1/0");
    world.lacks(2, (TaskRef::new(JobId(2), TaskId(1)), 0), "1@0:value");
    assert_eq!(world.sent(2), "3:0/0");
    world.reports(2, |report| {
        report.objects =
            Some(Box::new(ObjectNews { stored: vec![copy("1@0:value", 1)], ..ObjectNews::default() }));
        report.finished = vec![finished(JobId(3), 0, 0, 0)];
    });
    assert_eq!(world.told_objects(2), "1@0:value/1  from 2");
    assert_eq!(world.states(JOB), "waiting: 1 waiting, 2 finished", "what has finished stays so");
    world.reports(2, |report| {
        report.objects =
            Some(Box::new(ObjectNews { stored: vec![copy("1@1:value", 2)], ..ObjectNews::default() }));
        report.finished = vec![finished(JobId(2), 1, 1, 1)];
    });
    assert_eq!(world.told_objects(2), "1@1:value/2  from 2");
}

#[test]
fn what_is_not_left_once_more_is_gone() {
    let mut world = World::new();
    world.session();
    world.worker(1, 1);
    world.call(&[]);
    world.returns(1, "1@0:value", 0);
    lose(&mut world, 1);
    world.worker(2, 1);
    world.call(&[0]);
    world.lacks(2, (TaskRef::new(JOB, TaskId(1)), 0), "1@0:value");
    assert_eq!(world.sent(2), "1:1/0 2:0/0");
    world.reports(2, |report| report.finished = vec![finished(JobId(2), 0, 0, 0)]);
    assert_eq!(world.sent(2), "");
    let reason = world.abort_reason(JOB);
    assert!(reason.contains("1@0:value is gone"), "{reason}");
}

#[test]
fn what_an_earlier_attempt_has_left_is_freed_where_the_one_that_counts_leaves_nothing() {
    let mut world = World::new();
    world.session();
    world.worker(1, 1);
    world.call(&[]);
    world.reports(1, |report| {
        report.objects =
            Some(Box::new(ObjectNews { stored: vec![copy("1@0:value", 0)], ..ObjectNews::default() }));
        report.interrupted = vec![(JOB, IdSet::single(TaskId(0)))];
    });
    assert_eq!(world.sent(1), "1:0/0 1:0/1");
    world.reports(1, |report| report.finished = vec![finished(JOB, 0, 0, 1)]);
    assert_eq!(world.sent(1), "free 1@0:value");
    assert!(mark::take().contains("an earlier attempt left what the last one did not"));
}

#[test]
fn what_a_client_gives_is_there_when_a_worker_has_taken_it() {
    let mut world = World::new();
    world.session();
    world.worker(1, 1);
    assert_eq!(world.gives(Ok(JOB)), []);
    assert_eq!(world.gives(Ok(JOB)), []);
    assert_eq!(world.sent(1), "take c1 as 1@3000000000:value take c1 as 1@3000000001:value");
    let given = copy("1@3000000001:value", 0);
    assert_eq!(world.takes_file("1@3000000001:value"), [ClientResponse::ObjectGiven(given)]);
    assert_eq!(world.states(JOB), "opened: 1 finished");
    world.takes_file("1@3000000000:value");
    world.call(&[3_000_000_000]);
    assert_eq!(world.told_objects(1), "1@3000000000:value/0  from 1");
    world.restart();
    assert_eq!(world.states(JOB), "waiting: 1 waiting, 2 finished");
    let task = &world.server.state().jobs[&JOB].submits[0].task;
    assert!(task.body == Body::Given && task.requests == [Request::default()], "the journal has no others");
}

#[test]
fn who_gives_hears_why_it_is_not_taken() {
    let mut world = World::new();
    world.session();
    world.worker(1, 1);
    world.gives(Ok(JOB));
    let refused = vec![(object("1@3000000000:value"), "no room".to_owned())];
    world.reports += 1;
    let objects = Some(Box::new(ObjectNews { refused, ..ObjectNews::default() }));
    let report = Report { number: world.reports, objects, ..Report::default() };
    let answers =
        world.step(Input::Worker { connection: ConnectionId(1), message: FromWorker::Report(report) });
    let [ClientResponse::Error(error)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(error.to_string(), "Object 1@3000000000:value is not stored: no room.");
    world.gives(Ok(JOB));
    let answers = world.step(Input::WorkerGone { connection: ConnectionId(1), is_closed: false });
    let [ClientResponse::Error(error)] = &answers[..] else { panic!("{answers:?}") };
    assert!(error.to_string().contains("worker 1 was lost before"), "{error}");
    // It comes back and has it: nobody waits for that.
    world.worker_saying(3, 1, |hello| {
        hello.known_as = Some(WorkerId(1));
        hello.objects = vec![copy("1@3000000000:value", 0)];
    });
    assert_eq!(world.sent(3), "free 1@3000000000:value");
    assert_eq!(world.server.state().jobs[&JOB].ids.len(), 0);
    world.ask(ClientRequest::CloseJobs { jobs: Selector::Last });
    let answers = world.gives(Ok(JOB));
    assert_eq!(answers, [ClientResponse::Error(RequestError::JobNotOpen(JOB))]);
}

#[test]
fn what_a_client_gives_that_is_gone_is_not_there() {
    let mut world = World::new();
    world.session();
    world.worker(1, 1);
    world.gives(Ok(JOB));
    world.step(Input::ClientGone { connection: CLIENT });
    assert_eq!(world.takes_file("1@3000000000:value"), []);
    assert_eq!(world.sent(1), "take c1 as 1@3000000000:value free 1@3000000000:value");
}

#[test]
fn what_is_given_alone_is_a_job_and_is_kept() {
    let mut world = World::new();
    world.worker(1, 1);
    world.gives(Err("reads.fq".into()));
    assert_eq!(world.sent(1), "take c1 as 1@0:value");
    // Its id is not given again meanwhile.
    let other = world.submit(1, |_| {});
    assert_eq!(other, JobId(2));
    world.takes_file("1@0:value");
    assert_eq!(world.states(JOB), "finished: 1 finished");
    assert!(world.server.state().objects.iter().next().is_some_and(|(_, _, known)| known.is_kept));
    assert_eq!(world.server.state().jobs[&JOB].spec.name, "reads.fq");
    let reader = world.submit(1, super::objects::takes("in=1@0:value"));
    assert_eq!(world.states(reader), "waiting: 1 waiting");
    // What nobody can do again is gone with the worker that had it.
    lose(&mut world, 1);
    let reason = world.abort_reason(reader);
    assert!(reason.contains("a client gave it, which no task can do again"), "{reason}");
}

#[test]
fn a_job_is_not_forgotten_while_calls_of_others_may_take_its_values() {
    let keep_jobs = Keep { jobs: Some(0), time: None };
    let mut world = World::with(ServerOptions { keep_jobs, ..ServerOptions::default() });
    world.session();
    world.worker(1, 1);
    world.call(&[]);
    world.returns(1, "1@0:value", 0);
    let mut spec = one_cpu();
    packed(&mut spec);
    spec.requests = vec![cpus(2)];
    let after = After { tasks: Some(IdSet::single(TaskId(0))), ..After::of(JOB) };
    let dependencies = Arc::new(Dependencies { after: vec![after], ..Dependencies::default() });
    let target = Target::New(JobSpec::default());
    let other = world.submits(Submit { dependencies, ..Submit::new(target, TaskIds::Next(1), spec) });
    let first = Selector::Ids(IdSet::single(TaskId(JOB.0)));
    world.ask(ClientRequest::CloseJobs { jobs: first });
    assert!(world.server.state().jobs.contains_key(&JOB));
    let jobs = Selector::Ids(IdSet::single(TaskId(other.0)));
    world.ask(ClientRequest::Cancel { jobs, tasks: None, reason: None });
    world.wait(Duration::from_secs(1));
    assert!(!world.server.state().jobs.contains_key(&JOB));
}

#[test]
fn what_is_known_of_values_counts_with_the_submits() {
    let mut world = World::new();
    world.session();
    world.worker(1, 4);
    world.call(&[]);
    world.call(&[]);
    let before = world.server.state().held_bytes();
    world.returns(1, "1@0:value", 0);
    world.returns(1, "1@1:value", 0);
    let held = world.server.state().held_bytes();
    assert_eq!(held - before, 2 * crate::limits::OBJECT_BYTES);
    world.restart();
    assert_eq!(world.server.state().held_bytes(), held);
    world.ask(ClientRequest::CloseJobs { jobs: Selector::All });
    world.ask(ClientRequest::ForgetJobs { jobs: Selector::All, states: Vec::new() });
    assert_eq!(world.server.state().held_bytes(), 0);
}
