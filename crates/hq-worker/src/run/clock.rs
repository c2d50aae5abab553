//! The time of a worker.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use hq_model::Timestamp;

/// The machine's clock: the time of day at the start and what has passed since, so it never goes back.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) start: Instant,
    start_at: Timestamp,
}

impl Clock {
    pub(super) fn start() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { start: Instant::now(), start_at: Timestamp::default().after(since_epoch) }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.start_at.after(self.start.elapsed())
    }

    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        // Far away is far enough.
        let wait = at.since(self.start_at).min(std::time::Duration::from_secs(1 << 30));
        self.start + wait
    }
}
