//! How runners are started, and told their calls.

use std::collections::VecDeque;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome, RunnerId, Start};
use hq_model::body::EntryKind;
use hq_model::request::{CPUS, MEM};
use hq_model::{Entry, Usage};
use tracing::warn;

use super::channel::{self, Channel};
use super::frames::{self, Call};
use super::world::{World, is_alone};
use super::{Current, Files, Process, Runner};
use crate::enforce::Limits;
use crate::launcher::{Order, Slot};
use crate::objects::{PutFile, Taken};
use crate::prepare::Prepared;
use crate::supervise::{Active, Supervisor};

/// What is read into an interpreter once it runs.
pub(super) const PROGRAM: &str =
    concat!(include_str!("values.py"), include_str!("keeping.py"), include_str!("runner.py"));

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
        let numbered = self.begin_call(id, &prepared, taken);
        self.call_as(start, prepared, (id, is_new), numbered);
    }

    /// As [`Supervisor::call`], by a number that was given, with the files of the call.
    pub(super) fn call_as(
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
                if is_new && start.nodes.len() > 1 {
                    // Its ranks on other nodes are started through this worker.
                    self.open_part(start.clone(), prepared.clone());
                }
                let call = Current {
                    number,
                    start: Box::new(start.clone()),
                    prepared,
                    files,
                    waits: false,
                    done: None,
                };
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

    // Has a process started whose first call this is: forked from a zygote where that is said and it is there.
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
        let started = self.start_runner_process(start, prepared, (id, slot), &limits);
        // Without an order nothing has taken them.
        self.buffers.world.clear();
        match started {
            Ok((runner, is_prepared)) => {
                self.runners.all.insert(id, runner);
                // There is room for it: nothing was put there before.
                let _ = self.say_call(id, start, prepared, call, is_prepared);
                Ok(slot)
            }
            Err(outcome) => {
                self.free.push(slot.index);
                self.enforcer.end((start.task, start.instance), None);
                Err(outcome)
            }
        }
    }

    // True as well when its outputs and directories are made with it.
    fn start_runner_process(
        &mut self,
        start: &Start,
        prepared: &Prepared,
        (id, slot): (RunnerId, Slot),
        limits: &Limits,
    ) -> Result<(Runner, bool), Outcome> {
        let heard = || self.runners.heard.clone();
        let mut channel = Channel::new((id, slot), heard()).map_err(no_socket)?;
        let world = match start.ranks.is_empty() {
            true => None,
            false => Some(World::open(self.node.keys.directory(), (id, slot), heard()).map_err(no_socket)?),
        };
        if let Some(world) = &world {
            world.append_variables(&prepared.template.spec.launcher, &mut self.buffers.world);
        }
        let order = prepared.order((slot, None), start, &self.node, limits, &mut self.buffers);
        let (mut order, _) = order.map_err(|error| Outcome::Failed(FailureKind::Start, error))?;
        let (ours, is_forked) = match &world {
            Some(world) => {
                let log = world.log().as_os_str().as_bytes();
                (order.has_stdin, order.stdout, order.stderr) = (false, log, log);
                self.launcher.start(&order, None).map_err(not_handed)?;
                (None, false)
            }
            None => {
                let (ours, theirs) = channel::pair().map_err(no_socket)?;
                let theirs = Arc::new(theirs);
                (order.has_stdin, order.is_stdin_socket) = (true, true);
                let zygote = start.runs_in.and_then(|runs_in| self.zygotes.socket(runs_in.zygote?));
                let forked = Order { is_forked: true, ..order };
                let is_forked =
                    zygote.is_some_and(|zygote| self.launcher.fork_from(&zygote, &forked, &theirs));
                if !is_forked {
                    self.launcher.start(&order, Some(&theirs)).map_err(not_handed)?;
                }
                (Some(ours), is_forked)
            }
        };
        // A forked one has the program.
        if !is_forked {
            let why = serde_json::Value::from(self.zygotes.why_not(&prepared.template.spec));
            let program = format!("_hq_why_not_forked = {why}\n{PROGRAM}");
            channel.say_first(frames::text_before(program.as_bytes()));
        }
        channel.say_first(frames::text_before(&prepared.own_variables(start, &self.node, &self.buffers)));
        let is_prepared = ours.is_some() && !is_forked;
        match ours.map(|ours| channel.connect(ours)) {
            // It ends, for it hears nothing.
            Some(Err(error)) => warn!(runner = id.0, %error, "an interpreter cannot be told its program"),
            Some(Ok(())) => {}
            // The directory of the task was made for the process.
            None => self.buffers.task_dir.clear(),
        }
        Ok((Runner::new(slot, channel, world), is_prepared))
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
        self.say_call(id, start, prepared, call, false).ok_or_else(gone)?;
        Ok(slot)
    }

    /// Tells a runner a call, and that it is the next one. The buffers are those of this task. `None` when the runner is gone.
    pub(super) fn say_call(
        &mut self,
        id: RunnerId,
        start: &Start,
        prepared: &Prepared,
        (number, files): (u64, &Files),
        is_prepared: bool,
    ) -> Option<()> {
        let function = prepared.template.spec.body.function()?;
        let codes = &mut self.runners.all.get_mut(&id)?.codes;
        let code = function.is_packed().then(|| codes.number_of(&prepared.template.spec, &function.code));
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
            code: code.map(|(number, _)| number),
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
        let channel = self.runners.tell(id)?;
        if let Some((number, true)) = code {
            channel.say(&frames::code(number, &function.code));
        }
        channel.say(&call.encode());
        channel.put(number);
        Some(())
    }
}

fn no_socket(error: io::Error) -> Outcome {
    Outcome::NotStarted(format!("no socket could be made for an interpreter: {error}"))
}

fn not_handed(error: io::Error) -> Outcome {
    Outcome::NotStarted(format!("cannot hand a task to the launcher: {error}"))
}
