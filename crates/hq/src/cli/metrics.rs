//! `hq metrics`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hq_client::options::values;
use hq_core::limits::JOBS_PAGE_MAX;
use hq_model::duration::format;

/// Print cluster metrics in OpenMetrics format, for Prometheus and Grafana
///
/// Prints them once, or continuously with --listen or --write. `hq doc metrics` explains each metric.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hq metrics
  hq metrics --listen 127.0.0.1:9464
  hq metrics --write /var/lib/node_exporter/hq.prom --interval 30s")]
pub(crate) struct MetricsArgs {
    /// Answer `GET /metrics` over HTTP on this local address until the command is stopped
    ///
    /// Port 0 selects a free port. All users of this machine can read the metrics.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "write", value_parser = address)]
    pub listen: Option<SocketAddr>,
    /// Allow --listen to use an address that other machines can reach; anyone who can reach it can read job names
    #[arg(long, requires = "listen")]
    pub allow_remote: bool,
    /// Rewrite this file at regular intervals until the command is stopped, replacing it atomically
    ///
    /// For the textfile collector of node_exporter; the file name should end with .prom.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// How often --write replaces the file, at least 1s
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "15s", requires = "write", value_parser = interval)]
    pub interval: Duration,
    /// Maximum number of jobs with their own task counts: the most recent jobs that have not ended
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", default_value_t = 100, value_parser = jobs)]
    pub jobs: u32,
}

/// Shortest time between two files.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

fn interval(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        short if short < INTERVAL_MIN => {
            Err(format!("the interval is too short; give {} or more", format(INTERVAL_MIN)))
        }
        interval => Ok(interval),
    }
}

fn jobs(text: &str) -> Result<u32, String> {
    match values::count(text)? {
        many if many > JOBS_PAGE_MAX => Err(format!("`{text}` is too large: the maximum is {JOBS_PAGE_MAX}")),
        jobs => Ok(jobs),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is not an address with a port: use one such as 127.0.0.1:9464 or [::1]:9464")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_often_or_too_much_is_refused_in_words() {
        let often = "the interval is too short; give 1s or more";
        assert_eq!(interval("0"), Err(often.into()));
        assert_eq!(interval("999ms"), Err(often.into()));
        assert_eq!(interval("1s"), Ok(INTERVAL_MIN));
        assert_eq!(jobs("x"), Err("`x` is not a valid number: use a whole number from 0".into()));
        assert_eq!(jobs("-1"), Err("`-1` is not a valid number: use a whole number from 0".into()));
        let many = (JOBS_PAGE_MAX + 1).to_string();
        assert_eq!(jobs(&many), Err(format!("`{many}` is too large: the maximum is {JOBS_PAGE_MAX}")));
        assert_eq!((jobs("0"), jobs("1_000")), (Ok(0), Ok(1000)));
    }
}
