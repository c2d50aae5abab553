//! Every limit of a connection, with its name and what happens when it is reached.

use std::time::Duration;

use hq_proto::Role;
use rustix::process::{Resource, getrlimit};

/// Largest frame between a client and the server; a larger one closes the connection.
pub const CLIENT_FRAME_MAX: usize = 128 << 20;
/// Largest frame between a worker and the server; a larger one closes the connection.
pub const WORKER_FRAME_MAX: usize = 64 << 20;
/// Largest frame between a puller and the server: a part of what is said at the socket of a relay, in either direction.
pub const PULLER_FRAME_MAX: usize = 64 << 10;
/// Largest frame before both sides have said their versions.
pub const HELLO_FRAME_MAX: usize = 4 << 10;
/// From the connection to the first message, and from there to an understanding; then the connection is closed.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(15);
/// Time to find one among the addresses of a host that answers, which they share evenly. It leaves time to shake hands, or
/// to look for the server on this node.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// Most connections of one listener that have not said a whole first message, where the process may have
/// files enough; else an eighth of what it may have. When one more comes, the oldest is closed.
pub const SILENT_MAX: usize = 4096;
/// Longest first message of a connection: a hello, or what TLS begins with, and its head.
pub const FIRST_MESSAGE_MAX: usize = HELLO_FRAME_MAX + 5;
/// Most connections of one listener that have spoken and not proved their key yet, where the process may have
/// files enough; else a sixteenth of what it may have. When one more comes, it waits until one is through or
/// one that waits for its peer has done so for [`HALF_OPEN_GRACE`] and is closed.
pub const HALF_OPEN_MAX: usize = 512;
/// Time for an answer within a handshake that nobody can cut short, however many others wait.
pub const HALF_OPEN_GRACE: Duration = Duration::from_millis(100);
/// Connections that are accepted, or looked at, in one go.
pub const ACCEPTS_AT_ONCE: usize = 64;
/// How often it is mentioned in the log that silent connections are closed.
pub const SILENT_WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// Connections the kernel keeps for a listener until they are accepted; more are turned away.
pub const BACKLOG: i32 = 4096;
/// Pause after the process ran out of descriptors or memory for a new connection.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long and how much a listener reads from a peer that it turns away, so that the peer sees the reason.
pub const LINGER_TIME_MAX: Duration = Duration::from_secs(1);
/// See [`LINGER_TIME_MAX`].
pub const LINGER_BYTES_MAX: usize = 64 << 10;
/// Read buffer of a quiet connection.
pub const READ_CHUNK_MIN: usize = 4 << 10;
/// Read buffer of a busy connection; also the memory a peer can claim by a length alone.
pub const READ_CHUNK_MAX: usize = 64 << 10;
/// Frames are collected up to this many bytes before they are written without being flushed.
pub const WRITE_CHUNK: usize = 64 << 10;
/// What has come of messages that are not complete, of all peers of a listener together, in bytes; and one message more. Where it
/// would be more, the oldest that has stopped goes, and else who wants room waits.
pub const HALF_SAID_BYTES_MAX: usize = 256 << 20;
/// A message has stopped in the middle when less than [`HALF_SAID_STEP`] of it came for so long. It goes only when others
/// need its room.
pub const HALF_SAID_GRACE: Duration = Duration::from_secs(2);
/// See [`HALF_SAID_GRACE`].
pub const HALF_SAID_STEP: usize = 64 << 10;
/// Messages that take no more than this wait for nobody's room.
pub const HALF_SAID_SMALL: usize = READ_CHUNK_MAX;
/// A message that was begun, and of which nothing came for so long, closes the connection.
pub const HALF_SAID_TIME_MAX: Duration = Duration::from_secs(60);
/// A silent connection is probed after this time …
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// … so often …
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// … and is broken after this many probes without an answer.
pub const KEEPALIVE_PROBES: u32 = 3;
/// Largest access file.
pub const ACCESS_FILE_MAX: u64 = 64 << 10;

/// Largest frame on a connection of this role, in both directions.
pub fn frame_max(role: Role) -> usize {
    match role {
        Role::Client => CLIENT_FRAME_MAX,
        Role::Worker => WORKER_FRAME_MAX,
        Role::Puller => PULLER_FRAME_MAX,
    }
}

/// The value of [`SILENT_MAX`] here.
pub fn silent_max() -> usize {
    (files_max() / 8).clamp(16, SILENT_MAX)
}

/// The value of [`HALF_OPEN_MAX`] here.
pub fn half_open_max() -> usize {
    (files_max() / 16).clamp(16, HALF_OPEN_MAX)
}

// How many files this process may have open.
fn files_max() -> usize {
    let files = getrlimit(Resource::Nofile).current;
    files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}
