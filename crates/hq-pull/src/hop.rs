//! What a relay and the one above it say first: the one below says who it is and what it wants, the one above which relays are
//! above. What follows are frames, as between a relay and its server.

use std::io;
use std::path::{Path, PathBuf};

use hq_net::limits::{HANDSHAKE_TIME_MAX, frame_max};
use hq_net::{FrameReceiver, FrameSender, Misunderstanding, Role, greet_over};
use hq_proto::Hello;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::limits::{INTRODUCTION_BYTES_MAX, LINE_HEAD_BYTES, RELAYS_ABOVE_MAX};
use crate::socket;

/// The first byte of what a relay says at the socket of the one above it, and of the answer.
pub(crate) const FIRST_BYTE: u8 = 3;
/// The other bytes before the frames: what is wanted, and an end of a line, so that earlier releases answer.
const PREFACE_BYTES: usize = 3;

/// What a relay wants of the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Lines to the server, for its workers.
    Lines,
    /// To ask the server.
    Questions,
    /// To know whether it is one.
    Nothing,
}

impl Wish {
    fn byte(self) -> u8 {
        match self {
            Wish::Lines => b'L',
            Wish::Questions => b'Q',
            Wish::Nothing => b'N',
        }
    }

    fn of(byte: u8) -> Option<Wish> {
        [Wish::Lines, Wish::Questions, Wish::Nothing].into_iter().find(|wish| wish.byte() == byte)
    }

    /// In which role it speaks.
    fn role(self) -> Role {
        match self {
            Wish::Lines => Role::Worker,
            Wish::Questions | Wish::Nothing => Role::Client,
        }
    }
}

/// Why a relay cannot be below another one.
#[derive(Debug, thiserror::Error)]
pub enum ParentError {
    /// Nobody is there.
    #[error("no relay listens at {}: {source}", path.display())]
    Nobody {
        /// Its socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Whoever listens there says nothing.
    #[error("whoever listens at {} has not answered within {} s", path.display(), HANDSHAKE_TIME_MAX.as_secs())]
    Silent {
        /// Its socket.
        path: PathBuf,
    },
    /// Something else listens there.
    #[error("what listens at {} is no relay: {reason}", path.display())]
    NoRelay {
        /// Its socket.
        path: PathBuf,
        /// What it says.
        reason: String,
    },
    /// It is of a release that has no relays below it.
    #[error("the relay at {} is of an earlier release of hq, which takes no relays below it", path.display())]
    Early {
        /// Its socket.
        path: PathBuf,
    },
    /// It is of another release.
    #[error("the relay at {} is of hq {theirs}, and this one of hq {ours}", path.display())]
    Release {
        /// Its socket.
        path: PathBuf,
        /// This release.
        ours: String,
        /// Its release.
        theirs: String,
    },
    /// It says no.
    #[error("the relay at {} refuses one below it: {reason}", path.display())]
    Refused {
        /// Its socket.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It is this one, or below this one.
    #[error("the relay at {} is this one or below this one, {own}", path.display())]
    Loop {
        /// Its socket.
        path: PathBuf,
        /// This relay.
        own: String,
    },
    /// Too many are above it.
    #[error("above the relay at {} there are {RELAYS_ABOVE_MAX} others already", path.display())]
    Deep {
        /// Its socket.
        path: PathBuf,
    },
    /// It does not reach the server.
    #[error("the relay at {} has no way to the server now: {reason}", path.display())]
    Away {
        /// Its socket.
        path: PathBuf,
        /// What it says.
        reason: String,
    },
}

impl ParentError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            ParentError::Nobody { .. } => {
                "start that relay first, with `hq pull relay --socket PATH`, or name the socket of one that runs with --parent: \
                 each relay prints its own when it starts"
            }
            ParentError::Silent { .. } => "look at the process that has the socket; it may be stopped",
            ParentError::NoRelay { .. } => {
                "name the socket of a relay with --parent: each prints its own when it starts, and `hq pull env` prints that of \
                 this node"
            }
            ParentError::Early { .. } | ParentError::Release { .. } => {
                "use the same release of hq for all relays of a tree: start the older one again with the newer hq"
            }
            ParentError::Refused { .. } => "name the socket of another relay with --parent",
            ParentError::Loop { .. } => {
                "name the socket of a relay with --parent that is nearer to the server, and give this one a socket of its own with \
                 --socket"
            }
            ParentError::Deep { .. } => {
                "name the socket of a relay with --parent that is nearer to the server"
            }
            ParentError::Away { .. } => "wait until it has, or look at its log",
        }
    }

    /// True where nothing but other arguments helps.
    pub fn is_usage(&self) -> bool {
        matches!(self, ParentError::Loop { .. } | ParentError::Deep { .. })
    }

    /// True when there is not even a socket.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, ParentError::Nobody { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

// What the one below says of itself.
#[derive(Serialize, Deserialize)]
struct FromBelow {
    relay: String,
}

// What the one above says: itself, and all that are above it, the nearest first.
#[derive(Serialize, Deserialize)]
struct FromAbove {
    relays: Vec<String>,
}

/// A connection to the relay above.
pub(crate) struct Climbed {
    pub(crate) sender: FrameSender,
    pub(crate) receiver: FrameReceiver,
    /// All relays above, the nearest first.
    pub(crate) relays: Vec<String>,
}

/// Says to the relay that listens at a path what the one of this name wants.
pub(crate) async fn climb(path: &Path, own: &str, wish: Wish) -> Result<Climbed, ParentError> {
    let nobody = |source| ParentError::Nobody { path: path.to_owned(), source };
    let stream = socket::connect_within(path).await.map_err(nobody)?;
    match timeout(HANDSHAKE_TIME_MAX, Upward { path, own }.introduce(stream, wish)).await {
        Ok(climbed) => climbed,
        Err(_) => Err(ParentError::Silent { path: path.to_owned() }),
    }
}

struct Upward<'a> {
    path: &'a Path,
    own: &'a str,
}

impl Upward<'_> {
    async fn introduce(&self, stream: UnixStream, wish: Wish) -> Result<Climbed, ParentError> {
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        let cut = |error: io::Error| self.no_relay(format!("it ended the connection: {error}"));
        write.write_all(&[FIRST_BYTE, wish.byte(), b'\n']).await.map_err(cut)?;
        match read.fill_buf().await.map_err(cut)?.first() {
            None => return Err(self.no_relay("it ended the connection".to_owned())),
            Some(&FIRST_BYTE) => read.consume(1),
            Some(_) => return Err(self.refused(read).await),
        }
        let (mut sender, mut receiver) =
            greet_over(read, write, wish.role()).await.map_err(|error| self.misunderstood(error))?;
        let (ours, theirs) = (Hello::current(wish.role()).release, receiver.peer().release.clone());
        if ours != theirs {
            return Err(ParentError::Release { path: self.path.to_owned(), ours, theirs });
        }
        let cut = |error: hq_net::NetError| self.no_relay(error.to_string());
        sender.send(&text_of(&FromBelow { relay: self.own.to_owned() })).await.map_err(cut)?;
        sender.flush().await.map_err(cut)?;
        receiver.set_limit(INTRODUCTION_BYTES_MAX);
        let said = receiver.next().await.map_err(cut)?.unwrap_or_default();
        receiver.set_limit(frame_max(wish.role()));
        let FromAbove { relays } =
            serde_json::from_slice(&said).map_err(|error| self.no_relay(error.to_string()))?;
        match () {
            () if relays.iter().any(|relay| relay == self.own) => {
                Err(ParentError::Loop { path: self.path.to_owned(), own: self.own.to_owned() })
            }
            () if relays.len() > RELAYS_ABOVE_MAX => Err(ParentError::Deep { path: self.path.to_owned() }),
            () => Ok(Climbed { sender, receiver, relays }),
        }
    }

    // What is said in lines of JSON to somebody who is not served.
    async fn refused(&self, read: impl AsyncBufReadExt + Unpin) -> ParentError {
        let mut line = Vec::new();
        let read = read.take(INTRODUCTION_BYTES_MAX as u64).read_until(b'\n', &mut line).await;
        let answer: Value = read.ok().and_then(|_| serde_json::from_slice(&line).ok()).unwrap_or_default();
        let path = self.path.to_owned();
        match (answer["error"]["code"].as_str(), answer["error"]["message"].as_str()) {
            (Some("bad-request"), _) => ParentError::Early { path },
            (Some(_), Some(message)) => ParentError::Refused { path, reason: message.to_owned() },
            _ => self.no_relay("it answers something else".to_owned()),
        }
    }

    fn misunderstood(&self, error: Misunderstanding) -> ParentError {
        match error {
            Misunderstanding::Version(error) => ParentError::Release {
                path: self.path.to_owned(),
                ours: error.our_release,
                theirs: error.their_release,
            },
            error => self.no_relay(error.to_string()),
        }
    }

    fn no_relay(&self, reason: String) -> ParentError {
        ParentError::NoRelay { path: self.path.to_owned(), reason }
    }
}

/// A relay that has come to this one.
pub(crate) struct Come {
    pub(crate) wish: Wish,
    /// What it says that it is.
    pub(crate) name: String,
    pub(crate) sender: FrameSender,
    pub(crate) receiver: FrameReceiver,
}

/// Hears what a relay wants that has come, and says which ones are above it: this one, and these.
pub(crate) async fn welcome(stream: UnixStream, relays: Vec<String>) -> Result<Come, String> {
    let welcomed = timeout(HANDSHAKE_TIME_MAX, introduce(stream, relays)).await;
    welcomed.unwrap_or_else(|_| Err("it has not said in time what it wants".to_owned()))
}

async fn introduce(stream: UnixStream, relays: Vec<String>) -> Result<Come, String> {
    let text = |error: io::Error| error.to_string();
    let (mut read, mut write) = stream.into_split();
    let mut preface = [0; PREFACE_BYTES];
    read.read_exact(&mut preface).await.map_err(text)?;
    let wish = match preface {
        [FIRST_BYTE, byte, b'\n'] => Wish::of(byte),
        _ => None,
    };
    let wish = wish.ok_or("it wants what this release does not know")?;
    write.write_all(&[FIRST_BYTE]).await.map_err(text)?;
    let (mut sender, mut receiver) =
        greet_over(read, write, wish.role()).await.map_err(|error| error.to_string())?;
    sender.send(&text_of(&FromAbove { relays })).await.map_err(|error| error.to_string())?;
    sender.flush().await.map_err(|error| error.to_string())?;
    receiver.set_limit(INTRODUCTION_BYTES_MAX);
    let said = receiver.next().await.map_err(|error| error.to_string())?.ok_or("it has gone")?;
    // What is passed on becomes a little longer.
    receiver.set_limit(frame_max(wish.role()) - LINE_HEAD_BYTES);
    let FromBelow { relay } = serde_json::from_slice(&said).map_err(|error| error.to_string())?;
    let name = relay.chars().filter(|c| !c.is_control()).collect();
    Ok(Come { wish, name, sender, receiver })
}

fn text_of(said: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(said).expect("texts have a JSON form")
}

/// The relays above one of this name that is below the one which listens at a path, the nearest first. To be called where no
/// event loop runs.
///
/// # Errors
/// When it cannot be below that one.
pub fn relays_above(path: &Path, own: &str) -> Result<Vec<String>, ParentError> {
    let nobody = |source| ParentError::Nobody { path: path.to_owned(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(nobody)?;
    runtime.block_on(climb(path, own, Wish::Nothing)).map(|climbed| climbed.relays)
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
    }

    // What a relay of the name `own` is told at the socket of one that is served like this.
    async fn told<F: Future<Output = ()>>(
        serve: impl FnOnce(UnixStream) -> F,
    ) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).expect("a free path");
        let served = async {
            let (stream, _) = listener.accept().await.expect("somebody comes");
            serve(stream).await;
        };
        let (climbed, ()) = tokio::join!(climb(&path, "own", Wish::Nothing), served);
        let place = path.display().to_string();
        climbed.map(|climbed| climbed.relays).map_err(|error| error.to_string().replace(&place, "PATH"))
    }

    async fn below(relays: &[&str]) -> Result<Vec<String>, String> {
        let relays = relays.iter().map(|&relay| relay.to_owned()).collect();
        told(|stream| async {
            let come = welcome(stream, relays).await.expect("a relay");
            assert_eq!((come.wish, come.name.as_str()), (Wish::Nothing, "own"));
        })
        .await
    }

    #[test]
    fn each_knows_which_relays_are_above_it_and_is_not_one_of_them() {
        run(async {
            assert_eq!(below(&["a", "b"]).await, Ok(vec!["a".to_owned(), "b".to_owned()]));
            let error = below(&["a", "own"]).await.expect_err("it goes in a circle");
            assert_eq!(error, "the relay at PATH is this one or below this one, own");
            let error = below(&["a"; RELAYS_ABOVE_MAX + 1]).await.expect_err("too many");
            assert_eq!(error, "above the relay at PATH there are 16 others already");
        });
    }

    #[test]
    fn what_is_no_relay_or_takes_none_is_told_from_what_it_answers() {
        async fn says(text: &'static str) -> String {
            let error = told(|mut stream| async move {
                stream.read_exact(&mut [0; PREFACE_BYTES]).await.expect("a preface");
                stream.write_all(text.as_bytes()).await.expect("somebody reads");
            });
            error.await.expect_err("no relay")
        }
        run(async {
            let early = r#"{"error":{"code":"bad-request","message":"no JSON"}}"#;
            assert_eq!(
                says(early).await,
                "the relay at PATH is of an earlier release of hq, which takes no relays below it"
            );
            let full = r#"{"error":{"code":"full","message":"it has no room"}}"#;
            assert_eq!(says(full).await, "the relay at PATH refuses one below it: it has no room");
            for (text, reason) in [
                ("", "it ended the connection"),
                ("HTTP/1.1 400 Bad Request\r\n\r\n", "it answers something else"),
                // A hello that says nothing; it may not be heard before the end.
                ("\x03\0\0\0\0", ""),
            ] {
                let error = says(text).await;
                assert!(
                    error.starts_with("what listens at PATH is no relay: ") && error.contains(reason),
                    "{error}"
                );
            }
        });
    }

    #[test]
    fn who_is_not_there_is_named_with_a_way_out() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let error = relays_above(&dir.path().join("nobody"), "own").expect_err("nobody is there");
        assert!(error.is_missing() && error.to_string().contains("/nobody: "), "{error}");
        assert!(error.hint().contains("hq pull relay --socket"));
    }
}
