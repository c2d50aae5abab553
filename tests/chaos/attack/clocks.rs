//! The clock of the server's machine is wrong after a restart: nothing is forgotten for that.

use std::process::Command;

use super::{SERVER, WORKER};
use crate::cluster::{Cluster, Where};

// What `faketime` says with a clock that is ahead by so much. `None` when it is not installed.
fn under_clock(ahead: &str, program: &[&str]) -> Option<String> {
    let output = Command::new("faketime").args(["-f", ahead]).args(program).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

// The variables that give a program this clock. The program `faketime` itself would stay between us and the server.
fn clock(ahead: &str) -> Option<Vec<(String, String)>> {
    let text = under_clock(ahead, &["env"])?;
    let variables = text.lines().filter_map(|line| line.split_once('='));
    let wanted = variables.filter(|(name, _)| ["LD_PRELOAD", "FAKETIME"].contains(name));
    Some(wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[test]
fn attack_a_clock_that_is_60_days_ahead_forgets_no_job() {
    if clock("+1d").is_none() {
        return eprintln!("left out: `faketime` is not installed");
    }
    let mut cluster = Cluster::start_with(Where::Here, SERVER, WORKER).expect("a cluster");
    for _ in 0..3 {
        cluster.ok(&["submit", "--wait", "--array", "1-4", "--", "true"]);
    }
    let rounds =
        [("+60d", "old at the start"), ("-60d", "behind the journal"), ("+60d", "agrees with the journal")];
    for (ahead, says) in rounds {
        let date = || under_clock(ahead, &["date", "-u", "+%Y-%m-%d"]).expect("it is installed");
        let mut dates = vec![date()];
        cluster.restart_server_with(&clock(ahead).expect("it is installed"));
        dates.push(date());
        let info = cluster.ok(&["server", "info", "--verbose"]);
        assert!(info.contains(says), "the server's clock is at {ahead}: {info}");
        // The server's time never goes back.
        let has_its_date = ahead.starts_with('-') || dates.iter().any(|date| info.contains(date));
        assert!(has_its_date, "the server's clock is at {ahead}: {info}");
        cluster.ok(&["submit", "--wait", "--", "true"]);
        for job in ["1", "2", "3"] {
            let answer = cluster.ask(&["job", "info", job]);
            assert!(answer.is_success(), "job {job} with a clock at {ahead}: {answer:?}");
        }
    }
    cluster.kill_server();
    let jobs = cluster.ok(&["--output-mode", "quiet", "job", "list", "--all"]);
    assert_eq!(jobs.lines().count(), 6, "{jobs}");
}

#[test]
fn attack_clocks_before_1970_keep_nobody_out() {
    const AT: &str = "@1960-01-01 00:00:00";
    let Some(variables) = clock(AT) else {
        return eprintln!("left out: `faketime` is not installed");
    };
    let mut cluster = Cluster::start_with(Where::Here, SERVER, WORKER).expect("a cluster");
    let client = |cluster: &Cluster| {
        let mut command = cluster.command();
        command.args(["submit", "--wait", "--", "true"]).envs(variables.clone()).output().expect("hq runs")
    };
    let answer = client(&cluster);
    assert!(answer.status.success(), "{answer:?}");
    cluster.restart_server_with(&variables);
    let info = cluster.ok(&["server", "info", "--verbose"]);
    assert!(info.contains("behind the journal"), "{info}");
    let answer = client(&cluster);
    assert!(answer.status.success(), "{answer:?}");
}
