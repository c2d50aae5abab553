//! The exchange of hellos, with which both sides of a new connection begin.

use hq_proto::{Hello, ProtoError, Role, VersionError, decode_hello, encode_hello};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::frame::{FrameReceiver, FrameSender, NetError, frames};
use crate::limits::frame_max;

/// Who is at the other end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// What it is, which its key has proved; unknown before that.
    pub role: Option<Role>,
    /// The protocol version that both speak.
    pub version: u32,
    /// Its release of hq.
    pub release: String,
}

/// Why two peers did not come to an understanding.
#[derive(Debug, thiserror::Error)]
pub enum Misunderstanding {
    /// The connection broke, or a frame was too large.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Nothing was said.
    #[error("the other side closed the connection instead of saying hello")]
    Silence,
    /// What was said is no hello.
    #[error(transparent)]
    Hello(#[from] ProtoError),
    /// They are not what the other one expects.
    #[error("the other side expects a {theirs}, this side is a {ours}")]
    Role {
        /// What this side is.
        ours: Role,
        /// What the other side expects.
        theirs: Role,
    },
    /// No protocol version in common.
    #[error(transparent)]
    Version(Box<VersionError>),
}

/// Says hello over two streams that have proved by other means who speaks, and hears it: after that both sides send frames, as
/// over a connection of this role.
///
/// # Errors
/// When the other side says something else, or speaks no version that this one does.
pub async fn greet_over(
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    role: Role,
) -> Result<(FrameSender, FrameReceiver), Misunderstanding> {
    let (mut sender, mut receiver) = frames(Box::new(read), Box::new(write));
    greet(&mut sender, &mut receiver, &Hello::current(role)).await?;
    Ok((sender, receiver))
}

/// Says hello, hears it, and raises the limits of the connection to what `role` may say.
pub(crate) async fn greet(
    sender: &mut FrameSender,
    receiver: &mut FrameReceiver,
    ours: &Hello,
) -> Result<(), Misunderstanding> {
    sender.send(&encode_hello(ours)).await?;
    sender.flush().await?;
    let theirs = receiver.next().await?.ok_or(Misunderstanding::Silence)?;
    let theirs = decode_hello(&theirs)?;
    let version = ours.agree(&theirs).map_err(|e| Misunderstanding::Version(Box::new(e)))?;
    if ours.role != theirs.role {
        return Err(Misunderstanding::Role { ours: ours.role, theirs: theirs.role });
    }
    sender.set_limit(frame_max(ours.role));
    receiver.set_limit(frame_max(ours.role));
    receiver.set_peer(Peer { role: Some(theirs.role), version, release: theirs.release });
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex, split};

    use super::*;

    #[tokio::test]
    async fn two_that_know_each_other_say_hello_over_any_streams() {
        let (near, far) = duplex(64);
        let greet = |end, role| {
            let (read, write) = split(end);
            greet_over(read, write, role)
        };
        let (near, far) = tokio::join!(greet(near, Role::Worker), greet(far, Role::Worker));
        let ((mut sender, receiver), (_, mut heard)) = (near.expect("a hello"), far.expect("a hello"));
        assert_eq!(receiver.peer(), heard.peer());
        sender.send(b"a word").await.expect("somebody reads");
        sender.flush().await.expect("somebody reads");
        assert_eq!(heard.next().await.expect("a frame"), Some(b"a word".to_vec()));
        let (near, mut far) = duplex(64);
        far.write_all(b"HTTP/1.1 400 Bad Request").await.expect("room");
        let (read, write) = split(near);
        let error = greet_over(read, write, Role::Client).await.map(drop).expect_err("no hello");
        assert!(matches!(error, Misunderstanding::Net(NetError::TooLarge { .. })), "{error}");
    }
}
