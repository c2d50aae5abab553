//! Who could ever run a task: the workers that are there or may come back, and those that queues of allocations may
//! bring.
//!
//! Cost: shapes of workers and queues, per list of requests. Workers that offer the same are one shape.

use std::collections::BTreeMap;
use std::time::Duration;

use hq_model::fit::Kind;
use hq_model::request::MEM;
use hq_model::{
    Amount, AmountRequest, JobId, Request, Timestamp, WorkerId, WorkerResources, counted, duration, memory,
    similar,
};

use super::capacity::Needs;
use super::explain::about;
use super::live::LiveWorker;
use super::machine::Server;
use crate::alloc::demand::Offer;
use crate::explanation::Lack;
use crate::limits::UNRUNNABLE_STEPS_MAX;

/// What is said of a worker whose time is over.
pub(super) const IS_OVER: &str = "its time is over: it takes nothing new and leaves soon";

/// All workers, present and to come.
#[derive(Debug)]
pub(super) struct Fleet<'a> {
    // The longest time left of those that offer the same; `None` without an end.
    shapes: BTreeMap<&'a WorkerResources, Option<Duration>>,
    // Workers of each group.
    groups: BTreeMap<&'a str, u32>,
    // Each worker: its group, what it offers, and how much time it has left.
    workers: Vec<(&'a str, &'a WorkerResources, Option<Duration>)>,
    offers: Vec<Offer>,
}

impl Server {
    /// All workers that take tasks now or later, and all queues that may ask for some.
    pub(super) fn fleet(&self, now: Timestamp) -> Fleet<'_> {
        let mut shapes: BTreeMap<&WorkerResources, Option<Duration>> = BTreeMap::new();
        let mut groups: BTreeMap<&str, u32> = BTreeMap::new();
        let mut workers = Vec::new();
        // Relays give away pulled tasks, and run nothing.
        let is_there = |live: &LiveWorker| !live.is_relay && !live.is_draining && !live.is_over(now);
        for (id, live) in self.live.iter().filter(|(_, live)| is_there(live)) {
            let left = live.life_left(now);
            let longest = shapes.entry(&live.resources).or_insert(left);
            *longest = longest.zip(left).map(|(one, other)| one.max(other));
            if let Some(worker) = self.state.workers.get(id) {
                *groups.entry(worker.config.group.as_str()).or_default() += 1;
                workers.push((worker.config.group.as_str(), &live.resources, left));
            }
        }
        let is_open = |offer: &Offer| {
            let queue = self.state.alloc.queues.get(&offer.queue);
            queue.is_some_and(|queue| !queue.is_draining || !offer.pending.is_empty())
        };
        let offers = self.offers(now).into_iter().map(|(offer, _)| offer).filter(is_open);
        Fleet { shapes, groups, workers, offers: offers.collect() }
    }

    /// True when a worker that is there could run such tasks. Mostly the first that is looked at can.
    pub(super) fn some_worker_could_run(&self, now: Timestamp, requests: &[Request]) -> bool {
        let could = |live: &LiveWorker| {
            let lives = |request: &Request| live.has_time(now, request.time_request);
            let fits = |request: &Request| lives(request) && Needs::new(&live.resources, request).is_some();
            !live.is_draining && requests.iter().any(|request| request.nodes == 0 && fits(request))
        };
        // Pulled tasks wait for people and programs of whom nothing is known here.
        requests.iter().any(Request::is_pulled) || self.live.values().any(could)
    }

    /// How many tasks of each job wait that nobody could ever run. None where there are no workers and queues at all:
    /// then nothing is known yet.
    pub(super) fn unrunnable(&self, now: Timestamp, jobs: &[JobId]) -> BTreeMap<JobId, u64> {
        let mut fleet: Option<Fleet<'_>> = None;
        let mut known: BTreeMap<&[Request], bool> = BTreeMap::new();
        let mut steps = 0;
        let mut counts = BTreeMap::new();
        for (id, job) in jobs.iter().filter_map(|id| Some((*id, self.state.jobs.get(id)?))) {
            if job.queued.is_empty() {
                continue;
            }
            for submit in &job.submits {
                let waits = || submit.ids.intersects(&job.queued);
                let is_able = match known.get(&submit.task.requests[..]) {
                    Some(is_able) => *is_able,
                    // There is a limit to what a list may cost: beyond it, all others pass for runnable.
                    None if steps > UNRUNNABLE_STEPS_MAX || !waits() => continue,
                    None => {
                        let requests = &submit.task.requests;
                        let is_able = self.some_worker_could_run(now, requests) || {
                            let fleet = fleet.get_or_insert_with(|| self.fleet(now));
                            steps += fleet.steps() + self.live.len();
                            fleet.is_empty() || fleet.could_run(requests)
                        };
                        known.insert(&submit.task.requests, is_able);
                        is_able
                    }
                };
                let queued = || submit.ids.intersection(&job.queued);
                let stuck = if is_able { self.waiting_for_time(id, &submit.ids) } else { queued() };
                if !stuck.is_empty() {
                    *counts.entry(id).or_default() += stuck.len();
                }
            }
        }
        counts
    }
}

impl Fleet<'_> {
    /// True when there is no worker and no queue.
    pub(super) fn is_empty(&self) -> bool {
        self.shapes.is_empty() && self.offers.is_empty()
    }

    /// How many workers the group of a worker has.
    pub(super) fn group_size(&self, server: &Server, worker: WorkerId) -> u32 {
        let known = server.state.workers.get(&worker);
        known.and_then(|known| self.groups.get(known.config.group.as_str())).copied().unwrap_or(0)
    }

    // What one question costs.
    fn steps(&self) -> usize {
        self.shapes.len() + self.offers.len()
    }

    /// True when some worker could run such tasks some time.
    pub(super) fn could_run(&self, requests: &[Request]) -> bool {
        requests.iter().any(|request| request.is_pulled() || self.has_worker_for(request))
            || self.offers.iter().any(|offer| offer.is_for(requests))
    }

    fn has_worker_for(&self, request: &Request) -> bool {
        if request.nodes > 0 {
            return self.most_parts(request) >= request.nodes;
        }
        let group = self.groups.values().copied().max().unwrap_or(0);
        self.shapes.iter().any(|(resources, left)| {
            let kind = Kind { resources, is_all: true, left: *left, group };
            kind.lacks(request).is_empty() && Needs::new(resources, request).is_some()
        })
    }

    // Of one group, the most workers that could each run a part of a task on several nodes.
    fn most_parts(&self, request: &Request) -> u32 {
        let mut parts: BTreeMap<&str, u32> = BTreeMap::new();
        for (group, resources, left) in &self.workers {
            let kind = Kind { resources, is_all: true, left: *left, group: u32::MAX };
            if kind.lacks(request).is_empty() && Needs::new(resources, request).is_some() {
                *parts.entry(group).or_default() += 1;
            }
        }
        parts.into_values().max().unwrap_or(0)
    }

    /// Why nobody could ever run such tasks: what would be needed, against the most there is.
    pub(super) fn what_lacks(&self, requests: &[Request]) -> String {
        let reasons: Vec<String> = requests.iter().map(|request| self.missing(request)).collect();
        reasons.join("; as another variant: ")
    }

    fn missing(&self, request: &Request) -> String {
        let mut found = Vec::new();
        let all = || self.shapes.keys().copied().chain(self.offers.iter().map(|offer| &offer.resources));
        for resource in &request.resources {
            let has = |one: &WorkerResources| {
                one.giver(&resource.name).map_or(Amount::ZERO, |pool| one.pools[pool].kind.total())
            };
            let most = all().map(has).max().unwrap_or_default();
            let name = &resource.name;
            match request.on_node(resource.amount) {
                _ if most == Amount::ZERO => {
                    let offered = all().flat_map(|one| one.pools.iter().map(|pool| pool.name.as_str()));
                    let meant = similar::hint(name, resource.amount, offered);
                    let meant = meant.map_or_else(String::new, |meant| format!(" ({meant})"));
                    found.push(format!("no worker has {name}{meant}"));
                }
                AmountRequest::Some(amount, _) if amount > most => found.push(format!(
                    "{name}: {} asked for, the most that any worker has is {}",
                    shown(name, amount),
                    shown(name, most)
                )),
                _ => {}
            }
        }
        let lives = self.shapes.values().copied().chain(self.offers.iter().map(|offer| Some(offer.life)));
        // The largest, where `None` is without an end.
        let longest = lives.reduce(|one, other| one.zip(other).map(|(one, other)| one.max(other)));
        if let Some(Some(longest)) = longest
            && longest < request.time_request
        {
            let most = if longest.as_secs() == 0 { "a second".to_owned() } else { about(longest) };
            let asked = duration::format(request.time_request);
            found.push(format!("{asked} asked for, no worker has more than {most} left"));
        }
        let nodes = self.groups.values().copied().chain(self.offers.iter().map(|offer| offer.per_allocation));
        let most = nodes.max().unwrap_or(0);
        if request.nodes > most {
            found
                .push(format!("{} asked for, no group has more than {most}", counted(request.nodes, "node")));
        }
        let spared = self.offers.iter().find_map(|offer| offer.spares(std::slice::from_ref(request)));
        if let Some(why) = spared.filter(|_| found.is_empty()) {
            return format!("only a queue of nodes with GPUs could bring one: {why}");
        }
        if found.is_empty() && request.nodes > 0 {
            let (nodes, most) = (counted(request.nodes, "node"), self.most_parts(request));
            return format!(
                "{nodes} asked for, each with enough for its part and time for it, of which no group has more than {most} \
                 ({request})"
            );
        }
        if found.is_empty() {
            return format!("no worker has all at once ({request})");
        }
        found.join(", ")
    }
}

/// An amount of a resource for people: memory with its unit.
pub(super) fn shown(name: &str, amount: Amount) -> String {
    if name == MEM { memory::format(amount) } else { amount.to_string() }
}

/// A lack, of a worker, for people.
pub(super) fn told(lack: &Lack) -> String {
    match lack {
        Lack::Resource { name, has: Amount::ZERO, .. } => format!("it has no {name}"),
        Lack::Resource { name, request, has } => {
            let asked = match request {
                AmountRequest::All => "all".into(),
                AmountRequest::Some(amount, _) => shown(name, *amount),
            };
            format!("{name}: it has {}, the task needs {asked}", shown(name, *has))
        }
        Lack::Time { left: Duration::ZERO, .. } => IS_OVER.into(),
        Lack::Time { request, left } => {
            format!("it ends in {}, and the task asks for {}", about(*left), duration::format(*request))
        }
        Lack::Group { nodes, size } => {
            let (workers, nodes) = (counted(*size, "worker"), counted(*nodes, "node"));
            format!("its group has {workers}, the task needs {nodes}")
        }
    }
}

/// What a worker lacks for each variant.
pub(super) fn match_of(
    live: &LiveWorker,
    group: u32,
    now: Timestamp,
    requests: &[Request],
) -> Vec<Vec<Lack>> {
    let kind = Kind { left: live.life_left(now), ..kind_of(live, group) };
    requests.iter().map(|request| kind.lacks(request)).collect()
}

/// What a worker is, whatever its time.
pub(super) fn kind_of(live: &LiveWorker, group: u32) -> Kind<'_> {
    Kind { resources: &live.resources, is_all: true, left: None, group }
}
