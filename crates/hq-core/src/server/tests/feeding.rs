//! Jobs that a generator feeds and a reducer drains.

mod behind;
mod entries;
mod full_disk;

use hq_model::TaskRef;
use hq_model::job::FedEnd;

use super::stalling::stalled;
use super::*;
use crate::client_messages::{NewJob, NewTasks};
use crate::feed::{FeedOrder, FeedRequest, FeedState};
use crate::limits::FEED_TEXT_BYTES_MAX;

pub(super) const GENERATOR: JobId = JobId(1);
pub(super) const REDUCER: JobId = JobId(2);
pub(super) const JOB: JobId = JobId(3);

pub(super) fn own(name: &str) -> Submit {
    let spec =
        TaskSpec { body: Body::program(["hq"]), requests: vec![Request::default()], ..TaskSpec::default() };
    let job = JobSpec { name: name.into(), ..JobSpec::default() };
    Submit::new(Target::New(job), TaskIds::Given(IdSet::range(0, 0)), spec)
}

fn lines(texts: &[&str]) -> Submit {
    let entries = Entries::new(texts.iter().map(|text| text.as_bytes())).expect("little");
    let submit = Submit::new(Target::Open(JOB), TaskIds::Next(texts.len() as u32), one_cpu());
    Submit { entries, ..submit }
}

fn add(at: u64, texts: &[&str], cursor: Option<&str>) -> FeedOrder {
    let submits = if texts.is_empty() { Vec::new() } else { vec![lines(texts)] };
    FeedOrder::Add { at, submits, cursor: cursor.map(Into::into), is_last: false }
}

fn last(at: u64) -> FeedOrder {
    FeedOrder::Add { at, submits: Vec::new(), cursor: None, is_last: true }
}

fn save(ids: &str, state: &str) -> FeedOrder {
    let ids = if ids.is_empty() { IdSet::new() } else { ids.parse().expect("ids") };
    FeedOrder::Save { ids, state: Some(state.into()), is_enough: false }
}

fn submit_fed(key: u128, has_reducer: bool) -> ClientRequest {
    let spec = JobSpec { name: "search".into(), ..JobSpec::default() };
    let reducer = has_reducer.then(|| Box::new(own("search: reduce")));
    let tasks = NewTasks::Fed { generator: Box::new(own("search: generate")), reducer };
    ClientRequest::SubmitJobs {
        key,
        jobs: vec![NewJob { spec, after: Vec::new(), takes: Vec::new(), tasks }],
    }
}

// A fed job whose generator and reducer run on worker 2.
pub(super) fn fed() -> World {
    let mut world = World::new();
    let ClientResponse::JobsSubmitted { jobs, .. } = world.ask(submit_fed(9, true)) else {
        panic!("submitted")
    };
    assert_eq!(jobs, [JOB], "the last one");
    world.worker(2, 4);
    assert_eq!(world.sent(2), "1:0/0 2:0/0");
    world.reports(2, |r| r.started = vec![started(GENERATOR, 0, 0), started(REDUCER, 0, 0)]);
    world
}

impl World {
    fn feeds(&mut self, job: JobId, instance: u32, order: FeedOrder) -> Vec<ClientResponse> {
        let by = TaskRef::new(job, TaskId(0));
        let request = FeedRequest { by, instance: Instance(instance), order };
        let body = ClientRequest::Feed(Box::new(request));
        self.step(Input::Client { connection: CLIENT, request: 5, body })
    }

    fn fed_state(&mut self, job: JobId, order: FeedOrder) -> FeedState {
        match self.feeds(job, 0, order).pop() {
            Some(ClientResponse::Feed(state)) => *state,
            other => panic!("{other:?}"),
        }
    }

    fn feed_refuses(&mut self, job: JobId, instance: u32, order: FeedOrder) -> String {
        match self.feeds(job, instance, order).pop() {
            Some(ClientResponse::Error(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }

    fn fed_tasks_end(&mut self, first: u32, last: u32, text: &str) {
        let results = Entries::new((first..=last).map(|_| text.as_bytes())).expect("little");
        self.reports(2, |r| r.finished = vec![FinishedSpan { results, ..finished(JOB, first, last, 0) }]);
    }

    fn awaits_ends(&mut self, known: &str) -> Option<(String, usize, bool)> {
        let known = if known.is_empty() { IdSet::new() } else { known.parse().expect("ids") };
        let body = ClientRequest::AwaitEnds { job: JOB, known };
        match self.step(Input::Client { connection: CLIENT, request: 7, body }).pop() {
            Some(ClientResponse::Ends(ends)) => {
                Some((ends.finished.to_string(), ends.results.len(), ends.is_over))
            }
            None => None,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn lines_become_tasks_with_the_place_of_their_generator() {
    let mut world = fed();
    let state = world.fed_state(GENERATOR, add(0, &["a", "b"], Some("b")));
    assert_eq!((state.made, state.feed.cursor_at, state.feed.cursor.as_deref()), (2, 2, Some(&b"b"[..])));
    let state = world.fed_state(GENERATOR, add(2, &["c"], None));
    assert_eq!((state.made, state.feed.cursor_at), (3, 2), "one line is beyond the cursor");
    assert_eq!(world.sent(2), "3:0-1/0 3:2/0");
    // The answer was lost.
    let state = world.fed_state(GENERATOR, add(2, &["c"], None));
    assert_eq!(state.made, 3);
    let refused = world.feed_refuses(GENERATOR, 0, add(1, &["x"], None));
    assert!(refused.contains("has made 1 task of job 3, by its own account, and there are 3"), "{refused}");
    let ids = IdSet::range(1, 2);
    let entries = world.fed_state(GENERATOR, FeedOrder::Entries { ids }).entries;
    assert_eq!(entries.iter().collect::<Vec<_>>(), [b"b", b"c"]);
    world.restart();
    let state = world.server.state().jobs[&JOB].feed.clone().expect("kept");
    assert_eq!((state.cursor_at, state.generator, state.reducer), (2, GENERATOR, Some(REDUCER)));
}

fn keyed(at: u64, names: &[(&str, &str)]) -> FeedOrder {
    let texts = |texts: Vec<&str>| Entries::new(texts.iter().map(|text| text.as_bytes())).expect("little");
    let (keys, entries) = names.iter().copied().unzip();
    let submit = Submit { keys: texts(keys), entries: texts(entries), ..lines(&vec![""; names.len()]) };
    FeedOrder::Add { at, submits: vec![submit], cursor: Some(format!("{at}").into()), is_last: false }
}

#[test]
fn a_key_is_one_task_however_often_it_is_made() {
    let mut world = fed();
    let first = keyed(0, &[("a", "1"), ("b", "2")]);
    assert_eq!(world.fed_state(GENERATOR, first.clone()).made, 2);
    assert_eq!(world.fed_state(GENERATOR, first).made, 2, "the answer was lost");
    let state = world.fed_state(GENERATOR, keyed(2, &[("c", "3"), ("a", "1")]));
    assert_eq!((state.made, state.is_keyed, state.feed.cursor_at), (3, true, 3));
    let again = keyed(2, &[("c", "3"), ("a", "1")]);
    assert_eq!(world.fed_state(GENERATOR, again).made, 3, "the answer was lost");
    let state = world.fed_state(GENERATOR, keyed(3, &[("a", "1"), ("b", "2")]));
    assert_eq!((state.made, state.feed.cursor.as_deref()), (3, Some(&b"3"[..])), "the place is kept");
    let refused = world.feed_refuses(GENERATOR, 0, keyed(3, &[("a", "other")]));
    assert!(refused.contains("`a`") || refused.contains("a "), "{refused}");
    let refused = world.feed_refuses(GENERATOR, 0, add(3, &["x"], None));
    assert!(refused.contains("have keys, or none"), "{refused}");
    world.restart();
    assert_eq!(world.server.state().jobs[&JOB].ids.len(), 3);
}

#[test]
fn lines_that_ask_for_different_things_keep_their_numbers() {
    let mut world = fed();
    let of = |ids: &str, texts: &[&str], priority: i32| {
        let submit = lines(texts);
        let spec = TaskSpec { priority, ..one_cpu() };
        Submit { ids: TaskIds::Given(ids.parse().expect("ids")), spec: spec.into(), ..submit }
    };
    let order = |at, submits| FeedOrder::Add { at, submits, cursor: None, is_last: false };
    let mixed = order(0, vec![of("0,2", &["a", "c"], 1), of("1", &["b"], 2)]);
    assert_eq!(world.fed_state(GENERATOR, mixed.clone()).made, 3);
    assert_eq!(world.fed_state(GENERATOR, mixed).made, 3, "said again");
    let ids = IdSet::range(0, 2);
    let entries = world.fed_state(GENERATOR, FeedOrder::Entries { ids }).entries;
    assert_eq!(entries.iter().collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    let refused = world.feed_refuses(GENERATOR, 0, order(3, vec![of("4", &["x"], 1)]));
    assert!(refused.contains("no gaps"), "{refused}");
    let refused = world.feed_refuses(GENERATOR, 0, order(3, vec![of("2-3", &["x", "y"], 1)]));
    assert!(refused.contains("behind those that it has made"), "{refused}");
    let refused = world.feed_refuses(GENERATOR, 0, order(3, vec![of("3", &["x"], 1), of("3", &["y"], 2)]));
    assert!(refused.contains("no gaps"), "{refused}");
}

// Nobody could be warned of them at submit.
#[test]
fn who_waits_for_a_job_is_told_of_lines_that_nobody_can_run() {
    let mut world = fed();
    let unrunnable = |answers: Vec<ClientResponse>| -> Vec<u64> {
        let progress = answers.into_iter().filter_map(|answer| match answer {
            ClientResponse::Progress(jobs) => jobs.into_iter().find(|job| job.job == JOB),
            _ => None,
        });
        progress.map(|job| job.unrunnable).collect()
    };
    let jobs = Selector::Ids(IdSet::single(TaskId(JOB.0)));
    let body = ClientRequest::WatchJobs { jobs, until_closed: true, notifications: false };
    let answers = world.step(Input::Client { connection: CLIENT, request: 8, body });
    assert_eq!(unrunnable(answers), [0]);
    let spec = TaskSpec { requests: vec![cpus(64)], ..one_cpu() };
    let submits = vec![Submit { spec: spec.into(), ..lines(&["large", "larger"]) }, lines(&["small"])];
    world.feeds(GENERATOR, 0, FeedOrder::Add { at: 0, submits, cursor: None, is_last: false });
    world.now = world.now.after(Duration::from_secs(1));
    assert_eq!(unrunnable(world.step(Input::Tick)), [2]);
}

#[test]
fn only_the_present_attempt_is_listened_to() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a"], None));
    let refused = world.feed_refuses(GENERATOR, 1, add(1, &["b"], None));
    assert!(refused.contains("does not run as instance 1 but as instance 0"), "{refused}");
    // Its worker is lost; it lives on there, and another one begins.
    world.worker(4, 4);
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    world.wait(Duration::from_secs(31));
    assert!(world.sent(4).contains("1:0/1"));
    let refused = world.feed_refuses(GENERATOR, 0, add(1, &["b"], None));
    assert!(refused.contains("does not run as instance 0 but as instance 1"), "{refused}");
    assert_eq!(world.server.state().jobs[&JOB].ids, IdSet::single(TaskId(0)));
    let other = world.submit(1, |_| {});
    let refused = world.feed_refuses(other, 0, FeedOrder::Look);
    assert!(refused.contains("neither makes nor reduces tasks"), "{refused}");
    assert!(world.feed_refuses(GENERATOR, 1, save("0", "")).contains("A generator reduces no tasks"));
    assert!(world.feed_refuses(REDUCER, 1, add(1, &["b"], None)).contains("A reducer makes no tasks"));
}

#[test]
fn what_is_reduced_is_kept_once() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a", "b", "c", "d"], None));
    world.sent(2);
    world.fed_tasks_end(0, 1, "one");
    world.fed_tasks_end(2, 2, "two");
    assert_eq!(world.awaits_ends(""), Some(("0-2".into(), 3, false)));
    let state = world.fed_state(REDUCER, FeedOrder::Look);
    assert_eq!((state.unreduced(), state.ended), (3, 3));
    assert!(state.unreduced_bytes > 0);
    let refused = world.feed_refuses(REDUCER, 0, save("0-3", "x"));
    assert!(refused.contains("acknowledges task 3, which has not ended"), "{refused}");
    let state = world.fed_state(REDUCER, save("0", "after a"));
    assert_eq!((state.unreduced(), state.feed.state.as_deref()), (2, Some(&b"after a"[..])));
    // A block of results goes with the last of its tasks.
    let before = state.unreduced_bytes;
    let state = world.fed_state(REDUCER, save("0-1", "after b"));
    assert!(state.unreduced_bytes < before);
    let state = world.fed_state(REDUCER, save("1-2", "after c"));
    assert_eq!((state.unreduced(), state.unreduced_bytes), (0, 0));
    assert_eq!(state.feed.reduced, IdSet::range(0, 2));
    world.restart();
    assert_eq!(world.server.state().jobs[&JOB].feed.clone().expect("kept").reduced, IdSet::range(0, 2));
    let long = "x".repeat(FEED_TEXT_BYTES_MAX + 1);
    let mut world = fed();
    assert!(world.feed_refuses(REDUCER, 0, save("", &long)).contains("The state has 65537 bytes"));
    assert!(
        world.feed_refuses(GENERATOR, 0, add(0, &[], Some(&long))).contains("The cursor has 65537 bytes")
    );
}

#[test]
fn a_job_is_over_with_its_reducer() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a"], None));
    let state = world.fed_state(GENERATOR, last(1));
    assert!(state.feed.is_decomposed && state.is_open);
    world.reports(2, |r| r.finished = vec![finished(GENERATOR, 0, 0, 0)]);
    world.fed_tasks_end(0, 0, "one");
    assert_eq!(world.awaits_ends("0"), Some((String::new(), 0, true)), "there are no more");
    assert_eq!(world.states(JOB), "opened: 1 finished");
    world.fed_state(REDUCER, save("0", ""));
    world.reports(2, |r| r.finished = vec![finished(REDUCER, 0, 0, 0)]);
    assert_eq!(world.states(JOB), "finished: 1 finished");
}

#[test]
fn a_job_without_a_reducer_is_over_with_its_last_task() {
    let mut world = World::new();
    world.ask(submit_fed(9, false));
    let job = JobId(2);
    let again = ClientResponse::JobsSubmitted { jobs: vec![job], warnings: Vec::new() };
    assert_eq!(world.ask(submit_fed(9, false)), again, "asked again");
    world.worker(2, 4);
    let more = Submit { target: Target::Open(job), ..lines(&["a"]) };
    let order = FeedOrder::Add { at: 0, submits: vec![more], cursor: None, is_last: true };
    assert!(!world.fed_state(GENERATOR, order.clone()).is_open);
    assert_eq!(world.fed_state(GENERATOR, order).made, 1, "said again");
    world.reports(2, |r| r.finished = vec![finished(job, 0, 0, 0)]);
    assert_eq!(world.states(job), "finished: 1 finished");
}

#[test]
fn a_reducer_that_has_enough_ends_the_rest() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a", "b"], None));
    world.sent(2);
    let order = FeedOrder::Save { ids: IdSet::new(), state: None, is_enough: true };
    assert!(world.fed_state(REDUCER, order).feed.is_decomposed);
    assert_eq!(world.sent(2), "-1:0 -3:0-1");
    assert_eq!(world.states(GENERATOR), "canceled: 1 canceled");
    world.reports(2, |r| r.finished = vec![finished(REDUCER, 0, 0, 0)]);
    assert_eq!(world.states(JOB), "finished: 2 canceled", "enough is a success");
}

#[test]
fn a_canceled_job_ends_its_generator_and_reducer() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a"], None));
    world.sent(2);
    let jobs = Selector::Ids(IdSet::single(TaskId(JOB.0)));
    world.ask(ClientRequest::Cancel { jobs, tasks: None, reason: None });
    assert_eq!(world.states(JOB), "canceled: 1 canceled");
    assert_eq!(world.states(GENERATOR), "canceled: 1 canceled");
    assert_eq!(world.states(REDUCER), "canceled: 1 canceled");
    assert!(world.feed_refuses(GENERATOR, 0, add(1, &["b"], None)).contains("does not run"));
}

#[test]
fn a_generator_waits_for_room() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a", "b", "c"], None));
    world.sent(2);
    assert_eq!(world.feeds(GENERATOR, 0, FeedOrder::AwaitRoom { below: 2 }), [], "three wait");
    let body = FromWorker::Report(Report {
        number: 9,
        started: vec![started(JOB, 0, 0), started(JOB, 1, 0)],
        ..Report::default()
    });
    let answers = world.step(Input::Worker { connection: ConnectionId(2), message: body });
    let [ClientResponse::Feed(state)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((state.waiting, state.made, state.slots), (1, 3, 4));
}

#[test]
fn others_submit_nothing_to_a_fed_job() {
    let mut world = fed();
    let answer = world.answer_to(lines(&["x"]));
    let ClientResponse::Error(error) = answer else { panic!("{answer:?}") };
    assert!(error.to_string().contains("its generator"), "{error}");
}

#[test]
fn a_generator_that_is_submitted_again_goes_on() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a"], Some("a")));
    world.reports(2, |r| r.failed = vec![(GENERATOR, failed(0, 0, 1))]);
    assert_eq!(world.states(GENERATOR), "failed: 1 failed");
    assert_eq!(world.states(JOB), "waiting: 1 waiting", "the job waits");
    let jobs = Selector::Ids(IdSet::single(TaskId(GENERATOR.0)));
    world.ask(ClientRequest::Resubmit { key: 77, jobs, tasks: None, states: Vec::new() });
    let again = JobId(4);
    let state = world.fed_state(again, add(1, &["b"], None));
    assert_eq!((state.made, state.feed.generator), (2, again));
    assert!(world.feed_refuses(GENERATOR, 0, FeedOrder::Look).contains("does not run as instance 0"));
}

#[test]
fn a_generator_in_whose_place_another_one_is_is_not_submitted_again() {
    let mut world = fed();
    let again = |world: &mut World, key| {
        let jobs = Selector::Ids(IdSet::single(TaskId(GENERATOR.0)));
        world.ask(ClientRequest::Resubmit { key, jobs, tasks: None, states: Vec::new() })
    };
    world.reports(2, |r| r.failed = vec![(GENERATOR, failed(0, 0, 1))]);
    assert!(matches!(again(&mut world, 77), ClientResponse::Submitted { .. }));
    let taken = "Job 1 was submitted again before, and another one is in its place: the generator of job 3 is job 4, and its \
                 reducer job 2.";
    let over = "Job 1 belongs to job 3, which is over: submit both again as they were.";
    for expected in [taken, over] {
        if expected == over {
            let jobs = Selector::Ids(IdSet::single(TaskId(JOB.0)));
            world.ask(ClientRequest::Cancel { jobs, tasks: None, reason: None });
        }
        for _ in 0..2 {
            let answer = again(&mut world, 78);
            let ClientResponse::Error(error) = answer else { panic!("{answer:?}") };
            assert_eq!(error.to_string(), expected);
            world.restart();
        }
    }
    world.ask(ClientRequest::ForgetJobs {
        jobs: Selector::Ids(IdSet::single(TaskId(GENERATOR.0))),
        states: Vec::new(),
    });
    let feed = world.server.state().jobs[&JOB].feed.clone().expect("kept");
    assert_eq!(feed.earlier, [], "nobody can ask for it any more");
}

#[test]
fn a_job_that_stands_still_says_what_goes_on_and_ends_with_what_has_not_ended() {
    let mut world = fed();
    world.reports(2, |r| r.failed = vec![(GENERATOR, failed(0, 0, 1))]);
    let jobs = || Selector::Ids(IdSet::single(TaskId(JOB.0)));
    let again = ClientRequest::Resubmit { key: 77, jobs: jobs(), tasks: None, states: Vec::new() };
    let answer = world.ask(again);
    let ClientResponse::Error(error) = answer else { panic!("{answer:?}") };
    assert!(error.to_string().contains("`hq job resubmit 1` goes on where it was"), "{error}");
    let answer = world.ask(ClientRequest::Cancel { jobs: jobs(), tasks: None, reason: None });
    let ClientResponse::Canceled(canceled) = answer else { panic!("{answer:?}") };
    assert_eq!(canceled.iter().map(|(job, ..)| *job).collect::<Vec<_>>(), [JOB, REDUCER]);
}

// It is closed while its reducer runs: that still gets the rest, and how it ends counts.
#[test]
fn a_job_that_is_closed_is_over_with_its_reducer() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a"], None));
    let jobs = || Selector::Ids(IdSet::single(TaskId(JOB.0)));
    world.ask(ClientRequest::CloseJobs { jobs: jobs() });
    assert_eq!(world.states(GENERATOR), "canceled: 1 canceled");
    assert_eq!(world.states(JOB), "waiting: 1 waiting");
    world.fed_tasks_end(0, 0, "one");
    assert_eq!(world.awaits_ends("0"), Some((String::new(), 0, true)), "there are no more");
    world.ask(ClientRequest::CloseJobs { jobs: jobs() });
    assert_eq!(world.states(JOB), "opened: 1 finished", "closed once more");
    world.reports(2, |r| r.failed = vec![(REDUCER, failed(0, 0, 3))]);
    assert!(
        stalled(&mut world).0.is_some_and(|why| why.contains("its reducer, job 2, has failed: exit code 3"))
    );
    let again = Selector::Ids(IdSet::single(TaskId(REDUCER.0)));
    world.ask(ClientRequest::Resubmit { key: 77, jobs: again, tasks: None, states: Vec::new() });
    let last = JobId(4);
    world.reports(2, |r| r.started = vec![started(last, 0, 0)]);
    world.reports(2, |r| r.finished = vec![finished(last, 0, 0, 0)]);
    assert_eq!(world.states(JOB), "finished: 1 finished");
}

// Nobody submits the one again that has failed: closing its job leaves that with what it has, and as one that has failed.
#[test]
fn a_job_whose_generator_or_reducer_has_failed_has_failed_when_it_is_closed() {
    for own in [GENERATOR, REDUCER] {
        let mut world = fed();
        world.fed_state(GENERATOR, add(0, &["a"], None));
        world.reports(2, |r| r.failed = vec![(own, failed(0, 0, 3))]);
        world.fed_tasks_end(0, 0, "one");
        assert_eq!(world.states(JOB), "opened: 1 finished");
        world.ask(ClientRequest::CloseJobs { jobs: Selector::Ids(IdSet::single(TaskId(JOB.0))) });
        if own == GENERATOR {
            assert_eq!(world.states(JOB), "opened: 1 finished", "its reducer gets the rest");
            world.reports(2, |r| r.finished = vec![finished(REDUCER, 0, 0, 0)]);
        }
        assert_eq!(world.states(JOB), "failed: 1 finished");
        world.restart();
        assert_eq!(world.states(JOB), "failed: 1 finished");
    }
}

// Nor does it help to forget the one that has failed.
#[test]
fn a_job_whose_generator_or_reducer_is_forgotten_has_failed_when_it_is_closed() {
    let one = |job: JobId| Selector::Ids(IdSet::single(TaskId(job.0)));
    for own in [GENERATOR, REDUCER] {
        let mut world = fed();
        world.fed_state(GENERATOR, add(0, &["a"], None));
        world.reports(2, |r| r.failed = vec![(own, failed(0, 0, 3))]);
        world.fed_tasks_end(0, 0, "one");
        world.ask(ClientRequest::ForgetJobs { jobs: one(own), states: Vec::new() });
        world.ask(ClientRequest::CloseJobs { jobs: one(JOB) });
        if own == GENERATOR {
            world.reports(2, |r| r.finished = vec![finished(REDUCER, 0, 0, 0)]);
        }
        assert_eq!(world.states(JOB), "failed: 1 finished");
    }
}

// What a reducer that has enough cancels is canceled by records of its own. A server that dies before these are written
// cancels it when it comes back, whatever has become of the reducer.
#[test]
fn wherever_a_server_dies_what_is_enough_is_canceled() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a", "b"], None));
    let order = FeedOrder::Save { ids: IdSet::new(), state: None, is_enough: true };
    let by = TaskRef::new(REDUCER, TaskId(0));
    let body = ClientRequest::Feed(Box::new(FeedRequest { by, instance: Instance(0), order }));
    let deaths = deaths(world, body);
    assert!(deaths.len() > 2, "there are several records");
    for mut world in deaths.into_iter().skip(1) {
        assert_eq!(world.states(GENERATOR), "canceled: 1 canceled");
        assert_eq!(world.states(JOB), "opened: 2 canceled");
    }
}

// A server that dies between any two records that a request makes comes back with a job that gets more tasks, or with one
// that is closed: never with one that stays open for no one.
#[test]
fn wherever_a_server_dies_a_job_that_gets_no_more_tasks_is_closed() {
    let close = |job| ClientRequest::CloseJobs { jobs: Selector::Ids(IdSet::single(TaskId(job))) };
    let cancel = |job| {
        let jobs = Selector::Ids(IdSet::single(TaskId(job)));
        ClientRequest::Cancel { jobs, tasks: None, reason: None }
    };
    let by = TaskRef::new(GENERATOR, TaskId(0));
    let more = Submit { target: Target::Open(JobId(2)), ..lines(&["b"]) };
    let order = FeedOrder::Add { at: 1, submits: vec![more], cursor: None, is_last: true };
    let last_line = ClientRequest::Feed(Box::new(FeedRequest { by, instance: Instance(0), order }));
    let order = FeedOrder::Add { at: 1, submits: Vec::new(), cursor: None, is_last: true };
    let end = ClientRequest::Feed(Box::new(FeedRequest { by, instance: Instance(0), order }));
    let without_reducer = || {
        let mut world = World::new();
        world.ask(submit_fed(9, false));
        world.worker(2, 4);
        let submits = vec![Submit { target: Target::Open(JobId(2)), ..lines(&["a"]) }];
        world.fed_state(GENERATOR, FeedOrder::Add { at: 0, submits, cursor: None, is_last: false });
        world
    };
    let with_failed_reducer = || {
        let mut world = fed();
        world.fed_state(GENERATOR, add(0, &["a"], None));
        world.reports(2, |r| r.failed = vec![(REDUCER, failed(0, 0, 3))]);
        world
    };
    check_deaths(without_reducer(), JobId(2), close(2));
    check_deaths(without_reducer(), JobId(2), cancel(2));
    check_deaths(without_reducer(), JobId(2), last_line);
    check_deaths(without_reducer(), JobId(2), end);
    check_deaths(with_failed_reducer(), JOB, close(3));
    check_deaths(with_failed_reducer(), JOB, cancel(3));
}

fn check_deaths(world: World, job: JobId, body: ClientRequest) {
    for world in deaths(world, body) {
        let fed = &world.server.state().jobs[&job];
        let feed = fed.feed.as_deref().expect("it is fed");
        let gets_more = !feed.is_decomposed && feed.end == FedEnd::ByTasks;
        assert_eq!(fed.is_open, gets_more, "{feed:?}");
    }
}

// A server that was restarted from what it had and the first of the records that a request makes, for each number of these.
fn deaths(mut world: World, body: ClientRequest) -> Vec<World> {
    let before = world.fold.clone();
    let mut effects = Vec::new();
    world.server.handle(world.now, Input::Client { connection: CLIENT, request: 1, body }, &mut effects);
    let records = effects.into_iter().filter_map(|effect| match effect {
        Effect::Persist { at, record } => Some((at, record)),
        _ => None,
    });
    let records: Vec<_> = records.collect();
    let dies_after = |count| {
        let mut fold = before.clone();
        records[..count].iter().for_each(|(at, record)| fold.apply(*at, record));
        let mut world = World { fold, ..World::new() };
        world.now = records[0].0;
        world.restart();
        world
    };
    (0..=records.len()).map(dies_after).collect()
}

// Attempts that die at any moment, and requests that are repeated because their answers were lost.
#[test]
fn whatever_dies_each_line_counts_once() {
    for seed in 1..=15_u64 {
        let mut chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut one_of = |count: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) % count
        };
        let lines_all = 30_u64;
        let mut world = World::new();
        let mut request = submit_fed(9, true);
        if let ClientRequest::SubmitJobs { jobs, .. } = &mut request
            && let NewTasks::Fed { generator, reducer } = &mut jobs[0].tasks
        {
            for submit in [Some(generator), reducer.as_mut()].into_iter().flatten() {
                Arc::make_mut(&mut submit.spec).retry = Retry { max: 1000, ..Retry::default() };
            }
        }
        world.ask(request);
        world.worker(2, 64);
        let (mut generators, mut reducers) = (0, 0);
        // What the reducer has been given since it began, and what it has made of that.
        let (mut given, mut sum, mut known): (Vec<u32>, u64, IdSet) = (Vec::new(), 0, IdSet::new());
        let look = |world: &mut World, job, instance| match world.feeds(job, instance, FeedOrder::Look).pop()
        {
            Some(ClientResponse::Feed(state)) => *state,
            other => panic!("seed {seed}: {other:?}"),
        };
        let mut rounds = 0;
        loop {
            rounds += 1;
            assert!(rounds < 5000, "seed {seed}: it does not end");
            let state = look(&mut world, REDUCER, reducers);
            if state.feed.is_decomposed && state.feed.reduced.len() == lines_all {
                break;
            }
            match one_of(10) {
                0 if !state.feed.is_decomposed => {
                    world.reports(2, |r| r.failed = vec![(GENERATOR, failed(0, generators, 1))]);
                    generators += 1;
                    world.wait(Duration::from_secs(1));
                }
                1 => {
                    world.reports(2, |r| r.failed = vec![(REDUCER, failed(0, reducers, 1))]);
                    reducers += 1;
                    world.wait(Duration::from_secs(1));
                    let state = look(&mut world, REDUCER, reducers);
                    let text = state.feed.state.map(|text| String::from_utf8(text).expect("text"));
                    sum = text.map_or(0, |text| text.parse().expect("a sum"));
                    (given, known) = (Vec::new(), state.feed.reduced);
                }
                2..=4 if !state.feed.is_decomposed => {
                    // It begins behind its cursor, and passes over what is there.
                    let state = look(&mut world, GENERATOR, generators);
                    let count = (1 + one_of(4)).min(lines_all - state.made);
                    let texts: Vec<String> =
                        (state.made..state.made + count).map(|n| (n + 1).to_string()).collect();
                    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                    let cursor = (one_of(2) == 0).then(|| (state.made + count).to_string());
                    let order = match count {
                        0 => last(state.made),
                        _ => add(state.made, &texts, cursor.as_deref()),
                    };
                    for _ in 0..=one_of(2) {
                        let answers = world.feeds(GENERATOR, generators, order.clone());
                        assert!(matches!(answers[..], [ClientResponse::Feed(_)]), "seed {seed}: {answers:?}");
                    }
                }
                5..=6 => {
                    let leased = world.server.state().jobs[&JOB].leased.values().next().cloned();
                    let Some(task) = leased.and_then(|ids| ids.iter().nth(one_of(ids.len()) as usize)) else {
                        continue;
                    };
                    let text = (task.0 + 1).to_string();
                    let results = Entries::new([text.as_bytes()]).expect("little");
                    let span = FinishedSpan { results, ..finished(JOB, task.0, task.0, 0) };
                    world.reports(2, |r| r.finished = vec![span]);
                }
                7..=8 => {
                    let body = ClientRequest::AwaitEnds { job: JOB, known: known.clone() };
                    let input = Input::Client { connection: CLIENT, request: 7, body };
                    let Some(ClientResponse::Ends(ends)) = world.step(input).pop() else {
                        // It is not waited for any longer.
                        world.step(Input::ClientGone { connection: CLIENT });
                        continue;
                    };
                    assert_eq!(ends.ids, ends.finished, "seed {seed}: no result is lost");
                    for (task, result) in ends.ids.iter().zip(ends.results.iter()) {
                        given.push(task.0);
                        sum += String::from_utf8_lossy(result).parse::<u64>().expect("a number");
                    }
                    known.union_with(&ends.finished);
                }
                _ => {
                    let ids: IdSet = given.iter().map(|task| TaskId(*task)).collect();
                    let order =
                        FeedOrder::Save { ids, state: Some(sum.to_string().into()), is_enough: false };
                    for _ in 0..=one_of(2) {
                        let answers = world.feeds(REDUCER, reducers, order.clone());
                        assert!(matches!(answers[..], [ClientResponse::Feed(_)]), "seed {seed}: {answers:?}");
                    }
                }
            }
        }
        let state = look(&mut world, REDUCER, reducers);
        let all = lines_all * (lines_all + 1) / 2;
        assert_eq!(state.feed.state, Some(all.to_string().into_bytes()), "seed {seed}");
        assert_eq!((state.unreduced_bytes, state.made), (0, lines_all), "seed {seed}");
    }
}

// A drain says that what runs there is finished first, and a generator may have no end.
#[test]
fn a_worker_that_drains_ends_generators_and_reducers_when_nothing_else_is_left_there() {
    let mut world = fed();
    world.fed_state(GENERATOR, add(0, &["a"], Some("a")));
    assert_eq!(world.sent(2), "3:0/0");
    world.reports(2, |r| r.started = vec![started(JOB, 0, 0)]);
    let stopped = world.ask(ClientRequest::StopWorkers { workers: Selector::All, drain: true });
    assert!(matches!(stopped, ClientResponse::WorkersStopped { .. }), "{stopped:?}");
    let ends = |world: &World| world.server.live.values().all(|live| live.ends_tasks());
    assert!(!ends(&world), "a line runs there");
    world.fed_tasks_end(0, 0, "1");
    assert!(ends(&world));
}
