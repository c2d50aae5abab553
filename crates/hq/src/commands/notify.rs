//! notify
use super::Done;
use crate::cli::task::NotifyArgs;
use crate::error::HqError;
pub(super) fn notify(_args: NotifyArgs) -> Result<Done, HqError> {
    Err(HqError::usage("not yet"))
}
