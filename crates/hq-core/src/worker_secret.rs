//! What tells workers apart that have the same key.

use std::fmt;

/// What the worker that registered under an id knows, and others that have the key of workers do not: with it alone it comes back
/// under its id. The worker draws it at its start; it is never the same for two of them.
///
/// In the server, and so in the journal, stands the SHA-256 digest of what the worker says: the edge of the server puts it there, so
/// that who reads a journal cannot take the place of a worker.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WorkerSecret(pub [u8; 32]);

// Never in a log.
impl fmt::Debug for WorkerSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WorkerSecret(..)")
    }
}
