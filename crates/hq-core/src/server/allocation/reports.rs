//! What batch systems answer, and what becomes of it.

use std::collections::BTreeMap;

use hq_model::allocation::{AllocationEnd, BatchState, QueueParams};
use hq_model::{AllocationRef, Timestamp, counted};

use super::{Deferred, Purpose, Trial, Unclear};
use crate::alloc::{AllocRecord, Allocation, BatchOrder, BatchReport, QueueState, Said, ShapeSource, policy};
use crate::client_messages::{ClientResponse, RequestError};
use crate::limits::{CHECK_INTERVAL, NOT_NOW_RETRY, UNCLEAR_TIME};
use crate::server::machine::Server;
use crate::server::{ConnectionId, Effect, Gate};

impl Server {
    /// A batch system answered an order.
    pub(in crate::server) fn batch_reports(
        &mut self,
        now: Timestamp,
        report: BatchReport,
        effects: &mut Vec<Effect>,
    ) {
        self.alloc.look();
        match report {
            BatchReport::Submitted { allocation, batch_id } => {
                self.allocation_submitted(now, allocation, batch_id, effects);
            }
            BatchReport::Refused { allocation, error } => {
                self.end_allocation(now, allocation, AllocationEnd::Refused(error), effects);
            }
            BatchReport::NotNow { allocation, error } => self.not_taken(now, allocation, error),
            BatchReport::Unclear { allocation, error } => {
                self.alloc.in_flight.remove(&allocation);
                let is_open = |one: &Allocation| one.is_active() && one.batch_id.is_none();
                if self.state.alloc.allocation(allocation).is_some_and(is_open) {
                    let text =
                        format!("it is not clear whether allocation {allocation} was submitted: {error}");
                    self.alloc.note(now, allocation.queue, text);
                    let look_at = now.after(CHECK_INTERVAL.0);
                    let new = Unclear { since: now, look_at, missed: 0 };
                    self.alloc.unclear.entry(allocation).or_insert(new).look_at = look_at;
                }
            }
            BatchReport::NotFound { allocation } => self.allocation_not_found(now, allocation, effects),
            BatchReport::States { manager, states } => self.states_came(now, &manager, states, effects),
            BatchReport::Canceled { allocations, result } => {
                for which in allocations {
                    match &result {
                        Ok(()) => {
                            let end = self.state.alloc.allocation(which).and_then(policy::end_by_workers);
                            let end = end.unwrap_or(AllocationEnd::Canceled);
                            self.end_allocation(now, which, end, effects);
                        }
                        Err(error) => {
                            self.alloc.cancels.refused(now, which, error.clone());
                            let text = format!("allocation {which} could not be canceled: {error}");
                            self.alloc.note(now, which.queue, text);
                        }
                    }
                }
            }
            BatchReport::Tried { ticket, result } => self.trial_ended(now, ticket, result, effects),
            BatchReport::Shape { queue, resources } => {
                let is_missing = |queue: &QueueState| queue.known.is_none();
                if let Some(resources) = resources
                    && self.state.alloc.queues.get(&queue).is_some_and(is_missing)
                {
                    let (resources, source) = (Box::new(resources), ShapeSource::Manager);
                    self.record_alloc(now, AllocRecord::ShapeLearned { queue, resources, source }, effects);
                }
            }
        }
    }

    // It keeps its number, and is submitted again when there may be room, if it is still wanted.
    fn not_taken(&mut self, now: Timestamp, which: AllocationRef, error: String) {
        self.alloc.in_flight.remove(&which);
        self.alloc.unclear.remove(&which);
        let Some(queue) = self.state.alloc.queues.get(&which.queue) else { return };
        if queue.allocations.get(&which.number).is_none_or(|one| !one.is_active() || one.batch_id.is_some()) {
            return;
        }
        let taken = counted(queue.active().filter(|(_, one)| one.batch_id.is_some()).count(), "allocation");
        let text =
            format!("the batch system takes no more at present, beside {taken} of this queue: {error}");
        let ask_at = now.after(NOT_NOW_RETRY);
        self.alloc.deferred.insert(which.queue, Deferred { number: which.number, ask_at, error });
        self.alloc.note(now, which.queue, text);
    }

    // Asked for twice, so that one that was just being taken in is not missed.
    fn allocation_not_found(&mut self, now: Timestamp, which: AllocationRef, effects: &mut Vec<Effect>) {
        self.alloc.in_flight.remove(&which);
        let look_at = now.after(CHECK_INTERVAL.0);
        let new = Unclear { since: now, look_at, missed: 0 };
        let open = self.alloc.unclear.entry(which).or_insert(new);
        open.look_at = look_at;
        open.missed += 1;
        if open.missed > 1 {
            self.alloc.note(now, which.queue, format!("allocation {which} was never submitted"));
            self.end_allocation(now, which, AllocationEnd::Canceled, effects);
        }
    }

    pub(super) fn look_for_unclear(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let mut due = Vec::new();
        for (which, open) in &mut self.alloc.unclear {
            if self.state.alloc.allocation(*which).is_some() && open.look_at <= now {
                // Until the answer is there.
                open.look_at = now.after(UNCLEAR_TIME);
                due.push(*which);
            }
        }
        for which in due {
            let Some(queue) = self.state.alloc.queues.get(&which.queue) else { continue };
            if let Some(one) = queue.allocations.get(&which.number) {
                effects.push(Effect::Batch { order: self.recover(which, queue, one), gate: Gate::Open });
            }
        }
    }

    fn allocation_submitted(
        &mut self,
        now: Timestamp,
        which: AllocationRef,
        batch_id: String,
        effects: &mut Vec<Effect>,
    ) {
        self.alloc.in_flight.remove(&which);
        self.alloc.unclear.remove(&which);
        let Some(queue) = self.state.alloc.queues.get(&which.queue) else { return };
        let Some(one) = queue.allocations.get(&which.number) else { return };
        if one.batch_id.is_none() && one.is_active() {
            self.alloc.note(now, which.queue, format!("allocation {batch_id} waits in the batch system"));
            // What is new is asked about soon.
            let manager = queue.params.manager.clone();
            self.alloc.managers.entry(manager).or_default().interval = CHECK_INTERVAL.0;
            self.record_alloc(now, AllocRecord::Submitted { allocation: which, batch_id }, effects);
        } else if !one.is_active() {
            // Given up before the answer came.
            let (manager, allocations) = (queue.params.manager.clone(), vec![(which, batch_id)]);
            let order = BatchOrder::Cancel { manager, allocations };
            effects.push(Effect::Batch { order, gate: Gate::Open });
        }
        if self.is_stopping() {
            self.cancel_allocations(now, effects);
        }
    }

    /// Begins a trial for a client.
    pub(super) fn begin_trial(
        &mut self,
        connection: ConnectionId,
        request: u64,
        params: Box<QueueParams>,
        purpose: Purpose,
        effects: &mut Vec<Effect>,
    ) {
        self.alloc.last_ticket += 1;
        let ticket = self.alloc.last_ticket;
        let directory = self.directory_of(&format!("trial-{ticket}"));
        let order = BatchOrder::Try { ticket, params: std::sync::Arc::new((*params).clone()), directory };
        self.alloc.trials.insert(ticket, Trial { connection, request, purpose, params });
        effects.push(Effect::Batch { order, gate: Gate::Open });
    }

    fn trial_ended(
        &mut self,
        now: Timestamp,
        ticket: u64,
        result: Result<Option<hq_model::WorkerResources>, String>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(Trial { connection, request, purpose, params }) = self.alloc.trials.remove(&ticket) else {
            return;
        };
        let result = match (result, purpose) {
            (Err(error), _) => Err(RequestError::Batch(error)),
            (Ok(_), Purpose::Only) => Ok(ClientResponse::Done),
            (Ok(nodes), Purpose::Add) => self.add_queue(now, params, nodes, effects),
            (Ok(nodes), Purpose::Edit(queue)) => self.edit_queue(now, queue, &params, nodes, effects),
        };
        let body = result.unwrap_or_else(ClientResponse::Error);
        effects.push(Effect::Answer { connection, request, body, gate: Gate::Synced });
    }

    fn states_came(
        &mut self,
        now: Timestamp,
        manager: &str,
        states: Result<Vec<(String, Said)>, String>,
        effects: &mut Vec<Effect>,
    ) {
        let checks = self.alloc.managers.entry(manager.to_owned()).or_default();
        let asked = checks.asked.take().unwrap_or_default();
        let states: BTreeMap<String, Said> = match states {
            Ok(states) => states.into_iter().collect(),
            Err(error) => {
                // Nothing is concluded from silence.
                // It is asked again as soon as it may be there again.
                checks.interval = CHECK_INTERVAL.0;
                checks.error = Some(error);
                return;
            }
        };
        checks.error = None;
        let of_manager = self.state.alloc.active().filter(|(_, queue, _)| queue.params.manager == manager);
        let with_id = of_manager.filter_map(|(which, _, one)| Some((which, one.batch_id.clone()?)));
        let with_id: Vec<_> = with_id.filter(|(_, id)| asked.contains(id)).collect();
        let (mut was_new, mut has_doubts) = (false, false);
        for (which, id) in with_id {
            let missing = || BatchState::Unknown("the batch system does not know it".into());
            let said = states.get(&id).cloned().unwrap_or_else(|| missing().into());
            was_new |= self.state_came(now, which, said, effects);
            // Only a second answer tells that it is gone, and not just on its way in or out.
            has_doubts |= self.alloc.unknown.get(&which) == Some(&1);
        }
        let checks = self.alloc.managers.entry(manager.to_owned()).or_default();
        checks.has_doubts = has_doubts;
        checks.interval = policy::next_interval(checks.interval, was_new);
    }

    // True when it was something new.
    fn state_came(
        &mut self,
        now: Timestamp,
        which: AllocationRef,
        said: Said,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(one) = self.state.alloc.allocation(which) else { return false };
        let state = &said.state;
        let times = match state {
            BatchState::Unknown(_) => {
                self.alloc.unknown.entry(which).and_modify(|times| *times += 1).or_insert(1)
            }
            _ => &mut 0,
        };
        // Many forget a batch job as soon as it is over.
        let is_known_gone = *times > 1 || policy::end_by_workers(one).is_some();
        if let Some(end) = policy::end_by_state(one, &said, is_known_gone) {
            self.end_allocation_after(now, which, (end, said.ran), effects);
            return true;
        }
        let waits = matches!(state, BatchState::Queued | BatchState::Held);
        let is_new = self.alloc.seen.get(&which).is_some_and(|(_, before)| before.state != *state);
        if !matches!(state, BatchState::Unknown(_)) {
            self.alloc.unknown.remove(&which);
        }
        let (is_waiting, is_empty) = (one.is_waiting(), one.connected.is_empty());
        if is_waiting && matches!(state, BatchState::Running) {
            self.record_alloc(now, AllocRecord::Started { allocation: which }, effects);
            self.has_more_room(now, which.queue);
        } else if !is_waiting && is_empty && waits {
            self.alloc.note(now, which.queue, format!("allocation {which} waits again: it was requeued"));
            self.alloc.work.remove(&which);
            self.record_alloc(now, AllocRecord::Requeued { allocation: which }, effects);
        }
        self.alloc.seen.insert(which, (now, said));
        is_new
    }
}

/// Why a queue asks for nothing whose allocation was not taken.
pub(super) fn not_taken_told(deferred: &Deferred) -> String {
    format!(
        "the batch system takes no more at present: {}; it is asked again at {}, or when an allocation starts or ends",
        deferred.error,
        policy::clock(deferred.ask_at)
    )
}
