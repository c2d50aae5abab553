//! Speaking to the relay of this node, which is started where there is none.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hq_client::error::{EXIT_FAILED, EXIT_NO_SERVER, EXIT_USAGE};
use hq_pull::limits::SOCKET_WAIT;
use serde_json::Value;
use tracing::warn;

use super::{Context, SOCKET, default_path, socket_path};
use crate::error::HqError;

/// An answer that takes longer is waited for with a word.
const PATIENCE: Duration = Duration::from_millis(1800);
/// Between looks for the socket of a relay that is there.
const SOCKET_PAUSE: Duration = Duration::from_millis(50);
/// A relay that a command has started ends when nobody has needed it for so long.
const IDLE: &str = "10m";

/// A connection to a relay.
pub(in crate::commands) struct Line {
    path: PathBuf,
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Line {
    /// Connects.
    pub(in crate::commands) fn open(context: &Context) -> Result<Line, HqError> {
        let path = socket_path(context)?;
        let stream = match hq_pull::socket::connect(&path) {
            Ok(stream) => stream,
            Err(error) if std::env::var_os(SOCKET).is_some_and(|named| !named.is_empty()) => {
                return Err(unreachable(&path, &error));
            }
            Err(_) => {
                let is_another = start(context)?.is_none();
                connect_patiently(&path, is_another).map_err(|error| unreachable(&path, &error))?
            }
        };
        Ok(Line { path, reader: BufReader::new(stream.try_clone()?), writer: stream })
    }

    /// Connects where a relay listens, and starts none.
    pub(in crate::commands) fn to_existing(context: &Context) -> Option<Line> {
        let path = socket_path(context).ok()?;
        let stream = hq_pull::socket::connect(&path).ok()?;
        Some(Line { path, reader: BufReader::new(stream.try_clone().ok()?), writer: stream })
    }

    /// Where the relay listens.
    pub(in crate::commands) fn path(&self) -> &Path {
        &self.path
    }

    /// Asks, and gives the answer. A refusal is an error.
    pub(in crate::commands) fn ask(&mut self, request: &Value) -> Result<Value, HqError> {
        let mut text = serde_json::to_vec(request).map_err(|error| HqError::usage(error.to_string()))?;
        text.push(b'\n');
        self.writer.write_all(&text).map_err(|error| unreachable(&self.path, &error))?;
        let line = self.read(request).map_err(|error| unreachable(&self.path, &error))?;
        let answer: Value = serde_json::from_slice(&line).map_err(|_| HqError {
            exit: EXIT_NO_SERVER,
            ..HqError::failed("no-relay", "The relay has gone.")
        })?;
        let error = &answer["error"];
        if error.is_null() {
            return Ok(answer);
        }
        let code = error["code"].as_str().unwrap_or_default();
        let text = error["message"].as_str().unwrap_or("the relay refuses it").to_owned();
        Err(match CODES.into_iter().find(|(known, _)| *known == code) {
            Some((code, exit)) => HqError { exit, ..HqError::failed(code, text) },
            None => HqError::failed("pull", text),
        })
    }
}

impl Line {
    // The line of an answer. When it takes long, it is said why, unless the request itself says that it may.
    fn read(&mut self, request: &Value) -> std::io::Result<Vec<u8>> {
        let waits = |name: &str| request[name]["wait"].as_f64().is_some_and(|wait| wait > 0.0);
        let is_patient = waits("take") || waits("next");
        self.writer.set_read_timeout((!is_patient).then_some(PATIENCE))?;
        let mut line = Vec::new();
        loop {
            match self.reader.read_until(b'\n', &mut line) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    warn!(
                        "the server has not answered yet; the relay keeps what it was told, and this command waits"
                    );
                    self.writer.set_read_timeout(None)?;
                }
                read => return read.map(|_| line),
            }
        }
    }
}

// What relays refuse, and how a command ends then.
const CODES: [(&str, u8); 16] = [
    ("bad-request", EXIT_USAGE),
    ("no-server", EXIT_NO_SERVER),
    ("no-bag", EXIT_FAILED),
    ("no-job", EXIT_FAILED),
    ("no-session", EXIT_FAILED),
    ("unknown-name", EXIT_FAILED),
    ("name-taken", EXIT_FAILED),
    ("job-not-open", EXIT_FAILED),
    ("lost", EXIT_FAILED),
    ("hopeless", EXIT_FAILED),
    ("too-large", EXIT_FAILED),
    ("too-many-failed", EXIT_FAILED),
    ("read-only", EXIT_FAILED),
    ("stopping", EXIT_FAILED),
    ("full", EXIT_FAILED),
    ("invalid", EXIT_FAILED),
];

fn unreachable(path: &Path, error: &std::io::Error) -> HqError {
    let text = format!("No relay answers at {}: {error}", path.display());
    let hint = format!("start one with `hq pull relay &`; if {SOCKET} is set, it names another one");
    HqError { exit: EXIT_NO_SERVER, ..HqError::failed("no-relay", text) }.hint(hint)
}

// Where two start one at once, one of them gives way.
fn start(context: &Context) -> Result<Option<Child>, HqError> {
    begin(context, &["--idle-timeout".as_ref(), IDLE.as_ref()], Stdio::null())
}

// One that is there already may not have made its socket yet, or have to make it again, which a cleaner removed.
fn connect_patiently(path: &Path, is_another: bool) -> std::io::Result<UnixStream> {
    let begin = Instant::now();
    loop {
        match hq_pull::socket::connect(path) {
            Err(_) if is_another && begin.elapsed() < SOCKET_WAIT => std::thread::sleep(SOCKET_PAUSE),
            connected => return connected,
        }
    }
}

/// A relay beside a worker, which ends with it.
pub(in crate::commands) struct Beside {
    path: PathBuf,
    // It holds the lifeline.
    _child: Child,
}

impl Beside {
    /// Where it listens.
    pub(in crate::commands) fn path(&self) -> &Path {
        &self.path
    }
}

/// Starts a relay that ends with this process: where others find it, unless one is there that may end before.
pub(in crate::commands) fn beside(context: &Context) -> Result<Beside, HqError> {
    let usual = default_path(context)?;
    let mut own = usual.clone().into_os_string();
    own.push(format!("-{}", std::process::id()));
    for path in [usual, own.into()] {
        let words = ["--lifeline".as_ref(), "--socket".as_ref(), path.as_os_str()];
        if let Some(child) = begin(context, &words, Stdio::piped())? {
            return Ok(Beside { path, _child: child });
        }
    }
    Err(HqError::failed("no-relay", "No relay could be started: others listen wherever it could."))
}

// Starts a relay, and waits until it listens. None when another one does so in its place.
fn begin(context: &Context, words: &[&OsStr], stdin: Stdio) -> Result<Option<Child>, HqError> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--server-dir")
        .arg(&context.server_dir)
        .args(["pull", "relay", "--background"])
        .args(words)
        .env_remove(SOCKET)
        .env_remove("HQ_OUTPUT_MODE")
        .current_dir("/")
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut said)?;
    }
    if !said.is_empty() {
        // A pipe that nobody reads would hold it up when it is full.
        drop(child.stderr.take());
        return Ok(Some(child));
    }
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("listens at") {
        return Ok(None);
    }
    let text = format!("No relay could be started: {}", text.trim().trim_start_matches("ERROR "));
    Err(HqError { exit: EXIT_NO_SERVER, ..HqError::failed("no-relay", text) })
}
