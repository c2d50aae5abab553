//! The batch system around this process: its allocation, and how much time is left of it. Reads what the
//! environment and the batch system's commands say; executing the commands is [`super::ask`]'s.

use std::collections::BTreeMap;
use std::time::Duration;

use hq_model::worker::Manager;
use serde_json::Value;

/// The allocation that this environment is of.
pub fn allocation(environment: &BTreeMap<String, String>) -> Option<(Manager, String)> {
    allocation_of(Manager::Slurm, environment).or_else(|| allocation_of(Manager::Pbs, environment))
}

/// The allocation of one batch system.
pub fn allocation_of(manager: Manager, environment: &BTreeMap<String, String>) -> Option<(Manager, String)> {
    let names: &[&str] = match manager {
        Manager::Slurm => &["SLURM_JOB_ID", "SLURM_JOBID"],
        Manager::Pbs => &["PBS_JOBID"],
    };
    let id = names.iter().find_map(|name| environment.get(*name)).filter(|id| !id.is_empty())?;
    Some((manager, id.clone()))
}

/// What the batch system calls this node, where it says so: its commands know the node by no other name.
pub fn node_name(manager: Manager, environment: &BTreeMap<String, String>) -> Option<String> {
    match manager {
        Manager::Slurm => environment.get("SLURMD_NODENAME").filter(|name| !name.is_empty()).cloned(),
        Manager::Pbs => None,
    }
}

/// What `squeue -h -j ID -o %L` says: `1-02:03:04`, `3:04`, `UNLIMITED`. `None` without a limit or a sense.
pub fn slurm_time_left(text: &str) -> Option<Duration> {
    let text = text.lines().next()?.trim();
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse::<u64>().ok()?, clock),
        None => (0, text),
    };
    Some(Duration::from_secs(days.checked_mul(86_400)?.checked_add(clock_seconds(clock)?)?))
}

/// What `scontrol show job ID` says of the time of a job that runs: its limit less how long it has run. `None` without a limit or
/// a sense.
pub fn slurm_job_time_left(text: &str) -> Option<Duration> {
    let value = |name: &str| {
        text.split_whitespace().find_map(|word| slurm_time_left(word.strip_prefix(name)?.strip_prefix('=')?))
    };
    Some(value("TimeLimit")?.saturating_sub(value("RunTime").unwrap_or_default()))
}

/// What `qstat -f -F json ID` says of one job. `elapsed` is how long the job runs as far as this process can see:
/// the batch system's own count is late by up to some minutes. `None` without a limit or a sense.
pub fn pbs_time_left(json: &str, elapsed: Duration) -> Option<Duration> {
    let document: Value = serde_json::from_str(json).ok()?;
    let job = document.get("Jobs")?.as_object()?.values().next()?;
    let seconds = |list: &str| clock_seconds(job.get(list)?.get("walltime")?.as_str()?);
    let limit = Duration::from_secs(seconds("Resource_List")?);
    let used = Duration::from_secs(seconds("resources_used").unwrap_or(0));
    Some(limit.saturating_sub(used.max(elapsed)))
}

/// `HH:MM:SS`, `MM:SS` or `SS`.
fn clock_seconds(text: &str) -> Option<u64> {
    let mut seconds: u64 = 0;
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    for part in parts {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    Some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_job_tells_how_long_it_goes_on() {
        let job = |run: &str, limit: &str| {
            format!("JobId=7 JobName=hq\n   RunTime={run} TimeLimit={limit} TimeMin=N/A\n   NumNodes=1")
        };
        let check = |run: &str, limit: &str, minutes: Option<u64>| {
            let left = minutes.map(|minutes| Duration::from_secs(minutes * 60));
            assert_eq!(slurm_job_time_left(&job(run, limit)), left, "{run} of {limit}");
        };
        check("00:01:00", "00:11:00", Some(10));
        check("1-00:00:00", "2-00:30:00", Some(24 * 60 + 30));
        check("00:12:00", "00:11:00", Some(0));
        check("00:01:00", "UNLIMITED", None);
        assert_eq!(slurm_job_time_left("slurm_load_jobs error: Invalid job id specified"), None);
    }

    #[test]
    fn the_allocation_is_known_by_its_id() {
        let check = |variables: &[(&str, &str)], expected: Option<(Manager, &str)>| {
            let environment = variables.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            assert_eq!(allocation(&environment), expected.map(|(m, id)| (m, id.to_owned())), "{variables:?}");
        };
        check(&[], None);
        check(&[("SLURM_JOB_ID", "27")], Some((Manager::Slurm, "27")));
        check(&[("SLURM_JOBID", "27")], Some((Manager::Slurm, "27")));
        check(&[("PBS_JOBID", "0.pbs0"), ("PBS_ENVIRONMENT", "PBS_BATCH")], Some((Manager::Pbs, "0.pbs0")));
        check(&[("SLURM_JOB_ID", "")], None);
    }

    #[test]
    fn slurm_names_its_nodes() {
        let environment = BTreeMap::from([("SLURMD_NODENAME".to_owned(), "node7".to_owned())]);
        assert_eq!(node_name(Manager::Slurm, &environment).as_deref(), Some("node7"));
        assert_eq!(node_name(Manager::Slurm, &BTreeMap::new()), None);
        assert_eq!(node_name(Manager::Pbs, &environment), None);
    }

    #[test]
    fn slurm_says_the_time_left() {
        for (text, seconds) in [
            ("1-02:03:04\n", Some(93_784)),
            ("59:30", Some(3570)),
            ("0:07", Some(7)),
            ("UNLIMITED", None),
            ("INVALID", None),
            ("NOT_SET", None),
            ("", None),
            ("99999999999999999999-00:00:00", None),
        ] {
            assert_eq!(slurm_time_left(text).map(|d| d.as_secs()), seconds, "{text}");
        }
    }

    #[test]
    fn pbs_says_limit_and_use() {
        let job = |fields: &str| format!(r#"{{"timestamp":1,"Jobs":{{"0.pbs0":{{{fields}}}}}}}"#);
        let check = |json: String, elapsed: u64, seconds: Option<u64>| {
            let left = pbs_time_left(&json, Duration::from_secs(elapsed));
            assert_eq!(left.map(|d| d.as_secs()), seconds, "{json}");
        };
        let limit = r#""Resource_List":{"walltime":"01:00:00"}"#;
        check(job(limit), 10, Some(3590));
        check(job(&format!(r#"{limit},"resources_used":{{"walltime":"00:10:00"}}"#)), 10, Some(3000));
        check(job(limit), 4000, Some(0));
        check(job(r#""Resource_List":{"ncpus":1}"#), 10, None);
        check(r#"{"timestamp":1}"#.to_owned(), 10, None);
        check("qstat: Unknown Job Id".to_owned(), 10, None);
    }
}
