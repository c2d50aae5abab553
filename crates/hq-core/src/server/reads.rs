//! Clients that read what tasks print: each read is passed on to the worker that runs the task, or waits here until one does.
//!
//! What a task prints is no state of the server: an answer that holds some of it comes from the worker and goes to the client
//! at once. Only what is said of tasks that do not run is told from the state.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{ByteString, IdSet, Instance, JobId, OutputSink, TaskRef, TaskState, Timestamp, WorkerId};

use super::clients::Asked;
use super::machine::Server;
use super::requests::shown_state;
use super::{ConnectionId, Effect, Gate};
use crate::client_messages::{ClientResponse, RequestError};
use crate::limits::{
    OUTPUT_READ_BYTES_MAX, OUTPUT_READ_LATE, OUTPUT_READ_TIME_MAX, OUTPUT_READS_MAX,
    OUTPUT_READS_OF_CLIENT_MAX, OUTPUT_READS_OF_WORKER_MAX,
};
use crate::output_messages::{
    Output, OutputRead, OutputState, ReadAnswer, ReadFrom, ReadOrder, ReadState, Seen,
};
use crate::worker_messages::ToWorker;

/// All reads that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Reads {
    waiting: BTreeMap<Asked, Waiting>,
    // Those that wait here, by the jobs that they are about.
    here: BTreeMap<JobId, BTreeSet<Asked>>,
    // Those that workers have, by the connections of these and by number.
    there: BTreeMap<ConnectionId, BTreeMap<u64, Asked>>,
    due: BTreeSet<(Timestamp, Asked)>,
    // Jobs of which tasks have started since the last settling.
    started: BTreeSet<JobId>,
    last_number: u64,
}

#[derive(Debug)]
struct Waiting {
    read: OutputRead,
    until: Timestamp,
    at: At,
}

#[derive(Clone, Copy, Debug)]
enum At {
    Here,
    Worker { connection: ConnectionId, number: u64, worker: WorkerId, instance: Instance },
}

/// What is to become of a read.
enum Next {
    /// This worker can answer it.
    Ask(WorkerId, ConnectionId, Instance),
    /// It is answered now.
    Tell(Instance, OutputState),
    /// It waits until this changes.
    Wait(Instance, OutputState),
}

impl Reads {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.waiting.len()
    }

    /// When one has waited long enough.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        self.due.first().map(|due| due.0)
    }

    /// Tasks of a job have started.
    pub(super) fn started(&mut self, job: JobId) {
        if self.here.contains_key(&job) {
            self.started.insert(job);
        }
    }

    fn of_client(&self, connection: ConnectionId) -> impl Iterator<Item = Asked> {
        self.waiting.range((connection, 0)..=(connection, u64::MAX)).map(|entry| *entry.0)
    }

    fn insert(&mut self, asked: Asked, waiting: Waiting) {
        let due = match waiting.at {
            At::Here => {
                self.here.entry(waiting.read.task.job).or_default().insert(asked);
                waiting.until
            }
            At::Worker { connection, number, .. } => {
                self.there.entry(connection).or_default().insert(number, asked);
                waiting.until.after(OUTPUT_READ_LATE)
            }
        };
        self.due.insert((due, asked));
        self.waiting.insert(asked, waiting);
    }

    fn remove(&mut self, asked: Asked) -> Option<Waiting> {
        let waiting = self.waiting.remove(&asked)?;
        match waiting.at {
            At::Here => {
                self.due.remove(&(waiting.until, asked));
                let job = waiting.read.task.job;
                if let Some(here) = self.here.get_mut(&job) {
                    here.remove(&asked);
                    if here.is_empty() {
                        self.here.remove(&job);
                    }
                }
            }
            At::Worker { connection, number, .. } => {
                self.due.remove(&(waiting.until.after(OUTPUT_READ_LATE), asked));
                if let Some(there) = self.there.get_mut(&connection) {
                    there.remove(&number);
                    if there.is_empty() {
                        self.there.remove(&connection);
                    }
                }
            }
        }
        Some(waiting)
    }
}

impl Server {
    /// A client wants to know what a task prints.
    pub(super) fn client_reads(
        &mut self,
        now: Timestamp,
        asked: Asked,
        read: OutputRead,
        effects: &mut Vec<Effect>,
    ) {
        let wait = read.wait.min(OUTPUT_READ_TIME_MAX);
        let bytes_max = read.bytes_max.clamp(1, OUTPUT_READ_BYTES_MAX);
        let read = OutputRead { wait, bytes_max, ..read };
        let is_full = self.reads.of_client(asked.0).count() >= OUTPUT_READS_OF_CLIENT_MAX
            || self.reads.count() >= OUTPUT_READS_MAX;
        if is_full || self.reads.waiting.contains_key(&asked) {
            let text = "Too many outputs of tasks are read at once; try again when others have ended.";
            return answer(asked, ClientResponse::Error(RequestError::Invalid(text.into())), effects);
        }
        self.pursue(now, asked, read, now.after(wait), effects);
    }

    /// Looks again at reads that wait here where something has changed, and ends those that have waited long enough.
    pub(super) fn pursue_reads(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let mut jobs = std::mem::take(&mut self.reads.started);
        if !self.reads.here.is_empty() {
            jobs.extend(self.touched.iter().copied());
        }
        let here = jobs.iter().flat_map(|job| self.reads.here.get(job).into_iter().flatten());
        let last = (ConnectionId(u64::MAX), u64::MAX);
        let due = self.reads.due.range(..=(now, last)).map(|due| &due.1);
        let looked_at: BTreeSet<Asked> = here.chain(due).copied().collect();
        for asked in looked_at {
            let Some(Waiting { read, until, at }) = self.reads.remove(asked) else { continue };
            match at {
                At::Here => self.pursue(now, asked, read, until, effects),
                At::Worker { connection, number, worker, instance } => {
                    // It says nothing, not even that there is nothing.
                    drop_read(connection, number, effects);
                    tell(asked, instance, OutputState::Away(worker), effects);
                }
            }
        }
    }

    /// A worker answers a read, unless nobody waits for it any more.
    pub(super) fn worker_read(
        &mut self,
        connection: ConnectionId,
        read: ReadAnswer,
        effects: &mut Vec<Effect>,
    ) {
        let there = self.reads.there.get(&connection);
        let Some(asked) = there.and_then(|there| there.get(&read.number)).copied() else { return };
        let Some(Waiting { at: At::Worker { instance, .. }, .. }) = self.reads.remove(asked) else { return };
        let state = match read.state {
            ReadState::More => OutputState::More,
            ReadState::Complete => OutputState::Complete,
            ReadState::Unreadable(reason) => OutputState::Unreadable(reason),
        };
        let ReadAnswer { offset, length, bytes, .. } = read;
        let body = ClientResponse::Output(Output { instance, offset, length, bytes, state });
        // It is no state of the server: there is nothing that a crash could undo.
        let (connection, request) = asked;
        effects.push(Effect::Answer { connection, request, body, gate: Gate::Open });
    }

    /// A connection to a worker is gone: whoever waits for its answers may read elsewhere, or wait for the task to run again.
    pub(super) fn lose_reads(&mut self, connection: ConnectionId, effects: &mut Vec<Effect>) {
        let lost: Vec<Asked> = self
            .reads
            .there
            .get(&connection)
            .map_or_else(Vec::new, |there| there.values().copied().collect());
        for asked in lost {
            if let Some(Waiting { at: At::Worker { worker, instance, .. }, .. }) = self.reads.remove(asked) {
                tell(asked, instance, OutputState::Away(worker), effects);
            }
        }
    }

    /// A client is gone: workers need not wait for what its tasks print.
    pub(super) fn forget_reader(&mut self, connection: ConnectionId, effects: &mut Vec<Effect>) {
        let of_client: Vec<Asked> = self.reads.of_client(connection).collect();
        for asked in of_client {
            if let Some(Waiting { at: At::Worker { connection, number, .. }, .. }) = self.reads.remove(asked)
            {
                drop_read(connection, number, effects);
            }
        }
    }

    fn pursue(
        &mut self,
        now: Timestamp,
        asked: Asked,
        read: OutputRead,
        until: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        match self.next_of_read(&read) {
            Err(error) => answer(asked, ClientResponse::Error(error), effects),
            Ok(Next::Tell(instance, state)) => tell(asked, instance, state, effects),
            Ok(Next::Wait(instance, state)) if until <= now => tell(asked, instance, state, effects),
            Ok(Next::Wait(..)) => self.reads.insert(asked, Waiting { read, until, at: At::Here }),
            Ok(Next::Ask(worker, connection, instance)) => {
                let busy = self.reads.there.get(&connection).map_or(0, BTreeMap::len);
                if busy >= OUTPUT_READS_OF_WORKER_MAX {
                    let text = format!("worker {worker} is asked for {busy} outputs already");
                    return tell(asked, instance, OutputState::Unreadable(text), effects);
                }
                self.reads.last_number += 1;
                let number = self.reads.last_number;
                let is_another = matches!(read.seen, Seen::Part(seen) | Seen::All(seen) if seen != instance);
                let order = ReadOrder {
                    number,
                    task: read.task,
                    instance,
                    entry: self.entry_of_paths(read.task),
                    channel: read.channel,
                    from: if is_another { ReadFrom::Offset(0) } else { read.from },
                    bytes_max: read.bytes_max,
                    wait: until.since(now),
                };
                let message = ToWorker::ReadOutput(order);
                effects.push(Effect::ToWorker { connection, message, gate: Gate::Open });
                let at = At::Worker { connection, number, worker, instance };
                self.reads.insert(asked, Waiting { read, until, at });
            }
        }
    }

    // The entry of a task, where its files are told by that.
    fn entry_of_paths(&self, task: TaskRef) -> Option<ByteString> {
        let job = self.state.jobs.get(&task.job)?;
        let submit = job.submits.get(job.submit_of(task.task)? as usize)?;
        submit.entry_of(task.task).filter(|_| submit.task.has_paths_of_entry()).map(<[u8]>::to_vec)
    }

    fn next_of_read(&self, read: &OutputRead) -> Result<Next, RequestError> {
        let TaskRef { job: id, task } = read.task;
        let job = self.state.jobs.get(&id).ok_or(RequestError::NoJob(id))?;
        let (Some(state), Some(submit)) = (job.state_of(task), job.submit_of(task)) else {
            return Err(RequestError::NoTask(id, task));
        };
        let run = self.running.of(id, task);
        let instance = run.map_or_else(|| job.instance_of(task), |run| run.instance);
        let is_known = read.seen == Seen::All(instance);
        let spec = &job.submits[submit as usize].task;
        if *spec.sink(read.channel) == OutputSink::None {
            return Ok(Next::Tell(instance, OutputState::Nowhere));
        }
        Ok(match (shown_state(state, run.is_some()), run) {
            (TaskState::Running, Some(_)) if is_known => Next::Wait(instance, OutputState::Complete),
            (TaskState::Running, Some(run)) => match self.who_shows(run.worker) {
                Ok(connection) => Next::Ask(run.worker, connection, instance),
                Err(Some(reason)) => Next::Tell(instance, OutputState::Unreadable(reason)),
                Err(None) => Next::Wait(instance, OutputState::Away(run.worker)),
            },
            (TaskState::Running | TaskState::Waiting, _) => Next::Wait(instance, OutputState::Waits),
            _ if is_known || !read.even_ended => Next::Tell(instance, OutputState::Ended),
            _ => match self.ran_on(id, read.task).map(|worker| (worker, self.who_shows(worker))) {
                Some((worker, Ok(connection))) => Next::Ask(worker, connection, instance),
                Some((_, Err(Some(reason)))) => Next::Tell(instance, OutputState::Unreadable(reason)),
                Some((worker, Err(None))) => {
                    let text = format!("worker {worker}, which ran it, is not connected");
                    Next::Tell(instance, OutputState::Unreadable(text))
                }
                None => {
                    let text = "it is not known which worker ran it".to_owned();
                    Next::Tell(instance, OutputState::Unreadable(text))
                }
            },
        })
    }

    // The connection of a worker that can say what its tasks print; nothing, or why it never can.
    fn who_shows(&self, worker: WorkerId) -> Result<ConnectionId, Option<String>> {
        let live = self.live.get(&worker).ok_or(None)?;
        let connection = live.connection.ok_or(None)?;
        match live.shows {
            true => Ok(connection),
            false => Err(Some(format!("worker {worker} is of an earlier release, which cannot show it"))),
        }
    }

    // The worker of the last attempt of a task that has ended.
    fn ran_on(&self, id: JobId, task: TaskRef) -> Option<WorkerId> {
        let detail = self.state.details.find(id, &IdSet::single(task.task));
        let failed = || self.state.jobs.get(&id)?.failures.get(&task.task)?.1.worker;
        detail.get(&task.task).map(|detail| detail.worker).or_else(failed)
    }
}

fn drop_read(connection: ConnectionId, number: u64, effects: &mut Vec<Effect>) {
    effects.push(Effect::ToWorker { connection, message: ToWorker::DropRead { number }, gate: Gate::Open });
}

fn tell(asked: Asked, instance: Instance, state: OutputState, effects: &mut Vec<Effect>) {
    let output = Output { instance, offset: 0, length: 0, bytes: Vec::new(), state };
    answer(asked, ClientResponse::Output(output), effects);
}

// What is told of states waits for the disk: a client must never see what a crash could undo.
fn answer((connection, request): Asked, body: ClientResponse, effects: &mut Vec<Effect>) {
    effects.push(Effect::Answer { connection, request, body, gate: Gate::Shown });
}
