//! Requests that name several things, of which some cannot be done.

use hq_model::WorkerId;

use super::*;
use crate::client_messages::WorkerFilter;
use crate::limits::REFUSED_MAX;

fn jobs(first: u32, last: u32) -> Selector {
    Selector::Ids(IdSet::range(first, last))
}

// What was refused, and the answer to the rest.
fn ask(world: &mut World, request: ClientRequest) -> (Vec<String>, ClientResponse) {
    let mut answers = world.step(Input::Client { connection: CLIENT, request: 1, body: request });
    match answers.remove(0) {
        ClientResponse::Partly { refused, rest } => {
            (refused.iter().map(ToString::to_string).collect(), *rest)
        }
        rest => (Vec::new(), rest),
    }
}

#[test]
fn jobs_that_are_there_are_canceled_and_the_others_named() {
    let mut world = World::new();
    let job = world.submit(3, |_| {});
    assert_eq!(job, JobId(1));
    let request = ClientRequest::Cancel { jobs: jobs(1, 3), tasks: None, reason: None };
    let (refused, rest) = ask(&mut world, request);
    assert_eq!(refused, ["Job 2 not found.", "Job 3 not found."]);
    assert_eq!(rest, ClientResponse::Canceled(vec![(job, IdSet::range(0, 2), 0)]));
    // Nothing is left.
    let request = ClientRequest::Cancel { jobs: jobs(2, 4), tasks: None, reason: None };
    let (refused, rest) = ask(&mut world, request);
    assert_eq!(refused, ["Job 2 not found.", "Job 3 not found."]);
    assert_eq!(rest, ClientResponse::Error(RequestError::NoJob(JobId(4))));
    let request = ClientRequest::JobInfo { jobs: jobs(7, 7), page: None };
    assert_eq!(ask(&mut world, request).1, ClientResponse::Error(RequestError::NoJob(JobId(7))));
}

#[test]
fn jobs_in_another_state_are_left_out() {
    let mut world = World::new();
    let (ended, waits) = (world.submit(1, |_| {}), world.submit(1, |_| {}));
    world.ask(ClientRequest::Cancel { jobs: jobs(1, 1), tasks: None, reason: None });
    let (refused, rest) = ask(&mut world, ClientRequest::ForgetJobs { jobs: jobs(1, 3), states: Vec::new() });
    assert_eq!(refused, ["Job 3 not found.", &RequestError::JobAlive(waits).to_string()]);
    assert_eq!(rest, ClientResponse::Jobs(vec![ended]));
    let (refused, rest) = ask(&mut world, ClientRequest::CloseJobs { jobs: jobs(2, 2) });
    assert_eq!((refused.len(), rest), (0, ClientResponse::Error(RequestError::JobNotOpen(waits))));
}

#[test]
fn tasks_that_are_there_are_listed_and_canceled() {
    let mut world = World::new();
    let job = world.submit(3, |_| {});
    let tasks: IdSet = [1, 9].into_iter().map(TaskId).collect();
    let list = |tasks: &IdSet| ClientRequest::ListTasks {
        jobs: jobs(1, 1),
        tasks: Some(tasks.clone()),
        states: Vec::new(),
        after: None,
        limit: 10,
        grouped: false,
        with_entries: false,
    };
    let (refused, rest) = ask(&mut world, list(&tasks));
    assert_eq!(refused, ["Task 9 not found in job 1."]);
    let ClientResponse::Tasks { tasks: listed, .. } = rest else { panic!("tasks") };
    assert_eq!(listed.iter().map(|(_, task)| task.task).collect::<Vec<_>>(), [TaskId(1)]);
    let request = ClientRequest::Cancel { jobs: jobs(1, 1), tasks: Some(tasks), reason: None };
    let (refused, rest) = ask(&mut world, request);
    assert_eq!(refused, ["Task 9 not found in job 1."]);
    assert_eq!(rest, ClientResponse::Canceled(vec![(job, IdSet::range(1, 1), 0)]));
    let (refused, rest) = ask(&mut world, list(&IdSet::range(3, 3)));
    assert_eq!((refused.len(), rest), (0, ClientResponse::Error(RequestError::NoTask(job, TaskId(3)))));
}

#[test]
fn workers_that_have_ended_are_not_stopped_again() {
    let mut world = World::new();
    world.worker(2, 1);
    world.worker(3, 1);
    world.says(2, FromWorker::Leaving { end: WorkerEnd::IdleTimeout });
    let (refused, rest) = ask(&mut world, ClientRequest::StopWorkers { workers: jobs(1, 3), drain: false });
    assert_eq!(refused, ["Worker 3 not found.", &RequestError::WorkerEnded(WorkerId(1)).to_string()]);
    let ClientResponse::WorkersStopped { workers, .. } = rest else { panic!("workers") };
    assert_eq!(workers, [WorkerId(2)]);
    let request = ClientRequest::ListWorkers { workers: jobs(2, 3), filter: WorkerFilter::All };
    assert_eq!(ask(&mut world, request).0, ["Worker 3 not found."]);
}

#[test]
fn billions_of_unknown_ids_are_told_in_few_words() {
    let mut world = World::new();
    world.submit(1, |_| {});
    let request = ClientRequest::TaskIds { jobs: jobs(1, u32::MAX), states: Vec::new() };
    let (refused, rest) = ask(&mut world, request);
    assert_eq!(refused.len(), REFUSED_MAX);
    let last = "Job 101 not found. 4294967194 more of what was named were refused, too.";
    assert_eq!(refused[REFUSED_MAX - 1], last);
    assert_eq!(rest, ClientResponse::TaskIds(vec![(JobId(1), IdSet::range(0, 0))]));
    // Nothing is left: the error is of one of them, and says how many more there are.
    for (last, more) in
        [(u32::MAX, "4294967194 more of what was named were"), (102, "1 more of what was named was")]
    {
        let request = ClientRequest::TaskIds { jobs: jobs(2, last), states: Vec::new() };
        let (refused, rest) = ask(&mut world, request);
        assert_eq!(
            (refused.len(), refused[REFUSED_MAX - 2].as_str()),
            (REFUSED_MAX - 1, "Job 100 not found.")
        );
        let ClientResponse::Error(error) = rest else { panic!("an error: {rest:?}") };
        assert_eq!((error.code(), error.one()), ("no-job", &RequestError::NoJob(JobId(101))));
        assert_eq!(error.to_string(), format!("Job 101 not found. {more} refused, too."));
    }
}

#[test]
fn whoever_waits_for_jobs_is_told_at_once_which_are_not_there() {
    let mut world = World::new();
    let job = world.submit(1, |_| {});
    let watch = |jobs| ClientRequest::WatchJobs { jobs, until_closed: false, notifications: false };
    let (refused, rest) = ask(&mut world, watch(jobs(1, 2)));
    assert_eq!((refused, rest), (vec!["Job 2 not found.".to_owned()], ClientResponse::Progress(Vec::new())));
    let (refused, rest) = ask(&mut world, watch(jobs(2, 2)));
    assert_eq!((refused.len(), rest), (0, ClientResponse::Error(RequestError::NoJob(JobId(job.0 + 1)))));
}
