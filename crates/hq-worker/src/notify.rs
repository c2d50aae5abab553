//! How a running task speaks to whoever waits for its job: a socket in the worker's private directory.
//!
//! A task is given `HQ_ACCESS_KEY`, the socket's path and a token that names the task and proves that this
//! worker made it. The token is a keyed hash, so it costs no randomness and no memory per task.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hq_core::limits::NOTIFY_TEXT_MAX;
use hq_model::{ByteString, Instance, JobId, TaskId, TaskRef};
use ring::hmac;
use rustix::net::sockopt::socket_peercred;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::limits;
use crate::socket::{self, Socket};

/// Why a task's words did not get through.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// The caller is no task.
    #[error("HQ_ACCESS_KEY is missing or damaged; this works only inside a running task")]
    Key,
    /// Too many words.
    #[error("the message has {bytes} bytes, but at most {NOTIFY_TEXT_MAX} are allowed")]
    Long {
        /// Its length.
        bytes: usize,
    },
    /// The worker is not there.
    #[error("the worker of this task cannot be reached at {}: {source}", path.display())]
    Unreachable {
        /// Its socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The worker does not take it.
    #[error("the worker refuses the message: {reason}")]
    Refused {
        /// Its words.
        reason: String,
    },
}

/// Sends `text` on behalf of the task whose `HQ_ACCESS_KEY` this is; returns when the worker has it.
///
/// # Errors
/// When the key is none, the text is too long, or the worker cannot be reached or refuses.
pub fn send(access_key: &[u8], text: &[u8]) -> Result<(), NotifyError> {
    let split = access_key.iter().rposition(|b| *b == b':').ok_or(NotifyError::Key)?;
    let (path, token) = (&access_key[..split], &access_key[split + 1..]);
    if path.is_empty() || parse_token(token).is_none() {
        return Err(NotifyError::Key);
    }
    if text.len() > NOTIFY_TEXT_MAX {
        return Err(NotifyError::Long { bytes: text.len() });
    }
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let answer = exchange(path, token, text)
        .map_err(|source| NotifyError::Unreachable { path: path.to_owned(), source })?;
    if answer == b"ok" {
        Ok(())
    } else if answer.is_empty() {
        Err(NotifyError::Unreachable { path: path.to_owned(), source: io::ErrorKind::UnexpectedEof.into() })
    } else {
        Err(NotifyError::Refused { reason: String::from_utf8_lossy(&answer).into_owned() })
    }
}

/// The attempt that an `HQ_ACCESS_KEY` is of, if it is one; whether its worker has given it, only that can say.
pub fn attempt_of(access_key: &[u8]) -> Option<(TaskRef, Instance)> {
    let split = access_key.iter().rposition(|b| *b == b':')?;
    parse_token(&access_key[split + 1..]).map(|(task, instance, _)| (task, instance))
}

fn exchange(path: &Path, token: &[u8], text: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = connect(path)?;
    socket::check_listener(socket_peercred(&stream)?.uid.as_raw())?;
    stream.set_read_timeout(Some(limits::NOTIFY_TIMEOUT))?;
    stream.set_write_timeout(Some(limits::NOTIFY_TIMEOUT))?;
    stream.write_all(&[token, b"\n", text].concat())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.take(1024).read_to_end(&mut answer)?;
    Ok(answer)
}

fn connect(path: &Path) -> io::Result<BlockingStream> {
    let since = Instant::now();
    loop {
        match BlockingStream::connect(path) {
            Err(error) if socket::may_come_back(&error, since) => std::thread::sleep(limits::SOCKET_LOOK),
            connected => return connected,
        }
    }
}

/// Makes and checks the tokens of one worker.
#[derive(Clone, Debug)]
pub(crate) struct AccessKeys {
    socket: ByteString,
    key: Arc<hmac::Key>,
}

impl AccessKeys {
    /// Keys for a socket at `socket`, from fresh randomness.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub(crate) fn new(socket: &Path) -> io::Result<AccessKeys> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|e| io::Error::other(e.to_string()))?;
        let key = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &secret));
        Ok(AccessKeys { socket: socket.as_os_str().as_bytes().to_vec(), key })
    }

    /// The private directory in which the socket is.
    pub(crate) fn directory(&self) -> &Path {
        let socket = Path::new(std::ffi::OsStr::from_bytes(&self.socket));
        socket.parent().unwrap_or(socket)
    }

    /// Appends the key of a task.
    pub(crate) fn append(&self, task: TaskRef, instance: Instance, out: &mut ByteString) {
        out.extend_from_slice(&self.socket);
        // Writing to a vector cannot fail.
        let _ = write!(out, ":{}.{}.{instance}.", task.job, task.task);
        for byte in self.proof(task, instance) {
            out.extend([byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]));
        }
    }

    fn proof(&self, task: TaskRef, instance: Instance) -> [u8; 16] {
        let mut message = [0; 12];
        for (place, number) in message.chunks_mut(4).zip([task.job.0, task.task.0, instance.0]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let tag = hmac::sign(&self.key, &message);
        let mut proof = [0; 16];
        proof.copy_from_slice(&tag.as_ref()[..16]);
        proof
    }

    /// The attempt to which such an `HQ_ACCESS_KEY` was given by this worker.
    pub(crate) fn attempt_of(&self, access_key: &[u8]) -> Option<(TaskRef, Instance)> {
        let split = access_key.iter().rposition(|b| *b == b':')?;
        self.check(&access_key[split + 1..])
    }

    /// The attempt that a token is of.
    pub(crate) fn check(&self, token: &[u8]) -> Option<(TaskRef, Instance)> {
        let (task, instance, proof) = parse_token(token)?;
        let expected = self.proof(task, instance);
        // In constant time.
        let difference = proof.iter().zip(expected).fold(0, |all, (a, b)| all | (a ^ b));
        (difference == 0).then_some((task, instance))
    }
}

fn parse_token(token: &[u8]) -> Option<(TaskRef, Instance, [u8; 16])> {
    let text = std::str::from_utf8(token).ok()?;
    let mut parts = text.split('.');
    let mut number = || parts.next()?.parse::<u32>().ok();
    let (job, task, instance) = (number()?, number()?, number()?);
    let hex = parts.next().filter(|hex| hex.len() == 32 && hex.is_ascii())?;
    let mut proof = [0; 16];
    for (i, byte) in proof.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
    }
    parts.next().is_none().then_some((TaskRef::new(JobId(job), TaskId(task)), Instance(instance), proof))
}

/// Words of a task, on their way to the machine.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) task: TaskRef,
    pub(crate) instance: Instance,
    pub(crate) text: ByteString,
    /// Whether they are taken; else why not.
    pub(crate) taken: oneshot::Sender<Result<(), String>>,
}

/// Listens for tasks until the runtime ends. A task that speaks faster than the worker can pass on is made to wait; one
/// that connects and says nothing makes nobody wait.
pub(crate) fn listen(socket: &Path, keys: AccessKeys, words: mpsc::Sender<Words>) -> io::Result<()> {
    let mut listener = Socket::bind(socket)?;
    tokio::spawn(async move {
        let mut speakers = Speakers::default();
        loop {
            let Ok(stream) = listener.accept().await else {
                // Out of descriptors, most likely: other tasks will give some back.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            speakers.make_room().await;
            let (keys, words, heard) = (keys.clone(), words.clone(), Arc::new(AtomicBool::new(false)));
            let speaker = Speaker { heard: heard.clone(), since: Instant::now() };
            let task = speakers.tasks.spawn(async move {
                // A caller that is gone or too slow gets no answer, and sees that itself.
                let _ = timeout(limits::NOTIFY_TIMEOUT, serve(stream, &keys, &words, &heard)).await;
            });
            speakers.by_age.push_back((task, speaker));
        }
    });
    Ok(())
}

/// The connections of tasks.
#[derive(Default)]
struct Speakers {
    tasks: JoinSet<()>,
    by_age: VecDeque<(AbortHandle, Speaker)>,
}

struct Speaker {
    // Everything it had to say is here.
    heard: Arc<AtomicBool>,
    since: Instant,
}

impl Speakers {
    /// Waits until there is room for one more. The oldest one that has said nothing has to go.
    async fn make_room(&mut self) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            self.by_age.retain(|(task, _)| !task.is_finished());
            if self.tasks.len() < limits::NOTIFY_CONNECTIONS_MAX {
                return;
            }
            let silent = self.by_age.iter().find(|(_, speaker)| !speaker.heard.load(Ordering::Relaxed));
            match silent {
                Some((task, speaker)) if speaker.since.elapsed() >= limits::NOTIFY_SILENCE => task.abort(),
                Some((_, speaker)) => {
                    let rest = limits::NOTIFY_SILENCE.saturating_sub(speaker.since.elapsed());
                    // One may be done before.
                    let _ = timeout(rest, self.tasks.join_next()).await;
                    continue;
                }
                None => {}
            }
            self.tasks.join_next().await;
        }
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

// Nobody hears words any more.
const ENDING: &str = "the worker is ending";

async fn serve(
    mut stream: UnixStream,
    keys: &AccessKeys,
    words: &mpsc::Sender<Words>,
    heard: &AtomicBool,
) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    if peer != 0 && peer != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let mut message = Vec::new();
    (&mut stream).take(NOTIFY_TEXT_MAX as u64 + 256).read_to_end(&mut message).await?;
    heard.store(true, Ordering::Relaxed);
    let answer = match understand(&message, keys) {
        Ok((spoken, taken)) => match words.send(spoken).await {
            Ok(()) => match taken.await {
                Ok(Ok(())) => "ok".to_owned(),
                Ok(Err(reason)) => reason,
                Err(_) => ENDING.to_owned(),
            },
            Err(_) => ENDING.to_owned(),
        },
        Err(reason) => reason.to_owned(),
    };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

type Taken = oneshot::Receiver<Result<(), String>>;

fn understand(message: &[u8], keys: &AccessKeys) -> Result<(Words, Taken), &'static str> {
    let end = message.iter().position(|b| *b == b'\n').ok_or("no token")?;
    let (token, text) = (&message[..end], &message[end + 1..]);
    let (task, instance) = keys.check(token).ok_or("the token does not belong to a task of this worker")?;
    if text.len() > NOTIFY_TEXT_MAX {
        return Err("the message is too long");
    }
    let (taken, answer) = oneshot::channel();
    Ok((Words { task, instance, text: text.to_vec(), taken }, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> AccessKeys {
        AccessKeys::new(Path::new("/tmp/x:y/notify")).expect("randomness")
    }

    fn token(keys: &AccessKeys, task: u32) -> ByteString {
        let mut key = ByteString::new();
        keys.append(TaskRef::new(JobId(1), TaskId(task)), Instance(0), &mut key);
        key.strip_prefix(b"/tmp/x:y/notify:").expect("the socket's path").to_vec()
    }

    #[test]
    fn a_token_names_its_task_and_cannot_be_made_up() {
        let keys = keys();
        let (first, second) = (token(&keys, 7), token(&keys, 8));
        assert_eq!(keys.check(&first), Some((TaskRef::new(JobId(1), TaskId(7)), Instance(0))));
        let mut forged = first.clone();
        let end = forged.len() - 32;
        forged[end..].copy_from_slice(&second[second.len() - 32..]);
        assert_eq!(keys.check(&forged), None, "the proof of another task");
        assert_eq!(self::keys().check(&first), None, "another worker's key");
        for damaged in [&b""[..], b"1.2.3", b"1.2.3.zz", &first[..first.len() - 1], b"1.2.3.\xff\xff"] {
            assert_eq!(keys.check(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused_before_anything_is_sent() {
        for key in [&b""[..], b"/tmp/socket", b":1.2.3.00", b"/tmp/socket:1.2"] {
            assert!(matches!(send(key, b"x"), Err(NotifyError::Key)), "{key:?}");
        }
        let mut key = b"/nonexistent/socket:".to_vec();
        key.extend(token(&keys(), 1));
        assert!(matches!(send(&key, &[b'x'; 1025]), Err(NotifyError::Long { bytes: 1025 })));
        // Nobody listens at a file, and none will.
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let key = [file.path().as_os_str().as_bytes(), b":", &token(&keys(), 1)].concat();
        assert!(matches!(send(&key, b"x"), Err(NotifyError::Unreachable { .. })));
    }

    #[tokio::test]
    async fn words_arrive_with_their_task() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let socket = dir.path().join("notify");
        let keys = AccessKeys::new(&socket).expect("randomness");
        let (sender, mut receiver) = mpsc::channel(4);
        listen(&socket, keys.clone(), sender).expect("a free path");
        let task = TaskRef::new(JobId(3), TaskId(17));
        let mut key = ByteString::new();
        keys.append(task, Instance(2), &mut key);
        for runs in [true, false] {
            let key = key.clone();
            let sent = tokio::task::spawn_blocking(move || send(&key, b"line 1\nline \xff"));
            let words = receiver.recv().await.expect("words");
            assert_eq!((words.task, words.instance), (task, Instance(2)));
            assert_eq!(words.text, b"line 1\nline \xff");
            let _ = words.taken.send(if runs { Ok(()) } else { Err("no".to_owned()) });
            let answer = sent.await.expect("no panic");
            assert_eq!(matches!(answer, Err(NotifyError::Refused { .. })), !runs, "{answer:?}");
        }
    }

    #[tokio::test]
    async fn those_who_say_nothing_make_nobody_wait() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let socket = dir.path().join("notify");
        let keys = AccessKeys::new(&socket).expect("randomness");
        let (sender, mut receiver) = mpsc::channel(4);
        listen(&socket, keys.clone(), sender).expect("a free path");
        let mut silent = Vec::new();
        for _ in 0..2 * limits::NOTIFY_CONNECTIONS_MAX {
            silent.push(UnixStream::connect(&socket).await.expect("room"));
        }
        let mut key = ByteString::new();
        keys.append(TaskRef::new(JobId(3), TaskId(17)), Instance(2), &mut key);
        let sent = tokio::task::spawn_blocking(move || send(&key, b"here"));
        let words = receiver.recv().await.expect("words");
        assert_eq!(words.text, b"here");
        let _ = words.taken.send(Ok(()));
        sent.await.expect("no panic").expect("delivered");
        let mut nothing = [0];
        let dropped = silent[0].read(&mut nothing).await;
        assert!(matches!(dropped, Ok(0) | Err(_)), "the first one had to go");
    }
}
