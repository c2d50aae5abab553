//! What tasks print into the files of streams, and the ends that wait for it.

use std::fs;
use std::io::Write;

use hq_core::log::{LogEntry, LogPiece};
use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome};
use hq_core::worker_messages::FromWorker;
use hq_model::{Compression, JobId, TaskId, Usage};
use hq_proto::decode_from_worker;
use hq_stream::{Content, StreamFile};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::declared::Promised;

fn key(task: u32) -> Key {
    (TaskRef::new(JobId(1), TaskId(task)), Instance(0))
}

fn place(dir: &Path) -> Place {
    let stream = Stream::Directory(dir.as_os_str().as_bytes().to_vec());
    Place { stream, compression: Compression::None, server_uid: "uid".to_owned(), worker: WorkerId(1) }
}

fn aftermath(key: Key) -> Aftermath {
    Aftermath {
        input: Input::ended(key.0, Outcome::Finished, Usage::default()),
        task_dir: Vec::new(),
        nodes_dir: Vec::new(),
        sinks: Vec::new(),
        promised: Promised::default(),
        result: None,
        leaves: None,
    }
}

fn start() -> (Streams, UnboundedReceiver<Input>, mpsc::Receiver<Work>) {
    let (told, ends) = unbounded_channel();
    let (cleanup, others) = mpsc::channel();
    let link = Arc::new(LogLink::new(unbounded_channel().0));
    (Streams::start(Done { told, cleanup }, link).expect("a thread"), ends, others)
}

/// As a task opens it.
fn task(path: &[u8]) -> fs::File {
    let path = String::from_utf8(path.to_vec()).expect("a path of numbers");
    fs::OpenOptions::new().write(true).open(path).expect("a pipe")
}

/// What is in all files of a directory: bytes printed, and ends.
fn content(dir: &Path) -> (Vec<u8>, usize) {
    let (mut bytes, mut ends) = (Vec::new(), 0);
    for entry in fs::read_dir(dir).expect("a directory") {
        let mut scan = StreamFile::open(&entry.expect("an entry").path()).expect("a file").scan();
        while let Some(block) = scan.next_block().expect("a block") {
            for entry in block.entries() {
                match entry.content {
                    Content::Bytes(_, printed) => bytes.extend_from_slice(printed),
                    Content::End { .. } => ends += 1,
                    Content::Lost(..) => panic!("nothing was lost"),
                }
            }
        }
    }
    (bytes, ends)
}

#[test]
fn an_end_is_told_when_its_output_is_in_the_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut streams, mut told, _) = start();
    for number in 0..100 {
        let key = key(number);
        let Ok(ends) = streams.open(key, place(dir.path()), [true, false]) else { panic!("pipes") };
        let [stdout, stderr] = ends.paths();
        assert!(stderr.is_empty());
        task(&stdout).write_all(b"printed\n").expect("room in the pipe");
        streams.end(ends, aftermath(key), false);
        let end = told.blocking_recv().expect("an end");
        assert!(matches!(end, Input::Ended { outcome: Outcome::Finished, task, .. } if task == key.0));
        let expected = (b"printed\n".repeat(number as usize + 1), number as usize + 1);
        assert_eq!(content(dir.path()), expected);
    }
    drop(streams);
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
}

#[test]
fn a_file_that_nothing_comes_for_is_closed_a_minute_after_its_last_task() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut file = file::StreamFile::new(place(dir.path()), &Arc::new(LogLink::new(unbounded_channel().0)));
    file.add_attempt(key(0));
    file.append(key(0), Channel::Stdout, b"printed\n");
    file.end(key(0), &[Channel::Stdout]);
    file.forget(key(0));
    assert_eq!(file.wakeup(), file.dirty.map(|since| since + limits::STREAM_FLUSH));
    file.flush();
    let over = file.used + limits::STREAM_IDLE;
    assert_eq!(file.wakeup(), Some(over));
    // As the wake-up does it.
    file.flush();
    assert_eq!((file.wakeup(), file.is_over(over)), (Some(over), true));
    file.add_attempt(key(1));
    assert_eq!((file.wakeup(), file.is_over(over)), (None, false));
}

#[test]
fn an_end_after_which_something_is_to_be_done_goes_on_to_that() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut streams, mut told, others) = start();
    let Ok(ends) = streams.open(key(0), place(dir.path()), [true, true]) else { panic!("pipes") };
    streams.end(ends, Aftermath { task_dir: b"/somewhere".to_vec(), ..aftermath(key(0)) }, false);
    let Ok(Work::Clean(other)) = others.recv() else { panic!("an end") };
    assert_eq!(other.task_dir, b"/somewhere");
    drop(streams);
    assert_eq!(told.blocking_recv(), None);
}

#[test]
fn more_than_a_pipe_holds_is_read_while_its_task_prints() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut streams, mut told, _) = start();
    let printed = b"0123456789abcde\n".repeat(32 << 10);
    // The others are expected to print as much as the first.
    for number in 0..3 {
        let key = key(number);
        let Ok(ends) = streams.open(key, place(dir.path()), [true, false]) else { panic!("pipes") };
        task(&ends.paths()[0]).write_all(&printed).expect("somebody reads");
        streams.end(ends, aftermath(key), false);
        told.blocking_recv().expect("an end");
    }
    assert_eq!(content(dir.path()), (printed.repeat(3), 3));
}

#[test]
fn who_outlives_its_task_makes_nobody_wait() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut streams, mut told, _) = start();
    let Ok(ends) = streams.open(key(0), place(dir.path()), [true, true]) else { panic!("pipes") };
    let mut child = task(&ends.paths()[0]);
    child.write_all(b"before").expect("room in the pipe");
    streams.end(ends, aftermath(key(0)), false);
    told.blocking_recv().expect("an end");
    assert_eq!(content(dir.path()), (b"before".to_vec(), 1));
    assert_eq!(child.write_all(b"after").map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
}

#[test]
fn the_end_of_a_worker_leaves_nothing_in_the_pipes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut streams, _told, _) = start();
    let Ok(ends) = streams.open(key(0), place(dir.path()), [true, true]) else { panic!("pipes") };
    task(&ends.paths()[1]).write_all(b"last words").expect("room in the pipe");
    drop(streams);
    assert_eq!(content(dir.path()), (b"last words".to_vec(), 1));
}

#[test]
fn a_stream_that_cannot_be_written_fails_its_tasks() {
    let base = tempfile::tempdir().expect("a temporary directory");
    let dir = base.path().join("stream");
    let (mut streams, mut told, _) = start();
    fs::write(&dir, "x").expect("writable");
    let error = streams.open(key(0), place(&dir), [true, true]);
    assert!(
        matches!(error, Err(NoStream::Directory(text)) if text.starts_with("Cannot create stream directory"))
    );
    fs::remove_file(&dir).expect("removable");
    let Ok(ends) = streams.open(key(1), place(&dir), [true, true]) else { panic!("pipes") };
    // Somebody puts a file into its place.
    fs::remove_dir(&dir).expect("removable");
    fs::write(&dir, "x").expect("writable");
    streams.end(ends, aftermath(key(1)), false);
    let Some(Input::Ended { outcome, .. }) = told.blocking_recv() else { panic!("an end") };
    let Outcome::Failed(FailureKind::Output, text) = outcome else { panic!("{outcome:?}") };
    assert!(text.starts_with("Cannot write the stream"), "{text}");
}

/// A log, and what is said to the server about it.
struct Log {
    streams: Streams,
    told: UnboundedReceiver<Input>,
    said: UnboundedReceiver<Vec<u8>>,
    link: Arc<LogLink>,
}

impl Log {
    fn new() -> Log {
        let ((told, ends), (frames, said)) = (unbounded_channel(), unbounded_channel());
        let link = Arc::new(LogLink::new(frames));
        link.set_up(true);
        let done = Done { told, cleanup: mpsc::channel().0 };
        Log { streams: Streams::start(done, link.clone()).expect("a thread"), told: ends, said, link }
    }

    // A task that prints this and ends.
    fn runs(&mut self, number: u32, text: &[u8]) {
        self.runs_with(number, text, false);
    }

    fn place() -> Place {
        Place {
            stream: Stream::Log(b"/log".to_vec()),
            compression: Compression::None,
            server_uid: "uid".to_owned(),
            worker: WorkerId(1),
        }
    }

    fn runs_with(&mut self, number: u32, text: &[u8], may_wait: bool) {
        let Ok(ends) = self.streams.open(key(number), Log::place(), [true, false]) else { panic!("pipes") };
        task(&ends.paths()[0]).write_all(text).expect("room in the pipe");
        self.streams.end(ends, aftermath(key(number)), may_wait);
    }

    // The number of the next batch, whether it is said again, and what it has: `task@offset:bytes`, `task!` for an end.
    fn hears(&mut self) -> (u64, bool, String) {
        let frame = self.said.blocking_recv().expect("a frame");
        let Ok(FromWorker::Log(batch)) = decode_from_worker(&frame) else { panic!("a batch") };
        let word = |piece: &LogPiece| match piece.entry {
            LogEntry::Printed { offset, length, .. } => format!("{}@{offset}:{length}", piece.task.task),
            LogEntry::End { .. } => format!("{}!", piece.task.task),
        };
        let words: Vec<String> = batch.pieces.iter().map(word).collect();
        (batch.number, batch.is_again, words.join(" "))
    }

    fn ended(&mut self) -> Outcome {
        loop {
            match self.told.blocking_recv() {
                Some(Input::Ended { outcome, .. }) => return outcome,
                Some(Input::OutputWaits(_)) => {}
                other => panic!("an end, and not {other:?}"),
            }
        }
    }
}

#[test]
fn the_end_of_a_task_waits_until_the_server_has_written_what_it_printed() {
    let mut log = Log::new();
    log.runs(0, b"first");
    assert_eq!(log.hears(), (1, false, "0@0:5 0!".into()));
    // One batch at a time.
    log.runs(1, b"second");
    log.runs(2, b"third");
    assert!(log.told.try_recv().is_err());
    log.streams.answered(99, Written::Done);
    log.streams.answered(1, Written::Busy);
    assert_eq!(log.hears(), (1, false, "0@0:5 0!".into()), "nothing of it was written");
    assert!(log.told.try_recv().is_err());
    log.streams.answered(1, Written::Done);
    assert_eq!(log.ended(), Outcome::Finished);
    assert_eq!(log.hears(), (2, false, "1@0:6 1! 2@0:5 2!".into()));
    log.streams.answered(2, Written::Done);
    assert_eq!([log.ended(), log.ended()], [Outcome::Finished, Outcome::Finished]);
}

#[test]
fn what_has_no_answer_is_said_again_to_the_next_server_and_after_a_full_disk() {
    let mut log = Log::new();
    log.runs(0, b"first");
    assert_eq!(log.hears(), (1, false, "0@0:5 0!".into()));
    log.link.set_up(false);
    log.link.set_up(true);
    log.streams.link_changed();
    assert_eq!(log.hears(), (1, true, "0@0:5 0!".into()));
    log.streams.answered(1, Written::NoRoom("full".into()));
    assert_eq!(log.hears(), (1, true, "0@0:5 0!".into()));
    log.streams.answered(1, Written::Done);
    assert_eq!(log.ended(), Outcome::Finished);
}

#[test]
fn the_end_of_a_canceled_task_does_not_wait_for_room() {
    let mut log = Log::new();
    log.runs(0, b"first");
    assert_eq!(log.hears(), (1, false, "0@0:5 0!".into()));
    // One that is canceled while it runs, one while its end waits, and one that is not.
    let Ok(ends) = log.streams.open(key(1), Log::place(), [true, false]) else { panic!("pipes") };
    task(&ends.paths()[0]).write_all(b"second").expect("room in the pipe");
    log.streams.wait_no_more(Hurried::Task(key(1).0));
    log.streams.answered(1, Written::NoRoom("full".into()));
    let mut second = aftermath(key(1));
    let killed = Outcome::Failed(FailureKind::Signal(15), "killed".into());
    if let Input::Ended { outcome, .. } = &mut second.input {
        *outcome = killed.clone();
    }
    log.streams.end(ends, second, false);
    assert_eq!(log.ended(), killed);
    log.runs(2, b"third");
    log.streams.wait_no_more(Hurried::Task(key(0).0));
    let full = Outcome::Failed(FailureKind::Output, "full".into());
    assert_eq!(log.ended(), full, "nobody hears of it, but its place is free");
    assert_eq!(log.hears(), (1, true, "0@0:5 0!".into()));
    log.streams.answered(1, Written::Done);
    // What was read of the second one comes, too, and alone if the third one is not read yet.
    loop {
        let (number, _, words) = log.hears();
        log.streams.answered(number, Written::Done);
        if words.ends_with("2@0:5 2!") {
            break;
        }
    }
    assert_eq!(log.ended(), Outcome::Finished);
}

#[test]
fn the_ends_of_a_worker_that_leaves_do_not_wait_for_room() {
    let mut log = Log::new();
    log.runs(0, b"first");
    assert_eq!(log.hears(), (1, false, "0@0:5 0!".into()));
    let Ok(ends) = log.streams.open(key(1), Log::place(), [true, false]) else { panic!("pipes") };
    log.streams.answered(1, Written::NoRoom("full".into()));
    assert_eq!(log.hears(), (1, true, "0@0:5 0!".into()));
    assert!(!log.told.try_recv().is_ok_and(|input| matches!(input, Input::Ended { .. })));
    log.streams.wait_no_more(Hurried::All);
    let full = Outcome::Failed(FailureKind::Output, "full".into());
    assert_eq!(log.ended(), full, "what has ended");
    log.streams.end(ends, aftermath(key(1)), false);
    assert_eq!(log.ended(), full, "and what is ended now");
}

#[test]
fn what_is_never_written_fails_its_tasks() {
    let mut log = Log::new();
    log.runs(0, b"first");
    log.hears();
    log.streams.answered(1, Written::Refused("no log".into()));
    assert_eq!(log.ended(), Outcome::Failed(FailureKind::Output, "no log".into()));
    let mut log = Log::new();
    log.link.set_up(false);
    log.runs(0, b"first");
    log.link.give_up();
    log.streams.link_changed();
    assert!(
        matches!(log.ended(), Outcome::Failed(FailureKind::Output, text) if text.contains("not available"))
    );
}

#[test]
fn ends_that_may_wait_go_together_and_with_those_that_may_not() {
    let mut log = Log::new();
    for number in 0..3 {
        log.runs_with(number, b"some", true);
    }
    let mut heard = Vec::new();
    while heard.len() < 3 {
        let (number, _, batch) = log.hears();
        heard.extend(batch.split(' ').filter(|word| word.ends_with('!')).map(str::to_owned));
        log.streams.answered(number, Written::Done);
    }
    assert_eq!(heard, ["0!", "1!", "2!"], "all of them, without being woken for each");
    log.runs_with(3, b"some", true);
    log.runs(4, b"more");
    let mut heard = Vec::new();
    while heard.len() < 2 {
        let (number, _, batch) = log.hears();
        heard.extend(batch.split(' ').filter(|word| word.ends_with('!')).map(str::to_owned));
        log.streams.answered(number, Written::Done);
    }
    assert_eq!(heard, ["3!", "4!"]);
    let ends: Vec<Outcome> = (0..5).map(|_| log.ended()).collect();
    assert_eq!(ends, vec![Outcome::Finished; 5]);
}

#[test]
fn ends_that_may_wait_are_written_when_the_worker_ends() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut streams, mut told, _) = start();
    for number in 0..5 {
        let Ok(ends) = streams.open(key(number), place(dir.path()), [true, true]) else { panic!("pipes") };
        task(&ends.paths()[0]).write_all(b"x").expect("room in the pipe");
        streams.end(ends, aftermath(key(number)), true);
    }
    drop(streams);
    assert_eq!(content(dir.path()), (b"xxxxx".to_vec(), 5));
    let ends = std::iter::from_fn(|| told.blocking_recv()).count();
    assert_eq!(ends, 5);
}

#[test]
fn with_many_ends_that_wait_no_more_is_to_be_printed() {
    let mut log = Log::new();
    let count = limits::STREAM_ENDS_MAX as u32;
    (0..count).for_each(|number| {
        assert!(!log.streams.is_behind(), "task {number}");
        log.runs(number, b"some");
    });
    assert!(log.streams.is_behind());
    let mut ends = 0;
    while ends < count as usize {
        let (number, _, batch) = log.hears();
        ends += batch.matches('!').count();
        log.streams.answered(number, Written::Done);
    }
    (0..count).for_each(|_| assert_eq!(log.ended(), Outcome::Finished));
    assert!(!log.streams.is_behind());
}
