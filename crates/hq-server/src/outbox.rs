//! What waits to be sent to one peer, and in which order: the deciding thread's and the journal
//! thread's end of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hq_core::client_messages::ClientResponse;
use hq_core::worker_messages::ToWorker;
use hq_net::queue::{QueueReceiver, QueueSender, counted_bytes};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::limits::{ANSWERS_BYTES_MAX, REQUESTS_AT_ONCE};
use crate::memory_size;

/// What is sent to a peer.
#[derive(Debug)]
pub(crate) enum Message {
    /// An answer to a client's request of this number.
    Answer(u64, ClientResponse),
    /// To a worker.
    Worker(ToWorker),
    /// The same on a line of a connection that several workers share.
    OnLine(u32, Box<Message>),
    /// Nothing comes after this: the connection is closed, or its line has ended.
    Close,
}

impl Message {
    /// Bytes it takes while it waits, roughly.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Message::Answer(_, response) => memory_size::of_response(response),
            Message::Worker(message) => memory_size::of_worker_message(message),
            Message::OnLine(_, message) => message.memory_bytes(),
            Message::Close => 0,
        }
    }

    /// True when it means the same wherever it arrives among others: what waits for the disk longer
    /// than others may then be passed by them. A worker that has stopped gives back what comes after that, and a stop that is
    /// acknowledged waits for no disk: it would be lost with the process.
    pub(crate) fn keeps_no_order(&self) -> bool {
        matches!(
            self,
            Message::Worker(ToWorker::Saved { .. } | ToWorker::Stop { .. } | ToWorker::Relay { .. })
        )
    }
}

/// The sending end of a connection, or of a line of one.
#[derive(Debug)]
pub(crate) struct Outbox {
    peer: String,
    line: Option<u32>,
    queue: QueueSender<Message>,
    /// Messages that wait for the journal; what comes after them must not pass them.
    held: AtomicUsize,
    /// Those of them that wait for a sync.
    held_for_sync: AtomicUsize,
    /// Of the whole connection.
    cut: Arc<Cut>,
    closing: Notify,
    /// Something was sent.
    sent: Notify,
    /// Requests that may be decided together, and the bytes of the last answer.
    turns: Arc<Semaphore>,
    last_answer: AtomicUsize,
}

#[derive(Debug, Default)]
struct Cut {
    /// Nothing is sent any more.
    is_cut: AtomicBool,
    kill: Notify,
}

/// A request has been taken from a connection and is not decided yet.
pub(crate) type Turn = OwnedSemaphorePermit;

impl Outbox {
    /// An outbox for this many bytes, which count in `total`, too, and the end a writer takes messages from.
    pub(crate) fn new(
        peer: String,
        limit: usize,
        total: Arc<AtomicUsize>,
    ) -> (Outbox, QueueReceiver<Message>) {
        let (queue, receiver) = counted_bytes(limit, total);
        (Outbox::over(peer, None, queue, Arc::default()), receiver)
    }

    /// The outbox of a line of this connection: what both send leaves together.
    pub(crate) fn of_line(&self, line: u32) -> Outbox {
        Outbox::over(self.peer.clone(), Some(line), self.queue.clone(), Arc::clone(&self.cut))
    }

    fn over(peer: String, line: Option<u32>, queue: QueueSender<Message>, cut: Arc<Cut>) -> Outbox {
        Outbox {
            peer,
            line,
            queue,
            held: AtomicUsize::new(0),
            held_for_sync: AtomicUsize::new(0),
            cut,
            closing: Notify::new(),
            sent: Notify::new(),
            turns: Arc::new(Semaphore::new(REQUESTS_AT_ONCE as usize)),
            // Unknown: the first request is decided alone.
            last_answer: AtomicUsize::new(ANSWERS_BYTES_MAX),
        }
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// True for the outbox of a line.
    pub(crate) fn is_line(&self) -> bool {
        self.line.is_some()
    }

    /// Sends after all that was sent before. A peer that does not read what it is sent is disconnected.
    pub(crate) fn send(&self, message: Message) {
        if self.is_cut() {
            return;
        }
        let bytes = message.memory_bytes();
        if matches!(message, Message::Close) {
            self.closing.notify_one();
        }
        if let Message::Answer(..) = message {
            self.last_answer.store(bytes, Ordering::Relaxed);
        }
        let message = match self.line {
            None => message,
            Some(line) => Message::OnLine(line, Box::new(message)),
        };
        if self.queue.try_push(message, bytes).is_err() {
            self.cut();
        }
    }

    /// The peer does not read what it is sent: the connection is cut, and nothing more is sent.
    pub(crate) fn cut(&self) {
        if !self.cut.is_cut.swap(true, Ordering::Relaxed) {
            self.cut.kill.notify_one();
        }
    }

    /// True when the connection is about to be cut.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.is_cut.load(Ordering::Relaxed)
    }

    /// Waits until the peer has read enough of what it was sent, and enough of what it has asked is decided, for one
    /// more request. The larger the last answer was, the fewer are decided together.
    pub(crate) async fn turn(&self) -> Turn {
        let last = self.last_answer.load(Ordering::Relaxed).min(ANSWERS_BYTES_MAX);
        let share = (REQUESTS_AT_ONCE as usize * last / ANSWERS_BYTES_MAX) as u32;
        let turn = match self.turns.clone().acquire_many_owned(share.max(1)).await {
            Ok(turn) => turn,
            Err(_) => unreachable!("turns are never closed"),
        };
        while self.bytes() >= ANSWERS_BYTES_MAX {
            self.sent.notified().await;
        }
        turn
    }

    /// Something was sent, and its bytes are free again.
    pub(crate) fn has_sent(&self) {
        self.sent.notify_one();
    }

    /// True when nobody takes what is sent any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.queue.is_closed()
    }

    /// Bytes that wait to be sent.
    pub(crate) fn bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// True when they are counted there.
    pub(crate) fn counts_in(&self, total: &Arc<AtomicUsize>) -> bool {
        self.queue.counts_in(total)
    }

    /// Returns when the connection shall be cut without sending more.
    pub(crate) async fn killed(&self) {
        self.cut.kill.notified().await;
    }

    /// Returns when [`Message::Close`] was sent: the last chance to write what waits.
    pub(crate) async fn closing(&self) {
        self.closing.notified().await;
    }

    /// True when a message sent now would pass none that waits for the journal.
    pub(crate) fn is_clear(&self) -> bool {
        self.held.load(Ordering::Acquire) == 0
    }

    /// True when a message sent after a write would pass none that waits for a sync.
    pub(crate) fn is_clear_of_syncs(&self) -> bool {
        self.held_for_sync.load(Ordering::Acquire) == 0
    }

    /// A message to this peer goes by way of the journal.
    pub(crate) fn hold(&self, message: &Message) {
        if !message.keeps_no_order() {
            self.held.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A held message waits for a sync.
    pub(crate) fn hold_for_sync(&self, message: &Message) {
        if !message.keeps_no_order() {
            self.held_for_sync.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Sends a held message.
    pub(crate) fn release(&self, message: Message, waited_for_sync: bool) {
        let counts = !message.keeps_no_order();
        self.send(message);
        if counts {
            if waited_for_sync {
                self.held_for_sync.fetch_sub(1, Ordering::AcqRel);
            }
            self.held.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
