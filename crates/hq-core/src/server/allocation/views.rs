//! Requests of clients about queues and allocations, and what is shown of them.

use std::collections::BTreeMap;

use hq_model::allocation::{
    AllocationEnd, AllocationState, BatchState, PauseCause, QueueParams, node_hours, node_hours_told,
};
use hq_model::{AllocationRef, QueueId, Timestamp, WorkerResources, counted, duration};

use super::Purpose;
use crate::alloc::demand::{Matched, Offer, Served};
use crate::alloc::messages::{
    AllocRequest, AllocResponse, AllocationInfo, DemandLine, QueueExplanation, QueueInfo, QueueStatus,
};
use crate::alloc::policy::{self, Permit, clock, over_budget, waiting_told, workers_told};
use crate::alloc::{AllocRecord, Allocation, BatchOrder, QueueState, Said, ShapeSource};
use crate::client_messages::{ClientResponse, RequestError};
use crate::limits::QUEUES_MAX;
use crate::server::machine::{Answer, Server};
use crate::server::{ConnectionId, Effect, Gate};

impl Server {
    /// A client asks something about queues and allocations.
    pub(in crate::server) fn client_asks_alloc(
        &mut self,
        now: Timestamp,
        connection: ConnectionId,
        request: u64,
        body: AllocRequest,
        effects: &mut Vec<Effect>,
    ) {
        let is_view = matches!(
            body,
            AllocRequest::List
                | AllocRequest::Info { .. }
                | AllocRequest::Find { .. }
                | AllocRequest::Explain { .. }
        );
        let gate = if is_view { Gate::Shown } else { self.gate_of_change() };
        let result = match body {
            AllocRequest::Add { params, dry_run } => match self.may_add(&params) {
                Ok(()) if dry_run => {
                    return self.begin_trial(connection, request, params, Purpose::Add, effects);
                }
                Ok(()) => self.add_queue(now, params, None, effects),
                Err(error) => Err(error),
            },
            AllocRequest::DryRun { params } => match check(&params) {
                Ok(()) => return self.begin_trial(connection, request, params, Purpose::Only, effects),
                Err(error) => Err(error),
            },
            AllocRequest::List => Ok(ClientResponse::Alloc(AllocResponse::Queues(self.list_queues(now)))),
            AllocRequest::Info { queue } => self.queue_details(now, queue),
            AllocRequest::Find { id } => self.find_allocation(now, &id),
            AllocRequest::Explain { queue } => {
                let explained = self.explain_queue(now, queue);
                self.ask_soon(queue);
                explained
            }
            AllocRequest::Edit { queue, params, dry_run } => match self.may_edit(queue, &params) {
                Ok(is_other) if dry_run && is_other => {
                    return self.begin_trial(connection, request, params, Purpose::Edit(queue), effects);
                }
                Ok(_) => self.edit_queue(now, queue, &params, None, effects),
                Err(error) => Err(error),
            },
            change => self.change_queue(now, &change, effects),
        };
        let body = result.unwrap_or_else(ClientResponse::Error);
        effects.push(Effect::Answer { connection, request, body, gate });
    }

    fn may_add(&self, params: &QueueParams) -> Result<(), RequestError> {
        self.refuse_when_read_only()?;
        if self.is_stopping() {
            return Err(RequestError::Stopping);
        }
        if self.state.alloc.queues.len() >= QUEUES_MAX {
            return Err(RequestError::Invalid(format!(
                "There are {QUEUES_MAX} allocation queues, which is the limit."
            )));
        }
        check(params)
    }

    /// Makes a queue.
    pub(super) fn add_queue(
        &mut self,
        now: Timestamp,
        params: Box<QueueParams>,
        nodes: Option<WorkerResources>,
        effects: &mut Vec<Effect>,
    ) -> Answer {
        self.may_add(&params)?;
        let queue = QueueId(self.state.alloc.last_queue.0 + 1);
        self.record_alloc(now, AllocRecord::QueueAdded { queue, params }, effects);
        self.learn_shape(now, queue, nodes, effects);
        Ok(ClientResponse::Alloc(AllocResponse::Added(queue)))
    }

    fn ask_shape(&self, queue: QueueId, effects: &mut Vec<Effect>) {
        if let Some(state) = self.state.alloc.queues.get(&queue) {
            let order = BatchOrder::AskShape { queue, params: state.params.clone() };
            effects.push(Effect::Batch { order, gate: Gate::Open });
        }
    }

    fn queue_state(&self, queue: QueueId) -> Result<&QueueState, RequestError> {
        let found = self.state.alloc.queues.get(&queue).filter(|state| !state.is_removed);
        found.ok_or(RequestError::NoQueue(queue))
    }

    fn change_queue(&mut self, now: Timestamp, change: &AllocRequest, effects: &mut Vec<Effect>) -> Answer {
        self.refuse_when_read_only()?;
        match change {
            AllocRequest::Pause { queue } => {
                self.queue_state(*queue)?;
                self.alloc.note(now, *queue, "paused by a user");
                let record = AllocRecord::QueuePaused { queue: *queue, cause: PauseCause::User };
                self.record_alloc(now, record, effects);
            }
            AllocRequest::Resume { queue } => {
                self.queue_state(*queue)?;
                self.alloc.note(now, *queue, "resumed by a user");
                let record = AllocRecord::QueueResumed { queue: *queue, is_trial: false };
                self.record_alloc(now, record, effects);
            }
            AllocRequest::Drain { queue } => {
                self.queue_state(*queue)?;
                self.alloc.note(now, *queue, "drained by a user");
                self.record_alloc(now, AllocRecord::QueueDrained { queue: *queue }, effects);
            }
            AllocRequest::Remove { queue, force } => {
                let has_workers =
                    |one: &Allocation| !one.is_waiting() && policy::end_by_workers(one).is_none();
                let runs = self.queue_state(*queue)?.active().any(|(_, one)| has_workers(one));
                if runs && !force {
                    return Err(RequestError::QueueBusy);
                }
                self.record_alloc(now, AllocRecord::QueueRemoved { queue: *queue }, effects);
                self.alloc.decisions.remove(queue);
                self.alloc.cancels.try_at_once();
                self.cancel_removed(now, effects);
            }
            other => return Err(RequestError::Invalid(format!("This server cannot answer {other:?}."))),
        }
        Ok(ClientResponse::Done)
    }

    // Says whether another allocation would be asked for than before.
    fn may_edit(&self, queue: QueueId, params: &QueueParams) -> Result<bool, RequestError> {
        self.refuse_when_read_only()?;
        let state = self.queue_state(queue)?;
        check(params)?;
        if state.params.manager != params.manager || state.params.name != params.name {
            let text = "Batch system and name of a queue cannot be changed: make another queue.";
            return Err(RequestError::Invalid(text.into()));
        }
        let is_larger = state.params.workers_per_allocation() != params.workers_per_allocation();
        Ok(is_larger || state.params.time_limit != params.time_limit || state.shape_differs(params))
    }

    /// Changes a queue, of whose nodes this may be known.
    pub(super) fn edit_queue(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        params: &QueueParams,
        nodes: Option<WorkerResources>,
        effects: &mut Vec<Effect>,
    ) -> Answer {
        self.may_edit(queue, params)?;
        self.alloc.note(now, queue, "edited by a user");
        let record = AllocRecord::QueueEdited { queue, params: Box::new(params.clone()) };
        self.record_alloc(now, record, effects);
        if self.queue_state(queue)?.known.is_none() {
            self.learn_shape(now, queue, nodes, effects);
        }
        Ok(ClientResponse::Done)
    }

    fn learn_shape(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        nodes: Option<WorkerResources>,
        effects: &mut Vec<Effect>,
    ) {
        match nodes {
            Some(resources) => {
                let (resources, source) = (Box::new(resources), ShapeSource::Manager);
                self.record_alloc(now, AllocRecord::ShapeLearned { queue, resources, source }, effects);
            }
            None => self.ask_shape(queue, effects),
        }
    }

    // ---- views ----

    fn list_queues(&self, now: Timestamp) -> Vec<QueueInfo> {
        let queues = self.state.alloc.queues.iter().filter(|(_, queue)| !queue.is_removed);
        queues.map(|(id, queue)| self.queue_info(now, *id, queue)).collect()
    }

    fn queue_info(&self, now: Timestamp, id: QueueId, queue: &QueueState) -> QueueInfo {
        let totals = queue.totals();
        let mut time = totals.time;
        for (number, one) in queue.active() {
            time.add(&self.node_time(now, AllocationRef::new(id, number), one));
        }
        let in_state = |state| queue.active().filter(|(_, one)| one.state() == state).count() as u64;
        QueueInfo {
            queue: id,
            params: (*queue.params).clone(),
            status: match &queue.paused {
                Some((at, cause)) => QueueStatus::Paused(*at, cause.to_string()),
                None if queue.is_draining => QueueStatus::Draining,
                None => QueueStatus::Active,
            },
            added: queue.added,
            known: queue.known.clone(),
            counts: [
                in_state(AllocationState::Queued),
                in_state(AllocationState::Running),
                totals.finished,
                totals.failed,
            ],
            time,
            over_budget: over_budget(queue, None),
        }
    }

    fn queue_details(&self, now: Timestamp, id: QueueId) -> Answer {
        let queue = self.queue_state(id)?;
        let info = |(number, one): (&u32, &Allocation)| {
            self.allocation_info(now, AllocationRef::new(id, *number), one)
        };
        Ok(ClientResponse::Alloc(AllocResponse::Details {
            queue: Box::new(self.queue_info(now, id, queue)),
            allocations: queue.allocations.iter().map(info).collect(),
        }))
    }

    fn allocation_info(&self, now: Timestamp, which: AllocationRef, one: &Allocation) -> AllocationInfo {
        let seen = self.alloc.seen.get(&which).cloned();
        AllocationInfo {
            allocation: which,
            batch_id: one.batch_id.clone(),
            state: one.state(),
            detail: self.detail(which, one, seen.as_ref().map(|(_, said)| said)),
            workers: one.workers,
            connected: one.connected.iter().copied().collect(),
            planned: one.planned,
            queued: one.queued,
            started: one.started,
            ended: one.ended.clone(),
            seen: seen.map(|(at, said)| (at, said.state)),
            directory: self.directory_now(&one.directory),
            after: one.after,
            time: if one.is_active() { self.node_time(now, which, one) } else { one.time },
        }
    }

    fn detail(&self, which: AllocationRef, one: &Allocation, seen: Option<&Said>) -> Option<String> {
        match &one.ended {
            Some((_, AllocationEnd::Finished)) => return None,
            Some((_, end)) => return Some(end.to_string()),
            None => {}
        }
        if self.alloc.is_unclear(which) {
            return Some("it is not known whether the batch system took it".into());
        }
        if let Some(deferred) = self.alloc.deferred(which) {
            return Some(format!("not accepted yet: {}", deferred.error));
        }
        if one.batch_id.is_none() && one.joined == 0 {
            return Some("is being submitted".into());
        }
        let reason = seen.and_then(|said| said.reason.as_ref());
        let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        match seen.map(|said| &said.state) {
            Some(BatchState::Held) => return Some(format!("held in the batch system{why}")),
            Some(BatchState::Suspended) => return Some(format!("suspended by the batch system{why}")),
            Some(BatchState::Unknown(text)) => return Some(format!("unknown to the batch system: {text}")),
            _ => {}
        }
        if one.is_waiting() {
            let starts = |after| format!("starts when {} ends", AllocationRef::new(which.queue, after));
            return one.after.map(starts).or_else(|| reason.map(|reason| format!("waits: {reason}")));
        }
        match (one.connected.is_empty(), one.joined) {
            (true, 0) => Some("no worker has come yet".into()),
            (true, _) => Some("all its workers have left".into()),
            (false, _) => None,
        }
    }

    fn find_allocation(&self, now: Timestamp, id: &str) -> Answer {
        let as_ref = id.parse::<AllocationRef>().ok();
        let all = self.state.alloc.queues.iter().flat_map(|(queue, state)| {
            state.allocations.iter().map(|(number, one)| (AllocationRef::new(*queue, *number), one))
        });
        // The same number may come again in a batch system: the latest is meant.
        let found =
            all.filter(|(_, one)| one.batch_id.as_deref() == Some(id)).max_by_key(|(_, one)| one.planned);
        let by_ref = || as_ref.and_then(|which| Some((which, self.state.alloc.allocation(which)?)));
        match found.or_else(by_ref) {
            Some((which, one)) => {
                let info = Box::new(self.allocation_info(now, which, one));
                Ok(ClientResponse::Alloc(AllocResponse::Found(info)))
            }
            None => Err(RequestError::NoAllocation(id.to_owned())),
        }
    }

    // ---- why ----

    // Somebody wants to know: what is waited for is asked about as soon as it may be.
    fn ask_soon(&mut self, id: QueueId) {
        let Some(queue) = self.state.alloc.queues.get(&id) else { return };
        if queue.active().any(|(_, one)| one.is_waiting()) {
            self.alloc.managers.entry(queue.params.manager.clone()).or_default().is_wished = true;
            self.alloc.look();
        }
    }

    fn explain_queue(&self, now: Timestamp, id: QueueId) -> Answer {
        let queue = self.queue_state(id)?;
        let waiting = self.waiting_classes(now);
        let offers = self.offers(now);
        let matched = self.match_demand(now, &waiting, &offers);
        let Some((offer, permit)) = offers.iter().find(|(offer, _)| offer.queue == id) else {
            return Err(RequestError::NoQueue(id));
        };
        let lines = waiting.iter().zip(&matched.classes).map(|((class, waiting), served)| {
            let key = self.queue.key(*class);
            let requests: Vec<String> = key.requests.iter().map(ToString::to_string).collect();
            DemandLine {
                request: requests.join(" or "),
                priority: key.priority,
                waiting: *waiting,
                coming: served.coming.get(&id).copied().unwrap_or(0),
                new: served.new.get(&id).copied().unwrap_or(0),
                elsewhere: elsewhere(served, id),
                why_not: offer
                    .why_not(&key.requests)
                    .or_else(|| offer.spares(&key.requests).filter(|_| served.left > 0))
                    .or_else(|| rest(served, permit)),
            }
        });
        let demand: Vec<DemandLine> = lines.collect();
        let explanation = QueueExplanation {
            queue: self.queue_info(now, id, queue),
            next: self.next_step(now, (id, queue), &matched, &demand, permit),
            facts: self.facts(now, id, queue, offer, permit),
            demand,
            decisions: self
                .alloc
                .decisions
                .get(&id)
                .into_iter()
                .flat_map(|all| all.iter().cloned())
                .collect(),
        };
        Ok(ClientResponse::Alloc(AllocResponse::Explained(Box::new(explanation))))
    }

    fn next_step(
        &self,
        now: Timestamp,
        (id, queue): (QueueId, &QueueState),
        matched: &Matched,
        demand: &[DemandLine],
        permit: &Permit,
    ) -> String {
        if self.awaits_workers_of_before(now) {
            return "it waits until workers of the time before the restart are back".into();
        }
        if let Some(sizes) = matched.new.get(&id) {
            let workers = counted(sizes.iter().map(|size| u64::from(*size)).sum::<u64>(), "worker");
            return format!("it asks for {} with {workers}", counted(sizes.len(), "allocation"));
        }
        // Whatever waits or will wait: nothing is asked for until somebody raises it.
        if let Some(why) = permit.why_none.as_ref().filter(|_| over_budget(queue, None).is_some()) {
            return format!("it asks for nothing: {why}");
        }
        if demand.is_empty() {
            return "it asks for nothing: no task waits for a worker".into();
        }
        let could: Vec<&DemandLine> =
            demand.iter().filter(|line| line.waiting > line.coming + line.elsewhere).collect();
        if could.is_empty() {
            return "it asks for nothing: workers on their way take all that waits".into();
        }
        match &permit.why_none {
            Some(why) => format!("it asks for nothing: {why}"),
            None => match could.iter().find_map(|line| line.why_not.as_ref()) {
                Some(why) => format!("it asks for nothing: {why}"),
                None => "it asks for nothing: what waits would use too little of a worker".into(),
            },
        }
    }

    /// Why allocations of a queue wait, each reason once, as the batch system said when it was asked last.
    pub(in crate::server) fn waiting_reasons(&self, id: QueueId, queue: &QueueState) -> Option<String> {
        let mut reasons: BTreeMap<&str, (Timestamp, u64)> = BTreeMap::new();
        for (number, _) in queue.active().filter(|(_, one)| one.is_waiting()) {
            let Some((at, said)) = self.alloc.seen.get(&AllocationRef::new(id, number)) else { continue };
            let held = (said.state == BatchState::Held).then_some("held");
            if let Some(reason) = said.reason.as_deref().or(held) {
                let known = reasons.entry(reason).or_insert((*at, 0));
                *known = (known.0.max(*at), known.1 + 1);
            }
        }
        let last = reasons.values().map(|(at, _)| *at).max()?;
        let told: Vec<String> = reasons
            .iter()
            .map(|(reason, (_, times))| match times {
                1 => (*reason).to_owned(),
                times => format!("{reason} ({times} allocations)"),
            })
            .collect();
        Some(format!("the batch system lets wait, said at {}: {}", clock(last), told.join(", ")))
    }

    fn facts(
        &self,
        now: Timestamp,
        id: QueueId,
        queue: &QueueState,
        offer: &Offer,
        permit: &Permit,
    ) -> Vec<String> {
        let params = &queue.params;
        let mut facts = vec![waiting_told(queue)];
        facts.push(match params.max_worker_count {
            Some(limit) => format!("{}, of at most {limit}", workers_told(queue)),
            None => format!("{}, without a limit", workers_told(queue)),
        });
        facts.extend(params.budget.map(|budget| {
            let (held, limit) = (node_hours(queue.totals().time.held()), node_hours_told(budget));
            format!("{held} of at most {limit} (budget) were spent by allocations that have ended")
        }));
        facts.push(format!(
            "a worker takes tasks for {} of the {} of its allocation",
            duration::format(offer.life),
            duration::format(params.time_limit)
        ));
        facts.push(match (&queue.known, offer.is_known) {
            (Some((_, ShapeSource::Worker)), _) => {
                "what a worker offers is known from one that was there".into()
            }
            (Some((_, ShapeSource::Manager)), _) => {
                "what a worker offers is known from the batch system".into()
            }
            (None, true) => "what a worker offers is known from the options of the queue".into(),
            (None, false) => {
                "what a worker offers is not all known: where it matters, one worker is asked for first"
                    .into()
            }
        });
        if let Some(why) = &permit.why_none {
            facts.push(format!("nothing may be asked for now: {why}"));
        }
        facts.extend(self.waiting_reasons(id, queue));
        if let Some(error) = self.alloc.check_error(&params.manager) {
            facts.push(format!("the batch system did not answer when it was asked last: {error}"));
        }
        if self.awaits_workers_of_before(now) {
            facts.push("the server was started a moment ago: workers of before may come back".into());
        }
        facts
    }
}

fn check(params: &QueueParams) -> Result<(), RequestError> {
    let checked = params.check().and_then(|()| params.check_budget());
    checked.map_err(|error| RequestError::Invalid(error.to_string()))
}

fn elsewhere(served: &Served, id: QueueId) -> u64 {
    let others = served.coming.iter().chain(&served.new).filter(|(queue, _)| **queue != id);
    others.map(|(_, tasks)| tasks).sum()
}

fn rest(served: &Served, permit: &Permit) -> Option<String> {
    let held = || served.held.map(|held| held.told());
    (served.left > 0).then(|| permit.why_none.clone().or_else(held)).flatten()
}
