//! What tasks wait for, and how it stands, told from the durable state alone.

use hq_model::dependency::{After, Condition};
use hq_model::job::FedEnd;
use hq_model::{IdSet, JobId, TaskId, TaskRef, TaskState};

use crate::mark;
use crate::server::job::Job;
use crate::server::state::State;

/// Something that becomes available, or never will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Artifact<'a> {
    /// A task has ended: well, or anyhow. A service is available once it is ready, whatever becomes of it.
    Task(TaskRef, Condition),
    /// All tasks of a job have ended, and no more will come.
    Job(JobId, Condition),
    /// A file that tasks of a job wait for was found.
    File(JobId, &'a [u8]),
}

/// How an artifact stands. What is available stays available, and what will never be never will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// It is there.
    Available,
    /// It may come.
    Open,
    /// It ended in another way than wished.
    Never(TaskState),
}

impl Artifact<'_> {
    /// How it stands. A job that is forgotten has ended as wished: otherwise the tasks that wait would have ended with it.
    pub(super) fn status(&self, state: &State) -> Status {
        match *self {
            Artifact::Task(TaskRef { job, task }, condition) => {
                state.jobs.get(&job).map_or(Status::Available, |job| of_task(job, task, condition))
            }
            Artifact::Job(job, condition) => {
                let Some(job) = state.jobs.get(&job) else { return Status::Available };
                let status = of_job(job, condition);
                mark!(
                    "a fed job is over and its generator is not",
                    status != Status::Open && is_fed_on(state, job)
                );
                status
            }
            Artifact::File(job, path) => match state.jobs.get(&job) {
                Some(job) if !job.files.contains(path) => Status::Open,
                _ => Status::Available,
            },
        }
    }
}

fn of_task(job: &Job, task: TaskId, condition: Condition) -> Status {
    if job.ready.contains_key(&task) {
        return Status::Available;
    }
    match job.state_of(task) {
        None | Some(TaskState::Finished) => Status::Available,
        Some(TaskState::Waiting | TaskState::Running) => Status::Open,
        Some(_) if condition == Condition::AnyEnd => Status::Available,
        Some(ended) => Status::Never(ended),
    }
}

fn of_job(job: &Job, condition: Condition) -> Status {
    let ended = bad_end_of(job).or_else(|| is_given_up(job).then_some(TaskState::Aborted));
    match ended.filter(|_| condition == Condition::Success) {
        Some(ended) => Status::Never(ended),
        None if job.has_ended() => Status::Available,
        None => Status::Open,
    }
}

/// How the tasks of a dependency stand, as intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Standing {
    /// Those that are available.
    pub(super) available: IdSet,
    /// Those that may be.
    pub(super) open: IdSet,
    /// Those that never will be, by how they ended; with no ids where tasks were never made.
    pub(super) never: Vec<(TaskState, IdSet)>,
    /// A job is waited for that may get more tasks.
    pub(super) may_grow: bool,
}

impl Standing {
    /// How what a dependency asks for stands. Of a whole job, each task has to end: that it is ready is not enough.
    pub(super) fn of_after(state: &State, after: &After) -> Standing {
        let Some(job) = state.jobs.get(&after.job) else { return Standing::default() };
        let mut standing = match &after.tasks {
            Some(tasks) => Standing::of_tasks(job, tasks, after.condition, job.ready_services()),
            None => Standing::of_tasks(job, &job.ids, after.condition, IdSet::new()),
        };
        if after.tasks.is_none() {
            standing.may_grow = job.is_open;
            if has_enough(job) {
                let unwanted = standing.never.extract_if(.., |(ended, _)| *ended == TaskState::Canceled);
                unwanted.for_each(|(_, ids)| standing.available.union_with(&ids));
            }
            if is_given_up(job) && after.condition == Condition::Success {
                standing.never.push((TaskState::Aborted, IdSet::new()));
            }
        }
        standing
    }

    /// How single tasks of a job stand whose success is waited for.
    pub(super) fn of_targets(job: &Job, tasks: &IdSet) -> Standing {
        Standing::of_tasks(job, tasks, Condition::Success, job.ready_services())
    }

    /// True when nothing is left to wait for.
    pub(super) fn is_available(&self) -> bool {
        self.open.is_empty() && self.never.is_empty() && !self.may_grow
    }

    /// Those that are not available.
    pub(super) fn missing(&self) -> IdSet {
        let mut missing = self.open.clone();
        self.never.iter().for_each(|(_, ids)| missing.union_with(ids));
        missing
    }

    // Tasks that are not there are forgotten, or were never promised.
    fn of_tasks(job: &Job, tasks: &IdSet, condition: Condition, ready: IdSet) -> Standing {
        let mut available = job.finished.intersection(tasks);
        if !ready.is_empty() {
            available.union_with(&ready.intersection(tasks));
        }
        let mut never = Vec::new();
        for (state, ended) in bad_ends(job) {
            let ended = ended.intersection(tasks).difference(&ready);
            if ended.is_empty() {
                continue;
            }
            match condition {
                Condition::AnyEnd => available.union_with(&ended),
                Condition::Success => never.push((state, ended)),
            }
        }
        let mut open = tasks.intersection(&job.ids).difference(&available);
        never.iter().for_each(|(_, ended)| open.subtract(ended));
        Standing { available, open, never, may_grow: false }
    }
}

fn is_fed_on(state: &State, job: &Job) -> bool {
    let generator = job.feed.as_ref().and_then(|feed| state.jobs.get(&feed.generator));
    generator.is_some_and(|generator| !generator.tasks_ended())
}

/// True when not all tasks of a job were made or reduced.
pub(super) fn is_given_up(job: &Job) -> bool {
    matches!(job.fed_end(), FedEnd::Canceled | FedEnd::Aborted | FedEnd::Failed)
}

/// True when the reducer of a job wants no more of its tasks: those that were canceled are no want of success of the job.
pub(super) fn has_enough(job: &Job) -> bool {
    job.fed_end() == FedEnd::Enough
}

/// How tasks of a job ended, if that is no success of the whole of it.
pub(super) fn bad_end_of(job: &Job) -> Option<TaskState> {
    let mut ends = bad_ends(job).into_iter().filter(|(_, ids)| !ids.is_empty()).map(|(ended, _)| ended);
    ends.find(|ended| *ended != TaskState::Canceled || !has_enough(job))
}

/// Tasks of a job that ended without success, by how.
pub(super) fn bad_ends(job: &Job) -> [(TaskState, &IdSet); 3] {
    [
        (TaskState::Failed, &job.failed),
        (TaskState::Canceled, &job.canceled),
        (TaskState::Aborted, &job.aborted),
    ]
}

#[cfg(test)]
mod tests {
    use hq_model::{JobSpec, Timestamp};

    use super::*;
    use crate::record::JobProgress;

    // Seven tasks: waiting, leased, finished, failed, canceled, aborted; the last is a service that was ready and failed.
    fn state(is_open: bool) -> State {
        let mut job = Job::new(JobSpec::default(), is_open, Timestamp(0));
        job.ids = IdSet::range(0, 6);
        job.resume(&JobProgress {
            is_open,
            leased: [(hq_model::WorkerId(1), IdSet::single(TaskId(1)))].into(),
            finished: IdSet::single(TaskId(2)),
            failed: [TaskId(3), TaskId(6)].into_iter().collect(),
            canceled: IdSet::single(TaskId(4)),
            abort_reasons: vec![(IdSet::single(TaskId(5)), String::new())],
            ready: [(TaskId(6), b"there".to_vec())].into(),
            ..JobProgress::default()
        });
        let mut state = State::default();
        state.jobs.insert(JobId(1), job);
        state
    }

    #[test]
    fn intervals_of_tasks_stand_as_each_of_them_does() {
        let state = state(false);
        for condition in [Condition::Success, Condition::AnyEnd] {
            let tasks = Some(IdSet::range(0, 9));
            let standing = Standing::of_after(&state, &After { tasks, condition, ..After::of(JobId(1)) });
            for task in (0..7).map(TaskId) {
                let status = Artifact::Task(TaskRef::new(JobId(1), task), condition).status(&state);
                let expected = match status {
                    Status::Available => &standing.available,
                    Status::Open => &standing.open,
                    Status::Never(ended) => &standing.never.iter().find(|never| never.0 == ended).unwrap().1,
                };
                assert!(expected.contains(task), "{task}: {status:?}, {standing:?}");
            }
            assert_eq!(standing.open.len() + standing.available.len() + standing.never.len() as u64, 7);
        }
    }

    #[test]
    fn a_job_is_available_when_it_can_change_no_more() {
        let check = |condition, is_open, expected| {
            let mut state = state(is_open);
            assert_eq!(Artifact::Job(JobId(2), condition).status(&state), Status::Available, "forgotten");
            if let Some(job) = state.jobs.get_mut(&JobId(1)) {
                let progress = JobProgress { leased: Default::default(), ..JobProgress::clone(job) };
                job.ids = IdSet::range(2, 6);
                job.resume(&progress);
            }
            assert_eq!(of_job(&state.jobs[&JobId(1)], condition), expected);
        };
        check(Condition::AnyEnd, true, Status::Open);
        check(Condition::AnyEnd, false, Status::Available);
        check(Condition::Success, false, Status::Never(TaskState::Failed));
    }
}
