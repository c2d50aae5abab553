//! What tasks print into the files of streams, and the ends that wait for it.

use std::fs;
use std::io::Write;
use std::sync::mpsc::Receiver;

use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome};
use hq_model::{JobId, TaskId, Usage};
use hq_stream::{Content, StreamFile};

use super::*;

fn key(task: u32) -> Key {
    (TaskRef::new(JobId(1), TaskId(task)), Instance(0))
}

fn place(dir: &Path) -> Place {
    let dir = dir.as_os_str().as_bytes().to_vec();
    Place { dir, server_uid: "uid".to_owned(), worker: WorkerId(1) }
}

fn aftermath(key: Key) -> Aftermath {
    Aftermath {
        input: Input::Ended { task: key.0, outcome: Outcome::Finished, usage: Usage::default() },
        task_dir: Vec::new(),
        nodes_dir: Vec::new(),
        sinks: Vec::new(),
        declared: Vec::new(),
        keeps: false,
        instance: key.1,
    }
}

fn start() -> (Streams, Receiver<Aftermath>) {
    let (done, told) = mpsc::channel();
    (Streams::start(done).expect("a thread"), told)
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
                }
            }
        }
    }
    (bytes, ends)
}

#[test]
fn an_end_is_told_when_its_output_is_in_the_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut streams, told) = start();
    for number in 0..100 {
        let key = key(number);
        let Ok(ends) = streams.open(key, place(dir.path()), [true, false]) else { panic!("pipes") };
        let [stdout, stderr] = ends.paths();
        assert!(stderr.is_empty());
        task(&stdout).write_all(b"printed\n").expect("room in the pipe");
        streams.end(ends, aftermath(key));
        let end = told.recv().expect("an end");
        assert!(matches!(end.input, Input::Ended { outcome: Outcome::Finished, task, .. } if task == key.0));
        let expected = (b"printed\n".repeat(number as usize + 1), number as usize + 1);
        assert_eq!(content(dir.path()), expected);
    }
    drop(streams);
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
}

#[test]
fn who_outlives_its_task_makes_nobody_wait() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut streams, told) = start();
    let Ok(ends) = streams.open(key(0), place(dir.path()), [true, true]) else { panic!("pipes") };
    let mut child = task(&ends.paths()[0]);
    child.write_all(b"before").expect("room in the pipe");
    streams.end(ends, aftermath(key(0)));
    told.recv().expect("an end");
    assert_eq!(content(dir.path()), (b"before".to_vec(), 1));
    assert_eq!(child.write_all(b"after").map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
}

#[test]
fn the_end_of_a_worker_leaves_nothing_in_the_pipes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut streams, _told) = start();
    let Ok(ends) = streams.open(key(0), place(dir.path()), [true, true]) else { panic!("pipes") };
    task(&ends.paths()[1]).write_all(b"last words").expect("room in the pipe");
    drop(streams);
    assert_eq!(content(dir.path()), (b"last words".to_vec(), 1));
}

#[test]
fn a_stream_that_cannot_be_written_fails_its_tasks() {
    let base = tempfile::tempdir().expect("a temporary directory");
    let dir = base.path().join("stream");
    let (mut streams, told) = start();
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
    streams.end(ends, aftermath(key(1)));
    let Input::Ended { outcome, .. } = told.recv().expect("an end").input else { panic!("an end") };
    let Outcome::Failed(FailureKind::Output, text) = outcome else { panic!("{outcome:?}") };
    assert!(text.starts_with("Cannot write the stream"), "{text}");
}
