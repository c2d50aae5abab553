//! What workers tell of their nodes and of what tasks use.

use hq_model::{NodeSample, TaskLoad, TaskRef, TaskSample, TasksSample, WorkerId};

use super::*;
use crate::client_messages::{LoadHistory, TaskInfo};
use crate::limits::LOADS_NEWS_INTERVAL;

const MIB: u64 = 1 << 20;

impl World {
    // A worker whose node has this name.
    fn worker_on(&mut self, connection: u64, hostname: &str) {
        self.worker_saying(connection, 2, |hello| hello.config.hostname = hostname.into());
    }

    // A worker tells of a node with one CPU, so busy.
    fn samples(&mut self, connection: u64, cpu: u16, tasks: Vec<TaskSample>) {
        let node = NodeSample {
            cpus: vec![cpu],
            memory_total: 8 * MIB,
            memory_free: 6 * MIB,
            ..NodeSample::default()
        };
        let tasks = Some(Box::new(TasksSample::of(tasks)));
        let message = FromWorker::Sampled { node: Box::new(node), tasks };
        self.step(Input::Worker { connection: ConnectionId(connection), message });
    }

    fn load(&mut self, worker: Option<u32>, time: Duration) -> LoadHistory {
        match self.ask(ClientRequest::Load { worker: worker.map(hq_model::WorkerId), time }) {
            ClientResponse::Load(history) => *history,
            other => panic!("{other:?}"),
        }
    }

    fn busy(&mut self, worker: Option<u32>) -> Vec<u32> {
        let history = self.load(worker, Duration::from_secs(600));
        history.points.iter().map(|point| point.mean.cpus).collect()
    }

    fn task(&mut self, job: JobId, task: u32) -> TaskInfo {
        let answer = self.ask(ClientRequest::ListTasks {
            jobs: Selector::Ids(IdSet::single(TaskId(job.0))),
            tasks: Some(IdSet::single(TaskId(task))),
            states: Vec::new(),
            after: None,
            limit: 1,
            grouped: false,
            with_entries: false,
        });
        match answer {
            ClientResponse::Tasks { mut tasks, .. } => tasks.remove(0).1,
            other => panic!("{other:?}"),
        }
    }

    fn change_seen(&mut self) -> u64 {
        match self.ask(ClientRequest::Overview { seen: None }) {
            ClientResponse::Overview(overview) => overview.change,
            other => panic!("{other:?}"),
        }
    }

    fn used(&mut self, job: JobId, task: u32) -> Option<(u64, u64)> {
        self.task(job, task).load.map(|load| (load.load.cpus, load.memory_max))
    }
}

fn sample(job: JobId, task: u32, instance: u32, cpus: u64, memory_bytes: u64) -> TaskSample {
    let load = TaskLoad { cpus, memory_bytes, ..TaskLoad::default() };
    TaskSample { task: TaskRef::new(job, TaskId(task)), instance: Instance(instance), load }
}

#[test]
fn loads_of_nodes_are_kept_over_time_and_added_up() {
    let mut world = World::new();
    world.worker_on(2, "one");
    world.worker_on(3, "two");
    world.now = Timestamp(600 * 1_000_000);
    world.samples(2, 500, Vec::new());
    world.samples(3, 1000, Vec::new());
    world.wait(Duration::from_secs(10));
    world.samples(2, 100, Vec::new());
    assert_eq!((world.busy(Some(1)), world.busy(Some(2))), (vec![500, 100], vec![1000]));
    // All of them are added up each time that one tells.
    assert_eq!(world.busy(None), [1000, 1100]);
    let now = world.load(None, Duration::from_secs(60)).nodes;
    assert_eq!((now.nodes, now.load.cpus, now.load.memory_mib), (2, 1100, 4));
    assert_eq!((now.cpus_total, now.memory_total_mib), (2000, 16));
    let unknown = ClientRequest::Load { worker: Some(WorkerId(9)), time: Duration::from_secs(60) };
    assert_eq!(world.ask(unknown), ClientResponse::Error(RequestError::NoWorker(WorkerId(9))));
}

#[test]
fn a_node_with_two_workers_counts_once() {
    let mut world = World::new();
    world.worker_on(2, "one");
    world.worker_on(3, "one");
    world.samples(2, 500, Vec::new());
    world.samples(3, 500, Vec::new());
    assert_eq!(world.load(None, Duration::ZERO).nodes.load.cpus, 500);
    // The other one tells when the first is gone.
    let message = FromWorker::Leaving { end: WorkerEnd::Stopped };
    world.step(Input::Worker { connection: ConnectionId(2), message });
    assert_eq!(world.load(None, Duration::ZERO).nodes.nodes, 0);
    world.samples(3, 700, Vec::new());
    let now = world.load(None, Duration::ZERO).nodes;
    assert_eq!((now.nodes, now.load.cpus), (1, 700));
}

#[test]
fn what_a_running_task_uses_is_told_until_it_ends() {
    let mut world = World::new();
    world.worker(2, 2);
    let job = world.submit(2, |_| {});
    world.samples(2, 0, vec![sample(job, 0, 0, 900, 5 * MIB)]);
    assert_eq!(world.used(job, 0), None, "it is not known to run");
    world.reports(2, |r| r.started = vec![started(job, 0, 0), started(job, 1, 0)]);
    world.samples(2, 0, vec![sample(job, 0, 0, 900, 5 * MIB), sample(job, 1, 3, 100, MIB)]);
    world.samples(2, 0, vec![sample(job, 0, 0, 400, 2 * MIB)]);
    assert_eq!(world.used(job, 0), Some((400, 5 * MIB)));
    assert_eq!(world.used(job, 1), None, "another instance");
    let points = world.task(job, 0).load.expect("its use").points;
    assert_eq!(points.iter().map(|point| point.cpus).collect::<Vec<_>>(), [900, 400]);
    let tasks = world.load(Some(1), Duration::ZERO).nodes.tasks;
    assert_eq!((tasks.count, tasks.load.memory_bytes), (1, 2 * MIB));
    world.reports(2, |r| r.finished = vec![finished(job, 0, 0, 0)]);
    assert_eq!(world.used(job, 0), None);
    assert_eq!(world.server.loads.tasks_known(), 0);
}

#[test]
fn a_worker_that_comes_back_goes_on_where_it_was() {
    let mut world = World::new();
    world.worker_on(2, "one");
    world.samples(2, 500, Vec::new());
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    world.wait(Duration::from_secs(10));
    world.worker_saying(3, 2, |hello| {
        hello.known_as = Some(hq_model::WorkerId(1));
        hello.config.hostname = "one".into();
    });
    world.samples(3, 300, Vec::new());
    assert_eq!(world.busy(Some(1)), [500, 300]);
    assert_eq!(world.load(None, Duration::ZERO).nodes.load.cpus, 300);
}

#[test]
fn the_past_of_all_nodes_survives_a_restart() {
    let mut world = World::new();
    world.worker_on(2, "one");
    world.now = Timestamp(6000 * 1_000_000);
    for minute in 0..25 {
        world.samples(2, minute, Vec::new());
        world.now = world.now.after(Duration::from_secs(60));
    }
    let hours = Duration::from_secs(86_400);
    let before = world.load(None, hours);
    assert_eq!((before.step, before.points.len()), (Duration::from_secs(600), 3));
    world.step(Input::Stop);
    world.restart();
    let after = world.load(None, hours);
    assert_eq!(after.points, before.points, "what went on was kept at the end");
    assert_eq!(after.nodes.nodes, 0, "nobody tells now");
}

#[test]
fn samples_are_news_now_and_then() {
    let mut world = World::new();
    world.worker(2, 1);
    world.worker(3, 1);
    world.wait(LOADS_NEWS_INTERVAL);
    world.samples(2, 500, Vec::new());
    let first = world.change_seen();
    world.samples(3, 500, Vec::new());
    assert_eq!(world.change_seen(), first, "of the second one at the same time nobody is told");
    world.wait(LOADS_NEWS_INTERVAL);
    world.samples(3, 600, Vec::new());
    assert!(world.change_seen() > first);
}
