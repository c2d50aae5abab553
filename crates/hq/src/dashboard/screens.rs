//! Screens: the model drawn into cells. Nothing is decided here, and what was drawn where is told, so that clicks find it.

mod graph;
mod job;
mod overview;
mod parts;
mod queues;
mod workers;

#[cfg(test)]
mod tests;

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Margin, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::model::{Key, Link, Mode, Model, PATIENCE_MS, Screen};
use super::text::{bar, safe, time};

/// A terminal needs at least so many columns and rows.
pub(crate) const SIZE_MIN: (u16, u16) = (40, 12);

/// How things look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    /// Colors may be used.
    pub has_colors: bool,
}

impl Theme {
    fn color(self, color: Color) -> Style {
        if self.has_colors { Style::new().fg(color) } else { Style::new() }
    }

    fn good(self) -> Style {
        self.color(Color::Green)
    }

    fn bad(self) -> Style {
        self.color(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn notable(self) -> Style {
        self.color(Color::Yellow)
    }

    fn dim(self) -> Style {
        if self.has_colors { Style::new().fg(Color::DarkGray) } else { Style::new() }
    }

    fn title(self) -> Style {
        self.color(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    // What is chosen must be seen without colors, too.
    fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// Where a click does what.
pub(crate) type Places = Vec<(Rect, Key)>;

/// Draws the model as it is at this time.
pub(crate) fn draw(frame: &mut Frame<'_>, model: &Model, theme: Theme, now_ms: u64) -> Places {
    let area = frame.area();
    let mut places = Places::new();
    if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 {
        too_small(frame, area);
        return places;
    }
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ]);
    let [tabs, status, body, keys] = rows.areas(area);
    draw_tabs(frame, tabs, model, theme, &mut places);
    frame.render_widget(status_line(model, theme, now_ms, usize::from(status.width)), status);
    let view = View { model, theme, now: model.time(now_ms) };
    match model.screen() {
        Screen::Overview => overview::draw(frame, body, &view),
        Screen::Jobs => overview::draw_jobs(frame, body, &view, &mut places),
        Screen::Job(_) => job::draw(frame, body, &view, &mut places),
        Screen::Task(_) => job::draw_task(frame, body, &view),
        Screen::Workers => workers::draw(frame, body, &view, &mut places),
        Screen::Queues => queues::draw(frame, body, &view, &mut places),
    }
    frame.render_widget(Paragraph::new(key_line(model, theme, usize::from(keys.width))), keys);
    match &model.mode {
        Mode::Confirm(action) => {
            let text = format!("{}\n\ny  yes    n  no", action.question());
            over(frame, area, "Are you sure?", &text, theme);
        }
        Mode::Help => over(frame, area, "Keys", HELP, theme),
        Mode::Choose | Mode::Search => {}
    }
    places
}

/// What a screen is drawn from.
struct View<'a> {
    model: &'a Model,
    theme: Theme,
    now: hq_model::Timestamp,
}

const HELP: &str = "\
1 2 3 4, Tab   overview, jobs, workers, allocations (also j w a)
arrows, PgUp, PgDn, Home, End, wheel   choose a line
Enter, click   open a job or a task; Esc goes back
/   search jobs by name or number
s   sort jobs    f   filter jobs or tasks by state
g   layers and timeline of a job, or its tasks
e   standard output or error of a task
c   cancel a job    r   submit its failed tasks again
d   drain a worker    p   pause or resume a queue
Of a replay: Space stops and goes on, + and - change the
speed, left and right move, < and > go to begin and end
q   quit

Any key closes this.";

fn too_small(frame: &mut Frame<'_>, area: Rect) {
    let text = format!(
        "This terminal has {} × {} cells. The dashboard needs {} × {}. q ends it.",
        area.width, area.height, SIZE_MIN.0, SIZE_MIN.1
    );
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
}

fn draw_tabs(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme, places: &mut Places) {
    let root = model.screens.first();
    let (mut spans, mut x) = (Vec::new(), area.x);
    for ((key, name, screen), length) in Screen::TABS.into_iter().zip(tab_lengths(area.width.into())) {
        let text = format!(" {key} {} ", cut(name, length));
        let width = text.chars().count() as u16;
        if x + width > area.right() {
            break;
        }
        places.push((Rect::new(x, area.y, width, 1), Key::Screen(screen)));
        x += width;
        spans.push(Span::styled(text, if root == Some(&screen) { theme.chosen() } else { Style::new() }));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
    let name = model
        .overview
        .as_ref()
        .map_or_else(String::new, |(overview, _)| format!("{} · {} ", safe(&overview.uid), overview.version));
    let width = name.chars().count() as u16;
    if x + width < area.right() {
        let right = Rect::new(area.right() - width, area.y, width, 1);
        frame.render_widget(Paragraph::new(name).style(theme.dim()).alignment(Alignment::Right), right);
    }
}

// Of their names, so that all of them fit: the longest are cut first.
fn tab_lengths(width: usize) -> [usize; Screen::TABS.len()] {
    const AROUND: usize = " 1  ".len();
    let mut lengths = Screen::TABS.map(|(_, name, _)| name.len());
    while lengths.iter().map(|length| length + AROUND).sum::<usize>() > width {
        match lengths.iter_mut().max() {
            Some(longest) if *longest > 1 => *longest -= 1,
            _ => break,
        }
    }
    lengths
}

// The first so many letters of a name, the last of which says that there are more where there is room for that.
fn cut(name: &str, length: usize) -> String {
    match length {
        _ if name.len() <= length => name.to_owned(),
        0 | 1 => name.chars().take(length).collect(),
        _ => name.chars().take(length - 1).chain(['…']).collect(),
    }
}

// How the server is reached, or where a replay is, or the latest word.
fn status_line(model: &Model, theme: Theme, now_ms: u64, width: usize) -> Line<'static> {
    if model.mode == Mode::Search {
        return Line::styled(format!(" Search: {}▏", safe(&model.search)), theme.title());
    }
    match &model.link {
        Link::Lost(why, since) => {
            let away = time(Duration::from_millis(now_ms.saturating_sub(*since)));
            let text = format!(" The server does not answer, for {away}; trying again. {}", safe(why));
            return Line::styled(text, theme.bad());
        }
        Link::Connecting => return Line::styled(" Connecting …", theme.notable()),
        Link::Live | Link::Replay(_) => {}
    }
    if let Some((text, until)) = &model.message
        && *until > now_ms
    {
        return Line::styled(format!(" {}", safe(text)), theme.notable());
    }
    if let Link::Replay(replay) = &model.link {
        let whole = replay.end.since(replay.begin);
        let passed = replay.at.since(replay.begin);
        let part = passed.as_secs_f64() / whole.as_secs_f64().max(1e-6);
        let word = if replay.is_paused { "paused" } else { "replay" };
        let text = format!(
            " {word} × {}  {} / {}  {}",
            replay.speed,
            time(passed),
            time(whole),
            short_time(replay.at),
        );
        let damage = replay.damage.as_ref().map_or_else(String::new, |damage| format!("  {}", safe(damage)));
        let cells = width.saturating_sub(text.chars().count() + damage.chars().count() + 3).clamp(5, 60);
        return Line::from(vec![
            Span::styled(text, theme.title()),
            Span::raw(format!("  {}", bar(part, cells))),
            Span::styled(damage, theme.bad()),
        ]);
    }
    if model.overview.as_ref().is_some_and(|(overview, _)| overview.process.journal_fails) {
        return Line::styled(
            " The journal cannot be written: nothing can be changed (hq server info)",
            theme.bad(),
        );
    }
    let waits = model.waits_ms(now_ms);
    if waits >= PATIENCE_MS {
        let waits = time(Duration::from_millis(waits));
        return Line::styled(format!(" No answer for {waits}"), theme.notable());
    }
    Line::default()
}

fn key_line(model: &Model, theme: Theme, width: usize) -> Line<'static> {
    let mut keys: Vec<(&str, &str)> = match (&model.mode, model.screen()) {
        (Mode::Search, _) => vec![("Enter", "search"), ("Esc", "all jobs")],
        (Mode::Confirm(_), _) => vec![("y", "yes"), ("n", "no")],
        (Mode::Help, _) => vec![("any key", "back")],
        (_, Screen::Overview) => vec![("Enter", "jobs")],
        (_, Screen::Jobs) => vec![("Enter", "open"), ("/", "search"), ("s", "sort"), ("f", "filter")],
        (_, Screen::Job(_)) if model.shows_graph => vec![("g", "tasks"), ("Esc", "back")],
        (_, Screen::Job(_)) => {
            vec![("Enter", "task"), ("f", "filter"), ("g", "graph"), ("Esc", "back")]
        }
        (_, Screen::Task(_)) => vec![("e", "channel"), ("Esc", "back")],
        (_, Screen::Workers | Screen::Queues) => vec![("↑↓", "choose")],
    };
    if model.mode == Mode::Choose {
        if !model.is_read_only {
            keys.extend(match model.screen() {
                Screen::Jobs | Screen::Job(_) => [("c", "cancel"), ("r", "resubmit")].as_slice(),
                Screen::Workers => &[("d", "drain")],
                Screen::Queues => &[("p", "pause")],
                Screen::Overview | Screen::Task(_) => &[],
            });
        }
        if matches!(model.link, Link::Replay(_)) {
            keys.extend([("Space", "pause"), ("+ -", "speed"), ("← →", "move")]);
        }
    }
    // These are always there; others only as far as there is room.
    let last = if model.mode == Mode::Choose { [("?", "keys"), ("q", "quit")].as_slice() } else { &[] };
    let length = |key: &str, word: &str| key.chars().count() + word.chars().count() + 3;
    let mut left = width.saturating_sub(last.iter().map(|(key, word)| length(key, word)).sum());
    keys.retain(|(key, word)| {
        let fits = length(key, word) <= left;
        left = if fits { left - length(key, word) } else { 0 };
        fits
    });
    let mut spans = Vec::new();
    for (key, word) in keys.iter().chain(last) {
        spans.push(Span::styled(format!(" {key} "), theme.title()));
        spans.push(Span::raw(format!("{word} ")));
    }
    Line::from(spans)
}

// A window over everything else.
fn over(frame: &mut Frame<'_>, area: Rect, title: &str, text: &str, theme: Theme) {
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0) as u16;
    let width = (longest + 4).min(area.width - 2);
    let inner = usize::from(width.saturating_sub(4).max(1));
    let lines: usize = text.lines().map(|line| line.chars().count().div_ceil(inner).max(1)).sum();
    let height = (lines as u16 + 2).min(area.height);
    let (x, y) = (area.x + (area.width - width) / 2, area.y + (area.height - height) / 2);
    let window = Rect::new(x, y, width, height);
    frame.render_widget(Clear, window);
    frame.render_widget(Block::bordered().title(format!(" {title} ")).border_style(theme.title()), window);
    let text = Paragraph::new(text.to_owned()).wrap(Wrap { trim: false });
    frame.render_widget(text, window.inner(Margin::new(2, 1)));
}

// Without its day's fraction of a second.
fn short_time(at: hq_model::Timestamp) -> String {
    at.to_string().split('.').next().unwrap_or_default().replace('T', " ")
}
