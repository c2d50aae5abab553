//! Programs that make tasks of a job, or take their results: each is the process of a task, and a client of the server.
//!
//! They die at any moment, are started again, repeat what got no answer, and now and then say what is not so.

use std::time::Duration;

use hq_core::client_messages::{ClientRequest, ClientResponse, JobEnds, NewJob, NewTasks, RequestError};
use hq_core::feed::{FeedOrder, FeedRequest, FeedState};
use hq_core::record::FailureKind;
use hq_core::worker::{Outcome as TaskOutcome, Start};
use hq_model::dependency::{After, Condition};
use hq_model::job::{Target, TaskIds};
use hq_model::task::{CrashLimit, Retry};
use hq_model::{
    Body, Entries, IdSet, Instance, JobId, JobSpec, Request, ResourceRequest, Submit, TaskRef, TaskSpec,
    request::parse_amount,
};

use crate::clients::Client;
use crate::observers::line;
use crate::rng::Rng;
use crate::world::{Event, World};

/// First word of the command of a generator; the number of its lines follows.
pub(crate) const GENERATE: &str = "generate";
/// That of a reducer; the number of tasks that are enough for it follows, 0 for all.
pub(crate) const REDUCE: &str = "reduce";

/// One that runs.
#[derive(Clone, Debug)]
pub struct Feeder {
    by: TaskRef,
    instance: Instance,
    // Its process: the node, the life of its worker, the number.
    process: (usize, u64, u64),
    role: Role,
    // What it asked last.
    asked: Option<ClientRequest>,
    // That was not taken, and is said again as it was: an earlier time it may have been.
    repeats: bool,
    // How the job is, as far as it was told.
    job: Option<FeedState>,
    // What it has said is not so.
    lies: bool,
}

#[derive(Clone, Debug)]
enum Role {
    Generator { lines: u64 },
    Reducer(Reducer),
}

#[derive(Clone, Debug, Default)]
struct Reducer {
    // So many tasks are enough; 0 for all.
    enough: u64,
    // Tasks of whose ends it was told.
    known: IdSet,
    // Those in its state.
    state: IdSet,
    // It was told of all.
    is_over: bool,
    has_said_enough: bool,
}

/// Somebody submits a job that is fed, and perhaps one that waits for it.
pub(crate) fn submits(rng: &mut Rng) -> ClientRequest {
    let lines = [0, 5, 40, 200][rng.between(0, 3) as usize];
    let enough = if rng.chance(300) { rng.between(1, lines + 1) } else { 0 };
    let fed = NewTasks::Fed {
        generator: own(GENERATE, lines),
        reducer: rng.chance(700).then(|| own(REDUCE, enough)),
    };
    let job = |name: &str, tasks| NewJob {
        spec: JobSpec { name: name.into(), ..JobSpec::default() },
        after: Vec::new(),
        takes: Vec::new(),
        tasks,
    };
    let tasks = |count: u32| {
        let spec = JobSpec { name: "beside".into(), ..JobSpec::default() };
        let ids = TaskIds::Given(IdSet::range(0, count - 1));
        NewTasks::Submits(vec![Submit::new(Target::New(spec), ids, one_cpu())])
    };
    let after = |place: u32, rng: &mut Rng| After {
        condition: if rng.chance(500) { Condition::AnyEnd } else { Condition::Success },
        ..After::of(JobId(place))
    };
    let mut jobs = vec![job("fed", fed)];
    if rng.chance(300) {
        jobs.insert(0, job("before", tasks(3)));
        jobs[1].after.push(after(0, rng));
    }
    if rng.chance(500) {
        let last = jobs.len() as u32 - 1;
        jobs.push(NewJob { after: vec![after(last, rng)], ..job("behind", tasks(2)) });
    }
    ClientRequest::SubmitJobs { key: u128::from(rng.draw()), jobs }
}

fn own(word: &str, number: u64) -> Box<Submit> {
    let spec = TaskSpec {
        body: Body::program([word, &number.to_string()]),
        requests: vec![Request::default()],
        retry: Retry { max: 2, ..Retry::default() },
        ..one_cpu()
    };
    let job = JobSpec { name: word.into(), ..JobSpec::default() };
    Box::new(Submit::new(Target::New(job), TaskIds::Given(IdSet::range(0, 0)), spec))
}

fn one_cpu() -> TaskSpec {
    let cpu = parse_amount("cpus", "1").ok().map(|amount| ResourceRequest { name: "cpus".into(), amount });
    TaskSpec {
        body: Body::program(["work"]),
        requests: vec![Request { resources: cpu.into_iter().collect(), ..Request::default() }],
        kill_grace: Duration::from_secs(5),
        crash_limit: CrashLimit::Unlimited,
        ..TaskSpec::default()
    }
}

/// The word and the number of the command of a generator or a reducer.
pub(crate) fn command_of(spec: &TaskSpec) -> Option<(&'static str, u64)> {
    let Body::Program { args } = &spec.body else { return None };
    let [word, number] = args.as_slice() else { return None };
    let word = [GENERATE, REDUCE].into_iter().find(|known| known.as_bytes() == word.as_slice())?;
    Some((word, std::str::from_utf8(number).ok()?.parse().ok()?))
}

impl Feeder {
    // What it asks next; nothing when its work is done.
    fn next(&mut self, rng: &mut Rng) -> Option<ClientRequest> {
        if !std::mem::take(&mut self.repeats) {
            self.asked = self.draws(rng);
        }
        self.asked.clone()
    }

    fn draws(&mut self, rng: &mut Rng) -> Option<ClientRequest> {
        self.lies = false;
        let Some(job) = self.job.as_ref() else { return Some(self.request(FeedOrder::Look)) };
        let (id, made) = (job.job, job.made);
        self.lies = rng.chance(30);
        let order = match &mut self.role {
            Role::Generator { .. } if job.wants_no_more() => return None,
            Role::Generator { .. } if self.lies && rng.chance(500) => {
                FeedOrder::Save { ids: IdSet::new(), state: None, is_enough: true }
            }
            Role::Generator { .. } if self.lies => add(id, made + 1, 1, false),
            Role::Generator { .. } if rng.chance(300) => FeedOrder::AwaitRoom { below: rng.between(1, 50) },
            Role::Generator { lines } => {
                let count = rng.between(0, 30).min(lines.saturating_sub(made));
                add(id, made, count, made + count >= *lines && rng.chance(700))
            }
            Role::Reducer(reducer) if reducer.has_said_enough => return None,
            Role::Reducer(_) if self.lies => {
                let ids = IdSet::range(1_000_000, 1_000_000);
                FeedOrder::Save { ids, state: None, is_enough: false }
            }
            Role::Reducer(reducer) => {
                let new = reducer.known.difference(&reducer.state);
                if new.is_empty() && reducer.is_over {
                    return None;
                }
                if new.is_empty() || (!reducer.is_over && rng.chance(300)) {
                    return Some(ClientRequest::AwaitEnds { job: id, known: reducer.known.clone() });
                }
                let ids = new.slice(0, rng.between(0, 20));
                reducer.state.union_with(&ids);
                reducer.has_said_enough = reducer.enough > 0 && reducer.state.len() >= reducer.enough;
                let state = Some(reducer.state.to_string().into_bytes());
                FeedOrder::Save { ids, state, is_enough: reducer.has_said_enough }
            }
        };
        Some(self.request(order))
    }

    fn has_said_last(&self) -> bool {
        let Some(ClientRequest::Feed(asked)) = &self.asked else { return false };
        matches!(asked.order, FeedOrder::Add { is_last: true, .. })
    }

    fn request(&self, order: FeedOrder) -> ClientRequest {
        ClientRequest::Feed(Box::new(FeedRequest { by: self.by, instance: self.instance, order }))
    }

    // Takes in an answer. True when it has to give up.
    fn hears(&mut self, body: ClientResponse) -> Result<bool, String> {
        let by = self.by;
        match body {
            ClientResponse::Error(RequestError::ReadOnly(_)) => self.repeats = true,
            ClientResponse::Error(RequestError::Invalid(_)) if self.lies => {}
            ClientResponse::Error(RequestError::Invalid(text))
                if !text.contains("neither makes nor reduces") =>
            {
                return Err(format!("task {by} was refused: {text}"));
            }
            ClientResponse::Error(_) => return Ok(true),
            ClientResponse::Feed(_) if self.lies => return Err(format!("task {by} was believed a lie")),
            ClientResponse::Feed(state) => {
                if let (Role::Reducer(reducer), None) = (&mut self.role, &self.job) {
                    reducer.state = state.feed.reduced.clone();
                    reducer.known = reducer.state.clone();
                }
                self.job = Some(*state);
            }
            ClientResponse::Ends(ends) => {
                let Role::Reducer(reducer) = &mut self.role else { return Ok(true) };
                let JobEnds { finished, canceled, failed, aborted, is_over, .. } = *ends;
                let aborted = aborted.into_iter().flat_map(|(ids, _)| ids.iter().collect::<Vec<_>>());
                let mut new: IdSet = failed.iter().map(|(task, ..)| *task).chain(aborted).collect();
                new.union_with(&finished);
                new.union_with(&canceled);
                if new.intersects(&reducer.known) {
                    let twice = new.intersection(&reducer.known);
                    return Err(format!("task {by} was told a second time how tasks {twice} ended"));
                }
                reducer.known.union_with(&new);
                reducer.is_over = is_over;
            }
            other => return Err(format!("task {by} was answered {other:?}")),
        }
        Ok(false)
    }
}

fn add(job: JobId, at: u64, count: u64, is_last: bool) -> FeedOrder {
    let lines: Vec<Vec<u8>> = (at..at + count).map(line).collect();
    let ids = TaskIds::Given(IdSet::range(at as u32, (at + count).saturating_sub(1) as u32));
    let submit = Submit {
        entries: Entries::new(lines.iter().map(Vec::as_slice)).unwrap_or_default(),
        ..Submit::new(Target::Open(job), ids, one_cpu())
    };
    let cursor = (at + count).is_multiple_of(3).then(|| (at + count).to_string().into_bytes());
    let submits = if count == 0 { Vec::new() } else { vec![submit] };
    FeedOrder::Add { at, submits, cursor, is_last }
}

impl World {
    /// A process has started; a generator or a reducer speaks to the server. True when it is one.
    pub(crate) fn feeds(&mut self, node: usize, start: &Start, number: u64) -> bool {
        let Some((word, count)) = command_of(&start.template.spec) else { return false };
        let role = match word {
            GENERATE => Role::Generator { lines: count },
            _ => Role::Reducer(Reducer { enough: count, ..Reducer::default() }),
        };
        let process = (node, self.nodes[node].life, number);
        let (by, instance) = (start.task, start.instance);
        let feeder =
            Feeder { by, instance, process, role, asked: None, repeats: false, job: None, lies: false };
        self.clients.push(Client { feeder: Some(feeder), ..Client::default() });
        let client = self.clients.len() - 1;
        self.at(1_000, Event::ClientActs { client });
        self.at(1_000, Event::FeederLooks { client });
        if !self.healed && self.rng.chance(400) {
            let after = self.rng.between(1_000, 60_000_000);
            self.feeder_ends(client, after, false);
        }
        true
    }

    // Its process ends.
    fn feeder_ends(&mut self, client: usize, after: u64, is_success: bool) {
        let Some(feeder) = &self.clients[client].feeder else { return };
        let ((node, life, number), task) = (feeder.process, feeder.by);
        let outcome = match is_success {
            true => TaskOutcome::Finished,
            false => TaskOutcome::Failed(FailureKind::Exit(1), "exit code 1".into()),
        };
        self.at(after, Event::ProcessEnds { node, life, task, number, outcome });
    }

    /// A process that has ended says nothing more, and its connection ends with it.
    pub(crate) fn feeder_looks(&mut self, client: usize) {
        let Some(feeder) = &self.clients[client].feeder else { return };
        let (node, life, number) = feeder.process;
        let known = &self.nodes[node];
        let process = known.processes.get(&feeder.by).filter(|process| process.number == number);
        if known.life == life && process.is_some() {
            return self.at(1_000_000, Event::FeederLooks { client });
        }
        let gone = Client { is_gone: true, ..Client::default() };
        let gone = std::mem::replace(&mut self.clients[client], gone);
        if let Some(connection) = gone.connection {
            self.at(500, Event::PeerGone { connection, is_closed: true });
        }
    }

    /// It wants to say something: what, unless its work is done or it cannot now.
    pub(crate) fn feeder_asks(&mut self, client: usize) -> Option<ClientRequest> {
        let feeder = self.clients[client].feeder.as_mut()?;
        let frozen = self.nodes[feeder.process.0].frozen_until;
        if frozen > self.now {
            self.at_time(frozen, Event::ClientActs { client });
            return None;
        }
        let asked = feeder.next(&mut self.rng);
        if asked.is_none() {
            self.feeder_ends(client, 1_000, true);
        }
        asked
    }

    /// It is answered.
    pub(crate) fn feeder_hears(&mut self, client: usize, body: ClientResponse) -> Result<(), String> {
        let Some(feeder) = &mut self.clients[client].feeder else { return Ok(()) };
        if let ClientResponse::Feed(state) = &body {
            self.observers.feeds.told(state, feeder.has_said_last());
        }
        if feeder.hears(body)? {
            self.feeder_ends(client, 1_000, false);
            return Ok(());
        }
        let after = self.rng.between(1_000, 2_000_000);
        self.at(after, Event::ClientActs { client });
        Ok(())
    }
}
