//! `hq feed`: what looks after the command of a generator or a reducer, as a task on some worker. It speaks to the server as any
//! client does, and with the command by lines.

mod generate;
mod lines;
mod reduce;

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hq_client::Session;
use hq_client::error::EXIT_FAILED;
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::feed::{FeedOrder, FeedRequest, FeedState};
use hq_model::{Instance, JobId, TaskId, TaskRef};

use super::{Context, Done, unexpected};
use crate::cli::feed::FeedCommand;
use crate::error::{EXIT_SIGNAL, HqError};

/// So much of the end of standard error is looked at for what a command said last.
const LAST_WORDS_BYTES: u64 = 500;
/// So long a lost server is waited for: what ends these commands before is their worker.
const SERVER_WAIT: Duration = Duration::from_secs(30 * 24 * 3600);

pub(super) fn run(context: &Context, command: FeedCommand) -> Result<Done, HqError> {
    let result = match command {
        FeedCommand::Generate(args) => generate::generate(context, args),
        FeedCommand::Reduce(args) => reduce::reduce(context, args),
    };
    if let (Err(error), Some(path)) = (&result, std::env::var_os("HQ_ERROR_FILENAME")) {
        // It becomes the error of the task; standard error says it, too.
        let _ = std::fs::write(path, &error.text);
    }
    result
}

/// The task that this is.
#[derive(Clone, Copy)]
struct Own {
    by: TaskRef,
    instance: Instance,
}

impl Own {
    fn of_environment() -> Result<Own, HqError> {
        let number = |name: &str| {
            let found = std::env::var(name).ok().and_then(|value| value.parse().ok());
            found.ok_or_else(|| {
                HqError::usage(format!("{name} is not set: this command can be started only by workers"))
            })
        };
        let by = TaskRef::new(JobId(number("HQ_JOB_ID")?), TaskId(number("HQ_TASK_ID")?));
        Ok(Own { by, instance: Instance(number("HQ_INSTANCE_ID")?) })
    }

    fn ask(&self, session: &mut Session, order: FeedOrder) -> Result<FeedState, HqError> {
        let request = FeedRequest { by: self.by, instance: self.instance, order };
        match session.request(ClientRequest::Feed(Box::new(request)))? {
            ClientResponse::Feed(state) => Ok(*state),
            _ => unexpected(),
        }
    }
}

fn connect(context: &Context) -> Result<Session, HqError> {
    let mut session = context.connect()?;
    session.wait_for_lost_server(Some(SERVER_WAIT));
    Ok(session)
}

// With pipes to and from it, and what it is to find in its environment.
fn spawn(
    command: &[std::ffi::OsString],
    variables: &[(&str, &[u8])],
    stdin: Stdio,
) -> Result<Child, HqError> {
    use std::os::unix::ffi::OsStrExt;
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).stdin(stdin).stdout(Stdio::piped());
    for name in ["HQ_CURSOR", "HQ_GENERATED", "HQ_STATE"] {
        child.env_remove(name);
    }
    for (name, value) in variables {
        child.env(name, std::ffi::OsStr::from_bytes(value));
    }
    child
        .spawn()
        .map_err(|error| failed(format!("`{}` cannot be started: {error}", command[0].to_string_lossy())))
}

// Waits for its end, and says how it ended, where that is no success: as its own, so that `--retry-on` can tell.
fn end_of(child: &mut Child, what: &str) -> Result<(), HqError> {
    let status = child.wait().map_err(|error| failed(format!("the {what} cannot be waited for: {error}")))?;
    let said = || last_words().map_or_else(String::new, |words| format!(": {words}"));
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => {
            let exit = u8::try_from(code).unwrap_or(EXIT_FAILED);
            Err(HqError { exit, ..failed(format!("the {what} exited with code {code}{}", said())) })
        }
        None => {
            let signal = status.signal().and_then(|signal| u8::try_from(signal).ok());
            let exit = signal.map_or(EXIT_FAILED, |signal| EXIT_SIGNAL.saturating_add(signal));
            Err(HqError { exit, ..failed(format!("the {what} died: {status}{}", said())) })
        }
    }
}

// The last line that a command has left in the standard error that it shares with us, where that is a file.
fn last_words() -> Option<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open("/proc/self/fd/2").ok()?;
    let bytes = file.metadata().ok().filter(|about| about.is_file())?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(LAST_WORDS_BYTES))).ok()?;
    let mut text = Vec::new();
    file.take(LAST_WORDS_BYTES).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
}

fn failed(text: impl Into<String>) -> HqError {
    HqError::failed("source-failed", text)
}
