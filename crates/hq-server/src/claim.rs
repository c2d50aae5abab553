//! One server a directory: a starting one is refused while another lives, and waits for one that is ending.

use std::thread;
use std::time::Instant;

use hq_net::{AccessFile, Role};
use tokio::runtime::Builder;
use tokio::time::timeout;
use tracing::warn;

use crate::directory::{Lock, NoLock, ServerDir};
use crate::error::ServerError;
use crate::limits::{LOCK_RETRY, LOCK_TIME, LOCK_WORD, PROBE_TIME};

/// Takes a directory: it is ours when nobody holds its lock and nobody answers for it.
///
/// # Errors
/// When a living server has it.
pub(crate) fn claim(dir: &ServerDir) -> Result<Lock, ServerError> {
    let begin = Instant::now();
    let mut is_said = false;
    let lock = loop {
        match dir.lock() {
            Ok(lock) => break lock,
            Err(NoLock::Error(error)) => return Err(error),
            Err(NoLock::Taken(pid)) => {
                let access = dir.current_access();
                // One that is about to end has removed its access file: it is waited for.
                // The lock is most likely that of a process of this node.
                let answers =
                    access.as_ref().is_some_and(|access| answers(&access.on_this_node()) || answers(access));
                if answers || begin.elapsed() >= LOCK_TIME {
                    return Err(running(dir, access.as_ref(), pid));
                }
                if !is_said && begin.elapsed() >= LOCK_WORD {
                    is_said = true;
                    let directory = dir.path().display();
                    warn!(pid, %directory, "a process has this directory and does not answer; waiting for its end");
                }
                thread::sleep(LOCK_RETRY);
            }
        }
    };
    // On some network file systems each node sees its own locks only.
    match dir.current_access().filter(answers) {
        Some(access) => Err(running(dir, Some(&access), None)),
        None => Ok(lock),
    }
}

// True when the very server of this access file listens there.
fn answers(access: &AccessFile) -> bool {
    let Some(client) = &access.client else { return false };
    let Ok(runtime) = Builder::new_current_thread().enable_all().max_blocking_threads(1).build() else {
        return false;
    };
    let connect = async { timeout(PROBE_TIME, hq_net::connect(client, Role::Client)).await };
    let answers = matches!(runtime.block_on(connect), Ok(Ok(_)));
    runtime.shutdown_background();
    answers
}

fn running(dir: &ServerDir, access: Option<&AccessFile>, pid: Option<u32>) -> ServerError {
    ServerError::Running { directory: dir.path().to_owned(), address: address_of(access), pid }
}

fn address_of(access: Option<&AccessFile>) -> String {
    match access.and_then(|access| access.client.as_ref()) {
        Some(client) => format!("{}:{}", client.host, client.port),
        None => "an unknown port".to_owned(),
    }
}
