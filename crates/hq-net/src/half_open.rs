//! How many connections may be on their way to proving their key.
//!
//! Anyone on the network can open connections and say nothing. So there are few places; who finds none
//! waits, and when nobody leaves, the one who has been there longest must go. A reconnect storm of
//! honest peers passes at the speed of their handshakes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::limits::{HALF_OPEN_GRACE, HALF_OPEN_MAX};

/// The places of one listener.
#[derive(Debug, Default)]
pub(crate) struct HalfOpen {
    // Oldest first. At most `HALF_OPEN_MAX`, so that looking through is nothing.
    taken: Mutex<VecDeque<Place>>,
    left: Notify,
}

#[derive(Debug)]
struct Place {
    since: Instant,
    cut_short: Arc<Notify>,
}

/// A place; free again when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    places: Arc<HalfOpen>,
    cut_short: Arc<Notify>,
}

impl HalfOpen {
    /// Waits for a place and takes it.
    pub(crate) async fn enter(self: &Arc<Self>) -> Permit {
        loop {
            let oldest = match self.try_enter() {
                Ok(permit) => return permit,
                Err(since) => since,
            };
            if timeout_at(oldest + HALF_OPEN_GRACE, self.left.notified()).await.is_err() {
                self.cut_oldest(oldest);
            }
        }
    }

    // Else since when the oldest has been there.
    fn try_enter(self: &Arc<Self>) -> Result<Permit, Instant> {
        let mut taken = self.lock();
        if let Some(oldest) = taken.front().filter(|_| taken.len() >= HALF_OPEN_MAX) {
            return Err(oldest.since);
        }
        let cut_short = Arc::new(Notify::new());
        taken.push_back(Place { since: Instant::now(), cut_short: cut_short.clone() });
        Ok(Permit { places: self.clone(), cut_short })
    }

    fn cut_oldest(&self, since: Instant) {
        let mut taken = self.lock();
        if taken.front().is_some_and(|oldest| oldest.since == since)
            && let Some(oldest) = taken.pop_front()
        {
            oldest.cut_short.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Place>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Ready when the place is needed for another.
    pub(crate) async fn cut_short(&self) {
        self.cut_short.notified().await;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.places.lock().retain(|place| !Arc::ptr_eq(&place.cut_short, &self.cut_short));
        self.places.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fill(places: &Arc<HalfOpen>) -> Vec<Permit> {
        let mut permits = Vec::new();
        for _ in 0..HALF_OPEN_MAX {
            permits.push(places.enter().await);
        }
        permits
    }

    #[tokio::test(start_paused = true)]
    async fn one_more_waits_until_one_leaves() {
        let places = Arc::new(HalfOpen::default());
        let mut permits = fill(&places).await;
        let begin = Instant::now();
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.enter().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        permits.pop();
        waiting.await.expect("a place");
        assert_eq!(begin.elapsed().as_millis(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn when_nobody_leaves_the_oldest_must_go() {
        let places = Arc::new(HalfOpen::default());
        let permits = fill(&places).await;
        let begin = Instant::now();
        let _late = places.enter().await;
        // The clock of the runtime counts in milliseconds.
        assert!(begin.elapsed().abs_diff(HALF_OPEN_GRACE).as_millis() <= 1, "{:?}", begin.elapsed());
        permits[0].cut_short().await;
        assert_eq!(places.lock().len(), HALF_OPEN_MAX);
        drop(permits);
        assert_eq!(places.lock().len(), 1);
    }
}
