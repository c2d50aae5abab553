//! Options of `hq feed`, which workers start for generators and reducers.

use std::ffi::OsString;

use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use hq_client::options::feed::{Ahead, ahead};

#[derive(Subcommand, Debug)]
pub(crate) enum FeedCommand {
    /// Create tasks from the output of a command
    Generate(GenerateArgs),
    /// Pass ended tasks to a command
    Reduce(ReduceArgs),
}

#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    /// Its lines are JSON objects
    #[arg(long)]
    pub json: bool,
    /// How far ahead it should be
    #[arg(long, value_parser = ahead)]
    pub ahead: Ahead,
    /// The command
    #[arg(last = true, required = true, value_parser = NonEmptyStringValueParser::new().map(OsString::from))]
    pub command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct ReduceArgs {
    /// Include failed tasks
    #[arg(long)]
    pub failed: bool,
    /// In the order of their ids
    #[arg(long)]
    pub in_order: bool,
    /// Results are JSON
    #[arg(long)]
    pub json: bool,
    /// The command
    #[arg(last = true, required = true, value_parser = NonEmptyStringValueParser::new().map(OsString::from))]
    pub command: Vec<OsString>,
}
