//! How large a limit is: a number with its kind, so that people read it with a unit and programs without.

use std::fmt;
use std::time::Duration;

use hq_model::duration;

/// The value of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitValue {
    /// So many.
    Count(u64),
    /// So many bytes.
    Bytes(u64),
    /// So long.
    Time(Duration),
    /// There is no bound.
    None,
    /// What a server of another release says.
    Text(String),
}

impl LimitValue {
    /// So many, of a number of whatever type.
    pub fn count(count: impl TryInto<u64>) -> LimitValue {
        LimitValue::Count(count.try_into().unwrap_or(u64::MAX))
    }

    /// So many bytes, likewise.
    pub fn bytes(bytes: impl TryInto<u64>) -> LimitValue {
        LimitValue::Bytes(bytes.try_into().unwrap_or(u64::MAX))
    }
}

/// Prints `1000`, `64 MiB`, `4096 bytes`, `1h`, `none`.
impl fmt::Display for LimitValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        match self {
            LimitValue::Count(count) => count.fmt(f),
            LimitValue::Bytes(bytes) if *bytes > 0 && bytes % MIB == 0 => write!(f, "{} MiB", bytes / MIB),
            LimitValue::Bytes(bytes) => write!(f, "{bytes} bytes"),
            LimitValue::Time(time) => f.write_str(&duration::format(*time)),
            LimitValue::None => f.write_str("none"),
            LimitValue::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shown_with_their_units() {
        for (value, shown) in [
            (LimitValue::count(1000_u32), "1000"),
            (LimitValue::bytes(64_usize << 20), "64 MiB"),
            (LimitValue::bytes(4096_usize), "4096 bytes"),
            (LimitValue::Time(Duration::from_millis(50)), "50ms"),
            (LimitValue::Time(Duration::from_secs(3600)), "1h"),
            (LimitValue::None, "none"),
            (LimitValue::Text("2 of them".into()), "2 of them"),
        ] {
            assert_eq!(value.to_string(), shown);
        }
    }
}
