//! Budgets of jobs: what counts, and that nothing starts when it is spent.

use hq_model::notice::{Moment, NoticeEvent, NoticeRule, NoticeTarget};

use super::*;
use crate::client_messages::{JobBudget, JobPage};
use crate::explanation::ReasonKind;

const HOUR: Duration = Duration::from_secs(3600);
const HOUR_US: u64 = 3_600_000_000;

fn with_budget(budget: Duration) -> JobSpec {
    JobSpec { budget: Some(budget), ..JobSpec::default() }
}

impl World {
    fn budget(&mut self, job: JobId) -> Option<JobBudget> {
        let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
        match self.ask(ClientRequest::JobInfo { jobs, page: Some(JobPage::default()) }) {
            ClientResponse::JobDetails { mut jobs, .. } => jobs.remove(0).budget,
            other => panic!("{other:?}"),
        }
    }

    fn stalled(&mut self, job: JobId) -> Option<String> {
        let request = ClientRequest::ListJobs { states: Vec::new() };
        let ClientResponse::JobList(jobs) = self.ask(request) else { panic!("a list") };
        jobs.into_iter().find(|summary| summary.job == job)?.stalled
    }

    fn give(&mut self, job: JobId, budget: Option<Duration>) -> ClientResponse {
        let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
        self.ask(ClientRequest::SetBudget { jobs, budget })
    }
}

#[test]
fn nothing_starts_when_the_budget_is_spent_until_there_is_more() {
    let mut world = World::new();
    let job = world.submit_as(with_budget(HOUR), 10, |_| {});
    world.worker(2, 4);
    assert_eq!(world.sent(2), "1:0-3/0", "what fits, and no backlog");
    // A quarter of a node each.
    world.reports(2, |r| r.finished = vec![finished_within(2 * HOUR_US, job, 0, 0, 0)]);
    assert_eq!(world.sent(2), "1:4/0", "half of it is left");
    world.reports(2, |r| r.finished = vec![finished_within(2 * HOUR_US, job, 1, 1, 0)]);
    assert_eq!((world.sent(2), world.stalled(job)), (String::new(), None), "what runs goes on");
    world.reports(2, |r| r.finished = vec![finished_within(HOUR_US, job, 2, 4, 0)]);
    assert_eq!(world.states(job), "waiting: 5 waiting, 5 finished");
    let counts = world.ask(ClientRequest::Overview { seen: None });
    assert!(matches!(counts, ClientResponse::Overview(counts) if counts.ready == 0), "no room helps them");
    assert_eq!(world.budget(job), Some(JobBudget { limit: Some(HOUR), used: HOUR * 7 / 4 }));
    let why = "its budget of 1 node hour is spent: its tasks used 1.75, and no more of them start; `hq job budget 1 \
               NODEHOURS` gives it more";
    assert_eq!(world.stalled(job).as_deref(), Some(why));
    let ClientResponse::ExplainedJobs(jobs) = world.ask(ClientRequest::ExplainJobs { jobs: Selector::Last })
    else {
        panic!("an explanation")
    };
    let reasons: Vec<_> = jobs[0].groups.iter().flat_map(|group| &group.reasons).collect();
    assert_eq!((reasons.len(), reasons[0].kind, reasons[0].text.as_str()), (1, ReasonKind::Budget, why));
    let request = ClientRequest::ExplainTask { jobs: Selector::Last, task: TaskId(7) };
    let ClientResponse::Explained(explained) = world.ask(request) else { panic!("an explanation") };
    assert_eq!(explained.reasons.iter().map(|reason| &*reason.text).collect::<Vec<_>>(), [why]);
    // A restart forgets nothing, and another worker changes nothing.
    world.restart();
    world.worker(3, 4);
    assert_eq!(world.sent(3), "");
    let other = world.submit(1, |_| {});
    assert_eq!(world.sent(3), format!("{other}:0/0"), "others go on");
    assert_eq!(world.give(job, Some(HOUR * 7 / 4)), ClientResponse::Jobs(vec![job]));
    assert_eq!(world.sent(3), "", "just as much as was used");
    world.give(job, Some(HOUR * 2));
    assert_eq!((world.sent(3), world.stalled(job)), ("1:5-7/0".into(), None));
    world.give(job, None);
    assert_eq!(world.budget(job), Some(JobBudget { limit: None, used: HOUR * 7 / 4 }));
    assert_eq!(world.give(job, None), ClientResponse::Jobs(Vec::new()), "nothing is different");
}

#[test]
fn a_job_that_was_made_without_a_budget_gets_none() {
    let mut world = World::new();
    let job = world.submit(1, |_| {});
    let refused = world.give(job, Some(HOUR));
    assert!(
        matches!(&refused, ClientResponse::Error(RequestError::Invalid(text)) if text.contains("without --budget"))
    );
    assert_eq!(world.budget(job), None);
}

#[test]
fn an_attempt_counts_of_whose_start_nothing_was_heard() {
    let mut world = World::new();
    let job = world.submit_as(with_budget(HOUR * 3), 1, |spec| {
        spec.retry = Retry { max: 1, ..Retry::default() };
        spec.requests = vec![cpus(2)];
    });
    world.worker(2, 4);
    // As where the server was away from before its start until after its end.
    let usage = Usage { wall_us: HOUR_US, ..Usage::default() };
    world.reports(2, |r| r.failed = vec![(job, Failure { usage, ..failed(0, 0, 1) })]);
    assert_eq!(world.budget(job).expect("a budget").used, HOUR / 2);
    assert_eq!(world.states(job), "waiting: 1 waiting");
}

#[test]
fn attempts_that_fail_and_those_that_are_tried_again_count() {
    let mut world = World::new();
    let job = world.submit_as(with_budget(HOUR * 3), 3, |spec| {
        spec.retry = Retry { max: 1, ..Retry::default() };
        spec.requests = vec![cpus(2)];
    });
    world.worker(2, 4);
    let at = world.now;
    let begins = |task, instance| Started { at, ..started(job, task, instance) };
    world.reports(2, |r| r.started = vec![begins(0, 0), begins(1, 0)]);
    world.wait(HOUR);
    let usage = Usage { wall_us: HOUR_US, ..Usage::default() };
    world.reports(2, |r| r.failed = vec![(job, Failure { usage, ..failed(0, 0, 1) })]);
    let used = world.budget(job).expect("a budget").used;
    assert_eq!(used, HOUR / 2, "half a node for an hour");
    // The next attempt is the last one.
    world.reports(2, |r| r.failed = vec![(job, Failure { worker: None, usage, ..failed(0, 1, 1) })]);
    let after = world.budget(job).expect("a budget").used;
    assert_eq!(after - used, HOUR / 2, "an hour of half a node");
    world.ask(ClientRequest::Cancel { jobs: Selector::Last, tasks: None, reason: None });
    assert_eq!(world.states(job), "failed: 1 failed, 2 canceled");
    let ended = world.budget(job).expect("a budget").used;
    assert!((HOUR / 2..HOUR * 51 / 100).contains(&(ended - after)), "task 1 was ended early: {ended:?}");
}

#[test]
fn a_task_on_several_nodes_has_all_of_each() {
    let mut world = World::new();
    let request = Request { nodes: 2, ..Request::default() };
    let job = world.submit_as(with_budget(HOUR), 2, |spec| spec.requests = vec![request]);
    world.worker(2, 4);
    world.worker(3, 8);
    world.sent(2);
    world.reports(2, |r| r.finished = vec![finished_within(HOUR_US / 2, job, 0, 0, 0)]);
    world.says(3, FromWorker::Report(Report { number: 1, ..Report::default() }));
    assert_eq!(world.budget(job).map(|budget| budget.used), Some(HOUR));
    assert_eq!((world.sent(2), world.states(job)), (String::new(), "waiting: 1 waiting, 1 finished".into()));
}

#[test]
fn a_job_whose_budget_is_spent_stands_still() {
    let mut world = World::new();
    let rule = NoticeRule { on: Moment::Stall, target: NoticeTarget::Command(vec!["told".into()]) };
    let spec = JobSpec { notices: vec![rule], stall_after: Some(HOUR), ..with_budget(HOUR) };
    let job = world.submit_as(spec, 2, |spec| spec.requests = vec![cpus(4)]);
    world.worker(2, 4);
    world.reports(2, |r| r.finished = vec![finished_within(HOUR_US, job, 0, 0, 0)]);
    world.wait(HOUR / 2);
    assert!(world.notices.is_empty());
    world.wait(HOUR);
    let [told] = &world.notices[..] else { panic!("{:?}", world.notices) };
    let NoticeEvent::Stall { explanation, .. } = &told.event else { panic!("{told:?}") };
    assert!(explanation.starts_with("task 1: its budget of 1 node hour is spent"), "{explanation}");
}

#[test]
fn nothing_is_asked_of_batch_systems_for_tasks_that_may_not_start() {
    let mut world = World::new();
    let job = world.submit_as(with_budget(HOUR), 9, |_| {});
    world.worker(2, 4);
    assert_eq!(world.server.waiting_classes(world.now).len(), 1);
    world.reports(2, |r| r.finished = vec![finished_within(HOUR_US, job, 0, 3, 0)]);
    assert_eq!(world.server.waiting_classes(world.now), []);
}
