//! `hq bench …`.

use std::time::Duration;

use clap::{Args, Subcommand};
use hq_client::options::values;

use crate::metg;

/// Measure the cluster that is connected
#[derive(Subcommand, Debug)]
pub(crate) enum BenchCommand {
    Metg(MetgArgs),
}

/// Measure how short tasks may be on the workers that are connected
///
/// Runs jobs of `sleep` on all CPUs, each with tasks half as long as the one before, until starting them takes more time
/// than they do. The length at which half of the CPU time goes into tasks is the minimum effective task granularity (METG):
/// shorter ones are better put together, several in one. Other jobs that run meanwhile make it longer. The jobs are
/// forgotten at the end, or canceled by Ctrl-C.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  hq bench metg
  hq bench metg --longest 10s --round 30s")]
pub(crate) struct MetgArgs {
    /// How long the tasks of the first job take
    #[arg(long, value_name = "DURATION", default_value = "512ms", allow_hyphen_values = true, value_parser = length)]
    pub longest: Duration,
    /// The shortest tasks that are tried
    #[arg(long, value_name = "DURATION", default_value = "1ms", allow_hyphen_values = true, value_parser = length)]
    pub shortest: Duration,
    /// How long each job would take if starting its tasks took no time
    ///
    /// It has 8 tasks for each CPU at least, and 10 000 at most.
    #[arg(long, value_name = "DURATION", default_value = "2s", allow_hyphen_values = true, value_parser = length)]
    pub round: Duration,
    /// Keep the jobs, to look at them
    #[arg(long)]
    pub keep: bool,
}

fn length(text: &str) -> Result<Duration, String> {
    let length = values::duration(text)?;
    if (metg::LENGTH_MIN..=metg::LENGTH_MAX).contains(&length) {
        return Ok(length);
    }
    Err(format!("`{text}` is none of the lengths that are measured, from 1ms to 1h"))
}
