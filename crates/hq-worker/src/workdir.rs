//! The worker's private directory, and what workers that died left behind.
//!
//! The name says who it belongs to: the boot of the node, the namespace of process ids, the process and when it
//! started. So whoever comes later on the same node can tell that the owner is gone, and nobody else can.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use tracing::{info, warn};

const PREFIX: &str = "hq-worker-";

/// A directory that only this user can enter; removed when dropped.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
}

impl WorkDir {
    /// Makes the directory of this process under `base`, after removing those of processes that are gone.
    pub(crate) fn create(base: &Path) -> io::Result<WorkDir> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(base)?;
        let base = fs::canonicalize(base)?;
        hq_net::trust::check_base(&base)?;
        let Owner { node, pid, started } = Owner::this_process(Path::new("/proc"))?;
        remove_leftovers(&base, Path::new("/proc"), &node);
        let mut number = 0;
        loop {
            let path = base.join(format!("{PREFIX}{node}-{pid}-{started}-{number}"));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(WorkDir { path }),
                // Several workers in one process have a directory each.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => number += 1,
                Err(e) => return Err(e),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = crate::remove::remove_dir_all(&self.path) {
            warn!(path = %self.path.display(), %error, "the worker's directory could not be removed");
        }
    }
}

struct Owner {
    /// Boot and namespace.
    node: String,
    pid: u32,
    started: u64,
}

impl Owner {
    fn this_process(proc: &Path) -> io::Result<Owner> {
        let pid = std::process::id();
        let boot = fs::read_to_string(proc.join("sys/kernel/random/boot_id")).unwrap_or_default();
        let boot: String = boot.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        let namespace = fs::metadata(proc.join("self/ns/pid")).map_or(0, |m| m.ino());
        let started = start_time(proc, pid).ok_or_else(|| io::Error::other("/proc is not mounted"))?;
        Ok(Owner { node: format!("{boot}.{namespace}"), pid, started })
    }
}

/// When a process started, in the kernel's ticks since boot. `None` when there is none of that number.
fn start_time(proc: &Path, pid: u32) -> Option<u64> {
    let stat = fs::read(proc.join(pid.to_string()).join("stat")).ok()?;
    // The command in parentheses may hold anything; the other fields follow the last one.
    let end = stat.iter().rposition(|b| *b == b')')?;
    std::str::from_utf8(&stat[end + 1..]).ok()?.split_whitespace().nth(19)?.parse().ok()
}

fn remove_leftovers(base: &Path, proc: &Path, node: &str) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if !is_leftover(&entry.file_name(), proc, node) || !is_own_directory(&entry) {
            continue;
        }
        let path = entry.path();
        crate::runners::remove_memory_of(&path);
        match crate::remove::remove_dir_all(&path) {
            Ok(()) => info!(path = %path.display(), "removed what a worker that died left behind"),
            // Somebody else's, or somebody else was faster.
            Err(error) => info!(path = %path.display(), %error, "left what a worker that died left behind"),
        }
    }
}

// Root may remove anything, and must not do so because of a name.
fn is_own_directory(entry: &fs::DirEntry) -> bool {
    let own = rustix::process::geteuid().as_raw();
    entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own)
}

fn is_leftover(name: &OsStr, proc: &Path, node: &str) -> bool {
    let parts = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    let Some(mut parts) = parts.map(|rest| rest.split('-')) else { return false };
    if parts.next() != Some(node) {
        return false;
    }
    let mut number = || parts.next().and_then(|text| text.parse::<u64>().ok());
    let (Some(pid), Some(started), Some(_)) = (number(), number(), number()) else { return false };
    let Ok(pid) = u32::try_from(pid) else { return false };
    start_time(proc, pid) != Some(started)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_what_dead_workers_of_this_node_left_is_removed() {
        let base = tempfile::tempdir().expect("a temporary directory");
        let proc = Path::new("/proc");
        let Owner { node, pid, started } = Owner::this_process(proc).expect("a node with /proc");
        let kept = [
            format!("{PREFIX}{node}-{pid}-{started}-7"),
            format!("{PREFIX}elsewhere.1-{pid}-1-0"),
            format!("{PREFIX}{node}-x-1-0"),
            "something".to_owned(),
        ];
        let removed =
            [format!("{PREFIX}{node}-{pid}-{}-0", started + 1), format!("{PREFIX}{node}-4194305-1-0")];
        for name in kept.iter().chain(&removed) {
            fs::create_dir(base.path().join(name)).expect("writable");
        }
        let own = WorkDir::create(base.path()).expect("writable");
        let mode = fs::metadata(own.path()).expect("made").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::write(own.path().join("file"), "x").expect("writable");
        drop(own);
        let mut left: Vec<_> = fs::read_dir(base.path())
            .expect("readable")
            .map(|e| e.expect("readable").file_name().into_string().expect("UTF-8"))
            .collect();
        left.sort();
        let mut expected = kept.to_vec();
        expected.sort();
        assert_eq!(left, expected);
    }
}
