//! Jobs that clients have made together.

use hq_model::dependency::After;
use hq_model::{JobSpec, ObjectName, Submit};

/// One of several jobs that are made together.
#[derive(Clone, Debug, PartialEq)]
pub struct NewJob {
    /// Name and limits.
    pub spec: JobSpec,
    /// Jobs of the same request that it waits for: `job` of each is a place there, from 0, before its own.
    pub after: Vec<After>,
    /// What its tasks take of jobs of the same request.
    pub takes: Vec<TakenBroadcast>,
    /// Its tasks.
    pub tasks: NewTasks,
}

/// An object of the only task of a job of the same request, for all tasks of another one: they find it below their directory of
/// broadcasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenBroadcast {
    /// The place of that job in the request, from 0, before that of those that take it.
    pub job: u32,
    /// The name of the object, for both.
    pub name: ObjectName,
}

/// The tasks of a new job.
#[derive(Clone, Debug, PartialEq)]
pub enum NewTasks {
    /// These.
    Submits(Vec<Submit>),
    /// Those that a generator makes. It and the reducer are each one task of a new job.
    Fed {
        /// Makes the tasks.
        generator: Box<Submit>,
        /// Takes their results.
        reducer: Option<Box<Submit>>,
    },
}
