//! What several screens are made of: titled parts, lists with a chosen line, counts of tasks, charts.

use hq_model::job::Counters;
use hq_model::{JobState, TaskState};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table};

use super::super::model::Key;
use super::super::text::{count, rate};
use super::{Places, Theme, View};

/// A part with a title on a line above it: what is left for its content.
pub(super) fn part(frame: &mut Frame<'_>, area: Rect, title: &str, theme: Theme) -> Rect {
    let block = Block::new().borders(Borders::TOP).title(Span::styled(format!(" {title} "), theme.title()));
    let inner = block.inner(area);
    frame.render_widget(block.border_style(theme.dim()), area);
    inner
}

/// Lines of text.
pub(super) fn lines(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'_>>) {
    frame.render_widget(Paragraph::new(lines), area);
}

/// A list of which one line is chosen and seen.
pub(super) struct List<'a> {
    /// Names of its columns.
    pub head: &'a [&'a str],
    /// How wide these are.
    pub widths: Vec<Constraint>,
    /// Names of columns that go, in this order, until there is room for what fills the rest.
    pub leave: &'a [&'a str],
    /// How many lines there are.
    pub count: usize,
    /// Which is chosen, where one is.
    pub chosen: Option<usize>,
    /// What is said where there are none.
    pub empty: &'a str,
}

/// Cells that a column has at least that fills the rest, as long as others can leave: those of a name that can be told from others.
const FILL_MIN: u16 = 16;

impl List<'_> {
    // Places of the columns that are drawn.
    fn columns(&self, width: u16) -> Vec<usize> {
        let mut kept: Vec<usize> = (0..self.widths.len()).collect();
        let least = |place: &usize| match self.widths[*place] {
            Constraint::Length(cells) => cells,
            _ => FILL_MIN,
        };
        for name in self.leave {
            let needed: u16 = kept.iter().map(|place| least(place) + 1).sum();
            if needed <= width + 1 {
                break;
            }
            kept.retain(|place| self.head[*place].trim() != *name);
        }
        kept
    }

    /// Draws it; lines are made only as far as there is room.
    pub(super) fn draw<'r>(
        self,
        frame: &mut Frame<'_>,
        area: Rect,
        theme: Theme,
        places: &mut Places,
        row: impl Fn(usize) -> Vec<Cell<'r>>,
    ) {
        if self.count == 0 {
            let text = Paragraph::new(self.empty.to_owned()).style(theme.dim());
            return frame.render_widget(text.wrap(ratatui::widgets::Wrap { trim: true }), area);
        }
        let columns = self.columns(area.width);
        let room = usize::from(area.height.saturating_sub(1)).max(1);
        let top = self.chosen.map_or(0, |chosen| (chosen + 1).saturating_sub(room));
        let shown = top..self.count.min(top + room);
        let rows = shown.clone().map(|line| {
            let style = if Some(line) == self.chosen { theme.chosen() } else { Style::new() };
            let cells = row(line).into_iter().enumerate().filter(|(place, _)| columns.contains(place));
            Row::new(cells.map(|(_, cell)| cell)).style(style)
        });
        for (offset, line) in shown.clone().enumerate() {
            places.push((Rect::new(area.x, area.y + 1 + offset as u16, area.width, 1), Key::Line(line)));
        }
        let head = columns.iter().map(|place| Cell::from(self.head[*place].to_owned()));
        let head = Row::new(head).style(theme.dim());
        let widths = columns.iter().map(|place| self.widths[*place]);
        frame.render_widget(Table::new(rows, widths).header(head), area);
    }
}

/// A number at the right end of its cell.
pub(super) fn right(text: impl Into<String>) -> Cell<'static> {
    Cell::from(Line::from(text.into()).right_aligned())
}

/// How tasks stand, as a bar of so many cells: ended well, badly, running, and the rest.
pub(super) fn progress(tasks: &Counters, cells: usize, theme: Theme) -> Line<'static> {
    let total = tasks.total().max(1) as f64;
    let cells_of = |count: u64| {
        let exact = count as f64 / total * cells as f64;
        if count > 0 { (exact.round() as usize).max(1) } else { 0 }
    };
    let bad = tasks.failed + tasks.canceled + tasks.aborted;
    let parts = [
        (cells_of(tasks.finished), "█", theme.good()),
        (cells_of(bad), "✗", theme.bad()),
        (cells_of(tasks.running), "▒", theme.notable()),
    ];
    let mut left = cells;
    let mut spans = Vec::new();
    for (wanted, sign, style) in parts {
        let given = wanted.min(left);
        left -= given;
        spans.push(Span::styled(sign.repeat(given), style));
    }
    // Rounding alone must not leave a gap behind the last task.
    let last =
        if tasks.waiting == 0 && tasks.finished > 0 { ("█", theme.good()) } else { ("░", theme.dim()) };
    spans.push(Span::styled(last.0.repeat(left), last.1));
    Line::from(spans)
}

/// The style of a job's state.
pub(super) fn job_style(state: JobState, theme: Theme) -> Style {
    match state {
        JobState::Running | JobState::Opened => theme.notable(),
        JobState::Finished => theme.good(),
        JobState::Failed | JobState::Aborted | JobState::Canceled => theme.bad(),
        JobState::Waiting => Style::new(),
    }
}

/// The style of a task's state.
pub(super) fn task_style(state: TaskState, theme: Theme) -> Style {
    match state {
        TaskState::Running => theme.notable(),
        TaskState::Finished => theme.good(),
        TaskState::Failed | TaskState::Aborted | TaskState::Canceled => theme.bad(),
        TaskState::Waiting => Style::new(),
    }
}

/// A chart over the whole width, with its largest and its last value.
pub(super) fn chart(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    values: &[f64],
    most: Option<f64>,
    view: &View<'_>,
) {
    let percent = most.is_some();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let word = |value: f64| if percent { format!("{:.0} %", value * 100.0) } else { rate(value) };
    let last = values.last().copied().unwrap_or(0.0);
    let title = format!("{title}: {} now, {} at most", word(last), word(largest));
    let inner = part(frame, area, &title, view.theme);
    // Whole numbers with enough digits to tell small values apart.
    let scale = 1000.0 / most.unwrap_or(largest).max(1e-9);
    let data: Vec<u64> = values.iter().map(|value| (value * scale).round() as u64).collect();
    frame.render_widget(Sparkline::default().data(&data).max(1000).style(view.theme.good()), inner);
}

/// A count with its word: `1 worker`, `2 workers`.
pub(super) fn counted_words(number: u64, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{} {word}s", count(number)) }
}

/// Counts of tasks in words, those that are none left out.
pub(super) fn counted(tasks: &Counters) -> String {
    let all = [
        (tasks.running, "running"),
        (tasks.waiting, "waiting"),
        (tasks.finished, "finished"),
        (tasks.failed, "failed"),
        (tasks.canceled, "canceled"),
        (tasks.aborted, "aborted"),
    ];
    let words: Vec<String> = all
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| format!("{} {word}", count(*number)))
        .collect();
    if words.is_empty() { "no tasks".to_owned() } else { words.join(", ") }
}
