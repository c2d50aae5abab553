//! How output looks: colours, frames and the width of the terminal.

use std::io::IsTerminal;

use crate::cli::Colors;

/// How output looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Use colours.
    pub has_colors: bool,
    /// Draw frames with lines instead of `+---+`.
    pub has_lines: bool,
    /// Cells are wrapped so that tables are no wider, where that is possible.
    pub width: Option<usize>,
}

/// The colours of states.
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

    /// The text in that colour.
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
