//! The shape of a job: how many of its tasks ran when, and how far each layer of its graph is.

use hq_core::job_shape::{Bar, JobShape, Layer, Timeline};
use hq_model::job::Counters;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::text::{count, time};
use super::parts::{chart, counted, lines, part, progress};
use super::{View, short_time};

/// Lines that a timeline takes where there is room.
pub(super) const TIMELINE_LINES: u16 = 7;

/// How many tasks ran when, and when some failed.
pub(super) fn draw_timeline(frame: &mut Frame<'_>, area: Rect, shape: &JobShape, view: &View<'_>) {
    let timeline = &shape.timeline;
    if area.height < 4 || timeline.bars.is_empty() {
        return;
    }
    let columns = columns(timeline, usize::from(area.width));
    let values: Vec<f64> = columns.iter().map(|column| column.0).collect();
    let long = timeline.step * timeline.bars.len() as u32;
    let rest = if timeline.is_complete { "" } else { ", more to come" };
    let title = format!("Its tasks at a time, over {}{rest}", time(long));
    chart(frame, Rect { height: area.height - 2, ..area }, &title, &values, None, view);
    let marks = columns.iter().map(|column| if column.1 > 0 { '✗' } else { ' ' }).collect::<String>();
    let (from, until) = (short_time(timeline.from), short_time(timeline.from.after(long)));
    let gap = usize::from(area.width).saturating_sub(from.len() + until.len());
    let axis = if gap > 0 { format!("{from}{}{until}", " ".repeat(gap)) } else { from };
    let below = Rect { y: area.bottom() - 2, height: 2, ..area };
    let all = vec![Line::styled(marks, view.theme.bad()), Line::styled(axis, view.theme.dim())];
    lines(frame, below, all);
}

/// How far each layer is, neighbors as one where there are more than lines.
pub(super) fn draw_layers(frame: &mut Frame<'_>, area: Rect, shape: &JobShape, view: &View<'_>) {
    let title = match shape.depth {
        1 => "1 layer: none of its tasks waits for another one".to_owned(),
        depth => format!("{} layers of its graph", count(depth.into())),
    };
    let area = part(frame, area, &title, view.theme);
    if shape.depth == 0 {
        let word = "It has no tasks, or its graph is too large to show layers.";
        return lines(frame, area, vec![Line::styled(word, view.theme.dim())]);
    }
    let layers = folded(&shape.layers, usize::from(area.height).max(1));
    let names: Vec<String> = layers.iter().map(name).collect();
    let wide = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let cells = (usize::from(area.width).saturating_sub(wide + 2) * 2 / 5).max(4);
    let line = |(layer, name): (&Layer, &String)| {
        let mut spans = vec![Span::raw(format!("{name:>wide$} "))];
        spans.extend(progress(&layer.counters, cells, view.theme).spans);
        // What went wrong comes first: the end of a long line is cut.
        let c = layer.counters;
        let failed =
            Counters { failed: c.failed, canceled: c.canceled, aborted: c.aborted, ..Counters::default() };
        let rest = Counters { failed: 0, canceled: 0, aborted: 0, ..c };
        let words = [(failed, view.theme.bad()), (rest, Style::new())];
        for (place, (counters, style)) in words.iter().filter(|word| word.0.total() > 0).enumerate() {
            spans.push(Span::raw(if place > 0 { ", " } else { " " }));
            spans.push(Span::styled(counted(counters), *style));
        }
        Line::from(spans)
    };
    lines(frame, area, layers.iter().zip(&names).map(line).collect());
}

/// Lines that the layers take, at most so many.
pub(super) fn layers_height(shape: &JobShape, most: u16) -> u16 {
    (shape.layers.len().clamp(1, usize::from(most.max(1))) as u16).saturating_add(1)
}

fn name(layer: &Layer) -> String {
    if layer.first == layer.last {
        layer.first.to_string()
    } else {
        format!("{}–{}", layer.first, layer.last)
    }
}

fn folded(layers: &[Layer], most: usize) -> Vec<Layer> {
    let together = layers.len().div_ceil(most).max(1);
    let fold = |part: &[Layer]| {
        let mut counters = Counters::default();
        part.iter().for_each(|layer| counters.add(&layer.counters));
        Layer { last: part[part.len() - 1].last, counters, ..part[0].clone() }
    };
    layers.chunks(together).map(fold).collect()
}

// Of each column, how many ran on average, and how many failed.
fn columns(timeline: &Timeline, width: usize) -> Vec<(f64, u64)> {
    let count = timeline.bars.len();
    let column = |place: usize| {
        let first = (place * count / width).min(count - 1);
        let last = ((place + 1) * count / width).clamp(first + 1, count);
        let bars = &timeline.bars[first..last];
        let running = bars.iter().map(|bar: &Bar| bar.running_milli as f64).sum::<f64>();
        // A bar that is wider than a column has its mark at its begin.
        let begins = place == 0 || (place * count / width) != ((place - 1) * count / width);
        let failed = if begins { bars.iter().map(|bar| u64::from(bar.failed)).sum() } else { 0 };
        (running / 1000.0 / bars.len() as f64, failed)
    };
    (0..width).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(bars: &[(u64, u32)]) -> Timeline {
        let bar =
            |(running, failed): &(u64, u32)| Bar { running_milli: running * 1000, ended: 0, failed: *failed };
        Timeline { bars: bars.iter().map(bar).collect(), ..Timeline::default() }
    }

    #[test]
    fn bars_fill_the_columns_that_there_are() {
        let four = timeline(&[(1, 0), (3, 1), (5, 0), (5, 2)]);
        assert_eq!(columns(&four, 2), [(2.0, 1), (5.0, 2)]);
        assert_eq!(columns(&four, 4), [(1.0, 0), (3.0, 1), (5.0, 0), (5.0, 2)]);
        let twice = [(1.0, 0), (1.0, 0), (3.0, 1), (3.0, 0), (5.0, 0), (5.0, 0), (5.0, 2), (5.0, 0)];
        assert_eq!(columns(&four, 8), twice);
        let failed: u64 = columns(&four, 3).iter().map(|column| column.1).sum();
        assert_eq!(failed, 3, "each failure has one mark");
    }

    #[test]
    fn layers_are_as_many_as_there_is_room_for() {
        let layer = |number| {
            let counters = Counters { waiting: 2, ..Counters::default() };
            Layer { first: number, last: number, counters, ..Layer::default() }
        };
        let layers: Vec<Layer> = (1..=7).map(layer).collect();
        let told: Vec<_> =
            folded(&layers, 3).iter().map(|layer| (name(layer), layer.counters.waiting)).collect();
        assert_eq!(told, [("1–3".to_owned(), 6), ("4–6".to_owned(), 6), ("7".to_owned(), 2)]);
        assert_eq!(folded(&layers, 7), layers);
    }
}
