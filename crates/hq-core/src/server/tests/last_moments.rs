//! Tasks that are to have ended by some moment.

use hq_model::TaskRef;
use hq_model::task::EndBy;

use super::explanations::{explanation, job_explained};
use super::losses::task;
use super::*;
use crate::explanation::ReasonKind;

const MINUTE: Duration = Duration::from_secs(60);

// Ten minutes after the submit, of which it takes four.
fn in_ten_minutes(spec: &mut TaskSpec) {
    spec.end_by = Some(EndBy::Within(MINUTE * 10));
    spec.expected = Some(MINUTE * 4);
}

// What is said of the end of each group that waits together.
fn ends(world: &mut World, job: JobId) -> Vec<String> {
    let mut told = job_explained(world, job);
    told.retain(|text| text.contains(" to end by "));
    told
}

#[test]
fn what_has_not_started_is_canceled_when_it_could_not_end_in_time() {
    let mut world = World::new();
    let job = world.submit(5, in_ten_minutes);
    world.worker(2, 1);
    assert_eq!(world.sent(2), "1:0/0");
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    world.wait(MINUTE * 5);
    let explained = explanation(&mut world, job, 3);
    let reason = explained.reasons.iter().find(|reason| reason.kind == ReasonKind::EndBy).expect("a reason");
    assert!(
        reason.text.contains("and is said to take 4m, so it is canceled unless it starts within"),
        "{reason:?}"
    );
    let [text] = &ends(&mut world, job)[..] else { panic!("what runs is not concerned") };
    assert!(text.starts_with("1-4: they are to end by "), "{text}");
    assert!(text.contains(", and each is said to take 4m: what does not start within "), "{text}");
    let due = world.server.next_wakeup().expect("a moment");
    assert_eq!(reason.until.map(|last| last.after(Duration::from_micros(1))), Some(due));
    assert_eq!(world.states(job), "running: 4 waiting, 1 running");
    world.wait(due.since(world.now));
    assert_eq!(world.states(job), "running: 1 running, 4 canceled");
    assert_eq!(world.sent(2), "", "what runs is left alone");
    let canceled = task(&mut world, job, 3);
    let end = canceled.too_late.expect("a time");
    assert_eq!(canceled.error, Some(format!("Not started: it could not have ended by {end:#}.")));
    world.restart();
    assert_eq!(task(&mut world, job, 3), canceled, "also after a restart");
    assert_eq!(world.server.check_recount(), Ok(()));
}

#[test]
fn of_tasks_that_wait_together_those_are_told_that_are_too_late_first() {
    let mut world = World::new();
    let job = world.open();
    world.submits(Submit::new(Target::Open(job), TaskIds::Next(2), one_cpu()));
    for (minutes, count) in [(30, 3), (10, 1)] {
        let end_by = Some(EndBy::Within(MINUTE * minutes));
        let spec = TaskSpec { end_by, ..one_cpu() };
        world.submits(Submit::new(Target::Open(job), TaskIds::Next(count), spec));
    }
    let [text] = &ends(&mut world, job)[..] else { panic!("one group") };
    assert!(text.starts_with("0-5: 1 of them is to end by ") && text.ends_with(" is canceled"), "{text}");
}

#[test]
fn what_a_worker_has_not_begun_is_asked_back_and_canceled() {
    let mut world = World::new();
    let job = world.submit(400, |spec| {
        in_ten_minutes(spec);
        spec.expected = Some(Duration::from_millis(1));
    });
    world.worker(2, 1);
    let sent = world.sent(2);
    assert!(sent.starts_with("1:0-"), "{sent}");
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    world.wait(MINUTE * 10);
    let retracted = world.sent(2);
    let ids: IdSet = retracted.strip_prefix("<1:").expect("a retraction").parse().expect("ids");
    assert_eq!(ids.first(), Some(TaskId(1)));
    // One of them has begun meanwhile.
    world.reports(2, |r| {
        r.started = vec![started(job, 1, 0)];
        let mut back = ids.clone();
        back.remove(TaskId(1));
        r.returned = vec![(job, back)];
    });
    assert_eq!(world.sent(2), "");
    assert_eq!(world.states(job), "running: 2 running, 398 canceled");
}

#[test]
fn a_worker_that_was_away_is_asked_when_it_is_back() {
    let mut world = World::new();
    let job = world.submit(2, |spec| {
        in_ten_minutes(spec);
        spec.expected = None;
    });
    world.worker(2, 1);
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    world.wait(Duration::from_secs(1));
    let held = crate::worker_messages::Held {
        template: crate::worker_messages::TemplateId { job, submit: 0 },
        variant: None,
        instance: Instance(0),
        queued: IdSet::single(TaskId(1)),
        running: IdSet::single(TaskId(0)),
        started: vec![Timestamp(9)],
    };
    // Hours have passed by this clock, and the worker is still waited for.
    world.now = world.now.after(MINUTE * 11);
    world.worker_saying(4, 1, |hello| {
        hello.known_as = Some(hq_model::WorkerId(1));
        hello.holds = vec![held];
    });
    let sent = world.sent(4);
    assert!(sent == "<1:1" || world.states(job).ends_with("1 canceled"), "{sent}");
}

#[test]
fn what_waits_for_it_is_given_up_at_once() {
    let mut world = World::new();
    let first = world.submit(3, in_ten_minutes);
    let after = hq_model::dependency::After::of(first);
    let dependencies = hq_model::Dependencies { after: vec![after], ..Default::default() };
    let next = world.submits(Submit {
        dependencies: dependencies.into(),
        ..Submit::new(Target::New(JobSpec::default()), TaskIds::Next(2), one_cpu())
    });
    world.wait(MINUTE * 7);
    assert_eq!(
        (world.states(first), world.states(next)),
        ("canceled: 3 canceled".into(), "aborted: 2 aborted".into())
    );
}

#[test]
fn what_would_be_tried_again_too_late_has_failed() {
    let mut world = World::new();
    let job = world.submit(2, |spec| {
        in_ten_minutes(spec);
        spec.retry.max = 3;
        spec.retry.delay = MINUTE;
    });
    world.worker(2, 2);
    let half = MINUTE / 2;
    world.wait(MINUTE * 4 + half);
    world.reports(2, |r| r.failed = vec![(job, failed(0, 0, 1))]);
    assert_eq!(world.states(job), "waiting: 2 waiting", "in a minute");
    world.wait(half);
    world.reports(2, |r| r.failed = vec![(job, failed(1, 0, 1))]);
    assert_eq!(world.states(job), "waiting: 1 waiting, 1 failed");
}

#[test]
fn a_moment_that_has_passed_before_cancels_at_once() {
    let mut world = World::new();
    world.worker(2, 2);
    let at = Some(EndBy::At(Timestamp(1)));
    let job = world.submit(3, |spec| spec.end_by = at);
    assert_eq!((world.states(job), world.sent(2)), ("canceled: 3 canceled".into(), String::new()));
    let other = world.submit(1, |_| {});
    assert_eq!(world.sent(2), format!("{other}:0/0"), "others are not concerned");
    assert_eq!(task(&mut world, job, 0).task, TaskRef::new(job, TaskId(0)).task);
}

#[test]
fn whoever_submits_after_the_moment_hears_so_and_when_a_job_is_submitted_again() {
    let mut world = World::new();
    world.worker(2, 2);
    let spec = TaskSpec { end_by: Some(EndBy::At(Timestamp(1))), ..one_cpu() };
    let submit = Submit::new(Target::New(JobSpec::default()), TaskIds::Next(1), spec);
    let job = Selector::Ids(IdSet::single(TaskId(1)));
    for body in [
        ClientRequest::Submit { key: 0, submit: Box::new(submit) },
        ClientRequest::Resubmit { key: 0, jobs: job, tasks: None, states: Vec::new() },
    ] {
        let ClientResponse::Submitted { warnings, .. } = world.ask(body) else { panic!("refused") };
        assert!(warnings.concat().contains("by the server's clock it is"), "{warnings:?}");
    }
}
