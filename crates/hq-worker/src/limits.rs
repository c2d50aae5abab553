//! Every limit of the worker process, with its name and what happens when it is reached.

use std::time::Duration;

/// When a worker looks at its node and its tasks for the first time.
pub(crate) const SAMPLE_FIRST: Duration = Duration::from_secs(1);
/// How often the tools of GPU vendors are asked, unless samples are asked for.
pub(crate) const GPU_LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// First pause between two looks for an output that may be late; doubled up to [`PATIENCE_PAUSE_MAX`].
pub(crate) const PATIENCE_PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest such pause.
pub(crate) const PATIENCE_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Most threads of the launcher that start tasks at first, one a CPU. Each is blocked while a new process gets to
/// its `exec`.
pub const SPAWNERS_FIRST: usize = 4;
/// Most of them when all hang (a pipe that nobody reads, a file system that does not answer); then tasks wait.
pub const SPAWNERS_MAX: usize = 64;
/// Most threads of the launcher that wait for ends, one at a time: the others start what waited for an end. When all
/// others are at that, what waits goes back to the worker.
pub const REAPERS_MAX: usize = 5;
/// They hang when all are at the same orders after this time.
pub const SPAWNERS_LOOK: Duration = Duration::from_millis(500);
/// Orders and reports larger than this travel to and from the launcher in an anonymous file, in bytes.
pub const PACKET_MAX: usize = 48 << 10;
/// Most reports in one packet from the launcher; more make another packet.
pub const REPORTS_PER_PACKET: usize = 256;
/// How long the launcher holds reports of ends after which everything goes on as the worker has said beforehand.
pub const REPORTS_HELD: Duration = hq_core::limits::ARMED_TOLD_MAX;
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
/// How long what tasks left behind is killed again and again: after the worker or the launcher has died, or a task was
/// ended.
pub const CLEANUP_LIMIT: Duration = Duration::from_secs(5);
/// Pause between two looks at what is left then.
pub const CLEANUP_PAUSE: Duration = Duration::from_millis(5);
/// How long the launcher may take to end its tasks and itself when the worker ends; then it is killed.
pub const LAUNCHER_EXIT_LIMIT: Duration = Duration::from_secs(8);
/// Pause between two looks at whether the launcher, or what it left, is gone.
pub const LAUNCHER_LOOK: Duration = Duration::from_millis(1);
/// Least time between two warnings that the launcher was stopped and goes on.
pub const STOP_WORDS_PAUSE: Duration = Duration::from_secs(60);
/// Most tasks that are named when the launcher was stopped or has died; of the others it is said how many there are.
pub const TASKS_NAMED: usize = 5;
/// Time between two looks at the resident memory of tasks that are held to some and are in no control group.
pub const MEMORY_LOOK: Duration = Duration::from_millis(200);
/// How long the end of a worker waits for its control groups to be empty; the next worker removes what is left.
pub const GROUP_REMOVAL_LIMIT: Duration = Duration::from_secs(2);
/// Pause between two attempts to remove one.
pub const GROUP_REMOVAL_PAUSE: Duration = Duration::from_millis(5);
/// How long one notification may take to be said and taken.
pub const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);
/// Most tasks that speak at the same time. The oldest connection on which nothing was said makes room for a new one;
/// when all have spoken, new ones wait.
pub const NOTIFY_CONNECTIONS_MAX: usize = 64;
/// How long a connection may be silent before it has to make room for another.
pub const NOTIFY_SILENCE: Duration = Duration::from_millis(50);
/// Pause before the second attempt to make a socket for tasks that was removed; it doubles with each.
pub const SOCKET_PAUSE_MIN: Duration = Duration::from_millis(1);
/// Longest pause between two such attempts.
pub const SOCKET_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long a task looks for a socket of its worker that is not there: it may have been removed, and come back.
pub const SOCKET_WAIT: Duration = Duration::from_secs(2);
/// Pause between two looks for it.
pub const SOCKET_LOOK: Duration = Duration::from_millis(5);
/// How often in a row a directory is made that somebody else removes at the same time.
pub const REMOVALS_MAX: usize = 100;
/// Notifications that wait for the worker's loop; a full queue makes tasks wait.
pub const NOTIFY_QUEUE: usize = 256;
/// Longest text of a task's error file that becomes its failure message, in bytes; longer ones are cut.
pub const ERROR_FILE_MAX: usize = 2048;
/// Names that are tried for an output of a failed attempt; when all are taken, it stays where it is.
pub const ASIDE_NAMES_MAX: u32 = 1000;
/// How often an output is looked at while somebody waits for what is printed there.
pub const READER_LOOK: Duration = Duration::from_millis(10);
/// Pause before more of an output is told, unless there is much of it or the task has ended.
pub const READER_PAUSE: Duration = Duration::from_millis(10);
/// How long an output stays open that nobody has asked for.
pub const READER_KEEP: Duration = Duration::from_secs(10);
/// How much longer than a read may wait the stream that it is of is carried at once.
pub const FOLLOW_SLACK: Duration = Duration::from_secs(1);
/// Most bytes of one channel that are read at once for a stream.
pub const STREAM_CHUNK: usize = 64 << 10;
/// How long what a task printed may lie in its pipe, lest each line of a task wakes somebody: then it is looked at, or at
/// the end of the task. As long is waited before the first look.
pub const STREAM_LOOK: Duration = Duration::from_millis(20);
/// For so long ends are gathered in whose tasks' places others run already, and looks at pipes: else each of many short tasks
/// would wake somebody, here and at the server.
pub const STREAM_GATHER: Duration = Duration::from_millis(5);
/// So many ends may wait for what their tasks have printed while others run in their places.
pub const STREAM_ENDS_MAX: usize = 128;
/// A pipe with so many bytes in that time is read as soon as something is in it.
pub const STREAM_BULK: usize = 16 << 10;
/// When a task printed more on one channel, those that begin to print into the same stream are read as soon as something
/// is there: a pipe has room for twice as much.
pub const STREAM_MUCH: usize = 32 << 10;
/// Most pipes of streams that one look finds; the others come with the next.
pub const STREAM_EVENTS: usize = 256;
/// Files of streams that may be open; with more, those into which no running task prints are closed, the oldest first.
pub const STREAM_FILES_MAX: usize = 64;
/// How long what a running task has printed may stay out of the file.
pub const STREAM_FLUSH: Duration = Duration::from_millis(500);
/// How long a file of a stream stays open while nothing prints into it.
pub const STREAM_IDLE: Duration = Duration::from_secs(60);
/// So many streams and logs that find no room are named to the server.
pub const STREAM_WAITS_TOLD: usize = 8;
/// Pause before a stream that found no room is tried again.
pub const STREAM_RETRY: Duration = Duration::from_secs(1);
/// How long a stream must have found room before that is said: a disk that is nearly full takes a little now and then, which
/// would be told each time tasks fail and the next ones begin.
pub const STREAM_ROOM_QUIET: Duration = Duration::from_secs(120);
/// So many bytes for a log are said to the server without waiting for more.
pub const LOG_BATCH: usize = 256 << 10;
/// Bytes for all logs that are kept until the server has written them. With more, only a little of each is read, and tasks
/// wait in their writes.
pub const LOG_KEPT_MAX: usize = 4 << 20;
/// Pause before a server that has too much to write is told again.
pub const LOG_AGAIN: Duration = Duration::from_millis(50);
/// After so long without use it is looked whether the file of a stream is still where it was, and for the first task of
/// another job: that is a question to the file system, which is not asked for each task of many.
pub const STREAM_LEFT: Duration = Duration::from_secs(1);
/// How long the end of a task waits for room for what it has printed; then the task fails.
pub const STREAM_ROOM_WAIT: Duration = Duration::from_secs(60);
/// A zygote forks an interpreter within this time, or one is started by itself.
pub const FORK_LIMIT: Duration = Duration::from_secs(5);
/// Most bytes of what a zygote has printed before it failed that are told.
pub const LAST_WORDS_MAX: usize = 4 << 10;
/// So many environments in which interpreters cannot be forked are remembered with the reason.
pub const ZYGOTES_REMEMBERED: usize = 16;
/// Most bytes that a zygote says at once.
pub const ZYGOTE_PACKET_MAX: usize = 16 << 10;
/// Bytes of code of functions that are remembered as told to one interpreter; with more, it is told again.
pub const RUNNER_CODE_MAX: usize = 16 << 20;
/// The ranks of a world of MPI have so long until the first of them speaks to the worker; then the call fails.
pub const WORLD_START_LIMIT: Duration = Duration::from_secs(300);
/// A world of MPI that is over has so long to end by itself; then all that is left of it is killed.
pub const WORLD_END_GRACE: Duration = Duration::from_secs(5);
/// How long one who comes to a world's socket has to say who it is.
pub const WORLD_WORDS_LIMIT: Duration = Duration::from_secs(10);
/// Most bytes of what a launcher of MPI prints that are told where its world ends too early.
pub const WORLD_LAST_WORDS_MAX: u64 = 2048;
/// Most calls in the queue of an interpreter: those that are armed, and some more.
pub const RUNNER_CALLS_MAX: usize = 2 * hq_core::limits::CALLS_AHEAD_MAX;
/// Most bytes of arguments of a call that is told beforehand.
pub const RUNNER_AHEAD_BYTES_MAX: usize = 8 << 10;
/// What an interpreter says is read in pieces of so many bytes.
pub const RUNNER_PIECE: usize = 16 << 10;
/// While an interpreter has several calls, it is looked this often which of them have ended.
pub const RUNNER_LOOK: Duration = Duration::from_micros(300);
/// So many bytes of what an interpreter says are read before anything else has its turn.
pub const RUNNER_READ_MAX: usize = 1 << 20;
/// Most bytes that an interpreter says at once: a result, and words about it.
pub const RUNNER_FRAME_MAX: usize = 64 << 10;
/// Most inputs handed to the machine before it settles and its effects are carried out.
pub const INPUTS_PER_TURN: usize = 4096;
/// Attempts to reach the server at first.
pub const CONNECT_ATTEMPTS: u32 = 20;
/// Time between these attempts.
pub const CONNECT_PAUSE: Duration = Duration::from_secs(2);
/// Wait before the first attempt to find a lost server; doubled from attempt to attempt, with chance added so
/// that many workers do not come at once.
pub const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(200);
/// Longest wait between such attempts, without that chance: shorter than the server's grace for closed connections.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Bytes to the server that may wait while it does not read; over it the connection is given up.
pub const SEND_QUEUE_MAX: usize = 64 << 20;
/// How long the last words to the server may take at the end of a worker.
pub const FAREWELL_LIMIT: Duration = Duration::from_secs(5);
/// Longest path of a socket that every Unix system takes, in bytes.
pub const SOCKET_PATH_MAX: usize = 100;
/// How long a program that is asked about the node or the allocation may take; then it has no answer.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Most bytes of such an answer; the rest is not read.
pub const ANSWER_MAX: u64 = 1 << 20;
/// Connections over which processes of tasks on several nodes are asked for; others wait.
pub const NODE_SESSIONS_MAX: usize = 4096;
/// How long it may take to reach another worker and to be understood there.
pub const NODE_CONNECT_TIME: Duration = Duration::from_secs(10);
/// Before another address of a worker is tried beside the one before.
pub const NODE_ADDRESS_PAUSE: Duration = Duration::from_millis(20);
/// Questions of those connections that wait for the worker's loop; a full queue makes them wait.
pub const NODE_QUEUE: usize = 1024;
/// Messages of a connection that wait to be sent; a full queue makes processes wait that write.
pub const PROCESS_MESSAGES: usize = 16;
/// Most bytes that are read of a process at once.
pub const PROCESS_CHUNK: usize = 32 << 10;
/// How long what a process wrote is read after it has ended, when children of it keep the pipe open.
pub const PROCESS_DRAIN_TIME: Duration = Duration::from_secs(2);
/// Longest token that a task shows, in bytes.
pub const TOKEN_BYTES_MAX: usize = 256;
/// Processes that wait for a part of their task to be handed to this worker; more are refused.
pub const PROCESSES_WAITING_MAX: usize = 10_000;
/// Most bytes of an object that are taken, or read, at once.
pub const PIECE_MAX: usize = 1 << 20;
/// Most bytes of an object that a worker sends at once: so few stay in the caches of a processor while they are copied. With what
/// comes before them they fill the records of TLS.
pub(crate) const PIECE_SENT: usize = (256 << 10) - 64;
/// Objects that a worker fetches at once, of those that come in several pieces; others wait.
pub const FETCHES_MAX: usize = 4;
const _: () =
    assert!(hq_core::limits::AHEAD_COMING_MAX < FETCHES_MAX, "tasks that have started need not wait");
/// Objects of one piece that a worker fetches at once; others wait.
pub(crate) const SMALL_FETCHES_MAX: usize = 16;
/// How long a connection to another worker is kept for the next object.
pub(crate) const KEPT_TIME: Duration = Duration::from_secs(60);
/// How long the other end keeps it: a little longer, so that it is ended by who uses it.
pub(crate) const KEPT_TIME_THERE: Duration = Duration::from_secs(75);
/// Connections to one worker that are kept; with one more, the oldest ends.
pub(crate) const KEPT_OF_ONE_MAX: usize = SMALL_FETCHES_MAX;
/// Connections to all workers that are kept; with one more, the oldest ends.
pub(crate) const KEPT_MAX: usize = 64;
/// Connections of other workers that are kept for what they ask next; when there are so many, one ends with what was asked.
pub(crate) const KEPT_THERE_MAX: usize = 256;
/// A worker that did not answer is not asked for an object again for so long.
pub const HOLDER_SILENT_TIME: Duration = Duration::from_secs(60);
/// How long what a task leaves waits for room in the store while the server has not said of all objects there whether they are
/// needed.
pub const ROOM_TIME_MAX: Duration = Duration::from_secs(5);
/// Objects that a worker sends to others at once, of those that leave in several pieces; others wait.
pub const SERVES_MAX: usize = 8;
/// Objects of one piece that a worker sends to others at once; others wait.
pub(crate) const SMALL_SERVES_MAX: usize = 32;
/// An object of which so many bytes are asked for is sent to [`CROWD_SERVES_MAX`] others at once; for a smaller one it is not
/// worth while to go elsewhere.
pub(crate) const CROWD_SIZE_MIN: u64 = 8 << 20;
/// Other workers to which one large object is sent at once; more wait, or are sent on to those that have got it.
pub(crate) const CROWD_SERVES_MAX: usize = 2;
/// Workers that have got an object from here and are remembered while it is sent to others.
pub(crate) const CROWD_KNOWN_MAX: usize = 16;
/// How often who asks for one object is sent on; then it waits where it is.
pub(crate) const SENT_ON_MAX: u32 = 8;
/// How long who asks for an object waits for one that is just coming here.
pub(crate) const COMING_TIME_MAX: Duration = Duration::from_secs(5);
/// After so long without bytes, who waits for an object is told that more will come.
pub const PIECE_PAUSE: Duration = Duration::from_secs(5);
/// After so long without a word, who sends an object counts as lost.
pub const PIECE_TIME_MAX: Duration = Duration::from_secs(30);
/// How often all that hold an object are asked for it, as long as some of it comes each time.
pub const FETCH_ROUNDS_MAX: u32 = 3;
/// When so much of a store, in percent, is in use by what may not go, objects move to its spill.
pub(crate) const SPILL_AT_PERCENT: u64 = 80;
/// Objects that are tried one after the other when one is to move there; those with links elsewhere stay.
pub(crate) const SPILL_TRIES_MAX: usize = 64;
/// The clock by which the kernel notes changes of files goes in steps of at most so much.
pub(crate) const CHANGE_STEP: Duration = Duration::from_millis(10);
/// Files, directories and links in a directory that is an object.
pub(crate) const TREE_ENTRIES_MAX: usize = 1_000_000;
/// Counters of energy that are read: of processors and their memory.
pub(crate) const ENERGY_ZONES_MAX: usize = 64;
