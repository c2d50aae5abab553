//! The worker process: the shell around [`hq_core::worker`].
//!
//! It executes programs through a small process of its own ([`launcher`]), talks to the server, and lets the
//! machine decide.

mod environment;
pub mod launcher;
pub mod limits;
mod link;
pub mod notify;
pub mod options;
mod outputs;
mod prepare;
mod run;
mod supervise;
mod workdir;

pub use options::{Interrupts, ServerSource, WorkerError, WorkerOptions};
pub use run::run;
