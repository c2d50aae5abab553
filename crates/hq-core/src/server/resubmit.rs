//! The same tasks once more: those of a job that ended without success, or others of it, as a new job.
//!
//! The submits of the old job are taken as they were, restricted to the tasks that are chosen: so a million tasks of one
//! array are one interval again. What becomes of it are ordinary records of submits.

mod part;

use hq_model::job::Target;
use hq_model::making::{directory_of, mark_among};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, JobSpec, Submit, TaskState, Timestamp};

pub(super) use self::part::Part;
use super::Effect;
use super::job::Job;
use super::machine::{Answer, Server};
use crate::client_messages::{ClientResponse, RequestError};
use crate::limits::{RESUBMIT_SUBMITS_MAX, SUBMITS_BYTES_MAX, SUBMITS_MAX};
use crate::record::{Record, RequestKey};

/// What is chosen when nothing is said: all that ended without success.
const UNSUCCESSFUL: [TaskState; 3] = [TaskState::Failed, TaskState::Canceled, TaskState::Aborted];

impl Server {
    /// Submits tasks of a job again, as a new job: those in these states, or these.
    pub(super) fn resubmit(
        &mut self,
        now: Timestamp,
        key: RequestKey,
        (jobs, tasks, states): (&Selector, Option<&IdSet>, &[TaskState]),
        effects: &mut Vec<Effect>,
    ) -> Answer {
        if let Some((job, ids)) = self.state.answered.get(&key) {
            return Ok(submitted(*job, ids.clone(), Vec::new()));
        }
        if self.is_stopping() {
            return Err(RequestError::Stopping);
        }
        let old = self.one_job(jobs)?;
        let chosen = self.chosen(old, tasks, states)?;
        self.check_nobody_makes(old, &chosen)?;
        self.check_goes_on(old)?;
        let new = JobId(self.state.last_job.0 + 1);
        let mut submits = self.parts_of(old, &chosen, new)?;
        self.check_parts(new, &submits)?;
        let spec = JobSpec { is_draft: false, ..self.state.jobs[&old].spec.clone() };
        if submits.len() == 1 {
            let mut submit = submits.remove(0);
            submit.target = Target::New(spec.clone());
            let (ids, warnings) = self.add_tasks(now, key, new, Some(spec), &submit, effects)?;
            self.go_on_as(now, old, new, effects);
            return Ok(submitted(new, ids, warnings));
        }
        let warnings = self.add_parts(now, key, (new, spec), &submits, effects)?;
        Ok(submitted(new, chosen, warnings))
    }

    fn one_job(&self, jobs: &Selector) -> Result<JobId, RequestError> {
        let selected = self.select_jobs(jobs).map_err(|error| match error {
            RequestError::NoJob(job) if (1..=self.state.last_job.0).contains(&job.0) => {
                RequestError::Forgotten(job)
            }
            error => error,
        })?;
        match selected[..] {
            [job] => Ok(job),
            _ => Err(RequestError::Invalid("Tasks of one job at a time are submitted again.".into())),
        }
    }

    // The tasks that are to be submitted again.
    fn chosen(&self, id: JobId, tasks: Option<&IdSet>, states: &[TaskState]) -> Result<IdSet, RequestError> {
        let invalid = |text: String| Err(RequestError::Invalid(text));
        let job = &self.state.jobs[&id];
        let states = if states.is_empty() && tasks.is_none() { &UNSUCCESSFUL[..] } else { states };
        let mut chosen = self.tasks_in(id, job, states);
        if let Some(tasks) = tasks {
            if let Some(unknown) = tasks.difference(&job.ids).first() {
                return Err(RequestError::NoTask(id, unknown));
            }
            chosen = chosen.intersection(tasks);
        }
        if let Some(task) = chosen.intersection(&job.alive()).first() {
            return invalid(format!(
                "Task {task} of job {id} has not ended: only tasks that have ended are submitted again. Wait for it, or \
                 cancel it."
            ));
        }
        if chosen.is_empty() {
            let alive = job.alive().len();
            let open = match alive {
                0 => String::new(),
                1 => " One task has not ended yet.".to_owned(),
                count => format!(" {count} tasks have not ended yet."),
            };
            let stalled =
                self.why_stalled(id).map_or_else(String::new, |why| format!(" It is stalled: {why}."));
            let ended = ended_as(states);
            let text = format!("Nothing to resubmit: no task of job {id} {ended}.{open}{stalled}");
            return Err(RequestError::NothingToDo(text));
        }
        Ok(chosen)
    }

    // Tasks of `hq make` write files that have names: two that make the same ones must not run at once.
    fn check_nobody_makes(&self, old: JobId, chosen: &IdSet) -> Result<(), RequestError> {
        let mark_of = |job: &Job| Some(mark_among(&job.submits.first()?.task.env)?.to_vec());
        let Some(mark) = self.state.jobs.get(&old).and_then(mark_of) else { return Ok(()) };
        for (id, job) in self.state.jobs.iter().filter(|(id, _)| **id != old) {
            // Those of one submit are known by their numbers.
            let busy = match mark_of(job) {
                Some(other) if other == mark => job.alive().intersection(chosen),
                Some(other) if directory_of(&other) == directory_of(&mark) => job.alive(),
                _ => continue,
            };
            if !busy.is_empty() {
                let have = if busy.len() == 1 { "has" } else { "have" };
                return Err(RequestError::Invalid(format!(
                    "Job {id} is making the same files as job {old}: {} of its tasks {have} not ended. Wait for it \
                     with `hq job wait {id}`, or end it with `hq job cancel {id}`.",
                    busy.len()
                )));
            }
        }
        Ok(())
    }

    // The submits of the old job, as far as they are about the chosen tasks.
    fn parts_of(&self, old: JobId, chosen: &IdSet, new: JobId) -> Result<Vec<Submit>, RequestError> {
        let job = &self.state.jobs[&old];
        let parts = job.by_submit(chosen);
        if parts.len() > RESUBMIT_SUBMITS_MAX {
            let count = parts.len();
            return Err(RequestError::Invalid(format!(
                "These tasks came with {count} submits, of which {RESUBMIT_SUBMITS_MAX} at most are repeated at once. \
                 Choose fewer tasks with --tasks, or submit them as they were submitted first."
            )));
        }
        let part = |(index, ids): (u32, IdSet)| {
            let submit = &job.submits[index as usize];
            Part { state: &self.state, old, new, chosen, submit, ids }.submit()
        };
        parts.into_iter().map(part).collect()
    }

    // Refuses what would be refused half-way.
    fn check_parts(&self, new: JobId, submits: &[Submit]) -> Result<(), RequestError> {
        let mut wanted = 0;
        for submit in submits {
            wanted += part::bytes_of(submit);
            let mut others = hq_model::Dependencies::clone(&submit.dependencies);
            others.edges = Default::default();
            others.after.retain(|after| after.job != new);
            if !others.is_empty() {
                self.dependencies_of(new, part::ids_of(submit), &others)?;
            }
        }
        let held = self.state.held_bytes();
        if held + wanted > SUBMITS_BYTES_MAX {
            return Err(RequestError::Full { held: held as u64, wanted: wanted as u64 });
        }
        Ok(())
    }

    // Several submits go into a draft, which counts when it is closed: so all of them are there after a crash, or none.
    fn add_parts(
        &mut self,
        now: Timestamp,
        key: RequestKey,
        (job, spec): (JobId, JobSpec),
        submits: &[Submit],
        effects: &mut Vec<Effect>,
    ) -> Result<Vec<String>, RequestError> {
        let spec = JobSpec { is_draft: true, ..spec };
        self.record(now, Record::JobOpened { job, key: 0, spec }, effects);
        for some in submits.chunks(SUBMITS_MAX) {
            if let Err(error) = self.add_all(now, 0, job, some, Vec::new(), effects) {
                self.drop_draft(now, job, effects);
                return Err(error);
            }
        }
        let ids = self.state.jobs[&job].ids.clone();
        let mut records = vec![Record::JobClosed { job }];
        if key != 0 {
            records.push(Record::Answered { key, job, ids: ids.clone() });
        }
        self.record(now, Record::Together { records }, effects);
        self.make_ready(job, &ids);
        // What is true of these is most likely true of the rest.
        Ok(self.warnings_of(now, &submits[..submits.len().min(SUBMITS_MAX)]))
    }
}

fn submitted(job: JobId, ids: IdSet, warnings: Vec<String>) -> ClientResponse {
    ClientResponse::Submitted { job, ids, existing: Vec::new(), warnings }
}

// What none of the tasks did, as `failed, was canceled or aborted`.
fn ended_as(states: &[TaskState]) -> String {
    let mut said_was = false;
    let words = states.iter().map(|state| match state {
        TaskState::Finished | TaskState::Failed => state.word().to_owned(),
        _ if std::mem::replace(&mut said_was, true) => state.word().to_owned(),
        _ => format!("was {}", state.word()),
    });
    let mut words: Vec<String> = words.collect();
    match (words.pop(), words.is_empty()) {
        (None, _) => "was named".to_owned(),
        (Some(last), true) => last,
        (Some(last), false) => format!("{} or {last}", words.join(", ")),
    }
}
