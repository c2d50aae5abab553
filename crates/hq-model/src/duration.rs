//! Durations as people write them: `1h 30m`, `90s`, `HH:MM:SS`, `MM:SS`, `D-HH:MM:SS`, plain seconds. The same everywhere.

use std::time::Duration;

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not of the grammar.
    #[error("`{0}` is not a duration: use 90s, 1h 30m, MM:SS, HH:MM:SS, D-HH:MM:SS or plain seconds")]
    Malformed(String),
    /// A unit that is not known.
    #[error("`{unit}` in `{text}` is not a time unit: use ms, s, m, h, d, w, M or y")]
    Unit {
        /// The whole text.
        text: String,
        /// The unit.
        unit: String,
    },
    /// Minutes or seconds over 59 after a colon.
    #[error("`{0}`: minutes and seconds after a colon go up to 59")]
    Clock(String),
    /// More than can be counted.
    #[error("`{0}` is too long: durations go up to 1000 years")]
    TooLong(String),
}

const LONGEST_SECONDS: f64 = 1000.0 * 366.0 * 86_400.0;

/// Parses a duration.
///
/// # Errors
/// Says what is wrong with the text and what could be written.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let trimmed = text.trim();
    let seconds = match trimmed.split_once('-') {
        Some((days, rest)) => with_days(text, days, rest)?,
        None if trimmed.contains(':') => clock(text, trimmed)?,
        None => units(text, trimmed)?,
    };
    if seconds > LONGEST_SECONDS {
        return Err(DurationError::TooLong(text.into()));
    }
    // Microseconds are what is kept; rounding here makes printing and parsing agree.
    Ok(Duration::from_micros((seconds * 1e6).round() as u64))
}

/// Prints a duration for people and for [`parse`]: `1h 30m`, `2s 500ms`, `0s`.
pub fn format(duration: Duration) -> String {
    let micros = duration.as_micros();
    let parts = [
        (micros / 86_400_000_000, "d"),
        (micros / 3_600_000_000 % 24, "h"),
        (micros / 60_000_000 % 60, "m"),
        (micros / 1_000_000 % 60, "s"),
        (micros / 1000 % 1000, "ms"),
        (micros % 1000, "us"),
    ];
    let words: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if words.is_empty() { "0s".into() } else { words.join(" ") }
}

fn clock(text: &str, trimmed: &str) -> Result<f64, DurationError> {
    let malformed = || DurationError::Malformed(text.into());
    let parts: Vec<&str> = trimmed.split(':').collect();
    if parts.len() > 3 || parts.iter().any(|p| p.is_empty() || !p.bytes().all(|b| b.is_ascii_digit())) {
        return Err(malformed());
    }
    let mut seconds = 0.0;
    for (place, part) in parts.iter().enumerate() {
        let value: f64 = part.parse().map_err(|_| malformed())?;
        if place > 0 && value > 59.0 {
            return Err(DurationError::Clock(text.into()));
        }
        seconds = seconds * 60.0 + value;
    }
    Ok(seconds)
}

// As batch systems write it: days, then hours, and perhaps minutes and seconds.
fn with_days(text: &str, days: &str, rest: &str) -> Result<f64, DurationError> {
    let colons = rest.bytes().filter(|byte| *byte == b':').count();
    let whole = format!("{rest}{}", ":00".repeat(2_usize.saturating_sub(colons)));
    let is_number = !days.is_empty() && days.bytes().all(|byte| byte.is_ascii_digit());
    let days: f64 =
        days.parse().ok().filter(|_| is_number).ok_or_else(|| DurationError::Malformed(text.into()))?;
    Ok(days * 86_400.0 + clock(text, &whole)?)
}

fn units(text: &str, trimmed: &str) -> Result<f64, DurationError> {
    let malformed = || DurationError::Malformed(text.into());
    let mut rest = trimmed;
    let mut total = 0.0;
    let mut first = true;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(rest.len());
        let value: f64 = rest[..end].replace('_', "").parse().map_err(|_| malformed())?;
        rest = rest[end..].trim_start();
        let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        let unit = &rest[..end];
        rest = rest[end..].trim_start();
        // Plain seconds stand alone.
        if unit.is_empty() && !(first && rest.is_empty()) {
            return Err(malformed());
        }
        total += value * scale(text, unit)?;
        first = false;
    }
    if first { Err(malformed()) } else { Ok(total) }
}

fn scale(text: &str, unit: &str) -> Result<f64, DurationError> {
    Ok(match unit {
        "us" | "usec" => 1e-6,
        "ms" | "msec" | "millis" => 1e-3,
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        "w" | "week" | "weeks" => 7.0 * 86_400.0,
        // A twelfth of a year, and a year of the Julian calendar.
        "M" | "month" | "months" => 365.25 / 12.0 * 86_400.0,
        "y" | "year" | "years" => 365.25 * 86_400.0,
        _ => return Err(DurationError::Unit { text: text.into(), unit: unit.into() }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_is_read_everywhere() {
        for (text, seconds) in [
            ("90", 90.0),
            ("90s", 90.0),
            ("90sec", 90.0),
            ("1h 30m", 5400.0),
            ("1h30m", 5400.0),
            ("1.5h", 5400.0),
            ("2days 1 hour", 176_400.0),
            ("500ms", 0.5),
            ("01:30", 90.0),
            ("72:00:00", 259_200.0),
            ("1-00:00:00", 86_400.0),
            ("2-12", 216_000.0),
            ("0-01:30", 5400.0),
            ("0s", 0.0),
            ("2M", 5_259_600.0),
            ("1year 1 month", 31_557_600.0 + 2_629_800.0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
    }

    #[test]
    fn bad_texts_are_named() {
        for (text, error) in [
            ("", "`` is not a duration: use 90s, 1h 30m, MM:SS, HH:MM:SS, D-HH:MM:SS or plain seconds"),
            ("-1s", "`-1s` is not a duration: use 90s, 1h 30m, MM:SS, HH:MM:SS, D-HH:MM:SS or plain seconds"),
            (
                "1h 30",
                "`1h 30` is not a duration: use 90s, 1h 30m, MM:SS, HH:MM:SS, D-HH:MM:SS or plain seconds",
            ),
            ("3 parsecs", "`parsecs` in `3 parsecs` is not a time unit: use ms, s, m, h, d, w, M or y"),
            ("10:99", "`10:99`: minutes and seconds after a colon go up to 59"),
            (
                "1:2:3:4",
                "`1:2:3:4` is not a duration: use 90s, 1h 30m, MM:SS, HH:MM:SS, D-HH:MM:SS or plain seconds",
            ),
            ("9999999w", "`9999999w` is too long: durations go up to 1000 years"),
        ] {
            assert_eq!(parse(text).map_err(|e| e.to_string()), Err(error.into()));
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_printed_is_read_again(micros in 0u64..1 << 50) {
            let duration = Duration::from_micros(micros);
            proptest::prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn no_text_is_a_surprise(text in ".*") {
            let _ = parse(&text);
        }
    }
}
