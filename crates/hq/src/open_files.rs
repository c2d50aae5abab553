//! How many files this process may have open: whether any command can do its work, and more for those that need many.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::HqError;

/// Fewer are not enough for a client with a connection.
const NEEDED: u64 = 32;

/// Whether there are enough for any command. What runs out later is told as something else that is missing.
pub(crate) fn check() -> Result<(), HqError> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|files| files >= NEEDED) {
        return Ok(());
    }
    raise();
    match limit.maximum.filter(|files| *files < NEEDED) {
        None => Ok(()),
        Some(files) => {
            let text = format!(
                "`hq` needs at least {NEEDED} open files, but the limit here is {files} (`ulimit -Hn`)"
            );
            let hint = "start it where the limit is higher (`ulimit -n`)".to_owned();
            Err(HqError::failed("open-files", text).hint(hint))
        }
    }
}

/// Raises the limit as far as it may be. Gives what it was, for programs that are to start with that.
pub(crate) fn raise() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    // Where it cannot be raised there are fewer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    before
}
