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

/// How long a program may take.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// In all.
    pub total: Duration,
    /// Without printing anything.
    pub silence: Option<Duration>,
}

impl From<Duration> for Limits {
    fn from(total: Duration) -> Limits {
        Limits { total, silence: None }
    }
}

/// How a program ended, and what it printed (both channels together).
pub(crate) struct Ended {
    /// Its status, or why it was killed.
    pub status: Result<ExitStatus, String>,
    /// What it printed.
    pub text: String,
}

impl Ended {
    /// Whether it ended by itself and successfully.
    pub(crate) fn is_ok(&self) -> bool {
        self.status.as_ref().is_ok_and(ExitStatus::success)
    }
}

/// Runs `command` to its end without any input; its output goes to the file `log`. At a limit it is
/// killed, with every process that carries the mark `mark`.
pub(crate) fn run(
    command: &mut Command,
    limits: impl Into<Limits>,
    log: &Path,
    mark: &str,
) -> io::Result<Ended> {
    let limits = limits.into();
    if let Some(parent) = log.parent() {
        fs::create_dir_all(parent)?;
    }
    let out = File::create(log)?;
    let mut child =
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", command.get_program().to_string_lossy()))
        })?;
    let begun = Instant::now();
    let (mut printed, mut printed_at) = (0, begun);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Ok(status);
        }
        let bytes = fs::metadata(log)?.len();
        if bytes != printed {
            (printed, printed_at) = (bytes, Instant::now());
        }
        let why = match limits.silence {
            _ if interrupt::happened() => Some("was interrupted".to_owned()),
            _ if begun.elapsed() > limits.total => {
                Some(format!("did not end within {} s", limits.total.as_secs()))
            }
            Some(silence) if printed_at.elapsed() > silence => Some(format!(
                "printed nothing for {} s, after {} s in all",
                silence.as_secs(),
                begun.elapsed().as_secs()
            )),
            _ => None,
        };
        if let Some(why) = why {
            child.kill()?;
            child.wait()?;
            for process in leftovers::processes(mark) {
                process.kill();
            }
            break Err(why);
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
    let how = ended.status.map_or_else(|why| why, |status| format!("ended with {status}"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_killed_and_says_for_how_long_it_was_silent() {
        let log = std::env::temp_dir().join(format!("hq-exec-{}.log", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; exec sleep 600"]);
        let silence = Some(Duration::from_millis(200));
        let limits = Limits { total: Duration::from_secs(600), silence };
        let ended = run(&mut command, limits, &log, "no process has this mark").expect("a shell");
        fs::remove_file(&log).expect("its log");
        assert_eq!(ended.text, "begun\n");
        assert!(ended.status.expect_err("it hangs").starts_with("printed nothing for 0 s, after "));
    }
}
