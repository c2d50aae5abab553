//! What clients are told of ended tasks: how they ended, and what they left behind.

use hq_model::{Entries, IdSet, JobId, TaskId};

use crate::record::FailureKind;

/// What tasks of a job left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobResults {
    /// The job.
    pub job: JobId,
    /// Those that left something.
    pub ids: IdSet,
    /// What, in order of ids.
    pub results: Entries,
    /// Those of them whose results are texts; those of others are what functions left.
    pub texts: IdSet,
    /// Functions that failed, of the tasks asked about that this answer is of.
    pub failed: IdSet,
    /// Functions among these that finished, and whose results are not kept any more.
    pub dropped: IdSet,
    /// All others of these without a result.
    pub without: IdSet,
}

/// Ends of tasks of a job, some of those that are to be told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobEnds {
    /// The job.
    pub job: JobId,
    /// Ended with success.
    pub finished: IdSet,
    /// Canceled by a user.
    pub canceled: IdSet,
    /// Ended without success: which, how, and why in words.
    pub failed: Vec<(TaskId, FailureKind, String)>,
    /// Given up by the server, with the reasons.
    pub aborted: Vec<(IdSet, String)>,
    /// Finished and failed ones that left something behind that is kept.
    pub ids: IdSet,
    /// What that is, in order of ids.
    pub results: Entries,
    /// There are no more: the job is closed, and all of its tasks have ended.
    pub is_over: bool,
}
