//! The worker process: the shell around [`hq_core::worker`].
//!
//! It finds out what the node offers ([`discovery`]), executes programs through a small process of its own
//! ([`launcher`]), talks to the server, and lets the machine decide.

pub mod aside;
mod declared;
pub mod discovery;
pub mod enforce;
mod environment;
pub mod launcher;
pub mod limits;
mod link;
mod mpirun;
mod nodes;
pub mod notify;
pub mod objects;
pub mod options;
mod outputs;
mod parts;
mod patience;
mod prepare;
pub mod ranks;
mod reader;
mod remove;
mod results;
mod run;
mod runners;
mod sampling;
mod sinks;
mod socket;
mod staging;
mod streams;
mod supervise;
pub mod tree;
mod workdir;

pub use options::{
    Interrupts, ObjectSpill, ObjectStore, Registered, ServerSource, WorkerError, WorkerOptions,
};
pub use run::run;
