//! The screens that show everything in counts, and the list of jobs.

use std::time::Duration;

use hq_core::client_messages::Overview;
use hq_core::load_history::LoadHistory;
use hq_core::overview::{NodesLoad, ResourceUse};
use hq_core::series::LoadPoint;
use hq_model::amount::UNITS;
use hq_model::{Timestamp, memory};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Cell;

use super::super::model::Sort;
use super::super::text::{bar, count, rate, safe, time};
use super::super::wants::JOBS_MAX;
use super::parts::{List, chart, counted, counted_words, job_style, lines, part, progress, right};
use super::{Places, View};

/// Resources that are listed.
const RESOURCES_MAX: usize = 6;
/// So wide is a screen with tasks and the cluster beside each other.
const BESIDE_MIN: u16 = 64;
/// Lines of tasks, with their title.
const TASKS_LINES: u16 = 6;

/// Everything in counts.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let Some((overview, _)) = &view.model.overview else {
        return lines(frame, area, vec![Line::from(" Nothing is known yet.")]);
    };
    let resources = overview.resources.len().clamp(1, RESOURCES_MAX) as u16;
    let top = (3 + resources + u16::from(overview.nodes.nodes > 0)).max(6);
    // Where there is no room for both beside each other, one is above the other.
    let is_narrow = area.width < BESIDE_MIN;
    let both = if is_narrow { TASKS_LINES + top } else { top };
    let [both, charts] = Layout::vertical([Constraint::Length(both), Constraint::Min(0)]).areas(area);
    let [left, right] = match is_narrow {
        true => Layout::vertical([Constraint::Length(TASKS_LINES), Constraint::Fill(1)]).areas(both),
        false => Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(both),
    };
    draw_tasks(frame, left, overview, view);
    draw_cluster(frame, right, overview, view);
    draw_charts(frame, charts, overview, view);
}

fn draw_tasks(frame: &mut Frame<'_>, area: Rect, overview: &Overview, view: &View<'_>) {
    let area = part(frame, area, "Tasks", view.theme);
    let tasks = &overview.tasks;
    let open = tasks.waiting + tasks.running;
    let pace = view.model.series.rate(view.now).unwrap_or(0.0);
    let end = match open {
        0 => "all have ended".to_owned(),
        _ if pace > 0.0 => {
            format!("about {} left", time(Duration::from_secs_f64((open as f64 / pace).min(1e9))))
        }
        _ => "nothing ends now".to_owned(),
    };
    let ended = &overview.ended;
    let failed = if tasks.failed > 0 { view.theme.bad() } else { ratatui::style::Style::new() };
    let all = vec![
        progress(tasks, usize::from(area.width).saturating_sub(1), view.theme),
        Line::from(format!("{} running, {} waiting", count(tasks.running), count(tasks.waiting))),
        Line::from(vec![
            Span::raw(format!("{} finished, ", count(tasks.finished))),
            Span::styled(format!("{} failed", count(tasks.failed)), failed),
            Span::raw(match tasks.canceled + tasks.aborted {
                0 => String::new(),
                others => format!(", {} canceled", count(others)),
            }),
        ]),
        Line::from(format!("{}/s, {end}", rate(pace))),
        Line::from(match ended.restarted {
            0 => format!("{} ready", count(overview.ready)),
            restarted => format!("{} ready, {} restarted", count(overview.ready), count(restarted)),
        }),
    ];
    lines(frame, area, all);
}

fn draw_cluster(frame: &mut Frame<'_>, area: Rect, overview: &Overview, view: &View<'_>) {
    let workers = &overview.workers;
    let area = part(frame, area, "Cluster", view.theme);
    let mut text = counted_words(workers.active + workers.closed, "worker");
    for (number, word) in [(workers.idle, "idle"), (workers.closed, "closed"), (workers.away, "away")] {
        if number > 0 {
            text.push_str(&format!(", {} {word}", count(number)));
        }
    }
    let mut all = vec![Line::from(text)];
    if overview.resources.is_empty() {
        let word = if workers.away > 0 {
            "Disconnected workers may come back."
        } else {
            "Start one with hq worker start."
        };
        all.push(Line::styled(word, view.theme.dim()));
    }
    // What people look for first, and the rest by name.
    let mut resources: Vec<_> = overview.resources.iter().collect();
    resources.sort_by_key(|resource| match resource.name.as_str() {
        "cpus" => 0,
        name if name.starts_with("gpus") => 1,
        "mem" => 2,
        _ => 3,
    });
    resources.truncate(RESOURCES_MAX);
    let amounts = |resource: &&ResourceUse| match resource.name.as_str() {
        "mem" => format!("{} of {}", memory::format(resource.taken), memory::format(resource.offered)),
        _ => format!("{} of {}", amount(resource.taken.0), amount(resource.offered.0)),
    };
    let amounts: Vec<String> = resources.iter().map(amounts).collect();
    let longest = amounts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let cells = usize::from(area.width).saturating_sub(longest + 13).clamp(2, 40);
    for (resource, amounts) in resources.iter().zip(amounts) {
        let filled = resource.taken.0 as f64 / (resource.offered.0 as f64).max(1.0);
        all.push(Line::from(format!("{:<11.11} {} {amounts}", safe(&resource.name), bar(filled, cells))));
    }
    all.extend(busy(&overview.nodes).map(Line::from));
    lines(frame, area, all);
}

/// What nodes do, whoever uses them.
pub(super) fn busy(nodes: &NodesLoad) -> Option<String> {
    let percent = |part: u32, whole: u64| f64::from(part) / whole.max(1) as f64 * 100.0;
    let load = &nodes.load;
    let mut text = format!(
        "busy: CPUs {:.0} %, memory {:.0} %",
        percent(load.cpus, nodes.cpus_total),
        percent(load.memory_mib, nodes.memory_total_mib)
    );
    if nodes.gpus_total > 0 {
        text.push_str(&format!(", GPUs {:.0} %", percent(load.gpus, nodes.gpus_total)));
    }
    (nodes.nodes > 0).then_some(text)
}

/// The load over time in so many equal parts of the time for which it is known: as it was at their ends.
pub(super) fn loads(history: &LoadHistory, parts: usize, value: impl Fn(&LoadPoint) -> f64) -> Vec<f64> {
    let (Some(first), Some(last)) = (history.points.first(), history.points.last()) else {
        return Vec::new();
    };
    let time = last.start.since(first.start).as_micros();
    let at = |part: usize| first.start.0 + (time * part as u128 / parts.max(1) as u128) as u64;
    let of = |part: usize| {
        let known = history.points.partition_point(|point| point.start.0 <= at(part));
        let point = known.checked_sub(1).and_then(|place| history.points.get(place))?;
        // Nothing was heard for a while.
        let age = Timestamp(at(part)).since(point.start);
        (age <= history.step * 2).then(|| value(point))
    };
    (1..=parts).map(|part| of(part).unwrap_or(0.0)).collect()
}

/// An amount, with decimals only where it has some.
pub(super) fn amount(units: u64) -> String {
    if units.is_multiple_of(UNITS) { count(units / UNITS) } else { rate(units as f64 / UNITS as f64) }
}

fn draw_charts(frame: &mut Frame<'_>, area: Rect, overview: &Overview, view: &View<'_>) {
    let series = &view.model.series;
    let columns = usize::from(area.width);
    let has_gpus = overview.resources.iter().any(|resource| resource.name.starts_with("gpus"));
    let span = time(series.span());
    let mut all: Vec<(String, Vec<f64>, Option<f64>)> = vec![
        (format!("Tasks per second, over {span}"), series.rates(view.now, columns), None),
        ("Running".to_owned(), series.values(view.now, columns, |point| point.running as f64), None),
        ("CPUs taken".to_owned(), series.values(view.now, columns, |point| point.cpus), Some(1.0)),
    ];
    // How many CPUs there were is not known before a worker has told of its node.
    let is_told = |history: &&LoadHistory| {
        history.worker.is_none() && history.points.len() > 1 && history.nodes.cpus_total > 0
    };
    let history = view.model.load.as_ref().filter(is_told);
    if let Some(history) = history {
        let most = history.nodes.cpus_total as f64;
        let busy = loads(history, columns, |point| f64::from(point.mean.cpus) / most);
        let span = time(history.step * history.points.len() as u32);
        all.push((format!("CPUs busy, over {span}"), busy, Some(1.0)));
    }
    if has_gpus {
        let gpus = series.values(view.now, columns, |point| point.gpus);
        all.push(("GPUs taken".to_owned(), gpus, Some(1.0)));
    }
    all.push(("Memory taken".to_owned(), series.values(view.now, columns, |point| point.memory), Some(1.0)));
    if let Some(history) = history {
        let most = history.nodes.memory_total_mib.max(1) as f64;
        let used = loads(history, columns, |point| f64::from(point.mean.memory_mib) / most);
        all.push(("Memory used".to_owned(), used, Some(1.0)));
        if history.nodes.gpus_total > 0 {
            let most = history.nodes.gpus_total as f64;
            let busy = loads(history, columns, |point| f64::from(point.mean.gpus) / most);
            all.push(("GPUs busy".to_owned(), busy, Some(1.0)));
        }
    }
    // A chart needs a title and two rows.
    all.truncate(usize::from(area.height / 3).max(1));
    let areas = Layout::vertical(vec![Constraint::Fill(1); all.len()]).split(area);
    for ((title, values, most), area) in all.iter().zip(areas.iter()) {
        chart(frame, *area, title, values, *most, view);
    }
}

/// Jobs.
pub(super) fn draw_jobs(frame: &mut Frame<'_>, area: Rect, view: &View<'_>, places: &mut Places) {
    let model = view.model;
    let order = match model.sort {
        Sort::Latest => "latest first",
        Sort::Name => "by name",
        Sort::Busy => "most to do first",
        Sort::Failed => "most failures first",
    };
    let mut title = format!("Jobs, {order}");
    if !model.states.is_empty() {
        let states: Vec<&str> = model.states.iter().map(|state| state.word()).collect();
        title.push_str(&format!(", {}", states.join(" or ")));
    }
    if !model.search.is_empty() {
        title.push_str(&format!(", “{}”", safe(&model.search)));
    }
    if model.jobs.len() >= JOBS_MAX as usize {
        title.push_str(&format!(", the latest {JOBS_MAX}"));
    }
    let area = part(frame, area, &title, view.theme);
    let is_wide = area.width >= 100;
    let mut widths =
        vec![Constraint::Length(7), Constraint::Fill(2), Constraint::Length(9), Constraint::Length(16)];
    let mut head = vec!["     ID", "Name", "State", "Progress"];
    if is_wide {
        widths.push(Constraint::Fill(3));
        head.push("Tasks");
    } else {
        widths.extend([Constraint::Length(9), Constraint::Length(9), Constraint::Length(8)]);
        head.extend(["  waiting", "  running", "  failed"]);
    }
    let empty = match (model.search.is_empty(), model.states.is_empty()) {
        (true, true) => "There are no jobs: create one with `hq submit -- ./program`.",
        _ => "No job matches: press Esc to clear the search, f to change the filter.",
    };
    let leave = ["Progress", "waiting", "running", "failed"];
    let (count_of, chosen) = (model.jobs.len(), Some(model.line()));
    let list = List { head: &head, widths, leave: &leave, count: count_of, chosen, empty };
    list.draw(frame, area, view.theme, places, |line| {
        let job = &model.jobs[line];
        let tasks = &job.counters;
        let state = job.state();
        let mut cells = vec![
            right(job.job.to_string()),
            Cell::from(safe(&job.name)),
            Cell::from(state.word()).style(job_style(state, view.theme)),
            Cell::from(progress(tasks, 15, view.theme)),
        ];
        if is_wide {
            cells.push(Cell::from(counted(tasks)));
        } else {
            cells.extend([tasks.waiting, tasks.running, tasks.failed].map(|number| right(count(number))));
        }
        cells
    });
}
