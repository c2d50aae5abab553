//! Cut, flipped and foreign bytes: a journal gives back a beginning of what was put in, or says where it is wrong.

mod support;

use hq_journal::{
    Damage, Disk, ForeignContent, Journal, JournalError, JournalId, OpenError, SimDisk, check, repair,
};
use proptest::prelude::*;
use support::{Chance, ID, State, cases, open, record};

/// A journal with all kinds of files: a snapshot, a segment before its end, a last segment with several groups.
/// Also the states it went through, and how many records there were before the last group. Without the note that says
/// how much was on disk, as after a loss of power or of an earlier release.
fn sample(snapshot: bool, close: bool) -> (SimDisk, Vec<State>, u64) {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk, 150).unwrap();
    let mut states = vec![State::default()];
    let mut before_last = 0;
    for number in 0..16u64 {
        if snapshot && number == 4 {
            let mut compactor = journal.start_compaction().unwrap();
            states.last().unwrap().snapshot(3, &mut compactor).unwrap();
            let done = compactor.finish().unwrap();
            journal.finish_compaction(done).unwrap().replaced.remove(&disk);
        }
        before_last = journal.next_seq();
        for part in 0..1 + number % 3 {
            let bytes = record(number * 10 + part, number % 7);
            journal.append(&bytes);
            let mut state = *states.last().unwrap();
            state.apply(&bytes);
            states.push(state);
        }
        journal.sync().unwrap();
    }
    if close {
        journal.close().unwrap();
    }
    disk.forget_note();
    (disk, states, before_last)
}

fn problem(disk: &SimDisk) -> Option<JournalError> {
    match open(disk, 150) {
        Ok(_) => None,
        Err(OpenError::Journal(error)) => Some(error),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_cut_last_segment_gives_a_beginning() {
    let (disk, states, _) = sample(true, false);
    let last = disk.names().into_iter().rfind(|name| name.starts_with("segment")).unwrap();
    let bytes = disk.bytes(&last).unwrap();
    let mut counts = Vec::new();
    for length in 64..=bytes.len() {
        let cut = disk.fork();
        cut.put(&last, bytes[..length].to_vec());
        let report = check(&cut, Some(ID)).unwrap();
        let (_, replay, state) = open(&cut, 150).unwrap();
        assert_eq!(states[state.count as usize], state);
        assert_eq!((report.next_seq, report.torn.clone()), (state.count, replay.torn.clone()));
        let torn = replay.torn.map_or(0, |torn| torn.bytes);
        let kept = cut.bytes(&last).unwrap();
        assert_eq!(kept, bytes[..length - torn as usize], "nothing of it is left in the file");
        assert!(check(&cut, Some(ID)).unwrap().files.iter().all(|file| file.bytes_ignored == 0));
        assert_eq!(open(&cut, 150).unwrap().2, state, "what was read once stays");
        counts.push((state.count, torn));
    }
    assert!(counts.is_sorted_by_key(|(count, _)| *count));
    assert_eq!(counts.last(), Some(&(states.len() as u64 - 1, 0)));
    assert!(counts.iter().any(|(_, torn)| *torn > 0));
}

#[test]
fn a_cut_or_missing_earlier_file_is_damage() {
    for snapshot in [false, true] {
        let (disk, states, _) = sample(snapshot, false);
        let names = disk.names();
        for name in &names {
            let bytes = disk.bytes(name).unwrap();
            let last = *name == *names.iter().rfind(|name| name.starts_with("segment")).unwrap();
            for length in (0..bytes.len()).filter(|length| !last || *length < 64) {
                let cut = disk.fork();
                cut.put(name, bytes[..length].to_vec());
                assert!(problem(&cut).is_some(), "{name} cut at {length}");
                repaired(&cut, &states, snapshot);
            }
            if !last {
                let gone = SimDisk::new();
                names.iter().filter(|other| *other != name).for_each(|other| {
                    gone.put(other, disk.bytes(other).unwrap());
                });
                let Some(JournalError::MissingFile { file, .. }) = problem(&gone) else { panic!("{name}") };
                assert!(file.contains(name.as_str()), "{name} is missing, not {file}");
                let report = check(&gone, Some(ID)).unwrap();
                assert!(report.problem.unwrap().to_string().contains(name.as_str()), "{name}");
                repaired(&gone, &states, snapshot);
            }
        }
    }
}

/// Repairs a journal and opens it: a beginning of what was there.
fn repaired(disk: &SimDisk, states: &[State], snapshot: bool) -> Option<u64> {
    let done = repair(disk, Some(ID)).unwrap();
    let before = done.before.records;
    let after = done.after?;
    assert!(after.is_whole());
    assert_eq!(after.records, before);
    let (_, replay, state) = open(disk, 150).unwrap();
    assert_eq!(replay.records + replay.snapshot_records, before);
    // The state is in the last record of a snapshot.
    if !snapshot || replay.snapshot_records == 4 {
        assert_eq!(states.get(state.count as usize), Some(&state));
    }
    assert_eq!(repair(disk, Some(ID)).unwrap().aside.len(), 0, "nothing is left to repair");
    Some(state.count)
}

#[test]
fn a_flipped_bit_never_gives_a_wrong_record() {
    for (snapshot, close) in [(false, false), (true, false), (true, true)] {
        let (disk, states, before_last) = sample(snapshot, close);
        let all = states.len() as u64 - 1;
        for name in disk.names() {
            for bit in 0..disk.bytes(&name).unwrap().len() as u64 * 8 {
                let flipped = disk.fork();
                assert!(flipped.flip_bit(&name, bit));
                let report = check(&flipped, Some(ID));
                match open(&flipped, 150) {
                    Ok((_, replay, state)) => {
                        // Only the last group may pass for one that was never finished, and after a clean end
                        // only the mark that says so.
                        let torn = replay.torn.expect("a flipped bit is seen");
                        assert!(torn.file.ends_with(&name));
                        assert_eq!(state.count, if close { all } else { before_last }, "bit {bit} of {name}");
                        assert_eq!(states[state.count as usize], state);
                        assert!(report.unwrap().is_whole());
                    }
                    Err(OpenError::Journal(error)) => {
                        let report = report.unwrap();
                        assert_eq!(report.problem.unwrap().to_string(), error.to_string());
                        assert!(report.records < all + 4);
                        let count = repaired(&flipped, &states, snapshot);
                        assert!(
                            count
                                .is_none_or(|count| name.starts_with("snapshot") || count <= report.next_seq)
                        );
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

#[test]
fn damage_says_what_is_behind_it() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk, 1 << 20).unwrap();
    for number in 0..10 {
        journal.append(&record(number, 20));
        journal.append(&record(number + 100, 20));
        journal.sync().unwrap();
    }
    drop(journal);
    // The groups have 52 bytes each behind a header of 64.
    assert_eq!(disk.bytes("segment-0000000001").unwrap().len(), 64 + 10 * 52);
    for damaged_byte in [4, 5, 6, 7, 30, 48, 51] {
        let flipped = disk.fork();
        flipped.flip_bit("segment-0000000001", (64 + 3 * 52 + damaged_byte) * 8);
        let report = check(&flipped, None).unwrap();
        assert_eq!((report.records, report.next_seq, report.records_behind), (6, 6, 12), "{damaged_byte}");
        let Some(JournalError::Damaged { offset, seq: 6, damage: Damage::Checksum, .. }) = report.problem
        else {
            panic!("{:?}", report.problem)
        };
        assert_eq!(offset, 64 + 3 * 52);
        let repaired = repair(&flipped, None).unwrap();
        assert_eq!((repaired.records_lost(), repaired.after.unwrap().records), (12, 6));
        assert_eq!(repaired.aside, ["journal/segment-0000000001.damaged"]);
        assert_eq!(flipped.bytes("segment-0000000001.damaged").unwrap().len(), 64 + 10 * 52);
        assert_eq!(open(&flipped, 1 << 20).unwrap().2.count, 6);
    }
}

// A closed journal of ten records, each synced by itself.
fn ten_groups() -> SimDisk {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk, 1 << 20).unwrap();
    for number in 0..10 {
        journal.append(&record(number, 20));
        journal.sync().unwrap();
    }
    drop(journal);
    disk
}

#[test]
fn what_is_intact_behind_a_damaged_header_is_counted() {
    let disk = ten_groups();
    for bit in 0..64 * 8 {
        let flipped = disk.fork();
        flipped.flip_bit("segment-0000000001", bit);
        let report = check(&flipped, None).unwrap();
        assert_eq!((report.records, report.records_behind), (0, 10), "bit {bit}");
        assert_eq!(report.files[0].bytes, disk.bytes("segment-0000000001").unwrap().len() as u64);
    }
}

#[test]
fn records_that_the_next_segment_repeats_are_told_from_those_that_count() {
    let disk = ten_groups();
    let before = check(&disk, None).unwrap();
    assert_eq!((before.records, before.files[0].records, before.files[0].records_repeated), (10, 10, 0));
    drop(open(&disk, 1 << 20).unwrap());
    let after = check(&disk, None).unwrap();
    assert_eq!(after.records, 10);
    let counts: Vec<_> = after.files.iter().map(|file| (file.records, file.records_repeated)).collect();
    assert_eq!(counts, [(9, 1), (1, 0)]);
}

#[test]
fn records_of_files_that_are_empty_or_gone_are_missed() {
    // Segments of two records each, and a last one with one.
    let disk = SimDisk::new();
    for number in 0..5 {
        let (mut journal, ..) = open(&disk, 1 << 20).unwrap();
        journal.append(&record(number, 20));
        if number < 4 {
            journal.append(&record(number + 10, 20));
        }
        journal.close().unwrap();
    }
    let name = |number: u64| format!("segment-{number:010}");
    let counts: Vec<_> = check(&disk, None).unwrap().files.iter().map(|file| file.records).collect();
    assert_eq!(counts, [2, 2, 2, 2, 1]);
    // Emptied files, removed files, and what is missing.
    let cases: [(&[u64], &[u64], &str); 8] = [
        (&[2], &[], "2 of 2"),
        (&[], &[2], "2 of 2"),
        (&[1], &[], "2 of 1"),
        (&[], &[1], "2 of 1"),
        (&[2, 4], &[], "2 of 2, 2 of 4"),
        (&[2], &[3], "4 of 2 to 3"),
        (&[5], &[], "? of 5"),
        (&[4], &[5], "? of 4 to 5"),
    ];
    for (emptied, removed, missing) in cases {
        let harmed = disk.fork();
        emptied.iter().for_each(|&number| harmed.put(&name(number), Vec::new()));
        removed.iter().for_each(|&number| harmed.remove(&name(number)).unwrap());
        let told = |report: &hq_journal::Report| {
            let told = report.missing.iter().map(|missing| {
                let count = missing.records.map_or("?".to_owned(), |count| count.to_string());
                format!("{count} of {}", missing.files.replace("segment-000000000", ""))
            });
            told.collect::<Vec<_>>().join(", ")
        };
        let report = check(&harmed, Some(ID)).unwrap();
        assert!(!report.is_whole());
        assert_eq!(told(&report), missing);
        assert_eq!(told(&repair(&harmed, Some(ID)).unwrap().before), missing);
    }
    assert!(check(&disk, None).unwrap().missing.is_empty());
}

#[test]
fn what_is_appended_to_an_older_file_does_not_count_and_is_said() {
    let disk = ten_groups();
    let (journal, _, state) = open(&disk, 1 << 20).unwrap();
    journal.close().unwrap();
    let name = "segment-0000000001";
    let ignored = |disk: &SimDisk| {
        let report = check(disk, None).unwrap();
        (report.is_whole(), report.records, report.files[0].records_repeated, report.files[0].bytes_ignored)
    };
    assert_eq!(ignored(&disk), (true, 10, 1, 0));
    let mut bytes = disk.bytes(name).unwrap();
    bytes.extend(b"seventeen bytes..");
    disk.put(name, bytes.clone());
    assert_eq!(ignored(&disk), (true, 10, 1, 17));
    assert!(repair(&disk, None).unwrap().aside.is_empty(), "nothing is read of it");
    assert_eq!(open(&disk, 1 << 20).unwrap().2, state);
}

#[test]
fn a_note_that_is_not_there_or_says_nothing_is_missed() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk, 150).unwrap();
    journal.append(&record(1, 20));
    journal.sync().unwrap();
    journal.close().unwrap();
    assert!(check(&disk, None).unwrap().has_note);
    disk.forget_note();
    let report = check(&disk, None).unwrap();
    assert_eq!((report.is_whole(), report.has_note), (true, false));
    // The next server writes it again.
    open(&disk, 150).unwrap().0.close().unwrap();
    assert!(check(&disk, None).unwrap().has_note);
}

#[test]
fn a_damaged_snapshot_gives_way_to_what_it_replaced() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk, 1 << 20).unwrap();
    for number in 0..10 {
        journal.append(&record(number, 20));
    }
    journal.sync().unwrap();
    let old = disk.bytes("segment-0000000001").unwrap();
    let mut compactor = journal.start_compaction().unwrap();
    State::default().snapshot(3, &mut compactor).unwrap();
    let snapshot = compactor.finish().unwrap();
    let done = journal.finish_compaction(snapshot).unwrap();
    assert_eq!((done.records, done.replaced.count(), done.bytes_replaced), (4, 1, old.len() as u64));
    done.replaced.remove(&disk);
    assert_eq!(disk.bytes("segment-0000000001"), None);
    drop(journal);
    // The crash came before the old segment was removed.
    disk.put("segment-0000000001", old);
    disk.flip_bit("snapshot-0000000002", 70 * 8);
    assert!(matches!(problem(&disk), Some(JournalError::Damaged { damage: Damage::Checksum, .. })));
    let repaired = repair(&disk, None).unwrap();
    assert_eq!(repaired.after.unwrap().records, 10);
    assert_eq!(open(&disk, 1 << 20).unwrap().2.count, 10);
}

#[test]
fn a_snapshot_with_more_behind_its_end_is_damaged() {
    let (disk, states, _) = sample(true, false);
    let name = disk.names().into_iter().find(|name| name.starts_with("snapshot")).unwrap();
    let mut bytes = disk.bytes(&name).unwrap();
    let length = bytes.len() as u64;
    bytes.push(0);
    disk.put(&name, bytes);
    let Some(JournalError::Damaged { offset, damage: Damage::Trailing, .. }) = problem(&disk) else {
        panic!("it is not what was written");
    };
    assert_eq!(offset, length);
    repaired(&disk, &states, true);
}

/// Opens a directory with one file and says what comes of it.
fn message(name: &str, bytes: &[u8]) -> String {
    let disk = SimDisk::new();
    disk.put(name, bytes.to_vec());
    let error = problem(&disk).unwrap();
    format!("{error}; {}", error.hint())
}

#[test]
fn what_is_no_journal_is_called_so() {
    let (disk, ..) = sample(false, false);
    let mut newer = disk.bytes("segment-0000000001").unwrap();
    newer[8] = 9;
    let crc = crc32c(&newer[..60]);
    newer[60..64].copy_from_slice(&crc.to_le_bytes());
    let mut damaged = disk.bytes("segment-0000000001").unwrap();
    damaged[8] = 9;
    let cases = [
        ("empty", vec![]),
        ("zeros", vec![0; 5000]),
        ("text", b"{\"jobs\": []}".to_vec()),
        ("short", disk.bytes("segment-0000000001").unwrap()[..40].to_vec()),
        ("newer", newer),
        ("damaged", damaged),
        ("misplaced", disk.bytes("segment-0000000002").unwrap()),
    ];
    let text: String = cases
        .iter()
        .map(|(case, bytes)| format!("{case}: {}\n", message("segment-0000000001", bytes)))
        .collect();
    insta::assert_snapshot!(text);
    assert_eq!(ForeignContent::Zeros.to_string(), "it holds zeros");
}

/// As the format has it, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 },
        )
    })
}

#[test]
fn a_newer_journal_is_neither_opened_nor_repaired() {
    let (disk, ..) = sample(false, false);
    let mut newer = disk.bytes("segment-0000000003").unwrap();
    newer[8] = 2;
    let crc = crc32c(&newer[..60]);
    newer[60..64].copy_from_slice(&crc.to_le_bytes());
    disk.put("segment-0000000003", newer);
    let is_newer =
        |error: &JournalError| matches!(error, JournalError::NewerFormat { found: 2, known: 1, .. });
    assert!(is_newer(&problem(&disk).unwrap()));
    assert!(is_newer(&check(&disk, None).unwrap_err()));
    assert!(is_newer(&repair(&disk, None).unwrap_err()));
}

#[test]
fn a_journal_of_another_server_is_refused() {
    let (disk, ..) = sample(true, false);
    let other = JournalId([1; 16]);
    let options = hq_journal::Options { expect: Some(other), ..Default::default() };
    let result = Journal::open(disk.clone(), &options, &mut |_, _| Ok::<(), String>(()));
    let Err(OpenError::Journal(JournalError::Foreign { found: ID, expected, .. })) = result else {
        panic!("it is another's");
    };
    assert_eq!(expected, other);
    let names = disk.names();
    assert!(matches!(repair(&disk, Some(other)), Err(JournalError::Foreign { .. })));
    assert_eq!(disk.names(), names);
}

#[test]
fn a_segment_of_another_journal_is_noticed() {
    let (disk, states, _) = sample(false, false);
    let foreign = SimDisk::new();
    let options =
        hq_journal::Options { create: Some(JournalId([1; 16])), segment_bytes: 150, ..Default::default() };
    for _ in 0..3 {
        let (mut journal, _) =
            Journal::open(foreign.clone(), &options, &mut |_, _| Ok::<(), String>(())).unwrap();
        journal.append(&[1; 50]);
        journal.sync().unwrap();
    }
    disk.put("segment-0000000002", foreign.bytes("segment-0000000002").unwrap());
    assert!(matches!(problem(&disk), Some(JournalError::Foreign { .. })));
    repaired(&disk, &states, false);
}

#[test]
fn there_is_no_journal_where_there_is_none() {
    let disk = SimDisk::new();
    let options = hq_journal::Options { expect: Some(ID), ..Default::default() };
    let result = Journal::open(disk.clone(), &options, &mut |_, _| Ok::<(), String>(()));
    assert!(matches!(result, Err(OpenError::Journal(JournalError::Missing { .. }))));
    assert!(matches!(check(&disk, None), Err(JournalError::Missing { .. })));
    assert!(disk.names().is_empty());
}

#[test]
fn a_reader_that_refuses_a_record_stops_the_opening() {
    let (disk, ..) = sample(false, false);
    let options = hq_journal::Options { create: Some(ID), ..Default::default() };
    let mut refuse = |seq, _: &[u8]| if seq == 3 { Err("of a later release") } else { Ok(()) };
    let names = disk.names();
    let Err(error) = Journal::open(disk.clone(), &options, &mut refuse) else { panic!("it refuses") };
    assert_eq!(error.to_string(), "record 3 of the journal: of a later release");
    assert_eq!(disk.names(), names);
}

#[test]
fn a_repair_may_be_interrupted_anywhere() {
    let (disk, states, _) = sample(true, false);
    for name in disk.names() {
        let length = disk.bytes(&name).unwrap().len() as u64;
        let damaged = disk.fork();
        damaged.flip_bit(&name, (length - 10) * 8);
        if check(&damaged, None).unwrap().is_whole() {
            continue;
        }
        for operations in 1.. {
            let mut disk = damaged.fork();
            let faults = hq_journal::Faults { power_after: Some(operations), ..Default::default() };
            disk.set_faults(faults);
            let finished = repair(&disk, Some(ID)).is_ok();
            let mut chance = Chance(operations);
            disk.crash(&mut |limit| chance.below(limit));
            let expected = check(&damaged, None).unwrap().records;
            let after = repair(&disk, Some(ID)).unwrap().after.unwrap();
            assert_eq!(after.records, expected, "{name}, operation {operations}");
            let (_, replay, state) = open(&disk, 150).unwrap();
            if replay.snapshot_records == 4 {
                assert_eq!(states[state.count as usize], state);
            }
            if finished {
                break;
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn any_bytes_are_a_journal_or_an_error(
        files in prop::collection::vec(("(segment|snapshot)-000000000[1-3]", prop::collection::vec(any::<u8>(), 0..200)), 1..4),
        good_headers: bool,
    ) {
        let disk = SimDisk::new();
        let (sample, ..) = sample(true, false);
        for (name, bytes) in files {
            let header = sample.bytes(&name).filter(|_| good_headers).unwrap_or_default();
            disk.put(&name, [&header[..header.len().min(64)], &bytes].concat());
        }
        let report = check(&disk, None);
        let opened = open(&disk, 150);
        if let (Ok(report), Ok((_, replay, _))) = (&report, &opened) {
            prop_assert!(report.is_whole());
            prop_assert_eq!(report.next_seq, replay.next_seq);
        }
        drop(opened);
        if repair(&disk, None).is_ok() && check(&disk, None).is_ok() {
            prop_assert!(open(&disk, 150).is_ok());
        }
    }

    #[test]
    fn several_damaged_places_give_a_beginning(flips in prop::collection::vec(any::<prop::sample::Index>(), 2..6)) {
        let (disk, states, _) = sample(false, true);
        for flip in flips {
            let names = disk.names();
            let total: usize = names.iter().map(|name| disk.bytes(name).unwrap().len()).sum();
            let mut bit = flip.index(total * 8) as u64;
            for name in names {
                let bits = disk.bytes(&name).unwrap().len() as u64 * 8;
                if bit < bits {
                    disk.flip_bit(&name, bit);
                    break;
                }
                bit -= bits;
            }
        }
        if let Ok((_, _, state)) = open(&disk, 150) {
            prop_assert_eq!(states.get(state.count as usize), Some(&state));
        } else {
            repaired(&disk, &states, false);
        }
    }
}
