//! A progress bar over jobs, on a terminal only.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use hq_core::client_messages::JobSummary;
use hq_model::JobId;
use hq_model::job::Counters;
use indicatif::{
    HumanDuration, HumanFloatCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};

/// How often the time shown moves on.
const TICK: Duration = Duration::from_millis(500);

/// Shows how far jobs are.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    running: u64,
    is_begun: bool,
}

impl Progress {
    /// One that shows nothing.
    pub(crate) fn hidden() -> Progress {
        Progress { bar: None, running: 0, is_begun: false }
    }

    /// A bar on standard error, if that is a terminal.
    pub(crate) fn shown() -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{elapsed_precise} [{wide_bar}] {pos}/{len} {msg}{pace}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> ").with_key("pace", pace));
        }
        bar.enable_steady_tick(TICK);
        Progress { bar: Some(bar), running: 0, is_begun: false }
    }

    /// Shows these jobs.
    pub(crate) fn update(&mut self, jobs: &BTreeMap<JobId, JobSummary>) {
        let mut sum = Counters::default();
        for c in jobs.values().map(|job| &job.counters) {
            sum.waiting += c.waiting;
            sum.running += c.running;
            sum.finished += c.finished;
            sum.failed += c.failed;
            sum.canceled += c.canceled;
            sum.aborted += c.aborted;
        }
        self.running = sum.running;
        let Some(bar) = &self.bar else {
            return;
        };
        bar.set_length(sum.total());
        bar.set_position(sum.terminal());
        if !self.is_begun {
            // What had ended before says nothing of the pace.
            self.is_begun = true;
            bar.reset_eta();
        }
        bar.set_message(message(&sum));
    }

    /// How many tasks ran when jobs were shown last.
    pub(crate) fn running(&self) -> u64 {
        self.running
    }

    /// Takes the bar away for good; what was printed stays.
    pub(crate) fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Runs something that writes to the terminal without tearing the bar.
    pub(crate) fn suspend<T>(&self, action: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(action),
            None => action(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

// How fast tasks end, and when the last one may have: known from the second look on.
fn pace(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    let rate = state.per_sec();
    let left = state.len().unwrap_or(0).saturating_sub(state.pos());
    if rate > 0.0 && left > 0 {
        let (per_second, end) = (HumanFloatCount(round(rate)), HumanDuration(state.eta()));
        // What cannot be written is not shown.
        let _ = write!(out, ", {per_second}/s, {end} left");
    }
}

// Two digits say enough of what goes up and down.
fn round(rate: f64) -> f64 {
    let unit = 10f64.powf(rate.log10().floor() - 1.0);
    (rate / unit).round() * unit
}

fn message(c: &Counters) -> String {
    let mut parts = vec![format!("{} running", c.running)];
    for (count, word) in [(c.failed, "failed"), (c.canceled, "canceled"), (c.aborted, "aborted")] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_two_digits() {
        let rates = [0.012_34, 0.56, 1.26, 17.4, 1234.5];
        let shown = rates.map(|rate| HumanFloatCount(round(rate)).to_string());
        assert_eq!(shown, ["0.012", "0.56", "1.3", "17", "1,200"]);
    }

    #[test]
    fn the_message_names_what_went_wrong_only_when_it_did() {
        assert_eq!(message(&Counters { running: 3, ..Counters::default() }), "3 running");
        let c = Counters { running: 1, failed: 2, aborted: 4, ..Counters::default() };
        assert_eq!(message(&c), "1 running, 2 failed, 4 aborted");
    }
}
