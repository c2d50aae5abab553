//! The worker process: the shell around [`hq_core::worker`].
//!
//! It executes programs through a small process of its own ([`launcher`]) and lets the machine decide.

pub mod launcher;
pub mod limits;
