//! How many files this process may have open: more for those that need many.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as it may be. Gives what it was, for programs that are to start with that.
pub(crate) fn raise() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    // Where it cannot be raised there are fewer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    before
}
