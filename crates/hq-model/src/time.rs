//! Points in time as the server and workers exchange and keep them.

use std::fmt;
use std::str::FromStr;

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The time `duration` later, saturating.
    pub fn after(self, duration: std::time::Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> std::time::Duration {
        std::time::Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// Prints RFC 3339 in UTC with microseconds: `2026-11-21T04:00:00.000123Z`; with `#` to the second.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = i64::try_from(self.0).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
        if f.alternate() { write!(f, "{time:.0}") } else { write!(f, "{time:.6}") }
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time: jiff::Timestamp = text.parse()?;
        Ok(Timestamp(u64::try_from(time.as_microsecond()).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_in_utc_and_read_again() {
        let time = Timestamp(1_763_697_600_000_123);
        assert_eq!(time.to_string(), "2025-11-21T04:00:00.000123Z");
        assert_eq!(format!("{time:#}"), "2025-11-21T04:00:00Z");
        assert_eq!(time.to_string().parse::<Timestamp>().ok(), Some(time));
    }
}
