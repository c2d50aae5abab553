//! Every limit on what a peer may say, beyond the size of its frames. A message over one of them is refused.
//!
//! They are far above what anyone asks for; limits that users meet are the core's.

/// Longest name of a job, resource, group, host or directory in bytes.
pub const NAME_BYTES_MAX: usize = 4096;
/// Most resources in one request, and most pools of one worker.
pub const RESOURCES_MAX: usize = 1024;
/// Longest address of a GPU, bytes.
pub const GPU_ID_BYTES_MAX: usize = 256;
/// Most indices in one pool.
pub const INDICES_MAX: u64 = 1 << 20;
/// Most tasks that a worker says it has started in a message about its present state.
pub const HELD_RUNNING_MAX: u64 = 1 << 20;
/// Largest multiple of its own length that a message may need in memory once it is decoded.
pub const MEMORY_FACTOR_MAX: usize = 24;
/// The same of a message of pulled tasks: of those that have nothing but a name of a few letters there may be many.
pub const PULL_MEMORY_FACTOR_MAX: usize = 64;
/// So much memory any message may need beyond that: a thousand jobs of a few words each take more than their words.
pub const MEMORY_FREE: usize = 4 << 20;
/// Shorter messages are decoded whatever they need.
pub const MEMORY_UNCHECKED_MAX: usize = 16 << 10;
