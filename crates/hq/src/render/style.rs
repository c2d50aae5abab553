//! How output looks: colors, frames and the width of the terminal.

use std::borrow::Cow;
use std::io::IsTerminal;

use hq_model::Timestamp;

use crate::cli::Colors;

/// How output looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Use colors.
    pub has_colors: bool,
    /// Draw frames with lines instead of `+---+`.
    pub has_lines: bool,
    /// Cells are wrapped so that tables are no wider, where that is possible.
    pub width: Option<usize>,
}

/// The colors of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Red,
    Green,
    Yellow,
    Cyan,
    Magenta,
    Bold,
}

impl Color {
    fn code(self) -> &'static str {
        match self {
            Color::Bold => "1",
            Color::Red => "31",
            Color::Green => "32",
            Color::Yellow => "33",
            Color::Magenta => "35",
            Color::Cyan => "36",
        }
    }
}

impl Style {
    /// The style for standard output.
    pub(crate) fn of_stdout(colors: Colors) -> Style {
        let is_terminal = std::io::stdout().is_terminal();
        let wanted = match colors {
            Colors::Always => true,
            Colors::Never => false,
            Colors::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        };
        let width = if is_terminal { terminal_width() } else { None };
        Style { has_colors: wanted, has_lines: is_terminal, width }
    }

    /// What is said on standard error.
    pub(crate) fn of_stderr() -> Style {
        Style { has_lines: std::io::stderr().is_terminal(), ..Style::default() }
    }

    /// A point in time to the second: as the clock of the reader shows it on a terminal, and else in UTC.
    pub(crate) fn time(&self, at: Timestamp) -> String {
        self.written(at, "%Y-%m-%d %H:%M:%S UTC")
    }

    /// A text of ours with the points in time that it names, which it has as JSON has them, as all others are printed.
    pub(crate) fn times_in<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !text.contains("Z") {
            return Cow::Borrowed(text);
        }
        let shown = |word: &'a str| {
            let time = word.trim_matches(['(', ')', ',', ':', '.', ';']);
            let at = time.ends_with('Z').then(|| time.parse::<Timestamp>().ok()).flatten();
            at.map_or(Cow::Borrowed(word), |at| Cow::Owned(word.replacen(time, &self.time(at), 1)))
        };
        Cow::Owned(text.split(' ').map(shown).collect::<Vec<_>>().join(" "))
    }

    /// The same as tables of tasks and allocations have it where scripts read them.
    pub(crate) fn clock(&self, at: Timestamp) -> String {
        self.written(at, "%d.%m.%Y %H:%M:%S")
    }

    /// The same of what may not have been yet.
    pub(crate) fn optional_clock(&self, at: Option<Timestamp>) -> String {
        at.map_or_else(String::new, |at| self.clock(at))
    }

    fn written(&self, at: Timestamp, of_scripts: &str) -> String {
        let micros = i64::try_from(at.0).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
        if self.has_lines {
            return time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string();
        }
        time.to_zoned(jiff::tz::TimeZone::UTC).strftime(of_scripts).to_string()
    }

    /// The text in that color.
    pub(crate) fn paint(&self, text: &str, color: Option<Color>) -> String {
        match color {
            Some(color) if self.has_colors && !text.is_empty() => {
                format!("\x1b[{}m{text}\x1b[0m", color.code())
            }
            _ => text.to_owned(),
        }
    }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local_on_a_terminal_only() {
        let at = Timestamp(1_763_697_600_000_123);
        assert_eq!(Style::default().time(at), "2025-11-21 04:00:00 UTC");
        assert_eq!(Style::default().clock(at), "21.11.2025 04:00:00");
        let shown = Style { has_lines: true, ..Style::default() }.time(at);
        let read: jiff::Timestamp = shown.replacen(' ', "T", 1).replacen(' ', "", 1).parse().expect("a time");
        assert_eq!(read.as_second(), 1_763_697_600, "{shown}");
        let text = "it is to end by 2025-11-21T04:00:00Z, or so: (at 2025-11-21T04:00:00.000123Z) Z";
        for (has_lines, shown) in [(true, shown.as_str()), (false, "2025-11-21 04:00:00 UTC")] {
            let told = Style { has_lines, ..Style::default() }.times_in(text).into_owned();
            assert_eq!(told, format!("it is to end by {shown}, or so: (at {shown}) Z"));
        }
    }
}
