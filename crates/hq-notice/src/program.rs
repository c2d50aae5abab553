//! Runs a program of a user: no shell, something on standard input, a time limit, and of its output the end.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::limits::{OUTPUT_BYTES, OUTPUT_GRACE, PROGRAM_TIME};

/// Runs a program to its end, in a directory where that is there.
///
/// # Errors
/// When it cannot be run, takes too long, or does not end with success.
pub(crate) fn run(
    words: &[String],
    variables: &[(&str, String)],
    input: &[u8],
    directory: &[u8],
) -> Result<(), String> {
    run_within(PROGRAM_TIME, words, variables, input, directory)
}

pub(crate) fn run_within(
    limit: Duration,
    words: &[String],
    variables: &[(&str, String)],
    input: &[u8],
    directory: &[u8],
) -> Result<(), String> {
    let (program, arguments) = words.split_first().ok_or("it names no program")?;
    let directory = Path::new(OsStr::from_bytes(directory));
    let input = file_with(input).map_err(|error| format!("there is no room for what is told: {error}"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(if directory.is_dir() { directory } else { Path::new("/") })
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What it starts is ended with it.
        .process_group(0);
    let mut child = command.spawn().map_err(|error| format!("`{program}` cannot be run: {error}"))?;
    let pid = Pid::from_child(&child);
    let outputs = [read(child.stdout.take()), read(child.stderr.take())];
    let is_in_time = has_ended(pid).recv_timeout(limit).is_ok();
    // It is not reaped yet, so its number still means this group.
    if !is_in_time {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
    let status = child.wait().map_err(|error| format!("the end of `{program}` is not known: {error}"))?;
    let end = Instant::now() + OUTPUT_GRACE;
    let said = outputs.map(|output| collect(&output, end)).concat();
    if !is_in_time {
        return Err(with_words(&format!("`{program}` took longer than {} s", limit.as_secs()), &said));
    }
    match status.success() {
        true => Ok(()),
        false => Err(with_words(&format!("`{program}` {}", ended(status)), &said)),
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
    }
}

fn with_words(what: &str, said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    match said.trim() {
        "" => what.to_owned(),
        said => format!("{what}: {said}"),
    }
}

// A file without a name, and no pipe: a program need not read it, and nobody has to wait until it does.
fn file_with(content: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("hq-notice", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

/// The end of what came through a pipe, and a word when that is closed.
type Output = (Arc<Mutex<Vec<u8>>>, Receiver<()>);

// Reads a pipe to its end, on a thread of its own, so that a program never waits for us.
fn read(pipe: Option<impl Read + Send + 'static>) -> Output {
    let said = Arc::<Mutex<Vec<u8>>>::default();
    let (closed, receiver) = mpsc::channel();
    let Some(mut pipe) = pipe else { return (said, receiver) };
    let kept = said.clone();
    thread::spawn(move || {
        let mut buffer = vec![0; 8 << 10];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => keep(&kept, &buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = closed.send(());
    });
    (said, receiver)
}

fn keep(kept: &Mutex<Vec<u8>>, part: &[u8]) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.extend(part);
    let more = kept.len().saturating_sub(OUTPUT_BYTES);
    kept.drain(..more);
}

// Something may keep a pipe open that the program has left running.
fn collect((said, closed): &Output, end: Instant) -> Vec<u8> {
    let _ = closed.recv_timeout(end.saturating_duration_since(Instant::now()));
    said.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

// Says when a child has ended, without reaping it.
fn has_ended(pid: Pid) -> Receiver<()> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(rustix::process::waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
        let _ = sender.send(());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Result<(), String> {
        let words = ["sh", "-c", script].map(str::to_owned);
        run_within(limit, &words, &[("HQ_X", "y z".into())], &[b'x'; 1 << 20], b"/nowhere")
    }

    #[test]
    fn what_a_program_does_is_bounded() {
        let minute = Duration::from_secs(60);
        assert_eq!(sh("test \"$HQ_X\" = 'y z' && test $(wc -c) = 1048576", minute), Ok(()));
        assert_eq!(sh("exit 0", minute), Ok(()), "it need not read");
        let error = sh("echo no >&2; exit 3", minute);
        assert_eq!(error, Err("`sh` ended with exit code 3: no".into()));
        assert_eq!(sh("kill -9 $$", minute), Err("`sh` was ended by signal 9".into()));
        let error = sh("sleep 600", Duration::from_millis(10));
        assert_eq!(error, Err("`sh` took longer than 0 s".into()));
        let much = sh("yes | head -c 1000000; exit 1", minute).expect_err("failed");
        assert!(much.len() < 3000, "{}", much.len());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&["/no/such/program".into()], &[], b"", b"/").expect_err("not there");
        assert!(error.starts_with("`/no/such/program` cannot be run: "), "{error}");
    }
}
