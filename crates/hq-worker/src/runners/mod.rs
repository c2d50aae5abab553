//! Interpreters in which functions are called: processes of the launcher that stay, each with a socket to the worker.
//!
//! The machine decides which runner has which call, and when one is started or ended. A runner gets its program over the
//! socket, so that nothing has to be installed where it runs. It begins as the process of its first task, with the outputs
//! of that: what goes wrong before it can speak is said like that of any program.

mod codes;
pub(crate) mod frames;
pub(crate) mod zygotes;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;

use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome, RunnerId, RunsIn, Start, ZygoteId};
use hq_model::body::EntryKind;
use hq_model::request::{CPUS, MEM};
use hq_model::{Body, Entry, Instance, ObjectName, TaskRef, Usage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::launcher::{End, Ended, MARK, Order, Slot, Stage, text};
use crate::objects::{Key, PutFile, Taken, Value, not_now};
use crate::prepare::Prepared;
use crate::supervise::{Active, Finish, Supervisor};
use codes::Codes;
use frames::{Call, Done, Said, Status};

/// What is read into an interpreter once it runs.
pub(super) const PROGRAM: &str =
    concat!(include_str!("values.py"), include_str!("keeping.py"), include_str!("runner.py"));
/// What an interpreter is started with: it reads the program from its standard input, which is a socket.
pub(crate) const BOOTSTRAP: &[u8] = include_bytes!("bootstrap.py");

const SIGKILL: u8 = 9;

/// What interpreters say.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The process of a runner, or why nothing more is heard of it.
    Runner((RunnerId, Slot), Result<Said, Lost>),
    /// A zygote, in its own words.
    Zygote(ZygoteId, Vec<u8>),
}

/// Why nothing more is heard of a runner.
#[derive(Debug)]
pub(crate) enum Lost {
    /// Its end of the socket is closed: mostly it has ended, and how is told by the launcher.
    Closed,
    /// It said what makes no sense.
    Fault(String),
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

    // Carries frames between a runner and the loop, from now on.
    fn connect(&mut self, id: RunnerId, slot: Slot, socket: UnixStream) {
        let (reader, writer) = socket.into_split();
        let (to, frames) = mpsc::unbounded_channel();
        tokio::spawn(write_all(writer, frames));
        let heard = self.heard.clone();
        tokio::spawn(async move {
            let why = read_all(reader, (id, slot), &heard).await;
            // The loop may have ended.
            let _ = heard.send(Heard::Runner((id, slot), Err(why)));
        });
        self.all.insert(
            id,
            Runner { slot, to, codes: Codes::default(), is_spent: false, is_ending: false, fault: None },
        );
    }

    fn say(&self, id: RunnerId, frame: Vec<u8>) {
        // What is not taken any more has ended, which is heard another way.
        let _ = self.all.get(&id).map(|runner| runner.to.send(frame));
    }
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
async fn read_all(
    mut reader: OwnedReadHalf,
    id: (RunnerId, Slot),
    heard: &mpsc::UnboundedSender<Heard>,
) -> Lost {
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
            Ok(said) => drop(heard.send(Heard::Runner(id, Ok(said)))),
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
        if let Err(outcome) = self.open_stream(&start, &prepared) {
            self.ended.push(Input::ended(start.task, outcome, Usage::default()));
            return self.runner_is_not_made(&start);
        }
        self.runners.calls += 1;
        let number = self.runners.calls;
        let put = self.put_file(id, number).filter(|_| prepared.template.spec.body.is_packed_call());
        self.begin_call(start, prepared, (id, is_new), (number, Files { taken, put }));
    }

    fn begin_call(
        &mut self,
        start: Start,
        prepared: Arc<Prepared>,
        (id, is_new): (RunnerId, bool),
        (number, files): (u64, Files),
    ) {
        let task = start.task;
        let said = match is_new {
            true => self.start_runner(&start, &prepared, id, (number, &files)),
            false => self.call_again(&start, &prepared, id, (number, &files)),
        };
        match said {
            Ok(slot) => {
                self.running.insert(task, slot.index);
                let call = Some(Current { number, start: Box::new(start.clone()), prepared, files });
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

    // Has a process started whose first call this is: forked from a zygote where that is said and it is there.
    fn start_runner(
        &mut self,
        start: &Start,
        prepared: &Prepared,
        id: RunnerId,
        call: (u64, &Files),
    ) -> Result<Slot, Outcome> {
        let (ours, theirs) = sockets().map_err(|error| {
            Outcome::NotStarted(format!("no socket could be made for an interpreter: {error}"))
        })?;
        let (memory, cpus) = (self.node.amount_of(start, MEM), self.node.amount_of(start, CPUS));
        let limits = self.enforcer.begin(start, memory, cpus).map_err(Outcome::NotStarted)?;
        let slot = self.take_slot();
        let zygote = start.runs_in.and_then(|runs_in| self.zygotes.socket(runs_in.zygote?));
        let order = prepared.order((slot, None), start, &self.node, &limits, &mut self.buffers);
        let ordered =
            order.map_err(|error| Outcome::Failed(FailureKind::Start, error)).and_then(|(mut order, _)| {
                (order.has_stdin, order.is_stdin_socket) = (true, true);
                let forked = Order { is_forked: true, ..order };
                if zygote.is_some_and(|zygote| self.launcher.fork_from(&zygote, &forked, &theirs)) {
                    return Ok(true);
                }
                let sent = self.launcher.start(&order, Some(&theirs));
                sent.map(|()| false).map_err(|error| {
                    Outcome::NotStarted(format!("cannot hand a task to the launcher: {error}"))
                })
            });
        let is_forked = match ordered {
            Ok(is_forked) => is_forked,
            Err(outcome) => {
                self.free.push(slot.index);
                self.enforcer.end((start.task, start.instance), None);
                return Err(outcome);
            }
        };
        self.runners.connect(id, slot, ours);
        // A forked one has the program.
        if !is_forked {
            let why = serde_json::Value::from(self.zygotes.why_not(&prepared.template.spec));
            let program = format!("_hq_why_not_forked = {why}\n{PROGRAM}");
            self.runners.say(id, frames::text_before(program.as_bytes()));
        }
        let names = prepared.own_variables(start, &self.node, &self.buffers);
        self.runners.say(id, frames::text_before(&names));
        self.say_call(id, start, prepared, call, !is_forked);
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
        };
        self.runners.say(id, call.encode());
    }

    /// The machine has no further use for a runner.
    pub(crate) fn end_runner(&mut self, id: RunnerId) {
        let Some(runner) = self.runners.all.get_mut(&id) else { return };
        if runner.is_spent {
            return self.kill_runner(id);
        }
        // Its process ends by itself when it hears that.
        runner.is_ending = true;
        self.runners.say(id, frames::end());
    }

    /// An interpreter says something.
    pub(crate) fn interpreter_says(&mut self, heard: Heard) {
        match heard {
            // Another process has taken its place where one could not be forked.
            Heard::Runner((id, slot), said) => {
                if self.runners.all.get(&id).is_some_and(|runner| runner.slot == slot) {
                    self.runner_says(id, said);
                }
            }
            Heard::Zygote(id, packet) => self.zygote_says(id, &packet),
        }
    }

    fn runner_says(&mut self, id: RunnerId, said: Result<Said, Lost>) {
        match said {
            Ok(Said::Ready { version }) => debug!(runner = id.0, version, "an interpreter is ready"),
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
            Ok(Said::Worn { number }) => {
                let is_its = self.task_of(id, number).is_some();
                self.ended.extend(is_its.then_some(Input::RunnerSpent { runner: id }));
            }
            Err(Lost::Fault(fault)) => self.blame_runner(id, fault),
            // One that lives is of no use.
            Err(Lost::Closed) => self.kill_runner(id),
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
        let current = current.ok_or("it told an end of a call that it does not have")?;
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
        Ok(())
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
        let slot = runner.slot;
        let Some(Active::Runner(process)) = &self.slots[slot.index as usize].active else { return };
        let (task, instance) = process.attempt();
        let mut mark = MARK.to_vec();
        self.node.keys.append(task, instance, &mut mark);
        self.launcher.end(slot, SIGKILL, &mark);
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
        let Process { id, first, call } = process;
        let runner = self.runners.all.remove(&id);
        let is_expected = runner.as_ref().is_some_and(|runner| runner.is_spent || runner.is_ending);
        let fault = runner.and_then(|runner| runner.fault);
        let over_kib = match report.end {
            End::OverMemory(kib) => Some(u64::from(kib)),
            _ => None,
        };
        let for_memory = self.enforcer.end((first.task, first.instance), over_kib);
        let is_unforked = matches!(report.end, End::NotStarted(Stage::Zygote, _)) && !is_expected;
        if let Some(Current { number, start, prepared, files }) = call {
            if is_unforked {
                let mut start = *start;
                debug!(task = %start.task, end = ?report.end, "an interpreter is started, as none could be forked");
                self.running.remove(&start.task);
                start.runs_in = start.runs_in.map(|runs_in| RunsIn { zygote: None, ..runs_in });
                if let Some(ends) = self.streaming.get(&start.task) {
                    self.buffers.streams = ends.paths();
                }
                return self.begin_call(start, prepared, (id, true), (number, files));
            }
            drop(files);
            self.running.remove(&start.task);
            let early = "before the function returned";
            let outcome = match (report.end, fault, for_memory) {
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
        } else if !is_expected {
            warn!(runner = id.0, end = ?report.end, "an interpreter without a call has ended");
        }
        self.ended.push(Input::RunnerEnded { runner: id });
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
