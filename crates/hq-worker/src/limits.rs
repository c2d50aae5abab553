//! Every limit of the worker process, with its name and what happens when it is reached.

use std::time::Duration;

/// Most threads of the launcher that start tasks. Each is blocked while a new process gets to its
/// `exec`; more of them do not start more tasks a second, but one that hangs on a dead file system
/// leaves the others working.
pub const SPAWNERS_MAX: usize = 4;
/// Orders and reports larger than this travel to and from the launcher in an anonymous file, in bytes.
pub const PACKET_MAX: usize = 48 << 10;
/// Most reports in one packet from the launcher; more make another packet.
pub const REPORTS_PER_PACKET: usize = 256;
/// Most orders handed to the kernel in one call.
pub const ORDERS_PER_CALL: usize = 64;
/// Buffers between worker and launcher, in bytes, each way; full ones make the sender wait.
pub const LAUNCHER_BUFFER: usize = 1 << 20;
/// Attempts to make a process while the system says that there are too many.
pub const FORK_ATTEMPTS: u32 = 10;
/// Pause between these attempts.
pub const FORK_PAUSE: Duration = Duration::from_millis(20);
/// Attempts to start one task with a directory made in between.
pub const DIRECTORY_ATTEMPTS: u32 = 8;
/// How long the launcher goes on killing what its tasks left behind after the worker has died.
pub const CLEANUP_LIMIT: Duration = Duration::from_secs(5);
/// Pause between two looks at what is left then.
pub const CLEANUP_PAUSE: Duration = Duration::from_millis(5);
