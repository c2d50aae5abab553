//! `hq metrics`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hq_client::options::values;
use hq_core::limits::JOBS_PAGE_MAX;

/// Print how the cluster is as OpenMetrics, for Prometheus and Grafana
///
/// Once, or on and on with --listen or --write. `hq doc metrics` says what each metric means.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hq metrics
  hq metrics --listen 127.0.0.1:9464
  hq metrics --write /var/lib/node_exporter/hq.prom --interval 30s")]
pub(crate) struct MetricsArgs {
    /// Answer `GET /metrics` over HTTP at this address of this machine until the command is ended
    ///
    /// Port 0 takes one that is free. Everybody on this machine can read it.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "write", value_parser = address)]
    pub listen: Option<SocketAddr>,
    /// Let --listen take an address that other machines reach; whoever reaches it can read names of jobs
    #[arg(long, requires = "listen")]
    pub allow_remote: bool,
    /// Replace this file at an interval until the command is ended, always by a whole one
    ///
    /// For the text file collector of a node exporter, whose files end with .prom.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// How often --write replaces the file
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "15s", requires = "write", value_parser = values::duration)]
    pub interval: Duration,
    /// Count the tasks of so many jobs one by one: of the latest that have not ended
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=i64::from(JOBS_PAGE_MAX)))]
    pub jobs: u32,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is no address with a port: write one such as 127.0.0.1:9464 or [::1]:9464")
    })
}
