//! `hq config …`.

use clap::{Args, Subcommand};

/// Show what configuration files say
#[derive(Subcommand, Debug)]
pub(crate) enum ConfigCommand {
    Show(ShowArgs),
}

/// Show the options that configuration files and variables set
///
/// Options that are not on the command line are taken from variables, then from hq.toml in the present directory or the
/// nearest one above it, then from config.toml in the configuration directory: $HQ_CONFIG_DIR, or hq in
/// $XDG_CONFIG_HOME, or ~/.config/hq. Files are checked as a whole.
#[derive(Args, Clone, Debug)]
pub(crate) struct ShowArgs {
    /// With the file or the variable that each comes from
    #[arg(long)]
    pub origin: bool,
}
