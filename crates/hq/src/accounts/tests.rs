//! Parts of offered time, from records as a server writes them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hq_core::attempt::{AttemptEnd, PastAttempt};
use hq_core::measures::MeasuresWriter;
use hq_core::record::{BudgetChange, Failure, FailureKind, FinishedSpan, Record, RestartCause};
use hq_core::worker_messages::WorkerEnd;
use hq_model::dependency::Edges;
use hq_model::job::JobSpec;
use hq_model::request::CPUS;
use hq_model::sample::{EnergyOf, NodeEnergy};
use hq_model::worker::{Manager, WorkerConfig};
use hq_model::{
    Amount, AmountRequest, Dependencies, Entries, IdSet, Instance, JobId, NodeSample, Policy, Request,
    ResourceRequest, TaskId, TaskSpec, Timestamp, Usage, WorkerId, WorkerResources,
};
use proptest::prelude::*;

use super::*;
use crate::render::tests::spec;

const SECOND: u64 = 1_000_000;

fn at(second: u64) -> Timestamp {
    Timestamp(second * SECOND)
}

#[derive(Default)]
struct Journal(Gathered);

impl Journal {
    fn worker(&mut self, second: u64, id: u32, cpus: u32) -> &mut Journal {
        let config = Box::new(WorkerConfig::new(WorkerResources::cpus(cpus)));
        self.take(second, Record::WorkerJoined { worker: WorkerId(id), config, secret: None })
    }

    fn submit(&mut self, second: u64, ids: IdSet, edges: Edges) -> &mut Journal {
        self.submit_within(second, ids, edges, None)
    }

    /// With a budget of so many seconds of a node.
    fn submit_within(&mut self, second: u64, ids: IdSet, edges: Edges, budget: Option<u64>) -> &mut Journal {
        let budget = budget.map(Duration::from_secs);
        let cpus = AmountRequest::Some(Amount::whole(1), Policy::Compact);
        let resources = vec![ResourceRequest { name: CPUS.into(), amount: cpus }];
        let requests = vec![Request { resources, ..Request::default() }];
        let task = Arc::new(TaskSpec { requests, ..spec() });
        let record = Record::Submitted {
            job: JobId(1),
            key: 0,
            spec: budget.map(|_| JobSpec { budget, ..JobSpec::default() }),
            ids,
            entries: Entries::default(),
            entries_gone: Default::default(),
            keys: Entries::default(),
            dependencies: Arc::new(Dependencies { edges, ..Dependencies::default() }),
            task,
            submit_dir: b"/".to_vec(),
        };
        self.take(second, record)
    }

    fn lease(&mut self, second: u64, worker: u32, first: u32, last: u32) -> &mut Journal {
        let (worker, ids) = (WorkerId(worker), IdSet::range(first, last));
        self.take(second, Record::Leased { worker, job: JobId(1), ids })
    }

    fn finish(&mut self, worker: u32, task: u32, start: u64, end: u64) -> &mut Journal {
        let mut measures = MeasuresWriter::new(false);
        measures.push(at(start), &Usage { wall_us: (end - start) * SECOND, ..Usage::default() });
        let span = FinishedSpan {
            job: JobId(1),
            instance: Instance(0),
            ids: IdSet::single(TaskId(task)),
            measures: measures.finish(),
            results: Entries::default(),
            variant: None,
        };
        self.take(end, Record::Finished { worker: WorkerId(worker), span })
    }

    fn take(&mut self, second: u64, record: Record) -> &mut Journal {
        self.0.take(at(second), &record);
        self
    }

    fn seconds(&mut self) -> Vec<(&'static str, f64)> {
        self.0.close();
        let (from, to) = (self.0.begin(), self.0.latest);
        let accounts = Accounts::new(&mut self.0, from, to);
        let parts = PARTS.iter().map(|part| (part.word(), accounts.cpus.seconds(*part)));
        parts.filter(|(_, seconds)| *seconds > 0.0).collect()
    }
}

fn stop(second: u64, journal: &mut Journal) -> &mut Journal {
    journal.take(second, Record::WorkerEnded { worker: WorkerId(1), end: WorkerEnd::Stopped, is_away: false })
}

#[test]
fn what_runs_is_work_and_what_is_free_without_tasks_is_no_work() {
    let mut journal = Journal::default();
    journal
        .worker(0, 1, 2)
        .submit(2, IdSet::range(0, 0), Edges::default())
        .lease(2, 1, 0, 0)
        .finish(1, 0, 3, 7);
    assert_eq!(stop(10, &mut journal).seconds(), [("work", 4.0), ("starting", 1.0), ("no_work", 15.0)]);
}

#[test]
fn a_task_of_the_backlog_starts_late_only_after_there_was_room() {
    let mut journal = Journal::default();
    journal.worker(0, 1, 1).submit(0, IdSet::range(0, 1), Edges::default()).lease(0, 1, 0, 1);
    journal.finish(1, 0, 0, 4).finish(1, 1, 5, 8);
    assert_eq!(stop(8, &mut journal).seconds(), [("work", 7.0), ("starting", 1.0)]);
}

#[test]
fn who_waits_for_others_leaves_a_worker_idle_for_dependencies() {
    let mut journal = Journal::default();
    let edges = Edges::new([vec![], vec![TaskId(0)]]).expect("edges");
    journal.worker(0, 1, 2).submit(0, IdSet::range(0, 1), edges).lease(0, 1, 0, 0).finish(1, 0, 0, 6);
    journal.lease(6, 1, 1, 1).finish(1, 1, 6, 8);
    assert_eq!(stop(8, &mut journal).seconds(), [("work", 8.0), ("dependencies", 6.0), ("no_work", 2.0)]);
}

#[test]
fn who_was_handed_out_ahead_waits_until_the_others_have_ended() {
    let edges = || Edges::new([vec![], vec![TaskId(0)]]).expect("edges");
    let mut journal = Journal::default();
    journal.worker(0, 1, 2).submit(0, IdSet::range(0, 1), edges()).lease(0, 1, 0, 1).finish(1, 0, 0, 6);
    journal.finish(1, 1, 6, 8);
    assert_eq!(stop(8, &mut journal).seconds(), [("work", 8.0), ("dependencies", 6.0), ("no_work", 2.0)]);
    let mut journal = Journal::default();
    journal.worker(0, 1, 2).submit(0, IdSet::range(0, 1), edges()).lease(0, 1, 0, 1);
    journal.take(10, Record::JobClosed { job: JobId(1) });
    assert_eq!(journal.seconds(), [("work", 10.0), ("dependencies", 10.0)], "while the first one runs");
}

#[test]
fn ready_tasks_that_are_handed_to_nobody_do_not_fit_and_a_worker_that_is_stopped_leaves() {
    let mut journal = Journal::default();
    journal
        .worker(0, 1, 2)
        .submit(0, IdSet::range(0, 1), Edges::default())
        .lease(2, 1, 0, 0)
        .finish(1, 0, 2, 6);
    let expected = [("work", 4.0), ("no_room", 4.0), ("leaving", 8.0)];
    assert_eq!(stop(8, &mut journal).seconds(), expected);
}

#[test]
fn ready_tasks_of_a_job_whose_budget_is_spent_do_not_start_for_its_sake() {
    let set = |budget| Record::Budget { job: JobId(1), change: BudgetChange::Set(budget) };
    let mut journal = Journal::default();
    journal.worker(0, 1, 1).submit_within(0, IdSet::range(0, 2), Edges::default(), Some(4));
    journal.lease(0, 1, 0, 0).finish(1, 0, 0, 4).take(7, set(None)).lease(8, 1, 1, 1).finish(1, 1, 8, 10);
    // Another one that is less than what was used; then an end without the last task.
    journal.take(12, set(Some(Duration::from_secs(1))));
    let (job, ids) = (JobId(1), IdSet::single(TaskId(2)));
    journal.take(15, Record::Canceled { job, ids, reason: None, end_by: None });
    let expected =
        [("work", 6.0), ("no_room", 1.0), ("over_budget", 6.0), ("leaving", 2.0), ("no_work", 1.0)];
    assert_eq!(stop(16, &mut journal).seconds(), expected);
}

#[test]
fn an_attempt_that_is_repeated_is_lost() {
    let mut journal = Journal::default();
    journal.worker(0, 1, 1).submit(0, IdSet::range(0, 0), Edges::default()).lease(0, 1, 0, 0);
    let cause = RestartCause::Retry { not_before: at(5) };
    let (job, ids, instance) = (JobId(1), IdSet::range(0, 0), Instance(1));
    journal.take(3, Record::Restarted { job, ids, instance, cause });
    journal.lease(5, 1, 0, 0).finish(1, 0, 5, 9);
    assert_eq!(stop(9, &mut journal).seconds(), [("work", 4.0), ("lost", 3.0), ("no_work", 2.0)]);
}

#[test]
fn attempts_that_are_repeated_ran_when_their_workers_say_whenever_that_was_heard() {
    let mut journal = Journal::default();
    journal.worker(0, 1, 2).submit(0, IdSet::range(0, 1), Edges::default()).lease(0, 1, 0, 1);
    let attempt = |task, instance| PastAttempt {
        task: TaskId(task),
        instance: Instance(instance),
        worker: Some(WorkerId(1)),
        nodes: Vec::new(),
        started: Some(at(1)),
        ended: at(3),
        end: AttemptEnd::Failed(FailureKind::Exit(1)),
        error: String::new(),
    };
    let job = JobId(1);
    journal.take(7, Record::AttemptsEnded { job, attempts: vec![attempt(0, 0), attempt(1, 1)] });
    for (task, instance) in [(0, Instance(1)), (1, Instance(2))] {
        let (ids, cause) = (IdSet::single(TaskId(task)), RestartCause::Retry { not_before: at(7) });
        journal.take(7, Record::Restarted { job, ids, instance, cause });
    }
    journal.lease(8, 1, 0, 1).finish(1, 0, 8, 9).finish(1, 1, 8, 9);
    let expected = [("work", 2.0), ("lost", 4.0), ("starting", 2.0), ("no_room", 2.0), ("no_work", 8.0)];
    assert_eq!(stop(9, &mut journal).seconds(), expected);
}

#[test]
fn of_what_was_handed_out_as_much_runs_as_has_room() {
    let mut journal = Journal::default();
    journal.worker(0, 1, 2).submit(0, IdSet::range(0, 5), Edges::default()).lease(0, 1, 0, 5);
    journal.take(4, Record::JobClosed { job: JobId(1) });
    assert_eq!(journal.seconds(), [("work", 8.0)]);
    assert_eq!(journal.0.attempts.len(), 2);
}

#[test]
fn of_two_attempts_the_slower_one_is_lost() {
    let mut journal = Journal::default();
    journal.worker(0, 1, 1).worker(0, 2, 1).submit(0, IdSet::range(0, 0), Edges::default()).lease(0, 1, 0, 0);
    let (worker, job, task, instance) = (WorkerId(2), JobId(1), TaskId(0), Instance(1));
    journal.take(4, Record::Speculated { worker, job, task, instance }).finish(2, 0, 4, 6);
    assert_eq!(journal.seconds(), [("work", 2.0), ("lost", 6.0), ("no_work", 4.0)]);
}

#[test]
fn what_was_canceled_counts_only_as_far_as_it_ran() {
    let mut journal = Journal::default();
    journal.worker(0, 1, 2).submit(0, IdSet::range(0, 2), Edges::default()).lease(0, 1, 0, 2);
    let (job, ids) = (JobId(1), IdSet::range(0, 2));
    journal.take(4, Record::Canceled { job, ids, reason: None, end_by: None });
    let attempt = Failure {
        task: TaskId(1),
        instance: Instance(0),
        worker: Some(WorkerId(1)),
        kind: FailureKind::EndedEarly,
        error: String::new(),
        started: Some(at(0)),
        usage: Usage { wall_us: 5 * SECOND, ..Usage::default() },
        nodes: Vec::new(),
        result: Vec::new(),
        variant: None,
    };
    journal.take(5, Record::EndedEarly { job, attempts: vec![attempt] });
    assert_eq!(stop(10, &mut journal).seconds(), [("failed", 5.0), ("no_work", 15.0)]);
}

proptest! {
    #[test]
    fn the_parts_add_up_to_what_was_offered(
        tasks in prop::collection::vec((0_u64..50, 0_u64..20, 0_u64..20, 0_u32..3, 1_u32..3), 0..40),
        workers in prop::collection::vec((0_u64..30, 1_u32..5, 0_u64..60), 1..4),
        window in (0_u64..40, 0_u64..60),
        budget in prop::option::of(1_u64..40),
    ) {
        let mut journal = Journal::default();
        let mut offered = 0;
        for (id, (joined, cpus, _)) in workers.iter().enumerate() {
            journal.worker(*joined, id as u32, *cpus);
        }
        let count = tasks.len() as u32;
        if count > 0 {
            journal.submit_within(1, IdSet::range(0, count - 1), Edges::default(), budget);
        }
        for (task, (leased, waited, ran, worker, outcome)) in tasks.iter().enumerate() {
            let (task, start) = (task as u32, leased + waited);
            journal.lease(*leased, *worker, task, task);
            match outcome {
                1 => {
                    journal.finish(*worker, task, start, start + ran);
                }
                _ => {
                    let (job, ids, instance) = (JobId(1), IdSet::range(task, task), Instance(1));
                    journal.take(start + ran, Record::Restarted { job, ids, instance, cause: RestartCause::Crash });
                }
            }
        }
        for (id, (joined, _, life)) in workers.iter().enumerate() {
            let end = WorkerEnd::TimeLimit;
            let worker = WorkerId(id as u32);
            journal.take(joined + life, Record::WorkerEnded { worker, end, is_away: false });
        }
        journal.0.close();
        let (from, to) = (at(window.0), at(window.0 + window.1));
        for (joined, cpus, life) in &workers {
            let (start, end) = (at(*joined).max(from), at(joined + life).min(to));
            offered += u128::from(end.0.saturating_sub(start.0)) * u128::from(*cpus) * 10_000;
        }
        let accounts = Accounts::new(&mut journal.0, from, to);
        prop_assert_eq!(accounts.cpus.total(), offered);
    }
}

#[test]
fn energy_is_measured_once_for_a_node_and_else_estimated() {
    let mut journal = Journal::default();
    for (id, host) in [(1, "a"), (2, "a"), (3, "b"), (4, "c")] {
        let config = WorkerConfig { hostname: host.into(), ..WorkerConfig::new(WorkerResources::cpus(4)) };
        journal
            .take(0, Record::WorkerJoined { worker: WorkerId(id), config: Box::new(config), secret: None });
    }
    for (second, joules) in [(0, 0), (60, 3_000), (100, 5_000)] {
        for (worker, of) in [(1, EnergyOf::Node), (2, EnergyOf::Node), (4, EnergyOf::Gpus)] {
            let energy = Some(NodeEnergy { used_uj: joules * 1_000_000, of });
            let sample = Box::new(NodeSample { energy, ..NodeSample::default() });
            journal.take(second, Record::WorkerSampled { worker: WorkerId(worker), sample });
        }
    }
    let mut gathered = journal.0;
    gathered.close();
    let accounts = Accounts::new(&mut gathered, at(0), at(100));
    let none = BTreeMap::new();
    let mut sum = EnergySum {
        measured: 10_000.0,
        measured_workers: 2,
        measured_of: [EnergyOf::Node, EnergyOf::Gpus].into(),
        estimated: 2.0 * 4.0 * 100.0 * 10.0,
        estimated_workers: 2,
        ..EnergySum::default()
    };
    assert_eq!(EnergySum::of(&gathered, &accounts, &none, Some(10.0)), sum, "processors beside GPUs, too");
    (sum.estimated, sum.estimated_workers) = (0.0, 0);
    assert_eq!(EnergySum::of(&gathered, &accounts, &none, None), sum, "without watts nothing is estimated");
    let accounts = Accounts::new(&mut gathered, at(60), at(100));
    assert_eq!(EnergySum::of(&gathered, &accounts, &none, None).measured, 4_000.0, "of a part of the time");
}

#[test]
fn what_slurm_has_counts_by_the_time_that_workers_were_there_unless_they_measured() {
    let mut journal = Journal::default();
    for (id, job) in [(1, "7"), (2, "7"), (3, "8")] {
        let allocation = Some((Manager::Slurm, job.to_owned()));
        let config = WorkerConfig { allocation, ..WorkerConfig::new(WorkerResources::cpus(4)) };
        journal
            .take(0, Record::WorkerJoined { worker: WorkerId(id), config: Box::new(config), secret: None });
    }
    for (second, used_uj) in [(0, 0), (100, 5_000_000)] {
        let energy = Some(NodeEnergy { used_uj, of: EnergyOf::Processors });
        let sample = Box::new(NodeSample { energy, ..NodeSample::default() });
        journal.take(second, Record::WorkerSampled { worker: WorkerId(3), sample });
    }
    let mut gathered = journal.0;
    gathered.close();
    assert_eq!(gathered.unmeasured_slurm_jobs(), ["7"]);
    let slurm = BTreeMap::from([("7".to_owned(), 1_000), ("8".to_owned(), 9_000)]);
    let of = |gathered: &mut _, from, to| {
        let accounts = Accounts::new(gathered, at(from), at(to));
        let sum = EnergySum::of(gathered, &accounts, &slurm, Some(1.0));
        (sum.accounted, sum.accounted_workers, sum.measured, sum.estimated)
    };
    assert_eq!(of(&mut gathered, 0, 100), (1_000.0, 2, 5.0, 0.0));
    assert_eq!(of(&mut gathered, 0, 50).0, 500.0, "half of the time");
}
