//! A campaign as a journal tells of it, written without a server: so it may be large, and is the same each time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use hq_core::measures::MeasuresWriter;
use hq_core::record::{Failure, FailureKind, FinishedSpan, Record};
use hq_core::worker_messages::WorkerEnd;
use hq_journal::{Journal, JournalId, Options, RealDisk};
use hq_model::dependency::After;
use hq_model::request::CPUS;
use hq_model::worker::WorkerConfig;
use hq_model::{
    Amount, AmountRequest, Body, Dependencies, Entries, Epoch, IdSet, Instance, JobId, JobSpec, Policy,
    Request, ResourceRequest, TaskId, TaskSpec, Timestamp, Usage, WorkerId, WorkerResources,
};

/// 2026-09-21 12:00:00 UTC.
const BEGIN_US: u64 = 1_789_992_000_000_000;
/// In µs.
pub(crate) const SECOND: u64 = 1_000_000;
/// Tasks that a worker gets and reports at a time.
const BATCH: usize = 64;

/// One job with a task, one with many that wait for it, of which some fail, and one that waits for all of these.
pub(crate) struct Campaign {
    /// How many.
    pub(crate) workers: u32,
    /// Of each of them.
    pub(crate) cpus: u32,
    /// How many run beside one another.
    pub(crate) tasks: u32,
    /// Every so many tasks one fails; 0 for none.
    pub(crate) fails: u32,
    /// What each task takes at least, and how much longer at most, in µs.
    pub(crate) task_us: (u64, u64),
}

fn at(us: u64) -> Timestamp {
    Timestamp(BEGIN_US + us)
}

fn submitted(job: u32, name: &str, tasks: u32, after: Option<u32>) -> Record {
    let cpu =
        ResourceRequest { name: CPUS.into(), amount: AmountRequest::Some(Amount::whole(1), Policy::Compact) };
    let after = after.map(|job| After::of(JobId(job))).into_iter().collect();
    Record::Submitted {
        job: JobId(job),
        key: 0,
        spec: Some(JobSpec { name: name.into(), ..JobSpec::default() }),
        ids: IdSet::range(1, tasks),
        entries: Entries::default(),
        entries_gone: Box::default(),
        keys: Entries::default(),
        dependencies: Arc::new(Dependencies { after, ..Dependencies::default() }),
        task: Arc::new(TaskSpec {
            body: Body::program(["dock"]),
            requests: vec![Request { resources: vec![cpu], ..Request::default() }],
            ..TaskSpec::default()
        }),
        submit_dir: b"/".to_vec(),
    }
}

fn finished(worker: u32, job: u32, tasks: &[(u32, u64, u64)]) -> Record {
    let mut measures = MeasuresWriter::new(true);
    for (_, start, end) in tasks {
        let (wall_us, user_us) = (end - start, (end - start) / 2);
        measures.push(at(*start), &Usage { wall_us, user_us, rss_max_kib: 100 << 10, ..Usage::default() });
    }
    let span = FinishedSpan {
        variant: None,
        job: JobId(job),
        instance: Instance(0),
        ids: tasks.iter().map(|(task, _, _)| TaskId(*task)).collect(),
        measures: measures.finish(),
        results: Entries::default(),
    };
    Record::Finished { worker: WorkerId(worker), span }
}

fn failed(worker: u32, job: u32, (task, start, end): (u32, u64, u64)) -> Record {
    let failure = Failure {
        variant: None,
        task: TaskId(task),
        instance: Instance(0),
        worker: Some(WorkerId(worker)),
        kind: FailureKind::Exit(3),
        error: "Program terminated with exit code 3: <i id=worse>no such ligand</i>".to_owned(),
        started: Some(at(start)),
        usage: Usage { wall_us: end - start, ..Usage::default() },
        nodes: Vec::new(),
        result: Vec::new(),
    };
    Record::Failed { job: JobId(job), failure }
}

fn leased(worker: u32, job: u32, ids: IdSet) -> Record {
    Record::Leased { worker: WorkerId(worker), job: JobId(job), ids }
}

impl Campaign {
    /// What a server would write, with the times after the begin, in µs.
    pub(crate) fn records(&self) -> Vec<(u64, Record)> {
        let started =
            Record::ServerStarted { epoch: Epoch(1), uid: "a1B2c3".into(), release: "0.1.0".into() };
        let mut records = vec![(0, started)];
        for worker in 1..=self.workers {
            let hostname = format!("node{worker}");
            let config = WorkerConfig { hostname, ..WorkerConfig::new(WorkerResources::cpus(self.cpus)) };
            records.push((
                SECOND,
                Record::WorkerJoined { worker: WorkerId(worker), config: Box::new(config), secret: None },
            ));
        }
        records.push((2 * SECOND, submitted(1, "prepare", 1, None)));
        records.push((2 * SECOND, submitted(2, "dock", self.tasks, Some(1))));
        records.push((2 * SECOND, submitted(3, "collect", 1, Some(2))));
        records.push((2 * SECOND, leased(1, 1, IdSet::range(1, 1))));
        records.push((5 * SECOND, finished(1, 1, &[(1, 2 * SECOND, 5 * SECOND)])));
        let end = self.array(&mut records);
        records.push((end, leased(1, 3, IdSet::range(1, 1))));
        records.push((end + 4 * SECOND, finished(1, 3, &[(1, end + SECOND, end + 4 * SECOND)])));
        let stop =
            Record::WorkerEnded { worker: WorkerId(self.workers), end: WorkerEnd::Stopped, is_away: false };
        records.push((end + 5 * SECOND, stop));
        records.sort_by_key(|(at, _)| *at);
        records
    }

    // The tasks of the array, each on the place that is free first. When the last of them ended.
    fn array(&self, records: &mut Vec<(u64, Record)>) -> u64 {
        let places = (1..=self.workers).flat_map(|worker| (0..self.cpus).map(move |cpu| (worker, cpu)));
        let mut free: BinaryHeap<_> =
            places.map(|(worker, cpu)| Reverse((5 * SECOND, worker, cpu))).collect();
        let mut open: BTreeMap<u32, Vec<(u32, u64, u64)>> = BTreeMap::new();
        let (mut chance, mut end_of_all) = (7_u64, 0);
        let report = |records: &mut Vec<(u64, Record)>, worker: u32, tasks: &mut Vec<(u32, u64, u64)>| {
            let Some(first) = tasks.first() else { return };
            records
                .push((first.1, leased(worker, 2, tasks.iter().map(|(task, _, _)| TaskId(*task)).collect())));
            let is_bad = |task: &u32| self.fails > 0 && task.is_multiple_of(self.fails);
            let (bad, good): (Vec<_>, Vec<_>) = tasks.drain(..).partition(|(task, _, _)| is_bad(task));
            records.extend(bad.into_iter().map(|one| (one.2, failed(worker, 2, one))));
            if let Some(end) = good.iter().map(|(_, _, end)| *end).max() {
                records.push((end, finished(worker, 2, &good)));
            }
        };
        for task in 1..=self.tasks {
            let Some(Reverse((start, worker, cpu))) = free.pop() else { break };
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let end = start + self.task_us.0 + (chance >> 33) % (self.task_us.1 + 1);
            end_of_all = end.max(end_of_all);
            free.push(Reverse((end, worker, cpu)));
            let tasks = open.entry(worker).or_default();
            tasks.push((task, start, end));
            if tasks.len() == BATCH {
                report(records, worker, tasks);
            }
        }
        for (worker, mut tasks) in open {
            report(records, worker, &mut tasks);
        }
        end_of_all
    }
}

/// Writes a journal of records to a directory, which is made.
pub(crate) fn write(path: &Path, records: &[(u64, Record)]) {
    fs::create_dir_all(path).expect("a directory");
    let disk = RealDisk::open(path).expect("a directory");
    let options = Options { create: Some(JournalId([1; 16])), ..Options::default() };
    let mut nothing = |_: u64, _: &[u8]| Ok::<(), String>(());
    let (mut journal, _) = Journal::open(disk, &options, &mut nothing).expect("a journal");
    for (place, (us, record)) in records.iter().enumerate() {
        journal.append(&hq_proto::encode_record(at(*us), record));
        if place % 1000 == 0 {
            journal.sync().expect("a disk");
        }
    }
    journal.close().expect("a journal");
}
