//! How batch systems are spoken to: scripts, commands and the reading of what they answer. Blocking, without
//! opinions: when to ask for nodes is decided elsewhere.
//!
//! Slurm and PBS are built in; other managers are described by a file. All of them take an [`AllocationRequest`],
//! give an id for it and answer for many ids at once. A submission whose answer was lost can be found again by name
//! and directory.

mod command;
mod described;
mod description;
mod error;
pub mod limits;
mod manager;
mod others;
mod pbs;
mod pbs_output;
mod quote;
mod request;
mod script;
mod slurm;
mod slurm_output;

pub use error::BatchError;
pub use manager::{Left, Manager, exit_left, left};
pub use others::Nodes;
pub use request::{AllocationRequest, BatchState, Granted, JobReport, NodeShape};
