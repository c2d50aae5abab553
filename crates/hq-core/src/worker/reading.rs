//! Whose output can be read on this worker: that of tasks that run here, and of those that ran here before.
//!
//! A server names a task, never a file: where that prints is told from its template, and only if the task was here.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{IdSet, Instance, TaskRef};

use super::Effect;
use super::machine::{Running, Worker};
use crate::limits::RAN_RANGES_MAX;
use crate::output_messages::{ReadAnswer, ReadOrder};
use crate::worker_messages::{FromWorker, TemplateId};

/// What was read and what ran.
#[derive(Debug, Default)]
pub(super) struct Reading {
    // Running tasks of which something was read.
    read: BTreeSet<TaskRef>,
    // What ran here and has ended.
    ran: BTreeMap<(TemplateId, Instance), IdSet>,
    // How many intervals that may be since they were counted last.
    ranges_max: usize,
}

impl Reading {
    /// A task has ended.
    pub(super) fn ended(&mut self, task: TaskRef, run: &Running, effects: &mut Vec<Effect>) {
        if run.is_part {
            return;
        }
        if self.read.remove(&task) {
            effects.push(Effect::ReadEnded { task });
        }
        self.ran.entry((run.template, run.instance)).or_default().insert(task.task);
        self.ranges_max += 1;
        if self.ranges_max > RAN_RANGES_MAX {
            self.forget_some();
        }
    }

    fn forget_some(&mut self) {
        let ranges = |ran: &BTreeMap<_, IdSet>| ran.values().map(IdSet::range_count).sum::<usize>();
        // Half of it, so that this is seldom.
        while ranges(&self.ran) > RAN_RANGES_MAX / 2 && self.ran.len() > 1 {
            self.ran.pop_first();
        }
        if ranges(&self.ran) > RAN_RANGES_MAX / 2 {
            self.ran.clear();
        }
        self.ranges_max = ranges(&self.ran);
    }

    fn template_of(&self, task: TaskRef, instance: Instance) -> Option<TemplateId> {
        let of_job = TemplateId::of_job(task.job);
        let first = (*of_job.start(), Instance(0))..=(*of_job.end(), Instance(u32::MAX));
        let mut of_job = self.ran.range(first).filter(|((_, ran), _)| *ran == instance);
        of_job.find(|(_, ids)| ids.contains(task.task)).map(|((template, _), _)| *template)
    }
}

impl Worker {
    /// The server asks for what a task prints.
    pub(super) fn read_output(&mut self, order: ReadOrder, effects: &mut Vec<Effect>) {
        let run = self.running.get(&order.task).filter(|run| run.instance == order.instance && !run.is_part);
        let template = match run {
            Some(run) => Some(run.template),
            None => self.reading.template_of(order.task, order.instance),
        };
        let has_ended = run.is_none();
        let Some(known) = template.and_then(|template| self.templates.get(&template)) else {
            let reason = match template {
                Some(_) => "its worker does not know any more where it printed",
                None => "its worker does not know that it ran there",
            };
            let answer = ReadAnswer::unreadable(order.number, reason);
            return effects.push(Effect::Send(FromWorker::Output(answer)));
        };
        if !has_ended {
            self.reading.read.insert(order.task);
        }
        effects.push(Effect::Read { order, template: known.template.clone(), has_ended });
    }
}
