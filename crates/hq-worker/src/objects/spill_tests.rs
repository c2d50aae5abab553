//! Stores that are full of what may not go, and what becomes of it.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hq_core::object_messages::ObjectsHeld;
use hq_core::worker::Input;
use hq_model::checksum::Checksum;
use hq_model::{Instance, ObjectId};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;

fn object(task: u32) -> ObjectId {
    format!("1@{task}:parts").parse().expect("an object")
}

fn key(task: u32) -> Key {
    Key { object: object(task), instance: Instance(0) }
}

/// A store of so many bytes, with a spill.
struct Scene {
    dir: TempDir,
    store: SharedStore,
    told: mpsc::UnboundedReceiver<Input>,
}

impl Scene {
    fn of(size: u64, spill: u64) -> Scene {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (sender, told) = mpsc::unbounded_channel();
        let to = SpillTo { dir: dir.path().join("spill"), bytes: Some(spill) };
        let base = dir.path().join("store");
        let store = Store::open(&base, Some(size), Some(&to), Duration::ZERO, sender).expect("a store");
        Scene { dir, store, told }
    }

    fn add(&self, task: u32, content: &str) -> Result<(), String> {
        let file = self.dir.path().join("file");
        fs::write(&file, content).expect("writable");
        let added = self.store.add(key(task), &file).map(drop).map_err(|error| error.to_string());
        self.store.settle();
        added
    }

    // One on which the server counts.
    fn add_guarded(&self, task: u32, content: &str) {
        self.add(task, content).expect("stored");
        self.store.hold(&[object(task)], Hold::Guarded);
        self.store.settle();
    }

    fn spill(&self) -> PathBuf {
        PathBuf::from(self.store.config().spill.expect("it has one").dir)
    }

    // Which of its objects lie in the spill, in order.
    fn spilled(&self) -> Vec<u32> {
        let held = self.store.held();
        let is_there = |key: &Key| self.store.locate(key).is_ok_and(|path| path.starts_with(self.spill()));
        held.iter().filter(|(key, _)| is_there(key)).map(|(key, _)| key.object.task.task.0).collect()
    }

    fn all(&self) -> Vec<u32> {
        self.store.held().iter().map(|(key, _)| key.object.task.task.0).collect()
    }

    fn read(&self, task: u32) -> String {
        let to = self.dir.path().join(format!("to-{task}"));
        self.store.put(&key(task), &to).expect("there");
        fs::read_to_string(to).expect("there")
    }

    fn said(&mut self) -> Vec<Input> {
        std::iter::from_fn(|| self.told.try_recv().ok()).collect()
    }
}

fn spilled_said(count: u64, bytes: u64) -> Input {
    Input::Spilled(ObjectsHeld { count, bytes })
}

#[test]
fn a_store_that_is_nearly_full_of_what_stays_spills_what_was_read_least_recently() {
    let mut scene = Scene::of(1_000, 10_000);
    let content = |task: u32| task.to_string().repeat(300);
    for task in [1, 2] {
        scene.add_guarded(task, &content(task));
    }
    assert_eq!(scene.spilled(), [0; 0]);
    drop(scene.store.read(&key(1)).expect("there"));
    // 900 bytes are more than four fifths.
    scene.add_guarded(3, &content(3));
    assert_eq!((scene.spilled(), scene.said()), (vec![2], vec![spilled_said(1, 300)]));
    for task in [1, 2, 3] {
        assert_eq!(scene.read(task), content(task));
    }
    assert_eq!(scene.spilled(), [2], "it is used where it is");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&scene.spill()), 0o700);
    assert_eq!(mode(&scene.store.locate(&key(2)).expect("there")), 0o444);
    scene.store.remove(&object(2));
    assert_eq!(scene.said(), [spilled_said(0, 0)]);
    let left = fs::read_dir(scene.spill()).expect("there").flatten().filter(|entry| entry.path().is_file());
    assert_eq!(left.filter(|entry| entry.file_name() != "lock").count(), 0);
}

#[test]
fn what_finds_no_room_makes_others_move_or_goes_to_the_spill_itself() {
    let scene = Scene::of(1_000, 2_000);
    scene.add_guarded(1, &"1".repeat(700));
    // The server has not judged it, so the first one moves.
    scene.add(2, &"2".repeat(600)).expect("stored");
    assert_eq!(scene.spilled(), [1]);
    assert!(scene.store.pin(&key(2)));
    // It may not move, and nothing else can.
    scene.add(3, &"3".repeat(600)).expect("stored");
    assert_eq!(scene.spilled(), [1, 3]);
    // Of what may go the spill makes room, too.
    scene.store.hold(&[object(3)], Hold::Free);
    scene.add(4, &"4".repeat(1_200)).expect("it is larger than the store");
    assert_eq!((scene.all(), scene.spilled()), (vec![1, 2, 4], vec![1, 4]));
    let full = "600 bytes do not fit: the object store may hold 1000 bytes, of which 600 are in use and cannot be \
                removed; its spill may hold 2000, of which 1900 are";
    assert_eq!(scene.add(5, &"5".repeat(600)), Err(full.to_owned()));
    let error = StoreError::Full { wanted: 1_500, cap: 1_000, taken: 0, spill: Some((2_000, 0)) };
    assert!(!error.never_fits());
    assert!(
        error.to_string().starts_with("1500 bytes do not fit: the object store may hold 1000 bytes"),
        "{error}"
    );
    let error = StoreError::Full { wanted: 2_001, cap: 1_000, taken: 0, spill: Some((2_000, 0)) };
    assert!(error.to_string().contains("accepts objects of at most 2000 bytes; start a worker"), "{error}");
    assert!(error.never_fits());
}

#[test]
fn what_somebody_reads_or_has_a_link_to_does_not_move() {
    let scene = Scene::of(1_000, 2_000);
    scene.add(1, &"1".repeat(500)).expect("stored");
    assert!(scene.store.pin(&key(1)));
    scene.add(2, &"2".repeat(300)).expect("stored");
    fs::hard_link(scene.store.locate(&key(2)).expect("there"), scene.dir.path().join("link")).expect("ours");
    scene.store.hold(&[object(1), object(2)], Hold::Guarded);
    scene.add_guarded(3, &"3".repeat(200));
    assert_eq!(scene.spilled(), [3]);
    scene.store.unpin(&key(1));
    scene.add(4, &"4".repeat(400)).expect("stored");
    assert_eq!(scene.spilled(), [1, 3]);
}

#[test]
fn who_has_opened_an_object_reads_on_when_it_has_moved() {
    use std::io::Read;
    let scene = Scene::of(1_000, 2_000);
    scene.add_guarded(1, &"1".repeat(500));
    let (mut file, _) = scene.store.read(&key(1)).expect("there");
    scene.add_guarded(2, &"2".repeat(500));
    assert_eq!(scene.spilled(), [1]);
    let mut read = String::new();
    file.read_to_string(&mut read).expect("open");
    assert_eq!(read, "1".repeat(500));
}

#[test]
fn damage_is_found_in_the_spill_and_on_the_way_there() {
    let mut scene = Scene::of(1_000, 2_000);
    let write_over = |path: &Path, content: &str| {
        let was = fs::metadata(path).expect("there").modified().expect("known");
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("ours");
        fs::write(path, content).expect("ours");
        was
    };
    scene.add_guarded(1, &"1".repeat(500));
    scene.add_guarded(2, &"2".repeat(500));
    let path = scene.store.locate(&key(1)).expect("there");
    assert!(path.starts_with(scene.spill()));
    write_over(&path, &"x".repeat(500));
    assert!(matches!(scene.store.read(&key(1)), Err(StoreError::Altered)));
    let damaged = |task| Input::ObjectDamaged(object(task));
    assert!(scene.said().contains(&damaged(1)));
    // Its size and time are as they were: the checksum shows it.
    let path = scene.store.locate(&key(2)).expect("there");
    let was = write_over(&path, &"y".repeat(500));
    File::options().write(true).open(&path).and_then(|file| file.set_modified(was)).expect("ours");
    scene.add_guarded(3, &"3".repeat(500));
    assert_eq!((scene.all(), scene.spilled()), (vec![3], vec![]));
    assert!(scene.said().contains(&damaged(2)));
}

#[test]
fn a_value_keeps_its_name_and_files_of_clients_move_when_there_is_no_room() {
    let scene = Scene::of(1_000, 10_000);
    let value = |task: u32| -> Key {
        let object = format!("1@{task}:value").parse().expect("an object");
        Key { object, instance: Instance(0) }
    };
    let put =
        |name: &str, dir: &Path, content: &str| fs::write(dir.join("put").join(name), content).expect("ours");
    let home = PathBuf::from(scene.store.config().dir);
    put("c-1", &home, &"1".repeat(900));
    scene.store.adopt(value(1), "c-1", (Hold::Guarded, false)).expect("stored");
    scene.store.settle();
    assert!(scene.spill().join("v-1-1-0").exists() && !home.join("v-1-1-0").exists());
    put("c-2", &home, &"2".repeat(900));
    scene.store.adopt(value(2), "c-2", (Hold::Unheard, false)).expect("stored");
    assert!(home.join("v-1-2-0").exists());
    // There is no room beside it, and it may not move.
    put("c-3", &home, &"3".repeat(900));
    let content = scene.store.adopt(value(3), "c-3", (Hold::Unheard, false)).expect("stored");
    assert_eq!(content.checksum, Checksum::of("3".repeat(900).as_bytes()));
    assert!(scene.spill().join("v-1-3-0").exists() && !home.join("put/c-3").exists());
    // Who sees that it is larger than the store writes it there at once.
    put("c-4", &scene.spill(), &"4".repeat(2_000));
    let inode = fs::metadata(scene.spill().join("put/c-4")).expect("there").ino();
    scene.store.adopt(value(4), "c-4", (Hold::Unheard, false)).expect("stored");
    let path = scene.spill().join("v-1-4-0");
    assert_eq!(fs::metadata(&path).expect("there").ino(), inode);
    // What comes over the network is written where there is room for it.
    scene.store.announce("n-1", 3_000).expect("there is room");
    drop(scene.store.create_put("n-1").expect("writable"));
    assert!(scene.spill().join("put/n-1").exists());
    scene.store.drop_put("n-1");
    assert!(!scene.spill().join("put/n-1").exists());
    scene.store.remove(&value(4).object);
    assert!(!path.exists());
}

#[test]
fn a_directory_that_has_moved_is_unpacked_where_there_is_room() {
    let scene = Scene::of(10_000, 100_000);
    let from = scene.dir.path().join("from");
    fs::create_dir(&from).expect("writable");
    fs::write(from.join("file"), vec![7; 2_000]).expect("writable");
    scene.store.add(key(1), &from).expect("stored");
    scene.store.hold(&[object(1)], Hold::Guarded);
    let tree = scene.store.unpack(&key(1)).expect("there is room");
    drop(tree);
    scene.add_guarded(2, &"2".repeat(5_000));
    assert_eq!(scene.spilled(), [1]);
    let unpacked = |dir: &Path| {
        let names = fs::read_dir(dir).expect("there").flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with("d-")).count()
    };
    let home = PathBuf::from(scene.store.config().dir);
    assert_eq!((unpacked(&home), unpacked(&scene.spill())), (0, 0));
    let _tree = scene.store.unpack(&key(1)).expect("there is room");
    assert_eq!(unpacked(&home) + unpacked(&scene.spill()), 1);
}

#[test]
fn the_spill_goes_with_the_store_and_what_dead_workers_have_left_there_is_removed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let left = dir.path().join("hq-objects-1-0");
    fs::create_dir(&left).expect("writable");
    fs::write(left.join("lock"), "").expect("writable");
    let open = || {
        let (sender, _told) = mpsc::unbounded_channel();
        let to = SpillTo { dir: dir.path().to_owned(), bytes: None };
        Store::open(&dir.path().join("store"), Some(10), Some(&to), Duration::ZERO, sender).expect("a store")
    };
    let store = open();
    assert!(!left.exists());
    let spill = PathBuf::from(store.config().spill.expect("it has one").dir);
    assert!(spill.exists());
    drop(store);
    assert!(!spill.exists());
}
