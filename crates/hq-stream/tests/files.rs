//! What is written is read again; what is cut or changed is told, and nothing is made up.

use std::fs;
use std::path::Path;

use hq_model::{IdSet, Instance, JobId, TaskId, TaskRef, Timestamp, WorkerId};
use hq_stream::limits::{BLOCK_BYTES, INDEX_DISTANCE_BYTES};
use hq_stream::{Attempt, Channel, Content, Fault, Header, StreamFile, Writer};
use proptest::prelude::*;

type Line = (Attempt, u64, Option<Channel>, Vec<u8>);

fn header() -> Header {
    Header { server_uid: "server".into(), worker: WorkerId(3), created: Timestamp(17) }
}

fn attempt(task: u32, instance: u32) -> Attempt {
    Attempt { task: TaskRef::new(JobId(1), TaskId(task)), instance: Instance(instance) }
}

fn read(path: &Path) -> (Vec<Line>, Vec<Fault>) {
    let mut scan = StreamFile::open(path).unwrap().scan();
    let mut lines: Vec<Line> = Vec::new();
    while let Some(block) = scan.next_block().unwrap() {
        for entry in block.entries() {
            let (channel, bytes) = match entry.content {
                Content::Bytes(channel, bytes) => (Some(channel), bytes),
                Content::End { .. } | Content::Lost(..) => (None, &[][..]),
            };
            lines.push((entry.attempt, entry.at.0, channel, bytes.to_vec()));
        }
    }
    (lines, scan.faults().to_vec())
}

// Entries that were split at the end of a block are one again.
fn joined(lines: Vec<Line>) -> Vec<Line> {
    let mut out: Vec<Line> = Vec::new();
    for line in lines {
        match out.last_mut() {
            Some(last) if line.2.is_some() && (last.0, last.1, last.2) == (line.0, line.1, line.2) => {
                last.3.extend_from_slice(&line.3);
            }
            _ => out.push(line),
        }
    }
    out
}

fn write(dir: &Path, lines: &[Line], flush_each: usize) -> Writer {
    write_so(dir, lines, flush_each, "none")
}

fn write_so(dir: &Path, lines: &[Line], flush_each: usize, compression: &str) -> Writer {
    let mut writer = Writer::create(dir, &header()).unwrap();
    writer.compress(compression.parse().unwrap());
    for (count, (attempt, at, channel, bytes)) in lines.iter().enumerate() {
        match channel {
            Some(channel) => writer.append(*attempt, *channel, Timestamp(*at), bytes).unwrap(),
            None => {
                writer.end(*attempt, &[Channel::Stdout, Channel::Stderr], Timestamp(*at)).unwrap();
            }
        }
        if count % flush_each == 0 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap();
    writer
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let channel = prop_oneof![Just(None), Just(Some(Channel::Stdout)), Just(Some(Channel::Stderr))];
    let line = (0..9u32, 0..3u32, channel, 1..3000usize, any::<u8>());
    prop::collection::vec(line, 1..120).prop_map(|lines| {
        let with_time = lines.into_iter().zip(0..);
        with_time
            .map(|((task, instance, channel, length, byte), at)| {
                let bytes = if channel.is_some() { vec![byte; length] } else { Vec::new() };
                (attempt(task, instance), at, channel, bytes)
            })
            .collect()
    })
}

fn compression() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("none"), Just("zstd"), Just("zstd:19")]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    #[test]
    fn what_is_written_is_read(lines in lines(), flush_each in 1..50usize, compression in compression()) {
        let dir = tempfile::tempdir().unwrap();
        let writer = write_so(&dir.path().join("a/b"), &lines, flush_each, compression);
        let (found, faults) = read(writer.path());
        prop_assert_eq!(joined(found), lines);
        prop_assert_eq!(faults, vec![]);
    }

    #[test]
    fn cut_at_any_byte_the_beginning_is_left(
        lines in lines(),
        flush_each in 1..9usize,
        cut in 0.0..1.0f64,
        compression in compression(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let writer = write_so(dir.path(), &lines, flush_each, compression);
        let whole = fs::read(writer.path()).unwrap();
        let first = header().server_uid.len() + 29;
        let length = first + ((whole.len() - first) as f64 * cut) as usize;
        fs::write(writer.path(), &whole[..length]).unwrap();
        let (all, _) = read(write(&dir.path().join("whole"), &lines, flush_each).path());
        let (found, faults) = read(writer.path());
        prop_assert_eq!(&all[..found.len()], &found[..]);
        let torn: u64 = faults.iter().map(|fault| match fault {
            Fault::Torn { bytes, .. } => *bytes,
            Fault::Damaged { .. } | Fault::Lost { .. } => u64::MAX / 2,
        }).sum();
        prop_assert!(torn <= length as u64, "{:?}", faults);
    }

    #[test]
    fn a_flipped_bit_costs_one_block_and_is_told(
        lines in lines(),
        flush_each in 1..9usize,
        place in 0.0..1.0f64,
        compression in compression(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let writer = write_so(dir.path(), &lines, flush_each, compression);
        let (all, _) = read(writer.path());
        let mut bytes = fs::read(writer.path()).unwrap();
        let first = header().server_uid.len() + 29;
        let at = first + ((bytes.len() - first) as f64 * place) as usize;
        bytes[at] ^= 4;
        fs::write(writer.path(), &bytes).unwrap();
        let (found, faults) = read(writer.path());
        prop_assert!(faults.len() <= 1, "{:?}", faults);
        // What is left is what was there, without one piece.
        let same = all.iter().zip(&found).take_while(|(one, other)| one == other).count();
        prop_assert_eq!(&all[all.len() - (found.len() - same)..], &found[same..]);
        prop_assert!(found.len() == all.len() || faults.len() == 1);
    }
}

#[test]
fn any_cut_of_a_small_file_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let lines =
        [(attempt(1, 0), 1, Some(Channel::Stdout), b"one".to_vec()), (attempt(1, 0), 2, None, vec![])];
    let writer = write(dir.path(), &lines, 1);
    let whole = fs::read(writer.path()).unwrap();
    for length in 0..whole.len() {
        fs::write(writer.path(), &whole[..length]).unwrap();
        if StreamFile::open(writer.path()).is_ok() {
            let (found, _) = read(writer.path());
            assert_eq!(found, lines[..found.len()], "cut at {length}");
        }
    }
}

#[test]
fn an_output_that_is_longer_than_a_block_is_one_again() {
    let dir = tempfile::tempdir().unwrap();
    let long: Vec<u8> = (0..1_000_000u32).map(|number| number.to_le_bytes()[0]).collect();
    let lines = [(attempt(7, 1), 1, Some(Channel::Stderr), long)];
    let writer = write(dir.path(), &lines, 1);
    assert_eq!(joined(read(writer.path()).0), lines);
}

#[test]
fn a_directory_that_is_a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "").unwrap();
    assert!(Writer::create(&path, &header()).is_err());
}

#[test]
fn what_is_behind_a_long_hole_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let lines: Vec<Line> =
        (0..3000).map(|task| (attempt(task, 0), 1, Some(Channel::Stdout), vec![7; 1000])).collect();
    let writer = write(dir.path(), &lines, 1);
    let mut bytes = fs::read(writer.path()).unwrap();
    bytes[500_000..2_000_000].fill(0);
    fs::write(writer.path(), &bytes).unwrap();
    let (found, faults) = read(writer.path());
    assert!(found.len() > 1300 && found.last() == lines.last(), "{} are left", found.len());
    assert!(matches!(faults[..], [Fault::Damaged { .. }, ..]), "{faults:?}");
    assert!(faults.len() <= 2, "{faults:?}");
}

// The version that the header of a file says.
fn version(path: &Path) -> u16 {
    let bytes = fs::read(path).unwrap();
    u16::from_le_bytes([bytes[8], bytes[9]])
}

#[test]
fn releases_without_compression_read_what_has_none_and_refuse_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let lines = |text: &[u8]| [(attempt(1, 0), 1, Some(Channel::Stdout), text.to_vec())];
    for (text, compression, expected) in [
        (&[b'a'; 5000][..], "none", 1),
        (&[b'a'; 5000], "zstd", 2),
        // It would not become smaller.
        (b"a", "zstd", 1),
    ] {
        let writer = write_so(dir.path(), &lines(text), 1, compression);
        assert_eq!(version(writer.path()), expected, "{} bytes with {compression}", text.len());
        assert_eq!(read(writer.path()), (lines(text).to_vec(), vec![]));
    }
}

#[test]
fn a_log_that_is_compressed_later_says_so_from_then_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut writer = Writer::open(&path, &header()).unwrap();
    let print = |writer: &mut Writer, at: u64| {
        writer.append(attempt(1, 0), Channel::Stdout, Timestamp(at), &[7; 3000]).unwrap();
        writer.flush().unwrap();
    };
    print(&mut writer, 1);
    assert_eq!(version(&path), 1);
    // A later submit wants less of the same log.
    writer.compress("zstd:9".parse().unwrap());
    print(&mut writer, 2);
    let length = fs::metadata(&path).unwrap().len();
    assert!(version(&path) == 2 && length < 3200, "{length} bytes");
    drop(writer);
    // Killed: whoever goes on knows what the header says, and leaves it so.
    let mut writer = Writer::open(&path, &header()).unwrap();
    print(&mut writer, 3);
    writer.finish().unwrap();
    assert_eq!(version(&path), 2);
    let line = |at| (attempt(1, 0), at, Some(Channel::Stdout), vec![7; 3000]);
    assert_eq!(read(&path), (vec![line(1), line(2), line(3)], vec![]));
}

#[test]
fn what_compresses_well_is_found_without_reading_much_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let lines: Vec<Line> =
        (0..1024).map(|task| (attempt(task, 0), 1, Some(Channel::Stdout), vec![7; 60_000])).collect();
    let path = write_so(dir.path(), &lines, 1, "zstd").path().to_owned();
    assert!(fs::metadata(&path).unwrap().len() < 200_000, "nothing of it would need an index by its size");
    let mut scan = StreamFile::open(&path).unwrap().find(JobId(1), &IdSet::single(TaskId(500))).unwrap();
    let mut blocks = 0;
    while let Some(block) = scan.next_block().unwrap() {
        blocks += 1;
        assert!(block.entries().any(|entry| entry.attempt.task.task == TaskId(500)));
    }
    assert_eq!(blocks, 1);
    // Killed before its last index.
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    let mut scan = StreamFile::open(&path).unwrap().find(JobId(1), &IdSet::single(TaskId(500))).unwrap();
    let mut unpacked = 0;
    while let Some(block) = scan.next_block().unwrap() {
        unpacked += block.length() as u64;
    }
    assert!(unpacked <= INDEX_DISTANCE_BYTES + 2 * BLOCK_BYTES as u64, "{unpacked} bytes");
}
