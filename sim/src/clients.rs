//! A client that submits, cancels, watches and asks, and repeats what got no answer.

use std::sync::Arc;
use std::time::Duration;

use hq_core::client_messages::{ClientRequest, ClientResponse, RequestError};
use hq_model::body::{Function, Mpi};
use hq_model::dependency::{After, Condition, Edges, Mapping};
use hq_model::job::{Share, Target, TaskIds};
use hq_model::notice::Moment;
use hq_model::request::parse_amount;
use hq_model::selector::Selector;
use hq_model::task::{CrashLimit, EndBy, Retry, SpeculateFactor};
use hq_model::{
    AmountRequest, Body, Dependencies, Entries, IdSet, Instance, JobId, JobSpec, NoticeRule, NoticeTarget,
    OutputSink, Policy, Request, ResourceRequest, Stream, Submit, TaskId, TaskRef, TaskSpec,
};

use crate::faults::Faults;
use crate::feeders::{self, Feeder};
use crate::objects;
use crate::pullers;
use crate::rng::Rng;
use crate::variety;
use crate::world::{Event, World};

/// One client.
#[derive(Debug, Default)]
pub struct Client {
    /// Its connection.
    pub connection: Option<u64>,
    /// What it has asked and got no answer to.
    pub asked: Option<ClientRequest>,
    /// Number of the request.
    pub request: u64,
    /// Jobs it was told of.
    pub jobs: Vec<JobId>,
    /// Jobs with tasks that leave objects, and these tasks.
    pub leaving: Vec<(JobId, IdSet)>,
    /// Things it still wants to do.
    pub wishes: u64,
    /// It is the process of a task that feeds or drains a job.
    pub feeder: Option<Feeder>,
    /// That process has ended.
    pub is_gone: bool,
}

// A job, and who is told of it.
fn job_spec(name: &str, faults: &Faults) -> JobSpec {
    let target = NoticeTarget::Mail("sim@localhost".into());
    let rules = Moment::ALL.map(|on| NoticeRule { on, target: target.clone() });
    let notices = if faults.has_notices { rules.to_vec() } else { Vec::new() };
    JobSpec { name: name.into(), notices, stall_after: Some(Duration::from_secs(5)), ..JobSpec::default() }
}

/// The next wish of a client.
pub fn wish(rng: &mut Rng, jobs: &[JobId], faults: &Faults) -> ClientRequest {
    let any = |rng: &mut Rng| {
        let job = jobs.get(rng.between(0, jobs.len().max(1) as u64 - 1) as usize).copied();
        Selector::Ids(IdSet::single(TaskId(job.unwrap_or(JobId(1)).0)))
    };
    if faults.has_pulled && (jobs.len() < 2 || rng.chance(400)) {
        return pullers::creates(rng, jobs);
    }
    if faults.has_feeds && (jobs.is_empty() || rng.chance(250)) {
        return feeders::submits(rng);
    }
    match rng.between(0, 19) {
        0..=9 => {
            let max_fails = max_fails(rng);
            let share = share(rng);
            let budget = budget(jobs.len() as u64);
            let spec = JobSpec { max_fails, share, budget, ..job_spec("sim", faults) };
            submit(rng, jobs, Target::New(spec), faults)
        }
        10 => {
            let key = rng.draw();
            // Takes nothing from the chances.
            let linger = faults.has_lingering.then(|| Duration::from_secs(1 + key % 30));
            let spec = JobSpec { linger, ..job_spec("open", faults) };
            ClientRequest::OpenJob { key: u128::from(key), spec }
        }
        11 | 12 => {
            let target = match any(rng) {
                Selector::Ids(ids) => Target::Open(JobId(ids.first().map_or(1, |id| id.0))),
                _ => Target::Open(JobId(1)),
            };
            submit(rng, jobs, target, faults)
        }
        13 => ClientRequest::CloseJobs { jobs: Selector::All },
        14 => ClientRequest::Cancel { jobs: any(rng), tasks: None, reason: Some("sim".into()) },
        // Takes nothing from the chances, as the last of these.
        15 if jobs.len() % 3 == 2 => {
            ClientRequest::CancelWaiting { job: jobs[jobs.len() - 1], tasks: IdSet::range(0, 20) }
        }
        15 => ClientRequest::Cancel { jobs: any(rng), tasks: Some(IdSet::single(TaskId(0))), reason: None },
        // Nor does this.
        16 if faults.has_lingering && !jobs.is_empty() => {
            ClientRequest::AwaitEnds { job: jobs[jobs.len() - 1], known: IdSet::range(0, u32::MAX) }
        }
        16 => ClientRequest::ListTasks {
            jobs: Selector::All,
            tasks: None,
            states: Vec::new(),
            after: None,
            limit: 100,
            grouped: false,
            with_entries: false,
        },
        17 => ClientRequest::ForgetJobs { jobs: any(rng), states: Vec::new() },
        18 => ClientRequest::StopWorkers { workers: Selector::Last, drain: rng.chance(500) },
        // Takes nothing from the chances: runs of before stay what they were.
        _ => match (jobs.last(), jobs.first()) {
            (Some(last), _) if jobs.len().is_multiple_of(2) => ClientRequest::Ready {
                task: TaskRef::new(*last, TaskId(0)),
                instance: Instance(0),
                text: b"sim".to_vec(),
            },
            (Some(last), Some(first)) => ClientRequest::Defer {
                task: TaskRef::new(*last, TaskId(jobs.len() as u32 % 3)),
                instance: Instance((jobs.len() / 4 % 2) as u32),
                after: vec![After { tasks: Some(IdSet::range(0, 0)), ..After::of(*first) }],
            },
            _ => ClientRequest::ListJobs { states: Vec::new() },
        },
    }
}

fn share(rng: &mut Rng) -> Option<Share> {
    let min = rng.between(0, 3);
    let max = if rng.chance(500) { Some(min + rng.between(1, 4)) } else { None };
    rng.chance(200).then_some(Share { min, max, ..Share::default() })
}

// Some node seconds for one job of four. It takes nothing from the chances: runs of before stay what they were.
fn budget(jobs: u64) -> Option<Duration> {
    (jobs % 4 == 3).then(|| Duration::from_millis(500 + jobs * 700))
}

fn max_fails(rng: &mut Rng) -> Option<u64> {
    if rng.chance(200) { Some(rng.between(0, 5)) } else { None }
}

// What so many tasks of a submit wait for. Edges name ids from 0: an open job refuses them, or has such tasks.
fn dependencies(rng: &mut Rng, jobs: &[JobId], target: &Target, count: u32) -> Arc<Dependencies> {
    let mut found = Dependencies::default();
    if rng.chance(150) {
        // A task waits for some of those just before it, or for the one before it.
        let is_chain = count.is_multiple_of(3);
        let list = |task: u32, rng: &mut Rng| -> Vec<TaskId> {
            let count = if is_chain { 1 } else { rng.between(0, 2) }.min(u64::from(task));
            let before =
                |rng: &mut Rng| if is_chain { 0 } else { rng.between(0, u64::from(task - 1).min(9)) };
            (0..count).map(|_| TaskId(task - 1 - before(rng) as u32)).collect()
        };
        let lists: Vec<_> = (0..count).map(|task| list(task, rng)).collect();
        found.edges = Edges::new(lists).unwrap_or_default();
    }
    if rng.chance(250)
        && let Some(job) = jobs.get(rng.between(0, jobs.len().max(1) as u64 - 1) as usize)
    {
        let condition = if rng.chance(300) { Condition::AnyEnd } else { Condition::Success };
        let (tasks, mapping) = match rng.between(0, 3) {
            0 if *target != Target::Open(*job) => (None, Mapping::All),
            1 => (Some(IdSet::range(0, 0)), Mapping::All),
            2 => (Some(IdSet::range(0, count - 1)), Mapping::All),
            _ => (Some(IdSet::range(0, count - 1)), Mapping::Window(rng.between(0, 3) as u32)),
        };
        found.after.push(After { tasks, condition, mapping, ..After::of(*job) });
    }
    Arc::new(found)
}

// Two nodes: whole ones, or so many ranks on each.
fn multi_node(choice: u64) -> Request {
    let ranks = (choice % 3) as u32;
    let cpus = ["1", "0.5", "2"][(choice / 3 % 3) as usize];
    let amount = parse_amount("cpus", cpus).ok().filter(|_| ranks > 0);
    let resources = amount.map(|amount| ResourceRequest { name: "cpus".into(), amount });
    Request {
        nodes: 1 + u32::from(!choice.is_multiple_of(5)),
        ranks,
        exclusive: ranks > 0 && choice.is_multiple_of(7),
        resources: resources.into_iter().collect(),
        ..Request::default()
    }
}

fn submit(rng: &mut Rng, jobs: &[JobId], target: Target, faults: &Faults) -> ClientRequest {
    let mut resources = Vec::new();
    let cpus = ["1", "1", "1", "2", "0.5", "all"][rng.between(0, 5) as usize];
    if let Ok(amount) = parse_amount("cpus", cpus) {
        resources.push(ResourceRequest { name: "cpus".into(), amount });
    }
    if rng.chance(200)
        && let Ok(amount) = parse_amount("mem", "300")
    {
        resources.push(ResourceRequest { name: "mem".into(), amount });
    }
    let request = Request { resources, ..Request::default() };
    let mut spec = TaskSpec {
        body: Body::program(["work"]),
        requests: vec![request],
        priority: rng.between(0, 4) as i32 - 2,
        time_limit: if rng.chance(200) { Some(Duration::from_secs(rng.between(1, 20))) } else { None },
        kill_grace: Duration::from_secs(5),
        crash_limit: match rng.between(0, 9) {
            0 => CrashLimit::NeverRestart,
            1 => CrashLimit::Times(1),
            2 => CrashLimit::Times(2),
            _ => CrashLimit::Unlimited,
        },
        retry: Retry {
            max: if rng.chance(300) { 2 } else { 0 },
            delay: Duration::from_secs(rng.between(0, 10)),
            ..Retry::default()
        },
        ..TaskSpec::default()
    };
    let count = [1, 3, 20, 300][rng.between(0, 3) as usize];
    let dependencies = dependencies(rng, jobs, &target, count);
    let ids = if rng.chance(200) && dependencies.is_empty() {
        let first = rng.between(0, 50) as u32;
        TaskIds::Given(IdSet::range(first, first + count))
    } else {
        TaskIds::Next(count)
    };
    let key = rng.draw();
    // Takes nothing from the chances: runs without it stay what they were.
    if faults.speculates && key.is_multiple_of(2) {
        spec.speculate = SpeculateFactor::from_thousandths(1000 + (key % 3000) as u32);
    }
    let tasks = match &ids {
        TaskIds::Given(ids) => ids.len(),
        TaskIds::Next(count) => u64::from(*count),
    };
    // So are some of these names taken in an open job.
    let names: Vec<String> = (0..tasks).map(|task| format!("k{}", task + key % 7)).collect();
    let is_named = key.is_multiple_of(5) && dependencies.is_empty();
    spec.service = key.is_multiple_of(3);
    let names = names.iter().map(String::as_bytes).filter(|_| is_named);
    let mut dependencies = dependencies;
    if key.is_multiple_of(7) {
        Arc::make_mut(&mut dependencies).files.push(format!("/sim/{}", key % 5).into_bytes());
    }
    if faults.has_groups {
        ask_for_groups(&mut spec.requests[0], key >> 16);
    }
    if faults.has_variety {
        variety::ask(key, &mut spec);
    }
    if faults.has_streams && key >> 48 & 1 == 0 {
        spec.stdout = OutputSink::Stream;
        spec.stream = Some(Stream::Directory(b"stream".to_vec()));
    }
    if faults.has_last_moments && key >> 32 & 1 == 0 {
        spec.end_by = Some(EndBy::Within(Duration::from_secs(key >> 33 & 63)));
        spec.expected = Some(Duration::from_secs(key >> 40 & 7)).filter(|expected| !expected.is_zero());
    }
    // One after the other of the same kind find each other's interpreters.
    if faults.has_functions && key % 4 != 1 && !spec.service {
        spec.body = function();
    }
    if faults.has_multi_node && key % 4 == 1 {
        spec.requests = vec![multi_node(key / 4)];
        // Their ranks may be those of a function, in a world that stays or in one that does not.
        if faults.has_functions && spec.requests[0].ranks > 0 && key >> 24 & 1 == 0 && !spec.service {
            spec.body = function();
            if let Body::Function(function) = &mut spec.body
                && key >> 25 & 1 == 0
            {
                function.mpi = Mpi::World;
            }
        }
    }
    if let (Target::Open(_), 1..4) = (&target, key % 11) {
        return block(key, &target, &spec);
    }
    ClientRequest::Submit {
        key: u128::from(key),
        submit: Box::new(Submit {
            keys: Entries::new(names).unwrap_or_default(),
            dependencies,
            ..Submit::new(target, ids, spec)
        }),
    }
}

fn function() -> Body {
    let interpreter = vec![b"python3".to_vec()];
    Body::Function(Function { name: "work:run".into(), interpreter, ..Function::default() })
}

fn ask_for_groups(request: &mut Request, choice: u64) {
    let policies =
        [Policy::Compact, Policy::CompactStrict, Policy::Tight, Policy::TightStrict, Policy::Scatter];
    for resource in &mut request.resources {
        if let AmountRequest::Some(_, policy) = &mut resource.amount {
            *policy = policies[(choice % 7).min(4) as usize];
        }
    }
    let amounts =
        ["1 compact!", "2 compact!", "2 tight!", "3", "1.5 tight", "5", "5 compact!", "4.5 compact"];
    let seconds = [0, 0, 0, 5, 20, 90, 280][(choice / 70 % 7) as usize];
    request.time_request = Duration::from_secs(seconds);
    if let Some(Ok(amount)) = amounts.get((choice / 7 % 10) as usize).map(|text| parse_amount("foo", text)) {
        request.resources.push(ResourceRequest { name: "foo".into(), amount });
        request.resources.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

// Several submits in one request; some have no key, and of some the last one is refused.
fn block(key: u64, target: &Target, spec: &TaskSpec) -> ClientRequest {
    let submit = |number: u64| {
        let count = 1 + ((key >> 8) + number) % 4;
        Submit {
            submit_dir: format!("/block/{key}").into_bytes(),
            ..Submit::new(target.clone(), TaskIds::Next(count as u32), spec.clone())
        }
    };
    let mut submits: Vec<Submit> = (0..2 + key % 3).map(submit).collect();
    if let (true, Target::Open(job), Some(last)) = (key % 11 == 3, target, submits.last_mut()) {
        let never = After { tasks: Some(IdSet::range(1_000_000, 1_000_000)), ..After::of(*job) };
        last.dependencies = Arc::new(Dependencies { after: vec![never], ..Dependencies::default() });
    }
    ClientRequest::SubmitAll { key: if key % 11 == 2 { 0 } else { u128::from(key) }, submits }
}

impl World {
    /// A client asks what it wants, or asks once more.
    pub(crate) fn client_acts(&mut self, client: usize) {
        if self.server.is_none() {
            self.at(2_000_000, Event::ClientActs { client });
            return;
        }
        let is_feeder = self.clients[client].feeder.is_some();
        if !is_feeder && self.clients[client].is_gone {
            return;
        }
        if self.clients[client].connection.is_none() {
            let id = self.network.open(client, false, self.now);
            self.clients[client].connection = Some(id);
        } else if self.clients[client].asked.is_some() {
            return;
        }
        if is_feeder && self.clients[client].asked.is_none() {
            let Some(wish) = self.feeder_asks(client) else { return };
            self.clients[client].asked = Some(wish);
        }
        if self.clients[client].asked.is_none() {
            if self.clients[client].wishes == 0 {
                return;
            }
            self.clients[client].wishes -= 1;
            let state = &self.clients[client];
            let wish = if self.faults.has_objects && self.rng.chance(700) {
                objects::wish(&mut self.rng, &state.leaving)
            } else {
                wish(&mut self.rng, &state.jobs, &self.faults)
            };
            if let ClientRequest::ForgetJobs { jobs: Selector::Ids(ids), .. } = &wish {
                // Asked for is enough: the answer may be lost.
                ids.iter().for_each(|id| self.observers.acknowledged.forgotten(JobId(id.0)));
            }
            self.observers.blocks.asked(&wish);
            self.clients[client].asked = Some(wish);
        }
        let state = &mut self.clients[client];
        state.request += 1;
        let (request, connection) = (state.request, state.connection.unwrap_or(0));
        let Some(body) = state.asked.clone() else { return };
        if let Some(at) = self.network.arrival(connection, true, self.now, &mut self.rng) {
            self.at_time(at, Event::FromClient { connection, request, body });
        }
    }

    /// A client gets an answer.
    ///
    /// # Errors
    /// When it is none that it could get.
    pub(crate) fn client_hears(
        &mut self,
        connection: u64,
        request: u64,
        body: ClientResponse,
    ) -> Result<(), String> {
        let Some(client) = self.network.get(connection).map(|known| known.peer) else { return Ok(()) };
        let state = &mut self.clients[client];
        if state.connection != Some(connection) || state.request != request {
            return Ok(());
        }
        let asked = state.asked.take();
        if state.feeder.is_some() {
            return self.feeder_hears(client, body);
        }
        state.leaving.extend(asked.iter().flat_map(|asked| objects::leaves(asked, &body)));
        match (asked, body) {
            // What is gone or needed may be known to others alone.
            (Some(ClientRequest::Objects(_)), ClientResponse::Error(RequestError::Invalid(_))) => {}
            (Some(ClientRequest::ForgetJobs { .. }), ClientResponse::Error(RequestError::Invalid(_))) => {}
            (_, ClientResponse::Error(RequestError::Invalid(text))) if text.starts_with("Object ") => {}
            (
                Some(ClientRequest::Submit { key, .. } | ClientRequest::SubmitAll { key, .. }),
                ClientResponse::Submitted { job, ids, .. },
            ) => {
                state.jobs.push(job);
                self.observers.acknowledged.submitted(key, job, &ids)?;
            }
            (Some(ClientRequest::OpenJob { .. }), ClientResponse::Submitted { job, .. }) => {
                state.jobs.push(job)
            }
            (Some(ClientRequest::SubmitJobs { .. }), ClientResponse::JobsSubmitted { jobs, .. }) => {
                state.jobs.extend(jobs);
            }
            (_, ClientResponse::Error(RequestError::Invalid(text)))
                if !text.contains("are made by its generator")
                    // Of a request of before a kill, whose client asks once more.
                    && !text.contains("is not submitted as a whole yet") =>
            {
                return Err(format!("a valid request was refused: {text}"));
            }
            _ => {}
        }
        let after = self.rng.between(1_000, 10_000_000);
        self.at(after, Event::ClientActs { client });
        Ok(())
    }
}
