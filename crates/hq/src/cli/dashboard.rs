//! `hq dashboard`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Watch jobs, tasks, workers and allocations on a terminal, or replay a journal there
///
/// Keys are shown at the bottom, `?` tells all of them. What changes something asks first.
#[derive(Args, Debug)]
#[command(
    after_help = "\
Examples:
  hq dashboard
  hq dashboard --replay ~/.hq-server/journal",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct DashboardArgs {
    /// Show the past from this journal instead of a server: its directory
    #[arg(long, value_name = "JOURNAL")]
    pub replay: Option<PathBuf>,
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
