//! Log lines that strangers can cause at will come at most once a second.

use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(1);

/// Counts what is not said.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    last: Option<Instant>,
    unsaid: u64,
}

impl Throttle {
    /// `Some` when it may be said now, with the number of times it was not since the last time.
    pub(crate) fn may_say(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_speaks_once_a_second_and_says_what_it_left_out() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        let said = [0, 10, 999, 1000, 1500, 5000].map(|ms| throttle.may_say(now + Duration::from_millis(ms)));
        assert_eq!(said, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
