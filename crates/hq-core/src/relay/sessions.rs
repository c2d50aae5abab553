//! Who has which task: sessions, what they have taken, and how much of what they said is safe.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use hq_model::{ByteString, Instance, JobId, TaskId, TaskRef, Timestamp};

use super::repeats::{Repeats, Said, Way, Who};
use super::{Branch, HeldInfo, Refusal, SessionId, SessionInfo, Which};
use crate::limits::{ENDED_ATTEMPTS_KEPT, HELD_SHOWN_MAX};
use crate::worker_messages::Report;

const FIRST_TASK: TaskRef = TaskRef { job: JobId(0), task: TaskId(0) };
const LAST_TASK: TaskRef = TaskRef { job: JobId(u32::MAX), task: TaskId(u32::MAX) };

/// All of a relay.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    all: BTreeMap<SessionId, Session>,
    by_label: BTreeMap<String, SessionId>,
    last: u64,
    // Those that have lost something since it was looked last who can be forgotten.
    perhaps_idle: BTreeSet<SessionId>,
    taken: BTreeMap<TaskRef, Taken>,
    // By their names, those of each session together.
    by_name: BTreeMap<ByteString, BTreeSet<(SessionId, TaskRef)>>,
    // Attempts that were ended from outside and why, the oldest dropped first.
    ended: BTreeMap<TaskRef, (String, Refusal)>,
    ended_order: VecDeque<TaskRef>,
    repeats: Repeats,
    // Ends that no report speaks of yet, and by reports that are not saved.
    untold: BTreeMap<TaskRef, (Branch, SessionId, u64)>,
    told: BTreeMap<(Branch, u64), Vec<(SessionId, u64)>>,
    last_report: BTreeMap<Branch, u64>,
}

#[derive(Debug)]
struct Session {
    label: Option<String>,
    lease: Duration,
    // What it has is given back so long after its last connection is gone; `None` where it stays until the lease is over.
    grace: Option<Duration>,
    connections: u32,
    taken: BTreeSet<TaskRef>,
    accepted: u64,
    unsaved: BTreeMap<u64, Said>,
    // The first of what was accepted and lost with its branch, until the session has been told so.
    lost_from: Option<u64>,
}

/// A task that a session has.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) session: SessionId,
    pub(super) branch: Branch,
    pub(super) instance: Instance,
    pub(super) attempt: String,
    pub(super) name: ByteString,
    // The server is asked to put it back behind others.
    pub(super) is_deferring: bool,
}

impl Session {
    fn who(&self, id: SessionId) -> Who {
        self.label.clone().map_or(Who::Session(id), Who::Label)
    }

    fn saved(&self) -> u64 {
        let open = self.unsaved.keys().next().into_iter().chain(&self.lost_from).min();
        open.map_or(self.accepted, |first| first - 1)
    }
}

impl Sessions {
    /// The session of a label, which is made if there is none; a new one without. With a label, and without a grace, it has
    /// what it has without any connection, too.
    pub(super) fn enter(
        &mut self,
        label: Option<&str>,
        lease: Option<Duration>,
        grace: Option<Duration>,
    ) -> SessionId {
        if let Some(id) = label.and_then(|label| self.by_label.get(label)).copied() {
            if let Some(session) = self.all.get_mut(&id) {
                session.lease = lease.unwrap_or(session.lease);
                session.grace = grace.or(session.grace);
            }
            return id;
        }
        self.last += 1;
        let id = SessionId(self.last);
        let session = Session {
            label: label.map(str::to_owned),
            lease: lease.unwrap_or(crate::limits::PULL_LEASE),
            grace: grace.or(label.is_none().then_some(crate::limits::PULL_GRACE)),
            connections: 0,
            taken: BTreeSet::new(),
            accepted: 0,
            unsaved: BTreeMap::new(),
            lost_from: None,
        };
        self.all.insert(id, session);
        if let Some(label) = label {
            self.by_label.insert(label.to_owned(), id);
        }
        id
    }

    pub(super) fn of_label(&self, label: &str) -> Option<SessionId> {
        self.by_label.get(label).copied()
    }

    /// The lease of what it has, where that was cut short since nobody spoke for it.
    pub(super) fn connected(&mut self, id: SessionId) -> Option<Duration> {
        let session = self.all.get_mut(&id)?;
        session.connections += 1;
        (session.connections == 1 && session.grace.is_some()).then_some(session.lease)
    }

    /// How long what it has stays with it, when nobody speaks for it any more.
    pub(super) fn disconnected(&mut self, id: SessionId) -> Option<Duration> {
        let session = self.all.get_mut(&id)?;
        session.connections = session.connections.saturating_sub(1);
        if session.connections > 0 {
            return None;
        }
        self.perhaps_idle.insert(id);
        session.grace.map(|grace| grace.min(session.lease))
    }

    pub(super) fn lease(&self, id: SessionId) -> Duration {
        self.all.get(&id).map_or(crate::limits::PULL_LEASE, |session| session.lease)
    }

    pub(super) fn taken_by(&self, id: SessionId) -> Vec<TaskRef> {
        self.all.get(&id).map(|session| session.taken.iter().copied().collect()).unwrap_or_default()
    }

    pub(super) fn count(&self, id: SessionId) -> usize {
        self.all.get(&id).map_or(0, |session| session.taken.len())
    }

    pub(super) fn holder(&self, task: TaskRef) -> Option<&Taken> {
        self.taken.get(&task)
    }

    pub(super) fn take(&mut self, task: TaskRef, taken: Taken) {
        let session = self.all.get_mut(&taken.session);
        assert!(session.is_some(), "whoever asks is not forgotten: {task}");
        if let Some(session) = session {
            session.taken.insert(task);
            self.by_name.entry(taken.name.clone()).or_default().insert((taken.session, task));
        }
        self.ended.remove(&task);
        self.repeats.remove(task);
        let before = self.taken.insert(task, taken);
        assert!(before.is_none(), "a task is taken by one session at a time: {task}");
    }

    /// The task that a session speaks of, if it may.
    pub(super) fn find(&self, id: SessionId, which: &Which) -> Result<TaskRef, Refusal> {
        let (task, attempt) = match which {
            Which::Task(task, attempt) => (*task, attempt.as_deref()),
            Which::Named(name, bag) => {
                let Some(named) = self.by_name.get(name) else { return Err(Refusal::NotHeld) };
                let is_meant = |task: &TaskRef| bag.is_none_or(|bag| bag == task.job);
                let own = named.range((id, FIRST_TASK)..=(id, LAST_TASK));
                let mut own = own.map(|(_, task)| *task).filter(is_meant);
                match (own.next(), own.next()) {
                    (Some(task), None) => (task, None),
                    (Some(_), Some(_)) => return Err(Refusal::Ambiguous),
                    (None, _) => {
                        let mut others = named.iter().map(|(_, task)| *task).filter(is_meant);
                        return Err(others.next().map_or(Refusal::NotHeld, |task| self.held_by_other(task)));
                    }
                }
            }
        };
        match self.taken.get(&task) {
            Some(taken) if attempt.is_some_and(|attempt| attempt != taken.attempt) => Err(Refusal::Stale),
            Some(taken) if taken.session != id => Err(self.held_by_other(task)),
            Some(taken) if taken.is_deferring => Err(Refusal::NotHeld),
            Some(_) => Ok(task),
            None => match self.ended.get(&task) {
                Some((of, why)) if attempt.is_none_or(|attempt| attempt == of) => Err(why.clone()),
                Some(_) => Err(Refusal::Stale),
                None => Err(Refusal::NotHeld),
            },
        }
    }

    fn held_by_other(&self, task: TaskRef) -> Refusal {
        let holder = self.taken.get(&task).and_then(|taken| self.all.get(&taken.session));
        Refusal::HeldByOther { task, label: holder.and_then(|session| session.label.clone()) }
    }

    /// The server is asked to put it back.
    pub(super) fn set_deferring(&mut self, task: TaskRef) -> Option<Instance> {
        let taken = self.taken.get_mut(&task)?;
        taken.is_deferring = true;
        Some(taken.instance)
    }

    /// The server did not put this attempt back.
    pub(super) fn not_deferred(&mut self, task: TaskRef, instance: Instance) {
        if let Some(taken) = self.taken.get_mut(&task).filter(|taken| taken.instance == instance) {
            taken.is_deferring = false;
        }
    }

    /// It has the task no more.
    pub(super) fn drop(&mut self, task: TaskRef) -> Option<Taken> {
        let taken = self.taken.remove(&task)?;
        if let Some(session) = self.all.get_mut(&taken.session) {
            session.taken.remove(&task);
            if session.connections == 0 {
                self.perhaps_idle.insert(taken.session);
            }
        }
        if let Some(named) = self.by_name.get_mut(&taken.name) {
            named.remove(&(taken.session, task));
            if named.is_empty() {
                self.by_name.remove(&taken.name);
            }
        }
        Some(taken)
    }

    /// Ended from outside: whoever had it is told so when it speaks of it.
    pub(super) fn end_outside(&mut self, task: TaskRef, why: Refusal) {
        let Some(taken) = self.drop(task) else { return };
        if taken.is_deferring {
            return;
        }
        if self.ended.insert(task, (taken.attempt, why)).is_none() {
            self.ended_order.push_back(task);
        }
        while self.ended_order.len() > ENDED_ATTEMPTS_KEPT
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }

    /// The end of a task that a session has is taken in.
    pub(super) fn accept(&mut self, id: SessionId, task: TaskRef, way: Way) {
        let Some(Taken { branch, attempt, name, .. }) = self.drop(task) else { return };
        let Some(session) = self.all.get_mut(&id) else { return };
        session.accepted += 1;
        session.unsaved.insert(session.accepted, Said { task, branch, attempt, name, way });
        self.untold.insert(task, (branch, id, session.accepted));
    }

    /// A session does not hear whether what it said is saved: until it does, saying it again counts for nothing.
    pub(super) fn may_repeat(&mut self, id: SessionId) {
        let Some(session) = self.all.get(&id) else { return };
        let who = session.who(id);
        session.unsaved.values().for_each(|said| self.repeats.insert(who.clone(), said.clone()));
    }

    /// The task of which a session says again what it did not hear to be saved.
    pub(super) fn repeated(&self, id: SessionId, which: &Which, way: Way) -> Option<TaskRef> {
        self.repeats.find(&self.all.get(&id)?.who(id), which, way)
    }

    /// A report was made.
    pub(super) fn told(&mut self, branch: Branch, report: &Report) {
        let last = self.last_report.entry(branch).or_default();
        if report.number <= *last {
            return;
        }
        *last = report.number;
        let spans = report.finished.iter().map(|span| (span.job, &span.ids));
        let lists = [&report.interrupted, &report.returned, &report.canceled];
        let lists = lists.into_iter().flatten().map(|(job, ids)| (*job, ids));
        let mut said: Vec<TaskRef> = spans
            .chain(lists)
            .flat_map(|(job, ids)| ids.iter().map(move |id| TaskRef::new(job, id)))
            .collect();
        said.extend(report.failed.iter().map(|(job, failure)| TaskRef::new(*job, failure.task)));
        let ends = said.into_iter().filter_map(|task| self.untold.remove(&task));
        let ends: Vec<(SessionId, u64)> = ends.map(|(_, session, number)| (session, number)).collect();
        if !ends.is_empty() {
            self.told.insert((branch, report.number), ends);
        }
    }

    /// Reports of a branch up to this one are on disk.
    pub(super) fn saved(&mut self, branch: Branch, report: u64) {
        while let Some((&key, _)) = self.told.range((branch, 0)..=(branch, report)).next() {
            for (id, number) in self.told.remove(&key).unwrap_or_default() {
                let Some(session) = self.all.get_mut(&id) else { continue };
                session.unsaved.remove(&number);
                if session.connections == 0 && session.unsaved.is_empty() {
                    self.perhaps_idle.insert(id);
                }
            }
        }
    }

    /// Nothing more is heard of a branch: what was said and not saved is lost, and so is what was taken.
    pub(super) fn lose_branch(&mut self, branch: Branch) {
        let of_branch = self.taken.iter().filter(|(_, taken)| taken.branch == branch);
        let of_branch: Vec<TaskRef> = of_branch.map(|(task, _)| *task).collect();
        of_branch.into_iter().for_each(|task| self.end_outside(task, Refusal::Stale));
        self.lose_unsaved(branch);
        self.last_report.remove(&branch);
    }

    /// The server has given a branch up, and its tasks to others: what was said of them and not saved is lost.
    pub(super) fn lose_unsaved(&mut self, branch: Branch) {
        let untold = self.untold.extract_if(.., |_, (of, ..)| *of == branch);
        let untold = untold.map(|(_, (_, session, number))| (session, number));
        let told = self.told.extract_if(.., |(of, _), _| *of == branch).flat_map(|(_, ends)| ends);
        for (id, number) in untold.chain(told) {
            let Some(session) = self.all.get_mut(&id) else { continue };
            session.unsaved.remove(&number);
            session.lost_from = Some(session.lost_from.map_or(number, |first| first.min(number)));
            if session.connections == 0 {
                self.perhaps_idle.insert(id);
            }
        }
        self.repeats.lose_branch(branch);
    }

    /// How far what a session said is accepted, and how far it is safe.
    pub(super) fn progress(&self, id: SessionId) -> (u64, u64) {
        self.all.get(&id).map_or((0, 0), |session| (session.accepted, session.saved()))
    }

    /// True when some of what a session said up to this was lost with its branch. It is told so once.
    pub(super) fn tell_lost(&mut self, id: SessionId, number: u64) -> bool {
        let session = self.all.get_mut(&id);
        session.is_some_and(|session| session.lost_from.take_if(|first| *first <= number).is_some())
    }

    /// True when nothing of what a session said up to this is on its way to the server's disk any more.
    pub(super) fn has_settled(&self, id: SessionId, number: u64) -> bool {
        self.all
            .get(&id)
            .is_none_or(|session| session.unsaved.keys().next().is_none_or(|first| *first > number))
    }

    /// A session has something less: it may have nothing now.
    pub(super) fn may_be_idle(&mut self, id: SessionId) {
        if self.all.get(&id).is_some_and(|session| session.connections == 0) {
            self.perhaps_idle.insert(id);
        }
    }

    pub(super) fn may_some_be_idle(&self) -> bool {
        !self.perhaps_idle.is_empty()
    }

    /// Forgets those that have nothing, are nobody, and are not among those who ask.
    pub(super) fn forget_idle(&mut self, asking: &BTreeSet<SessionId>) {
        for id in std::mem::take(&mut self.perhaps_idle) {
            let Some(session) = self.all.get(&id).filter(|_| !asking.contains(&id)) else { continue };
            let is_idle = session.connections == 0 && session.taken.is_empty() && session.unsaved.is_empty();
            if is_idle && let Some(Session { label: Some(label), .. }) = self.all.remove(&id) {
                self.by_label.remove(&label);
            }
        }
    }

    /// `held` says of a task that is taken since when and until when that is.
    pub(super) fn info(
        &self,
        bags: Option<&BTreeSet<JobId>>,
        held: impl Fn(TaskRef) -> Option<(Timestamp, Timestamp)>,
    ) -> Vec<SessionInfo> {
        let counts = |task: &&TaskRef| bags.is_none_or(|bags| bags.contains(&task.job));
        let of_task = |task: &TaskRef| {
            let (since, until) = held(*task)?;
            let name = self.taken.get(task)?.name.clone();
            Some(HeldInfo { task: *task, name, since, until })
        };
        let info = |session: &Session| SessionInfo {
            label: session.label.clone(),
            is_connected: session.connections > 0,
            tasks: session.taken.iter().filter(counts).take(HELD_SHOWN_MAX).filter_map(of_task).collect(),
            taken: session.taken.iter().filter(counts).count() as u64,
            accepted: session.accepted,
            saved: session.saved(),
        };
        self.all.values().map(info).collect()
    }

    /// How many tasks of a branch are taken.
    pub(super) fn taken_of(&self, branch: Branch) -> u64 {
        let from = TaskRef::new(branch.bag, TaskId(0));
        let to = TaskRef::new(branch.bag, TaskId(u32::MAX));
        let of_bag = self.taken.range(from..=to);
        of_bag.filter(|(_, taken)| taken.branch == branch).count() as u64
    }
}
