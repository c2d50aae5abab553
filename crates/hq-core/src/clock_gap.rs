//! Clocks that do not agree: the server's with the journal that it finds at its start, and with those of workers.

use std::time::Duration;

use hq_model::Timestamp;

use crate::limits::{CLOCK_BEHIND_MAX, TIME_AWAY_MAX};

/// How the clock of the server's machine and the journal differed when the server started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockGap {
    /// The clock was behind the latest record by so much. The server's times go on from that record, so they are ahead of
    /// the clock.
    Behind(Duration),
    /// The latest record was older than the clock by so much: the server was away for long, or a clock is or was wrong.
    Ahead(Duration),
}

impl ClockGap {
    /// What is worth a word of a machine's clock, and of the time of the latest record, if there is one.
    pub fn between(clock: Timestamp, latest: Timestamp) -> Option<ClockGap> {
        let (behind, ahead) = (latest.since(clock), clock.since(latest));
        match latest {
            Timestamp(0) => None,
            _ if behind > CLOCK_BEHIND_MAX => Some(ClockGap::Behind(behind)),
            _ if ahead > TIME_AWAY_MAX => Some(ClockGap::Ahead(ahead)),
            _ => None,
        }
    }
}

/// When a worker started, by the clock of the server: `started` by its own, and `age` ago.
///
/// Where both clocks agree but for what a message may need, the worker's is as good, and has no such delay in it. Else a
/// worker with a time limit would seem to be at its end already, or to live longer than it does.
pub fn on_this_clock(now: Timestamp, started: Timestamp, age: Option<Duration>) -> Timestamp {
    let Some(age) = age else { return started };
    let seen = Timestamp(now.0.saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX)));
    let gap = seen.since(started).max(started.since(seen));
    if gap > CLOCK_BEHIND_MAX { seen } else { started }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worth_a_word_is_far_away() {
        let at = |seconds: u64| Timestamp(1_000_000_000_000 + seconds * 1_000_000);
        let day = 24 * 3600;
        let gap = |clock, latest| ClockGap::between(at(clock), at(latest));
        assert_eq!((gap(5, 5), gap(0, 10), gap(day, 0)), (None, None, None));
        assert_eq!(gap(0, 11), Some(ClockGap::Behind(Duration::from_secs(11))));
        assert_eq!(gap(day + 1, 0), Some(ClockGap::Ahead(Duration::from_secs(day + 1))));
        assert_eq!(ClockGap::between(at(0), Timestamp(0)), None, "a new journal");
    }

    #[test]
    fn the_start_of_a_worker_is_told_by_the_clock_of_the_server() {
        let at = |seconds: u64| Timestamp(1_000_000_000_000 + seconds * 1_000_000);
        let seen =
            |started, age: Option<u64>| on_this_clock(at(100_000), at(started), age.map(Duration::from_secs));
        for (started, age, seen_at) in [
            (99_990, Some(10), 99_990),
            (99_981, Some(10), 99_981),
            (99_979, Some(10), 99_990),
            (100_000, Some(10), 100_000),
            (0, Some(10), 99_990),
            (900_000, Some(10), 99_990),
            (0, None, 0),
        ] {
            assert_eq!(seen(started, age), at(seen_at), "{started} {age:?}");
        }
        assert_eq!(on_this_clock(at(0), at(0), Some(Duration::MAX)), Timestamp(0));
    }
}
