//! Follows each task from the machine's word to start it to the report of its end.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome, Start};
use hq_core::worker_messages::Template;
use hq_model::request::{CPUS, MEM};
use hq_model::{Instance, TaskRef, Usage};
use tokio::sync::mpsc;

use crate::declared;
use crate::enforce::Enforcer;
use crate::environment::Node;
use crate::launcher::{End, Ended, Launcher, Slot, text};
use crate::nodes;
use crate::outputs::{Aftermath, Janitor};
use crate::parts::{Part, Process};
use crate::prepare::{Buffers, Prepared};
use crate::ranks::AskStart;

/// The tasks that have been started, and the launcher that executes them.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) launcher: Launcher,
    // After the launcher: its groups are empty when no task is left.
    enforcer: Enforcer,
    pub(crate) node: Node,
    /// By address of the template, which each entry keeps alive.
    prepared: HashMap<usize, Arc<Prepared>>,
    pub(crate) slots: Vec<SlotState>,
    pub(crate) free: Vec<u32>,
    running: HashMap<TaskRef, u32>,
    /// Of tasks on several nodes.
    pub(crate) parts: HashMap<TaskRef, Part>,
    /// Processes of parts that are not there yet.
    pub(crate) asked: Vec<AskStart>,
    pub(crate) buffers: Buffers,
    reports: Vec<Ended>,
    pub(crate) ended: Vec<Input>,
    janitor: Janitor,
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
    Task { start: Box<Start>, prepared: Arc<Prepared> },
    /// A process of a task on several nodes.
    Process(Process),
}

impl Supervisor {
    /// `cleaned` gets the ends of tasks that something had to be removed or read for.
    pub(crate) fn new(
        launcher: Launcher,
        node: Node,
        enforcer: Enforcer,
        cleaned: mpsc::UnboundedSender<Input>,
    ) -> io::Result<Supervisor> {
        Ok(Supervisor {
            launcher,
            enforcer,
            node,
            prepared: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            running: HashMap::new(),
            parts: HashMap::new(),
            asked: Vec::new(),
            buffers: Buffers::default(),
            reports: Vec::new(),
            ended: Vec::new(),
            janitor: Janitor::start(cleaned)?,
        })
    }

    /// The server has said its name, which paths of tasks may hold.
    pub(crate) fn set_server_uid(&mut self, uid: &str) {
        if self.node.server_uid != uid {
            self.node.server_uid = uid.to_owned();
            self.prepared.clear();
        }
    }

    /// Orders a task's start.
    pub(crate) fn start(&mut self, start: Start) {
        let prepared = match self.prepared_for(&start.template) {
            Ok(prepared) => prepared,
            Err(error) => return self.refuse(start.task, error),
        };
        if start.is_part {
            return self.open_part(start, prepared);
        }
        // An attempt that was lost with its worker may have left something.
        let may_be_anothers = prepared.template.spec.speculate.is_some();
        if let Some(before) = start.instance.0.checked_sub(1).filter(|_| !may_be_anothers) {
            declared::move_aside(&prepared.declared(&start), Instance(before));
        }
        if !start.nodes.is_empty() {
            let mut dir = Vec::new();
            self.node.append_nodes_dir(&start, &mut dir);
            if let Err(error) = nodes::write(&dir, &start.nodes) {
                return self.refuse(start.task, error);
            }
        }
        let (memory, cpus) = (self.node.amount_of(&start, MEM), self.node.amount_of(&start, CPUS));
        let limits = match self.enforcer.begin(&start, memory, cpus) {
            Ok(limits) => limits,
            Err(error) => return self.refuse(start.task, error),
        };
        let slot = self.take_slot();
        let ordered = prepared.order(slot, &start, &self.node, &limits, &mut self.buffers).and_then(
            |(order, stdin)| {
                let sent = self.launcher.start(&order, stdin);
                sent.map_err(|e| format!("cannot hand the task to the launcher: {e}"))
            },
        );
        match ordered {
            Ok(()) => {
                self.running.insert(start.task, slot.index);
                if !start.nodes.is_empty() {
                    self.open_part(start.clone(), prepared.clone());
                }
                let active = Active::Task { start: Box::new(start), prepared };
                self.slots[slot.index as usize].active = Some(active);
            }
            Err(error) => {
                self.free.push(slot.index);
                self.enforcer.end(start.task, None);
                self.refuse(start.task, error);
            }
        }
    }

    /// Sends a signal to the process group of a task, if it still runs.
    pub(crate) fn signal(&mut self, task: TaskRef, signal: u8) {
        if self.signal_part(task, signal) {
            return;
        }
        if let Some(index) = self.running.get(&task) {
            let generation = self.slots[*index as usize].generation;
            self.launcher.signal(Slot { index: *index, generation }, signal);
        }
    }

    /// True when this very start of a task runs.
    pub(crate) fn is_running(&self, task: TaskRef, instance: Instance) -> bool {
        self.running.get(&task).is_some_and(|index| {
            let active = self.slots[*index as usize].active.as_ref();
            matches!(active, Some(Active::Task { start, .. }) if start.instance == instance)
        })
    }

    /// Hands orders and signals over. False when the launcher takes no more at the moment.
    ///
    /// # Errors
    /// When the launcher is gone.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
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
        let Some(active) = state.active.take() else { return };
        self.free.push(report.slot.index);
        match active {
            Active::Process(process) => self.process_ended(process, report.end),
            Active::Task { start, prepared } => {
                self.running.remove(&start.task);
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
        let for_memory = self.enforcer.end(start.task, over_kib);
        let killed = FailureKind::Signal(libc::SIGKILL as u8);
        let outcome = match (report.end, for_memory) {
            (End::NotStarted(stage, errno), _) => {
                let subject = prepared.subject(&start, &self.node);
                Outcome::Failed(FailureKind::Start, text::not_started(stage, errno, &subject))
            }
            (_, Some(text)) => Outcome::Failed(killed, text),
            (End::OverMemory(_), None) => Outcome::Failed(killed, text::signaled(libc::SIGKILL as u8)),
            (End::Exited(0), None) => Outcome::Finished,
            (End::Exited(code), None) => Outcome::Failed(FailureKind::Exit(code), text::exited(code)),
            (End::Signaled(signal), None) => {
                Outcome::Failed(FailureKind::Signal(signal), text::signaled(signal))
            }
        };
        let input = Input::Ended { task: start.task, outcome, usage: report.usage };
        let Input::Ended { outcome, .. } = &input else { return };
        if !prepared.has_aftermath(*outcome == Outcome::Finished) && start.nodes.is_empty() {
            self.ended.push(input);
            return;
        }
        let mut task_dir = Vec::new();
        if prepared.template.spec.task_dir {
            self.node.append_task_dir(&start, &mut task_dir);
        }
        let is_success = *outcome == Outcome::Finished;
        let outputs = if is_success { prepared.outputs_to_remove(&start) } else { prepared.outputs(&start) };
        let mut nodes_dir = Vec::new();
        if !start.nodes.is_empty() {
            self.node.append_nodes_dir(&start, &mut nodes_dir);
        }
        let (declared, instance) = (prepared.declared(&start), start.instance);
        // Another attempt may have written what is there.
        let keeps = prepared.template.spec.speculate.is_some();
        self.janitor.clean(Aftermath { input, task_dir, nodes_dir, outputs, declared, instance, keeps });
    }

    fn refuse(&mut self, task: TaskRef, error: String) {
        let outcome = Outcome::Failed(FailureKind::Start, error);
        self.ended.push(Input::Ended { task, outcome, usage: Usage::default() });
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

    fn prepared_for(&mut self, template: &Arc<Template>) -> Result<Arc<Prepared>, String> {
        let address = Arc::as_ptr(template) as usize;
        if let Some(prepared) = self.prepared.get(&address) {
            return Ok(prepared.clone());
        }
        // What neither the machine nor a task holds any more will not come back.
        self.prepared.retain(|_, old| Arc::strong_count(&old.template) > 1);
        let prepared = Arc::new(Prepared::new(template, &self.node)?);
        self.prepared.insert(address, prepared.clone());
        Ok(prepared)
    }
}
