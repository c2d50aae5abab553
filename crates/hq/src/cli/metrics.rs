//! `hq metrics`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hq_client::options::values;
use hq_core::limits::JOBS_PAGE_MAX;
use hq_model::duration::format;

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
    /// How often --write replaces the file: every second at most
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "15s", requires = "write", value_parser = interval)]
    pub interval: Duration,
    /// Count the tasks of so many jobs one by one: of the latest that have not ended
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", default_value_t = 100, value_parser = jobs)]
    pub jobs: u32,
}

/// Shortest time between two files.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

fn interval(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        short if short < INTERVAL_MIN => {
            Err(format!("the file is replaced every second at most; give {} or more", format(INTERVAL_MIN)))
        }
        interval => Ok(interval),
    }
}

fn jobs(text: &str) -> Result<u32, String> {
    match values::count(text)? {
        many if many > JOBS_PAGE_MAX => {
            Err(format!("`{text}` is too large: it may be {JOBS_PAGE_MAX} at most"))
        }
        jobs => Ok(jobs),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is no address with a port: write one such as 127.0.0.1:9464 or [::1]:9464")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_often_or_too_much_is_refused_in_words() {
        let often = "the file is replaced every second at most; give 1s or more";
        assert_eq!(interval("0"), Err(often.into()));
        assert_eq!(interval("999ms"), Err(often.into()));
        assert_eq!(interval("1s"), Ok(INTERVAL_MIN));
        assert_eq!(jobs("x"), Err("`x` is no count: write a whole number from 0".into()));
        assert_eq!(jobs("-1"), Err("`-1` is no count: write a whole number from 0".into()));
        let many = (JOBS_PAGE_MAX + 1).to_string();
        assert_eq!(jobs(&many), Err(format!("`{many}` is too large: it may be {JOBS_PAGE_MAX} at most")));
        assert_eq!((jobs("0"), jobs("1_000")), (Ok(0), Ok(1000)));
    }
}
