//! Queues and allocations: what is ordered of a batch system, and what becomes of it.

mod limits;
mod trust;
mod unwanted;

use hq_model::allocation::{BatchState, QueueParams};
use hq_model::worker::Manager;
use hq_model::{AllocationRef, QueueId};

use super::*;
use crate::alloc::messages::{AllocRequest, AllocResponse, QueueExplanation, QueueStatus};
use crate::alloc::{BatchOrder, BatchReport, Said};
use crate::client_messages::RequestError;

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn params() -> QueueParams {
    QueueParams {
        manager: "slurm".into(),
        backlog: 1,
        max_workers_per_alloc: 1,
        time_limit: HOUR,
        resources: config(4).resources.pools,
        ..QueueParams::default()
    }
}

fn first(number: u32) -> AllocationRef {
    AllocationRef::new(QueueId(1), number)
}

impl World {
    pub(super) fn alloc(&mut self, request: AllocRequest) -> ClientResponse {
        self.ask(ClientRequest::Alloc(request))
    }

    pub(super) fn queue(&mut self, params: QueueParams) {
        let request = AllocRequest::Add { params: Box::new(params), dry_run: false };
        assert!(matches!(self.alloc(request), ClientResponse::Alloc(AllocResponse::Added(_))));
        self.orders();
    }

    // A minute after so many tasks came to a queue, each worth a worker.
    fn asking(params: QueueParams, tasks: u32) -> World {
        let mut world = World::new();
        world.queue(params);
        world.submit(tasks, |spec| spec.expected = Some(HOUR / 2));
        world.wait(MINUTE);
        world
    }

    // Orders since the last call: `+1.1x2` submit, `-100` cancel, `?100,101` ask.
    fn orders(&mut self) -> String {
        let words = self.batch.drain(..).map(|order| match order {
            BatchOrder::Submit { allocation, workers, after, .. } => {
                format!(
                    "+{allocation}x{workers}{}",
                    after.map_or_else(String::new, |id| format!(" after {id}"))
                )
            }
            BatchOrder::Recover { allocation, .. } => format!("={allocation}"),
            BatchOrder::Cancel { allocations, .. } => {
                let ids: Vec<&str> = allocations.iter().map(|(_, id)| id.as_str()).collect();
                format!("-{}", ids.join(","))
            }
            BatchOrder::AskStates { jobs, .. } => {
                let ids: Vec<&str> = jobs.iter().map(|(id, _)| id.as_str()).collect();
                format!("?{}", ids.join(","))
            }
            BatchOrder::Try { ticket, .. } => format!("try {ticket}"),
            BatchOrder::AskShape { queue, .. } => format!("shape {queue}"),
            BatchOrder::Remove { .. } => "rm".into(),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn submitted(&mut self, number: u32) {
        let batch_id = format!("{}", 99 + number);
        self.step(Input::Batch(BatchReport::Submitted { allocation: first(number), batch_id }));
    }

    fn refused(&mut self, number: u32) {
        let report = BatchReport::Refused { allocation: first(number), error: "partition is down".into() };
        self.step(Input::Batch(report));
    }

    fn states_are(&mut self, states: &[(u32, BatchState)]) {
        let states =
            states.iter().map(|(number, state)| (format!("{}", 99 + number), state.clone().into())).collect();
        self.step(Input::Batch(BatchReport::States { manager: "slurm".into(), states: Ok(states) }));
    }

    fn worker_of(&mut self, connection: u64, number: u32) {
        self.worker_with(connection, format!("{}", 99 + number), Some(first(number)));
    }

    fn worker_with(&mut self, connection: u64, batch_id: String, origin: Option<AllocationRef>) {
        let config = WorkerConfig { allocation: Some((Manager::Slurm, batch_id)), origin, ..config(4) };
        let (started, known_as) = (self.now, None);
        let hello = WorkerHello {
            config,
            started,
            age: None,
            known_as,
            secret: None,
            holds: Vec::new(),
            last_report: 0,
            follows: true,
            follows_calls: false,
            shows: true,
            stores: true,
            relays: false,
            objects: Vec::new(),
        };
        self.says(connection, FromWorker::Hello(Box::new(hello)));
    }

    // The batch system takes an allocation and starts it at once.
    fn comes(&mut self, number: u32, connection: u64) {
        self.submitted(number);
        self.worker_of(connection, number);
    }

    fn is_said(&mut self, number: u32, said: Said) {
        let states = Ok(vec![(format!("{}", 99 + number), said)]);
        self.step(Input::Batch(BatchReport::States { manager: "slurm".into(), states }));
    }

    // `1.1 queued`, for each allocation.
    fn allocations(&mut self) -> String {
        let request = AllocRequest::Info { queue: QueueId(1) };
        let ClientResponse::Alloc(AllocResponse::Details { allocations, .. }) = self.alloc(request) else {
            panic!("details")
        };
        let shown = allocations.iter().map(|one| match &one.detail {
            Some(detail) => format!("{} {} ({detail})", one.allocation, one.state),
            None => format!("{} {}", one.allocation, one.state),
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    fn explained(&mut self) -> QueueExplanation {
        match self.alloc(AllocRequest::Explain { queue: QueueId(1) }) {
            ClientResponse::Alloc(AllocResponse::Explained(explanation)) => *explanation,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_allocation_comes_runs_and_vanishes() {
    let mut world = World::new();
    world.queue(params());
    assert_eq!(world.orders(), "", "nothing waits");
    let job = world.submit(6, |_| {});
    world.wait(MINUTE);
    assert_eq!(world.orders(), "+1.1x1", "the backlog is one");
    assert_eq!(world.allocations(), "1.1 queued (is being submitted)");
    world.submitted(1);
    assert_eq!(world.allocations(), "1.1 queued");
    world.worker_of(2, 1);
    assert_eq!(world.allocations(), "1.1 running");
    assert_eq!(world.sent(2), "1:0-5/0");
    world.reports(2, |r| r.finished = vec![finished(job, 0, 5, 0)]);
    world.wait(MINUTE);
    world.says(2, FromWorker::Leaving { end: WorkerEnd::IdleTimeout });
    world.wait(MINUTE / 60);
    assert_eq!(world.allocations(), "1.1 running (all its workers have left)");
    world.wait(MINUTE);
    assert_eq!(world.orders(), "?100", "its batch job may still do something");
    world.states_are(&[(1, BatchState::Finished)]);
    assert_eq!(world.allocations(), "1.1 finished");
    let ClientResponse::Alloc(AllocResponse::Queues(queues)) = world.alloc(AllocRequest::List) else {
        panic!("a list")
    };
    assert_eq!(queues[0].counts, [0, 0, 1, 0]);
    assert_eq!(queues[0].time.asked_us, 3_600_000_000);
    assert!(queues[0].time.idle_us > 50_000_000, "{:?}", queues[0].time);
}

#[test]
fn a_worker_that_somebody_else_started_in_an_allocation_belongs_to_it() {
    let mut world = World::asking(params(), 40);
    assert_eq!(world.orders(), "+1.1x1");
    world.submitted(1);
    world.worker_with(50, "7".into(), None);
    assert_eq!(world.allocations(), "1.1 queued", "another batch job is none of ours");
    world.worker_with(51, "100".into(), None);
    assert_eq!(world.allocations(), "1.1 running");
    let remove = AllocRequest::Remove { queue: QueueId(1), force: false };
    assert!(matches!(world.alloc(remove), ClientResponse::Error(_)), "it is in use");
}

#[test]
fn more_is_asked_for_while_tasks_wait() {
    let mut world = World::asking(QueueParams { backlog: 2, max_worker_count: Some(3), ..params() }, 1000);
    assert_eq!(world.orders(), "+1.1x1");
    world.submitted(1);
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "+1.2x1", "one after the other");
    world.submitted(2);
    world.worker_of(2, 1);
    world.wait(MINUTE);
    assert_eq!(world.orders(), "?100,101 +1.3x1", "one more up to the limit");
    world.submitted(3);
    world.worker_of(3, 2);
    world.wait(MINUTE);
    assert_eq!(world.orders(), "");
    assert_eq!(
        world.explained().next,
        "it asks for nothing: 3 workers are there or to come, of at most 3 (max worker count)"
    );
}

#[test]
fn a_refused_submission_is_tried_again_after_a_while() {
    let mut world = World::asking(params(), 1);
    assert_eq!(world.orders(), "+1.1x1");
    world.refused(1);
    assert_eq!(world.allocations(), "1.1 failed (not accepted: partition is down)");
    world.wait(MINUTE / 2);
    assert_eq!(world.orders(), "");
    let next = world.explained().next;
    assert!(
        next.starts_with(
            "it asks for nothing: the last submission failed (not accepted: partition is down); the next one is at "
        ),
        "{next}"
    );
    world.wait(MINUTE);
    assert!(world.orders().contains("+1.2x1"));
    world.submitted(2);
    assert_eq!(world.allocations(), "1.1 failed (not accepted: partition is down), 1.2 queued");
}

#[test]
fn allocations_that_fail_pause_the_queue_and_it_tries_again() {
    let mut world = World::new();
    world.queue(params());
    world.submit(1, |_| {});
    for number in 1..=3 {
        world.wait(MINUTE);
        assert_eq!(world.orders(), format!("+1.{number}x1"));
        world.submitted(number);
        world.wait(MINUTE * 2);
        assert_eq!(world.orders(), format!("?{}", 99 + number));
        world.states_are(&[(number, BatchState::Failed("exit status 127".into()))]);
    }
    world.wait(MINUTE);
    assert_eq!(world.orders(), "");
    let explained = world.explained();
    let QueueStatus::Paused(_, why) = &explained.queue.status else { panic!("{:?}", explained.queue.status) };
    assert_eq!(why, "3 allocations in a row failed, the last one: failed: exit status 127");
    world.wait(HOUR);
    world.wait(MINUTE);
    assert_eq!(world.orders(), "+1.4x1", "one more try");
    world.submitted(4);
    world.wait(MINUTE * 2);
    world.states_are(&[(4, BatchState::Failed("exit status 127".into()))]);
    world.wait(MINUTE);
    world.orders();
    assert!(matches!(world.explained().queue.status, QueueStatus::Paused(..)));
    // The user has repaired it.
    assert_eq!(world.alloc(AllocRequest::Resume { queue: QueueId(1) }), ClientResponse::Done);
    world.wait(MINUTE);
    assert_eq!(world.orders(), "+1.5x1");
}

#[test]
fn a_failing_queue_does_not_stop_another_one() {
    let mut world = World::new();
    world.queue(params());
    world.queue(QueueParams { manager: "pbs".into(), ..params() });
    world.submit(1, |_| {});
    world.wait(MINUTE);
    assert_eq!(world.orders(), "+1.1x1");
    world.refused(1);
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "+2.1x1");
}

#[test]
fn after_a_restart_nothing_is_submitted_twice_and_nothing_forgotten() {
    let mut world = World::asking(QueueParams { backlog: 2, ..params() }, 8);
    assert_eq!(world.orders(), "+1.1x1");
    world.submitted(1);
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "+1.2x1");
    world.restart();
    assert_eq!(world.orders(), "=1.2 shape 1", "what became of the second one?");
    world.wait(MINUTE);
    assert_eq!(world.orders(), "?100");
    world.states_are(&[(1, BatchState::Queued)]);
    let error = "the server ended while it was being submitted".into();
    world.step(Input::Batch(BatchReport::Unclear { allocation: first(2), error }));
    world.wait(MINUTE);
    assert_eq!(world.orders(), "=1.2", "it may wait in the batch system, and takes its part of the backlog");
    assert_eq!(
        world.allocations(),
        "1.1 queued, 1.2 queued (it is not known whether the batch system took it)"
    );
    // It did: its worker comes, and says its id.
    world.worker_of(2, 2);
    assert_eq!(world.allocations(), "1.1 queued, 1.2 running");
    world.restart();
    assert_eq!(world.orders(), "");
    world.wait(MINUTE);
    assert_eq!(world.orders(), "?100,101");
}

#[test]
fn a_submission_that_nobody_answers_is_given_up_and_believed_when_it_shows() {
    let mut world = World::asking(params(), 1);
    let error = "sbatch did not answer within 30s".into();
    world.step(Input::Batch(BatchReport::Unclear { allocation: first(1), error }));
    world.wait(MINUTE * 9);
    assert_eq!(world.orders(), "+1.1x1 =1.1", "it is looked for");
    world.wait(MINUTE * 2);
    world.wait(MINUTE * 2);
    assert!(world.orders().contains("+1.2x1"));
    world.worker_of(2, 1);
    assert!(world.allocations().starts_with("1.1 running"), "{}", world.allocations());
}

#[test]
fn a_submission_that_never_happened_is_told_from_one_that_did() {
    let mut world = World::asking(params(), 1);
    world.restart();
    assert_eq!(world.orders(), "+1.1x1 =1.1 shape 1");
    world.step(Input::Batch(BatchReport::NotFound { allocation: first(1) }));
    world.wait(MINUTE);
    assert_eq!(world.orders(), "=1.1", "it was perhaps on its way");
    world.step(Input::Batch(BatchReport::NotFound { allocation: first(1) }));
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "+1.2x1", "at once: this is no failure");
}

#[test]
fn a_preempted_allocation_waits_again_and_is_no_failure() {
    let mut world = World::asking(params(), 1);
    world.comes(1, 2);
    world.says(2, FromWorker::Leaving { end: WorkerEnd::Interrupted });
    world.orders();
    world.wait(MINUTE);
    assert_eq!(world.orders(), "?100", "the batch system knows why");
    world.states_are(&[(1, BatchState::Queued)]);
    assert_eq!(world.allocations(), "1.1 queued");
    world.wait(MINUTE / 30);
    assert_eq!(world.orders(), "", "it comes back");
    world.worker_of(3, 1);
    assert_eq!(world.allocations(), "1.1 running");
    world.says(3, FromWorker::Leaving { end: WorkerEnd::Interrupted });
    world.wait(MINUTE * 2);
    world.orders();
    world.states_are(&[(1, BatchState::Preempted)]);
    assert!(world.allocations().starts_with("1.1 finished (preempted)"), "{}", world.allocations());
    assert_eq!(world.fold.alloc.queues[&QueueId(1)].allocation_failures, 0);
}

#[test]
fn workers_lost_at_once_are_a_failure_and_wall_time_is_none() {
    let mut world = World::asking(params(), 1);
    world.comes(1, 2);
    world.wait(MINUTE / 2);
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    world.wait(MINUTE / 2 + MINUTE / 60);
    world.wait(MINUTE);
    assert!(world.orders().contains("?100"));
    // The connection was lost 31 seconds after the start.
    world.states_are(&[(1, BatchState::Failed("exit status 1".into()))]);
    world.wait(MINUTE);
    assert!(world.allocations().contains("failed"), "{}", world.allocations());
    world.comes(2, 3);
    world.says(3, FromWorker::Leaving { end: WorkerEnd::TimeLimit });
    world.wait(MINUTE);
    world.states_are(&[(2, BatchState::Finished)]);
    assert!(world.allocations().contains("1.2 finished (its time was over)"), "{}", world.allocations());
}

#[test]
fn what_the_batch_system_does_not_know_is_canceled_all_the_same_and_ours_when_it_shows() {
    let mut world = World::asking(params(), 1);
    world.submitted(1);
    world.orders();
    for _ in 0..2 {
        world.wait(MINUTE * 5);
        assert_eq!(world.orders(), "?100");
        assert!(world.allocations().starts_with("1.1 queued"), "once is not enough");
        world.states_are(&[]);
    }
    let words = "its end is not known: the batch system does not know it";
    assert!(world.allocations().starts_with(&format!("1.1 failed ({words})")), "{}", world.allocations());
    assert!(world.orders().starts_with("-100"), "it does not start later, unseen");
    // The batch system was away then, too.
    world.worker_of(2, 1);
    assert!(world.allocations().starts_with("1.1 running"), "{}", world.allocations());
}

#[test]
fn reasons_of_the_batch_system_are_repeated() {
    let mut world = World::asking(params(), 1);
    world.submitted(1);
    world.wait(MINUTE);
    world.orders();
    let reason = Some("PartitionDown".to_owned());
    world.is_said(1, Said { reason, ..BatchState::Queued.into() });
    assert_eq!(world.allocations(), "1.1 queued (waits: PartitionDown)");
    let facts = world.explained().facts.join("\n");
    assert!(
        facts.contains("the batch system lets wait, said at ") && facts.contains(": PartitionDown"),
        "{facts}"
    );
    // Who asks why makes the server ask, too, every ten seconds at most.
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "");
    world.wait(MINUTE / 6);
    assert_eq!(world.orders(), "?100");
    world.is_said(1, BatchState::Held.into());
    assert_eq!(world.allocations(), "1.1 queued (held in the batch system)");
}

#[test]
fn the_last_lines_of_what_failed_are_in_the_reasons_of_a_pause() {
    let mut world = World::asking(params(), 1);
    for number in 1..=3 {
        world.submitted(number);
        world.wait(MINUTE * 2);
        let last_lines = Some("hq: command not found".to_owned());
        world.is_said(number, Said { last_lines, ..BatchState::Failed("NonZeroExitCode".into()).into() });
        world.wait(MINUTE);
    }
    let why = "failed: NonZeroExitCode; what it printed ends with `hq: command not found`";
    assert!(world.allocations().ends_with(&format!("1.3 failed ({why})")), "{}", world.allocations());
    let explained = world.explained();
    assert!(explained.next.contains(why), "{}", explained.next);
    assert!(explained.decisions.iter().any(|one| one.text.contains(why)));
}

#[test]
fn an_allocation_that_nobody_needs_any_more_is_canceled_while_it_waits() {
    let cancel =
        || ClientRequest::Cancel { jobs: hq_model::selector::Selector::All, tasks: None, reason: None };
    for keep_waiting in [false, true] {
        let mut world = World::asking(QueueParams { keep_waiting, ..params() }, 1);
        world.submitted(1);
        world.orders();
        world.ask(cancel());
        world.wait(MINUTE / 60);
        world.wait(MINUTE * 4);
        // Somebody needs it again.
        world.submit(1, |_| {});
        world.wait(MINUTE);
        world.ask(cancel());
        world.wait(MINUTE / 60);
        world.wait(MINUTE * 4);
        let orders = world.orders();
        assert!(!orders.contains("-1"), "its place in the queue may be worth much: {orders}");
        world.wait(MINUTE * 2);
        assert_eq!(world.orders().contains("-100"), !keep_waiting);
    }
}

#[test]
fn a_worker_that_was_stopped_while_it_was_away_counts_until_its_allocation_is_over() {
    let limited = QueueParams { max_worker_count: Some(1), ..params() };
    let mut world = World::asking(limited, 9);
    world.comes(1, 2);
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    let workers = hq_model::selector::Selector::All;
    let stopped = world.ask(ClientRequest::StopWorkers { workers, drain: false });
    assert!(matches!(stopped, ClientResponse::WorkersStopped { away, .. } if away.len() == 1));
    world.orders();
    world.wait(MINUTE);
    assert_eq!(world.orders(), "?100", "its node is occupied: only the batch system can say that it is not");
    world.states_are(&[(1, BatchState::Running)]);
    world.wait(MINUTE);
    assert!(!world.orders().contains('+'));
    world.states_are(&[(1, BatchState::Finished)]);
    world.wait(MINUTE);
    assert!(world.orders().contains("+1.2x1"));
    assert_eq!(world.allocations(), "1.1 finished, 1.2 queued (is being submitted)");
    assert_eq!(world.fold.alloc.queues[&QueueId(1)].allocation_failures, 0, "stopping is no failure");
}

#[test]
fn a_queue_is_removed_with_what_waits_and_with_force_with_what_runs() {
    let mut world = World::asking(params(), 1);
    world.comes(1, 2);
    world.orders();
    let remove = |force| AllocRequest::Remove { queue: QueueId(1), force };
    assert_eq!(world.alloc(remove(false)), ClientResponse::Error(RequestError::QueueBusy));
    assert_eq!(world.alloc(remove(true)), ClientResponse::Done);
    assert_eq!(world.orders(), "-100");
    let gone = ClientResponse::Error(RequestError::NoQueue(QueueId(1)));
    assert_eq!(world.alloc(AllocRequest::Pause { queue: QueueId(1) }), gone);
    // Slurm does not answer, and the server is restarted: it is not forgotten.
    world.restart();
    world.wait(MINUTE);
    assert_eq!(world.orders(), "-100 ?100");
    world.step(Input::Batch(BatchReport::Canceled {
        allocations: vec![first(1)],
        result: Err("down".into()),
    }));
    world.wait(MINUTE * 2);
    assert!(world.orders().starts_with("-100"));
    world.step(Input::Batch(BatchReport::Canceled { allocations: vec![first(1)], result: Ok(()) }));
    assert!(world.fold.alloc.queues.is_empty());
}

#[test]
fn stopping_the_server_cancels_allocations_first() {
    let mut world = World::asking(params(), 1);
    assert_eq!(world.orders(), "+1.1x1");
    let stop = Input::Client { connection: CLIENT, request: 1, body: ClientRequest::StopServer };
    assert_eq!(world.step(stop), [], "it is on its way to the batch system");
    world.submitted(1);
    assert_eq!(world.orders(), "-100");
    let canceled = BatchReport::Canceled { allocations: vec![first(1)], result: Ok(()) };
    assert_eq!(world.step(Input::Batch(canceled)), [ClientResponse::Done]);
}

#[test]
fn allocations_that_are_kept_wait_for_the_next_server() {
    let mut world = World::with(ServerOptions { keep_allocations: true, ..ServerOptions::default() });
    world.queue(params());
    let job = world.submit(1, |_| {});
    world.wait(MINUTE);
    world.comes(1, 2);
    world.orders();
    world.reports(2, |report| report.started.push(started(job, 0, 0)));
    world.worker(3, 4);
    world.sent(2);
    let stop = Input::Client { connection: CLIENT, request: 1, body: ClientRequest::StopServer };
    world.step(stop);
    assert_eq!(world.orders(), "", "nothing is canceled");
    assert_eq!(
        (world.sent(2), world.sent(3)),
        (String::new(), "stop".into()),
        "its worker is not told to end"
    );
    let left = Input::Worker {
        connection: ConnectionId(3),
        message: FromWorker::Leaving { end: WorkerEnd::Stopped },
    };
    assert_eq!(world.step(left), [ClientResponse::Done], "and it is not waited for");
    world.restart();
    world.wait(MINUTE);
    assert_eq!(world.orders(), "?100");
}

#[test]
fn a_queue_is_made_only_when_the_batch_system_takes_it() {
    let mut world = World::new();
    let request = |world: &mut World| {
        let body = ClientRequest::Alloc(AllocRequest::Add { params: Box::new(params()), dry_run: true });
        world.step(Input::Client { connection: CLIENT, request: 1, body })
    };
    assert_eq!(request(&mut world), []);
    assert_eq!(world.orders(), "try 1");
    let error = "invalid partition specified: nope".to_owned();
    let report = BatchReport::Tried { ticket: 1, result: Err(error.clone()) };
    assert_eq!(world.step(Input::Batch(report)), [ClientResponse::Error(RequestError::Batch(error))]);
    assert_eq!(request(&mut world), []);
    let report = BatchReport::Tried { ticket: 2, result: Ok(Some(config(8).resources)) };
    let added = ClientResponse::Alloc(AllocResponse::Added(QueueId(1)));
    assert_eq!(world.step(Input::Batch(report)), [added]);
    // Who has left wants no queue.
    assert_eq!(request(&mut world), []);
    world.step(Input::ClientGone { connection: CLIENT });
    assert_eq!(world.step(Input::Batch(BatchReport::Tried { ticket: 3, result: Ok(None) })), []);
    assert_eq!(world.fold.alloc.queues.len(), 1);
}

#[test]
fn one_worker_is_asked_for_until_it_is_known_what_workers_offer() {
    let mut world = World::asking(QueueParams { backlog: 4, resources: Vec::new(), ..params() }, 1000);
    assert_eq!(world.orders(), "+1.1x1");
    world.comes(1, 2);
    for number in 2..=5 {
        world.wait(MINUTE / 60);
        assert_eq!(world.orders(), format!("+1.{number}x1"));
        world.submitted(number);
    }
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "");
}

#[test]
fn a_chain_is_never_longer_than_asked_for_and_waits_for_its_turn() {
    let mut world = World::asking(QueueParams { chain: true, max_worker_count: Some(1), ..params() }, 100);
    assert_eq!(world.orders(), "+1.1x1");
    world.comes(1, 2);
    world.wait(MINUTE);
    assert_eq!(world.orders(), "+1.2x1 after 100");
    world.submitted(2);
    assert_eq!(world.allocations(), "1.1 running, 1.2 queued (starts when 1.1 ends)");
    world.wait(MINUTE);
    assert_eq!(world.orders(), "");
}

#[test]
fn tasks_too_long_for_a_queue_are_said_to_be() {
    let mut world = World::new();
    world.queue(params());
    world.submit(1, |spec| spec.requests[0].time_request = HOUR + MINUTE);
    world.wait(MINUTE);
    assert_eq!(world.orders(), "");
    let explained = world.explained();
    assert_eq!(
        explained.demand[0].why_not.as_deref(),
        Some("a worker of this queue takes tasks for 1h, the tasks ask for 1h 1m")
    );
}

#[test]
fn tasks_may_ask_for_all_the_time_of_a_queue() {
    let mut world = World::new();
    world.queue(QueueParams { time_limit: MINUTE * 10, ..params() });
    let job = world.submit(1, |spec| spec.requests[0].time_request = MINUTE * 10);
    world.wait(MINUTE);
    assert_eq!(world.orders(), "+1.1x1");
    world.submitted(1);
    world.worker_saying(2, 4, |hello| {
        hello.config.origin = Some(first(1));
        hello.config.allocation = Some((Manager::Slurm, "101".into()));
        hello.config.time_limit = Some(MINUTE * 10);
        hello.config.time_reserve = MINUTE / 2;
    });
    assert_eq!(world.sent(2), "1:0/0");
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    world.wait(MINUTE);
    assert_eq!(world.orders(), "", "nothing more is needed");
}

#[test]
fn paused_drained_and_edited_queues_do_what_they_are_told() {
    let mut world = World::new();
    world.queue(params());
    assert_eq!(world.alloc(AllocRequest::Pause { queue: QueueId(1) }), ClientResponse::Done);
    world.submit(100, |spec| spec.expected = Some(HOUR / 2));
    world.wait(MINUTE);
    assert_eq!(world.orders(), "");
    let next = world.explained().next;
    assert_eq!(next, "it asks for nothing: paused by a user; `hq alloc resume` ends that");
    world.alloc(AllocRequest::Resume { queue: QueueId(1) });
    world.wait(MINUTE);
    assert_eq!(world.orders(), "+1.1x1");
    world.submitted(1);
    let edited = Box::new(QueueParams { backlog: 3, ..params() });
    world.alloc(AllocRequest::Edit { queue: QueueId(1), params: edited, dry_run: false });
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "shape 1 +1.2x1");
    world.submitted(2);
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "+1.3x1");
    world.alloc(AllocRequest::Drain { queue: QueueId(1) });
    world.submitted(3);
    world.worker_of(2, 1);
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "");
    let found = world.alloc(AllocRequest::Find { id: "101".into() });
    assert!(matches!(found, ClientResponse::Alloc(AllocResponse::Found(one)) if one.allocation == first(2)));
    let missing = world.alloc(AllocRequest::Find { id: "7".into() });
    assert_eq!(missing, ClientResponse::Error(RequestError::NoAllocation("7".into())));
}
