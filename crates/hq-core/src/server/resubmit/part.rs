//! A part of a submit as a submit of its own: the same tasks with their entries and keys, and what of their dependencies
//! is still to be waited for.

use hq_model::dependency::{After, Condition, Dependencies, Edges, Mapping};
use hq_model::job::{Target, TaskIds};
use hq_model::object::ObjectTask;
use hq_model::{Entries, IdSet, JobId, Submit, TaskId, TaskSpec, TaskState};

use crate::client_messages::RequestError;
use crate::server::job::{Job, SubmitState};
use crate::server::state::State;

/// Some tasks of a submit that are to be submitted again.
pub(in crate::server) struct Part<'a> {
    /// Where everything is.
    pub state: &'a State,
    /// The job they belong to.
    pub old: JobId,
    /// The job they will belong to.
    pub new: JobId,
    /// All tasks of the old job that are submitted again.
    pub chosen: &'a IdSet,
    /// The submit.
    pub submit: &'a SubmitState,
    /// Those that came with it.
    pub ids: IdSet,
}

// Intervals of tasks that are named in an error.
const RANGES_NAMED: usize = 8;

/// The ids of a part.
pub(super) fn ids_of(part: &Submit) -> &IdSet {
    static NONE: IdSet = IdSet::new();
    match &part.ids {
        TaskIds::Given(ids) => ids,
        TaskIds::Next(_) => &NONE,
    }
}

/// Bytes that a part will take.
pub(super) fn bytes_of(part: &Submit) -> usize {
    let state = SubmitState {
        ids: ids_of(part).clone(),
        entries: part.entries.clone(),
        entries_gone: IdSet::new(),
        keys: part.keys.clone(),
        dependencies: part.dependencies.clone(),
        task: part.spec.clone(),
        submit_dir: part.submit_dir.clone(),
        submitted: Default::default(),
    };
    state.bytes()
}

impl Part<'_> {
    /// The submit that makes them again.
    ///
    /// # Errors
    /// When one of them waits for a task that is not chosen and did not end well, or its entry is not kept any more.
    pub(super) fn submit(&self) -> Result<Submit, RequestError> {
        let gone = self.ids.intersection(&self.submit.entries_gone);
        if let Some(task) = gone.first() {
            let what = if self.submit.task.body.is_pulled() { "payload" } else { "entry" };
            let mut kept = self.ids.clone();
            kept.subtract(&gone);
            let choice = match kept.range_count() {
                0 => "submit its work as a new job".to_owned(),
                1..=RANGES_NAMED => format!("choose among those that have theirs (--tasks {kept})"),
                _ => format!(
                    "choose among those that have theirs, {} of them from task {} on (--tasks)",
                    kept.len(),
                    kept.first().unwrap_or(task)
                ),
            };
            return Err(RequestError::Invalid(format!(
                "The {what} of task {task} of job {} is not kept any more ({} of {} chosen tasks): of finished tasks only the \
                 latest are kept; {choice}",
                self.old,
                gone.len(),
                self.ids.len()
            )));
        }
        let known = &self.submit.dependencies;
        let dependencies = if known.is_empty() { known.clone() } else { self.dependencies()?.into() };
        let mut spec = self.submit.task.clone();
        if spec.body.is_pulled() {
            // They are asked for by their bag.
            for request in &mut std::sync::Arc::make_mut(&mut spec).requests {
                let tags: Vec<&str> = request.tags().collect();
                request.resources = hq_model::Request::pulled(self.new, &tags).resources;
            }
        }
        if spec.input_objects.iter().any(|input| input.from.job.is_none()) {
            self.take_from_old(std::sync::Arc::make_mut(&mut spec));
        }
        Ok(Submit {
            target: Target::Open(self.new),
            entries: self.entries(),
            keys: self.picked(&self.submit.keys),
            ids: TaskIds::Given(self.ids.clone()),
            dependencies,
            spec,
            submit_dir: self.submit.submit_dir.clone(),
        })
    }

    /// The entries of its tasks.
    pub(in crate::server) fn entries(&self) -> Entries {
        self.submit.entries_of(&self.ids)
    }

    // Objects of tasks that are not submitted again are those of the old job.
    fn take_from_old(&self, spec: &mut TaskSpec) {
        for input in spec.input_objects.iter_mut().filter(|input| input.from.job.is_none()) {
            let is_again = matches!(input.from.task, ObjectTask::One(task) if self.chosen.contains(task));
            if !is_again {
                input.from.job = Some(self.old);
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.ids.len() == self.submit.ids.len()
    }

    // The places of these tasks in their submit, as intervals.
    fn places(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ids.ranges().map(|range| {
            let first = self.submit.ids.rank(TaskId(*range.start())).unwrap_or(0);
            (first, first + u64::from(range.end() - range.start()))
        })
    }

    fn picked(&self, texts: &Entries) -> Entries {
        if self.is_whole() || texts.is_empty() {
            return texts.clone();
        }
        let places = self.places().flat_map(|(first, last)| first..=last);
        // They are no more than there were.
        Entries::new(places.filter_map(|place| texts.get(place as usize))).unwrap_or_default()
    }

    fn dependencies(&self) -> Result<Dependencies, RequestError> {
        let known = &self.submit.dependencies;
        let mut edges = self.edges()?;
        let mut after = Vec::new();
        for one in &known.after {
            if one.job != self.old {
                after.extend(self.after_other(one));
                continue;
            }
            let targets = self.targets(one);
            let kept = self.still_to_come(&targets, one.condition)?;
            let again = After { tasks: Some(kept.clone()), ..After::of(self.new) };
            let again = After { condition: one.condition, ..again };
            match one.mapping {
                _ if kept.is_empty() => {}
                // Place by place as before: all of both sides, or one for one.
                Mapping::Window(_) if self.is_whole() && kept == *one.tasks.as_ref().unwrap_or(&kept) => {
                    after.push(After { mapping: one.mapping, ..again });
                }
                Mapping::Window(0) if kept == targets => after.push(After { mapping: one.mapping, ..again }),
                Mapping::Window(size) if one.condition == Condition::Success => {
                    let lists = edges.get_or_insert_with(|| vec![Vec::new(); self.ids.len() as usize]);
                    self.add_window(lists, one, size);
                }
                // It may wait for some more than it has to.
                Mapping::All | Mapping::Window(_) => after.push(again),
            }
        }
        let edges = edges.and_then(Edges::new).unwrap_or_default();
        Ok(Dependencies { after, files: known.files.clone(), edges, ..Dependencies::default() })
    }

    // What each task waits for alone, as far as it is made again.
    fn edges(&self) -> Result<Option<Vec<Vec<TaskId>>>, RequestError> {
        let edges = &self.submit.dependencies.edges;
        if edges.is_empty() {
            return Ok(None);
        }
        let places = self.places().flat_map(|(first, last)| first..=last);
        let mut lists = Vec::with_capacity(self.ids.len() as usize);
        for (task, place) in self.ids.iter().zip(places) {
            let mut list = Vec::new();
            for target in edges.of(place as usize) {
                if self.chosen.contains(*target) {
                    list.push(*target);
                } else if !self.is_done(*target, Condition::Success) {
                    return Err(self.refused(task, *target));
                }
            }
            lists.push(list);
        }
        Ok(Some(lists))
    }

    // Of a dependency on tasks of the same job, those that these tasks waited for.
    fn targets(&self, after: &After) -> IdSet {
        let Some(tasks) = &after.tasks else { return IdSet::new() };
        match after.mapping {
            Mapping::All => tasks.clone(),
            Mapping::Window(_) if self.is_whole() => tasks.clone(),
            Mapping::Window(size) => {
                let size = u64::from(size);
                let windows = self
                    .places()
                    .map(|(first, last)| tasks.slice(first.saturating_sub(size), last.saturating_add(size)));
                let mut all = IdSet::new();
                windows.for_each(|window| all.union_with(&window));
                all
            }
        }
    }

    // Those of the targets that are made again.
    fn still_to_come(&self, targets: &IdSet, condition: Condition) -> Result<IdSet, RequestError> {
        let rest = targets.difference(self.chosen);
        let Some(job) = self.job() else { return Ok(IdSet::new()) };
        let mut bad = rest.difference(&job.finished);
        if condition == Condition::AnyEnd {
            bad = bad.intersection(&job.alive());
        }
        for service in job.submits.iter().filter(|submit| submit.task.service) {
            bad.union_with(&service.ids.intersection(&rest));
        }
        match (bad.first(), self.ids.first()) {
            (Some(target), Some(task)) => Err(self.refused(task, target)),
            _ => Ok(targets.intersection(self.chosen)),
        }
    }

    fn add_window(&self, lists: &mut [Vec<TaskId>], after: &After, size: u32) {
        let Some(tasks) = &after.tasks else { return };
        let size = u64::from(size);
        let places = self.places().flat_map(|(first, last)| first..=last);
        for (list, place) in lists.iter_mut().zip(places) {
            let window = tasks.slice(place.saturating_sub(size), place.saturating_add(size));
            list.extend(window.intersection(self.chosen).iter());
            list.sort_unstable();
            list.dedup();
        }
    }

    // A dependency on another job, as far as these tasks have it. What is forgotten has ended as wished.
    fn after_other(&self, after: &After) -> Option<After> {
        self.state.jobs.get(&after.job)?;
        let mapping = match after.mapping {
            Mapping::Window(size) if size > 0 && !self.is_whole() => Mapping::All,
            mapping => mapping,
        };
        let tasks = after.tasks.as_ref().map(|_| self.targets(after));
        Some(After { tasks, mapping, ..after.clone() })
    }

    fn job(&self) -> Option<&Job> {
        self.state.jobs.get(&self.old)
    }

    // True when a task that is not made again is not to be waited for. A service would be found gone.
    fn is_done(&self, task: TaskId, condition: Condition) -> bool {
        let Some(job) = self.job() else { return true };
        let is_service = job.submit_of(task).is_some_and(|index| job.submits[index as usize].task.service);
        let state = job.state_of(task);
        let has_ended = match condition {
            Condition::Success => state == Some(TaskState::Finished),
            Condition::AnyEnd => state.is_some_and(TaskState::is_terminal),
        };
        has_ended && !is_service
    }

    fn refused(&self, task: TaskId, target: TaskId) -> RequestError {
        let state = self.job().and_then(|job| job.state_of(target));
        let what = match state {
            Some(TaskState::Failed) => "which failed",
            Some(TaskState::Canceled) => "which was canceled",
            Some(TaskState::Aborted) => "which was aborted",
            Some(TaskState::Finished) => "a service that has ended",
            _ => "which has not ended",
        };
        RequestError::Invalid(format!(
            "Task {task} of job {} waits for task {target}, {what} and is not to be submitted again. Choose it, too \
             (--tasks), or leave out what waits for it.",
            self.old
        ))
    }
}
