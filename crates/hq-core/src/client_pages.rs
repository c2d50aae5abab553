//! Which part of what is known of jobs and workers a client is told at once.

use hq_model::{IdSet, JobId, TaskState, Timestamp};

use crate::client_messages::TaskInfo;
use crate::measures::Measures;

/// A page of what is known of jobs. It holds as many submits as fit, and leaves out what their tasks read from standard
/// input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobPage {
    /// Only the submits of these tasks, as far as there are such tasks, and of their tasks only these: without any, jobs
    /// are told without submits. Tasks that no worker could run are not counted then.
    pub tasks: Option<IdSet>,
    /// Begin here: the `next` of the page before.
    pub from: Option<PageStart>,
}

/// Where a page of what is known of jobs begins. Only the server knows what the number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageStart {
    /// A job.
    pub job: JobId,
    /// A place in it.
    pub place: u32,
}

impl PageStart {
    /// All about a job, from its beginning.
    pub fn of(job: JobId) -> PageStart {
        PageStart { job, place: 0 }
    }
}

/// Which workers a list shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerFilter {
    /// Connected ones and others.
    All,
    /// Connected ones.
    #[default]
    Running,
    /// The others.
    Offline,
}

/// Tasks that differ in their ids, and in when they started and what they used, only.
#[derive(Clone, Debug, PartialEq)]
pub struct AlikeTasks {
    /// Their job.
    pub job: JobId,
    /// Which they are.
    pub ids: IdSet,
    /// What they have in common; the id and the times stand for nobody where there are `measures`.
    pub common: TaskInfo,
    /// When each started, and unless it runs, for how long and what it used.
    pub measures: Option<Measures>,
}

impl AlikeTasks {
    /// The tasks one by one, ascending.
    pub fn into_tasks(self) -> impl Iterator<Item = TaskInfo> {
        let AlikeTasks { ids, common, measures, .. } = self;
        let mut measures = measures.map(Measures::into_measured);
        ids.into_ids().map(move |task| {
            let mut info = TaskInfo { task, ..common.clone() };
            if let Some((started, usage)) = measures.as_mut().and_then(Iterator::next) {
                info.started = Some(started);
                if info.state != TaskState::Running {
                    info.ended = Some(Timestamp(started.0.saturating_add(usage.wall_us)));
                    info.usage = Some(usage);
                }
            }
            info
        })
    }
}
