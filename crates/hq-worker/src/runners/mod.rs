//! Interpreters in which functions are called: processes of the launcher that stay, each with a socket to the worker.
//!
//! The machine decides which runner has which call, and when one is started or ended. A runner gets its program over the
//! socket, so that nothing has to be installed where it runs. It begins as the process of its first task, with the outputs
//! of that: what goes wrong before it can speak is said like that of any program.

mod ahead;
mod channel;
mod codes;
pub(crate) mod frames;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome, RunnerId, Start};
use hq_model::body::EntryKind;
use hq_model::request::{CPUS, MEM};
use hq_model::{Body, Entry, Instance, ObjectName, TaskRef, Usage};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::launcher::{End, Ended, MARK, Slot, text};
use crate::limits::RUNNER_LOOK;
use crate::objects::{Key, PutFile, Taken, Value, not_now};
use crate::prepare::{Prepared, strings};
use crate::supervise::{Active, Finish, Supervisor};
use channel::{Channel, Look};
use codes::Codes;
use frames::{Call, Done, Said, Status};

/// What is read into an interpreter once it runs.
const PROGRAM: &str = concat!(include_str!("values.py"), include_str!("runner.py"));
/// What an interpreter is started with: it reads the program from its standard input, which is a socket.
pub(crate) const BOOTSTRAP: &[u8] = include_bytes!("bootstrap.py");

const SIGKILL: u8 = 9;

/// What an interpreter exits with whose function has closed its connection.
const CLOSED: u8 = 113;

/// A runner may have said something, or has ended.
pub(crate) type Heard = RunnerId;

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
    channel: Channel,
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
    /// Its call, and behind that those that it was told beforehand.
    calls: VecDeque<Current>,
}

#[derive(Debug)]
struct Current {
    number: u64,
    start: Box<Start>,
    prepared: Arc<Prepared>,
    files: Files,
    /// It waits for what others return, and has no CPUs.
    waits: bool,
}

/// Files that a call reads and writes in the store. Dropped with the call: then what it takes is not held any more, and what it
/// has not finished to write is removed.
#[derive(Debug, Default)]
struct Files {
    taken: Vec<Taken>,
    put: Option<PutFile>,
}

impl Process {
    pub(crate) fn id(&self) -> RunnerId {
        self.id
    }

    /// The attempt that runs there, or that for which it was started.
    pub(crate) fn attempt(&self) -> (TaskRef, Instance) {
        let start = self.calls.front().map_or(&self.first, |call| &call.start);
        (start.task, start.instance)
    }

    /// The attempt for which it was started, and the one that runs there now.
    pub(crate) fn attempts(&self) -> ((TaskRef, Instance), Option<(TaskRef, Instance)>) {
        let of = |start: &Start| (start.task, start.instance);
        (of(&self.first), self.calls.front().map(|call| of(&call.start)))
    }

    /// True when this is what runs there, or will: what it says may be heard before the end of the one before it.
    pub(crate) fn runs(&self, task: TaskRef, instance: Instance) -> bool {
        self.calls.iter().any(|call| (call.start.task, call.start.instance) == (task, instance))
    }
}

impl Runners {
    pub(crate) fn new(heard: mpsc::UnboundedSender<Heard>) -> Runners {
        Runners { all: HashMap::new(), calls: 0, heard }
    }
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
        let (number, files) = self.begin_call(id, &prepared, taken);
        let said = match is_new {
            true => self.start_runner(&start, &prepared, id, (number, &files)),
            false => self.call_again(&start, &prepared, id, (number, &files)),
        };
        match said {
            Ok(slot) => {
                self.running.insert(task, slot.index);
                let call = Current { number, start: Box::new(start.clone()), prepared, files, waits: false };
                match &mut self.slots[slot.index as usize].active {
                    Some(Active::Runner(process)) => process.calls.push_back(call),
                    free => {
                        let (first, calls) = (Box::new(start), VecDeque::from([call]));
                        *free = Some(Active::Runner(Process { id, first, calls }));
                    }
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
        let (memory, cpus) = (self.node.amount_of(start, MEM), self.node.amount_of(start, CPUS));
        let limits = self.enforcer.begin(start, memory, cpus).map_err(Outcome::NotStarted)?;
        let slot = self.take_slot();
        let order = prepared.order((slot, None), start, &self.node, &limits, &mut self.buffers);
        let ordered =
            order.map_err(|error| Outcome::Failed(FailureKind::Start, error)).and_then(|(mut order, _)| {
                let names =
                    strings(order.env).filter_map(|variable| variable.split(|byte| *byte == b'=').next());
                let names: Vec<&[u8]> = names.collect();
                let preface = frames::preface(PROGRAM.as_bytes(), &names.join(&0));
                let opened = Channel::open(id, self.runners.heard.clone(), &preface);
                let (channel, theirs) = opened.map_err(|error| {
                    Outcome::NotStarted(format!("no socket could be made for an interpreter: {error}"))
                })?;
                (order.has_stdin, order.is_stdin_socket) = (true, true);
                let sent = self.launcher.start(&order, Some(&theirs));
                sent.map_err(|error| {
                    Outcome::NotStarted(format!("cannot hand a task to the launcher: {error}"))
                })?;
                Ok(channel)
            });
        match ordered {
            Ok(channel) => {
                let codes = Codes::default();
                let runner = Runner { slot, channel, codes, is_spent: false, is_ending: false, fault: None };
                self.runners.all.insert(id, runner);
            }
            Err(outcome) => {
                self.free.push(slot.index);
                self.enforcer.end((start.task, start.instance), None);
                return Err(outcome);
            }
        }
        // There is room for it: nothing was put there before.
        let _ = self.say_call(id, start, prepared, call, true);
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
        self.say_call(id, start, prepared, call, false).map_err(|_| gone())?;
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
    ) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::NotConnected);
        let function = prepared.template.spec.body.function().ok_or_else(gone)?;
        let runner = self.runners.all.get_mut(&id).ok_or_else(gone)?;
        let code = function.is_packed().then(|| {
            let (number, is_new) = runner.codes.number_of(&prepared.template.spec, &function.code);
            if is_new {
                runner.channel.say(frames::code(number, &function.code));
            }
            number
        });
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
        runner.channel.put(number)?;
        runner.channel.say(call.encode());
        Ok(())
    }

    /// The machine has no further use for a runner.
    pub(crate) fn end_runner(&mut self, id: RunnerId) {
        let Some(runner) = self.runners.all.get_mut(&id) else { return };
        if runner.is_spent {
            return self.kill_runner(id);
        }
        // Its process ends by itself when it hears that.
        runner.is_ending = true;
        // One that has no call has room for this.
        let _ = runner.channel.put(frames::END);
    }

    /// A runner may have said something.
    pub(crate) fn runner_says(&mut self, id: RunnerId) {
        if self.listen(id)
            && let Some(calls) = self.process_of(id).map(|process| process.calls.len())
            && let Some(runner) = self.runners.all.get(&id)
        {
            runner.channel.look(if calls > 1 { Look::In(RUNNER_LOOK) } else { Look::Once });
        }
    }

    /// Takes in all that a runner has said. False when it says no more.
    pub(crate) fn listen(&mut self, id: RunnerId) -> bool {
        let mut said = Vec::new();
        let Some(runner) = self.runners.all.get_mut(&id) else { return false };
        let read = runner.channel.read(|bytes| {
            let frame = frames::decode_next(bytes)?;
            Ok(frame.map(|(one, length)| {
                said.push(one);
                length
            }))
        });
        for one in said {
            if let Err(fault) = self.said(id, one) {
                self.blame_runner(id, fault);
                return false;
            }
        }
        match read {
            Ok(false) => return true,
            // Mostly it has ended, and how is told by the launcher. One that lives is of no use, unless its function still runs,
            // which may have closed all descriptors.
            Ok(true) if self.has_call(id) => {
                self.runners.all.get_mut(&id).into_iter().for_each(|runner| runner.is_spent = true);
            }
            Ok(true) => self.kill_runner(id),
            Err(fault) => self.blame_runner(id, fault),
        }
        false
    }

    fn said(&mut self, id: RunnerId, said: Said) -> Result<(), String> {
        match said {
            Said::Ready { version } => debug!(runner = id.0, version, "an interpreter is ready"),
            Said::Done(done) => return self.call_done(id, done),
            Said::Waits { number } => {
                let call = self.call_of(id, number);
                let task = call.map(|call| {
                    call.waits = true;
                    call.start.task
                });
                self.ended.extend(task.map(|task| Input::CallWaits { task }));
            }
            Said::Wants { number } => {
                let task = self.call_of(id, number).map(|call| call.start.task);
                self.ended.extend(task.map(|task| Input::CallWants { task }));
            }
        }
        Ok(())
    }

    fn has_call(&mut self, id: RunnerId) -> bool {
        self.process_of(id).is_some_and(|process| !process.calls.is_empty())
    }

    fn process_of(&mut self, id: RunnerId) -> Option<&mut Process> {
        let slot = self.runners.all.get(&id)?.slot;
        let state =
            self.slots.get_mut(slot.index as usize).filter(|state| state.generation == slot.generation)?;
        match &mut state.active {
            Some(Active::Runner(process)) => Some(process),
            _ => None,
        }
    }

    // The call that a runner has, if it is this one.
    fn call_of(&mut self, id: RunnerId, number: u64) -> Option<&mut Current> {
        self.process_of(id)?.calls.front_mut().filter(|call| call.number == number)
    }

    /// A call that waited goes on.
    pub(crate) fn go_on(&mut self, task: TaskRef) {
        let Some(slot) = self.running.get(&task) else { return };
        if let Some(Active::Runner(Process { id, calls, .. })) = &mut self.slots[*slot as usize].active
            && let Some(call) = calls.front_mut().filter(|call| call.start.task == task)
        {
            call.waits = false;
            if let Some(runner) = self.runners.all.get(id) {
                runner.channel.say(frames::go_on(call.number));
            }
        }
    }

    fn call_done(&mut self, id: RunnerId, done: Done) -> Result<(), String> {
        let Some(process) = self.process_of(id) else { return Ok(()) };
        let has_file = matches!(done.status, Status::Stored | Status::NotStored);
        let is_of = |call: &Current| call.number == done.number && (!has_file || call.files.put.is_some());
        let is_known = process.calls.front().is_some_and(is_of);
        let current = if is_known { process.calls.pop_front() } else { None };
        let current = current.ok_or("it told an end of a call that it does not have")?;
        let task = current.start.task;
        self.running.remove(&task);
        let Done { status, wall_us, user_us, system_us, rss_max_kib, result, text, .. } = done;
        let usage = Usage { wall_us, user_us, system_us, rss_max_kib, ..Usage::default() };
        if status == Status::NotStarted || current.waits {
            // It may have no descriptors left, or does not know whether it was told to go on.
            self.spend_runner(id);
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
        self.finish_call(id, *start, prepared, Finish { outcome, usage, result, value });
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
        let Process { id, first, calls } = process;
        let runner = self.runners.all.remove(&id);
        let untaken = runner.as_ref().map_or_else(Vec::new, |runner| runner.channel.take_back());
        let is_expected = runner.as_ref().is_some_and(|runner| runner.is_spent || runner.is_ending);
        let fault = runner.and_then(|runner| runner.fault);
        let over_kib = match report.end {
            End::OverMemory(kib) => Some(u64::from(kib)),
            _ => None,
        };
        let for_memory = self.enforcer.end((first.task, first.instance), over_kib);
        // What it has not taken has not begun; but the call that it was to have fails with it.
        let begun = self.begun_of(calls, &untaken);
        if begun.is_empty() && !is_expected {
            warn!(runner = id.0, end = ?report.end, "an interpreter without a call has ended");
        }
        let tasks: Vec<TaskRef> = begun.iter().map(|call| call.start.task).collect();
        for (place, Current { start, prepared, files, .. }) in begun.into_iter().enumerate() {
            drop(files);
            self.running.remove(&start.task);
            let early = "before the function returned";
            let outcome = match (report.end, &fault, &for_memory) {
                (End::Exited(0), _, None) => {
                    // As if nothing were wrong, by `os._exit`.
                    let text = format!("The interpreter exited with code 0 {early}.");
                    Outcome::Failed(FailureKind::Output, text)
                }
                (End::Exited(CLOSED), _, None) => {
                    let text = "The function has closed the connection of its interpreter to the worker, as one does that \
                                closes all descriptors: close only what it has opened.";
                    Outcome::Failed(FailureKind::Output, text.to_owned())
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
                (end, _, for_memory) => match self.outcome_of(end, for_memory.clone(), &start, &prepared) {
                    Some(outcome) => outcome,
                    None => return,
                },
            };
            let next = tasks.get(place + 1).copied();
            self.finish_before(next, *start, prepared, Finish::new(outcome, report.usage));
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
