//! Drafts: jobs that are submitted in several requests count as a whole or not at all.

use std::time::Duration;

use hq_model::notice::{Moment, NoticeRule, NoticeTarget};
use hq_model::task::EndBy;

use super::*;
use crate::client_messages::RequestError;
use crate::limits::DRAFT_GRACE;

const STRANGER: ConnectionId = ConnectionId(77);

fn opening(key: u128) -> ClientRequest {
    let spec = JobSpec { name: "many".into(), is_draft: true, ..JobSpec::default() };
    ClientRequest::OpenJob { key, spec }
}

fn draft(world: &mut World) -> JobId {
    world.key += 1;
    let request = opening(world.key);
    match world.ask(request) {
        ClientResponse::Submitted { job, .. } => job,
        other => panic!("{other:?}"),
    }
}

fn ask_as(world: &mut World, connection: ConnectionId, body: ClientRequest) -> ClientResponse {
    world.step(Input::Client { connection, request: 1, body }).remove(0)
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
fn what_ends_in_the_moment_in_which_a_draft_is_dropped_is_told() {
    let mut world = World::new();
    draft(&mut world);
    gone(&mut world);
    let target = NoticeTarget::Command(vec!["told".into()]);
    let notices = [Moment::End, Moment::Stall].map(|on| NoticeRule { on, target: target.clone() });
    let told = JobSpec { notices: notices.into(), stall_after: Some(DRAFT_GRACE), ..JobSpec::default() };
    let job = world.submit_as(told, 1, |spec| spec.end_by = Some(EndBy::Within(DRAFT_GRACE / 2)));
    world.wait(DRAFT_GRACE);
    let titles: Vec<String> = world.notices.iter().map(hq_model::Notice::title).collect();
    assert_eq!(titles, [format!("Job {job} (true) has ended as canceled: 1 canceled")]);
}

#[test]
fn a_client_that_comes_back_goes_on() {
    let (mut world, job) = world_with_draft();
    let again = ConnectionId(78);
    // It opens its draft again and repeats what it was not answered, over another connection, of which the server may hear
    // before it has lost the other one.
    let is_again = ask_as(&mut world, again, opening(1));
    assert!(matches!(is_again, ClientResponse::Submitted { job: same, .. } if same == job), "{is_again:?}");
    gone(&mut world);
    let repeated = block(&world, job, 2);
    ask_as(&mut world, again, repeated);
    world.wait(DRAFT_GRACE * 2);
    assert_eq!(jobs(&mut world), "1*: waiting");
    let closes = ClientRequest::CloseJobs { jobs: Selector::Ids(IdSet::single(TaskId(job.0))) };
    assert_eq!(ask_as(&mut world, again, closes), ClientResponse::Jobs(vec![job]));
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
            world.ask(opening(1));
            add(&mut world, job, 1);
        }
        world.wait(DRAFT_GRACE * 2);
        assert_eq!(jobs(&mut world), if comes_back { "1*: waiting" } else { "" });
    }
}

#[test]
fn nobody_else_takes_a_draft() {
    let (mut world, job) = world_with_draft();
    for is_away in [false, true] {
        if is_away {
            gone(&mut world);
        }
        let ids = Selector::Ids(IdSet::single(TaskId(job.0)));
        let named = [ClientRequest::CloseJobs { jobs: ids }, block(&world, job, 2)];
        for request in named {
            let ClientResponse::Error(error) = ask_as(&mut world, STRANGER, request) else {
                panic!("refused")
            };
            assert!(error.to_string().starts_with("Job 1 is not submitted as a whole yet"), "{error}");
        }
        let (tasks, reason) = (None, None);
        let closed = ask_as(&mut world, STRANGER, ClientRequest::CloseJobs { jobs: Selector::All });
        assert_eq!(closed, ClientResponse::Jobs(Vec::new()));
        let cancel = ClientRequest::Cancel { jobs: Selector::All, tasks, reason };
        assert_eq!(ask_as(&mut world, STRANGER, cancel), ClientResponse::Canceled(Vec::new()));
        let last = ClientRequest::CloseJobs { jobs: Selector::Last };
        assert_eq!(ask_as(&mut world, STRANGER, last), ClientResponse::Error(RequestError::NoJobs));
        assert_eq!(jobs(&mut world), "1*: waiting");
    }
    assert_eq!(world.sent(2), "");
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
    let (mut world, job) = world_with_draft();
    let one = |job: JobId| Selector::Ids(IdSet::single(TaskId(job.0)));
    let answer = world.ask(ClientRequest::ExplainTask { jobs: one(job), task: TaskId(1) });
    let ClientResponse::Explained(task) = answer else { panic!("{answer:?}") };
    let answer = world.ask(ClientRequest::ExplainJobs { jobs: one(job) });
    let ClientResponse::ExplainedJobs(jobs) = answer else { panic!("{answer:?}") };
    assert_eq!(jobs[0].groups.len(), 1);
    for reasons in [&task.reasons, &jobs[0].groups[0].reasons] {
        let texts: Vec<&str> = reasons.iter().map(|reason| reason.text.as_str()).collect();
        assert_eq!(texts, ["the job is not submitted as a whole yet"]);
    }
}
