//! Stores, ways to and from them, and what programs leave and take, on real files and connections.

mod between;
mod made_up;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hq_core::node_messages::{Fetch, FromNode};
use hq_core::object_messages::{ObjectCopy, ObjectSource};
use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome};
use hq_core::worker_messages::TaskNode;
use hq_model::checksum::Checksum;
use hq_model::{Instance, ObjectId, Usage, WorkerId};
use hq_net::{Endpoint, Keys, Role, frames_over};
use hq_proto::encode_from_node;
use tokio::sync::mpsc;

use super::*;
use crate::declared::Promised;
use crate::notify::AccessKeys;
use crate::outputs::{Aftermath, Cleanup};
use crate::ranks::{self, Shared, Unreached};
use made_up::{Does, MadeUp};

fn object(task: u32) -> ObjectId {
    format!("1@{task}:parts").parse().expect("an object")
}

fn key(task: u32) -> Key {
    Key { object: object(task), instance: Instance(0) }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|place| (place * 31 / 7) as u8).collect()
}

fn content(bytes: &[u8]) -> Content {
    Content { size: bytes.len() as u64, checksum: Checksum::of(bytes), is_dir: false }
}

fn holder(worker: u32, address: String) -> TaskNode {
    TaskNode { worker: WorkerId(worker), hostname: format!("n{worker}"), address }
}

type Told = mpsc::UnboundedReceiver<Input>;

fn store(dir: &Path, size: u64) -> (SharedStore, Told) {
    let (sender, told) = mpsc::unbounded_channel();
    (Store::open(dir, Some(size), None, Duration::ZERO, sender).expect("a store"), told)
}

fn add(store: &SharedStore, dir: &Path, task: u32, bytes: &[u8]) -> Result<Content, StoreError> {
    let file = dir.join("file");
    fs::write(&file, bytes).expect("writable");
    store.add(key(task), &file)
}

fn names(store: &Store) -> Vec<u32> {
    store.held().iter().map(|(key, _)| key.object.task.task.0).collect()
}

#[test]
fn what_is_stored_stays_as_it_was_and_goes_out_as_a_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, mut lost) = store(&dir.path().join("store"), 1 << 20);
    assert_eq!(add(&store, dir.path(), 1, b"abc").expect("stored"), content(b"abc"));
    // The file is the user's: what becomes of it changes nothing.
    fs::write(dir.path().join("file"), "other").expect("writable");
    let to = dir.path().join("in/parts");
    for _ in 0..2 {
        store.put(&key(1), &to).expect("put");
        assert_eq!(fs::read(&to).expect("there"), b"abc");
    }
    assert_eq!(fs::metadata(&to).expect("there").permissions().mode() & 0o777, 0o444);
    let left = fs::read_dir(dir.path().join("in")).expect("readable").count();
    assert_eq!(left, 1, "nothing stays beside it");
    // What is the same already stays what it is.
    let own = dir.path().join("own");
    fs::write(&own, "abc").expect("writable");
    store.put(&key(1), &own).expect("put");
    assert_eq!(fs::metadata(&own).expect("there").permissions().mode() & 0o222, 0o200);
    store.remove(&object(1));
    assert!(matches!(store.put(&key(1), &to), Err(StoreError::Gone)));
    assert!(lost.try_recv().is_err(), "that was asked for");
}

#[test]
fn what_cannot_be_stored_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, _lost) = store(&dir.path().join("store"), 4);
    let text = |result: Result<Content, StoreError>| result.expect_err("refused").to_string();
    let missing = dir.path().join("missing");
    let expected = format!("{}: No such file or directory (os error 2)", missing.display());
    assert_eq!(text(store.add(key(1), &missing)), expected);
    let socket = dir.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let expected = format!("{} is neither a file nor a directory", socket.display());
    assert_eq!(text(store.add(key(1), &socket)), expected);
    let special = format!("{} is a pipe, a socket or a device", socket.display());
    assert!(text(store.add(key(1), dir.path())).starts_with(&special));
    let too_large = "5 bytes can never fit: the object store accepts objects of at most 4 bytes; ";
    assert!(text(add(&store, dir.path(), 1, b"12345")).starts_with(too_large));
    assert_eq!(names(&store), [0; 0]);
}

#[test]
fn what_was_read_least_recently_goes_first_and_what_is_needed_stays() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, mut lost) = store(&dir.path().join("store"), 10);
    let add_free = |task: u32, bytes: &[u8]| {
        let added = add(&store, dir.path(), task, bytes);
        store.hold(&[object(task)], Hold::Free);
        added
    };
    for task in [1, 2, 3] {
        add_free(task, b"123").expect("stored");
    }
    assert!(store.pin(&key(1)) && !store.pin(&key(9)));
    store.read(&key(2)).expect("there");
    add_free(4, b"123").expect("stored");
    assert_eq!((names(&store), lost.try_recv()), (vec![1, 2, 4], Ok(Input::ObjectLost(object(3)))));
    add_free(5, b"123456").expect("stored");
    assert_eq!(names(&store), [1, 5]);
    assert!(matches!(add_free(6, b"12345678"), Err(StoreError::Full { taken: 3, .. })));
    store.unpin(&key(1));
    add_free(6, b"12345678").expect("stored");
    assert_eq!(names(&store), [6]);
}

#[test]
fn what_the_server_counts_on_stays_and_what_it_has_not_judged_too() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, mut lost) = store(&dir.path().join("store"), 10);
    for task in [1, 2, 3] {
        add(&store, dir.path(), task, b"123").expect("stored");
    }
    let full =
        "2 bytes do not fit: the object store may hold 10 bytes, of which 9 are in use and cannot be removed";
    assert_eq!(add(&store, dir.path(), 6, b"12").expect_err("full").to_string(), full);
    store.hold(&[object(1)], Hold::Guarded);
    store.hold(&[object(3)], Hold::Free);
    // The second one was read before, and nobody has said that it may go.
    add(&store, dir.path(), 4, b"123").expect("stored");
    assert_eq!((names(&store), lost.try_recv()), (vec![1, 2, 4], Ok(Input::ObjectLost(object(3)))));
    assert_eq!(add(&store, dir.path(), 5, b"12").expect_err("full").to_string(), full);
    store.hold(&[object(2)], Hold::Free);
    add(&store, dir.path(), 5, b"123").expect("there is room");
    assert_eq!(names(&store), [1, 4, 5]);
}

#[test]
fn room_is_waited_for_while_the_server_may_say_that_something_may_go() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (sender, _told) = mpsc::unbounded_channel();
    let patience = Duration::from_secs(3600);
    let store = Store::open(&dir.path().join("store"), Some(4), None, patience, sender).expect("a store");
    add(&store, dir.path(), 1, b"123").expect("stored");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| add(&store, dir.path(), 2, b"456"));
        store.hold(&[object(1)], Hold::Free);
        waits.join().expect("no panic").expect("there is room");
    });
    assert_eq!(names(&store), [2]);
    store.hold(&[object(2)], Hold::Guarded);
    assert!(add(&store, dir.path(), 3, b"7").is_ok());
    store.hold(&[object(3)], Hold::Guarded);
    assert!(add(&store, dir.path(), 4, b"8").is_err(), "nothing is to be said: nothing is waited for");
}

// The file of a store that holds this.
fn stored_file(store: &Store, content: &str) -> PathBuf {
    let mut files = fs::read_dir(store.config().dir).expect("there").flatten().map(|file| file.path());
    files.find(|path| fs::read(path).is_ok_and(|found| found == content.as_bytes())).expect("stored")
}

fn write_over(path: &Path, content: &str) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("own");
    fs::write(path, content).expect("writable");
}

#[test]
fn what_somebody_has_written_to_counts_as_lost() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, mut lost) = store(&dir.path().join("store"), 100);
    add(&store, dir.path(), 1, b"abc").expect("stored");
    let to = dir.path().join("parts");
    store.put(&key(1), &to).expect("put");
    // For root it is no link: whatever is done there changes nothing.
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(fs::metadata(&to).expect("there").nlink(), if is_root { 1 } else { 2 });
    write_over(&stored_file(&store, "abc"), "abd");
    assert!(matches!(store.read(&key(1)), Err(StoreError::Altered)));
    assert_eq!((names(&store), lost.try_recv()), (vec![], Ok(Input::ObjectDamaged(object(1)))));
    assert!(matches!(store.read(&key(1)), Err(StoreError::Gone)));
    add(&store, dir.path(), 2, b"def").expect("stored");
    fs::remove_file(stored_file(&store, "def")).expect("writable");
    assert!(matches!(store.read(&key(2)), Err(StoreError::Gone)));
    assert_eq!(lost.try_recv(), Ok(Input::ObjectLost(object(2))));
}

#[test]
fn what_was_put_somewhere_is_replaced_unless_somebody_has_changed_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, _lost) = store(&dir.path().join("store"), 100);
    for (task, bytes) in [(1, b"one"), (2, b"two")] {
        add(&store, dir.path(), task, bytes).expect("stored");
    }
    let to = dir.path().join("parts");
    let put = |task| {
        store.put(&key(task), &to).map_err(|error| error.to_string())?;
        Ok(fs::read_to_string(&to).expect("there"))
    };
    assert_eq!([put(1), put(2), put(1)], ["one", "two", "one"].map(|text: &str| Ok(text.to_owned())));
    // As root does, whom no permission stops.
    write_over(&to, "own");
    fs::set_permissions(&to, fs::Permissions::from_mode(0o444)).expect("own");
    for task in [1, 2] {
        let refused: String = put(task).expect_err("changed");
        assert!(refused.contains(&to.display().to_string()) && refused.contains("was changed"), "{refused}");
    }
    assert_eq!(fs::read(&to).expect("there"), b"own");
}

/// A worker as far as objects go, listening.
struct Listening {
    objects: Arc<Objects>,
    peer: Arc<Shared>,
    place: TaskNode,
    told: Told,
}

fn listening(dir: &Path, number: u32, keys: &Keys) -> Listening {
    let dir = dir.join(number.to_string());
    let (store, told) = store(&dir, 100 << 20);
    let objects = Objects::new(store);
    let socket = dir.join("socket");
    let (asks, _) = mpsc::channel(1);
    let endpoint = Endpoint { host: "127.0.0.1".into(), port: 0, keys: Some(keys.clone()) };
    let access = AccessKeys::new(&socket).expect("randomness");
    let peer = Shared::new(access, asks, Some(&endpoint));
    peer.set_own(WorkerId(number));
    peer.set_objects(objects.clone());
    let port = ranks::listen(&socket, &peer).expect("a socket").expect("a port");
    Listening { objects, peer, place: holder(number, format!("127.0.0.1:{port}")), told }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(test);
}

#[test]
fn an_object_goes_from_worker_to_worker() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let keys = Keys::generate();
        let (mut from, mut to) = (listening(dir.path(), 1, &keys), listening(dir.path(), 2, &keys));
        for (task, bytes) in [(1, bytes((3 << 20) + 17)), (2, Vec::new()), (3, bytes(1 << 20))] {
            let content = add(&from.objects.store, dir.path(), task, &bytes).expect("stored");
            let wanted = Wanted { key: key(task), content, holders: vec![from.place.clone()] };
            assert_eq!(to.objects.fetch(&to.peer, wanted).await, Ok(()));
            let path = dir.path().join("got");
            to.objects.store.put(&key(task), &path).expect("put");
            assert_eq!(fs::read(path).expect("there"), bytes);
            let told = to.told.recv().await;
            assert!(matches!(told, Some(Input::Stored(copy)) if copy.object == object(task)));
        }
        // Not there, and not as it was.
        let wanted = Wanted { key: key(9), content: content(b"x"), holders: vec![from.place.clone()] };
        let reason = "worker 1: the object store no longer holds it".to_owned();
        let unfetched = Unfetched { holders: vec![WorkerId(1)], reason };
        assert_eq!(to.objects.fetch(&to.peer, wanted).await, Err(unfetched));
        to.objects.store.remove(&object(3));
        let files = fs::read_dir(from.objects.store.config().dir).expect("there").flatten();
        files.filter(|file| file.path().is_file()).for_each(|file| write_over(&file.path(), "x"));
        let wanted = Wanted { key: key(3), content: content(&bytes(1 << 20)), holders: vec![from.place] };
        assert!(to.objects.fetch(&to.peer, wanted).await.is_err());
        assert_eq!(from.told.recv().await, Some(Input::ObjectDamaged(object(3))));
    });
}

#[test]
fn what_an_earlier_instance_left_goes_with_the_next_one() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, mut told) = store(&dir.path().join("store"), 10);
    add(&store, dir.path(), 1, b"123456").expect("stored");
    fs::write(dir.path().join("next"), "abcd").expect("writable");
    let next = Key { instance: Instance(1), ..key(1) };
    store.add(next.clone(), &dir.path().join("next")).expect("stored");
    assert_eq!(store.held(), [(next, content(b"abcd"))]);
    add(&store, dir.path(), 2, b"123456").expect("there is room");
    assert!(told.try_recv().is_err(), "nothing that is meant was lost");
}

fn source_of(task: u32, bytes: &[u8], holders: Vec<TaskNode>) -> ObjectSource {
    let Content { size, checksum, .. } = content(bytes);
    let copy = ObjectCopy { object: object(task), instance: Instance(0), size, checksum, is_dir: false };
    ObjectSource { copy, path: Vec::new(), holders }
}

#[test]
fn what_a_task_takes_is_brought_to_its_places() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (store, _told) = store(&dir.path().join("store"), 100);
        add(&store, dir.path(), 1, b"here").expect("stored");
        let objects = Objects::new(store);
        let does = BTreeMap::from([(WorkerId(2), Does::SendAll), (WorkerId(3), Does::Refuse)]);
        let made_up = Arc::new(MadeUp { does, bytes: b"elsewhere".to_vec(), ..MadeUp::default() });
        let at = |name: &str| dir.path().join(name).into_os_string().into_encoded_bytes();
        let own = holder(1, String::new());
        let (good, bad) = (holder(2, String::new()), holder(3, String::new()));
        let place = |source: &ObjectSource, name: &str| Place::new(source, at(name), WorkerId(1), None);
        let here = source_of(1, b"here", vec![own.clone()]);
        let elsewhere = source_of(2, b"elsewhere", vec![own.clone(), bad.clone(), good]);
        let places = vec![place(&here, "in/a"), place(&elsewhere, "in/b")];
        assert!(objects.stage(&made_up, object(9).task, (places, None)).await.is_ok());
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).expect("there");
        assert_eq!((read("in/a"), read("in/b")), ("here".into(), "elsewhere".into()));
        let nowhere = place(&source_of(3, b"x", vec![own, bad]), "in/c");
        let reason = "worker 3: no".to_owned();
        let unfetched =
            Outcome::Unfetched { object: object(3), holders: vec![WorkerId(3)], reason, wanted: 0 };
        assert_eq!(
            objects.stage(&made_up, object(9).task, (vec![nowhere], None)).await.err(),
            Some(unfetched)
        );
        let twice = vec![place(&here, "in/e"), place(&elsewhere, "in/./e")];
        let refused = objects.stage(&made_up, object(9).task, (twice, None)).await.err();
        assert!(matches!(refused, Some(Outcome::Failed(_, text)) if text.contains("have one path")));
        fs::write(dir.path().join("in/mine"), "precious").expect("writable");
        let refused =
            objects.stage(&made_up, object(9).task, (vec![place(&here, "in/mine")], None)).await.err();
        assert!(
            matches!(refused, Some(Outcome::Failed(_, text)) if text.contains("something else already exists"))
        );
        assert_eq!(read("in/mine"), "precious");
        fs::create_dir(dir.path().join("in/d")).expect("writable");
        let refused = objects.stage(&made_up, object(9).task, (vec![place(&here, "in/d")], None)).await.err();
        assert!(matches!(refused, Some(Outcome::Failed(_, text)) if text.contains("in/d")));
    });
}

#[test]
fn a_store_that_others_have_removed_is_made_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, mut told) = store(&dir.path().join("base/store"), 100);
    add(&store, dir.path(), 1, b"one").expect("stored");
    fs::remove_dir_all(dir.path().join("base")).expect("writable");
    add(&store, dir.path(), 2, b"two").expect("stored again");
    let mut lost = false;
    while let Ok(input) = told.try_recv() {
        lost |= matches!(&input, Input::ObjectLost(gone) if *gone == object(1));
    }
    assert!(lost, "what was there is lost");
    let held: Vec<ObjectId> = store.held().into_iter().map(|(key, _)| key.object).collect();
    assert_eq!(held, [object(2)]);
    let mode = fs::metadata(store.config().dir).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_task_without_one_of_its_objects_has_failed() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (store, mut told) = store(&dir.path().join("store"), 100);
        let objects = Objects::new(store);
        let (sender, mut ends) = mpsc::unbounded_channel();
        let cleanup = Cleanup::start(sender).expect("a thread");
        fs::write(dir.path().join("a"), "a").expect("writable");
        let at = |name: &str| dir.path().join(name).into_os_string().into_encoded_bytes();
        let leave = |names: &[&str]| {
            let object = |name: &str| -> ObjectId { format!("1@7:{name}").parse().expect("an object") };
            let key = |name: &str| Key { object: object(name), instance: Instance(0) };
            let files = names.iter().map(|name| (key(name), at(name))).collect();
            let worker = WorkerId(1);
            let leaves = Leaves { worker, objects: objects.clone(), files, value: None };
            let ended = Input::ended(object(names[0]).task, Outcome::Finished, Usage::default());
            cleanup.clean(Aftermath {
                input: ended,
                task_dir: Vec::new(),
                nodes_dir: Vec::new(),
                sinks: Vec::new(),
                promised: Promised::default(),
                result: None,
                leaves: Some(leaves),
            });
        };
        leave(&["a", "b"]);
        let Some(Input::Ended { outcome, .. }) = ends.recv().await else { panic!("an end") };
        let path = dir.path().join("b");
        let text = format!("Its object b is missing: there is no {} on worker 1", path.display());
        assert_eq!(outcome, Outcome::Failed(FailureKind::Output, text));
        assert!(told.try_recv().is_err(), "all or none");
        leave(&["a"]);
        assert!(matches!(ends.recv().await, Some(Input::Ended { outcome: Outcome::Finished, .. })));
        assert!(matches!(told.try_recv(), Ok(Input::Stored(copy)) if copy.size == 1), "said before");
    });
}

/// What a program gets.
#[derive(Default)]
struct Got {
    bytes: Vec<u8>,
    begun: u32,
    fails: bool,
}

impl get::Target for Got {
    fn begin(&mut self) -> std::io::Result<()> {
        self.begun += 1;
        self.bytes.clear();
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.fails {
            return Err(std::io::Error::other("no space left"));
        }
        self.bytes.extend(bytes);
        Ok(())
    }
}

#[test]
fn a_program_with_the_keys_of_workers_gets_an_object() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let keys = Keys::generate();
        let from = listening(dir.path(), 1, &keys);
        let endpoint = |keys| Endpoint { host: "127.0.0.1".into(), port: 0, keys };
        let getter = get::Getter::new(Some(&endpoint(Some(keys))), None);
        let nowhere = holder(7, String::new());
        for bytes in [bytes((2 << 20) + 5), Vec::new()] {
            let Content { size, checksum, .. } =
                add(&from.objects.store, dir.path(), 1, &bytes).expect("stored");
            let copy = ObjectCopy { object: object(1), instance: Instance(0), size, checksum, is_dir: false };
            let mut got = Got::default();
            let holders = vec![nowhere.clone(), from.place.clone()];
            getter.get(&copy, holders, &mut got).await.expect("had");
            assert_eq!((got.bytes == bytes, got.begun), (true, 1));
            // What came is not what was meant: once more, and nobody else has it.
            let wrong = ObjectCopy { checksum: checksum ^ 1, ..copy.clone() };
            let refused = getter.get(&wrong, vec![from.place.clone()], &mut got).await;
            let text = refused.expect_err("wrong").to_string();
            assert!(text.contains("worker 1: its contents are not what was stored"), "{text}");
        }
        let copy =
            ObjectCopy { object: object(2), instance: Instance(0), size: 4, checksum: 0, is_dir: false };
        let refused = getter.get(&copy, vec![nowhere], &mut Got::default()).await;
        let text = "no worker could send it: worker 7: worker 7 on n7 cannot be reached: it listens nowhere";
        assert_eq!(refused.expect_err("nobody").to_string(), text);
        for (workers, why) in [
            (Some(endpoint(None)), "the server does not encrypt worker connections"),
            (None, "the access file has no section for workers"),
        ] {
            let keyless = get::Getter::new(workers.as_ref(), None);
            let refused = keyless.get(&copy, vec![from.place.clone()], &mut Got::default()).await;
            let text = refused.expect_err("nobody is asked").to_string();
            assert!(text.contains(&format!("worker 1: {why}")), "{text}");
        }
        let Content { size, checksum, .. } = add(&from.objects.store, dir.path(), 3, b"abc").expect("stored");
        let copy = ObjectCopy { object: object(3), instance: Instance(0), size, checksum, is_dir: false };
        let mut full = Got { fails: true, ..Got::default() };
        let refused = getter.get(&copy, vec![from.place], &mut full).await;
        assert!(matches!(refused, Err(get::GetError::Here(error)) if error.to_string() == "no space left"));
    });
}

#[test]
fn a_program_puts_a_file_that_goes_with_it_until_it_is_an_object() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let keys = Keys::generate();
        let to = listening(dir.path(), 1, &keys);
        let endpoint = Endpoint { host: "127.0.0.1".into(), port: 0, keys: Some(keys) };
        let getter = get::Getter::new(Some(&endpoint), None);
        let store = &to.objects.store;
        let path = |file: &str| store.put_path(file).expect("a name");
        for bytes in [bytes((2 << 20) + 5), Vec::new()] {
            let (file, putting) =
                getter.put(&to.place, bytes.len() as u64, &mut &bytes[..]).await.expect("it is taken");
            assert_eq!(fs::read(path(&file)).expect("there"), bytes);
            store.adopt(key(1), &file, (Hold::Free, false)).expect("adopted");
            drop(putting);
            assert_eq!(store.content(&key(1)), Some(content(&bytes)));
        }
        let (file, putting) = getter.put(&to.place, 3, &mut &b"abc"[..]).await.expect("it is taken");
        let left = path(&file);
        assert!(left.exists());
        drop(putting);
        while left.exists() {
            tokio::task::yield_now().await;
        }
        let too_large = getter.put(&to.place, 1 << 40, &mut &b""[..]).await.expect_err("too large");
        let text =
            "1099511627776 bytes can never fit: the object store accepts objects of at most 104857600 bytes";
        let too_large = too_large.to_string();
        assert!(too_large.starts_with("worker 1 on n1: ") && too_large.contains(text), "{too_large}");
        // It ends before so much has come.
        let short = getter.put(&to.place, 10, &mut &b"abc"[..]).await.expect_err("too short");
        assert!(matches!(short, get::GetError::Here(_)));
        // What is left of the short one goes at the same time.
        let dir = store.config().dir;
        while fs::remove_dir_all(&dir).is_err() && fs::exists(&dir).is_ok_and(|there| there) {
            tokio::task::yield_now().await;
        }
        getter.put(&to.place, 1, &mut &b"x"[..]).await.expect("made again");
    });
}

#[test]
fn what_comes_ahead_of_its_task_takes_no_room_from_what_is_needed() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (store, mut told) = store(&dir.path().join("store"), 20);
        add(&store, dir.path(), 1, b"needed, 16 bytes").expect("stored");
        let objects = Objects::new(store.clone());
        let does = BTreeMap::from([(WorkerId(2), Does::SendAll), (WorkerId(3), Does::Refuse)]);
        let made_up = Arc::new(MadeUp { does, bytes: b"elsewhere".to_vec(), ..MadeUp::default() });
        for (hold, holder_id, is_here) in
            [(Hold::Guarded, 2, false), (Hold::Free, 3, false), (Hold::Free, 2, true)]
        {
            store.hold(&[object(1)], hold);
            let source = source_of(2, b"elsewhere", vec![holder(holder_id, String::new())]);
            objects.take_ahead(&made_up, &Source::new(&source, WorkerId(1))).await;
            assert_eq!(store.content(&key(2)).is_some(), is_here);
            // However it went, the next one may come.
            let mut said = Vec::new();
            while let Ok(input) = told.try_recv() {
                said.push(input);
            }
            assert!(said.contains(&Input::NotAhead(object(2))), "{said:?}");
            assert!(!said.iter().any(|input| matches!(input, Input::FileRefused { .. })), "{said:?}");
        }
    });
}

#[test]
fn what_a_call_takes_is_held_until_it_has_ended() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (store, _told) = store(&dir.path().join("store"), 20);
        add(&store, dir.path(), 1, b"here").expect("stored");
        store.hold(&[object(1)], Hold::Free);
        let objects = Objects::new(store.clone());
        let does = BTreeMap::from([(WorkerId(2), Does::SendAll), (WorkerId(3), Does::Refuse)]);
        let made_up = Arc::new(MadeUp { does, bytes: b"elsewhere".to_vec(), ..MadeUp::default() });
        let [own, good, bad] = [1, 2, 3].map(|worker| holder(worker, String::new()));
        let source = |source: ObjectSource| Source::new(&source, WorkerId(1));
        let here = source(source_of(1, b"here", vec![own.clone()]));
        let elsewhere = source(source_of(2, b"elsewhere", vec![own, bad.clone(), good]));
        let take = |sources: Vec<Source>| objects.take_all(&made_up, sources);
        // Twice, as of two calls.
        let sources = vec![here, elsewhere];
        let (first, second) =
            (take(sources.clone()).await.expect("had"), take(sources.clone()).await.expect("had"));
        assert_eq!(first.iter().map(|taken| taken.of.task.0).collect::<Vec<u32>>(), [1, 2]);
        assert_eq!(fs::read(&first[1].path).expect("there"), b"elsewhere");
        drop(first);
        assert!(store.receive(8).is_err(), "the second one holds them");
        drop(second);
        drop(store.receive(8).expect("there is room"));
        // What cannot be had is named, and nothing is held for it.
        let mut sources = sources[1..].to_vec();
        sources.push(source(source_of(3, b"x", vec![bad])));
        let refused = take(sources).await.expect_err("nobody has it");
        assert!(matches!(&refused, Outcome::Unfetched { object: of, .. } if *of == object(3)), "{refused:?}");
        drop(store.receive(20).expect("there is room"));
    });
}
