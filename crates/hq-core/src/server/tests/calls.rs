//! Calls whose arguments and results are packed by clients, which wait for each of them.

use hq_model::body::{EntryKind, Function};
use hq_model::dependency::{After, Dependencies, Edges};
use hq_model::{TaskRef, WorkerId};

use super::*;
use crate::client_messages::JobEnds;
use crate::limits::RESULT_BYTES_MAX;
use crate::worker_messages::{Lends, Started};

pub(super) fn packed(spec: &mut TaskSpec) {
    spec.body = Body::Function(Function {
        name: "fit".into(),
        code: b"code".to_vec(),
        interpreter: vec![b"python3".to_vec()],
        entry: EntryKind::Packed,
        ..Function::default()
    });
}

fn entries(texts: &[&[u8]]) -> Entries {
    Entries::new(texts.iter().copied()).expect("little")
}

fn returned(job: JobId, first: u32, results: &[&[u8]]) -> FinishedSpan {
    let last = first + results.len() as u32 - 1;
    FinishedSpan { results: entries(results), ..finished(job, first, last, 0) }
}

fn raised(task: u32, result: &[u8]) -> Failure {
    Failure { result: result.to_vec(), ..failed(task, 0, 1) }
}

impl World {
    fn calls(&mut self, count: u32) -> JobId {
        self.submit(count, packed)
    }

    // Who asks has said what it knows, and hears now or later.
    fn await_ends(&mut self, job: JobId, known: &str) -> Vec<ClientResponse> {
        let known = if known.is_empty() { IdSet::new() } else { known.parse().expect("ids") };
        let body = ClientRequest::AwaitEnds { job, known };
        self.step(Input::Client { connection: CLIENT, request: 7, body })
    }

    fn hears_report(&mut self, change: impl FnOnce(&mut Report)) -> Vec<ClientResponse> {
        self.reports += 1;
        let mut report = Report { number: self.reports, ..Report::default() };
        change(&mut report);
        let message = FromWorker::Report(report);
        self.step(Input::Worker { connection: ConnectionId(1), message })
    }
}

fn told(answers: Vec<ClientResponse>) -> String {
    let told = answers.into_iter().map(|answer| match answer {
        ClientResponse::Ends(ends) => in_words(&ends),
        other => format!("{other:?}"),
    });
    told.collect::<Vec<_>>().join("; ")
}

fn in_words(ends: &JobEnds) -> String {
    let mut words = Vec::new();
    let results: Vec<_> = ends.ids.iter().zip(ends.results.iter()).collect();
    let of = |ids: &IdSet| {
        let found = results.iter().filter(|(id, _)| ids.contains(*id));
        found.map(|(_, result)| format!(" {}", String::from_utf8_lossy(result))).collect::<String>()
    };
    if !ends.finished.is_empty() {
        words.push(format!("finished {}{}", ends.finished, of(&ends.finished)));
    }
    for (task, kind, error) in &ends.failed {
        words.push(format!("failed {task} {kind:?} {error}{}", of(&IdSet::single(*task))));
    }
    if !ends.canceled.is_empty() {
        words.push(format!("canceled {}", ends.canceled));
    }
    words.extend(ends.aborted.iter().map(|(ids, reason)| format!("aborted {ids} {reason}")));
    words.extend(ends.is_over.then(|| "over".to_owned()));
    words.join(", ")
}

#[test]
fn ends_are_told_as_soon_as_there_is_one_that_is_not_known() {
    let mut world = World::new();
    world.worker(1, 4);
    let job = world.calls(4);
    assert_eq!(told(world.await_ends(job, "")), "");
    let heard = world.hears_report(|report| report.finished.push(returned(job, 1, &[b"b", b"c"])));
    assert_eq!(told(heard), "finished 1-2 b c");
    // It asks for more, knowing these.
    assert_eq!(told(world.await_ends(job, "1-2")), "");
    let heard = world.hears_report(|report| report.failed.push((job, raised(3, b"error"))));
    assert_eq!(told(heard), "failed 3 Exit(1) exit code 1 error");
    world.hears_report(|report| report.finished.push(returned(job, 0, &[b"a"])));
    assert_eq!(told(world.await_ends(job, "1-3")), "finished 0 a, over");
    assert_eq!(told(world.await_ends(job, "0-3")), "over");
    // One that lost what it knew hears all of it again.
    assert_eq!(
        told(world.await_ends(job, "")),
        "finished 0-2 a b c, failed 3 Exit(1) exit code 1 error, over"
    );
}

#[test]
fn an_open_job_is_not_over_and_one_that_is_forgotten_is_not_there() {
    let mut world = World::new();
    world.worker(1, 4);
    let spec = JobSpec::default();
    let ClientResponse::Submitted { job, .. } = world.ask(ClientRequest::OpenJob { key: 99, spec }) else {
        panic!("a job")
    };
    assert_eq!(told(world.await_ends(job, "")), "");
    let mut spec = one_cpu();
    packed(&mut spec);
    let key = 98;
    let submit = Box::new(Submit::new(Target::Open(job), TaskIds::Next(1), spec));
    world.ask(ClientRequest::Submit { key, submit });
    let heard = world.hears_report(|report| report.finished.push(returned(job, 0, &[b"a"])));
    assert_eq!(told(heard), "finished 0 a");
    assert_eq!(told(world.await_ends(job, "0")), "");
    let body = ClientRequest::CloseJobs { jobs: Selector::Last };
    let heard = world.step(Input::Client { connection: ConnectionId(2), request: 1, body });
    assert_eq!(heard.iter().filter(|answer| matches!(answer, ClientResponse::Ends(_))).count(), 1);
    world.ask(ClientRequest::ForgetJobs { jobs: Selector::Last, states: Vec::new() });
    assert_eq!(told(world.await_ends(job, "")), format!("Error(NoJob(JobId({job})))"));
}

#[test]
fn what_never_ran_ends_too() {
    let mut world = World::new();
    let first = world.calls(1);
    let after = After { tasks: Some(IdSet::single(TaskId(0))), ..After::of(first) };
    let dependencies = Arc::new(Dependencies { after: vec![after], ..Dependencies::default() });
    let target = Target::New(JobSpec::default());
    let second = world.submits(Submit { dependencies, ..Submit::new(target, TaskIds::Next(2), one_cpu()) });
    assert_eq!(told(world.await_ends(second, "")), "");
    let tasks = IdSet::range(0, 5);
    let body = ClientRequest::CancelWaiting { job: first, tasks };
    let heard = told(world.step(Input::Client { connection: ConnectionId(2), request: 1, body }));
    let aborted = "aborted 0-1 Task 1@0 was canceled, for which these tasks wait., over";
    assert_eq!(heard, format!("Canceled([(JobId(1), {{0}}, 5)]); {aborted}"));
    assert_eq!(told(world.await_ends(first, "")), "canceled 0, over");
}

#[test]
fn what_has_not_begun_is_asked_back_and_canceled() {
    let mut world = World::new();
    world.worker(1, 1);
    let job = world.calls(100);
    let sent = world.sent(1);
    let first: IdSet = sent.split([':', '/']).nth(1).expect("ids").parse().expect("ids");
    assert!(first.len() > 1 && first.len() < 100, "{sent}");
    let body = ClientRequest::CancelWaiting { job, tasks: IdSet::range(0, 120) };
    let answers = world.step(Input::Client { connection: CLIENT, request: 1, body });
    assert_eq!(answers, [], "it is not known what has begun");
    assert!(world.server.cancelings.bytes() > 0);
    assert_eq!(world.sent(1), format!("<1:{first}"));
    assert_eq!(
        world.states(job),
        format!("waiting: {} waiting, {} canceled", first.len(), 100 - first.len())
    );
    let mut others = first.difference(&IdSet::single(TaskId(0)));
    assert_eq!(told(world.hears_report(|report| report.returned.push((job, others.clone())))), "");
    assert_eq!(world.sent(1), "", "nothing of it is handed out again");
    let answers = world.hears_report(|report| report.started.push(started(job, 0, 0)));
    others.union_with(&IdSet::range(first.last().expect("some").0 + 1, 99));
    assert_eq!(answers, [ClientResponse::Canceled(vec![(job, others, 22)])]);
    assert_eq!(world.server.cancelings.bytes(), 0);
    assert_eq!(world.states(job), "running: 1 running, 99 canceled");
}

#[test]
fn what_becomes_known_while_the_journal_is_full_is_answered_when_it_works() {
    let mut world = World::new();
    world.worker(1, 1);
    let job = world.calls(2);
    assert_eq!(world.sent(1), "1:0-1/0");
    let body = ClientRequest::CancelWaiting { job, tasks: IdSet::range(0, 1) };
    assert_eq!(world.step(Input::Client { connection: CLIENT, request: 1, body }), []);
    world.step(Input::JournalFails { error: "no space".into() });
    assert_eq!(world.hears_report(|report| report.started.push(started(job, 0, 0))), []);
    assert_eq!(world.hears_report(|report| report.returned.push((job, IdSet::single(TaskId(1))))), []);
    let answers = world.step(Input::JournalWorks);
    assert_eq!(answers, [ClientResponse::Canceled(vec![(job, IdSet::single(TaskId(1)), 1)])]);
}

#[test]
fn one_that_has_gone_is_told_nothing() {
    let mut world = World::new();
    world.worker(1, 4);
    let job = world.calls(1);
    world.await_ends(job, "");
    world.step(Input::ClientGone { connection: CLIENT });
    assert_eq!(told(world.hears_report(|report| report.finished.push(returned(job, 0, &[b"a"])))), "");
}

#[test]
fn no_answer_is_too_large_and_none_is_left_out() {
    let mut world = World::new();
    world.is_unchecked = true;
    world.worker(1, 4);
    let job = world.calls(200);
    let large = vec![b'r'; RESULT_BYTES_MAX];
    for task in 0..100 {
        world.hears_report(|report| report.finished.push(returned(job, 2 * task, &[&large])));
        world.hears_report(|report| report.failed.push((job, raised(2 * task + 1, &large))));
    }
    let (mut known, mut answers) = (IdSet::new(), 0);
    loop {
        let heard = world.await_ends(job, &if known.is_empty() { String::new() } else { known.to_string() });
        let [ClientResponse::Ends(ends)] = &heard[..] else { panic!("{heard:?}") };
        assert!(ends.results.bytes_len() <= crate::limits::RESULTS_PAGE_BYTES);
        assert_eq!(ends.ids.len() as usize, ends.results.len());
        let failed: IdSet = ends.failed.iter().map(|(task, ..)| *task).collect();
        assert_eq!(ends.ids, {
            let mut all = ends.finished.clone();
            all.union_with(&failed);
            all
        });
        assert!(known.intersection(&ends.ids).is_empty());
        known.union_with(&ends.ids);
        answers += 1;
        if ends.is_over {
            break;
        }
    }
    assert_eq!((known, answers), (IdSet::range(0, 199), 4));
}

#[test]
fn results_of_others_come_with_the_call_that_waits_for_them() {
    let mut world = World::new();
    world.worker_saying(1, 4, |hello| hello.follows = true);
    let first = world.calls(2);
    world.sent(1);
    let lists: [&[u32]; 3] = [&[], &[0], &[]];
    let lists = lists.map(|list| list.iter().copied().map(TaskId).collect::<Vec<_>>());
    let edges = Edges::new(lists).expect("few");
    let after = After { tasks: Some(IdSet::range(0, 1)), ..After::of(first) };
    let dependencies = Arc::new(Dependencies { after: vec![after], edges, ..Dependencies::default() });
    let mut spec = one_cpu();
    packed(&mut spec);
    let target = Target::New(JobSpec::default());
    let second = world.submits(Submit { dependencies, ..Submit::new(target, TaskIds::Next(3), spec) });
    world.reports(1, |report| report.finished.push(returned(first, 0, &[b"a", b"b"])));
    assert_eq!(inputs(&mut world), "0<1@0 a, 0<1@1 b, 2<1@0 a, 2<1@1 b", "and no follower");
    world.reports(1, |report| report.finished.push(returned(second, 0, &[b"c"])));
    assert_eq!(inputs(&mut world), "1<2@0 c, 1<1@0 a, 1<1@1 b");
    // A server that is there for the first one has them, too.
    world.reports(1, |report| report.returned.push((second, IdSet::single(TaskId(1)))));
    inputs(&mut world);
    world.restart();
    world.worker(2, 4);
    world.wait(crate::limits::WORKER_GRACE);
    assert_eq!(inputs(&mut world), "1<2@0 c, 1<1@0 a, 1<1@1 b, 2<1@0 a, 2<1@1 b");
}

// Of all that was handed out.
fn inputs(world: &mut World) -> String {
    let told = world.to_workers.drain(..).filter_map(|(_, message)| match message {
        ToWorker::Run(batches) => Some(batches),
        _ => None,
    });
    let inputs = told.flatten().flat_map(|batch| batch.inputs);
    let said = inputs.map(|input| {
        let of: TaskRef = input.of;
        format!("{}<{of} {}", input.task, String::from_utf8_lossy(&input.result))
    });
    said.collect::<Vec<_>>().join(", ")
}

#[test]
fn results_are_told_with_what_is_missing_of_them() {
    let mut world = World::new();
    world.worker(1, 4);
    let calls = world.calls(6);
    let programs = world.submit(2, |_| {});
    world.sent(1);
    world.reports(1, |report| {
        report.finished.push(returned(calls, 0, &[b"a", b"", b"c"]));
        report.failed.push((calls, raised(3, b"why")));
    });
    let jobs = Selector::All;
    let asks = |from, with_failed, bytes| match world.server.results(&jobs, None, from, with_failed, bytes) {
        Ok(ClientResponse::Results { jobs, next }) => {
            let told = jobs.into_iter().map(|of| {
                let results: Vec<_> = of.results.iter().map(String::from_utf8_lossy).collect();
                let crate::client_messages::JobResults { job, ids, failed, dropped, without, .. } = &of;
                format!(
                    "{job}: {ids}={} failed {failed} dropped {dropped} without {without}",
                    results.join(",")
                )
            });
            (told.collect::<Vec<_>>().join("; "), next)
        }
        other => panic!("{other:?}"),
    };
    let whole = "1: 0,2=a,c failed 3 dropped 1 without 4-5; 2: = failed  dropped  without 0-1";
    assert_eq!((programs, asks(None, false, 10_000)), (JobId(2), (whole.into(), None)));
    let with_failed = "1: 0,2-3=a,c,why failed 3 dropped 1 without 4-5; 2: = failed  dropped  without 0-1";
    assert_eq!(asks(None, true, 10_000), (with_failed.into(), None));
    // Each page tells of the tasks up to the next one.
    let (first, next) = asks(None, true, 64 + 10);
    assert_eq!(
        (first.as_str(), next),
        ("1: 0=a failed  dropped 1 without ", Some(TaskRef::new(calls, TaskId(2))))
    );
    let (second, _) = asks(next, true, 10_000);
    assert!(second.starts_with("1: 2-3=c,why failed 3 dropped  without 4-5; 2"), "{second}");
}

fn lends(job: JobId, task: u32, instance: u32, is_lent: bool) -> Lends {
    Lends { job, task: TaskId(task), instance: Instance(instance), is_lent }
}

#[test]
fn when_no_more_calls_lend_their_cpus_those_that_wait_say_so() {
    let mut world = World::new();
    world.worker(1, 1);
    let most = crate::limits::LENDING_MAX_LEAST as u32;
    let waits = world.calls(most + 2);
    for task in 0..=most {
        let at = world.now;
        let started = Started { job: waits, task: TaskId(task), instance: Instance(0), at, variant: None };
        world.hears_report(|report| report.started.push(started));
        if task < most {
            world.hears_report(|report| report.lends.push(lends(waits, task, 0, true)));
        }
    }
    let said = super::explanations::explained(&mut world, waits, most + 1).join("; ");
    assert!(said.contains("64 calls wait there for others, and no more of them lend their CPUs"), "{said}");
}

#[test]
fn cpus_that_a_call_lends_are_given_to_others_until_it_goes_on() {
    let mut world = World::new();
    world.worker(1, 2);
    let whole = |spec: &mut TaskSpec| {
        packed(spec);
        spec.requests = vec![cpus(2)];
    };
    let waits = world.submit(1, whole);
    let started = |at| Started { job: waits, task: TaskId(0), instance: Instance(0), at, variant: None };
    let now = world.now;
    world.hears_report(|report| report.started.push(started(now)));
    let taken = |world: &World| world.server.taken_on(WorkerId(1)).expect("a worker")[0];
    assert_eq!(taken(&world), 20_000);
    // Of an attempt that is not this one nothing is known.
    world.hears_report(|report| report.lends.push(lends(waits, 0, 7, true)));
    assert_eq!(taken(&world), 20_000);
    world.hears_report(|report| report.lends.extend([lends(waits, 0, 0, true), lends(waits, 0, 0, true)]));
    assert_eq!(taken(&world), 0);
    let said = super::explanations::explained(&mut world, waits, 0);
    assert_eq!(said[1], "1: it waits for calls that it has made, and lends them its CPUs");
    world.sent(1);
    let called = world.submit(1, whole);
    assert!(world.sent(1).contains(&format!("{called}")), "it is handed out at once");
    assert_eq!(taken(&world), 20_000, "what was lent is in use");
    world.hears_report(|report| {
        report.finished.push(returned(called, 0, &[b"a"]));
        report.lends.push(lends(waits, 0, 0, false));
    });
    assert_eq!(taken(&world), 20_000, "it has them again");
    world.hears_report(|report| report.lends.push(lends(waits, 0, 0, true)));
    world.hears_report(|report| report.finished.push(returned(waits, 0, &[b"b"])));
    assert_eq!(taken(&world), 0);
}
