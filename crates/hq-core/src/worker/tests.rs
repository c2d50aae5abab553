//! Scenarios of the worker machine alone, server and processes played by hand.

mod ahead;
mod arming;
mod canceling;
mod exiting;
mod followers;
mod leaving;
mod reading;
mod runners;
mod time;
mod whole_nodes;
mod windows;
mod words;
mod zygotes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hq_model::worker::{Manager, OnServerLost, WorkerConfig};
use hq_model::{
    Amount, AmountRequest, Body, Entries, Epoch, IdSet, Instance, JobId, Policy, PoolKind, Request,
    ResourcePool, ResourceRequest, TaskId, TaskRef, TaskSpec, Timestamp, Usage, WorkerId, WorkerResources,
};
use proptest::prelude::*;

use super::{Effect, Ends, Input, Outcome, Worker};
use crate::limits::{
    KEPT_MAX, NODE_FAULT_PAUSE_MIN, OUTSIDE_END_TIME, OVERTAKEN_MAX, REPORT_INTERVAL, UNKILLABLE_TIME,
};
use crate::record::FailureKind;
use crate::worker_messages::{
    FromWorker, Report, RunBatch, Template, TemplateId, ToWorker, Welcome, WorkerEnd,
};

struct World {
    worker: Worker,
    now: Timestamp,
    // What the worker did, in words, since the last look.
    done: Vec<String>,
    // What it said to have started, ever.
    starts: Vec<TaskRef>,
    ended: BTreeMap<TaskRef, Vec<&'static str>>,
    is_in_trouble: bool,
    output_waits: bool,
}

fn config(change: impl FnOnce(&mut WorkerConfig)) -> WorkerConfig {
    let mut config = WorkerConfig::new(WorkerResources::cpus(2));
    change(&mut config);
    config
}

impl World {
    fn new(change: impl FnOnce(&mut WorkerConfig)) -> World {
        let now = Timestamp(1_000_000_000);
        Self::with(Worker::new(config(change), now), now)
    }

    fn with(worker: Worker, now: Timestamp) -> World {
        let idle_timeout = worker.config().idle_timeout;
        let (done, starts, ended) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut world = World { worker, now, done, starts, ended, is_in_trouble: false, output_waits: false };
        world.step(Input::ServerFound);
        world.welcome(idle_timeout);
        world.done.clear();
        world
    }

    fn welcome(&mut self, idle_timeout: Option<Duration>) {
        self.welcome_of(idle_timeout, true);
    }

    fn step(&mut self, input: Input) {
        self.steps(vec![input]);
    }

    // What comes together.
    fn steps(&mut self, inputs: Vec<Input>) {
        let mut effects = Vec::new();
        inputs.into_iter().for_each(|input| self.worker.handle(self.now, input, &mut effects));
        self.worker.settle(self.now, &mut effects);
        assert_eq!(self.worker.check(), Ok(()));
        for effect in effects {
            match effect {
                Effect::Start(start) => {
                    let has_several = start.template.spec.requests.len() > 1;
                    let variant = if has_several { format!(" as {}", start.variant) } else { String::new() };
                    let runs_in = start.runs_in.map_or(String::new(), |runs_in| {
                        let from =
                            runs_in.zygote.map_or(String::new(), |zygote| format!(" from {}", zygote.0));
                        format!(" in {}{}{from}", if runs_in.is_new { "new " } else { "" }, runs_in.runner.0)
                    });
                    let inputs: String = (start.inputs.iter())
                        .map(|input| format!(" with {} of {}", input.result.escape_ascii(), input.of))
                        .collect();
                    self.done
                        .push(format!("start {}/{}{variant}{runs_in}{inputs}", start.task, start.instance));
                }
                Effect::Arm { start, after } => {
                    let runs_in =
                        start.runs_in.map_or(String::new(), |runs_in| format!(" in {}", runs_in.runner.0));
                    self.done.push(format!("arm {}/{} after {after}{runs_in}", start.task, start.instance));
                }
                Effect::EndRunner { runner } => self.done.push(format!("end runner {}", runner.0)),
                Effect::StartZygote { zygote, .. } => self.done.push(format!("zygote {}", zygote.0)),
                Effect::LoadPackage { zygote } => self.done.push(format!("load in {}", zygote.0)),
                Effect::EndZygote { zygote } => self.done.push(format!("end zygote {}", zygote.0)),
                Effect::GoOn { task } => self.done.push(format!("go on {task}")),
                Effect::Recall { task } => self.done.push(format!("recall {task}")),
                Effect::Signal { task, signal, ends } => {
                    let for_another = if ends == Some(Ends::ForAnother) { " for another" } else { "" };
                    self.done.push(format!("signal {task} {signal}{for_another}"));
                }
                Effect::KillLauncher => self.done.push("kill launcher".to_owned()),
                Effect::Exit(end) => self.done.push(format!("exit {end:?}")),
                Effect::Send(FromWorker::Report(report)) => self.note(&report),
                Effect::Send(FromWorker::Hello(hello)) => {
                    let holds = hello.holds.iter().map(|held| {
                        let variant = held.variant.map_or(String::new(), |variant| format!(" as {variant}"));
                        format!("{}+{}{variant}", held.running, held.queued)
                    });
                    let holds: Vec<String> = holds.collect();
                    self.done.push(format!("hello {} after {}", holds.join(" "), hello.last_report));
                }
                Effect::Read { order, has_ended, .. } => {
                    let ended = if has_ended { " that has ended" } else { "" };
                    self.done.push(format!("read {}/{}{ended}", order.task, order.instance));
                }
                Effect::DropRead { number } => self.done.push(format!("drop {number}")),
                Effect::TakeFile { object, file, .. } => self.done.push(format!("take {file} as {object}")),
                Effect::FreeObjects(objects) => self.done.push(format!("free {}", objects.len())),
                Effect::BringObjects { sources, is_ahead } => self.done.push(ahead::told(&sources, is_ahead)),
                Effect::Relay { ticket } => self.done.push(format!("relay {ticket}")),
                Effect::GuardObjects { guard, release } => {
                    self.done.push(format!("guard {} release {}", guard.len(), release.len()));
                }
                Effect::ReadEnded { task } => self.done.push(format!("no more of {task}")),
                Effect::Send(FromWorker::Output(answer)) => self.done.push(format!("{:?}", answer.state)),
                Effect::Expired { task } => self.done.push(format!("expired {task}")),
                Effect::Send(FromWorker::Notify { task, .. }) => self.done.push(format!("notify {task}")),
                Effect::Send(_) => {}
            }
        }
    }

    fn note(&mut self, report: &Report) {
        let before = self.done.len();
        if let Some(trouble) = &report.trouble {
            self.done.push(format!("trouble {trouble}"));
        } else if std::mem::take(&mut self.is_in_trouble) {
            self.done.push("no trouble".to_owned());
        }
        self.is_in_trouble = report.trouble.is_some();
        if let Some(why) = &report.output_waits {
            self.done.push(format!("output waits {why}"));
        } else if self.output_waits {
            self.done.push("no output waits".to_owned());
        }
        self.output_waits = report.output_waits.is_some();
        self.starts.extend(report.started.iter().map(|start| TaskRef::new(start.job, start.task)));
        self.done.extend(report.words.iter().map(words::told));
        for lends in &report.lends {
            let word = if lends.is_lent { "lends" } else { "has" };
            self.done.push(format!("{word} {}@{}", lends.job, lends.task));
        }
        let mut note = |word: &'static str, job: JobId, ids: &IdSet| {
            self.done.push(format!("{word} {job}:{ids}"));
            for task in ids.iter() {
                self.ended.entry(TaskRef::new(job, task)).or_default().push(word);
            }
        };
        for span in &report.finished {
            assert_eq!(u64::from(span.measures.count()), span.ids.len());
            let way = span.variant.map_or(0, |variant| 1 + variant as usize);
            note(["finished", "finished as 0", "finished as 1"][way], span.job, &span.ids);
        }
        for (job, failure) in &report.failed {
            let word = if failure.kind == FailureKind::Timeout { "timeout" } else { "failed" };
            note(word, *job, &IdSet::single(failure.task));
        }
        for (word, list) in [
            ("canceled", &report.canceled),
            ("returned", &report.returned),
            ("interrupted", &report.interrupted),
        ] {
            for (job, ids) in list {
                note(word, *job, ids);
            }
        }
        if report.is_leaving && report.started.is_empty() && self.done.len() == before {
            self.done.push("leaving".to_owned());
        }
    }

    // The server has all reports on disk.
    fn saves(&mut self) {
        self.step(Input::Server(ToWorker::Saved { report: u64::MAX }));
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
        self.step(Input::Tick);
    }

    fn run(&mut self, job: u32, ids: &str, instance: u32, change: impl FnOnce(&mut TaskSpec)) {
        self.run_after(job, ids, instance, None, change);
    }

    fn run_after(
        &mut self,
        job: u32,
        ids: &str,
        instance: u32,
        after: Option<(TaskId, Instance)>,
        change: impl FnOnce(&mut TaskSpec),
    ) {
        self.run_as(job, ids, instance, (after, None), change);
    }

    fn run_as(
        &mut self,
        job: u32,
        ids: &str,
        instance: u32,
        (after, variant): (Option<(TaskId, Instance)>, Option<u32>),
        change: impl FnOnce(&mut TaskSpec),
    ) {
        let cpus = ResourceRequest {
            name: "cpus".into(),
            amount: AmountRequest::Some(Amount::whole(1), Policy::Compact),
        };
        let request = Request { resources: vec![cpus], ..Request::default() };
        let mut spec = TaskSpec {
            body: Body::program(["true"]),
            requests: vec![request],
            kill_grace: Duration::from_secs(5),
            ..TaskSpec::default()
        };
        change(&mut spec);
        let template = TemplateId { job: JobId(job), submit: 0 };
        let (spec, submit_dir) = (Arc::new(spec), b"/".to_vec());
        let content = Template { id: template, spec, submit_dir, submitted: self.now, has_siblings: true };
        let batch = RunBatch {
            template,
            content: Some(content),
            ids: ids.parse().expect("ids"),
            instance: Instance(instance),
            entries: Entries::default(),
            services: Vec::new(),
            nodes: Vec::new(),
            after,
            variant,
            head_start: Duration::ZERO,
            inputs: Vec::new(),
            objects: Vec::new(),
        };
        self.step(Input::Server(ToWorker::Run(vec![batch])));
    }

    fn end(&mut self, job: u32, task: u32, outcome: Outcome) {
        let task = TaskRef::new(JobId(job), TaskId(task));
        self.step(Input::ended(task, outcome, Usage::default()));
        self.wait(Duration::from_millis(10));
    }

    fn did(&mut self) -> String {
        std::mem::take(&mut self.done).join(", ")
    }
}

fn failed() -> Outcome {
    Outcome::Failed(FailureKind::Exit(1), "exit code 1".into())
}

#[test]
fn tasks_start_when_they_fit_and_are_reported_once() {
    let mut world = World::new(|_| {});
    world.run(1, "0-3", 0, |_| {});
    assert_eq!(world.did(), "start 1@0/0, start 1@1/0");
    world.end(1, 0, Outcome::Finished);
    assert_eq!(world.did(), "start 1@2/0, finished 1:0");
    world.end(1, 1, failed());
    assert_eq!(world.did(), "start 1@3/0, failed 1:1");
}

#[test]
fn larger_priority_is_not_overtaken_for_the_same_pool() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.run(2, "0", 0, |spec| {
        spec.priority = 5;
        spec.requests[0].resources[0].amount = AmountRequest::Some(Amount::whole(2), Policy::Compact);
    });
    world.run(3, "0", 0, |_| {});
    assert_eq!(world.did(), "start 1@0/0", "the free CPU waits for job 2");
    world.end(1, 0, Outcome::Finished);
    assert_eq!(world.did(), "start 2@0/0, finished 1:0");
}

fn resources(pools: &[(&str, u64)]) -> WorkerResources {
    let pool = |&(name, count): &(&str, u64)| ResourcePool {
        name: name.into(),
        kind: PoolKind::Range { first: 0, last: count as u32 - 1 },
    };
    WorkerResources { pools: pools.iter().map(pool).collect(), coupling: Vec::new() }
}

fn request(parts: &[(&str, u64)]) -> Request {
    let resource = |&(name, count): &(&str, u64)| ResourceRequest {
        name: name.into(),
        amount: AmountRequest::Some(Amount::whole(count), Policy::Compact),
    };
    Request { resources: parts.iter().map(resource).collect(), ..Request::default() }
}

#[test]
fn what_waits_for_one_pool_keeps_nothing_of_another_one() {
    let mut world = World::new(|config| config.resources = resources(&[("cpus", 8), ("foo", 4)]));
    world.run(1, "0-3", 0, |spec| spec.requests = vec![request(&[("cpus", 1), ("foo", 2)])]);
    world.did();
    world.run(2, "0", 0, |spec| {
        spec.requests = vec![request(&[("cpus", 2)])];
        spec.priority = -1;
    });
    assert_eq!(world.did(), "start 2@0/0", "six CPUs are free, and what waits lacks none");
    world.run(3, "0", 0, |spec| {
        spec.requests = vec![request(&[("cpus", 1), ("foo", 1)])];
        spec.priority = -1;
    });
    world.wait(2 * OVERTAKEN_MAX);
    world.run(4, "0-9", 0, |spec| spec.priority = -2);
    assert_eq!(world.did(), "start 4@0/0, start 4@1/0, start 4@2/0, start 4@3/0", "the CPUs that are left");
}

#[test]
fn lower_tasks_fill_what_many_higher_ones_that_wait_for_something_else_leave() {
    let mut world = World::new(|config| config.resources = resources(&[("cpus", 12), ("foo", 6)]));
    for job in 1..=9 {
        world.run(job, "0", 0, |spec| {
            spec.requests = vec![request(&[("cpus", 1), ("foo", 2)])];
            spec.priority = 10 * job as i32;
        });
    }
    for job in 10..=21 {
        world.run(job, "0", 0, |_| {});
    }
    assert_eq!(world.worker.running_count(), 12, "{}", world.did());
    world.end(1, 0, Outcome::Finished);
    assert!(world.did().contains("start 9@0/0"));
}

#[test]
fn as_many_as_there_are_batches_that_lack_something_hide_none_that_fits() {
    let mut world = World::new(|config| config.resources = resources(&[("cpus", 4), ("foo", 3)]));
    for job in 1..=200 {
        world.run(job, "0", 0, |spec| spec.requests = vec![request(&[("foo", 2)])]);
    }
    world.did();
    world.run(300, "0", 0, |_| {});
    assert_eq!(world.did(), "start 300@0/0");
}

#[test]
fn room_is_not_kept_for_ever() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.run(2, "0", 0, |spec| {
        spec.priority = 5;
        spec.requests = vec![request(&[("cpus", 2)])];
    });
    world.run(3, "0", 0, |_| {});
    world.wait(KEPT_MAX / 2);
    assert_eq!(world.did(), "start 1@0/0", "the free CPU waits for job 2");
    world.wait(KEPT_MAX / 2);
    assert_eq!(world.did(), "start 3@0/0", "which has had its time");
}

#[test]
fn a_task_runs_as_the_variant_as_which_it_was_placed_or_as_the_preferred_one_that_fits() {
    let variants = |spec: &mut TaskSpec| {
        let heavy = Request { weight: 20_000, ..request(&[("cpus", 1), ("foo", 1)]) };
        spec.requests = vec![request(&[("cpus", 2)]), heavy, request(&[("cpus", 1)])];
    };
    for (variant, expected) in [
        (None, "start 1@0/0 as 1, start 1@1/0 as 0"),
        (Some(0), "start 1@0/0 as 0, start 1@1/0 as 1"),
        (Some(1), "start 1@0/0 as 1, start 1@1/0 as 0"),
        (Some(2), "start 1@0/0 as 2, start 1@1/0 as 2, start 1@2/0 as 2"),
        (Some(7), "start 1@0/0 as 1, start 1@1/0 as 0"),
    ] {
        let mut world = World::new(|config| config.resources = resources(&[("cpus", 3), ("foo", 1)]));
        world.run_as(1, "0-3", 0, (None, variant), variants);
        assert_eq!(world.did(), expected, "{variant:?}");
    }
    let mut world = World::new(|config| config.resources = resources(&[("cpus", 3), ("foo", 1)]));
    world.run_as(1, "0-3", 0, (None, None), variants);
    world.did();
    world.step(Input::ServerLost);
    world.step(Input::ServerFound);
    assert_eq!(world.did(), "hello +2-3 1+ as 0 0+ as 1 after 0");
    let mut world = World::new(|config| config.resources = resources(&[("cpus", 3), ("foo", 1)]));
    world.run_as(1, "0-1", 0, (None, None), variants);
    world.did();
    world.end(1, 0, Outcome::Finished);
    world.end(1, 1, Outcome::Finished);
    assert_eq!(world.did(), "finished as 1 1:0, finished as 0 1:1", "whoever reads the journal learns it");
}

#[test]
fn small_tasks_do_not_starve_a_large_one() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.run(2, "0", 0, |spec| {
        spec.requests[0].resources[0].amount = AmountRequest::Some(Amount::whole(2), Policy::Compact);
    });
    world.run(3, "0-9", 0, |_| {});
    assert_eq!(world.did(), "start 1@0/0, start 3@0/0", "for a while it is overtaken");
    world.now = world.now.after(OVERTAKEN_MAX);
    world.end(3, 0, Outcome::Finished);
    assert_eq!(world.did(), "finished 3:0", "then the others wait");
    world.end(1, 0, Outcome::Finished);
    assert_eq!(world.did(), "start 2@0/0, finished 1:0");
}

#[test]
fn a_time_limit_ends_a_task_that_ignores_sigterm() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |spec| spec.time_limit = Some(Duration::from_secs(10)));
    world.wait(Duration::from_secs(10));
    world.wait(Duration::from_secs(5));
    world.end(1, 0, Outcome::Failed(FailureKind::Signal(9), "killed".into()));
    assert_eq!(world.did(), "start 1@0/0, signal 1@0 15, signal 1@0 9, timeout 1:0");
}

#[test]
fn a_task_with_the_node_to_itself_starts_when_it_is_empty() {
    let mut world = World::new(|_| {});
    world.run(1, "1", 0, |_| {});
    let (job, ids) = (JobId(1), IdSet::single(TaskId(1)));
    world.step(Input::Server(ToWorker::Cancel { job, ids, are_elsewhere: false }));
    assert_eq!(world.did(), "start 1@1/0, signal 1@1 15");
    let ranks = |exclusive| {
        move |spec: &mut TaskSpec| {
            let request = &mut spec.requests[0];
            (request.nodes, request.ranks, request.exclusive) = (1, 1, exclusive);
        }
    };
    world.run(2, "1", 0, ranks(true));
    assert_eq!(world.did(), "", "one CPU is free, but the canceled task has not ended");
    assert!(crate::mark::take().contains("ranks wait for the rest of their node"));
    world.end(1, 1, Outcome::Finished);
    assert_eq!(world.did(), "start 2@1/0, canceled 1:1");
    world.run(3, "1", 0, |_| {});
    assert_eq!(world.did(), "", "nothing starts beside it");
    world.end(2, 1, Outcome::Finished);
    assert_eq!(world.did(), "start 3@1/0, finished 2:1");
    world.run(4, "1", 0, ranks(false));
    assert_eq!(world.did(), "start 4@1/0", "these share the node");
}

#[test]
fn only_what_has_not_started_is_given_back() {
    let mut world = World::new(|_| {});
    world.run(1, "0-5", 0, |_| {});
    world.did();
    world.step(Input::Server(ToWorker::Retract { job: JobId(1), ids: "1-4".parse().expect("ids") }));
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "returned 1:2-4");
}

#[test]
fn draining_finishes_what_runs_and_gives_back_the_rest() {
    let mut world = World::new(|_| {});
    world.run(1, "0-3", 0, |_| {});
    world.did();
    world.step(Input::Server(ToWorker::Stop { drain: true }));
    world.end(1, 0, Outcome::Finished);
    world.end(1, 1, Outcome::Finished);
    assert_eq!(world.did(), "returned 1:2-3, finished 1:0, finished 1:1");
    world.saves();
    assert_eq!(world.did(), "exit Stopped");
}

#[test]
fn stopping_ends_what_runs_and_it_is_run_again_elsewhere() {
    let mut world = World::new(|_| {});
    world.run(1, "0-1", 0, |_| {});
    world.did();
    world.step(Input::Interrupt);
    world.end(1, 0, failed());
    world.end(1, 1, Outcome::Finished);
    assert_eq!(world.did(), "signal 1@0 15, signal 1@1 15, interrupted 1:0, finished 1:1, exit Interrupted");
}

#[test]
fn a_task_that_a_batch_system_terminates_before_its_worker_is_interrupted() {
    let terminated = || Outcome::Failed(FailureKind::Signal(15), "killed by signal 15".into());
    let mut world = World::new(|config| config.allocation = Some((Manager::Slurm, "7".into())));
    world.run(1, "0-1", 0, |_| {});
    world.did();
    world.end(1, 0, terminated());
    assert_eq!(world.did(), "");
    world.step(Input::Interrupt);
    world.end(1, 1, terminated());
    assert_eq!(world.did(), "signal 1@1 15, interrupted 1:0, interrupted 1:1, exit Interrupted");
    // Nobody ends this worker: the task has failed, which is said a moment later.
    let mut world = World::new(|config| config.allocation = Some((Manager::Slurm, "7".into())));
    world.run(1, "0-1", 0, |_| {});
    world.did();
    world.end(1, 0, terminated());
    assert_eq!(world.did(), "");
    world.wait(OUTSIDE_END_TIME);
    assert_eq!(world.did(), "failed 1:0");
}

#[test]
fn an_idle_worker_leaves_after_its_timeout() {
    let mut world = World::new(|config| config.idle_timeout = Some(Duration::from_secs(60)));
    world.run(1, "0", 0, |_| {});
    world.wait(Duration::from_secs(100));
    world.end(1, 0, Outcome::Finished);
    world.saves();
    world.did();
    world.wait(Duration::from_secs(59));
    assert_eq!(world.did(), "");
    world.wait(Duration::from_secs(1));
    assert_eq!(world.did(), "exit IdleTimeout");
}

#[test]
fn that_output_finds_no_room_is_reported_until_it_does() {
    let mut world = World::new(|_| {});
    world.step(Input::OutputWaits(Some("no room".into())));
    world.wait(REPORT_INTERVAL);
    assert_eq!(world.did(), "output waits no room");
    world.step(Input::ServerLost);
    world.step(Input::ServerFound);
    world.welcome(None);
    assert!(world.did().ends_with(", output waits no room"), "to a server that was started again");
    world.step(Input::OutputWaits(None));
    world.wait(REPORT_INTERVAL);
    assert_eq!(world.did(), "no output waits");
}

#[test]
fn a_node_that_cannot_start_tasks_gives_them_back_and_tries_again_later() {
    let not_started = || Outcome::NotStarted("no process could be made".into());
    let mut world = World::new(|_| {});
    world.run(1, "0-5", 0, |_| {});
    world.end(1, 0, not_started());
    assert_eq!(world.did(), "start 1@0/0, start 1@1/0, trouble no process could be made, returned 1:0,2-5");
    world.end(1, 1, Outcome::Finished);
    world.run(2, "0", 0, |_| {});
    world.wait(REPORT_INTERVAL);
    assert_eq!(
        world.did(),
        "trouble no process could be made, finished 1:1, trouble no process could be made, returned 2:0",
        "what runs goes on, and nothing is taken"
    );
    world.step(Input::ServerLost);
    world.step(Input::ServerFound);
    world.welcome(None);
    assert!(world.did().ends_with("returned 2:0, trouble no process could be made"), "it is said again");
    let again = world.worker.next_wakeup().expect("it tries again");
    assert!(again <= world.now.after(NODE_FAULT_PAUSE_MIN));
    world.wait(NODE_FAULT_PAUSE_MIN);
    world.run(3, "0", 0, |_| {});
    assert_eq!(world.did(), "no trouble, start 3@0/0");
    world.end(3, 0, not_started());
    world.did();
    world.wait(NODE_FAULT_PAUSE_MIN);
    assert_eq!(world.did(), "", "twice as long as before");
    world.wait(NODE_FAULT_PAUSE_MIN);
    assert_eq!(world.did(), "no trouble");
}

#[test]
fn what_runs_when_the_launcher_dies_is_left_running_and_the_worker_leaves_at_once() {
    let mut world = World::new(|_| {});
    world.run(1, "0-4", 0, |_| {});
    world.step(Input::Server(ToWorker::Cancel {
        job: JobId(1),
        ids: "0".parse().expect("ids"),
        are_elsewhere: false,
    }));
    world.step(Input::LauncherLost);
    assert_eq!(
        world.did(),
        "start 1@0/0, start 1@1/0, signal 1@0 15, canceled 1:0, returned 1:2-4, exit LauncherLost"
    );
}

#[test]
fn a_launcher_that_does_not_kill_what_it_should_is_killed_when_the_worker_leaves() {
    let mut world = World::new(|_| {});
    world.run(1, "0-1", 0, |_| {});
    world.step(Input::Server(ToWorker::Cancel {
        job: JobId(1),
        ids: "0".parse().expect("ids"),
        are_elsewhere: false,
    }));
    world.wait(Duration::from_secs(5));
    world.wait(UNKILLABLE_TIME * 2);
    world.did();
    world.step(Input::Server(ToWorker::Stop { drain: true }));
    world.wait(UNKILLABLE_TIME);
    assert_eq!(world.did(), "", "another task may finish");
    world.step(Input::Interrupt);
    world.wait(Duration::from_secs(5));
    assert_eq!(world.did(), "signal 1@1 15, signal 1@1 9");
    world.wait(UNKILLABLE_TIME);
    assert_eq!(world.did(), "kill launcher, canceled 1:0, interrupted 1:1, exit Stopped");
}

#[test]
fn a_lost_server_is_told_later_what_happened_meanwhile() {
    let mut world = World::new(|_| {});
    world.run(1, "0-3", 0, |_| {});
    world.did();
    world.step(Input::ServerLost);
    world.end(1, 0, Outcome::Finished);
    assert_eq!(world.did(), "start 1@2/0");
    world.step(Input::ServerFound);
    assert_eq!(world.did(), "hello 1-2+3 after 1");
    world.welcome(None);
    assert_eq!(world.did(), "finished 1:0");
    world.step(Input::Server(ToWorker::Saved { report: 1 }));
    world.step(Input::ServerLost);
    world.step(Input::ServerFound);
    assert_eq!(world.did(), "hello 1-2+3 after 0");
}

#[test]
fn a_task_that_is_handed_again_was_not_given_back_for_a_restarted_server() {
    let mut world = World::new(|_| {});
    world.run(1, "0-7", 0, |_| {});
    world.step(Input::Server(ToWorker::Retract { job: JobId(1), ids: IdSet::range(6, 7) }));
    world.wait(Duration::from_secs(1));
    assert!(world.did().ends_with("returned 1:6-7"), "the report is not saved yet");
    world.run(1, "6", 0, |_| {});
    for task in 0..6 {
        world.end(1, task, Outcome::Finished);
    }
    world.end(1, 6, Outcome::Finished);
    world.wait(Duration::from_secs(1));
    world.did();
    world.step(Input::ServerLost);
    world.step(Input::ServerFound);
    world.did();
    world.welcome(None);
    let said = world.did();
    assert!(said.contains("returned 1:7") && !said.contains("returned 1:6-7"), "{said}");
}

#[test]
fn a_higher_instance_replaces_a_running_attempt() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.run(1, "0", 0, |_| {});
    world.run(1, "0", 1, |_| {});
    assert_eq!(world.did(), "start 1@0/0, signal 1@0 15 for another");
    world.end(1, 0, failed());
    assert_eq!(world.did(), "start 1@0/1");
}

proptest! {
    #[test]
    fn every_task_is_reported_exactly_once(steps in prop::collection::vec((0u32..6, 0u32..12, 0u32..4), 1..60)) {
        let mut world = World::new(|_| {});
        let mut handed = 0;
        for (what, id, count) in steps {
            match what {
                0 | 1 => {
                    let ids = format!("{handed}-{}", handed + count);
                    handed += count + 1;
                    world.run(1, &ids, 0, |spec| spec.time_limit = Some(Duration::from_secs(20)));
                }
                2 => world.end(1, id, Outcome::Finished),
                3 => world.end(1, id, failed()),
                4 => {
                    let ids = IdSet::range(id, id + count);
                    world.step(Input::Server(ToWorker::Cancel { job: JobId(1), ids, are_elsewhere: false }));
                }
                _ => world.wait(Duration::from_secs(u64::from(id))),
            }
        }
        world.step(Input::Interrupt);
        for task in 0..handed {
            world.end(1, task, failed());
        }
        prop_assert_eq!(world.ended.len(), handed as usize);
        for (task, words) in &world.ended {
            prop_assert_eq!(words.len(), 1, "{} {:?}", task, words);
        }
    }
}
