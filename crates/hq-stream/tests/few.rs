//! What is found of a few tasks by the indexes is what a reader of everything finds of them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use hq_model::{Compression, IdSet, Instance, JobId, TaskId, TaskRef, Timestamp, WorkerId};
use hq_stream::{
    Attempt, Channel, Content, Contents, Directory, Fault, Found, Header, Scan, Started, StreamFile, Writer,
};
use proptest::prelude::*;

/// What a writer is told.
#[derive(Clone, Debug)]
enum Told {
    Append {
        attempt: Attempt,
        channel: Channel,
        length: usize,
    },
    End {
        attempt: Attempt,
    },
    /// The task prints what is in the file so far.
    Foreign {
        attempt: Attempt,
    },
    Flush,
    Index,
    Compress(Compression),
}

/// What happens to a file.
#[derive(Clone, Debug)]
enum Damage {
    None,
    Cut(f64),
    Flip(Vec<f64>),
    /// A bit of the last blocks, most of which are indexes.
    FlipEnd(usize),
    Zeros(f64, usize),
    Garbage(usize),
}

const HEADER_BYTES: usize = 35;

fn header() -> Header {
    Header { server_uid: "server".into(), worker: WorkerId(3), created: Timestamp(17) }
}

fn attempt(job: u32, task: u32, instance: u32) -> Attempt {
    Attempt { task: TaskRef::new(JobId(job), TaskId(task)), instance: Instance(instance) }
}

fn told() -> impl Strategy<Value = Vec<Told>> {
    let attempt = (1..3u32, 0..12u32, 0..3u32).prop_map(|(job, task, instance)| attempt(job, task, instance));
    let channel = prop_oneof![Just(Channel::Stdout), Just(Channel::Stderr)];
    let one = prop_oneof![
        8 => (attempt.clone(), channel, 1..2000usize)
            .prop_map(|(attempt, channel, length)| Told::Append { attempt, channel, length }),
        3 => attempt.clone().prop_map(|attempt| Told::End { attempt }),
        1 => attempt.prop_map(|attempt| Told::Foreign { attempt }),
        4 => Just(Told::Flush),
        2 => Just(Told::Index),
        2 => prop_oneof![Just("none"), Just("zstd:1")].prop_map(|text| Told::Compress(text.parse().unwrap())),
    ];
    prop::collection::vec(one, 1..100)
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::None),
        (0.0..1.0).prop_map(Damage::Cut),
        prop::collection::vec(0.0..1.0, 1..4).prop_map(Damage::Flip),
        (1..400usize).prop_map(Damage::FlipEnd),
        (0.0..1.0, 1..5000usize).prop_map(|(place, length)| Damage::Zeros(place, length)),
        (1..500usize).prop_map(Damage::Garbage),
    ]
}

// Writes it all; `then` is called after each step.
fn write(dir: &Path, told: &[Told], first_at: u64, mut then: impl FnMut(&Writer)) -> Writer {
    let header = Header { created: Timestamp(17 + first_at), ..header() };
    let mut writer = Writer::create(dir, &header).unwrap();
    for (told, at) in told.iter().zip(first_at..) {
        let at = Timestamp(at);
        match told {
            Told::Append { attempt, channel, length } => {
                let bytes: Vec<u8> = (0..*length).map(|place| (at.0 as usize + place) as u8).collect();
                writer.append(*attempt, *channel, at, &bytes).unwrap();
            }
            Told::End { attempt } => {
                writer.end(*attempt, &[Channel::Stdout, Channel::Stderr], at).unwrap();
            }
            Told::Foreign { attempt } => {
                let bytes = fs::read(writer.path()).unwrap();
                writer.append(*attempt, Channel::Stdout, at, &bytes[..bytes.len().min(100_000)]).unwrap();
            }
            Told::Flush => writer.flush().unwrap(),
            Told::Index => writer.finish().unwrap(),
            Told::Compress(compression) => writer.compress(*compression),
        }
        then(&writer);
    }
    writer
}

fn harm(path: &Path, damage: &Damage) {
    let mut bytes = fs::read(path).unwrap();
    let place = |part: f64| HEADER_BYTES + ((bytes.len() - HEADER_BYTES) as f64 * part) as usize;
    match damage {
        Damage::None => {}
        Damage::Cut(part) => bytes.truncate(place(*part)),
        Damage::Flip(parts) => {
            for place in parts.iter().map(|part| place(*part)).collect::<Vec<_>>() {
                bytes.get_mut(place).into_iter().for_each(|byte| *byte ^= 0x20);
            }
        }
        Damage::FlipEnd(before) => {
            let place = bytes.len().saturating_sub(*before).max(HEADER_BYTES);
            bytes.get_mut(place).into_iter().for_each(|byte| *byte ^= 1);
        }
        Damage::Zeros(part, length) => {
            let from = place(*part);
            let behind = bytes.len().min(from + length);
            bytes[from..behind].fill(0);
        }
        Damage::Garbage(length) => bytes.extend((0..*length).map(|byte| byte as u8)),
    }
    fs::write(path, bytes).unwrap();
}

type Line = (u64, Instance, u64, Option<Channel>, Vec<u8>);

// What a task has there: with the block, in the order of the file.
fn lines(mut scan: Scan, task: TaskRef) -> (Vec<Line>, Vec<Fault>) {
    let mut lines = Vec::new();
    while let Some(block) = scan.next_block().unwrap() {
        for entry in block.entries().filter(|entry| entry.attempt.task == task) {
            let (channel, bytes) = match entry.content {
                Content::Bytes(channel, bytes) => (Some(channel), bytes),
                Content::End { .. } | Content::Lost(..) => (None, &[][..]),
            };
            lines.push((block.offset, entry.attempt.instance, entry.at.0, channel, bytes.to_vec()));
        }
    }
    (lines, scan.faults().to_vec())
}

fn span(fault: &Fault) -> (u64, u64) {
    let (Fault::Torn { offset, bytes }
    | Fault::Damaged { offset, bytes }
    | Fault::Lost { offset, bytes, .. }) = fault;
    (*offset, offset + bytes)
}

// Every task is found as a scan finds it; what the scan lost of it is told.
fn check_file(path: &Path, whole: Option<&BTreeMap<TaskRef, Vec<Line>>>) {
    check_tasks(path, whole, 13);
}

fn check_tasks(path: &Path, whole: Option<&BTreeMap<TaskRef, Vec<Line>>>, tasks: u32) {
    let open = || StreamFile::open(path).unwrap();
    for job in 1..4 {
        for task in 0..tasks {
            let task = TaskRef::new(JobId(job), TaskId(task));
            let (all, all_faults) = lines(open().scan(), task);
            let (found, faults) = lines(open().find(task.job, &IdSet::single(task.task)).unwrap(), task);
            assert_eq!(found, all, "{task:?}");
            let lost = whole.map_or(&[][..], |whole| &whole[&task]).iter().map(|line| line.0);
            let told = |faults: &[Fault], place| {
                faults.iter().map(span).any(|(from, behind)| (from..behind).contains(&place))
            };
            for block in lost.filter(|block| !all.iter().any(|line| line.0 == *block)) {
                let is_cut = !told(&all_faults, block);
                assert!(
                    is_cut || told(&faults, block),
                    "{task:?} at {block}: {faults:?}, not {all_faults:?}"
                );
                for fault in all_faults.iter().filter(|fault| told(&[**fault], block)) {
                    let whose = Directory::tasks_in(path, fault).unwrap();
                    let is_named = whose.as_ref().is_none_or(|whose| {
                        whose.get(&task.job).is_some_and(|tasks| tasks.contains(task.task))
                    });
                    assert!(is_named, "{task:?} at {block}: {whose:?}");
                }
            }
            for (from, behind) in faults.iter().map(span) {
                let is_known =
                    all_faults.iter().map(span).any(|(first, last)| first <= from && behind <= last);
                assert!(is_known, "{faults:?} of {all_faults:?}");
            }
        }
    }
}

fn all_lines(path: &Path) -> BTreeMap<TaskRef, Vec<Line>> {
    let tasks = (1..4).flat_map(|job| (0..13).map(move |task| TaskRef::new(JobId(job), TaskId(task))));
    tasks.map(|task| (task, lines(StreamFile::open(path).unwrap().scan(), task).0)).collect()
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn found_is_what_is_there(told in told(), damage in damage()) {
        let dir = tempfile::tempdir().unwrap();
        let writer = write(dir.path(), &told, 0, |_| {});
        let whole = all_lines(writer.path());
        harm(writer.path(), &damage);
        check_file(writer.path(), Some(&whole));
    }

    #[test]
    fn a_few_tasks_of_a_directory_are_what_all_of_it_says(
        files in prop::collection::vec((told(), damage()), 1..4),
        asked in prop::collection::btree_set(0..13u32, 1..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        for ((told, damage), first_at) in files.iter().zip((0..).step_by(70)) {
            harm(write(dir.path(), told, first_at, |_| {}).path(), damage);
        }
        let asked: IdSet = asked.into_iter().map(TaskId).collect();
        for job in [None, Some(JobId(1)), Some(JobId(2)), Some(JobId(3))] {
            check_directory(dir.path(), job, &asked);
        }
    }
}

fn directory(dir: &Path) -> Directory {
    match Directory::open(dir, None).unwrap() {
        Found::Files(directory) => directory,
        other => panic!("{other:?}"),
    }
}

fn attempts(contents: &Contents, job: JobId, task: TaskId) -> Vec<Started> {
    contents.tasks(job).find(|known| known.0 == task).map(|known| known.1.to_vec()).unwrap_or_default()
}

fn check_directory(dir: &Path, job: Option<JobId>, asked: &IdSet) {
    let directory = directory(dir);
    let all = directory.contents().unwrap();
    let few = directory.contents_of(job, asked).unwrap();
    let only = || Some(all.jobs().next()).filter(|_| all.jobs().count() == 1).flatten();
    let of = job.or_else(only).filter(|of| all.jobs().any(|known| known == *of));
    let is_there = of.is_some_and(|of| asked.iter().all(|task| all.latest(of, task).is_some()));
    let Some(of) = of.filter(|_| is_there) else {
        assert!(few.jobs().eq(all.jobs()), "all is read where something is not there");
        assert_eq!(few.faults, all.faults);
        return;
    };
    assert_eq!(few.jobs().collect::<Vec<_>>(), [of]);
    for task in asked.iter() {
        assert_eq!(attempts(&few, of, task), attempts(&all, of, task), "task {task}");
    }
    for channel in [Channel::Stdout, Channel::Stderr] {
        let pieces = directory.pieces(&few, of, asked, channel).unwrap();
        let mut copied = Vec::new();
        directory.copy(&pieces, &mut copied).unwrap().unwrap();
        // The same from entries that are read one by one.
        let mut expected = Vec::new();
        for task in asked.iter() {
            let latest = all.latest(of, task).unwrap().instance;
            for path in directory.paths() {
                let (lines, _) = lines(StreamFile::open(path).unwrap().scan(), TaskRef::new(of, task));
                let of_channel = lines.iter().filter(|line| (line.1, line.3) == (latest, Some(channel)));
                of_channel.for_each(|line| expected.extend_from_slice(&line.4));
            }
        }
        assert_eq!(copied, expected);
    }
}

#[test]
fn any_changed_byte_of_a_small_file_changes_nothing_that_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let steps = (0..9u32).flat_map(|step| {
        let attempt = attempt(1 + step % 2, step / 2 % 4, step / 8);
        let appended = Told::Append { attempt, channel: Channel::Stdout, length: 3 };
        [appended, Told::End { attempt }, if step % 3 == 2 { Told::Index } else { Told::Flush }]
    });
    let writer = write(dir.path(), &steps.collect::<Vec<_>>(), 0, |_| {});
    let (whole, bytes) = (all_lines(writer.path()), fs::read(writer.path()).unwrap());
    for place in HEADER_BYTES..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1 << (place % 8);
        fs::write(writer.path(), &changed).unwrap();
        check_tasks(writer.path(), Some(&whole), 5);
    }
}

#[test]
fn a_file_that_is_being_written_is_found_as_far_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let steps = (0..400).map(|step| {
        let attempt = attempt(1, step % 12, step / 200);
        match step % 7 {
            0 => Told::Flush,
            1 if step % 5 == 0 => Told::Index,
            2 => Told::End { attempt },
            _ => Told::Append { attempt, channel: Channel::Stderr, length: 300 },
        }
    });
    let mut steps_done = 0;
    write(dir.path(), &steps.collect::<Vec<_>>(), 0, |writer| {
        if steps_done % 10 == 0 {
            check_file(writer.path(), None);
        }
        steps_done += 1;
    });
}

#[test]
fn while_another_thread_writes_all_that_was_flushed_is_found_and_nothing_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), &header()).unwrap();
    let path = writer.path().to_owned();
    let (tasks, flushed) = (40_000, AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for task in 0..tasks {
                let text = vec![b'x'; 40 + (task % 50) as usize];
                writer.append(attempt(1, task, 0), Channel::Stdout, Timestamp(1), &text).unwrap();
                if task % 64 == 63 {
                    writer.flush().unwrap();
                    flushed.store(task + 1, Ordering::Release);
                }
            }
        });
        let mut last = 0;
        while last < tasks - tasks % 64 {
            last = flushed.load(Ordering::Acquire);
            let asked: IdSet = [0, last / 3, last / 2, last.saturating_sub(1)]
                .into_iter()
                .filter(|task| *task < last)
                .map(TaskId)
                .collect();
            let scan = StreamFile::open(&path).unwrap().find(JobId(1), &asked).unwrap();
            let mut found = IdSet::new();
            let mut scan = scan;
            while let Some(block) = scan.next_block().unwrap() {
                block.entries().for_each(|entry| {
                    found.insert(entry.attempt.task.task);
                });
            }
            assert!(asked.iter().all(|task| found.contains(task)), "{asked:?} with {last} flushed");
            assert!(!scan.faults().iter().any(|fault| matches!(fault, Fault::Damaged { .. })));
        }
    });
}

#[test]
fn one_of_many_tasks_is_found_without_reading_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), &header()).unwrap();
    for task in 0..30_000 {
        let text = format!("task {task}\n");
        writer.append(attempt(1, task, 0), Channel::Stdout, Timestamp(1), text.as_bytes()).unwrap();
        writer.end(attempt(1, task, 0), &[Channel::Stdout], Timestamp(2)).unwrap();
        if task % 100 == 0 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap();
    let whole = fs::read(writer.path()).unwrap();
    let blocks = |task: u32| {
        let file = StreamFile::open(writer.path()).unwrap();
        let mut scan = file.find(JobId(1), &IdSet::single(TaskId(task))).unwrap();
        let (mut blocks, mut found) = (0, 0);
        while let Some(block) = scan.next_block().unwrap() {
            blocks += 1;
            found += block.entries().filter(|entry| entry.attempt.task.task.0 == task).count();
        }
        assert_eq!(found, 2, "task {task}");
        blocks
    };
    for task in (0..30_000).step_by(977) {
        assert_eq!(blocks(task), 1, "task {task}");
    }
    // Without its end, the blocks behind the last index that is left are read, too.
    fs::write(writer.path(), &whole[..whole.len() - 1000]).unwrap();
    assert!((1..60).contains(&blocks(5)), "{}", blocks(5));
    // Damage to the lines of an index: the whole file is read.
    let mut damaged = whole.clone();
    let index = damaged.len() - 1000;
    damaged[index] ^= 1;
    fs::write(writer.path(), &damaged).unwrap();
    assert!(blocks(29_000) > 250, "{}", blocks(29_000));
    // It is not read for tasks that it cannot have.
    assert_eq!(blocks(5), 1);
}

#[test]
fn a_copy_of_a_file_doubles_nothing_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let told = |task| Told::Append { attempt: attempt(1, task, 0), channel: Channel::Stdout, length: 50 };
    let mut writer = write(dir.path(), &[told(1), Told::Index], 0, |_| {});
    // Copied while it is written, and at the end; and another file of the same worker.
    fs::copy(writer.path(), dir.path().join("aaa-early.hqs")).unwrap();
    writer.append(attempt(1, 2, 0), Channel::Stdout, Timestamp(9), b"later").unwrap();
    writer.finish().unwrap();
    fs::copy(writer.path(), dir.path().join("zzz-whole.hqs")).unwrap();
    let other = write(dir.path(), &[told(3)], 7, |_| {});
    drop(other);
    let directory = directory(dir.path());
    assert_eq!(directory.files(), 2);
    let contents = directory.contents().unwrap();
    let bytes = |task| contents.latest(JobId(1), TaskId(task)).map(|latest| latest.printed.bytes[0]);
    assert_eq!([bytes(1), bytes(2)], [Some(50), Some(5)]);
    let named: Vec<String> = directory.passed_over.iter().map(ToString::to_string).collect();
    let path = writer.path().display();
    let copy = |name| format!("{} is a copy of {path}, and left out", dir.path().join(name).display());
    assert_eq!(named.len(), 2);
    assert!(named.contains(&copy("aaa-early.hqs")) && named.contains(&copy("zzz-whole.hqs")), "{named:?}");
}

#[test]
fn where_others_may_write_their_files_are_left_out_and_named() {
    let place = tempfile::tempdir().unwrap();
    let told = [Told::Append { attempt: attempt(1, 0, 0), channel: Channel::Stdout, length: 5 }];
    let path = write(place.path(), &told, 1, |_| {}).path().to_owned();
    let of_server = || Directory::of_server(place.path(), "server").unwrap().expect("something is there");
    let set_mode = |mode| fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o777);
    assert_eq!((of_server().files(), of_server().passed_over.len()), (1, 0), "it is our own");
    // Only root can give a file away.
    if rustix::process::geteuid().is_root() {
        chown(&path, Some(12_345), None).unwrap();
        let told: Vec<String> = of_server().passed_over.iter().map(ToString::to_string).collect();
        let expected = format!(
            "{} belongs to user 12345, and others can write to its directory: it is left out",
            path.display()
        );
        assert_eq!((of_server().files(), told), (0, vec![expected]));
        assert_eq!(directory(place.path()).files(), 1, "whoever names the directory sees what is there");
        set_mode(0o755);
        assert_eq!(of_server().files(), 1, "nobody else can have put it there");
    }
}
