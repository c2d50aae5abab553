//! A log is appended to by whoever opens it, and never made of something else.

use std::fs;
use std::path::Path;

use hq_model::{IdSet, Instance, JobId, TaskId, TaskRef, Timestamp, WorkerId};
use hq_stream::{Attempt, Channel, Directory, Header, Writer};

fn header(server_uid: &str) -> Header {
    Header { server_uid: server_uid.into(), worker: WorkerId(0), created: Timestamp(17) }
}

fn open(path: &Path) -> Writer {
    Writer::open(path, &header("server")).unwrap()
}

fn attempt(task: u32) -> Attempt {
    Attempt { task: TaskRef::new(JobId(1), TaskId(task)), instance: Instance(0) }
}

fn print(writer: &mut Writer, task: u32, text: &str) {
    writer.append(attempt(task), Channel::Stdout, Timestamp(u64::from(task)), text.as_bytes()).unwrap();
    writer.end(attempt(task), &[Channel::Stdout], Timestamp(u64::from(task))).unwrap();
    writer.flush().unwrap();
}

fn text(path: &Path, tasks: &IdSet) -> String {
    let directory = Directory::of_server(path, "server").unwrap().expect("a stream file");
    let contents = directory.contents_of_any(JobId(1), tasks).unwrap();
    assert_eq!(contents.faults, []);
    let pieces = directory.pieces(&contents, JobId(1), tasks, Channel::Stdout).unwrap();
    let mut out = Vec::new();
    directory.copy(&pieces, &mut out).unwrap().unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn what_was_not_finished_is_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/log");
    for round in 0..5 {
        let mut writer = open(&path);
        for task in 0..3000 {
            print(&mut writer, round * 3000 + task, &format!("{round}.{task}\n"));
        }
        if round % 2 == 0 {
            writer.finish().unwrap();
        }
        // Else it was killed.
    }
    let few: IdSet = "0,2999,3000,7000,14999".parse().unwrap();
    assert_eq!(text(&path, &few), "0.0\n0.2999\n1.0\n2.1000\n4.2999\n");
    // Found by the indexes: what is damaged elsewhere is not seen.
    let mut bytes = fs::read(&path).unwrap();
    let place = bytes.windows(7).position(|found| found == b"2.2000\n").unwrap();
    bytes[place] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(text(&path, &few), "0.0\n0.2999\n1.0\n2.1000\n4.2999\n");
}

#[test]
fn a_torn_end_is_cut_wherever_it_was_torn() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut writer = open(&path);
    print(&mut writer, 0, "first\n");
    let whole = fs::read(&path).unwrap().len();
    print(&mut writer, 1, "second\n");
    drop(writer);
    let bytes = fs::read(&path).unwrap();
    for length in whole..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let mut writer = open(&path);
        assert_eq!(fs::metadata(&path).unwrap().len(), whole as u64);
        print(&mut writer, 2, "third\n");
        assert_eq!(text(&path, &IdSet::range(0, 9)), "first\nthird\n", "cut at {length}");
    }
}

#[test]
fn what_is_there_of_a_task_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut writer = open(&path);
    print(&mut writer, 3, "12345");
    writer.append(attempt(4), Channel::Stderr, Timestamp(1), b"123").unwrap();
    let contents = writer.contents_of(JobId(1), &IdSet::range(3, 5)).unwrap();
    let printed = |task| contents.latest(JobId(1), TaskId(task)).map(|latest| latest.printed.bytes);
    assert_eq!([printed(3), printed(4), printed(5)], [Some([5, 0]), Some([0, 3]), None]);
}

#[test]
fn nothing_else_is_written_into() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("text"), "precious").unwrap();
    open(&path("log"));
    let pipe = path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let refused = |name: &str, uid: &str| {
        let error = Writer::open(&path(name), &header(uid)).expect_err("refused").to_string();
        error.replace(&format!("{}/", dir.path().display()), "")
    };
    assert_eq!(refused("text", "server"), "text is not a stream file, or its beginning is damaged");
    assert_eq!(refused("log", "other"), "log is the log of another server, server; use another name");
    assert!(refused(".", "server").contains("Is a directory"));
    assert!(refused("pipe", "server").contains("pipe"));
    assert_eq!(refused("/dev/null", "server"), "/dev/null is not a stream file, or its beginning is damaged");
    assert_eq!(fs::read(path("text")).unwrap(), b"precious");
    // What somebody has made and not written to is a name.
    fs::write(path("empty"), "").unwrap();
    print(&mut open(&path("empty")), 0, "x");
    assert_eq!(text(&path("empty"), &IdSet::range(0, 0)), "x");
}

#[test]
fn what_is_lost_of_a_log_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let renamed = dir.path().join("old");
    let begun = || {
        let mut writer = open(&path);
        print(&mut writer, 1, "text\n");
        let length = fs::metadata(&path).unwrap().len();
        assert_eq!((writer.lost_bytes(), writer.is_left()), (0, false));
        (writer, length)
    };
    let (writer, _) = begun();
    fs::rename(&path, &renamed).unwrap();
    assert_eq!((writer.lost_bytes(), writer.is_left()), (0, true), "it is there under another name");
    let (writer, length) = begun();
    fs::remove_file(&path).unwrap();
    assert_eq!((writer.lost_bytes(), writer.is_left()), (length, true));
    let (writer, length) = begun();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(10).unwrap();
    assert_eq!((writer.lost_bytes(), writer.is_left()), (length - 10, true));
}
