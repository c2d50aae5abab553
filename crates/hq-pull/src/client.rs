//! The relay's connection to the server as a client: many questions at once, asked again when it was lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_net::{AccessError, AccessFile, Backoff, FrameReceiver, FrameSender, Role};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

use crate::contract::{Problem, no_server};
use crate::limits;

/// Asks the server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    calls: mpsc::UnboundedSender<Call>,
    // The last attempt to reach the server has failed.
    is_away: watch::Receiver<bool>,
}

#[derive(Debug)]
struct Call {
    request: ClientRequest,
    answers: mpsc::UnboundedSender<ClientResponse>,
}

impl Client {
    /// Connects when there is something to ask. `gone` is told when the server has been stopped, as far as can be seen.
    pub(crate) fn start(access: PathBuf, gone: mpsc::UnboundedSender<()>) -> Client {
        let (calls, waiting) = mpsc::unbounded_channel();
        let (away, is_away) = watch::channel(false);
        tokio::task::spawn_local(Link { access, gone, away, waiting, open: BTreeMap::new(), last: 0 }.run());
        Client { calls, is_away }
    }

    /// The answer to a request that may be repeated. One that could not be sent to the server is not sent later.
    pub(crate) async fn ask(&self, request: ClientRequest) -> Result<ClientResponse, Problem> {
        let mut answers = self.follow(request);
        let mut is_away = self.is_away.clone();
        let stays_away = async {
            sleep(limits::SERVER_AWAY_MAX).await;
            // Without a link there is no answer, either.
            let _ = is_away.wait_for(|is_away| *is_away).await;
        };
        let answer = tokio::select! {
            answer = timeout(limits::SERVER_TIME_MAX, answers.recv()) => answer.ok().flatten(),
            () = stays_away => None,
        };
        match answer.ok_or_else(no_server)? {
            ClientResponse::Error(error) => Err(error.into()),
            answer => Ok(answer),
        }
    }

    /// All answers to a request, until they are dropped.
    pub(crate) fn follow(&self, request: ClientRequest) -> mpsc::UnboundedReceiver<ClientResponse> {
        let (answers, heard) = mpsc::unbounded_channel();
        // Where nobody listens any more, the relay ends.
        let _ = self.calls.send(Call { request, answers });
        heard
    }
}

struct Link {
    access: PathBuf,
    gone: mpsc::UnboundedSender<()>,
    away: watch::Sender<bool>,
    waiting: mpsc::UnboundedReceiver<Call>,
    open: BTreeMap<u64, Call>,
    last: u64,
}

impl Link {
    async fn run(mut self) {
        // Nobody is connected before there is something to ask.
        let Some(call) = self.waiting.recv().await else { return };
        self.last += 1;
        self.open.insert(self.last, call);
        loop {
            let (mut sender, mut receiver) = self.connect().await;
            self.away.send_replace(false);
            if let Err(error) = self.talk(&mut sender, &mut receiver).await {
                info!(%error, "the server is lost to questions");
            } else {
                return;
            }
        }
    }

    // Until the connection is lost; without error when nobody asks any more.
    async fn talk(&mut self, sender: &mut FrameSender, receiver: &mut FrameReceiver) -> Result<(), String> {
        self.drop_unheard();
        for (number, call) in &self.open {
            send(sender, *number, &call.request).await?;
        }
        sender.flush().await.map_err(|error| error.to_string())?;
        loop {
            tokio::select! {
                call = self.waiting.recv() => {
                    let Some(call) = call else { return Ok(()) };
                    if call.answers.is_closed() {
                        continue;
                    }
                    self.last += 1;
                    send(sender, self.last, &call.request).await?;
                    sender.flush().await.map_err(|error| error.to_string())?;
                    self.open.insert(self.last, call);
                }
                frame = receiver.next() => {
                    let frame = frame.map_err(|error| error.to_string())?.ok_or("it said goodbye")?;
                    self.hear(&frame)?;
                }
            }
        }
    }

    fn hear(&mut self, frame: &[u8]) -> Result<(), String> {
        let (number, response) =
            hq_proto::decode_client_response(frame).map_err(|error| error.to_string())?;
        let Some(call) = self.open.get(&number) else { return Ok(()) };
        let is_last = !response.is_followed();
        let is_unheard = call.answers.send(response).is_err();
        if is_last || is_unheard {
            self.open.remove(&number);
        }
        Ok(())
    }

    async fn connect(&mut self) -> (FrameSender, FrameReceiver) {
        let mut backoff = Backoff::new(limits::RECONNECT_PAUSE_MIN, limits::RECONNECT_PAUSE_MAX);
        let mut missing_since = None;
        loop {
            match attempt(&self.access).await {
                Ok(connection) => return connection,
                Err(Attempt::Missing) => {
                    let since = *missing_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > limits::STOPPED_AFTER {
                        let _ = self.gone.send(());
                    }
                }
                Err(Attempt::Other(error)) => {
                    missing_since = None;
                    debug!(%error, "the server is not there");
                }
            }
            self.away.send_replace(true);
            // Somebody who asks is not to wait for the rest of a long pause.
            tokio::select! {
                () = sleep(backoff.next_pause()) => {}
                Some(call) = self.waiting.recv() => {
                    self.last += 1;
                    self.open.insert(self.last, call);
                    backoff = Backoff::new(limits::RECONNECT_PAUSE_MIN, limits::RECONNECT_PAUSE_MAX);
                    sleep(limits::RECONNECT_PAUSE_MIN).await;
                }
            }
        }
    }

    // Who has waited for too long has gone, and has been told that nothing is done.
    fn drop_unheard(&mut self) {
        self.open.retain(|_, call| !call.answers.is_closed());
    }
}

enum Attempt {
    Missing,
    Other(String),
}

async fn attempt(access: &Path) -> Result<(FrameSender, FrameReceiver), Attempt> {
    let access = AccessFile::load(access).map_err(|error| match error {
        AccessError::Missing { .. } => Attempt::Missing,
        other => Attempt::Other(other.to_string()),
    })?;
    let endpoint = access.endpoint(Role::Client).map_err(|error| Attempt::Other(error.to_string()))?;
    hq_net::connect(endpoint, Role::Client).await.map_err(|error| Attempt::Other(error.to_string()))
}

async fn send(sender: &mut FrameSender, number: u64, request: &ClientRequest) -> Result<(), String> {
    let frame = hq_proto::encode_client_request(number, request);
    sender.send(&frame).await.map_err(|error| error.to_string())
}
