//! A server from start to end: its directory, its ports and its threads.

use std::any::Any;
use std::fs;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use hq_core::client_messages::ServerInfo;
use hq_core::clock_gap::ClockGap;
use hq_core::record::Record;
use hq_core::server::{Input, Server, ServerOptions as MachineOptions};
use hq_model::{JobId, WorkerId};
use hq_net::limits::{HALF_SAID_BYTES_MAX, HALF_SAID_GRACE};
use hq_net::{AccessError, AccessFile, Endpoint, HalfSaid, ListenError, Listener, PublicKey, Role};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::batch::{Batch, Place};
use crate::claim::claim;
use crate::clock::Clock;
use crate::decide::{Decider, Router};
use crate::descriptors;
use crate::directory::{Instance, Lock, ServerDir};
use crate::error::ServerError;
use crate::files::Files;
use crate::identity::{self, Identity};
use crate::inbox::{Event, Inbox, Room};
use crate::journal_thread::disk_log::{DiskLog, Restored};
use crate::journal_thread::queue::JournalQueue;
use crate::journal_thread::{JournalThread, Unsaved};
use crate::limits::{self, GOODBYE_TIME, IO_THREADS_MAX};
use crate::listener::PeerListener;
use crate::logs::Logs;
use crate::notices::Notices;
use crate::object_relay::ObjectRelay;
use crate::options::{JournalPlace, ServerOptions};
use crate::outbox::{Message, Outbox};
use crate::planner::Planner;
use crate::pullers::Pullers;
use crate::signals::Signals;

/// What differs between a server of its own and one inside another process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// Where it listens.
    pub(crate) address: IpAddr,
    /// The host it publishes unless one is given.
    pub(crate) default_host: fn() -> String,
    /// Signals of the process are for the server.
    pub(crate) has_signals: bool,
}

/// A running server. Ended by [`Running::stop`], by a client or by a signal; [`Running::wait`] returns then.
pub struct Running {
    info: ServerInfo,
    access: AccessFile,
    inbox: Arc<Inbox>,
    journal_queue: Option<Arc<JournalQueue>>,
    runtimes: Runtimes,
    listeners: Vec<AbortHandle>,
    places: Arc<Semaphore>,
    places_total: usize,
    deciding: JoinHandle<Vec<Arc<Outbox>>>,
    journal_thread: Option<JoinHandle<Result<DiskLog, Unsaved>>>,
    logging: JoinHandle<()>,
    notices: Arc<Notices>,
    instance: Instance,
    _lock: Lock,
}

impl Running {
    /// Starts a server.
    pub(crate) fn start(mut options: ServerOptions, around: Surroundings) -> Result<Running, ServerError> {
        let child = options.detached.take();
        let log = |path: &Path| child.as_ref().map_or(Ok(()), |child| child.log_to(path));
        let result = start(&options, around, &log);
        match (child, &result) {
            (Some(child), Ok(running)) => {
                if !child.started(running.instance.path()) {
                    info!(
                        "nobody knows about this server: the program that started it ended before it could report \
                        it"
                    );
                    running.stop();
                }
            }
            (Some(child), Err(error)) => child.failed(error),
            (None, _) => {}
        }
        result
    }

    // From now on, clients and workers find it.
    fn publish(&self, dir: &ServerDir, has_signals: bool) -> Result<(), ServerError> {
        if has_signals {
            let _entered = self.runtimes.clients.enter();
            let signals = Signals::catch()?;
            let access = self.instance.access();
            self.runtimes.clients.spawn(signals.handle(
                self.inbox.clone(),
                self.journal_queue.clone(),
                access,
            ));
        }
        self.access.save(&self.instance.access())?;
        dir.set_current(&self.instance)?;
        dir.tidy(&self.instance);
        Ok(())
    }

    /// About the server, with hosts, ports and paths. Its epoch and start time are known to the server alone.
    pub fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// What clients and workers need to connect.
    pub fn access(&self) -> &AccessFile {
        &self.access
    }

    /// The numbered directory of this start.
    pub fn instance_dir(&self) -> &Path {
        self.instance.path()
    }

    /// Asks it to end cleanly, as a signal does.
    pub fn stop(&self) {
        if let Some(journal_queue) = &self.journal_queue {
            journal_queue.stop();
        }
        self.inbox.push(Event::input(Input::Stop), Room::none());
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it did not end well: changes that could not be saved, or a broken rule of our own.
    pub fn wait(self) -> Result<(), ServerError> {
        let decided = self.deciding.join();
        self.inbox.close();
        self.notices.end();
        for listener in &self.listeners {
            listener.abort();
        }
        remove_access(&self.instance.access());
        ServerDir::leave(&self.instance);
        if let Some(journal_queue) = self.journal_queue.as_ref().filter(|_| decided.is_err()) {
            journal_queue.end();
        }
        let saved = self.journal_thread.map(JoinHandle::join);
        // Its way went with the deciding thread.
        let logged = self.logging.join();
        let outboxes = decided.as_ref().map_or(&[][..], Vec::as_slice);
        for outbox in outboxes {
            outbox.send(Message::Close);
        }
        let all = u32::try_from(self.places_total).unwrap_or(u32::MAX);
        let farewell = async { timeout(GOODBYE_TIME, self.places.acquire_many(all)).await.is_ok() };
        if !self.runtimes.clients.block_on(farewell) {
            info!("not all peers took their last messages");
        }
        // Ports are free when this returns.
        self.runtimes.workers.shutdown_timeout(GOODBYE_TIME);
        self.runtimes.clients.shutdown_timeout(GOODBYE_TIME);
        decided.map_err(|panic| ServerError::Broken(text_of(&panic)))?;
        logged.map_err(|panic| ServerError::Broken(text_of(&panic)))?;
        match saved {
            None => {}
            Some(Ok(Ok(log))) => log.close(),
            Some(Ok(Err(Unsaved { records }))) => return Err(ServerError::Unsaved { records }),
            Some(Err(panic)) => return Err(ServerError::Broken(text_of(&panic))),
        }
        info!("ended");
        Ok(())
    }
}

fn start(
    options: &ServerOptions,
    around: Surroundings,
    log: &dyn Fn(&Path) -> std::io::Result<()>,
) -> Result<Running, ServerError> {
    // Before anything is opened, or in the way of another server.
    let places_total = descriptors::raise_limit()?;
    let dir = ServerDir::open(&options.server_dir)?;
    let lock = claim(&dir)?;
    let instance = dir.new_instance()?;
    log(&instance.log()).map_err(|source| ServerError::Directory {
        what: "the log file",
        path: instance.log(),
        source,
    })?;
    let result = serve(options, around, &dir, (instance.clone(), lock), places_total);
    if result.is_err() {
        remove_access(&instance.access());
        instance.discard();
    }
    result
}

fn serve(
    options: &ServerOptions,
    around: Surroundings,
    dir: &ServerDir,
    (instance, lock): (Instance, Lock),
    places_total: usize,
) -> Result<Running, ServerError> {
    crate::memory::begin();
    let journal =
        match &options.journal {
            JournalPlace::Default => Some(dir.journal()),
            JournalPlace::Path(path) => Some(std::path::absolute(path).map_err(|source| {
                ServerError::Directory { what: "the journal", path: path.clone(), source }
            })?),
            JournalPlace::None => None,
        };
    if options.fresh
        && let Some(aside) = ServerDir::put_aside(journal.as_ref().unwrap_or(&dir.journal()))?
    {
        info!(path = %aside.display(), "the old journal was put aside");
    }
    let saved = match AccessFile::load(&dir.identity()) {
        Ok(saved) => Some(saved),
        // Keys that others know are not used again, and not replaced without a word either.
        Err(error @ (AccessError::Exposed { .. } | AccessError::Foreign { .. })) => return Err(error.into()),
        Err(_) => None,
    };
    if journal.is_none() && !options.fresh && (saved.is_some() || has_entries(&dir.journal())) {
        return Err(ServerError::JournalNotUsed { directory: dir.path().to_owned() });
    }
    if let (Some(path), Some(saved)) = (&journal, &saved)
        && !options.fresh
        && options.access_file.is_none()
        && !hq_journal::has_journal(path)
    {
        return Err(ServerError::NoJournal { path: path.clone(), uid: saved.server_uid.clone() });
    }
    let machine_options = MachineOptions {
        idle_timeout: options.idle_timeout,
        worker_grace: options.worker_grace,
        keep_jobs: options.keep_jobs,
        keep_allocations: options.keep_allocations,
        ..MachineOptions::default()
    };
    let mut machine = Server::new(machine_options);
    let (log, restored) = match &journal {
        Some(path) => {
            let (log, restored) =
                DiskLog::open(path, options.durability, options.compact_bytes_min, &mut machine)?;
            (Some(log), restored)
        }
        None => (None, Restored::default()),
    };
    // As the beginning of a compacted journal says it. It need not be in one: the first job that is made says as much.
    let given = Record::IdsGiven { job: JobId(options.jobs_before), worker: WorkerId(0) };
    machine.restore(restored.latest, &given);
    let journal_uid = Some(machine.uid()).filter(|uid| !uid.is_empty());
    if let (Some(path), Some(theirs), Some(saved)) = (&journal, journal_uid, &saved)
        && theirs != saved.server_uid
        && options.access_file.is_none()
    {
        let (journal, directory) = (theirs.to_owned(), saved.server_uid.clone());
        return Err(ServerError::OtherJournal { path: path.clone(), journal, directory });
    }
    let identity = identity::choose(options, saved, journal_uid, &around.default_host)?;

    let runtimes = Runtimes::new()?;
    let inbox = Arc::new(Inbox::new());
    let places = Arc::new(Semaphore::new(places_total));
    let clients_bytes = Arc::new(AtomicUsize::new(0));
    let relay = Arc::new(ObjectRelay::new(!options.relays_objects, inbox.clone()));
    let shared = (&inbox, &relay);
    let place = (around.address, dir.path());
    let (listeners, access) = open_listeners(identity, &runtimes, place, shared, &places, &clients_bytes)?;
    // Kept for the next start, which continues the journal under the same name. Without one there is nothing to continue.
    match journal {
        Some(_) => access.save(&dir.identity())?,
        None => dir.remove_identity()?,
    }
    dir.note_journal(journal.as_deref())?;
    let wall = Clock::of_machine();
    let clock_gap = ClockGap::between(wall, restored.latest);
    let info = ServerInfo { clock_gap, ..server_info(&access, &instance, journal.as_deref(), options) };
    machine.set_info(info.clone());

    let journal_queue = log.as_ref().map(|_| Arc::new(JournalQueue::default()));
    let journal_thread = match (log, &journal_queue) {
        (Some(log), Some(journal_queue)) => {
            Some(spawn_journal_thread(log, journal_queue.clone(), inbox.clone())?)
        }
        _ => None,
    };
    let uid = access.server_uid.clone();
    let known_as = if machine.uid().is_empty() { uid.clone() } else { machine.uid().to_owned() };
    info!(
        uid, clients = info.client_port, workers = info.worker_port, records = restored.records,
        dir = %instance.path().display(), "server starts"
    );
    match clock_gap {
        Some(ClockGap::Behind(gap)) => warn!(
            clock = %wall, journal = %restored.latest, ?gap,
            "this machine's clock is behind the journal: times go on from the journal's, ahead of the clock"
        ),
        Some(ClockGap::Ahead(gap)) => warn!(
            clock = %wall, journal = %restored.latest, ?gap,
            "the journal's last record is old: the server was away for long, or a clock is or was wrong"
        ),
        None => {}
    }
    let access_path = instance.access();
    let before_end = Box::new(move || remove_access(&access_path));
    let clock = Clock::new(wall, restored.latest);
    let place = Place {
        hq: std::env::current_exe().map_err(ServerError::system("the path of this program is not known"))?,
        server_dir: dir.path().to_owned(),
        config_dir: options.config_dir.clone(),
    };
    let batch = Arc::new(Batch::new(place, inbox.clone()));
    let (planner, planning) = Planner::new(inbox.clone());
    spawn("hq-planner", planning)?;
    let (files, looking) = Files::new(inbox.clone());
    spawn("hq-files", looking)?;
    let (logs, logging) = Logs::new(known_as);
    let logging = spawn("hq-logs", logging)?;
    let notices = Arc::new(Notices::new(inbox.clone(), dir.path().into()));
    let helpers = (planner, files, logs, notices.clone());
    let router = Router::new(journal_queue.clone(), batch, helpers, relay, clients_bytes);
    let decider = Decider::new(machine, clock, inbox.clone(), router, before_end);
    let deciding = spawn("hq-core", move || decider.run(uid))?;
    let listeners = listeners
        .into_iter()
        .map(|listener| runtimes.of(listener.role).spawn(Arc::new(listener).accept()).abort_handle())
        .collect();
    let access = access.without_server_keys(None);
    let running = Running {
        info,
        access,
        inbox,
        journal_queue,
        runtimes,
        listeners,
        places,
        places_total,
        deciding,
        journal_thread,
        logging,
        notices,
        instance,
        _lock: lock,
    };
    match running.publish(dir, around.has_signals) {
        Ok(()) => Ok(running),
        Err(error) => {
            running.stop();
            // The first error is the one to tell.
            let _ = running.wait();
            Err(error)
        }
    }
}

// What is no directory is refused when it is opened.
fn has_entries(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

// What connections run on. Those of workers have threads of their own: however much clients have asked for and read, heartbeats
// are heard.
struct Runtimes {
    clients: Runtime,
    workers: Runtime,
}

impl Runtimes {
    fn new() -> Result<Runtimes, ServerError> {
        Ok(Runtimes { clients: runtime("hq-io")?, workers: runtime("hq-io-workers")? })
    }

    fn of(&self, role: Role) -> &Runtime {
        match role {
            Role::Client | Role::Puller => &self.clients,
            Role::Worker => &self.workers,
        }
    }
}

fn runtime(name: &str) -> Result<Runtime, ServerError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        // Those of clients and of workers and the deciding thread share them: more would only wake each other.
        .worker_threads((cores / 2).clamp(1, IO_THREADS_MAX))
        .max_blocking_threads(1)
        .thread_name(name)
        .on_thread_park(crate::memory::before_sleep)
        .enable_all()
        .build()
        .map_err(ServerError::system("no threads for connections"))
}

// Listens in both roles. Gives the access file with the ports that were found.
fn open_listeners(
    identity: Identity,
    runtimes: &Runtimes,
    (address, server_dir): (IpAddr, &Path),
    (inbox, relay): (&Arc<Inbox>, &Arc<ObjectRelay>),
    places: &Arc<Semaphore>,
    clients_bytes: &Arc<AtomicUsize>,
) -> Result<(Vec<PeerListener>, AccessFile), ServerError> {
    let Identity { mut access, client_port_is_fixed, worker_port_is_fixed } = identity;
    let last_id = Arc::new(AtomicU64::new(0));
    let mut listeners = Vec::new();
    let pullers = match access.puller {
        Some(_) => Some(Arc::new(Pullers::new(server_dir, &access)?)),
        None => None,
    };
    let puller_keys = access.puller.as_ref().and_then(|puller| puller.keys.as_ref());
    let puller = puller_keys.map(|keys| (Role::Puller, keys.secret.public()));
    let parts = [
        (&mut access.client, Role::Client, client_port_is_fixed),
        (&mut access.worker, Role::Worker, worker_port_is_fixed),
    ];
    for (endpoint, role, port_is_fixed) in parts {
        let Some(endpoint) = endpoint else { continue };
        let is_for_clients = role == Role::Client;
        let _entered = runtimes.of(role).enter();
        let listener = listen(address, endpoint, (role, puller.filter(|_| is_for_clients)), port_is_fixed)?;
        endpoint.port = listener.port();
        listeners.push(PeerListener {
            listener,
            role,
            pullers: pullers.clone().filter(|_| is_for_clients),
            relay: relay.clone(),
            inbox: inbox.clone(),
            last_id: last_id.clone(),
            places: places.clone(),
            bytes_waiting: match role {
                Role::Client | Role::Puller => clients_bytes.clone(),
                Role::Worker => Arc::default(),
            },
            half_said: HalfSaid::new(HALF_SAID_BYTES_MAX, HALF_SAID_GRACE),
            refusals: Mutex::default(),
            cuts: Mutex::default(),
        });
    }
    if let (Some(puller), Some(client)) = (&mut access.puller, &access.client) {
        puller.port = client.port;
    }
    Ok((listeners, access))
}

fn listen(
    address: IpAddr,
    endpoint: &Endpoint,
    (role, other): (Role, Option<(Role, PublicKey)>),
    port_is_fixed: bool,
) -> Result<Listener, ListenError> {
    match Listener::bind_for(address, endpoint.port, endpoint, role, other) {
        Err(error @ ListenError::Port { .. }) if !port_is_fixed && endpoint.port != 0 => {
            info!(%error, "taking another port than the time before");
            Listener::bind_for(address, 0, endpoint, role, other)
        }
        result => result,
    }
}

fn server_info(
    access: &AccessFile,
    instance: &Instance,
    journal: Option<&Path>,
    options: &ServerOptions,
) -> ServerInfo {
    let place = |endpoint: &Option<Endpoint>| {
        endpoint.as_ref().map_or_else(Default::default, |endpoint| (endpoint.host.clone(), endpoint.port))
    };
    let (client_host, client_port) = place(&access.client);
    let (worker_host, worker_port) = place(&access.worker);
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    ServerInfo {
        uid: access.server_uid.clone(),
        pid: std::process::id(),
        version: options.version.clone(),
        client_host,
        client_port,
        worker_host,
        worker_port,
        server_dir: bytes(instance.path()),
        journal: journal.map(bytes),
        limits: limits::table(options),
        ..ServerInfo::default()
    }
}

fn spawn_journal_thread(
    log: DiskLog,
    journal_queue: Arc<JournalQueue>,
    inbox: Arc<Inbox>,
) -> Result<JoinHandle<Result<DiskLog, Unsaved>>, ServerError> {
    let hears = inbox.clone();
    let alarm = Box::new(move |fault: Option<String>| {
        let input = match fault {
            Some(error) => Input::JournalFails { error },
            None => Input::JournalWorks,
        };
        hears.push(Event::input(input), Room::none());
    });
    let work = JournalThread::new(log, journal_queue.clone(), alarm);
    spawn("hq-journal", move || {
        let _guard = EndGuard { journal_queue, inbox };
        work.run()
    })
}

// Without the journal thread nothing is ever acknowledged again, so the process ends.
struct EndGuard {
    journal_queue: Arc<JournalQueue>,
    inbox: Arc<Inbox>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.journal_queue.stop();
            self.inbox.push(Event::Broken, Room::none());
        }
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ServerError> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(ServerError::system("no more threads"))
}

fn remove_access(path: &PathBuf) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            warn!(path = %path.display(), %error, "the access file cannot be removed");
        }
        _ => {}
    }
}

fn text_of(panic: &Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn clients_that_keep_all_their_threads_busy_do_not_hold_up_workers() {
        let runtimes = Runtimes::new().expect("threads");
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().expect("nobody has it");
        let (begun, begins) = channel();
        for _ in 0..IO_THREADS_MAX {
            let (gate, begun) = (gate.clone(), begun.clone());
            runtimes.of(Role::Client).spawn(async move {
                let _ = begun.send(());
                drop(gate.lock());
            });
        }
        begins.recv().expect("at least one of them holds a thread");
        let (heard, hears) = channel();
        runtimes.of(Role::Worker).spawn(async move { heard.send(()) });
        assert_eq!(hears.recv_timeout(Duration::from_secs(60)), Ok(()), "it waits for clients");
        drop(closed);
    }
}
