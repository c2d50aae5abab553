//! Drafts: jobs that are submitted in several requests count as a whole or not at all.

use std::time::Duration;

use super::*;
use crate::client_messages::RequestError;
use crate::limits::DRAFT_GRACE;

fn draft(world: &mut World) -> JobId {
    world.key += 1;
    let spec = JobSpec { name: "many".into(), is_draft: true, ..JobSpec::default() };
    match world.ask(ClientRequest::OpenJob { key: world.key, spec }) {
        ClientResponse::Submitted { job, .. } => job,
        other => panic!("{other:?}"),
    }
}

fn block(world: &World, job: JobId, count: u32) -> ClientRequest {
    let submit = || Submit::new(Target::Open(job), TaskIds::Next(1), one_cpu());
    ClientRequest::SubmitAll { key: world.key, submits: (0..count).map(|_| submit()).collect() }
}

fn add(world: &mut World, job: JobId, count: u32) {
    world.key += 1;
    let answer = world.ask(block(world, job, count));
    assert!(matches!(answer, ClientResponse::Submitted { .. }), "{answer:?}");
}

// A worker with room, and a draft with two tasks.
fn world_with_draft() -> (World, JobId) {
    let mut world = World::new();
    world.worker(2, 8);
    let job = draft(&mut world);
    add(&mut world, job, 2);
    (world, job)
}

fn close(world: &mut World, job: JobId) -> ClientResponse {
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    world.ask(ClientRequest::CloseJobs { jobs })
}

fn gone(world: &mut World) {
    world.step(Input::ClientGone { connection: CLIENT });
}

// All that is known of jobs.
fn jobs(world: &mut World) -> String {
    match world.ask(ClientRequest::ListJobs { states: Vec::new() }) {
        ClientResponse::JobList(jobs) => {
            let shown = jobs
                .iter()
                .map(|job| format!("{}{}: {}", job.job, if job.is_open { "*" } else { "" }, job.state()));
            shown.collect::<Vec<_>>().join(", ")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_of_a_draft_starts_before_it_is_closed() {
    let (mut world, job) = world_with_draft();
    add(&mut world, job, 1);
    assert_eq!(world.sent(2), "");
    assert_eq!(close(&mut world, job), ClientResponse::Jobs(vec![job]));
    assert_eq!(world.sent(2), "1:0/0 1:1/0 1:2/0");
}

#[test]
fn a_client_that_goes_in_the_middle_leaves_nothing() {
    let (mut world, job) = world_with_draft();
    gone(&mut world);
    world.wait(DRAFT_GRACE - Duration::from_secs(1));
    assert_eq!(jobs(&mut world), "1*: waiting", "it may have lost its connection only");
    let at = world.server.next_wakeup().expect("the end of its time");
    world.now = world.now.max(at);
    world.step(Input::Tick);
    assert_eq!(jobs(&mut world), "");
    assert_eq!(world.sent(2), "");
    assert_eq!(world.server.state().submits_bytes, 0);
    let error = close(&mut world, job);
    assert!(matches!(error, ClientResponse::Error(RequestError::NoJob(_))), "{error:?}");
}

#[test]
fn a_client_that_comes_back_goes_on() {
    let (mut world, job) = world_with_draft();
    gone(&mut world);
    // It repeats what it was not answered, over another connection.
    let again = Input::Client { connection: ConnectionId(77), request: 1, body: block(&world, job, 2) };
    assert_eq!(world.step(again).len(), 1);
    world.wait(DRAFT_GRACE * 2);
    assert_eq!(jobs(&mut world), "1*: waiting");
    close(&mut world, job);
    assert_eq!(world.sent(2), "1:0/0 1:1/0", "it was done once");
}

#[test]
fn over_a_restart_a_draft_waits_for_its_client() {
    for comes_back in [true, false] {
        let mut world = World::new();
        let job = draft(&mut world);
        add(&mut world, job, 3);
        world.restart();
        if comes_back {
            add(&mut world, job, 1);
        }
        world.wait(DRAFT_GRACE * 2);
        assert_eq!(jobs(&mut world), if comes_back { "1*: waiting" } else { "" });
    }
}

#[test]
fn a_closed_draft_is_any_job() {
    let mut world = World::new();
    let job = draft(&mut world);
    add(&mut world, job, 3);
    close(&mut world, job);
    gone(&mut world);
    world.restart();
    world.wait(DRAFT_GRACE * 2);
    assert_eq!(jobs(&mut world), "1: waiting");
    world.worker(2, 8);
    assert_eq!(world.sent(2), "1:0/0 1:1/0 1:2/0");
}

#[test]
fn what_waits_for_a_draft_that_is_dropped_never_runs() {
    let mut world = World::new();
    let job = draft(&mut world);
    add(&mut world, job, 1);
    let after: hq_model::dependency::After = job.to_string().parse().expect("a job");
    let waiting = world.graph(2, vec![after], Default::default()).expect("accepted");
    gone(&mut world);
    world.wait(DRAFT_GRACE * 2);
    assert_eq!(jobs(&mut world), format!("{waiting}: aborted"));
}

#[test]
fn a_journal_that_cannot_be_written_keeps_drafts() {
    let mut world = World::new();
    let job = draft(&mut world);
    add(&mut world, job, 1);
    gone(&mut world);
    world.step(Input::JournalFails { error: "no space".into() });
    world.wait(DRAFT_GRACE * 2);
    assert_eq!(jobs(&mut world), "1*: waiting");
    world.step(Input::JournalWorks);
    assert_eq!(jobs(&mut world), "");
}

#[test]
fn tasks_of_a_draft_say_that_they_wait_for_its_end() {
    let (mut world, _) = world_with_draft();
    let answer = world.ask(ClientRequest::ExplainTask { jobs: Selector::Last, task: TaskId(1) });
    let ClientResponse::Explained(task) = answer else { panic!("{answer:?}") };
    let answer = world.ask(ClientRequest::ExplainJobs { jobs: Selector::Last });
    let ClientResponse::ExplainedJobs(jobs) = answer else { panic!("{answer:?}") };
    assert_eq!(jobs[0].groups.len(), 1);
    for reasons in [&task.reasons, &jobs[0].groups[0].reasons] {
        let texts: Vec<&str> = reasons.iter().map(|reason| reason.text.as_str()).collect();
        assert_eq!(texts, ["the job is not submitted as a whole yet"]);
    }
}
