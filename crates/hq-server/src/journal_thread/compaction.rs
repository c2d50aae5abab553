//! Compaction in the background: a thread folds what the journal held when it began, and writes the
//! records that rebuild the result. The deciding thread knows nothing of it, and the journal thread
//! only begins and ends it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use hq_core::server::state::State;
use hq_journal::{Compactor, OpenError, RealDisk, RealFile, Replaced, Snapshot, replay_until};
use hq_proto::{ProtoError, decode_record};
use tracing::debug;

use crate::journal_thread::dead::Weights;
use crate::journal_thread::queue::{JournalQueue, Step};
use crate::journal_thread::submits::Submits;
use crate::limits::COMPACTION_NICE;
use crate::memory;

type Outcome = Arc<Mutex<Option<Result<(Snapshot, Weights), String>>>>;

/// A compaction that runs.
#[derive(Debug)]
pub(crate) struct Compaction {
    outcome: Outcome,
    is_canceled: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Compaction {
    /// Begins. When it is done, the journal thread is woken up.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub(crate) fn start(
        path: &Path,
        compactor: Compactor<RealFile>,
        queue: &Arc<JournalQueue>,
    ) -> Result<Compaction, String> {
        let outcome = Outcome::default();
        let is_canceled = Arc::new(AtomicBool::new(false));
        let (path, queue) = (path.to_owned(), queue.clone());
        let (slot, canceled) = (outcome.clone(), is_canceled.clone());
        let work = move || {
            step_back();
            let result = compact(&path, compactor, &canceled);
            // It had the state once more.
            memory::give_back();
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            queue.push(&mut vec![Step::Tend], 0);
        };
        let thread = thread::Builder::new().name("hq-compact".to_owned()).spawn(work);
        let thread = thread.map_err(|error| format!("no more threads: {error}"))?;
        Ok(Compaction { outcome, is_canceled, thread: Some(thread) })
    }

    /// Gives it up without waiting for its thread, which may wait for room in the queue of steps.
    pub(crate) fn cancel(mut self) {
        self.is_canceled.store(true, Ordering::Release);
        self.thread = None;
    }

    /// What it came to, once it is done.
    pub(crate) fn outcome(&mut self) -> Option<Result<(Snapshot, Weights), String>> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        if outcome.is_some() {
            // It may wait for room to say so: it is not waited for.
            self.thread = None;
        } else if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return Some(Err("it broke one of its own rules".to_owned()));
        }
        outcome
    }
}

/// Removes files that a compaction has replaced, in the background: that of large ones takes long.
pub(crate) fn remove(path: &Path, replaced: Replaced) {
    let path = path.to_owned();
    let work = move || {
        step_back();
        if let Ok(disk) = RealDisk::open(&path) {
            replaced.remove(&disk);
        }
    };
    // Without a thread they go at the next start.
    if let Err(error) = thread::Builder::new().name("hq-compact".to_owned()).spawn(work) {
        debug!(%error, "no more threads: replaced files of the journal stay for now");
    }
}

// On Linux that is for this thread alone. Where it is not permitted, compaction takes its part like the rest.
fn step_back() {
    let _ = rustix::process::nice(COMPACTION_NICE);
}

impl Drop for Compaction {
    fn drop(&mut self) {
        self.is_canceled.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic there has been told by its message; the old files are as good as before.
            let _ = thread.join();
        }
    }
}

fn compact(
    path: &Path,
    mut compactor: Compactor<RealFile>,
    is_canceled: &AtomicBool,
) -> Result<(Snapshot, Weights), String> {
    let begin = Instant::now();
    let disk = RealDisk::open(path).map_err(|error| error.to_string())?;
    let (mut state, mut submits) = (State::default(), Submits::default());
    // Records of later releases that may be skipped are kept as they are.
    let mut unknown = Vec::new();
    let mut apply = |_: u64, bytes: &[u8]| {
        if is_canceled.load(Ordering::Acquire) {
            return Err("it was given up".to_owned());
        }
        match decode_record(bytes) {
            Ok((at, mut record)) => {
                submits.take_out(at, &mut record);
                submits.drop_entries(&state, &record)?;
                state.apply(at, &record);
            }
            Err(ProtoError::UnknownRecord { critical: false, .. }) => unknown.push(bytes.to_vec()),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    };
    replay_until(&disk, compactor.first_seq(), &mut apply).map_err(|error| match error {
        OpenError::Journal(error) => error.to_string(),
        refused @ OpenError::Refused { .. } => refused.to_string(),
    })?;
    let mut weights = Weights::default();
    state.snapshot(&mut |at, record| {
        if is_canceled.load(Ordering::Acquire) {
            return Err("it was given up".to_owned());
        }
        let bytes = submits.encode(at, &record)?;
        weights.add(&record, bytes.len());
        compactor.append(&bytes).map_err(|error| error.to_string())
    })?;
    for record in &unknown {
        compactor.append(record).map_err(|error| error.to_string())?;
    }
    let snapshot = compactor.finish().map_err(|error| error.to_string())?;
    debug!(ms = begin.elapsed().as_millis() as u64, "a snapshot of the journal was written");
    Ok((snapshot, weights))
}
