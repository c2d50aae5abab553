//! What a running task may put itself back behind: nothing that waits for it.

use std::collections::{BTreeMap, VecDeque};

use hq_model::dependency::{After, Mapping};
use hq_model::{IdSet, JobId, TaskRef};

use super::Readiness;
use super::artifact::Standing;
use super::missing::unresolved;
use super::wanted::after_of;
use crate::client_messages::RequestError;
use crate::limits::{DEFER_SEARCH_MAX, DEPENDENCIES_MAX, NAMED_TASKS_MAX};
use crate::server::state::State;

impl Readiness {
    /// Checks what a task is to wait for, and says it in the form that is kept.
    pub(in crate::server) fn deferral_of(
        &self,
        state: &State,
        task: TaskRef,
        after: &[After],
    ) -> Result<Vec<After>, RequestError> {
        if after.is_empty() || after.len() > DEPENDENCIES_MAX {
            let text = format!("A task is put back behind 1 to {DEPENDENCIES_MAX} jobs or sets of tasks.");
            return Err(RequestError::Invalid(text));
        }
        let ids = IdSet::single(task.task);
        let after = after.iter().map(|after| match after.mapping {
            Mapping::All => after_of(state, task.job, &ids, after),
            Mapping::Window(_) => {
                Err(RequestError::Invalid("One task cannot wait element by element.".into()))
            }
        });
        let after: Vec<After> = after.collect::<Result<_, _>>()?;
        self.check_not_behind_itself(state, task, &after)?;
        Ok(after)
    }

    /// True when nothing of a dependency is left to wait for.
    pub(in crate::server) fn is_over(&self, state: &State, after: &After) -> bool {
        Standing::of_after(state, after).is_available()
    }

    // Nothing of what it is to wait for may wait for it, or for something that does.
    fn check_not_behind_itself(
        &self,
        state: &State,
        goal: TaskRef,
        after: &[After],
    ) -> Result<(), RequestError> {
        let mut search = Search { goal, from: BTreeMap::new(), next: VecDeque::new() };
        for after in after {
            if let Some(job) = state.jobs.get(&after.job) {
                self.go_on(&mut search, goal, after.job, after.tasks.as_ref().unwrap_or(&job.ids))?;
            }
        }
        while let Some(task) = search.next.pop_front() {
            for (job, open) in unresolved(state, task.job, task.task) {
                self.go_on(&mut search, task, job, &open)?;
            }
        }
        Ok(())
    }

    // `by` waits for these tasks.
    fn go_on(&self, search: &mut Search, by: TaskRef, job: JobId, ids: &IdSet) -> Result<(), RequestError> {
        let goal = search.goal;
        if job == goal.job && ids.contains(goal.task) {
            return Err(RequestError::Cycle(goal.job, search.path(by)));
        }
        // Those that wait for nothing lead nowhere.
        let Some(blocked) = self.blocked(job) else { return Ok(()) };
        for task in ids.intersection(blocked).iter() {
            let task = TaskRef::new(job, task);
            if search.from.contains_key(&task) {
                continue;
            }
            if search.from.len() >= DEFER_SEARCH_MAX {
                let text = format!(
                    "More than {DEFER_SEARCH_MAX} waiting tasks would go before task {goal}: whether one of them waits \
                     for it is not looked for. Put it back behind fewer."
                );
                return Err(RequestError::Invalid(text));
            }
            search.from.insert(task, by);
            search.next.push_back(task);
        }
        Ok(())
    }
}

// A search for a task among what others wait for.
struct Search {
    goal: TaskRef,
    // Which task led to each that was found.
    from: BTreeMap<TaskRef, TaskRef>,
    next: VecDeque<TaskRef>,
}

impl Search {
    // Who waits for whom, from the task that is looked for to itself; the last but one is `by`.
    fn path(&self, by: TaskRef) -> String {
        let shown = |task: TaskRef| {
            if task.job == self.goal.job { task.task.to_string() } else { task.to_string() }
        };
        let mut words = vec![shown(self.goal), shown(by)];
        let mut at = by;
        while let Some(before) = self.from.get(&at) {
            at = *before;
            words.push(shown(at));
        }
        if words.len() > NAMED_TASKS_MAX {
            words.truncate(NAMED_TASKS_MAX);
            words.extend(["…".to_owned(), shown(self.goal)]);
        }
        words.reverse();
        words.join(" -> ")
    }
}
