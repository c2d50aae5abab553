//! What one attempt prints, read by its place while others print into the same file.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use hq_model::paths::Place;
use hq_model::{Channel, Instance, JobId, Stream, TaskId, TaskRef, Timestamp, WorkerId};
use hq_stream::limits::{INDEX_LINES, MARKS_MAX};
use hq_stream::{Attempt, Follow, Header, Output, Writer};

fn attempt(task: u32, instance: u32) -> Attempt {
    Attempt { task: TaskRef::new(JobId(1), TaskId(task)), instance: Instance(instance) }
}

fn writer(dir: &std::path::Path) -> Writer {
    let header = Header { server_uid: "uid".into(), worker: WorkerId(1), created: Timestamp(5) };
    Writer::create(dir, &header).unwrap()
}

#[test]
fn what_is_printed_is_there_as_soon_as_it_is_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    let mut print = |attempt, channel, text: &str| {
        writer.append(attempt, channel, Timestamp(6), text.as_bytes()).unwrap();
        writer.flush().unwrap();
        writer.path().to_owned()
    };
    let path = print(attempt(1, 0), Channel::Stdout, "of the lost instance");
    print(attempt(1, 1), Channel::Stdout, "one ");
    print(attempt(2, 1), Channel::Stdout, "of another task");
    let mut follow = Follow::open(&path, attempt(1, 1), Channel::Stdout).unwrap();
    assert_eq!((follow.length().unwrap(), follow.read(0, 100).unwrap()), (4, b"one ".to_vec()));
    print(attempt(1, 1), Channel::Stderr, "on the other channel");
    assert_eq!(follow.length().unwrap(), 4);
    print(attempt(1, 1), Channel::Stdout, "two ");
    print(attempt(1, 1), Channel::Stdout, "three");
    assert_eq!(follow.length().unwrap(), 13);
    for (offset, bytes_max, expected) in
        [(4, 100, "two three"), (9, 2, "hr"), (11, 100, "ee"), (2, 3, "e t"), (13, 100, "")]
    {
        let read = String::from_utf8(follow.read(offset, bytes_max).unwrap()).unwrap();
        assert_eq!(read, expected, "{bytes_max} at {offset}");
    }
}

#[test]
fn memory_is_bounded_and_every_place_is_found() {
    ["none", "zstd:1"].into_iter().for_each(check_places);
}

fn check_places(compression: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    writer.compress(compression.parse().unwrap());
    let path = writer.path().to_owned();
    let mut follow = Follow::open(&path, attempt(1, 0), Channel::Stdout).unwrap();
    let mut expected = Vec::new();
    for line in 0..3 * MARKS_MAX.max(INDEX_LINES) {
        let text = format!("{line} {:50}\n", "");
        expected.extend_from_slice(text.as_bytes());
        writer.append(attempt(1, 0), Channel::Stdout, Timestamp(6), text.as_bytes()).unwrap();
        writer.flush().unwrap();
        if line % 1000 == 0 {
            follow.length().unwrap();
        }
    }
    for mut follow in [follow, Follow::open(&path, attempt(1, 0), Channel::Stdout).unwrap()] {
        assert_eq!(follow.length().unwrap(), expected.len() as u64);
        for offset in [0, 1, 17, 30_000, expected.len() - 1, 20_000] {
            let read = follow.read(offset as u64, 50).unwrap();
            assert_eq!(read, expected[offset..expected.len().min(offset + 50)], "at {offset}");
        }
        let mut all = Vec::new();
        while all.len() < expected.len() {
            all.extend(follow.read(all.len() as u64, 10_000).unwrap());
        }
        assert_eq!(all, expected);
    }
}

#[test]
fn what_is_behind_damaged_bytes_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    let mut ends = Vec::new();
    for (task, text) in [(1, "first"), (2, "second"), (1, "third"), (2, "fourth")] {
        writer.append(attempt(task, 0), Channel::Stdout, Timestamp(6), text.as_bytes()).unwrap();
        writer.flush().unwrap();
        ends.push(std::fs::metadata(writer.path()).unwrap().len() as usize);
    }
    let whole = std::fs::read(writer.path()).unwrap();
    let read = |task| {
        let mut follow = Follow::open(writer.path(), attempt(task, 0), Channel::Stdout).unwrap();
        let length = follow.length().unwrap();
        let text = String::from_utf8(follow.read(0, 100).unwrap()).unwrap();
        assert_eq!(length, text.len() as u64);
        text
    };
    // The last byte of a block, and the first one of its head.
    for (place, first, second) in [
        (ends[1] - 1, "firstthird", "fourth"),
        (ends[0], "firstthird", "fourth"),
        (ends[3] - 1, "firstthird", "second"),
    ] {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        std::fs::write(writer.path(), bytes).unwrap();
        assert_eq!((read(1).as_str(), read(2).as_str()), (first, second), "at {place}");
    }
}

#[test]
fn what_is_damaged_or_gone_does_not_hide_what_is_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    let mut print = |task: u32, text: &str| {
        writer.append(attempt(task, 0), Channel::Stdout, Timestamp(6), text.as_bytes()).unwrap();
        writer.flush().unwrap();
        writer.path().to_owned()
    };
    let path = print(1, "one ");
    let place = Place::Stream(Stream::Directory(dir.path().as_os_str().as_bytes().to_vec()));
    let mut read = Output::new(place.clone(), "uid", attempt(1, 0), Channel::Stdout);
    assert_eq!((read.length(true), read.read(0, 100)), (Ok(4), Ok(b"one ".to_vec())));
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(3).position(|bytes| bytes == b"one").unwrap();
    print(1, "two");
    bytes[at] ^= 1;
    let file = File::options().write(true).open(&path).unwrap();
    file.write_at(&bytes[at..=at], at as u64).unwrap();
    // Whoever has read it goes on behind it; whoever comes now is told of it.
    assert_eq!((read.length(true), read.read(4, 100), read.damage()), (Ok(7), Ok(b"two".to_vec()), None));
    let mut late = Output::new(place.clone(), "uid", attempt(1, 0), Channel::Stdout);
    assert_eq!((late.length(true), late.read(0, 100)), (Ok(3), Ok(b"two".to_vec())));
    assert!(late.damage().is_some_and(|damage| damage.contains("damaged bytes were left out: ")));
    assert!(late.is_in_a_stream() && !late.is_left());
    let mut other = Output::new(place, "uid", attempt(9, 0), Channel::Stdout);
    assert_eq!((other.length(true), other.is_in_a_stream()), (Ok(0), false));
    file.set_len(100).unwrap();
    assert!(late.is_left(), "it was cut off");
    fs::remove_file(&path).unwrap();
    assert!(read.is_left(), "it is not there any more");
}
