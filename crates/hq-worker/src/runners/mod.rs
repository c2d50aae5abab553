//! Interpreters in which functions are called: processes of the launcher that stay, each with a socket to the worker.
//!
//! The machine decides which runner has which call, and when one is started or ended. A runner gets its program over the
//! socket, so that nothing has to be installed where it runs. It begins as the process of its first task, with the outputs
//! of that: what goes wrong before it can speak is said like that of any program.

mod ahead;
mod channel;
mod codes;
mod ended;
pub(crate) mod frames;
mod starting;
mod world;
pub(crate) mod zygotes;

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome, RunnerId, Start, ZygoteId};
use hq_model::{Body, Instance, ObjectName, TaskLoad, TaskRef, TaskSample, Usage};
use tokio::sync::mpsc;
use tracing::debug;

use crate::launcher::Slot;
use crate::limits::{RUNNER_LOOK, WORLD_START_LIMIT};
use crate::objects::{Key, PutFile, Taken, Value, not_now};
use crate::prepare::Prepared;
use crate::supervise::{Active, Finish, Supervisor};
use channel::{Channel, Look};
use codes::Codes;
use frames::{Done, RankDied, Said, Status};
pub(crate) use world::{BOOTSTRAP as RANKS_BOOTSTRAP, remove_memory_of};
use world::{World, is_alone};

/// What an interpreter is started with: it reads the program from its standard input, which is a socket.
pub(crate) const BOOTSTRAP: &[u8] = include_bytes!("bootstrap.py");

const SIGKILL: u8 = 9;
const SIGTERM: u8 = 15;

/// There is something of an interpreter.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Of the process of a runner.
    Runner((RunnerId, Slot), News),
    /// A zygote says something, in its own words.
    Zygote(ZygoteId, Vec<u8>),
}

/// What there is of a runner.
#[derive(Debug)]
pub(crate) enum News {
    /// It may have said something, or has ended.
    Look,
    /// Rank 0 of a world has come, and this is what it is spoken to over.
    Came(OwnedFd),
    /// Nobody has come to a world in time.
    NobodyCame,
    /// A rank of a world has died.
    RankDied(RankDied),
    /// A world has had its time to end by itself.
    Late,
}

/// The runners of a worker.
#[derive(Debug)]
pub(crate) struct Runners {
    all: HashMap<RunnerId, Runner>,
    calls: u64,
    // Those to which something was said that is not on its way yet.
    told: Vec<RunnerId>,
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
    /// It was told to end, or does by itself after its call.
    is_ending: bool,
    /// It says no more.
    is_closed: bool,
    /// Why it is being killed.
    fault: Option<String>,
    /// It has spoken.
    is_ready: bool,
    /// It is several processes.
    world: Option<World>,
}

impl Runner {
    fn new(slot: Slot, channel: Channel, world: Option<World>) -> Runner {
        Runner {
            slot,
            channel,
            codes: Codes::default(),
            is_spent: false,
            is_ending: false,
            is_closed: false,
            fault: None,
            is_ready: false,
            world,
        }
    }
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
    /// It has ended, and its end is told with that of the world that was started for it.
    done: Option<Done>,
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
        Runners { all: HashMap::new(), calls: 0, told: Vec::new(), heard }
    }
}

impl Runners {
    /// What a runner is told through; it leaves with the next flush.
    fn tell(&mut self, id: RunnerId) -> Option<&mut Channel> {
        let channel = &mut self.all.get_mut(&id)?.channel;
        if self.told.last() != Some(&id) {
            self.told.push(id);
        }
        Some(channel)
    }
}

impl Supervisor {
    /// What was said to interpreters is on its way after this.
    pub(crate) fn flush_runners(&mut self) {
        for id in std::mem::take(&mut self.runners.told) {
            let runner = self.runners.all.get_mut(&id);
            if let Some(Err(error)) = runner.map(|runner| runner.channel.flush()) {
                self.blame_runner(id, format!("it cannot be told its calls: {error}"));
            }
        }
    }

    /// What was seen of processes, as of the tasks that run there: an interpreter is called by one after the other.
    pub(crate) fn as_they_run(&self, mut samples: Vec<TaskSample>) -> Vec<TaskSample> {
        let runners = self.slots.iter().filter_map(|slot| match &slot.active {
            Some(Active::Runner(runner)) => Some(runner.attempts()),
            _ => None,
        });
        let calls: HashMap<_, _> = runners.collect();
        samples.retain_mut(|sample| match calls.get(&(sample.task, sample.instance)) {
            None => true,
            Some(None) => false,
            Some(Some((task, instance))) => {
                (sample.task, sample.instance) = (*task, *instance);
                // Calls before it have used some of that.
                let TaskLoad { cpus, memory_bytes, processes, .. } = sample.load;
                sample.load = TaskLoad { cpus, memory_bytes, processes, ..TaskLoad::default() };
                true
            }
        });
        samples
    }

    /// There is something of an interpreter.
    pub(crate) fn interpreter_says(&mut self, heard: Heard) {
        match heard {
            // Another process has taken its place where one could not be forked.
            Heard::Runner((id, slot), news) => {
                if self.runners.all.get(&id).is_some_and(|runner| runner.slot == slot) {
                    self.hear_of_runner(id, news);
                }
            }
            Heard::Zygote(id, packet) => self.zygote_says(id, &packet),
        }
    }

    fn hear_of_runner(&mut self, id: RunnerId, news: News) {
        match news {
            News::Look => self.look_at_runner(id),
            News::Came(stream) => {
                let runner = self.runners.all.get_mut(&id);
                if let Some(Err(error)) = runner.map(|runner| runner.channel.connect(stream)) {
                    self.blame_runner(id, format!("its rank 0 cannot be spoken to: {error}"));
                }
            }
            News::NobodyCame => {
                let text = format!("no rank reported within {} s", WORLD_START_LIMIT.as_secs());
                self.blame_runner(id, text);
            }
            News::RankDied(died) => {
                // The call may have ended before.
                self.listen(id);
                if let Some(world) = self.runners.world(id) {
                    world.died.get_or_insert(died);
                    self.end_world(id);
                }
            }
            News::Late => {
                if let Some(slot) = self.runners.all.get(&id).map(|runner| runner.slot) {
                    self.end_slot(slot, SIGKILL);
                }
            }
        }
    }

    fn look_at_runner(&mut self, id: RunnerId) {
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
                self.runners.all.get_mut(&id).into_iter().for_each(|runner| runner.is_closed = true);
            }
            // It takes longer to end than its rank 0.
            Ok(true) if self.runners.world(id).is_some() => self.runners.give_up_later(id),
            Ok(true) => self.kill_runner(id),
            Err(fault) => self.blame_runner(id, fault),
        }
        false
    }

    fn said(&mut self, id: RunnerId, said: Said) -> Result<(), String> {
        match said {
            Said::Ready { version } => {
                debug!(runner = id.0, version, "an interpreter is ready");
                self.runners.all.get_mut(&id).into_iter().for_each(|runner| runner.is_ready = true);
            }
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
            Said::Worn { number } => {
                if self.call_of(id, number).is_some() {
                    self.runner_is_worn(id);
                }
            }
            Said::Spent => self.spend_runner(id),
            Said::Leaves { names } => {
                if let Some(world) = self.runners.world(id) {
                    world.leaves(names);
                }
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
            let number = call.number;
            if let Some(channel) = self.runners.tell(*id) {
                channel.say(&frames::go_on(number));
            }
        }
    }

    fn call_done(&mut self, id: RunnerId, done: Done) -> Result<(), String> {
        let Some(process) = self.process_of(id) else { return Ok(()) };
        let has_file = matches!(done.status, Status::Stored | Status::NotStored);
        let is_of = |call: &Current| {
            call.number == done.number && call.done.is_none() && (!has_file || call.files.put.is_some())
        };
        let unknown = "it told an end of a call that it does not have";
        let call = process.calls.front_mut().filter(|call| is_of(call)).ok_or(unknown)?;
        if is_alone(&call.start) {
            // What its ranks leave on all nodes is gone when the call has ended.
            call.done = Some(done);
            self.tell_to_end(id);
            self.runners.give_up_later(id);
            return Ok(());
        }
        let current = process.calls.pop_front().ok_or(unknown)?;
        self.conclude(id, current, done);
        Ok(())
    }

    // Tells the end of a call.
    fn conclude(&mut self, id: RunnerId, current: Current, done: Done) {
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
                "The result of {name} takes {text} bytes {form}, but at most {} are kept: write the data to a file, \
                 and return its path.",
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
