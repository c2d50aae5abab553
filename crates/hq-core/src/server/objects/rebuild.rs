//! Objects that no worker stores any more are left once more, where a task needs them.
//!
//! The task that left them stays finished. A job of its own runs what it ran, and what that leaves is stored in the place of
//! what was lost. Tasks that need it are put back behind that job: if it fails, they are given up as others are whose
//! dependency fails. Nothing here calls itself: what the new job needs and is lost, too, is looked at like the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use hq_model::dependency::After;
use hq_model::job::{Target, TaskIds};
use hq_model::pattern;
use hq_model::task::{CrashLimit, Rebuild};
use hq_model::{
    Body, ByteString, Dependencies, Entries, IdSet, Instance, JobId, JobSpec, ObjectId, OnClose, OutputSink,
    Submit, TaskRef, TaskSpec, TaskState, Timestamp, counted,
};

use crate::client_messages::RequestError;
use crate::limits::{ENDED_IDS_CHARS_MAX, REBUILDS_MAX};
use crate::object_messages::ObjectEnd;
use crate::record::{NEVER, Record};
use crate::server::Effect;
use crate::server::machine::Server;
use crate::server::resubmit::Part;
use crate::worker_messages::TemplateId;

/// An object that tasks need now.
struct Needed {
    object: ObjectId,
    // Where it was last.
    words: String,
    readers: BTreeMap<JobId, IdSet>,
}

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
            let mut needed = Vec::new();
            for (object, words) in lost {
                match self.check_runs_again(object.task) {
                    Ok(()) => {
                        let readers = self.ready_readers(&object);
                        if !readers.is_empty() {
                            needed.push(Needed { object, words, readers });
                        }
                    }
                    Err(why) => self.lost_for_good(now, object, &words, &why, effects),
                }
            }
            let refused = self.run_again(now, &needed, effects);
            let mut behind: BTreeMap<TaskRef, Vec<After>> = BTreeMap::new();
            for Needed { object, words, readers } in needed {
                let Some(job) = self.rebuilding(object.task) else {
                    let why = refused.get(&object.task).map_or("its task cannot run again", String::as_str);
                    self.lost_for_good(now, object, &words, why, effects);
                    continue;
                };
                let after = After { tasks: Some(IdSet::single(object.task.task)), ..After::of(job) };
                for reader in
                    readers.iter().flat_map(|(job, ids)| ids.iter().map(|id| TaskRef::new(*job, id)))
                {
                    let all = behind.entry(reader).or_default();
                    if !all.contains(&after) {
                        all.push(after.clone());
                    }
                }
            }
            for (task, after) in behind {
                self.put_behind(now, task, after, effects);
            }
        }
    }

    fn lost_for_good(
        &mut self,
        now: Timestamp,
        object: ObjectId,
        words: &str,
        why: &str,
        effects: &mut Vec<Effect>,
    ) {
        self.object_gone(now, object, ObjectEnd::Lost(format!("{words}, and {why}")), effects);
    }

    // Tasks that take an object and wait for nothing else: the others find out when they do not any more. Those that are
    // tried again later need not wait for that.
    fn ready_readers(&self, object: &ObjectId) -> BTreeMap<JobId, IdSet> {
        let mut readers = self.waiting_readers(object);
        readers.retain(|job, ids| {
            let delayed = self.state.jobs.get(job).into_iter().flat_map(|job| &job.delayed);
            for (task, _) in delayed.filter(|(_, at)| **at == NEVER) {
                ids.remove(*task);
            }
            if let Some(blocked) = self.readiness.blocked(*job) {
                ids.subtract(blocked);
            }
            !ids.is_empty()
        });
        readers
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
        if self.rebuilding(task).is_some() {
            return Ok(());
        }
        let job = self.state.jobs.get(&task.job);
        let submit = job.and_then(|job| Some(&job.submits[job.submit_of(task.task)? as usize]));
        let Some(submit) = submit else { return Err(format!("job {} has been forgotten", task.job)) };
        if submit.task.body == Body::Given {
            return Err("a client gave it, which no task can do again".to_owned());
        }
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
            true => Err(format!("it was lost again after it had been left {} more", counted(count, "time"))),
            false => Ok(()),
        }
    }

    // Has all that left what is needed run again: what came with one submit as one job. Tells of which tasks that could not
    // be, and why.
    fn run_again(
        &mut self,
        now: Timestamp,
        needed: &[Needed],
        effects: &mut Vec<Effect>,
    ) -> BTreeMap<TaskRef, String> {
        let mut tasks: BTreeMap<TemplateId, IdSet> = BTreeMap::new();
        for TaskRef { job: id, task } in needed.iter().map(|needed| needed.object.task) {
            let submit = self.state.jobs.get(&id).and_then(|job| job.submit_of(task));
            let is_idle = self.rebuilding(TaskRef::new(id, task)).is_none();
            if let Some(submit) = submit.filter(|_| is_idle) {
                tasks.entry(TemplateId { job: id, submit }).or_default().insert(task);
            }
        }
        let mut refused = BTreeMap::new();
        for (template, ids) in tasks {
            if self.has_arguments(template) {
                refused.extend(self.call_again(now, template, &ids, effects));
                continue;
            }
            if self.submit_again(now, template, &ids, effects).is_ok() {
                continue;
            }
            // What one of them takes may be gone.
            for task in ids.iter() {
                if let Err(why) = self.submit_again(now, template, &IdSet::single(task), effects) {
                    refused.insert(TaskRef::new(template.job, task), why);
                }
            }
        }
        refused
    }

    // True for calls among whose arguments are results of others.
    fn has_arguments(&self, template: TemplateId) -> bool {
        let submit = &self.state.jobs[&template.job].submits[template.submit as usize];
        submit.task.body.is_packed_call() && !submit.dependencies.is_empty()
    }

    // Calls what finished calls of one submit called, as one job: each call waits for others. Tells of which could not be, and why.
    fn call_again(
        &mut self,
        now: Timestamp,
        template: TemplateId,
        ids: &IdSet,
        effects: &mut Vec<Effect>,
    ) -> Vec<(TaskRef, String)> {
        let new = JobId(self.state.last_job.0 + 1);
        let name = format!("rebuild {}@{}", template.job, shown(ids));
        let mut refused = Vec::new();
        for task in ids.iter() {
            let mut again = self.again(new, template, &IdSet::single(task));
            let after = self.state.jobs[&template.job].dependencies_of(template.job, task);
            again.dependencies = Dependencies { after, ..Dependencies::default() }.into();
            let is_first = !self.state.jobs.contains_key(&new);
            let spec = is_first.then(|| JobSpec { name: name.clone(), ..JobSpec::default() });
            if let Err(error) = self.add_tasks(now, 0, new, spec, &again, effects) {
                refused.push((TaskRef::new(template.job, task), not_again(&error)));
            }
        }
        refused
    }

    // Submits what finished tasks were, as a job of its own.
    fn submit_again(
        &mut self,
        now: Timestamp,
        template: TemplateId,
        ids: &IdSet,
        effects: &mut Vec<Effect>,
    ) -> Result<(), String> {
        let new = JobId(self.state.last_job.0 + 1);
        let spec = JobSpec { name: format!("rebuild {}@{}", template.job, shown(ids)), ..JobSpec::default() };
        let again = self.again(new, template, ids);
        let added = self.add_tasks(now, 0, new, Some(spec), &again, effects);
        added.map(drop).map_err(|error| not_again(&error))
    }

    // What finished tasks were, as a submit of a new job. They wait for nothing.
    fn again(&self, new: JobId, template: TemplateId, ids: &IdSet) -> Submit {
        let old = template.job;
        let job = &self.state.jobs[&old];
        let submit = &job.submits[template.submit as usize];
        let part = Part { state: &self.state, old, new, chosen: ids, submit, ids: ids.clone() };
        let left = |task| self.state.objects.of_range(old, task, task).map(|(_, _, object)| object.instance);
        let last = ids.iter().flat_map(|task| left(task).chain([job.instance_of(task)])).max();
        let instance = Instance(last.map_or(0, |last| last.0 + 1));
        Submit {
            target: Target::Open(new),
            ids: TaskIds::Given(ids.clone()),
            entries: part.entries(),
            keys: Entries::default(),
            dependencies: Arc::default(),
            spec: Arc::new(spec_of(&submit.task, old, new, instance)),
            submit_dir: submit.submit_dir.clone(),
        }
    }

    // A task that was ready waits for these.
    fn put_behind(&mut self, now: Timestamp, task: TaskRef, after: Vec<After>, effects: &mut Vec<Effect>) {
        // It may have been given up meanwhile.
        let Some(job) = self.state.jobs.get(&task.job).filter(|job| job.queued.contains(task.task)) else {
            return;
        };
        let instance = job.instance_of(task.task);
        self.make_unready(task.job, &IdSet::single(task.task));
        let record = Record::Deferred {
            job: task.job,
            task: task.task,
            instance,
            after,
            not_before: None,
            value_of: None,
        };
        self.record(now, record, effects);
    }
}

fn not_again(error: &RequestError) -> String {
    format!("its task cannot run again: {}", error.to_string().trim_end_matches('.'))
}

// Names tasks, briefly.
fn shown(ids: &IdSet) -> String {
    let text = ids.to_string();
    match (text.len() > ENDED_IDS_CHARS_MAX, ids.first()) {
        (true, Some(first)) => format!("{first} and {} more", ids.len() - 1),
        _ => text,
    }
}

// What runs again: the same program with the same inputs in the same place. What it prints goes to files of its own, and what
// else it was to leave is there already.
fn spec_of(before: &TaskSpec, old: JobId, new: JobId, instance: Instance) -> TaskSpec {
    let sink = |sink: &OutputSink, end: &str| {
        let path = match sink {
            OutputSink::None => return OutputSink::None,
            OutputSink::File { path, .. } => [path, format!(".rebuild-{new}").as_bytes()].concat(),
            OutputSink::Stream => format!("%{{CWD}}/rebuild-{new}-%{{TASK_ID}}.{end}").into_bytes(),
        };
        OutputSink::File { path, on_close: OnClose::RemoveIfFinished }
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
    // All that was replaced by the number of the job is so now: directories and files are the same.
    let same = |text: &mut ByteString| {
        *text = pattern::expand(text, &|name| (name == "JOB_ID").then(|| old.to_string().into_bytes()));
    };
    same(&mut spec.cwd);
    for sink in [&mut spec.stdout, &mut spec.stderr] {
        if let OutputSink::File { path, .. } = sink {
            same(path);
        }
    }
    if let Body::Program { args } = &mut spec.body {
        args.iter_mut().for_each(same);
    }
    spec.env.iter_mut().for_each(|(_, value)| same(value));
    spec.output_objects.iter_mut().for_each(|object| same(&mut object.path));
    for input in &mut spec.input_objects {
        input.from.job.get_or_insert(old);
        input.path.iter_mut().for_each(same);
    }
    spec
}
