//! Follows each task from the machine's word to start it to the report of its end.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use hq_core::log::Written;
use hq_core::record::FailureKind;
use hq_core::worker::{Ends, Input, Outcome, RunsIn, Start, ZygoteId};
use hq_core::worker_messages::Template;
use hq_model::request::{CPUS, MEM};
use hq_model::{ByteString, Instance, TaskRef, Usage, WorkerId};
use tokio::sync::mpsc;
use tracing::warn;

use crate::declared::Promised;
use crate::enforce::Enforcer;
use crate::environment::Node;
use crate::launcher::{End, Ended, Launcher, MARK, Slot, text};
use crate::limits::TASKS_NAMED;
use crate::nodes;
use crate::objects::{Brought, Links, Value};
use crate::outputs::{Aftermath, Cleanup};
use crate::parts::{Part, Process};
use crate::prepare::{Buffers, Prepared};
use crate::ranks::AskStart;
use crate::reader::{Answered, Reader};
use crate::runners::zygotes::Zygotes;
use crate::runners::{self, Heard, Runners};
use crate::staging::Staging;
use crate::streams::{Done, Hurried, LogLink, NoStream, Place, Streams, WriteEnds};

const SIGKILL: u8 = libc::SIGKILL as u8;
/// Templates that are known before it is looked which are needed no more.
const PREPARED_MIN: usize = 16;

/// The tasks that have been started, and the launcher that executes them.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) launcher: Launcher,
    // After the launcher: its groups are empty when no task is left.
    pub(crate) enforcer: Enforcer,
    pub(crate) node: Node,
    /// By address of the template, which each entry keeps alive.
    prepared: HashMap<usize, Arc<Prepared>>,
    // With so many it is looked which of them are needed no more.
    prepared_max: usize,
    pub(crate) slots: Vec<SlotState>,
    pub(crate) free: Vec<u32>,
    pub(crate) running: HashMap<TaskRef, u32>,
    pub(crate) runners: Runners,
    pub(crate) zygotes: Zygotes,
    /// Of tasks that are to leave something behind.
    promised: HashMap<TaskRef, Promised>,
    /// Of tasks on several nodes.
    pub(crate) parts: HashMap<TaskRef, Part>,
    /// Processes of parts that are not there yet.
    pub(crate) asked: Vec<AskStart>,
    pub(crate) buffers: Buffers,
    reports: Vec<Ended>,
    pub(crate) ended: Vec<Input>,
    /// Of tasks that print into streams.
    pub(crate) streaming: HashMap<TaskRef, WriteEnds>,
    // Of those, which one begins at the end of which.
    followed: HashMap<TaskRef, TaskRef>,
    // From the first task of such a kind on. Before the cleanup, to which it hands ends.
    pub(crate) streams: Option<Streams>,
    log_link: Arc<LogLink>,
    /// Started when something is read for the first time.
    pub(crate) reader: Option<Reader>,
    pub(crate) answers: mpsc::UnboundedSender<Answered>,
    pub(crate) worker: WorkerId,
    /// Where objects are, and what is being brought to tasks.
    pub(crate) staging: Option<Staging>,
    told: mpsc::UnboundedSender<Input>,
    cleanup: Cleanup,
}

#[derive(Debug, Default)]
pub(crate) struct SlotState {
    pub(crate) generation: u32,
    pub(crate) active: Option<Active>,
}

/// What runs in a slot.
#[derive(Debug)]
pub(crate) enum Active {
    /// The program of a task.
    Task { start: Box<Start>, prepared: Arc<Prepared>, links: Option<Links> },
    /// An interpreter, in which functions are called one after the other.
    Runner(runners::Process),
    /// An interpreter from which such ones are forked.
    Zygote(ZygoteId),
    /// A process of a task on several nodes.
    Process(Process),
}

/// How a task has ended.
#[derive(Debug)]
pub(crate) struct Finish {
    pub(crate) outcome: Outcome,
    pub(crate) usage: Usage,
    /// What a function returned, or how it failed.
    pub(crate) result: ByteString,
    /// What it returned, where that is a file.
    pub(crate) value: Option<Value>,
}

impl Finish {
    pub(crate) fn new(outcome: Outcome, usage: Usage) -> Finish {
        Finish { outcome, usage, result: Vec::new(), value: None }
    }
}

impl Active {
    // None of what no task has.
    fn attempt(&self) -> Option<(TaskRef, Instance)> {
        match self {
            Active::Task { start, .. } => Some((start.task, start.instance)),
            Active::Runner(runner) => Some(runner.attempt()),
            Active::Process(process) => Some((process.task, process.instance)),
            Active::Zygote(_) => None,
        }
    }
}

impl Supervisor {
    /// `told` gets the ends of tasks that something had to be written, removed or read for, `logs` what is to be said to the
    /// server of what tasks print, and what was read of outputs, `heard` what interpreters say.
    pub(crate) fn new(
        launcher: Launcher,
        node: Node,
        enforcer: Enforcer,
        told: mpsc::UnboundedSender<Input>,
        (logs, answers): (mpsc::UnboundedSender<Vec<u8>>, mpsc::UnboundedSender<Answered>),
        heard: mpsc::UnboundedSender<Heard>,
    ) -> io::Result<Supervisor> {
        Ok(Supervisor {
            launcher,
            enforcer,
            node,
            prepared: HashMap::new(),
            prepared_max: PREPARED_MIN,
            slots: Vec::new(),
            free: Vec::new(),
            running: HashMap::new(),
            runners: Runners::new(heard),
            zygotes: Zygotes::default(),
            promised: HashMap::new(),
            parts: HashMap::new(),
            asked: Vec::new(),
            buffers: Buffers::default(),
            reports: Vec::new(),
            ended: Vec::new(),
            streaming: HashMap::new(),
            followed: HashMap::new(),
            streams: None,
            log_link: Arc::new(LogLink::new(logs)),
            reader: None,
            answers,
            worker: WorkerId(0),
            staging: None,
            cleanup: Cleanup::start(told.clone())?,
            told,
        })
    }

    /// The server has said its name, which paths of tasks may hold.
    pub(crate) fn set_server_uid(&mut self, uid: &str) {
        if self.node.server_uid != uid {
            self.node.server_uid = uid.to_owned();
            self.prepared.clear();
        }
    }

    /// The server has said which worker this is.
    pub(crate) fn set_worker(&mut self, worker: WorkerId) {
        self.worker = worker;
    }

    /// The server is there, or is not.
    pub(crate) fn set_linked(&mut self, is_linked: bool) {
        self.log_link.set_up(is_linked);
        if is_linked && let Some(streams) = &self.streams {
            streams.link_changed();
        }
    }

    /// The worker ends without the server: nothing waits for what that would write.
    pub(crate) fn give_up_logs(&mut self) {
        self.log_link.give_up();
        if let Some(streams) = &self.streams {
            streams.link_changed();
        }
    }

    /// What runs is ended, and the worker leaves: the ends of tasks do not wait for room for what they have printed.
    pub(crate) fn hurry(&self) {
        if let Some(streams) = &self.streams {
            streams.wait_no_more(Hurried::All);
        }
    }

    /// The server says what became of a batch for a log.
    pub(crate) fn log_answered(&mut self, number: u64, answer: Written) {
        if let Some(streams) = &self.streams {
            streams.answered(number, answer);
        }
    }

    /// Orders a task's start.
    pub(crate) fn start(&mut self, start: Start) {
        self.start_with(start, Brought::Values(Vec::new()));
    }

    /// As [`Supervisor::start`], with what was brought.
    pub(crate) fn start_with(&mut self, start: Start, brought: Brought) {
        let (taken, links) = match brought {
            Brought::Values(taken) => (taken, None),
            Brought::Places(links) => (Vec::new(), Some(links)),
        };
        let prepared = match self.prepared_for(&start.template) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.refuse(start.task, error);
                return self.runner_is_not_made(&start);
            }
        };
        if start.is_part {
            return self.open_part(start, prepared);
        }
        if let Err(error) = prepared.check_entry(&start) {
            self.refuse(start.task, error);
            return self.runner_is_not_made(&start);
        }
        if !start.objects.is_empty() {
            return self.stage(start, &prepared);
        }
        let mut promised = prepared.promised(&start);
        promised.begin(prepared.template.submitted);
        if has_node_files(&start) {
            let mut dir = Vec::new();
            self.node.append_nodes_dir(&start, &mut dir);
            if let Err(error) = nodes::write(&dir, &start.nodes) {
                self.put_off(start.task, error);
                return self.runner_is_not_made(&start);
            }
        }
        if let Some(RunsIn { runner, is_new, .. }) = start.runs_in {
            if !promised.is_empty() {
                self.promised.insert(start.task, promised);
            }
            return self.call(start, prepared, (runner, is_new), taken);
        }
        let (memory, cpus) = (self.node.amount_of(&start, MEM), self.node.amount_of(&start, CPUS));
        let limits = match self.enforcer.begin(&start, memory, cpus) {
            Ok(limits) => limits,
            Err(error) => return self.put_off(start.task, error),
        };
        if let Err(outcome) = self.open_stream(&start, &prepared) {
            self.enforcer.end((start.task, start.instance), None);
            self.ended.push(Input::ended(start.task, outcome, Usage::default()));
            return;
        }
        let slot = self.take_slot();
        let order = prepared.order((slot, None), &start, &self.node, &limits, &mut self.buffers);
        let ordered =
            order.map_err(|error| Outcome::Failed(FailureKind::Start, error)).and_then(|(order, stdin)| {
                let sent = self.launcher.start(&order, stdin);
                sent.map_err(|e| Outcome::NotStarted(format!("cannot hand a task to the launcher: {e}")))
            });
        match ordered {
            Ok(()) => {
                self.running.insert(start.task, slot.index);
                if !promised.is_empty() {
                    self.promised.insert(start.task, promised);
                }
                if !start.nodes.is_empty() {
                    self.open_part(start.clone(), prepared.clone());
                }
                let active = Active::Task { start: Box::new(start), prepared, links };
                self.slots[slot.index as usize].active = Some(active);
            }
            Err(outcome) => {
                self.close_stream(start.task);
                self.free.push(slot.index);
                self.enforcer.end((start.task, start.instance), None);
                self.ended.push(Input::ended(start.task, outcome, Usage::default()));
            }
        }
    }

    // Has pipes made for what it prints into a stream.
    pub(crate) fn open_stream(&mut self, start: &Start, prepared: &Prepared) -> Result<(), Outcome> {
        let Some((stream, compression, channels)) = prepared.stream(start) else { return Ok(()) };
        let no_thread = || Outcome::NotStarted("no thread could be started for output streams".to_owned());
        if self.streams.is_none() {
            let told = self.told.clone();
            let done = self.cleanup.sender().map(|cleanup| Done { told, cleanup });
            self.streams = done.and_then(|done| Streams::start(done, self.log_link.clone()).ok());
        }
        let streams = self.streams.as_mut().ok_or_else(no_thread)?;
        let server_uid = self.node.server_uid.clone();
        let place = Place { stream, compression, server_uid, worker: self.worker };
        let ends =
            streams.open((start.task, start.instance), place, channels).map_err(|error| match error {
                NoStream::Directory(text) => Outcome::Failed(FailureKind::Start, text),
                NoStream::Pipes(text) => Outcome::NotStarted(text),
            })?;
        self.buffers.streams = ends.paths();
        self.streaming.insert(start.task, ends);
        Ok(())
    }

    // It has never started.
    fn close_stream(&mut self, task: TaskRef) {
        if let (Some(ends), Some(streams)) = (self.streaming.remove(&task), &mut self.streams) {
            streams.forget(ends);
        }
    }

    /// Orders a task's start at the end of another one. Nothing is to be done before or after such a task but to keep what it
    /// prints.
    pub(crate) fn arm(&mut self, start: Start, after: TaskRef) {
        let task = start.task;
        let armed = match start.runs_in {
            Some(_) => self.arm_call(start, after),
            None => self.try_to_arm(start, after),
        };
        if armed.is_none() {
            // Started the usual way, it says what is wrong.
            self.ended.push(Input::Recalled { task });
        }
    }

    fn try_to_arm(&mut self, start: Start, leader: TaskRef) -> Option<()> {
        let after = self.slot_of(leader).filter(|_| start.objects.is_empty())?;
        let prepared = self.prepared_for(&start.template).ok()?;
        let (memory, cpus) = (self.node.amount_of(&start, MEM), self.node.amount_of(&start, CPUS));
        if prepared.template.spec.is_streamed() && self.streams.as_ref().is_none_or(Streams::is_behind) {
            return None;
        }
        let limits = self.enforcer.begin(&start, memory, cpus).ok()?;
        if self.open_stream(&start, &prepared).is_err() {
            self.enforcer.end((start.task, start.instance), None);
            return None;
        }
        let slot = self.take_slot();
        let order = prepared.order((slot, Some(after)), &start, &self.node, &limits, &mut self.buffers).ok();
        if order.and_then(|(order, stdin)| self.launcher.start(&order, stdin).ok()).is_none() {
            self.close_stream(start.task);
            self.free.push(slot.index);
            self.enforcer.end((start.task, start.instance), None);
            return None;
        }
        if self.streaming.contains_key(&start.task) {
            self.followed.insert(leader, start.task);
        }
        self.running.insert(start.task, slot.index);
        self.slots[slot.index as usize].active =
            Some(Active::Task { start: Box::new(start), prepared, links: None });
        Some(())
    }

    /// Calls an armed task back.
    pub(crate) fn recall(&mut self, task: TaskRef) {
        if let Some(slot) = self.slot_of(task)
            && !self.recall_call(task)
        {
            self.launcher.recall(slot);
        }
    }

    fn slot_of(&self, task: TaskRef) -> Option<Slot> {
        let index = *self.running.get(&task)?;
        Some(Slot { index, generation: self.slots[index as usize].generation })
    }

    /// Sends a signal to the process group of a task, if it still runs. One that is ended is to leave nothing behind.
    pub(crate) fn signal(&mut self, task: TaskRef, signal: u8, ends: Option<Ends>) {
        if self.signal_part(task, signal) || ends.is_some() && self.stop_staging(task, signal) {
            return;
        }
        if self.is_over(task) {
            return;
        }
        if let (Some(Ends::ForNobody), Some(streams)) = (ends, &self.streams) {
            streams.wait_no_more(Hurried::Task(task));
        }
        if let (Some(_), Some(part)) = (ends, self.parts.get_mut(&task)) {
            part.is_to_end(signal);
        }
        if let Some(ends) = ends {
            match self.promised.get_mut(&task) {
                Some(promised) => promised.is_ended(ends),
                None => self.cleanup.end(task, ends),
            }
        }
        if let Some(index) = self.running.get(&task).copied() {
            self.signal_slots(&[index], signal, ends.is_some());
        }
    }

    /// Signals what runs in some slots.
    pub(crate) fn signal_slots(&mut self, slots: &[u32], signal: u8, ends: bool) {
        for index in slots {
            let state = &self.slots[*index as usize];
            let slot = Slot { index: *index, generation: state.generation };
            let attempt = state.active.as_ref().and_then(Active::attempt);
            match (&state.active, attempt) {
                // A call is interrupted first; its runner goes only when that does not help.
                (Some(Active::Runner(_)), _) if ends && signal != SIGKILL => {
                    self.interrupt_call(slot, signal)
                }
                (Some(Active::Runner(_)), _) if ends => self.end_slot(slot, signal),
                (_, Some((task, instance))) if ends => {
                    let mut mark = MARK.to_vec();
                    self.node.keys.append(task, instance, &mut mark);
                    self.launcher.end(slot, signal, &mark);
                }
                _ => self.launcher.signal(slot, signal),
            }
        }
    }

    /// Ends what runs in some slots, and what has come from it: what has descended from it, or has this variable.
    pub(crate) fn end_slots(&mut self, slots: &[u32], signal: u8, mark: &[u8]) {
        for index in slots {
            let slot = Slot { index: *index, generation: self.slots[*index as usize].generation };
            self.launcher.end(slot, signal, mark);
        }
    }

    /// Ends the launcher and everything that it started. Nothing is heard of the ends of tasks: what they have left is put
    /// aside here.
    pub(crate) fn kill_launcher(&mut self) {
        self.launcher.kill(Duration::ZERO);
        for (_, promised) in self.promised.drain() {
            promised.end(false);
        }
        if let Some(staging) = &mut self.staging {
            staging.forget_all();
        }
    }

    /// True when this very start of a task runs.
    pub(crate) fn is_running(&self, task: TaskRef, instance: Instance) -> bool {
        self.running.get(&task).is_some_and(|index| {
            let active = self.slots[*index as usize].active.as_ref();
            match active {
                Some(Active::Task { start, .. }) => start.instance == instance,
                Some(Active::Runner(runner)) => runner.runs(task, instance),
                Some(Active::Process(_) | Active::Zygote(_)) | None => false,
            }
        })
    }

    /// The tasks that run, for people: the first of them, and how many more.
    pub(crate) fn running_tasks(&self) -> String {
        let mut tasks: Vec<TaskRef> = self.running.keys().copied().collect();
        tasks.sort_unstable();
        let named: Vec<String> = tasks.iter().take(TASKS_NAMED).map(|task| format!("task {task}")).collect();
        match tasks.len() - named.len() {
            _ if named.is_empty() => "no task".to_owned(),
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    }

    /// Hands orders and signals over. False when the launcher takes no more at the moment.
    ///
    /// # Errors
    /// When the launcher is gone.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        self.flush_runners();
        self.launcher.flush()
    }

    /// Appends the ends of tasks that are there.
    ///
    /// # Errors
    /// When the launcher is gone.
    pub(crate) fn take_ended(&mut self, inputs: &mut Vec<Input>) -> io::Result<()> {
        let mut reports = std::mem::take(&mut self.reports);
        let result = self.launcher.receive(&mut reports);
        for report in reports.drain(..) {
            self.ended(report);
        }
        self.reports = reports;
        inputs.append(&mut self.ended);
        result
    }

    /// Sockets to wait at: for reports and for room for orders; for room for signals.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn sockets(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        self.launcher.sockets()
    }

    fn ended(&mut self, report: Ended) {
        let Some(state) = self.slots.get_mut(report.slot.index as usize) else { return };
        if state.generation != report.slot.generation {
            return;
        }
        if let (End::Begun, Some(active)) = (report.end, &state.active) {
            self.ended.extend(active.attempt().map(|(task, _)| Input::Begun { task }));
            return;
        }
        if let Some(Active::Runner(runner)) = &state.active {
            // What it has said of the ends of calls is heard before its own.
            let runner = runner.id();
            self.listen(runner);
        }
        let state = &mut self.slots[report.slot.index as usize];
        let Some(active) = state.active.take() else { return };
        self.free.push(report.slot.index);
        match active {
            Active::Process(process) => self.process_ended(process, report.end),
            Active::Runner(runner) => self.runner_ended(runner, report),
            Active::Zygote(zygote) => self.zygote_ended(zygote, report),
            Active::Task { start, prepared, links } => {
                // What it has read in the store need not stay.
                drop(links);
                self.running.remove(&start.task);
                if report.end == End::Recalled {
                    self.followed.retain(|_, follower| *follower != start.task);
                    self.close_stream(start.task);
                    self.enforcer.end((start.task, start.instance), None);
                    self.ended.push(Input::Recalled { task: start.task });
                    return;
                }
                let report = if start.nodes.is_empty() {
                    Some(report)
                } else {
                    self.program_ended(start.task, report)
                };
                if let Some(report) = report {
                    self.task_ended(*start, prepared, report);
                }
            }
        }
    }

    /// Everything of a task has ended.
    pub(crate) fn task_ended(&mut self, start: Start, prepared: Arc<Prepared>, report: Ended) {
        let over_kib = match report.end {
            End::OverMemory(kib) => Some(u64::from(kib)),
            _ => None,
        };
        let for_memory = self.enforcer.end((start.task, start.instance), over_kib);
        if let Some(outcome) = self.outcome_of(report.end, for_memory, &start, &prepared) {
            self.finish(start, prepared, Finish::new(outcome, report.usage));
        }
    }

    /// What the end of a process means for its task; `for_memory` says that it used too much.
    pub(crate) fn outcome_of(
        &self,
        end: End,
        for_memory: Option<String>,
        start: &Start,
        prepared: &Prepared,
    ) -> Option<Outcome> {
        let killed = FailureKind::Signal(SIGKILL);
        Some(match (end, for_memory) {
            (End::NotStarted(stage, errno), _) => {
                let subject = prepared.subject(start, &self.node);
                let text = text::not_started(stage, errno, &subject);
                if stage.is_of_node(errno) {
                    warn!(task = %start.task, "{text}; it will run elsewhere");
                    Outcome::NotStarted(text)
                } else {
                    Outcome::Failed(FailureKind::Start, text)
                }
            }
            (_, Some(text)) => Outcome::Failed(killed, text),
            (End::OverMemory(_), None) => Outcome::Failed(killed, text::signaled(SIGKILL)),
            // What is armed is told apart before.
            (End::Recalled | End::Begun, _) => return None,
            (End::Exited(0), None) => Outcome::Finished,
            (End::Exited(code), None) => Outcome::Failed(FailureKind::Exit(code), text::exited(code)),
            (End::Signaled(signal), None) => {
                Outcome::Failed(FailureKind::Signal(signal), text::signaled(signal))
            }
        })
    }

    /// Does what is to be done after a task, and tells its end.
    pub(crate) fn finish(&mut self, start: Start, prepared: Arc<Prepared>, finish: Finish) {
        let Finish { outcome, usage, result, value } = finish;
        let is_success = outcome == Outcome::Finished;
        let has_aftermath = prepared.has_aftermath(is_success) || value.is_some();
        let input = Input::Ended { task: start.task, outcome, usage, result };
        if !has_aftermath && !has_node_files(&start) {
            self.ended.push(input);
            return;
        }
        let mut task_dir = Vec::new();
        if prepared.has_task_dir(&start) {
            self.node.append_task_dir(&start, &mut task_dir);
        }
        let sinks = prepared.sinks(&start);
        let mut nodes_dir = Vec::new();
        if has_node_files(&start) {
            self.node.append_nodes_dir(&start, &mut nodes_dir);
        }
        let promised = self.promised.remove(&start.task).unwrap_or_default();
        let result = prepared.result_file(&start, &self.node);
        let leaves = self.leaves(&start, &prepared, value);
        let aftermath = Aftermath { input, task_dir, nodes_dir, sinks, promised, result, leaves };
        match (self.streaming.remove(&start.task), &mut self.streams) {
            (Some(ends), Some(streams)) => {
                let is_followed = self.followed.remove(&start.task).is_some();
                // While others wait for long, it is no use to print more.
                let is_free = !streams.is_behind() && !prepared.template.spec.has_aftermath_in_files();
                if is_followed || is_free {
                    self.ended.push(Input::Exited { task: start.task, is_success });
                }
                streams.end(ends, aftermath, is_followed && is_success);
            }
            _ => self.cleanup.clean(aftermath),
        }
    }

    // The task could start elsewhere.
    pub(crate) fn put_off(&mut self, task: TaskRef, reason: String) {
        warn!(%task, "{reason}; it will run elsewhere");
        let outcome = Outcome::NotStarted(reason);
        self.ended.push(Input::ended(task, outcome, Usage::default()));
    }

    fn refuse(&mut self, task: TaskRef, error: String) {
        let outcome = Outcome::Failed(FailureKind::Start, error);
        self.ended.push(Input::ended(task, outcome, Usage::default()));
    }

    /// True when ends are there that did not come from the launcher.
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// A slot of its own for something that starts.
    pub(crate) fn take_slot(&mut self) -> Slot {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(SlotState::default());
            self.slots.len() as u32 - 1
        });
        let state = &mut self.slots[index as usize];
        state.generation += 1;
        Slot { index, generation: state.generation }
    }

    pub(crate) fn prepared_for(&mut self, template: &Arc<Template>) -> Result<Arc<Prepared>, String> {
        let address = Arc::as_ptr(template) as usize;
        if let Some(prepared) = self.prepared.get(&address) {
            return Ok(prepared.clone());
        }
        // What neither the machine nor a task holds any more will not come back.
        if self.prepared.len() >= self.prepared_max {
            self.prepared.retain(|_, old| Arc::strong_count(&old.template) > 1);
            self.prepared_max = 2 * self.prepared.len() + PREPARED_MIN;
        }
        let prepared = Arc::new(Prepared::new(template, &self.node)?);
        self.prepared.insert(address, prepared.clone());
        Ok(prepared)
    }
}

/// True for tasks on several nodes, unless they are called where ranks are already.
pub(crate) fn has_node_files(start: &Start) -> bool {
    !start.nodes.is_empty() && start.runs_in.is_none_or(|runs_in| runs_in.is_new)
}
