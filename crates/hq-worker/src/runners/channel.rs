//! The two sockets between the worker and an interpreter.
//!
//! Over a stream goes all that they say. The numbers of calls go into a *queue*, another one, and a call begins when its number is
//! taken out there: by the interpreter, one at a time, or by the worker, which holds that end, too, and takes all at once what it
//! wants back. The system lets each of them take in its turn. So nobody asks an interpreter that may be busy for long whether it has
//! begun a call, and what was taken back never begins.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hq_core::worker::RunnerId;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    recvmsg, send, sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use super::{Heard, News};
use crate::launcher::Slot;
use crate::limits::{RUNNER_CALLS_MAX, RUNNER_PIECE, RUNNER_READ_MAX};
use crate::socket::register;

/// What a runner is spoken to through.
#[derive(Debug)]
pub(super) struct Channel {
    // None until whoever is at its other end has come.
    stream: Option<Arc<OwnedFd>>,
    queue: OwnedFd,
    // The end from which the interpreter takes.
    queue_out: OwnedFd,
    // What is said and put in one turn leaves together, what a number names before the number.
    said: Vec<u8>,
    numbers: Vec<u8>,
    // What there is no room for waits to be written by a task of its own: the loop waits for no interpreter.
    rest: mpsc::UnboundedSender<Vec<u8>>,
    // How many of them wait there.
    waiting: Arc<AtomicUsize>,
    look: mpsc::UnboundedSender<Look>,
    // What was read and is no whole frame.
    unread: Vec<u8>,
    // Until there is a stream.
    waits: Option<Waits>,
}

// What is to be done with a stream.
#[derive(Debug)]
struct Waits {
    runner: (RunnerId, Slot),
    preface: Vec<u8>,
    to_write: ToWrite,
    looks: mpsc::UnboundedReceiver<Look>,
    heard: mpsc::UnboundedSender<Heard>,
}

// What waits for room, and how much there is of it.
#[derive(Debug)]
struct ToWrite {
    pieces: mpsc::UnboundedReceiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

/// When to look again what an interpreter has said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Look {
    /// When it has said something.
    Once,
    /// In a while: it has more to do, and is not to wake up this worker after each call.
    In(Duration),
}

impl Channel {
    /// Makes the queue. What is said waits for a stream. What there is of it is heard of the process of this runner.
    ///
    /// # Errors
    /// When the system gives no sockets.
    pub(super) fn new(runner: (RunnerId, Slot), heard: mpsc::UnboundedSender<Heard>) -> io::Result<Channel> {
        let (queue, queue_out) = pair()?;
        let (rest, pieces) = mpsc::unbounded_channel();
        let (look, looks) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let to_write = ToWrite { pieces, waiting: waiting.clone() };
        let waits = Some(Waits { runner, preface: Vec::new(), to_write, looks, heard });
        let channel = Channel {
            stream: None,
            queue,
            queue_out,
            said: Vec::new(),
            numbers: Vec::new(),
            rest,
            waiting,
            look,
            unread: Vec::new(),
            waits,
        };
        channel.look(Look::Once);
        Ok(channel)
    }

    /// Says what comes before the queue and all frames, when there is a stream.
    pub(super) fn say_first(&mut self, preface: Vec<u8>) {
        self.waits.iter_mut().for_each(|waits| waits.preface.extend_from_slice(&preface));
    }

    /// Speaks over this stream, a Unix socket. Nothing happens where there is one already.
    ///
    /// # Errors
    /// When nobody is at its other end.
    pub(super) fn connect(&mut self, stream: OwnedFd) -> io::Result<()> {
        let Some(Waits { runner, preface, to_write, looks, heard }) = self.waits.take() else {
            return Ok(());
        };
        // It has room for the program: nobody waits here.
        let mut rest = &preface[..];
        while !rest.is_empty() {
            rest = &rest[send(&stream, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?..];
        }
        pass(&stream, self.queue_out.as_fd())?;
        let stream = Arc::new(stream);
        tokio::spawn(write_all(stream.clone(), to_write));
        tokio::spawn(watch(runner, stream.clone(), looks, heard));
        self.stream = Some(stream);
        Ok(())
    }

    /// Says a frame, with the next flush.
    pub(super) fn say(&mut self, frame: &[u8]) {
        self.said.extend_from_slice(frame);
    }

    /// Puts a number behind those that wait there, with the next flush.
    pub(super) fn put(&mut self, number: u64) {
        self.numbers.extend_from_slice(&number.to_le_bytes());
    }

    /// What was said and put is on its way after this.
    ///
    /// # Errors
    /// When there is no room for the numbers.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let said = std::mem::take(&mut self.said);
        if !said.is_empty() {
            self.write(said);
        }
        let numbers = std::mem::take(&mut self.numbers);
        // The few bytes have room together or not at all.
        if !numbers.is_empty() {
            send(&self.queue, &numbers, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    fn write(&self, mut said: Vec<u8>) {
        // Behind what waits already.
        if let Some(stream) = self.stream.as_ref().filter(|_| self.waiting.load(Ordering::Acquire) == 0) {
            let count = send(stream, &said, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).unwrap_or_default();
            said.drain(..count);
        }
        if !said.is_empty() {
            self.waiting.fetch_add(1, Ordering::AcqRel);
            // What is not taken any more has ended, which is heard another way.
            let _ = self.rest.send(said);
        }
    }

    /// Takes back all numbers that the interpreter has not taken, in order.
    pub(super) fn take_back(&mut self) -> Vec<u64> {
        // All at once: else it could take one in between.
        let mut numbers = [0; 8 * RUNNER_CALLS_MAX];
        let length = receive(&self.queue_out, &mut numbers).unwrap_or_default();
        let unsent = std::mem::take(&mut self.numbers);
        let numbers = numbers[..length].as_chunks::<8>().0.iter().chain(unsent.as_chunks::<8>().0);
        numbers.map(|number| u64::from_le_bytes(*number)).collect()
    }

    /// Says when to look again.
    pub(super) fn look(&self, look: Look) {
        let _ = self.look.send(look);
    }

    /// Hands out all whole frames that are there, each with its header. True when nothing more will come.
    ///
    /// # Errors
    /// What `take` says of them.
    pub(super) fn read(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<Option<usize>, String>,
    ) -> Result<bool, String> {
        let Some(stream) = &self.stream else { return Ok(false) };
        let mut buffer = [0; RUNNER_PIECE];
        let mut left = RUNNER_READ_MAX;
        let mut is_closed = false;
        while left > 0 {
            match receive(stream, &mut buffer) {
                Ok(0) => is_closed = true,
                Ok(length) => {
                    self.unread.extend_from_slice(&buffer[..length]);
                    left = left.saturating_sub(length);
                    // What is longer fills it.
                    if length == buffer.len() {
                        continue;
                    }
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                // As if it had ended: nothing is heard of it.
                Err(_) => is_closed = true,
            }
            break;
        }
        let mut at = 0;
        while let Some(length) = take(&self.unread[at..])? {
            at += length;
        }
        self.unread.drain(..at);
        Ok(is_closed)
    }
}

/// Two sockets that are connected.
///
/// # Errors
/// When the system gives none.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut into = [IoSliceMut::new(buffer)];
    let received = recvmsg(socket, &mut into, &mut Default::default(), RecvFlags::DONTWAIT)?;
    Ok(received.bytes)
}

// With a byte, for a descriptor does not travel alone.
fn pass(socket: &OwnedFd, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let descriptors = [descriptor];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

async fn write_all(socket: Arc<OwnedFd>, mut to_write: ToWrite) {
    while let Some(piece) = to_write.pieces.recv().await {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            match send(&socket, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if wait(&socket, Interest::WRITABLE).await.is_ok() => {}
                // Who reads hears of the end.
                Err(_) => return,
            }
        }
        to_write.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn watch(
    runner: (RunnerId, Slot),
    socket: Arc<OwnedFd>,
    mut looks: mpsc::UnboundedReceiver<Look>,
    heard: mpsc::UnboundedSender<Heard>,
) {
    let alarm = Alarm::new().ok();
    while let Some(look) = looks.recv().await {
        // What makes waiting fail shows when it is read.
        let _ = match (look, &alarm) {
            (Look::In(pause), Some(alarm)) => alarm.sleep(pause).await,
            (Look::Once | Look::In(_), _) => wait(&socket, Interest::READABLE).await,
        };
        if heard.send(Heard::Runner(runner, News::Look)).is_err() {
            return;
        }
    }
}

// Only while it is waited for does the system say anything of it.
async fn wait(socket: &Arc<OwnedFd>, interest: Interest) -> io::Result<()> {
    let socket = register(socket.try_clone()?, interest)?;
    drop(socket.ready(interest).await?);
    Ok(())
}

/// Sleeps for less than a millisecond, which the event loop cannot.
struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    #[expect(unsafe_code, reason = "a plain system call that gives a descriptor")]
    fn new() -> io::Result<Alarm> {
        // SAFETY: the descriptor is new, and ours.
        let timer = unsafe {
            let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
            match libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) {
                timer if timer >= 0 => OwnedFd::from_raw_fd(timer),
                _ => return Err(io::Error::last_os_error()),
            }
        };
        Ok(Alarm(register(timer, Interest::READABLE)?))
    }

    #[expect(unsafe_code, reason = "a plain system call with a pointer to a value of ours")]
    async fn sleep(&self, time: Duration) -> io::Result<()> {
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let at = libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos() as libc::c_long,
        };
        let once = libc::itimerspec { it_interval: never, it_value: at };
        // SAFETY: both outlive the call; nothing is written where the pointer is null.
        let set =
            unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const once, std::ptr::null_mut()) };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut count = [0; 8];
        loop {
            let mut ready = self.0.readable().await?;
            match rustix::io::read(&self.0, &mut count) {
                Err(Errno::AGAIN) => ready.clear_ready(),
                _ => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNER: (RunnerId, Slot) = (RunnerId(1), Slot { index: 2, generation: 3 });

    // With the other end of the stream.
    fn open(preface: &[u8]) -> (Channel, OwnedFd, mpsc::UnboundedReceiver<Heard>) {
        let (heard, hears) = mpsc::unbounded_channel();
        let mut channel = Channel::new(RUNNER, heard).expect("sockets");
        channel.say_first(preface.to_vec());
        let (ours, theirs) = pair().expect("sockets");
        channel.connect(ours).expect("somebody is there");
        (channel, theirs, hears)
    }

    fn is_look(heard: Option<Heard>) -> bool {
        matches!(heard, Some(Heard::Runner(RUNNER, News::Look)))
    }

    #[tokio::test]
    async fn a_number_is_taken_once_by_whoever_is_first() {
        let (mut channel, _theirs, _hears) = open(b"");
        for number in 1..=RUNNER_CALLS_MAX as u64 {
            channel.put(number);
            channel.flush().expect("room");
        }
        let mut buffer = [0; 8];
        assert_eq!(receive(&channel.queue_out, &mut buffer), Ok(8), "as an interpreter does");
        assert_eq!(channel.take_back(), (2..=RUNNER_CALLS_MAX as u64).collect::<Vec<_>>());
        assert!(channel.take_back().is_empty());
        channel.put(6);
        channel.flush().expect("room");
        channel.put(7);
        assert_eq!(channel.take_back(), [6, 7], "also what is not on its way yet");
    }

    #[tokio::test]
    async fn it_is_looked_again_when_there_is_something_or_after_a_time() {
        let (channel, theirs, mut hears) = open(b"preface");
        drop(theirs);
        channel.look(Look::In(Duration::from_micros(1)));
        channel.look(Look::In(Duration::from_micros(1)));
        // It has closed its end.
        for _ in 0..3 {
            assert!(is_look(hears.recv().await));
        }
    }

    #[tokio::test]
    async fn what_is_said_is_read_in_whole_frames_of_any_number() {
        let (mut channel, theirs, mut hears) = open(b"");
        let mut taken = Vec::new();
        // A frame has as many bytes as its first one says.
        let mut read = |channel: &mut Channel| {
            let closed = channel.read(|bytes| {
                let length =
                    bytes.first().map(|first| *first as usize).filter(|length| *length <= bytes.len());
                taken.extend(length.map(|length| bytes[..length].to_vec()));
                Ok(length)
            });
            (closed, std::mem::take(&mut taken))
        };
        let say = |bytes: &[u8]| send(&theirs, bytes, SendFlags::empty()).expect("room");
        assert_eq!(read(&mut channel), (Ok(false), Vec::new()));
        say(&[2, 9, 3, 8]);
        assert!(is_look(hears.recv().await));
        assert_eq!(read(&mut channel), (Ok(false), vec![vec![2, 9]]));
        say(&[8, 1]);
        assert_eq!(read(&mut channel), (Ok(false), vec![vec![3, 8, 8], vec![1]]));
        drop(theirs);
        assert_eq!(read(&mut channel), (Ok(true), Vec::new()));
    }

    #[tokio::test]
    async fn what_is_said_before_there_is_a_stream_waits_for_it() {
        let (heard, mut hears) = mpsc::unbounded_channel();
        let mut channel = Channel::new(RUNNER, heard).expect("sockets");
        channel.say_first(b"preface".to_vec());
        channel.put(1);
        channel.say(b"frame");
        channel.flush().expect("room");
        assert_eq!(channel.read(|_| Ok(None)), Ok(false));
        let (ours, theirs) = pair().expect("sockets");
        channel.connect(ours).expect("somebody is there");
        // The byte with the queue is between the two.
        let mut said = Vec::new();
        while said.len() < b"preface\0frame".len() {
            wait(&Arc::new(theirs.try_clone().expect("a descriptor")), Interest::READABLE)
                .await
                .expect("said");
            let mut buffer = [0; 64];
            let length = receive(&theirs, &mut buffer).unwrap_or_default();
            said.extend_from_slice(&buffer[..length]);
        }
        assert_eq!(said, b"preface\0frame");
        send(&theirs, b"!", SendFlags::empty()).expect("room");
        assert!(is_look(hears.recv().await));
        // Another one is not heard.
        let (other, _theirs) = pair().expect("sockets");
        channel.connect(other).expect("nothing happens");
        let mut taken = Vec::new();
        let closed = channel.read(|bytes| {
            taken.extend_from_slice(bytes);
            Ok(Some(bytes.len()).filter(|length| *length > 0))
        });
        assert_eq!((closed, taken), (Ok(false), b"!".to_vec()));
    }
}
