//! What an allocator could do at best that knows how long each allocation will wait and which will be killed.
//!
//! It keeps the backlog of every queue filled as long as a ready task is left that has no node, loses no time with commands,
//! refusals or lost answers, and its idle workers never leave. So it is at least as fast as any allocator that keeps
//! within the backlog. Tasks are placed as the engine does it: first come first served, on nodes with room, and one
//! that is cut at the end of an allocation begins again.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use hq_model::worker::TIME_RESERVE;
use hq_model::{JobId, QueueId, TaskId, TaskRef};

use crate::campaign::Campaign;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    /// A task ends.
    End { node: usize, task: TaskRef },
    /// A node leaves, with what runs on it.
    Leave { node: usize },
    /// An allocation starts.
    Start { queue: usize, place: u64 },
    /// Tasks are submitted.
    Submit { wave: usize },
}

struct Node {
    queue: usize,
    cpus: u32,
    gpus: u32,
    leaves: u64,
    running: BTreeSet<TaskRef>,
}

struct Ideal<'a> {
    campaign: &'a Campaign,
    now: u64,
    events: BinaryHeap<Reverse<(u64, Happens)>>,
    nodes: Vec<Node>,
    waiting: BTreeSet<TaskRef>,
    left: Vec<u32>,
    // What may run, if it does not yet.
    released: Vec<bool>,
    // Allocations of each queue that were submitted, and that wait.
    submitted: Vec<u64>,
    queued: Vec<u32>,
}

/// Time from the first submit to the end of the last task, µs.
pub fn time(campaign: &Campaign) -> u64 {
    let queues = campaign.partitions.len();
    let mut ideal = Ideal {
        campaign,
        now: 0,
        events: BinaryHeap::new(),
        nodes: Vec::new(),
        waiting: BTreeSet::new(),
        left: campaign.waves.iter().map(|wave| wave.tasks).collect(),
        released: vec![false; campaign.waves.len()],
        submitted: vec![0; queues],
        queued: vec![0; queues],
    };
    for (wave, one) in campaign.waves.iter().enumerate() {
        ideal.events.push(Reverse((one.at_us, Happens::Submit { wave })));
    }
    let first = campaign.waves.first().map_or(0, |wave| wave.at_us);
    while let Some(Reverse((at, event))) = ideal.events.pop() {
        ideal.now = at;
        ideal.happen(event);
        if ideal.left.iter().all(|left| *left == 0) {
            break;
        }
        ideal.place();
        ideal.ask();
    }
    ideal.now - first
}

impl Ideal<'_> {
    fn happen(&mut self, event: Happens) {
        match event {
            Happens::Submit { wave } => {
                let waits = self.campaign.waves[wave].waits && self.left[wave - 1] > 0;
                if !waits {
                    self.release(wave);
                }
            }
            Happens::Start { queue, place } => {
                self.queued[queue] -= 1;
                let params = &self.campaign.partitions[queue].params;
                let limit = params.time_limit.saturating_sub(TIME_RESERVE).as_micros() as u64;
                let killed = self.campaign.killed(QueueId(queue as u32 + 1), place).unwrap_or(u64::MAX);
                let leaves = self.now + limit.min(killed);
                for _ in 0..params.max_workers_per_alloc {
                    let node = self.nodes.len();
                    self.events.push(Reverse((leaves, Happens::Leave { node })));
                    self.nodes.push(Node {
                        queue,
                        cpus: self.campaign.cpus,
                        gpus: self.campaign.partitions[queue].gpus,
                        // What is killed does not know it before.
                        leaves: self.now + limit,
                        running: BTreeSet::new(),
                    });
                }
            }
            Happens::Leave { node } => {
                let node = &mut self.nodes[node];
                (node.cpus, node.gpus, node.leaves) = (0, 0, 0);
                self.waiting.append(&mut node.running);
            }
            Happens::End { node, task } => {
                let wave = task.job.0 as usize - 1;
                if !self.nodes[node].running.remove(&task) {
                    return;
                }
                let node = &mut self.nodes[node];
                node.cpus += 1;
                node.gpus += u32::from(self.campaign.waves[wave].needs_gpu);
                self.left[wave] -= 1;
                let next = self.campaign.waves.get(wave + 1);
                if self.left[wave] == 0 && next.is_some_and(|next| next.waits && next.at_us <= self.now) {
                    self.release(wave + 1);
                }
            }
        }
    }

    fn release(&mut self, wave: usize) {
        self.released[wave] = true;
        let job = JobId(wave as u32 + 1);
        let tasks = 0..self.campaign.waves[wave].tasks;
        self.waiting.extend(tasks.map(|task| TaskRef::new(job, TaskId(task))));
    }

    fn place(&mut self) {
        let mut kept = BTreeSet::new();
        let mut full: BTreeSet<JobId> = BTreeSet::new();
        while let Some(task) = self.waiting.pop_first() {
            if full.contains(&task.job) {
                kept.insert(task);
                continue;
            }
            let wave = &self.campaign.waves[task.job.0 as usize - 1];
            let ends = self.now + self.campaign.runs(task);
            let demanded = self.now + if wave.says_time { wave.runs_us.1 } else { 0 };
            let fits =
                |node: &Node| node.cpus > 0 && (!wave.needs_gpu || node.gpus > 0) && demanded <= node.leaves;
            // Nodes without GPUs first, then those that stay longest.
            let found = (0..self.nodes.len()).filter(|at| fits(&self.nodes[*at]));
            let found = found.min_by_key(|at| (self.nodes[*at].queue, Reverse(self.nodes[*at].leaves)));
            let Some(at) = found else {
                full.insert(task.job);
                kept.insert(task);
                continue;
            };
            let node = &mut self.nodes[at];
            node.cpus -= 1;
            node.gpus -= u32::from(wave.needs_gpu);
            node.running.insert(task);
            self.events.push(Reverse((ends, Happens::End { node: at, task })));
        }
        self.waiting = kept;
    }

    // For what is ready. Nothing more is of use when all of that runs at once on what is there.
    fn ask(&mut self) {
        let released = self.released.iter().zip(&self.left).filter(|(is_released, _)| **is_released);
        let left: u32 = released.map(|(_, left)| *left).sum();
        for queue in 0..self.queued.len() {
            let alive = self.nodes.iter().filter(|node| node.queue == queue && node.leaves > self.now);
            let each = match self.campaign.partitions[queue].gpus {
                0 => self.campaign.cpus,
                gpus => gpus,
            };
            if alive.count() as u32 >= left.div_ceil(each) {
                continue;
            }
            while self.queued[queue] < self.campaign.partitions[queue].params.backlog {
                self.queued[queue] += 1;
                let place = self.submitted[queue];
                self.submitted[queue] += 1;
                let at = self.now + self.campaign.wait(QueueId(queue as u32 + 1), place);
                self.events.push(Reverse((at, Happens::Start { queue, place })));
            }
        }
    }
}
