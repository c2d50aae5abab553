//! What pullers on other nodes say travels to a relay over the server's port for clients: parts of it, in frames.
//!
//! Both ends of that way do the same: what a socket says is sent as frames, and what frames bring is said to the socket. At one
//! end the socket is that of a relay, at the other that of a puller.

use std::io;
use std::os::fd::AsFd;

use hq_net::limits::PULLER_FRAME_MAX;
use hq_net::{AccessError, AccessFile, ConnectError, FrameReceiver, FrameSender, NetError, Role};
use hq_proto::{Passage, decode_passage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Why there is no way to a relay.
#[derive(Debug, thiserror::Error)]
pub enum PassageError {
    /// There is no access file that says where.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Nobody answers there, or lets this one in.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server has none.
    #[error("the server has no relay for pullers: {0}")]
    Refused(String),
    /// The connection has ended before anything was said, or what was said is nothing.
    #[error("the server did not say which relay answers: {0}")]
    Cut(String),
    /// The system refuses what is needed here.
    #[error("there is no way to the server from here: {0}")]
    System(#[from] io::Error),
}

/// A way to a relay that a server has opened.
pub(crate) struct Way {
    /// The process of the relay.
    pub(crate) relay: u32,
    sender: FrameSender,
    receiver: FrameReceiver,
}

/// Connects as a puller.
pub(crate) async fn open(access: &AccessFile) -> Result<Way, PassageError> {
    let (sender, mut receiver) = hq_net::connect(access.endpoint(Role::Puller)?, Role::Puller).await?;
    let first = receiver.next().await.map_err(|error| PassageError::Cut(error.to_string()))?;
    let first = first.ok_or_else(|| PassageError::Cut("it said goodbye".to_owned()))?;
    match decode_passage(&first).map_err(|error| PassageError::Cut(error.to_string()))? {
        Passage::Relay(relay) => Ok(Way { relay, sender, receiver }),
        Passage::Refused(reason) => Err(PassageError::Refused(reason)),
    }
}

impl Way {
    /// Passes on what a puller says and is answered, until one side has gone.
    pub(crate) async fn pass(self, socket: UnixStream) -> Result<(), NetError> {
        pass(socket, self.sender, self.receiver).await
    }
}

/// Passes on what is said at a socket and what comes in frames, until both sides have said all, or one has gone.
///
/// # Errors
/// Says who has gone, and how.
pub async fn pass(socket: UnixStream, sender: FrameSender, receiver: FrameReceiver) -> Result<(), NetError> {
    let (reading, writing) = socket.into_split();
    tokio::try_join!(there(reading, sender), back(receiver, writing)).map(drop)
}

async fn there(mut reading: OwnedReadHalf, mut sender: FrameSender) -> Result<(), NetError> {
    let mut bytes = vec![0; PULLER_FRAME_MAX];
    loop {
        match reading.read(&mut bytes).await.map_err(NetError::Io)? {
            // Who sends no more may still hear, as `nc` does; who has gone does not.
            0 if has_gone(reading.as_ref()) => return Err(NetError::Cut),
            0 => return sender.close().await,
            count => {
                sender.send(&bytes[..count]).await?;
                sender.flush().await?;
            }
        }
    }
}

async fn back(mut receiver: FrameReceiver, mut writing: OwnedWriteHalf) -> Result<(), NetError> {
    while let Some(said) = receiver.next().await? {
        writing.write_all(&said).await.map_err(NetError::Io)?;
    }
    writing.shutdown().await.map_err(NetError::Io)
}

/// True when whoever was at the other end of a socket is not there any more, and does not hear either.
pub(crate) fn has_gone(socket: &impl AsFd) -> bool {
    let mut descriptors = [PollFd::new(socket, PollFlags::empty())];
    let is_looked = poll(&mut descriptors, Some(&Timespec::default())).is_ok();
    is_looked && descriptors[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use hq_net::frames_over;

    use super::*;

    // Two ends of a way: who speaks at one, and who hears at the other.
    fn way() -> (UnixStream, UnixStream, [tokio::task::JoinHandle<Result<(), NetError>>; 2]) {
        let (near, far) = tokio::io::duplex(PULLER_FRAME_MAX);
        let ends = [near, far].map(|end| {
            let (read, write) = tokio::io::split(end);
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            let (sender, receiver) = frames_over(read, write, Role::Puller);
            (ours, tokio::spawn(pass(theirs, sender, receiver)))
        });
        let [(puller, near), (relay, far)] = ends;
        (puller, relay, [near, far])
    }

    #[tokio::test]
    async fn what_is_said_comes_through_in_both_directions_and_who_has_said_all_still_hears() {
        let (mut puller, mut relay, passing) = way();
        let long: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
        let speak = async {
            puller.write_all(&long).await.expect("somebody reads");
            puller.shutdown().await.expect("open");
            let mut heard = Vec::new();
            puller.read_to_end(&mut heard).await.expect("an answer");
            heard
        };
        let answer = async {
            let mut heard = Vec::new();
            relay.read_to_end(&mut heard).await.expect("a question");
            relay.write_all(&heard).await.expect("somebody reads");
            drop(relay);
        };
        let (heard, ()) = tokio::join!(speak, answer);
        assert!(heard == long, "{} bytes came back", heard.len());
        let [near, far] = passing;
        drop(puller);
        let (near, far) = (near.await.expect("no panic"), far.await.expect("no panic"));
        assert!(far.is_err(), "the relay has gone: {near:?} {far:?}");
    }

    #[tokio::test]
    async fn who_has_gone_is_missed_at_the_other_end() {
        let (puller, mut relay, [near, _]) = way();
        drop(puller);
        assert!(matches!(near.await.expect("no panic"), Err(NetError::Cut)));
        assert_eq!(relay.read(&mut [0]).await.expect("an end"), 0);
    }
}
