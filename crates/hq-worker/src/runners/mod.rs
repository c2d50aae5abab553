//! Interpreters in which functions are called: processes of the launcher that stay, each with a socket to the worker.
//!
//! The machine decides which runner has which call, and when one is started or ended. A runner gets its program over the
//! socket, so that nothing has to be installed where it runs. It begins as the process of its first task, with the outputs
//! of that: what goes wrong before it can speak is said like that of any program.

mod codes;
pub(crate) mod frames;
mod world;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;

use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome, RunnerId, Start};
use hq_model::body::EntryKind;
use hq_model::request::{CPUS, MEM};
use hq_model::{Body, Entry, Instance, ObjectName, TaskRef, Usage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, warn};

use crate::launcher::{End, Ended, Slot, text};
use crate::objects::{Key, PutFile, Taken, Value, not_now};
use crate::prepare::{Prepared, strings};
use crate::supervise::{Active, Finish, Supervisor};
use codes::Codes;
use frames::{Call, Done, Said, Status};
pub(crate) use world::BOOTSTRAP as RANKS_BOOTSTRAP;
use world::{World, is_alone};

/// What is read into an interpreter once it runs.
const PROGRAM: &str = concat!(include_str!("values.py"), include_str!("runner.py"));
/// What an interpreter is started with: it reads the program from its standard input, which is a socket.
pub(crate) const BOOTSTRAP: &[u8] = include_bytes!("bootstrap.py");

const SIGKILL: u8 = 9;
const SIGTERM: u8 = 15;

/// Of a runner: what it says, or why nothing more is heard of it.
pub(crate) type Heard = (RunnerId, Result<Said, Lost>);

/// Why nothing more is heard of a runner.
#[derive(Debug)]
pub(crate) enum Lost {
    /// Its end of the socket is closed: mostly it has ended, and how is told by the launcher.
    Closed,
    /// It said what makes no sense.
    Fault(String),
    /// It has had its time to end by itself.
    Late,
}

/// The runners of a worker.
#[derive(Debug)]
pub(crate) struct Runners {
    all: HashMap<RunnerId, Runner>,
    calls: u64,
    heard: mpsc::UnboundedSender<Heard>,
}

/// A runner, as far as it is no process.
#[derive(Debug)]
struct Runner {
    slot: Slot,
    // What waits to be written there is written by a task of its own: this loop waits for no interpreter.
    to: mpsc::UnboundedSender<Vec<u8>>,
    codes: Codes,
    /// Its last call is or was ended by force.
    is_spent: bool,
    /// It was told to end.
    is_ending: bool,
    /// Why it is being killed.
    fault: Option<String>,
    /// It has spoken.
    is_ready: bool,
    /// It is several processes.
    world: Option<World>,
}

/// The process of a runner.
#[derive(Debug)]
pub(crate) struct Process {
    id: RunnerId,
    /// The task for which it was started.
    first: Box<Start>,
    call: Option<Current>,
}

#[derive(Debug)]
struct Current {
    number: u64,
    start: Box<Start>,
    prepared: Arc<Prepared>,
    files: Files,
    /// It has ended, and its end is told with that of the world that was started for it.
    done: Option<Done>,
}

impl Current {
    fn ended(mut self) -> Option<(Current, Done)> {
        let done = self.done.take()?;
        Some((self, done))
    }
}

/// Files that a call reads and writes in the store. Dropped with the call: then what it takes is not held any more, and what it
/// has not finished to write is removed.
#[derive(Debug, Default)]
struct Files {
    taken: Vec<Taken>,
    put: Option<PutFile>,
}

impl Process {
    /// The attempt that runs there, or that for which it was started.
    pub(crate) fn attempt(&self) -> (TaskRef, Instance) {
        let start = self.call.as_ref().map_or(&self.first, |call| &call.start);
        (start.task, start.instance)
    }

    /// The attempt for which it was started, and the one that runs there now.
    pub(crate) fn attempts(&self) -> ((TaskRef, Instance), Option<(TaskRef, Instance)>) {
        let of = |start: &Start| (start.task, start.instance);
        (of(&self.first), self.call.as_ref().map(|call| of(&call.start)))
    }

    /// True when this is what runs there.
    pub(crate) fn runs(&self, instance: Instance) -> bool {
        self.call.as_ref().is_some_and(|call| call.start.instance == instance)
    }
}

impl Runners {
    pub(crate) fn new(heard: mpsc::UnboundedSender<Heard>) -> Runners {
        Runners { all: HashMap::new(), calls: 0, heard }
    }

    // Carries frames between a runner and the loop, from when its socket is there.
    fn connect(&mut self, id: RunnerId, slot: Slot, line: Line) {
        let (to, frames) = mpsc::unbounded_channel();
        let heard = self.heard.clone();
        let world = match line {
            Line::Socket(socket) => {
                tokio::spawn(speak(socket, frames, id, heard));
                None
            }
            Line::World(world, socket) => {
                tokio::spawn(async move {
                    // Nobody comes to a world that has ended.
                    if let Ok(socket) = socket.await {
                        speak(socket, frames, id, heard).await;
                    }
                });
                Some(world)
            }
        };
        let codes = Codes::default();
        let runner = Runner {
            slot,
            to,
            codes,
            is_spent: false,
            is_ending: false,
            fault: None,
            is_ready: false,
            world,
        };
        self.all.insert(id, runner);
    }

    fn say(&self, id: RunnerId, frame: Vec<u8>) {
        // What is not taken any more has ended, which is heard another way.
        let _ = self.all.get(&id).map(|runner| runner.to.send(frame));
    }
}

// How a runner and the worker speak.
enum Line {
    Socket(UnixStream),
    // Its rank 0 brings the other end.
    World(World, oneshot::Receiver<UnixStream>),
}

async fn speak(
    socket: UnixStream,
    frames: mpsc::UnboundedReceiver<Vec<u8>>,
    id: RunnerId,
    heard: mpsc::UnboundedSender<Heard>,
) {
    let (reader, writer) = socket.into_split();
    tokio::spawn(write_all(writer, frames));
    let why = read_all(reader, id, &heard).await;
    // The loop may have ended.
    let _ = heard.send((id, Err(why)));
}

async fn write_all(mut writer: OwnedWriteHalf, mut frames: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        // The reader hears of the end.
        if writer.write_all(&frame).await.is_err() {
            return;
        }
    }
}

// Says why there is nothing more.
async fn read_all(mut reader: OwnedReadHalf, id: RunnerId, heard: &mpsc::UnboundedSender<Heard>) -> Lost {
    loop {
        let mut header = [0; frames::HEADER];
        if reader.read_exact(&mut header).await.is_err() {
            return Lost::Closed;
        }
        let said = match frames::header(header) {
            Ok((kind, length)) => {
                let mut body = vec![0; length];
                if reader.read_exact(&mut body).await.is_err() {
                    return Lost::Closed;
                }
                frames::decode(kind, &body)
            }
            Err(fault) => Err(fault),
        };
        match said {
            Ok(said) => drop(heard.send((id, Ok(said)))),
            Err(fault) => return Lost::Fault(fault),
        }
    }
}

// Our end, and that of the runner.
fn sockets() -> io::Result<(UnixStream, Arc<OwnedFd>)> {
    let (ours, theirs) = StdStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, Arc::new(theirs.into())))
}

impl Supervisor {
    /// Calls a function, in a runner that is there or in a new one, with what was brought for it.
    pub(crate) fn call(
        &mut self,
        start: Start,
        prepared: Arc<Prepared>,
        (id, is_new): (RunnerId, bool),
        taken: Vec<Taken>,
    ) {
        let task = start.task;
        if let Err(outcome) = self.open_stream(&start, &prepared) {
            self.ended.push(Input::ended(task, outcome, Usage::default()));
            return self.runner_is_not_made(&start);
        }
        self.runners.calls += 1;
        let number = self.runners.calls;
        let put = self.put_file(id, number).filter(|_| prepared.template.spec.body.is_packed_call());
        let files = Files { taken, put };
        let said = match is_new {
            true => self.start_runner(&start, &prepared, id, (number, &files)),
            false => self.call_again(&start, &prepared, id, (number, &files)),
        };
        match said {
            Ok(slot) => {
                self.running.insert(task, slot.index);
                if is_new && start.nodes.len() > 1 {
                    // Its ranks on other nodes are started through this worker.
                    self.open_part(start.clone(), prepared.clone());
                }
                let call =
                    Some(Current { number, start: Box::new(start.clone()), prepared, files, done: None });
                match &mut self.slots[slot.index as usize].active {
                    Some(Active::Runner(process)) => process.call = call,
                    free => *free = Some(Active::Runner(Process { id, first: Box::new(start), call })),
                }
            }
            Err(outcome) => {
                if let (Some(ends), Some(streams)) = (self.streaming.remove(&task), &mut self.streams) {
                    streams.forget(ends);
                }
                self.ended.push(Input::ended(task, outcome, Usage::default()));
                self.runner_is_not_made(&start);
            }
        }
    }

    /// A call was not begun for which a runner was to be started.
    pub(crate) fn runner_is_not_made(&mut self, start: &Start) {
        let runs_in = start.runs_in.filter(|runs_in| runs_in.is_new);
        self.ended.extend(runs_in.map(|runs_in| Input::RunnerEnded { runner: runs_in.runner }));
    }

    // Has a process started whose first call this is.
    fn start_runner(
        &mut self,
        start: &Start,
        prepared: &Prepared,
        id: RunnerId,
        call: (u64, &Files),
    ) -> Result<Slot, Outcome> {
        let no_socket =
            |error| Outcome::NotStarted(format!("no socket could be made for an interpreter: {error}"));
        let (line, theirs) = match start.ranks.is_empty() {
            true => {
                let (ours, theirs) = sockets().map_err(no_socket)?;
                (Line::Socket(ours), Some(theirs))
            }
            false => {
                let (first, comes) = oneshot::channel();
                let world = World::open(self.node.keys.directory(), id, first, self.runners.heard.clone());
                let world = world.map_err(no_socket)?;
                world.append_variables(&prepared.template.spec.launcher, &mut self.buffers.world);
                (Line::World(world, comes), None)
            }
        };
        let log = match &line {
            Line::Socket(_) => None,
            Line::World(world, _) => Some(world.log().as_os_str().as_bytes().to_vec()),
        };
        let (memory, cpus) = (self.node.amount_of(start, MEM), self.node.amount_of(start, CPUS));
        let limits = self.enforcer.begin(start, memory, cpus).map_err(Outcome::NotStarted)?;
        let slot = self.take_slot();
        let order = prepared.order((slot, None), start, &self.node, &limits, &mut self.buffers);
        let ordered =
            order.map_err(|error| Outcome::Failed(FailureKind::Start, error)).and_then(|(mut order, _)| {
                (order.has_stdin, order.is_stdin_socket) = (theirs.is_some(), theirs.is_some());
                if let Some(log) = &log {
                    (order.stdout, order.stderr) = (log, log);
                }
                let sent = self.launcher.start(&order, theirs.as_ref());
                sent.map_err(|error| {
                    Outcome::NotStarted(format!("cannot hand a task to the launcher: {error}"))
                })
            });
        if let Err(outcome) = ordered {
            self.free.push(slot.index);
            self.enforcer.end((start.task, start.instance), None);
            return Err(outcome);
        }
        self.runners.connect(id, slot, line);
        let names =
            strings(&self.buffers.env).filter_map(|variable| variable.split(|byte| *byte == b'=').next());
        let names: Vec<&[u8]> = names.collect();
        self.runners.say(id, frames::preface(PROGRAM.as_bytes(), &names.join(&0)));
        self.buffers.task_dir.clear();
        self.say_call(id, start, prepared, call, theirs.is_some());
        Ok(slot)
    }

    fn call_again(
        &mut self,
        start: &Start,
        prepared: &Prepared,
        id: RunnerId,
        call: (u64, &Files),
    ) -> Result<Slot, Outcome> {
        let gone = || Outcome::NotStarted("the interpreter for a function is gone".to_owned());
        let slot = self.runners.all.get(&id).ok_or_else(gone)?.slot;
        prepared
            .fill(start, &self.node, &mut self.buffers)
            .map_err(|error| Outcome::Failed(FailureKind::Start, error))?;
        self.say_call(id, start, prepared, call, false);
        Ok(slot)
    }

    // The buffers are those of this task.
    fn say_call(
        &mut self,
        id: RunnerId,
        start: &Start,
        prepared: &Prepared,
        (number, files): (u64, &Files),
        is_prepared: bool,
    ) {
        let Some(function) = prepared.template.spec.body.function() else { return };
        let code = match (function.is_packed(), self.runners.all.get_mut(&id)) {
            (true, Some(runner)) => {
                let (number, is_new) = runner.codes.number_of(&prepared.template.spec, &function.code);
                if is_new {
                    self.runners.say(id, frames::code(number, &function.code));
                }
                Some(number)
            }
            _ => None,
        };
        let mut ranks = Vec::new();
        if !start.ranks.is_empty() {
            prepared.append_ranks(start, &self.node, &mut ranks);
        }
        let buffers = &self.buffers;
        let put = files.put.as_ref().map(PutFile::path).unwrap_or_default();
        let call = Call {
            number,
            is_prepared,
            name: function.name.as_bytes(),
            arguments: &function.arguments,
            entry: start.entry.as_ref().map(Entry::text),
            entry_is_json: function.entry == EntryKind::Json,
            code,
            inputs: &start.inputs,
            cwd: &buffers.cwd,
            stdout: &buffers.stdout,
            stderr: &buffers.stderr,
            submit_dir: &prepared.template.submit_dir,
            task_dir: &buffers.task_dir,
            environment: &buffers.env,
            put: put.as_os_str().as_bytes(),
            taken: &files.taken,
            ranks: &ranks,
            has_own_world: is_alone(start),
            gathers: function.gathers,
        };
        self.runners.say(id, call.encode());
    }

    /// The machine has no further use for a runner.
    pub(crate) fn end_runner(&mut self, id: RunnerId) {
        let Some(runner) = self.runners.all.get_mut(&id) else { return };
        if runner.is_spent {
            return match runner.world {
                Some(_) => self.end_world(id),
                None => self.kill_runner(id),
            };
        }
        // Its process ends by itself when it hears that.
        runner.is_ending = true;
        self.runners.say(id, frames::end());
    }

    /// A runner says something.
    pub(crate) fn runner_says(&mut self, (id, said): Heard) {
        match said {
            Ok(Said::Ready { version }) => {
                debug!(runner = id.0, version, "an interpreter is ready");
                if let Some(runner) = self.runners.all.get_mut(&id) {
                    runner.is_ready = true;
                }
            }
            Ok(Said::Done(done)) => {
                if let Err(fault) = self.call_done(id, done) {
                    self.blame_runner(id, fault);
                }
            }
            Ok(Said::Waits { number }) => {
                self.ended.extend(self.task_of(id, number).map(|task| Input::CallWaits { task }));
            }
            Ok(Said::Wants { number }) => {
                self.ended.extend(self.task_of(id, number).map(|task| Input::CallWants { task }));
            }
            Ok(Said::Spent) => {
                if let Some(runner) = self.runners.all.get_mut(&id) {
                    runner.is_spent = true;
                    self.ended.push(Input::RunnerSpent { runner: id });
                }
            }
            Ok(Said::Leaves { names }) => {
                if let Some(world) = self.runners.world(id) {
                    world.leaves.extend(names);
                }
            }
            Ok(Said::RankDied(died)) => {
                if let Some(world) = self.runners.world(id) {
                    world.died.get_or_insert(died);
                    self.end_world(id);
                }
            }
            Err(Lost::Fault(fault)) => self.blame_runner(id, fault),
            // One that lives is of no use. A world takes longer to end than its rank 0.
            Err(Lost::Closed) => match self.runners.world(id) {
                Some(_) => self.runners.give_up_later(id),
                None => self.kill_runner(id),
            },
            Err(Lost::Late) => {
                if let Some(slot) = self.runners.all.get(&id).map(|runner| runner.slot) {
                    self.end_slot(slot, SIGKILL);
                }
            }
        }
    }

    // Whose call a runner has, if it is this one.
    fn task_of(&self, id: RunnerId, number: u64) -> Option<TaskRef> {
        let slot = self.runners.all.get(&id)?.slot;
        let state =
            self.slots.get(slot.index as usize).filter(|state| state.generation == slot.generation)?;
        let Some(Active::Runner(process)) = &state.active else { return None };
        let call = process.call.as_ref().filter(|call| call.number == number)?;
        Some(call.start.task)
    }

    /// A call that waited goes on.
    pub(crate) fn go_on(&mut self, task: TaskRef) {
        let Some(slot) = self.running.get(&task) else { return };
        if let Some(Active::Runner(Process { id, call: Some(call), .. })) = &self.slots[*slot as usize].active
        {
            self.runners.say(*id, frames::go_on(call.number));
        }
    }

    fn call_done(&mut self, id: RunnerId, done: Done) -> Result<(), String> {
        let Some(runner) = self.runners.all.get(&id) else { return Ok(()) };
        let slot = runner.slot.index;
        let state = &mut self.slots[slot as usize];
        let Some(Active::Runner(process)) =
            state.active.as_mut().filter(|_| state.generation == runner.slot.generation)
        else {
            return Ok(());
        };
        let has_file = matches!(done.status, Status::Stored | Status::NotStored);
        let is_of = |call: &Current| call.number == done.number && (!has_file || call.files.put.is_some());
        let current = process.call.take_if(|call| is_of(call));
        let mut current = current.ok_or("it told an end of a call that it does not have")?;
        if is_alone(&current.start) {
            // What its ranks leave on all nodes is gone when the call has ended.
            current.done = Some(done);
            process.call = Some(current);
            self.runners.say(id, frames::end());
            self.runners.give_up_later(id);
            return Ok(());
        }
        self.conclude(id, slot, current, done);
        Ok(())
    }

    // Tells the end of a call.
    fn conclude(&mut self, id: RunnerId, slot: u32, current: Current, done: Done) {
        let task = current.start.task;
        self.running.remove(&task);
        let Done { status, wall_us, user_us, system_us, rss_max_kib, result, text, .. } = done;
        let usage = Usage { wall_us, user_us, system_us, rss_max_kib, ..Usage::default() };
        if status == Status::NotStarted {
            // It may have no descriptors left.
            self.call_is_ended(slot);
            self.ended.push(Input::RunnerSpent { runner: id });
        }
        let Current { start, prepared, files, .. } = current;
        let value = value_of(&start, &prepared, files.put, status);
        let outcome = match status {
            Status::NotStored => {
                self.mend_store();
                not_now(&value_key(&start, &prepared).object, text)
            }
            status => outcome_of_call(&prepared.template.spec.body, status, text),
        };
        self.finish(*start, prepared, Finish { outcome, usage, result, value });
    }

    // It does not do what runners do.
    fn blame_runner(&mut self, id: RunnerId, fault: String) {
        let Some(runner) = self.runners.all.get_mut(&id).filter(|runner| runner.fault.is_none()) else {
            return;
        };
        runner.fault = Some(fault);
        self.kill_runner(id);
    }

    fn kill_runner(&mut self, id: RunnerId) {
        let Some(runner) = self.runners.all.get(&id).filter(|runner| !runner.is_ending) else { return };
        self.end_slot(runner.slot, SIGKILL);
    }

    /// A call is being ended: its runner is not to have another one.
    pub(crate) fn call_is_ended(&mut self, slot: u32) {
        if let Some(Active::Runner(process)) = &self.slots[slot as usize].active
            && let Some(runner) = self.runners.all.get_mut(&process.id)
        {
            runner.is_spent = true;
        }
    }

    /// The process of a runner has ended, and with it the call that it had.
    pub(crate) fn runner_ended(&mut self, process: Process, report: Ended) {
        let Process { id, first, mut call } = process;
        let runner = self.runners.all.remove(&id);
        if let Some((call, done)) = call.take_if(|call| call.done.is_some()).and_then(Current::ended) {
            self.conclude(id, report.slot.index, call, done);
        }
        let is_expected = runner.as_ref().is_some_and(|runner| runner.is_spent || runner.is_ending);
        let (is_ready, fault, world) =
            runner.map_or((true, None, None), |runner| (runner.is_ready, runner.fault, runner.world));
        if first.nodes.len() > 1 {
            self.drop_part(first.task);
        }
        let over_kib = match report.end {
            End::OverMemory(kib) => Some(u64::from(kib)),
            _ => None,
        };
        let for_memory = self.enforcer.end((first.task, first.instance), over_kib);
        if let Some(call) = call {
            self.call_ended_with_runner(call, (report, for_memory), (is_ready, fault, world));
        } else if !is_expected {
            warn!(runner = id.0, end = ?report.end, "an interpreter without a call has ended");
        }
        self.ended.push(Input::RunnerEnded { runner: id });
    }

    fn call_ended_with_runner(
        &mut self,
        call: Current,
        (report, for_memory): (Ended, Option<String>),
        (is_ready, fault, world): (bool, Option<String>, Option<World>),
    ) {
        let Current { start, prepared, files, .. } = call;
        drop(files);
        self.running.remove(&start.task);
        let early = "before the function returned";
        let of_world = world.filter(|_| fault.is_none()).and_then(|world| world.why(is_ready));
        let outcome = match (report.end, fault, for_memory) {
            (_, _, None) if let Some(outcome) = of_world => outcome,
            (End::Exited(0), _, None) => {
                // As if nothing were wrong, by `os._exit`.
                let text = format!("The interpreter exited with code 0 {early}.");
                Outcome::Failed(FailureKind::Output, text)
            }
            (End::Exited(code), _, None) => {
                let text = format!("The interpreter exited with code {code} {early}.");
                Outcome::Failed(FailureKind::Exit(code), text)
            }
            (End::Signaled(SIGKILL), Some(fault), None) => {
                let text = format!("The interpreter was killed {early}: {fault}.");
                Outcome::Failed(FailureKind::Signal(SIGKILL), text)
            }
            (End::Signaled(signal), _, None) => {
                let text = format!("The interpreter was ended {early}: {}", text::signaled(signal));
                Outcome::Failed(FailureKind::Signal(signal), text)
            }
            (end, _, for_memory) => match self.outcome_of(end, for_memory, &start, &prepared) {
                Some(outcome) => outcome,
                None => return,
            },
        };
        self.finish(*start, prepared, Finish::new(outcome, report.usage));
    }
}

// The file of what a function returned.
fn value_of(start: &Start, prepared: &Prepared, put: Option<PutFile>, status: Status) -> Option<Value> {
    let file = put?;
    if status != Status::Stored {
        file.settle();
        return None;
    }
    let function = prepared.template.spec.body.function().map_or_else(String::new, |f| f.name.clone());
    Some(Value { key: value_key(start, prepared), function, file })
}

fn value_key(start: &Start, prepared: &Prepared) -> Key {
    let spec = &prepared.template.spec;
    let (object, instance) = spec.object_left(start.task, start.instance, &ObjectName::value());
    Key { object, instance }
}

// What a runner says of the end of a call, in words.
fn outcome_of_call(body: &Body, status: Status, text: String) -> Outcome {
    let name = body.function().map_or("", |function| &function.name);
    let (told, form) =
        if body.is_packed_call() { ("pickled", "pickled") } else { ("said in JSON", "as JSON") };
    match status {
        Status::Value | Status::Stored => Outcome::Finished,
        Status::Raised(code) => Outcome::Failed(FailureKind::Exit(code), text),
        Status::NotLoaded => {
            Outcome::Failed(FailureKind::Start, format!("The function {name} cannot be loaded: {text}"))
        }
        Status::NotStarted => Outcome::Failed(FailureKind::Start, text),
        Status::NotTold => {
            Outcome::Failed(FailureKind::Output, format!("The result of {name} cannot be {told}: {text}"))
        }
        // Told apart before.
        Status::NotStored => Outcome::NotStarted(text),
        Status::TooLarge => Outcome::Failed(
            FailureKind::Output,
            format!(
                "The result of {name} takes {text} bytes {form}, and at most {} are kept: let it write a file, and \
                 return the path.",
                hq_core::limits::RESULT_BYTES_MAX
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn files_of_values_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let program = concat!(include_str!("values.py"), include_str!("values_test.py"));
        let output = std::process::Command::new("python3")
            .args(["-c", program])
            .current_dir(dir.path())
            .output()
            .expect("python3 runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
