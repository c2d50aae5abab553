//! Calls that an interpreter is told beforehand, behind the one that it has.
//!
//! What holds:
//! - They wait in the queue of the interpreter. What is taken out of it here has never begun; what is not there any more has, and
//!   the end of the one before is heard or on its way.
//! - The order of calls is that of their numbers.
//! - An interpreter that is interrupted has nothing in its queue: so only the call that is meant can be hit. When it is over,
//!   nobody is.

use std::collections::VecDeque;
use std::sync::Arc;

use hq_core::worker::{Input, Outcome, RunnerId, Start};
use hq_model::TaskRef;

use super::{Current, Files};
use crate::limits::RUNNER_AHEAD_BYTES_MAX;
use crate::objects::Taken;
use crate::prepare::Prepared;
use crate::supervise::{Active, Finish, Supervisor};

impl Supervisor {
    /// Puts a call behind another one. `None` when that cannot be.
    pub(crate) fn arm_call(&mut self, start: Start, leader: TaskRef) -> Option<()> {
        let id = start.runs_in?.runner;
        let prepared = self.prepared_for(&start.template).ok()?;
        let runner = self.runners.all.get(&id)?;
        let (slot, is_of_use) = (
            runner.slot,
            !(runner.is_spent || runner.is_ending || runner.is_closed) && runner.fault.is_none(),
        );
        let is_behind = self.process_of(id)?.calls.back().is_some_and(|call| call.start.task == leader);
        if !is_of_use || !is_behind || !start.objects.is_empty() || is_large(&start) {
            return None;
        }
        prepared.fill(&start, &self.node, &mut self.buffers).ok()?;
        let (number, files) = self.begin_call(id, &prepared, Vec::new());
        self.say_call(id, &start, &prepared, (number, &files), false)?;
        self.running.insert(start.task, slot.index);
        let call = Current { number, start: Box::new(start), prepared, files, waits: false, done: None };
        self.process_of(id)?.calls.push_back(call);
        Some(())
    }

    /// A number for a call, and its files.
    pub(super) fn begin_call(
        &mut self,
        id: RunnerId,
        prepared: &Prepared,
        taken: Vec<Taken>,
    ) -> (u64, Files) {
        self.runners.calls += 1;
        let number = self.runners.calls;
        let put = self.put_file(id, number).filter(|_| prepared.template.spec.body.is_packed_call());
        (number, Files { taken, put })
    }

    /// Takes a call back, and those behind it. False when it is no call.
    pub(crate) fn recall_call(&mut self, task: TaskRef) -> bool {
        let Some(index) = self.running.get(&task) else { return false };
        let Some(Active::Runner(process)) = &self.slots[*index as usize].active else { return false };
        let number = process.calls.iter().find(|call| call.start.task == task).map(|call| call.number);
        if let Some(number) = number {
            self.take_back(process.id, number);
        }
        true
    }

    // Takes back what has not begun, from this number on.
    fn take_back(&mut self, id: RunnerId, from: u64) {
        let Some(channel) = self.runners.tell(id) else { return };
        let mut dropped = Vec::new();
        for number in channel.take_back() {
            match number >= from {
                true => dropped.push(number),
                false => channel.put(number),
            }
        }
        let Some(process) = self.process_of(id) else { return };
        let mut tasks = Vec::new();
        process.calls.retain_mut(|call| {
            let stays = !dropped.contains(&call.number);
            if !stays {
                tasks.push(call.never_began());
            }
            stays
        });
        self.recalled(tasks);
    }

    fn recalled(&mut self, tasks: Vec<TaskRef>) {
        for task in tasks {
            self.running.remove(&task);
            self.ended.push(Input::Recalled { task });
        }
    }

    /// A runner is of no use after the call that has just ended there.
    pub(super) fn spend_runner(&mut self, id: RunnerId) {
        if let Some(runner) = self.runners.all.get_mut(&id) {
            runner.is_spent = true;
            self.ended.push(Input::RunnerSpent { runner: id });
            self.take_back(id, 0);
        }
    }

    /// A runner takes no call after the one that it has, and ends by itself.
    pub(super) fn runner_is_worn(&mut self, id: RunnerId) {
        if let Some(runner) = self.runners.all.get_mut(&id) {
            runner.is_ending = true;
            self.ended.push(Input::RunnerSpent { runner: id });
            self.take_back(id, 0);
        }
    }

    /// Tells the end of a call, and that the next one has begun with it.
    pub(super) fn finish_call(
        &mut self,
        id: RunnerId,
        start: Start,
        prepared: Arc<Prepared>,
        finish: Finish,
    ) {
        let calls = self.process_of(id).map(|process| &process.calls);
        let next = calls.and_then(|calls| calls.front()).map(|call| call.start.task);
        self.finish_before(next, start, prepared, finish);
    }

    /// The same, where it is known which one that is.
    pub(super) fn finish_before(
        &mut self,
        next: Option<TaskRef>,
        start: Start,
        prepared: Arc<Prepared>,
        finish: Finish,
    ) {
        let (task, is_success) = (start.task, finish.outcome == Outcome::Finished);
        let before = self.ended.len();
        self.finish(start, prepared, finish);
        if let Some(next) = next {
            if self.ended.len() == before {
                // Its end is told later.
                self.ended.push(Input::Exited { task, is_success });
            }
            self.ended.push(Input::Begun { task: next });
        }
    }

    /// The calls that have begun in a runner that is gone: the first, and what it has taken. The others are told to be recalled.
    pub(super) fn begun_of(&mut self, calls: VecDeque<Current>, untaken: &[u64]) -> Vec<Current> {
        let mut begun = Vec::new();
        let mut back = Vec::new();
        for mut call in calls {
            match !begun.is_empty() && untaken.contains(&call.number) {
                true => back.push(call.never_began()),
                false => begun.push(call),
            }
        }
        self.recalled(back);
        begun
    }

    /// True when a call is over, though that was not heard yet: another one has begun where it ran.
    pub(crate) fn is_over(&self, task: TaskRef) -> bool {
        let Some(index) = self.running.get(&task) else { return false };
        match &self.slots[*index as usize].active {
            Some(Active::Runner(process)) => process.calls.back().is_some_and(|call| call.start.task != task),
            _ => false,
        }
    }
}

impl Current {
    // Nothing of it is in the store.
    fn never_began(&mut self) -> TaskRef {
        if let Some(put) = self.files.put.take() {
            put.settle();
        }
        self.start.task
    }
}

// It would stay in the stream when it is taken back.
fn is_large(start: &Start) -> bool {
    let entry = start.entry.as_ref().map_or(0, |entry| entry.text().len());
    let inputs = start.inputs.iter().map(|input| input.result.len()).sum::<usize>();
    entry + inputs > RUNNER_AHEAD_BYTES_MAX
}
