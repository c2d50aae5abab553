//! Why tasks of a job failed: as many causes as there are, however many failures.

use super::*;
use crate::cause::{FailureCause, JobFailures};
use crate::limits::{CAUSES_MAX, FAILURES_PAGE_BYTES};
use crate::record::Record;

impl World {
    fn failures(&mut self, jobs: Selector) -> Vec<JobFailures> {
        match self.ask(ClientRequest::JobFailures { jobs, from: None }) {
            ClientResponse::Failures { jobs, next: None } => jobs,
            other => panic!("{other:?}"),
        }
    }

    // The causes of the failures of the last job, and how many there are beside.
    fn causes(&mut self) -> (Vec<FailureCause>, u64) {
        let jobs = self.failures(Selector::Last);
        let [job] = &jobs[..] else { panic!("one job") };
        (job.causes.iter().map(|(cause, _)| cause.clone()).collect(), job.others())
    }
}

fn with_text(task: u32, text: String) -> Failure {
    Failure { error: text, ..failed(task, 0, 1) }
}

#[test]
fn failures_are_counted_by_cause() {
    let mut world = World::new();
    let job = world.submit(6, |_| {});
    world.worker(2, 6);
    let texts = ["cannot read 7", "cannot read 3", "no license", "cannot read 3"];
    for (task, text) in (0..).zip(texts) {
        world.reports(2, |r| r.failed = vec![(job, with_text(task, text.into()))]);
    }
    world.reports(2, |r| r.failed = vec![(job, failed(4, 0, 3))]);
    world.reports(2, |r| r.finished = vec![finished(job, 5, 5, 0)]);
    let told = |world: &mut World| {
        let (causes, others) = world.causes();
        let told: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}x {:?} {} from {}", cause.count, cause.kind, cause.text, cause.first))
            .collect();
        (told, others)
    };
    let expected =
        ["3x Exit(1) cannot read # from 0", "1x Exit(1) no license from 2", "1x Exit(3) exit code 3 from 4"];
    assert_eq!(told(&mut world), (expected.map(str::to_owned).to_vec(), 0));
    let [all] = &world.failures(Selector::All)[..] else { panic!("one job") };
    assert_eq!((all.job, all.tasks, all.failed), (job, 6, 5));
    world.restart();
    assert_eq!(told(&mut world), (expected.map(str::to_owned).to_vec(), 0), "a restart forgets nothing");
}

#[test]
fn attempts_that_are_tried_again_are_no_failures() {
    let mut world = World::new();
    let job = world.submit(1, |spec| spec.retry.max = 1);
    world.worker(2, 1);
    world.reports(2, |r| r.failed = vec![(job, failed(0, 0, 1))]);
    assert_eq!(world.causes(), (Vec::new(), 0));
    world.reports(2, |r| r.failed = vec![(job, failed(0, 1, 1))]);
    let [of_job] = &world.failures(Selector::Last)[..] else { panic!("one job") };
    assert_eq!(of_job.causes[0].1, Instance(1), "the attempt that failed for good");
}

#[test]
fn jobs_that_are_not_there_have_no_failures() {
    let mut world = World::new();
    let ask = |world: &mut World, jobs| world.ask(ClientRequest::JobFailures { jobs, from: None });
    assert_eq!(ask(&mut world, Selector::Last), ClientResponse::Error(RequestError::NoJobs));
    let seven = Selector::Ids(IdSet::single(TaskId(7)));
    assert_eq!(ask(&mut world, seven), ClientResponse::Error(RequestError::NoJob(JobId(7))));
    assert_eq!(world.failures(Selector::All), Vec::new());
}

// So many failures with two causes: the error texts of the oldest ones may be forgotten, their causes are not.
fn many(count: u32) {
    let mut world = World::new();
    world.is_unchecked = true;
    let job = world.submit(count, |_| {});
    let mut state = world.server.state().clone();
    for task in 0..count {
        let failure = with_text(task, format!("{} of {task}", if task % 4 == 3 { "end" } else { "begin" }));
        state.apply(world.now, &Record::Failed { job, failure });
    }
    let restored = compacted(&state);
    assert_eq!(restored.jobs[&job].causes, state.jobs[&job].causes);
    let counts: Vec<u64> = restored.jobs[&job].causes.iter().map(|cause| cause.count).collect();
    let ends = u64::from(count / 4);
    let expected = [u64::from(count) - ends, ends];
    assert_eq!(counts, expected.into_iter().filter(|count| *count > 0).collect::<Vec<_>>());
}

#[test]
fn however_many_failures_are_as_many_causes_as_they_have() {
    many(1);
    many(2_000);
    // The details of so many are not kept.
    many(150_000);
}

#[test]
fn causes_beyond_the_limit_are_counted_together() {
    let mut world = World::new();
    let job = world.submit(50, |_| {});
    world.worker(2, 50);
    for task in 0..50 {
        let text = "x".repeat(1 + task as usize);
        world.reports(2, |r| r.failed = vec![(job, with_text(task, text))]);
    }
    let (causes, others) = world.causes();
    assert_eq!((causes.len(), others), (CAUSES_MAX, 50 - CAUSES_MAX as u64));
}

#[test]
fn answers_about_many_jobs_come_in_pages() {
    let mut world = World::new();
    world.worker(2, 40);
    let jobs: Vec<JobId> = (0..9).map(|_| world.submit(2, |_| {})).collect();
    for job in &jobs {
        world.reports(2, |r| r.failed = vec![(*job, failed(0, 0, 1)), (*job, failed(1, 0, 2))]);
    }
    for page_bytes in [1, 500, FAILURES_PAGE_BYTES] {
        let (mut told, mut from, mut pages) = (Vec::new(), None, 0);
        loop {
            let answer = world.server.failures(&Selector::All, from, page_bytes);
            let Ok(ClientResponse::Failures { jobs, next }) = answer else { panic!("{answer:?}") };
            told.extend(jobs.into_iter().map(|job| job.job));
            pages += 1;
            from = next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(told, jobs);
        assert_eq!(
            pages,
            if page_bytes == 1 {
                9
            } else if page_bytes == 500 {
                5
            } else {
                1
            }
        );
    }
}
