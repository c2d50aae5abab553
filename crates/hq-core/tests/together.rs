//! A server and its workers together, in virtual time and with nothing on the way: how long real mixes of tasks take, and
//! what runs at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hq_core::client_messages::ClientRequest;
use hq_core::server::{ConnectionId, Effect as ServerEffect, Input as ServerInput, Server, ServerOptions};
use hq_core::worker::{Effect, Input, Outcome, Worker};
use hq_core::worker_messages::{FromWorker, ToWorker};
use hq_model::dependency::{Dependencies, Edges};
use hq_model::job::{Target, TaskIds};
use hq_model::request::parse_amount;
use hq_model::resources::parse_pool;
use hq_model::worker::WorkerConfig;
use hq_model::{
    Body, JobSpec, Request, ResourceRequest, Submit, TaskId, TaskRef, TaskSpec, Timestamp, Usage,
    WorkerResources,
};

struct Cluster {
    now: Timestamp,
    server: Server,
    workers: Vec<Worker>,
    to_server: VecDeque<(usize, FromWorker)>,
    to_workers: VecDeque<(usize, ToWorker)>,
    plans: VecDeque<(u64, Box<hq_sched::Plan>)>,
    running: BTreeSet<(Timestamp, usize, TaskRef)>,
    started: Vec<u32>,
    // By job, how long its tasks take, and when the last one that has ended did.
    takes: BTreeMap<u32, Duration>,
    ended: BTreeMap<u32, Timestamp>,
    // Whether some tasks of a job take up to half as long again as others.
    is_uneven: bool,
    jobs: u32,
    // What tasks run: how long it takes is known of one that has run before.
    program: &'static str,
}

impl Cluster {
    // Workers with these pools: `cpus=4 gpus/nvidia=[0,1]`; with so much of its CPUs used when it starts something.
    fn new(workers: &[&str], min_utilization: u32) -> Cluster {
        let now = Timestamp(1_000_000_000);
        let worker = |text: &&str| {
            let pool = |part: &str| {
                let (name, kind) = part.split_once('=').expect("NAME=KIND");
                parse_pool(name, kind).expect("a pool")
            };
            let resources = WorkerResources::new(text.split(' ').map(pool).collect(), Vec::new());
            let config = WorkerConfig::new(resources.expect("resources"));
            Worker::new(WorkerConfig { min_utilization, ..config }, now)
        };
        let mut cluster = Cluster {
            now,
            server: Server::new(ServerOptions::default()),
            workers: workers.iter().map(worker).collect(),
            to_server: VecDeque::new(),
            to_workers: VecDeque::new(),
            plans: VecDeque::new(),
            running: BTreeSet::new(),
            started: Vec::new(),
            takes: BTreeMap::new(),
            ended: BTreeMap::new(),
            is_uneven: false,
            jobs: 0,
            program: "work",
        };
        let mut effects = Vec::new();
        cluster.server.start(now, "abc123".into(), &mut effects);
        for at in 0..cluster.workers.len() {
            cluster.worker_hears(at, Input::ServerFound);
        }
        cluster.hear_all();
        cluster
    }

    // Tasks that each take so many seconds: `cpus=1 foo=2`. Returns the number of their job.
    fn submit(&mut self, count: u32, request: &str, priority: i32, weight: u32, seconds: u64) -> u32 {
        self.submit_of(count, request, priority, weight, Duration::from_secs(seconds))
    }

    fn submit_of(&mut self, count: u32, request: &str, priority: i32, weight: u32, takes: Duration) -> u32 {
        let request =
            Request { resources: resources_of(request), weight: weight * 10_000, ..Request::default() };
        self.submit_as(count, request, priority, takes)
    }

    // The same on several nodes, which each task has for itself.
    fn submit_on_nodes(&mut self, count: u32, nodes: u32, seconds: u64) -> u32 {
        let request = Request { nodes, ..Request::default() };
        self.submit_as(count, request, 0, Duration::from_secs(seconds))
    }

    // Each waits for the one before it.
    fn submit_chain(&mut self, count: u32, request: &str, takes: Duration) -> u32 {
        let before = |task: u32| task.checked_sub(1).map(TaskId).into_iter().collect::<Vec<_>>();
        let edges = Edges::new((0..count).map(before)).expect("few");
        let request = Request { resources: resources_of(request), weight: 10_000, ..Request::default() };
        self.submit_with(count, request, 0, takes, Dependencies { edges, ..Dependencies::default() })
    }

    fn submit_as(&mut self, count: u32, request: Request, priority: i32, takes: Duration) -> u32 {
        self.submit_with(count, request, priority, takes, Dependencies::default())
    }

    fn submit_with(
        &mut self,
        count: u32,
        request: Request,
        priority: i32,
        takes: Duration,
        dependencies: Dependencies,
    ) -> u32 {
        let spec = TaskSpec {
            body: Body::program([self.program]),
            requests: vec![request],
            priority,
            ..TaskSpec::default()
        };
        let job = JobSpec { name: "work".into(), ..JobSpec::default() };
        self.jobs += 1;
        self.takes.insert(self.jobs, takes);
        let submit = Submit::new(Target::New(job), TaskIds::Next(count), spec);
        let body = ClientRequest::Submit {
            key: u128::from(self.jobs),
            submit: Box::new(Submit { dependencies: Arc::new(dependencies), ..submit }),
        };
        let connection = ConnectionId(u64::MAX);
        self.server_hears(ServerInput::Client { connection, request: 1, body });
        self.hear_all();
        self.jobs
    }

    fn server_hears(&mut self, input: ServerInput) {
        let mut effects = Vec::new();
        self.server.handle(self.now, input, &mut effects);
        self.server.settle(self.now, &mut effects);
        assert_eq!(self.server.check().and_then(|()| self.server.wastes_nothing(self.now)), Ok(()));
        for effect in effects {
            match effect {
                ServerEffect::ToWorker { connection, message, .. } => {
                    self.to_workers.push_back((connection.0 as usize, message));
                }
                ServerEffect::Plan { number, snapshot } => {
                    let plan = hq_sched::plan(&snapshot, hq_sched::limits::STEPS);
                    self.plans.push_back((number, Box::new(plan)));
                }
                _ => {}
            }
        }
    }

    fn worker_hears(&mut self, at: usize, input: Input) {
        let mut effects = Vec::new();
        self.workers[at].handle(self.now, input, &mut effects);
        self.workers[at].settle(self.now, &mut effects);
        assert_eq!(self.workers[at].check().and_then(|()| self.workers[at].wastes_nothing(self.now)), Ok(()));
        // Of tasks that another worker leads.
        let mut parts = Vec::new();
        for effect in effects {
            match effect {
                Effect::Start(start) if start.is_part => {}
                Effect::Signal { task, ends: Some(_), .. }
                    if !self.running.iter().any(|run| run.1 == at && run.2 == task) =>
                {
                    parts.push(task);
                }
                Effect::Start(start) => {
                    let takes = self.takes[&start.task.job.0];
                    let longer = if self.is_uneven { start.task.task.0 * 7 % 16 } else { 0 };
                    let end = self.now.after(takes + takes * longer / 32);
                    self.running.insert((end, at, start.task));
                    self.started.push(start.task.job.0);
                }
                Effect::Send(message) => self.to_server.push_back((at, message)),
                _ => {}
            }
        }
        for task in parts {
            let (outcome, usage) = (Outcome::Finished, Usage::default());
            self.worker_hears(at, Input::ended(task, outcome, usage));
        }
    }

    // Until nobody has anything more to say.
    fn hear_all(&mut self) {
        loop {
            if let Some((at, message)) = self.to_server.pop_front() {
                self.server_hears(ServerInput::Worker { connection: ConnectionId(at as u64), message });
            } else if let Some((at, message)) = self.to_workers.pop_front() {
                self.worker_hears(at, Input::Server(message));
            } else if let Some((number, plan)) = self.plans.pop_front() {
                self.server_hears(ServerInput::Planned { number, plan });
            } else {
                return;
            }
        }
    }

    // Lets so much time pass.
    fn pass(&mut self, duration: Duration) {
        let until = self.now.after(duration);
        loop {
            let wakes = self.workers.iter().filter_map(Worker::next_wakeup).chain(self.server.next_wakeup());
            let next = wakes.chain(self.running.first().map(|run| run.0)).min();
            let Some(next) = next.map(|next| next.max(self.now)).filter(|next| *next <= until) else { break };
            // Who wants to be woken at once is woken once in each microsecond.
            self.now = next.max(Timestamp(self.now.0 + 1));
            while let Some((end, at, task)) = self.running.first().copied().filter(|run| run.0 <= self.now) {
                self.running.remove(&(end, at, task));
                self.ended.insert(task.job.0, self.now);
                let wall_us = self.takes[&task.job.0].as_micros() as u64;
                let (outcome, usage) = (Outcome::Finished, Usage { wall_us, ..Usage::default() });
                self.worker_hears(at, Input::ended(task, outcome, usage));
            }
            for at in 0..self.workers.len() {
                if self.workers[at].next_wakeup().is_some_and(|wakeup| wakeup <= self.now) {
                    self.worker_hears(at, Input::Tick);
                }
            }
            if self.server.next_wakeup().is_some_and(|wakeup| wakeup <= self.now) {
                self.server_hears(ServerInput::Tick);
            }
            self.hear_all();
        }
        self.now = until;
    }

    // How many tasks of each job run.
    fn running(&self) -> String {
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        self.running.iter().for_each(|(_, _, task)| *counts.entry(task.job.0).or_default() += 1);
        counts.iter().map(|(job, count)| format!("{job}:{count}")).collect::<Vec<_>>().join(" ")
    }
}

// `cpus=1 foo=2`
fn resources_of(text: &str) -> Vec<ResourceRequest> {
    let resource = |part: &str| {
        let (name, amount) = part.split_once('=').expect("NAME=AMOUNT");
        ResourceRequest { name: name.into(), amount: parse_amount(name, amount).expect("an amount") }
    };
    text.split(' ').map(resource).collect()
}

#[test]
fn cpus_beside_busy_gpus_are_always_used() {
    for priority in [0, -1] {
        let mut cluster = Cluster::new(&["cpus=4 gpus/nvidia=[0,1]"; 2], 0);
        cluster.submit(12, "cpus=1 gpus/nvidia=1", 0, 1, 15);
        let begin = cluster.now;
        let small = cluster.submit(60, "cpus=1", priority, 1, 1);
        cluster.pass(Duration::from_secs(60));
        let took = cluster.ended[&small].since(begin);
        let most = Duration::from_millis(15_500);
        assert!(took <= most, "with priority {priority} it took {took:?}");
        assert_eq!(cluster.running(), "", "all have ended");
    }
}

#[test]
fn what_fits_starts_whatever_waits_for_something_else() {
    let mut cluster = Cluster::new(&["cpus=8 foo=sum(4)"], 0);
    cluster.submit(4, "cpus=1 foo=2", 0, 1, 100);
    cluster.submit(1, "cpus=2", -1, 1, 100);
    assert_eq!(cluster.running(), "1:2 2:1");

    let mut cluster = Cluster::new(&["cpus=12 foo=sum(6)"], 0);
    for priority in 1..=9 {
        cluster.submit(1, "cpus=1 foo=2", 10 * priority, 1, 100);
    }
    let small = cluster.submit(12, "cpus=1", 0, 1, 100);
    assert_eq!(cluster.running.iter().filter(|run| run.2.job.0 == small).count(), 9);
    assert_eq!(cluster.running.len(), 12);
}

#[test]
fn an_idle_picky_worker_runs_a_set_that_uses_all_of_it() {
    let mut cluster = Cluster::new(&["cpus=12"], 10_000);
    cluster.submit(3, "cpus=3", 0, 2, 10);
    assert_eq!(cluster.running(), "", "nine are too few");
    cluster.submit(1, "cpus=all", 0, 1, 10);
    assert_eq!(cluster.running(), "2:1");

    let mut cluster = Cluster::new(&["cpus=12"], 10_000);
    cluster.submit(3, "cpus=3", 0, 2, 10);
    cluster.submit(3, "cpus=6", 0, 1, 10);
    assert_eq!(cluster.running(), "1:2 2:1");
}

#[test]
fn what_waits_on_a_worker_lets_tasks_of_higher_priority_go_first() {
    let shapes = [("cpus=0.5", 2), ("cpus=0.5", 20), ("cpus=1", 2), ("cpus=2", 1), ("cpus=1", 20)];
    // Of another program nothing is known.
    for (program, (request, longer)) in
        ["work", "other"].into_iter().flat_map(|program| shapes.map(|shape| (program, shape)))
    {
        let mut cluster = Cluster::new(&["cpus=4"], 0);
        let takes = Duration::from_millis(5);
        let lower = cluster.submit_of(3000, "cpus=1", 0, 1, takes);
        cluster.pass(Duration::from_millis(200));
        let before = cluster.started.len();
        cluster.program = program;
        cluster.submit_of(300, request, 5, 1, takes * longer);
        cluster.pass(Duration::from_secs(30));
        let started = &cluster.started[before..];
        let last = started.iter().rposition(|job| *job != lower).expect("they started");
        let overtaken = started[..last].iter().filter(|job| **job == lower).count();
        // What waited on the worker before they came.
        assert!(overtaken <= 170, "{program} {request}: {overtaken} tasks of lower priority went first");
    }
}

#[test]
fn tasks_of_larger_weight_of_which_nothing_is_known_go_before_many_short_ones() {
    let mut cluster = Cluster::new(&["cpus=4"], 0);
    let lower = cluster.submit_of(3000, "cpus=1", 0, 1, Duration::from_millis(5));
    cluster.pass(Duration::from_millis(200));
    let before = cluster.started.len();
    cluster.program = "other";
    cluster.submit_of(10, "cpus=1", 0, 3, Duration::from_millis(5));
    cluster.pass(Duration::from_secs(30));
    let started = &cluster.started[before..];
    let last = started.iter().rposition(|job| *job != lower).expect("they started");
    // What waited on the worker, and what its next backlog is while these go one after the other.
    assert!(last <= 400, "{last} tasks began before the last of them");
}

#[test]
fn gpus_do_not_idle_behind_tasks_of_which_nothing_is_known() {
    let mut cluster = Cluster::new(&["cpus=8 gpus/nvidia=[0,1]"; 2], 0);
    let begin = cluster.now;
    let large = cluster.submit(40, "cpus=1", 0, 1, 3);
    let small = cluster.submit(8, "cpus=1 gpus/nvidia=1", 0, 1, 3);
    cluster.pass(Duration::from_secs(60));
    let took = cluster.ended[&small].max(cluster.ended[&large]).since(begin);
    assert!(took <= Duration::from_millis(9_500), "it took {took:?}");
}

#[test]
fn nodes_that_come_free_together_are_for_tasks_on_several_nodes() {
    for (nodes, before, count, after, most_s) in [(5, 0, 4, 48, 8), (4, 64, 8, 0, 12)] {
        let mut cluster = Cluster::new(&["cpus=4"; 8], 0);
        let begin = cluster.now;
        if before > 0 {
            cluster.submit(before, "cpus=1", 0, 1, 2);
        }
        cluster.submit_on_nodes(count, nodes, 2);
        if after > 0 {
            cluster.submit(after, "cpus=1", 0, 1, 2);
        }
        cluster.pass(Duration::from_secs(60));
        let took = cluster.ended.values().max().expect("they ended").since(begin);
        assert!(
            took <= Duration::from_millis(1000 * most_s + 500),
            "{count} on {nodes} nodes: it took {took:?}"
        );
    }
}

#[test]
fn large_tasks_of_higher_priority_get_all_the_workers_that_they_can_use() {
    for (request, flood_ms, least_s) in
        [("cpus=8", 100, 3), ("cpus=5", 100, 3), ("cpus=4", 100, 2), ("cpus=8", 400, 3)]
    {
        let mut cluster = Cluster::new(&["cpus=8"; 4], 0);
        cluster.is_uneven = true;
        let small = cluster.submit_of(6000, "cpus=1", 0, 1, Duration::from_millis(flood_ms));
        cluster.pass(Duration::from_millis(1_500));
        let begin = cluster.now;
        let large = cluster.submit(12, request, 10, 1, 1);
        cluster.pass(Duration::from_secs(120));
        let took = cluster.ended[&large].since(begin);
        // They are overtaken for a second, then by what waited on the workers.
        let most = Duration::from_millis(1000 * least_s + 3_000 + flood_ms);
        assert!(took <= most, "{request} beside tasks of {flood_ms} ms: it took {took:?}");
        assert_eq!(cluster.running(), "", "all have ended, those of job {small}, too");
    }
}

#[test]
fn a_chain_goes_on_beside_many_tasks_that_nothing_waits_for() {
    for is_first in [true, false] {
        let mut cluster = Cluster::new(&["cpus=4"], 0);
        let takes = Duration::from_millis(2);
        let chain = |cluster: &mut Cluster| cluster.submit_chain(500, "cpus=1", takes);
        let mut job = if is_first { chain(&mut cluster) } else { 0 };
        cluster.submit_of(20_000, "cpus=1", 0, 1, takes);
        cluster.pass(Duration::from_millis(300));
        if !is_first {
            job = chain(&mut cluster);
        }
        let begin = cluster.now;
        cluster.pass(Duration::from_secs(30));
        let took = cluster.ended[&job].since(begin);
        assert!(
            took <= 500 * takes + Duration::from_secs(1),
            "with the chain first {is_first}: it took {took:?}"
        );
    }
}

#[test]
fn a_task_that_takes_a_whole_worker_starts_beside_a_stream_of_short_ones() {
    for others in [&[][..], &["cpus=6"]] {
        let mut cluster = Cluster::new(&["cpus=8", "cpus=3"], 0);
        cluster.is_uneven = true;
        let takes = Duration::from_millis(400);
        cluster.submit_of(22, "cpus=1", 0, 1, takes);
        let whole = cluster.submit_of(1, "cpus=8", 0, 1, takes);
        for other in others {
            cluster.submit_of(2, other, 0, 1, takes);
        }
        cluster.submit_of(1_500, "cpus=1", 0, 1, takes);
        let begin = cluster.now;
        cluster.pass(Duration::from_secs(120));
        let took = cluster.ended[&whole].since(begin);
        assert!(took <= Duration::from_secs(15), "beside {others:?}: it took {took:?}");
    }
}
