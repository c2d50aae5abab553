//! How runners end, and the calls that they have then.

use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome, RunnerId, RunsIn};
use hq_model::TaskRef;
use tracing::{debug, warn};

use super::{Current, Process, SIGKILL, frames};
use crate::launcher::{End, Ended, Stage, text};
use crate::supervise::{Active, Finish, Supervisor};

/// What an interpreter exits with whose function has closed its connection.
pub(super) const CLOSED: u8 = 113;

/// What is said of that.
pub(super) const CLOSED_TEXT: &str = "The function has closed the connection between its interpreter and the \
                                      worker, as happens when all descriptors are closed: close only those that it \
                                      has opened. (One that exits with code 113 looks the same.)";

impl Supervisor {
    /// The machine has no further use for a runner.
    pub(crate) fn end_runner(&mut self, id: RunnerId) {
        let Some(runner) = self.runners.all.get_mut(&id) else { return };
        if runner.is_spent || runner.is_closed {
            return match runner.world {
                Some(_) => self.end_world(id),
                None => self.kill_runner(id),
            };
        }
        runner.is_ending = true;
        self.tell_to_end(id);
    }

    /// Its process ends by itself when it hears that.
    pub(super) fn tell_to_end(&mut self, id: RunnerId) {
        if let Some(channel) = self.runners.tell(id) {
            channel.put(frames::END);
        }
    }

    /// It does not do what runners do.
    pub(super) fn blame_runner(&mut self, id: RunnerId, fault: String) {
        let Some(runner) = self.runners.all.get_mut(&id).filter(|runner| runner.fault.is_none()) else {
            return;
        };
        runner.fault = Some(fault);
        self.kill_runner(id);
    }

    pub(super) fn kill_runner(&mut self, id: RunnerId) {
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
        let Process { id, first, mut calls } = process;
        let mut runner = self.runners.all.remove(&id);
        let untaken = runner.as_mut().map_or_else(Vec::new, |runner| runner.channel.take_back());
        let was_ended = runner.as_ref().is_some_and(|runner| runner.is_spent || runner.is_ending);
        if let Some(done) = calls.front_mut().and_then(|call| call.done.take())
            && let Some(call) = calls.pop_front()
        {
            self.conclude(id, call, done);
        }
        if first.nodes.len() > 1 {
            self.drop_part(first.task);
        }
        let over_kib = match report.end {
            End::OverMemory(kib) => Some(u64::from(kib)),
            _ => None,
        };
        let for_memory = self.enforcer.end((first.task, first.instance), over_kib);
        let known = runner.as_ref().filter(|runner| for_memory.is_none() && runner.fault.is_none());
        let of_world = known.and_then(|runner| runner.world.as_ref()?.why(runner.is_ready));
        let how =
            How { end: report.end, fault: runner.and_then(|runner| runner.fault), for_memory, of_world };
        // What it has not taken has not begun; but the call that it was to have fails with it.
        let mut begun = self.begun_of(calls, &untaken);
        if matches!(how.end, End::NotStarted(Stage::Zygote, _))
            && !was_ended
            && let Some(call) = begun.pop()
        {
            return self.start_without_zygote(id, call);
        }
        if begun.is_empty() && !was_ended {
            warn!(runner = id.0, end = ?report.end, "an interpreter without a call has ended");
        }
        let tasks: Vec<TaskRef> = begun.iter().map(|call| call.start.task).collect();
        for (place, Current { start, prepared, files, .. }) in begun.into_iter().enumerate() {
            drop(files);
            self.running.remove(&start.task);
            let outcome =
                how.outcome().or_else(|| self.outcome_of(how.end, how.for_memory.clone(), &start, &prepared));
            let Some(outcome) = outcome else { return };
            let next = tasks.get(place + 1).copied();
            self.finish_before(next, *start, prepared, Finish::new(outcome, report.usage));
        }
        self.ended.push(Input::RunnerEnded { runner: id });
    }

    // No process was forked, and so nothing of a call has begun: it gets an interpreter of its own.
    fn start_without_zygote(&mut self, id: RunnerId, call: Current) {
        let Current { number, mut start, prepared, files, .. } = call;
        debug!(task = %start.task, "an interpreter is started, as none could be forked");
        self.running.remove(&start.task);
        start.runs_in = start.runs_in.map(|runs_in| RunsIn { zygote: None, ..runs_in });
        if let Some(ends) = self.streaming.get(&start.task) {
            self.buffers.streams = ends.paths();
        }
        self.call_as(*start, prepared, (id, true), (number, files));
    }
}

// How a runner has ended.
struct How {
    end: End,
    // Why it was killed.
    fault: Option<String>,
    for_memory: Option<String>,
    // What the ranks of a world say of that.
    of_world: Option<Outcome>,
}

impl How {
    // What became of a call that it had; nothing where that is as with any program.
    fn outcome(&self) -> Option<Outcome> {
        let early = "before the function returned";
        if self.for_memory.is_some() {
            return None;
        }
        if self.of_world.is_some() {
            return self.of_world.clone();
        }
        Some(match (self.end, &self.fault) {
            // As if nothing were wrong, by `os._exit`.
            (End::Exited(0), _) => {
                let text = format!("The interpreter exited with code 0 {early}.");
                Outcome::Failed(FailureKind::Output, text)
            }
            (End::Exited(CLOSED), _) => Outcome::Failed(FailureKind::Output, CLOSED_TEXT.to_owned()),
            (End::Exited(code), _) => {
                let text = format!("The interpreter exited with code {code} {early}.");
                Outcome::Failed(FailureKind::Exit(code), text)
            }
            (End::Signaled(SIGKILL), Some(fault)) => {
                let text = format!("The interpreter was killed {early}: {fault}.");
                Outcome::Failed(FailureKind::Signal(SIGKILL), text)
            }
            (End::Signaled(signal), _) => {
                let text = format!("The interpreter was ended {early}: {}", text::signaled(signal));
                Outcome::Failed(FailureKind::Signal(signal), text)
            }
            _ => return None,
        })
    }
}
