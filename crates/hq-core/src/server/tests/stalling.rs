//! Jobs that stand still, and others that wait for such.

use hq_model::dependency::{After, Dependencies, Edges};

use super::feeding::{GENERATOR, JOB, REDUCER, fed, own};
use super::*;
use crate::client_messages::{NewJob, NewTasks};

// Whoever waits for a job is told that it cannot end, when that is known, whichever job is stalled.
#[test]
fn a_job_that_waits_for_one_that_stands_still_never_ends_and_who_waits_for_it_is_told_so() {
    let mut world = fed();
    let (second, third, fed_behind, other) = (JobId(4), JobId(5), JobId(7), JobId(8));
    world.graph(2, vec![After::of(JOB)], Edges::default()).expect("submitted");
    world.graph(2, vec![After::of(second)], Edges::default()).expect("submitted");
    let dependencies = Dependencies { after: vec![After::of(JOB)], ..Dependencies::default() };
    let generator = Submit { dependencies: Arc::new(dependencies), ..own("next: generate") };
    let tasks = NewTasks::Fed { generator: Box::new(generator), reducer: None };
    let spec = JobSpec { name: "next".into(), ..JobSpec::default() };
    let jobs = vec![NewJob { spec, after: Vec::new(), tasks, takes: Vec::new() }];
    world.ask(ClientRequest::SubmitJobs { key: 0, jobs });
    world.graph(2, Vec::new(), Edges::default()).expect("submitted");
    let followed: IdSet = [second, third, fed_behind, other].iter().map(|job| TaskId(job.0)).collect();
    let watch =
        ClientRequest::WatchJobs { jobs: Selector::Ids(followed), until_closed: true, notifications: false };
    let told = |answers: Vec<ClientResponse>| -> Vec<(JobId, bool)> {
        let progress = answers.into_iter().flat_map(|answer| match answer {
            ClientResponse::Progress(jobs) => jobs,
            _ => Vec::new(),
        });
        progress.map(|job| (job.job, job.stalled.is_some())).collect()
    };
    let answers = world.step(Input::Client { connection: CLIENT, request: 6, body: watch });
    assert_eq!(told(answers), [(second, false), (third, false), (fed_behind, false), (other, false)]);
    world.reports(2, |r| r.failed = vec![(GENERATOR, failed(0, 0, 3))]);
    world.now = world.now.after(crate::limits::PROGRESS_INTERVAL);
    let answers = world.step(Input::Tick);
    assert_eq!(told(answers), [(second, true), (third, true), (fed_behind, true), (other, false)]);
    let ClientResponse::JobList(jobs) = world.ask(ClientRequest::ListJobs { states: Vec::new() }) else {
        panic!("a list")
    };
    let why = jobs.into_iter().find(|job| job.job == third).and_then(|job| job.stalled).unwrap_or_default();
    let start =
        "it waits for job 3 (`search`), which is stalled: its generator, job 1, has failed: exit code 3; ";
    assert!(why.starts_with(start), "{why}");
    let jobs = Selector::Ids(IdSet::single(TaskId(GENERATOR.0)));
    world.ask(ClientRequest::Resubmit { key: 77, jobs, tasks: None, states: Vec::new() });
    let ClientResponse::JobList(jobs) = world.ask(ClientRequest::ListJobs { states: Vec::new() }) else {
        panic!("a list")
    };
    assert_eq!(jobs.iter().filter(|job| job.stalled.is_some()).count(), 0, "it goes on");
}

// What is said of a job that is stalled, and what `job explain` says of it.
pub(super) fn stalled(world: &mut World) -> (Option<String>, String) {
    let ClientResponse::JobList(jobs) = world.ask(ClientRequest::ListJobs { states: Vec::new() }) else {
        panic!("a list")
    };
    let listed = jobs.into_iter().find(|job| job.job == JOB).expect("listed").stalled;
    let jobs = Selector::Ids(IdSet::single(TaskId(JOB.0)));
    let ClientResponse::ExplainedJobs(jobs) = world.ask(ClientRequest::ExplainJobs { jobs }) else {
        panic!("explained")
    };
    (listed, jobs[0].reasons.iter().map(|reason| reason.text.as_str()).collect())
}

#[test]
fn a_job_whose_generator_or_reducer_has_failed_says_so_until_it_is_submitted_again() {
    for (own, what) in [(GENERATOR, "generator"), (REDUCER, "reducer")] {
        let mut world = fed();
        let more = "it gets more tasks from its generator, job 1";
        assert_eq!(stalled(&mut world), (None, more.to_owned()));
        world.reports(2, |r| r.failed = vec![(own, failed(0, 0, 3))]);
        let why = format!(
            "its {what}, job {own}, has failed: exit code 3; `hq job resubmit {own}` goes on where it was, `hq job \
             cancel 3` ends all"
        );
        assert_eq!(stalled(&mut world), (Some(why.clone()), format!("it is stalled: {why}")));
        assert_eq!(stopped(&mut world), Some(format!("it is stalled: {why}")));
        world.restart();
        assert_eq!(stalled(&mut world).0, Some(why));
        let jobs = Selector::Ids(IdSet::single(TaskId(own.0)));
        world.ask(ClientRequest::Resubmit { key: 77, jobs, tasks: None, states: Vec::new() });
        assert_eq!(stalled(&mut world).0, None, "it goes on");
        assert_eq!(stopped(&mut world), None);
    }
}

// What is said of a job that was asked for its failures.
fn stopped(world: &mut World) -> Option<String> {
    let jobs = Selector::Ids(IdSet::single(TaskId(JOB.0)));
    let ClientResponse::Failures { jobs, .. } = world.ask(ClientRequest::JobFailures { jobs, from: None })
    else {
        panic!("failures")
    };
    jobs[0].stopped.clone()
}

#[test]
fn failures_of_a_job_say_that_it_ended_before_all_was_made() {
    let jobs = || Selector::Ids(IdSet::single(TaskId(JOB.0)));
    let mut world = fed();
    assert_eq!(stopped(&mut world), None);
    world.ask(ClientRequest::Cancel { jobs: jobs(), tasks: None, reason: None });
    assert_eq!(stopped(&mut world).as_deref(), Some("it was canceled before all of its tasks were made"));
    let mut world = fed();
    world.reports(2, |r| r.failed = vec![(GENERATOR, failed(0, 0, 3))]);
    world.ask(ClientRequest::CloseJobs { jobs: jobs() });
    let closed = "it was closed after its generator or its reducer had failed";
    assert_eq!(stopped(&mut world).as_deref(), Some(closed));
}
