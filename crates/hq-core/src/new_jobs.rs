//! Jobs that clients have made together.

use hq_model::dependency::After;
use hq_model::{JobSpec, Submit};

/// One of several jobs that are made together.
#[derive(Clone, Debug, PartialEq)]
pub struct NewJob {
    /// Name and limits.
    pub spec: JobSpec,
    /// Jobs of the same request that it waits for: `job` of each is a place there, from 0, before its own.
    pub after: Vec<After>,
    /// Its tasks.
    pub tasks: NewTasks,
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
