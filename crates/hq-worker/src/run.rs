//! The worker's loop: everything that happens goes into the machine, everything it wants is carried out.
//!
//! One thread. Each turn takes in all that is there, lets the machine settle, hands orders to the launcher and
//! reports to the server in one go, and sleeps until something happens or the machine wants to be woken.

mod clock;
mod interrupts;
mod welcome;

use std::future::{Future, pending};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use hq_core::interrupt::{Interrupt, Interruptions};
use hq_core::never;
use hq_core::worker::{Effect, Input, Worker};
use hq_core::worker_messages::{FromWorker, TaskWords, ToWorker, WorkerEnd};
use hq_model::TasksSample;
use hq_proto::{decode_to_worker, encode_from_worker};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use clock::Clock;
use interrupts::{InterruptSource, Interrupter};

use crate::enforce::{Enforcer, Kernel};
use crate::environment::Node;
use crate::launcher::Launcher;
use crate::limits;
use crate::link::{self, Connection};
use crate::notify::{self, AccessKeys, Words};
use crate::objects::{Objects, SpillTo, Staged, Store};
use crate::options::{ObjectStore, Registered, ServerSource, WorkerError, WorkerOptions, machine_of};
use crate::ranks::{self, Ask, Shared};
use crate::reader::{self, Answered};
use crate::runners::Heard;
use crate::sampling::{Sampled, Sampling, TaskLooks};
use crate::socket::register;
use crate::staging::Staging;
use crate::supervise::Supervisor;
use crate::workdir::WorkDir;

/// Runs a worker until it ends. To be called on a thread that runs no other event loop.
///
/// # Errors
/// When the server cannot be reached at first, the launcher dies, or the system refuses what a worker needs.
pub fn run(options: WorkerOptions, launcher: Launcher) -> Result<WorkerEnd, WorkerError> {
    never::tell_by(|never| {
        let (number, place) = (never.number, never.place);
        error!(number, place, "this can never happen, please report it: {}", never.text);
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| WorkerError::System { what: "no event loop", source })?;
    // As a task: waking the outermost future costs a system call each time.
    let turns = async {
        let mut turns = Turns::new(options, launcher)?;
        turns.run().await
    };
    let result = runtime.block_on(async { tokio::spawn(turns).await });
    // A name being looked up must not hold up the end.
    runtime.shutdown_background();
    match result {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

struct Turns {
    machine: Worker,
    clock: Clock,
    link: Link,
    server: ServerSource,
    interrupts: InterruptSource,
    // A child has ended, or was stopped.
    children: Signal,
    // When it was last said that the launcher was stopped.
    stop_said: Option<Instant>,
    interruptions: Interruptions,
    words: mpsc::Receiver<Words>,
    asks: mpsc::Receiver<Ask>,
    nodes: Arc<Shared>,
    cleaned: mpsc::UnboundedReceiver<Input>,
    // Tasks to which what they take was brought, or not.
    staged: mpsc::UnboundedReceiver<Staged>,
    // What tasks print into logs, for the server.
    logs: mpsc::UnboundedReceiver<Vec<u8>>,
    answers: mpsc::UnboundedReceiver<Answered>,
    // What interpreters say.
    heard: mpsc::UnboundedReceiver<Heard>,
    sampling: Sampling,
    // Counts connections, so that no answer goes to a server that has not asked.
    life: u64,
    orders: AsyncFd<OwnedFd>,
    control: AsyncFd<OwnedFd>,
    inputs: Vec<Input>,
    effects: Vec<Effect>,
    // The launcher is gone, and this is what was seen of it.
    launcher_lost: Option<std::io::Error>,
    // What ran then.
    lost_tasks: String,
    // Who hears of the first welcome.
    registered: Option<Sender<Registered>>,
    // It ends while the server is away.
    has_given_up_logs: bool,
    // Nothing waits for room for what tasks have printed.
    has_hurried: bool,
    // The directory goes after the tasks that write there: fields are dropped in this order.
    supervisor: Supervisor,
    _socket_dir: Option<WorkDir>,
    _work_dir: WorkDir,
}

enum Link {
    Down(Pin<Box<dyn Future<Output = Result<Connection, WorkerError>> + Send>>),
    Up(Box<Connection>),
}

/// What woke the loop.
enum Event {
    Connected(Result<Connection, WorkerError>),
    Frame(Result<Option<Vec<u8>>, hq_net::NetError>),
    Launcher,
    Child,
    Words(Words),
    Ask(Ask),
    Cleaned(Input),
    Staged(Staged),
    Log(Vec<u8>),
    Read(Answered),
    Runner(Heard),
    Sampled(Sampled),
    Interrupt { by: Interrupter },
    Wakeup,
}

impl Turns {
    fn new(options: WorkerOptions, launcher: Launcher) -> Result<Turns, WorkerError> {
        let WorkerOptions {
            mut config,
            server,
            hq_binary,
            work_dir,
            interrupts,
            sample_interval,
            enforce,
            pull_socket,
            objects,
            registered,
        } = options;
        let system = |what| move |source| WorkerError::System { what, source };
        let work_dir = make_dir(work_dir.unwrap_or_else(std::env::temp_dir))?;
        config.work_dir = work_dir.path().to_string_lossy().into_owned();
        let mut socket = work_dir.path().join("notify");
        let mut socket_dir = None;
        if socket.as_os_str().len() > limits::SOCKET_PATH_MAX {
            let short = make_dir(PathBuf::from("/tmp"))?;
            socket = short.path().join("notify");
            socket_dir = Some(short);
        }
        let (words_sender, words) = mpsc::channel(limits::NOTIFY_QUEUE);
        let keys = AccessKeys::new(&socket).map_err(system("no randomness"))?;
        notify::listen(&socket, keys.clone(), words_sender).map_err(system("no socket for tasks"))?;
        let (asks_sender, asks) = mpsc::channel(limits::NODE_QUEUE);
        // A server in the same process that is reached from this machine alone has no other workers.
        let has_others = match &server {
            ServerSource::File(_) => true,
            ServerSource::Endpoint(endpoint) => {
                !endpoint.host.parse().is_ok_and(|host: IpAddr| host.is_loopback())
            }
        };
        let endpoint = has_others.then(|| server.endpoint()).transpose()?;
        let nodes = Shared::new(keys.clone(), asks_sender, endpoint.as_ref());
        let port =
            ranks::listen(&ranks::socket_beside(&socket), &nodes).map_err(system("no socket for ranks"))?;
        if let (Some(port), Some(endpoint)) = (port, &endpoint) {
            config.listen_address = ranks::addresses(endpoint, &config.hostname, port);
            nodes.set_place(&config.hostname, &config.listen_address);
        }
        if has_others {
            nodes.set_server(server.clone());
        }
        let mut node = Node::new(
            launcher.environment().iter().map(|variable| variable.as_bytes().to_vec()).collect(),
            hq_binary.as_os_str().as_bytes().to_vec(),
            work_dir.path().as_os_str().as_bytes().to_vec(),
            keys,
            &config.resources,
        );
        node.server_dir = server_dir(&server);
        if let ServerSource::Endpoint(_) = server {
            node.has_no_server();
        }
        node.pull_socket = pull_socket.map(|path| path.into_os_string().into_vec());
        let sampling =
            Sampling::start(&config, sample_interval, TaskLooks::new(launcher.pid(), node.keys.clone()))
                .map_err(system("no thread"))?;
        let clock = Clock::start();
        let (cleaned_sender, cleaned) = mpsc::unbounded_channel();
        let (logs_sender, logs) = mpsc::unbounded_channel();
        let enforcer = Enforcer::new(enforce, Path::new("/"), Kernel::Real, launcher.pid());
        let (answers_sender, answers) = mpsc::unbounded_channel();
        let (heard_sender, heard) = mpsc::unbounded_channel();
        let said = (logs_sender, answers_sender);
        let store =
            objects.map(|options| open_store(options, work_dir.path(), &cleaned_sender)).transpose()?;
        config.object_store = store.as_ref().map(|store| store.config());
        node.store_dir = config.object_store.as_ref().map(|store| store.dir.clone().into_bytes());
        let mut supervisor =
            Supervisor::new(launcher, node, enforcer, cleaned_sender.clone(), said, heard_sender)
                .map_err(system("no thread"))?;
        let mut machine = machine_of(&config, clock.now())?.with_arming().with_zygotes();
        let (staged_sender, staged) = mpsc::unbounded_channel();
        if let Some(store) = store {
            let objects = Objects::new(store);
            nodes.set_objects(objects.clone());
            supervisor.staging = Some(Staging::new(objects, nodes.clone(), staged_sender));
            machine = machine.with_store();
        }
        let (orders, control) = supervisor.sockets().map_err(system("no descriptors"))?;
        let both = Interest::READABLE | Interest::WRITABLE;
        Ok(Turns {
            sampling,
            machine,
            clock,
            link: Link::Down(Box::pin(link::first(server.clone()))),
            server,
            interrupts: InterruptSource::new(interrupts).map_err(system("no signal handlers"))?,
            children: signal(SignalKind::child()).map_err(system("no signal handlers"))?,
            stop_said: None,
            interruptions: Interruptions::default(),
            words,
            asks,
            nodes,
            cleaned,
            staged,
            logs,
            answers,
            heard,
            life: 0,
            orders: register(orders, both).map_err(system("no event loop"))?,
            control: register(control, Interest::WRITABLE).map_err(system("no event loop"))?,
            inputs: Vec::new(),
            effects: Vec::new(),
            launcher_lost: None,
            registered,
            has_given_up_logs: false,
            has_hurried: false,
            lost_tasks: String::new(),
            supervisor,
            _socket_dir: socket_dir,
            _work_dir: work_dir,
        })
    }

    async fn run(&mut self) -> Result<WorkerEnd, WorkerError> {
        let mut is_handed_over = true;
        // It may have been stopped before anybody listened.
        self.look_at_launcher();
        loop {
            if !self.supervisor.has_ended() && self.inputs.is_empty() {
                let event = self.next_event(is_handed_over).await;
                if let Event::Interrupt { by } = event {
                    let heard =
                        self.interruptions.hear(self.clock.start.elapsed(), by == Interrupter::BatchSystem);
                    if heard == Interrupt::Again {
                        info!("interrupted again, ending at once");
                        return Ok(WorkerEnd::Interrupted);
                    }
                    let tasks = self.machine.running_count();
                    if by == Interrupter::Person && heard == Interrupt::First && tasks > 0 {
                        info!(
                            tasks,
                            "interrupted: the running tasks are being ended and have their --kill-grace; \
                             press Ctrl-C again to end at once"
                        );
                    }
                }
                self.take_in(event)?;
            }
            self.take_in_more();
            let end = self.turn();
            if self.launcher_lost.is_none() {
                is_handed_over = self.supervisor.flush().unwrap_or_else(|error| {
                    self.lose_launcher(error);
                    true
                });
            }
            if let Some(end) = end {
                match std::mem::replace(&mut self.link, Link::Down(Box::pin(pending()))) {
                    Link::Up(connection) => connection.close().await,
                    Link::Down(_) => {
                        for (job, tasks) in self.machine.untold() {
                            warn!(%job, %tasks, "the server never heard that these tasks have ended, and runs them again");
                        }
                    }
                }
                self.end_worlds().await;
                info!(?end, "the worker ends");
                return match self.launcher_lost.take() {
                    Some(source) if end == WorkerEnd::LauncherLost => {
                        Err(WorkerError::Launcher { source, tasks: std::mem::take(&mut self.lost_tasks) })
                    }
                    _ => Ok(end),
                };
            }
        }
    }

    // Launchers of MPI clean up behind their ranks when they are given the time.
    async fn end_worlds(&mut self) {
        let over = tokio::time::sleep(limits::WORLD_END_GRACE);
        tokio::pin!(over);
        self.supervisor.end_worlds();
        while self.supervisor.has_worlds() && self.launcher_lost.is_none() {
            let is_handed_over = self.supervisor.flush().unwrap_or(true);
            tokio::select! {
                _ = wait_readable(&self.orders) => {}
                () = wait_writable(&self.orders, &self.control), if !is_handed_over => {}
                Some(said) = self.heard.recv() => self.supervisor.interpreter_says(said),
                _ = self.interrupts.next() => return,
                () = &mut over => return,
            }
            self.take_in_more();
        }
    }

    /// Waits until something happens.
    async fn next_event(&mut self, is_handed_over: bool) -> Event {
        let Turns {
            link,
            orders,
            control,
            words,
            asks,
            cleaned,
            staged,
            logs,
            answers,
            heard,
            sampling,
            interrupts,
            children,
            machine,
            clock,
            ..
        } = self;
        let has_launcher = self.launcher_lost.is_none();
        let wakeup = machine.next_wakeup().map(|at| clock.instant(at));
        tokio::select! {
            event = next_of_link(link) => event,
            _ = wait_readable(orders), if has_launcher => Event::Launcher,
            () = wait_writable(orders, control), if !is_handed_over => Event::Launcher,
            Some(words) = words.recv() => Event::Words(words),
            Some(ask) = asks.recv() => Event::Ask(ask),
            Some(input) = cleaned.recv() => Event::Cleaned(input),
            Some(staged) = staged.recv() => Event::Staged(staged),
            Some(frame) = logs.recv() => Event::Log(frame),
            Some(answer) = answers.recv() => Event::Read(answer),
            Some(said) = heard.recv() => Event::Runner(said),
            sample = sampling.next() => Event::Sampled(sample),
            by = interrupts.next() => Event::Interrupt { by },
            Some(()) = children.recv() => Event::Child,
            () = sleep_until(wakeup) => Event::Wakeup,
        }
    }

    fn take_in(&mut self, event: Event) -> Result<(), WorkerError> {
        match event {
            Event::Connected(result) => {
                self.link = Link::Up(Box::new(result?));
                info!("connected to the server; waiting to be taken in");
                self.inputs.push(Input::ServerFound);
            }
            Event::Frame(Ok(Some(frame))) => self.frame(&frame),
            Event::Frame(Ok(None)) => self.lose("the server said goodbye"),
            Event::Frame(Err(error)) => self.lose(&error.to_string()),
            Event::Words(words) => self.speak(words),
            Event::Ask(ask) => self.supervisor.asked(ask),
            Event::Cleaned(input) => self.inputs.push(input),
            Event::Staged(staged) => self.supervisor.staged(staged),
            Event::Log(frame) => self.send(frame),
            // A server that was lost meanwhile does not know what it was asked for.
            Event::Read((life, _)) if life != self.life => {}
            Event::Read((_, answer)) => self.send(encode_from_worker(&FromWorker::Output(answer))),
            Event::Runner(said) => self.supervisor.interpreter_says(said),
            Event::Sampled(sampled) => self.tell_sample(sampled),
            Event::Interrupt { .. } => self.inputs.push(Input::Interrupt),
            Event::Wakeup => self.inputs.push(Input::Tick),
            Event::Child => self.look_at_launcher(),
            Event::Launcher => {}
        }
        Ok(())
    }

    /// Takes in what else is there, without waiting.
    fn take_in_more(&mut self) {
        while self.inputs.len() < limits::INPUTS_PER_TURN
            && let Link::Up(connection) = &mut self.link
        {
            match connection.receiver.try_next() {
                Ok(Some(frame)) => self.frame(&frame),
                Ok(None) => break,
                Err(error) => self.lose(&error.to_string()),
            }
        }
        while self.inputs.len() < limits::INPUTS_PER_TURN
            && let Ok(words) = self.words.try_recv()
        {
            self.speak(words);
        }
        let mut heard_left = limits::INPUTS_PER_TURN;
        while heard_left > 0
            && let Ok(said) = self.heard.try_recv()
        {
            heard_left -= 1;
            self.supervisor.interpreter_says(said);
        }
        while let Ok(frame) = self.logs.try_recv() {
            self.send(frame);
        }
        let mut asks_left = limits::NODE_QUEUE;
        while asks_left > 0
            && let Ok(ask) = self.asks.try_recv()
        {
            asks_left -= 1;
            self.supervisor.asked(ask);
        }
        if self.launcher_lost.is_none()
            && let Err(error) = self.supervisor.take_ended(&mut self.inputs)
        {
            self.lose_launcher(error);
        }
        // After what was said of the same tasks: that they have begun, or that nothing of them runs any more.
        while self.inputs.len() < limits::INPUTS_PER_TURN
            && let Ok(input) = self.cleaned.try_recv()
        {
            self.inputs.push(input);
        }
    }

    // A task may have stopped its parent, and would then never be ended.
    fn look_at_launcher(&mut self) {
        if !self.supervisor.launcher.continue_if_stopped() {
            return;
        }
        // A task that does it again and again does not fill the log.
        if self.stop_said.is_none_or(|said| said.elapsed() >= limits::STOP_WORDS_PAUSE) {
            self.stop_said = Some(Instant::now());
            let tasks = self.supervisor.running_tasks();
            warn!(%tasks, "the process that executes tasks was stopped by a signal, perhaps by one of them; it goes on");
        }
    }

    // Its tasks are told to be over when nothing of them is left.
    fn lose_launcher(&mut self, error: std::io::Error) {
        let tasks = self.supervisor.running_tasks();
        warn!(%error, %tasks, "the process that executes tasks has died");
        self.lost_tasks = tasks;
        self.supervisor.kill_launcher();
        self.launcher_lost = Some(error);
        self.inputs.push(Input::LauncherLost);
    }

    fn frame(&mut self, frame: &[u8]) {
        match decode_to_worker(frame) {
            Ok(ToWorker::Logged { number, written }) => self.supervisor.log_answered(number, written),
            Ok(message) => {
                if let ToWorker::Welcome(welcome) = &message {
                    self.welcomed(welcome);
                }
                self.inputs.push(Input::Server(message));
            }
            Err(error) => self.lose(&format!("the server said what makes no sense: {error}")),
        }
    }

    fn lose(&mut self, reason: &str) {
        if let Link::Up(_) = self.link {
            warn!(reason, "the server is lost");
            self.inputs.push(Input::ServerLost);
            self.supervisor.set_linked(false);
            self.life += 1;
            self.supervisor.tell_reader(reader::Order::DropAll);
            let again = link::again(self.server.clone());
            self.link = Link::Down(Box::pin(async { Ok(again.await) }));
        }
    }

    fn speak(&mut self, words: Words) {
        let Words { task, instance, text, taken } = words;
        let _ = taken.send(match self.supervisor.is_running(task, instance) {
            true => {
                self.machine.hear(TaskWords { task, instance, text }).map_err(|refused| refused.to_string())
            }
            false => Err("the task does not run any more".to_owned()),
        });
    }

    // A server that does not keep up with reading is told the next one.
    fn tell_sample(&mut self, sampled: Sampled) {
        let Link::Up(connection) = &self.link else { return };
        if !connection.has_sent_all() {
            return;
        }
        let tasks = TasksSample::of(self.supervisor.as_they_run(sampled.tasks));
        let message = FromWorker::Sampled { node: Box::new(sampled.node), tasks: Some(Box::new(tasks)) };
        self.send(encode_from_worker(&message));
    }

    /// Lets the machine act on all that was taken in. Says when and how the worker ends.
    fn turn(&mut self) -> Option<WorkerEnd> {
        let now = self.clock.now();
        for input in self.inputs.drain(..) {
            self.machine.handle(now, input, &mut self.effects);
        }
        self.machine.settle(now, &mut self.effects);
        let mut end = None;
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Start(start) => self.supervisor.start(start),
                Effect::Arm { start, after } => self.supervisor.arm(start, after),
                Effect::EndRunner { runner } => self.supervisor.end_runner(runner),
                Effect::StartZygote { zygote, template } => self.supervisor.start_zygote(zygote, template),
                Effect::LoadPackage { zygote } => self.supervisor.load_package(zygote),
                Effect::EndZygote { zygote } => self.supervisor.end_zygote(zygote),
                Effect::GoOn { task } => self.supervisor.go_on(task),
                Effect::Recall { task } => self.supervisor.recall(task),
                Effect::Signal { task, signal, ends } => self.supervisor.signal(task, signal, ends),
                Effect::KillLauncher => {
                    warn!("tasks that were killed do not end, so the process that executes them is killed");
                    self.supervisor.kill_launcher();
                    self.launcher_lost = Some(std::io::ErrorKind::TimedOut.into());
                }
                Effect::Read { order, template, has_ended } => {
                    self.supervisor.read(order, &template, has_ended, self.life);
                }
                Effect::TakeFile { object, file, is_dir } => {
                    self.supervisor.take_file(object, file, is_dir);
                }
                Effect::FreeObjects(objects) => self.supervisor.free_objects(objects),
                Effect::BringObjects { sources, is_ahead } => self.supervisor.bring(&sources, is_ahead),
                Effect::Relay { ticket } => self.nodes.give_by_server(ticket),
                Effect::GuardObjects { guard, release } => self.supervisor.guard_objects(guard, release),
                Effect::DropRead { number } => self.supervisor.tell_reader(reader::Order::Drop { number }),
                // Only relays have leases.
                Effect::Expired { .. } => {}
                Effect::ReadEnded { task } => self.supervisor.tell_reader(reader::Order::Ended { task }),
                Effect::Send(mut message) => {
                    if let FromWorker::Report(report) = &mut message {
                        report.internal_errors = never::count();
                    }
                    self.send(encode_from_worker(&message));
                }
                Effect::Exit(why) => end = Some(why),
            }
        }
        self.effects = effects;
        let is_down = matches!(self.link, Link::Down(_));
        if is_down && self.machine.is_leaving() && !std::mem::replace(&mut self.has_given_up_logs, true) {
            self.supervisor.give_up_logs();
        }
        if self.machine.ends_what_runs() && !std::mem::replace(&mut self.has_hurried, true) {
            self.supervisor.hurry();
        }
        end
    }

    fn send(&mut self, frame: Vec<u8>) {
        // What is said while the server is away is kept by the machine, and said again.
        let Link::Up(connection) = &self.link else { return };
        if let Err(reason) = connection.send(frame) {
            self.lose(&reason);
        }
    }
}

// Where tasks find the server, so that they can ask it for more.
fn server_dir(server: &ServerSource) -> Option<Vec<u8>> {
    let ServerSource::File(path) = server else { return None };
    let dir = std::path::absolute(path.parent()?.parent()?).ok()?;
    Some(dir.as_os_str().as_bytes().to_vec())
}

fn open_store(
    options: ObjectStore,
    work_dir: &Path,
    told: &mpsc::UnboundedSender<Input>,
) -> Result<Arc<Store>, WorkerError> {
    let path = options.dir.unwrap_or_else(|| work_dir.join("objects"));
    let spill = options.spill.map(|spill| SpillTo { dir: spill.dir, bytes: spill.bytes });
    Store::open(&path, options.bytes, spill.as_ref(), limits::ROOM_TIME_MAX, told.clone())
        .map_err(|source| WorkerError::Objects { path, source })
}

fn make_dir(base: PathBuf) -> Result<WorkDir, WorkerError> {
    WorkDir::create(&base).map_err(|source| WorkerError::WorkDir { path: base, source })
}

async fn next_of_link(link: &mut Link) -> Event {
    match link {
        Link::Down(connecting) => Event::Connected(connecting.await),
        Link::Up(connection) => Event::Frame(connection.receiver.next().await),
    }
}

async fn wait_readable(fd: &AsyncFd<OwnedFd>) {
    // What makes waiting fail shows when the socket is read.
    if let Ok(mut guard) = fd.readable().await {
        // Reading goes on until nothing is left, so the next wake-up is for something new.
        guard.clear_ready();
    }
}

async fn wait_writable(orders: &AsyncFd<OwnedFd>, control: &AsyncFd<OwnedFd>) {
    let ready = tokio::select! {
        ready = orders.writable() => ready,
        ready = control.writable() => ready,
    };
    if let Ok(mut guard) = ready {
        guard.clear_ready();
    }
}

async fn sleep_until(wakeup: Option<Instant>) {
    match wakeup {
        // The machine has more to do at once; the connection gets its turn in between.
        Some(at) if at <= Instant::now() => tokio::task::yield_now().await,
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => pending().await,
    }
}
