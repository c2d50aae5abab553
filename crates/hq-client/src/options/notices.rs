//! Who is told of a job: the options, and the keys of job files.

use std::time::Duration;

use clap::Args;
use hq_model::notice::{Moment, NoticeRule, NoticeTarget, RULES_MAX};

use super::placeholders::of_text;
use super::values;
use super::word::{Texts, Word};

/// Who is told of a job, and when.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Notices")]
pub struct NoticeOptions {
    /// Notify TARGET when the job ends: a command, a URL or mailto:ADDRESS
    ///
    /// Notifications are sent by the server, even after a restart. A command is split into words like in a shell, but
    /// not run by one; use `sh -c '...'` for that. It runs on the server's machine, in the submit directory, and
    /// receives a JSON document on standard input and HQ_NOTICE_REASON, HQ_JOB_ID, HQ_JOB_NAME and HQ_JOB_STATE in
    /// its environment. A URL (http:// or https://) receives the same document in a POST request. Mail is sent with
    /// `sendmail`. Can be repeated.
    ///
    /// Examples: `--on-finish ./collect.sh`, `--on-finish mailto:me@example.org`.
    #[arg(long, value_name = "TARGET", value_parser = target)]
    pub on_finish: Vec<NoticeTarget>,
    /// Notify TARGET when the first task fails
    #[arg(long, value_name = "TARGET", value_parser = target)]
    pub on_failure: Vec<NoticeTarget>,
    /// Notify TARGET when the job is stalled: none of its tasks is running, and none can start
    ///
    /// Includes what its tasks are waiting for, as in `hq job explain`. Sent again if the job makes progress and
    /// stalls again.
    #[arg(long, value_name = "TARGET", value_parser = target)]
    pub on_stall: Vec<NoticeTarget>,
    /// Notify TARGET of all three: the end, the first failure and a stall
    #[arg(long, value_name = "TARGET", value_parser = target)]
    pub notify: Vec<NoticeTarget>,
    /// How long no task must be running before a job counts as stalled [default: 10m]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = stall_after)]
    pub stall_after: Option<Duration>,
}

/// A target of notices.
///
/// # Errors
/// When it is none.
pub fn target(text: &str) -> Result<NoticeTarget, String> {
    text.parse::<NoticeTarget>().map_err(|error| error.to_string())
}

/// The value of `--stall-after`.
///
/// # Errors
/// When it is no time, or less than a second.
pub fn stall_after(text: &str) -> Result<Duration, String> {
    let after = values::duration(text)?;
    match after < Duration::from_secs(1) {
        true => Err("the time must be at least one second".to_owned()),
        false => Ok(after),
    }
}

/// The rules for these targets: those of the last list are told of everything.
///
/// # Errors
/// When there are more than a job may have.
pub(super) fn rules([end, failure, stall, all]: [&[NoticeTarget]; 4]) -> Result<Vec<NoticeRule>, String> {
    let mut rules = Vec::new();
    for (on, own) in [(Moment::End, end), (Moment::Failure, failure), (Moment::Stall, stall)] {
        for target in own.iter().chain(all) {
            let rule = NoticeRule { on, target: target.clone() };
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    match rules.len() > RULES_MAX {
        true => Err(format!(
            "a job can have at most {RULES_MAX} notification rules; this one has {}",
            rules.len()
        )),
        false => Ok(rules),
    }
}

impl NoticeOptions {
    pub(super) fn over(self, script: NoticeOptions) -> NoticeOptions {
        let or = |own: Vec<NoticeTarget>, other| if own.is_empty() { other } else { own };
        NoticeOptions {
            on_finish: or(self.on_finish, script.on_finish),
            on_failure: or(self.on_failure, script.on_failure),
            on_stall: or(self.on_stall, script.on_stall),
            notify: or(self.notify, script.notify),
            stall_after: self.stall_after.or(script.stall_after),
        }
    }

    /// The rules of the job.
    pub fn rules(&self) -> Vec<NoticeRule> {
        // What is beyond is refused by [`NoticeOptions::check`].
        rules([&self.on_finish, &self.on_failure, &self.on_stall, &self.notify]).unwrap_or_default()
    }

    /// Warnings of placeholders in targets, in which none is replaced.
    pub(super) fn warnings(&self) -> Vec<String> {
        let lists = [
            ("--on-finish", &self.on_finish),
            ("--on-failure", &self.on_failure),
            ("--on-stall", &self.on_stall),
            ("--notify", &self.notify),
        ];
        let of = |(name, targets): (&str, &Vec<NoticeTarget>)| -> Vec<String> {
            targets.iter().flat_map(|target| of_text(target.to_string().as_bytes(), name, &[])).collect()
        };
        lists.into_iter().flat_map(of).collect()
    }

    /// Says when there are too many.
    ///
    /// # Errors
    /// When there are more than a job may have.
    pub fn check(&self) -> Result<(), String> {
        rules([&self.on_finish, &self.on_failure, &self.on_stall, &self.notify]).map(|_| ())
    }
}

/// What a job file says of notices.
#[derive(Clone, Debug, Default)]
pub(super) struct NoticeKeys {
    pub(super) on_finish: Option<Texts>,
    pub(super) on_failure: Option<Texts>,
    pub(super) on_stall: Option<Texts>,
    pub(super) notify: Option<Texts>,
    pub(super) stall_after: Option<Word>,
}

impl NoticeKeys {
    /// The key of the first that is there.
    pub(super) fn first(&self) -> Option<&'static str> {
        let keys = [
            ("on_finish", self.on_finish.is_some()),
            ("on_failure", self.on_failure.is_some()),
            ("on_stall", self.on_stall.is_some()),
            ("notify", self.notify.is_some()),
            ("stall_after", self.stall_after.is_some()),
        ];
        keys.into_iter().find(|(_, is_there)| *is_there).map(|(key, _)| key)
    }

    /// What that means.
    ///
    /// # Errors
    /// When a target or a time is none.
    pub(super) fn read(self) -> Result<(Vec<NoticeRule>, Option<Duration>), String> {
        let after = self.stall_after.map(|after| stall_after(&after.to_string()));
        let after = after.transpose().map_err(|error| format!("stall_after: {error}"))?;
        let targets = [
            targets("on_finish", self.on_finish)?,
            targets("on_failure", self.on_failure)?,
            targets("on_stall", self.on_stall)?,
            targets("notify", self.notify)?,
        ];
        Ok((rules([&targets[0], &targets[1], &targets[2], &targets[3]])?, after))
    }
}

fn targets(key: &str, texts: Option<Texts>) -> Result<Vec<NoticeTarget>, String> {
    let texts = match texts {
        None => Vec::new(),
        Some(Texts::One(text)) => vec![text],
        Some(Texts::Several(texts)) => texts,
    };
    texts.iter().map(|text| target(text).map_err(|error| format!("{key}: {error}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_in_targets_stay_as_they_are_and_are_warned_of() {
        let to = |text: &str| vec![target(text).expect(text)];
        let options = NoticeOptions {
            on_finish: to("touch %{JOB_ID}"),
            notify: to("https://example.org/%{NAME}"),
            on_stall: to("mailto:me@example.org"),
            ..NoticeOptions::default()
        };
        let expected = [
            "%{JOB_ID} is not replaced in --on-finish",
            "Found unknown placeholder `NAME` in --notify; it is left unchanged",
        ];
        assert_eq!(options.warnings(), expected);
    }
}
