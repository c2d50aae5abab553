//! `hq dashboard`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::dashboard::WebPlace;

/// Watch jobs, tasks, workers and allocations on a terminal or in a browser, or replay a journal
///
/// Keys are shown at the bottom, `?` tells all of them. What changes something asks first.
#[derive(Args, Debug)]
#[command(
    after_help = "\
Examples:
  hq dashboard
  hq dashboard --web
  hq dashboard --replay ~/.hq-server/journal",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct DashboardArgs {
    /// Show the past from this journal instead of a server: its directory
    #[arg(long, value_name = "JOURNAL")]
    pub replay: Option<PathBuf>,
    /// Serve the dashboard to browsers until the command is ended, and print a link that opens it once
    ///
    /// At 127.0.0.1 and a port that is free, or at PLACE: 127.0.0.1:PORT, `[::1]:PORT` or unix:PATH. No other machine reaches
    /// it, but through `ssh -L`.
    #[arg(long, value_name = "PLACE", num_args = 0..=1, default_missing_value = "127.0.0.1:0", conflicts_with_all = ["replay", "no_mouse"])]
    pub web: Option<WebPlace>,
    /// Let the page of --web cancel and resubmit jobs, drain workers, and pause queues
    #[arg(long, requires = "web")]
    pub allow_actions: bool,
    /// Leave the mouse to the terminal, which then selects text
    #[arg(long)]
    pub no_mouse: bool,
    /// The words of other releases for the same.
    #[command(subcommand)]
    pub mode: Option<DashboardMode>,
}

/// What is shown.
#[derive(Subcommand, Debug)]
pub(crate) enum DashboardMode {
    /// Watch the server, as without a word
    #[command(hide = true)]
    Stream,
    /// Replay a journal, as --replay does
    #[command(hide = true)]
    Replay {
        /// The journal
        #[arg(value_name = "JOURNAL")]
        journal: PathBuf,
    },
}

impl DashboardArgs {
    /// The journal to replay, if one is.
    pub(crate) fn journal(&self) -> Option<&PathBuf> {
        match &self.mode {
            Some(DashboardMode::Replay { journal }) => Some(journal),
            Some(DashboardMode::Stream) | None => self.replay.as_ref(),
        }
    }
}
