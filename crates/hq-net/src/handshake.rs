//! The exchange of hellos, with which both sides of a new connection begin.

use hq_proto::{Hello, ProtoError, Role, VersionError, decode_hello, encode_hello};

use crate::frame::{FrameReceiver, FrameSender, NetError};
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
pub(crate) enum Misunderstanding {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("the other side closed the connection instead of saying hello")]
    Silence,
    #[error(transparent)]
    Hello(#[from] ProtoError),
    #[error("the other side expects a {theirs}, this side is a {ours}")]
    Role { ours: Role, theirs: Role },
    #[error(transparent)]
    Version(Box<VersionError>),
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
