//! Runs a program of a user: no shell, something on standard input, and of what it says when it fails the last words.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use hq_command::{Bounds, Ended, How, Keep, Stop};
use hq_model::notice::{cut, with_escapes};

use crate::limits::{LINES_SAID, OUTPUT_BYTES, OUTPUT_GRACE, PROGRAM_TIME, SAID_BYTES};

/// Runs a program to its end, in a directory where that is there.
///
/// # Errors
/// When it cannot be run, takes too long, is stopped, or does not end with success.
pub(crate) fn run(
    words: &[String],
    about: (&[(&str, String)], Option<&Path>),
    input: &[u8],
    directory: &[u8],
    stop: &Stop,
) -> Result<(), String> {
    run_within(PROGRAM_TIME, words, about, input, (directory, stop))
}

/// Where a program that is told of a job or task finds the server that has it; what `hq run` tells has none.
pub fn server_of(command: &mut Command, server_dir: Option<&Path>) {
    match server_dir {
        Some(dir) => command.env("HQ_SERVER_DIR", dir).env_remove("HQ_RUN"),
        None => command.env_remove("HQ_SERVER_DIR").env("HQ_RUN", "1"),
    };
}

fn run_within(
    limit: Duration,
    words: &[String],
    (variables, server_dir): (&[(&str, String)], Option<&Path>),
    input: &[u8],
    (directory, stop): (&[u8], &Stop),
) -> Result<(), String> {
    let (program, arguments) = words.split_first().ok_or("it names no program")?;
    let directory = Path::new(OsStr::from_bytes(directory));
    let input =
        hq_command::input(input).map_err(|error| format!("there is no room for the message: {error}"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(if directory.is_dir() { directory } else { Path::new("/") })
        .stdin(input);
    server_of(&mut command, server_dir);
    let keep = Keep::Last(OUTPUT_BYTES);
    let bounds = Bounds { time: limit, keep, grace: OUTPUT_GRACE, stop: Some(stop) };
    let ended = hq_command::run(&mut command, &bounds)
        .map_err(|error| format!("`{program}` cannot be run: {error}"))?;
    let how = match ended.how {
        How::Status(status) if status.success() => return Ok(()),
        How::Status(status) => ending(status),
        How::TimedOut => format!("took longer than {} s", limit.as_secs()),
        How::Stopped => "was ended before it had finished".to_owned(),
    };
    Err(match last_words(&ended).as_str() {
        "" => format!("`{program}` {how}"),
        said => format!("`{program}` {how}: {said}"),
    })
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
    }
}

// What it said at last, in one line, in which nothing moves a cursor.
fn last_words(ended: &Ended) -> String {
    let said = if ended.stderr.trim_ascii().is_empty() { &ended.stdout } else { &ended.stderr };
    let said = String::from_utf8_lossy(said);
    let mut lines: Vec<&str> =
        said.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(LINES_SAID).collect();
    lines.reverse();
    cut(&with_escapes(&lines.join("; ")), SAID_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn sh(script: &str, limit: Duration) -> Result<(), String> {
        let words = ["sh", "-c", script].map(str::to_owned);
        let variables = [("HQ_X", "y z".into())];
        run_within(limit, &words, (&variables, None), &[b'x'; 1 << 20], (b"/nowhere", &Stop::default()))
    }

    #[test]
    fn what_a_program_does_is_bounded() {
        assert_eq!(sh("test \"$HQ_X\" = 'y z' && test $(wc -c) = 1048576", MINUTE), Ok(()));
        assert_eq!(sh("exit 0", MINUTE), Ok(()), "it need not read");
        assert_eq!(sh("kill -9 $$", MINUTE), Err("`sh` was ended by signal 9".into()));
        let error = sh("sleep 600", Duration::from_millis(10));
        assert_eq!(error, Err("`sh` took longer than 0 s".into()));
    }

    #[test]
    fn the_last_words_of_a_program_that_fails_are_told_in_one_short_line() {
        for (script, said) in [
            ("echo no >&2; exit 3", "no"),
            ("echo no; exit 3", "no"),
            ("echo one; echo two >&2; exit 3", "two"),
            ("echo 1; echo 2; echo; echo 3; exit 3", "2; 3"),
            ("printf '\\033[31mred\\r\\tblue'; exit 3", "\\u{1b}[31mred\\r\\tblue"),
        ] {
            assert_eq!(sh(script, MINUTE), Err(format!("`sh` ended with exit code 3: {said}")));
        }
        let much = sh("head -c 1000000 /dev/zero | tr '\\0' x; exit 1", MINUTE).expect_err("failed");
        assert!(much.len() < SAID_BYTES + 50 && much.ends_with('…'), "{much}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&["/no/such/program".into()], (&[], None), b"", b"/", &Stop::default())
            .expect_err("not there");
        assert!(error.starts_with("`/no/such/program` cannot be run: "), "{error}");
    }
}
