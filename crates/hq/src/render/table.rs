//! Tables: `+---+` frames where scripts read them, lines on a terminal.
//!
//! Rows may come in portions, so that a list of a million tasks needs no memory for all of them. Then the
//! widths are those of the rows so far, and grow where they must.

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::style::{Color, Style};

/// No column is made narrower than this to fit the terminal.
const COLUMN_WIDTH_MIN: usize = 12;

const SPACES: [u8; 64] = [b' '; 64];

/// A cell: some text, perhaps with several lines, perhaps coloured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    color: Option<Color>,
}

impl Cell {
    pub(crate) fn colored(text: impl Into<String>, color: Color) -> Cell {
        Cell { text: text.into(), color: Some(color) }
    }

    // As wide as it has bytes: most cells of long lists are.
    fn is_plain(&self) -> bool {
        self.text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    }

    fn width(&self) -> usize {
        if self.is_plain() {
            return self.text.len();
        }
        lines(&self.text).iter().map(|line| line.width()).max().unwrap_or(0)
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), color: None }
    }
}

/// Writes a table row by row.
pub(crate) struct TableWriter<'a> {
    out: &'a mut dyn Write,
    style: Style,
    header: Vec<String>,
    widths: Vec<usize>,
    is_begun: bool,
    has_rows: bool,
}

impl<'a> TableWriter<'a> {
    /// A table with these column names.
    pub(crate) fn new(out: &'a mut dyn Write, style: Style, header: &[&str]) -> TableWriter<'a> {
        let header: Vec<String> = header.iter().map(|h| (*h).to_owned()).collect();
        let widths = header.iter().map(|h| h.width()).collect();
        TableWriter { out, style, header, widths, is_begun: false, has_rows: false }
    }

    /// A table of names and values without column names.
    pub(crate) fn record(out: &'a mut dyn Write, style: Style) -> TableWriter<'a> {
        TableWriter { out, style, header: Vec::new(), widths: vec![0, 0], is_begun: false, has_rows: false }
    }

    /// Writes the next rows. Each has a cell for each column.
    pub(crate) fn rows(&mut self, rows: &[Vec<Cell>]) -> io::Result<()> {
        for row in rows {
            for (cell, width) in row.iter().zip(&mut self.widths) {
                *width = (*width).max(cell.width());
            }
        }
        self.fit();
        self.begin()?;
        if !self.has_rows && !rows.is_empty() {
            self.has_rows = true;
            if !self.header.is_empty() {
                self.rule(1)?;
            }
        }
        for row in rows {
            if row.iter().zip(&self.widths).all(|(cell, width)| cell.is_plain() && cell.text.len() <= *width)
            {
                let cells = row.iter().map(|cell| (cell.text.as_str(), cell.color));
                self.line(cells)?;
            } else {
                let wrapped: Vec<_> = row
                    .iter()
                    .zip(&self.widths)
                    .map(|(cell, width)| (wrap(lines(&cell.text), *width), cell.color))
                    .collect();
                self.row(&wrapped)?;
            }
        }
        Ok(())
    }

    /// Ends the table. One without rows has its header at least.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.begin()?;
        self.rule(2)
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.is_begun {
            return Ok(());
        }
        self.is_begun = true;
        self.rule(0)?;
        if self.header.is_empty() {
            return Ok(());
        }
        let header: Vec<_> = self.header.iter().map(|name| (vec![name.clone()], Some(Color::Bold))).collect();
        self.row(&header)
    }

    fn row(&mut self, cells: &[(Vec<String>, Option<Color>)]) -> io::Result<()> {
        let height = cells.iter().map(|(lines, _)| lines.len()).max().unwrap_or(1).max(1);
        for line in 0..height {
            self.line(
                cells.iter().map(|(lines, color)| (lines.get(line).map_or("", String::as_str), *color)),
            )?;
        }
        Ok(())
    }

    fn line<'c>(&mut self, cells: impl Iterator<Item = (&'c str, Option<Color>)>) -> io::Result<()> {
        let bar = if self.style.has_lines { "│" } else { "|" };
        for ((text, color), width) in cells.zip(&self.widths) {
            self.out.write_all(bar.as_bytes())?;
            self.out.write_all(b" ")?;
            match color {
                Some(_) => write!(self.out, "{}", self.style.paint(text, color))?,
                None => self.out.write_all(text.as_bytes())?,
            }
            let mut pad = width.saturating_sub(text.width()) + 1;
            while pad > 0 {
                let part = pad.min(SPACES.len());
                self.out.write_all(&SPACES[..part])?;
                pad -= part;
            }
        }
        self.out.write_all(bar.as_bytes())?;
        self.out.write_all(b"\n")
    }

    // The rule above the table (0), below the header (1) and below the table (2).
    fn rule(&mut self, place: usize) -> io::Result<()> {
        let (left, cross, right, line) = match (self.style.has_lines, place) {
            (false, _) => ("+", "+", "+", "-"),
            (true, 0) => ("╭", "┬", "╮", "─"),
            (true, 1) => ("├", "┼", "┤", "─"),
            (true, _) => ("╰", "┴", "╯", "─"),
        };
        let parts: Vec<String> = self.widths.iter().map(|w| line.repeat(w + 2)).collect();
        writeln!(self.out, "{left}{}{right}", parts.join(cross))
    }

    // Takes width from the widest columns until the table fits the terminal.
    fn fit(&mut self) {
        let Some(max) = self.style.width else {
            return;
        };
        let frame = 3 * self.widths.len() + 1;
        let mut excess = (self.widths.iter().sum::<usize>() + frame).saturating_sub(max);
        while excess > 0 {
            let Some(widest) = self.widths.iter_mut().max() else {
                return;
            };
            if *widest <= COLUMN_WIDTH_MIN {
                return;
            }
            *widest -= 1;
            excess -= 1;
        }
    }
}

/// Writes a whole table.
pub(crate) fn table(
    out: &mut dyn Write,
    style: Style,
    header: &[&str],
    rows: &[Vec<Cell>],
) -> io::Result<()> {
    let mut writer = TableWriter::new(out, style, header);
    writer.rows(rows)?;
    writer.finish()
}

/// Writes names and values.
pub(crate) fn record(out: &mut dyn Write, style: Style, rows: Vec<(&str, Cell)>) -> io::Result<()> {
    let rows: Vec<Vec<Cell>> =
        rows.into_iter().map(|(name, value)| vec![Cell::colored(name, Color::Bold), value]).collect();
    let mut writer = TableWriter::record(out, style);
    writer.rows(&rows)?;
    writer.finish()
}

// Lines without control characters: a name or an error must not move the cursor.
fn lines(text: &str) -> Vec<String> {
    text.split('\n').map(clean).collect()
}

fn clean(line: &str) -> String {
    if !line.contains(char::is_control) {
        return line.to_owned();
    }
    let mut clean = String::with_capacity(line.len());
    for c in line.trim_end_matches('\r').chars() {
        match c {
            '\t' => clean.push(' '),
            c if c.is_control() => clean.extend(c.escape_default()),
            c => clean.push(c),
        }
    }
    clean
}

fn wrap(lines: Vec<String>, width: usize) -> Vec<String> {
    if lines.iter().all(|l| l.width() <= width) {
        return lines;
    }
    let mut wrapped = Vec::with_capacity(lines.len() + 1);
    for line in lines {
        let mut part = String::new();
        let mut part_width = 0;
        for c in line.chars() {
            let char_width = c.width().unwrap_or(0);
            if part_width + char_width > width {
                wrapped.push(std::mem::take(&mut part));
                part_width = 0;
            }
            part.push(c);
            part_width += char_width;
        }
        wrapped.push(part);
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(style: Style, header: &[&str], rows: &[&[&str]]) -> String {
        let rows: Vec<Vec<Cell>> =
            rows.iter().map(|row| row.iter().map(|c| Cell::from(*c)).collect()).collect();
        let mut out = Vec::new();
        table(&mut out, style, header, &rows).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn scripts_see_plain_frames() {
        let shown = show(Style::default(), &["ID", "State"], &[&["1", "RUNNING"], &["12", "two\nlines"]]);
        insta::assert_snapshot!(shown, @r"
        +----+---------+
        | ID | State   |
        +----+---------+
        | 1  | RUNNING |
        | 12 | two     |
        |    | lines   |
        +----+---------+
        ");
    }

    #[test]
    fn an_empty_table_has_three_lines() {
        assert_eq!(show(Style::default(), &["ID"], &[]).lines().count(), 3);
    }

    #[test]
    fn a_terminal_sees_lines_and_wrapped_cells() {
        let style = Style { has_lines: true, width: Some(30), ..Style::default() };
        let shown = show(style, &["ID", "Error"], &[&["1", "a text that is far too long for the width"]]);
        insta::assert_snapshot!(shown, @r"
        ╭────┬───────────────────────╮
        │ ID │ Error                 │
        ├────┼───────────────────────┤
        │ 1  │ a text that is far to │
        │    │ o long for the width  │
        ╰────┴───────────────────────╯
        ");
    }

    #[test]
    fn text_cannot_move_the_cursor() {
        let shown = show(Style::default(), &["Name"], &[&["a\x1b[2Jb\tc"]]);
        assert!(shown.contains(r"a\u{1b}[2Jb c"), "{shown}");
    }

    #[test]
    fn rows_in_portions_keep_the_widths() {
        let mut out = Vec::new();
        let mut writer = TableWriter::new(&mut out, Style::default(), &["A"]);
        writer.rows(&[vec!["wide one".into()]]).expect("memory");
        writer.rows(&[vec!["x".into()]]).expect("memory");
        writer.finish().expect("memory");
        let out = String::from_utf8(out).expect("text");
        assert_eq!(out.lines().nth(4), Some("| x        |"));
    }
}
