//! The line that a request begins with, looked at before it is parsed: one that is too long is answered with 414, and whoever is
//! still saying it hears the answer before the connection ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Bytes of such a line.
pub(super) const LINE_BYTES_MAX: usize = 8 * 1024;
/// What a client says after its last answer is read and dropped, so that the system does not drop the answer: up to so many bytes,
/// and for so long.
const LAST_BYTES_MAX: usize = 1 << 20;
const LAST_TIME: Duration = Duration::from_secs(2);
const TOO_LONG: &[u8] = b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A connection whose requests begin with lines that are not too long.
pub(super) struct Lines<S> {
    stream: S,
    // Bytes of the line so far; none while a request is answered, or where a body may be on its way.
    line: Option<usize>,
    has_body: Arc<AtomicBool>,
    // What is still to be written of the refusal, once there is one.
    refusal: Option<&'static [u8]>,
    last: Option<Last>,
}

// The end of a connection.
struct Last {
    bytes_left: usize,
    time: Pin<Box<Sleep>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lines<S> {
    /// `has_body` is to be true once a request comes with a body: lines are told from bodies no more then.
    pub(super) fn new(stream: S, has_body: Arc<AtomicBool>) -> Lines<S> {
        Lines { stream, line: Some(0), has_body, refusal: None, last: None }
    }

    fn look_at(&mut self, read: &[u8]) {
        let Some(before) = self.line else { return };
        match read.iter().position(|byte| *byte == b'\n') {
            Some(at) if before + at <= LINE_BYTES_MAX => self.line = None,
            None if before + read.len() <= LINE_BYTES_MAX => self.line = Some(before + read.len()),
            _ => self.refusal = Some(TOO_LONG),
        }
    }

    fn poll_refuse(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.refusal.filter(|rest| !rest.is_empty()) {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, rest))?;
            self.refusal = Some(&rest[written..]);
        }
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.poll_end(context)
    }

    // Says that nothing more comes, and waits until the client says no more either.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.last.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        }
        let last = self
            .last
            .get_or_insert_with(|| Last { bytes_left: LAST_BYTES_MAX, time: Box::pin(sleep(LAST_TIME)) });
        let mut bytes = [0; 8 * 1024];
        while last.bytes_left > 0 && last.time.as_mut().poll(context).is_pending() {
            let mut into = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut into)) {
                Ok(()) if !into.filled().is_empty() => {
                    last.bytes_left = last.bytes_left.saturating_sub(into.filled().len());
                }
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Lines<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.refusal.is_none() {
            let before = into.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
            self.look_at(&into.filled()[before..]);
            if self.refusal.is_none() {
                return Poll::Ready(Ok(()));
            }
            into.set_filled(before);
        }
        ready!(self.poll_refuse(context))?;
        Poll::Ready(Err(io::Error::other("the first line of a request is too long")))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lines<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // An answer: the next request begins behind it.
        self.line = (!self.has_body.load(Ordering::Relaxed)).then_some(0);
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(context)
    }
}
