//! Those who take pulled tasks from relays: they ask, are slow, vanish, give back, say things twice, and of tasks that they do
//! not have.
//!
//! Of a relay the world plays its worker; somebody who has a task is what a process is elsewhere.

use std::ops::RangeInclusive;
use std::time::Duration;

use hq_core::client_messages::ClientRequest;
use hq_core::worker::{Input as WorkerInput, Outcome as TaskOutcome};
use hq_model::job::{Target, TaskIds};
use hq_model::pulled::entry_of;
use hq_model::task::{CrashLimit, Retry};
use hq_model::{Body, Entries, JobId, JobSpec, Request, Submit, TaskId, TaskRef, TaskSpec, Usage};

use crate::rng::Rng;
use crate::world::{Event, World};

/// Jobs that may be bags; each of them has a relay.
pub(crate) const BAGS: RangeInclusive<u32> = 1..=4;

/// Some tasks need it.
pub(crate) const TAG: &str = "gpu";

/// True where those who take tasks of a bag have it.
pub(crate) fn has_tag(bag: JobId) -> bool {
    bag.0 == 4
}

/// Somebody opens a bag, or creates tasks in one, some of them again.
pub(crate) fn creates(rng: &mut Rng, jobs: &[JobId]) -> ClientRequest {
    let bags: Vec<JobId> = jobs.iter().copied().filter(|job| BAGS.contains(&job.0)).collect();
    if bags.is_empty() || jobs.len() < 2 {
        let spec = JobSpec { name: "bag".into(), ..JobSpec::default() };
        return ClientRequest::OpenJob { key: u128::from(rng.draw()), spec };
    }
    let bag = bags[rng.between(0, bags.len() as u64 - 1) as usize];
    let (count, first) = ([1, 5, 40][rng.between(0, 2) as usize], rng.between(0, 100));
    let names: Vec<Vec<u8>> =
        (0..count).map(|task| format!("{}", first + u64::from(task)).into_bytes()).collect();
    let entries: Vec<Vec<u8>> = names.iter().map(|name| entry_of(name, b"payload")).collect();
    let texts = |texts: &[Vec<u8>]| Entries::new(texts.iter().map(Vec::as_slice)).unwrap_or_default();
    let spec = TaskSpec {
        body: Body::Pulled,
        requests: vec![Request::pulled(bag, if has_tag(bag) && first % 3 == 0 { &[TAG][..] } else { &[] })],
        kill_grace: Duration::from_secs(5),
        crash_limit: if rng.chance(300) { CrashLimit::Times(2) } else { CrashLimit::Unlimited },
        retry: Retry { max: 1, ..Retry::default() },
        ..TaskSpec::default()
    };
    let submit = Submit {
        keys: texts(&names),
        entries: texts(&entries),
        ..Submit::new(Target::Open(bag), TaskIds::Next(count), spec)
    };
    ClientRequest::Submit { key: u128::from(rng.draw()), submit: Box::new(submit) }
}

impl World {
    /// Those at a relay ask for tasks, and speak of some.
    pub(crate) fn pullers_act(&mut self, node: usize, life: u64) -> Result<(), String> {
        let known = &self.nodes[node];
        let Some(bag) = known.relay_of.filter(|_| known.life == life && known.worker.is_some()) else {
            return Ok(());
        };
        if known.frozen_until > self.now {
            let at = known.frozen_until;
            self.at_time(at, Event::PullersAct { node, life });
            return Ok(());
        }
        let taken: Vec<TaskRef> = known.processes.keys().copied().collect();
        let lease = Duration::from_millis([300, 5_000, 60_000][self.rng.between(0, 2) as usize]);
        let (wanted, count) = (self.rng.between(0, 5), self.rng.between(1, 6) as u32);
        let wanted = if self.healed { wanted.max(1) } else { wanted };
        let mut said = vec![WorkerInput::Take { count, lease }, WorkerInput::Wanted { count: wanted }];
        if self.rng.chance(300) {
            said.extend(taken.first().map(|task| WorkerInput::Extend { task: *task, lease }));
        }
        // Of what nobody has here, or does not exist: it changes nothing.
        let other = TaskRef::new(bag, TaskId(self.rng.between(0, 50) as u32));
        if !taken.contains(&other) && self.rng.chance(300) {
            said.insert(0, WorkerInput::ended(other, TaskOutcome::Finished, Usage::default()));
            said.insert(0, WorkerInput::Released { task: other });
            said.insert(0, WorkerInput::Extend { task: other, lease });
        }
        self.worker_steps(node, said)?;
        let longest = if self.healed {
            300_000
        } else {
            [10_000, 1_000_000, 8_000_000][self.rng.between(0, 2) as usize]
        };
        let after = self.rng.between(1_000, longest);
        self.at(after, Event::PullersAct { node, life });
        Ok(())
    }

    /// Somebody has taken a task, and perhaps vanishes or gives it back. True when it will not say how it ended.
    pub(crate) fn takes(&mut self, node: usize, task: TaskRef, number: u64) -> bool {
        match self.rng.between(0, 9) {
            0 | 1 if !self.healed => true,
            2 => {
                let (life, after) = (self.nodes[node].life, self.rng.between(100, 3_000_000));
                self.at(after, Event::PullerReturns { node, life, task, number });
                true
            }
            _ => false,
        }
    }

    /// Somebody gives a task back, unless it has it no more.
    pub(crate) fn puller_returns(
        &mut self,
        node: usize,
        life: u64,
        task: TaskRef,
        number: u64,
    ) -> Result<(), String> {
        let known = &mut self.nodes[node];
        if !known.runs(life, task, number) {
            return Ok(());
        }
        if known.frozen_until > self.now {
            let at = known.frozen_until;
            self.at_time(at, Event::PullerReturns { node, life, task, number });
            return Ok(());
        }
        // What is being ended from outside ends by that.
        if known.worker.as_ref().is_some_and(|worker| worker.lets_run(task)) {
            known.processes.remove(&task);
        }
        self.worker_step(node, WorkerInput::Released { task })
    }

    /// A relay says that somebody has a task no more.
    pub(crate) fn lease_is_over(&mut self, node: usize, task: TaskRef) -> Result<(), String> {
        match self.nodes[node].processes.remove(&task) {
            Some(_) => Ok(()),
            None => Err(format!("the lease of task {task} on node {node} is over, and nobody has it")),
        }
    }
}
