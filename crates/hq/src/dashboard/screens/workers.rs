//! The screen of workers: who is there, how full each is, and what runs on the one that is chosen.

use hq_core::client_messages::WorkerInfo;
use hq_core::load_history::LoadHistory;
use hq_model::amount::UNITS;
use hq_model::request::MEM;
use hq_model::{Amount, TaskState, memory};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Cell;

use super::super::text::{bar, count, safe, time};
use super::overview::{amount, busy};
use super::parts::{List, counted_words, lines, part, right};
use super::{Places, View};
use crate::render::load::{bars, cpus};

/// Cells of the bar of a resource in the list.
const BAR: usize = 10;
/// A resource with at most so many whole pieces has a sign for each on the map.
const PIECES_MAX: u64 = 256;

/// Workers, and a map of the one that is chosen.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &View<'_>, places: &mut Places) {
    let workers = &view.model.workers;
    let chosen = workers.get(view.model.line());
    let map =
        chosen.map_or(0, |worker| (worker.config.resources.pools.len() as u16 + 5).min(area.height / 2));
    let [list, below] = Layout::vertical([Constraint::Min(3), Constraint::Length(map)]).areas(area);
    draw_list(frame, list, view, places);
    if let Some(worker) = chosen {
        draw_one(frame, below, worker, view);
    }
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, view: &View<'_>, places: &mut Places) {
    let workers = &view.model.workers;
    let area = part(frame, area, &counted_words(workers.len() as u64, "worker"), view.theme);
    let has_gpus = workers.iter().any(|worker| gpus(worker).1 > 0);
    let mut head = vec!["    ID", "Host", "State", "CPUs"];
    let mut widths = vec![
        Constraint::Length(6),
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(BAR as u16 + 10),
    ];
    if has_gpus {
        head.push("GPUs");
        widths.push(Constraint::Length(8));
    }
    head.push(" Tasks");
    widths.push(Constraint::Length(7));
    if area.width >= 100 {
        head.push("There for");
        widths.push(Constraint::Length(10));
        head.push("Batch job");
        widths.push(Constraint::Length(14));
    }
    let list = List {
        head: &head,
        widths,
        leave: &["Tasks", "GPUs", "CPUs"],
        count: workers.len(),
        chosen: Some(view.model.line()),
        empty: "There are no workers: start one here with `hq worker start`, or through a batch system with `hq \
            alloc add`.",
    };
    list.draw(frame, area, view.theme, places, |line| {
        let worker = &workers[line];
        let (taken, offered) = of(worker, |name| name == "cpus");
        let (word, style) = state(worker, view);
        let cpus = match offered {
            0 => String::new(),
            _ => format!("{} {}/{}", bar(taken as f64 / offered as f64, BAR), amount(taken), amount(offered)),
        };
        let mut cells = vec![
            right(worker.worker.to_string()),
            Cell::from(safe(&worker.config.hostname)),
            Cell::from(word).style(style),
            Cell::from(cpus),
        ];
        if has_gpus {
            let (taken, offered) = gpus(worker);
            cells.push(Cell::from(match offered {
                0 => String::new(),
                _ => format!("{}/{}", amount(taken), amount(offered)),
            }));
        }
        cells.push(right(count(worker.tasks_running)));
        if area.width >= 100 {
            cells.push(Cell::from(time(view.now.since(worker.started))));
            let allocation = worker.config.allocation.as_ref();
            cells.push(Cell::from(allocation.map_or_else(String::new, |(_, id)| safe(id))));
        }
        cells
    });
}

// How it is in a word.
fn state(worker: &WorkerInfo, view: &View<'_>) -> (&'static str, Style) {
    match worker {
        worker if worker.ended.is_some() => ("gone", view.theme.bad()),
        worker if worker.away_until.is_some() => ("away", view.theme.bad()),
        worker if worker.trouble.is_some() => ("trouble", view.theme.bad()),
        worker if worker.is_stopping => ("stopping", view.theme.notable()),
        worker if worker.is_draining => ("draining", view.theme.notable()),
        worker if worker.is_reserved => ("reserved", view.theme.notable()),
        worker if worker.tasks_running == 0 => ("idle", view.theme.dim()),
        _ => ("busy", view.theme.good()),
    }
}

fn gpus(worker: &WorkerInfo) -> (u64, u64) {
    of(worker, |name| name.starts_with("gpus"))
}

// How much of some resources is taken, and how much there is.
fn of(worker: &WorkerInfo, is_it: impl Fn(&str) -> bool) -> (u64, u64) {
    let pools = worker.config.resources.pools.iter().enumerate();
    let those = pools.filter(|(_, pool)| is_it(&pool.name));
    those.fold((0, 0), |(taken, offered), (place, pool)| {
        let part = worker.taken.get(place).copied().unwrap_or(Amount::ZERO);
        (taken + part.0, offered + pool.kind.total().0)
    })
}

fn draw_one(frame: &mut Frame<'_>, area: Rect, worker: &WorkerInfo, view: &View<'_>) {
    let title = format!("Worker {} on {}", worker.worker, safe(&worker.config.hostname));
    let area = part(frame, area, &title, view.theme);
    let mut text = format!(
        "{} running, {} there",
        counted_words(worker.tasks_running, "task"),
        count(worker.tasks_assigned)
    );
    if let Some((task, at)) = worker.last_task {
        text.push_str(&format!("; {task} began {} ago", time(view.now.since(at))));
    }
    if let Some((task, _)) = worker.multi_node {
        text.push_str(&format!("; it is a node of {task}"));
    }
    let mut all = vec![Line::from(text)];
    if let Some(trouble) = &worker.trouble {
        all.push(Line::styled(format!("It cannot start tasks: {}", safe(trouble)), view.theme.bad()));
    }
    if let Some(until) = worker.away_until {
        let left = time(until.since(view.now));
        all.push(Line::styled(
            format!("Its connection is lost; its tasks run elsewhere in {left}"),
            view.theme.bad(),
        ));
    }
    all.extend(now_line(worker, view));
    let history = view.model.load.as_ref().filter(|history| history.worker == Some(worker.worker));
    all.extend(history.into_iter().flat_map(|history| load_lines(history, usize::from(area.width))));
    for (place, pool) in worker.config.resources.pools.iter().enumerate() {
        let offered = pool.kind.total().0;
        let taken = worker.taken.get(place).map_or(0, |taken| taken.0);
        let pieces = offered / UNITS;
        let numbers = match pool.name.as_str() {
            MEM => format!(" {} of {}", memory::format(Amount(taken)), memory::format(Amount(offered))),
            _ => format!(" {}/{}", amount(taken), amount(offered)),
        };
        let cells = usize::from(area.width).saturating_sub(12 + numbers.len().max(15)).max(8);
        // A sign for each core or device where there is room, and else a bar.
        let map = match pieces {
            1..=PIECES_MAX if pieces as usize <= cells && pool.name != MEM => {
                let used = taken.div_ceil(UNITS).min(pieces) as usize;
                format!("{}{}", "■".repeat(used), "□".repeat(pieces as usize - used))
            }
            _ => bar(taken as f64 / offered.max(1) as f64, cells.min(40)),
        };
        all.push(Line::from(vec![
            Span::raw(format!("{:<11.11} ", safe(&pool.name))),
            Span::styled(map, view.theme.good()),
            Span::raw(numbers),
        ]));
    }
    lines(frame, area, all);
}

// Which tasks run there, and for how long.
fn now_line(worker: &WorkerInfo, view: &View<'_>) -> Option<Line<'static>> {
    let (_, tasks) = view.model.on_worker.as_ref().filter(|(id, _)| *id == worker.worker)?;
    let running = tasks.iter().filter(|(_, task)| task.state == TaskState::Running);
    let told = running.map(|(job, task)| {
        let since = task.started.map_or_else(String::new, |at| format!(" for {}", time(view.now.since(at))));
        format!("{job}@{}{since}", task.task)
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| Line::from(format!("now: {}", told.join(", "))))
}

// What its node does now, and how busy its CPUs were.
fn load_lines(history: &LoadHistory, columns: usize) -> Vec<Line<'static>> {
    let Some(busy) = busy(&history.nodes) else { return Vec::new() };
    let tasks = history.nodes.tasks;
    let text = format!(
        "node {busy}; tasks use {} CPUs, {} MiB",
        cpus(tasks.load.cpus),
        count(tasks.load.memory_bytes >> 20)
    );
    let most = history.nodes.cpus_total.max(1) as f64;
    let values: Vec<f64> = history.points.iter().map(|point| f64::from(point.mean.cpus) / most).collect();
    let values = &values[values.len().saturating_sub(columns.saturating_sub(12))..];
    vec![Line::from(text), Line::from(format!("CPUs busy   {}", bars(values, Some(1.0))))]
}
