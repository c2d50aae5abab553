//! `hq bench …`.

use std::time::Duration;

use clap::{Args, Subcommand};
use hq_client::options::values;

use crate::metg;

/// Measure the performance of the connected workers
#[derive(Subcommand, Debug)]
pub(crate) enum BenchCommand {
    Metg(MetgArgs),
}

/// Measure how short tasks can be on the connected workers
///
/// Runs jobs of `sleep` tasks on all CPUs, halving the task length from job to job, until starting tasks takes longer
/// than running them. The length at which half of the CPU time is spent in tasks is the minimum effective task
/// granularity (METG); combine tasks that are shorter. Other running jobs increase the result. The jobs are forgotten
/// at the end, or canceled on Ctrl-C.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  hq bench metg
  hq bench metg --longest 10s --round 30s")]
pub(crate) struct MetgArgs {
    /// Task length of the first job
    #[arg(long, value_name = "DURATION", default_value = "512ms", allow_hyphen_values = true, value_parser = length)]
    pub longest: Duration,
    /// Shortest task length to try
    #[arg(long, value_name = "DURATION", default_value = "1ms", allow_hyphen_values = true, value_parser = length)]
    pub shortest: Duration,
    /// How long each job would take if starting tasks took no time
    ///
    /// A job has at least 8 and at most 10 000 tasks per CPU.
    #[arg(long, value_name = "DURATION", default_value = "2s", allow_hyphen_values = true, value_parser = length)]
    pub round: Duration,
    /// Keep the jobs for inspection
    #[arg(long)]
    pub keep: bool,
}

fn length(text: &str) -> Result<Duration, String> {
    let length = values::duration(text)?;
    if (metg::LENGTH_MIN..=metg::LENGTH_MAX).contains(&length) {
        return Ok(length);
    }
    Err(format!("`{text}` is out of range: task lengths from 1ms to 1h can be measured"))
}
