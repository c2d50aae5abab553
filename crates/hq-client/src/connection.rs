//! One connection to a server: numbered requests, and answers that may arrive in between.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_net::{ConnectError, Endpoint, FrameReceiver, FrameSender, Role};

use crate::limits;

// The last one of this process.
static LAST: AtomicU64 = AtomicU64::new(0);

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

    /// Sends requests in one go and gives the number of the last. The error says how the connection was lost.
    pub(crate) async fn send(&mut self, requests: &[&ClientRequest]) -> Result<u64, String> {
        for request in requests {
            self.last_request += 1;
            let frame = hq_proto::encode_client_request(self.last_request, request);
            self.sender.send(&frame).await.map_err(|e| e.to_string())?;
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
                return Err("it sent too much that was not asked for".into());
            }
            self.early.push_back((number, response));
        }
    }
}
