//! What the tests against batch systems share: a directory, a worker made of shell text, and patience.

#[path = "../../../../tests/patience.rs"]
mod patience;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hq_batch::AllocationRequest;
pub(crate) use patience::until;
use tempfile::TempDir;

/// A directory of a test's own. Its fifo `never` is never written to.
pub(crate) struct Lab {
    dir: TempDir,
}

impl Lab {
    pub(crate) fn new() -> Lab {
        let dir = tempfile::tempdir().expect("a directory");
        let status = Command::new("mkfifo").arg(dir.path().join("never")).status().expect("mkfifo");
        assert!(status.success());
        Lab { dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// An allocation of one node for five minutes whose worker is bash text; `$LAB` is this directory.
    pub(crate) fn request(&self, name: &str, worker: &str) -> AllocationRequest {
        let worker = format!("LAB='{}'\n{worker}", self.dir().display());
        AllocationRequest {
            name: name.to_owned(),
            workers: 1,
            cpus: None,
            time_limit: Duration::from_secs(300),
            directory: self.dir().join(format!("alloc-{}", name.replace(['/', ' '], "_"))),
            manager_args: Vec::new(),
            worker_args: vec!["bash".into(), "-c".into(), worker.into(), "worker".into()],
            log_filter: None,
            start_command: None,
            stop_command: None,
            wrap_command: None,
            hold: false,
            after: None,
        }
    }

    /// The files whose names begin so, with what is in them.
    pub(crate) fn files(&self, prefix: &str) -> BTreeMap<String, Vec<u8>> {
        let entries =
            fs::read_dir(self.dir()).expect("it exists").map(|entry| entry.expect("an entry").path());
        entries
            .filter_map(|path| {
                let name = path.file_name()?.to_str()?.to_owned();
                name.starts_with(prefix).then(|| Some((name, fs::read(path).ok()?)))?
            })
            .collect()
    }

    /// A program of this test's own, found first on [`Lab::path`].
    pub(crate) fn program(&self, name: &str, text: &str) {
        fs::create_dir_all(self.dir().join("bin")).expect("made");
        let path = self.dir().join("bin").join(name);
        fs::write(&path, format!("#!/bin/bash\n{text}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    pub(crate) fn path(&self) -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        OsString::from_vec([self.dir().join("bin").as_os_str().as_bytes(), b":", path.as_bytes()].concat())
    }
}

pub(crate) fn zero_ended(words: impl IntoIterator<Item = OsString>) -> Vec<u8> {
    words.into_iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect()
}
