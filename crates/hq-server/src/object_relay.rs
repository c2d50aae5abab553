//! Objects that pass by way of the server, since their reader reaches no worker that has them.
//!
//! The reader, a worker or a client, comes with a connection of its own and says whose object it wants. That worker is told a number
//! by the deciding thread, and comes for it with another connection. What the two say is passed on, message by message: not read, not
//! kept. A client puts a file in the same way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hq_core::client_messages::Relayed;
use hq_core::node_messages::{AskRelay, Fetch, FromNode, OF_SERVER, ToNode};
use hq_core::server::Input;
use hq_model::WorkerId;
use hq_net::{FrameReceiver, FrameSender, NetError, Role};
use hq_proto::{decode_ask_relay, decode_from_node, decode_to_node, encode_from_node};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::timeout;

use crate::inbox::{Event, Inbox, Room};
use crate::limits::{
    CLIENT_STALL_MAX, RELAY_BYTES, RELAY_FRAME_MAX, RELAY_HOLDER_TIME, RELAY_READERS_MAX, RELAY_WISH_MAX,
    RELAY_WORD_TIME, RELAYS_BYTES_MAX,
};

type Connection = (FrameSender, FrameReceiver);

/// All that is relayed.
pub(crate) struct ObjectRelay {
    is_off: bool,
    inbox: Arc<Inbox>,
    last: AtomicU64,
    // Readers whose holder has not come yet, by number.
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<Holder, String>>>>,
    readers: Semaphore,
    room: Semaphore,
    transfers: AtomicU64,
    bytes: AtomicU64,
}

/// What a reader wants of the holder.
struct Wish {
    message: Vec<u8>,
    /// The holder is to store a file.
    is_put: bool,
    /// More may be said behind it.
    goes_on: bool,
}

impl Wish {
    // Workers say to each other what they like. For a client a worker does not do all that it does for another one; and behind an
    // object something else might be asked for.
    fn of(message: Vec<u8>, role: Role) -> Option<Wish> {
        let asked = decode_to_node(&message);
        let is_put = matches!(asked, Ok(ToNode::Put { .. }));
        let is_fetch = matches!(asked, Ok(ToNode::Fetch(Fetch { from: None, .. })));
        let goes_on = role == Role::Worker || is_put;
        (goes_on || is_fetch).then_some(Wish { message, is_put, goes_on })
    }
}

/// The connection of a holder that has come.
struct Holder {
    connection: Connection,
    // Dropped when all is over.
    _passing: oneshot::Sender<()>,
}

impl std::fmt::Debug for ObjectRelay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectRelay").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// A reader that waits; it does not any more when this is dropped.
struct Wait<'a> {
    relay: &'a ObjectRelay,
    ticket: u64,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.relay.waiting().remove(&self.ticket);
    }
}

impl ObjectRelay {
    /// Nothing is relayed yet, or ever where it is switched off.
    pub(crate) fn new(is_off: bool, inbox: Arc<Inbox>) -> ObjectRelay {
        ObjectRelay {
            is_off,
            inbox,
            last: AtomicU64::new(0),
            waiting: Mutex::default(),
            readers: Semaphore::new(RELAY_READERS_MAX),
            room: Semaphore::new(RELAYS_BYTES_MAX / RELAY_BYTES),
            transfers: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// What was relayed since the server started; nothing where that is switched off.
    pub(crate) fn counts(&self) -> Option<Relayed> {
        (!self.is_off).then(|| Relayed {
            transfers: self.transfers.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        })
    }

    /// A holder will not come.
    pub(crate) fn refuse(&self, ticket: u64, reason: String) {
        if let Some(reader) = self.waiting().remove(&ticket) {
            // It may have gone.
            let _ = reader.send(Err(reason));
        }
    }

    /// What a connection of this role is for, if something is to pass by it. Clients have nothing for who waits.
    pub(crate) fn ask(first: &[u8], role: Role) -> Option<AskRelay> {
        decode_ask_relay(first).filter(|ask| role == Role::Worker || matches!(ask, AskRelay::From(_)))
    }

    /// One of both sides has come: until all is over.
    ///
    /// # Errors
    /// Says how it ended.
    pub(crate) async fn serve(
        &self,
        ask: AskRelay,
        role: Role,
        connection: Connection,
    ) -> Result<(), NetError> {
        let (mut sender, mut receiver) = connection;
        sender.set_patience(CLIENT_STALL_MAX);
        match ask {
            AskRelay::From(holder) => self.serve_reader(holder, role, sender, receiver).await,
            AskRelay::For(ticket) => {
                // Its reader has gone otherwise, or has waited long enough.
                let reader = self.waiting().remove(&ticket);
                if let Some(reader) = reader {
                    receiver.set_limit(RELAY_FRAME_MAX);
                    let (_passing, passed) = oneshot::channel();
                    let _ = reader.send(Ok(Holder { connection: (sender, receiver), _passing }));
                    let _ = passed.await;
                }
                Ok(())
            }
        }
    }

    async fn serve_reader(
        &self,
        holder: WorkerId,
        role: Role,
        mut sender: FrameSender,
        mut receiver: FrameReceiver,
    ) -> Result<(), NetError> {
        receiver.set_limit(RELAY_WISH_MAX);
        let Some(message) = receiver.next().await? else { return Ok(()) };
        receiver.set_limit(RELAY_FRAME_MAX);
        let Some(wish) = Wish::of(message, role) else {
            return refuse(sender, "clients get objects and put files, and nothing else".to_owned()).await;
        };
        let joined = tokio::select! {
            joined = self.join(holder, &mut sender) => joined?,
            // Nothing is said before there is an answer: it has gone.
            _ = receiver.next() => return Ok(()),
        };
        match joined {
            Ok((holder, room)) => self.pass(wish, (sender, receiver), holder, room).await,
            Err(reason) => refuse(sender, reason).await,
        }
    }

    // Waits for room, and for the holder. Otherwise why it does not come.
    async fn join(
        &self,
        holder: WorkerId,
        sender: &mut FrameSender,
    ) -> Result<Result<(Holder, SemaphorePermit<'_>), String>, NetError> {
        if self.is_off {
            return Ok(Err("the server does not relay (`hq server start --no-relay`)".to_owned()));
        }
        let Ok(_reader) = self.readers.try_acquire() else {
            return Ok(Err(format!("{RELAY_READERS_MAX} objects are already waiting to be relayed")));
        };
        let Ok(room) = meanwhile(sender, self.room.acquire()).await? else {
            return Ok(Err("the server is ending".to_owned()));
        };
        let ticket = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, told) = oneshot::channel();
        self.waiting().insert(ticket, answer);
        let _wait = Wait { relay: self, ticket };
        self.inbox.push(Event::input(Input::Relay { ticket, holder }), Room::none());
        Ok(match meanwhile(sender, timeout(RELAY_HOLDER_TIME, told)).await? {
            Ok(Ok(Ok(come))) => Ok((come, room)),
            Ok(Ok(Err(reason))) => Err(reason),
            _ => {
                let seconds = RELAY_HOLDER_TIME.as_secs();
                Err(format!("worker {holder} did not connect within {seconds} s"))
            }
        })
    }

    async fn pass(
        &self,
        wish: Wish,
        reader: Connection,
        holder: Holder,
        room: SemaphorePermit<'_>,
    ) -> Result<(), NetError> {
        let (to_reader, mut from_reader) = reader;
        let (mut to_holder, from_holder) = holder.connection;
        self.transfers.fetch_add(1, Ordering::Relaxed);
        to_holder.send(&wish.message).await?;
        to_holder.flush().await?;
        let forth = async {
            match wish.goes_on {
                true => self.pass_on(from_reader, to_holder, |_| ()).await,
                // The end of the connection, or what nobody hears.
                false => from_reader.next().await.map(drop),
            }
        };
        let mut room = Some(room);
        let back = self.pass_on(from_holder, to_reader, |message| {
            // Nothing more comes, and how long it takes until that is an object concerns nobody else.
            if wish.is_put && matches!(decode_from_node(message), Ok(FromNode::Put { .. })) {
                room = None;
            }
        });
        tokio::select! {
            end = forth => end,
            end = back => end,
        }
    }

    // One message at a time: who does not read holds up who sends.
    async fn pass_on(
        &self,
        mut from: FrameReceiver,
        mut to: FrameSender,
        mut see: impl FnMut(&[u8]),
    ) -> Result<(), NetError> {
        while let Some(message) = from.next().await? {
            see(&message);
            // Before it arrives: who has all of it finds it counted.
            self.bytes.fetch_add(message.len() as u64, Ordering::Relaxed);
            to.send(&message).await?;
            to.flush().await?;
        }
        to.close().await
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Result<Holder, String>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Says now and then that it goes on.
async fn meanwhile<T>(sender: &mut FrameSender, awaited: impl Future<Output = T>) -> Result<T, NetError> {
    tokio::pin!(awaited);
    loop {
        match timeout(RELAY_WORD_TIME, &mut awaited).await {
            Ok(value) => return Ok(value),
            Err(_) => tell(sender, &FromNode::Piece { offset: 0, bytes: Vec::new(), is_last: false }).await?,
        }
    }
}

async fn refuse(mut sender: FrameSender, reason: String) -> Result<(), NetError> {
    tell(&mut sender, &FromNode::Refused { process: OF_SERVER, reason }).await?;
    sender.close().await
}

async fn tell(sender: &mut FrameSender, message: &FromNode) -> Result<(), NetError> {
    sender.send(&encode_from_node(message)).await?;
    sender.flush().await
}
