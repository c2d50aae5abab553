//! What users talk about: ids, intervals, resources, requests, durations, task and job specs, and
//! their grammar.
//!
//! Everything here is plain data with a parser and a printer. No IO, no clock, no serialization
//! framework: the same types are read by the command line, the wire, the journal and the core.

pub mod allocation;
pub mod amount;
pub mod body;
pub mod broadcast;
pub mod channel;
pub mod checksum;
pub mod compression;
pub mod counted;
pub mod dependency;
pub mod duration;
pub mod entries;
pub mod entry;
pub mod fit;
pub mod ids;
pub mod idset;
pub mod job;
pub mod json;
pub mod key;
pub mod left_behind;
pub mod making;
pub mod memory;
pub mod node_share;
pub mod notice;
pub mod object;
pub mod pace;
pub mod paths;
pub mod pattern;
pub mod pulled;
pub mod request;
pub mod resources;
pub mod result;
pub mod sample;
pub mod selector;
pub mod signal;
pub mod similar;
pub mod sink;
pub mod state;
pub mod task;
pub mod task_sample;
pub mod time;
pub mod usage;
pub mod worker;

/// Bytes that are usually text. Arguments, paths, environment and entries on Unix need not be
/// UTF-8, and a runtime has no business refusing them.
pub type ByteString = Vec<u8>;

pub use allocation::AllocationRef;
pub use amount::Amount;
pub use body::Body;
pub use channel::Channel;
pub use compression::{Compression, ZstdLevel};
pub use counted::{counted, counted_are};
pub use dependency::Dependencies;
pub use entries::Entries;
pub use entry::Entry;
pub use ids::{Attempt, Epoch, Instance, JobId, QueueId, TaskId, TaskRef, WorkerId};
pub use idset::IdSet;
pub use job::{JobSpec, JobState, Submit};
pub use notice::{Notice, NoticeRule, NoticeTarget};
pub use object::{InputObject, ObjectId, ObjectName, OutputObject};
pub use pace::Pace;
pub use request::{AmountRequest, Policy, Request, ResourceRequest};
pub use resources::{PoolKind, ResourcePool, WorkerResources};
pub use sample::NodeSample;
pub use sink::{OnClose, OutputSink, Stream};
pub use state::TaskState;
pub use task::TaskSpec;
pub use task_sample::{TaskLoad, TaskSample, TasksSample};
pub use time::Timestamp;
pub use usage::Usage;
