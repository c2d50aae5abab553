//! The socket of a connection, which wakes the relay when there is something to read, and for nothing else.
//!
//! A socket that waits for room to write, too, as those of the event loop do, would wake it each time that its peer reads an
//! answer: twice for each message. Here room is waited for only where there is none.

#![expect(unsafe_code, reason = "the event loop watches a descriptor that has to stay open")]

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, recv};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// The end that reads.
#[derive(Debug)]
pub(crate) struct Reading(Rc<AsyncFd<UnixStream>>);

/// The end that writes.
#[derive(Debug)]
pub(crate) struct Writing {
    socket: Rc<AsyncFd<UnixStream>>,
    // While there is none.
    room: Option<AsyncFd<UnixStream>>,
}

/// Both ends of a socket. To be called within a runtime.
///
/// # Errors
/// When the system refuses.
pub(crate) fn split(stream: tokio::net::UnixStream) -> io::Result<(Reading, Writing)> {
    let socket = Rc::new(watched(stream.into_std()?, Interest::READABLE)?);
    Ok((Reading(Rc::clone(&socket)), Writing { socket, room: None }))
}

/// The socket as it was, where nothing has been read from it.
///
/// # Errors
/// When the system refuses.
pub(crate) fn reunite(reading: Reading, writing: Writing) -> io::Result<tokio::net::UnixStream> {
    drop(writing);
    let socket = Rc::try_unwrap(reading.0).map_err(|_| io::Error::from(ErrorKind::ResourceBusy))?;
    tokio::net::UnixStream::from_std(socket.into_inner())
}

fn watched(socket: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    // SAFETY: the socket is owned by what watches it, which never lends it to be changed: its descriptor stays open and the
    // same until it is watched no more.
    Ok(unsafe { AsyncFd::register_with_interest(socket, interest) }?)
}

impl Reading {
    /// Its socket.
    pub(crate) fn socket(&self) -> &AsyncFd<UnixStream> {
        &self.0
    }

    /// Waits until there is something to read, or the end.
    pub(crate) async fn has_something(&self) -> io::Result<()> {
        self.0.readable().await.map(drop)
    }

    /// The first byte that is there to be read, which stays there.
    pub(crate) fn first_byte(&self) -> Option<u8> {
        let mut byte = [0];
        match recv(self.0.get_ref(), &mut byte, RecvFlags::PEEK) {
            Ok((1, _)) => Some(byte[0]),
            _ => None,
        }
    }
}

impl AsyncRead for Reading {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(cx))?;
            let space = into.initialize_unfilled();
            let most = space.len();
            match self.0.get_ref().read(space) {
                Ok(read) => {
                    // There was no more: the next look would be in vain.
                    if 0 < read && read < most {
                        ready.clear_ready();
                    }
                    into.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Writing {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.socket.get_ref().write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                written => {
                    self.room = None;
                    return Poll::Ready(written);
                }
            }
            match &self.room {
                // There may be room by now.
                Some(room) => ready!(room.poll_write_ready(cx))?.clear_ready(),
                None => {
                    let again = self.socket.get_ref().try_clone()?;
                    self.room = Some(watched(again, Interest::WRITABLE)?);
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.get_ref().shutdown(std::net::Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn who_says_nothing_is_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (ours, mut theirs) = tokio::net::UnixStream::pair().expect("a pair");
            let (reading, _writing) = split(ours).expect("a socket");
            let mut waiting = pin!(reading.has_something());
            for _ in 0..10 {
                // The event loop has looked at the socket by then.
                tokio::task::yield_now().await;
                let now = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx)));
                assert!(now.await.is_pending(), "nothing was said");
            }
            theirs.write_all(b"{").await.expect("somebody reads");
            waiting.await.expect("a socket");
        });
    }

    #[test]
    fn the_first_byte_can_be_seen_before_it_is_read() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (ours, mut theirs) = tokio::net::UnixStream::pair().expect("a pair");
            let (reading, writing) = split(ours).expect("a socket");
            assert_eq!(reading.first_byte(), None);
            theirs.write_all(b"xy").await.expect("somebody reads");
            reading.has_something().await.expect("a socket");
            assert_eq!(reading.first_byte(), Some(b'x'));
            let mut whole = reunite(reading, writing).expect("nobody else has it");
            let mut heard = [0; 2];
            whole.read_exact(&mut heard).await.expect("two bytes");
            assert_eq!(&heard, b"xy");
        });
    }

    #[test]
    fn more_than_the_socket_holds_comes_through_in_order_and_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (ours, theirs) = tokio::net::UnixStream::pair().expect("a pair");
            let (mut reading, mut writing) = split(ours).expect("a socket");
            let (mut their_reading, mut their_writing) = split(theirs).expect("a socket");
            let bytes: Vec<u8> = (0..5_000_000_u32).map(|number| number as u8).collect();
            let there = async {
                writing.write_all(&bytes).await.expect("somebody reads");
                writing.shutdown().await.expect("a socket");
                let mut back = Vec::new();
                reading.read_to_end(&mut back).await.expect("an answer");
                back
            };
            let echo = async {
                let mut heard = Vec::new();
                their_reading.read_to_end(&mut heard).await.expect("a question");
                their_writing.write_all(&heard).await.expect("somebody reads");
                drop((their_reading, their_writing));
            };
            let (back, ()) = tokio::join!(there, echo);
            assert!(back == bytes, "{} bytes came back", back.len());
        });
    }
}
