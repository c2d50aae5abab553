//! Jobs that wait for others that stand still.

use hq_model::dependency::{After, Dependencies, Edges};

use super::feeding::{GENERATOR, JOB, fed, own};
use super::*;
use crate::client_messages::{NewJob, NewTasks};

// Whoever waits for a job is told that it cannot end, when that is known, whichever job stands still.
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
        "it waits for job 3 (`search`), which stands still: its generator, job 1, has failed: exit code 3; ";
    assert!(why.starts_with(start), "{why}");
    let jobs = Selector::Ids(IdSet::single(TaskId(GENERATOR.0)));
    world.ask(ClientRequest::Resubmit { key: 77, jobs, tasks: None, states: Vec::new() });
    let ClientResponse::JobList(jobs) = world.ask(ClientRequest::ListJobs { states: Vec::new() }) else {
        panic!("a list")
    };
    assert_eq!(jobs.iter().filter(|job| job.stalled.is_some()).count(), 0, "it goes on");
}
