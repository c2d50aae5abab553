//! Objects that no worker stores any more are left once more, where a task needs them.
//!
//! The task that left them stays finished. A job of its own runs what it ran, and what that leaves is stored in the place of
//! what was lost. Tasks that need it are put back behind that job: if it fails, they are given up as others are whose
//! dependency fails. Nothing here calls itself: what the new job needs and is lost, too, is looked at like the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use hq_model::dependency::After;
use hq_model::job::{Target, TaskIds};
use hq_model::task::{CrashLimit, Rebuild};
use hq_model::{
    Entries, IdSet, Instance, JobId, JobSpec, ObjectId, OnClose, OutputSink, Submit, TaskRef, TaskSpec,
    TaskState, Timestamp,
};

use crate::limits::REBUILDS_MAX;
use crate::object_messages::ObjectEnd;
use crate::record::Record;
use crate::server::Effect;
use crate::server::machine::Server;
use crate::server::resubmit::Part;

/// Which tasks are to wait, and for what.
type Behind = BTreeMap<TaskRef, Vec<After>>;

impl Server {
    /// Has lost objects left once more that tasks need now; those that cannot be are gone.
    pub(super) fn rebuild_lost(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.is_stopping() || self.is_read_only() {
            return;
        }
        loop {
            let lost = self.copies.take_doubted();
            if lost.is_empty() {
                return;
            }
            let mut behind = Behind::new();
            for (object, words) in lost {
                if let Err(why) = self.rebuild(now, &object, &mut behind, effects) {
                    self.object_gone(now, object, ObjectEnd::Lost(format!("{words}, and {why}")), effects);
                }
            }
            for (task, after) in behind {
                self.put_behind(now, task, after, effects);
            }
        }
    }

    fn rebuild(
        &mut self,
        now: Timestamp,
        object: &ObjectId,
        behind: &mut Behind,
        effects: &mut Vec<Effect>,
    ) -> Result<(), String> {
        let task = object.task;
        let running = self.rebuilding(task);
        if running.is_none() {
            self.check_runs_again(task)?;
        }
        let mut waiting = self.waiting_readers(object);
        // Those that wait for something else find out when they do not any more.
        waiting.retain(|job, ids| {
            if let Some(blocked) = self.readiness.blocked(*job) {
                ids.subtract(blocked);
            }
            !ids.is_empty()
        });
        if waiting.is_empty() {
            return Ok(());
        }
        let job = match running {
            Some(job) => job,
            None => self.run_again(now, task, effects)?,
        };
        let after = After { tasks: Some(IdSet::single(task.task)), ..After::of(job) };
        for (job, ids) in waiting {
            for reader in ids.iter() {
                let all = behind.entry(TaskRef::new(job, reader)).or_default();
                if !all.contains(&after) {
                    all.push(after.clone());
                }
            }
        }
        Ok(())
    }

    /// The job that leaves the objects of a task once more.
    pub(super) fn rebuilding(&self, task: TaskRef) -> Option<JobId> {
        let is_alive = |job: &JobId| {
            self.state.task_state(TaskRef::new(*job, task.task)).is_some_and(|s| !s.is_terminal())
        };
        self.copies.rebuilds_of(task).find(is_alive)
    }

    // Says why a task cannot run again, as the end of a sentence.
    fn check_runs_again(&self, task: TaskRef) -> Result<(), String> {
        let job = self.state.jobs.get(&task.job);
        let submit = job.and_then(|job| Some(&job.submits[job.submit_of(task.task)? as usize]));
        let Some(submit) = submit else { return Err(format!("job {} has been forgotten", task.job)) };
        if submit.task.crash_limit == CrashLimit::NeverRestart {
            return Err(format!("task {task} does not run again (--crash-limit never-restart)"));
        }
        let mut count = 0;
        for job in self.copies.rebuilds_of(task) {
            count += 1;
            match self.state.task_state(TaskRef::new(job, task.task)) {
                None | Some(TaskState::Finished) => {}
                Some(state) => return Err(format!("job {job}, which was to leave it once more, is {state}")),
            }
        }
        match count >= REBUILDS_MAX {
            true => Err(format!("it was lost again after it had been left {count} times more")),
            false => Ok(()),
        }
    }

    // Submits what a finished task was, as a job of its own.
    fn run_again(
        &mut self,
        now: Timestamp,
        task: TaskRef,
        effects: &mut Vec<Effect>,
    ) -> Result<JobId, String> {
        let new = JobId(self.state.last_job.0 + 1);
        let job = &self.state.jobs[&task.job];
        let Some(submit) = job.submit_of(task.task).map(|submit| &job.submits[submit as usize]) else {
            return Err(format!("there is no task {task}"));
        };
        let ids = IdSet::single(task.task);
        let part = Part { state: &self.state, old: task.job, new, chosen: &ids, submit, ids: ids.clone() };
        let last = self.state.objects.of_task(task).iter().map(|object| object.instance).max();
        let instance = Instance(last.map_or(0, |last| last.0 + 1));
        let spec = JobSpec { name: format!("rebuild {task}"), ..JobSpec::default() };
        let again = Submit {
            target: Target::New(spec.clone()),
            ids: TaskIds::Given(ids.clone()),
            entries: part.entries(),
            keys: Entries::default(),
            dependencies: Arc::default(),
            spec: Arc::new(spec_of(&submit.task, task.job, new, instance)),
            submit_dir: submit.submit_dir.clone(),
        };
        self.add_tasks(now, 0, new, Some(spec), &again, effects)
            .map_err(|error| format!("task {task} cannot run again: {error}"))?;
        Ok(new)
    }

    // A task that was ready waits for these.
    fn put_behind(&mut self, now: Timestamp, task: TaskRef, after: Vec<After>, effects: &mut Vec<Effect>) {
        // It may have been given up meanwhile.
        let Some(job) = self.state.jobs.get(&task.job).filter(|job| job.queued.contains(task.task)) else {
            return;
        };
        let instance = job.instance_of(task.task);
        self.make_unready(task.job, &IdSet::single(task.task));
        let record = Record::Deferred { job: task.job, task: task.task, instance, after, not_before: None };
        self.record(now, record, effects);
    }
}

// What runs again: the same program with the same inputs in the same place. What it prints goes to files of its own, and what
// else it was to leave is there already.
fn spec_of(before: &TaskSpec, old: JobId, new: JobId, instance: Instance) -> TaskSpec {
    let sink = |sink: &OutputSink, end: &str| match sink {
        OutputSink::None => OutputSink::None,
        _ => {
            let path = format!("%{{CWD}}/job-{new}/%{{TASK_ID}}.{end}").into_bytes();
            OutputSink::File { path, on_close: OnClose::RemoveIfFinished }
        }
    };
    let mut spec = TaskSpec {
        rebuilds: Some(Rebuild { job: old, instance }),
        stdout: sink(&before.stdout, "stdout"),
        stderr: sink(&before.stderr, "stderr"),
        stream: None,
        compression: Default::default(),
        outputs: Vec::new(),
        result: Default::default(),
        end_by: None,
        speculate: None,
        ..before.clone()
    };
    for input in &mut spec.input_objects {
        input.from.job.get_or_insert(old);
    }
    spec
}
