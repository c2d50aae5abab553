//! Every limit and default time of the client, with its name and what happens when it is reached.

use std::time::Duration;

/// Bytes of the arguments of a function that all tasks of a submit share.
pub const FUNCTION_ARGUMENTS_MAX: usize = 1 << 20;
/// How deep values of JSON may be nested in an entry; deeper ones are refused at submit. Python reads no more than some 1 000 levels,
/// and other programs fewer.
pub const JSON_DEPTH_MAX: usize = 500;
/// Where in a script `#HQ` lines must have ended; one that reaches beyond it is refused.
pub const DIRECTIVES_BYTES_MAX: usize = 32 * 1024;
/// Longest single argument or variable that Linux passes to a program, with its end mark
/// (`MAX_ARG_STRLEN`: 32 pages of 4 KiB); a longer one is refused at submit.
pub const ARGUMENT_BYTES_MAX: usize = 128 * 1024;
/// Longest path that Linux takes, with its end mark (`PATH_MAX`); one that becomes longer by the entry of a task is refused
/// at submit.
pub const PATH_BYTES_MAX: usize = 4096;
/// Longest name of a file on Linux (`NAME_MAX`); a job that is called like its program has a name of at most so many bytes.
pub const FILE_NAME_BYTES_MAX: usize = 255;
/// Smallest limit of Linux on all arguments and variables of a program together, for a stack of 8 MiB;
/// more is refused at submit.
pub const ARGUMENTS_BYTES_MAX: usize = 2 * 1024 * 1024;
/// What each argument costs of [`ARGUMENTS_BYTES_MAX`] beside its bytes: end mark and pointer.
pub const ARGUMENT_COST: usize = 9;
/// Largest standard input that a submit carries; more is refused.
pub const STDIN_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Largest file of entries; more is refused. With standard input it fits into one frame of the wire.
pub const ENTRIES_BYTES_MAX: u64 = 90 * 1024 * 1024;
/// Entries and keys of one submit together; more is refused. They fit into one frame of the wire.
pub const SUBMIT_BYTES_MAX: u64 = 120 * 1024 * 1024;
/// Largest job file; more is refused. Read, it takes some ten times as much memory.
pub const JOB_FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Largest file of ids of tasks; more is refused.
pub const IDS_FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Tables of a job file that are read at once.
pub const TABLES_PER_PART: usize = 1000;
/// More output files than this are worth a warning.
pub const OUTPUT_FILES_QUIET: u64 = 999;
/// How long a client tries to reach a server again that it lost within a request.
pub const RECONNECT_TIME: Duration = Duration::from_secs(5);
/// How long a client that waits for jobs or events looks for a lost server, unless it is told otherwise.
pub const WATCH_RECONNECT_TIME: Duration = Duration::from_secs(600);
/// First wait between two such trials; doubled up to [`RECONNECT_DELAY_MAX`].
pub const RECONNECT_DELAY: Duration = Duration::from_millis(20);
/// Longest wait between two trials to reach a server.
pub const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(1);
/// An answer that takes longer may be held back by a journal that cannot be written: then the server is asked, and
/// the user told.
pub const ANSWER_TIME: Duration = Duration::from_secs(1);
/// How often one request is sent again because the connection broke before its answer; then it has failed.
pub const REPEATS_MAX: u32 = 3;
/// Responses that arrived for another request of the same connection and wait to be asked for; more
/// end the connection.
pub const EARLY_RESPONSES_MAX: usize = 100_000;
/// Submits are sent together until they have about so many bytes.
pub const BLOCK_BYTES: usize = 1 << 20;
/// Requests on their way at once when many are asked.
pub const REQUESTS_AHEAD: usize = 64;
/// Tasks that one page of a list tells one by one, unless the server tells them together: so many short ones are decoded
/// whatever memory they need.
pub const TASK_PAGE: u32 = 1000;
