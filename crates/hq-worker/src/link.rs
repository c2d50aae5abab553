//! The worker's connection to its server: found, used, and found again.

use hq_net::queue::{QueueReceiver, QueueSender, bounded_bytes};
use hq_net::{Backoff, ConnectError, FrameReceiver, FrameSender, NetError, Role, connect};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::limits;
use crate::options::{ServerSource, WorkerError};

/// A connection: frames come in through `receiver`; what is sent waits in a queue and never holds up the
/// worker's loop.
pub(crate) struct Connection {
    pub(crate) receiver: FrameReceiver,
    queue: QueueSender<Vec<u8>>,
    writer: JoinHandle<Result<(), NetError>>,
}

impl Connection {
    fn new(sender: FrameSender, receiver: FrameReceiver) -> Connection {
        let (queue, frames) = bounded_bytes(limits::SEND_QUEUE_MAX);
        Connection { receiver, queue, writer: tokio::spawn(write(sender, frames)) }
    }

    /// Sends a frame soon.
    ///
    /// # Errors
    /// The reason for people when the connection is of no more use.
    pub(crate) fn send(&self, frame: Vec<u8>) -> Result<(), String> {
        if self.queue.is_closed() {
            return Err("the server is gone".to_owned());
        }
        let bytes = frame.len();
        self.queue.try_push(frame, bytes).map_err(|full| format!("the server does not read: {full}"))
    }

    /// Nothing waits to be written to the server.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.queue.bytes() == 0
    }

    /// Lets everything leave, says goodbye, and waits until the server has heard it: who sees the worker's
    /// process end finds the server knowing.
    pub(crate) async fn close(mut self) {
        drop(self.queue);
        match timeout(limits::FAREWELL_LIMIT, self.writer).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => debug!(%error, "the last words did not reach the server"),
            Ok(Err(error)) => warn!(%error, "the writer of the connection failed"),
            Err(_) => debug!("the server did not take the last words in time"),
        }
        let goodbye = async { while let Ok(Some(_)) = self.receiver.next().await {} };
        if timeout(limits::FAREWELL_LIMIT, goodbye).await.is_err() {
            debug!("the server did not say goodbye in time");
        }
    }
}

async fn write(mut sender: FrameSender, mut frames: QueueReceiver<Vec<u8>>) -> Result<(), NetError> {
    while let Some(frame) = frames.recv().await {
        sender.send(&frame).await?;
        // What has come together leaves together.
        while let Some(frame) = frames.try_recv() {
            sender.send(&frame).await?;
        }
        sender.flush().await?;
    }
    sender.close().await
}

/// The first connection: so many attempts, then the worker gives up.
pub(crate) async fn first(source: ServerSource) -> Result<Connection, WorkerError> {
    let mut attempt = 1;
    let mut backoff = Backoff::new(limits::CONNECT_PAUSE, limits::CONNECT_PAUSE);
    loop {
        // What is wrong with the access file at the start does not get better by waiting.
        let endpoint = source.endpoint()?;
        match connect(&endpoint, Role::Worker).await {
            Ok((sender, receiver)) => return Ok(Connection::new(sender, receiver)),
            Err(error) if error.is_transient() && attempt < limits::CONNECT_ATTEMPTS => {
                warn!(%error, attempt, attempts_max = limits::CONNECT_ATTEMPTS, "no server yet, trying again");
            }
            Err(source) => return Err(WorkerError::Connect { attempts: attempt, source }),
        }
        attempt += 1;
        sleep(backoff.next_pause()).await;
    }
}

/// A further connection. Tries until it succeeds; when to give up is the machine's decision.
pub(crate) async fn again(source: ServerSource) -> Connection {
    let mut backoff = Backoff::new(limits::RECONNECT_PAUSE_MIN, limits::RECONNECT_PAUSE_MAX);
    loop {
        sleep(backoff.next_pause()).await;
        match attempt(&source).await {
            Ok(connection) => return connection,
            Err(error) => info!(%error, "the server is not back yet"),
        }
    }
}

async fn attempt(source: &ServerSource) -> Result<Connection, AttemptError> {
    let (sender, receiver) = connect(&source.endpoint()?, Role::Worker).await?;
    Ok(Connection::new(sender, receiver))
}

#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error(transparent)]
    Access(#[from] hq_net::AccessError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
}
