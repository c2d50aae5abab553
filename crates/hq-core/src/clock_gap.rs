//! Whether the clock of the server's machine fits the journal that the server finds at its start.

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
}
