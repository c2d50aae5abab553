//! Files and directories beside the place of an object, into which it is written before it takes that place. Their names say which
//! process writes them: one that was killed leaves its own, and the next one removes that.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::commands::worker_config::hostname;

const PREFIX: &str = ".hq-object-";

/// How the names of this process begin.
pub(super) fn prefix() -> String {
    format!("{}{}-", of_this_node(), std::process::id())
}

// Processes have numbers of their own on each node, and within a container.
fn of_this_node() -> String {
    let space = fs::metadata("/proc/self/ns/pid").map_or(0, |space| space.ino());
    format!("{PREFIX}{}-{space}-", hostname())
}

/// Removes what processes of this node have left that are there no more. Nothing goes wrong where that cannot be done.
pub(super) fn remove_left(dir: &Path) {
    let is_alive = |process: u32| Path::new("/proc").join(process.to_string()).exists();
    remove_of(dir, &of_this_node(), is_alive);
}

fn remove_of(dir: &Path, prefix: &str, is_alive: impl Fn(u32) -> bool) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| writer(name, prefix));
        if process.is_none_or(&is_alive) {
            continue;
        }
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let _ = if is_dir { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
    }
}

// The process that writes into a file of this name.
fn writer(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dead_processes_of_this_node_have_left_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let names =
            [".hq-object-n-7-1-abc", ".hq-object-n-7-2-abc", ".hq-object-m-7-2-abc", ".hq-object-n-7-2", "x"];
        names.iter().for_each(|name| fs::write(dir.path().join(name), "").expect("writable"));
        fs::create_dir_all(dir.path().join(".hq-object-n-7-3-abc/object")).expect("writable");
        remove_of(dir.path(), ".hq-object-n-7-", |process| process == 1);
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).expect("there").flatten().map(|one| one.file_name()).collect();
        left.sort();
        assert_eq!(left, [".hq-object-m-7-2-abc", ".hq-object-n-7-1-abc", ".hq-object-n-7-2", "x"]);
        assert!(
            writer(&format!("{}abc", prefix()), &of_this_node()).is_some_and(|id| id == std::process::id())
        );
    }
}
