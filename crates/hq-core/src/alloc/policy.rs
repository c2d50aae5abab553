//! How much a queue may ask for: backlog, limits, waits after failures, pauses.

use std::time::Duration;

use hq_model::allocation::{AllocationEnd, BatchState, PauseCause, node_hours, node_hours_told};
use hq_model::{Timestamp, counted_are, duration};

use super::Said;
use super::state::{Allocation, QueueState};
use crate::limits::{
    ALLOCATION_FAILURES_MAX, CHECK_INTERVAL, EARLY_LOSS, OVERDUE_TIME, PAUSE_RETRY, QUEUE_PATIENCE,
    QUEUE_PATIENCE_LEAST, RETURN_TIME, SUBMIT_DELAYS, SUBMIT_FAILURES_MAX, WAITS_SEEN,
};
use crate::worker_messages::WorkerEnd;

/// What may be asked for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Allocations.
    pub allocations: u32,
    /// Workers in all of them.
    pub workers: u32,
    /// Why it is none, when it is.
    pub why_none: Option<String>,
}

impl Permit {
    /// Nothing, for this reason.
    pub fn none(why: impl Into<String>) -> Permit {
        Permit { allocations: 0, workers: 0, why_none: Some(why.into()) }
    }
}

/// When a queue may submit again after what was refused; `None` when nothing was.
pub fn submits_again_at(queue: &QueueState) -> Option<Timestamp> {
    let at = queue.submit_failures.checked_sub(1)? as usize;
    let delay = SUBMIT_DELAYS[at.min(SUBMIT_DELAYS.len() - 1)];
    // After a trial was allowed, nothing has to be waited for.
    (queue.last_failure > Timestamp::default()).then(|| queue.last_failure.after(delay))
}

/// When a queue that paused by itself tries again.
pub fn retries_at(queue: &QueueState) -> Option<Timestamp> {
    match &queue.paused {
        Some((at, PauseCause::Submissions(..) | PauseCause::Allocations(..))) => Some(at.after(PAUSE_RETRY)),
        Some((_, PauseCause::User)) | None => None,
    }
}

/// Why a queue should pause now.
pub fn pause_cause(queue: &QueueState) -> Option<PauseCause> {
    if queue.paused.is_some() || queue.is_removed {
        return None;
    }
    let last_words = || last_words(queue);
    if queue.submit_failures >= SUBMIT_FAILURES_MAX {
        return Some(PauseCause::Submissions(queue.submit_failures, last_words()));
    }
    if queue.allocation_failures >= ALLOCATION_FAILURES_MAX {
        return Some(PauseCause::Allocations(queue.allocation_failures, last_words()));
    }
    None
}

// How the last allocation that failed did so.
fn last_words(queue: &QueueState) -> String {
    let failed = queue.allocations.values().filter_map(|one| one.ended.as_ref());
    let failed = failed.filter(|(_, end)| end.is_failure()).max_by_key(|(at, _)| *at);
    failed.map_or_else(|| "unknown".to_owned(), |(_, end)| end.to_string())
}

/// What a queue may ask for now. An allocation that was `not_taken` before is one of those.
pub fn permit(queue: &QueueState, not_taken: Option<&Allocation>, now: Timestamp) -> Permit {
    if queue.is_removed {
        return Permit::none("the queue is removed");
    }
    if let Some((_, cause)) = &queue.paused {
        let again = retries_at(queue).map_or_else(
            || "`hq alloc resume` ends that".to_owned(),
            |at| format!("tries again at {}", clock(at)),
        );
        let why = match cause {
            PauseCause::User => cause.to_string(),
            _ => format!("paused: {cause}"),
        };
        return Permit::none(format!("{why}; {again}"));
    }
    if queue.is_draining {
        return Permit::none("draining: what is there goes on, nothing new is asked for");
    }
    if let Some(why) = over_budget(queue, not_taken) {
        return Permit::none(why);
    }
    if let Some(at) = submits_again_at(queue).filter(|at| *at > now) {
        let at = clock(at);
        let (times, submissions) = match queue.submit_failures {
            1 => ("the last".to_owned(), "submission"),
            count => (format!("the last {count}"), "submissions"),
        };
        let words = last_words(queue);
        return Permit::none(format!("{times} {submissions} failed ({words}); the next one is at {at}"));
    }
    let waiting = queue.waiting().saturating_sub(u32::from(not_taken.is_some()));
    let allocations = queue.params.backlog.saturating_sub(waiting);
    if allocations == 0 {
        return Permit::none(waiting_told(queue));
    }
    let workers = match queue.params.max_worker_count {
        None => u32::MAX,
        // Those of a chain take each other's place.
        Some(limit) if queue.params.chain => limit,
        Some(limit) => match limit
            .saturating_sub(queue.workers().saturating_sub(not_taken.map_or(0, |one| one.workers)))
        {
            0 => {
                return Permit::none(format!(
                    "{}, of at most {limit} (max worker count)",
                    workers_told(queue)
                ));
            }
            left => left,
        },
    };
    let workers = workers.min(nodes_left(queue, not_taken).unwrap_or(u32::MAX));
    Permit { allocations, workers, why_none: None }
}

// What is left of the budget of a queue, in nodes of one allocation each. An allocation that goes on may take all of its time.
fn nodes_left(queue: &QueueState, not_taken: Option<&Allocation>) -> Option<u32> {
    let budget = queue.params.budget?;
    let not_taken = not_taken.map_or(Duration::ZERO, wanted);
    let committed = queue.totals().time.held().saturating_add(reserved(queue)).saturating_sub(not_taken);
    let time = queue.params.time_limit.as_micros().max(1);
    Some(u32::try_from(budget.saturating_sub(committed).as_micros() / time).unwrap_or(u32::MAX))
}

// Node time that an allocation asks for.
fn wanted(one: &Allocation) -> Duration {
    one.time_limit.saturating_mul(one.workers)
}

fn reserved(queue: &QueueState) -> Duration {
    queue.active().fold(Duration::ZERO, |sum, (_, one)| sum.saturating_add(wanted(one)))
}

/// Why the budget of a queue lets it ask for nothing more, when it does.
pub fn over_budget(queue: &QueueState, not_taken: Option<&Allocation>) -> Option<String> {
    let budget = queue.params.budget.filter(|_| nodes_left(queue, not_taken) == Some(0))?;
    let (spent, reserved) = (node_hours(queue.totals().time.held()), node_hours(reserved(queue)));
    let limit = duration::format(queue.params.time_limit);
    Some(format!(
        "its budget of {} has no room for one more node for {limit}: {spent} spent, {reserved} for allocations that wait or run; \
         `hq alloc edit` with a larger `--budget` raises it",
        node_hours_told(budget)
    ))
}

/// The time until the next question to a batch system.
pub fn next_interval(before: Duration, was_new: bool) -> Duration {
    if was_new { CHECK_INTERVAL.0 } else { (before * 4).min(CHECK_INTERVAL.1) }
}

/// How long an allocation of this queue may wait before the batch system is asked what became of it: four times as
/// long as any of those that started last.
pub fn patience(queue: &QueueState) -> Duration {
    waits(queue).max().unwrap_or_default() * 4
}

/// An allocation of this queue that has waited for so long is slow: others are asked as if it were not there.
pub fn slow_after(queue: &QueueState) -> Duration {
    let longest = waits(queue).max();
    longest.map_or(QUEUE_PATIENCE, |longest| (longest * 4).clamp(QUEUE_PATIENCE_LEAST, QUEUE_PATIENCE))
}

/// How long allocations of this queue wait, by those that started last; nothing when none has.
pub fn usual_wait(queue: &QueueState) -> Duration {
    let mut waits: Vec<Duration> = waits(queue).collect();
    waits.sort_unstable();
    waits.get(waits.len() / 2).copied().unwrap_or_default()
}

// How long those waited that started last.
fn waits(queue: &QueueState) -> impl Iterator<Item = Duration> + '_ {
    let waited = |one: &Allocation| Some(one.started?.since(one.queued?));
    queue.allocations.values().rev().filter_map(waited).take(WAITS_SEEN)
}

/// How an allocation ends whose workers have all left in order, as far as they tell: its batch job may still do something.
/// `None` when only the batch system knows.
pub fn end_by_workers(one: &Allocation) -> Option<AllocationEnd> {
    if !one.is_deserted() || one.workers_to_come() > 0 || one.lost > 0 {
        return None;
    }
    match one.last_left?.1 {
        WorkerEnd::IdleTimeout | WorkerEnd::Stopped => Some(AllocationEnd::Finished),
        WorkerEnd::TimeLimit => Some(AllocationEnd::TimedOut),
        // Canceled, preempted, requeued, a failed node: the batch system knows.
        WorkerEnd::Interrupted
        | WorkerEnd::ConnectionLost
        | WorkerEnd::HeartbeatLost
        | WorkerEnd::LauncherLost => None,
    }
}

/// How an allocation ended of which the batch system says this. `None` when it did not. Workers that are there
/// are believed more.
pub fn end_by_state(one: &Allocation, said: &Said, is_known_gone: bool) -> Option<AllocationEnd> {
    if !one.is_active() || !one.connected.is_empty() {
        return None;
    }
    let early = || {
        let (Some((left, end)), Some(started)) = (one.last_left, one.started) else { return false };
        one.lost >= one.joined && end.is_crash() && left.since(started) < EARLY_LOSS
    };
    let words = |text: &str| if text.is_empty() { "without a word".to_owned() } else { text.to_owned() };
    // The batch system knows little of why a script failed; what it printed says more.
    let with_lines = |text: &str| match &said.last_lines {
        Some(lines) => format!("{text}; what it printed ends with `{lines}`"),
        None => text.to_owned(),
    };
    // What became of the batch job when its workers had left in order is of no interest.
    let is_over = match said.state {
        BatchState::Finished | BatchState::Failed(_) | BatchState::OutOfMemory => true,
        BatchState::Unknown(_) => is_known_gone,
        _ => false,
    };
    if let Some(end) = end_by_workers(one).filter(|_| is_over) {
        return Some(end);
    }
    let without_worker =
        || AllocationEnd::Failed(with_lines("the batch job ended and no worker of it ever came"));
    match &said.state {
        BatchState::Queued | BatchState::Held | BatchState::Running | BatchState::Suspended => None,
        BatchState::Finished | BatchState::Failed(_) if one.joined > 0 && early() => {
            Some(AllocationEnd::WorkersLost)
        }
        BatchState::Finished if one.joined == 0 => Some(without_worker()),
        BatchState::Finished => Some(AllocationEnd::Finished),
        // Its workers had their time and left in order: how the shell script ended is of no interest.
        BatchState::Failed(_) if one.joined > 0 && one.lost == 0 => Some(AllocationEnd::Finished),
        BatchState::Failed(text) => Some(AllocationEnd::Failed(with_lines(&words(text)))),
        BatchState::Canceled => Some(AllocationEnd::Canceled),
        BatchState::TimedOut => Some(AllocationEnd::TimedOut),
        BatchState::Preempted => Some(AllocationEnd::Preempted),
        BatchState::NodeFailed => Some(AllocationEnd::NodeFailed),
        BatchState::OutOfMemory => Some(AllocationEnd::OutOfMemory),
        BatchState::Unknown(_) if !is_known_gone => None,
        // Only what waits can be taken away without a trace.
        BatchState::Unknown(_) if said.never_began && one.joined == 0 => Some(AllocationEnd::Canceled),
        BatchState::Unknown(_) if one.joined > 0 && early() => Some(AllocationEnd::WorkersLost),
        BatchState::Unknown(_) if one.joined > 0 => Some(AllocationEnd::Finished),
        BatchState::Unknown(text) => Some(AllocationEnd::Vanished(words(text))),
    }
}

/// Until when the workers of an allocation that all left may come back: it may have been requeued, which the batch
/// system is asked. Those that left in order do not.
pub fn may_return_until(one: &Allocation) -> Option<Timestamp> {
    let (left, _) = one.last_left.filter(|_| one.is_deserted() && end_by_workers(one).is_none())?;
    Some(left.after(RETURN_TIME))
}

/// When the wall time of an allocation is over.
pub fn ends_at(one: &Allocation) -> Option<Timestamp> {
    Some(one.started?.after(one.time_limit))
}

/// When an allocation of which nobody knows anything counts as over.
pub fn given_up_at(one: &Allocation) -> Option<Timestamp> {
    Some(ends_at(one)?.after(OVERDUE_TIME))
}

/// A time to the second, for people.
pub fn clock(at: Timestamp) -> String {
    let text = at.to_string();
    text.split_once('.').map_or_else(|| text.clone(), |(seconds, _)| format!("{seconds}Z"))
}

/// How many allocations of a queue wait, in words.
pub fn waiting_told(queue: &QueueState) -> String {
    let (waiting, backlog) = (queue.waiting(), queue.params.backlog);
    let allocations = if backlog == 1 { "allocation" } else { "allocations" };
    let wait = if waiting == 1 { "waits" } else { "wait" };
    format!("{waiting} of at most {backlog} {allocations} {wait} in the batch system (backlog)")
}

/// How many workers a queue has, in words.
pub fn workers_told(queue: &QueueState) -> String {
    counted_are(queue.workers(), "worker", "is", "are") + " there or to come"
}

#[cfg(test)]
mod tests {
    use hq_model::allocation::{NodeTime, QueueParams};
    use hq_model::{AllocationRef, QueueId, WorkerId, WorkerResources};

    use super::*;
    use crate::alloc::{AllocRecord, AllocState};

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(seconds: u64) -> Timestamp {
        Timestamp(1_000_000_000 + seconds * 1_000_000)
    }

    fn which(number: u32) -> AllocationRef {
        AllocationRef::new(QueueId(1), number)
    }

    fn queue(params: QueueParams) -> AllocState {
        let params = Box::new(QueueParams { manager: "slurm".into(), time_limit: HOUR, ..params });
        let mut state = AllocState::default();
        state.apply(at(0), &AllocRecord::QueueAdded { queue: QueueId(1), params });
        state
    }

    fn plan(state: &mut AllocState, number: u32, workers: u32) {
        let allocation = which(number);
        let record = AllocRecord::Planned {
            allocation,
            workers,
            time_limit: HOUR,
            directory: Vec::new(),
            after: None,
        };
        state.apply(at(1), &record);
    }

    fn permit_of(state: &AllocState, now: Timestamp) -> (u32, u32, Option<String>) {
        let permit = permit(&state.queues[&QueueId(1)], None, now);
        (permit.allocations, permit.workers, permit.why_none)
    }

    #[test]
    fn a_budget_bounds_what_is_asked_for() {
        let params = QueueParams { backlog: 9, max_workers_per_alloc: 9, ..QueueParams::default() };
        let mut state = queue(QueueParams { budget: Some(HOUR * 7 / 2), ..params });
        assert_eq!(permit_of(&state, at(2)), (9, 3, None), "half an hour is too little for a node");
        plan(&mut state, 1, 2);
        assert_eq!(permit_of(&state, at(2)), (8, 1, None));
        plan(&mut state, 2, 1);
        let text = |spent, reserved| {
            format!(
                "its budget of 3.5 node hours has no room for one more node for 1h: {spent} spent, {reserved} for allocations that \
                 wait or run; `hq alloc edit` with a larger `--budget` raises it"
            )
        };
        assert_eq!(permit_of(&state, at(2)), (0, 0, Some(text("0", "3"))));
        // One that ends gives back what it has not taken.
        let time = NodeTime { used_us: 1_800_000_000, ..NodeTime::default() };
        let record = AllocRecord::Ended { allocation: which(1), end: AllocationEnd::Finished, time };
        state.apply(at(3), &record);
        assert_eq!(permit_of(&state, at(4)), (8, 2, None));
    }

    #[test]
    fn backlog_and_worker_count_bound_what_is_asked_for() {
        let params = QueueParams { backlog: 2, max_workers_per_alloc: 4, ..QueueParams::default() };
        let mut state = queue(QueueParams { max_worker_count: Some(6), ..params });
        assert_eq!(permit_of(&state, at(2)), (2, 6, None));
        plan(&mut state, 1, 4);
        assert_eq!(permit_of(&state, at(2)), (1, 2, None));
        plan(&mut state, 2, 1);
        let text = "2 of at most 2 allocations wait in the batch system (backlog)";
        assert_eq!(permit_of(&state, at(2)), (0, 0, Some(text.into())));
        state.worker_joined(at(3), WorkerId(1), which(1), &WorkerResources::default());
        state.worker_joined(at(3), WorkerId(2), which(2), &WorkerResources::default());
        assert_eq!(permit_of(&state, at(4)), (2, 1, None));
        plan(&mut state, 3, 1);
        let text = "6 workers are there or to come, of at most 6 (max worker count)";
        assert_eq!(permit_of(&state, at(4)), (0, 0, Some(text.into())));
    }

    #[test]
    fn one_is_told_as_one() {
        let params = QueueParams { backlog: 1, max_worker_count: Some(1), ..QueueParams::default() };
        let mut state = queue(params);
        plan(&mut state, 1, 1);
        let text = "1 of at most 1 allocation waits in the batch system (backlog)";
        assert_eq!(permit_of(&state, at(2)), (0, 0, Some(text.into())));
        state.worker_joined(at(3), WorkerId(1), which(1), &WorkerResources::default());
        let text = "1 worker is there or to come, of at most 1 (max worker count)";
        assert_eq!(permit_of(&state, at(4)), (0, 0, Some(text.into())));
    }

    #[test]
    fn after_refusals_the_waits_grow_and_then_the_queue_pauses() {
        let mut state = queue(QueueParams { backlog: 1, max_workers_per_alloc: 1, ..QueueParams::default() });
        let mut now = 0;
        for (number, wait) in [(1, 60), (2, 900), (3, 1800), (4, 3600), (5, 3600)] {
            plan(&mut state, number, 1);
            let end = AllocationEnd::Refused("down".into());
            let record = AllocRecord::Ended { allocation: which(number), end, time: Default::default() };
            state.apply(at(now), &record);
            assert_eq!(submits_again_at(&state.queues[&QueueId(1)]), Some(at(now + wait)), "{number}");
            assert_eq!(permit_of(&state, at(now + wait - 1)).0, 0);
            now += wait;
            assert_eq!(permit_of(&state, at(now)).0, 1);
        }
        for number in 6..=10 {
            assert_eq!(pause_cause(&state.queues[&QueueId(1)]), None);
            plan(&mut state, number, 1);
            let end = AllocationEnd::Refused("down".into());
            let record = AllocRecord::Ended { allocation: which(number), end, time: Default::default() };
            state.apply(at(now), &record);
        }
        let cause = pause_cause(&state.queues[&QueueId(1)]).expect("too many");
        assert_eq!(
            cause.to_string(),
            "10 submissions in a row failed, the last one with: not accepted: down"
        );
        state.apply(at(now), &AllocRecord::QueuePaused { queue: QueueId(1), cause });
        assert_eq!(retries_at(&state.queues[&QueueId(1)]), Some(at(now + 3600)));
        // One more try, and only one.
        state.apply(at(now), &AllocRecord::QueueResumed { queue: QueueId(1), is_trial: true });
        assert_eq!(permit_of(&state, at(now)).0, 1);
        plan(&mut state, 11, 1);
        let end = AllocationEnd::Refused("down".into());
        state.apply(at(now), &AllocRecord::Ended { allocation: which(11), end, time: Default::default() });
        assert!(pause_cause(&state.queues[&QueueId(1)]).is_some());
    }

    fn ran(ends: &[WorkerEnd], lasted: u64) -> Allocation {
        let mut state = queue(QueueParams { backlog: 1, max_workers_per_alloc: 9, ..QueueParams::default() });
        plan(&mut state, 1, ends.len() as u32);
        for (worker, end) in (1..).zip(ends) {
            state.worker_joined(at(10), WorkerId(worker), which(1), &WorkerResources::default());
            state.worker_ended(at(10 + lasted), WorkerId(worker), which(1), *end, false);
        }
        state.allocation(which(1)).cloned().expect("it is there")
    }

    #[test]
    fn workers_that_left_in_order_tell_how_it_ended() {
        use WorkerEnd::*;
        for (ends, end) in [
            (&[IdleTimeout][..], Some(AllocationEnd::Finished)),
            (&[TimeLimit, TimeLimit], Some(AllocationEnd::TimedOut)),
            (&[ConnectionLost, IdleTimeout], None),
            (&[Interrupted], None),
            (&[HeartbeatLost], None),
        ] {
            assert_eq!(end_by_workers(&ran(ends, 100)), end, "{ends:?}");
        }
    }

    #[test]
    fn one_whose_workers_left_in_order_is_over_when_the_batch_system_says_so() {
        use WorkerEnd::*;
        let gone = || BatchState::Unknown("no such job".into());
        for (ends, state, end) in [
            (&[IdleTimeout][..], BatchState::Running, None),
            (&[IdleTimeout], BatchState::Queued, None),
            (&[IdleTimeout], BatchState::Finished, Some(AllocationEnd::Finished)),
            (&[TimeLimit], BatchState::Finished, Some(AllocationEnd::TimedOut)),
            (&[TimeLimit], BatchState::Failed("exit code 1".into()), Some(AllocationEnd::TimedOut)),
            // A task of it was too large, and its worker went on.
            (&[IdleTimeout], BatchState::OutOfMemory, Some(AllocationEnd::Finished)),
            (&[IdleTimeout], BatchState::TimedOut, Some(AllocationEnd::TimedOut)),
            (&[IdleTimeout], BatchState::Canceled, Some(AllocationEnd::Canceled)),
            (&[TimeLimit], gone(), Some(AllocationEnd::TimedOut)),
        ] {
            let one = ran(ends, 300);
            assert_eq!(end_by_state(&one, &state.clone().into(), true), end, "{state:?}");
            assert_eq!(may_return_until(&one), None);
        }
    }

    #[test]
    fn what_the_batch_system_says_counts_when_no_worker_is_there() {
        use WorkerEnd::*;
        let never = Allocation { workers: 1, ..Allocation::default() };
        let failed = || BatchState::Failed("exit code 3".into());
        let gone = || BatchState::Unknown("no such job".into());
        for (one, state, end) in [
            (ran(&[ConnectionLost], 30), failed(), Some(AllocationEnd::WorkersLost)),
            (ran(&[ConnectionLost], 300), failed(), Some(AllocationEnd::Failed("exit code 3".into()))),
            (ran(&[Interrupted], 300), BatchState::Preempted, Some(AllocationEnd::Preempted)),
            (ran(&[Interrupted], 300), BatchState::Queued, None),
            (ran(&[Interrupted], 300), failed(), Some(AllocationEnd::Finished)),
            (ran(&[HeartbeatLost], 300), BatchState::NodeFailed, Some(AllocationEnd::NodeFailed)),
            (ran(&[ConnectionLost], 300), gone(), Some(AllocationEnd::Finished)),
            (never.clone(), BatchState::Canceled, Some(AllocationEnd::Canceled)),
            (never.clone(), gone(), Some(AllocationEnd::Vanished("no such job".into()))),
            (never.clone(), BatchState::Held, None),
        ] {
            assert_eq!(end_by_state(&one, &state.clone().into(), true), end, "{state:?}");
        }
        assert_eq!(end_by_state(&never, &gone().into(), false), None);
        let silent = end_by_state(&never, &BatchState::Finished.into(), true).expect("it ended");
        assert!(silent.is_fault_of_queue());
        let said = Said { last_lines: Some("hq: no such file".into()), ..failed().into() };
        let failed = end_by_state(&never, &said, true).map(|end| end.to_string());
        let words = "failed: exit code 3; what it printed ends with `hq: no such file`";
        assert_eq!(failed.as_deref(), Some(words));
        let there = Allocation { connected: [WorkerId(1)].into(), joined: 1, ..never };
        assert_eq!(end_by_state(&there, &BatchState::Canceled.into(), true), None);
    }

    #[test]
    fn questions_get_rarer_as_long_as_nothing_is_new() {
        let mut interval = CHECK_INTERVAL.0;
        let mut asked = 0;
        let mut time = Duration::ZERO;
        while time < HOUR * 2 {
            time += interval;
            interval = next_interval(interval, false);
            asked += 1;
        }
        assert!(asked < 10, "{asked}");
        assert_eq!(next_interval(interval, true), CHECK_INTERVAL.0);
    }
}
