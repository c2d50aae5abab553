//! Runs one command of a batch system: an argument vector, no shell, a time limit, bounded output, and only as
//! much of the server's environment as is the user's.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use hq_command::{Bounds, How, Keep};

use crate::error::{BatchError, excerpt};
use crate::{limits, quote};

/// Variables that describe the job the server itself may run in, or that change what the commands do behind the
/// back of their arguments (`SBATCH_PARTITION` wins over the script's header).
const NOT_INHERITED: [&str; 19] = [
    "SBATCH_",
    "SLURM_",
    "SLURMD_",
    "SQUEUE_",
    "SCANCEL_",
    "SACCT_",
    "SINFO_",
    "SALLOC_",
    "SRUN_",
    "SCONTROL_",
    "PBS_",
    "PMI_",
    "PMIX_",
    "PRTE_",
    "OMPI_COMM_",
    "FLUX_JOB_",
    "LSB_",
    "OAR_",
    "HQ_",
];

/// Those among them that say which cluster is meant, or how it is reached.
const INHERITED: [&str; 12] = [
    "SLURM_CONF",
    "SLURM_CONF_SERVER",
    "SLURM_CLUSTERS",
    "SLURM_JWT",
    "PBS_CONF_FILE",
    "PBS_SERVER",
    "PBS_DEFAULT",
    "PBS_EXEC",
    "PBS_HOME",
    "PBS_AUTH_METHOD",
    "LSB_SUB_USER",
    "OAR_CONFFILE",
];

/// How commands are run.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    /// How long each may take.
    pub time_limit: Duration,
    /// Variables that are set for them.
    pub environment: Vec<(OsString, OsString)>,
}

/// What a command said before it ended.
#[derive(Debug)]
pub(crate) struct Output {
    /// Its command line, for messages.
    pub command: String,
    /// How it ended: the exit status, none if a signal ended it.
    pub exit: Option<i32>,
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Its standard output as text; bytes that are none are replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Its standard error as text; bytes that are none are replaced.
    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The command, provided that it succeeded.
    ///
    /// # Errors
    /// [`BatchError::Refused`] with what it said.
    pub(crate) fn demand(self) -> Result<Output, BatchError> {
        if self.exit == Some(0) { Ok(self) } else { Err(self.refused()) }
    }

    /// The error that this command refused. Some refuse on standard output.
    pub(crate) fn refused(self) -> BatchError {
        let said = if self.stderr.trim_ascii().is_empty() { &self.stdout } else { &self.stderr };
        BatchError::Refused { exit: self.exit, stderr: excerpt(said), command: self.command }
    }

    /// The error that the answer is something else than expected.
    pub(crate) fn not_understood(self, expected: &'static str) -> BatchError {
        let answer = excerpt(&self.stdout);
        BatchError::NotUnderstood { command: self.command, expected, answer }
    }
}

impl Runner {
    /// Runs a command to its end, in a directory if one is named.
    ///
    /// # Errors
    /// When it does not exist, cannot be run or takes too long. A refusal is no error here.
    pub(crate) fn run(
        &self,
        program: &OsStr,
        args: &[OsString],
        directory: Option<&Path>,
    ) -> Result<Output, BatchError> {
        let line = command_line(program, args);
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if !is_inherited(&name) {
                command.env_remove(name);
            }
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        let bounds = Bounds {
            time: self.time_limit,
            keep: Keep::First(limits::OUTPUT_BYTES),
            grace: limits::OUTPUT_GRACE,
            stop: None,
        };
        let ended = match hq_command::run(&mut command, &bounds) {
            Ok(ended) => ended,
            // The directory was made by us; if it is gone, the message names the command all the same.
            Err(error) if error.kind() == io::ErrorKind::NotFound && directory.is_none_or(Path::is_dir) => {
                return Err(BatchError::CommandMissing { command: program.to_string_lossy().into_owned() });
            }
            Err(source) => return Err(BatchError::CommandFailed { command: line, source }),
        };
        match ended.how {
            How::Status(status) => Ok(Output {
                command: line,
                exit: exit_code(status),
                stdout: ended.stdout,
                stderr: ended.stderr,
            }),
            How::TimedOut | How::Stopped => {
                Err(BatchError::TimedOut { command: line, limit: self.time_limit })
            }
        }
    }
}

/// Whether a variable of the server's environment is handed on to commands, and by them to batch jobs.
fn is_inherited(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    INHERITED.contains(&&*name) || !NOT_INHERITED.iter().any(|prefix| name.starts_with(prefix))
}

/// A command line as a person would type it, for messages.
fn command_line(program: &OsStr, args: &[OsString]) -> String {
    let mut line = Vec::new();
    quote::shell_words(std::iter::once(program).chain(args.iter().map(OsString::as_os_str)), &mut line);
    excerpt(&line)
}

fn exit_code(status: ExitStatus) -> Option<i32> {
    debug_assert!(status.code().is_some() || status.signal().is_some());
    status.code()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(limit: Duration) -> Runner {
        Runner { time_limit: limit, environment: vec![("SBATCH_PARTITION".into(), "ours".into())] }
    }

    fn sh(limit: Duration, text: &str) -> Result<Output, BatchError> {
        runner(limit).run(OsStr::new("sh"), &["-c".into(), text.into()], None)
    }

    #[test]
    fn output_and_exit_status_come_back() {
        let output = sh(limits::COMMAND_TIME, "echo out; echo err >&2; exit 3").expect("it runs");
        assert_eq!((output.exit, output.text(), output.errors()), (Some(3), "out\n".into(), "err\n".into()));
        let error = output.refused().to_string();
        assert_eq!(error, "`sh -c 'echo out; echo err >&2; exit 3'` ended with exit status 3: err");
    }

    #[test]
    fn a_missing_command_is_named() {
        let error =
            runner(limits::COMMAND_TIME).run(OsStr::new("hq-no-such"), &[], None).expect_err("it is missing");
        assert!(
            matches!(&error, BatchError::CommandMissing { command } if command == "hq-no-such"),
            "{error}"
        );
    }

    #[test]
    fn what_takes_too_long_is_killed_with_all_it_started() {
        let error = sh(Duration::from_millis(200), "sleep 600 & sleep 600").expect_err("it takes too long");
        assert!(matches!(error, BatchError::TimedOut { .. }) && error.is_in_doubt(), "{error}");
    }

    #[test]
    fn what_floods_is_cut() {
        let output = sh(limits::COMMAND_TIME, "head -c 20000000 /dev/zero").expect("it runs");
        assert_eq!(output.stdout.len(), limits::OUTPUT_BYTES);
    }

    #[test]
    fn a_variable_that_speaks_to_the_batch_system_stays_behind() {
        let check = |name: &str, is: bool| assert_eq!(is_inherited(OsStr::new(name)), is, "{name}");
        check("HOME", true);
        check("PATH", true);
        check("SLURM_CONF", true);
        check("SLURM_JOB_ID", false);
        check("SBATCH_PARTITION", false);
        check("SCANCEL_STATE", false);
        check("PBS_CONF_FILE", true);
        check("PBS_JOBID", false);
        check("HQ_SERVER_DIR", false);
        let output = sh(limits::COMMAND_TIME, "echo $SBATCH_PARTITION").expect("it runs");
        assert_eq!(output.text(), "ours\n", "what the caller sets is set");
    }
}
