//! `hq config …`.

use clap::{Args, Subcommand};

/// Show settings from configuration files
#[derive(Subcommand, Debug)]
pub(crate) enum ConfigCommand {
    Show(ShowArgs),
}

/// Show options set by configuration files and environment variables
///
/// Options not given on the command line are taken from environment variables, then from hq.toml in the current
/// directory or the nearest parent directory that has one, then from config.toml in the configuration directory:
/// $HQ_CONFIG_DIR, $XDG_CONFIG_HOME/hq or ~/.config/hq. Files are checked in full.
#[derive(Args, Clone, Debug)]
pub(crate) struct ShowArgs {
    /// Also show the file or variable that each option comes from
    #[arg(long)]
    pub origin: bool,
}
