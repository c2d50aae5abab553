//! Bytes that are lost, moved or repeated, and files that vanish: nothing that was on disk is ever lost in silence.

mod support;

use std::path::Path;

use hq_journal::{
    Disk, Journal, JournalError, JournalId, OpenError, Options, RealDisk, SimDisk, check, repair,
};
use proptest::prelude::*;
use support::{ID, State, cases, open, record};

/// No group of the samples is longer, in bytes.
const GROUP_BYTES_MAX: usize = 3 * 80 + 10;

/// A journal of a server that was killed: one segment with so many groups, all of them on disk. Also the states that it
/// went through, by group.
fn killed(groups: u64) -> (SimDisk, Vec<State>) {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk, 1 << 20).unwrap();
    let mut states = vec![State::default()];
    let mut state = State::default();
    for number in 0..groups {
        for part in 0..1 + number % 3 {
            let bytes = record(number * 10 + part, number * 13 % 70);
            journal.append(&bytes);
            state.apply(&bytes);
        }
        journal.sync().unwrap();
        states.push(state);
    }
    drop(journal);
    (disk, states)
}

fn last(disk: &SimDisk) -> (String, Vec<u8>) {
    let name = disk.names().into_iter().rfind(|name| name.starts_with("segment")).unwrap();
    let bytes = disk.bytes(&name).unwrap();
    (name, bytes)
}

/// What becomes of the bytes of a file.
#[derive(Clone, Debug)]
enum Harm {
    Cut { at: usize, length: usize },
    Repeat { at: usize, length: usize },
    Swap { at: usize, length: usize },
    Zeros { at: usize, length: usize },
    Flip { bit: usize },
}

impl Harm {
    fn any() -> impl Strategy<Value = Harm> {
        let place = (0..4000usize, 1..600usize);
        prop_oneof![
            place.clone().prop_map(|(at, length)| Harm::Cut { at, length }),
            place.clone().prop_map(|(at, length)| Harm::Repeat { at, length }),
            place.clone().prop_map(|(at, length)| Harm::Swap { at, length }),
            place.prop_map(|(at, length)| Harm::Zeros { at, length }),
            (0..32_000usize).prop_map(|bit| Harm::Flip { bit }),
        ]
    }

    // Behind the header: what that says is another story.
    fn done_to(&self, bytes: &[u8]) -> Vec<u8> {
        let range = |at: usize, length: usize| {
            let from = 64 + at % (bytes.len() - 64);
            from..(from + length).min(bytes.len())
        };
        let mut harmed = bytes.to_vec();
        match *self {
            Harm::Cut { at, length } => drop(harmed.drain(range(at, length))),
            Harm::Repeat { at, length } => {
                let range = range(at, length);
                let repeated = bytes[range.clone()].to_vec();
                harmed.splice(range.end..range.end, repeated);
            }
            Harm::Swap { at, length } => {
                let first = range(at, length);
                let second = first.end..(first.end + first.len()).min(bytes.len());
                harmed[first.start..second.end].rotate_left(first.len());
            }
            Harm::Zeros { at, length } => harmed[range(at, length)].fill(0),
            Harm::Flip { bit } => {
                let bit = 64 * 8 + bit % ((bytes.len() - 64) * 8);
                harmed[bit / 8] ^= 1 << (bit % 8);
            }
        }
        harmed
    }
}

fn refused(disk: &SimDisk) -> Option<JournalError> {
    match open(disk, 1 << 20) {
        Ok(_) => None,
        Err(OpenError::Journal(error)) => Some(error),
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn nothing_that_was_on_disk_is_lost_in_silence(harm in Harm::any(), is_closed: bool) {
        let (disk, states) = killed(40);
        if is_closed {
            open(&disk, 1 << 20).unwrap().0.close().unwrap();
            // The segment of before is not the last one any more.
            let name = "segment-0000000001";
            let bytes = disk.bytes(name).unwrap();
            disk.put(name, harm.done_to(&bytes));
            // What was not known to be on disk has been written once more, and does not count where it was.
            if let Ok((_, _, state)) = open(&disk, 1 << 20) {
                prop_assert_eq!(state, *states.last().unwrap());
            }
            return Ok(());
        }
        let (name, bytes) = last(&disk);
        let harmed = harm.done_to(&bytes);
        // What is behind all that was written may pass for an unfinished write.
        let may_pass = harmed.starts_with(&bytes);
        disk.put(&name, harmed);
        if check(&disk, Some(ID)).unwrap().is_whole() {
            prop_assert!(may_pass);
            prop_assert_eq!(open(&disk, 1 << 20).unwrap().2, *states.last().unwrap());
            return Ok(());
        }
        let before = disk.names();
        prop_assert!(refused(&disk).is_some_and(|error| error.to_string().contains(" is damaged at byte ")));
        prop_assert_eq!(disk.names(), before, "a refusal changes nothing");
        let done = repair(&disk, Some(ID)).unwrap();
        prop_assert!(done.after.unwrap().is_whole());
        let (_, replay, state) = open(&disk, 1 << 20).unwrap();
        prop_assert_eq!(replay.records, done.before.records);
        prop_assert!(states.contains(&state), "a beginning, of whole groups");
    }

    #[test]
    fn without_the_note_only_the_last_groups_may_pass_for_unfinished(harm in Harm::any()) {
        let (disk, states) = killed(40);
        disk.forget_note();
        let (name, bytes) = last(&disk);
        let harmed = harm.done_to(&bytes);
        let unharmed = harmed.iter().rev().zip(bytes.iter().rev()).take_while(|(left, right)| left == right).count();
        disk.put(&name, harmed);
        if let Ok((_, _, state)) = open(&disk, 1 << 20) {
            // A whole group with the four bytes before it proves, wherever it is, that what was before it was on disk.
            prop_assert!(states.contains(&state), "a beginning, of whole groups");
            prop_assert!(state == *states.last().unwrap() || unharmed < 2 * GROUP_BYTES_MAX);
        }
    }
}

#[test]
fn a_hundred_bytes_that_are_missing_are_damage_and_what_is_behind_them_is_counted() {
    let (disk, states) = killed(40);
    let (name, bytes) = last(&disk);
    let middle = bytes.len() / 2;
    for has_note in [true, false] {
        let cut = disk.fork();
        cut.put(&name, [&bytes[..middle], &bytes[middle + 100..]].concat());
        if !has_note {
            cut.forget_note();
        }
        let error = refused(&cut).expect("it is noticed").to_string();
        assert!(error.contains(" is damaged at byte "), "{error}");
        let report = check(&cut, Some(ID)).unwrap();
        let all = states.last().unwrap().count;
        assert!(report.records > all / 4 && report.records_behind > all / 4, "{report:?}");
        assert!(report.records + report.records_behind < all);
        let done = repair(&cut, Some(ID)).unwrap();
        assert_eq!(done.records_lost(), report.records_behind);
        assert_eq!(done.aside.len(), 1, "no byte is thrown away");
        assert_eq!(open(&cut, 1 << 20).unwrap().2.count, report.records);
    }
}

#[test]
fn a_last_file_that_is_cut_or_missing_is_noticed() {
    let (disk, states) = killed(10);
    let (name, bytes) = last(&disk);
    for length in 64..bytes.len() {
        let cut = disk.fork();
        cut.put(&name, bytes[..length].to_vec());
        assert!(matches!(refused(&cut), Some(JournalError::Damaged { .. })), "{length}");
    }
    drop(open(&disk, 1 << 20).unwrap());
    disk.remove(&last(&disk).0).unwrap();
    assert!(matches!(refused(&disk), Some(JournalError::MissingFile { .. })));
    assert!(repair(&disk, Some(ID)).unwrap().after.unwrap().is_whole());
    assert_eq!(open(&disk, 1 << 20).unwrap().2, *states.last().unwrap());

    let (disk, _) = killed(10);
    disk.remove(&name).unwrap();
    assert!(
        matches!(refused(&disk), Some(JournalError::MissingFile { .. })),
        "no other is begun in its place"
    );
}

type Real = Journal<RealDisk>;

fn open_real(directory: &Path) -> Result<(Real, Vec<Vec<u8>>), JournalError> {
    open_real_of(directory, JournalId([7; 16]))
}

fn open_real_of(directory: &Path, id: JournalId) -> Result<(Real, Vec<Vec<u8>>), JournalError> {
    let mut records = Vec::new();
    let options = Options { expect: None, create: Some(id), segment_bytes: 200 };
    let disk = RealDisk::create(directory).unwrap();
    let opened = Journal::open(disk, &options, &mut |_, record| {
        records.push(record.to_vec());
        Ok::<(), String>(())
    });
    match opened {
        Ok((journal, _)) => Ok((journal, records)),
        Err(OpenError::Journal(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

/// Adds a record, which is saved when this returns.
fn save(journal: &mut Real, number: u8) -> Result<(), JournalError> {
    journal.append(&[number; 50]);
    journal.sync()
}

/// Something is done to the directory of a journal that is being written, and perhaps undone.
fn check_vanished(harm: fn(&Path), is_refused: &str, remedy: fn(&Path)) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let (mut journal, _) = open_real(&path).unwrap();
    for number in 0..20 {
        save(&mut journal, number).unwrap();
    }
    harm(&path);
    // Whatever is not the newest file is looked at in turn.
    let mut number = 20;
    let error = loop {
        match save(&mut journal, number) {
            Ok(()) if number < 60 => number += 1,
            Ok(()) => panic!("it is not noticed"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(number == 20 || is_refused.is_empty(), "nothing is acknowledged");
    if !is_refused.is_empty() {
        let again = journal.sync().unwrap_err().to_string();
        assert!(again.contains(is_refused), "{again}, after {error}");
    }
    remedy(&path);
    journal.sync().unwrap();
    save(&mut journal, number + 1).unwrap();
    drop(journal);
    let (_, records) = open_real(&path).unwrap();
    let expected: Vec<Vec<u8>> = (0..number + 2).map(|number| vec![number; 50]).collect();
    assert_eq!(records, expected);
}

fn newest(path: &Path) -> std::path::PathBuf {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.to_string_lossy().contains("segment")).max().unwrap()
}

#[test]
fn a_directory_that_was_removed_is_noticed_and_written_anew_where_there_is_one() {
    let harm = |path: &Path| std::fs::remove_dir_all(path).unwrap();
    check_vanished(harm, "make an empty directory in its place", |path| std::fs::create_dir(path).unwrap());
}

#[test]
fn a_directory_that_was_renamed_is_noticed_and_used_when_it_is_back() {
    check_vanished(
        |path| std::fs::rename(path, path.with_file_name("away")).unwrap(),
        "put it back",
        |path| std::fs::rename(path.with_file_name("away"), path).unwrap(),
    );
}

#[test]
fn the_journal_that_another_server_has_begun_in_its_place_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let (mut orphan, _) = open_real(&path).unwrap();
    save(&mut orphan, 1).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let (mut next, _) = open_real_of(&path, JournalId([9; 16])).unwrap();
    save(&mut next, 2).unwrap();
    drop(next);
    for _ in 0..2 {
        let error = save(&mut orphan, 3).unwrap_err().to_string();
        assert!(error.contains("is not the file") || error.contains("belongs to journal"), "{error}");
    }
    let error = orphan.sync().unwrap_err();
    assert!(matches!(error, JournalError::Foreign { .. }), "{error}");
    let (_, records) = open_real_of(&path, JournalId([9; 16])).expect("nobody has the lock");
    assert_eq!(records, [vec![2; 50]]);
}

#[test]
fn files_that_were_removed_are_written_again() {
    let newest_gone = |path: &Path| std::fs::remove_file(newest(path)).unwrap();
    check_vanished(newest_gone, "", |_| {});
    let oldest_gone = |path: &Path| std::fs::remove_file(path.join("segment-0000000001")).unwrap();
    check_vanished(oldest_gone, "", |_| {});
}

#[test]
fn a_file_in_the_place_of_another_is_noticed() {
    let other = |path: &Path| {
        let file = newest(path);
        std::fs::rename(&file, path.join("kept")).unwrap();
        std::fs::write(&file, "something else").unwrap();
    };
    check_vanished(other, "move it away", |path| std::fs::rename(path.join("kept"), newest(path)).unwrap());
    // A copy is as good as what it was made of.
    let copied = |path: &Path| {
        let file = newest(path);
        std::fs::copy(&file, path.join("kept")).unwrap();
        std::fs::rename(path.join("kept"), &file).unwrap();
    };
    check_vanished(copied, "", |_| {});
}

#[test]
fn a_newest_file_that_was_cut_is_noticed_and_nothing_is_acknowledged_until_it_is_whole() {
    fn cut(path: &Path, length: u64) {
        let file = newest(path);
        std::fs::copy(&file, path.join("kept")).unwrap();
        let length = length.min(file.metadata().unwrap().len() - 1);
        std::fs::File::options().write(true).open(&file).unwrap().set_len(length).unwrap();
    }
    let put_back = |path: &Path| std::fs::rename(path.join("kept"), newest(path)).unwrap();
    let copy_back = |path: &Path| {
        std::fs::copy(path.join("kept"), newest(path)).unwrap();
    };
    check_vanished(|path| cut(path, 100), "it was cut", put_back);
    check_vanished(|path| cut(path, 0), "it was cut", copy_back);
    // What is appended then makes up for the length.
    check_vanished(|path| cut(path, u64::MAX), "it was cut", put_back);
    check_vanished(|path| cut(path, u64::MAX), "it was cut", copy_back);
}

#[test]
fn bytes_of_somebody_else_behind_the_newest_file_do_no_harm() {
    let longer = |path: &Path| {
        let mut file = std::fs::File::options().append(true).open(newest(path)).unwrap();
        std::io::Write::write_all(&mut file, &[7; 300]).unwrap();
    };
    check_vanished(longer, "", |_| {});
}

#[test]
fn an_older_file_that_was_cut_is_noticed_in_its_turn() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open_real(directory.path()).unwrap();
    for number in 0..20 {
        save(&mut journal, number).unwrap();
    }
    let oldest = directory.path().join("segment-0000000001");
    let bytes = std::fs::read(&oldest).unwrap();
    std::fs::write(&oldest, &bytes[..100]).unwrap();
    let refused = (20..60).find_map(|number| save(&mut journal, number).err()).expect("it is noticed");
    assert!(refused.to_string().contains("its length has changed"), "{refused}");
    let again = journal.sync().unwrap_err().to_string();
    assert!(again.contains("segment-0000000001") && again.contains("it was cut"), "{again}");
    std::fs::write(&oldest, bytes).unwrap();
    journal.sync().unwrap();
    let count = journal.next_seq();
    drop(journal);
    assert_eq!(open_real(directory.path()).unwrap().1.len() as u64, count);
}
