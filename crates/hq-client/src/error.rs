//! What can go wrong between a client and its server, with the exit code it leads to.

use std::borrow::Cow;
use std::io;

use hq_core::client_messages::RequestError;
use hq_model::JobId;
use hq_net::access::CURRENT;
use hq_net::{AccessError, ConnectError};

use crate::too_large::TooLarge;

/// Exit code when the request failed or a waited job has tasks that did not finish.
pub const EXIT_FAILED: u8 = 1;
/// Exit code for bad arguments.
pub const EXIT_USAGE: u8 = 2;
/// Exit code when the server could not be reached, or was lost.
pub const EXIT_NO_SERVER: u8 = 3;

/// Why a request has no answer that helps.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no access file for clients.
    #[error("{}", no_access(.0))]
    Access(#[from] AccessError),
    /// Nobody answers, or not as it should be.
    #[error("{}", no_connection(.0))]
    Connect(#[from] ConnectError),
    /// The connection broke, and could not be made again in time.
    #[error("The server was lost: {0}")]
    Lost(String),
    /// Another server is there now.
    #[error("The server was lost: another one ({found}) now runs in its place ({expected})")]
    Replaced {
        /// The server's name before.
        expected: String,
        /// The name now.
        found: String,
    },
    /// No frame can carry the request.
    #[error("{0}")]
    TooLarge(#[from] TooLarge),
    /// The server refuses.
    #[error("{0}")]
    Refused(#[from] RequestError),
    /// An answer that does not belong to the request.
    #[error("The server sent an unexpected answer; client and server may be different releases")]
    Unexpected,
    /// No runtime, no randomness.
    #[error("The client cannot start: {0}")]
    System(#[from] io::Error),
}

// Callers look for the first words.
fn no_access(error: &AccessError) -> String {
    match error {
        AccessError::Missing { path } | AccessError::Read { path, .. } if hq_net::has_no_server(path) => {
            "What `hq run` and `hq make` start has no server.".to_owned()
        }
        AccessError::Missing { path } => {
            let in_place = path.ends_with(format!("{CURRENT}/access.json"));
            let dir = if in_place { path.ancestors().nth(2).unwrap_or(path) } else { path };
            format!("No running instance of HQ found at \"{}\".", dir.display())
        }
        error => format!("No server can be found: {error}"),
    }
}

// What lists those of its kind that are there.
fn where_they_are(error: &RequestError) -> Option<Cow<'static, str>> {
    let fixed = match error {
        RequestError::NoJob(_) => Some("`hq job list --all` lists them"),
        RequestError::NoTask(job, _) => return Some(where_tasks_are(*job).into()),
        RequestError::NoWorker(_) => Some("`hq worker list --all` lists them"),
        RequestError::NoQueue(_) => Some("`hq alloc list` lists them"),
        RequestError::NoAllocation(_) => Some("`hq alloc info QUEUE` lists them"),
        _ => None,
    };
    fixed.map(Cow::Borrowed)
}

/// What lists the tasks of a job, as a hint where one is not there.
pub fn where_tasks_are(job: JobId) -> String {
    format!("`hq job task-ids {job}` lists them")
}

fn no_connection(error: &ConnectError) -> String {
    match error {
        ConnectError::Unreachable { host, port, source } => {
            format!("Access token found but HQ server {host}:{port} is unreachable: {source}")
        }
        error => format!("Could not connect to the server: {error}"),
    }
}

impl ClientError {
    /// The exit code of a command that ends with this.
    pub fn exit_code(&self) -> u8 {
        match self {
            ClientError::Access(_)
            | ClientError::Connect(_)
            | ClientError::Lost(_)
            | ClientError::Replaced { .. } => EXIT_NO_SERVER,
            ClientError::TooLarge(_)
            | ClientError::Refused(_)
            | ClientError::Unexpected
            | ClientError::System(_) => EXIT_FAILED,
        }
    }

    /// A short word that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            ClientError::Access(_) => "no-access",
            ClientError::Connect(_) => "not-connected",
            ClientError::Lost(_) | ClientError::Replaced { .. } => "server-lost",
            ClientError::TooLarge(_) => "request-too-large",
            ClientError::Refused(error) => error.code(),
            ClientError::Unexpected => "unexpected-answer",
            ClientError::System(_) => "system",
        }
    }

    /// What the user can do about it, if that can be said.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            ClientError::Access(source) => Some(source.hint()),
            ClientError::Connect(source) => Some(source.hint()),
            ClientError::Lost(_) => {
                Some("what was acknowledged is safe; `hq server start` in the same directory continues")
            }
            ClientError::TooLarge(error) => Some(error.hint()),
            ClientError::Refused(error) => return hint_of(error.one()),
            _ => None,
        };
        hint.map(Cow::Borrowed)
    }
}

fn hint_of(refused: &RequestError) -> Option<Cow<'static, str>> {
    let hint = match refused {
        RequestError::WorkerAway { .. } => {
            "`hq worker stop` without --drain does not wait for it: running tasks are restarted elsewhere"
        }
        RequestError::JobNotOpen(_) => {
            "it was closed, or never open: `hq job open` creates a job that accepts tasks until `hq job close`"
        }
        RequestError::JobAlive(job) => {
            return Some(Cow::Owned(format!(
                "it ends when all of its tasks have ended (`hq job cancel {job}` ends them) and, if it is open, it \
                 has been closed with `hq job close {job}`"
            )));
        }
        error => return where_they_are(error),
    };
    Some(Cow::Borrowed(hint))
}
