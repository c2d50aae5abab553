//! Speaking to the relay of this node, which is started where there is none.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hq_client::error::{EXIT_FAILED, EXIT_NO_SERVER, EXIT_USAGE};
use hq_client::{ClientError, access_path};
use hq_pull::PassageError;
use hq_pull::limits::SOCKET_WAIT;
use rustix::net::sockopt::socket_peercred;
use rustix::process::Pid;
use serde_json::Value;
use tracing::warn;

use super::{Context, SOCKET, default_path, is_for_pullers, socket_path};
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
    relay: Pid,
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Line {
    /// Connects, and starts a relay where there is none, unless another one is named than the one that all find.
    pub(in crate::commands) fn open(context: &Context) -> Result<Line, HqError> {
        Line::open_in(&context.server_dir)
    }

    /// The same, of the server of a directory.
    pub(super) fn open_in(server_dir: &Path) -> Result<Line, HqError> {
        let path = socket_path(server_dir)?;
        let stream = match hq_pull::socket::connect(&path) {
            Ok(stream) => stream,
            Err(_) if is_usual(&path, server_dir) && is_for_pullers(server_dir)? => {
                return Line::to_server(server_dir, path);
            }
            Err(error) if !is_usual(&path, server_dir) => return Err(unreachable(&path, &error)),
            Err(_) => {
                let is_another = start(server_dir)?.is_none();
                connect_patiently(&path, is_another).map_err(|error| unreachable(&path, &error))?
            }
        };
        Line::over(path, stream).map_err(HqError::from)
    }

    // Without a relay on this node, where the access file lets tasks be taken and nothing else.
    fn to_server(server_dir: &Path, path: PathBuf) -> Result<Line, HqError> {
        let (stream, relay) = hq_pull::connect_as_puller(&access_path(server_dir)).map_err(no_passage)?;
        let relay = i32::try_from(relay).ok().and_then(Pid::from_raw).ok_or_else(has_gone)?;
        Ok(Line { path, relay, reader: BufReader::new(stream.try_clone()?), writer: stream })
    }

    // Names its relay by the number of that process.
    fn over(path: PathBuf, stream: UnixStream) -> std::io::Result<Line> {
        let relay = socket_peercred(&stream)?.pid;
        Ok(Line { path, relay, reader: BufReader::new(stream.try_clone()?), writer: stream })
    }

    /// The process of the relay.
    pub(super) fn relay(&self) -> Pid {
        self.relay
    }

    /// Waits for the end of the relay, or for so long. True when it has ended.
    pub(super) fn ends_within(&mut self, time: Duration) -> bool {
        if self.writer.set_read_timeout(Some(time)).is_err() {
            return true;
        }
        match self.reader.fill_buf() {
            Ok(said) => said.is_empty(),
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Connects where a relay listens, and starts none.
    pub(in crate::commands) fn to_existing(context: &Context) -> Option<Line> {
        let path = socket_path(&context.server_dir).ok()?;
        match hq_pull::socket::connect(&path) {
            Ok(stream) => Line::over(path, stream).ok(),
            Err(_) if is_for_pullers(&context.server_dir).is_ok_and(|is| is) => {
                Line::to_server(&context.server_dir, path).ok()
            }
            Err(_) => None,
        }
    }

    /// The same as [`Line::open`], for programs that are to find the socket: where pullers need no relay, something listens in its
    /// place.
    pub(super) fn open_socket(context: &Context) -> Result<Line, HqError> {
        let path = socket_path(&context.server_dir)?;
        let is_there = hq_pull::socket::connect(&path).is_ok();
        if !is_there && is_usual(&path, &context.server_dir) && is_for_pullers(&context.server_dir)? {
            // Says at once what is wrong with the way to the server.
            Line::to_server(&context.server_dir, path)?;
            start(&context.server_dir)?;
        }
        Line::open(context)
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
        let answer: Value = serde_json::from_slice(&line).map_err(|_| has_gone())?;
        let error = &answer["error"];
        if error.is_null() {
            return Ok(answer);
        }
        let code = error["code"].as_str().unwrap_or_default();
        // Where it names a member of a request, there is an option.
        let text = error["message"].as_str().unwrap_or("the relay refuses it");
        let text = text.replace("`\"missing\":\"done\"`", "`--missing-is-done`");
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
                        "the server has not answered yet; the relay keeps the request, and this command waits"
                    );
                    self.writer.set_read_timeout(None)?;
                }
                read => return read.map(|_| line),
            }
        }
    }
}

/// The code of errors that say that there is no relay.
pub(super) const NO_RELAY: &str = "no-relay";

/// Said where a relay ends.
pub(super) fn has_gone() -> HqError {
    HqError { exit: EXIT_NO_SERVER, ..HqError::failed(NO_RELAY, "The relay is gone.") }
}

// What relays refuse, and how a command ends then.
const CODES: [(&str, u8); 17] = [
    ("denied", EXIT_FAILED),
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
    let hint = format!("start one with `hq pull relay &`, or check {SOCKET} if it is set");
    HqError { exit: EXIT_NO_SERVER, ..HqError::failed(NO_RELAY, text) }.hint(hint)
}

// What is wrong with the access file or the connection is said as of all others; else there is no relay.
fn no_passage(error: PassageError) -> HqError {
    match error {
        PassageError::Access(error) => ClientError::from(error).into(),
        PassageError::Connect(error) => ClientError::from(error).into(),
        other => {
            let text = format!("No relay answers: {other}");
            HqError { exit: EXIT_NO_SERVER, ..HqError::failed(NO_RELAY, text) }
                .hint("check whether the server is running; its log may contain more details")
        }
    }
}

// The socket that `hq pull env` names is where all find a relay.
fn is_usual(path: &Path, server_dir: &Path) -> bool {
    default_path(server_dir).is_ok_and(|usual| usual == path)
}

// Where two start one at once, one of them gives way.
fn start(server_dir: &Path) -> Result<Option<Child>, HqError> {
    begin(server_dir, &["--idle-timeout".as_ref(), IDLE.as_ref()], Stdio::null())
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
    let usual = default_path(&context.server_dir)?;
    let mut own = usual.clone().into_os_string();
    own.push(format!("-{}", std::process::id()));
    for path in [usual, own.into()] {
        let words = ["--lifeline".as_ref(), "--socket".as_ref(), path.as_os_str()];
        if let Some(child) = begin(&context.server_dir, &words, Stdio::piped())? {
            return Ok(Beside { path, _child: child });
        }
    }
    Err(HqError::failed("no-relay", "No relay could be started: all possible sockets are in use by others."))
}

// Starts a relay, and waits until it listens. None when another one does so in its place.
fn begin(server_dir: &Path, words: &[&OsStr], stdin: Stdio) -> Result<Option<Child>, HqError> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--server-dir")
        .arg(server_dir)
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
