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
        let begin = Instant::now();
        if let Some(ago) = self.was_silent(begin, worker) {
            return Err(was_silent(ago.as_secs()));
        }
        let answer = asking.await;
        self.asked(begin, Instant::now(), worker, answer.is_ok());
        answer
    }

    // How long ago it did not answer, if it is not asked again yet.
    fn was_silent(&self, now: Instant, worker: WorkerId) -> Option<Duration> {
        let ago = now.saturating_duration_since(*self.all().get(&worker)?);
        (ago < HOLDER_SILENT_TIME).then_some(ago)
    }

    // Who refuses at once is not silent.
    fn asked(&self, begin: Instant, end: Instant, worker: WorkerId, has_come: bool) {
        if !has_come && end.saturating_duration_since(begin) >= NODE_CONNECT_TIME {
            self.all().insert(worker, end);
        } else {
            self.all().remove(&worker);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<WorkerId, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A_MOMENT: Duration = Duration::from_millis(1);

    #[test]
    fn who_does_not_answer_is_not_asked_again_for_a_while() {
        let (silent, begin) = (Silent::default(), Instant::now());
        let end = begin + NODE_CONNECT_TIME;
        let (frozen, other) = (WorkerId(1), WorkerId(2));
        silent.asked(begin, end, frozen, false);
        silent.asked(begin, begin + A_MOMENT, other, false);
        assert_eq!(silent.was_silent(end + A_MOMENT, frozen), Some(A_MOMENT));
        assert_eq!(silent.was_silent(end + A_MOMENT, other), None, "it has refused");
        assert_eq!(silent.was_silent(end + HOLDER_SILENT_TIME, frozen), None, "it may have come back");
        silent.asked(end, end + NODE_CONNECT_TIME, frozen, true);
        assert_eq!(silent.was_silent(end + NODE_CONNECT_TIME, frozen), None, "it has answered late");
    }
}
