//! The durable state of queues and allocations: the fold of their records, and of the workers that join and leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hq_model::allocation::{AllocationEnd, AllocationState, NodeTime, PauseCause, QueueParams};
use hq_model::{AllocationRef, ByteString, QueueId, Timestamp, WorkerId, WorkerResources};

use super::record::AllocRecord;
use crate::limits::{ALLOCATION_FAILURES_MAX, ALLOCATIONS_KEPT, SUBMIT_FAILURES_MAX};
use crate::mark;
use crate::worker_messages::WorkerEnd;

/// All queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocState {
    /// Queues, those included that are removed and have allocations left.
    pub queues: BTreeMap<QueueId, QueueState>,
    /// The largest id ever given.
    pub last_queue: QueueId,
}

/// A queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueState {
    /// What it asks for.
    pub params: Arc<QueueParams>,
    /// When it was made.
    pub added: Timestamp,
    /// Since when and why it asks for nothing.
    pub paused: Option<(Timestamp, PauseCause)>,
    /// It asks for nothing more.
    pub is_draining: bool,
    /// It is gone as soon as its allocations are.
    pub is_removed: bool,
    /// What a worker of it offers, as far as that was seen or said by the batch system.
    pub known: Option<(WorkerResources, ShapeSource)>,
    /// The largest number of an allocation ever given.
    pub last_number: u32,
    /// Submissions in a row that were refused.
    pub submit_failures: u32,
    /// Allocations in a row that failed.
    pub allocation_failures: u32,
    /// When the last of these was.
    pub last_failure: Timestamp,
    /// Allocations that ended and are not kept, by whether they failed, and their node time.
    pub forgotten: Forgotten,
    /// Allocations: active ones, and those that ended last.
    pub allocations: BTreeMap<u32, Allocation>,
}

/// Sums over allocations that are not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// How many finished.
    pub finished: u64,
    /// How many failed.
    pub failed: u64,
    /// Their node time.
    pub time: NodeTime,
}

/// Who said what a worker offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeSource {
    /// A worker of the queue.
    Worker,
    /// The batch system, of its nodes.
    Manager,
}

/// An allocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// Nodes, each with one worker.
    pub workers: u32,
    /// Its wall time.
    pub time_limit: Duration,
    /// Where its script, id and output are.
    pub directory: ByteString,
    /// It starts when this one has ended.
    pub after: Option<u32>,
    /// When it was decided on.
    pub planned: Timestamp,
    /// Its id in the batch system, once it has one.
    pub batch_id: Option<String>,
    /// When the batch system took it.
    pub queued: Option<Timestamp>,
    /// When it got its nodes.
    pub started: Option<Timestamp>,
    /// When and why it ended.
    pub ended: Option<(Timestamp, AllocationEnd)>,
    /// Workers of it that have joined since it started.
    pub joined: u32,
    /// Those of them that were lost, or stopped while they were away: they may be there still.
    pub lost: u32,
    /// Those of them that are there.
    pub connected: BTreeSet<WorkerId>,
    /// When and how the last one of them left.
    pub last_left: Option<(Timestamp, WorkerEnd)>,
    /// What became of its node time: until its end, or until it was measured last.
    pub time: NodeTime,
    /// When that was, while it goes on.
    pub measured: Option<Timestamp>,
}

impl Allocation {
    /// The state it is shown as.
    pub fn state(&self) -> AllocationState {
        match (&self.ended, self.started) {
            (Some((_, end)), _) => end.state(),
            (None, Some(_)) => AllocationState::Running,
            (None, None) => AllocationState::Queued,
        }
    }

    /// True until it has ended.
    pub fn is_active(&self) -> bool {
        self.ended.is_none()
    }

    /// True while it waits in the batch system, or is on its way there.
    pub fn is_waiting(&self) -> bool {
        self.ended.is_none() && self.started.is_none()
    }

    /// Workers that are still to come.
    pub fn workers_to_come(&self) -> u32 {
        if self.is_active() { self.workers.saturating_sub(self.joined) } else { 0 }
    }

    /// Workers that are there, to come, or lost: those may live on until the batch system says otherwise.
    pub fn workers_left(&self) -> u32 {
        let left_in_order = self.joined.saturating_sub(self.connected.len() as u32 + self.lost);
        self.workers.saturating_sub(left_in_order)
    }

    /// True when all its workers came and none is left.
    pub fn is_deserted(&self) -> bool {
        self.is_active() && self.joined > 0 && self.connected.is_empty()
    }
}

impl QueueState {
    /// A new one.
    pub fn new(params: QueueParams, at: Timestamp) -> QueueState {
        QueueState {
            params: Arc::new(params),
            added: at,
            paused: None,
            is_draining: false,
            is_removed: false,
            known: None,
            last_number: 0,
            submit_failures: 0,
            allocation_failures: 0,
            last_failure: Timestamp::default(),
            forgotten: Forgotten::default(),
            allocations: BTreeMap::new(),
        }
    }

    /// Allocations that have not ended.
    pub fn active(&self) -> impl Iterator<Item = (u32, &Allocation)> {
        self.allocations.iter().filter(|(_, one)| one.is_active()).map(|(number, one)| (*number, one))
    }

    /// Allocations that wait in the batch system or are on their way there.
    pub fn waiting(&self) -> u32 {
        self.active().filter(|(_, one)| one.is_waiting()).count() as u32
    }

    /// Workers that are there or to come. One that waits for another allocation of this queue to end takes its place.
    pub fn workers(&self) -> u32 {
        let counts = |(_, one): &(u32, &Allocation)| {
            let follows = one.after.and_then(|before| self.allocations.get(&before));
            !(one.is_waiting() && follows.is_some_and(Allocation::is_active))
        };
        self.active().filter(counts).map(|(_, one)| one.workers_left()).sum()
    }

    /// Node time of all allocations that have ended, and how many finished and failed.
    pub fn totals(&self) -> Forgotten {
        let mut totals = self.forgotten;
        for one in self.allocations.values() {
            if let Some((_, end)) = &one.ended {
                count_ended(&mut totals, end, &one.time);
            }
        }
        totals
    }

    // A cheap bound: the oldest that have ended leave first.
    fn forget_old(&mut self) {
        let ended = self.allocations.values().filter(|one| !one.is_active()).count();
        if ended <= ALLOCATIONS_KEPT {
            return;
        }
        let oldest = self.allocations.iter().find(|(_, one)| !one.is_active()).map(|(number, _)| *number);
        if let Some(one) = oldest.and_then(|number| self.allocations.remove(&number))
            && let Some((_, end)) = &one.ended
        {
            count_ended(&mut self.forgotten, end, &one.time);
        }
    }

    /// What a worker offers, or an allocation asks for, may be something else with these parameters.
    pub fn shape_differs(&self, params: &QueueParams) -> bool {
        let old = &self.params;
        old.manager_args != params.manager_args
            || old.worker_args != params.worker_args
            || old.resources != params.resources
            || old.resources_are_all != params.resources_are_all
    }
}

fn count_ended(totals: &mut Forgotten, end: &AllocationEnd, time: &NodeTime) {
    if end.is_failure() {
        totals.failed += 1;
    } else {
        totals.finished += 1;
    }
    totals.time.add(time);
}

impl AllocState {
    /// An allocation.
    pub fn allocation(&self, which: AllocationRef) -> Option<&Allocation> {
        self.queues.get(&which.queue)?.allocations.get(&which.number)
    }

    /// Allocations that have not ended, of all queues.
    pub fn active(&self) -> impl Iterator<Item = (AllocationRef, &QueueState, &Allocation)> {
        self.queues.iter().flat_map(|(id, queue)| {
            queue.active().map(move |(number, one)| (AllocationRef::new(*id, number), queue, one))
        })
    }

    /// The one that has this id in a batch system, of those that have not ended.
    pub fn active_with(&self, manager: &str, batch_id: &str) -> Option<AllocationRef> {
        let is_meant = |(_, queue, one): &(AllocationRef, &QueueState, &Allocation)| {
            queue.params.manager == manager && one.batch_id.as_deref() == Some(batch_id)
        };
        self.active().find(is_meant).map(|(which, ..)| which)
    }

    /// Applies one record. One about something unknown changes nothing.
    pub fn apply(&mut self, at: Timestamp, record: &AllocRecord) {
        match record {
            AllocRecord::QueueAdded { queue, params } => {
                self.queues.insert(*queue, QueueState::new((**params).clone(), at));
                self.last_queue = self.last_queue.max(*queue);
            }
            AllocRecord::QueueIdGiven { queue } => self.last_queue = self.last_queue.max(*queue),
            AllocRecord::QueueKept { queue, state } => {
                self.queues.insert(*queue, (**state).clone());
            }
            AllocRecord::AllocationKept { allocation, state } => {
                if let Some(queue) = self.queues.get_mut(&allocation.queue) {
                    queue.allocations.insert(allocation.number, (**state).clone());
                }
            }
            AllocRecord::QueueEdited { queue, .. }
            | AllocRecord::QueuePaused { queue, .. }
            | AllocRecord::QueueResumed { queue, .. }
            | AllocRecord::QueueDrained { queue }
            | AllocRecord::QueueRemoved { queue }
            | AllocRecord::ShapeLearned { queue, .. } => {
                if let Some(state) = self.queues.get_mut(queue) {
                    state.apply_to_queue(at, record);
                }
                self.drop_if_over(*queue);
            }
            AllocRecord::Planned { allocation, .. }
            | AllocRecord::Submitted { allocation, .. }
            | AllocRecord::Started { allocation }
            | AllocRecord::Measured { allocation, .. }
            | AllocRecord::Requeued { allocation }
            | AllocRecord::Ended { allocation, .. } => {
                if let Some(state) = self.queues.get_mut(&allocation.queue) {
                    state.apply_to_allocation(at, allocation.number, record);
                }
                self.drop_if_over(allocation.queue);
            }
        }
    }

    /// A worker joined that was started by an allocation.
    pub fn worker_joined(
        &mut self,
        at: Timestamp,
        worker: WorkerId,
        origin: AllocationRef,
        resources: &WorkerResources,
    ) {
        let Some(queue) = self.queues.get_mut(&origin.queue) else { return };
        let Some(one) = queue.allocations.get_mut(&origin.number) else { return };
        one.connected.insert(worker);
        one.joined += 1;
        one.started.get_or_insert(at);
        // It was given up too early.
        one.ended = None;
        queue.known = Some((resources.clone(), ShapeSource::Worker));
    }

    /// A worker left or was lost.
    pub fn worker_ended(
        &mut self,
        at: Timestamp,
        worker: WorkerId,
        origin: AllocationRef,
        end: WorkerEnd,
        is_away: bool,
    ) {
        let Some(queue) = self.queues.get_mut(&origin.queue) else { return };
        let Some(one) = queue.allocations.get_mut(&origin.number) else { return };
        if one.connected.remove(&worker) {
            one.last_left = Some((at, end));
            mark!("a worker is stopped while it is away", is_away && !end.is_crash());
            one.lost += u32::from(end.is_crash() || is_away);
        }
    }

    fn drop_if_over(&mut self, id: QueueId) {
        if self.queues.get(&id).is_some_and(|queue| queue.is_removed && queue.active().next().is_none()) {
            self.queues.remove(&id);
        }
    }

    /// The records that rebuild this state, each with its time, until `take` refuses one.
    ///
    /// # Errors
    /// What `take` said.
    pub fn snapshot<E>(
        &self,
        latest: Timestamp,
        take: &mut dyn FnMut(Timestamp, AllocRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.last_queue.0 > 0 {
            take(latest, AllocRecord::QueueIdGiven { queue: self.last_queue })?;
        }
        for (id, queue) in &self.queues {
            let state = Box::new(QueueState { allocations: BTreeMap::new(), ..queue.clone() });
            take(latest, AllocRecord::QueueKept { queue: *id, state })?;
            for (number, one) in &queue.allocations {
                let allocation = AllocationRef::new(*id, *number);
                take(latest, AllocRecord::AllocationKept { allocation, state: Box::new(one.clone()) })?;
            }
        }
        Ok(())
    }
}

impl QueueState {
    fn apply_to_queue(&mut self, at: Timestamp, record: &AllocRecord) {
        match record {
            AllocRecord::QueueEdited { params, .. } => {
                if self.shape_differs(params) {
                    self.known = None;
                }
                self.params = Arc::new((**params).clone());
                // What failed before says nothing of what is asked for now.
                self.submit_failures = 0;
                self.allocation_failures = 0;
                self.paused.take_if(|(_, cause)| *cause != PauseCause::User);
            }
            AllocRecord::QueuePaused { cause, .. } => self.paused = Some((at, cause.clone())),
            AllocRecord::QueueResumed { is_trial, .. } => {
                self.paused = None;
                self.is_draining &= *is_trial;
                if *is_trial {
                    self.submit_failures = self.submit_failures.min(SUBMIT_FAILURES_MAX - 1);
                    self.allocation_failures = self.allocation_failures.min(ALLOCATION_FAILURES_MAX - 1);
                    // So long ago that nothing has to be waited for.
                    self.last_failure = Timestamp::default();
                } else {
                    self.submit_failures = 0;
                    self.allocation_failures = 0;
                }
            }
            AllocRecord::QueueDrained { .. } => self.is_draining = true,
            AllocRecord::QueueRemoved { .. } => self.is_removed = true,
            AllocRecord::ShapeLearned { resources, source, .. } => {
                self.known = Some(((**resources).clone(), *source));
            }
            other => unreachable!("not a record about a queue: {other:?}"),
        }
    }

    fn apply_to_allocation(&mut self, at: Timestamp, number: u32, record: &AllocRecord) {
        if let AllocRecord::Planned { workers, time_limit, directory, after, .. } = record {
            let one = Allocation {
                workers: *workers,
                time_limit: *time_limit,
                directory: directory.clone(),
                after: *after,
                planned: at,
                ..Allocation::default()
            };
            self.allocations.insert(number, one);
            self.last_number = self.last_number.max(number);
            return;
        }
        let Some(one) = self.allocations.get_mut(&number) else { return };
        match record {
            AllocRecord::Submitted { batch_id, .. } => {
                one.batch_id = Some(batch_id.clone());
                one.queued = Some(at);
                self.submit_failures = 0;
            }
            AllocRecord::Started { .. } => {
                one.started.get_or_insert(at);
                one.ended = None;
            }
            AllocRecord::Measured { time, .. } => {
                one.time = *time;
                one.measured = Some(at);
            }
            AllocRecord::Requeued { .. } => {
                one.started = None;
                one.measured = None;
                one.time = NodeTime::default();
                one.joined = 0;
                one.lost = 0;
                one.last_left = None;
            }
            AllocRecord::Ended { end, time, .. } => {
                let was_accepted = one.batch_id.is_some();
                one.time = *time;
                one.measured = None;
                one.ended = Some((at, end.clone()));
                match end {
                    AllocationEnd::Refused(_) => {
                        self.submit_failures += 1;
                        self.last_failure = at;
                    }
                    AllocationEnd::Vanished(_) if !was_accepted => {
                        self.submit_failures += 1;
                        self.last_failure = at;
                    }
                    end if end.is_fault_of_queue() => {
                        self.allocation_failures += 1;
                        self.last_failure = at;
                    }
                    AllocationEnd::Finished | AllocationEnd::TimedOut => self.allocation_failures = 0,
                    _ => {}
                }
                self.forget_old();
            }
            other => unreachable!("not a record about an allocation: {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    fn which(number: u32) -> AllocationRef {
        AllocationRef::new(QueueId(1), number)
    }

    fn params() -> QueueParams {
        QueueParams {
            manager: "slurm".into(),
            backlog: 2,
            max_workers_per_alloc: 2,
            time_limit: HOUR,
            ..QueueParams::default()
        }
    }

    fn planned(number: u32, after: Option<u32>) -> AllocRecord {
        AllocRecord::Planned {
            allocation: which(number),
            workers: 2,
            time_limit: HOUR,
            directory: Vec::new(),
            after,
        }
    }

    fn submitted(number: u32) -> AllocRecord {
        AllocRecord::Submitted { allocation: which(number), batch_id: format!("10{number}") }
    }

    fn ended(number: u32, end: AllocationEnd) -> AllocRecord {
        AllocRecord::Ended {
            allocation: which(number),
            end,
            time: NodeTime { asked_us: 5, ..NodeTime::default() },
        }
    }

    fn with_queue() -> AllocState {
        let mut state = AllocState::default();
        state.apply(at(1), &AllocRecord::QueueAdded { queue: QueueId(1), params: Box::new(params()) });
        state
    }

    fn rebuilt(state: &AllocState) -> AllocState {
        let mut again = AllocState::default();
        let result: Result<(), ()> = state.snapshot(at(99), &mut |at, record| {
            again.apply(at, &record);
            Ok(())
        });
        assert_eq!(result, Ok(()));
        again
    }

    #[test]
    fn an_allocation_lives_through_its_workers() {
        let mut state = with_queue();
        state.apply(at(2), &planned(1, None));
        state.apply(at(3), &submitted(1));
        assert_eq!(state.allocation(which(1)).map(Allocation::state), Some(AllocationState::Queued));
        assert_eq!((state.queues[&QueueId(1)].waiting(), state.queues[&QueueId(1)].workers()), (1, 2));
        state.worker_joined(at(4), WorkerId(7), which(1), &WorkerResources::default());
        assert_eq!(state.allocation(which(1)).map(Allocation::state), Some(AllocationState::Running));
        assert_eq!((state.queues[&QueueId(1)].waiting(), state.queues[&QueueId(1)].workers()), (0, 2));
        state.worker_ended(at(5), WorkerId(7), which(1), WorkerEnd::IdleTimeout, false);
        assert!(state.allocation(which(1)).is_some_and(Allocation::is_deserted));
        state.apply(at(6), &ended(1, AllocationEnd::Finished));
        assert_eq!(state.queues[&QueueId(1)].totals().finished, 1);
        assert_eq!(rebuilt(&state), state);
    }

    #[test]
    fn failures_are_counted_in_a_row() {
        let mut state = with_queue();
        for number in 1..=3 {
            state.apply(at(2), &planned(number, None));
            state.apply(at(3), &ended(number, AllocationEnd::Refused("no".into())));
        }
        assert_eq!(state.queues[&QueueId(1)].submit_failures, 3);
        state.apply(at(4), &planned(4, None));
        state.apply(at(5), &submitted(4));
        assert_eq!(state.queues[&QueueId(1)].submit_failures, 0);
        state.apply(at(6), &ended(4, AllocationEnd::Failed("exit code 1".into())));
        assert_eq!(state.queues[&QueueId(1)].allocation_failures, 1);
        state.apply(at(6), &ended(4, AllocationEnd::Preempted));
        assert_eq!(state.queues[&QueueId(1)].allocation_failures, 1);
        state.apply(at(6), &ended(4, AllocationEnd::TimedOut));
        assert_eq!(state.queues[&QueueId(1)].allocation_failures, 0);
    }

    #[test]
    fn a_removed_queue_stays_until_its_allocations_are_over() {
        let mut state = with_queue();
        state.apply(at(2), &planned(1, None));
        state.apply(at(3), &submitted(1));
        state.apply(at(4), &AllocRecord::QueueRemoved { queue: QueueId(1) });
        assert_eq!(rebuilt(&state), state);
        assert!(state.queues[&QueueId(1)].is_removed);
        state.apply(at(5), &ended(1, AllocationEnd::Canceled));
        assert!(state.queues.is_empty());
        assert_eq!(rebuilt(&state).last_queue, QueueId(1));
    }

    #[test]
    fn one_that_follows_another_takes_its_place() {
        let mut state = with_queue();
        state.apply(at(2), &planned(1, None));
        state.worker_joined(at(3), WorkerId(1), which(1), &WorkerResources::default());
        state.apply(at(4), &planned(2, Some(1)));
        assert_eq!(state.queues[&QueueId(1)].workers(), 2);
        state.apply(at(5), &ended(1, AllocationEnd::TimedOut));
        assert_eq!(state.queues[&QueueId(1)].workers(), 2);
    }

    #[test]
    fn old_ones_are_forgotten_and_stay_in_the_sums() {
        let mut state = with_queue();
        for number in 1..=ALLOCATIONS_KEPT as u32 + 5 {
            state.apply(at(2), &planned(number, None));
            state.apply(at(3), &ended(number, AllocationEnd::Finished));
        }
        let queue = &state.queues[&QueueId(1)];
        assert_eq!(queue.allocations.len(), ALLOCATIONS_KEPT);
        assert_eq!(queue.totals().finished, ALLOCATIONS_KEPT as u64 + 5);
        assert_eq!(queue.totals().time.asked_us, 5 * (ALLOCATIONS_KEPT as u64 + 5));
        assert_eq!(rebuilt(&state), state);
    }

    #[test]
    fn other_options_make_what_was_seen_of_workers_void() {
        let mut state = with_queue();
        state.apply(at(2), &planned(1, None));
        state.worker_joined(at(3), WorkerId(1), which(1), &WorkerResources::default());
        let edited =
            |params: QueueParams| AllocRecord::QueueEdited { queue: QueueId(1), params: Box::new(params) };
        state.apply(at(4), &edited(QueueParams { backlog: 9, ..params() }));
        assert!(state.queues[&QueueId(1)].known.is_some());
        state.apply(at(5), &edited(QueueParams { manager_args: vec![b"-p gpu".to_vec()], ..params() }));
        assert!(state.queues[&QueueId(1)].known.is_none());
    }
}
