//! The page of `hq journal report`: HTML with everything it needs inside.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use hq_core::record::FailureKind;
use hq_model::{Timestamp, WorkerId};

use crate::history::{History, Run};

/// Width of the charts, in pixels.
const WIDTH: f64 = 1200.0;
/// Height of one lane of a worker, in pixels.
const LANE: f64 = 7.0;
/// Lanes drawn for one worker; what runs beside that many others is not drawn.
const LANES_MAX: usize = 64;
/// Bars closer than this, in pixels, are drawn as one.
const GAP: f64 = 0.4;
/// Workers drawn; of more only the sums are shown.
const WORKERS_MAX: usize = 200;
/// Jobs listed.
const JOBS_MAX: usize = 500;
/// Columns of the chart of utilisation.
const COLUMNS: usize = 240;

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:2em;max-width:1260px;color:#222}\
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse}\
td,th{padding:.15em .8em .15em 0;text-align:left;vertical-align:top}td.n{text-align:right}\
svg{background:#fafafa;border:1px solid #ddd}.r{fill:#3a76b8}.f{fill:#c0392b}.u{fill:#7fb069}\
.p{fill:#eef1f4}text{font:10px system-ui,sans-serif;fill:#555}@media(prefers-color-scheme:dark)\
{body{background:#181818;color:#ddd}svg{background:#202020;border-color:#444}.p{fill:#2a2d31}text{fill:#aaa}}";

/// Writes the page for a part of the past.
pub(crate) fn write(
    out: &mut dyn Write,
    history: &History,
    window: (Timestamp, Timestamp),
) -> io::Result<()> {
    let page = Page { history, from: window.0, to: window.1 };
    writeln!(out, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">")?;
    writeln!(out, "<title>Headquarters: server {}</title>", escape(&history.uid))?;
    writeln!(out, "<style>{STYLE}</style></head><body>")?;
    writeln!(out, "<h1>Server {}</h1>", escape(&history.uid))?;
    page.summary(out)?;
    page.utilisation(out)?;
    page.gantt(out)?;
    page.waiting(out)?;
    page.failures(out)?;
    page.jobs(out)?;
    writeln!(out, "</body></html>")
}

struct Page<'a> {
    history: &'a History,
    from: Timestamp,
    to: Timestamp,
}

impl Page<'_> {
    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.history.runs.iter().filter(|run| run.end >= self.from && run.start <= self.to)
    }

    fn span_us(&self) -> f64 {
        (self.to.0.saturating_sub(self.from.0)).max(1) as f64
    }

    // Pixels from the left.
    fn x(&self, at: Timestamp) -> f64 {
        let at = at.max(self.from).min(self.to);
        (at.0 - self.from.0) as f64 / self.span_us() * WIDTH
    }

    fn summary(&self, out: &mut dyn Write) -> io::Result<()> {
        let (mut runs, mut busy, mut failed) = (0u64, 0.0, 0u64);
        for run in self.runs() {
            runs += 1;
            failed += u64::from(run.failed);
            busy += self.overlap(run.start, run.end) * f64::from(run.cpus);
        }
        let offered: f64 = self
            .history
            .workers
            .values()
            .map(|w| self.overlap(w.joined, w.ended.unwrap_or(self.to)) * w.offered.cpus())
            .sum();
        let share = if offered > 0.0 { format!("{:.1} %", 100.0 * busy / offered) } else { "-".to_owned() };
        let rows = [
            ("From", self.from.to_string()),
            ("To", format!("{} ({} later)", self.to, seconds(self.span_us() / 1e6))),
            ("Starts of the server", self.history.starts.len().to_string()),
            ("Workers", self.history.workers.len().to_string()),
            ("Executions", format!("{runs}, {failed} of them failed")),
            ("Executions begun again", self.history.restarts.to_string()),
            ("CPU time offered", seconds(offered / 1e6)),
            ("CPU time asked for by running tasks", format!("{} ({share})", seconds(busy / 1e6))),
        ];
        writeln!(out, "<table>")?;
        for (name, value) in rows {
            writeln!(out, "<tr><th>{name}</th><td>{}</td></tr>", escape(&value))?;
        }
        writeln!(out, "</table>")?;
        if self.history.runs_left_out > 0 {
            writeln!(out, "<p>{} more executions are not shown.</p>", self.history.runs_left_out)?;
        }
        Ok(())
    }

    fn overlap(&self, start: Timestamp, end: Timestamp) -> f64 {
        end.min(self.to).0.saturating_sub(start.max(self.from).0) as f64
    }

    fn utilisation(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut busy = vec![0.0; COLUMNS];
        let mut offered = vec![0.0; COLUMNS];
        for run in self.runs() {
            self.spread(&mut busy, run.start, run.end, f64::from(run.cpus));
        }
        for worker in self.history.workers.values() {
            self.spread(&mut offered, worker.joined, worker.ended.unwrap_or(self.to), worker.offered.cpus());
        }
        let most = offered.iter().chain(&busy).copied().fold(1e-9, f64::max);
        let (height, column) = (120.0, WIDTH / COLUMNS as f64);
        writeln!(out, "<h2>Utilisation: CPUs asked for by running tasks, of those offered</h2>")?;
        writeln!(out, "<svg width=\"{WIDTH}\" height=\"{height}\">")?;
        for (index, (busy, offered)) in busy.iter().zip(&offered).enumerate() {
            let x = index as f64 * column;
            for (class, value) in [("p", offered), ("u", busy)] {
                let bar = height * value / most;
                let y = height - bar;
                writeln!(
                    out,
                    "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{column:.1}\" height=\"{bar:.1}\"/>"
                )?;
            }
        }
        writeln!(
            out,
            "<text x=\"4\" y=\"12\">{:.1} CPUs</text></svg>",
            most / self.span_us() * COLUMNS as f64
        )
    }

    // Adds weight × time to the columns that an interval covers.
    fn spread(&self, columns: &mut [f64], start: Timestamp, end: Timestamp, weight: f64) {
        let each = self.span_us() / columns.len() as f64;
        let (start, end) = (start.max(self.from), end.min(self.to));
        if end <= start {
            return;
        }
        let (start, end) = ((start.0 - self.from.0) as f64, (end.0 - self.from.0) as f64);
        let first = ((start / each) as usize).min(columns.len() - 1);
        let last = ((end / each) as usize).min(columns.len() - 1);
        for (index, column) in columns.iter_mut().enumerate().take(last + 1).skip(first) {
            let (left, right) = (index as f64 * each, (index + 1) as f64 * each);
            *column += weight * (end.min(right) - start.max(left)).max(0.0);
        }
    }

    fn gantt(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "<h2>Workers</h2>")?;
        let mut by_worker: BTreeMap<WorkerId, Vec<&Run>> = BTreeMap::new();
        for run in self.runs() {
            by_worker.entry(run.worker).or_default().push(run);
        }
        for (id, worker) in self.history.workers.iter().take(WORKERS_MAX) {
            let mut runs = by_worker.remove(id).unwrap_or_default();
            runs.sort_by_key(|run| run.start);
            let lanes = self.lanes(&runs);
            let height = lanes.len().max(1) as f64 * LANE + 4.0;
            writeln!(
                out,
                "<div>{id} · {} · {} CPUs · {} executions{}</div>",
                escape(&worker.hostname),
                worker.offered.cpus(),
                runs.len(),
                worker.ended.map_or_else(String::new, |at| format!(" · left {at}")),
            )?;
            writeln!(out, "<svg width=\"{WIDTH}\" height=\"{height}\">")?;
            let (x, end) = (self.x(worker.joined), self.x(worker.ended.unwrap_or(self.to)));
            writeln!(
                out,
                "<rect class=\"p\" x=\"{x:.1}\" y=\"0\" width=\"{:.1}\" height=\"{height}\"/>",
                end - x
            )?;
            for (lane, bars) in lanes.iter().enumerate() {
                for bar in bars {
                    self.bar(out, lane, bar)?;
                }
            }
            writeln!(out, "</svg>")?;
        }
        if self.history.workers.len() > WORKERS_MAX {
            writeln!(out, "<p>{} more workers are not drawn.</p>", self.history.workers.len() - WORKERS_MAX)?;
        }
        Ok(())
    }

    // Executions beside one another in lanes; those too close to be told apart become one bar.
    fn lanes(&self, runs: &[&Run]) -> Vec<Vec<Bar>> {
        let mut lanes: Vec<Vec<Bar>> = Vec::new();
        let mut ends: Vec<Timestamp> = Vec::new();
        for run in runs {
            let free = ends.iter().position(|end| *end <= run.start);
            let lane = match free {
                Some(lane) => lane,
                None if lanes.len() < LANES_MAX => {
                    lanes.push(Vec::new());
                    ends.push(Timestamp(0));
                    lanes.len() - 1
                }
                None => continue,
            };
            ends[lane] = run.end;
            let bar = Bar {
                left: self.x(run.start),
                right: self.x(run.end),
                failed: run.failed,
                count: 1,
                first: format!("{}@{}", run.job, run.task),
                seconds: (run.end.0 - run.start.0) as f64 / 1e6,
            };
            match lanes[lane].last_mut() {
                Some(last)
                    if last.failed == bar.failed
                        && bar.left - last.right < GAP
                        && bar.right - bar.left < 2.0 =>
                {
                    last.right = bar.right.max(last.right);
                    last.count += 1;
                    last.seconds += bar.seconds;
                }
                _ => lanes[lane].push(bar),
            }
        }
        lanes
    }

    fn bar(&self, out: &mut dyn Write, lane: usize, bar: &Bar) -> io::Result<()> {
        let class = if bar.failed { "f" } else { "r" };
        let mut title = format!("{}, {}", bar.first, seconds(bar.seconds));
        if bar.count > 1 {
            let _ = write!(title, ", and {} more", bar.count - 1);
        }
        writeln!(
            out,
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
            bar.left,
            2.0 + lane as f64 * LANE,
            (bar.right - bar.left).max(0.5),
            LANE - 1.0,
            escape(&title),
        )
    }

    fn waiting(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut waits: Vec<u64> = self.runs().map(|run| run.waited_us).collect();
        waits.sort_unstable();
        writeln!(out, "<h2>Waiting times, from submit to start</h2><table><tr>")?;
        for (name, part) in
            [("least", 0.0), ("half of them below", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("most", 1.0)]
        {
            let index = (waits.len().saturating_sub(1) as f64 * part) as usize;
            let value = waits.get(index).map_or("-".to_owned(), |us| seconds(*us as f64 / 1e6));
            writeln!(out, "<th>{name}</th><td>{value}</td>")?;
        }
        writeln!(out, "</tr></table>")
    }

    fn failures(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "<h2>Failures: {}</h2>", self.history.failures_total)?;
        let shown = self.history.failures.iter().filter(|f| f.at >= self.from && f.at <= self.to);
        let mut rows = shown.peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        writeln!(
            out,
            "<table><tr><th>When</th><th>Task</th><th>Worker</th><th>Kind</th><th>Error</th></tr>"
        )?;
        for failure in rows {
            let kind = match failure.kind {
                FailureKind::Exit(code) => format!("exit code {code}"),
                FailureKind::Signal(signal) => format!("signal {signal}"),
                FailureKind::Timeout => "time limit".to_owned(),
                FailureKind::Start => "not started".to_owned(),
                FailureKind::Crashes | FailureKind::Lost => "lost with workers".to_owned(),
                FailureKind::Output => "output missing".to_owned(),
                FailureKind::Puller => "failed by its puller".to_owned(),
                FailureKind::EndedEarly => "ended early".to_owned(),
            };
            let worker = failure.worker.map_or_else(|| "-".to_owned(), |worker| worker.to_string());
            writeln!(
                out,
                "<tr><td>{}</td><td>{}@{}</td><td>{worker}</td><td>{kind}</td><td>{}</td></tr>",
                failure.at,
                failure.job,
                failure.task,
                escape(&failure.error),
            )?;
        }
        writeln!(out, "</table>")
    }

    fn jobs(&self, out: &mut dyn Write) -> io::Result<()> {
        let jobs: Vec<_> = self.history.all_jobs().filter(|(_, job)| job.submitted <= self.to).collect();
        writeln!(out, "<h2>Jobs: {}</h2>", jobs.len())?;
        writeln!(
            out,
            "<table><tr><th>ID</th><th>Name</th><th>Submitted</th><th>Last end</th><th>Tasks</th>\
             <th>Finished</th><th>Failed</th><th>Canceled</th><th>Aborted</th></tr>"
        )?;
        for (id, job) in jobs.iter().take(JOBS_MAX) {
            let [finished, failed, canceled, aborted] = job.ended;
            writeln!(
                out,
                "<tr><td>{id}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{finished}</td>\
                 <td class=\"n\">{failed}</td><td class=\"n\">{canceled}</td><td class=\"n\">{aborted}</td></tr>",
                escape(&job.name),
                job.submitted,
                job.last_end,
                job.tasks,
            )?;
        }
        writeln!(out, "</table>")
    }
}

struct Bar {
    left: f64,
    right: f64,
    failed: bool,
    count: u64,
    first: String,
    seconds: f64,
}

fn seconds(value: f64) -> String {
    if value < 0.001 {
        format!("{:.0} µs", value * 1e6)
    } else if value < 1.0 {
        format!("{:.1} ms", value * 1e3)
    } else if value < 7200.0 {
        format!("{value:.1} s")
    } else {
        format!("{:.1} h", value / 3600.0)
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
