//! run
use hq_client::options::RunOptions;
use super::Context;
use crate::error::HqError;
pub(super) fn run(_context: &Context, _options: RunOptions) -> Result<u8, HqError> {
    Err(HqError::usage("not yet"))
}
