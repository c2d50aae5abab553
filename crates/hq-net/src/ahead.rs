//! Reading ahead while much comes: TLS takes 4 KiB at a time, and each time would be a call of the system.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::{READ_CHUNK_MAX, READ_CHUNK_MIN};

/// A stream that is read ahead while it is busy. A quiet one takes no memory for that.
#[derive(Debug)]
pub(crate) struct Ahead<S> {
    stream: S,
    // Empty unless it is busy. What was read and not yet used is `buffer[start..end]`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl<S> Ahead<S> {
    pub(crate) fn new(stream: S) -> Ahead<S> {
        Ahead { stream, buffer: Vec::new(), start: 0, end: 0 }
    }

    fn give(&mut self, wanted: &mut ReadBuf) {
        let count = wanted.remaining().min(self.end - self.start);
        wanted.put_slice(&self.buffer[self.start..self.start + count]);
        self.start += count;
    }
}

impl<S: AsyncRead + Unpin> Ahead<S> {
    // As much as there is, up to the size of the buffer. It is given back when there is little.
    fn poll_fill(&mut self, cx: &mut Context) -> Poll<io::Result<()>> {
        let mut ahead = ReadBuf::new(&mut self.buffer);
        let result = Pin::new(&mut self.stream).poll_read(cx, &mut ahead);
        (self.start, self.end) = (0, ahead.filled().len());
        if self.end == 0 {
            self.buffer = Vec::new();
        }
        result
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Ahead<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context, wanted: &mut ReadBuf) -> Poll<io::Result<()>> {
        let ahead = &mut *self;
        if ahead.start < ahead.end {
            ahead.give(wanted);
            return Poll::Ready(Ok(()));
        }
        if !ahead.buffer.is_empty() {
            ready!(ahead.poll_fill(cx))?;
            ahead.give(wanted);
            return Poll::Ready(Ok(()));
        }
        let before = wanted.filled().len();
        ready!(Pin::new(&mut ahead.stream).poll_read(cx, wanted))?;
        let is_busy = wanted.remaining() == 0 && wanted.filled().len() - before >= READ_CHUNK_MIN;
        if is_busy {
            ahead.buffer = vec![0; READ_CHUNK_MAX];
            (ahead.start, ahead.end) = (0, 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Ahead<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        bufs: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::AsyncReadExt;

    use super::*;

    /// Counts how often it is asked.
    struct Counted<S>(S, Arc<AtomicUsize>);

    impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context, buf: &mut ReadBuf) -> Poll<io::Result<()>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut self.0).poll_read(cx, buf)
        }
    }

    // How often the system is asked for so many bytes that are taken so many at a time.
    async fn asked(total: usize, step: usize) -> usize {
        let bytes: Vec<u8> = (0..total).map(|place| (place * 31 / 7) as u8).collect();
        let count = Arc::new(AtomicUsize::new(0));
        let mut ahead = Ahead::new(Counted(&bytes[..], count.clone()));
        let (mut found, mut part) = (Vec::new(), vec![0; step]);
        loop {
            match ahead.read(&mut part).await.expect("no error") {
                0 => break,
                read => found.extend_from_slice(&part[..read]),
            }
        }
        assert!(found == bytes, "{total} bytes in steps of {step}");
        assert_eq!(ahead.buffer.capacity(), 0, "nothing is held at the end");
        count.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn what_is_busy_is_read_ahead_and_what_is_quiet_holds_nothing() {
        assert_eq!(asked(1 << 20, READ_CHUNK_MIN).await, 18);
        assert_eq!(asked((1 << 20) + 5, 5000).await, 18);
        assert_eq!(asked(1000, 100).await, 11);
        assert_eq!(asked(0, 100).await, 1);
    }
}
