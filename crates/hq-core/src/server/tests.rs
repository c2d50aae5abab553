//! Scenarios of the server machine alone, worker and clients played by hand. After every step the
//! machine's bookkeeping is recounted, and its state compared with the fold of its records.

mod allocations;
mod attempts;
mod backlogs;
mod budgets;
mod calls;
mod defer;
mod drafts;
mod explanations;
mod failures;
mod feeding;
mod files;
mod followers;
mod full_disk;
mod graphs;
mod groups;
mod history;
mod job_pages;
mod keys;
mod last_moments;
mod lingering;
mod loads;
mod logs;
mod losses;
mod nodes;
mod notices;
mod object_faults;
mod object_guards;
mod object_handing;
mod object_pages;
mod object_relaying;
mod object_room;
mod objects;
mod order;
mod outlasting;
mod overview;
mod placement;
mod possible;
mod pulled;
mod reads;
mod resubmit;
mod returned;
mod secrets;
mod services;
mod shapes;
mod shares;
mod speculation;
mod stalling;
mod task_pages;
mod time;
mod values;
mod waits;
mod words;

use std::sync::Arc;
use std::time::Duration;

use hq_model::job::{Target, TaskIds};
use hq_model::selector::Selector;
use hq_model::task::{CrashLimit, Retry};
use hq_model::worker::WorkerConfig;
use hq_model::{
    Amount, AmountRequest, Body, Entries, IdSet, Instance, JobId, JobSpec, Policy, PoolKind, Request,
    ResourcePool, ResourceRequest, Submit, TaskId, TaskSpec, TaskState, Timestamp, Usage, WorkerResources,
};

use super::state::State;
use super::{ConnectionId, Effect, Gate, Input, Server, ServerOptions};
use crate::client_messages::{ClientRequest, ClientResponse, RequestError};
use crate::measures::MeasuresWriter;
use crate::record::{Failure, FailureKind, FinishedSpan};
use crate::worker_messages::{FromWorker, Report, RunBatch, Started, ToWorker, WorkerEnd, WorkerHello};

struct World {
    server: Server,
    fold: State,
    now: Timestamp,
    key: u128,
    reports: u64,
    to_workers: Vec<(u64, ToWorker)>,
    batch: Vec<crate::alloc::BatchOrder>,
    // Paths of logs, each with how many pieces go there.
    logged: Vec<(Option<String>, usize)>,
    notices: Vec<hq_model::Notice>,
    not_relayed: Vec<String>,
    plans: Vec<(u64, Box<hq_sched::Plan>)>,
    // Bookkeeping is not recounted, for long histories.
    is_unchecked: bool,
    // Plans are kept back.
    plans_later: bool,
}

const CLIENT: ConnectionId = ConnectionId(1);

impl World {
    fn new() -> World {
        World::with(ServerOptions::default())
    }

    fn with(options: ServerOptions) -> World {
        let mut world = World {
            server: Server::new(options),
            fold: State::default(),
            now: Timestamp(1_000_000),
            key: 0,
            reports: 0,
            to_workers: Vec::new(),
            batch: Vec::new(),
            logged: Vec::new(),
            notices: Vec::new(),
            not_relayed: Vec::new(),
            plans: Vec::new(),
            is_unchecked: false,
            plans_later: false,
        };
        let mut effects = Vec::new();
        world.server.start(world.now, "abc123".into(), &mut effects);
        world.take(effects);
        world
    }

    fn step(&mut self, input: Input) -> Vec<ClientResponse> {
        self.now = Timestamp(self.now.0 + 1000);
        let mut effects = Vec::new();
        self.server.handle(self.now, input, &mut effects);
        self.server.settle(self.now, &mut effects);
        self.take(effects)
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
        self.step(Input::Tick);
    }

    // The server dies, and another one reads its journal.
    fn restart(&mut self) {
        let mut server = Server::new(ServerOptions::default());
        let result = self.fold.snapshot::<()>(&mut |at, record| {
            server.restore(at, &record);
            Ok(())
        });
        assert_eq!(result, Ok(()));
        self.server = server;
        let mut effects = Vec::new();
        self.server.start(self.now, "abc123".into(), &mut effects);
        self.take(effects);
    }

    fn take(&mut self, effects: Vec<Effect>) -> Vec<ClientResponse> {
        let mut answers = Vec::new();
        for effect in effects {
            match effect {
                Effect::Persist { .. } if self.is_unchecked => {}
                Effect::Persist { at, record } => self.fold.apply(at, &record),
                Effect::Answer { body, .. } => answers.push(body),
                Effect::ToWorker { connection, message, .. } => self.to_workers.push((connection.0, message)),
                Effect::Batch { order, .. } => self.batch.push(order),
                Effect::NotRelayed { ticket, reason } => self.not_relayed.push(format!("{ticket}: {reason}")),
                Effect::Plan { number, snapshot } => {
                    let plan = hq_sched::plan(&snapshot, hq_sched::limits::STEPS);
                    self.plans.push((number, Box::new(plan)));
                }
                Effect::Log { parts, .. } => self.logged.extend(parts.into_iter().map(|part| {
                    let path = part.path.map(|path| String::from_utf8_lossy(&path).into_owned());
                    (path, part.pieces)
                })),
                Effect::Notify { notice } => self.notices.push(*notice),
                Effect::Close { .. }
                | Effect::WorkerJoined { .. }
                | Effect::WatchFiles { .. }
                | Effect::Journal { .. }
                | Effect::Exit => {}
            }
        }
        if !self.is_unchecked {
            assert_eq!(self.server.check(), Ok(()));
            assert_eq!(self.server.check_recount(), Ok(()));
            assert_eq!(self.server.state(), &self.fold);
            assert_eq!(compacted(&self.fold), self.fold, "a compacted journal rebuilds the present");
        }
        if !self.plans_later {
            answers.extend(self.planned());
        }
        answers
    }

    fn planned(&mut self) -> Vec<ClientResponse> {
        let plans = std::mem::take(&mut self.plans);
        let planned = |(number, plan)| self.step(Input::Planned { number, plan });
        plans.into_iter().flat_map(planned).collect()
    }

    fn ask(&mut self, body: ClientRequest) -> ClientResponse {
        let mut answers = self.step(Input::Client { connection: CLIENT, request: 1, body });
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    fn submit(&mut self, count: u32, change: impl FnOnce(&mut TaskSpec)) -> JobId {
        self.submit_as(JobSpec::default(), count, change)
    }

    fn submit_as(&mut self, job: JobSpec, count: u32, change: impl FnOnce(&mut TaskSpec)) -> JobId {
        let mut spec = one_cpu();
        change(&mut spec);
        let job = JobSpec { name: "true".into(), ..job };
        self.submits(Submit::new(Target::New(job), TaskIds::Next(count), spec))
    }

    fn submits(&mut self, submit: Submit) -> JobId {
        match self.answer_to(submit) {
            ClientResponse::Submitted { job, .. } => job,
            other => panic!("{other:?}"),
        }
    }

    fn answer_to(&mut self, submit: Submit) -> ClientResponse {
        self.key += 1;
        self.ask(ClientRequest::Submit { key: self.key, submit: Box::new(submit) })
    }

    fn worker(&mut self, connection: u64, cpus: u32) {
        self.worker_saying(connection, cpus, |_| {});
    }

    fn worker_saying(&mut self, connection: u64, cpus: u32, change: impl FnOnce(&mut WorkerHello)) {
        let mut hello = WorkerHello {
            config: config(cpus),
            started: self.now,
            age: None,
            known_as: None,
            secret: None,
            holds: Vec::new(),
            last_report: 0,
            follows: false,
            follows_calls: false,
            shows: true,
            stores: true,
            relays: true,
            objects: Vec::new(),
        };
        change(&mut hello);
        self.says(connection, FromWorker::Hello(Box::new(hello)));
    }

    fn says(&mut self, connection: u64, message: FromWorker) {
        self.step(Input::Worker { connection: ConnectionId(connection), message });
    }

    fn reports(&mut self, connection: u64, change: impl FnOnce(&mut Report)) {
        self.reports += 1;
        let mut report = Report { number: self.reports, ..Report::default() };
        change(&mut report);
        self.says(connection, FromWorker::Report(report));
    }

    // Tasks sent to a worker since the last call: `job:ids/instance`, or `-job:ids` for a
    // cancellation, `<job:ids` for a retraction, `stop`.
    fn sent(&mut self, connection: u64) -> String {
        let mut words = Vec::new();
        self.to_workers.retain(|(to, message)| {
            if *to != connection {
                return true;
            }
            match message {
                ToWorker::Run(batches) => {
                    // What was placed and what waits, as one.
                    let mut merged: Vec<RunBatch> = Vec::new();
                    let mut batches: Vec<&RunBatch> = batches.iter().collect();
                    batches.sort_by_key(|batch| batch.template);
                    for batch in batches {
                        match merged.last_mut() {
                            Some(last)
                                if (last.template, last.instance) == (batch.template, batch.instance)
                                    && last.after.is_none()
                                    && batch.after.is_none() =>
                            {
                                last.ids.union_with(&batch.ids)
                            }
                            _ => merged.push(batch.clone()),
                        }
                    }
                    for batch in merged {
                        let after = batch.after.map_or(String::new(), |(task, _)| format!(" after {task}"));
                        let RunBatch { template, ids, instance, .. } = batch;
                        words.push(format!("{}:{ids}/{instance}{after}", template.job));
                    }
                }
                ToWorker::Cancel { job, ids, .. } => words.push(format!("-{job}:{ids}")),
                ToWorker::Retract { job, ids } => words.push(format!("<{job}:{ids}")),
                ToWorker::Stop { .. } => words.push("stop".to_owned()),
                ToWorker::ReadOutput(order) => words.push(reads::in_words(order)),
                ToWorker::DropRead { number } => words.push(format!("drop {number}")),
                ToWorker::FreeObjects(objects) => {
                    words.push(
                        objects.iter().map(|object| format!("free {object}")).collect::<Vec<_>>().join(" "),
                    );
                }
                ToWorker::BringObjects(sources) => {
                    words.extend(sources.iter().map(|source| format!("bring {}", source.copy.object)));
                }
                ToWorker::TakeFile { object, file, .. } => words.push(format!("take {file} as {object}")),
                ToWorker::Relay { ticket } => words.push(format!("relay {ticket}")),
                ToWorker::Welcome(_)
                | ToWorker::Saved { .. }
                | ToWorker::Weighed { .. }
                | ToWorker::GuardObjects { .. }
                | ToWorker::Logged { .. } => {}
            }
            false
        });
        words.join(" ")
    }

    fn states(&mut self, job: JobId) -> String {
        let request = ClientRequest::ListJobs { states: Vec::new() };
        let ClientResponse::JobList(jobs) = self.ask(request) else { panic!("a list") };
        let job = jobs.iter().find(|summary| summary.job == job).expect("listed");
        let c = job.counters;
        let counts = [
            (TaskState::Waiting, c.waiting),
            (TaskState::Running, c.running),
            (TaskState::Finished, c.finished),
            (TaskState::Failed, c.failed),
            (TaskState::Canceled, c.canceled),
            (TaskState::Aborted, c.aborted),
        ];
        let counts = counts.iter().filter(|(_, count)| *count > 0).map(|(s, n)| format!("{n} {s}"));
        format!("{}: {}", job.state(), counts.collect::<Vec<_>>().join(", "))
    }
}

// What a compacted journal would be restored to.
fn compacted(state: &State) -> State {
    let mut restored = State::default();
    let result = state.snapshot::<()>(&mut |at, record| {
        restored.apply(at, &record);
        Ok(())
    });
    assert_eq!(result, Ok(()));
    restored
}

fn one_cpu() -> TaskSpec {
    TaskSpec { body: Body::program(["true"]), requests: vec![cpus(1)], ..TaskSpec::default() }
}

fn cpus(count: u64) -> Request {
    let amount = AmountRequest::Some(Amount::whole(count), Policy::Compact);
    Request { resources: vec![ResourceRequest { name: "cpus".into(), amount }], ..Request::default() }
}

fn config(cpus: u32) -> WorkerConfig {
    WorkerConfig { heartbeat: Duration::from_secs(3600), ..WorkerConfig::new(WorkerResources::cpus(cpus)) }
}

fn finished(job: JobId, first: u32, last: u32, instance: u32) -> FinishedSpan {
    finished_within(1_000_000, job, first, last, instance)
}

fn finished_within(wall_us: u64, job: JobId, first: u32, last: u32, instance: u32) -> FinishedSpan {
    let mut measures = MeasuresWriter::new(false);
    let ids = IdSet::range(first, last);
    for _ in ids.iter() {
        measures.push(Timestamp(5), &Usage { wall_us, ..Usage::default() });
    }
    FinishedSpan {
        job,
        instance: Instance(instance),
        ids,
        measures: measures.finish(),
        results: Entries::default(),
        variant: None,
    }
}

fn failed(task: u32, instance: u32, code: u8) -> Failure {
    Failure {
        task: TaskId(task),
        instance: Instance(instance),
        worker: None,
        kind: FailureKind::Exit(code),
        error: format!("exit code {code}"),
        started: Some(Timestamp(5)),
        usage: Usage::default(),
        nodes: Vec::new(),
        result: Vec::new(),
        variant: None,
    }
}

fn started(job: JobId, task: u32, instance: u32) -> Started {
    Started { job, task: TaskId(task), instance: Instance(instance), at: Timestamp(7), variant: None }
}

#[test]
fn tasks_go_to_a_worker_and_end() {
    let mut world = World::new();
    let job = world.submit(10, |_| {});
    world.worker(2, 4);
    assert_eq!(world.sent(2), "1:0-7/0", "four fit, four are its backlog");
    world.reports(2, |r| r.started = (0..4).map(|task| started(job, task, 0)).collect());
    assert_eq!(world.states(job), "running: 6 waiting, 4 running");
    world.reports(2, |r| r.finished = vec![finished(job, 0, 3, 0)]);
    assert_eq!(world.states(job), "waiting: 6 waiting, 4 finished");
    assert_eq!(world.sent(2), "", "a second each: no backlog is needed");
    world.reports(2, |r| r.finished = vec![finished(job, 4, 7, 0)]);
    assert_eq!(world.sent(2), "1:8-9/0");
    world.reports(2, |r| r.finished = vec![finished(job, 8, 9, 0)]);
    assert_eq!(world.states(job), "finished: 10 finished");
}

#[test]
fn a_backlog_beside_running_tasks_of_another_job_is_taken_too() {
    let mut world = World::new();
    let first = world.submit(2, |_| {});
    world.worker(2, 2);
    assert_eq!(world.sent(2), "1:0-1/0");
    world.reports(2, |r| r.started = (0..2).map(|task| started(first, task, 0)).collect());
    world.submit(2, |_| {});
    assert_eq!(world.sent(2), "2:0-1/0", "its backlog");
    world.worker(3, 2);
    assert_eq!(world.sent(2), "<2:0-1");
}

#[test]
fn a_worker_with_much_room_takes_back_from_several() {
    let mut world = World::new();
    let job = world.submit(5, |_| {});
    world.worker(2, 1);
    world.worker(3, 1);
    for worker in [2, 3] {
        assert_eq!(world.sent(worker).matches('-').count(), 1, "one that fits, and one more");
        world.reports(worker, |r| r.started = vec![started(job, worker as u32 - 2, 0)]);
    }
    world.worker(4, 4);
    assert!(world.sent(2).starts_with("<1:") && world.sent(3).starts_with("<1:"));
}

#[test]
fn larger_priority_goes_first_then_the_older_job() {
    let mut world = World::new();
    world.submit(1, |_| {});
    world.submit(1, |spec| spec.priority = 5);
    world.submit(1, |_| {});
    world.worker(2, 1);
    assert_eq!(world.sent(2), "1:0/0 2:0/0");
}

#[test]
fn a_canceled_job_ends_at_once_and_its_worker_is_told() {
    let mut world = World::new();
    let job = world.submit(5, |_| {});
    world.worker(2, 1);
    world.sent(2);
    let request =
        ClientRequest::Cancel { jobs: Selector::Ids(IdSet::range(1, 1)), tasks: None, reason: None };
    world.ask(request);
    assert_eq!(world.sent(2), "-1:0-1");
    assert_eq!(world.states(job), "canceled: 5 canceled");
    // It still takes the worker's room until the worker says that it is gone.
    let other = world.submit(1, |spec| spec.time_limit = Some(Duration::from_secs(1)));
    world.reports(2, |r| r.canceled = vec![(job, IdSet::range(0, 1))]);
    world.reports(2, |r| r.finished = vec![finished(other, 0, 0, 0)]);
    assert_eq!(world.states(other), "finished: 1 finished");
}

#[test]
fn a_report_of_what_is_not_leased_changes_nothing() {
    let mut world = World::new();
    let job = world.submit(2, |_| {});
    world.worker(2, 4);
    world.worker(3, 4);
    world.reports(3, |r| r.finished = vec![finished(job, 0, 1, 0)]);
    world.reports(2, |r| r.finished = vec![finished(job, 0, 0, 1)]);
    assert_eq!(world.states(job), "waiting: 2 waiting");
}

#[test]
fn a_failed_task_is_retried_with_a_growing_delay() {
    let mut world = World::new();
    let job = world.submit(1, |spec| {
        spec.retry = Retry { max: 2, delay: Duration::from_secs(10), ..Retry::default() };
    });
    world.worker(2, 1);
    assert_eq!(world.sent(2), "1:0/0");
    world.reports(2, |r| r.failed = vec![(job, failed(0, 0, 1))]);
    assert_eq!(world.sent(2), "");
    world.wait(Duration::from_secs(10));
    assert_eq!(world.sent(2), "1:0/1");
    world.reports(2, |r| r.failed = vec![(job, failed(0, 1, 1))]);
    world.wait(Duration::from_secs(10));
    assert_eq!(world.sent(2), "");
    world.wait(Duration::from_secs(10));
    assert_eq!(world.sent(2), "1:0/2");
    world.reports(2, |r| r.failed = vec![(job, failed(0, 2, 1))]);
    assert_eq!(world.states(job), "failed: 1 failed");
}

#[test]
fn one_failure_too_many_aborts_the_rest() {
    let mut world = World::new();
    let job = world.submit_as(JobSpec { max_fails: Some(1), ..JobSpec::default() }, 10, |_| {});
    world.worker(2, 2);
    world.sent(2);
    world.reports(2, |r| r.failed = vec![(job, failed(0, 0, 1))]);
    assert_eq!(world.states(job), "waiting: 9 waiting, 1 failed");
    world.sent(2);
    world.reports(2, |r| r.failed = vec![(job, failed(1, 0, 1))]);
    assert_eq!(world.states(job), "failed: 2 failed, 8 aborted");
    assert!(world.sent(2).starts_with("-1:2-"), "what the worker holds is canceled");
}

#[test]
fn an_open_job_with_one_failure_too_many_takes_no_more_tasks() {
    let mut world = World::new();
    world.key += 1;
    let spec = JobSpec { name: "open".into(), max_fails: Some(0), ..JobSpec::default() };
    world.ask(ClientRequest::OpenJob { key: world.key, spec });
    let submit = || Submit::new(Target::Open(JobId(1)), TaskIds::Next(2), one_cpu());
    world.submits(submit());
    world.worker(2, 1);
    world.reports(2, |r| r.failed = vec![(JobId(1), failed(0, 0, 1))]);
    assert_eq!(world.states(JobId(1)), "failed: 1 failed, 1 aborted");
    let error = RequestError::TooManyFailed { job: JobId(1), failed: 1, limit: 0 };
    assert_eq!(world.answer_to(submit()), ClientResponse::Error(error.clone()));
    let all = ClientRequest::SubmitAll { key: 77, submits: vec![submit(), submit()] };
    assert_eq!(world.ask(all), ClientResponse::Error(error));
    assert_eq!(world.states(JobId(1)), "failed: 1 failed, 1 aborted");
    // What was answered before is answered again.
    world.key -= 2;
    let ClientResponse::Submitted { ids, .. } = world.answer_to(submit()) else {
        panic!("an answer of before")
    };
    assert_eq!(ids, IdSet::range(0, 1));
}

#[test]
fn tasks_of_a_lost_worker_run_elsewhere_as_a_higher_instance() {
    let mut world = World::new();
    let job = world.submit(2, |_| {});
    world.worker(2, 1);
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    world.worker(3, 4);
    world.sent(3);
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    world.wait(Duration::from_secs(29));
    assert_eq!(world.sent(3), "", "it may come back");
    world.wait(Duration::from_secs(2));
    assert_eq!(world.sent(3), "1:0-1/1");
}

#[test]
fn a_task_lost_too_often_fails() {
    let mut world = World::new();
    let job = world.submit(1, |spec| spec.crash_limit = CrashLimit::Times(2));
    for round in 0..2 {
        let connection = 2 + u64::from(round);
        world.worker(connection, 1);
        world.reports += 1;
        let report = Report { number: 1, started: vec![started(job, 0, round)], ..Report::default() };
        world.says(connection, FromWorker::Report(report));
        world.step(Input::WorkerGone { connection: ConnectionId(connection), is_closed: false });
        world.wait(Duration::from_secs(31));
    }
    assert_eq!(world.states(job), "failed: 1 failed");
}

#[test]
fn a_loss_that_is_not_a_crash_is_not_counted() {
    let mut world = World::new();
    let job = world.submit(1, |spec| spec.crash_limit = CrashLimit::Times(1));
    world.worker(2, 1);
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    world.reports(2, |r| r.interrupted = vec![(job, IdSet::range(0, 0))]);
    world.says(2, FromWorker::Leaving { end: WorkerEnd::TimeLimit });
    assert_eq!(world.states(job), "waiting: 1 waiting");
}

#[test]
fn tasks_of_a_worker_that_cannot_start_them_go_elsewhere_as_they_were() {
    let mut world = World::new();
    let job = world.submit(1, |spec| spec.crash_limit = CrashLimit::NeverRestart);
    world.worker(1, 1);
    world.reports(1, |report| report.started = vec![started(job, 0, 0)]);
    assert_eq!(world.sent(1), "1:0/0");
    world.reports(1, |report| {
        report.returned = vec![(job, IdSet::range(0, 0))];
        report.trouble = Some("no process could be made".into());
        report.internal_errors = 3;
    });
    assert_eq!((world.sent(1), world.states(job)), (String::new(), "waiting: 1 waiting".into()));
    let workers = format!(
        "{:?}",
        world.ask(ClientRequest::ListWorkers {
            workers: Selector::All,
            filter: crate::client_messages::WorkerFilter::All
        })
    );
    assert!(workers.contains("internal_errors: 3"), "{workers}");
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    let explained = format!("{:?}", world.ask(ClientRequest::ExplainTask { jobs, task: TaskId(0) }));
    assert!(
        explained.contains("it cannot start tasks at the moment: no process could be made"),
        "{explained}"
    );
    world.worker(2, 1);
    assert_eq!(world.sent(2), "1:0/0", "no crash, no failure, the same attempt");
    world.submit(1, |_| {});
    world.reports(1, |_| {});
    assert_eq!(world.sent(1), "2:0/0", "the trouble is over");
}

#[test]
fn a_worker_that_says_it_leaves_gets_nothing_new() {
    let mut world = World::new();
    world.submit(3, |_| {});
    world.worker(1, 1);
    assert_eq!(world.sent(1), "1:0-1/0");
    // A server before this one had told it to finish what runs.
    world.reports(1, |report| {
        report.returned.push((JobId(1), IdSet::range(1, 1)));
        report.is_leaving = true;
    });
    assert_eq!(world.sent(1), "");
}

#[test]
fn a_backlog_is_taken_back_when_another_worker_runs_dry() {
    let mut world = World::new();
    let job = world.submit(8, |_| {});
    world.worker(2, 4);
    assert_eq!(world.sent(2), "1:0-7/0");
    world.worker(3, 4);
    assert_eq!(world.sent(2), "<1:4-7");
    world.reports(2, |r| r.returned = vec![(job, IdSet::range(4, 7))]);
    assert_eq!(world.sent(3), "1:4-7/0", "as the same instance: nobody started them");
}

#[test]
fn a_worker_that_returns_keeps_what_it_holds_and_loses_what_never_arrived() {
    let mut world = World::new();
    let job = world.submit(4, |_| {});
    world.worker(2, 2);
    assert_eq!(world.sent(2), "1:0-3/0");
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    let template = crate::worker_messages::TemplateId { job, submit: 0 };
    let held = crate::worker_messages::Held {
        template,
        variant: None,
        instance: Instance(0),
        queued: IdSet::range(2, 2),
        running: IdSet::range(1, 1),
        started: vec![Timestamp(9)],
    };
    let hello = WorkerHello {
        config: config(2),
        started: world.now,
        age: None,
        known_as: Some(hq_model::WorkerId(1)),
        secret: None,
        holds: vec![held],
        last_report: 1,
        follows: true,
        follows_calls: false,
        shows: true,
        stores: true,
        relays: true,
        objects: Vec::new(),
    };
    world.says(4, FromWorker::Hello(Box::new(hello)));
    assert_eq!(world.sent(4), "", "its report is still to come");
    world.reports(4, |r| r.finished = vec![finished(job, 0, 0, 0)]);
    assert_eq!(world.states(job), "running: 2 waiting, 1 running, 1 finished");
    world.reports(4, |r| r.finished = vec![finished(job, 1, 2, 0)]);
    assert_eq!(world.sent(4), "1:3/1");
}

#[test]
fn a_repeated_submit_is_answered_and_not_done_twice() {
    let mut world = World::new();
    world.submit(3, |_| {});
    world.key -= 1;
    assert_eq!(world.submit(3, |_| {}), JobId(1));
}
