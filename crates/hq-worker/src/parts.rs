//! Parts of tasks on several nodes: what this worker holds of them, and the processes that were asked for there.
//!
//! A part that another worker leads ends when the machine signals it; the one that leads ends with its program.
//! Neither ends before all its processes have.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use hq_core::node_messages::{FromNode, ProcessEnd};
use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome, Start};
use hq_core::worker_messages::TaskNode;
use hq_model::{Instance, TaskRef, Usage};
use tokio::sync::oneshot;

use crate::launcher::text::Subject;
use crate::launcher::{End, Ended, text};
use crate::limits::PROCESSES_WAITING_MAX;
use crate::prepare::Prepared;
use crate::ranks::{Ask, AskStart, Session, Writers, pump};
use crate::supervise::{Active, Supervisor};

const SIGKILL: u8 = 9;
const SIGTERM: u8 = 15;
/// A variable that no process has: only what descends from a process ends with it.
const OF_NOTHING_ELSE: &[u8] = b"HQ_ACCESS_KEY=:";

/// What this worker holds of a task.
#[derive(Debug)]
pub(crate) struct Part {
    start: Start,
    prepared: Arc<Prepared>,
    /// Slots of its processes.
    processes: BTreeMap<(Session, u32), u32>,
    /// The last signal that is to end it: it ends with its processes.
    ending: Option<u8>,
    /// Its program has ended.
    ended: Option<Ended>,
}

/// A process of a part.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) task: TaskRef,
    pub(crate) instance: Instance,
    key: (Session, u32),
    /// For the text when it cannot be started.
    subject: Box<Subject>,
    end: oneshot::Sender<Result<ProcessEnd, String>>,
    // The other ends see the end of the process when it is dropped.
    _writers: Writers,
}

impl Part {
    /// From now on nothing new is started for it.
    pub(crate) fn is_to_end(&mut self, signal: u8) {
        self.ending = Some(signal);
    }
}

impl Supervisor {
    /// The machine has started a task on several nodes here.
    pub(crate) fn open_part(&mut self, start: Start, prepared: Arc<Prepared>) {
        let task = start.task;
        let part = Part { start, prepared, processes: BTreeMap::new(), ending: None, ended: None };
        self.parts.insert(task, part);
        let (now, later) = std::mem::take(&mut self.asked).into_iter().partition(|asked| asked.task == task);
        self.asked = later;
        let now: Vec<AskStart> = now;
        for asked in now {
            self.start_process(asked);
        }
    }

    /// Signals a part that another worker leads; false when there is none.
    pub(crate) fn signal_part(&mut self, task: TaskRef, signal: u8) -> bool {
        let Some(part) = self.parts.get_mut(&task).filter(|part| part.start.is_part) else { return false };
        part.ending = Some(signal);
        let slots: Vec<u32> = part.processes.values().copied().collect();
        self.signal_slots(&slots, signal, true);
        self.close_part(task);
        true
    }

    /// The program of a task on several nodes has ended. Gives the report back when nothing else is left of it here.
    pub(crate) fn program_ended(&mut self, task: TaskRef, report: Ended) -> Option<Ended> {
        let Some(part) = self.parts.get_mut(&task) else { return Some(report) };
        if part.processes.is_empty() {
            self.parts.remove(&task);
            return Some(report);
        }
        part.ended = Some(report);
        let slots: Vec<u32> = part.processes.values().copied().collect();
        self.signal_slots(&slots, SIGKILL, true);
        None
    }

    /// The ranks of a function have ended with their launcher: nothing of its part is left.
    pub(crate) fn drop_part(&mut self, task: TaskRef) {
        let Some(part) = self.parts.remove(&task) else { return };
        let slots: Vec<u32> = part.processes.into_values().collect();
        self.signal_slots(&slots, SIGKILL, true);
    }

    /// A process of a part has ended, or never was.
    pub(crate) fn process_ended(&mut self, process: Process, end: End) {
        let Process { task, key, subject, end: tell, .. } = process;
        let told = match end {
            End::Exited(code) => Ok(ProcessEnd::Exited(code)),
            End::Signaled(signal) => Ok(ProcessEnd::Signaled(signal)),
            End::OverMemory(_) => Ok(ProcessEnd::Signaled(SIGKILL)),
            // No process waits for another one.
            End::Recalled | End::Begun => return,
            End::NotStarted(stage, errno) => Err(text::not_started(stage, errno, &subject)),
        };
        // Who asked may be gone.
        let _ = tell.send(told);
        if let Some(part) = self.parts.get_mut(&task) {
            part.processes.remove(&key);
            self.close_part(task);
        }
    }

    /// A connection asks for something.
    pub(crate) fn asked(&mut self, ask: Ask) {
        match ask {
            Ask::Where { task, instance, node, answer } => {
                // Who asked may be gone.
                let _ = answer.send(self.place_of(task, instance, node));
            }
            Ask::Start(asked) => self.start_process(*asked),
            Ask::Signal { session, process, signal } => {
                self.signal_of_session((session, process)..=(session, process), signal);
            }
            Ask::Gone { session } => {
                self.asked.retain(|asked| asked.session != session);
                self.signal_of_session((session, 0)..=(session, u32::MAX), SIGKILL);
            }
        }
    }

    // Processes that are told to end are to leave nothing behind. Their task may go on: what it has started beside them stays,
    // unless it is being ended, too.
    fn signal_of_session(&mut self, processes: RangeInclusive<(Session, u32)>, signal: u8) {
        let (mut ending, mut others) = (Vec::new(), Vec::new());
        for part in self.parts.values() {
            let slots = if part.ending.is_some() { &mut ending } else { &mut others };
            slots.extend(part.processes.range(processes.clone()).map(|(_, slot)| *slot));
        }
        self.signal_slots(&ending, signal, true);
        match signal {
            SIGTERM | SIGKILL => self.end_slots(&others, signal, OF_NOTHING_ELSE),
            _ => self.signal_slots(&others, signal, false),
        }
    }

    fn place_of(&self, task: TaskRef, instance: Instance, node: u32) -> Result<TaskNode, String> {
        let part = self.parts.get(&task).filter(|part| part.start.instance == instance);
        let Some(part) = part.filter(|part| !part.start.is_part) else {
            return Err("this worker leads no such task on several nodes".to_owned());
        };
        let nodes = &part.start.nodes;
        let found = nodes.get(node as usize).cloned();
        found.ok_or_else(|| format!("the task has {} nodes, there is none of number {node}", nodes.len()))
    }

    fn start_process(&mut self, asked: AskStart) {
        let part = self.parts.get(&asked.task);
        let is_later = part.is_none_or(|part| part.start.instance < asked.instance);
        if is_later && self.asked.len() < PROCESSES_WAITING_MAX {
            // The server has handed the part to this worker, and that is still under way.
            self.asked.push(asked);
            return;
        }
        if let Err(reason) = self.try_start_process(&asked) {
            let message = FromNode::Refused { process: asked.start.process, reason };
            tokio::spawn(async move {
                // Who asked may be gone.
                let _ = asked.out.send(message).await;
            });
        }
    }

    fn try_start_process(&mut self, asked: &AskStart) -> Result<(), String> {
        let key = (asked.session, asked.start.process);
        let Some(part) = self.parts.get_mut(&asked.task) else {
            return Err("too many processes wait for their tasks on this worker".to_owned());
        };
        let is_over = part.start.instance != asked.instance || part.ending.is_some() || part.ended.is_some();
        if is_over || part.processes.contains_key(&key) {
            return Err("this attempt of the task is ending on this worker".to_owned());
        }
        let (writers, readers) = match Writers::new() {
            Ok(pipes) => pipes,
            Err(error) => return Err(format!("no pipes for its outputs: {error}")),
        };
        let slot = self.take_slot();
        let part = &self.parts[&asked.task];
        let order = part.prepared.process_order(
            slot,
            &part.start,
            asked,
            &writers.paths(),
            &self.node,
            &mut self.buffers,
        );
        let sent = order.and_then(|(order, stdin)| {
            let sent = self.launcher.start(&order, stdin);
            sent.map_err(|error| format!("cannot hand the process to the launcher: {error}"))
        });
        if let Err(reason) = sent {
            self.free.push(slot.index);
            return Err(reason);
        }
        let (end, ended) = oneshot::channel();
        let (process, out) = (asked.start.process, asked.out.clone());
        tokio::spawn(async move {
            if out.send(FromNode::Started { process }).await.is_ok() {
                pump(process, readers, ended, out).await;
            }
        });
        let subject = Box::new(self.buffers.subject_of_process());
        let process =
            Process { task: asked.task, instance: asked.instance, key, subject, end, _writers: writers };
        self.slots[slot.index as usize].active = Some(Active::Process(process));
        if let Some(part) = self.parts.get_mut(&asked.task) {
            part.processes.insert(key, slot.index);
        }
        Ok(())
    }

    // When it ends, and nothing of it is left.
    fn close_part(&mut self, task: TaskRef) {
        let Some(part) = self.parts.get_mut(&task).filter(|part| part.processes.is_empty()) else { return };
        if let Some(report) = part.ended.take() {
            if let Some(Part { start, prepared, .. }) = self.parts.remove(&task) {
                self.task_ended(start, prepared, report);
            }
        } else if let Some(signal) = part.ending.filter(|_| part.start.is_part) {
            self.parts.remove(&task);
            let outcome = Outcome::Failed(FailureKind::Signal(signal), text::signaled(signal));
            self.ended.push(Input::ended(task, outcome, Usage::default()));
        }
    }
}
