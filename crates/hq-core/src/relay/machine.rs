//! The relay's state machine: what the server and those who take tasks say goes in, tasks and reports come out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_model::worker::WorkerConfig;
use hq_model::{Epoch, Instance, JobId, TaskRef, Timestamp, Usage, WorkerId, pulled};

use super::asks::{Ask, Asks};
use super::due::Due;
use super::repeats::Way;
use super::sessions::{Sessions, Taken};
use super::{AskId, BagState, Branch, Effect, Given, How, Refusal, SessionId, SessionInfo, TagsId, Which};
use crate::WorkerSecret;
use crate::limits::{
    ANSWER_TIME_MAX, PULLED_RESULT_BYTES_MAX, PULLED_ROOM_MAX, SESSION_TASKS_MAX, TAG_SETS_MAX,
};
use crate::record::FailureKind;
use crate::worker::{self, Outcome, Start, Worker};
use crate::worker_messages::{FromWorker, ToWorker};

const SIGTERM: u8 = 15;

/// The relay's state machine.
#[derive(Debug)]
pub struct Relay {
    // What is said of each of its workers, but for what they hand on.
    like: WorkerConfig,
    // Each of its workers shows it.
    secret: Option<WorkerSecret>,
    branches: BTreeMap<Branch, Outlet>,
    // Sets of tags that were asked with.
    tags: Vec<Vec<String>>,
    sessions: Sessions,
    asks: Asks,
    // Of these branches somebody wanted tasks when they were settled.
    wanted: BTreeMap<Branch, u64>,
    due: Due,
    // Closed, and all of their tasks have ended.
    over: BTreeSet<JobId>,
    is_ending: bool,
}

// Which questions are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    // Those for which there are tasks.
    Tasks,
    // Those, and others that cannot wait.
    All,
}

#[derive(Debug)]
struct Outlet {
    worker: Worker,
    epoch: Epoch,
}

impl Relay {
    /// A relay without bags, whose workers are like this one.
    pub fn new(like: WorkerConfig) -> Relay {
        Relay {
            like,
            secret: None,
            branches: BTreeMap::new(),
            tags: vec![Vec::new()],
            sessions: Sessions::default(),
            asks: Asks::default(),
            wanted: BTreeMap::new(),
            due: Due::default(),
            over: BTreeSet::new(),
            is_ending: false,
        }
    }

    /// The same one, whose workers can show that they are the ones that have their ids.
    #[must_use]
    pub fn with_secret(mut self, secret: WorkerSecret) -> Relay {
        self.secret = Some(secret);
        self
    }

    // --- those who take tasks ---

    /// The session of a label, which is made if there is none; a new one without a label. With a grace, what it has is given back
    /// so long after its last connection is gone; without a label there is always one.
    pub fn enter(
        &mut self,
        label: Option<&str>,
        lease: Option<Duration>,
        grace: Option<Duration>,
    ) -> SessionId {
        self.sessions.enter(label, lease, grace)
    }

    /// A connection speaks for a session.
    pub fn connected(&mut self, now: Timestamp, session: SessionId, effects: &mut Vec<Effect>) {
        if let Some(lease) = self.sessions.connected(session) {
            self.extend_all(now, session, lease, effects);
        }
    }

    /// A connection that spoke for a session is gone. Whoever has a grace has what it has for that long, unless it comes back; all
    /// others until their leases are over.
    pub fn disconnected(&mut self, now: Timestamp, session: SessionId, effects: &mut Vec<Effect>) {
        if let Some(grace) = self.sessions.disconnected(session) {
            self.extend_all(now, session, grace, effects);
        }
        self.forget_idle();
    }

    fn extend_all(&mut self, now: Timestamp, session: SessionId, lease: Duration, effects: &mut Vec<Effect>) {
        for task in self.sessions.taken_by(session) {
            self.extend_task(now, task, lease, effects);
        }
    }

    fn extend_task(&mut self, now: Timestamp, task: TaskRef, lease: Duration, effects: &mut Vec<Effect>) {
        if let Some(branch) = self.sessions.holder(task).map(|taken| taken.branch) {
            self.pass(now, branch, worker::Input::Extend { task, lease }, effects);
        }
    }

    /// Everything that the session of a label has is given back. How many tasks that are; `None` when there is no such session.
    pub fn leave(&mut self, now: Timestamp, label: &str, effects: &mut Vec<Effect>) -> Option<u64> {
        let session = self.sessions.of_label(label)?;
        Some(self.release_all(now, session, effects))
    }

    /// Everything that a session has is given back.
    pub fn release_all(&mut self, now: Timestamp, session: SessionId, effects: &mut Vec<Effect>) -> u64 {
        let tasks = self.sessions.taken_by(session);
        for task in &tasks {
            if let Some(taken) = self.sessions.drop(*task) {
                self.pass(now, taken.branch, worker::Input::Released { task: *task }, effects);
            }
        }
        self.forget_idle();
        tasks.len() as u64
    }

    /// A set of tags, in order and each once, by which whoever can do these asks for tasks; `None` where there are too many of them.
    pub fn tags(&mut self, tags: &[String]) -> Option<TagsId> {
        let place = match self.tags.iter().position(|known| known == tags) {
            Some(place) => place,
            None if self.tags.len() < TAG_SETS_MAX => {
                self.tags.push(tags.to_vec());
                self.tags.len() - 1
            }
            None => return None,
        };
        u16::try_from(place).ok().map(TagsId)
    }

    /// Asks for tasks. Answered by exactly one [`Effect::Given`], unless it is [forgotten](Relay::forget) before.
    pub fn ask(
        &mut self,
        now: Timestamp,
        ask: AskId,
        session: SessionId,
        (branches, count): (Vec<Branch>, u32),
        wait: Duration,
        effects: &mut Vec<Effect>,
    ) {
        let room = self.room(session);
        for branch in branches.iter().filter(|branch| !self.over.contains(&branch.bag)) {
            if !self.branches.contains_key(branch) && !self.is_ending {
                let tags = self.tags.get(usize::from(branch.tags.0)).map(Vec::as_slice).unwrap_or_default();
                let WorkerConfig { resources, executor, .. } =
                    WorkerConfig::relay(branch.bag, tags, PULLED_ROOM_MAX);
                let config = WorkerConfig { resources, executor, ..self.like.clone() };
                let mut worker = Worker::new(config, now);
                if let Some(secret) = self.secret {
                    worker = worker.with_secret(secret);
                }
                self.branches.insert(*branch, Outlet { worker, epoch: Epoch(0) });
                effects.push(Effect::Join { branch: *branch });
            }
        }
        let until = now.after(wait);
        let patience = until.max(now.after(ANSWER_TIME_MAX));
        self.asks.insert(ask, Ask { session, branches, count: count.min(room), until, patience });
    }

    /// What there is now for somebody who asks and whom nobody came before. None where some wait: they are answered in their
    /// order, by [`Relay::ask`].
    pub fn take_now(
        &mut self,
        now: Timestamp,
        session: SessionId,
        branches: &[Branch],
        count: u32,
        effects: &mut Vec<Effect>,
    ) -> Vec<Given> {
        if !self.asks.is_empty() {
            return Vec::new();
        }
        let count = count.min(self.room(session));
        self.give(now, session, branches, count, effects)
    }

    /// Nobody waits for the answer any more.
    pub fn forget(&mut self, ask: AskId) {
        if let Some(ask) = self.asks.remove(ask) {
            self.sessions.may_be_idle(ask.session);
        }
    }

    /// How many tasks more a session may have.
    pub fn room(&self, session: SessionId) -> u32 {
        SESSION_TASKS_MAX.saturating_sub(self.sessions.count(session)) as u32
    }

    /// A task of a session has ended.
    ///
    /// # Errors
    /// When that counts for nothing.
    pub fn end(
        &mut self,
        now: Timestamp,
        session: SessionId,
        which: &Which,
        how: How,
        effects: &mut Vec<Effect>,
    ) -> Result<TaskRef, Refusal> {
        let way = Way::of(&how);
        let task = match self.sessions.find(session, which) {
            Ok(task) => task,
            Err(refusal) => return self.sessions.repeated(session, which, way).ok_or(refusal),
        };
        if matches!(&how, How::Finished(result) if result.len() > PULLED_RESULT_BYTES_MAX) {
            return Err(Refusal::ResultTooLong);
        }
        let Some(branch) = self.sessions.holder(task).map(|taken| taken.branch) else {
            return Err(Refusal::NotHeld);
        };
        self.sessions.accept(session, task, way);
        let usage = self.usage(now, branch, task);
        let input = match how {
            How::Finished(result) => worker::Input::Ended { task, outcome: Outcome::Finished, usage, result },
            How::Failed(error) => {
                worker::Input::ended(task, Outcome::Failed(FailureKind::Puller, error), usage)
            }
            How::Released => worker::Input::Released { task },
        };
        self.pass(now, branch, input, effects);
        Ok(task)
    }

    // Of a task that is taken, it is known how long it was.
    fn usage(&self, now: Timestamp, branch: Branch, task: TaskRef) -> Usage {
        let since = self.branches.get(&branch).and_then(|outlet| outlet.worker.taken_since(task));
        Usage { wall_us: since.map_or(0, |since| now.0.saturating_sub(since.0)), ..Usage::default() }
    }

    /// A session does not hear whether what it has said is on the server's disk, for that takes too long: it may say the same again,
    /// which counts once.
    pub fn may_repeat(&mut self, session: SessionId) {
        self.sessions.may_repeat(session);
    }

    /// A task of a session is to be put back behind others, which the server decides: it is told the task and the instance.
    ///
    /// # Errors
    /// When that counts for nothing.
    pub fn defer(&mut self, session: SessionId, which: &Which) -> Result<(TaskRef, Instance), Refusal> {
        let task = self.sessions.find(session, which)?;
        let instance = self.sessions.set_deferring(task).ok_or(Refusal::NotHeld)?;
        Ok((task, instance))
    }

    /// The server did not put a task back: whoever has it, has it still.
    pub fn not_deferred(&mut self, task: TaskRef, instance: Instance) {
        self.sessions.not_deferred(task, instance);
    }

    /// Whoever has a task is still at it.
    ///
    /// # Errors
    /// When it has it no more.
    pub fn extend(
        &mut self,
        now: Timestamp,
        session: SessionId,
        which: &Which,
        lease: Option<Duration>,
        effects: &mut Vec<Effect>,
    ) -> Result<TaskRef, Refusal> {
        let task = self.sessions.find(session, which)?;
        let lease = lease.unwrap_or_else(|| self.sessions.lease(session));
        self.extend_task(now, task, lease, effects);
        Ok(task)
    }

    /// How many ends of a session were accepted, and up to which of them all are on the server's disk.
    pub fn progress(&self, session: SessionId) -> (u64, u64) {
        self.sessions.progress(session)
    }

    /// Somebody waits until all that was said is on the server's disk. To be followed by [`Relay::settle`].
    pub fn hurry(&mut self) {
        // Who has said all has nothing to be hurried.
        for (branch, outlet) in self.branches.iter_mut().filter(|(_, outlet)| !outlet.worker.has_said_all()) {
            outlet.worker.hurry();
            self.due.touch(*branch);
        }
    }

    /// True when nothing of what a session said up to its end of this number is on its way to the server's disk any more: it is
    /// there, or lost.
    pub fn has_settled(&self, session: SessionId, number: u64) -> bool {
        self.sessions.has_settled(session, number)
    }

    /// True when some of what a session said up to its end of this number was lost with a branch, whose connection to the server
    /// was given up: those tasks are given out again. Until this was asked, nothing after the first of them counts as saved.
    pub fn tell_lost(&mut self, session: SessionId, number: u64) -> bool {
        self.sessions.tell_lost(session, number)
    }

    /// Those who take tasks here; with bags, how many they have of these.
    pub fn sessions(&self, bags: Option<&BTreeSet<JobId>>) -> Vec<SessionInfo> {
        let held = |task: TaskRef| {
            let branch = self.sessions.holder(task)?.branch;
            self.branches.get(&branch)?.worker.held(task)
        };
        self.sessions.info(bags, held)
    }

    /// Bags that are asked for here: how many of their tasks are taken, and how many could be.
    pub fn bags(&self) -> Vec<(JobId, u64, u64)> {
        let mut bags: BTreeMap<JobId, (u64, u64)> = BTreeMap::new();
        for (branch, outlet) in &self.branches {
            let (taken, ahead) = bags.entry(branch.bag).or_default();
            *taken += self.sessions.taken_of(*branch);
            *ahead += outlet.worker.takeable();
        }
        bags.into_iter().map(|(bag, (taken, ahead))| (bag, taken, ahead)).collect()
    }

    /// How many branches there are with these.
    pub fn branches_with(&self, asked: &[Branch]) -> usize {
        let new: BTreeSet<&Branch> = asked.iter().filter(|one| !self.branches.contains_key(one)).collect();
        self.branches.len() + new.len()
    }

    // --- the server ---

    /// Something happened to a branch.
    pub fn hear(&mut self, now: Timestamp, branch: Branch, input: worker::Input, effects: &mut Vec<Effect>) {
        match &input {
            worker::Input::Server(ToWorker::Welcome(welcome)) => {
                if let Some(outlet) = self.branches.get_mut(&branch) {
                    outlet.epoch = welcome.epoch;
                    // Under another id it is told that reports of before are saved, of which nothing counts.
                    if outlet.worker.id().is_some_and(|before| before != welcome.worker) {
                        self.sessions.lose_unsaved(branch);
                    }
                }
            }
            worker::Input::Server(ToWorker::Saved { report }) => self.sessions.saved(branch, *report),
            _ => {}
        }
        self.pass(now, branch, input, effects);
    }

    /// The bag is closed, and all of its tasks have ended.
    pub fn is_over(&mut self, bag: JobId) {
        self.over.insert(bag);
    }

    /// True when that was said.
    pub fn knows_over(&self, bag: JobId) -> bool {
        self.over.contains(&bag)
    }

    /// The relay is to end: nothing new is given, and what is taken is waited for.
    pub fn interrupt(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.is_ending = true;
        for branch in self.branches.keys().copied().collect::<Vec<_>>() {
            self.pass(now, branch, worker::Input::Interrupt, effects);
        }
    }

    /// Acts after a batch of what was said: gives what there is, sends reports. To be called before the shell waits for more.
    pub fn settle(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.answer(now, Answers::Tasks, effects);
        self.settle_branches(now, effects);
        // That there is nothing is known when the server was told of all that is asked for.
        if self.answer(now, Answers::All, effects) {
            self.settle_branches(now, effects);
        }
        self.forget_idle();
    }

    // Says how much is wanted, and lets the workers act on that.
    fn settle_branches(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let wanted = self.asks.wanted();
        let mut due = self.due.take(now);
        due.extend(wanted.keys().chain(self.wanted.keys()));
        for id in due {
            let count = wanted.get(&id).copied().unwrap_or(0);
            let mut said = Vec::new();
            if let Some(outlet) = self.branches.get_mut(&id) {
                outlet.worker.handle(now, worker::Input::Wanted { count }, &mut said);
                outlet.worker.settle(now, &mut said);
            }
            self.take_in(now, id, said, effects);
            self.due.settled(id, self.branches.get(&id).and_then(|outlet| outlet.worker.next_wakeup()));
        }
        self.wanted = wanted;
    }

    /// When the relay wants to be settled even if nothing happens.
    pub fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        self.due.next().into_iter().chain(self.asks.next(now)).min()
    }

    /// True when nobody has or wants anything, and all that was said is on the server's disk.
    pub fn is_idle(&self) -> bool {
        self.asks.is_empty() && self.branches.values().all(|outlet| outlet.worker.is_idle_relay())
    }

    /// True when it was asked to end.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// True when it has ended for all bags.
    pub fn has_left(&self) -> bool {
        self.branches.is_empty()
    }

    fn forget_idle(&mut self) {
        if self.sessions.may_some_be_idle() {
            self.sessions.forget_idle(&self.asks.sessions());
        }
    }

    // Says whether something was answered.
    fn answer(&mut self, now: Timestamp, answers: Answers, effects: &mut Vec<Effect>) -> bool {
        let mut has_answered = false;
        for (id, ask) in self.asks.in_order() {
            let tasks = self.give(now, ask.session, &ask.branches, ask.count, effects);
            let is_over = |branch: &Branch| self.over.contains(&branch.bag);
            let is_known = |branch: &Branch| {
                let outlet = self.branches.get(branch);
                is_over(branch) || outlet.is_some_and(|outlet| outlet.worker.has_all_there_is())
            };
            let state = if !tasks.is_empty() {
                BagState::Some
            } else if answers == Answers::Tasks {
                continue;
            } else if ask.branches.iter().all(is_over) && !ask.branches.is_empty() {
                BagState::Over
            } else if ask.count == 0 || (ask.until <= now && ask.branches.iter().all(is_known)) {
                BagState::Wait
            } else if ask.patience <= now || self.is_ending {
                BagState::Unknown
            } else {
                continue;
            };
            self.asks.remove(id);
            self.sessions.may_be_idle(ask.session);
            has_answered = true;
            effects.push(Effect::Given { ask: id, tasks, state });
        }
        has_answered
    }

    // What there is now for somebody who asks.
    fn give(
        &mut self,
        now: Timestamp,
        session: SessionId,
        branches: &[Branch],
        count: u32,
        effects: &mut Vec<Effect>,
    ) -> Vec<Given> {
        let lease = self.sessions.lease(session);
        let mut given = Vec::new();
        for id in branches {
            let count = count - given.len() as u32;
            let outlet = self.branches.get_mut(id).filter(|outlet| count > 0 && outlet.worker.takeable() > 0);
            let Some(outlet) = outlet else { continue };
            let mut said = Vec::new();
            self.due.touch(*id);
            outlet.worker.handle(now, worker::Input::Take { count, lease }, &mut said);
            let epoch = outlet.epoch;
            for effect in said {
                match effect {
                    worker::Effect::Start(start) => {
                        given.extend(self.take((session, *id), epoch, lease, start));
                    }
                    other => self.take_in(now, *id, vec![other], effects),
                }
            }
        }
        given
    }

    fn take(
        &mut self,
        (session, branch): (SessionId, Branch),
        epoch: Epoch,
        lease: Duration,
        start: Start,
    ) -> Option<Given> {
        let entry = start.entry.as_ref().map(|entry| entry.text().to_vec()).unwrap_or_default();
        // The server checks what is submitted.
        let (name, payload) = pulled::parts_of(&entry)?;
        let attempt = format!("{epoch}.{}", start.instance);
        let taken = Taken {
            session,
            branch,
            instance: start.instance,
            attempt: attempt.clone(),
            name: name.to_vec(),
            is_deferring: false,
        };
        self.sessions.take(start.task, taken);
        Some(Given { task: start.task, name: name.to_vec(), payload: payload.to_vec(), attempt, lease })
    }

    fn pass(&mut self, now: Timestamp, branch: Branch, input: worker::Input, effects: &mut Vec<Effect>) {
        let Some(known) = self.branches.get_mut(&branch) else { return };
        self.due.touch(branch);
        let mut said = Vec::new();
        known.worker.handle(now, input, &mut said);
        self.take_in(now, branch, said, effects);
    }

    // What a branch wants done.
    fn take_in(
        &mut self,
        now: Timestamp,
        branch: Branch,
        said: Vec<worker::Effect>,
        effects: &mut Vec<Effect>,
    ) {
        for effect in said {
            match effect {
                worker::Effect::Send(message) => {
                    if let FromWorker::Report(report) = &message {
                        self.sessions.told(branch, report);
                    }
                    effects.push(Effect::Send { branch, message: Box::new(message) });
                }
                // Whoever has it cannot be reached: it is over here, and they are told so when they speak of it.
                worker::Effect::Signal { task, ends: Some(_), .. } => {
                    self.sessions.end_outside(task, Refusal::Canceled);
                    let killed = Outcome::Failed(FailureKind::Signal(SIGTERM), String::new());
                    let usage = self.usage(now, branch, task);
                    self.pass(now, branch, worker::Input::ended(task, killed, usage), effects);
                }
                worker::Effect::Expired { task } => self.sessions.end_outside(task, Refusal::Stale),
                worker::Effect::Exit(end) => {
                    self.branches.remove(&branch);
                    self.sessions.lose_branch(branch);
                    effects.push(Effect::Left { branch, end });
                }
                // Nothing is started, armed or printed here.
                _ => {}
            }
        }
    }

    /// Looks whether what is taken and what its workers say of that is the same: for the simulator.
    ///
    /// # Errors
    /// Names a task.
    pub fn check(&self) -> Result<(), String> {
        for (id, outlet) in &self.branches {
            outlet.worker.check()?;
            let (taken, running) = (self.sessions.taken_of(*id), outlet.worker.running_count() as u64);
            if taken != running {
                return Err(format!("{taken} tasks of {id:?} are taken, and {running} run"));
            }
        }
        Ok(())
    }

    /// True when somebody has the task.
    pub fn is_taken(&self, task: TaskRef) -> bool {
        self.sessions.holder(task).is_some()
    }

    /// The server's ids of its workers.
    pub fn workers(&self) -> Vec<WorkerId> {
        self.branches.values().filter_map(|outlet| outlet.worker.id()).collect()
    }
}
