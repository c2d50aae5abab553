//! Which part of what is known of jobs and workers a client is told at once.

use hq_model::{IdSet, JobId};

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
