//! What a generator makes is there once and in its order, and what a reducer has in its state is in it once.

use std::collections::{BTreeMap, BTreeSet};

use hq_core::feed::{Feed, FeedState};
use hq_core::mark;
use hq_core::server::state::State;
use hq_core::server::state::job::Job;
use hq_model::job::FedEnd;
use hq_model::{IdSet, JobId};

use crate::feeders::command_of;

/// What was said to those that feed and drain jobs.
#[derive(Debug, Default)]
pub struct Feeds {
    // How many tasks were made, and which are in the state of the reducer.
    told: BTreeMap<JobId, (u64, IdSet)>,
    // Whose generator was told that its last tasks are made. One that a user closes has those that were there.
    complete: BTreeSet<JobId>,
}

/// The so many-th line of any generator, from 0.
pub fn line(number: u64) -> Vec<u8> {
    format!("line {number}").into_bytes()
}

impl Feeds {
    /// A generator or a reducer is told how its job is: so it stays. `is_last` says that it is the answer to a generator's last
    /// tasks.
    pub fn told(&mut self, state: &FeedState, is_last: bool) {
        if is_last {
            self.complete.insert(state.job);
        } else {
            mark!("a half closed job is looked at", state.is_open && state.feed.is_decomposed);
        }
        self.told.insert(state.job, (state.made, state.feed.reduced.clone()));
    }

    /// Looks at a state that is on disk.
    ///
    /// # Errors
    /// Names a job of which something is missing or there twice.
    pub fn check(&self, state: &State) -> Result<(), String> {
        for (id, job, feed) in fed(state) {
            let made = job.ids.len();
            let wrong = |what: String| Err(format!("job {id}, which is fed: {what}"));
            if made > 0 && job.ids != IdSet::range(0, (made - 1) as u32) {
                return wrong(format!("its {made} tasks are {}", job.ids));
            }
            if let Some(early) = feed.reduced.intersection(&job.alive()).first() {
                return wrong(format!("task {early} is in the state of its reducer, and has not ended"));
            }
            let counted = feed.state.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
            if counted != feed.reduced.to_string() {
                return wrong(format!("its reducer has counted {counted}, and these are {}", feed.reduced));
            }
            let cursor = feed.cursor.as_deref().map(String::from_utf8_lossy);
            if feed.cursor_at > made || cursor.is_some_and(|cursor| cursor != feed.cursor_at.to_string()) {
                return wrong(format!(
                    "it has {made} tasks, and the place {:?}",
                    (&feed.cursor, feed.cursor_at)
                ));
            }
            if let Some((told, reduced)) = self.told.get(&id)
                && (*told > made || !feed.reduced.contains_all(reduced))
            {
                return wrong(format!(
                    "{told} tasks and {reduced} in the state of the reducer were acknowledged, and there are {made} and {}",
                    feed.reduced
                ));
            }
        }
        Ok(())
    }

    /// When all is over.
    ///
    /// # Errors
    /// The same, and when tasks are not those of the lines, or not in the state of a reducer that has finished.
    pub fn last_look(&self, state: &State) -> Result<(), String> {
        self.check(state)?;
        for (id, job, feed) in fed(state) {
            let made = job.ids.len();
            for task in job.ids.iter() {
                let submit = job.submit_of(task).map(|at| &job.submits[at as usize]);
                if submit.is_some_and(|submit| submit.entries_gone.contains(task)) {
                    continue;
                }
                let entry = submit.and_then(|submit| submit.entry_of(task));
                if entry != Some(line(u64::from(task.0)).as_slice()) {
                    return Err(format!("task {task} of job {id} is of another line: {entry:?}"));
                }
            }
            if feed.end == FedEnd::Enough {
                continue;
            }
            let generator = state.jobs.get(&feed.generator);
            if let Some((_, lines)) =
                generator.and_then(|own| own.submits.first()).and_then(|submit| command_of(&submit.task))
                && (made > lines || (self.complete.contains(&id) && made != lines))
            {
                return Err(format!("job {id} has {made} tasks of {lines} lines"));
            }
            let reducer = feed.reducer.and_then(|own| state.jobs.get(&own));
            if reducer.is_some_and(|own| !own.finished.is_empty()) && feed.reduced != job.ids {
                let (all, reduced) = (&job.ids, &feed.reduced);
                return Err(format!("the reducer of job {id} has finished with {reduced} of {all}"));
            }
        }
        Ok(())
    }
}

fn fed(state: &State) -> impl Iterator<Item = (JobId, &Job, &Feed)> {
    state.jobs.iter().filter_map(|(id, job)| Some((*id, job, job.feed.as_deref()?)))
}
