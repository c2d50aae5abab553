//! The screen of allocation queues: what each has asked for, what became of the node time, and why it asks for no more.

use hq_core::alloc::messages::{AllocationInfo, QueueInfo, QueueStatus};
use hq_model::allocation::AllocationState;
use hq_model::counted;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Wrap};

use super::super::text::{count, rate, safe, time};
use super::parts::{List, part, right};
use super::{Places, View};

/// Queues, allocations of the one that is chosen, and its reasons.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &View<'_>, places: &mut Places) {
    let queues = &view.model.queues;
    if queues.is_empty() {
        return draw_list(frame, area, view, places);
    }
    let list = (queues.len() as u16 + 2).min(area.height / 3).max(3);
    let rows = [Constraint::Length(list), Constraint::Fill(1), Constraint::Fill(1)];
    let [top, middle, bottom] = Layout::vertical(rows).areas(area);
    draw_list(frame, top, view, places);
    draw_allocations(frame, middle, view);
    draw_reasons(frame, bottom, view);
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, view: &View<'_>, places: &mut Places) {
    let queues = &view.model.queues;
    let area = part(frame, area, "Queues, node hours", view.theme);
    let list = List {
        head: &["  ID", "Name", "State", " queued", "running", "    used", "    idle", "    lost"],
        widths: vec![
            Constraint::Length(4),
            Constraint::Fill(1),
            Constraint::Length(8),
            Constraint::Length(7),
            Constraint::Length(7),
            Constraint::Length(8),
            Constraint::Length(8),
            Constraint::Length(8),
        ],
        leave: &["lost", "idle", "used", "queued", "running"],
        count: queues.len(),
        chosen: Some(view.model.line()),
        empty: "There are no queues: use `hq alloc add slurm --time-limit 1h` to start workers through a batch system.",
    };
    list.draw(frame, area, view.theme, places, |line| {
        let queue = &queues[line];
        let (word, style) = status(queue, view);
        let name = queue.params.name.as_deref().unwrap_or(&queue.params.manager);
        let hours = |us: u64| right(rate(us as f64 / 3.6e9));
        vec![
            right(queue.queue.to_string()),
            Cell::from(safe(name)),
            Cell::from(word).style(style),
            right(count(queue.counts[0])),
            right(count(queue.counts[1])),
            hours(queue.time.used_us),
            hours(queue.time.idle_us),
            hours(queue.time.lost_us),
        ]
    });
}

fn status(queue: &QueueInfo, view: &View<'_>) -> (&'static str, Style) {
    match queue.status {
        QueueStatus::Active if queue.over_budget.is_some() => ("over budget", view.theme.bad()),
        QueueStatus::Active => ("active", view.theme.good()),
        QueueStatus::Paused(..) => ("paused", view.theme.bad()),
        QueueStatus::Draining => ("draining", view.theme.notable()),
    }
}

fn draw_allocations(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let area = part(frame, area, "Allocations, latest first", view.theme);
    let allocations = &view.model.allocations;
    let list = List {
        head: &["ID", "Batch job", "State", "Nodes", "Waited", "Ran", "Note"],
        widths: vec![
            Constraint::Length(6),
            Constraint::Length(12),
            Constraint::Length(8),
            Constraint::Length(6),
            Constraint::Length(8),
            Constraint::Length(8),
            Constraint::Fill(1),
        ],
        leave: &["Nodes", "Waited", "Ran", "Batch job"],
        count: allocations.len(),
        chosen: None,
        empty: "It has requested none.",
    };
    let rows = |line: usize| {
        let allocation = &allocations[allocations.len() - 1 - line];
        let style = match allocation.state {
            AllocationState::Running => view.theme.good(),
            AllocationState::Failed => view.theme.bad(),
            _ => Style::new(),
        };
        let note = match (&allocation.detail, &allocation.ended) {
            (Some(detail), _) => detail.clone(),
            (None, Some((_, end))) => end.to_string(),
            (None, None) => counted(allocation.connected.len(), "worker"),
        };
        vec![
            Cell::from(allocation.allocation.to_string()),
            Cell::from(safe(allocation.batch_id.as_deref().unwrap_or_default())),
            Cell::from(allocation.state.word()).style(style),
            Cell::from(allocation.workers.to_string()),
            Cell::from(waited(allocation, view)),
            Cell::from(ran(allocation, view)),
            Cell::from(safe(&note)),
        ]
    };
    list.draw(frame, area, view.theme, &mut Places::new(), rows);
}

fn waited(allocation: &AllocationInfo, view: &View<'_>) -> String {
    let from = allocation.queued.unwrap_or(allocation.planned);
    let ended = allocation.ended.as_ref().map(|(at, _)| *at);
    time(allocation.started.or(ended).unwrap_or(view.now).since(from))
}

fn ran(allocation: &AllocationInfo, view: &View<'_>) -> String {
    let Some(started) = allocation.started else { return String::new() };
    let ended = allocation.ended.as_ref().map(|(at, _)| *at);
    time(ended.unwrap_or(view.now).since(started))
}

fn draw_reasons(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let area = part(frame, area, "Why no more are requested", view.theme);
    let mut all = Vec::new();
    let chosen = view.model.queues.get(view.model.line());
    if let Some(QueueStatus::Paused(_, why)) = chosen.map(|queue| &queue.status) {
        let why = why.strip_prefix("paused ").unwrap_or(why);
        all.push(Line::styled(format!("Paused: {}", safe(why)), view.theme.bad()));
    }
    if let Some(explanation) = &view.model.explanation {
        all.push(Line::from(safe(&explanation.next)));
        all.extend(explanation.facts.iter().map(|fact| Line::from(safe(fact))));
        for line in &explanation.demand {
            let why = line.why_not.as_deref().unwrap_or("");
            all.push(Line::from(safe(&format!(
                "{} wait for {}: {} coming, {} to be asked for. {why}",
                count(line.waiting),
                line.request,
                count(line.coming),
                count(line.new)
            ))));
        }
    }
    frame.render_widget(Paragraph::new(all).wrap(Wrap { trim: true }), area);
}
