//! What workers show when they come back: drawn where they start, and kept as a digest where they register.

use std::io;

use hq_core::WorkerSecret;
use ring::digest::{SHA256, digest};

/// A secret of a new worker.
///
/// # Errors
/// When the system has no randomness.
pub fn draw() -> io::Result<WorkerSecret> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(WorkerSecret(bytes))
}

/// What a server keeps of it: nobody can show the secret who has read this.
pub fn kept(secret: WorkerSecret) -> WorkerSecret {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, &secret.0).as_ref());
    WorkerSecret(bytes)
}
