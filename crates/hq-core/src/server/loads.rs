//! How loaded nodes are and were, and what running tasks use: what workers have told of it, in bounded memory.
//!
//! Nothing is decided by this. Durable are only the longest steps of all nodes together.

mod node;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hq_model::{IdSet, JobId, NodeSample, TaskId, TaskRef, TaskSample, TasksSample, Timestamp, WorkerId};

use super::Effect;
use super::machine::Server;
use crate::limits::{SERIES_WORKERS_MAX, TASK_USE_BYTES, TASK_USES_BYTES_MAX};
use crate::load_history::LoadHistory;
use crate::overview::NodesLoad;
use crate::record::Record;
use crate::series::{LoadPoint, NodeLoad, Series};
use crate::task_use::{TaskUse, TasksSum};

use node::load_of;

/// What is known of loads.
#[derive(Debug, Default)]
pub(super) struct Loads {
    cluster: Series,
    workers: BTreeMap<WorkerId, WorkerLoad>,
    // Which worker tells of a node: of several there, one.
    nodes: BTreeMap<String, WorkerId>,
    // Of those workers together.
    sum: NodeLoad,
    tasks: BTreeMap<TaskRef, TaskUse>,
}

#[derive(Debug)]
struct WorkerLoad {
    hostname: String,
    heard: Timestamp,
    node: Box<NodeSample>,
    load: NodeLoad,
    tasks: Option<TasksSum>,
    // Of the first so many workers alone.
    series: Option<Series>,
}

impl Loads {
    /// A worker has told of its node. Gives the longest step of all nodes that is over by that.
    fn worker_tells(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        hostname: &str,
        node: Box<NodeSample>,
        tasks: Option<TasksSum>,
    ) -> Option<LoadPoint> {
        let before = self.workers.remove(&worker);
        let load = load_of(&node, before.as_ref().map(|before| (now.since(before.heard), &*before.node)));
        let (old, series) = before.map_or((NodeLoad::default(), None), |before| (before.load, before.series));
        let mut series = series.or_else(|| self.has_room().then(Series::default));
        if let Some(series) = &mut series {
            series.push(now, load);
        }
        let mut over = None;
        if !self.nodes.contains_key(hostname) {
            self.nodes.insert(hostname.to_owned(), worker);
            self.sum = self.sum.plus(&load);
        } else if self.nodes[hostname] == worker {
            self.sum = self.sum.minus(&old).plus(&load);
        }
        if self.nodes[hostname] == worker {
            over = self.cluster.push(now, self.sum);
        }
        let told = WorkerLoad { hostname: hostname.to_owned(), heard: now, node, load, tasks, series };
        self.workers.insert(worker, told);
        over
    }

    fn has_room(&self) -> bool {
        self.workers.values().filter(|worker| worker.series.is_some()).count() < SERIES_WORKERS_MAX
    }

    /// What was kept of the time before this start.
    pub(super) fn restore(&mut self, points: &VecDeque<LoadPoint>) {
        self.cluster.restore(points);
    }

    fn task_tells(&mut self, now: Timestamp, worker: WorkerId, sample: TaskSample) {
        let is_full = self.tasks.len() >= TASK_USES_BYTES_MAX / TASK_USE_BYTES;
        let known = self.tasks.get_mut(&sample.task);
        let is_same = |used: &TaskUse| used.worker == worker && used.instance == sample.instance;
        match known {
            Some(known) if is_same(known) => known.push(now, sample.load),
            None if is_full => {}
            _ => {
                let mut used = TaskUse::new(worker, sample.instance, now);
                used.push(now, sample.load);
                self.tasks.insert(sample.task, used);
            }
        }
    }

    /// A worker is gone: nothing of its node is known any more, unless another one there tells.
    pub(super) fn forget_worker(&mut self, worker: WorkerId) {
        let Some(gone) = self.workers.remove(&worker) else { return };
        if self.nodes.get(&gone.hostname) == Some(&worker) {
            self.nodes.remove(&gone.hostname);
            self.sum = self.sum.minus(&gone.load);
        }
        self.forget_tasks_on(worker);
    }

    /// Nothing is known to run there.
    pub(super) fn forget_tasks_on(&mut self, worker: WorkerId) {
        self.tasks.retain(|_, used| used.worker != worker);
    }

    /// Tasks run no more, or not as what was told of.
    pub(super) fn forget_tasks(&mut self, job: JobId, ids: &IdSet) {
        if self.tasks.is_empty() {
            return;
        }
        for range in ids.ranges() {
            let of = |task: u32| TaskRef { job, task: TaskId(task) };
            let bounds = of(*range.start())..=of(*range.end());
            while let Some((task, _)) = self.tasks.range(bounds.clone()).next() {
                let task = *task;
                self.tasks.remove(&task);
            }
        }
    }

    /// What a task uses on a worker, as far as it is known.
    pub(super) fn task(&self, task: TaskRef, worker: WorkerId) -> Option<&TaskUse> {
        self.tasks.get(&task).filter(|used| used.worker == worker)
    }

    /// What the tasks of a worker use together, as it has told.
    pub(super) fn tasks_of(&self, worker: WorkerId) -> Option<TasksSum> {
        self.workers.get(&worker)?.tasks
    }

    /// All nodes of which somebody tells.
    pub(super) fn nodes(&self) -> NodesLoad {
        let telling = self.nodes.values().filter_map(|worker| self.workers.get(worker));
        let mut all = telling.fold(NodesLoad::default(), NodesLoad::with);
        let sums = self.workers.values().filter_map(|worker| worker.tasks);
        all.tasks = sums.fold(TasksSum::default(), |all, sum| TasksSum {
            count: all.count + sum.count,
            load: all.load.plus(&sum.load),
        });
        all
    }

    /// What the node of a worker did when it was heard of last, and when that was.
    pub(super) fn node_of(&self, worker: WorkerId) -> Option<(Timestamp, Box<NodeSample>)> {
        self.workers.get(&worker).map(|worker| (worker.heard, worker.node.clone()))
    }

    /// How loaded a worker's node, or the cluster, was within this time. Of a worker that does not tell, nothing.
    pub(super) fn history(&self, now: Timestamp, worker: Option<WorkerId>, time: Duration) -> LoadHistory {
        let (nodes, series) = match worker {
            None => (self.nodes(), Some(&self.cluster)),
            Some(worker) => match self.workers.get(&worker) {
                None => (NodesLoad::default(), None),
                Some(told) => {
                    let tasks = told.tasks.unwrap_or_default();
                    (NodesLoad { tasks, ..NodesLoad::default() }.with(told), told.series.as_ref())
                }
            },
        };
        let (step, points) =
            series.map_or_else(|| Series::default().since(now, time), |series| series.since(now, time));
        LoadHistory { worker, now, nodes, step, points }
    }

    /// Running tasks of which it is known what they use.
    #[cfg(test)]
    pub(super) fn tasks_known(&self) -> usize {
        self.tasks.len()
    }

    /// What all series take, in bytes, roughly.
    pub(super) fn bytes(&self) -> u64 {
        let series = self.workers.values().filter_map(|worker| worker.series.as_ref());
        let of_series: usize = series.map(Series::bytes).sum::<usize>() + self.cluster.bytes();
        let of_task = |used: &TaskUse| size_of::<TaskUse>() + size_of_val(used.points.as_slice());
        (of_series + self.tasks.values().map(of_task).sum::<usize>()) as u64
    }
}

impl NodesLoad {
    fn with(self, told: &WorkerLoad) -> NodesLoad {
        NodesLoad {
            nodes: self.nodes + 1,
            load: self.load.plus(&told.load),
            cpus_total: self.cpus_total + 1000 * told.node.cpus.len() as u64,
            memory_total_mib: self.memory_total_mib + (told.node.memory_total >> 20),
            gpus_total: self.gpus_total + 1000 * told.node.gpus.len() as u64,
            tasks: self.tasks,
        }
    }
}

impl Server {
    /// A worker tells what its node does and what its tasks use.
    pub(super) fn load_is_told(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        node: Box<NodeSample>,
        tasks: Option<Box<TasksSample>>,
        effects: &mut Vec<Effect>,
    ) {
        let hostname = &self.state.workers[&worker].config.hostname;
        let sum = tasks.as_ref().map(|tasks| TasksSum { count: tasks.count, load: tasks.sum });
        let over = self.loads.worker_tells(now, worker, hostname, node, sum);
        self.keep_point(now, over, effects);
        for sample in tasks.map_or_else(Vec::new, |tasks| tasks.tasks) {
            let runs = self.running.of(sample.task.job, sample.task.task);
            // Of a second attempt, and of other nodes of a task on several, nothing is kept.
            if runs.is_some_and(|run| run.worker == worker && run.instance == sample.instance) {
                self.loads.task_tells(now, worker, sample);
            }
        }
        self.watching.loads_told(now);
    }

    /// The server ends: what was heard of in the step that is going on is kept, too.
    pub(super) fn keep_load(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let going_on = self.loads.cluster.take_going_on();
        self.keep_point(now, going_on, effects);
    }

    fn keep_point(&mut self, now: Timestamp, point: Option<LoadPoint>, effects: &mut Vec<Effect>) {
        if let Some(point) = point.filter(|_| !self.is_read_only()) {
            self.record(now, Record::LoadKept { point: Box::new(point) }, effects);
        }
    }
}
