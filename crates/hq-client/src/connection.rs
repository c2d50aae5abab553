//! One connection to a server: numbered requests, and answers that may arrive in between.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_net::{ConnectError, Endpoint, FrameReceiver, FrameSender, NetError, Role};

use crate::error::ClientError;
use crate::limits;
use crate::too_large::TooLarge;

// The last one of this process.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Why there is no answer.
pub(crate) enum NoAnswer {
    /// There will be none over any connection; this one goes on.
    TooLarge(TooLarge),
    /// How the connection was lost.
    Lost(String),
}

impl From<String> for NoAnswer {
    fn from(lost: String) -> NoAnswer {
        NoAnswer::Lost(lost)
    }
}

impl From<NoAnswer> for ClientError {
    fn from(reason: NoAnswer) -> ClientError {
        match reason {
            NoAnswer::TooLarge(error) => ClientError::TooLarge(error),
            NoAnswer::Lost(lost) => ClientError::Lost(lost),
        }
    }
}

/// A live connection.
pub(crate) struct Connection {
    sender: FrameSender,
    receiver: FrameReceiver,
    // Answers read while another one was looked for.
    early: VecDeque<(u64, ClientResponse)>,
    last_request: u64,
    /// Tells it from those before.
    pub(crate) number: u64,
}

impl Connection {
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Connection, ConnectError> {
        let (sender, receiver) = hq_net::connect(endpoint, Role::Client).await?;
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Connection { sender, receiver, early: VecDeque::new(), last_request: 0, number })
    }

    /// Sends requests in one go and gives the number of the last. What is too large is looked for in all of them first, so
    /// that it does not cost its encoded form.
    pub(crate) async fn send(&mut self, requests: &[&ClientRequest]) -> Result<u64, NoAnswer> {
        requests.iter().try_for_each(|request| TooLarge::check(request)).map_err(NoAnswer::TooLarge)?;
        for request in requests {
            let frame = hq_proto::encode_client_request(self.last_request + 1, request);
            match self.sender.send(&frame).await {
                Ok(()) => self.last_request += 1,
                Err(NetError::TooLarge { length, limit }) => {
                    return Err(NoAnswer::TooLarge(TooLarge::of(request, length, limit)));
                }
                Err(error) => return Err(NoAnswer::Lost(error.to_string())),
            }
        }
        self.sender.flush().await.map_err(|e| e.to_string())?;
        Ok(self.last_request)
    }

    /// The next answer to any request, with its number. Nothing is lost when it is dropped before it is done.
    pub(crate) async fn any(&mut self) -> Result<(u64, ClientResponse), String> {
        if let Some(early) = self.early.pop_front() {
            return Ok(early);
        }
        let frame = self.receiver.next().await.map_err(|e| e.to_string())?;
        let frame = frame.ok_or("it closed the connection")?;
        hq_proto::decode_client_response(&frame).map_err(|e| e.to_string())
    }

    /// The next answer to that request. Nothing is lost when it is dropped before it is done.
    pub(crate) async fn answer(&mut self, request: u64) -> Result<ClientResponse, String> {
        let at = self.early.iter().position(|(number, _)| *number == request);
        if let Some((_, response)) = at.and_then(|at| self.early.remove(at)) {
            return Ok(response);
        }
        loop {
            let frame = self.receiver.next().await.map_err(|e| e.to_string())?;
            let frame = frame.ok_or("it closed the connection")?;
            let (number, response) = hq_proto::decode_client_response(&frame).map_err(|e| e.to_string())?;
            if number == request {
                return Ok(response);
            }
            if self.early.len() >= limits::EARLY_RESPONSES_MAX {
                return Err("it sent too much unrequested data".into());
            }
            self.early.push_back((number, response));
        }
    }
}
