//! Notices: what somebody outside is told of a job, at which moments, and where it goes.
//!
//! A target is one text: `http://…` or `https://…` is posted to, `mailto:ADDRESS` gets a mail, and anything else is a command,
//! split into words as a shell does it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::job::{Counters, JobState};
use crate::{ByteString, JobId, TaskId, Timestamp};

/// Longest text of a target, in bytes.
pub const TARGET_BYTES_MAX: usize = 4096;
/// Targets of one job, each counted once for each moment.
pub const RULES_MAX: usize = 32;
/// How long nothing of a job has to run before it is stalled, unless something else is said.
pub const STALL_AFTER_DEFAULT: Duration = Duration::from_secs(600);
/// Longest mail address, in bytes.
const ADDRESS_BYTES_MAX: usize = 254;
const MAIL: &str = "mailto:";
const URLS: [&str; 2] = ["http://", "https://"];

/// When somebody is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// The job has ended.
    End,
    /// Its first task has failed.
    Failure,
    /// Nothing of it runs, and nothing can.
    Stall,
}

impl Moment {
    /// All of them.
    pub const ALL: [Moment; 3] = [Moment::End, Moment::Failure, Moment::Stall];

    /// The word of JSON documents and of `HQ_NOTICE_REASON`.
    pub fn word(self) -> &'static str {
        match self {
            Moment::End => "end",
            Moment::Failure => "failure",
            Moment::Stall => "stall",
        }
    }
}

/// Who is told, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeRule {
    /// The moment.
    pub on: Moment,
    /// Where the notice goes.
    pub target: NoticeTarget,
}

/// Where notices go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeTarget {
    /// A program and its arguments; never empty.
    Command(Vec<String>),
    /// A document is posted there.
    Url(String),
    /// A mail goes to this address.
    Mail(String),
}

/// Why a text is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid notification target: {why}")]
pub struct TargetError {
    text: String,
    why: String,
}

impl NoticeTarget {
    /// Where it goes, without what may be secret in a URL: a password before the host, and everything behind it.
    pub fn shown(&self) -> String {
        match self {
            NoticeTarget::Url(url) => {
                let scheme = url.find("://").map_or(0, |at| at + 3);
                let end = url[scheme..].find(['/', '?', '#']).map_or(url.len(), |at| scheme + at);
                let host = url[scheme..end].rsplit('@').next().unwrap_or_default();
                let rest = if end == url.len() { "" } else { "/…" };
                format!("{}{host}{rest}", &url[..scheme])
            }
            target => target.to_string(),
        }
    }
}

impl fmt::Display for NoticeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoticeTarget::Command(words) => {
                // Words hold no NUL.
                f.write_str(&shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default())
            }
            NoticeTarget::Url(url) => f.write_str(url),
            NoticeTarget::Mail(address) => write!(f, "{MAIL}{address}"),
        }
    }
}

impl FromStr for NoticeTarget {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |why: &str| TargetError { text: cut(text, 100), why: why.to_owned() };
        if text.len() > TARGET_BYTES_MAX {
            return Err(bad(&format!("it is longer than {TARGET_BYTES_MAX} bytes")));
        }
        if text.contains('\0') {
            return Err(bad("it contains a NUL character"));
        }
        let parsed = if let Some(address) = after_scheme(text, MAIL) {
            check_address(address).map(|()| NoticeTarget::Mail(address.to_owned()))
        } else if let Some(scheme) = url_scheme(text) {
            check_url(text).map(|()| NoticeTarget::Url(format!("{scheme}{}", &text[scheme.len()..])))
        } else {
            command(text).map(NoticeTarget::Command)
        };
        let target = parsed.map_err(bad)?;
        // Quoted as it is printed, a command may be longer.
        if target.to_string().len() > TARGET_BYTES_MAX {
            return Err(bad(&format!("it is longer than {TARGET_BYTES_MAX} bytes")));
        }
        Ok(target)
    }
}

// The scheme of a URL, as it is kept: written by hand it may have capital letters.
fn url_scheme(text: &str) -> Option<&'static str> {
    URLS.into_iter().find(|scheme| after_scheme(text, scheme).is_some())
}

fn after_scheme<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(scheme.len())?;
    head.eq_ignore_ascii_case(scheme).then_some(rest)
}

fn command(text: &str) -> Result<Vec<String>, &'static str> {
    let words = shlex::split(text).ok_or("it has an unclosed quote")?;
    match words.first() {
        None => Err("it names no program"),
        Some(program) if program.is_empty() => Err("the name of the program is empty"),
        // What is printed must be read as the same again.
        Some(program) if url_scheme(program).is_some() || after_scheme(program, MAIL).is_some() => {
            Err("a URL or an address must not be quoted or followed by anything")
        }
        Some(program) if program.contains("://") => Err("only http:// and https:// URLs are supported"),
        Some(_) => Ok(words),
    }
}

fn check_url(url: &str) -> Result<(), &'static str> {
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(
            "a URL must not contain spaces, control characters or non-ASCII characters; write those as %XX",
        );
    }
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let at_host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match at_host.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (at_host, None),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_v6 = |byte: u8| byte.is_ascii_hexdigit() || b":.".contains(&byte);
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => !address.is_empty() && address.bytes().all(is_v6),
        None => !host.is_empty() && host.bytes().all(is_name),
    };
    if !is_host {
        return Err("it has no host");
    }
    if port.is_some_and(|port| port.parse::<u16>().ok().is_none_or(|port| port == 0)) {
        return Err("its port is not a number from 1 to 65535");
    }
    Ok(())
}

// One address and nothing else: whatever stands here ends up in a header.
fn check_address(address: &str) -> Result<(), &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.@".contains(&byte);
    if address.len() > ADDRESS_BYTES_MAX {
        return Err("the address is longer than 254 bytes");
    }
    if !address.bytes().all(is_plain) {
        return Err("use a single plain address, as in mailto:me@example.org");
    }
    let (name, host) = address.split_once('@').unwrap_or((address, "localhost"));
    match name.is_empty() || name.starts_with('-') || host.is_empty() || host.contains('@') {
        true => Err("use a single plain address, as in mailto:me@example.org"),
        false => Ok(()),
    }
}

/// One notice: all that is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Which of the rules of the job it is for.
    pub rule: u32,
    /// Where it goes.
    pub target: NoticeTarget,
    /// When it came to that.
    pub at: Timestamp,
    /// The state of the job then.
    pub state: JobState,
    /// Its tasks then.
    pub counters: Counters,
    /// Directory of the submitting process, where a command is run.
    pub submit_dir: ByteString,
    /// What has happened.
    pub event: NoticeEvent,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeEvent {
    /// The job has ended.
    End,
    /// A task has failed, as the first one.
    Failure {
        /// Which.
        task: TaskId,
        /// Why.
        error: String,
        /// The file that has its standard error, absolute, where that is in one; else empty.
        stderr: ByteString,
    },
    /// Nothing of the job runs, and nothing can.
    Stall {
        /// How long nothing has run.
        quiet: Duration,
        /// What its tasks wait for, a line for each group of them.
        explanation: String,
    },
}

impl NoticeEvent {
    /// The moment that it is.
    pub fn moment(&self) -> Moment {
        match self {
            NoticeEvent::End => Moment::End,
            NoticeEvent::Failure { .. } => Moment::Failure,
            NoticeEvent::Stall { .. } => Moment::Stall,
        }
    }
}

impl Notice {
    /// What has happened, in one line for people; without control characters, whatever the job is called.
    pub fn title(&self) -> String {
        let (job, name) = (self.job, without_control(&self.name));
        let of = &self.counters;
        match &self.event {
            NoticeEvent::End => {
                let mut counted = Vec::new();
                let parts = [
                    (of.finished, "finished"),
                    (of.failed, "failed"),
                    (of.canceled, "canceled"),
                    (of.aborted, "aborted"),
                ];
                counted.extend(
                    parts.iter().filter(|part| part.0 > 0).map(|(count, word)| format!("{count} {word}")),
                );
                let counted = if counted.is_empty() { "no tasks".to_owned() } else { counted.join(", ") };
                format!("Job {job} ({name}) has ended as {}: {counted}", self.state)
            }
            NoticeEvent::Failure { task, .. } => format!("Job {job} ({name}): task {task} has failed"),
            NoticeEvent::Stall { quiet, .. } => {
                let quiet = crate::duration::format(Duration::from_secs(quiet.as_secs()));
                format!("Job {job} ({name}) is stalled: nothing has run for {quiet}, and nothing can")
            }
        }
    }

    /// What there is to say beside the title: mostly nothing.
    pub fn details(&self) -> &str {
        match &self.event {
            NoticeEvent::End => "",
            NoticeEvent::Failure { error, .. } => error,
            NoticeEvent::Stall { explanation, .. } => explanation,
        }
    }

    /// About what it takes in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let stderr = match &self.event {
            NoticeEvent::Failure { stderr, .. } => stderr.len(),
            NoticeEvent::End | NoticeEvent::Stall { .. } => 0,
        };
        let texts = self.name.len() + self.submit_dir.len() + self.details().len() + stderr;
        256 + texts + target_bytes(&self.target)
    }
}

/// About what a target takes in memory, in bytes.
pub fn target_bytes(target: &NoticeTarget) -> usize {
    match target {
        NoticeTarget::Command(words) => words.iter().map(|word| 24 + word.len()).sum(),
        NoticeTarget::Url(text) | NoticeTarget::Mail(text) => text.len(),
    }
}

/// How far a notice is that was to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// When it came to that, the last time.
    pub since: Timestamp,
    /// How the sending has ended, if it has.
    pub end: Option<ToldEnd>,
}

/// How the sending of a notice has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldEnd {
    /// When.
    pub at: Timestamp,
    /// Why it was given up; `None` when it was sent.
    pub error: Option<String>,
}

/// A text without characters that move cursors or begin lines.
pub fn without_control(text: &str) -> String {
    text.chars().map(|c| if crate::object::is_unseen(c) { '\u{fffd}' } else { c }).collect()
}

/// A text in which characters that move cursors or begin lines are written as escapes.
pub fn with_escapes(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        if crate::object::is_unseen(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// At most so many bytes of a text, with a mark where it was cut.
pub fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_command_an_url_or_an_address() {
        for (text, shown) in [
            ("./told.sh  'two words'", "./told.sh 'two words'"),
            ("https://example.org/hook?key=1", "https://example.org/…"),
            ("http://me:pw@example.org:80?x", "http://example.org:80/…"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("mailto:me+hq@example.org", "mailto:me+hq@example.org"),
            ("mailto:me", "mailto:me"),
            ("HTTP://Example.org/Hook", "http://Example.org/…"),
            ("Https://example.org", "https://example.org"),
            ("MailTo:me@example.org", "mailto:me@example.org"),
        ] {
            let target: NoticeTarget = text.parse().expect("a target");
            assert_eq!(target.shown(), shown);
            assert_eq!(target.to_string().parse(), Ok(target), "printed and read again");
        }
    }

    #[test]
    fn what_is_no_target_is_said() {
        for (text, why) in [
            ("", "it names no program"),
            ("''", "the name of the program is empty"),
            ("say 'it", "it has an unclosed quote"),
            ("ftp://example.org", "only http:// and https:// URLs are supported"),
            ("'HTTP://x' y", "a URL or an address must not be quoted or followed by anything"),
            ("http://", "it has no host"),
            (
                "http://a b/",
                "a URL must not contain spaces, control characters or non-ASCII characters; write those as %XX",
            ),
            (
                "http://a\r\nX: y",
                "a URL must not contain spaces, control characters or non-ASCII characters; write those as %XX",
            ),
            ("https://example.org:0/", "its port is not a number from 1 to 65535"),
            ("https://example.org:99999", "its port is not a number from 1 to 65535"),
            ("https://[zz]/", "it has no host"),
            ("mailto:", "use a single plain address, as in mailto:me@example.org"),
            ("mailto:a@b, c@d", "use a single plain address, as in mailto:me@example.org"),
            ("mailto:a@b\nBcc: c@d", "use a single plain address, as in mailto:me@example.org"),
            ("mailto:-oQ/tmp@b", "use a single plain address, as in mailto:me@example.org"),
            ("mailto:a@b@c", "use a single plain address, as in mailto:me@example.org"),
            ("echo \0", "it contains a NUL character"),
        ] {
            let error = text.parse::<NoticeTarget>().expect_err("no target").to_string();
            assert!(error.ends_with(why), "{text}: {error}");
        }
    }

    #[test]
    fn titles_hold_no_line_breaks_whatever_a_job_is_called() {
        let notice = Notice {
            job: JobId(7),
            name: "a\r\nBcc: x\x1b[2J".into(),
            rule: 0,
            target: NoticeTarget::Mail("me".into()),
            at: Timestamp(0),
            state: JobState::Failed,
            counters: Counters { finished: 2, failed: 1, ..Counters::default() },
            submit_dir: b"/".to_vec(),
            event: NoticeEvent::End,
        };
        let title = "Job 7 (a\u{fffd}\u{fffd}Bcc: x\u{fffd}[2J) has ended as failed: 2 finished, 1 failed";
        assert_eq!(notice.title(), title);
    }
}
