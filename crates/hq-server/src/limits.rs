//! Every limit of the server process, with its name and what happens when it is reached. Those that users meet are shown
//! by `hq server info --limits`.

use std::time::Duration;

use hq_core::limit_value::LimitValue;

use crate::options::ServerOptions;

/// Threads that read, write, encrypt and decode for clients, and as many for workers; never more, whatever the machine reports.
pub const IO_THREADS_MAX: usize = 2;
/// Bytes of messages that wait for the deciding thread, over all connections. Over it nothing more
/// is read from any connection until some are handled.
pub const INBOX_BYTES_MAX: usize = 64 << 20;
/// The least a waiting message counts against [`INBOX_BYTES_MAX`], in bytes.
pub const INBOX_BYTES_MIN: usize = 256;
/// A heartbeat may wait this long for the deciding thread, so that many of them are handled at once.
pub const HEARTBEAT_WAIT: Duration = Duration::from_secs(1);
/// Bytes of records and held-back messages that wait for the journal. Over it the server decides
/// nothing more until the journal has written some.
pub const JOURNAL_QUEUE_BYTES_MAX: usize = 64 << 20;
/// First and longest wait before writing the journal is tried again; doubled in between.
pub const JOURNAL_RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How often a journal that cannot write is mentioned in the log.
pub const JOURNAL_WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// Records that no answer waits for are on disk after this time at the latest.
pub const JOURNAL_SYNC_DELAY: Duration = Duration::from_secs(1);
/// Bytes of records that are not synced, when records need not survive the death of the machine.
pub const OS_UNSYNCED_BYTES_MAX: usize = 8 << 20;
/// A journal is compacted when it has grown by so many bytes beside what the last compaction left, unless
/// the server is told otherwise; and not before it has grown by [`COMPACT_RATIO`] times that.
pub const COMPACT_BYTES_MIN: u64 = 32 << 20;
/// See [`COMPACT_BYTES_MIN`]. So at most half of what is read at a restart is history.
pub const COMPACT_RATIO: u64 = 1;
/// Niceness of compaction: what is asked and what runs goes first where the machine is full.
pub const COMPACTION_NICE: i32 = 15;
/// How long after a failure compaction is tried again.
pub const COMPACT_RETRY: Duration = Duration::from_secs(60);
/// Bytes of events that wait until a client has read what it was sent; over it, the client is sent no more.
pub const FOLLOWER_BYTES_MAX: usize = 64 << 20;
/// The same for all clients together; over it, the one that most waits for is sent no more.
pub const FOLLOWERS_BYTES_MAX: usize = 256 << 20;
/// Clients that follow events at once; more are refused.
pub const FOLLOWERS_MAX: usize = 1000;
/// Bytes of events that are sent to a client and not read; further ones wait.
pub const EVENTS_UNREAD_MAX: usize = 8 << 20;
/// How long the reader of the past waits for a client to read before it turns to others.
pub const LINGER_TIME: Duration = Duration::from_millis(200);
/// How long a client may leave what it is sent of the past unread before it is disconnected.
pub const FOLLOWER_TIME_MAX: Duration = Duration::from_secs(60);
/// A client that follows events is sent little ones at most so often while more of them come.
pub const EVENTS_INTERVAL: Duration = Duration::from_millis(250);
/// After a quiet time so many times without waiting that long, but never closer together than the gap.
pub const EVENTS_BURST: u32 = 4;
/// That far apart.
pub const EVENTS_GAP: Duration = Duration::from_millis(1);
/// Records in one message to a client that reads the journal.
pub const EVENTS_AT_ONCE: usize = 1000;
/// How long a server that was asked to end tries to write its journal before it gives up on what
/// it has not acknowledged.
pub const JOURNAL_STOP_TIME: Duration = Duration::from_secs(5);
/// Bytes that may wait to be sent to one client. A client that lets more pile up is disconnected.
pub const CLIENT_QUEUE_BYTES_MAX: usize = 64 << 20;
/// Bytes of answers that a client has not read, from which on nothing more is read from it.
pub const ANSWERS_BYTES_MAX: usize = 4 << 20;
/// Requests of one client that are decided together; fewer where its answers are large. Further ones wait in its
/// connection.
pub const REQUESTS_AT_ONCE: u32 = 64;
/// Answers are sent on their way when so many bytes of them have been made, before more requests are decided.
pub const ANSWERS_AT_ONCE: usize = 8 << 20;
/// How long a client may take nothing of what is sent to it; then it is disconnected.
pub const CLIENT_STALL_MAX: Duration = Duration::from_secs(60);
/// Bytes that may wait to be sent to all clients together. Over it, the one that most waits for is disconnected.
pub const CLIENTS_BYTES_MAX: usize = 256 << 20;
/// Bytes that may wait to be sent to one worker. A worker that lets more pile up is disconnected;
/// it may come back.
pub const WORKER_QUEUE_BYTES_MAX: usize = 128 << 20;
/// Bytes for all objects together that pass by way of the server, at a time. Over it readers wait until others are done.
pub const RELAYS_BYTES_MAX: usize = 64 << 20;
/// Bytes that one of them may take at a time: a message of each side, and what is read ahead.
pub const RELAY_BYTES: usize = 2 << 20;
/// Longest first message, which says what is wanted.
pub const RELAY_WISH_MAX: usize = 16 << 10;
/// Longest message of those that is passed on.
pub const RELAY_FRAME_MAX: usize = (1 << 20) + (64 << 10);
/// Objects that workers and clients want in this way at once, those that wait included; more are refused, and tasks tried again.
pub const RELAY_READERS_MAX: usize = 1024;
/// How long one of them waits for the worker that has the object.
pub const RELAY_HOLDER_TIME: Duration = Duration::from_secs(10);
/// How often who waits hears that it goes on.
pub const RELAY_WORD_TIME: Duration = Duration::from_secs(3);
/// Workers that may share a connection, beside the first; a relay has one for each bag.
pub const LINES_MAX: usize = hq_pull::limits::LINES_MAX;
/// Arguments, environment and standard input of a task together, in bytes; a submit with more is refused.
pub const TASK_BYTES_MAX: usize = 32 << 20;
/// Longest entry of a submit, in bytes; a submit with a longer one is refused.
pub const ENTRY_BYTES_MAX: usize = 16 << 20;
/// Tasks for a worker are sent in messages of about this many bytes.
pub const RUN_BYTES: usize = 4 << 20;
/// Logs of earlier starts that are kept in the server directory; older ones are removed by the next start.
pub const LOGS_KEPT: usize = 10;
/// File descriptors kept free for the journal, for logs and for accepting; connections are refused
/// when only so many are left.
pub const DESCRIPTORS_RESERVED: u64 = 64 + LOG_FILES_MAX as u64;
/// A server that may have fewer files open (`ulimit -Hn`) does not start.
pub const OPEN_FILES_MIN: u64 = 256;
/// Logs that are open at once; with more, the one that nobody has used for longest is closed.
pub const LOG_FILES_MAX: usize = 64;
/// Attempts of which it is known how far they are in their logs; with more, all are forgotten, and the logs are read for those that
/// go on.
pub const LOG_ATTEMPTS_MAX: usize = 100_000;
/// How long a log stays open while nobody prints into it.
pub const LOG_IDLE: Duration = Duration::from_secs(60);
/// So long a log may be open elsewhere, as by a server that is about to end, before that is an error.
pub const LOG_LOCKED: Duration = Duration::from_secs(5);
/// How long a log that was in trouble must have been written before that is said: on a disk that is nearly full a little is written
/// now and then.
pub const LOG_QUIET: Duration = Duration::from_secs(120);
/// Bytes for logs that wait to be written, of all workers together, and at most a batch more. What comes then is kept by
/// its worker, which tries again.
pub const LOGS_BYTES_MAX: usize = 64 << 20;
/// Batches for logs that are written at once.
pub const LOGS_TOGETHER: usize = 256;
/// How long a server that ends waits until everything said was sent.
pub const GOODBYE_TIME: Duration = Duration::from_secs(2);
/// A delay of the deciding thread beyond this is time in which it could not listen; it does not
/// count as silence of others.
pub const STALL_MIN: Duration = Duration::from_secs(1);
/// A worker of an allocation without a task for this long ends, unless its queue says something else.
pub const ALLOCATION_IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long a starting server waits for an answer from the server of an old access file.
pub const PROBE_TIME: Duration = Duration::from_secs(3);
/// How long a starting server waits for one that is ending to give the directory free, and how often
/// it looks.
pub const LOCK_TIME: Duration = Duration::from_secs(10);
/// After so long it says that it waits.
pub const LOCK_WORD: Duration = Duration::from_secs(1);
/// See [`LOCK_TIME`].
pub const LOCK_RETRY: Duration = Duration::from_millis(20);

/// Memory is given back to the system when what submits take has become less by so many bytes.
pub const GIVE_BACK_BYTES: usize = 16 << 20;
/// So many bytes that were freed may stay for what a thread allocates next, where the allocator can be told.
pub const FREE_KEPT_BYTES: i32 = 4 << 20;
/// Larger pieces of memory come from the system and go back there, one by one; likewise.
pub const LARGE_PIECE_BYTES: i32 = 32 << 20;

/// Room for so many items is kept in a buffer that has been emptied; a larger one is given back.
pub const SPARE_ITEMS_MAX: usize = 4096;

/// Gives back the memory of an emptied buffer that was large once.
pub(crate) fn trim<T>(emptied: &mut Vec<T>) {
    if emptied.capacity() > SPARE_ITEMS_MAX {
        *emptied = Vec::new();
    }
}

/// Names and values of the limits that users meet, of this crate, the core and connections.
pub fn table(options: &ServerOptions) -> Vec<(String, LimitValue)> {
    use hq_core::limits as core;
    use hq_net::limits as net;
    let time = LimitValue::Time;
    let bytes = |bytes: usize| LimitValue::bytes(bytes);
    let rows = [
        ("io threads, for each role", LimitValue::count(IO_THREADS_MAX)),
        ("inbox", bytes(INBOX_BYTES_MAX)),
        ("journal queue", bytes(JOURNAL_QUEUE_BYTES_MAX)),
        ("queue to a client", bytes(CLIENT_QUEUE_BYTES_MAX)),
        ("answers before a client reads", bytes(ANSWERS_BYTES_MAX)),
        ("queues to all clients", bytes(CLIENTS_BYTES_MAX)),
        ("time a client takes nothing", time(CLIENT_STALL_MAX)),
        ("clients that follow events", LimitValue::count(FOLLOWERS_MAX)),
        ("events for a client", bytes(FOLLOWER_BYTES_MAX)),
        ("events for all clients", bytes(FOLLOWERS_BYTES_MAX)),
        ("queue to a worker", bytes(WORKER_QUEUE_BYTES_MAX)),
        ("objects relayed, together", bytes(RELAYS_BYTES_MAX)),
        ("objects relayed at once", LimitValue::count(RELAYS_BYTES_MAX / RELAY_BYTES)),
        ("objects that wait to be relayed", LimitValue::count(RELAY_READERS_MAX)),
        ("objects fetched ahead, on a worker", LimitValue::count(core::AHEAD_MAX)),
        ("objects fetched ahead, together", LimitValue::Bytes(core::AHEAD_BYTES_MAX)),
        ("frame of a client", bytes(net::CLIENT_FRAME_MAX)),
        ("frame of a worker", bytes(net::WORKER_FRAME_MAX)),
        ("half-said frames of clients", bytes(net::HALF_SAID_BYTES_MAX)),
        ("half-said frames of workers", bytes(net::HALF_SAID_BYTES_MAX)),
        ("time a half-said frame is still", time(net::HALF_SAID_TIME_MAX)),
        ("connections that say nothing", LimitValue::count(net::silent_max())),
        ("connections without a key", LimitValue::count(net::half_open_max())),
        ("handshake time", time(net::HANDSHAKE_TIME_MAX)),
        ("connections to a relay", LimitValue::count(hq_pull::limits::CONNECTIONS_MAX)),
        ("bags of a relay", LimitValue::count(hq_pull::limits::BAGS_MAX)),
        ("requests half said to a relay", bytes(hq_pull::limits::HALF_SAID_BYTES_MAX)),
        ("lines of a relay", LimitValue::count(LINES_MAX)),
        ("relays above a relay", LimitValue::count(hq_pull::limits::RELAYS_ABOVE_MAX)),
        ("said by a relay below", bytes(hq_pull::limits::BELOW_SAID_BYTES_MAX)),
        ("asked by a relay below", bytes(hq_pull::limits::BELOW_ASKED_BYTES_MAX)),
        ("queue to a relay below", bytes(hq_pull::limits::BELOW_QUEUE_BYTES_MAX)),
        ("half said by relays below", bytes(hq_pull::limits::BELOW_HALF_SAID_BYTES_MAX)),
        ("arguments of a task", bytes(TASK_BYTES_MAX)),
        ("entry of a task", bytes(ENTRY_BYTES_MAX)),
        ("descriptors reserved", LimitValue::count(DESCRIPTORS_RESERVED)),
        ("open files needed", LimitValue::count(OPEN_FILES_MIN)),
        ("logs of earlier starts", LimitValue::count(LOGS_KEPT)),
        ("logs open", LimitValue::count(LOG_FILES_MAX)),
        ("attempts known in logs", LimitValue::count(LOG_ATTEMPTS_MAX)),
        ("bytes that wait for logs", bytes(LOGS_BYTES_MAX)),
        ("heartbeat wait", time(HEARTBEAT_WAIT)),
        ("journal sync delay", time(JOURNAL_SYNC_DELAY)),
        ("stop time", time(core::STOP_TIME_MAX)),
        ("worker grace", time(options.worker_grace)),
        ("worker grace, closed", time(options.worker_grace.min(core::WORKER_GRACE_CLOSED))),
        ("heartbeats missing", LimitValue::count(core::HEARTBEATS_MISSING_MAX)),
        ("journal growth", LimitValue::Bytes(options.compact_bytes_min)),
        ("ended jobs kept", options.keep_jobs.jobs.map_or(LimitValue::None, LimitValue::count)),
        ("ended jobs kept for", options.keep_jobs.time.map_or(LimitValue::None, time)),
        ("submits of ended jobs", bytes(core::JOBS_KEPT_BYTES)),
        ("submits of all jobs", bytes(core::SUBMITS_BYTES_MAX)),
        ("ended workers kept", LimitValue::count(core::WORKERS_KEPT)),
        ("descriptions of ended workers", LimitValue::bytes(core::WORKERS_KEPT_BYTES)),
        ("details of ended tasks", bytes(core::DETAIL_BYTES_MAX)),
        ("entries of finished tasks", bytes(core::ENDED_ENTRIES_BYTES_MAX)),
        ("results of functions", bytes(core::RESULTS_KEPT_BYTES_MAX)),
        ("result of a function", bytes(core::RESULT_BYTES_MAX)),
        ("tasks a reducer has not taken", LimitValue::count(core::UNREDUCED_TASKS_MAX)),
        ("results a reducer has not taken", bytes(core::UNREDUCED_BYTES_MAX)),
        ("details of failures", bytes(core::FAILURE_DETAILS_BYTES_MAX)),
        ("earlier attempts", bytes(core::ATTEMPTS_BYTES_MAX)),
        ("earlier attempts of a task", LimitValue::count(core::ATTEMPTS_OF_TASK_MAX)),
        ("causes of failures of a job", LimitValue::count(core::CAUSES_MAX)),
        ("bytes of a cause of failures", bytes(core::CAUSE_BYTES_MAX)),
        ("error text", bytes(core::ERROR_TEXT_MAX)),
        ("notification text", bytes(core::NOTIFY_TEXT_MAX)),
        ("notifications on a worker", bytes(core::WORDS_KEPT_BYTES_MAX)),
        ("notifications nobody hears", bytes(core::UNHEARD_BYTES_MAX)),
        ("kept for who comes back", time(core::UNHEARD_TIME_MAX)),
        ("page of a task list", bytes(core::TASK_PAGE_BYTES)),
        ("page of a job's submits", bytes(core::JOB_PAGE_BYTES)),
        ("output in one answer", bytes(core::OUTPUT_READ_BYTES_MAX as usize)),
        ("outputs read by a client", LimitValue::count(core::OUTPUT_READS_OF_CLIENT_MAX)),
        ("outputs read from a worker", LimitValue::count(core::OUTPUT_READS_OF_WORKER_MAX)),
        ("outputs read by all clients", LimitValue::count(core::OUTPUT_READS_MAX)),
        ("requests of a client that wait", LimitValue::count(core::WAITS_OF_CLIENT_MAX)),
        ("requests that wait", bytes(core::WAITS_BYTES_MAX)),
        ("tasks one by one in a page", LimitValue::count(core::TASK_PAGE_MAX)),
        ("tasks in a sample of a worker", LimitValue::count(hq_model::task_sample::SAMPLED_TASKS_MAX)),
        ("workers with loads over time", LimitValue::count(core::SERIES_WORKERS_MAX)),
        ("loads of a worker over time", bytes(core::SERIES_BYTES_MAX)),
        ("use over time of running tasks", bytes(core::TASK_USES_BYTES_MAX)),
        ("backlog of a worker", LimitValue::count(core::BACKLOG_MAX)),
        ("tasks behind others on a worker", LimitValue::count(core::FOLLOWERS_MAX)),
        ("armed behind a running task", time(core::ARMED_TIME)),
        ("time of what is armed in a row", time(core::ARMED_AHEAD)),
        ("tasks armed in a row", LimitValue::count(core::ARMED_AHEAD_MAX)),
        ("time until a row is told of", time(core::ARMED_TOLD_MAX)),
        ("retry delay", time(core::RETRY_DELAY_MAX)),
        ("put back behind what has ended", time(core::DEFER_PAUSE)),
        ("submissions that may fail", LimitValue::count(core::SUBMIT_FAILURES_MAX)),
        ("allocations that may fail", LimitValue::count(core::ALLOCATION_FAILURES_MAX)),
        ("retry after a pause", time(core::PAUSE_RETRY)),
        ("allocation queues", LimitValue::count(core::QUEUES_MAX)),
        ("ended allocations kept", LimitValue::count(core::ALLOCATIONS_KEPT)),
        ("allocation directories kept", LimitValue::count(core::ALLOCATION_DIRECTORIES_KEPT)),
        ("siblings before a second attempt", LimitValue::count(core::SPECULATE_SIBLINGS_MIN)),
        ("submits in one request", LimitValue::count(core::SUBMITS_MAX)),
        ("jobs in one request", LimitValue::count(core::JOBS_MAX)),
        ("time the maker of a draft is away", time(core::DRAFT_GRACE)),
        ("waiting tasks looked through", LimitValue::count(core::DEFER_SEARCH_MAX)),
        ("tasks about to be put back", LimitValue::count(core::DEFERRALS_MAX)),
        ("files looked for at once", LimitValue::count(core::FILES_WATCHED_MAX)),
        ("classes a picky worker chooses from", LimitValue::count(core::PICKY_CLASSES_MAX)),
        ("steps of its choice", LimitValue::count(core::PICKY_STEPS_MAX)),
        ("classes planned together", LimitValue::count(core::PLANNED_CLASSES_MAX)),
        ("classes tried without success", LimitValue::count(core::MISSES_MAX)),
        ("names of programs with run times", LimitValue::count(core::NAMES_KNOWN_MAX)),
        ("bytes of such a name", bytes(core::NAME_KNOWN_BYTES)),
        ("jobs with layers and timelines", LimitValue::count(core::SHAPES_MAX)),
        ("layers of a job", LimitValue::count(core::LAYERS_SHOWN)),
        ("steps of the timeline of a job", LimitValue::count(core::TIMELINE_BARS)),
        ("locality keys of a worker", LimitValue::count(core::KEYS_OF_WORKER_MAX)),
        ("repeated requests known", LimitValue::count(core::REQUEST_KEYS_MAX)),
        ("answers to repeated requests", bytes(core::REQUEST_KEYS_BYTES_MAX)),
        ("time away that counts", time(core::TIME_AWAY_MAX)),
        ("notices sent at once", LimitValue::count(core::NOTICES_AT_ONCE)),
        ("notices that wait", bytes(core::NOTICES_BYTES_MAX)),
    ];
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// How long to wait before files that tasks wait for are looked for again.
pub(crate) const FILES_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes at the end of what a failed allocation printed that are looked at.
pub(crate) const ALLOCATION_LAST_BYTES: u64 = 1024;
/// Lines at the end of what a failed allocation printed that are repeated.
pub(crate) const ALLOCATION_LAST_LINES: usize = 3;
/// Longest start of a relay for pullers; then these are told that there is none.
pub(crate) const RELAY_START_TIME: Duration = Duration::from_secs(10);
/// Between looks for the socket of a relay that is about to listen.
pub(crate) const RELAY_PAUSE: Duration = Duration::from_millis(50);
