//! Directories as objects in the store of a worker.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hq_core::object_messages::{ObjectCopy, ObjectSource};
use hq_core::worker::Outcome;
use hq_core::worker_messages::TaskNode;
use hq_model::{JobId, TaskId, TaskRef, WorkerId};
use tokio::sync::mpsc;

use super::*;
use crate::ranks::Unreached;

fn objects(dir: &Path, size: u64) -> Arc<Objects> {
    let (sender, _told) = mpsc::unbounded_channel();
    let store = Store::open(&dir.join("store"), Some(size), None, Duration::ZERO, sender);
    Objects::new(store.expect("a store"))
}

fn key(task: u32) -> Key {
    Key { object: format!("1@{task}:tree").parse().expect("an object"), instance: Instance(0) }
}

fn reader(task: u32) -> TaskRef {
    TaskRef::new(JobId(2), TaskId(task))
}

fn tree(dir: &Path, name: &str, bytes: usize) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir(&path).expect("writable");
    fs::write(path.join("file"), vec![7; bytes]).expect("writable");
    path
}

// Nobody else is asked.
struct Alone;

impl Peer for Alone {
    async fn ask(&self, _place: &TaskNode, _fetch: Fetch) -> Result<Connection, Unreached> {
        Err(Unreached::Refused("nobody is there".to_owned()))
    }
}

fn place(key: &Key, content: Content, path: PathBuf, broadcasts: Option<&Path>) -> Place {
    let Content { size, checksum, is_dir } = content;
    let copy = ObjectCopy { object: key.object.clone(), instance: key.instance, size, checksum, is_dir };
    let source = ObjectSource { copy, path: Vec::new(), holders: Vec::new() };
    Place::new(&source, path.into_os_string().into_vec(), WorkerId(1), broadcasts)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test);
}

// What is in the store, as names that begin so.
fn in_store(objects: &Objects, prefix: &str) -> usize {
    let names = fs::read_dir(objects.store.config().dir).expect("there").flatten();
    names.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)).count()
}

// All that was ordered is done.
async fn done(objects: &Objects) {
    objects.trees.run(|| ()).await.expect("a thread");
    objects.files.run(|| ()).await.expect("a thread");
}

#[test]
fn a_directory_is_unpacked_once_and_goes_with_its_object() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let objects = objects(dir.path(), 1 << 20);
        let content = objects.store.add(key(1), &tree(dir.path(), "from", 100)).expect("stored");
        assert!(content.is_dir);
        let to = dir.path().join("in/tree");
        let mut links = Vec::new();
        for _ in 0..2 {
            let places = vec![place(&key(1), content, to.clone(), None)];
            links.push(objects.stage(&Arc::new(Alone), reader(1), (places, None)).await.expect("staged"));
            assert_eq!(fs::read(to.join("file")).expect("there"), vec![7; 100]);
        }
        assert_eq!(in_store(&objects, "d-"), 1);
        // Tasks read it still.
        objects.store.remove(&key(1).object);
        assert_eq!(fs::read(to.join("file")).expect("there").len(), 100);
        drop(links);
        done(&objects).await;
        assert_eq!(in_store(&objects, "d-"), 0);
    });
}

// Even where the permissions forbid it, as root and the owner can.
fn write_into(tree: &Path, content: &str) {
    for path in [tree.to_owned(), tree.join("file")] {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
    }
    fs::write(tree.join("file"), content).expect("writable");
}

#[test]
fn a_directory_that_a_task_has_changed_is_not_handed_on() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let objects = objects(dir.path(), 1 << 20);
        let content = objects.store.add(key(1), &tree(dir.path(), "from", 100)).expect("stored");
        let to = |task: u32| dir.path().join(format!("in-{task}"));
        let stage = async |task: u32| {
            let places = vec![place(&key(1), content, to(task), None)];
            objects.stage(&Arc::new(Alone), reader(task), (places, None)).await.expect("staged")
        };
        let reads = |task: u32| fs::read(to(task).join("file")).expect("there");
        let unpacked = |task: u32| fs::read_link(to(task)).expect("a link");
        let (first, second) = (stage(1).await, stage(2).await);
        assert_eq!(unpacked(1), unpacked(2));
        drop(first);
        done(&objects).await;
        let third = stage(3).await;
        assert_eq!(unpacked(3), unpacked(2), "nobody has changed it");
        write_into(&to(3), "changed");
        drop(third);
        done(&objects).await;
        let fourth = stage(4).await;
        assert_ne!(unpacked(4), unpacked(2));
        assert_eq!((reads(2), reads(4)), (b"changed".to_vec(), vec![7; 100]));
        assert_eq!(in_store(&objects, "d-"), 2, "the second one has what it had");
        drop(second);
        done(&objects).await;
        assert_eq!(in_store(&objects, "d-"), 1);
        drop(fourth);
    });
}

#[test]
fn what_is_unpacked_counts_and_makes_room_with_its_object() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let objects = objects(dir.path(), 10_000);
        let content = objects.store.add(key(1), &tree(dir.path(), "one", 2_000)).expect("stored");
        objects.store.hold(&[key(1).object], Hold::Free);
        let places = || vec![place(&key(1), content, dir.path().join("in"), None)];
        let links = objects.stage(&Arc::new(Alone), reader(1), (places(), None)).await.expect("staged");
        let larger = tree(dir.path(), "two", 2_000);
        let refused = objects.store.add(key(2), &larger).expect_err("no room").to_string();
        assert!(refused.contains(&format!("of which {} are in use", 2 * content.size)), "{refused}");
        drop(links);
        done(&objects).await;
        objects.store.add(key(2), &larger).expect("there is room");
        assert_eq!(in_store(&objects, "d-"), 0);
        // The second one is not free, so there is no room for both.
        let places =
            vec![place(&key(2), objects.store.content(&key(2)).expect("there"), dir.path().join("in"), None)];
        objects
            .stage(&Arc::new(Alone), reader(1), (places, None))
            .await
            .expect("in the place of the first one");
    });
}

#[test]
fn a_task_that_finds_no_room_to_unpack_runs_later() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let objects = objects(dir.path(), 5_000);
        let content = objects.store.add(key(1), &tree(dir.path(), "one", 2_000)).expect("stored");
        let places = vec![place(&key(1), content, dir.path().join("in"), None)];
        let refused = objects.stage(&Arc::new(Alone), reader(1), (places, None)).await.expect_err("no room");
        assert!(matches!(refused, Outcome::Unfetched { .. }), "{refused:?}");
    });
}

#[test]
fn broadcasts_are_in_a_directory_of_the_task_without_copies() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let objects = objects(dir.path(), 1 << 20);
        let file = dir.path().join("file");
        fs::write(&file, "content").expect("writable");
        let of_file = objects.store.add(key(1), &file).expect("stored");
        let of_dir = objects.store.add(key(2), &tree(dir.path(), "from", 10)).expect("stored");
        let own = Path::new(&objects.store.config().dir).join("broadcast-1-1-0");
        let places = vec![
            place(&key(1), of_file, own.join("file"), Some(&own)),
            place(&key(2), of_dir, own.join("tree"), Some(&own)),
        ];
        let links =
            objects.stage(&Arc::new(Alone), reader(1), (places, Some(own.clone()))).await.expect("staged");
        let stored = objects.store.locate(&key(1)).expect("there");
        let inode = |path: &Path| fs::metadata(path).expect("there").ino();
        assert_eq!(inode(&own.join("file")), inode(&stored));
        assert_eq!(fs::read(own.join("tree/file")).expect("there").len(), 10);
        drop(links);
        done(&objects).await;
        assert!(!own.exists());
        assert_eq!(in_store(&objects, "d-"), 1, "it stays for the next task");
    });
}

#[test]
fn an_archive_that_leads_out_is_not_unpacked() {
    run(async {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let objects = objects(dir.path(), 1 << 20);
        let path = objects.store.put_path("c-1").expect("a name");
        fs::write(&path, vec![b'x'; 2_000]).expect("writable");
        let content = objects.store.adopt(key(1), "c-1", (Hold::Free, true)).expect("stored");
        let places = vec![place(&key(1), content, dir.path().join("in"), None)];
        let refused =
            objects.stage(&Arc::new(Alone), reader(1), (places, None)).await.expect_err("no archive");
        assert!(matches!(&refused, Outcome::Failed(_, text) if text.contains("cannot be put in its place")));
        assert_eq!(in_store(&objects, "d-"), 0);
    });
}
