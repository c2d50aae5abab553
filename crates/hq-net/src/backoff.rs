//! How long to wait before the next attempt to reach a server.
//!
//! The pauses double, and each has chance in it: a thousand workers that lost their server in the same
//! millisecond do not come back in the same one.

use std::time::Duration;

/// The pauses between attempts.
#[derive(Clone, Debug)]
pub struct Backoff {
    pause: Duration,
    pause_max: Duration,
}

impl Backoff {
    /// The first pause is about `pause_min`, the longest about `pause_max`.
    pub fn new(pause_min: Duration, pause_max: Duration) -> Backoff {
        Backoff { pause: pause_min, pause_max }
    }

    /// The time to wait now: between a half and three halves of what it is about.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(self.pause_max);
        let mut bytes = [0, 128];
        // Without randomness all come at once, which is no reason not to come.
        let _ = getrandom::fill(&mut bytes);
        pause.mul_f64(0.5 + f64::from(u16::from_be_bytes([bytes[1], bytes[0]])) / 65_536.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_are_spread_around_it() {
        let (min, max) = (Duration::from_millis(200), Duration::from_secs(5));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let mut backoff = Backoff::new(min, max);
            let first = backoff.next_pause();
            assert!((min / 2..=min * 3 / 2).contains(&first), "{first:?}");
            seen.insert(first);
            (0..10).for_each(|_| {
                backoff.next_pause();
            });
            let last = backoff.next_pause();
            assert!((max / 2..=max * 3 / 2).contains(&last), "{last:?}");
        }
        assert!(seen.len() > 50, "many that begin together do not end their pauses together");
    }
}
