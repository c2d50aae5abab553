//! The screens that show everything in counts, and the list of jobs.

use std::time::Duration;

use hq_core::client_messages::Overview;
use hq_core::overview::ResourceUse;
use hq_model::amount::UNITS;
use hq_model::memory;
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

/// Everything in counts.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let Some((overview, _)) = &view.model.overview else {
        return lines(frame, area, vec![Line::from(" Nothing is known yet.")]);
    };
    let resources = overview.resources.len().clamp(1, RESOURCES_MAX) as u16;
    let top = (3 + resources).max(6);
    let [top, charts] = Layout::vertical([Constraint::Length(top), Constraint::Min(0)]).areas(area);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(top);
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
            0 => format!("{} could start", count(overview.ready)),
            restarted => format!("{} could start, {} restarted", count(overview.ready), count(restarted)),
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
            "Those that are away may come back."
        } else {
            "hq worker start brings one."
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
    lines(frame, area, all);
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
    if has_gpus {
        let gpus = series.values(view.now, columns, |point| point.gpus);
        all.push(("GPUs taken".to_owned(), gpus, Some(1.0)));
    }
    all.push(("Memory taken".to_owned(), series.values(view.now, columns, |point| point.memory), Some(1.0)));
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
        (true, true) => "There are no jobs: `hq submit -- ./program` makes one.",
        _ => "No job is like that: Esc forgets the search, f shows other states.",
    };
    let list = List { head: &head, widths, count: model.jobs.len(), chosen: Some(model.line()), empty };
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
