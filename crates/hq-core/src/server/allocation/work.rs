//! How much work waits, and who is there for it: what is asked of the forecast and of the workers when allocations are decided.

use std::collections::BTreeMap;
use std::time::Duration;

use hq_model::allocation::BatchState;
use hq_model::{AllocationRef, IdSet, JobId, Request, Timestamp, WorkerId};

use crate::alloc::worth::{Cost, Slots, Work};
use crate::alloc::{Allocation, QueueState, policy};
use crate::limits::{DEMAND_GROUPS_MAX, OUTLASTED_MAX, START_UP_TIME, UNNEEDED_TIME};
use crate::mark;
use crate::server::capacity::{Needs, SLOTS_MAX};
use crate::server::live::LiveWorker;
use crate::server::machine::Server;
use crate::server::queue::ClassId;
use crate::server::step::Due;
use crate::worker_messages::TemplateId;

/// What a new worker of a queue costs in which nothing is done.
pub(super) fn cost(now: Timestamp, queue: &QueueState) -> Cost {
    let waiting = queue.active().filter(|(_, one)| one.is_waiting());
    Cost {
        together: queue.params.workers_per_allocation(),
        waited: waiting.filter_map(|(_, one)| Some(now.since(one.queued?))).max().unwrap_or_default(),
        wait: policy::usual_wait(queue) + START_UP_TIME,
        idle: queue.params.idle_timeout.unwrap_or(UNNEEDED_TIME),
        goal: queue.params.goal,
    }
}

impl Server {
    /// The work of a class of which so many tasks wait.
    pub(super) fn work_of(&self, now: Timestamp, class: ClassId, waiting: u64) -> Work {
        let handed = self.handed_tasks();
        let of_class = handed.iter().filter(|(template, _)| self.classes.get(template) == Some(&class));
        let handed: Vec<(TemplateId, u64)> = of_class.map(|(template, count)| (*template, *count)).collect();
        let groups = self.queue.groups(class).take(DEMAND_GROUPS_MAX);
        let mut outlasted = Duration::ZERO;
        let groups = groups.map(|(_, template, ids): (Due, _, _)| {
            outlasted = outlasted.max(self.outlasted_by(template.job, ids));
            (template, ids.len())
        });
        let groups: Vec<(TemplateId, u64)> = groups.chain(handed.iter().copied()).collect();
        let (mut all_us, mut count) = (Some(0u128), 0u64);
        for (template, tasks) in &groups {
            let known = self.forecast.run_time(&self.state, *template).map(|known| u128::from(known.us));
            all_us = all_us.zip(known).map(|(all, each)| all + each * u128::from(*tasks));
            count += tasks;
        }
        let each_us = all_us.filter(|_| count > 0).map(|all| all / u128::from(count.max(1)));
        let each = each_us.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX)));
        let ran = |template: &TemplateId| {
            let running = self.running.of_job(template.job).values();
            running.map(|run| now.since(run.since)).max().unwrap_or_default()
        };
        let ran = match each {
            Some(_) => Duration::ZERO,
            None => groups.iter().map(|(template, _)| ran(template)).max().unwrap_or_default(),
        };
        let on_workers: u64 = handed.iter().map(|(_, count)| count).sum();
        Work {
            tasks: waiting.max(self.queue.count(class) + on_workers),
            each,
            ran,
            here: self.slots_here(now, class),
            outlasted,
        }
    }

    /// True when an allocation is no reason to leave another queue alone: it is held, or waits for much longer than those
    /// before it.
    pub(super) fn is_slow(
        &self,
        now: Timestamp,
        queue: &QueueState,
        which: AllocationRef,
        one: &Allocation,
    ) -> bool {
        let seen = self.alloc.seen.get(&which);
        let is_held = seen.is_some_and(|(_, said)| said.state == BatchState::Held);
        let is_late = one.queued.is_some_and(|at| at.after(policy::slow_after(queue)) <= now);
        one.is_waiting() && (is_late || is_held)
    }

    // The time of workers that some of these tasks have outlasted, again and again.
    fn outlasted_by(&self, job: JobId, ids: &IdSet) -> Duration {
        let known = self.state.jobs.get(&job).into_iter().flat_map(|job| &job.outlasted);
        let known = known.filter(|(task, known)| known.times >= OUTLASTED_MAX && ids.contains(**task));
        known.map(|(_, known)| known.life).max().unwrap_or_default()
    }

    // How many tasks of a class run at once on the workers that are there, whatever they do now, by how long these take tasks.
    fn slots_here(&self, now: Timestamp, class: ClassId) -> Vec<Slots> {
        let requests = &self.queue.key(class).requests;
        let slots = |live: &LiveWorker| {
            let able = requests.iter().filter(|request: &&Request| live.has_time(now, request.time_request));
            let needs = able.filter_map(|request| Needs::new(&live.resources, request));
            needs.map(|needs| live.capacity().slots(&needs)).max().unwrap_or(0)
        };
        let mut here: BTreeMap<Duration, u64> = BTreeMap::new();
        for live in self.live.values().filter(|live| live.takes_tasks()) {
            // To the minute: there may be thousands.
            let until = live
                .life_left(now)
                .map_or(Duration::MAX, |left| Duration::from_secs(left.as_secs() / 60 * 60));
            *here.entry(until).or_default() += slots(live);
        }
        mark!("more slots than one worker may have are summed up", here.values().sum::<u64>() > SLOTS_MAX);
        here.into_iter().map(|(until, count)| Slots { count, from: Duration::ZERO, until }).collect()
    }

    /// True when a worker has tasks: of one that is away, as far as the records say.
    pub(super) fn is_busy(&self, id: WorkerId) -> bool {
        match self.live.get(&id) {
            Some(live) if live.connection.is_some() && live.reconcile_at.is_none() => !live.held().is_empty(),
            Some(live) => {
                !live.held().is_empty() || self.state.jobs.values().any(|job| job.leased.contains_key(&id))
            }
            None => false,
        }
    }

    /// How many workers of an allocation have tasks, and how many have none.
    pub(super) fn busy_and_idle(&self, one: &Allocation) -> (u64, u64) {
        let busy = one.connected.iter().filter(|id| self.is_busy(**id)).count() as u64;
        (busy, one.connected.len() as u64 - busy)
    }
}
