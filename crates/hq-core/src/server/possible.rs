//! What of a request is possible. Of the jobs, workers and tasks that a request names, those that are not there, or in no state
//! for it, are named beside the answer, and the rest is done.

use std::collections::BTreeSet;

use hq_model::job::Target;
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, ObjectId, TaskId, WorkerId};

use super::ConnectionId;
use super::machine::Server;
use crate::client_messages::{ClientRequest, ClientResponse, RequestError};
use crate::limits::REFUSED_MAX;
use crate::object_messages::ObjectRequest;

/// Why parts of a request are refused.
#[derive(Debug, Default)]
pub(super) struct Refused {
    errors: Vec<RequestError>,
    // Those for which there is no room.
    others: u64,
    // Nothing is left of what it names.
    is_nothing_left: bool,
}

impl Refused {
    fn add(&mut self, error: RequestError) {
        if self.errors.len() < REFUSED_MAX {
            self.errors.push(error);
        } else {
            self.others += 1;
        }
    }

    fn add_unknown(&mut self, unknown: &IdSet, error: impl Fn(TaskId) -> RequestError) {
        let told = REFUSED_MAX - self.errors.len();
        self.errors.extend(unknown.iter().take(told).map(error));
        self.others += unknown.len().saturating_sub(told as u64);
    }

    /// The whole answer, beside what is answered to the rest.
    pub(super) fn beside(self, rest: ClientResponse) -> ClientResponse {
        partly(self.told(), rest)
    }

    // When nothing is possible. The error of the whole is one of those that are told.
    fn alone(mut self) -> ClientResponse {
        let Some(last) = self.errors.pop() else { return ClientResponse::Done };
        partly(self.errors, ClientResponse::Error(with_others(last, self.others)))
    }

    fn told(mut self) -> Vec<RequestError> {
        if let Some(last) = self.errors.pop() {
            self.errors.push(with_others(last, self.others));
        }
        self.errors
    }
}

// The last of those that are told, with how many there are beside them.
fn with_others(last: RequestError, others: u64) -> RequestError {
    if others == 0 { last } else { RequestError::OneOfMany { error: Box::new(last), others } }
}

fn partly(refused: Vec<RequestError>, rest: ClientResponse) -> ClientResponse {
    if refused.is_empty() { rest } else { ClientResponse::Partly { refused, rest: Box::new(rest) } }
}

impl Server {
    /// Takes what is not possible out of a request.
    ///
    /// # Errors
    /// The answer when nothing is left.
    pub(super) fn possible(
        &self,
        connection: ConnectionId,
        mut body: ClientRequest,
    ) -> Result<(ClientRequest, Refused), Box<ClientResponse>> {
        let mut refused = Refused::default();
        match &mut body {
            ClientRequest::CloseJobs { jobs } => self.keep_jobs(jobs, &mut refused, |id| {
                if !self.state.jobs[&id].is_open {
                    return Some(RequestError::JobNotOpen(id));
                }
                self.refuse_others_draft(connection, id).err()
            }),
            ClientRequest::Submit { submit, .. } => self.keep_open(connection, &submit.target, &mut refused),
            ClientRequest::SubmitAll { submits, .. } => {
                for submit in submits.iter().take(1) {
                    self.keep_open(connection, &submit.target, &mut refused);
                }
            }
            ClientRequest::SetBudget { jobs, .. } => self.keep_jobs(jobs, &mut refused, |id| {
                let job = &self.state.jobs[&id];
                let why = if job.spec.budget.is_none() {
                    "was submitted without --budget, so what it uses is not counted: only a job with a budget can be given \
                     another one"
                } else if job.has_ended() {
                    "has ended: there is nothing left in it that could use a budget; submit what is to run again as another job"
                } else {
                    return None;
                };
                Some(RequestError::Invalid(format!("Job {id} {why}.")))
            }),
            ClientRequest::ForgetJobs { jobs, .. } => {
                self.keep_jobs(jobs, &mut refused, |id| match self.taker_of(id) {
                    _ if !self.state.jobs[&id].has_ended() => Some(RequestError::JobAlive(id)),
                    Some(taker) => Some(RequestError::Invalid(format!(
                        "Job {id} is needed by job {taker}, which takes its objects and has not ended."
                    ))),
                    None => None,
                })
            }
            ClientRequest::Cancel { jobs, tasks, .. }
            | ClientRequest::Results { jobs, tasks, .. }
            | ClientRequest::ListTasks { jobs, tasks, .. } => {
                self.keep_jobs(jobs, &mut refused, |_| None);
                if let (Some(tasks), false) = (tasks, refused.is_nothing_left) {
                    self.keep_tasks(jobs, tasks, &mut refused);
                }
            }
            ClientRequest::JobInfo { jobs, .. }
            | ClientRequest::TaskIds { jobs, .. }
            | ClientRequest::JobFailures { jobs, .. }
            | ClientRequest::ExplainJobs { jobs }
            | ClientRequest::WatchJobs { jobs, .. } => self.keep_jobs(jobs, &mut refused, |_| None),
            // A later page is of those that the first one was of.
            ClientRequest::Objects(ObjectRequest::List { jobs, after: None, .. }) => {
                self.keep_jobs(jobs, &mut refused, |_| None);
            }
            ClientRequest::ListWorkers { workers, .. } => {
                self.keep_workers(workers, &mut refused, |_| None);
            }
            ClientRequest::StopWorkers { workers, drain } => {
                self.keep_workers(workers, &mut refused, |worker| match self.live.get(&worker) {
                    None => Some(RequestError::WorkerEnded(worker)),
                    Some(live) if *drain && live.connection.is_none() => {
                        Some(RequestError::WorkerAway { worker, until: live.lost_at })
                    }
                    Some(_) => None,
                });
            }
            ClientRequest::Objects(ObjectRequest::Keep(objects)) => {
                keep_objects(objects, &mut refused, |object| self.check_stored(object));
            }
            ClientRequest::Objects(ObjectRequest::Drop(objects)) => {
                keep_objects(objects, &mut refused, |object| self.check_droppable(object));
            }
            _ => {}
        }
        if refused.is_nothing_left { Err(Box::new(refused.alone())) } else { Ok((body, refused)) }
    }

    fn keep_jobs(
        &self,
        jobs: &mut Selector,
        refused: &mut Refused,
        refusal: impl Fn(JobId) -> Option<RequestError>,
    ) {
        let known = self.state.jobs.keys().map(|job| TaskId(job.0));
        let last = self.state.last_of_users().map(|job| TaskId(job.0));
        keep(jobs, (known, last), refused, |id| RequestError::NoJob(JobId(id.0)), |id| refusal(JobId(id.0)));
    }

    // A request goes to one job, or is refused later.
    fn keep_open(&self, connection: ConnectionId, target: &Target, refused: &mut Refused) {
        if let Target::Open(job) = target
            && let Err(error) = self.refuse_others_draft(connection, *job)
        {
            refused.add(error);
            refused.is_nothing_left = true;
        }
    }

    fn keep_workers(
        &self,
        workers: &mut Selector,
        refused: &mut Refused,
        refusal: impl Fn(WorkerId) -> Option<RequestError>,
    ) {
        let known = self.state.workers.keys().map(|worker| TaskId(worker.0));
        let last = known.clone().next_back();
        let unknown = |id: TaskId| RequestError::NoWorker(WorkerId(id.0));
        keep(workers, (known, last), refused, unknown, |id| refusal(WorkerId(id.0)));
    }

    // Tasks that none of these jobs has are taken out; each job names those that it does not have.
    fn keep_tasks(&self, jobs: &Selector, tasks: &mut IdSet, refused: &mut Refused) {
        let Ok(jobs) = self.select_jobs(jobs) else { return };
        let mut kept = IdSet::new();
        for id in jobs {
            let unknown = tasks.difference(&self.state.jobs[&id].ids);
            refused.add_unknown(&unknown, |task| RequestError::NoTask(id, task));
            kept.union_with(&tasks.difference(&unknown));
        }
        refused.is_nothing_left = kept.is_empty() && !refused.errors.is_empty();
        *tasks = kept;
    }
}

fn keep_objects(
    objects: &mut Vec<ObjectId>,
    refused: &mut Refused,
    check: impl Fn(&ObjectId) -> Result<(), RequestError>,
) {
    let mut seen = BTreeSet::new();
    objects.retain(|object| seen.insert(object.clone()));
    objects.retain(|object| check(object).map_err(|error| refused.add(error)).is_ok());
    refused.is_nothing_left = objects.is_empty();
}

// Takes out of a list of ids those that are not known or are refused. `last` becomes the id that it means.
fn keep(
    selector: &mut Selector,
    (known, last): (impl Iterator<Item = TaskId>, Option<TaskId>),
    refused: &mut Refused,
    unknown: impl Fn(TaskId) -> RequestError,
    refusal: impl Fn(TaskId) -> Option<RequestError>,
) {
    let known = match selector {
        Selector::All => return,
        Selector::Last => match last {
            Some(last) => IdSet::single(last),
            None => return,
        },
        Selector::Ids(ids) => {
            let known: IdSet = known.filter(|id| ids.contains(*id)).collect();
            refused.add_unknown(&ids.difference(&known), unknown);
            known
        }
    };
    let mut kept = IdSet::new();
    for id in known.iter() {
        match refusal(id) {
            Some(error) => refused.add(error),
            None => {
                kept.insert(id);
            }
        }
    }
    refused.is_nothing_left = kept.is_empty() && !refused.errors.is_empty();
    *selector = Selector::Ids(kept);
}
