//! `hq dashboard`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::dashboard::WebPlace;

/// Watch jobs, tasks, workers and allocations in the terminal or a browser, or replay a journal
///
/// Keys are shown at the bottom; `?` lists all of them. Actions ask for confirmation first.
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
    /// Replay this journal (a directory) instead of watching a server
    #[arg(long, value_name = "JOURNAL")]
    pub replay: Option<PathBuf>,
    /// Serve the dashboard to browsers until the command is stopped, and print a one-time link to open it
    ///
    /// Serves on 127.0.0.1 and a free port, or on PLACE: 127.0.0.1:PORT, `[::1]:PORT` or unix:PATH. Other machines
    /// can reach it only through `ssh -L`.
    #[arg(long, value_name = "PLACE", num_args = 0..=1, default_missing_value = "127.0.0.1:0", conflicts_with_all = ["replay", "no_mouse"])]
    pub web: Option<WebPlace>,
    /// Allow the web page to cancel and resubmit jobs, drain workers, and pause queues
    #[arg(long, requires = "web")]
    pub allow_actions: bool,
    /// Do not capture the mouse, so that the terminal can select text
    #[arg(long)]
    pub no_mouse: bool,
    /// The words of other releases for the same.
    #[command(subcommand)]
    pub mode: Option<DashboardMode>,
}

/// What is shown.
#[derive(Subcommand, Debug)]
pub(crate) enum DashboardMode {
    /// Watch the server, as without a subcommand
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
