//! The server directory: numbered directories, one a start, the link `hq-current` to the latest, and
//! the lock that keeps a second server out.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use hq_net::{AccessFile, trust};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use tracing::{debug, warn};

use crate::error::ServerError;
use crate::limits::LOGS_KEPT;
use crate::options::JournalPlace;

pub use hq_net::access::CURRENT;
/// Name of the access file in a numbered directory.
pub const ACCESS: &str = "access.json";
/// Name of the log of a detached server in its numbered directory.
pub const LOG: &str = "server.log";
/// Name of the journal in the server directory.
pub const JOURNAL: &str = "journal";
/// Name of the directory in a numbered directory in which allocations keep their files.
pub(crate) const ALLOCATIONS: &str = "autoalloc";
const IDENTITY: &str = "identity.json";
/// Says where the journal of the server that runs, or ran last, is.
const JOURNAL_PLACE: &str = "journal-place";
/// Its content when there is none: no path, as those are absolute.
const NO_JOURNAL: &[u8] = b"none";
const LOCK: &str = "lock";

/// Path of the access file that clients and workers of a server directory read.
pub fn access_path(server_dir: &Path) -> PathBuf {
    server_dir.join(CURRENT).join(ACCESS)
}

/// True where a server runs or has run.
pub fn is_server_dir(path: &Path) -> bool {
    [CURRENT, IDENTITY].iter().any(|name| fs::symlink_metadata(path.join(name)).is_ok())
}

/// Where the server of a directory has its journal, or had it when it ran last.
pub fn journal_place(server_dir: &Path) -> JournalPlace {
    let mut said = fs::read(server_dir.join(JOURNAL_PLACE)).unwrap_or_default();
    if said.last() == Some(&b'\n') {
        said.pop();
    }
    match said {
        said if said == NO_JOURNAL => JournalPlace::None,
        said if said.starts_with(b"/") => JournalPlace::Path(OsString::from_vec(said).into()),
        _ => JournalPlace::Default,
    }
}

/// A server directory.
#[derive(Clone, Debug)]
pub struct ServerDir {
    path: PathBuf,
}

/// The lock of the living server; released when it is dropped or its process dies.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    // A process that is just being started may have the descriptor, too, which then would hold the lock until it runs its
    // program.
    fn drop(&mut self) {
        if let Err(errno) = flock(&self.file, FlockOperation::Unlock) {
            debug!(%errno, "the lock could not be let go of");
        }
    }
}

/// Why there is no lock.
#[derive(Debug)]
pub enum NoLock {
    /// A living process has it: its id, if it could be read.
    Taken(Option<u32>),
    /// The file cannot be used.
    Error(ServerError),
}

/// The numbered directory of one start.
#[derive(Clone, Debug)]
pub struct Instance {
    path: PathBuf,
}

impl ServerDir {
    /// Opens a directory, made for its owner alone if it is missing.
    ///
    /// # Errors
    /// When it cannot be made, is no directory, is another user's, or may be written by others.
    pub fn open(path: &Path) -> Result<ServerDir, ServerError> {
        let error =
            |source| ServerError::Directory { what: "the server directory", path: path.to_owned(), source };
        make_private(path, true).map_err(error)?;
        let path = fs::canonicalize(path).map_err(error)?;
        let metadata = fs::metadata(&path).map_err(error)?;
        if !metadata.is_dir() {
            return Err(error(io::ErrorKind::NotADirectory.into()));
        }
        // Whoever may write there could lead clients to another server.
        trust::check_directory(&path)?;
        Ok(ServerDir { path })
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the journal is unless another place is given.
    pub fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    /// Notes where the journal is, for commands that read it without a server; `None` when there is none.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn note_journal(&self, journal: Option<&Path>) -> Result<(), ServerError> {
        let path = self.path.join(JOURNAL_PLACE);
        // A directory that is moved takes its own journal along.
        let written = match journal {
            Some(journal) if journal == self.journal() => match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
            Some(journal) => fs::write(&path, [journal.as_os_str().as_bytes(), b"\n"].concat()),
            None => fs::write(&path, [NO_JOURNAL, b"\n"].concat()),
        };
        written.map_err(|source| ServerError::Directory { what: "the file", path, source })
    }

    /// Where names, ports and keys are kept from one start to the next, with the server's private keys.
    pub fn identity(&self) -> PathBuf {
        self.path.join(IDENTITY)
    }

    /// Makes it the directory of no server with a journal.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn remove_identity(&self) -> Result<(), ServerError> {
        let path = self.identity();
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(ServerError::Directory { what: "the file", path, source })
            }
            _ => Ok(()),
        }
    }

    /// Takes the lock. On a file system without locks it is always free.
    ///
    /// # Errors
    /// When a living server has it.
    pub fn lock(&self) -> Result<Lock, NoLock> {
        let path = self.path.join(LOCK);
        let error = |source| {
            NoLock::Error(ServerError::Directory { what: "the lock file", path: path.clone(), source })
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            // Who can put a link here is one of ours; what it leads to is not to be written over.
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(error)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                // A pid that cannot be read is not shown.
                let _ = (&file).take(20).read_to_string(&mut text);
                return Err(NoLock::Taken(text.trim().parse().ok()));
            }
            Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => {
                warn!(path = %path.display(), "no file locks here: a second server is noticed by its answer only");
            }
            Err(errno) => return Err(error(errno.into())),
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write(&mut file).map_err(error)?;
        Ok(Lock { file })
    }

    /// The access file of the latest start, if it is there and whole.
    pub fn current_access(&self) -> Option<AccessFile> {
        AccessFile::load(&access_path(&self.path)).ok()
    }

    /// Makes the next numbered directory.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new_instance(&self) -> Result<Instance, ServerError> {
        let error =
            |source| ServerError::Directory { what: "the server directory", path: self.path.clone(), source };
        let mut number = self.last_number().map_err(error)? + 1;
        loop {
            let path = self.path.join(format!("{number:03}"));
            match make_private(&path, false) {
                Ok(()) => return Ok(Instance { path }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(error(e)),
            }
        }
    }

    /// Makes a numbered directory the current one; whoever looks sees the old one or the new one.
    ///
    /// # Errors
    /// When the link cannot be made.
    pub fn set_current(&self, instance: &Instance) -> Result<(), ServerError> {
        let link = self.path.join(CURRENT);
        let temporary = self.path.join(format!(".{CURRENT}.{}", std::process::id()));
        let target = instance.path.file_name().unwrap_or_default();
        let made = symlink(target, &temporary).or_else(|e| match e.kind() {
            // Left by a process of our id that died.
            io::ErrorKind::AlreadyExists => {
                fs::remove_file(&temporary)?;
                symlink(target, &temporary)
            }
            _ => Err(e),
        });
        made.and_then(|()| fs::rename(&temporary, &link)).map_err(|source| {
            // The first error is the one to tell.
            let _ = fs::remove_file(&temporary);
            ServerError::Directory { what: "the link", path: link, source }
        })
    }

    /// Nothing is there any more for others to find, unless it is of another start.
    pub fn leave(instance: &Instance) {
        let link = instance.path.with_file_name(CURRENT);
        if fs::read_link(&link).is_ok_and(|target| Some(target.as_os_str()) == instance.path.file_name()) {
            let _ = fs::remove_file(link);
        }
    }

    /// Removes what starts before this one left: keys always, and directories that hold nothing then, or nothing but a
    /// log that is not one of the last [`LOGS_KEPT`]. Files of allocations stay.
    pub fn tidy(&self, own: &Instance) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        let mut dead = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            // A process that was killed while it wrote left its half.
            if name.starts_with(&format!(".{IDENTITY}.")) || name.starts_with(&format!(".{CURRENT}.")) {
                remove(&entry.path());
            }
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory && entry.path() != own.path {
                dead.extend(number_of(name).map(|number| (number, Instance { path: entry.path() })));
            }
        }
        dead.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        for (place, (_, instance)) in dead.into_iter().enumerate() {
            instance.clear(place < LOGS_KEPT);
        }
    }

    /// Puts a journal aside under a numbered name. Gives the new name; `None` when there is no journal.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn put_aside(journal: &Path) -> Result<Option<PathBuf>, ServerError> {
        let error = |source| ServerError::Directory { what: "the journal", path: journal.to_owned(), source };
        if fs::symlink_metadata(journal).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let mut number = 1;
        loop {
            let mut name = journal.as_os_str().to_owned();
            name.push(format!(".{number:03}"));
            let aside = PathBuf::from(name);
            if fs::symlink_metadata(&aside).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
                fs::rename(journal, &aside).map_err(error)?;
                return Ok(Some(aside));
            }
            number += 1;
        }
    }

    fn last_number(&self) -> io::Result<u32> {
        let mut last = 0;
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            last = name.to_str().and_then(number_of).unwrap_or(0).max(last);
        }
        Ok(last)
    }
}

impl Instance {
    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its access file.
    pub fn access(&self) -> PathBuf {
        self.path.join(ACCESS)
    }

    /// The log of a detached server.
    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    // Of a dead start: without keys, and without its log unless that is kept. It goes when nothing else is there.
    fn clear(&self, has_log_kept: bool) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        let temporary = format!(".{ACCESS}.");
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name == ACCESS || name.starts_with(&temporary) || (name == LOG && !has_log_kept) {
                remove(&entry.path());
            }
        }
        // Only empty ones can be removed so, and others are to stay.
        let _ = fs::remove_dir(self.path.join(ALLOCATIONS));
        let _ = fs::remove_dir(&self.path);
    }

    /// Removes the directory if it is empty: of a start that came to nothing.
    pub fn discard(&self) {
        // A log that says something is kept, and so is its directory.
        if fs::metadata(self.log()).is_ok_and(|log| log.len() == 0) {
            remove(&self.log());
        }
        let _ = fs::remove_dir(&self.path);
    }
}

fn number_of(name: &str) -> Option<u32> {
    let digits = Some(name).filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok())
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        warn!(path = %path.display(), %error, "what a dead server left cannot be removed");
    }
}

fn make_private(path: &Path, with_parents: bool) -> io::Result<()> {
    if with_parents && let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(e) if with_parents && e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    fn fixture() -> (tempfile::TempDir, ServerDir) {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let dir = ServerDir::open(&temporary.path().join("a/b")).expect("it can be made");
        (temporary, dir)
    }

    #[test]
    fn each_start_gets_the_next_number_and_the_link() {
        let (_temporary, dir) = fixture();
        assert_eq!(mode(dir.path()), 0o700);
        for number in ["001", "002", "003"] {
            let instance = dir.new_instance().expect("it can be made");
            assert_eq!(instance.path(), dir.path().join(number));
            assert_eq!(mode(instance.path()), 0o700);
            dir.set_current(&instance).expect("the link can be made");
            assert_eq!(fs::read_link(dir.path().join(CURRENT)).expect("a link"), Path::new(number));
        }
        fs::create_dir(dir.path().join("1207")).expect("writable");
        fs::remove_dir(dir.path().join("002")).expect("it is empty");
        assert_eq!(dir.new_instance().expect("it can be made").path(), dir.path().join("1208"));
    }

    #[test]
    fn a_start_that_comes_to_nothing_leaves_nothing_but_its_log() {
        let (_temporary, dir) = fixture();
        let instance = dir.new_instance().expect("it can be made");
        fs::write(instance.log(), "why").expect("writable");
        instance.discard();
        assert!(instance.path().exists());
        fs::write(instance.log(), "").expect("writable");
        instance.discard();
        assert!(!instance.path().exists(), "a log that says nothing is of no use");
    }

    #[test]
    fn what_dead_starts_left_is_removed_and_what_is_of_use_stays() {
        let (_temporary, dir) = fixture();
        let start = || dir.new_instance().expect("it can be made");
        let write = |path: PathBuf| fs::write(path, "keys").expect("writable");
        let (bare, with_allocations) = (start(), start());
        write(bare.access());
        write(bare.path().join(".access.json.77"));
        write(with_allocations.access());
        fs::create_dir_all(with_allocations.path().join("autoalloc/1/001")).expect("writable");
        let with_logs: Vec<_> = (0..=LOGS_KEPT).map(|_| start()).collect();
        with_logs.iter().for_each(|instance| write(instance.log()));
        let own = start();
        write(own.access());
        write(dir.path().join(".identity.json.77"));
        fs::create_dir(dir.path().join("journal")).expect("writable");

        dir.tidy(&own);
        assert!(!bare.path().exists() && !with_logs[0].path().exists());
        assert!(with_logs[1..].iter().all(|instance| instance.log().exists()));
        assert!(
            with_allocations.path().join("autoalloc/1/001").exists() && !with_allocations.access().exists()
        );
        assert!(own.access().exists() && dir.path().join("journal").exists());
        assert!(!dir.path().join(".identity.json.77").exists());
    }

    #[test]
    fn the_lock_is_held_by_one_and_says_by_whom() {
        let (_temporary, dir) = fixture();
        let lock = dir.lock().expect("it is free");
        match dir.lock() {
            Err(NoLock::Taken(pid)) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(lock);
        dir.lock().expect("it is free again");
    }

    #[test]
    fn a_journal_is_put_aside_under_the_next_number() {
        let (_temporary, dir) = fixture();
        let journal = dir.journal();
        assert_eq!(ServerDir::put_aside(&journal).expect("nothing to do"), None);
        for number in ["journal.001", "journal.002"] {
            fs::create_dir(&journal).expect("writable");
            let aside = ServerDir::put_aside(&journal).expect("it can be moved");
            assert_eq!(aside, Some(dir.path().join(number)));
            assert!(!journal.exists());
        }
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused_and_left_as_it_is() {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        for bad in [0o777, 0o720, 0o1777] {
            fs::set_permissions(temporary.path(), fs::Permissions::from_mode(bad)).expect("it is ours");
            let error =
                ServerDir::open(temporary.path()).expect_err("other users can write to it").to_string();
            assert!(error.contains(&format!("(mode {bad:04o}): fix it with `chmod 700 /")), "{error}");
            assert_eq!(
                fs::metadata(temporary.path()).expect("it is there").permissions().mode() & 0o7777,
                bad
            );
        }
    }

    #[test]
    fn a_file_is_no_server_directory() {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let path = temporary.path().join("file");
        fs::write(&path, "").expect("writable");
        for path in [path.clone(), path.join("below")] {
            let error = ServerDir::open(&path).expect_err("no directory");
            assert_eq!(
                error.hint(),
                "move away what is there, or use another directory with --server-dir",
                "{error}"
            );
        }
    }
}
