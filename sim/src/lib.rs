//! The simulator: the real server and worker machines under virtual time, in one thread, with a network, a
//! journal and a batch of users that misbehave as a seed says.
//!
//! A run is a function of its seed and options: same seed, same story. Observers see everything that happens and say
//! which promise was broken; what takes long is looked at in some of the steps.

pub mod batch;
pub mod campaign;
pub mod canary;
pub mod clients;
mod due;
pub mod experiment;
mod fault_injection;
pub mod faults;
mod feeders;
pub mod hindsight;
pub mod ideal;
pub mod journal;
mod journal_thread;
pub mod network;
pub mod nodes;
pub mod objects;
pub mod observers;
mod processes;
mod pullers;
pub mod rng;
pub mod variety;
mod workers;
mod world;

pub use canary::Canary;
pub use world::{Failure, Options, Outcome, run};
