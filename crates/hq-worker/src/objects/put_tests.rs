//! Files that are written for the store, and become objects where they are.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hq_core::worker::Input;
use hq_model::checksum::Checksum;
use hq_model::{Instance, ObjectId};
use tokio::sync::mpsc;

use super::near::NearFile;
use super::*;

type Told = mpsc::UnboundedReceiver<Input>;

fn store(dir: &Path, size: u64) -> (SharedStore, Told) {
    let (sender, told) = mpsc::unbounded_channel();
    (Store::open(dir, Some(size), None, Duration::ZERO, sender).expect("a store"), told)
}

fn object(text: &str) -> ObjectId {
    text.parse().expect("an object")
}

fn value(task: u32, instance: u32) -> Key {
    Key { object: object(&format!("1@{task}:value")), instance: Instance(instance) }
}

fn put(store: &Store, name: &str, bytes: &[u8]) -> PathBuf {
    let path = store.put_path(name).expect("a name");
    fs::write(&path, bytes).expect("writable");
    path
}

fn file_name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn a_file_becomes_an_object_where_it_is() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, mut told) = store(dir.path(), 100);
    let mode = fs::metadata(dir.path().join(file_name(Path::new(&store.config().dir))).join("put"));
    assert_eq!(mode.expect("made").permissions().mode() & 0o777, 0o700);
    for instance in [0, 0, 1] {
        let path = put(&store, "r-1-1", b"a value");
        let key = value(7, instance);
        let content = store.adopt(key.clone(), "r-1-1", (Hold::Free, false)).expect("adopted");
        assert_eq!(content, Content { size: 7, checksum: Checksum::of(b"a value"), is_dir: false });
        assert!(!path.exists());
        let lies = store.locate(&key).expect("there");
        assert_eq!(file_name(&lies), format!("v-1-7-{instance}"));
        assert_eq!(fs::metadata(&lies).expect("there").permissions().mode() & 0o777, 0o444);
        assert_eq!(store.held(), [(key, content)], "what came before is gone");
    }
    put(&store, "c-1", b"parts");
    let key = Key { object: object("1@7:parts"), instance: Instance(0) };
    store.adopt(key.clone(), "c-1", (Hold::Free, false)).expect("adopted");
    assert!(!file_name(&store.locate(&key).expect("there")).starts_with("v-"));
    store.remove(&value(7, 1).object);
    let files = fs::read_dir(store.config().dir).expect("there").flatten();
    let files: Vec<String> =
        files.map(|file| file_name(&file.path())).filter(|name| name.len() > 4).collect();
    assert_eq!(files, [""; 0], "no value is left");
    assert!(told.try_recv().is_err());
}

#[test]
fn what_is_no_file_of_ours_is_refused_and_removed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, _told) = store(&dir.path().join("store"), 4);
    let check = |name: &str, expected: &str| {
        let error = store.adopt(value(1, 0), name, (Hold::Free, false)).expect_err("refused");
        assert!(error.to_string().contains(expected), "{name}: {error}");
        assert!(store.put_path(name).map_or(true, |path| !path.exists()), "{name}");
        assert_eq!(store.held(), []);
    };
    let outside = dir.path().join("outside");
    fs::write(&outside, "secret").expect("writable");
    symlink(&outside, store.put_path("c-1").expect("a name")).expect("writable");
    check("c-1", "is a link, or belongs to another user");
    fs::hard_link(&outside, store.put_path("c-2").expect("a name")).expect("writable");
    check("c-2", "is a link, or belongs to another user");
    assert_eq!(fs::read(&outside).expect("there"), b"secret");
    put(&store, "c-3", b"12345");
    check("c-3", "5 bytes can never fit: the object store accepts objects of at most 4 bytes");
    check("c-4", "No such file");
    for name in ["", ".", "..", "../outside", "a/b", "/etc/passwd"] {
        check(name, "is not a valid name for a file in the store");
    }
    let (used, key) = (put(&store, "c-5", b"1234"), value(2, 0));
    store.adopt(key, "c-5", (Hold::Free, false)).expect("nothing is in use by what was refused");
    assert!(!used.exists());
}

#[test]
fn files_of_clients_that_are_gone_are_removed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, _told) = store(dir.path(), 4);
    let held = put(&store, "c-held", b"x");
    let lock = File::open(&held).expect("there");
    lock.lock().expect("ours");
    let others = [put(&store, "n-1", b"x"), put(&store, "r-1-1", b"x")];
    let abandoned = put(&store, "c-abandoned", b"x");
    put(&store, "r-1-2", b"x");
    store.adopt(value(1, 0), "r-1-2", (Hold::Free, false)).expect("adopted");
    assert!(!abandoned.exists() && held.exists() && others.iter().all(|path| path.exists()));
    drop(lock);
    assert!(store.receive(5).is_err(), "no room");
    assert!(!held.exists() && others.iter().all(|path| path.exists()));
}

#[test]
fn a_file_goes_with_whom_it_is_for() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, _told) = store(dir.path(), 100);
    let objects = Objects::new(store.clone());
    let file = |name: &str| {
        put(&store, name, b"x");
        PutFile::new(&objects, name.to_owned())
    };
    file("r-1-1").adopt(value(1, 0), Hold::Free).expect("adopted");
    let (dropped, settled) = (file("r-1-2"), file("r-1-3"));
    let paths = [dropped.path(), settled.path()];
    drop(dropped);
    settled.settle();
    // Removed by the thread for files, which does one thing after the other.
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(objects.files.run(|| ()));
    assert_eq!(paths.map(|path| path.exists()), [false, true]);
}

#[test]
fn a_directory_for_files_that_was_removed_is_made_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, _told) = store(&dir.path().join("base"), 100);
    fs::remove_dir_all(Path::new(&store.config().dir).join("put")).expect("writable");
    store.create_put("n-1").expect("made again");
    fs::remove_dir_all(dir.path().join("base")).expect("writable");
    store.create_put("n-2").expect("made again");
}

#[test]
fn a_program_on_this_node_writes_into_the_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, _told) = store(&dir.path().join("store"), 100);
    let home = PathBuf::from(store.config().dir);
    let mut file = NearFile::make(&home).expect("made");
    file.write_all(b"parts").expect("writable");
    let second = NearFile::make(&home).expect("another name");
    let paths = [&file, &second].map(|file| store.put_path(file.name()).expect("a name"));
    let content = store.adopt(value(1, 0), file.name(), (Hold::Free, false)).expect("adopted");
    assert_eq!(content, Content { size: 5, checksum: Checksum::of(b"parts"), is_dir: false });
    assert_eq!(paths.clone().map(|path| path.exists()), [false, true], "it is held by a lock");
    drop((file, second));
    assert!(!paths[1].exists() && store.content(&value(1, 0)) == Some(content));
    let link = dir.path().join("link");
    symlink(&home, &link).expect("writable");
    let refused = NearFile::make(&link).expect_err("no directory");
    assert!(refused.to_string().ends_with("link is not a directory of this user"), "{refused}");
    let missing = NearFile::make(&dir.path().join("missing")).expect_err("not there").to_string();
    assert!(missing.ends_with("/missing: No such file or directory (os error 2)"), "{missing}");
}

#[test]
fn files_on_their_way_take_room() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, _told) = store(dir.path(), 10);
    let held = put(&store, "c-held", b"123456");
    let lock = File::open(&held).expect("there");
    lock.lock().expect("ours");
    let refused = store.receive(5).expect_err("no room").to_string();
    assert!(refused.ends_with("may hold 10 bytes, of which 6 are in use and cannot be removed"), "{refused}");
    drop(store.receive(4).expect("there is room beside it"));
    // It is counted once while it becomes an object, and when it is one.
    store.adopt(value(1, 0), "c-held", (Hold::Guarded, false)).expect("adopted");
    assert!(store.receive(5).is_err());
    drop(store.receive(4).expect("there is room beside it"));
}

#[test]
fn what_is_announced_takes_room_before_it_comes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, _told) = store(dir.path(), 10);
    store.announce("n-1", 8).expect("there is room");
    assert!(store.announce("n-2", 3).is_err());
    put(&store, "n-1", b"12345678");
    assert!(store.announce("n-2", 3).is_err(), "it is there now");
    store.drop_put("n-1");
    store.announce("n-2", 3).expect("there is room again");
    store.drop_put("n-2");
    put(&store, "r-1-1", b"12345678");
    store.adopt(value(1, 0), "r-1-1", (Hold::Unheard, false)).expect("adopted");
    store.check_announced(5).expect("the server may say that nobody needs it");
    store.hold(&[value(1, 0).object], Hold::Guarded);
    assert!(store.check_announced(5).is_err(), "it does not go");
    assert!(store.check_announced(11).is_err(), "it never fits");
    store.hold(&[value(1, 0).object], Hold::Free);
    store.check_announced(5).expect("it makes room");
}

#[test]
fn files_of_clients_that_died_at_once_are_removed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, _told) = store(dir.path(), 4);
    let [old, young] = ["new-c-1", "new-c-2"].map(|name| put(&store, name, b"x"));
    let file = File::options().write(true).open(&old).expect("there");
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("ours");
    drop(file);
    assert!(store.receive(4).is_err(), "the young one is about to be locked");
    assert_eq!([old.exists(), young.exists()], [false, true]);
}
