//! Words and numbers of screens: names that others chose can do nothing to a terminal, and numbers are short.

use std::time::Duration;

use crate::render::text::is_order;

/// A text of others on one line: what would move the cursor, color the screen or turn the direction of writing is shown
/// as a sign.
pub(crate) fn safe(text: &str) -> String {
    text.chars().map(sign).collect()
}

// What is shown for a character.
fn sign(char: char) -> char {
    match char {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + char as u32).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        // What takes no room.
        '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => '\u{fffd}',
        char if is_order(char) => '\u{fffd}',
        char => char,
    }
}

/// A count with thin groups: `1 234 567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A number with two or three digits that matter.
pub(crate) fn rate(value: f64) -> String {
    match value {
        value if value >= 99.95 => count(value.round() as u64),
        value if value >= 9.95 => format!("{value:.1}"),
        value if value > 0.0 => format!("{value:.2}"),
        _ => "0".to_owned(),
    }
}

/// A time in its two largest units: `3h 12m`.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) if seconds < 10 => format!("{:.1}s", time.as_secs_f64()),
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes:02}m"),
        _ => format!("{days}d {hours:02}h"),
    }
}

/// A part of a whole as a bar of so many cells.
pub(crate) fn bar(part: f64, cells: usize) -> String {
    let filled = ((part.clamp(0.0, 1.0) * cells as f64).round() as usize).min(cells);
    // A little is not nothing, and not quite all is not all.
    let filled = match filled {
        0 if part > 0.0 && cells > 1 => 1,
        filled if filled == cells && part < 1.0 && cells > 1 => cells - 1,
        filled => filled,
    };
    format!("{}{}", "█".repeat(filled), "░".repeat(cells - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_do_nothing_to_a_terminal() {
        for (text, shown) in [
            ("plain ü 名", "plain ü 名"),
            ("\u{1b}[31mred\u{7}", "␛[31mred␇"),
            ("a\nb\tc", "a␊b␉c"),
            ("\u{202e}gpj.exe", "\u{fffd}gpj.exe"),
            ("x\u{200b}y\u{9b}z", "x\u{fffd}y\u{fffd}z"),
        ] {
            assert_eq!(safe(text), shown);
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1 000", "1 234 567"]);
        assert_eq!([0.0, 0.123, 12.34, 1234.5].map(rate), ["0", "0.12", "12.3", "1 235"]);
        let times = [0.5, 42.0, 61.0, 3_700.0, 90_000.0].map(|s| time(Duration::from_secs_f64(s)));
        assert_eq!(times, ["0.5s", "42s", "1m 01s", "1h 01m", "1d 01h"]);
    }

    #[test]
    fn a_bar_says_when_it_is_not_empty_and_not_full() {
        assert_eq!(
            [0.0, 0.01, 0.5, 0.99, 1.0, 2.0].map(|part| bar(part, 4)),
            ["░░░░", "█░░░", "██░░", "███░", "████", "████"]
        );
    }
}
