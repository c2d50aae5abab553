//! Tables: `+---+` frames where scripts read them, lines on a terminal.
//!
//! Rows may come in portions, so that a list of a million tasks needs no memory for all of them. Then the
//! widths are those of the rows so far, and grow where they must.
//!
//! On a terminal that is too narrow for the columns, each row becomes a small table of names and values.

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::style::{Color, Style};
use super::text;

/// No word is cut to make a column narrower than this.
const COLUMN_WIDTH_MIN: usize = 6;

/// Words up to this length, as states are, are not cut.
const WORD_WIDTH_WHOLE: usize = 10;

/// A word that is too long for its column is cut behind one of these, if there is one in the later half of the line.
const CUT_BEHIND: [char; 7] = ['/', ',', ':', '=', '-', '_', '.'];

/// In tables of names and values the names are neither broken nor cut as long as values have this much.
const VALUE_WIDTH_MIN: usize = 24;

/// What a table without rows says where the names of its columns have no room.
const NO_ROWS: &str = "nothing to show";

const SPACES: [u8; 64] = [b' '; 64];

/// A cell: some text, perhaps with several lines, perhaps colored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    look: Look,
}

// How the text of a cell is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    color: Option<Color>,
    is_number: bool,
}

impl Cell {
    pub(crate) fn colored(text: impl Into<String>, color: Color) -> Cell {
        Cell { text: text.into(), look: Look { color: Some(color), is_number: false } }
    }

    /// An id or a count, at the right of its column.
    pub(crate) fn number(number: impl ToString) -> Cell {
        Cell { text: number.to_string(), look: Look { color: None, is_number: true } }
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

    fn word_width(&self) -> usize {
        word_width(&self.text)
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), look: Look::default() }
    }
}

/// Writes a table row by row.
pub(crate) struct TableWriter<'a> {
    out: &'a mut dyn Write,
    style: Style,
    header: Vec<String>,
    widths: Vec<usize>,
    // Of the longest word of each column.
    words: Vec<usize>,
    // The names of the columns when each row is a table of names and values.
    stacked: Option<Vec<String>>,
    is_begun: bool,
    has_rows: bool,
}

impl<'a> TableWriter<'a> {
    /// A table with these column names.
    pub(crate) fn new(out: &'a mut dyn Write, style: Style, header: &[&str]) -> TableWriter<'a> {
        let header: Vec<String> = header.iter().map(|h| (*h).to_owned()).collect();
        let widths = header.iter().map(|h| h.width()).collect();
        let words = header.iter().map(|h| word_width(h)).collect();
        TableWriter { out, style, header, widths, words, stacked: None, is_begun: false, has_rows: false }
    }

    /// A table of names and values without column names.
    pub(crate) fn record(out: &'a mut dyn Write, style: Style) -> TableWriter<'a> {
        TableWriter { widths: vec![0, 0], words: vec![0, 0], ..TableWriter::new(out, style, &[]) }
    }

    /// Writes the next rows. Each has a cell for each column.
    pub(crate) fn rows(&mut self, rows: &[Vec<Cell>]) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        if self.stacked.is_none() {
            self.measure(rows);
            if self.fit() || self.is_begun || self.header.is_empty() {
                return self.lines_of(rows);
            }
            self.stack();
        }
        let records: Vec<Vec<Vec<Cell>>> = rows.iter().map(|row| self.record_of(row)).collect();
        records.iter().for_each(|record| self.measure(record));
        self.fit();
        for record in &records {
            if self.has_rows {
                self.rule(1)?;
            }
            self.lines_of(record)?;
        }
        Ok(())
    }

    /// Ends the table. One without rows has its header at least, or says so where that is too wide.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if !self.is_begun && !self.fit() {
            self.header.clear();
            self.widths = vec![NO_ROWS.len()];
            self.lines_of(&[vec![NO_ROWS.into()]])?;
        }
        self.begin()?;
        self.rule(2)
    }

    fn measure(&mut self, rows: &[Vec<Cell>]) {
        for row in rows {
            for (cell, width) in row.iter().zip(&mut self.widths) {
                *width = (*width).max(cell.width());
            }
            if self.style.width.is_some() {
                for (cell, word) in row.iter().zip(&mut self.words) {
                    *word = (*word).max(cell.word_width());
                }
            }
        }
    }

    // From now on each row is a table of names and values.
    fn stack(&mut self) {
        self.stacked = Some(std::mem::take(&mut self.header));
        (self.widths, self.words) = (vec![0, 0], vec![0, 0]);
    }

    // Names and values of a row that is stacked, without those that say nothing.
    fn record_of(&self, row: &[Cell]) -> Vec<Vec<Cell>> {
        let names = self.stacked.iter().flatten();
        let said = names.zip(row).filter(|(_, cell)| !cell.text.is_empty());
        let value = |cell: &Cell| Cell { look: Look { is_number: false, ..cell.look }, ..cell.clone() };
        said.map(|(name, cell)| vec![Cell::colored(name.as_str(), Color::Bold), value(cell)]).collect()
    }

    fn lines_of(&mut self, rows: &[Vec<Cell>]) -> io::Result<()> {
        self.begin()?;
        if !self.has_rows {
            self.has_rows = true;
            if !self.header.is_empty() {
                self.rule(1)?;
            }
        }
        for row in rows {
            if row.iter().zip(&self.widths).all(|(cell, width)| cell.is_plain() && cell.text.len() <= *width)
            {
                let cells = row.iter().map(|cell| (cell.text.as_str(), cell.look));
                self.line(cells)?;
            } else {
                let wrapped: Vec<_> = row
                    .iter()
                    .zip(&self.widths)
                    .map(|(cell, width)| (wrap(lines(&cell.text), *width), cell.look))
                    .collect();
                self.row(&wrapped)?;
            }
        }
        Ok(())
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
        let names = self.header.iter().zip(&self.widths);
        let look = Look { color: Some(Color::Bold), is_number: false };
        let header: Vec<_> = names.map(|(name, width)| (wrap(vec![name.clone()], *width), look)).collect();
        self.row(&header)
    }

    fn row(&mut self, cells: &[(Vec<String>, Look)]) -> io::Result<()> {
        let height = cells.iter().map(|(lines, _)| lines.len()).max().unwrap_or(1).max(1);
        for line in 0..height {
            self.line(cells.iter().map(|(lines, look)| (lines.get(line).map_or("", String::as_str), *look)))?;
        }
        Ok(())
    }

    fn line<'c>(&mut self, cells: impl Iterator<Item = (&'c str, Look)>) -> io::Result<()> {
        let bar = if self.style.has_lines { "│" } else { "|" };
        for ((text, look), width) in cells.zip(&self.widths) {
            let pad = width.saturating_sub(text.width());
            self.out.write_all(bar.as_bytes())?;
            pad_with(self.out, if look.is_number { pad + 1 } else { 1 })?;
            match look.color {
                Some(_) => write!(self.out, "{}", self.style.paint(text, look.color))?,
                None => self.out.write_all(text.as_bytes())?,
            }
            pad_with(self.out, if look.is_number { 1 } else { pad + 1 })?;
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

    // Takes width from the widest columns until the table fits the terminal: first where lines can be broken between
    // words, then where words of values have to be cut. Names of columns are never cut. False when it is too wide still.
    fn fit(&mut self) -> bool {
        let Some(max) = self.style.width else {
            return true;
        };
        let frame = 3 * self.widths.len() + 1;
        if let [names, value] = &mut self.widths[..]
            && self.header.is_empty()
        {
            let room = max.saturating_sub(frame + *names);
            if room >= VALUE_WIDTH_MIN {
                *value = room.min(*value);
                return true;
            }
        }
        let excess = (self.widths.iter().sum::<usize>() + frame).saturating_sub(max);
        let excess = narrow(&mut self.widths, &self.words, excess);
        if excess == 0 {
            return true;
        }
        let name = |at: usize| match self.stacked {
            Some(_) if at == 0 => self.words[0],
            _ => self.header.get(at).map_or(0, |name| word_width(name)),
        };
        let least = |(at, word): (usize, &usize)| match *word {
            word @ ..=WORD_WIDTH_WHOLE => word,
            _ => name(at).max(COLUMN_WIDTH_MIN),
        };
        let least: Vec<usize> = self.words.iter().enumerate().map(least).collect();
        let whole = self.widths.clone();
        let fits = narrow(&mut self.widths, &least, excess) == 0;
        if !fits {
            // Words are not cut for a table that is too wide all the same.
            self.widths = whole;
        }
        fits
    }
}

fn pad_with(out: &mut dyn Write, mut spaces: usize) -> io::Result<()> {
    while spaces > 0 {
        let part = spaces.min(SPACES.len());
        out.write_all(&SPACES[..part])?;
        spaces -= part;
    }
    Ok(())
}

// Takes that much from the widest columns, but for the least that each needs. Gives what is left.
fn narrow(widths: &mut [usize], least: &[usize], mut excess: usize) -> usize {
    while excess > 0 {
        let wider = widths.iter_mut().zip(least).filter(|(width, least)| **width > **least);
        let Some((widest, _)) = wider.max_by_key(|(width, _)| **width) else { break };
        *widest -= 1;
        excess -= 1;
    }
    excess
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
    if !line.contains(text::is_order) {
        return line.to_owned();
    }
    let mut clean = String::with_capacity(line.len());
    for c in line.trim_end_matches('\r').chars() {
        match c {
            '\t' => clean.push(' '),
            c if text::is_order(c) => clean.extend(c.escape_default()),
            c => clean.push(c),
        }
    }
    clean
}

fn word_width(text: &str) -> usize {
    lines(text).iter().flat_map(|line| line.split(' ')).map(UnicodeWidthStr::width).max().unwrap_or(0)
}

// Breaks lines between words, and within those that are too long.
fn wrap(lines: Vec<String>, width: usize) -> Vec<String> {
    if lines.iter().all(|l| l.width() <= width) {
        return lines;
    }
    let mut wrapped = Vec::with_capacity(lines.len() + 1);
    for line in lines {
        let (mut part, mut part_width) = (String::new(), 0);
        for (at, word) in line.split(' ').enumerate() {
            let blank = usize::from(at > 0);
            if part_width + blank + word.width() <= width {
                part.extend((at > 0).then_some(' '));
                part.push_str(word);
                part_width += blank + word.width();
                continue;
            }
            if at > 0 {
                wrapped.push(std::mem::take(&mut part));
            }
            let mut rest = word;
            while rest.width() > width {
                let (first, after) = rest.split_at(cut(rest, width));
                if after.is_empty() {
                    break;
                }
                wrapped.push(first.to_owned());
                rest = after;
            }
            part.push_str(rest);
            part_width = rest.width();
        }
        wrapped.push(part);
    }
    wrapped
}

// Where a word that is too long is cut.
fn cut(word: &str, width: usize) -> usize {
    let (mut used, mut end, mut good) = (0, 0, None);
    for (at, c) in word.char_indices() {
        used += c.width().unwrap_or(0);
        if used > width && at > 0 {
            break;
        }
        end = at + c.len_utf8();
        if CUT_BEHIND.contains(&c) && used * 2 >= width {
            good = Some(end);
        }
    }
    good.unwrap_or(end)
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
        │ 1  │ a text that is far    │
        │    │ too long for the      │
        │    │ width                 │
        ╰────┴───────────────────────╯
        ");
    }

    #[test]
    fn words_stay_whole_as_long_as_they_fit() {
        for (text, width, lines) in [
            ("one two three", 7, &["one two", "three"][..]),
            ("one two three", 5, &["one", "two", "three"]),
            ("  indented", 10, &["  indented"]),
            ("abcdefgh ij", 4, &["abcd", "efgh", "ij"]),
            ("/home/someone/work/out.txt", 12, &["/home/", "someone/", "work/out.txt"]),
            ("a /long/path", 8, &["a", "/long/", "path"]),
            ("日本語", 4, &["日本", "語"]),
            ("日", 1, &["日"]),
        ] {
            assert_eq!(wrap(vec![text.to_owned()], width), lines, "{text} {width}");
        }
    }

    #[test]
    fn names_of_columns_are_broken_between_words_only() {
        let header = ["ID", "Manager Job", "Workers Per Allocation", "Utilization", "Address"];
        let row =
            ["1", "a-long-name-without-blanks-that-must-be-cut", "1", "100 %", "node-12.cluster.example.org"];
        for width in [20, 40, 60, 80, 120, 200] {
            let style = Style { width: Some(width), ..Style::default() };
            let shown = show(style, &header, &[&row]);
            for word in header.iter().flat_map(|name| name.split(' ')) {
                assert!(shown.contains(word), "{word} is cut at {width}:\n{shown}");
            }
            let widths: Vec<usize> = shown.lines().map(str::len).collect();
            assert!(widths.iter().all(|line| *line == widths[0]), "{shown}");
            assert!(width < 60 || widths[0] <= width, "{shown}");
        }
    }

    #[test]
    fn rows_that_are_too_wide_become_names_and_values() {
        let header = ["ID", "State", "Worker count", "Timelimit", "Detail"];
        let row = |id, detail| [id, "FINISHED", "2/4", "4h 30m", detail];
        let rows = [&row("1", "a text of several words")[..], &row("2", "")];
        let style = Style { width: Some(40), ..Style::default() };
        insta::assert_snapshot!(show(style, &header, &rows));
        insta::assert_snapshot!(show(style, &header, &[]), @r"
        +-----------------+
        | nothing to show |
        +-----------------+
        ");
    }

    #[test]
    fn text_cannot_move_the_cursor() {
        let shown = show(Style::default(), &["Name"], &[&["a\x1b[2Jb\tc"]]);
        assert!(shown.contains(r"a\u{1b}[2Jb c"), "{shown}");
        assert_eq!(clean("\u{202e}gpj.exe"), r"\u{202e}gpj.exe");
    }

    #[test]
    fn numbers_are_at_the_right_of_their_column() {
        let rows = [vec![Cell::number(1), "echo".into()], vec![Cell::number("*12"), "ls".into()]];
        let mut out = Vec::new();
        table(&mut out, Style::default(), &["ID", "Name"], &rows).expect("memory");
        insta::assert_snapshot!(String::from_utf8(out).expect("text"), @r"
        +-----+------+
        | ID  | Name |
        +-----+------+
        |   1 | echo |
        | *12 | ls   |
        +-----+------+
        ");
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
