//! The deciding thread: feeds the server machine with what has come in, and sends its effects where
//! they belong. It touches no socket, and of files only the log and, at the end, the access file.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hq_core::alloc::BatchOrder;
use hq_core::client_messages::{ClientResponse, RequestError};
use hq_core::never;
use hq_core::record::Record;
use hq_core::server::{ConnectionId, Effect, Gate, Input, JournalOrder, Server};
use hq_core::worker_messages::ToWorker;
use hq_model::{JobId, Notice, Timestamp};
use tracing::{error, info, warn};

use crate::acks::Acks;
use crate::batch::Batch;
use crate::clock::Clock;
use crate::events::Reply;
use crate::files::Files;
use crate::inbox::{Entry, Event, Inbox, Room};
use crate::journal_thread::queue::{JournalQueue, Step};
use crate::limits::{self, ANSWERS_AT_ONCE, CLIENTS_BYTES_MAX, STALL_MIN};
use crate::logs::Logs;
use crate::memory;
use crate::memory_size;
use crate::notices::Notices;
use crate::object_relay::ObjectRelay;
use crate::outbox::{Message, Outbox};
use crate::planner::Planner;
use crate::throttle::Throttle;

/// Shortest sleep, so that a time that has just come is not waited for in circles.
const NAP: Duration = Duration::from_millis(1);

/// Warnings of one submit that the log has.
const WARNINGS_LOGGED: usize = 3;

/// The deciding thread's work.
pub(crate) struct Decider {
    machine: Server,
    clock: Clock,
    inbox: Arc<Inbox>,
    router: Router,
    /// Run once, before the last answers leave.
    before_end: Box<dyn FnOnce() + Send>,
}

/// Where effects go.
pub(crate) struct Router {
    connections: HashMap<ConnectionId, Arc<Outbox>>,
    /// `None` without a journal: then every gate is open.
    journal_queue: Option<Arc<JournalQueue>>,
    /// Records handed to the journal so far.
    records: u64,
    batch: Arc<Batch>,
    steps: Vec<Step>,
    steps_bytes: usize,
    acks: Acks,
    /// Answers that leave at the end of a turn.
    answers: Vec<(Arc<Outbox>, Message)>,
    planner: Planner,
    files: Files,
    logs: Logs,
    notices: Arc<Notices>,
    relay: Arc<ObjectRelay>,
    /// Bytes that wait to be sent to clients.
    clients_bytes: Arc<AtomicUsize>,
    /// Of what clients were warned of.
    warnings: Throttle,
    /// Connections have ended since memory was given back for such.
    has_closed: bool,
}

impl Decider {
    /// A decider for a machine that is restored but not started. `before_end` is run once, before the
    /// answer to whoever asked the server to end leaves.
    pub(crate) fn new(
        machine: Server,
        clock: Clock,
        inbox: Arc<Inbox>,
        router: Router,
        before_end: Box<dyn FnOnce() + Send>,
    ) -> Self {
        Decider { machine, clock, inbox, router, before_end }
    }

    /// Starts the machine under this name and works until it wants to end, or something is broken.
    /// Then the journal is told to end, too. Gives the connections that are left.
    pub(crate) fn run(mut self, uid: String) -> Vec<Arc<Outbox>> {
        never::tell_by(|never| {
            let (number, place) = (never.number, never.place);
            error!(number, place, "this can never happen, please report it: {}", never.text);
        });
        let mut effects = Vec::new();
        let mut entries = Vec::new();
        let start = self.clock.at(Instant::now());
        self.machine.start(start, uid, &mut effects);
        self.machine.settle(start, &mut effects);
        self.router.route(&mut effects);
        let mut is_over = false;
        let (mut held, mut waiting) = (memory::HighWater::default(), memory::HighWater::default());
        while !is_over {
            let wakeup = self.machine.next_wakeup().map(|time| self.clock.when(time));
            let deadline = wakeup.into_iter().chain(self.router.acks.due()).min();
            let deadline = deadline.map(|at| at.max(Instant::now() + NAP));
            let slept = Instant::now();
            self.inbox.take(&mut entries, deadline);
            let woken = Instant::now();
            // Woken late by far: the process, or the machine it runs on, stood still.
            if deadline.is_some_and(|deadline| woken > deadline + STALL_MIN) {
                self.clock.missed(woken - slept, woken);
            }
            is_over = self.turn(&mut entries, &mut effects);
            let due = self.router.acks.take_due(woken);
            self.router.acknowledge(due);
            limits::trim(&mut entries);
            if !is_over {
                limits::trim(&mut effects);
            }
            let is_forgotten = held.is_far_less(self.machine.state().submits_bytes);
            if is_forgotten || self.router.have_readers_left(&mut waiting) {
                memory::give_back();
                self.router.give_back();
            }
            let done = Instant::now();
            if done - woken > STALL_MIN {
                self.clock.missed(done - woken, done);
            }
        }
        (self.before_end)();
        self.router.route(&mut effects);
        self.router.end();
        self.router.connections.into_values().collect()
    }

    // Handles what has come in. True when it is time to end; the last effects are then left.
    fn turn(&mut self, entries: &mut Vec<Entry>, effects: &mut Vec<Effect>) -> bool {
        let mut room = Room::none();
        let mut is_broken = false;
        let mut answers_bytes = 0;
        let has_input = !entries.is_empty();
        for entry in entries.drain(..) {
            let (at, event, taken) = entry.into_parts();
            room.add(taken);
            let now = self.clock.at(at);
            match event {
                Event::Opened(connection, outbox) => self.router.open(connection, outbox),
                Event::Input(input) => {
                    let before = effects.len();
                    self.handle(now, *input, effects);
                    answers_bytes += effects[before..].iter().map(answer_bytes).sum::<usize>();
                }
                Event::Broken => is_broken = true,
            }
            if answers_bytes > ANSWERS_AT_ONCE && !effects.contains(&Effect::Exit) {
                // Many large answers are not held together.
                self.router.route(effects);
                answers_bytes = 0;
            }
        }
        let now = self.clock.at(Instant::now());
        if !has_input {
            self.machine.handle(now, Input::Tick, effects);
        }
        self.machine.settle(now, effects);
        let is_over = is_broken || effects.contains(&Effect::Exit);
        if !is_over {
            self.router.route(effects);
        }
        self.inbox.give_back(room);
        is_over
    }

    fn handle(&mut self, now: Timestamp, input: Input, effects: &mut Vec<Effect>) {
        if let Input::ClientGone { connection } | Input::WorkerGone { connection, .. } = &input {
            self.router.close(*connection);
        }
        self.machine.handle(now, input, effects);
    }
}

fn answer_bytes(effect: &Effect) -> usize {
    match effect {
        Effect::Answer { body, .. } => memory_size::of_response(body),
        _ => 0,
    }
}

impl Router {
    /// A router without connections. `clients_bytes` counts what waits to be sent to clients.
    pub(crate) fn new(
        journal_queue: Option<Arc<JournalQueue>>,
        batch: Arc<Batch>,
        (planner, files, logs, notices): (Planner, Files, Logs, Arc<Notices>),
        relay: Arc<ObjectRelay>,
        clients_bytes: Arc<AtomicUsize>,
    ) -> Router {
        Router {
            connections: HashMap::new(),
            journal_queue,
            records: 0,
            batch,
            steps: Vec::new(),
            steps_bytes: 0,
            acks: Acks::default(),
            answers: Vec::new(),
            planner,
            files,
            logs,
            notices,
            relay,
            clients_bytes,
            warnings: Throttle::default(),
            has_closed: false,
        }
    }

    /// A connection is there.
    pub(crate) fn open(&mut self, connection: ConnectionId, outbox: Arc<Outbox>) {
        self.connections.insert(connection, outbox);
    }

    /// A connection is gone: what is still meant for it is dropped.
    pub(crate) fn close(&mut self, connection: ConnectionId) {
        self.acks.take(connection);
        self.connections.remove(&connection);
        self.has_closed = true;
    }

    /// True when connections have ended for which much was waiting: events for those that follow what happens, most often.
    /// While they stay, what waits becomes less and more again all the time, and nothing is worth giving back.
    fn have_readers_left(&mut self, waiting: &mut memory::HighWater) -> bool {
        let bytes = self.clients_bytes.load(Ordering::Relaxed);
        waiting.sees(bytes);
        let have_left = self.has_closed && waiting.is_far_less(bytes);
        self.has_closed &= bytes > 0 && !have_left;
        have_left
    }

    /// Sends effects where they belong, in order; answers to clients after what workers are told, which have work to do.
    pub(crate) fn route(&mut self, effects: &mut Vec<Effect>) {
        for effect in effects.drain(..) {
            match effect {
                Effect::Persist { at, record } => self.persist(at, record),
                Effect::Answer { connection, request, mut body, gate } => {
                    self.relieve();
                    match &mut body {
                        ClientResponse::ServerInfo(info) => {
                            info.internal_errors = never::count();
                            info.relayed = self.relay.counts();
                        }
                        ClientResponse::Overview(overview) => {
                            let saved =
                                self.journal_queue.as_ref().map_or(self.records, |queue| queue.synced());
                            overview.process.relayed = self.relay.counts().unwrap_or_default();
                            overview.process.journal_records = self.records;
                            overview.process.journal_pending = self.records.saturating_sub(saved);
                        }
                        ClientResponse::Submitted { job, warnings, .. } => self.note_warnings(*job, warnings),
                        ClientResponse::JobsSubmitted { jobs, warnings } => {
                            self.note_warnings(jobs.first().copied().unwrap_or_default(), warnings);
                        }
                        _ => {}
                    }
                    let message = Message::Answer(request, body);
                    if let Some((outbox, message)) = self.send_or_hold(connection, message, gate) {
                        self.answers.push((outbox, message));
                    }
                }
                Effect::ToWorker { connection, message: ToWorker::Saved { report }, gate: _ }
                    if self.may_wait(connection) =>
                {
                    self.acks.hold(connection, report, Instant::now());
                }
                Effect::ToWorker { connection, message, gate } => {
                    self.send(connection, Message::Worker(message), gate);
                    let ack = self.acks.take(connection).map(|ack| (connection, ack));
                    self.acknowledge(ack);
                }
                Effect::Close { connection } => {
                    self.send_answers();
                    let ack = self.acks.take(connection).map(|ack| (connection, ack));
                    self.acknowledge(ack);
                    self.send(connection, Message::Close, Gate::Open);
                    self.connections.remove(&connection);
                }
                Effect::WorkerJoined { connection, worker, unproven } => {
                    if let Some(outbox) = self.connections.get(&connection) {
                        info!(%worker, peer = outbox.peer(), "worker joined");
                        if let Some(claimed) = unproven {
                            let peer = outbox.peer();
                            warn!(%worker, %claimed, peer, "a worker cannot show that it is the one it says: it counts as a new one");
                        }
                    }
                }
                Effect::Journal { connection, request, order } => self.order(connection, request, order),
                Effect::Batch { order, gate } => self.batch(order, gate),
                Effect::Notify { notice } => self.notify(notice),
                Effect::WatchFiles { paths } => self.files.watch(paths),
                Effect::Log { connection, batch, parts } => {
                    if let Some(outbox) = self.connections.get(&connection) {
                        self.logs.write(outbox.clone(), batch, parts);
                    }
                }
                Effect::Plan { number, snapshot } => self.planner.plan(number, snapshot),
                Effect::NotRelayed { ticket, reason } => self.relay.refuse(ticket, reason),
                Effect::Exit => {}
            }
        }
        self.send_answers();
        if let Some(journal_queue) = self.journal_queue.as_ref().filter(|_| !self.steps.is_empty()) {
            journal_queue.push(&mut self.steps, self.steps_bytes);
            self.steps_bytes = 0;
            limits::trim(&mut self.steps);
        }
    }

    /// Nothing comes any more: the journal saves what it has, within bounds, and ends.
    pub(crate) fn end(&mut self) {
        let acks = self.acks.take_all();
        self.acknowledge(acks);
        if let Some(journal_queue) = &self.journal_queue {
            journal_queue.end();
        }
    }

    // What was just forgotten may still be on its way to the journal.
    fn give_back(&mut self) {
        if let Some(journal_queue) = &self.journal_queue {
            journal_queue.push(&mut vec![Step::GiveBack], 0);
        }
    }

    // Who submits may not see it.
    fn note_warnings(&mut self, job: JobId, warnings: &[String]) {
        if warnings.is_empty() {
            return;
        }
        if let Some(others) = self.warnings.may_say(Instant::now()) {
            for warning in warnings.iter().take(WARNINGS_LOGGED) {
                warn!(%job, others, "{warning}");
            }
        }
    }

    fn persist(&mut self, at: Timestamp, record: Record) {
        if let Record::WorkerEnded { worker, end, .. } = &record {
            info!(%worker, ?end, "worker gone");
        }
        if self.journal_queue.is_some() {
            self.records += 1;
            self.steps_bytes += memory_size::of_record(&record);
            self.steps.push(Step::Record(at, Box::new(record)));
        }
    }

    fn order(&mut self, connection: ConnectionId, request: u64, order: JournalOrder) {
        let Some(outbox) = self.connections.get(&connection) else { return };
        let reply = Reply { outbox: outbox.clone(), request };
        match (&self.journal_queue, order) {
            (Some(_), order) => self.steps.push(Step::Order(reply, order)),
            (None, _) => {
                let body = ClientResponse::Error(RequestError::NoJournal);
                outbox.send(Message::Answer(request, body));
            }
        }
    }

    fn batch(&mut self, order: BatchOrder, gate: Gate) {
        match &self.journal_queue {
            Some(journal_queue) if !journal_queue.is_passed(gate, self.records) => {
                self.steps.push(Step::Batch(self.batch.clone(), Box::new(order)));
            }
            _ => self.batch.send(order),
        }
    }

    fn notify(&mut self, notice: Box<Notice>) {
        match &self.journal_queue {
            Some(journal_queue) if !journal_queue.is_passed(Gate::Synced, self.records) => {
                self.steps.push(Step::Notice(self.notices.clone(), notice));
            }
            _ => self.notices.send(notice),
        }
    }

    // Where all clients together leave too much unread, the one that leaves most is cut off.
    fn relieve(&self) {
        if self.clients_bytes.load(Ordering::Relaxed) < CLIENTS_BYTES_MAX {
            return;
        }
        // What was cut gives its memory back when an IO thread comes to it.
        let living = || {
            self.connections
                .values()
                .filter(|outbox| outbox.counts_in(&self.clients_bytes) && !outbox.is_cut())
        };
        while living().map(|outbox| outbox.bytes()).sum::<usize>() >= CLIENTS_BYTES_MAX
            && let Some(outbox) = living().max_by_key(|outbox| outbox.bytes())
        {
            outbox.cut();
        }
    }

    fn send_answers(&mut self) {
        self.answers.drain(..).for_each(|(outbox, answer)| outbox.send(answer));
        limits::trim(&mut self.answers);
    }

    // Whether a worker need not hear at once that a report is saved. A relay has others who wait for it.
    fn may_wait(&self, connection: ConnectionId) -> bool {
        let is_worker = self.connections.get(&connection).is_some_and(|outbox| !outbox.is_line());
        self.journal_queue.is_none() && is_worker
    }

    fn acknowledge(&mut self, acks: impl IntoIterator<Item = (ConnectionId, ToWorker)>) {
        for (connection, ack) in acks {
            self.send(connection, Message::Worker(ack), Gate::Open);
        }
    }

    fn send(&mut self, connection: ConnectionId, message: Message, gate: Gate) {
        if let Some((outbox, message)) = self.send_or_hold(connection, message, gate) {
            outbox.send(message);
        }
    }

    // What may be sent now, and to whom. The rest waits for the journal.
    fn send_or_hold(
        &mut self,
        connection: ConnectionId,
        message: Message,
        gate: Gate,
    ) -> Option<(Arc<Outbox>, Message)> {
        // A peer that is gone needs no words.
        let outbox = self.connections.get(&connection)?.clone();
        let passed = self
            .journal_queue
            .as_ref()
            .is_none_or(|journal_queue| journal_queue.is_passed(gate, self.records));
        if passed && (outbox.is_clear() || message.keeps_no_order()) {
            return Some((outbox, message));
        }
        outbox.hold(&message);
        self.steps_bytes += message.memory_bytes();
        self.steps.push(Step::Send(outbox, message, gate));
        None
    }
}
