//! Options of an open job that a program makes: those of job files, in JSON.

use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use hq_model::JobSpec;
use serde::Deserialize;

use super::job_values::{named, option};
use super::notices::NoticeKeys;
use super::values;
use super::word::{Texts, Word};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Opened {
    name: String,
    max_fails: Option<u64>,
    share: Option<String>,
    share_weight: Option<Word>,
    on_finish: Option<Texts>,
    on_failure: Option<Texts>,
    on_stall: Option<Texts>,
    notify: Option<Texts>,
    stall_after: Option<Word>,
    linger: Option<Word>,
    budget: Option<Word>,
}

/// An open job, from an object of options in JSON. It is opened in the working directory.
///
/// # Errors
/// What is wrong with which option.
pub fn open_spec(options: &str) -> Result<JobSpec, String> {
    let opened: Opened = serde_json::from_str(options).map_err(|error| error.to_string())?;
    let keys = NoticeKeys {
        on_finish: opened.on_finish,
        on_failure: opened.on_failure,
        on_stall: opened.on_stall,
        notify: opened.notify,
        stall_after: opened.stall_after,
    };
    let (notices, stall_after) = keys.read()?;
    let bounds = opened.share.map(|text| named("share", values::share(&text))).transpose()?;
    let weight = option("share_weight", opened.share_weight, values::weight)?;
    Ok(JobSpec {
        name: named("name", values::name(&opened.name))?,
        max_fails: opened.max_fails,
        share: super::job::share(bounds, weight),
        is_draft: false,
        notices,
        stall_after,
        linger: option("linger", opened.linger, linger)?,
        budget: option("budget", opened.budget, values::node_hours)?,
        directory: std::env::current_dir().unwrap_or_default().into_os_string().into_vec(),
    })
}

// A client is not there for a moment each time that it has heard something.
fn linger(text: &str) -> Result<Duration, String> {
    let linger = values::duration(text)?;
    match linger < Duration::from_secs(1) {
        true => Err("the time must be at least one second".to_owned()),
        false => Ok(linger),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_is_opened_with_are_the_keys_of_job_files() {
        let spec = open_spec(
            r#"{"name": "calls", "max_fails": 3, "share": "1..5", "notify": "mailto:a@b", "on_finish": ["true"],
                "stall_after": "2m", "linger": "1h", "budget": "1.5"}"#,
        );
        let spec = spec.expect("options");
        assert_eq!((spec.name.as_str(), spec.max_fails, spec.notices.len()), ("calls", Some(3), 4));
        assert_eq!(spec.share.map(|share| (share.min, share.max)), Some((1, Some(5))));
        let times = (spec.stall_after.map(|time| time.as_secs()), spec.linger.map(|time| time.as_secs()));
        assert_eq!(times, (Some(120), Some(3600)));
        assert_eq!(spec.budget, Some(Duration::from_secs(5400)));
        assert_eq!(open_spec(r#"{"name": "calls"}"#).expect("a name").linger, None);
    }

    #[test]
    fn mistakes_are_named_with_the_option() {
        for (options, expected) in [
            (r#"{"name": "a", "linger": "0s"}"#, "linger: the time must be at least one second"),
            (r#"{"name": "a", "linger": "soon"}"#, "linger: "),
            (r#"{"name": "a", "on_stall": "mailto:"}"#, "on_stall: "),
            (r#"{"name": "a", "stall_after": "0s"}"#, "stall_after: the time must be at least"),
            (r#"{"name": "a", "share": "5..1"}"#, "share: "),
            (r#"{"name": "a", "cpus": 1}"#, "unknown field `cpus`"),
        ] {
            let error = open_spec(options).expect_err(options);
            assert!(error.starts_with(expected), "{options}: {error}");
        }
    }
}
