//! What all connections of a relay share: the machine, its clock, and the ways to the server.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hq_core::WorkerSecret;
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::relay::{AskId, BagState, Branch, Effect, Given, Relay, SessionId};
use hq_core::worker_messages::WorkerEnd;
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskId, Timestamp};
use hq_net::HalfSaid;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::info;

use crate::above::WayUp;
use crate::client::Client;
use crate::contract::{BagRef, Problem, no_server};
use crate::half_said;
use crate::passing::BelowId;
use crate::server_link::Word;
use crate::{Options, limits, server_link};

/// All of it.
#[derive(Debug)]
pub(crate) struct Shared {
    idle_timeout: Option<Duration>,
    way_up: Rc<WayUp>,
    clock: Clock,
    relay: RefCell<Relay>,
    asks: RefCell<BTreeMap<AskId, oneshot::Sender<Told>>>,
    last_ask: Cell<u64>,
    // What is sent for all bags, and who sends it; until nothing more is.
    link: RefCell<Option<Link>>,
    // Those who wait until what they said is on disk.
    awaiting: RefCell<Vec<(SessionId, u64, oneshot::Sender<()>)>>,
    /// Asks the server.
    pub(crate) client: Client,
    /// Bags that were named, with their jobs.
    pub(crate) bags: RefCell<BTreeMap<BagRef, JobId>>,
    /// What has come of requests that are not complete.
    pub(crate) half_said: Arc<HalfSaid>,
    // The same of relays below.
    below_said: Arc<HalfSaid>,
    // Those, by their connections.
    below: RefCell<BTreeMap<BelowId, String>>,
    last_below: Cell<u64>,
    below_left: Notify,
    watched: RefCell<BTreeSet<JobId>>,
    gone: RefCell<Option<mpsc::UnboundedReceiver<()>>>,
    connections: Cell<usize>,
    last_used: Cell<Instant>,
    // Until then whoever keeps time sleeps, unless it is woken.
    sleeps_until: Cell<Option<Instant>>,
    changed: Notify,
    is_stopped: Cell<bool>,
    // Since then there is no access file.
    missing_since: Cell<Option<Instant>>,
}

// The answer to a question for tasks.
type Told = (Vec<Given>, BagState);

#[derive(Debug)]
struct Link {
    words: mpsc::UnboundedSender<Word>,
    task: JoinHandle<()>,
}

impl Shared {
    /// Of a relay that others know by this name.
    pub(crate) fn start(options: Options, own: String, secret: WorkerSecret) -> Rc<Shared> {
        let (tell_gone, gone) = mpsc::unbounded_channel();
        let Options { above, config, idle_timeout } = options;
        let relay = Relay::new(config).with_secret(secret);
        let way_up = Rc::new(WayUp::new(above, own));
        let (words, said) = mpsc::unbounded_channel();
        let shared = Rc::new(Shared {
            client: Client::start(&way_up, &tell_gone),
            idle_timeout,
            way_up,
            clock: Clock::start(),
            relay: RefCell::new(relay),
            asks: RefCell::default(),
            last_ask: Cell::new(0),
            link: RefCell::default(),
            awaiting: RefCell::default(),
            bags: RefCell::default(),
            half_said: half_said::of_relay(),
            below_said: half_said::of_relays_below(),
            below: RefCell::default(),
            last_below: Cell::new(0),
            below_left: Notify::new(),
            watched: RefCell::default(),
            gone: RefCell::new(Some(gone)),
            connections: Cell::new(0),
            last_used: Cell::new(Instant::now()),
            sleeps_until: Cell::new(None),
            changed: Notify::new(),
            is_stopped: Cell::new(false),
            missing_since: Cell::new(None),
        });
        let task = tokio::task::spawn_local(server_link::serve(Rc::clone(&shared), said));
        *shared.link.borrow_mut() = Some(Link { words, task });
        shared
    }

    /// For whoever speaks to the server. One that has ended has nobody to tell.
    pub(crate) fn say(&self, word: Word) {
        if let Some(link) = &*self.link.borrow() {
            let _ = link.words.send(word);
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The way to the server.
    pub(crate) fn way_up(&self) -> &WayUp {
        &self.way_up
    }

    /// What relays below have said of messages that are not complete.
    pub(crate) fn below_said(&self) -> &Arc<HalfSaid> {
        &self.below_said
    }

    /// The relays below this one.
    pub(crate) fn relays_below(&self) -> Vec<String> {
        self.below.borrow().values().cloned().collect()
    }

    /// A relay of this name has come below.
    pub(crate) fn enter_below(self: &Rc<Self>, name: &str) -> Below {
        let id = BelowId(self.last_below.get() + 1);
        self.last_below.set(id.0);
        self.below.borrow_mut().insert(id, name.to_owned());
        Below { id, counted: self.counted() }
    }

    /// A connection that counts as long as this is there.
    pub(crate) fn counted(self: &Rc<Self>) -> Counted {
        self.count_connection(1);
        Counted(Rc::clone(self))
    }

    pub(crate) fn count_connection(&self, by: isize) {
        self.connections.set(self.connections.get().saturating_add_signed(by));
        self.last_used.set(Instant::now());
        self.changed.notify_one();
    }

    /// Lets the machine do something, and carries out what it wants done.
    pub(crate) fn turn<T>(
        self: &Rc<Self>,
        act: impl FnOnce(&mut Relay, Timestamp, &mut Vec<Effect>) -> T,
    ) -> T {
        let mut effects = Vec::new();
        let now = self.clock.now();
        let result = {
            let mut relay = self.relay.borrow_mut();
            let result = act(&mut relay, now, &mut effects);
            relay.settle(now, &mut effects);
            result
        };
        effects.into_iter().for_each(|effect| self.carry_out(effect));
        self.tell_saved();
        // To be woken for nothing costs as much as the rest of a turn.
        let due = self.due();
        let is_sooner = |due| self.sleeps_until.get().is_none_or(|sleeps_until| due < sleeps_until);
        if self.is_done() || due.is_some_and(is_sooner) {
            self.changed.notify_one();
        }
        result
    }

    // When something is to be done even if nobody says anything.
    fn due(&self) -> Option<Instant> {
        let wakeup = self.look(|relay| relay.next_wakeup(self.clock.now()));
        let wakeup = wakeup.map(|at| self.clock.instant(at));
        wakeup.into_iter().chain(self.idle_at()).min()
    }

    fn is_done(&self) -> bool {
        self.is_stopped.get() || self.look(|relay| relay.is_ending() && relay.has_left())
    }

    /// Only looks.
    pub(crate) fn look<T>(&self, act: impl FnOnce(&Relay) -> T) -> T {
        act(&self.relay.borrow())
    }

    fn carry_out(self: &Rc<Self>, effect: Effect) {
        match effect {
            Effect::Join { branch } => {
                self.say(Word::Join(branch));
                self.watch(branch.bag);
            }
            Effect::Send { branch, message } => self.say(Word::Say(branch, message)),
            Effect::Given { ask, tasks, state } => {
                if let Some(answer) = self.asks.borrow_mut().remove(&ask) {
                    // Who asked is there: its end takes the question back before.
                    let _ = answer.send((tasks, state));
                }
            }
            Effect::Left { branch, end } => {
                info!(bag = %branch.bag, ?end, "the relay has left for this bag");
                self.say(Word::Leave(branch));
                if end == WorkerEnd::Stopped {
                    self.is_stopped.set(true);
                }
            }
        }
    }

    // Says when a bag is over.
    fn watch(self: &Rc<Self>, bag: JobId) {
        if !self.watched.borrow_mut().insert(bag) {
            return;
        }
        let shared = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let jobs = Selector::Ids(IdSet::single(TaskId(bag.0)));
            let watch = ClientRequest::WatchJobs { jobs, until_closed: true, notifications: false };
            let mut answers = shared.client.follow(watch);
            while let Some(answer) = answers.recv().await {
                // A bag that is not there any more is over, too.
                if matches!(answer, ClientResponse::WatchEnded | ClientResponse::Error(_)) {
                    shared.turn(|relay, _, _| relay.is_over(bag));
                    return;
                }
            }
        });
    }

    /// Asks for tasks. When this is dropped before it is done, the question is taken back, and nothing is lost.
    pub(crate) async fn ask(
        self: &Rc<Self>,
        session: SessionId,
        branches: Vec<Branch>,
        count: u32,
        wait: Duration,
    ) -> Told {
        struct TakeBack<'a>(&'a Rc<Shared>, AskId);
        impl Drop for TakeBack<'_> {
            fn drop(&mut self) {
                if self.0.asks.borrow_mut().remove(&self.1).is_some() {
                    self.0.turn(|relay, _, _| relay.forget(self.1));
                }
            }
        }
        // Where nothing is handed out for want of room, that is said as soon as it need not wait.
        let gives_up = async {
            tokio::time::sleep(wait).await;
            self.client.trouble().await
        };
        let ask = AskId(self.last_ask.get() + 1);
        self.last_ask.set(ask.0);
        let (tell, answer) = oneshot::channel();
        self.asks.borrow_mut().insert(ask, tell);
        let _guard = TakeBack(self, ask);
        self.turn(|relay, now, effects| relay.ask(now, ask, session, (branches, count), wait, effects));
        tokio::select! {
            biased;
            told = answer => told.unwrap_or((Vec::new(), BagState::Unknown)),
            _ = gives_up => (Vec::new(), BagState::Unknown),
        }
    }

    /// Why nobody knows whether there are tasks.
    pub(crate) async fn why_unknown(&self) -> Problem {
        match self.client.known_trouble().await {
            Some(error) => Problem::new(
                "read-only",
                format!(
                    "the server hands out no tasks now, its journal cannot be written ({error}): make room or put back what is \
                     gone, and ask again; what was taken stays taken"
                ),
            ),
            None => no_server(),
        }
    }

    /// Waits until all that a session has said is on the server's disk.
    ///
    /// # Errors
    /// `lost` when some of it will never be; `read-only` when it takes long because the journal cannot be written.
    pub(crate) async fn saved(self: &Rc<Self>, session: SessionId) -> Result<(), Problem> {
        let (accepted, _) = self.look(|relay| relay.progress(session));
        if !self.look(|relay| relay.has_settled(session, accepted)) {
            let (tell, heard) = oneshot::channel();
            self.awaiting.borrow_mut().push((session, accepted, tell));
            self.turn(|relay, _, _| relay.hurry());
            let trouble = tokio::select! {
                biased;
                _ = heard => None,
                error = self.client.trouble() => Some(error),
            };
            if let Some(error) = trouble {
                self.turn(|relay, _, _| relay.may_repeat(session));
                return Err(Problem::new(
                    "read-only",
                    format!(
                        "the server cannot keep changes now, its journal cannot be written ({error}): the relay keeps what was \
                         said and has it saved when there is room; make room or put back what is gone, and say it again to \
                         know that it is saved, which counts once"
                    ),
                ));
            }
        }
        if self.turn(|relay, _, _| relay.tell_lost(session, accepted)) {
            return Err(Problem::new(
                "lost",
                "the server was away for too long: some of what was accepted is lost, and these tasks are given out again",
            ));
        }
        Ok(())
    }

    fn tell_saved(&self) {
        let relay = self.relay.borrow();
        let is_due = |(session, number, _): &mut (SessionId, u64, oneshot::Sender<()>)| {
            relay.has_settled(*session, *number)
        };
        for (_, _, tell) in self.awaiting.borrow_mut().extract_if(.., is_due) {
            let _ = tell.send(());
        }
    }

    /// Wakes the machine when it wants that. Returns when the relay has no more to do.
    pub(crate) async fn keep_time(self: &Rc<Self>) {
        let mut gone = self.gone.borrow_mut().take();
        loop {
            if self.is_done() {
                break;
            }
            if self.idle_at().is_some_and(|at| at <= Instant::now()) {
                info!("nobody needs the relay");
                self.turn(|relay, now, effects| relay.interrupt(now, effects));
                continue;
            }
            let next = self.due();
            self.sleeps_until.set(next);
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.changed.notified() => continue,
                Some(()) = heard(&mut gone) => {
                    // Without its server nothing that it has can be given back or saved.
                    if self.look(Relay::is_idle) || self.silent_at().is_some_and(|at| at <= Instant::now()) {
                        info!("the server has been stopped");
                        break;
                    }
                    continue;
                }
            }
            self.turn(|_, _, _| ());
        }
        *self.gone.borrow_mut() = gone;
    }

    // When the relay ends unless somebody says something.
    fn idle_at(&self) -> Option<Instant> {
        self.silent_at().filter(|_| self.look(|relay| relay.is_idle() && !relay.is_ending()))
    }

    /// Looks whether the access file is still there. True when it has been missing for so long that its server has been stopped,
    /// or its directory removed, and nothing that is here can be given back or saved any more.
    pub(crate) fn has_lost_its_server(&self) -> bool {
        if self.way_up.is_there() {
            self.missing_since.set(None);
            return false;
        }
        let since = self.missing_since.get().unwrap_or_else(Instant::now);
        self.missing_since.set(Some(since));
        let most = if self.look(Relay::is_idle) { limits::STOPPED_AFTER } else { limits::GONE_AFTER };
        since.elapsed() >= most
    }

    // When nobody has said anything for the idle timeout, if nobody does before.
    fn silent_at(&self) -> Option<Instant> {
        let timeout = self.idle_timeout.filter(|_| self.connections.get() == 0)?;
        Some(self.last_used.get() + timeout)
    }

    /// Lets the last words to the server leave, and those of the server to relays below.
    pub(crate) async fn say_goodbye(&self) {
        let Some(Link { words, task }) = self.link.take() else { return };
        drop(words);
        let leave = async {
            let _ = task.await;
            while !self.below.borrow().is_empty() {
                self.below_left.notified().await;
            }
        };
        let _ = timeout(limits::FAREWELL_LIMIT, leave).await;
    }
}

/// A connection, as long as it is there.
#[derive(Debug)]
pub(crate) struct Counted(Rc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count_connection(-1);
    }
}

/// A relay below this one, as long as it is there.
#[derive(Debug)]
pub(crate) struct Below {
    id: BelowId,
    counted: Counted,
}

impl Below {
    /// Its connection.
    pub(crate) fn id(&self) -> BelowId {
        self.id
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        let shared = &self.counted.0;
        shared.below.borrow_mut().remove(&self.id);
        shared.say(Word::Gone(self.id));
        shared.below_left.notify_one();
    }
}

async fn heard(gone: &mut Option<mpsc::UnboundedReceiver<()>>) -> Option<()> {
    match gone {
        Some(gone) => gone.recv().await,
        None => std::future::pending().await,
    }
}

pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

// Time that never goes back, in µs since 1970 as of the start.
#[derive(Debug)]
struct Clock {
    begin: Instant,
    begin_us: u64,
}

impl Clock {
    fn start() -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { begin: Instant::now(), begin_us: u64::try_from(since.as_micros()).unwrap_or(u64::MAX) }
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.begin_us).after(self.begin.elapsed())
    }

    fn instant(&self, at: Timestamp) -> Instant {
        self.begin + Duration::from_micros(at.0.saturating_sub(self.begin_us).min(1 << 52))
    }
}
