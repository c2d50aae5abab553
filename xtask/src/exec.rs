//! Runs programs with a time limit, keeping what they print.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{interrupt, leftovers};

/// How often a running program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Lines of a failed program's output that are shown.
const TAIL_LINES: usize = 120;

/// How a program ended, and what it printed (both channels together).
pub(crate) struct Ended {
    /// Its status; `None` when it was killed at its time limit.
    pub status: Option<ExitStatus>,
    /// What it printed.
    pub text: String,
}

impl Ended {
    /// Whether it ended by itself and successfully.
    pub(crate) fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Runs `command` to its end without any input; its output goes to the file `log`. At `limit` it is
/// killed, with every process that carries the mark `mark`.
pub(crate) fn run(command: &mut Command, limit: Duration, log: &Path, mark: &str) -> io::Result<Ended> {
    if let Some(parent) = log.parent() {
        fs::create_dir_all(parent)?;
    }
    let out = File::create(log)?;
    let mut child =
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", command.get_program().to_string_lossy()))
        })?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if begun.elapsed() > limit || interrupt::happened() {
            child.kill()?;
            child.wait()?;
            for process in leftovers::processes(mark) {
                process.kill();
            }
            break None;
        }
        thread::sleep(LOOK_EVERY);
    };
    Ok(Ended { status, text: String::from_utf8_lossy(&fs::read(log)?).into_owned() })
}

/// Runs `command` and demands success.
///
/// # Errors
/// When it cannot be started, fails or takes longer than `limit`; the text ends with the last lines
/// of its output.
pub(crate) fn demand(
    command: &mut Command,
    limit: Duration,
    log: &Path,
    mark: &str,
) -> Result<Ended, String> {
    let ended = run(command, limit, log, mark).map_err(|error| error.to_string())?;
    if ended.is_ok() {
        return Ok(ended);
    }
    let how = match ended.status {
        Some(status) => format!("ended with {status}"),
        None if interrupt::happened() => "was interrupted".to_owned(),
        None => format!("did not end within {} s", limit.as_secs()),
    };
    Err(format!("{}\n{} {how}; its output is in {}", tail(&ended.text), show(command), log.display()))
}

/// Runs `command` with this program's own output; for chores that are watched.
///
/// # Errors
/// When it cannot be started or fails.
pub(crate) fn watched(command: &mut Command) -> Result<(), String> {
    let status = command.stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} ended with {status}", show(command))),
        Err(error) => Err(format!("{}: {error}", show(command))),
    }
}

/// The command as a person would type it.
fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// The last lines of a text.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    let cut = if from > 0 { format!("[{from} lines before]\n") } else { String::new() };
    cut + &lines[from..].join("\n")
}
