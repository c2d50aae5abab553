//! The worker's ears for those who start processes: tasks on this node, and other workers on their behalf.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hq_core::node_messages::{Fetch, FromNode, ToNode};
use hq_core::worker_messages::TaskNode;
use hq_model::{Instance, TaskRef, WorkerId};
use hq_net::{ANY_ADDRESS, Endpoint, FrameReceiver, FrameSender, Keys, Listener, Role, connect, frames_over};
use hq_proto::{decode_from_node, decode_to_node, encode_from_node, encode_to_node};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::{Ask, AskStart, NO_PROCESS, Session, Silent, by_server};
use crate::limits::{
    KEPT_THERE_MAX, KEPT_TIME_THERE, NODE_ADDRESS_PAUSE, NODE_CONNECT_TIME, NODE_SESSIONS_MAX,
    NOTIFY_TIMEOUT, PROCESS_MESSAGES, TOKEN_BYTES_MAX,
};
use crate::notify::AccessKeys;
use crate::objects::{Connection, Kept, Objects, Peer};
use crate::options::ServerSource;
use crate::socket::Socket;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    keys: AccessKeys,
    asks: mpsc::Sender<Ask>,
    // For workers among themselves; `None` where nothing is encrypted, and so nobody can be known.
    peers: Option<Keys>,
    own: AtomicU32,
    // Where others find this worker: name and addresses.
    place: OnceLock<(String, String)>,
    sessions: AtomicU64,
    places: Arc<Semaphore>,
    objects: OnceLock<Arc<Objects>>,
    // Connections for objects that nobody uses now, to others and of others.
    kept: Arc<Kept>,
    kept_there: Semaphore,
    silent: Silent,
    // By way of the server either.
    absent: Silent,
    server: OnceLock<ServerSource>,
}

impl Shared {
    pub(crate) fn new(keys: AccessKeys, asks: mpsc::Sender<Ask>, endpoint: Option<&Endpoint>) -> Arc<Shared> {
        let peers = endpoint.and_then(|endpoint| endpoint.keys.as_ref()).map(keys_among_workers);
        Arc::new(Shared {
            keys,
            asks,
            peers,
            own: AtomicU32::new(0),
            place: OnceLock::new(),
            sessions: AtomicU64::new(0),
            places: Arc::new(Semaphore::new(NODE_SESSIONS_MAX)),
            objects: OnceLock::new(),
            kept: Arc::default(),
            kept_there: Semaphore::new(KEPT_THERE_MAX),
            silent: Silent::default(),
            absent: Silent::default(),
            server: OnceLock::new(),
        })
    }

    /// The server has given the worker its id.
    pub(crate) fn set_own(&self, worker: WorkerId) {
        self.own.store(worker.0, Ordering::Relaxed);
    }

    /// Where others find this worker.
    pub(crate) fn set_place(&self, hostname: &str, address: &str) {
        // It listens once.
        let _ = self.place.set((hostname.to_owned(), address.to_owned()));
    }

    /// Objects may pass by way of this server, where there is no other.
    pub(crate) fn set_server(&self, server: ServerSource) {
        // A worker has one server.
        let _ = self.server.set(server);
    }

    /// Somebody who cannot reach this worker waits at the server, under this number.
    pub(crate) fn give_by_server(self: &Arc<Shared>, ticket: u64) {
        let shared = self.clone();
        tokio::spawn(async move {
            let Some(server) = shared.server.get() else { return };
            let Ok(_place) = shared.places.acquire().await else { return };
            match by_server::come(server, ticket).await {
                Ok((sender, receiver)) => serve_worker(sender, receiver, &shared).await,
                Err(reason) => debug!(reason, "nobody comes for who waits at the server"),
            }
        });
    }

    /// From now on others may have objects of this worker.
    pub(crate) fn set_objects(&self, objects: Arc<Objects>) {
        // A worker has one store.
        let _ = self.objects.set(objects);
    }

    /// From now on connections of others end with what was asked, as those of earlier releases did.
    #[cfg(test)]
    pub(crate) fn keep_none(&self) {
        self.kept_there.close();
    }

    fn own(&self) -> WorkerId {
        WorkerId(self.own.load(Ordering::Relaxed))
    }
}

impl Peer for Shared {
    async fn ask(&self, place: &TaskNode, fetch: Fetch) -> Result<Connection, Unreached> {
        let Some(keys) = &self.peers else {
            let why = "workers fetch nothing from each other when the server does not encrypt";
            return Err(Unreached::NoWay(why.to_owned()));
        };
        let first = ToNode::Fetch(fetch);
        let asking = async {
            let again = match self.kept.take(place.worker).await {
                Some(connection) => ask_again(connection, &first).await,
                None => None,
            };
            match again {
                Some(answer) => answer,
                None => reach(place, keys, &first).await,
            }
        };
        self.silent.ask(place.worker, asking, Unreached::silent).await
    }

    async fn ask_by_server(&self, place: &TaskNode, fetch: Fetch) -> Result<Connection, String> {
        let server = self.server.get().ok_or("there is no other way")?;
        let server = server.endpoint().map_err(|error| error.to_string())?;
        let first = ToNode::Fetch(fetch);
        let asking = by_server::ask(&server, Role::Worker, place.worker, &first);
        let asked = self.absent.ask(place.worker, asking, Unreached::absent).await;
        asked.map_err(Unreached::text)
    }

    fn has_server(&self) -> bool {
        self.server.get().is_some()
    }

    fn place(&self) -> Option<TaskNode> {
        let (hostname, address) = self.place.get()?.clone();
        Some(TaskNode { worker: self.own(), hostname, address })
    }

    fn keep(&self, worker: WorkerId, connection: Connection) {
        self.kept.keep(worker, connection);
    }
}

/// What workers know each other by. All of them have one key: whoever shows it is a worker of this server, or somebody who
/// may start one.
pub(crate) fn keys_among_workers(keys: &Keys) -> Keys {
    let secret = &keys.secret;
    Keys { secret: secret.clone(), server: secret.public(), server_secret: Some(secret.clone()) }
}

/// Listens for tasks on this node, and for other workers when they can be known; the port for these.
/// To be called within a tokio runtime.
///
/// # Errors
/// When the system refuses a socket.
pub(crate) fn listen(socket: &Path, shared: &Arc<Shared>) -> io::Result<Option<u16>> {
    let listener = Socket::bind(socket)?;
    tokio::spawn(accept_tasks(listener, shared.clone()));
    let Some(keys) = shared.peers.clone() else { return Ok(None) };
    let endpoint = Endpoint { host: String::new(), port: 0, keys: Some(keys) };
    let listener = Listener::bind(ANY_ADDRESS, 0, &endpoint, Role::Worker).map_err(io::Error::other)?;
    let port = listener.port();
    tokio::spawn(accept_workers(listener, shared.clone()));
    Ok(Some(port))
}

/// Where other workers may find a port of this one: the address by which it reaches the server, unless only this node
/// knows that, and its name.
pub(crate) fn addresses(server: &Endpoint, hostname: &str, port: u16) -> String {
    let found =
        UdpSocket::bind((ANY_ADDRESS, 0)).or_else(|_| UdpSocket::bind(("0.0.0.0", 0))).and_then(|socket| {
            socket.connect((server.host.as_str(), server.port))?;
            Ok(socket.local_addr()?.ip())
        });
    let found = found.ok().map(|address| address.to_canonical());
    let shown = |address: IpAddr| match address {
        IpAddr::V4(address) => format!("{address}:{port}"),
        IpAddr::V6(address) => format!("[{address}]:{port}"),
    };
    let name = format!("{hostname}:{port}");
    match found {
        Some(address) if !address.is_loopback() => format!("{},{name}", shown(address)),
        Some(address) => format!("{name},{}", shown(address)),
        None => name,
    }
}

async fn accept_tasks(mut listener: Socket, shared: Arc<Shared>) {
    while let Ok(place) = shared.places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok(stream) => {
                let shared = shared.clone();
                tokio::spawn(async move {
                    if let Err(error) = serve_task(stream, &shared).await {
                        debug!(%error, "a connection for processes of a task ended");
                    }
                    drop(place);
                });
            }
            // Out of descriptors, most likely: others will give some back.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn accept_workers(listener: Listener, shared: Arc<Shared>) {
    let listener = Arc::new(listener);
    loop {
        let (incoming, address) = listener.accept().await;
        let (listener, shared) = (listener.clone(), shared.clone());
        tokio::spawn(async move {
            let (sender, receiver) = match listener.handshake(incoming).await {
                Ok(connection) => connection,
                Err(error) => return debug!(%address, %error, "a connection was turned away"),
            };
            // Strangers take no place: it is for those that have proved their key.
            if let Ok(_place) = shared.places.acquire().await {
                serve_worker(sender, receiver, &shared).await;
            }
        });
    }
}

// A task on this node: its token, then what it wants of which of its nodes.
async fn serve_task(mut stream: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let token = timeout(NOTIFY_TIMEOUT, read_line(&mut stream)).await??;
    let attempt = shared.keys.check(&token);
    let (read, write) = stream.into_split();
    let (mut sender, mut receiver) = frames_over(read, write, Role::Worker);
    let Some((task, instance)) = attempt else {
        return refuse(sender, "the token does not belong to a task of this worker").await;
    };
    let Some(first) = receiver.next().await.map_err(io::Error::other)? else { return Ok(()) };
    let Ok(ToNode::Hello { node, .. }) = decode_to_node(&first) else {
        return refuse(sender, "the first message is not a hello").await;
    };
    let (answer, place) = oneshot::channel();
    let ask = Ask::Where { task, instance, node, answer };
    let place = match shared.asks.send(ask).await {
        Ok(()) => place.await.unwrap_or_else(|_| Err("the worker is ending".to_owned())),
        Err(_) => Err("the worker is ending".to_owned()),
    };
    let place = match place {
        Ok(place) => place,
        Err(reason) => return refuse(sender, &reason).await,
    };
    if place.worker == shared.own() {
        greet(&mut sender).await?;
        session(sender, receiver, shared, task, instance, node).await;
        return Ok(());
    }
    let Some(keys) = &shared.peers else {
        let reason = "workers start nothing for each other when the server does not encrypt";
        return refuse(sender, reason).await;
    };
    let hello = ToNode::Hello { task, instance, worker: place.worker, node };
    match reach(&place, keys, &hello).await {
        Ok((there_sender, there_receiver)) => {
            greet(&mut sender).await?;
            tokio::select! {
                () = relay(receiver, there_sender) => {}
                () = relay(there_receiver, sender) => {}
            }
            Ok(())
        }
        Err(unreached) => refuse(sender, &unreached.text()).await,
    }
}

// Another worker: on behalf of a task that it leads, or for objects, one after the other.
async fn serve_worker(mut sender: FrameSender, mut receiver: FrameReceiver, shared: &Arc<Shared>) {
    let mut patience = NODE_CONNECT_TIME;
    let mut kept = None;
    while let Ok(Ok(Some(first))) = timeout(patience, receiver.next()).await {
        drop(kept.take());
        let first = decode_to_node(&first);
        let Ok(
            ToNode::Hello { worker, .. } | ToNode::Fetch(Fetch { worker, .. }) | ToNode::Put { worker, .. },
        ) = first
        else {
            return;
        };
        if worker != shared.own() {
            let text = format!("this is worker {}, not {worker}", shared.own());
            // It looks elsewhere then.
            let _ = refuse(sender, &text).await;
            return;
        }
        if let (Ok(ToNode::Put { size, .. }), Some(objects)) = (&first, shared.objects.get())
            && let Some(text) = objects.refuses_size(*size).await
        {
            let _ = refuse(sender, &text).await;
            return;
        }
        // It leaves with the first piece, or soon.
        let greeting = encode_from_node(&FromNode::Started { process: NO_PROCESS });
        if sender.send(&greeting).await.is_err() {
            return;
        }
        match (first, shared.objects.get()) {
            (Ok(ToNode::Hello { task, instance, node, .. }), _) => {
                if sender.flush().await.is_err() {
                    return;
                }
                return session(sender, receiver, shared, task, instance, node).await;
            }
            (Ok(ToNode::Fetch(fetch)), Some(objects)) => {
                let is_sent = tokio::select! {
                    is_sent = objects.serve(&mut sender, &fetch) => is_sent,
                    // Nothing is said before all has come: it has gone.
                    _ = receiver.next() => return,
                };
                // Who knows of no next object ends the connection itself.
                kept = shared.kept_there.try_acquire().ok().filter(|_| is_sent);
                if kept.is_none() {
                    break;
                }
                patience = KEPT_TIME_THERE;
            }
            (Ok(ToNode::Put { size, .. }), Some(objects)) => {
                if sender.flush().await.is_err() {
                    return;
                }
                return objects.receive(sender, receiver, size).await;
            }
            _ => return drop(refuse(sender, "it stores no objects").await),
        }
    }
    let _ = sender.close().await;
}

// Starts and signals come in, what processes write and how they end goes out.
async fn session(
    sender: FrameSender,
    mut receiver: FrameReceiver,
    shared: &Arc<Shared>,
    task: TaskRef,
    instance: Instance,
    node: u32,
) {
    let session = Session(shared.sessions.fetch_add(1, Ordering::Relaxed));
    let (out, messages) = mpsc::channel(PROCESS_MESSAGES);
    let writer = tokio::spawn(write(sender, messages));
    while let Ok(Some(frame)) = receiver.next().await {
        let ask = match decode_to_node(&frame) {
            Ok(ToNode::Start(start)) => {
                Ask::Start(Box::new(AskStart { session, task, instance, node, start, out: out.clone() }))
            }
            Ok(ToNode::Signal { process, signal }) => Ask::Signal { session, process, signal },
            Ok(ToNode::Hello { .. } | ToNode::Fetch(_) | ToNode::Put { .. } | ToNode::Piece { .. })
            | Err(_) => break,
        };
        if shared.asks.send(ask).await.is_err() {
            break;
        }
    }
    // Nobody is there to be told when the worker is ending.
    let _ = shared.asks.send(Ask::Gone { session }).await;
    writer.abort();
}

async fn write(mut sender: FrameSender, mut messages: mpsc::Receiver<FromNode>) {
    while let Some(message) = messages.recv().await {
        let mut sent = sender.send(&encode_from_node(&message)).await;
        // What has come together leaves together.
        while sent.is_ok()
            && let Ok(message) = messages.try_recv()
        {
            sent = sender.send(&encode_from_node(&message)).await;
        }
        if sent.is_err() || sender.flush().await.is_err() {
            return;
        }
    }
}

async fn relay(mut from: FrameReceiver, mut to: FrameSender) {
    while let Ok(Some(frame)) = from.next().await {
        let mut sent = to.send(&frame).await;
        while sent.is_ok()
            && let Ok(Some(frame)) = from.try_next()
        {
            sent = to.send(&frame).await;
        }
        if sent.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

/// The worker of a node, by whichever of its addresses leads to it.
///
/// # Errors
/// Says of each address why it does not.
pub(crate) async fn reach(place: &TaskNode, keys: &Keys, first: &ToNode) -> Result<Connection, Unreached> {
    let TaskNode { worker, hostname, address } = place;
    let mut attempts = JoinSet::new();
    let addresses = address.split(',').filter_map(|address| address.rsplit_once(':'));
    for (place, (host, port)) in addresses.enumerate() {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let endpoint = Endpoint { host, port: port.parse().unwrap_or(0), keys: Some(keys.clone()) };
        let first = first.clone();
        // A name that is looked up in vain takes seconds; the next address need not wait for that.
        let pause = NODE_ADDRESS_PAUSE * place as u32;
        attempts.spawn(async move {
            sleep(pause).await;
            let name = format!("{}:{}", endpoint.host, endpoint.port);
            match timeout(NODE_CONNECT_TIME, knock(&endpoint, &first)).await {
                Ok(Ok(connected)) => Ok(connected),
                Ok(Err(Unasked::Broken(reason))) => Err(Unasked::Broken(format!("{name}: {reason}"))),
                Ok(Err(refused)) => Err(refused),
                Err(_) => {
                    let text = format!("{name}: no answer in {} s", NODE_CONNECT_TIME.as_secs());
                    Err(Unasked::Broken(text))
                }
            }
        });
    }
    let (mut reasons, mut refusal) = (Vec::new(), None);
    while let Some(result) = attempts.join_next().await {
        match result {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(Unasked::Broken(reason))) => reasons.push(reason),
            // At another address there may be another one.
            Ok(Err(Unasked::Refused(reason))) => refusal = Some(reason),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    if let Some(refusal) = refusal {
        return Err(Unreached::Refused(format!("worker {worker} on {hostname}: {refusal}")));
    }
    if reasons.is_empty() {
        reasons.push("it listens nowhere".to_owned());
    }
    let reasons = reasons.join("; ");
    Err(Unreached::NoWay(format!("worker {worker} on {hostname} cannot be reached: {reasons}")))
}

/// Why a worker is not spoken with; it is named.
#[derive(Debug)]
pub(crate) enum Unreached {
    /// It says so.
    Refused(String),
    /// There is no connection to it.
    NoWay(String),
}

impl Unreached {
    /// It has not answered so many seconds ago.
    pub(crate) fn silent(seconds: u64) -> Unreached {
        Unreached::NoWay(format!("it did not answer {seconds} s ago"))
    }

    /// It has not come to the server so many seconds ago.
    pub(crate) fn absent(seconds: u64) -> Unreached {
        Unreached::NoWay(format!("it did not come {seconds} s ago"))
    }

    /// In words.
    pub(crate) fn text(self) -> String {
        match self {
            Unreached::Refused(text) | Unreached::NoWay(text) => text,
        }
    }
}

// Connects, and hears whether that is the worker that is meant.
async fn knock(endpoint: &Endpoint, first: &ToNode) -> Result<Connection, Unasked> {
    let connected = connect(endpoint, Role::Worker).await;
    ask_over(connected.map_err(|error| Unasked::Broken(error.to_string()))?, first).await
}

// Over a connection that was kept; nothing where it has broken, so that a new one is needed.
async fn ask_again(connection: Connection, first: &ToNode) -> Option<Result<Connection, Unreached>> {
    match timeout(NODE_CONNECT_TIME, ask_over(connection, first)).await {
        Ok(Ok(connection)) => Some(Ok(connection)),
        Ok(Err(Unasked::Refused(reason))) => Some(Err(Unreached::Refused(reason))),
        Ok(Err(Unasked::Broken(_))) => None,
        Err(_) => {
            let text = format!("no answer in {} s", NODE_CONNECT_TIME.as_secs());
            Some(Err(Unreached::NoWay(text)))
        }
    }
}

// Why a connection leads to nothing.
enum Unasked {
    // In the words of the other end.
    Refused(String),
    // It ends, or says what makes no sense.
    Broken(String),
}

async fn ask_over(connection: Connection, first: &ToNode) -> Result<Connection, Unasked> {
    let broken = |error: hq_net::NetError| Unasked::Broken(error.to_string());
    let (mut sender, mut receiver) = connection;
    sender.send(&encode_to_node(first)).await.map_err(broken)?;
    sender.flush().await.map_err(broken)?;
    let answer = receiver.next().await.map_err(broken)?;
    match answer.as_deref().map(decode_from_node) {
        Some(Ok(FromNode::Started { .. })) => Ok((sender, receiver)),
        Some(Ok(FromNode::Refused { reason, .. })) => Err(Unasked::Refused(reason)),
        _ => Err(Unasked::Broken("it does not answer".to_owned())),
    }
}

async fn greet(sender: &mut FrameSender) -> io::Result<()> {
    tell(sender, &FromNode::Started { process: NO_PROCESS }).await
}

async fn refuse(mut sender: FrameSender, reason: &str) -> io::Result<()> {
    tell(&mut sender, &FromNode::Refused { process: NO_PROCESS, reason: reason.to_owned() }).await?;
    sender.close().await.map_err(io::Error::other)
}

async fn tell(sender: &mut FrameSender, message: &FromNode) -> io::Result<()> {
    sender.send(&encode_from_node(message)).await.map_err(io::Error::other)?;
    sender.flush().await.map_err(io::Error::other)
}

async fn read_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => return Ok(line),
            _ if line.len() == TOKEN_BYTES_MAX => return Err(io::ErrorKind::InvalidData.into()),
            byte => line.push(byte),
        }
    }
}
