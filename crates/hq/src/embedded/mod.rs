//! A server with workers that live as long as this process, for `hq run` and `hq make`: on this machine, and on the other
//! nodes of the batch job that it is in.
//!
//! What they share lies in a private directory that is removed at the end. What is to outlive them, the server's journal,
//! may lie in a directory that stays.

mod cluster;
mod leftovers;
mod nodes;
mod numbering;
mod room;
mod state;

pub(crate) use cluster::{Cluster, ClusterOptions, Workers, interrupted_twice};
pub(crate) use nodes::nodes_of_batch_job;
pub(crate) use numbering::Number;
pub(crate) use room::check_fits;
pub(crate) use state::StateDir;
