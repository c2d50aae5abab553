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
/// Terminals with fewer columns get no bar.
const NARROW: u16 = 70;

/// Shows how far jobs are.
pub(crate) struct Progress {
    is_shown: bool,
    // From the first look on at jobs that have tasks.
    bar: Option<ProgressBar>,
    running: u64,
}

impl Progress {
    /// One that shows nothing.
    pub(crate) fn hidden() -> Progress {
        Progress { is_shown: false, bar: None, running: 0 }
    }

    /// A bar on standard error, if that is a terminal.
    pub(crate) fn shown() -> Progress {
        Progress { is_shown: std::io::stderr().is_terminal(), bar: None, running: 0 }
    }

    /// Shows these jobs.
    pub(crate) fn update(&mut self, jobs: &BTreeMap<JobId, JobSummary>) {
        let mut sum = Counters::default();
        jobs.values().for_each(|job| sum.add(&job.counters));
        self.running = sum.running;
        // A bar of nothing would look as if all were done.
        if !self.is_shown || sum.total() == 0 {
            return;
        }
        if let Some(bar) = &self.bar {
            show(bar, &sum);
        } else {
            let bar = begun(&sum);
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(TICK);
            self.bar = Some(bar);
        }
    }

    /// How many tasks ran when jobs were shown last.
    pub(crate) fn running(&self) -> u64 {
        self.running
    }

    /// Takes the bar away for good; what was printed stays.
    pub(crate) fn end(&mut self) {
        self.is_shown = false;
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

// A bar that is not drawn yet.
fn begun(sum: &Counters) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(sum.total()), ProgressDrawTarget::hidden());
    let style = ProgressStyle::with_template(
        match rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| size.ws_col) {
            // All but the numbers would be more than a line, and a line that is broken cannot be drawn again.
            1..NARROW => "{pos}/{len} {wide_msg}",
            _ => "{elapsed_precise} [{wide_bar}] {pos}/{len} {msg}{pace}",
        },
    );
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("=> ").with_key("pace", pace));
    }
    show(&bar, sum);
    // What had ended before says nothing of the pace: it is forgotten once the bar has taken note of it.
    bar.reset_eta();
    bar
}

fn show(bar: &ProgressBar, sum: &Counters) {
    bar.set_length(sum.total());
    bar.set_position(sum.terminal());
    bar.set_message(message(sum));
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
    fn what_had_ended_before_is_no_pace() {
        let bar = begun(&Counters { finished: 500_000, waiting: 500_000, ..Counters::default() });
        assert_eq!((bar.position(), bar.length()), (500_000, Some(1_000_000)));
        // The same again, as when the message alone has changed.
        show(&bar, &Counters { finished: 500_000, waiting: 499_999, running: 1, ..Counters::default() });
        assert_eq!(bar.per_sec().to_bits(), 0f64.to_bits());
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let mut progress = Progress { is_shown: true, bar: None, running: 0 };
        progress.update(&BTreeMap::new());
        assert!(progress.bar.is_none());
    }

    #[test]
    fn the_message_names_what_went_wrong_only_when_it_did() {
        assert_eq!(message(&Counters { running: 3, ..Counters::default() }), "3 running");
        let c = Counters { running: 1, failed: 2, aborted: 4, ..Counters::default() };
        assert_eq!(message(&c), "1 running, 2 failed, 4 aborted");
    }
}
