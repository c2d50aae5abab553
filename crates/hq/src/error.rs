//! What a command ends with when it did not do what was asked: a text, a code, and the exit status.

use std::io;

use hq_client::ClientError;
use hq_client::error::{EXIT_FAILED, EXIT_NO_SERVER, EXIT_USAGE};
use hq_client::options::OptionsError;
use hq_core::client_messages::RequestError;
use hq_server::ServerError;
use hq_worker::WorkerError;

/// Added to the number of a signal, as a shell reports a program that died from it.
pub(crate) const EXIT_SIGNAL: u8 = 128;

/// An error to be shown.
#[derive(Debug)]
pub(crate) struct HqError {
    /// What went wrong, with its causes.
    pub text: String,
    /// A short word that never changes, for programs.
    pub code: &'static str,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// The exit status.
    pub exit: u8,
    /// What was done before, as fields of the document.
    pub done: Option<Box<serde_json::Map<String, serde_json::Value>>>,
}

impl HqError {
    /// The request failed.
    pub(crate) fn failed(code: &'static str, text: impl Into<String>) -> HqError {
        HqError { text: text.into(), code, hint: None, exit: EXIT_FAILED, done: None }
    }

    /// The arguments are wrong.
    pub(crate) fn usage(text: impl Into<String>) -> HqError {
        HqError { text: text.into(), code: "usage", hint: None, exit: EXIT_USAGE, done: None }
    }

    /// With its hint, as one of several.
    pub(crate) fn in_one_line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{} ({hint})", self.text),
            None => self.text.clone(),
        }
    }

    /// A signal ended the command.
    pub(crate) fn interrupted(signal: u8, text: impl Into<String>) -> HqError {
        HqError { exit: EXIT_SIGNAL + signal, ..HqError::failed("interrupted", text) }
    }

    /// What the server would have refused.
    pub(crate) fn from_refusal(error: RequestError) -> HqError {
        ClientError::from(error).into()
    }

    /// With a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> HqError {
        self.hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        self
    }
}

impl From<ClientError> for HqError {
    fn from(error: ClientError) -> HqError {
        HqError {
            text: error.to_string(),
            code: error.code(),
            hint: error.hint().map(Into::into),
            exit: error.exit_code(),
            done: None,
        }
    }
}

impl From<OptionsError> for HqError {
    fn from(error: OptionsError) -> HqError {
        let told = if error.is_usage() {
            HqError::usage(error.to_string())
        } else {
            HqError::failed("bad-input", error.to_string())
        };
        told.hint(error.hint())
    }
}

impl From<ServerError> for HqError {
    fn from(error: ServerError) -> HqError {
        HqError::failed(error.code(), error.to_string()).hint(error.hint())
    }
}

impl From<WorkerError> for HqError {
    fn from(error: WorkerError) -> HqError {
        let exit = match &error {
            WorkerError::Access(_) | WorkerError::Connect { .. } => EXIT_NO_SERVER,
            _ => EXIT_FAILED,
        };
        HqError { exit, ..HqError::failed(error.code(), error.to_string()).hint(error.hint()) }
    }
}

impl From<io::Error> for HqError {
    fn from(error: io::Error) -> HqError {
        HqError::failed("io", error.to_string())
    }
}
