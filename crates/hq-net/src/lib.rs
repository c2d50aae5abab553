//! Connections of Headquarters: who may join (access files and keys), mutual TLS with pinned keys,
//! frames, and queues bounded by bytes.
//!
//! [`connect()`] and [`Listener::handshake`] end alike: with a [`FrameSender`] and a [`FrameReceiver`]
//! between two peers that have proved their keys and speak a common version of the protocol.

pub mod access;
mod ahead;
mod backoff;
mod connect;
mod frame;
mod half_open;
pub mod half_said;
mod handshake;
mod keys;
pub mod limits;
mod listen;
pub mod queue;
mod silent;
mod socket;
mod tls;
pub mod trust;
pub mod worker_secret;

pub use access::{AccessError, AccessFile, Endpoint, NO_SERVER_DIR, has_no_server};
pub use backoff::Backoff;
pub use connect::{ConnectError, connect};
pub use frame::{FrameReceiver, FrameSender, NetError, frames_over};
pub use half_said::HalfSaid;
pub use handshake::{Misunderstanding, Peer, greet_over};
pub use hq_proto::Role;
pub use keys::{KeyError, Keys, PublicKey, SecretKey};
pub use listen::{ANY_ADDRESS, HandshakeError, Incoming, ListenError, Listener};
