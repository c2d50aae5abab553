//! Who is told of jobs: once for each moment, whatever dies in between, and not of what is no standstill.

use hq_model::notice::{Moment, NoticeEvent, NoticeRule, NoticeTarget};
use hq_model::{OnClose, OutputSink, QueueId};

use super::*;
use crate::alloc::messages::AllocRequest;
use crate::client_messages::{JobPage, NoticeInfo};
use crate::limits::{NOTICE_PAUSES, NOTICES_AT_ONCE};
use crate::record::Record;

const MINUTE: Duration = Duration::from_secs(60);

fn telling(moments: &[Moment]) -> JobSpec {
    let target = NoticeTarget::Command(vec!["told".into()]);
    let rules = moments.iter().map(|on| NoticeRule { on: *on, target: target.clone() });
    JobSpec { notices: rules.collect(), stall_after: Some(MINUTE), ..JobSpec::default() }
}

impl World {
    fn titles(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices).iter().map(hq_model::Notice::title).collect()
    }

    fn heard(&mut self, job: JobId, rule: u32, result: Result<(), &str>) {
        self.step(Input::NoticeSent { job, rule, result: result.map_err(str::to_owned) });
    }

    fn notice_infos(&mut self, job: JobId) -> Vec<NoticeInfo> {
        let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
        match self.ask(ClientRequest::JobInfo { jobs, page: Some(JobPage::default()) }) {
            ClientResponse::JobDetails { mut jobs, .. } => jobs.remove(0).notices,
            other => panic!("{other:?}"),
        }
    }

    fn outcome(&mut self, job: JobId) -> String {
        let infos = self.notice_infos(job);
        let told = infos.iter().map(|info| match (&info.told, &info.trouble) {
            (None, _) => "-".to_owned(),
            (Some(told), trouble) => match (&told.end, trouble) {
                (None, None) => "due".to_owned(),
                (None, Some(trouble)) => format!("again: {trouble}"),
                (Some(end), _) => end.error.clone().unwrap_or_else(|| "sent".to_owned()),
            },
        });
        told.collect::<Vec<_>>().join(", ")
    }
}

#[test]
fn the_end_and_the_first_failure_are_told_once() {
    let mut world = World::new();
    let job = world.submit_as(telling(&[Moment::End, Moment::Failure]), 3, |spec| {
        let path = b"/work/%{JOB_ID}/%{TASK_ID}.err".to_vec();
        spec.stderr = OutputSink::File { path, on_close: OnClose::default() };
    });
    world.worker(2, 3);
    world.reports(2, |r| r.finished = vec![finished(job, 0, 0, 0)]);
    assert_eq!((world.titles(), world.outcome(job)), (Vec::new(), "-, -".into()));
    world.reports(2, |r| r.failed = vec![(job, failed(2, 0, 7))]);
    world.reports(2, |r| r.failed = vec![(job, failed(1, 0, 8))]);
    let [failure, end] = &world.notices[..] else { panic!("{:?}", world.notices) };
    let error = "exit code 7".to_owned();
    let stderr = b"/work/1/2.err".to_vec();
    assert_eq!(failure.event, NoticeEvent::Failure { task: TaskId(2), error, stderr });
    assert_eq!(end.title(), "Job 1 (true) has ended as failed: 1 finished, 2 failed");
    world.heard(job, 1, Ok(()));
    assert_eq!(world.outcome(job), "due, sent");
    world.heard(job, 0, Ok(()));
    world.heard(job, 0, Ok(()));
    assert_eq!(world.outcome(job), "sent, sent");
    world.titles();
    world.restart();
    world.wait(MINUTE);
    assert_eq!(world.titles(), Vec::<String>::new());
    assert_eq!(world.outcome(job), "sent, sent");
}

#[test]
fn what_was_not_said_to_be_told_is_told_by_the_next_server() {
    let mut world = World::new();
    let job = world.submit_as(telling(&[Moment::End]), 1, |_| {});
    world.worker(2, 1);
    world.reports(2, |r| r.finished = vec![finished(job, 0, 0, 0)]);
    let title = "Job 1 (true) has ended as finished: 1 finished";
    assert_eq!(world.titles(), [title]);
    world.restart();
    world.wait(MINUTE);
    assert_eq!(world.titles(), [title], "twice: nobody knows whether the first one arrived");
    // The job is gone, and what is told of it is not.
    world.ask(ClientRequest::ForgetJobs { jobs: Selector::All, states: Vec::new() });
    world.restart();
    world.wait(MINUTE);
    assert_eq!(world.titles(), [title]);
    world.heard(job, 0, Ok(()));
    assert!(world.server.state().notices.is_empty());
}

#[test]
fn a_server_that_died_before_it_decided_to_tell_decides_when_it_starts() {
    let mut world = World::new();
    let job = world.submit_as(telling(&[Moment::End]), 1, |_| {});
    let record = Record::Canceled { job, ids: IdSet::range(0, 0), reason: None, end_by: None };
    world.fold.apply(world.now, &record);
    world.restart();
    world.wait(Duration::from_secs(1));
    assert_eq!(world.titles(), ["Job 1 (true) has ended as canceled: 1 canceled"]);
}

#[test]
fn a_job_that_is_forgotten_when_it_ends_is_told_of() {
    let mut world = World::new();
    let job = world.submit_as(telling(&[Moment::End]), 1, |_| {});
    let mut effects = Vec::new();
    let all = || Selector::All;
    for body in [
        ClientRequest::Cancel { jobs: all(), tasks: None, reason: None },
        ClientRequest::ForgetJobs { jobs: all(), states: Vec::new() },
    ] {
        let input = Input::Client { connection: CLIENT, request: 1, body };
        world.server.handle(world.now, input, &mut effects);
    }
    world.server.settle(world.now, &mut effects);
    world.take(effects);
    assert!(!world.server.state().jobs.contains_key(&job));
    assert_eq!(world.titles(), ["Job 1 (true) has ended as canceled: 1 canceled"]);
}

#[test]
fn what_cannot_be_sent_is_tried_again_and_given_up() {
    let mut world = World::new();
    let job = world.submit_as(telling(&[Moment::End]), 1, |_| {});
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    for pause in NOTICE_PAUSES {
        assert_eq!(world.titles().len(), 1);
        world.heard(job, 0, Err("nobody listens"));
        assert_eq!(world.outcome(job), "again: nobody listens");
        world.wait(pause - Duration::from_secs(1));
        assert_eq!(world.titles().len(), 0);
        world.wait(Duration::from_secs(1));
    }
    assert_eq!(world.titles().len(), 1);
    world.heard(job, 0, Err("nobody listens"));
    assert_eq!(world.outcome(job), "nobody listens");
    world.wait(10 * MINUTE);
    assert_eq!(world.titles().len(), 0);
}

#[test]
fn few_are_sent_at_once_and_none_is_lost() {
    let mut world = World::new();
    let jobs: Vec<JobId> = (0..20).map(|_| world.submit_as(telling(&[Moment::End]), 1, |_| {})).collect();
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    let mut told = Vec::new();
    while let Some(notice) = world.notices.pop() {
        assert!(world.notices.len() < NOTICES_AT_ONCE);
        told.push(notice.job);
        world.heard(notice.job, 0, Ok(()));
    }
    told.sort();
    assert_eq!(told, jobs);
}

#[test]
fn while_the_journal_cannot_be_written_nobody_is_told() {
    let mut world = World::new();
    let job = world.submit_as(telling(&[Moment::End]), 1, |_| {});
    world.worker(2, 1);
    world.step(Input::JournalFails { error: "no space".into() });
    world.reports(2, |r| r.finished = vec![finished(job, 0, 0, 0)]);
    assert_eq!(world.titles().len(), 0);
    world.step(Input::JournalWorks);
    assert_eq!(world.titles().len(), 1);
    world.step(Input::JournalFails { error: "no space".into() });
    world.heard(job, 0, Ok(()));
    assert_eq!(world.outcome(job), "due");
    world.step(Input::JournalWorks);
    assert_eq!(world.outcome(job), "sent");
}

#[test]
fn programs_are_told_where_the_job_was_opened_or_submitted() {
    for (directory, told_in) in [("/opened", "/opened"), ("", "/submitted")] {
        let mut world = World::new();
        let spec = JobSpec { directory: directory.into(), ..telling(&[Moment::End]) };
        world.ask(ClientRequest::OpenJob { key: 9, spec });
        let submit = Submit::new(Target::Open(JobId(1)), TaskIds::Next(1), one_cpu());
        world.answer_to(Submit { submit_dir: "/submitted".into(), ..submit });
        world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
        world.ask(ClientRequest::CloseJobs { jobs: Selector::All });
        assert_eq!(world.notices[0].submit_dir, told_in.as_bytes());
    }
}

#[test]
fn an_open_job_ends_when_it_is_closed() {
    let mut world = World::new();
    let spec = telling(&[Moment::End]);
    let ClientResponse::Submitted { job, .. } = world.ask(ClientRequest::OpenJob { key: 9, spec }) else {
        panic!("opened")
    };
    world.answer_to(Submit::new(Target::Open(job), TaskIds::Next(1), one_cpu()));
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    assert_eq!(world.titles().len(), 0);
    world.ask(ClientRequest::CloseJobs { jobs: Selector::All });
    assert_eq!(world.titles().len(), 1);
}

#[test]
fn a_job_that_no_worker_can_run_stands_still() {
    let mut world = World::new();
    let job = world.submit_as(telling(&[Moment::Stall]), 2, |spec| spec.requests = vec![cpus(9)]);
    world.worker(2, 1);
    world.wait(MINUTE);
    let [notice] = &world.notices[..] else { panic!("{:?}", world.notices) };
    assert_eq!(notice.title(), "Job 1 (true) is stalled: nothing has run for 1m, and nothing can");
    assert!(notice.details().starts_with("tasks 0-1: "), "{}", notice.details());
    assert!(notice.details().contains("cpus"), "{}", notice.details());
    world.heard(job, 0, Ok(()));
    world.titles();
    world.wait(60 * MINUTE);
    world.restart();
    world.wait(60 * MINUTE);
    assert_eq!(world.titles(), Vec::<String>::new(), "it is told once");
    // It goes on, and is stalled again.
    world.worker(3, 9);
    world.step(Input::WorkerGone { connection: ConnectionId(3), is_closed: true });
    world.wait(60 * MINUTE);
    world.wait(60 * MINUTE);
    assert_eq!(world.titles().len(), 1);
}

#[test]
fn a_job_whose_only_queue_a_user_has_paused_stands_still() {
    let mut world = World::new();
    world.queue(super::allocations::params());
    world.alloc(AllocRequest::Pause { queue: QueueId(1) });
    world.worker(2, 1);
    world.submit_as(telling(&[Moment::Stall]), 2, |spec| spec.requests = vec![cpus(4)]);
    world.wait(MINUTE);
    world.wait(MINUTE);
    let [notice] = &world.notices[..] else { panic!("{:?}", world.notices) };
    assert!(notice.details().contains("paused by a user"), "{}", notice.details());
}

#[test]
fn who_waits_for_a_turn_does_not_stand_still() {
    let mut world = World::new();
    let first = world.submit(1, |_| {});
    world.worker(2, 1);
    world.reports(2, |r| r.started = vec![started(first, 0, 0)]);
    world.submit_as(telling(&[Moment::Stall]), 1, |spec| spec.requests = vec![cpus(1)]);
    let behind = |spec: JobSpec, after: &str| {
        let mut submit = Submit::new(Target::New(spec), TaskIds::Next(1), one_cpu());
        let after = vec![after.parse().expect("a dependency")];
        submit.dependencies = hq_model::Dependencies { after, ..Default::default() }.into();
        submit
    };
    world.submits(behind(telling(&[Moment::Stall]), "1"));
    world.wait(2 * MINUTE);
    world.wait(2 * MINUTE);
    assert_eq!(world.titles(), Vec::<String>::new(), "the worker is busy, and job 1 runs");
}

#[test]
fn who_waits_for_a_job_that_stands_still_stands_still() {
    let mut world = World::new();
    world.submit(1, |spec| spec.requests = vec![cpus(9)]);
    let mut submit = Submit::new(Target::New(telling(&[Moment::Stall])), TaskIds::Next(1), one_cpu());
    let after = vec!["1".parse().expect("a dependency")];
    submit.dependencies = hq_model::Dependencies { after, ..Default::default() }.into();
    world.worker(2, 1);
    world.submits(submit);
    world.wait(MINUTE);
    let [notice] = &world.notices[..] else { panic!("{:?}", world.notices) };
    assert_eq!(notice.details(), "task 0: it waits for task 1@0 of `true`, which is waiting");
}

#[test]
fn what_is_submitted_again_is_told_of_again() {
    let mut world = World::new();
    let job = world.submit_as(telling(&[Moment::End]), 1, |_| {});
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    world.heard(job, 0, Ok(()));
    world.titles();
    let jobs = Selector::Last;
    world.ask(ClientRequest::Resubmit { key: 5, jobs, tasks: None, states: Vec::new() });
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    assert_eq!(world.titles(), ["Job 2 (true) has ended as canceled: 1 canceled"]);
}

#[test]
fn a_server_that_stops_begins_to_send_nothing_more() {
    let mut world = World::with(ServerOptions {
        info: crate::client_messages::ServerInfo { journal: Some(b"journal".to_vec()), ..Default::default() },
        ..ServerOptions::default()
    });
    for _ in 0..=NOTICES_AT_ONCE {
        world.submit_as(telling(&[Moment::End]), 1, |_| {});
    }
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    let stop = ClientRequest::StopServer;
    assert_eq!(world.step(Input::Client { connection: CLIENT, request: 2, body: stop }), []);
    let ClientResponse::ServerInfo(info) = world.ask(ClientRequest::ServerInfo) else { panic!("about it") };
    assert_eq!(info.stop_waits.as_deref(), Some("4 notices that are being sent"));
    let begun: Vec<JobId> = std::mem::take(&mut world.notices).iter().map(|notice| notice.job).collect();
    for job in begun {
        let input = Input::NoticeSent { job, rule: 0, result: Ok(()) };
        let answers = world.step(input);
        let is_last = job.0 as usize == NOTICES_AT_ONCE;
        assert_eq!(answers, if is_last { vec![ClientResponse::Done] } else { Vec::new() });
    }
    assert_eq!(world.titles().len(), 0);
    world.restart();
    world.wait(Duration::from_secs(1));
    assert_eq!(world.titles().len(), 1);
}
