//! How many connections this process may have.

use hq_net::limits::{half_open_max, silent_max};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::ServerError;
use crate::limits::{DESCRIPTORS_RESERVED, OPEN_FILES_MIN};

/// Ports of a server: for clients and for workers.
const LISTENERS: usize = 2;

/// Raises the limit on open files as far as the process may, and gives the number of connections that it then can have.
///
/// # Errors
/// When that is too few to work with.
pub(crate) fn raise_limit() -> Result<usize, ServerError> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    check(limit)?;
    Ok(connections(limit, LISTENERS * (silent_max() + half_open_max())))
}

// Where hardly anybody can connect, whoever does so is not answered, and nobody learns why.
fn check(limit: Option<u64>) -> Result<(), ServerError> {
    match limit {
        Some(limit) if limit < OPEN_FILES_MIN => {
            Err(ServerError::OpenFiles { limit, needed: OPEN_FILES_MIN })
        }
        _ => Ok(()),
    }
}

// `strangers` may be on their way in beside those that have proved their keys.
fn connections(limit: Option<u64>, strangers: usize) -> usize {
    // No limit means the kernel's own, which is far above what a semaphore counts here.
    let limit = limit.unwrap_or(u64::MAX).min(1 << 20);
    usize::try_from(limit.saturating_sub(DESCRIPTORS_RESERVED + strangers as u64).max(1)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_kept_for_other_things() {
        for (limit, expected) in [(Some(1024), 496), (Some(10), 1), (None, (1 << 20) - 528)] {
            assert_eq!(connections(limit, 400), expected);
        }
    }

    #[test]
    fn a_server_that_hardly_anybody_could_connect_to_does_not_start() {
        for (limit, told) in [(Some(255), Some("255")), (Some(256), None), (None, None)] {
            let error = check(limit).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), told.is_some(), "{error:?}");
            assert!(error.iter().all(|error| error.contains(told.unwrap_or_default())), "{error:?}");
        }
        let strangers = LISTENERS * (32 + 16);
        assert!(connections(Some(OPEN_FILES_MIN), strangers) >= 32, "there is room for some");
    }
}
