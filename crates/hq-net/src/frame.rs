//! Frames: four bytes of length, little end first, and the payload.
//!
//! Memory grows with the bytes that arrive, never with a length that is only claimed. Frames to send
//! are collected and leave together; many small ones that arrive together cost one read.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hq_proto::Role;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsStream;

use crate::half_said::{CutShort, HalfSaid, Part};
use crate::handshake::Peer;
use crate::limits::{
    HALF_SAID_TIME_MAX, HELLO_FRAME_MAX, READ_CHUNK_MAX, READ_CHUNK_MIN, WRITE_CHUNK, frame_max,
};

/// Bytes of the length.
const HEADER: usize = 4;
/// A buffer that was mostly empty in this many reads shrinks.
const SPARSE_READS_MAX: u32 = 16;

/// Why a connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The other side vanished without saying goodbye.
    #[error("the connection was cut")]
    Cut,
    /// A frame is longer than the role allows. Received: the connection must be closed. Sent: nothing of it left.
    #[error("a frame of {length} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Length of the frame.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// The other side takes nothing.
    #[error("none of the sent data was received for {} s", time.as_secs())]
    Stalled {
        /// For how long.
        time: Duration,
    },
    /// The other side has begun a frame and says no more of it.
    #[error("a frame was started, but no more of it arrived for {} s", time.as_secs())]
    Unfinished {
        /// For how long.
        time: Duration,
    },
    /// The same, and others needed the room that it took.
    #[error("a frame stopped in the middle, and others needed its space")]
    CutShort,
    /// An earlier frame left only in part, because its sending was given up.
    #[error("an earlier frame was not sent completely")]
    Torn,
    /// The operating system or TLS says no.
    #[error("the connection broke: {0}")]
    Io(#[source] io::Error),
}

/// Sends frames.
pub struct FrameSender {
    stream: Box<dyn AsyncWrite + Send + Unpin>,
    // Whole frames that have not left; `left` bytes of them have.
    buffer: Vec<u8>,
    left: usize,
    is_torn: bool,
    limit: usize,
    patience: Option<Duration>,
}

/// Receives frames.
pub struct FrameReceiver {
    stream: Box<dyn AsyncRead + Send + Unpin>,
    buffer: Vec<u8>,
    // What was read and not yet used is `buffer[start..end]`.
    start: usize,
    end: usize,
    sparse_reads: u32,
    partial: Option<Partial>,
    // Of a long frame that is not needed any more.
    spare: Vec<u8>,
    limit: usize,
    peer: Peer,
    half_said: Option<Arc<HalfSaid>>,
    // Of the frame that comes, or that was given last, where not all of it came at once.
    part: Option<Part>,
}

/// A frame that has arrived in part.
struct Partial {
    bytes: Vec<u8>,
    length: usize,
}

impl Partial {
    fn missing(&self) -> usize {
        self.length - self.bytes.len()
    }

    // For so many bytes more. Doubling, but never beyond the end of the frame.
    fn make_room(&mut self, count: usize) {
        self.bytes.reserve_exact(self.room_for(count) - self.bytes.len());
    }

    // The room it has when so many bytes more have come.
    fn room_for(&self, count: usize) -> usize {
        if self.bytes.capacity() - self.bytes.len() < count {
            self.bytes.len() + self.missing().min(self.bytes.len().max(count))
        } else {
            self.bytes.capacity()
        }
    }
}

/// Frames over an encrypted connection.
pub(crate) fn over_tls<S>(stream: TlsStream<S>) -> (FrameSender, FrameReceiver)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (read, write) = tokio::io::split(stream);
    frames(Box::new(read), Box::new(write))
}

/// Frames over a plain connection.
pub(crate) fn over_tcp(stream: TcpStream) -> (FrameSender, FrameReceiver) {
    let (read, write) = stream.into_split();
    frames(Box::new(read), Box::new(write))
}

/// Frames over any two streams, without a handshake: for tests, and for transports that have proved
/// by other means who speaks.
pub fn frames_over(
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    role: Role,
) -> (FrameSender, FrameReceiver) {
    let (mut sender, mut receiver) = frames(Box::new(read), Box::new(write));
    sender.set_limit(frame_max(role));
    receiver.set_limit(frame_max(role));
    (sender, receiver)
}

/// Frames over any two streams. Nothing larger than a hello passes until the limits are raised.
pub(crate) fn frames(
    read: Box<dyn AsyncRead + Send + Unpin>,
    write: Box<dyn AsyncWrite + Send + Unpin>,
) -> (FrameSender, FrameReceiver) {
    let sender = FrameSender {
        stream: write,
        buffer: Vec::new(),
        left: 0,
        is_torn: false,
        limit: HELLO_FRAME_MAX,
        patience: None,
    };
    let receiver = FrameReceiver {
        stream: read,
        buffer: vec![0; READ_CHUNK_MIN],
        start: 0,
        end: 0,
        sparse_reads: 0,
        partial: None,
        spare: Vec::new(),
        limit: HELLO_FRAME_MAX,
        peer: Peer::default(),
        half_said: None,
        part: None,
    };
    (sender, receiver)
}

impl FrameSender {
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// From now on the connection is broken when the other side takes nothing for so long.
    pub fn set_patience(&mut self, time: Duration) {
        self.patience = Some(time);
    }

    /// Adds a frame to those that leave next: with the next [`FrameSender::flush`], or now when many
    /// bytes have come together. A large frame is written at once, without being copied.
    ///
    /// When the future is dropped before it is ready, the frame may have left, whole or in part; in
    /// the latter case nothing more can be sent.
    ///
    /// # Errors
    /// When the frame is over the limit (the connection stays usable) or the connection is broken.
    pub async fn send(&mut self, payload: &[u8]) -> Result<(), NetError> {
        if payload.len() > self.limit {
            return Err(NetError::TooLarge { length: payload.len(), limit: self.limit });
        }
        self.check()?;
        self.buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        if payload.len() < WRITE_CHUNK {
            self.buffer.extend_from_slice(payload);
            if self.buffer.len() >= WRITE_CHUNK {
                self.drain().await?;
            }
            return Ok(());
        }
        self.is_torn = true;
        // The head leaves with what follows it, in one packet.
        let (first, mut rest) = payload.split_at(WRITE_CHUNK - HEADER);
        self.buffer.extend_from_slice(first);
        self.drain().await?;
        while !rest.is_empty() {
            let count = within(self.patience, self.stream.write(rest)).await?;
            if count == 0 {
                return Err(NetError::Cut);
            }
            rest = &rest[count..];
        }
        self.is_torn = false;
        Ok(())
    }

    /// Lets all frames leave. May be given up and called again.
    ///
    /// # Errors
    /// When the connection is broken.
    pub async fn flush(&mut self) -> Result<(), NetError> {
        self.check()?;
        self.drain().await?;
        within(self.patience, self.stream.flush()).await
    }

    /// Lets all frames leave and says goodbye: the other side's next frame is `None`.
    ///
    /// # Errors
    /// When the connection is broken.
    pub async fn close(mut self) -> Result<(), NetError> {
        self.flush().await?;
        within(self.patience, self.stream.shutdown()).await
    }

    /// Bytes that wait for the next flush.
    pub fn buffered(&self) -> usize {
        self.buffer.len() - self.left
    }

    fn check(&self) -> Result<(), NetError> {
        if self.is_torn { Err(NetError::Torn) } else { Ok(()) }
    }

    async fn drain(&mut self) -> Result<(), NetError> {
        while self.left < self.buffer.len() {
            let count = within(self.patience, self.stream.write(&self.buffer[self.left..])).await?;
            if count == 0 {
                return Err(NetError::Cut);
            }
            self.left += count;
        }
        self.buffer.clear();
        self.left = 0;
        Ok(())
    }
}

impl FrameReceiver {
    /// From now on no frame may be longer.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(crate) fn set_peer(&mut self, peer: Peer) {
        self.peer = peer;
    }

    /// From now on, what has come of a frame counts there, until the next one is asked for; and the connection is broken when a
    /// frame does not come on.
    pub fn count_in(&mut self, half_said: Arc<HalfSaid>) {
        self.half_said = Some(half_said);
    }

    /// Who speaks.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The next frame; `None` when the other side said goodbye. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the connection is broken, a frame over the limit is announced, or one that counts does not come on.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, NetError> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            if self.read_on().await? == 0 {
                let is_between_frames = self.partial.is_none() && self.start == self.end;
                return if is_between_frames { Ok(None) } else { Err(NetError::Cut) };
            }
        }
    }

    /// The next frame, if it has already been read.
    ///
    /// # Errors
    /// When a frame over the limit is announced.
    pub fn try_next(&mut self) -> Result<Option<Vec<u8>>, NetError> {
        self.take()
    }

    /// Takes back a long frame that is not needed any more: the memory of one serves for the next.
    pub fn give_back(&mut self, mut frame: Vec<u8>) {
        frame.clear();
        self.spare = frame;
    }

    // The next frame, if all of it is in the buffer.
    fn take(&mut self) -> Result<Option<Vec<u8>>, NetError> {
        if self.partial.is_none() {
            // The one before has been heard.
            self.part = None;
            let Some(header) = self.buffer[self.start..self.end].first_chunk::<HEADER>() else {
                return Ok(None);
            };
            let length = u32::from_le_bytes(*header) as usize;
            if length > self.limit {
                return Err(NetError::TooLarge { length, limit: self.limit });
            }
            self.start += HEADER;
            // One that is far too large is for another frame, and so is a short frame.
            let is_spare_fit = (READ_CHUNK_MAX..=2 * length).contains(&self.spare.capacity());
            let bytes = match is_spare_fit && length >= READ_CHUNK_MAX {
                true => std::mem::take(&mut self.spare),
                false => Vec::with_capacity(length.min(READ_CHUNK_MAX)),
            };
            self.partial = Some(Partial { bytes, length });
        }
        let Some(partial) = &mut self.partial else { return Ok(None) };
        let missing = partial.missing();
        let count = missing.min(self.end - self.start);
        partial.make_room(count);
        partial.bytes.extend_from_slice(&self.buffer[self.start..self.start + count]);
        self.start += count;
        if count < missing {
            return Ok(None);
        }
        if let Some(part) = &self.part {
            part.is_whole();
        }
        Ok(self.partial.take().map(|partial| partial.bytes))
    }

    // Reads more when there is room for it; 0 at the end.
    async fn read_on(&mut self) -> Result<usize, NetError> {
        let (Some(half_said), Some(partial)) = (&self.half_said, &self.partial) else {
            return self.fill().await;
        };
        let part = self.part.get_or_insert_with(|| half_said.begin());
        let taken = part.takes(partial.room_for(1), partial.bytes.len()).await;
        taken.map_err(|CutShort| NetError::CutShort)?;
        let (cut, time) = (part.cut(), HALF_SAID_TIME_MAX);
        tokio::select! {
            biased;
            () = cut.notified() => Err(NetError::CutShort),
            read = timeout(time, self.fill()) => read.unwrap_or(Err(NetError::Unfinished { time })),
        }
    }

    // Reads more; 0 at the end.
    async fn fill(&mut self) -> Result<usize, NetError> {
        if self.start == self.end
            && let Some(partial) = &mut self.partial
            && partial.missing() >= READ_CHUNK_MAX
        {
            // The rest of a long frame need not pass the buffer.
            partial.make_room(1);
            let room = partial.missing().min(partial.bytes.capacity() - partial.bytes.len());
            let mut stream = (&mut self.stream).take(room as u64);
            return stream.read_buf(&mut partial.bytes).await.map_err(broken);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let room = self.buffer.len() - self.end;
        let count = self.stream.read(&mut self.buffer[self.end..]).await.map_err(broken)?;
        self.end += count;
        self.resize(count, room);
        Ok(count)
    }

    // A busy connection deserves a large buffer, a thousand quiet ones do not.
    fn resize(&mut self, count: usize, room: usize) {
        let size = self.buffer.len();
        self.sparse_reads = if count < size / 4 { self.sparse_reads + 1 } else { 0 };
        if count == room && size < READ_CHUNK_MAX {
            self.buffer.resize(2 * size, 0);
        } else if self.sparse_reads > SPARSE_READS_MAX && self.end <= READ_CHUNK_MIN && size > READ_CHUNK_MIN
        {
            self.buffer.truncate(READ_CHUNK_MIN);
            self.buffer.shrink_to_fit();
        }
    }
}

async fn within<T>(
    patience: Option<Duration>,
    work: impl Future<Output = io::Result<T>>,
) -> Result<T, NetError> {
    let Some(time) = patience else { return work.await.map_err(broken) };
    timeout(time, work).await.map_err(|_| NetError::Stalled { time })?.map_err(broken)
}

fn broken(error: io::Error) -> NetError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            NetError::Cut
        }
        _ => NetError::Io(error),
    }
}

impl fmt::Debug for FrameSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameSender").field("buffered", &self.buffered()).finish_non_exhaustive()
    }
}

impl fmt::Debug for FrameReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameReceiver").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{duplex, empty, sink};
    use tokio::runtime::Builder;

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime")
            .block_on(future)
    }

    fn receiver(read: impl AsyncRead + Send + Unpin + 'static) -> FrameReceiver {
        frames_over(read, sink(), Role::Worker).1
    }

    /// What comes out of these bytes: the lengths of the frames, and the end.
    fn check(bytes: &'static [u8], expected: &str) {
        let mut receiver = receiver(bytes);
        let mut lengths = Vec::new();
        let end = run(async {
            loop {
                match receiver.next().await {
                    Ok(Some(frame)) => lengths.push(frame.len()),
                    end => return end,
                }
            }
        });
        assert_eq!(format!("{lengths:?} {end:?}"), expected, "{bytes:?}");
    }

    #[test]
    fn frames_end_well_only_between_two() {
        check(b"", "[] Ok(None)");
        check(b"\0\0\0\0", "[0] Ok(None)");
        check(b"\x01\0\0\0a\x02\0\0\0bc", "[1, 2] Ok(None)");
        check(b"\x01", "[] Err(Cut)");
        check(b"\x01\0\0\0", "[] Err(Cut)");
        check(b"\x02\0\0\0a", "[] Err(Cut)");
        check(b"\0\0\0\0\xff\xff\xff\xff", "[0] Err(TooLarge { length: 4294967295, limit: 67108864 })");
    }

    #[test]
    fn a_length_alone_takes_little_memory() {
        let (mut near, far) = duplex(1 << 20);
        let mut receiver = receiver(far);
        run(async {
            near.write_all(&(60_u32 << 20).to_le_bytes()).await.expect("room");
            near.write_all(&[7; 1000]).await.expect("room");
            let waiting = timeout(Duration::from_secs(1), receiver.next()).await;
            assert!(waiting.is_err(), "the frame is not complete");
            let partial = receiver.partial.as_ref().expect("a part of a frame");
            assert_eq!((partial.bytes.len(), partial.bytes.capacity()), (1000, READ_CHUNK_MAX));
            near.write_all(&[7; 500_000]).await.expect("room");
            let waiting = timeout(Duration::from_secs(1), receiver.next()).await;
            assert!(waiting.is_err(), "giving up loses nothing");
            let partial = receiver.partial.as_ref().expect("a part of a frame");
            assert!(partial.bytes.len() == 501_000 && partial.bytes.capacity() <= 2 * 501_000);
        });
    }

    // What a peer has begun, and how its message ends.
    async fn half(near: &mut (impl AsyncWrite + Unpin), length: u32, bytes: usize) {
        near.write_all(&length.to_le_bytes()).await.expect("room");
        near.write_all(&vec![7; bytes]).await.expect("room");
    }

    #[test]
    fn what_has_come_of_a_frame_counts_until_the_next_one_is_asked_for() {
        let all = HalfSaid::new(1 << 30, HALF_SAID_TIME_MAX);
        let (mut near, far) = duplex(4 << 20);
        let mut receiver = receiver(far);
        receiver.count_in(all.clone());
        run(async {
            half(&mut near, 1 << 20, 600_000).await;
            let waiting = timeout(Duration::from_secs(1), receiver.next()).await;
            assert!(waiting.is_err(), "the frame is not complete");
            let (bytes, count) = all.size();
            assert!((600_000..=1 << 20).contains(&bytes) && count == 1, "{bytes} bytes of {count}");
            near.write_all(&vec![7; (1 << 20) - 600_000]).await.expect("room");
            let frame = receiver.next().await.expect("whole").expect("a frame");
            assert_eq!((frame.len(), all.size()), (1 << 20, (1 << 20, 1)), "it is not heard yet");
            drop(near);
            assert!(matches!(receiver.next().await, Ok(None)));
            assert_eq!(all.size(), (0, 0));
        });
    }

    #[test]
    fn a_frame_that_is_begun_and_not_continued_ends_the_connection() {
        let all = HalfSaid::new(1 << 30, HALF_SAID_TIME_MAX);
        let (mut near, far) = duplex(4 << 20);
        let mut receiver = receiver(far);
        receiver.count_in(all.clone());
        run(async {
            half(&mut near, 1000, 900).await;
            let slow = async {
                for _ in 0..99 {
                    tokio::time::sleep(HALF_SAID_TIME_MAX - Duration::from_secs(1)).await;
                    near.write_all(b"x").await.expect("room");
                }
            };
            let (end, ()) = tokio::join!(receiver.next(), slow);
            assert!(matches!(end, Err(NetError::Unfinished { .. })), "{end:?}");
            drop(receiver);
            assert_eq!(all.size(), (0, 0));
        });
    }

    #[test]
    fn a_frame_that_has_stopped_goes_when_another_needs_its_room() {
        let all = HalfSaid::new(1 << 20, Duration::from_secs(2));
        let (mut near, far) = duplex(4 << 20);
        let (mut other, from_other) = duplex(4 << 20);
        let (mut stopped, mut whole) = (receiver(far), receiver(from_other));
        stopped.count_in(all.clone());
        whole.count_in(all.clone());
        run(async {
            half(&mut near, 1 << 20, 900_000).await;
            let waiting = timeout(Duration::from_secs(1), stopped.next()).await;
            assert!(waiting.is_err(), "the frame is not complete");
            half(&mut other, 1 << 20, 1 << 20).await;
            let (cut, frame) = tokio::join!(stopped.next(), whole.next());
            assert!(matches!(cut, Err(NetError::CutShort)), "{cut:?}");
            assert_eq!(frame.expect("whole").expect("a frame").len(), 1 << 20);
        });
    }

    #[test]
    fn who_takes_nothing_is_given_up_after_a_while_and_who_takes_slowly_is_not() {
        let time = Duration::from_secs(60);
        let (near, mut far) = duplex(64);
        let (mut sender, _) = frames_over(empty(), near, Role::Client);
        sender.set_patience(time);
        run(async {
            let slow = tokio::spawn(async move {
                // Less than a second before patience ends.
                for _ in 0..2 * WRITE_CHUNK / 64 {
                    tokio::time::sleep(time - Duration::from_secs(1)).await;
                    far.read_exact(&mut [0; 64]).await.expect("it is there");
                }
                far
            });
            sender.send(&vec![7; 2 * WRITE_CHUNK]).await.expect("it is taken");
            let _far = slow.await.expect("no panic");
            let stalled = sender.send(&vec![7; WRITE_CHUNK]).await;
            assert!(matches!(stalled, Err(NetError::Stalled { .. })), "{stalled:?}");
        });
    }

    #[test]
    fn the_memory_of_a_long_frame_serves_for_the_next() {
        let length = 3 * READ_CHUNK_MAX;
        let frame = [&(length as u32).to_le_bytes()[..], &vec![7; length]].concat();
        let short = [&4_u32.to_le_bytes()[..], b"word"].concat();
        let bytes: &'static [u8] = [&frame[..], &short, &frame].concat().leak();
        let mut receiver = receiver(bytes);
        run(async {
            let first = receiver.next().await.expect("whole").expect("a frame");
            let place = first.as_ptr();
            receiver.give_back(first);
            let word = receiver.next().await.expect("whole").expect("a frame");
            assert_eq!(word, b"word", "a short one does not take it");
            let second = receiver.next().await.expect("whole").expect("a frame");
            assert!(second.as_ptr() == place && second == vec![7; length]);
        });
    }

    #[test]
    fn the_buffer_follows_the_traffic() {
        let (near, far) = duplex(1 << 20);
        let (mut sender, _) = frames_over(empty(), near, Role::Worker);
        let mut receiver = receiver(far);
        run(async {
            for _ in 0..3 {
                sender.send(&[7; 60_000]).await.expect("room");
            }
            sender.flush().await.expect("room");
            for _ in 0..3 {
                receiver.next().await.expect("connected");
            }
            assert_eq!(receiver.buffer.len(), READ_CHUNK_MAX);
            for _ in 0..=SPARSE_READS_MAX {
                sender.send(b"tick").await.expect("room");
                sender.flush().await.expect("room");
                receiver.next().await.expect("connected");
            }
            assert_eq!(receiver.buffer.capacity(), READ_CHUNK_MIN);
        });
    }

    #[test]
    fn a_frame_given_up_halfway_is_the_last() {
        let (near, _far) = duplex(16);
        let (mut sender, _) = frames_over(empty(), near, Role::Worker);
        run(async {
            let given_up = timeout(Duration::from_secs(1), sender.send(&[7; WRITE_CHUNK])).await;
            assert!(given_up.is_err(), "nobody reads");
            assert!(matches!(sender.send(b"more").await, Err(NetError::Torn)));
            assert!(matches!(sender.flush().await, Err(NetError::Torn)));
        });
    }

    #[test]
    fn a_flush_given_up_can_be_repeated() {
        let (near, far) = duplex(16);
        let (mut sender, _) = frames_over(empty(), near, Role::Worker);
        let mut receiver = receiver(far);
        run(async {
            sender.send(&[7; 100]).await.expect("only collected");
            assert!(timeout(Duration::from_secs(1), sender.flush()).await.is_err(), "nobody reads");
            let (flushed, frame) = tokio::join!(sender.flush(), receiver.next());
            flushed.expect("somebody reads");
            assert_eq!(frame.expect("connected"), Some(vec![7; 100]));
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn frames_arrive_as_they_were_sent(
            lengths in prop::collection::vec(prop_oneof![0..300_usize, 60_000..140_000_usize], 0..12),
            pipe in prop_oneof![1..100_usize, 1000..100_000_usize],
        ) {
            let (near, far) = duplex(pipe);
            let (mut sender, _) = frames_over(empty(), near, Role::Worker);
            let mut receiver = receiver(far);
            let frame: Vec<u8> = (0..140_000_u32).map(|i| (i % 251) as u8).collect();
            run(async {
                let send = async {
                    for &length in &lengths {
                        sender.send(&frame[..length]).await.expect("connected");
                    }
                    sender.close().await.expect("connected");
                };
                let receive = async {
                    for &length in &lengths {
                        let got = receiver.next().await.expect("connected").expect("a frame");
                        assert!(got == frame[..length], "a frame of {length} bytes, {} came", got.len());
                    }
                    assert!(matches!(receiver.next().await, Ok(None)));
                };
                tokio::join!(send, receive);
            });
        }
    }
}
