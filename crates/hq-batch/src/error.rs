//! What can go wrong between us and a batch system.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::limits;

/// What commands say when nobody was there who could accept a job.
const UNREACHABLE: [&str; 7] = [
    "Unable to contact",
    "cannot connect to server",
    "Connection refused",
    "No route to host",
    "in standby",
    "emporarily un",
    "ry again",
];
/// What commands say when there was no answer to what they sent.
const UNANSWERED: [&str; 3] = ["Socket timed out", "Zero Bytes were transmitted", "Connection reset"];
/// The limits on how many jobs there may be, by Slurm's names and PBS's sentences.
const JOB_LIMITS: [&str; 6] = [
    "MaxSubmit",
    "MaxJobs",
    "GrpSubmit",
    "GrpJobs",
    "would exceed",
    "Maximum number of jobs already in queue",
];
/// What Slurm says of every limit of an account or of a quality of service.
const POLICY: &str = "violates accounting/QOS policy";

/// Why a batch system did not do what was asked, or why nobody knows whether it did.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The command does not exist where the server runs.
    #[error("`{command}` was not found: is the batch system's software in the PATH of the server?")]
    CommandMissing {
        /// The program's name.
        command: String,
    },
    /// The command did not end in time and was killed. What was asked may have happened all the same.
    #[error("`{command}` did not answer within {}", hq_model::duration::format(*limit))]
    TimedOut {
        /// The command line.
        command: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The command could not be run.
    #[error("`{command}` could not be run: {source}")]
    CommandFailed {
        /// The command line.
        command: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The command ran and refused.
    #[error("`{command}` ended with {}{}", ending(*exit), colon(stderr))]
    Refused {
        /// The command line.
        command: String,
        /// Its exit status; none if a signal ended it.
        exit: Option<i32>,
        /// The first lines of what it said.
        stderr: String,
    },
    /// The command answered something else than its manual says. What was asked may have happened.
    #[error("`{command}` gave an unexpected answer ({expected} was expected): `{answer}`")]
    NotUnderstood {
        /// The command line.
        command: String,
        /// What was expected.
        expected: &'static str,
        /// The beginning of the answer.
        answer: String,
    },
    /// A file of the allocation could not be written.
    #[error("`{}` could not be written: {source}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// No manager of this name.
    #[error(
        "no batch system `{name}`: slurm and pbs are built in, {} are described by files, and `{}` does not exist",
        shipped.join(", "), path.display()
    )]
    UnknownManager {
        /// The name asked for.
        name: String,
        /// Names that are shipped as descriptions.
        shipped: Vec<&'static str>,
        /// Where its description was looked for.
        path: PathBuf,
    },
    /// The description of a manager could not be read.
    #[error("the description of a batch system `{}` could not be read: {source}", path.display())]
    DescriptionUnreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The description of a manager lacks keys.
    #[error("the description of the batch system `{origin}` lacks {}", keys.join(", "))]
    DescriptionLacks {
        /// The file, or the name of a shipped description.
        origin: String,
        /// The missing keys, with their tables.
        keys: Vec<String>,
    },
    /// The description of a manager says something that has no meaning.
    #[error("the description of the batch system `{origin}`: {reason}")]
    DescriptionWrong {
        /// The file, or the name of a shipped description.
        origin: String,
        /// What and where.
        reason: String,
    },
    /// A chained or held allocation was asked of a manager whose description does not say how.
    #[error("the description of the batch system `{manager}` does not say how to {what} (`{key}`)")]
    NotDescribed {
        /// The manager's name.
        manager: String,
        /// What was asked.
        what: &'static str,
        /// The key that would say it.
        key: &'static str,
    },
    /// A value that no script can carry.
    #[error("{what} cannot be handed to a batch system: it contains a zero byte")]
    ZeroByte {
        /// What holds it.
        what: &'static str,
    },
}

impl BatchError {
    /// Whether what was asked may have happened although it was not confirmed: look with
    /// [`crate::Manager::find_submitted`] before asking again.
    pub fn is_in_doubt(&self) -> bool {
        match self {
            BatchError::TimedOut { .. } | BatchError::NotUnderstood { .. } => true,
            BatchError::Refused { exit, stderr, .. } => exit.is_none() || has_any(stderr, &UNANSWERED),
            _ => false,
        }
    }

    /// Whether the same may be accepted later without any change: a limit on how many jobs there may be is reached, or
    /// nobody was there who could accept it.
    pub fn is_passing(&self) -> bool {
        match self {
            BatchError::Refused { stderr, .. } if !self.is_in_doubt() => {
                has_any(stderr, &UNREACHABLE)
                    || has_any(stderr, &JOB_LIMITS)
                    // Slurm names the limit, unless it is very old. Other limits are about the size of one job.
                    || stderr.contains(POLICY) && !stderr.split_whitespace().any(is_limit)
            }
            _ => false,
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            BatchError::CommandMissing { .. } => {
                "start the server on a login node, or load the module that brings the command"
            }
            BatchError::TimedOut { .. } => {
                "the batch system may be restarting; the request will be repeated later"
            }
            BatchError::Refused { .. } => "correct the arguments after `--`, or the time limit",
            BatchError::NotUnderstood { .. } => "a wrapper around the command may print additional output",
            BatchError::UnknownManager { .. } => "write a description, as shown in the documentation",
            BatchError::DescriptionUnreadable { .. }
            | BatchError::DescriptionLacks { .. }
            | BatchError::DescriptionWrong { .. }
            | BatchError::NotDescribed { .. } => "correct the file that describes the batch system",
            BatchError::Write { .. } => "check the server directory's file system: space, quota, permissions",
            BatchError::CommandFailed { .. } => "check that the command can be executed on the server's node",
            BatchError::ZeroByte { .. } => "remove the zero byte",
        }
    }
}

/// The first lines of what a command said, cut to what a person reads, and without orders to a terminal.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let plain = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
    let text: String = String::from_utf8_lossy(bytes).chars().map(plain).collect();
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).take(limits::ERROR_LINES).collect();
    let text = lines.join("\n");
    match text.char_indices().nth(limits::ERROR_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn has_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// The name of a limit of Slurm: `QOSMaxWallDurationPerJobLimit`, `AssocMaxSubmitJobLimit`.
fn is_limit(word: &str) -> bool {
    (word.starts_with("QOS") || word.starts_with("Assoc")) && word.ends_with("Limit")
}

fn ending(exit: Option<i32>) -> String {
    exit.map_or_else(|| "a signal".to_owned(), |code| format!("exit status {code}"))
}

fn colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_by_itself_is_told_from_what_does_not() {
        let policy = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, \
                      user's size and/or time limits)";
        let named = |limit: &str| format!("sbatch: error: {limit}\n{policy}");
        for (stderr, is_passing, is_in_doubt) in [
            (named("QOSMaxSubmitJobPerUserLimit"), true, false),
            (named("AssocMaxSubmitJobLimit"), true, false),
            (named("QOSMaxWallDurationPerJobLimit"), false, false),
            (named("QOSMaxCpuPerUserLimit"), false, false),
            (policy.to_owned(), true, false),
            (
                "sbatch: error: Batch job submission failed: Unable to contact slurm controller".into(),
                true,
                false,
            ),
            (
                "sbatch: error: Batch job submission failed: Resource temporarily unavailable".into(),
                true,
                false,
            ),
            (
                "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation".into(),
                false,
                true,
            ),
            ("sbatch: error: invalid partition specified: nope".into(), false, false),
            ("qsub: would exceed queue generic's per-user limit".into(), true, false),
            ("Connection refused\nqsub: cannot connect to server pbs0 (errno=15010)".into(), true, false),
            ("qsub: Unknown queue".into(), false, false),
            ("qsub: Queue is not enabled".into(), false, false),
            ("qsub: Job violates queue and/or server resource limits".into(), false, false),
        ] {
            let error = BatchError::Refused { command: "submit".into(), exit: Some(1), stderr };
            assert_eq!((error.is_passing(), error.is_in_doubt()), (is_passing, is_in_doubt), "{error}");
        }
    }
}
