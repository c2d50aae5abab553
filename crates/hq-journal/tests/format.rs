//! The bytes on disk, so that a change of the format is seen and not made by accident.

mod support;

use hq_journal::{SimDisk, replay};
use support::open;

fn sample() -> SimDisk {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk, 1000).unwrap();
    journal.append(b"gone");
    journal.sync().unwrap();
    let mut compactor = journal.start_compaction().unwrap();
    compactor.append(b"snap").unwrap();
    compactor.append(b"shot").unwrap();
    let snapshot = compactor.finish().unwrap();
    journal.finish_compaction(snapshot).unwrap().replaced.remove(&disk);
    journal.append(b"one");
    journal.append(b"");
    journal.write().unwrap();
    journal.append(&[b'x'; 200]);
    journal.close().unwrap();
    disk
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .chunks(16)
        .map(|line| {
            line.iter().map(|byte| format!("{byte:02x} ")).collect::<String>().trim_end().to_owned() + "\n"
        })
        .collect()
}

#[test]
fn the_bytes_stay_the_same() {
    let disk = sample();
    let text: String =
        disk.names().iter().map(|name| format!("{name}\n{}", hex(&disk.bytes(name).unwrap()))).collect();
    insta::assert_snapshot!(text);
}

#[test]
fn a_snapshot_carries_the_number_of_what_it_replaced() {
    let mut seen = Vec::new();
    let replay = replay(&sample(), None, &mut |seq, record| {
        seen.push((seq, record.len()));
        Ok::<(), String>(())
    });
    let replay = replay.unwrap();
    assert_eq!(seen, [(0, 4), (0, 4), (1, 3), (2, 0), (3, 200)]);
    assert_eq!((replay.snapshot_records, replay.records, replay.next_seq, replay.torn), (2, 3, 4, None));
}

#[test]
fn small_records_in_a_batch_take_few_bytes() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk, 1 << 30).unwrap();
    let before = journal.size().bytes;
    for batch in 0..100u64 {
        for number in 0..100u64 {
            journal.append(&[batch as u8; 10][..10 - (number % 2) as usize]);
        }
        journal.sync().unwrap();
    }
    let bytes = journal.size().bytes - before;
    // 9.5 of its own, 1 for its length, a tenth for its part of the group.
    assert_eq!(bytes, 10_000 * 21 / 2 + 100 * 9);
}
