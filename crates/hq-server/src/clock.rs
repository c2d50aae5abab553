//! The time the server machine sees: it never goes back, and time in which the server could not
//! listen does not count at once.
//!
//! A server that was frozen (a suspended laptop, a full disk, a debugger) finds on waking that every
//! worker has been silent for long. That is its own fault, so the clock stays where it was and
//! catches up slowly enough that living workers are heard in time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hq_model::Timestamp;

/// A clock that lags catches up by one part in so many of the time that passes.
const CATCH_UP: u32 = 8;

/// The clock.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    origin_time: Timestamp,
    behind: Duration,
    seen: Instant,
    last: Timestamp,
}

impl Clock {
    /// What the machine's clock shows now; a time before 1970 counts as its begin.
    pub(crate) fn of_machine() -> Timestamp {
        Timestamp::default().after(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// A clock that shows the wall's time, or `at_least` if that is later.
    pub(crate) fn new(wall: Timestamp, at_least: Timestamp) -> Clock {
        Clock::starting(Instant::now(), wall.max(at_least))
    }

    fn starting(origin: Instant, origin_time: Timestamp) -> Clock {
        Clock { origin, origin_time, behind: Duration::ZERO, seen: origin, last: origin_time }
    }

    /// The time at an instant; never before one that was given out.
    pub(crate) fn at(&mut self, instant: Instant) -> Timestamp {
        let passed = instant.saturating_duration_since(self.seen);
        self.behind = self.behind.saturating_sub(passed / CATCH_UP);
        self.seen = self.seen.max(instant);
        let elapsed = instant.saturating_duration_since(self.origin).saturating_sub(self.behind);
        self.last = self.last.max(self.origin_time.after(elapsed));
        self.last
    }

    /// When it will show this time, or shortly after.
    pub(crate) fn when(&self, time: Timestamp) -> Instant {
        // A time too far for the clock of the system comes in a day, and then is looked at again.
        let day = self.seen + Duration::from_secs(86_400);
        let ahead = time.since(self.origin_time) + self.behind;
        self.origin.checked_add(ahead).map_or(day, |instant| instant.min(day))
    }

    /// The server could not listen for so long, until now.
    pub(crate) fn missed(&mut self, time: Duration, now: Instant) {
        self.behind += time;
        self.seen = self.seen.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn clock() -> (Clock, Instant) {
        let origin = Instant::now();
        (Clock::starting(origin, Timestamp(1_000_000_000)), origin)
    }

    fn seconds(time: Timestamp) -> f64 {
        time.since(Timestamp(1_000_000_000)).as_secs_f64()
    }

    #[test]
    fn it_runs_with_the_monotonic_clock_and_never_goes_back() {
        let (mut clock, origin) = clock();
        assert_eq!(seconds(clock.at(origin + 5 * SECOND)), 5.0);
        assert_eq!(seconds(clock.at(origin + 3 * SECOND)), 5.0);
        assert_eq!(clock.when(Timestamp(1_000_000_000 + 9_000_000)), origin + 9 * SECOND);
    }

    #[test]
    fn missed_time_comes_back_slowly() {
        let (mut clock, origin) = clock();
        assert_eq!(seconds(clock.at(origin + SECOND)), 1.0);
        clock.missed(60 * SECOND, origin + 61 * SECOND);
        assert_eq!(seconds(clock.at(origin + 61 * SECOND)), 1.0);
        // A worker that speaks every 8 s and counts as silent after 16 s is heard in time.
        assert_eq!(seconds(clock.at(origin + 69 * SECOND)), 10.0);
        assert_eq!(seconds(clock.at(origin + 641 * SECOND)), 641.0);
    }

    #[test]
    fn a_time_beyond_all_clocks_is_looked_at_within_a_day() {
        let (clock, origin) = clock();
        assert_eq!(clock.when(Timestamp(u64::MAX)), origin + 86_400 * SECOND);
    }
}
