//! The server machine: its parts, how a change is made durable, and where each input goes.

mod deferring;
mod forgetting;
mod hearing;
mod readying;
mod stopping;
mod telling;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_model::{Epoch, IdSet, JobId, TaskRef, Timestamp, WorkerId};

use super::allocation::AllocLive;
use super::cancelings::Cancelings;
use super::changes::Changes;
use super::clients::{Clients, JobWaits};
use super::drafts::Drafts;
use super::ended_entries::EndedEntries;
use super::followers::Followers;
use super::forecast::{Estimate, Forecast};
use super::gather::Gathering;
use super::last_moments::LastMoments;
use super::last_tasks::LastTasks;
use super::lingering::Lingering;
use super::live::LiveWorker;
use super::loads::Loads;
use super::locality::Locality;
use super::nodes::Reservations;
use super::notices::Notices;
use super::objects::{Copies, Gives};
use super::overview::Watching;
use super::parting::Parting;
use super::planning::Planning;
use super::queue::{ClassId, Queue};
use super::readiness::Readiness;
use super::reads::Reads;
use super::reserve::Reserve;
use super::retention::{Keep, Retention};
use super::running::{Run, Running};
use super::shares::Shares;
use super::speculation::Speculation;
use super::state::{Durable, State};
use super::{ConnectionId, Effect, Gate, Input, JournalOrder};
use crate::client_messages::{ClientRequest, ClientResponse, RequestError, ServerInfo};
use crate::feed::FeedRequest;
use crate::limits::{ENDED_ENTRIES_BYTES_MAX, WORKER_GRACE};
use crate::mark;
use crate::record::Record;
use crate::worker_messages::{TemplateId, ToWorker, WorkerEnd};

/// What the shell tells a new server about itself.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Idle timeout of workers that have none of their own.
    pub idle_timeout: Option<Duration>,
    /// How long a worker may be away after its connection was lost before its tasks go elsewhere.
    pub worker_grace: Duration,
    /// Which ended jobs are kept.
    pub keep_jobs: Keep,
    /// Allocations stay in their batch systems when the server is stopped.
    pub keep_allocations: bool,
    /// Bytes of entries of finished tasks that are kept, of all bags and fed jobs together.
    pub ended_entries_bytes_max: usize,
    /// What `server info` shows of hosts, ports and paths.
    pub info: ServerInfo,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            idle_timeout: None,
            worker_grace: WORKER_GRACE,
            keep_jobs: Keep::default(),
            keep_allocations: false,
            ended_entries_bytes_max: ENDED_ENTRIES_BYTES_MAX,
            info: ServerInfo::default(),
        }
    }
}

/// The server's state machine.
#[derive(Debug)]
pub struct Server {
    pub(super) options: ServerOptions,
    /// What survives a restart: read only but for records.
    pub(super) state: Durable,
    /// Ready tasks: of the queued ones those that do not wait for the end of a delay.
    pub(super) queue: Queue,
    /// Tasks that wait for something.
    pub(super) readiness: Readiness,
    /// Class of each submit with tasks that have not ended.
    pub(super) classes: BTreeMap<TemplateId, ClassId>,
    /// Connected workers and those that may come back.
    pub(super) live: BTreeMap<WorkerId, LiveWorker>,
    /// No worker counts as lost before; looked at again then.
    pub(super) lost_from: Timestamp,
    /// Nothing that waits on a worker is too late there before; looked at again then.
    pub(super) late_from: Timestamp,
    /// When something that waits on a worker stops to keep room there from others, at the earliest.
    pub(super) keeps_until: Timestamp,
    pub(super) worker_connections: BTreeMap<ConnectionId, WorkerId>,
    /// What is reported as started.
    pub(super) running: Running,
    /// Clients that wait.
    clients: Clients,
    /// Layers and timelines of jobs that were asked about.
    pub(super) shapes: super::shapes::Shapes,
    /// Clients that watch everything.
    pub(super) watching: Watching,
    /// Clients that wait for ends of tasks, and what each knows.
    pub(super) end_waits: JobWaits<IdSet>,
    /// Generators that wait until they may go on.
    pub(super) feed_waits: JobWaits<FeedRequest>,
    pub(super) cancelings: Cancelings,
    /// Clients that read what tasks print.
    pub(super) reads: Reads,
    /// What there is to decide.
    pub(super) changes: Changes,
    /// Relays that are to be told when what they have room for is handed out, with their reports.
    pub(super) weighs: BTreeMap<WorkerId, u64>,
    pub(super) planning: Planning,
    /// How long tasks take, and what comes after them.
    pub(super) forecast: Forecast,
    pub(super) locality: Locality,
    /// Whom room is kept for.
    pub(super) reserve: Reserve,
    /// Workers that are left alone for a moment.
    pub(super) gathering: Gathering,
    /// Workers that are kept free for tasks on several nodes.
    pub(super) reservations: Reservations,
    /// Jobs with shares that may have ready tasks.
    pub(super) shares: Shares,
    stopping: Option<stopping::Stopping>,
    /// Jobs touched by records since the last settling.
    pub(super) touched: BTreeSet<JobId>,
    /// Those of a time in which the journal could not be written: what could not be decided of them then is when it can.
    undecided: BTreeSet<JobId>,
    /// Ended jobs and workers that are still known.
    retention: Retention,
    /// Entries that are not needed any more.
    pub(super) ended_entries: EndedEntries,
    /// Which workers store which objects.
    pub(super) copies: Copies,
    /// Files that workers were told to take.
    pub(super) gives: Gives,
    /// Which notices are being sent, and which jobs may stand still.
    pub(super) notices: Notices,
    /// When tasks may start at the latest.
    pub(super) last_moments: LastMoments,
    /// What allocations need beyond the records.
    pub(super) alloc: AllocLive,
    /// Tasks that take long.
    pub(super) speculation: Speculation,
    /// Attempts of tasks that put themselves back, as long as their workers have them.
    pub(super) parting: Parting,
    /// Tasks that are handed out before they are ready.
    pub(super) followers: Followers,
    /// What nodes do and tasks use.
    pub(super) loads: Loads,
    pub(super) last_tasks: LastTasks,
    /// Who makes drafts.
    pub(super) drafts: Drafts,
    /// Open jobs that their clients have left.
    pub(super) lingering: Lingering,
}

impl Server {
    /// A server before its first record.
    pub fn new(options: ServerOptions) -> Self {
        Server {
            options,
            state: Durable::default(),
            queue: Queue::default(),
            readiness: Readiness::default(),
            classes: BTreeMap::new(),
            live: BTreeMap::new(),
            lost_from: Timestamp(u64::MAX),
            late_from: Timestamp(u64::MAX),
            keeps_until: Timestamp(u64::MAX),
            worker_connections: BTreeMap::new(),
            running: Running::default(),
            clients: Clients::default(),
            shapes: super::shapes::Shapes::default(),
            watching: Watching::default(),
            end_waits: JobWaits::default(),
            feed_waits: JobWaits::default(),
            cancelings: Cancelings::default(),
            reads: Reads::default(),
            changes: Changes::default(),
            weighs: BTreeMap::new(),
            planning: Planning::default(),
            forecast: Forecast::default(),
            locality: Locality::default(),
            reserve: Reserve::default(),
            gathering: Gathering::default(),
            reservations: Reservations::default(),
            shares: Shares::default(),
            stopping: None,
            touched: BTreeSet::new(),
            undecided: BTreeSet::new(),
            retention: Retention::default(),
            ended_entries: EndedEntries::default(),
            copies: Copies::default(),
            gives: Gives::default(),
            notices: Notices::default(),
            last_moments: LastMoments::default(),
            alloc: AllocLive::default(),
            speculation: Speculation::default(),
            parting: Parting::default(),
            followers: Followers::default(),
            loads: Loads::default(),
            last_tasks: LastTasks::default(),
            drafts: Drafts::default(),
            lingering: Lingering::default(),
        }
    }

    /// Restores: applies one record of the journal, in order, before [`Server::start`].
    pub fn restore(&mut self, at: Timestamp, record: &Record) {
        self.state.apply(at, record);
    }

    /// Takes the tasks of a job that were handed to workers for running ones, or no longer: for those who look at a journal, which
    /// does not say when tasks begin. They begin now.
    pub fn suppose_leased_run(&mut self, now: Timestamp, id: JobId, is_supposed: bool) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        for (worker, ids) in &job.leased {
            if !is_supposed {
                self.running.end(id, ids);
                continue;
            }
            for task in ids.iter() {
                let instance = job.instance_of(task);
                let run = Run { worker: *worker, instance, since: now, variant: None };
                self.running.start(TaskRef::new(id, task), run);
            }
        }
    }

    /// The durable state, for observers.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What `server info` shows of hosts, ports and paths, when they were not known before the journal
    /// was read. To be called before [`Server::start`].
    pub fn set_info(&mut self, info: ServerInfo) {
        self.options.info = info;
    }

    /// Name of this server once it has started; empty when there was nothing to restore before.
    pub fn uid(&self) -> &str {
        &self.state.uid
    }

    /// Begins a new epoch. `uid` names the server if it is a new one.
    pub fn start(&mut self, now: Timestamp, uid: String, effects: &mut Vec<Effect>) {
        let uid = if self.state.uid.is_empty() { uid } else { self.state.uid.clone() };
        let epoch = Epoch(self.state.epoch.0 + 1);
        let release = self.options.info.version.clone();
        self.record(now, Record::ServerStarted { epoch, uid: uid.clone(), release }, effects);
        self.options.info.uid = uid;
        self.options.info.epoch = epoch;
        self.options.info.started = now;
        self.watching.begin(epoch);
        self.loads.restore(&self.state.loads);
        // What waits for these is a draft, and finds nothing to wait for.
        self.forget_half_fed(now, effects);
        self.recount();
        let jobs: Vec<JobId> = self.state.jobs.keys().copied().collect();
        for id in jobs {
            let job = &self.state.jobs[&id];
            let delayed: IdSet = job.delayed.keys().copied().collect();
            self.make_ready(id, &job.queued.difference(&delayed));
        }
        self.find_followers();
        self.find_drafts(now);
        self.find_lingering();
        self.learn_speculation_again();
        // Workers of the time before may come back with what they hold.
        for (id, worker) in &self.state.workers {
            if worker.ended.is_none() {
                let mut live = LiveWorker::new(None, &worker.config, worker.joined, now);
                live.lost_at = now.after(self.options.worker_grace);
                self.lost_from = self.lost_from.min(live.lost_at);
                self.live.insert(*id, live);
            }
        }
        self.lose_tasks_of_ended(now, effects);
        self.end_what_is_enough(now, effects);
        self.close_fed(now, effects, true);
        self.start_allocating(now, effects);
        // What a server that died had not come to say.
        self.touched.extend(
            self.state.jobs.iter().filter(|(_, job)| !job.spec.notices.is_empty()).map(|(id, _)| *id),
        );
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Timestamp, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Client { connection, request, body } => {
                self.client_asks(now, connection, request, body, effects);
            }
            Input::ClientGone { connection } => {
                self.clients.forget(connection);
                self.watching.forget(connection);
                self.no_more_awaits_ends(connection);
                self.feed_waits.forget(connection);
                self.gives.forget(connection);
                self.cancelings.forget(connection);
                self.forget_reader(connection, effects);
                self.alloc.forget_client(connection);
                self.followers.forget_client(connection);
                self.maker_gone(now, connection);
            }
            Input::Worker { connection, message } => self.worker_says(now, connection, message, effects),
            Input::WorkerGone { connection, is_closed } => {
                self.lose_reads(connection, effects);
                if let Some(worker) = self.worker_connections.get(&connection).copied() {
                    self.gives_fail_on(worker, effects);
                }
                self.connection_lost(now, connection, is_closed);
            }
            Input::Tick => {}
            Input::Planned { number, plan } => self.planned(number, plan),
            Input::Stop => {
                self.keep_load(now, effects);
                // Workers are not told: they keep their tasks and look for the next server.
                effects.push(Effect::Exit);
            }
            Input::JournalFails { error } => {
                let since = self.options.info.journal_trouble.as_ref().map_or(now, |trouble| trouble.0);
                self.watching.touch();
                self.options.info.journal_trouble = Some((since, error));
            }
            Input::JournalWorks => {
                self.watching.touch();
                self.options.info.journal_trouble = None;
                mark!("what was not decided is when the journal works", !self.undecided.is_empty());
                self.touched.append(&mut self.undecided);
                self.wait_for_welcomed(now, true);
            }
            Input::FilesFound { paths } => self.files_found(now, &paths, effects),
            Input::Batch(report) => self.batch_reports(now, report, effects),
            Input::NoticeSent { job, rule, result } => self.notices.sent((job, rule), result),
            Input::Relay { ticket, holder } => self.relays(ticket, holder, effects),
        }
    }

    /// True while the journal cannot be written: what runs goes on, and nothing new is begun.
    pub fn is_read_only(&self) -> bool {
        self.options.info.journal_trouble.is_some()
    }

    /// Decides after a batch of inputs: placement, progress. To be called before the shell waits for more.
    pub fn settle(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.lose_silent_workers(now, effects);
        self.end_delays(now);
        self.end_waits_for_time(now);
        let drafts = self.end_drafts(now, effects);
        self.close_left(now, effects);
        if self.stopping.is_none() && !self.is_read_only() {
            self.end_too_late(now, effects);
        }
        self.settle_objects(now, effects);
        self.resolve_dependencies(now, effects);
        while !self.is_read_only() && self.close_fed(now, effects, false) {
            self.resolve_dependencies(now, effects);
        }
        self.forget_drafts(now, drafts, effects);
        self.put_back_without_followers(now, effects);
        self.settle_cancelings(now, effects);
        self.planning.give_up(now);
        self.watch_files(effects);
        if self.stopping.is_none() && !self.is_read_only() {
            self.note_change();
            self.reserve.begin_settling();
            self.take_back_late(now, effects);
            self.dispatch(now, effects);
            self.allocate(now, effects);
            let changed = self.changes.workers_count();
            self.speculate(now, effects);
            if self.changes.workers_count() > changed {
                self.dispatch(now, effects);
            }
        }
        self.answer_relays(effects);
        self.pursue_reads(now, effects);
        if !self.is_read_only() {
            self.settle_notices(now, effects);
        }
        self.report_progress(now, effects);
        self.note_left(now);
        if !self.is_read_only() {
            self.drop_entries(now, effects);
            self.retire(now, effects);
        }
        self.answer_worker_waits(effects);
        self.tell_overview(now, effects);
        self.stop_when_done(now, effects);
    }

    // What there was for them is on its way.
    fn answer_relays(&mut self, effects: &mut Vec<Effect>) {
        for (worker, report) in std::mem::take(&mut self.weighs) {
            if let Some(connection) = self.live.get(&worker).and_then(|live| live.connection) {
                let message = ToWorker::Weighed { report };
                effects.push(Effect::ToWorker { connection, message, gate: Gate::Synced });
            }
        }
    }

    /// When the machine wants [`Input::Tick`] even if nothing happens.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let lost = (!self.live.is_empty()).then_some(self.lost_from);
        let delay = self.readiness.next_wakeup();
        let stop = self.stopping.as_ref().map(stopping::Stopping::deadline);
        let allocate = self.next_allocating();
        let watches = [self.clients.next_wakeup(), self.watching.next_wakeup()].into_iter().flatten().min();
        let reads = self.reads.next_wakeup();
        let retirement = if self.is_read_only() { None } else { self.retention.next_wakeup(&self.state) };
        let begins = self.stopping.is_none() && !self.is_read_only();
        let look = if begins { self.speculation.next_look() } else { None };
        let late = (begins && self.late_from < Timestamp(u64::MAX)).then_some(self.late_from);
        let too_late = if begins { self.last_moments.next_wakeup() } else { None };
        let plan = self.planning.next_wakeup();
        let gather = if begins { self.gathering.ends() } else { None };
        let keep = if begins { self.reserve.ends() } else { None };
        let waits = (begins && self.keeps_until < Timestamp(u64::MAX)).then_some(self.keeps_until);
        let draft = self.next_draft_end();
        let left = if begins { self.lingering.next_wakeup() } else { None };
        let objects = self.next_look_at_objects();
        let notices = if self.is_read_only() { None } else { self.notices.next_wakeup() };
        let wakeups = [
            lost, delay, stop, watches, reads, retirement, look, allocate, plan, gather, keep, waits, draft,
            late, too_late, objects, notices, left,
        ];
        wakeups.into_iter().flatten().min()
    }

    /// Puts queued tasks into the queue of ready ones; those of a draft when it is closed.
    pub(super) fn make_ready(&mut self, id: JobId, ids: &IdSet) {
        let Some(job) = self.state.jobs.get(&id).filter(|job| !job.is_draft()) else { return };
        let share = job.spec.is_rationed().then_some(id);
        if share.is_some() {
            self.shares.add(id);
        }
        let mut parts = Vec::new();
        // A follower that comes back still waits.
        let blocked = self.readiness.blocked(id).filter(|blocked| blocked.intersects(ids));
        let unblocked = blocked.map(|blocked| ids.difference(blocked));
        for (submit, ids) in job.by_submit(unblocked.as_ref().unwrap_or(ids)) {
            let template = TemplateId { job: id, submit };
            let known = &job.submits[submit as usize];
            let (task, needs_store) = (&known.task, known.needs_store());
            let queue = &mut self.queue;
            let class = *self
                .classes
                .entry(template)
                .or_insert_with(|| queue.class(task.priority, &task.requests, share, needs_store));
            parts.push((class, template, ids));
        }
        for (class, template, ids) in parts {
            self.queue_up(class, template, &ids);
            self.changes.of_class(class);
        }
    }

    /// How long a task of a submit should take.
    pub(super) fn run_time(&self, id: TemplateId) -> Option<Estimate> {
        self.forecast.run_time(&self.state, id)
    }

    /// Puts tasks of a submit into the queue of ready ones.
    pub(super) fn queue_up(&mut self, class: ClassId, id: TemplateId, ids: &IdSet) {
        if let Some(submit) = self.state.jobs.get(&id.job).and_then(|j| j.submits.get(id.submit as usize)) {
            self.locality.add(id, submit, ids);
            if let Some(keys) = self.keys_of_calls(id, ids) {
                self.locality.add_calls(id, ids, keys);
            }
        }
        for (due, ids) in self.forecast.groups(&self.state, id, ids) {
            self.queue.add(class, id, due, &ids);
        }
    }

    // Puts the ready tasks of a submit where their paths belong.
    fn queue_again(&mut self, id: TemplateId) {
        let Some(class) = self.classes.get(&id).copied() else { return };
        let ready = self.queue.ready(class, id);
        if ready.is_empty() {
            return;
        }
        self.queue.remove(class, id, &ready);
        self.queue_up(class, id, &ready);
    }

    /// Takes tasks out of the queue of ready ones, as far as they are in it.
    pub(super) fn make_unready(&mut self, id: JobId, ids: &IdSet) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        for (submit, ids) in job.by_submit(ids) {
            let template = TemplateId { job: id, submit };
            if let Some(class) = self.classes.get(&template) {
                self.queue.remove(*class, template, &ids);
                if self.queue.is_multi_node(*class) {
                    // Workers may be kept free for it.
                    self.changes.of_class(*class);
                }
            }
        }
    }

    /// Forgets that tasks run.
    pub(super) fn end_running(&mut self, id: JobId, ids: &IdSet) {
        self.loads.forget_tasks(id, ids);
        self.running.end(id, ids);
    }

    pub(super) fn client_asks(
        &mut self,
        now: Timestamp,
        connection: ConnectionId,
        request: u64,
        body: ClientRequest,
        effects: &mut Vec<Effect>,
    ) {
        let Some(body) = self.without_follower(connection, request, body, effects) else { return };
        let (body, refused) = match self.possible(connection, body) {
            Ok(possible) => possible,
            Err(refusal) => return answer(connection, request, *refusal, effects),
        };
        if let Err(error) = self.check_room_to_wait(connection, &body) {
            return answer(connection, request, ClientResponse::Error(error), effects);
        }
        match body {
            ClientRequest::WatchJobs { jobs, until_closed, notifications } => match self.select_jobs(&jobs) {
                Ok(jobs) => {
                    if let partly @ ClientResponse::Partly { .. } =
                        refused.beside(ClientResponse::Progress(Vec::new()))
                    {
                        answer(connection, request, partly, effects);
                    }
                    let how = (until_closed, notifications);
                    self.follow_jobs(now, (connection, request), jobs, how, effects);
                }
                Err(error) => answer(connection, request, ClientResponse::Error(error), effects),
            },
            ClientRequest::ReadOutput(read) => self.client_reads(now, (connection, request), read, effects),
            ClientRequest::CancelWaiting { job, tasks } => {
                self.client_cancels_waiting(now, (connection, request), job, &tasks, effects);
            }
            ClientRequest::AwaitEnds { job, known } => {
                self.client_awaits_ends((connection, request), job, known, effects);
            }
            ClientRequest::Feed(asks) => self.client_feeds(now, (connection, request), *asks, effects),
            ClientRequest::Objects(asks) => {
                self.client_asks_objects(now, (connection, request), (asks, refused), effects)
            }
            ClientRequest::WaitWorkers { count } => {
                self.clients.wait_for_workers((connection, request), count);
            }
            ClientRequest::StopServer => self.begin_stop(now, connection, request, effects),
            ClientRequest::FlushJournal => order(connection, request, JournalOrder::Flush, effects),
            // Without a journal nothing would be pruned, so nothing is forgotten either.
            ClientRequest::PruneJournal if self.options.info.journal.is_none() => {
                answer(connection, request, ClientResponse::Error(RequestError::NoJournal), effects);
            }
            ClientRequest::PruneJournal => match self.refuse_when_read_only() {
                Ok(()) => {
                    self.forget_all_ended(now, effects);
                    order(connection, request, JournalOrder::Compact, effects);
                }
                Err(error) => {
                    let body = ClientResponse::Error(error);
                    effects.push(Effect::Answer { connection, request, body, gate: Gate::Open });
                }
            },
            ClientRequest::Alloc(body) => self.client_asks_alloc(now, connection, request, body, effects),
            ClientRequest::Overview { seen } => {
                self.client_looks(now, (connection, request), seen, effects);
            }
            ClientRequest::Events { follow, after, filter } => {
                order(connection, request, JournalOrder::Events { follow, after, filter }, effects);
            }
            body => {
                let (result, gate) = match self.change(now, &body, effects) {
                    Some(result) => {
                        self.note_maker(connection, &body, &result);
                        (result, self.gate_of_change())
                    }
                    None => (self.view(now, &body), Gate::Shown),
                };
                let body = refused.beside(result.unwrap_or_else(ClientResponse::Error));
                effects.push(Effect::Answer { connection, request, body, gate });
            }
        }
    }

    /// What the answer to a request that would change something waits for. While the journal cannot be written,
    /// nothing was changed.
    pub(super) fn gate_of_change(&self) -> Gate {
        if self.is_read_only() { Gate::Shown } else { Gate::Synced }
    }

    /// Why a worker is listed as gone, used by observers.
    pub fn worker_end(&self, worker: WorkerId) -> Option<WorkerEnd> {
        self.state.workers.get(&worker)?.ended.map(|ended| ended.1)
    }
}

// Also what only shows something waits for the disk: a client must never see what a crash could undo.
fn answer(connection: ConnectionId, request: u64, body: ClientResponse, effects: &mut Vec<Effect>) {
    effects.push(Effect::Answer { connection, request, body, gate: Gate::Synced });
}

fn order(connection: ConnectionId, request: u64, order: JournalOrder, effects: &mut Vec<Effect>) {
    effects.push(Effect::Journal { connection, request, order });
}

/// A result of handling a request.
pub(super) type Answer = Result<ClientResponse, RequestError>;
