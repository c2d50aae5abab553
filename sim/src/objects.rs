//! Objects in the world: what tasks leave in the stores of their workers, what others take from there, and what users ask
//! about them.
//!
//! The bytes of an object are its checksum, which no two processes share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hq_core::client_messages::{ClientRequest, ClientResponse, NewJob, NewTasks};
use hq_core::object_messages::{GiveObject, ObjectCopy, ObjectRequest};
use hq_core::record::FailureKind;
use hq_core::server::Input as ServerInput;
use hq_core::worker::{Input as WorkerInput, Outcome as TaskOutcome, Start};
use hq_model::body::{EntryKind, Function};
use hq_model::dependency::{Dependencies, Edges};
use hq_model::job::{Target, TaskIds};
use hq_model::object::{ObjectRef, ObjectTask};
use hq_model::request::parse_amount;
use hq_model::selector::Selector;
use hq_model::task::{CrashLimit, Retry};
use hq_model::{
    Body, IdSet, InputObject, Instance, JobId, JobSpec, ObjectId, ObjectName, OutputObject, Request,
    ResourceRequest, Submit, TaskId, TaskRef, TaskSpec, WorkerId,
};

use crate::nodes::Process;
use crate::observers;
use crate::rng::Rng;
use crate::world::{Event, World};

/// When all has ended, what nobody needs is freed within this time, µs.
const SETTLES_US: u64 = 200_000_000;

/// How long a reader waits at the server for a holder, µs.
const RELAY_TIME_US: u64 = 10_000_000;

/// A task waits until an object comes by way of the server.
#[derive(Clone, Debug)]
pub(crate) struct Relaying {
    node: usize,
    life: u64,
    task: TaskRef,
    number: u64,
    copy: ObjectCopy,
    // How it ends when the object does not come.
    outcome: TaskOutcome,
}

/// True when tasks of a seed leave objects and take them.
pub fn has_objects(seed: u64) -> bool {
    matches!(seed % 37, 1 | 2 | 8 | 9 | 10 | 19 | 27 | 29 | 34)
}

/// How many objects the workers of a node store; none of them does when there is no number.
pub fn room_of(seed: u64, node: u64) -> Option<usize> {
    let mut rng = Rng::new(seed.rotate_left(16) ^ node ^ 0x0b1e_c700);
    rng.chance(750).then(|| [3, 20, usize::MAX][rng.between(0, 2) as usize])
}

/// What a worker stores.
#[derive(Debug)]
pub struct Store {
    files: BTreeMap<(ObjectId, Instance), File>,
    room: usize,
    clock: u64,
    // What stays, as the server has said; what is new stays until it has.
    guarded: BTreeSet<ObjectId>,
}

#[derive(Debug)]
struct File {
    checksum: u64,
    last_read: u64,
}

impl Store {
    /// An empty one for so many objects.
    pub fn new(room: usize) -> Store {
        Store { files: BTreeMap::new(), room, clock: 0, guarded: BTreeSet::new() }
    }

    /// All that is there.
    pub fn copies(&self) -> impl Iterator<Item = ObjectCopy> {
        self.files.iter().map(|((object, instance), file)| copy(object, *instance, file.checksum))
    }

    /// True when exactly these bytes are there.
    pub fn has(&self, copy: &ObjectCopy) -> bool {
        let file = self.files.get(&(copy.object.clone(), copy.instance));
        file.is_some_and(|file| file.checksum == copy.checksum)
    }

    /// The server says what stays, and what may make room.
    pub fn guards(&mut self, guard: Vec<ObjectId>, release: &[ObjectId]) {
        self.guarded.retain(|object| !release.contains(object));
        self.guarded.extend(guard);
    }

    /// Everything of an object goes.
    pub fn remove(&mut self, object: &ObjectId) {
        self.files.retain(|(stored, _), _| stored != object);
        self.guarded.remove(object);
    }

    fn reads(&mut self, copy: &ObjectCopy) -> bool {
        self.clock += 1;
        let now = self.clock;
        let file = self.files.get_mut(&(copy.object.clone(), copy.instance));
        file.filter(|file| file.checksum == copy.checksum).map(|file| file.last_read = now).is_some()
    }

    /// True when another one fits, for which one that is not pinned may go.
    pub fn has_room(&self, is_pinned: impl Fn(&ObjectId) -> bool) -> bool {
        let mut stored = self.files.keys().map(|(object, _)| object);
        self.files.len() < self.room
            || stored.any(|object| !self.guarded.contains(object) && !is_pinned(object))
    }

    /// Stores an object, and returns what the worker hears of that: of what had to make room, too. What is pinned stays.
    pub fn takes_in(&mut self, new: ObjectCopy, is_pinned: impl Fn(&ObjectId) -> bool) -> Vec<WorkerInput> {
        self.files.retain(|(object, instance), _| *object != new.object || *instance > new.instance);
        let mut said = Vec::new();
        while self.files.len() >= self.room {
            let free = self
                .files
                .iter()
                .filter(|((object, _), _)| !is_pinned(object) && !self.guarded.contains(object));
            let Some(oldest) = free.min_by_key(|(_, file)| file.last_read).map(|(key, _)| key.clone()) else {
                break;
            };
            self.files.remove(&oldest);
            said.push(WorkerInput::ObjectLost(oldest.0));
        }
        self.clock += 1;
        let file = File { checksum: new.checksum, last_read: self.clock };
        self.files.insert((new.object.clone(), new.instance), file);
        self.guarded.insert(new.object.clone());
        said.push(WorkerInput::Stored(new));
        said
    }
}

fn copy(object: &ObjectId, instance: Instance, checksum: u64) -> ObjectCopy {
    ObjectCopy { object: object.clone(), instance, size: 1, checksum, is_dir: false }
}

/// What a user wants who knows of tasks that leave objects.
pub fn wish(rng: &mut Rng, known: &[(JobId, IdSet)]) -> ClientRequest {
    let of = known.get(rng.between(0, known.len().max(1) as u64 - 1) as usize);
    let Some((job, ids)) = of.filter(|_| rng.chance(750)) else { return first(rng) };
    let task = ids.slice(rng.between(0, ids.len() - 1), 1).first().unwrap_or(TaskId(0));
    let object = ObjectId { task: TaskRef::new(*job, task), name: name() };
    let jobs = || Selector::Ids(IdSet::single(TaskId(job.0)));
    let values = vec![ObjectId { task: object.task, name: ObjectName::value() }];
    match rng.between(0, 24) {
        0..=6 => {
            let count = [1, 3, 20][rng.between(0, 2) as usize];
            reader(rng, *job, TaskIds::Next(count), ObjectTask::One(task))
        }
        7..=12 => reader(rng, *job, TaskIds::Given(ids.clone()), ObjectTask::Same),
        13 => ClientRequest::Objects(ObjectRequest::Keep(vec![object])),
        14 | 15 => ClientRequest::Objects(ObjectRequest::Drop(vec![object])),
        16 => ClientRequest::Objects(ObjectRequest::List {
            jobs: Selector::All,
            phases: Vec::new(),
            after: None,
        }),
        17 => ClientRequest::Cancel { jobs: jobs(), tasks: None, reason: None },
        18 => ClientRequest::Cancel { jobs: jobs(), tasks: Some(IdSet::single(task)), reason: None },
        19 | 20 => ClientRequest::Objects(ObjectRequest::Release(values)),
        21 => ClientRequest::Objects(ObjectRequest::Keep(values)),
        22 => ClientRequest::Objects(ObjectRequest::Drop(values)),
        23 => gives(rng, Ok(*job)),
        _ => ClientRequest::ForgetJobs { jobs: jobs(), states: Vec::new() },
    }
}

/// Which tasks leave objects, when that is how a request is answered.
pub fn leaves(asked: &ClientRequest, answer: &ClientResponse) -> Vec<(JobId, IdSet)> {
    match (asked, answer) {
        (ClientRequest::Submit { submit, .. }, ClientResponse::Submitted { job, ids, .. })
            if leaves_any(&submit.spec) =>
        {
            vec![(*job, ids.clone())]
        }
        (ClientRequest::SubmitJobs { jobs: new, .. }, ClientResponse::JobsSubmitted { jobs, .. }) => {
            let leave = |(new, job): (&NewJob, &JobId)| {
                let NewTasks::Submits(submits) = &new.tasks else { return None };
                let leaving = submits.iter().filter(|submit| leaves_any(&submit.spec));
                let ids = leaving.filter_map(|submit| match &submit.ids {
                    TaskIds::Given(ids) => Some(ids.clone()),
                    TaskIds::Next(_) => None,
                });
                let ids = ids.reduce(|mut all, ids| {
                    all.union_with(&ids);
                    all
                })?;
                Some((*job, ids))
            };
            new.iter().zip(jobs).filter_map(leave).collect()
        }
        _ => Vec::new(),
    }
}

fn leaves_any(spec: &TaskSpec) -> bool {
    !spec.output_objects.is_empty() || spec.body.is_packed_call()
}

// A file is put into a store, and is to be an object.
fn gives(rng: &mut Rng, job: Result<JobId, String>) -> ClientRequest {
    let give = GiveObject {
        job,
        name: name(),
        worker: WorkerId(rng.between(1, 6) as u32),
        file: "c1".to_owned(),
        is_dir: false,
    };
    ClientRequest::Objects(ObjectRequest::Give(Box::new(give)))
}

// A graph of calls, which take each other's values.
fn calls(rng: &mut Rng) -> ClientRequest {
    let count = rng.between(2, 12) as u32;
    let call = |place: u32, rng: &mut Rng| {
        let mut spec = spec(rng);
        spec.output_objects.clear();
        spec.body = Body::Function(Function {
            name: "call".into(),
            code: b"code".to_vec(),
            interpreter: vec![b"python3".to_vec()],
            entry: EntryKind::Packed,
            ..Function::default()
        });
        let before = (0..place).filter(|_| rng.chance(400)).map(TaskId).collect::<Vec<_>>();
        let edges = Edges::new([before]).unwrap_or_default();
        let dependencies = Arc::new(Dependencies { edges, ..Dependencies::default() });
        let ids = TaskIds::Given(IdSet::range(place, place));
        Submit { dependencies, ..Submit::new(Target::New(job()), ids, spec) }
    };
    let mut submits: Vec<Submit> = (0..count).map(|place| call(place, rng)).collect();
    // Some are a chain of equal ones. Takes nothing from the chances.
    if count % 4 == 3 {
        let spec = submits[0].spec.clone();
        for (place, submit) in submits.iter_mut().enumerate().skip(1) {
            let edges = Edges::new([[TaskId(place as u32 - 1)]]).unwrap_or_default();
            submit.dependencies = Arc::new(Dependencies { edges, ..Dependencies::default() });
            submit.spec = spec.clone();
        }
    }
    let new = NewJob { spec: job(), after: Vec::new(), takes: Vec::new(), tasks: NewTasks::Submits(submits) };
    ClientRequest::SubmitJobs { key: u128::from(rng.draw()), jobs: vec![new] }
}

// Tasks that leave something, or a chain in one job.
fn first(rng: &mut Rng) -> ClientRequest {
    match rng.between(0, 9) {
        0..=2 => return calls(rng),
        3 => return gives(rng, Err("given".to_owned())),
        _ => {}
    }
    if rng.chance(500) {
        let count = [1, 3, 20][rng.between(0, 2) as usize];
        return submit(rng, TaskIds::Next(count), spec);
    }
    let links = rng.between(2, 6) as u32;
    let link = |place: u32, rng: &mut Rng| {
        let mut spec = spec(rng);
        if let Some(before) = place.checked_sub(1) {
            spec.input_objects = vec![takes(None, ObjectTask::One(TaskId(before)))];
        }
        let ids = TaskIds::Given(IdSet::range(place, place));
        Submit::new(Target::New(job()), ids, spec)
    };
    let submits = (0..links).map(|place| link(place, rng)).collect();
    let new = NewJob { spec: job(), after: Vec::new(), takes: Vec::new(), tasks: NewTasks::Submits(submits) };
    ClientRequest::SubmitJobs { key: u128::from(rng.draw()), jobs: vec![new] }
}

// Most of them leave something themselves.
fn reader(rng: &mut Rng, from: JobId, ids: TaskIds, task: ObjectTask) -> ClientRequest {
    submit(rng, ids, |rng| {
        let mut spec = spec(rng);
        if rng.chance(400) {
            spec.output_objects.clear();
        }
        spec.input_objects = vec![takes(Some(from), task)];
        spec
    })
}

fn submit(rng: &mut Rng, ids: TaskIds, spec: impl FnOnce(&mut Rng) -> TaskSpec) -> ClientRequest {
    let spec = spec(rng);
    let submit = Submit::new(Target::New(job()), ids, spec);
    ClientRequest::Submit { key: u128::from(rng.draw()), submit: Box::new(submit) }
}

fn job() -> JobSpec {
    JobSpec { name: "objects".into(), ..JobSpec::default() }
}

#[allow(clippy::expect_used)]
fn name() -> ObjectName {
    "parts".parse().expect("it is a name")
}

fn takes(job: Option<JobId>, task: ObjectTask) -> InputObject {
    InputObject { name: name(), from: ObjectRef { job, task, name: name() }, path: None }
}

fn spec(rng: &mut Rng) -> TaskSpec {
    let cpus = ["1", "1", "2", "0.5"][rng.between(0, 3) as usize];
    let cpus = parse_amount("cpus", cpus).ok().map(|amount| ResourceRequest { name: "cpus".into(), amount });
    TaskSpec {
        body: Body::program(["work"]),
        requests: vec![Request { resources: cpus.into_iter().collect(), ..Request::default() }],
        priority: rng.between(0, 2) as i32,
        crash_limit: match rng.between(0, 5) {
            0 => CrashLimit::NeverRestart,
            1 => CrashLimit::Times(2),
            _ => CrashLimit::Unlimited,
        },
        retry: Retry { max: rng.between(0, 2) as u32, ..Retry::default() },
        output_objects: vec![OutputObject { name: name(), path: b"parts".to_vec() }],
        ..TaskSpec::default()
    }
}

impl World {
    /// What a task takes is brought to it before its process is made.
    pub(crate) fn stages(&mut self, node: usize, start: &Start) {
        self.processes += 1;
        let (task, number, life) = (start.task, self.processes, self.nodes[node].life);
        let process = Process::new(number, start, self.now);
        self.nodes[node].processes.insert(task, process);
        self.nodes[node].staging.insert(task, start.clone());
        let longest = [100, 10_000, 5_000_000][self.rng.between(0, 2) as usize];
        let after = self.rng.between(10, longest);
        self.at(after, Event::Staged { node, life, task, number });
    }

    /// It is there, or cannot be had.
    pub(crate) fn staged(
        &mut self,
        node: usize,
        life: u64,
        task: TaskRef,
        number: u64,
    ) -> Result<(), String> {
        let known = &mut self.nodes[node];
        if !known.runs(life, task, number) {
            return Ok(());
        }
        if known.frozen_until > self.now {
            let at = known.frozen_until;
            self.at_time(at, Event::Staged { node, life, task, number });
            return Ok(());
        }
        let Some(start) = known.staging.get(&task).cloned() else { return Ok(()) };
        let mut said = Vec::new();
        let (mut refused, mut apart) = (None, None);
        for source in &start.objects {
            refused = self.brings(node, source, &mut said, &mut apart)?;
            if refused.is_some() {
                break;
            }
            apart = None;
        }
        self.worker_steps(node, said)?;
        // Hearing of that, its worker may have ended it.
        let known = &self.nodes[node];
        if !known.runs(life, task, number) {
            return Ok(());
        }
        match refused {
            Some(outcome) => match apart.filter(|_| self.has_relay() && self.server.is_some()) {
                Some((holder, copy)) => {
                    let reader = Relaying { node, life, task, number, copy, outcome };
                    self.asks_by_server(holder, reader)
                }
                None => self.process_ends(node, life, task, number, outcome),
            },
            None => {
                self.taken += 1;
                self.nodes[node].staging.remove(&task);
                self.begins(node, &start, Some(number))
            }
        }
    }

    // Servers relay, but some.
    fn has_relay(&self) -> bool {
        Rng::new(self.options.seed ^ 0x0be1_a7ed).chance(750)
    }

    // A reader waits at the server for a holder that it does not reach.
    fn asks_by_server(&mut self, holder: WorkerId, reader: Relaying) -> Result<(), String> {
        self.tickets += 1;
        let ticket = self.tickets;
        self.relaying.insert(ticket, reader);
        self.at(RELAY_TIME_US, Event::RelayOver { ticket });
        self.server_step(ServerInput::Relay { ticket, holder })
    }

    /// A holder has come to the server for who waits there.
    pub(crate) fn relayed(&mut self, ticket: u64, holder: usize) -> Result<(), String> {
        let Some(Relaying { node, life, task, number, copy, .. }) = self.relaying.get(&ticket).cloned()
        else {
            return Ok(());
        };
        let is_there = self.nodes[holder].store.as_mut().is_some_and(|store| store.reads(&copy));
        if !is_there || !self.nodes[node].runs(life, task, number) {
            return self.relay_over(ticket);
        }
        self.relaying.remove(&ticket);
        self.relays += 1;
        let mut said = Vec::new();
        self.nodes[node].takes_in(copy, &mut said);
        self.worker_steps(node, said)?;
        // What else it takes.
        self.at(20, Event::Staged { node, life, task, number });
        Ok(())
    }

    /// A reader waits no longer.
    pub(crate) fn relay_over(&mut self, ticket: u64) -> Result<(), String> {
        let Some(Relaying { node, life, task, number, outcome, .. }) = self.relaying.remove(&ticket) else {
            return Ok(());
        };
        match self.nodes[node].runs(life, task, number) {
            true => self.process_ends(node, life, task, number, outcome),
            false => Ok(()),
        }
    }

    // One object comes from the node itself or from a holder that it was told of. If from none, how the task ends, and which of them
    // could be asked by way of the server.
    fn brings(
        &mut self,
        node: usize,
        source: &hq_core::object_messages::ObjectSource,
        said: &mut Vec<WorkerInput>,
        apart: &mut Option<(WorkerId, ObjectCopy)>,
    ) -> Result<Option<TaskOutcome>, String> {
        let copy = &source.copy;
        if self.nodes[node].store.as_mut().is_some_and(|store| store.reads(copy)) {
            return Ok(None);
        }
        let id_of = |at: &crate::nodes::Node| at.worker.as_ref().and_then(|worker| worker.id());
        let own = id_of(&self.nodes[node]);
        let mut failed = Vec::new();
        for holder in source.holders.iter().map(|holder| holder.worker).filter(|holder| Some(*holder) != own)
        {
            let at = self.nodes.iter().position(|at| id_of(at) == Some(holder));
            let Some(at) = at.filter(|at| self.reaches(node, *at)) else {
                if at.is_some_and(|at| self.are_apart(node, at)) {
                    *apart = Some((holder, copy.clone()));
                }
                failed.push(holder);
                continue;
            };
            let is_there = self.nodes[at].store.as_mut().is_some_and(|store| store.reads(copy));
            if is_there && !self.healed && self.rng.chance(20) {
                // Somebody has written to the file.
                self.loses(at, &copy.object)?;
            } else if is_there {
                self.nodes[node].takes_in(copy.clone(), said);
                return Ok(None);
            }
            failed.push(holder);
        }
        self.unfetched += 1;
        let (object, reason) = (copy.object.clone(), "nobody has it".to_owned());
        Ok(Some(TaskOutcome::Unfetched { object, holders: failed, reason, wanted: 0 }))
    }

    // Some nodes never see each other before everything is made whole.
    fn are_apart(&self, node: usize, other: usize) -> bool {
        let pair = self.options.seed ^ (node.min(other) as u64 * 64 + node.max(other) as u64);
        !self.healed && Rng::new(pair).chance(150)
    }

    fn reaches(&mut self, node: usize, other: usize) -> bool {
        let is_apart = self.are_apart(node, other);
        self.nodes[other].frozen_until <= self.now && !is_apart && (self.healed || !self.rng.chance(50))
    }

    /// The file of an object is not there any more, and its worker finds that out.
    pub(crate) fn loses(&mut self, node: usize, object: &ObjectId) -> Result<(), String> {
        if let Some(store) = &mut self.nodes[node].store {
            store.remove(object);
            self.worker_step(node, WorkerInput::ObjectLost(object.clone()))?;
        }
        Ok(())
    }

    /// Something that a node stores is lost.
    pub(crate) fn loses_any(&mut self, node: usize) -> Result<(), String> {
        if self.nodes[node].frozen_until > self.now {
            return Ok(());
        }
        let stored = self.nodes[node].store.iter().flat_map(Store::copies).map(|copy| copy.object);
        let stored: Vec<ObjectId> = stored.collect();
        let Some(last) = stored.len().checked_sub(1) else { return Ok(()) };
        let object = &stored[self.rng.between(0, last as u64) as usize];
        self.loses(node, object)
    }

    /// A process has ended well: what it leaves is stored before that is told. If something is missing, how it has ended.
    pub(crate) fn stores(
        &mut self,
        node: usize,
        process: &Process,
        left: Vec<(ObjectId, Instance)>,
    ) -> (Vec<WorkerInput>, Option<TaskOutcome>) {
        let mut said = Vec::new();
        let has_promised = left.iter().any(|(object, _)| object.name != ObjectName::value());
        if has_promised && !self.healed && self.rng.chance(20) {
            let text = "Its object is missing".to_owned();
            return (said, Some(TaskOutcome::Failed(FailureKind::Output, text)));
        }
        for (object, instance) in left {
            let copy = copy(&object, instance, process.number);
            self.observers.objects.left(&copy);
            self.nodes[node].takes_in(copy, &mut said);
        }
        (said, None)
    }

    /// A worker is told to take a file as an object.
    pub(crate) fn takes_file(&mut self, node: usize, object: ObjectId) {
        let mut said = Vec::new();
        if self.rng.chance(200) {
            said.push(WorkerInput::FileRefused { object, why: "no room".to_owned() });
        } else {
            self.processes += 1;
            let copy = copy(&object, Instance(0), self.processes);
            self.observers.objects.left(&copy);
            self.nodes[node].takes_in(copy, &mut said);
        }
        self.launcher_says(node, said, None);
    }

    /// A worker is told to fetch what another one alone stores that leaves.
    pub(crate) fn takes_over(
        &mut self,
        node: usize,
        sources: &[hq_core::object_messages::ObjectSource],
        is_ahead: bool,
    ) -> Result<(), String> {
        let mut said = Vec::new();
        for source in sources {
            let object = source.copy.object.clone();
            let is_here = (!is_ahead || self.nodes[node].has_room())
                && self.brings(node, source, &mut said, &mut None)?.is_none();
            self.fetched_ahead += u64::from(is_ahead && is_here);
            match is_ahead {
                true => said.push(WorkerInput::NotAhead(object)),
                false if is_here => {}
                false => said.push(WorkerInput::FileRefused { object, why: "nobody has it".to_owned() }),
            }
        }
        self.launcher_says(node, said, None);
        Ok(())
    }

    /// A worker is told to free objects.
    pub(crate) fn frees(&mut self, node: usize, objects: &[ObjectId]) -> Result<(), String> {
        for object in objects {
            let stored = self.nodes[node].store.iter().flat_map(Store::copies);
            let copies: Vec<ObjectCopy> = stored.filter(|copy| copy.object == *object).collect();
            let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != node);
            let others: Vec<&Store> = others.filter_map(|(_, other)| other.store.as_ref()).collect();
            if let Some(server) = &self.server {
                observers::may_be_freed(server.state(), &copies, &others)?;
            }
            if let Some(store) = &mut self.nodes[node].store {
                store.remove(object);
            }
        }
        Ok(())
    }

    /// When all has ended: true when nothing is stored that nobody can want any more.
    pub(crate) fn has_settled(&mut self) -> Result<bool, String> {
        let Some(server) = self.server.as_ref().filter(|_| self.faults.has_objects) else { return Ok(true) };
        let told =
            self.nodes.iter().filter(|node| node.connection.is_some() && node.frozen_until <= self.now);
        let stores = told.filter_map(|node| node.store.as_ref());
        let Some(stays) = observers::what_stays(server.state(), stores) else { return Ok(true) };
        let since = *self.over_since.get_or_insert(self.now);
        if self.now.0 - since.0 > SETTLES_US {
            return Err(format!("all has ended, and object {stays} stays, which nobody can want"));
        }
        Ok(false)
    }
}
