//! What is said twice is there once, whatever happened in between; what cannot be written is told.

use std::fs;
use std::path::PathBuf;

use hq_model::{Compression, Instance, TaskRef};
use hq_stream::{Content, StreamFile};

use super::*;

struct Place {
    dir: tempfile::TempDir,
    files: LogFiles,
    number: u64,
    compression: Compression,
}

/// A task, where in its standard output, and what; an empty text is its end.
type Line<'a> = (u32, u64, &'a str);

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("a directory");
        Place { dir, files: LogFiles::new("server".into()), number: 0, compression: Compression::None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn say(&mut self, name: &str, is_again: bool, lines: &[Line<'_>]) -> Written {
        self.number += 1;
        let piece = |(task, offset, text): &Line<'_>| LogPiece {
            task: TaskRef::new(JobId(1), TaskId(*task)),
            instance: Instance(0),
            at: Timestamp(5),
            entry: match text.len() as u32 {
                0 => LogEntry::End { stdout: true, stderr: false },
                length => LogEntry::Printed { is_stderr: false, offset: *offset, length },
            },
        };
        let pieces: Vec<LogPiece> = lines.iter().map(piece).collect();
        let content = lines.iter().flat_map(|(.., text)| text.bytes()).collect();
        let path = self.path(name).into_os_string().into_encoded_bytes();
        let parts = [LogPart { path: Some(path), compression: self.compression, pieces: pieces.len() }];
        self.files.append(&LogBatch { number: self.number, is_again, pieces, content }, &parts);
        self.files.flush();
        let written = self.files.outcome(&parts);
        self.files.close_broken();
        written
    }

    // Another server of the same name, after this one was killed.
    fn restart(&mut self) {
        self.files = LogFiles::new("server".into());
    }

    // What each task has printed, in brackets once it is complete, and the number of ends.
    fn read(&self, name: &str) -> String {
        let mut tasks: BTreeMap<u32, (String, usize)> = BTreeMap::new();
        let mut scan = StreamFile::open(&self.path(name)).expect("a log").scan();
        while let Some(block) = scan.next_block().expect("a block") {
            for entry in block.entries() {
                let task = tasks.entry(entry.attempt.task.task.0).or_default();
                match entry.content {
                    Content::Bytes(_, bytes) => task.0 += &String::from_utf8_lossy(bytes),
                    Content::End { .. } => task.1 += 1,
                    Content::Lost(_, bytes) => task.0 += &format!("[{bytes} lost]"),
                }
            }
        }
        let words =
            tasks.into_iter().map(|(task, (text, ends))| format!("{task}:{text}{}", "!".repeat(ends)));
        words.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn what_is_said_again_is_there_once() {
    let mut place = Place::new();
    let first = [(1, 0, "one "), (2, 0, "other"), (2, 0, "")];
    assert_eq!(place.say("log", false, &first), Written::Done);
    assert_eq!(place.say("log", true, &first), Written::Done);
    assert_eq!(place.say("log", false, &[(1, 4, "two"), (1, 0, "")]), Written::Done);
    assert_eq!(place.read("log"), "1:one two! 2:other!");
    place.restart();
    assert_eq!(place.say("log", true, &[(1, 4, "two"), (1, 0, ""), (3, 0, "new")]), Written::Done);
    assert_eq!(place.read("log"), "1:one two! 2:other! 3:new");
}

#[test]
fn what_a_crash_cut_is_completed_wherever_that_was() {
    let mut place = Place::new();
    let long = "0123456789".repeat(20_000);
    place.say("log", false, &[(1, 0, "before")]);
    let before = fs::metadata(place.path("log")).expect("a log").len();
    let lines = [(2, 0, &long[..]), (2, 0, ""), (3, 0, "short"), (3, 0, "")];
    place.say("log", false, &lines);
    let bytes = fs::read(place.path("log")).expect("a log");
    let expected = format!("1:before 2:{long}! 3:short!");
    assert!(place.read("log") == expected);
    let cuts = (before as usize..bytes.len()).step_by(9973).chain([bytes.len() - 1, bytes.len()]);
    for cut in cuts {
        place.restart();
        fs::write(place.path("log"), &bytes[..cut]).expect("a log");
        assert_eq!(place.say("log", true, &lines), Written::Done);
        assert!(place.read("log") == expected, "cut at {cut}");
    }
}

#[test]
fn what_cannot_be_written_is_told_and_hurts_no_other_log() {
    let mut place = Place::new();
    fs::write(place.path("text"), "precious").expect("a file");
    let Written::Refused(why) = place.say("text", false, &[(1, 0, "x")]) else { panic!("written") };
    assert!(why.starts_with("Cannot write the log: ") && why.contains("is not a stream file"), "{why}");
    let Written::Refused(why) = place.say("text/log", false, &[(1, 0, "x")]) else { panic!("written") };
    assert!(why.starts_with("Cannot write the log /") && why.contains("Not a directory"), "{why}");
    assert_eq!(place.say("log", false, &[(1, 0, "x")]), Written::Done);
    assert_eq!(fs::read(place.path("text")).expect("a file"), b"precious");
    fs::remove_file(place.path("text")).expect("a file");
    assert_eq!(place.say("text", true, &[(1, 0, "y")]), Written::Done);
    assert_eq!(place.read("text"), "1:y");
    let full = AppendError::Io { path: "/x".into(), error: io::ErrorKind::StorageFull.into() };
    assert!(
        matches!(trouble(b"/x", &full), Written::NoRoom(text) if text.contains("the log /x: no storage space"))
    );
}

#[test]
fn many_logs_are_open_in_turn() {
    let mut place = Place::new();
    let count = 2 * LOG_FILES_MAX as u32 + 3;
    for round in 0..2 {
        for task in 0..count {
            place.say(&format!("dir/{task}"), false, &[(task, round * 2, "ab")]);
            assert!(place.files.logs.len() <= LOG_FILES_MAX);
        }
    }
    for task in 0..count {
        assert_eq!(place.read(&format!("dir/{task}")), format!("{task}:abab"));
    }
}

#[test]
fn one_log_with_several_names_is_written_by_one_writer_at_a_time() {
    let mut place = Place::new();
    place.say("a", false, &[(1, 0, "one")]);
    fs::hard_link(place.path("a"), place.path("hard")).expect("a link");
    std::os::unix::fs::symlink("a", place.path("soft")).expect("a link");
    for (task, name) in ["hard", "a", "soft", "../x/a", "hard", "soft"].iter().enumerate() {
        let name = name.replace("../x", &format!("../{}", place.dir.path().file_name().unwrap().display()));
        assert_eq!(
            place.say(&name, false, &[(2 + task as u32, 0, "x"), (2 + task as u32, 1, "")]),
            Written::Done
        );
    }
    place.say("a", false, &[(1, 3, " two"), (1, 7, "")]);
    assert_eq!(place.read("a"), "1:one two! 2:x! 3:x! 4:x! 5:x! 6:x! 7:x!");
}

#[test]
fn what_somebody_else_writes_is_left_alone() {
    let mut place = Place::new();
    let header =
        |worker| Header { server_uid: "server".into(), worker: WorkerId(worker), created: Timestamp(5) };
    // The file of a stream, which its worker may write.
    let writer = Writer::create(&place.path("stream"), &header(1)).expect("writable");
    let name = format!("stream/{}", writer.path().file_name().expect("a name").display());
    let before = fs::read(place.path(&name)).expect("a file");
    let refused = place.say(&name, false, &[(1, 0, "x")]);
    assert!(
        matches!(&refused, Written::Refused(text) if text.contains("is the file of a worker")),
        "{refused:?}"
    );
    assert_eq!(fs::read(place.path(&name)).expect("a file"), before);
    // Another server of the same name has the log open.
    let mut other = LogFiles::new("server".into());
    other.open(&place.path("log").into_os_string().into_encoded_bytes());
    assert_eq!(place.say("log", false, &[(1, 0, "x")]), Written::Busy);
    other.close();
    assert_eq!(place.say("log", false, &[(1, 0, "x")]), Written::Done);
}

#[test]
fn a_log_that_was_renamed_or_emptied_begins_anew() {
    let mut place = Place::new();
    place.say("a", false, &[(1, 0, "one"), (1, 3, "")]);
    fs::rename(place.path("a"), place.path("old")).expect("it is there");
    place.say("a", false, &[(2, 0, "two"), (2, 3, "")]);
    fs::File::create(place.path("a")).expect("writable");
    place.say("a", false, &[(3, 0, "three"), (3, 5, "")]);
    assert_eq!((place.read("old").as_str(), place.read("a").as_str()), ("1:one!", "3:three!"));
}

#[test]
fn what_is_lost_of_tasks_that_run_is_in_the_log() {
    type Alter = fn(&std::path::Path);
    let alter: [(Alter, &str); 4] = [
        (|path| drop(fs::File::create(path).expect("writable")), "1:[3 lost]more! 2:[5 lost]! 3:[4 lost]x"),
        (|path| fs::remove_file(path).expect("it is there"), "1:[3 lost]more! 2:[5 lost]! 3:[4 lost]x"),
        (
            |path| fs::rename(path, path.with_extension("old")).expect("it is there"),
            "1:[3 lost]more! 2:[5 lost]! 3:[4 lost]x",
        ),
        // Only the last block.
        (
            |path| {
                let file = fs::OpenOptions::new().write(true).open(path).expect("a log");
                let length = file.metadata().expect("a log").len();
                file.set_len(length - 1).expect("writable");
            },
            "1:one[2 lost]more! 2:three! 3:[4 lost]x",
        ),
    ];
    for (alter, expected) in alter {
        let is_cut = expected.starts_with("1:one");
        let more = if is_cut { 5 } else { 3 };
        for is_closed in [false, true] {
            let mut place = Place::new();
            place.say("log", false, &[(1, 0, "one"), (2, 0, "three"), (4, 0, "ended"), (4, 0, "")]);
            let last = if is_cut { &[(1, 3, "01"), (3, 0, "four")][..] } else { &[(3, 0, "four")] };
            place.say("log", false, last);
            if is_closed {
                let path = place.path("log").into_os_string().into_encoded_bytes();
                assert!(place.files.close_one(&path));
                // The index that was written at its end is not what is cut here.
                if is_cut {
                    continue;
                }
            }
            alter(&place.path("log"));
            place.say("log", false, &[(1, more, "more"), (2, 0, ""), (1, 0, "")]);
            place.say("log", false, &[(3, 4, "x")]);
            let read = place.read("log").replace(" 4:ended!", "");
            assert_eq!(read, expected, "closed before: {is_closed}");
            // It is said once, also to another server that is told the same again, and to one that knows nothing of before.
            place.restart();
            place.say("log", true, &[(3, 4, "x"), (3, 5, "y")]);
            place.restart();
            place.say("log", false, &[(3, 6, "z")]);
            assert_eq!(place.read("log").replace(" 4:ended!", ""), format!("{expected}yz"));
            // Then it is emptied while no server looks.
            place.restart();
            fs::File::create(place.path("log")).expect("writable");
            place.say("log", false, &[(3, 7, "end"), (3, 0, "")]);
            assert_eq!(place.read("log"), "3:[7 lost]end!");
        }
    }
}

#[test]
fn what_could_not_be_written_is_not_lost() {
    let mut place = Place::new();
    place.say("log", false, &[(1, 0, "one")]);
    let path = place.path("log").into_os_string().into_encoded_bytes();
    let lines = [(1, 3, "two"), (2, 0, "new")];
    // As where the disk is full: it is taken in, and not written.
    let full = Written::NoRoom("full".into());
    let log = place.files.logs.get_mut(&path).expect("open");
    log.writer = Err(full.clone());
    assert_eq!(place.say("log", false, &lines), full);
    assert_eq!(place.say("log", true, &lines), Written::Done);
    assert_eq!(place.read("log"), "1:onetwo 2:new");
}

#[test]
fn what_is_said_again_is_there_once_where_it_is_compressed() {
    let mut place = Place::new();
    let long = "a line that comes again and again\n".repeat(100);
    assert_eq!(place.say("log", false, &[(1, 0, &long)]), Written::Done);
    place.compression = "zstd".parse().expect("a compression");
    assert_eq!(place.say("log", false, &[(2, 0, &long), (2, 0, "")]), Written::Done);
    place.restart();
    assert_eq!(place.say("log", true, &[(2, 0, &long), (2, 0, ""), (3, 0, &long)]), Written::Done);
    assert_eq!(place.read("log"), format!("1:{long} 2:{long}! 3:{long}"));
    let length = fs::metadata(place.path("log")).expect("a log").len();
    assert!(length < long.len() as u64 + 1000, "{length} bytes");
}
