//! How a running task asks its worker for processes on its nodes.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use hq_core::node_messages::{FromNode, ToNode};
use hq_model::{Instance, JobId, TaskId, TaskRef, WorkerId};
use hq_net::{FrameReceiver, FrameSender, Role, frames_over};
use hq_proto::{decode_from_node, encode_to_node};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::sleep;

use super::socket_beside;
use crate::limits::SOCKET_LOOK;
use crate::socket::{check_listener, may_come_back};

/// Why a node cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The caller is no task.
    #[error("HQ_ACCESS_KEY is missing or damaged; this works only inside a running task")]
    Key,
    /// The worker is not there, or went.
    #[error("the worker of this task cannot be reached: {0}")]
    Unreachable(#[source] io::Error),
    /// It does not take it.
    #[error("node {node}: {reason}")]
    Refused {
        /// Which, from 0.
        node: u32,
        /// Its words.
        reason: String,
    },
    /// The connection to a node ended.
    #[error("node {node} is lost")]
    Lost {
        /// Which, from 0.
        node: u32,
    },
}

/// A node of the task that calls this.
pub struct Node {
    number: u32,
    sender: FrameSender,
    receiver: FrameReceiver,
}

/// What can be asked of a node.
pub struct Asking(FrameSender);

/// What a node says.
pub struct Saying {
    number: u32,
    receiver: FrameReceiver,
}

impl Node {
    /// Reaches a node of the task whose `HQ_ACCESS_KEY` this is. To be called within a tokio runtime.
    ///
    /// # Errors
    /// When the key is none, or the node cannot be reached.
    pub async fn open(access_key: &[u8], node: u32) -> Result<Node, NodeError> {
        let split = access_key.iter().rposition(|byte| *byte == b':').ok_or(NodeError::Key)?;
        let (path, token) = (&access_key[..split], &access_key[split + 1..]);
        if path.is_empty() || token.is_empty() {
            return Err(NodeError::Key);
        }
        let path = socket_beside(Path::new(OsStr::from_bytes(path)));
        let mut stream = connect(&path).await.map_err(NodeError::Unreachable)?;
        let listener = stream.peer_cred().map_err(NodeError::Unreachable)?;
        check_listener(listener.uid()).map_err(NodeError::Unreachable)?;
        stream.write_all(&[token, b"\n"].concat()).await.map_err(NodeError::Unreachable)?;
        let (read, write) = stream.into_split();
        let (sender, receiver) = frames_over(read, write, Role::Worker);
        let mut node = Node { number: node, sender, receiver };
        // The worker knows by the token which task it is.
        let nobody = TaskRef::new(JobId(0), TaskId(0));
        let (number, worker) = (node.number, WorkerId(0));
        let hello = ToNode::Hello { task: nobody, instance: Instance(0), worker, node: number };
        send(&mut node.sender, &hello).await?;
        match next(&mut node.receiver, number).await? {
            FromNode::Started { .. } => Ok(node),
            FromNode::Refused { reason, .. } => Err(NodeError::Refused { node: number, reason }),
            _ => Err(NodeError::Lost { node: number }),
        }
    }

    /// Its two directions, which are used at the same time.
    pub fn split(self) -> (Asking, Saying) {
        (Asking(self.sender), Saying { number: self.number, receiver: self.receiver })
    }
}

impl Asking {
    /// Asks.
    ///
    /// # Errors
    /// When the worker is gone.
    pub async fn ask(&mut self, message: &ToNode) -> Result<(), NodeError> {
        send(&mut self.0, message).await
    }
}

impl Saying {
    /// Which node it is, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Waits for what it says.
    ///
    /// # Errors
    /// When it is lost.
    pub async fn next(&mut self) -> Result<FromNode, NodeError> {
        next(&mut self.receiver, self.number).await
    }
}

async fn connect(path: &Path) -> io::Result<UnixStream> {
    let since = Instant::now();
    loop {
        match UnixStream::connect(path).await {
            Err(error) if may_come_back(&error, since) => sleep(SOCKET_LOOK).await,
            connected => return connected,
        }
    }
}

async fn send(sender: &mut FrameSender, message: &ToNode) -> Result<(), NodeError> {
    let error = |error| NodeError::Unreachable(io::Error::other(error));
    sender.send(&encode_to_node(message)).await.map_err(error)?;
    sender.flush().await.map_err(error)
}

async fn next(receiver: &mut FrameReceiver, node: u32) -> Result<FromNode, NodeError> {
    let frame = receiver.next().await.ok().flatten().ok_or(NodeError::Lost { node })?;
    decode_from_node(&frame).map_err(|error| NodeError::Refused { node, reason: error.to_string() })
}
