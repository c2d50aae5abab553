//! Workers that did not answer: each object would wait for one that is frozen, and others for these.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hq_model::WorkerId;

use crate::limits::{HOLDER_SILENT_TIME, NODE_CONNECT_TIME};

/// Which ones, and when that was.
#[derive(Debug, Default)]
pub(crate) struct Silent(Mutex<HashMap<WorkerId, Instant>>);

impl Silent {
    /// Asks a worker, unless it did not answer a short time ago.
    ///
    /// # Errors
    /// Those of asking; and what is made of the seconds since then.
    pub(crate) async fn ask<T, E>(
        &self,
        worker: WorkerId,
        asking: impl Future<Output = Result<T, E>>,
        was_silent: impl FnOnce(u64) -> E,
    ) -> Result<T, E> {
        let before = self.all().get(&worker).map(Instant::elapsed);
        if let Some(ago) = before.filter(|ago: &Duration| *ago < HOLDER_SILENT_TIME) {
            return Err(was_silent(ago.as_secs()));
        }
        let begin = Instant::now();
        let answer = asking.await;
        match &answer {
            Err(_) if begin.elapsed() >= NODE_CONNECT_TIME => drop(self.all().insert(worker, Instant::now())),
            _ => drop(self.all().remove(&worker)),
        }
        answer
    }

    fn all(&self) -> MutexGuard<'_, HashMap<WorkerId, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
