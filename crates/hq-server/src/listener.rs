//! A port of the server: accepts connections, lets each prove its key, reads what it says for the
//! deciding thread, and writes what it is sent.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hq_core::client_messages::{ClientResponse, RequestError};
use hq_core::server::{ConnectionId, Input};
use hq_core::worker_messages::{FromWorker, ToWorker};
use hq_net::queue::QueueReceiver;
use hq_net::{
    FrameReceiver, FrameSender, HalfSaid, HandshakeError, Incoming, Listener, NetError, Role, worker_secret,
};
use hq_proto::ProtoError;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::inbox::{Event, Inbox, Room};
use crate::limits::{CLIENT_QUEUE_BYTES_MAX, CLIENT_STALL_MAX, GOODBYE_TIME, WORKER_QUEUE_BYTES_MAX};
use crate::lines::{Lines, TooMany};
use crate::memory;
use crate::object_relay::ObjectRelay;
use crate::outbox::{Message, Outbox};
use crate::pullers::Pullers;
use crate::sendable;
use crate::throttle::Throttle;

/// A port for clients or workers.
#[derive(Debug)]
pub(crate) struct PeerListener {
    pub(crate) listener: Listener,
    /// Whom it is for; pullers come to the port for clients.
    pub(crate) role: Role,
    /// What is done for these, where there may be some.
    pub(crate) pullers: Option<Arc<Pullers>>,
    pub(crate) relay: Arc<ObjectRelay>,
    pub(crate) inbox: Arc<Inbox>,
    /// The last id of a connection; ids are unique over all ports.
    pub(crate) last_id: Arc<AtomicU64>,
    /// Connections that may still come, over all ports.
    pub(crate) places: Arc<Semaphore>,
    /// Bytes that wait to be sent by this listener.
    pub(crate) bytes_waiting: Arc<AtomicUsize>,
    /// What its peers have said of messages that are not complete.
    pub(crate) half_said: Arc<HalfSaid>,
    pub(crate) refusals: Mutex<Throttle>,
    pub(crate) cuts: Mutex<Throttle>,
}

/// Why a peer is not listened to any more.
#[derive(Debug, thiserror::Error)]
enum ReadEnd {
    #[error("it has left")]
    Left,
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("it violates the protocol: {0}")]
    Violation(#[from] ProtoError),
    #[error(transparent)]
    TooMany(#[from] TooMany),
}

impl ReadEnd {
    // The kernel of the other side said that the connection is over, as it does for a process that was killed.
    fn is_by_peer(&self) -> bool {
        matches!(self, ReadEnd::Left | ReadEnd::Net(NetError::Cut))
    }
}

impl PeerListener {
    /// Accepts connections for ever.
    pub(crate) async fn accept(self: Arc<Self>) {
        loop {
            let (incoming, peer) = self.listener.accept().await;
            let listener = self.clone();
            tokio::spawn(async move { listener.serve(incoming, peer).await });
        }
    }

    async fn serve(&self, incoming: Incoming, peer: SocketAddr) {
        let (mut sender, mut receiver) = match self.listener.handshake(incoming).await {
            Ok(connection) => connection,
            // Whoever looks whether a port is open does this.
            Err(HandshakeError::Closed) => return debug!(%peer, role = %self.role, "closed at once"),
            Err(error) => return self.refused(peer, &error),
        };
        let Ok(_place) = self.places.try_acquire() else {
            return self.refused(peer, &"no file descriptors are left; raise the limit (ulimit -n)");
        };
        receiver.count_in(self.half_said.clone());
        if receiver.peer().role == Some(Role::Puller) {
            return self.serve_puller(peer, sender, receiver).await;
        }
        let connection = ConnectionId(self.last_id.fetch_add(1, Ordering::Relaxed) + 1);
        let limit = match self.role {
            Role::Client | Role::Puller => CLIENT_QUEUE_BYTES_MAX,
            Role::Worker => WORKER_QUEUE_BYTES_MAX,
        };
        let is_client = self.role == Role::Client;
        if is_client {
            sender.set_patience(CLIENT_STALL_MAX);
        }
        let (outbox, queue) = Outbox::new(peer.to_string(), limit, self.bytes_waiting.clone());
        let outbox = Arc::new(outbox);
        // A client that has said nothing yet hears that the server ends.
        if is_client {
            self.inbox.push(Event::Opened(connection, outbox.clone()), Room::none());
        }
        let first = tokio::select! {
            first = receiver.next() => first,
            () = outbox.closing() => {
                let _ = timeout(GOODBYE_TIME, sender.close()).await;
                return self.gone(connection, false);
            }
        };
        let first = match first {
            Ok(Some(frame)) => frame,
            end => {
                match end {
                    Err(error @ (NetError::Unfinished { .. } | NetError::CutShort)) => self.cut(peer, &error),
                    end => debug!(%peer, role = %self.role, ?end, "said nothing"),
                }
                // Of others nobody knows.
                if is_client {
                    self.gone(connection, false);
                }
                return;
            }
        };
        if let Some(ask) = ObjectRelay::ask(&first, self.role) {
            if is_client {
                self.gone(connection, false);
            }
            let end = self.relay.serve(ask, self.role, (sender, receiver)).await;
            return debug!(%peer, role = %self.role, ?ask, ?end, "a relayed connection ended");
        }
        debug!(%peer, role = %self.role, connection = connection.0, "connected");
        if !is_client {
            self.inbox.push(Event::Opened(connection, outbox.clone()), Room::none());
        }
        let mut writer = tokio::spawn(write(sender, queue, outbox.clone()));
        let mut is_closed = false;
        let (inbox, last_id) = (Arc::clone(&self.inbox), Arc::clone(&self.last_id));
        let mut lines = Lines::new(inbox, last_id, connection, Arc::clone(&outbox));
        tokio::select! {
            end = self.read(&mut lines, connection, (Some(first), receiver), &outbox) => {
                is_closed = end.is_by_peer();
                match end {
                    ReadEnd::Net(error @ (NetError::Unfinished { .. } | NetError::CutShort)) => self.cut(peer, &error),
                    end @ (ReadEnd::Violation(_) | ReadEnd::TooMany(_)) => self.cut(peer, &end),
                    end => debug!(%peer, role = %self.role, %end, "disconnected"),
                }
            }
            end = &mut writer => match end {
                Ok(Err(error @ NetError::Stalled { .. })) => self.cut(peer, &error),
                end => {
                    is_closed = matches!(end, Ok(Err(NetError::Cut)));
                    debug!(%peer, role = %self.role, ?end, "disconnected");
                }
            },
            () = outbox.killed() => self.cut(peer, &"it does not read what is sent to it"),
            () = async { outbox.closing().await; sleep(GOODBYE_TIME).await } => {
                debug!(%peer, role = %self.role, "did not take its last messages");
            }
        }
        writer.abort();
        lines.all_gone(is_closed);
        self.gone(connection, is_closed);
    }

    fn gone(&self, connection: ConnectionId, is_closed: bool) {
        let gone = match self.role {
            Role::Client | Role::Puller => Input::ClientGone { connection },
            Role::Worker => Input::WorkerGone { connection, is_closed },
        };
        self.inbox.push(Event::input(gone), Room::none());
    }

    // What pullers say is for a relay, and not for the deciding thread.
    async fn serve_puller(&self, peer: SocketAddr, mut sender: FrameSender, receiver: FrameReceiver) {
        let Some(pullers) = &self.pullers else { return };
        // For the connection to the relay.
        let Ok(_place) = self.places.try_acquire() else {
            return self.refused(peer, &"no file descriptors are left; raise the limit (ulimit -n)");
        };
        sender.set_patience(CLIENT_STALL_MAX);
        debug!(%peer, role = %Role::Puller, "connected");
        match pullers.serve(sender, receiver).await {
            Err(error @ NetError::Stalled { .. }) => self.cut(peer, &error),
            end => debug!(%peer, role = %Role::Puller, ?end, "disconnected"),
        }
    }

    async fn read(
        &self,
        lines: &mut Lines,
        own: ConnectionId,
        (mut first, mut receiver): (Option<Vec<u8>>, FrameReceiver),
        outbox: &Outbox,
    ) -> ReadEnd {
        let result: Result<(), ReadEnd> = async {
            loop {
                let next = match first.take() {
                    Some(frame) => Some(frame),
                    None => receiver.next().await?,
                };
                let Some(frame) = next else { return Ok(()) };
                let speaker = match self.role {
                    Role::Client | Role::Puller => Some(own),
                    Role::Worker => lines.speaker(hq_proto::line_of(&frame)?)?,
                };
                let Some(connection) = speaker else { continue };
                let turn = match self.role {
                    Role::Client | Role::Puller => Some(outbox.turn().await),
                    Role::Worker => None,
                };
                let room = self.inbox.room(frame.len()).await;
                let room = turn.into_iter().fold(room, Room::with);
                self.understand(connection, &frame, room, outbox)?;
            }
        }
        .await;
        result.err().unwrap_or(ReadEnd::Left)
    }

    fn understand(
        &self,
        connection: ConnectionId,
        frame: &[u8],
        room: Room,
        outbox: &Outbox,
    ) -> Result<(), ProtoError> {
        match self.role {
            Role::Client | Role::Puller => match hq_proto::decode_client_request(frame) {
                Ok((request, body)) => {
                    if let Some(error) = sendable::refusal(&body) {
                        self.inbox.give_back(room);
                        outbox.send(Message::Answer(request, ClientResponse::Error(error)));
                        return Ok(());
                    }
                    self.inbox.push(Event::input(Input::Client { connection, request, body }), room);
                }
                Err(error) => {
                    self.inbox.give_back(room);
                    answer_refusal(frame, error, outbox)?;
                }
            },
            Role::Worker => match hq_proto::decode_from_worker(frame) {
                Ok(mut message) => {
                    if let FromWorker::Hello(hello) = &mut message {
                        hello.secret = hello.secret.map(worker_secret::kept);
                    }
                    let is_heartbeat = message == FromWorker::Heartbeat;
                    let event = Event::input(Input::Worker { connection, message });
                    if is_heartbeat {
                        self.inbox.push_heartbeat(event, room);
                    } else {
                        self.inbox.push(event, room);
                    }
                }
                Err(error) => {
                    self.inbox.give_back(room);
                    return Err(error);
                }
            },
        }
        Ok(())
    }

    fn refused(&self, peer: SocketAddr, reason: &dyn std::fmt::Display) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(others) = refusals.may_say(Instant::now()) {
            warn!(%peer, role = %self.role, %reason, others, "connection refused");
        }
    }

    fn cut(&self, peer: SocketAddr, reason: &dyn std::fmt::Display) {
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(others) = cuts.may_say(Instant::now()) {
            warn!(%peer, role = %self.role, %reason, others, "disconnected");
        }
    }
}

// A request that says what cannot be, or what only a later release knows, is refused by an answer; bytes that are no request
// are a violation.
fn answer_refusal(frame: &[u8], error: ProtoError, outbox: &Outbox) -> Result<(), ProtoError> {
    let Some(request) = hq_proto::request_number(frame).filter(|_| error.is_in_order()) else {
        return Err(error);
    };
    let text = match error.is_of_later_release() {
        true => format!("The server does not understand this request: {error}."),
        false => format!("The server refuses this request: {error}."),
    };
    outbox.send(Message::Answer(request, ClientResponse::Error(RequestError::Invalid(text))));
    Ok(())
}

// Writes all that is queued, flushing when nothing more waits. A message counts as waiting until it was sent.
async fn write(
    mut sender: FrameSender,
    mut queue: QueueReceiver<Message>,
    outbox: Arc<Outbox>,
) -> Result<(), NetError> {
    while let Some(first) = queue.recv_counted().await {
        let mut next = Some(first);
        while let Some((message, waiting)) = next {
            match message {
                Message::Close => return sender.close().await,
                Message::Worker(message) => say(&mut sender, message, |frame| frame).await?,
                Message::OnLine(line, message) => match *message {
                    Message::Worker(message) => {
                        say(&mut sender, message, |frame| hq_proto::on_line(frame, line)).await?;
                    }
                    // Nobody but workers has lines.
                    _ => sender.send(&hq_proto::end_of_line(line)).await?,
                },
                Message::Answer(request, body) => answer(&mut sender, request, body).await?,
            }
            drop(waiting);
            outbox.has_sent();
            next = queue.try_recv_counted();
        }
        sender.flush().await?;
    }
    sender.close().await
}

// To a worker, on its line.
async fn say(
    sender: &mut FrameSender,
    message: ToWorker,
    on_line: impl Fn(Vec<u8>) -> Vec<u8>,
) -> Result<(), NetError> {
    match message {
        ToWorker::Run(batches) => {
            for part in sendable::messages(batches) {
                sender.send(&on_line(hq_proto::encode_to_worker(&ToWorker::Run(part)))).await?;
            }
            Ok(())
        }
        message => sender.send(&on_line(hq_proto::encode_to_worker(&message))).await,
    }
}

async fn answer(sender: &mut FrameSender, request: u64, mut body: ClientResponse) -> Result<(), NetError> {
    if let ClientResponse::Overview(overview) = &mut body {
        // Here and not where it is decided, which waits for nobody.
        overview.process.memory_bytes = memory::in_use().unwrap_or_default();
    }
    let frame = hq_proto::encode_client_response(request, &body);
    drop(body);
    match sender.send(&frame).await {
        Err(NetError::TooLarge { length, limit }) => {
            let text = format!("The answer has {length} bytes, the limit is {limit}. Request less at once.");
            let error = ClientResponse::Error(RequestError::Invalid(text));
            sender.send(&hq_proto::encode_client_response(request, &error)).await
        }
        result => result,
    }
}
