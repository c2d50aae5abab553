//! What waits for the deciding thread: messages from all connections, bounded by their bytes.
//!
//! A reader first gets room, then hands its message over; while there is no room it reads nothing, and
//! its peer is held back by TCP. The deciding thread takes all that waits at once and gives the room
//! back after it has handled it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hq_core::server::{ConnectionId, Input};
use tokio::sync::Semaphore;

use crate::limits::{HEARTBEAT_WAIT, INBOX_BYTES_MAX, INBOX_BYTES_MIN};
use crate::outbox::{Message, Outbox, Turn};

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A connection is there; its peer has proved who it is.
    Opened(ConnectionId, Arc<Outbox>),
    /// For the machine.
    Input(Box<Input>),
    /// Another part of the process has broken: end.
    Broken,
}

impl Event {
    /// Something for the machine.
    pub(crate) fn input(input: Input) -> Event {
        Event::Input(Box::new(input))
    }

    fn refuse(self) {
        if let Event::Opened(_, outbox) = self {
            outbox.send(Message::Close);
        }
    }
}

/// An event with what is needed to handle it.
#[derive(Debug)]
pub(crate) struct Entry {
    /// When it came.
    pub(crate) at: Instant,
    /// What.
    pub(crate) event: Event,
    /// Room to give back.
    room: Room,
}

/// Room for messages, in bytes, and the turns of the connections that they came from.
#[derive(Debug, Default)]
pub(crate) struct Room {
    bytes: u32,
    turns: Vec<Turn>,
}

/// The inbox.
#[derive(Debug)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    room: Semaphore,
}

#[derive(Debug, Default)]
struct Waiting {
    entries: Vec<Entry>,
    /// The deciding thread sleeps.
    is_asleep: bool,
    /// It shall look although nothing urgent has come.
    look: bool,
    /// It has ended.
    is_closed: bool,
    woken_by_heartbeat: Option<Instant>,
}

impl Inbox {
    /// An empty one.
    pub(crate) fn new() -> Inbox {
        Inbox::with_room(INBOX_BYTES_MAX)
    }

    fn with_room(bytes: usize) -> Inbox {
        Inbox { waiting: Mutex::default(), wake: Condvar::new(), room: Semaphore::new(bytes) }
    }

    /// Waits until there is room for a message of so many bytes.
    pub(crate) async fn room(&self, bytes: usize) -> Room {
        // A message longer than all the room there is takes all of it.
        let bytes = bytes.clamp(INBOX_BYTES_MIN, INBOX_BYTES_MAX) as u32;
        let permit = match self.room.try_acquire_many(bytes) {
            Ok(permit) => permit,
            Err(_) => {
                // What takes the room may be heartbeats, which nobody was woken for.
                self.have_a_look();
                match self.room.acquire_many(bytes).await {
                    Ok(permit) => permit,
                    Err(_) => unreachable!("the room of an inbox is never closed"),
                }
            }
        };
        permit.forget();
        Room { bytes, turns: Vec::new() }
    }

    /// Hands an event over; it is handled at once. Room is needed for what a peer can repeat at will.
    pub(crate) fn push(&self, event: Event, room: Room) {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return event.refuse();
        }
        waiting.entries.push(Entry { at: Instant::now(), event, room });
        self.wake_if_asleep(waiting);
    }

    /// Nobody takes what waits any more: connections of which nobody knows, now or later, are told to close.
    pub(crate) fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        waiting.entries.drain(..).for_each(|entry| entry.event.refuse());
    }

    /// Hands a heartbeat over. It is handled with the next event, or with a later heartbeat, or when
    /// the machine wants to look at the time; when it came is noted, so nothing is lost by waiting.
    pub(crate) fn push_heartbeat(&self, event: Event, room: Room) {
        let at = Instant::now();
        let mut waiting = self.lock();
        waiting.entries.push(Entry { at, event, room });
        let is_due = waiting.woken_by_heartbeat.is_none_or(|last| at.duration_since(last) >= HEARTBEAT_WAIT);
        if is_due {
            waiting.woken_by_heartbeat = Some(at);
            self.wake_if_asleep(waiting);
        }
    }

    /// Sleeps until there is something to do or the deadline has come, then moves all that waits into
    /// `entries`, which must be empty.
    pub(crate) fn take(&self, entries: &mut Vec<Entry>, deadline: Option<Instant>) {
        assert!(entries.is_empty(), "what was taken before has been handled");
        let mut waiting = self.lock();
        waiting.is_asleep = waiting.entries.is_empty() && !waiting.look;
        while waiting.is_asleep {
            waiting = match deadline {
                None => self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let time = deadline.saturating_duration_since(Instant::now());
                    if time.is_zero() {
                        break;
                    }
                    self.wake.wait_timeout(waiting, time).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        waiting.is_asleep = false;
        waiting.look = false;
        std::mem::swap(&mut waiting.entries, entries);
    }

    /// Gives back the room of handled messages.
    pub(crate) fn give_back(&self, room: Room) {
        self.room.add_permits(room.bytes as usize);
    }

    fn have_a_look(&self) {
        let mut waiting = self.lock();
        waiting.look = true;
        self.wake_if_asleep(waiting);
    }

    fn wake_if_asleep(&self, mut waiting: MutexGuard<'_, Waiting>) {
        let was_asleep = std::mem::replace(&mut waiting.is_asleep, false);
        // Whoever wakes up takes the lock: held until after that, it would put it to sleep again.
        drop(waiting);
        if was_asleep {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Takes it apart.
    pub(crate) fn into_parts(self) -> (Instant, Event, Room) {
        (self.at, self.event, self.room)
    }
}

impl Room {
    /// None: for what happens at most a few times a connection.
    pub(crate) fn none() -> Room {
        Room::default()
    }

    /// Gives a turn back, too, when it is given back.
    pub(crate) fn with(mut self, turn: Turn) -> Room {
        self.turns.push(turn);
        self
    }

    /// Adds another.
    pub(crate) fn add(&mut self, mut other: Room) {
        self.bytes += other.bytes;
        self.turns.append(&mut other.turns);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn ready<T>(future: impl Future<Output = T>) -> T {
        match poll(future) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("there is no room"),
        }
    }

    #[test]
    fn a_full_inbox_holds_readers_back_until_something_is_handled() {
        let inbox = Inbox::with_room(1000);
        let room = ready(inbox.room(600));
        let mut second = pin!(inbox.room(600));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        inbox.give_back(room);
        assert!(second.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_message_counts_at_least_a_little() {
        let inbox = Inbox::with_room(INBOX_BYTES_MIN * 2);
        let _first = ready(inbox.room(0));
        let _second = ready(inbox.room(1));
        assert!(poll(inbox.room(1)).is_pending());
    }

    #[test]
    fn all_that_waits_is_taken_at_once_and_in_order() {
        let inbox = Inbox::new();
        inbox.push(Event::input(Input::Tick), Room::none());
        inbox.push_heartbeat(Event::input(Input::Stop), Room::none());
        let mut entries = Vec::new();
        inbox.take(&mut entries, None);
        let events: Vec<_> = entries.drain(..).map(|entry| format!("{:?}", entry.event)).collect();
        assert_eq!(events, ["Input(Tick)", "Input(Stop)"]);
        // A deadline in the past ends the wait.
        inbox.take(&mut entries, Some(Instant::now()));
        assert!(entries.is_empty());
    }

    #[test]
    fn heartbeats_wake_the_sleeper_once_in_a_while_only() {
        let inbox = Inbox::new();
        inbox.lock().is_asleep = true;
        inbox.push_heartbeat(Event::input(Input::Tick), Room::none());
        assert!(!inbox.lock().is_asleep);
        inbox.lock().is_asleep = true;
        inbox.push_heartbeat(Event::input(Input::Tick), Room::none());
        assert!(inbox.lock().is_asleep);
        inbox.push(Event::input(Input::Tick), Room::none());
        assert!(!inbox.lock().is_asleep);
        assert_eq!(inbox.lock().entries.len(), 3);
    }

    #[test]
    fn connections_that_come_too_late_are_closed() {
        let inbox = Inbox::new();
        let outbox = || Arc::new(Outbox::new("late".into(), 1000, Arc::default()).0);
        let (before, after) = (outbox(), outbox());
        inbox.push(Event::Opened(ConnectionId(1), before.clone()), Room::none());
        assert!(poll(before.closing()).is_pending());
        inbox.close();
        inbox.push(Event::Opened(ConnectionId(2), after.clone()), Room::none());
        assert!([before, after].iter().all(|outbox| poll(outbox.closing()).is_ready()));
    }

    #[test]
    fn a_reader_without_room_wakes_the_sleeper_although_only_heartbeats_wait() {
        let inbox = Inbox::with_room(INBOX_BYTES_MIN);
        let _room = ready(inbox.room(1));
        inbox.lock().is_asleep = true;
        assert!(poll(inbox.room(1)).is_pending());
        let waiting = inbox.lock();
        assert!(!waiting.is_asleep && waiting.look);
    }
}
