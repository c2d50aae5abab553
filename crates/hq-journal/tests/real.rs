//! A journal in a directory of the file system.

use std::convert::Infallible;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hq_journal::{
    Holder, Journal, JournalError, JournalId, LockError, OpenError, Options, RealDisk, Replay, check, repair,
    replay,
};

const ID: JournalId = JournalId([7; 16]);
const OPTIONS: Options = Options { expect: None, create: Some(ID), segment_bytes: 1 << 20 };

type Opened = (Journal<RealDisk>, Replay, Vec<Vec<u8>>);

fn open(directory: &Path) -> Result<Opened, OpenError<Infallible>> {
    let mut records = Vec::new();
    let disk = RealDisk::create(directory).unwrap();
    let (journal, replay) = Journal::open(disk, &OPTIONS, &mut |seq, record| {
        assert_eq!(seq, records.len() as u64);
        records.push(record.to_vec());
        Ok(())
    })?;
    Ok((journal, replay, records))
}

#[test]
fn records_are_there_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let mut expected = Vec::new();
    for round in 0..5u8 {
        let (mut journal, replay, records) = open(&path).unwrap();
        assert_eq!(records, expected);
        assert_eq!((replay.created, replay.next_seq), (round == 0, expected.len() as u64));
        for length in [0, 1, 10, 127, 128, 300_000] {
            expected.push(vec![round; length]);
            assert_eq!(journal.append(&vec![round; length]), expected.len() as u64 - 1);
            journal.write().unwrap();
        }
        match round % 2 {
            0 => journal.sync().unwrap(),
            _ => journal.close().unwrap(),
        }
    }
}

#[test]
fn others_can_read_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let opened = open(&path).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in path.read_dir().unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    drop(opened);
}

#[test]
fn a_second_server_is_told_who_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path()).unwrap();
    let Err(OpenError::Journal(JournalError::Lock(LockError::Held { holder, .. }))) = open(directory.path())
    else {
        panic!("it is in use");
    };
    let Holder::Process { pid, .. } = holder else { panic!("the holder is known") };
    assert_eq!(pid, std::process::id());
    drop(first);
    open(directory.path()).unwrap();
}

#[test]
fn the_lock_of_a_dead_process_is_no_obstacle() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    for text in
        ["pid 1\nhost elsewhere\nstarted 5\n", "pid 4194304\nhost here\nstarted 1\n", "", "\0\0\0", "pid"]
    {
        std::fs::write(directory.path().join(hq_journal::LOCK_FILE), text).unwrap();
        drop(open(directory.path()).unwrap());
    }
}

#[test]
fn a_path_that_is_no_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, "").unwrap();
    assert_eq!(RealDisk::open(&path).unwrap_err().kind(), std::io::ErrorKind::NotADirectory);
    assert!(RealDisk::create(&path).is_err());
    assert_eq!(
        RealDisk::open(&directory.path().join("none")).unwrap_err().kind(),
        std::io::ErrorKind::NotFound
    );
}

#[test]
fn a_reader_beside_the_writer_sees_a_beginning() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, ..) = open(directory.path()).unwrap();
    let path = directory.path().to_owned();
    std::thread::scope(|scope| {
        let disk = RealDisk::open(&path).unwrap();
        let writer = scope.spawn(move || {
            // Each record is its number; a snapshot is the number of the last one.
            for round in 0..60 {
                let mut compactor =
                    (round % 3 == 0 && round > 0).then(|| journal.start_compaction().unwrap());
                for _ in 0..50 {
                    let number = journal.next_seq();
                    journal.append(&number.to_le_bytes());
                    journal.write().unwrap();
                }
                if let Some(mut compactor) = compactor.take() {
                    compactor.append(&(compactor.first_seq() - 1).to_le_bytes()).unwrap();
                    let snapshot = compactor.finish().unwrap();
                    let done = journal.finish_compaction(snapshot).unwrap();
                    done.replaced.remove(&disk);
                }
            }
            journal.close().unwrap();
        });
        let mut latest = 0;
        while !writer.is_finished() {
            let disk = RealDisk::open(&path).unwrap();
            let mut due = None;
            let read = replay(&disk, Some(ID), &mut |seq, record| {
                let number = u64::from_le_bytes(record.try_into().unwrap());
                if due.unwrap_or(seq) == seq && number == seq {
                    due = Some(seq + 1);
                    return Ok(());
                }
                Err(format!("{number} in the place of {due:?}, called {seq}"))
            });
            let read = match read {
                Err(OpenError::Journal(JournalError::Unsteady { .. })) => continue,
                read => read.unwrap(),
            };
            assert!(read.next_seq >= latest);
            latest = read.next_seq;
        }
        writer.join().unwrap();
        let disk = RealDisk::open(&path).unwrap();
        assert_eq!(replay(&disk, None, &mut |_, _| Ok::<(), Infallible>(())).unwrap().next_seq, 3000);
    });
}

#[test]
fn what_is_no_file_in_the_place_of_one_is_named_and_not_waited_for() {
    type Make = fn(&Path);
    let kinds: [(&str, Make); 4] = [
        ("a named pipe", |path| {
            assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        }),
        ("a directory", |path| std::fs::create_dir(path).unwrap()),
        ("a symbolic link", |path| std::os::unix::fs::symlink("/dev/null", path).unwrap()),
        ("a socket", |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
    ];
    for (what, make) in kinds {
        for name in ["synced", "segment-0000000001", "segment-0000000002", "snapshot-0000000002", "lock"] {
            let directory = tempfile::tempdir().unwrap();
            if name == "segment-0000000002" {
                open(directory.path()).unwrap();
            }
            let path = directory.path().join(name);
            make(&path);
            let Err(OpenError::Journal(error)) = open(directory.path()) else { panic!("{name} is {what}") };
            if name == "lock" {
                assert!(error.to_string().ends_with(&format!("it is {what}, not a file")), "{error}");
                continue;
            }
            let told = format!("{} is {what}, not a file", path.display());
            assert_eq!(error.to_string(), told);
            assert!(error.hint().starts_with("move it away"), "{}", error.hint());
            let disk = RealDisk::open(directory.path()).unwrap();
            assert_eq!(check(&disk, None).unwrap_err().to_string(), told);
            assert_eq!(repair(&disk, None).unwrap_err().to_string(), told);
            let read = replay(&disk, None, &mut |_, _| Ok::<(), Infallible>(()));
            match name {
                "synced" => {}
                _ => assert_eq!(read.unwrap_err().to_string(), told),
            }
        }
    }
}
