//! Why running tasks are ended, and the moments at which something is due for them.

use hq_model::{TaskRef, Timestamp};

use super::Worker;
use crate::limits::UNKILLABLE_TIME;
use crate::worker::arming::Why;
use crate::worker::deadlines::Deadline;
use crate::worker::{Effect, Ends};

const SIGTERM: u8 = 15;
pub(super) const SIGKILL: u8 = 9;

/// Why a running task is being ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::worker) enum Ending {
    Timeout,
    Canceled,
    /// The worker stops.
    Stopped,
    /// A higher instance of the same task was handed over.
    Superseded,
    /// Another attempt of the same task is or was elsewhere; told like a canceled one.
    Elsewhere,
}

impl Ending {
    // What the end of an attempt means that is ended for this.
    pub(super) fn ends(self) -> Ends {
        match self {
            Ending::Stopped => Ends::IfUnfinished,
            Ending::Timeout => Ends::Anyhow,
            Ending::Canceled => Ends::ForNobody,
            Ending::Superseded | Ending::Elsewhere => Ends::ForAnother,
        }
    }
}

impl Worker {
    /// Ends a running task: SIGTERM, and SIGKILL after its grace. The first reason counts.
    pub(in crate::worker) fn end(
        &mut self,
        now: Timestamp,
        task: TaskRef,
        ending: Ending,
        effects: &mut Vec<Effect>,
    ) {
        let Some(run) = self.running.get_mut(&task) else { return };
        if run.ending.is_some() {
            return;
        }
        run.ending = Some(ending);
        if let Some(follower) = run.follower {
            self.call_one_back(follower, Why::Better, effects);
        }
        self.lets_go(task, effects);
        let Some(run) = self.running.get(&task).filter(|run| !run.has_exited) else { return };
        let grace = self.templates[&run.template].template.spec.kill_grace;
        effects.push(Effect::Signal { task, signal: SIGTERM, ends: Some(ending.ends()) });
        self.deadlines.insert(now.after(grace), task, Deadline::Kill);
    }

    /// Does what is due by now.
    pub(super) fn check_deadlines(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        while let Some((at, task, deadline)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.remove(at, task, deadline);
            let Some(run) = self.running.get(&task) else { continue };
            match deadline {
                Deadline::Warning => {
                    let spec = &self.templates[&run.template].template.spec;
                    if let (None, Some(warning)) = (run.ending, spec.warning) {
                        effects.push(Effect::Signal { task, signal: warning.signal, ends: None });
                    }
                }
                Deadline::TimeLimit => self.end(now, task, Ending::Timeout, effects),
                Deadline::Lease => self.expire(now, task, effects),
                Deadline::Kill => {
                    let ends = Some(run.ending.map_or(Ends::Anyhow, Ending::ends));
                    effects.push(Effect::Signal { task, signal: SIGKILL, ends });
                    self.deadlines.insert(now.after(UNKILLABLE_TIME), task, Deadline::Unkillable);
                }
                // A frozen launcher must not keep the worker for ever, nor make it leave tasks behind.
                Deadline::Unkillable
                    if self.leaving.is_some() && self.running.values().all(|run| run.ending.is_some()) =>
                {
                    effects.push(Effect::KillLauncher);
                    self.lose_launcher(now, effects);
                }
                Deadline::Unkillable => {
                    self.deadlines.insert(now.after(UNKILLABLE_TIME), task, Deadline::Unkillable);
                }
            }
        }
    }
}
