//! The screens of one job and of one of its tasks.

use hq_core::client_messages::{JobDetail, TaskInfo};
use hq_core::job_shape::SlowTask;
use hq_core::task_use::TaskUse;
use hq_model::{Channel, TaskState, WorkerId};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Wrap};

use super::super::text::{count, safe, time};
use super::super::wants::TASKS_MAX;
use super::parts::{
    List, chart, counted, counted_words, job_style, lines, part, progress, right, task_style,
};
use super::{Places, View, graph, short_time};
use crate::render::attempts;
use crate::render::load::{bars, cpus};
use crate::render::text as words;

/// Lines of a screen from which on the timeline and the layers of a job are beside all else.
const GRAPH_HEIGHT_MIN: u16 = 40;
/// Tasks that run for longest, or took longest.
const SLOWEST_LINES: usize = 3;
/// Columns of a screen from which on these are beside each other.
const BESIDE_WIDTH_MIN: u16 = 80;
/// Layers that are there at most.
const LAYERS_BESIDE: u16 = 12;

/// A job: how far it is, why tasks failed, which run or took longest, and its tasks.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &View<'_>, places: &mut Places) {
    let Some(job) = &view.model.job else {
        return lines(
            frame,
            area,
            vec![Line::from(" Nothing is known about this job yet, or it is no longer kept.")],
        );
    };
    let shape = view.model.shape.as_ref().filter(|shape| shape.job == job.summary.job);
    if view.model.shows_graph {
        return draw_graph(frame, area, job, view);
    }
    let causes = view.model.failures.as_ref().map_or(0, |failures| failures.causes.len());
    let failures = if causes > 0 { (causes as u16 + 1).min(area.height / 4).max(2) } else { 0 };
    let longest = longest(&view.model.running);
    let took = shape.map_or(&[][..], |shape| &shape.slowest);
    let slow = longest.len().max(took.len()).min(SLOWEST_LINES) as u16;
    let slow = if slow == 0 { 0 } else { slow + 1 };
    // How it went is shown where there is room, and once something is known of that.
    let has_past = area.height >= 26 && !view.model.job_series.span().is_zero();
    let graph = shape.filter(|_| area.height >= GRAPH_HEIGHT_MIN);
    let rows = [
        Constraint::Length(7),
        Constraint::Length(if has_past { 5 } else { 0 }),
        Constraint::Length(graph.map_or(0, |_| graph::TIMELINE_LINES)),
        Constraint::Length(graph.map_or(0, |shape| graph::layers_height(shape, LAYERS_BESIDE))),
        Constraint::Length(failures),
        Constraint::Length(if area.height >= 18 { slow } else { 0 }),
        Constraint::Min(2),
    ];
    let [top, past, timeline, layers, why, slowest, tasks] = Layout::vertical(rows).areas(area);
    draw_head(frame, top, job, view);
    if has_past {
        let series = &view.model.job_series;
        let title = format!("Its tasks per second, over {}", time(series.span()));
        chart(frame, past, &title, &series.rates(view.now, usize::from(past.width)), None, view);
    }
    if let Some(shape) = graph {
        graph::draw_timeline(frame, timeline, shape, view);
        graph::draw_layers(frame, layers, shape, view);
    }
    draw_failures(frame, why, view);
    if slowest.height > 0 {
        draw_slowest(frame, slowest, (&longest, took), view);
    }
    draw_tasks(frame, tasks, view, places);
}

// What runs for longest, and of what has ended, what took longest: one beside the other where there is room.
fn draw_slowest(
    frame: &mut Frame<'_>,
    area: Rect,
    (running, ended): (&[&TaskInfo], &[SlowTask]),
    view: &View<'_>,
) {
    let has_both = !running.is_empty() && !ended.is_empty() && area.width >= BESIDE_WIDTH_MIN;
    let widths = match (has_both, running.is_empty()) {
        (true, _) => [Constraint::Fill(1), Constraint::Fill(1)],
        (false, false) => [Constraint::Fill(1), Constraint::Length(0)],
        (false, true) => [Constraint::Length(0), Constraint::Fill(1)],
    };
    let [left, right] = Layout::horizontal(widths).areas(area);
    let on =
        |worker: Option<WorkerId>| worker.map_or_else(String::new, |worker| format!(" on worker {worker}"));
    if left.width > 0 {
        let inner = part(frame, left, "Running longest", view.theme);
        let line = |task: &&TaskInfo| {
            let since = task.started.map_or_else(String::new, |started| time(view.now.since(started)));
            Line::from(format!("task {} for {since}{}", task.task, on(task.worker)))
        };
        lines(frame, inner, running.iter().map(line).collect());
    }
    if right.width > 0 {
        let inner = part(frame, right, "Took longest", view.theme);
        let line = |slow: &SlowTask| {
            let ended = match slow.state {
                TaskState::Finished => String::new(),
                state => format!(", {state}"),
            };
            Line::from(format!("task {} took {}{}{ended}", slow.task, time(slow.took), on(slow.worker)))
        };
        lines(frame, inner, ended.iter().take(SLOWEST_LINES).map(line).collect());
    }
}

// The timeline and the layers alone.
fn draw_graph(frame: &mut Frame<'_>, area: Rect, job: &JobDetail, view: &View<'_>) {
    let [top, rest] = Layout::vertical([Constraint::Length(7), Constraint::Min(2)]).areas(area);
    draw_head(frame, top, job, view);
    let Some(shape) = view.model.shape.as_ref().filter(|shape| shape.job == job.summary.job) else {
        let inner = part(frame, rest, "Its graph", view.theme);
        return lines(frame, inner, vec![Line::styled("Nothing is known about it yet.", view.theme.dim())]);
    };
    let rows = [Constraint::Length(graph::TIMELINE_LINES.min(rest.height / 2)), Constraint::Min(2)];
    let [timeline, layers] = Layout::vertical(rows).areas(rest);
    graph::draw_timeline(frame, timeline, shape, view);
    graph::draw_layers(frame, layers, shape, view);
}

// Of the tasks that are known, those that have run for longest.
fn longest(tasks: &[TaskInfo]) -> Vec<&TaskInfo> {
    let mut running: Vec<&TaskInfo> =
        tasks.iter().filter(|task| task.state == TaskState::Running && task.started.is_some()).collect();
    running.sort_by_key(|task| task.started);
    running.truncate(SLOWEST_LINES);
    running
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, job: &JobDetail, view: &View<'_>) {
    let summary = &job.summary;
    let state = summary.state();
    let title = format!("Job {} {}", summary.job, safe(&summary.name));
    let area = part(frame, area, &title, view.theme);
    let took = match job.ended {
        Some(ended) => format!("took {}", time(ended.since(job.submitted))),
        None => format!("{} old", time(view.now.since(job.submitted))),
    };
    let usage = &job.usage;
    let cpu = std::time::Duration::from_micros(usage.user_us.saturating_add(usage.system_us));
    let wall = std::time::Duration::from_micros(usage.wall_us);
    let command =
        job.submits.first().map_or_else(String::new, |submit| safe(&words::body(&submit.spec.body)));
    let asks =
        job.submits.first().map_or_else(String::new, |submit| safe(&words::requests(&submit.spec.requests)));
    let more = match job.submits.len() {
        0 | 1 => String::new(),
        submits => format!(" and {}", counted_words(submits as u64 - 1, "more submit")),
    };
    let all = vec![
        progress(&summary.counters, usize::from(area.width).saturating_sub(1), view.theme),
        Line::from(vec![
            Span::styled(state.word(), job_style(state, view.theme)),
            Span::raw(format!(": {}", counted(&summary.counters))),
        ]),
        Line::from(format!("submitted {}, {took}", short_time(job.submitted))),
        Line::from(format!(
            "ended tasks used {} wall, {} CPU, {} MiB at most",
            time(wall),
            time(cpu),
            count(usage.rss_max_kib / 1024)
        )),
        Line::from(format!("{command}{more}")),
        Line::styled(
            match &summary.cancel_reason {
                Some(reason) => format!("canceled: {}", safe(reason)),
                None => asks,
            },
            view.theme.dim(),
        ),
    ];
    lines(frame, area, all);
}

fn draw_failures(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let Some(failures) = view.model.failures.as_ref().filter(|_| area.height > 0) else { return };
    let title = format!("{} failed, by cause", count(failures.failed));
    let area = part(frame, area, &title, view.theme);
    let mut causes: Vec<_> = failures.causes.iter().map(|(cause, _)| cause).collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
    let line = |cause: &&hq_core::cause::FailureCause| {
        let text = safe(cause.text.lines().next().unwrap_or_default());
        Line::from(vec![
            Span::styled(format!("{:>7} × ", count(cause.count)), view.theme.bad()),
            Span::raw(format!("{text}  (first: task {})", cause.first)),
        ])
    };
    lines(frame, area, causes.iter().map(line).collect());
}

fn draw_tasks(frame: &mut Frame<'_>, area: Rect, view: &View<'_>, places: &mut Places) {
    let (tasks, has_more) = &view.model.tasks;
    let kind =
        view.model.filter.map_or_else(|| "Tasks".to_owned(), |state| format!("Tasks: {}", state.word()));
    let title = if *has_more { format!("{kind}, the first {TASKS_MAX}") } else { kind };
    let area = part(frame, area, &title, view.theme);
    let list = List {
        head: &["        ID", "State", " Worker", "      Time", "Note"],
        widths: vec![
            Constraint::Length(10),
            Constraint::Length(8),
            Constraint::Length(7),
            Constraint::Length(10),
            Constraint::Fill(1),
        ],
        count: tasks.len(),
        chosen: Some(view.model.line()),
        leave: &["Worker", "Time"],
        empty: "There are no such tasks; press f to change the filter.",
    };
    list.draw(frame, area, view.theme, places, |line| {
        let task = &tasks[line];
        let note = task.error.as_deref().or(task.key.as_deref()).unwrap_or_default();
        vec![
            right(task.task.to_string()),
            Cell::from(task.state.word()).style(task_style(task.state, view.theme)),
            right(task.worker.map_or_else(String::new, |worker| worker.to_string())),
            right(run_time(task, view)),
            Cell::from(safe(note.lines().next().unwrap_or_default())),
        ]
    });
}

// How long the present or last attempt has run.
fn run_time(task: &TaskInfo, view: &View<'_>) -> String {
    match (task.started, task.ended) {
        (Some(started), Some(ended)) => time(ended.since(started)),
        (Some(started), None) if task.state == TaskState::Running => time(view.now.since(started)),
        _ => String::new(),
    }
}

/// A task: how it is, what it waits for, what it used, and what it prints.
pub(super) fn draw_task(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let Some(task) = &view.model.task else {
        return lines(
            frame,
            area,
            vec![Line::from(" Nothing is known about this task yet, or it is no longer kept.")],
        );
    };
    let told = task_lines(task, view);
    // Half of the screen is for what it prints.
    let height = (told.len() as u16 + 2).min(area.height / 2).max(7);
    let [top, rest] = Layout::vertical([Constraint::Length(height), Constraint::Min(2)]).areas(area);
    let job = view.model.job.as_ref().map(|job| job.summary.job);
    let title = match job {
        Some(job) => format!("Task {job}@{}", task.task),
        None => format!("Task {}", task.task),
    };
    let top = part(frame, top, &title, view.theme);
    lines(frame, top, told);
    if task.state == TaskState::Waiting {
        let inner = part(frame, rest, "Waiting for", view.theme);
        let reasons = view.model.reasons.iter().flat_map(|reasons| &reasons.reasons);
        let text: Vec<Line<'_>> = reasons.map(|reason| Line::from(safe(&reason.text))).collect();
        return frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), inner);
    }
    let channel = match view.model.channel {
        Channel::Stdout => "Standard output",
        Channel::Stderr => "Standard error",
    };
    let inner = part(frame, rest, channel, view.theme);
    let Some(output) = &view.model.output else {
        let word = if view.model.is_read_only { "A journal does not contain task output." } else { "…" };
        return lines(frame, inner, vec![Line::styled(word, view.theme.dim())]);
    };
    // The last lines that there is room for.
    let text = String::from_utf8_lossy(output);
    let all: Vec<&str> = text.lines().collect();
    let first = all.len().saturating_sub(usize::from(inner.height));
    let shown = all[first..].iter().map(|line| Line::from(safe(&line.replace('\t', "    "))));
    let shown: Vec<Line<'_>> = shown.collect();
    if shown.is_empty() {
        return lines(frame, inner, vec![Line::styled("Nothing has been printed.", view.theme.dim())]);
    }
    lines(frame, inner, shown);
}

fn task_lines(task: &TaskInfo, view: &View<'_>) -> Vec<Line<'static>> {
    let place = match task.nodes.len() {
        0 => task.worker.map_or_else(|| "no worker yet".to_owned(), |worker| format!("worker {worker}")),
        nodes => counted_words(nodes as u64, "worker"),
    };
    let mut attempts = format!("instance {}", task.instance);
    if task.crashes > 0 {
        attempts.push_str(&format!(", lost {} with a worker", counted_words(task.crashes.into(), "time")));
    }
    let times = match (task.started, task.ended) {
        (Some(started), Some(_)) => format!("started {}, took {}", short_time(started), run_time(task, view)),
        (Some(started), None) => {
            format!("started {}, runs for {}", short_time(started), run_time(task, view))
        }
        _ => "not started".to_owned(),
    };
    let used = task.usage.as_ref().map(|usage| {
        let cpu = std::time::Duration::from_micros(usage.user_us.saturating_add(usage.system_us));
        let mib = |blocks: u64| count(blocks / 2048);
        format!(
            "used {} CPU, {} MiB at most, read {} MiB, wrote {} MiB",
            time(cpu),
            count(usage.rss_max_kib / 1024),
            mib(usage.blocks_read),
            mib(usage.blocks_written)
        )
    });
    let error = task.error.as_deref().map(|error| safe(error.lines().next().unwrap_or_default()));
    let mut all = vec![
        Line::from(vec![
            Span::styled(task.state.word(), task_style(task.state, view.theme)),
            Span::raw(format!(", {place}, {attempts}")),
        ]),
        Line::from(times),
        Line::from(
            used.or(task.load.as_deref().map(used_now))
                .unwrap_or_else(|| "usage is known when it has ended".to_owned()),
        ),
    ];
    if let Some(used) = task.load.as_deref().filter(|used| used.points.len() > 1) {
        let values: Vec<f64> = used.points.iter().map(|point| point.cpus.into()).collect();
        all.push(Line::from(format!("CPUs so far {}", bars(&values, None))));
    }
    all.extend(error.map(|error| Line::styled(error, view.theme.bad())));
    all.extend(task.key.as_deref().map(|key| Line::from(format!("key {}", safe(key)))));
    if !task.dependencies.is_empty() {
        let after: Vec<String> = task.dependencies.iter().take(8).map(ToString::to_string).collect();
        all.push(Line::from(safe(&format!("after {}", after.join(", ")))));
    }
    // The latest one first, since there may not be room for all.
    all.extend(task.attempts.iter().rev().map(|attempt| {
        let line = format!("instance {}", attempts::line(attempt, short_time));
        Line::styled(safe(&line), view.theme.dim())
    }));
    all
}

// What a running task uses, in a line.
fn used_now(used: &TaskUse) -> String {
    let mib = |bytes: u64| count(bytes >> 20);
    let TaskUse { load, memory_max, .. } = used;
    let mut text = format!(
        "uses {} CPUs, {} MiB now, {} MiB at most",
        cpus(load.cpus),
        mib(load.memory_bytes),
        mib(*memory_max)
    );
    // Of a call it is not known.
    if load.cpu_us > 0 {
        text.push_str(&format!(", read {} MiB, wrote {} MiB", mib(load.read_bytes), mib(load.written_bytes)));
    }
    text
}
