//! Limits of a relay's socket.

use std::time::Duration;

/// Longest line or body, in bytes.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;
/// What has come of requests that are not complete, of all clients together, in bytes. Where it is more, the oldest of them go.
pub const HALF_SAID_BYTES_MAX: usize = 64 << 20;
/// As much of the name of a request that is not known is shown, in characters.
pub(crate) const UNKNOWN_NAME_CHARS_SHOWN: usize = 64;
/// What a connection keeps of the room that a request and its answer took, in bytes.
pub(crate) const KEPT_BYTES_MAX: usize = 64 << 10;
/// Longest head of an HTTP request, in bytes.
pub const HTTP_HEAD_BYTES_MAX: usize = 64 << 10;
/// Most header fields of an HTTP request.
pub const HTTP_FIELDS_MAX: usize = 100;
/// Longest list of the bags that a puller may speak of, in bytes.
pub(crate) const RIGHTS_BYTES_MAX: usize = 64 << 10;
/// Connections at once, where the limit on open files (`ulimit -n`) allows them.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Open files that are left for other things than connections.
pub const DESCRIPTORS_RESERVED: usize = 64;
/// Connections too many that are told so at once; others are just closed.
pub(crate) const REFUSED_AT_ONCE: usize = 16;
/// Bags that are asked for at once. One that nobody asks for does not count any more after a while.
pub const BAGS_MAX: usize = 10_000;
/// Time between attempts to take a connection where the system has no room for it.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often it is looked whether who waits for an answer is still there.
pub const PEER_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often a relay looks whether its socket is still there.
pub const SOCKET_LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// How long who starts a relay waits where one listens that cannot be found: it makes its socket again.
pub const SOCKET_WAIT: Duration = Duration::from_secs(10);
/// Tasks in one request.
pub const TASKS_MAX: usize = 100_000;
/// Tasks in one request that name others or differ from those before: each of them is a submit of its own.
pub const GROUPS_MAX: usize = hq_core::limits::SUBMITS_MAX;
/// Longest time an answer may wait for tasks.
pub const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);
/// Longest and shortest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// As above.
pub const LEASE_MIN: Duration = Duration::from_millis(100);
/// Longest label, in bytes.
pub const LABEL_BYTES_MAX: usize = 256;
/// Longest message of a failure, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4096;
/// A server that does not answer a request for so long is lost to whoever asked.
pub const SERVER_TIME_MAX: Duration = Duration::from_secs(30);
/// A server that cannot be reached for so long is away, for whoever asks it something.
pub const SERVER_AWAY_MAX: Duration = Duration::from_millis(1500);
/// Whoever waits for something to be saved looks this often whether the journal can be written.
pub const TROUBLE_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Pauses between attempts to reach the server.
pub const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(50);
/// As above.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Without an access file for so long, the server counts as stopped.
pub const STOPPED_AFTER: Duration = Duration::from_secs(5);
/// And then for so long it is not waited for by a relay where somebody has or wants something.
pub const GONE_AFTER: Duration = Duration::from_secs(600);
/// A bag whose line the server has ended, and not the relay, comes again after this time.
pub const REJOIN_PAUSE: Duration = Duration::from_secs(1);
/// How long the last words to the server may take.
pub const FAREWELL_LIMIT: Duration = Duration::from_secs(2);
/// Longest path of a Unix socket, in bytes.
pub const SOCKET_PATH_MAX: usize = 107;
/// A worker of a bag for which nobody asks leaves after this time.
pub const BAG_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Relays above another one, up to the server.
pub const RELAYS_ABOVE_MAX: usize = 16;
/// Longest introduction of a relay to the one above it, and back, in bytes.
pub(crate) const INTRODUCTION_BYTES_MAX: usize = 64 << 10;
/// By as much what is passed on for a relay below becomes longer at most, in bytes.
pub(crate) const LINE_HEAD_BYTES: usize = 16;
/// Lines that a relay has to its server, for its own bags and for relays below. The server takes no more; what would be one more
/// comes again later.
pub const LINES_MAX: usize = 16_384;
/// What a relay below has said and what has not left for the server yet, in bytes. Where it is so much, it is not read from.
pub const BELOW_SAID_BYTES_MAX: usize = 8 << 20;
/// What was said to a relay below and not taken, in bytes. Where it is more, the connection is ended; it comes again.
pub const BELOW_QUEUE_BYTES_MAX: usize = 64 << 20;
/// What is said to the server before it is looked whether it has said something.
pub(crate) const WORDS_AT_ONCE: usize = 1024;
/// A relay below that takes nothing for so long is disconnected.
pub(crate) const BELOW_STALL_MAX: Duration = Duration::from_secs(60);
/// Questions of a relay below that are not answered, in bytes. Where it is so much, no more are read.
pub const BELOW_ASKED_BYTES_MAX: usize = 64 << 20;
/// A question that is answered once counts as so many bytes at least, for its answer may be long.
pub(crate) const BELOW_QUESTION_BYTES_MIN: usize = 64 << 10;
/// What one counts that is answered when a bag is over.
pub(crate) const BELOW_WATCH_BYTES: usize = 1 << 10;
/// What has come of messages of relays below that are not complete, of all of them together, in bytes. Where it is more, the
/// connection of the oldest one that has stopped is ended.
pub const BELOW_HALF_SAID_BYTES_MAX: usize = 64 << 20;
/// A relay below waits for so long until this one has reached the server, before it is told that it has not.
pub const SERVER_WAIT: Duration = Duration::from_secs(10);
/// And it waits for so long to hear that.
pub(crate) const WAY_UP_TIME: Duration = Duration::from_secs(15);
