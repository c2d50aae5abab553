//! What tasks print into streams: carried from pipes into a file of this worker in the directory of each stream, or to the
//! server, which writes it into the log that a stream can be.
//!
//! One thread owns the read ends of the pipes and the files. It hears of a task before that starts, and of its end; an end
//! goes on only when what the task has printed is in the file. While a file finds no room, nothing is read, and tasks wait
//! in their writes.

mod carrier;
mod file;
mod remote;
mod room;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use hq_core::log::Written;
use hq_core::worker::Input;
use hq_model::{ByteString, Compression, Instance, Stream, TaskRef, WorkerId};
use hq_stream::Channel;
use rustix::event::{EventfdFlags, eventfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::mpsc::UnboundedSender;

pub(crate) use remote::LogLink;

use crate::limits;
use crate::outputs::{Aftermath, Work};
use crate::reader;

/// Which attempt printed something.
pub(crate) type Key = (TaskRef, Instance);

/// Names the file of a worker: where its stream goes, and who writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) stream: Stream,
    /// Of what this worker writes; for a log the server knows it.
    pub(crate) compression: Compression,
    pub(crate) server_uid: String,
    pub(crate) worker: WorkerId,
}

impl Place {
    fn path(&self) -> &Path {
        Path::new(std::ffi::OsStr::from_bytes(self.stream.path()))
    }
}

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// An attempt is about to start and prints here.
    Open {
        key: Key,
        place: Place,
        pipes: Vec<(Channel, OwnedFd)>,
        since: Instant,
    },
    /// Nothing of it is left. Where something else runs in its place already, its end may wait a little for others.
    End {
        key: Key,
        aftermath: Box<Aftermath>,
        may_wait: bool,
    },
    WaitNoMore {
        of: Hurried,
    },
    /// It has never started.
    Forget {
        key: Key,
    },
    /// What became of a batch for a log.
    Answered {
        number: u64,
        answer: Written,
    },
    /// The server is found again, or the worker ends without it.
    LinkChanged,
    /// What it prints is awaited until then: it is carried at once, and this is told in which file it is.
    Follow {
        key: Key,
        until: Instant,
        reader: mpsc::Sender<reader::Order>,
    },
}

/// Whose ends do not wait for room.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hurried {
    /// That of the task, which was canceled.
    Task(TaskRef),
    /// Those of all that run here: the worker ends them and leaves.
    All,
}

impl Hurried {
    fn contains(self, task: TaskRef) -> bool {
        match self {
            Hurried::Task(one) => one == task,
            Hurried::All => true,
        }
    }
}

/// Why an attempt cannot print into its stream.
#[derive(Debug)]
pub(crate) enum NoStream {
    /// It fails.
    Directory(String),
    /// It could elsewhere.
    Pipes(String),
}

/// The write ends for a task, which it opens by path. Kept until it has ended.
#[derive(Debug)]
pub(crate) struct WriteEnds {
    key: Key,
    ends: [Option<OwnedFd>; 2],
}

impl WriteEnds {
    /// What the launcher opens as standard output and standard error; empty where that is no stream.
    pub(crate) fn paths(&self) -> [ByteString; 2] {
        let path =
            |end: &OwnedFd| format!("/proc/{}/fd/{}", std::process::id(), end.as_raw_fd()).into_bytes();
        self.ends.each_ref().map(|end| end.as_ref().map(path).unwrap_or_default())
    }
}

/// Where ends go when all that their tasks printed is in the file.
#[derive(Debug)]
pub(crate) struct Done {
    /// When nothing else is to be done.
    pub(crate) told: UnboundedSender<Input>,
    /// The others.
    pub(crate) cleanup: mpsc::Sender<Work>,
}

impl Done {
    fn tell(&self, aftermath: Box<Aftermath>) {
        // The thread that takes it ends after that of the streams; when the loop has ended nobody wants to know.
        let _ = if aftermath.is_nothing() {
            self.told.send(aftermath.input).is_ok()
        } else {
            self.cleanup.send(Work::Clean(aftermath)).is_ok()
        };
    }
}

/// How the thread is woken.
#[derive(Debug)]
struct Wake {
    event: OwnedFd,
    /// It looks within [`limits::STREAM_LOOK`] anyhow, which is soon enough for what has only begun, and for ends that may wait.
    dozes: AtomicBool,
    /// Ends that it was told of and has not let go.
    ends: AtomicUsize,
    /// Some file has no room.
    is_stalled: AtomicBool,
}

/// The thread. When it is dropped, what is in the pipes is written, and the files are closed.
#[derive(Debug)]
pub(crate) struct Streams {
    queue: Option<mpsc::Sender<Order>>,
    wake: Arc<Wake>,
    thread: Option<std::thread::JoinHandle<()>>,
    // Directories that were there when a task began, with how many such tasks run.
    directories: HashMap<ByteString, usize>,
    of_tasks: HashMap<Key, ByteString>,
}

impl Streams {
    /// Ends go on to `done`.
    pub(crate) fn start(done: Done, link: Arc<LogLink>) -> io::Result<Streams> {
        raise_open_files();
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let wake = Wake { event, dozes: false.into(), ends: 0.into(), is_stalled: false.into() };
        let wake = Arc::new(wake);
        let (queue, orders) = mpsc::channel();
        let carrier = carrier::Carrier::new(orders, Arc::clone(&wake), done, link)?;
        let thread = std::thread::Builder::new().name("streams".into()).spawn(move || carrier.run())?;
        let (directories, of_tasks) = (HashMap::new(), HashMap::new());
        Ok(Streams { queue: Some(queue), wake, thread: Some(thread), directories, of_tasks })
    }

    /// Makes room for what this attempt prints on these channels.
    pub(crate) fn open(
        &mut self,
        key: Key,
        place: Place,
        [stdout, stderr]: [bool; 2],
    ) -> Result<WriteEnds, NoStream> {
        let dir = place.stream.path();
        if matches!(place.stream, Stream::Directory(_)) && !self.directories.contains_key(dir) {
            let path = place.path();
            fs::create_dir_all(path).map_err(|error| {
                NoStream::Directory(format!("Cannot create stream directory {}: {error}", path.display()))
            })?;
        }
        let mut pipes = Vec::new();
        let mut end = |channel: Channel, is_streamed: bool| -> Result<Option<OwnedFd>, NoStream> {
            if !is_streamed {
                return Ok(None);
            }
            // What a task opens by path is another description of the pipe, in which it waits.
            let pipe = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
            let (read, write) = pipe.map_err(|error| {
                NoStream::Pipes(format!(
                    "no pipes for what the task prints: {error}; raise the limit of open files"
                ))
            })?;
            pipes.push((channel, read));
            Ok(Some(write))
        };
        let ends = [end(Channel::Stdout, stdout)?, end(Channel::Stderr, stderr)?];
        *self.directories.entry(dir.clone()).or_default() += 1;
        self.of_tasks.insert(key, dir.clone());
        self.tell(Order::Open { key, place, pipes, since: Instant::now() });
        Ok(WriteEnds { key, ends })
    }

    /// The attempt has ended: its end goes on when all it has printed is in the file, soon where it `may_wait`, else at once.
    pub(crate) fn end(&mut self, ends: WriteEnds, aftermath: Aftermath, may_wait: bool) {
        let key = ends.key;
        drop(ends);
        self.leave(key);
        self.wake.ends.fetch_add(1, Ordering::Relaxed);
        self.tell(Order::End { key, aftermath: Box::new(aftermath), may_wait });
    }

    /// True when what was printed is not put away as fast as tasks end: those that would print more had better wait.
    pub(crate) fn is_behind(&self) -> bool {
        self.wake.is_stalled.load(Ordering::Relaxed)
            || self.wake.ends.load(Ordering::Relaxed) >= limits::STREAM_ENDS_MAX
    }

    /// These ends do not wait for room.
    pub(crate) fn wait_no_more(&self, of: Hurried) {
        self.tell(Order::WaitNoMore { of });
    }

    /// The attempt has never started.
    pub(crate) fn forget(&mut self, ends: WriteEnds) {
        self.leave(ends.key);
        self.tell(Order::Forget { key: ends.key });
    }

    /// The server says what became of a batch for a log.
    pub(crate) fn answered(&self, number: u64, answer: Written) {
        self.tell(Order::Answered { number, answer });
    }

    /// The server is found again, or the worker ends without it, as the link says.
    pub(crate) fn link_changed(&self) {
        self.tell(Order::LinkChanged);
    }

    /// Somebody waits for what the attempt prints until then.
    pub(crate) fn follow(&self, key: Key, until: Instant, reader: mpsc::Sender<reader::Order>) {
        self.tell(Order::Follow { key, until, reader });
    }

    fn leave(&mut self, key: Key) {
        let Some(dir) = self.of_tasks.remove(&key) else { return };
        if let Some(count) = self.directories.get_mut(&dir) {
            *count -= 1;
            if *count == 0 {
                self.directories.remove(&dir);
            }
        }
    }

    fn tell(&self, order: Order) {
        if let Some(queue) = &self.queue {
            let may_wait = matches!(order, Order::Open { .. } | Order::End { may_wait: true, .. });
            // The thread ends only when the queue does.
            let _ = queue.send(order);
            // Either the thread sees the order before it sleeps for long, or this sees that it sleeps.
            fence(Ordering::SeqCst);
            if !(may_wait && self.wake.dozes.load(Ordering::SeqCst)) {
                self.wake();
            }
        }
    }

    fn wake(&self) {
        // A full counter wakes as well.
        let _ = rustix::io::write(&self.wake.event, &1_u64.to_ne_bytes());
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.queue = None;
        self.wake();
        if let Some(thread) = self.thread.take() {
            // It does not panic by itself; if it did, that was told already.
            let _ = thread.join();
        }
    }
}

// Each running task may need four descriptors here. Tasks keep the limit that the worker was started with: the launcher
// was there before.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Time of day.
fn now() -> hq_model::Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    hq_model::Timestamp::default().after(since_epoch.unwrap_or_default())
}

/// True when a later attempt may succeed, once somebody has made room.
fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

const _: () = assert!(limits::STREAM_CHUNK <= 64 << 10);

#[cfg(test)]
mod tests;
