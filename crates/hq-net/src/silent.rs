//! A listening socket with the connections that have not said a whole first message yet.
//!
//! Anyone on the network can open connections and say nothing, or very little very slowly. Here such a
//! connection is a descriptor and a few bytes: no task, no buffer, no TLS. Only when its first message lies
//! whole in the kernel's buffer it is handed on. When there are too many, the oldest are closed: an honest
//! peer speaks as soon as it is connected, so it never waits for those that are silent.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, acceptfrom_with, recv};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::time::{Instant, sleep, timeout_at};

use crate::limits::{
    ACCEPT_PAUSE, ACCEPTS_AT_ONCE, FIRST_MESSAGE_MAX, HANDSHAKE_TIME_MAX, SILENT_WARNING_INTERVAL, silent_max,
};

/// What epoll says of the listening socket; connections have numbers below.
const LISTENING: u64 = u64::MAX;
/// The type of a TLS record that carries a handshake, the length of a record's head, and that of a frame's.
const TLS_HANDSHAKE: u8 = 22;
const TLS_HEAD: usize = 5;
const FRAME_HEAD: usize = 4;

/// The socket and those that came to it.
#[derive(Debug)]
pub(crate) struct Silent {
    epoll: AsyncFd<OwnedFd>,
    socket: TcpListener,
    is_encrypted: bool,
    connections_max: usize,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    /// By the order in which they came.
    silent: BTreeMap<u64, Connection>,
    /// Whose first message is there, in the order in which it came.
    spoken: VecDeque<Connection>,
    last_number: u64,
    warned: Option<Instant>,
}

/// A connection nobody has read from.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) address: SocketAddr,
    since: Instant,
}

/// What a look at the first bytes of a connection tells.
#[derive(Debug, PartialEq)]
enum First {
    /// More must come.
    Part,
    /// A whole message, or something that will never be one: a handshake gives the answer.
    Whole,
    /// It announces more than a first message may have.
    TooLong,
}

#[expect(unsafe_code, reason = "that a descriptor stays open while it is watched cannot be said by types")]
fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned, and nobody can take it out or replace it.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

impl Silent {
    /// Takes over a socket that listens. To be called within a tokio runtime.
    pub(crate) fn new(socket: TcpListener, is_encrypted: bool) -> io::Result<Silent> {
        socket.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &socket, epoll::EventData::new_u64(LISTENING), epoll::EventFlags::IN)?;
        let epoll = register(epoll)?;
        let connections_max = silent_max();
        Ok(Silent { epoll, socket, is_encrypted, connections_max, connections: Mutex::default() })
    }

    /// The source of the next connection that has spoken.
    pub(crate) fn next_source(&self) -> Option<SocketAddr> {
        self.lock().spoken.back().map(|connection| connection.address)
    }

    /// The next connection that has spoken. The newest goes first: where more come than can be served, some
    /// are served at once, instead of all too late.
    pub(crate) fn take(&self) -> Option<Connection> {
        self.lock().spoken.pop_back()
    }

    /// Waits until something has happened: connections have come, spoken, or been silent for too long.
    /// Dropping the future loses nothing.
    pub(crate) async fn change(&self) -> io::Result<()> {
        let ready = match self.lock().oldest() {
            None => Ok(self.epoll.readable()),
            Some(since) => Err((self.epoll.readable(), since + HANDSHAKE_TIME_MAX)),
        };
        let ready = match ready {
            Ok(ready) => ready.await,
            Err((ready, deadline)) => match timeout_at(deadline, ready).await {
                Ok(ready) => ready,
                Err(_) => {
                    self.lock().forget_before(Instant::now() - HANDSHAKE_TIME_MAX);
                    return Ok(());
                }
            },
        };
        let accepted = self.turn(ready?);
        if accepted.is_err() {
            sleep(ACCEPT_PAUSE).await;
        }
        accepted
    }

    // Does what has become possible, some of it at a time. An error says why nothing can be accepted now.
    fn turn(&self, mut ready: AsyncFdReadyGuard<'_, OwnedFd>) -> io::Result<()> {
        let mut events = Vec::with_capacity(ACCEPTS_AT_ONCE);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let waited = ready.try_io(|epoll| {
            match epoll::wait(epoll, spare_capacity(&mut events), Some(&at_once)) {
                // Nothing more: the runtime waits for the next change.
                Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
                Err(Errno::INTR) => Ok(0),
                result => Ok(result?),
            }
        });
        // Where it would block there are no events.
        waited.unwrap_or(Ok(0))?;
        let mut accepted = Ok(());
        for event in events {
            match event.data.u64() {
                LISTENING => accepted = self.accept(),
                number => self.look(number, event.flags),
            }
        }
        accepted
    }

    // Accepts what has come, some at a time.
    fn accept(&self) -> io::Result<()> {
        for _ in 0..ACCEPTS_AT_ONCE {
            match acceptfrom_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok((stream, address)) => {
                    if let Some(address) = address.and_then(|address| address.try_into().ok()) {
                        self.add(TcpStream::from(stream), address)?;
                    }
                }
                Err(Errno::WOULDBLOCK) => break,
                // Descriptors or memory are short: those that say nothing give theirs back.
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    if !self.lock().close_one() {
                        return Err(error.into());
                    }
                }
                // Linux tells here what has befallen a peer before we came to it.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn add(&self, stream: TcpStream, address: SocketAddr) -> io::Result<()> {
        let mut connections = self.lock();
        connections.last_number += 1;
        let number = connections.last_number;
        let wanted = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(number), wanted)?;
        connections.silent.insert(number, Connection { stream, address, since: Instant::now() });
        if connections.silent.len() + connections.spoken.len() > self.connections_max {
            connections.close_one();
            connections.warn();
        }
        Ok(())
    }

    // Something came from a silent connection.
    fn look(&self, number: u64, flags: epoll::EventFlags) {
        let mut connections = self.lock();
        let Some(connection) = connections.silent.get(&number) else { return };
        let is_ended = flags.intersects(epoll::EventFlags::RDHUP);
        let first = if flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP) {
            First::TooLong
        } else {
            self.peek(&connection.stream)
        };
        match first {
            First::Part if !is_ended => {}
            // What its end means is for the handshake to say.
            First::Part | First::Whole => {
                let Some(connection) = connections.silent.remove(&number) else { return };
                // It is in the list as long as its descriptor is open: removing it cannot fail.
                let _ = epoll::delete(&self.epoll, &connection.stream);
                connections.spoken.push_back(connection);
            }
            First::TooLong => drop(connections.silent.remove(&number)),
        }
    }

    fn peek(&self, stream: &TcpStream) -> First {
        let mut buffer = [MaybeUninit::uninit(); FIRST_MESSAGE_MAX];
        match recv(stream, &mut buffer, RecvFlags::PEEK) {
            Ok(((bytes, _), _)) => first(bytes, self.is_encrypted),
            Err(Errno::WOULDBLOCK | Errno::INTR) => First::Part,
            Err(_) => First::TooLong,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn oldest(&self) -> Option<Instant> {
        let silent = self.silent.first_key_value().map(|(_, connection)| connection.since);
        silent.into_iter().chain(self.spoken.front().map(|connection| connection.since)).min()
    }

    fn forget_before(&mut self, time: Instant) {
        while self.silent.first_key_value().is_some_and(|(_, connection)| connection.since <= time) {
            self.silent.pop_first();
        }
        self.spoken.retain(|connection| connection.since > time);
    }

    // Closes the oldest that has said nothing, or else the one that waits longest. False when there is none.
    fn close_one(&mut self) -> bool {
        self.silent.pop_first().is_some() || self.spoken.pop_front().is_some()
    }

    fn warn(&mut self) {
        let now = Instant::now();
        if self.warned.is_none_or(|warned| now - warned >= SILENT_WARNING_INTERVAL) {
            self.warned = Some(now);
            let connections = self.silent.len();
            tracing::warn!(connections, "too many connections say nothing; the oldest of them are closed");
        }
    }
}

fn first(bytes: &[u8], is_encrypted: bool) -> First {
    let length = match (is_encrypted, bytes) {
        (_, []) => return First::Part,
        (true, [kind, ..]) if *kind != TLS_HANDSHAKE => return First::Whole,
        (true, [_, _, _, high, low, ..]) => TLS_HEAD + usize::from(u16::from_be_bytes([*high, *low])),
        (false, [a, b, c, d, ..]) => FRAME_HEAD.saturating_add(u32::from_le_bytes([*a, *b, *c, *d]) as usize),
        _ => return First::Part,
    };
    if length > FIRST_MESSAGE_MAX {
        // Without keys, the handshake knows the limit and says so in the log.
        return if is_encrypted { First::TooLong } else { First::Whole };
    }
    if bytes.len() < length { First::Part } else { First::Whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_message_counts_when_all_of_it_is_there() {
        let hello = |length: u16, bytes: usize| {
            let mut text = vec![TLS_HANDSHAKE, 3, 1];
            text.extend(length.to_be_bytes());
            text.resize(TLS_HEAD + bytes, 0);
            text
        };
        let frame = |length: u32, bytes: usize| {
            let mut text = length.to_le_bytes().to_vec();
            text.resize(FRAME_HEAD + bytes, 0);
            text
        };
        let cases = [
            (Vec::new(), true, First::Part),
            (vec![TLS_HANDSHAKE], true, First::Part),
            (hello(300, 0), true, First::Part),
            (hello(300, 299), true, First::Part),
            (hello(300, 300), true, First::Whole),
            (hello(300, 900), true, First::Whole),
            (hello(5000, 10), true, First::TooLong),
            (b"GET / HTTP/1.1".to_vec(), true, First::Whole),
            (vec![9, 0, 0], false, First::Part),
            (frame(9, 8), false, First::Part),
            (frame(9, 9), false, First::Whole),
            (frame(u32::MAX, 0), false, First::Whole),
        ];
        for (bytes, is_encrypted, expected) in cases {
            assert_eq!(first(&bytes, is_encrypted), expected, "{bytes:?}");
        }
    }
}
