//! Jobs that are submitted together, by one request: all of them are there in the end, or none.
//!
//! Each is a draft until the last one is complete, and one record closes them all. So a server that is killed before that finds
//! drafts, which are dropped, and none of their tasks has begun.

use std::sync::Arc;

use hq_model::dependency::After;
use hq_model::job::Target;
use hq_model::object::{ObjectRef, ObjectTask};
use hq_model::{InputObject, JobId, JobSpec, Submit, TaskId, Timestamp};

use super::Effect;
use super::machine::{Answer, Server};
use crate::client_messages::{ClientResponse, NewJob, NewTasks, RequestError};
use crate::feed::FeedChange;
use crate::limits::{JOBS_MAX, RESUBMIT_SUBMITS_MAX, SUBMITS_MAX};
use crate::mark;
use crate::record::{Record, RequestKey};

// What was made so far.
#[derive(Default)]
struct Group {
    // The jobs that were asked for.
    jobs: Vec<JobId>,
    // Those that are drafts: they, or their generators and reducers.
    drafts: Vec<JobId>,
    // The last job before them.
    last: Option<JobId>,
    warnings: Vec<String>,
}

impl Server {
    /// Makes several jobs, each of which may wait for those before it. Generators and reducers are tasks of jobs of their own,
    /// with numbers below that of the job.
    pub(super) fn submit_jobs(
        &mut self,
        now: Timestamp,
        key: RequestKey,
        jobs: &[NewJob],
        effects: &mut Vec<Effect>,
    ) -> Answer {
        if let Some((_, ids)) = self.state.answered.get(&key)
            && ids.iter().all(|id| self.state.jobs.contains_key(&JobId(id.0)))
        {
            let jobs = ids.iter().map(|id| JobId(id.0)).collect();
            return Ok(ClientResponse::JobsSubmitted { jobs, warnings: Vec::new() });
        }
        if self.is_stopping() {
            return Err(RequestError::Stopping);
        }
        check_jobs(jobs)?;
        let last = self.state.last_of_users();
        let mut group = Group { last, ..Group::default() };
        for job in jobs {
            if let Err(error) = self.add_job(now, job, &mut group, effects) {
                self.take_back_jobs(now, &group, effects);
                return Err(match jobs {
                    [_] => error,
                    _ => RequestError::Invalid(format!("Job `{}`: {error}", job.spec.name)),
                });
            }
        }
        let mut records: Vec<Record> =
            group.drafts.iter().map(|job| Record::JobClosed { job: *job }).collect();
        if key != 0 {
            let ids = group.jobs.iter().map(|job| TaskId(job.0)).collect();
            let job = group.jobs.last().copied().unwrap_or_default();
            records.push(Record::Answered { key, job, ids });
        }
        self.record(now, Record::Together { records }, effects);
        for job in group.drafts {
            let ids = self.state.jobs[&job].ids.clone();
            self.make_ready(job, &ids);
        }
        Ok(ClientResponse::JobsSubmitted { jobs: group.jobs, warnings: group.warnings })
    }

    fn add_job(
        &mut self,
        now: Timestamp,
        job: &NewJob,
        group: &mut Group,
        effects: &mut Vec<Effect>,
    ) -> Result<(), RequestError> {
        match &job.tasks {
            NewTasks::Submits(submits) => {
                let behind = submits.iter().map(|submit| behind(submit, job, group));
                let submits = behind.collect::<Result<Vec<Submit>, RequestError>>()?;
                let id = self.add_draft(now, &job.spec, &submits, group, effects)?;
                group.jobs.push(id);
            }
            NewTasks::Fed { generator, reducer } => {
                let generator = behind(generator, job, group)?;
                let mut own = Vec::new();
                for submit in [Some(&generator), reducer.as_deref()].into_iter().flatten() {
                    let Target::New(spec) = &submit.target else {
                        return Err(invalid("A generator and a reducer have jobs of their own."));
                    };
                    let id = self.add_draft(now, spec, std::slice::from_ref(submit), group, effects)?;
                    own.push(id);
                    if self.state.jobs[&id].ids.len() != 1 {
                        return Err(invalid("A generator and a reducer are one task each."));
                    }
                }
                let id = JobId(self.state.last_job.0 + 1);
                let made = FeedChange::Made { generator: own[0], reducer: own.get(1).copied() };
                let opened = Record::JobOpened { job: id, key: 0, spec: job.spec.clone() };
                let records = vec![opened, Record::Feed { job: id, change: Box::new(made) }];
                self.record(now, Record::Together { records }, effects);
                group.jobs.push(id);
            }
        }
        Ok(())
    }

    fn add_draft(
        &mut self,
        now: Timestamp,
        spec: &JobSpec,
        submits: &[Submit],
        group: &mut Group,
        effects: &mut Vec<Effect>,
    ) -> Result<JobId, RequestError> {
        let id = JobId(self.state.last_job.0 + 1);
        let spec = JobSpec { is_draft: true, ..spec.clone() };
        self.record(now, Record::JobOpened { job: id, key: 0, spec }, effects);
        group.drafts.push(id);
        for some in submits.chunks(SUBMITS_MAX) {
            self.add_all(now, 0, id, some, Vec::new(), effects)?;
        }
        // What is true of these is most likely true of the rest.
        for warning in self.warnings_of(now, &submits[..submits.len().min(SUBMITS_MAX)]) {
            if !group.warnings.contains(&warning) {
                group.warnings.push(warning);
            }
        }
        Ok(id)
    }

    fn take_back_jobs(&mut self, now: Timestamp, group: &Group, effects: &mut Vec<Effect>) {
        // The last ones first: none of them then waits for one that is gone.
        let fed = group.jobs.iter().filter(|job| !group.drafts.contains(job));
        for job in fed {
            self.record(now, Record::JobClosed { job: *job }, effects);
            self.forget_job(now, *job, effects);
        }
        for job in group.drafts.iter().rev() {
            self.drop_draft(now, *job, effects);
        }
    }

    /// What a server that was killed has begun to make and told nobody of: jobs whose generators or reducers are drafts, which
    /// are dropped after a while.
    pub(super) fn forget_half_fed(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let is_draft = |id: &JobId| self.state.jobs.get(id).is_some_and(|job| job.is_draft());
        let of_drafts = self.state.feeders.iter().filter(|(own, _)| is_draft(own));
        let half: std::collections::BTreeSet<JobId> = of_drafts.map(|(_, job)| *job).collect();
        for job in half {
            mark!("a draft waits for a half made fed job", self.is_waited_for_by_draft(job));
            self.record(now, Record::JobClosed { job }, effects);
            self.forget_job(now, job, effects);
        }
    }

    fn is_waited_for_by_draft(&self, job: JobId) -> bool {
        let mut drafts = self.state.jobs.values().filter(|other| other.is_draft());
        drafts.any(|draft| {
            let mut all = draft.submits.iter().flat_map(|submit| &submit.dependencies.after);
            all.any(|after| after.job == job)
        })
    }
}

fn check_jobs(jobs: &[NewJob]) -> Result<(), RequestError> {
    if jobs.is_empty() || jobs.len() > JOBS_MAX {
        let count = jobs.len();
        return Err(invalid(&format!("A request makes 1 to {JOBS_MAX} jobs, and not {count}.")));
    }
    let mut submits = 0;
    for (place, job) in jobs.iter().enumerate() {
        super::requests::check_name(&job.spec)?;
        if job.after.iter().any(|after| after.job.0 as usize >= place) {
            return Err(invalid("A job of a request waits for those before it, and for no others."));
        }
        if job.takes.iter().any(|taken| taken.job as usize >= place) {
            return Err(invalid("A job of a request takes objects of those before it, and of no others."));
        }
        match &job.tasks {
            NewTasks::Fed { .. } if !job.takes.is_empty() => {
                return Err(invalid("A generator takes objects that are there, and none of its request."));
            }
            NewTasks::Submits(of_job) if of_job.is_empty() => {
                return Err(invalid(&format!("Job {} of the request has no tasks.", place + 1)));
            }
            NewTasks::Submits(of_job) => submits += of_job.len(),
            NewTasks::Fed { .. } => submits += 2,
        }
    }
    if submits > RESUBMIT_SUBMITS_MAX {
        return Err(invalid(&format!(
            "The jobs of one request have {RESUBMIT_SUBMITS_MAX} different tasks and arrays at most, and not {submits}: \
             submit them in several."
        )));
    }
    Ok(())
}

// A submit that waits for other jobs of the request, or takes what they leave: those are named by their places. What it calls
// the last job is the last one before the request, and none that is made for it.
fn behind(submit: &Submit, job: &NewJob, group: &Group) -> Result<Submit, RequestError> {
    let mut submit = submit.clone();
    submit.spec = super::objects::with_last(&submit.spec, group.last)?;
    if submit.dependencies.after.iter().any(|after| after.job == After::LAST) {
        let last = group.last.ok_or(RequestError::NoJobs)?;
        let dependencies = Arc::make_mut(&mut submit.dependencies);
        dependencies
            .after
            .iter_mut()
            .filter(|after| after.job == After::LAST)
            .for_each(|after| after.job = last);
    }
    if !job.after.is_empty() {
        let named =
            job.after.iter().map(|after| After { job: group.jobs[after.job.0 as usize], ..after.clone() });
        Arc::make_mut(&mut submit.dependencies).after.extend(named);
    }
    if !job.takes.is_empty() {
        let taken = job.takes.iter().map(|taken| {
            let job = Some(group.jobs[taken.job as usize]);
            let from = ObjectRef { job, task: ObjectTask::One(TaskId(0)), name: taken.name.clone() };
            InputObject::in_place(taken.name.clone(), from)
        });
        Arc::make_mut(&mut submit.spec).input_objects.extend(taken);
    }
    Ok(submit)
}

fn invalid(text: &str) -> RequestError {
    RequestError::Invalid(text.to_owned())
}
