//! What reads of outputs are answered.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use hq_model::paths::Place;
use hq_model::{JobId, Stream, TaskId, Timestamp, WorkerId};
use hq_stream::Attempt;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;

const TASK: TaskRef = TaskRef { job: JobId(1), task: TaskId(0) };

fn read(number: u64, from: ReadFrom, wait: Duration) -> ReadOrder {
    let (instance, channel) = (Instance(0), Channel::Stdout);
    ReadOrder { number, task: TASK, instance, entry: None, channel, from, bytes_max: 1 << 20, wait }
}

struct World {
    reader: Reader,
    answers: UnboundedReceiver<Answered>,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl World {
    fn new(content: &[u8]) -> World {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("out");
        fs::write(&path, content).expect("writable");
        let (sender, answers) = unbounded_channel();
        World { reader: Reader::start(sender).expect("a thread"), answers, path, _dir: dir }
    }

    fn ask(&self, order: ReadOrder, has_ended: bool) {
        let place = Place::File(self.path.as_os_str().to_owned().into_vec());
        let attempt = Attempt { task: order.task, instance: order.instance };
        let output = Output::new(place, "uid", attempt, order.channel);
        self.reader.tell(Order::Read { order, output, has_ended, life: 0 });
    }

    fn told(&mut self) -> (u64, u64, String, ReadState) {
        let (_, answer) = self.answers.blocking_recv().expect("an answer");
        let text = String::from_utf8_lossy(&answer.bytes).into_owned();
        (answer.number, answer.offset, text, answer.state)
    }
}

#[test]
fn the_last_lines_are_those_of_tail() {
    let far = Duration::from_secs(100);
    for (content, lines, expected) in [
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\nc\n", 9, "a\nb\nc\n"),
        ("\n\n\n", 2, "\n\n"),
        ("one", 1, "one"),
    ] {
        let mut world = World::new(content.as_bytes());
        world.ask(read(1, ReadFrom::Lines(lines), far), false);
        let offset = (content.len() - expected.len()) as u64;
        assert_eq!(world.told(), (1, offset, expected.to_owned(), ReadState::More), "{content:?}");
    }
    let long: String = (0..100_000).map(|line| format!("{line}\n")).collect();
    let mut world = World::new(long.as_bytes());
    world.ask(read(1, ReadFrom::Lines(20_000), far), true);
    let (_, offset, text, _) = world.told();
    assert_eq!(offset as usize, long.len() - 20_000 * 6);
    assert!(text.starts_with("80000\n"), "{}", text.len());
}

#[test]
fn a_read_waits_for_more_or_for_the_end() {
    let mut world = World::new(b"before");
    let far = Duration::from_secs(100);
    world.ask(read(1, ReadFrom::Offset(6), far), false);
    world.ask(read(2, ReadFrom::Offset(0), far), false);
    assert_eq!(world.told(), (2, 0, "before".into(), ReadState::More));
    let mut file = OpenOptions::new().append(true).open(&world.path).expect("a file");
    file.write_all(b" after").expect("writable");
    assert_eq!(world.told(), (1, 6, " after".into(), ReadState::More));
    world.ask(read(3, ReadFrom::Offset(12), far), false);
    world.ask(read(4, ReadFrom::Offset(3), Duration::ZERO), false);
    assert_eq!(world.told(), (4, 3, "ore after".into(), ReadState::More));
    world.ask(read(5, ReadFrom::Offset(12), Duration::ZERO), false);
    assert_eq!(world.told(), (5, 12, String::new(), ReadState::More));
    world.reader.tell(Order::Ended { task: TASK });
    assert_eq!(world.told(), (3, 12, String::new(), ReadState::Complete));
    world.ask(read(6, ReadFrom::Offset(6), far), true);
    assert_eq!(world.told(), (6, 6, " after".into(), ReadState::Complete));
}

#[test]
fn what_was_cut_off_is_read_from_its_beginning() {
    let mut world = World::new(b"long before");
    fs::write(&world.path, "new").expect("writable");
    world.ask(read(1, ReadFrom::Offset(11), Duration::from_secs(100)), false);
    assert_eq!(world.told(), (1, 0, "new".into(), ReadState::More));
}

#[test]
fn what_nobody_waits_for_is_not_answered() {
    let mut world = World::new(b"");
    let far = Duration::from_secs(100);
    world.ask(read(1, ReadFrom::Offset(0), far), false);
    world.reader.tell(Order::Drop { number: 1 });
    world.ask(read(2, ReadFrom::Offset(0), far), false);
    world.reader.tell(Order::DropAll);
    world.ask(read(3, ReadFrom::Offset(0), Duration::ZERO), false);
    assert_eq!(world.told().0, 3);
    assert!(world.answers.try_recv().is_err());
}

#[test]
fn only_files_are_read() {
    let world = World::new(b"");
    let pipe = world.path.with_file_name("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    for (path, expected) in [
        (pipe.clone(), "it is not a regular file"),
        ("/dev/null".into(), "it is not a regular file"),
        (pipe.with_file_name("gone"), "No such file or directory (os error 2)"),
    ] {
        let expected = format!("{}: {expected}", path.display());
        let mut world = World { path, ..World::new(b"") };
        world.ask(read(1, ReadFrom::Offset(0), Duration::ZERO), true);
        assert_eq!(world.told().3, ReadState::Unreadable(expected));
    }
}

#[test]
fn what_is_damaged_of_a_stream_is_said_after_what_is_good() {
    let header = hq_stream::Header { server_uid: "uid".into(), worker: WorkerId(1), created: Timestamp(5) };
    let mut world = World::new(b"");
    let dir = world.path.with_file_name("stream");
    fs::create_dir(&dir).expect("writable");
    let mut writer = hq_stream::Writer::create(&dir, &header).expect("writable");
    let attempt = Attempt { task: TASK, instance: Instance(0) };
    for line in ["bad\n", "good\n"] {
        writer.append(attempt, Channel::Stdout, Timestamp(6), line.as_bytes()).expect("writable");
        writer.flush().expect("writable");
    }
    let mut bytes = fs::read(writer.path()).expect("readable");
    let place = bytes.windows(3).position(|bytes| bytes == b"bad").expect("what was printed");
    bytes[place] ^= 1;
    fs::write(writer.path(), bytes).expect("writable");
    for (number, offset) in [(1, 0), (2, 5)] {
        let place = Place::Stream(Stream::Directory(dir.clone().into_os_string().into_vec()));
        let output = Output::new(place, "uid", attempt, Channel::Stdout);
        let order = read(number, ReadFrom::Offset(offset), Duration::ZERO);
        world.reader.tell(Order::Read { order, output, has_ended: true, life: 0 });
    }
    assert_eq!(world.told(), (1, 0, "good\n".into(), ReadState::More));
    let (number, _, text, state) = world.told();
    let ReadState::Unreadable(why) = state else { panic!("{state:?}") };
    assert!((number, text.as_str()) == (2, "") && why.contains("damaged bytes were left out: "), "{why}");
}
