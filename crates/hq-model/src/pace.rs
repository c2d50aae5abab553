//! How often something is told that may change all the time.

use std::time::Duration;

use crate::Timestamp;

/// Tells at once what changes after a quiet time, and at most once an interval what goes on changing (the generic cell rate
/// algorithm of ITU-T I.371).
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    gap: Duration,
    interval: Duration,
    burst: u32,
    last: Option<Timestamp>,
    // When all that was told would have been told at one an interval.
    paid: Timestamp,
}

impl Pace {
    /// At most once in `gap`; and once in `interval`, but for `burst` times after a quiet time of as many intervals.
    pub const fn new(gap: Duration, interval: Duration, burst: u32) -> Pace {
        Pace { gap, interval, burst, last: None, paid: Timestamp(0) }
    }

    /// When it may be told again; a time that has passed where that is now.
    pub fn next(&self) -> Timestamp {
        let Some(last) = self.last else { return Timestamp(0) };
        let ahead = self.interval * self.burst;
        let room = Timestamp(self.paid.since(Timestamp(0)).saturating_sub(ahead).as_micros() as u64);
        room.max(last.after(self.gap))
    }

    /// It is told now.
    pub fn told(&mut self, now: Timestamp) {
        let is_set_back = self.last.is_some_and(|last| now < last);
        let from = if is_set_back { now } else { self.paid.max(now) };
        self.paid = from.after(self.interval);
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Duration = Duration::from_millis(40);
    const INTERVAL: Duration = Duration::from_millis(500);

    // How long it takes to tell so many, each as soon as it may be told.
    fn told(pace: &mut Pace, from: Timestamp, count: u32) -> Duration {
        let mut now = from;
        for _ in 0..count {
            now = now.max(pace.next());
            pace.told(now);
        }
        now.since(from)
    }

    #[test]
    fn quick_after_a_quiet_time_and_slow_while_it_goes_on() {
        let mut pace = Pace::new(GAP, INTERVAL, 8);
        let begin = Timestamp(1_000_000_000);
        assert_eq!(told(&mut pace, begin, 8), 7 * GAP);
        let after = begin.after(7 * GAP);
        let rest = told(&mut pace, after, 100);
        assert!(rest >= 98 * INTERVAL && rest <= 101 * INTERVAL, "{rest:?}");
        let quiet = after.after(rest).after(9 * INTERVAL);
        assert_eq!(told(&mut pace, quiet, 3), 2 * GAP);
    }

    #[test]
    fn a_clock_that_is_set_back_is_forgotten_at_the_next_one() {
        let mut pace = Pace::new(GAP, INTERVAL, 2);
        told(&mut pace, Timestamp(10_000_000_000), 20);
        pace.told(Timestamp(1_000_000));
        assert_eq!(pace.next(), Timestamp(1_000_000).after(GAP));
    }
}
