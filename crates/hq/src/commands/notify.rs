//! `hq task notify`: a running task speaks through its worker.

use std::os::unix::ffi::{OsStrExt, OsStringExt};

use hq_worker::notify::{self, NotifyError};

use super::Done;
use crate::cli::task::NotifyArgs;
use crate::error::HqError;
use crate::report::Nothing;

const ACCESS_KEY: &str = "HQ_ACCESS_KEY";

pub(super) fn notify(args: NotifyArgs) -> Result<Done, HqError> {
    let key = std::env::var_os(ACCESS_KEY).unwrap_or_default().into_vec();
    notify::send(&key, args.message.as_bytes()).map_err(|error| match error {
        NotifyError::Long { .. } => HqError::usage(error.to_string()),
        _ => HqError::failed("notify", error.to_string()),
    })?;
    Done::ok(Nothing)
}
