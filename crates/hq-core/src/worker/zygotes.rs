//! Zygotes: interpreters that have loaded what an environment of functions preloads, and from which runners are forked.
//!
//! What holds:
//! - A zygote is of an environment (interpreter, variables, directories) and loads only what that preloads: what functions
//!   import, their runners do. One that has loaded something of the user's own is of one job.
//! - Once a call of its environment has waited for others that it called, or has returned them, it loads what that takes, as
//!   often as it is started: so not each of the next runners has to.
//! - While it starts, calls that need a new runner stay in the queue, where they are canceled or taken back like all others;
//!   for a time: then they get interpreters of their own, so that their time limits count.
//! - One that ends by itself is started again after a pause; runners that were forked from it go on. When that has gone wrong
//!   so often that nobody expects it to go right, its environment is broken here for a while, or, where it had worked before,
//!   runners are started one by one.
//! - It ends when it was not used for a time, or when its worker leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use hq_model::{TaskSpec, Timestamp};

use super::{Effect, ZygoteId};
use crate::limits::{
    ZYGOTE_BROKEN_TIME, ZYGOTE_IDLE_TIME, ZYGOTE_PATIENCE, ZYGOTE_PAUSE, ZYGOTE_START_TIME, ZYGOTE_TRIES,
    ZYGOTE_UNFIT_TIME, ZYGOTES_MAX,
};
use crate::worker_messages::Template;

/// Says when a runner is replaced, and so differs between runners of one zygote.
pub const RECYCLE_VARIABLE: &[u8] = b"HQ_PYTHON_RECYCLE";

/// Those of a worker.
#[derive(Debug, Default)]
pub(super) struct Zygotes {
    all: BTreeMap<ZygoteId, Zygote>,
    last: ZygoteId,
    // The worker leaves: none is started any more.
    are_over: bool,
}

#[derive(Debug)]
struct Zygote {
    // Of the submit that it was started for.
    template: Arc<Template>,
    state: State,
    // Ends in a row that nobody wanted.
    failures: u32,
    // It has been of use.
    was_ready: bool,
    // Until when calls wait for it, if they still do.
    patience: Option<Timestamp>,
    // Calls that it is for call others.
    calls_others: bool,
}

#[derive(Debug, PartialEq)]
enum State {
    /// It loads, and until when it may.
    Starting(Timestamp),
    /// It has loaded for too long, and is being ended.
    Late,
    /// Runners are forked from it. When that happened last, and whether they are of one job only.
    Ready { used: Timestamp, is_of_job: bool },
    /// It has ended by itself, and is started again at this time.
    Pausing(Timestamp),
    /// Nothing can be forked from it; when that is looked at again.
    Unfit(Timestamp),
    /// It was started in vain; until when nobody tries, and why.
    Broken(Timestamp, String),
    /// It is told to end.
    Ending,
}

/// How a new runner comes to be.
#[derive(Debug, PartialEq)]
pub(super) enum Origin {
    /// It is forked from a zygote.
    Zygote(ZygoteId),
    /// It is an interpreter of its own.
    Fresh,
    /// That is not known yet.
    Unknown,
    /// Not at all, because of this.
    Broken(String),
}

impl Zygotes {
    /// How new runners for such functions come to be.
    pub(super) fn origin(&mut self, now: Timestamp, template: &Arc<Template>) -> Option<Origin> {
        if self.are_over {
            return Some(Origin::Fresh);
        }
        let (id, zygote) = self.all.iter_mut().find(|(_, zygote)| zygote.serves(template))?;
        Some(match &mut zygote.state {
            State::Starting(_) | State::Late | State::Pausing(_) if zygote.patience.is_some() => {
                Origin::Unknown
            }
            State::Starting(_) | State::Late | State::Pausing(_) => Origin::Fresh,
            State::Ready { used, .. } => {
                *used = now;
                Origin::Zygote(*id)
            }
            State::Unfit(_) | State::Ending => Origin::Fresh,
            State::Broken(_, why) => Origin::Broken(why.clone()),
        })
    }

    /// Likewise. Where there is no zygote one is started.
    pub(super) fn find(
        &mut self,
        now: Timestamp,
        template: &Arc<Template>,
        effects: &mut Vec<Effect>,
    ) -> Origin {
        if let Some(origin) = self.origin(now, template) {
            return origin;
        }
        if self.all.len() >= ZYGOTES_MAX && !self.end_longest_idle(effects) {
            return Origin::Fresh;
        }
        self.last.0 += 1;
        let (id, template) = (self.last, template.clone());
        effects.push(Effect::StartZygote { zygote: id, template: template.clone() });
        let state = State::Starting(now.after(ZYGOTE_START_TIME));
        let patience = Some(now.after(ZYGOTE_PATIENCE));
        let zygote = Zygote { template, state, failures: 0, was_ready: false, patience, calls_others: false };
        self.all.insert(id, zygote);
        Origin::Unknown
    }

    /// True while one starts that new runners for such functions come from.
    pub(super) fn is_awaited(&self, template: &Template) -> bool {
        let found = self.all.values().find(|zygote| zygote.serves(template));
        let starts = |z: &Zygote| matches!(z.state, State::Starting(_) | State::Late | State::Pausing(_));
        found.is_some_and(|zygote| starts(zygote) && zygote.patience.is_some())
    }

    /// It has loaded what it should: runners can be forked from it, of this job only or of any.
    pub(super) fn is_ready(
        &mut self,
        now: Timestamp,
        id: ZygoteId,
        is_of_job: bool,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(zygote) = self.all.get_mut(&id).filter(|zygote| zygote.is_starting()) {
            zygote.state = State::Ready { used: now, is_of_job };
            (zygote.was_ready, zygote.patience) = (true, None);
            effects.extend(zygote.calls_others.then_some(Effect::LoadPackage { zygote: id }));
        }
    }

    /// A call of such a function has called others, as the next ones will.
    pub(super) fn calls_others(&mut self, template: &Template, effects: &mut Vec<Effect>) {
        let found = self.all.iter_mut().find(|(_, zygote)| zygote.serves(template));
        if let Some((id, zygote)) = found.filter(|(_, zygote)| !zygote.calls_others) {
            zygote.calls_others = true;
            let is_ready = matches!(zygote.state, State::Ready { .. });
            effects.extend(is_ready.then_some(Effect::LoadPackage { zygote: *id }));
        }
    }

    /// Nothing can be forked from it. It ends.
    pub(super) fn is_unfit(&mut self, now: Timestamp, id: ZygoteId) {
        if let Some(zygote) = self.all.get_mut(&id).filter(|zygote| zygote.is_starting()) {
            zygote.state = State::Unfit(now.after(ZYGOTE_UNFIT_TIME));
            zygote.patience = None;
        }
    }

    /// A runner that was forked from it has had a call.
    pub(super) fn is_proven(&mut self, id: ZygoteId) {
        if let Some(zygote) = self.all.get_mut(&id).filter(|z| matches!(z.state, State::Ready { .. })) {
            zygote.failures = 0;
        }
    }

    /// It is gone, by itself or because that was wanted.
    pub(super) fn ended(&mut self, now: Timestamp, id: ZygoteId, why: String) {
        let Some(zygote) = self.all.get_mut(&id) else { return };
        match zygote.state {
            State::Ending => {
                self.all.remove(&id);
            }
            State::Starting(_) | State::Late | State::Ready { .. } => {
                zygote.failures += 1;
                if matches!(zygote.state, State::Ready { .. }) {
                    zygote.patience = Some(now.after(ZYGOTE_PATIENCE));
                }
                zygote.state = if zygote.failures < ZYGOTE_TRIES {
                    State::Pausing(now.after(ZYGOTE_PAUSE * 4_u32.pow(zygote.failures - 1)))
                } else if zygote.was_ready {
                    zygote.patience = None;
                    State::Unfit(now.after(ZYGOTE_UNFIT_TIME))
                } else {
                    zygote.patience = None;
                    let is_late = zygote.state == State::Late;
                    let limit = ZYGOTE_START_TIME.as_secs();
                    let late = || format!("The interpreter did not finish loading within {limit} seconds.");
                    State::Broken(now.after(ZYGOTE_BROKEN_TIME), if is_late { late() } else { why })
                };
            }
            State::Pausing(_) | State::Unfit(_) | State::Broken(..) => {}
        }
    }

    /// All are gone.
    pub(super) fn all_ended(&mut self) {
        self.all.clear();
        self.are_over = true;
    }

    /// The worker leaves.
    pub(super) fn leave(&mut self, effects: &mut Vec<Effect>) {
        self.are_over = true;
        let ids: Vec<ZygoteId> = self.all.keys().copied().collect();
        ids.into_iter().for_each(|id| self.end(id, effects));
    }

    /// Ends and starts those whose time has come, and forgets what was found of others.
    pub(super) fn expire(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let is_due = |zygote: &Zygote| zygote.next().is_some_and(|at| at <= now);
        let due: Vec<ZygoteId> = self.all.iter().filter(|(_, z)| is_due(z)).map(|(id, _)| *id).collect();
        for id in due {
            let Some(zygote) = self.all.get_mut(&id) else { continue };
            zygote.patience.take_if(|until| *until <= now);
            if zygote.over_at().is_none_or(|at| at > now) {
                continue;
            }
            match zygote.state {
                State::Starting(_) => {
                    zygote.state = State::Late;
                    effects.push(Effect::EndZygote { zygote: id });
                }
                State::Pausing(_) => {
                    zygote.state = State::Starting(now.after(ZYGOTE_START_TIME));
                    effects.push(Effect::StartZygote { zygote: id, template: zygote.template.clone() });
                }
                _ => self.end(id, effects),
            }
        }
    }

    /// When there is something to expire.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.all.values().filter_map(Zygote::next).min()
    }

    fn end_longest_idle(&mut self, effects: &mut Vec<Effect>) -> bool {
        let ready = self.all.iter().filter_map(|(id, zygote)| match zygote.state {
            State::Ready { used, .. } => Some((used, *id)),
            _ => None,
        });
        let longest = ready.min();
        longest.map(|(_, id)| self.end(id, effects)).is_some()
    }

    // One that runs is told to; others are forgotten.
    fn end(&mut self, id: ZygoteId, effects: &mut Vec<Effect>) {
        let Some(zygote) = self.all.get_mut(&id) else { return };
        match zygote.state {
            State::Starting(_) | State::Ready { .. } => {
                (zygote.state, zygote.patience) = (State::Ending, None);
                effects.push(Effect::EndZygote { zygote: id });
            }
            State::Late => (zygote.state, zygote.patience) = (State::Ending, None),
            State::Ending => {}
            State::Pausing(_) | State::Unfit(_) | State::Broken(..) => {
                self.all.remove(&id);
            }
        }
    }
}

impl Zygote {
    fn is_starting(&self) -> bool {
        matches!(self.state, State::Starting(_))
    }

    // What is broken may have been mended since another job was submitted.
    fn serves(&self, template: &Template) -> bool {
        let is_of_job = matches!(self.state, State::Ready { is_of_job: true, .. } | State::Broken(..));
        let is_there = self.state != State::Ending;
        is_there
            && (!is_of_job || self.template.id.job == template.id.job)
            && self.template.submit_dir == template.submit_dir
            && is_alike(&self.template.spec, &template.spec)
    }

    fn next(&self) -> Option<Timestamp> {
        self.over_at().into_iter().chain(self.patience).min()
    }

    // When its state is over.
    fn over_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Starting(until)
            | State::Pausing(until)
            | State::Unfit(until)
            | State::Broken(until, _) => Some(until),
            State::Ready { used, .. } => Some(used.after(ZYGOTE_IDLE_TIME)),
            State::Late | State::Ending => None,
        }
    }
}

// What a zygote starts with.
fn is_alike(one: &TaskSpec, other: &TaskSpec) -> bool {
    let variables = |spec: &TaskSpec| {
        let variables = spec.env.iter().filter(|(name, _)| name != RECYCLE_VARIABLE);
        variables.cloned().collect::<Vec<_>>()
    };
    one.body.texts() == other.body.texts()
        && one.cwd == other.cwd
        && (one.env == other.env || variables(one) == variables(other))
}
