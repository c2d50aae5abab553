//! Where a relay listens: a socket in a directory that only its user can enter, one for each server.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener as BlockingListener;
use std::path::{Path, PathBuf};

use hq_net::AccessFile;
use rustix::fs::{FlockOperation, flock};
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};

use crate::limits::SOCKET_PATH_MAX;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another relay has it.
    #[error("a relay listens at {} already", path.display())]
    Taken {
        /// Its path.
        path: PathBuf,
    },
    /// Others could get at it.
    #[error("{} is of user {owner} with mode {mode:04o}, and not a directory that only you (user {own}) can enter: \
             set XDG_RUNTIME_DIR to one that is, or name a socket within one with `hq pull relay --socket` and HQ_PULL_SOCKET", path.display())]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its mode.
        mode: u32,
        /// This user.
        own: u32,
    },
    /// Something else is there.
    #[error("{} is there already and is no socket: name another path, or remove it", path.display())]
    InTheWay {
        /// Its path.
        path: PathBuf,
    },
    /// The system takes no such path.
    #[error("the path {} is too long for a socket: at most {SOCKET_PATH_MAX} bytes", path.display())]
    Long {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be made.
    #[error("there can be no socket at {}: {source}", path.display())]
    System {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A socket on which somebody listens; it is removed when this is dropped.
#[derive(Debug)]
pub struct Listening {
    path: PathBuf,
    listener: BlockingListener,
    // Its directory was made for it, or is the one for relays.
    has_own_directory: bool,
    // Held as long as the relay lives.
    lock: File,
    // The file that it made: another one at its path is somebody else's.
    made: (u64, u64),
}

/// Where relays of this user to a server listen on this node, where nothing else is said: one beside that of somebody who may
/// do more. A copy of a server's directory has the same name for its server, at another port.
pub fn path_to(access: &AccessFile) -> PathBuf {
    let whose = if access.is_for_pullers() { "-puller" } else { "" };
    let port = access.client.as_ref().or(access.puller.as_ref()).map_or(0, |endpoint| endpoint.port);
    directory_of_relays().join(format!("pull-{}-{port}{whose}", access.server_uid))
}

fn directory_of_relays() -> PathBuf {
    let own = geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let private = runtime.filter(|path| path.is_absolute() && path.is_dir()).map(|path| path.join("hq"));
    private.unwrap_or_else(|| PathBuf::from(format!("/tmp/hq-{own}")))
}

impl Listening {
    /// Listens at a path, whose directory is made where it is missing. What a relay that died left there is removed.
    ///
    /// # Errors
    /// When another relay listens there, the directory is not private, or the system refuses.
    pub fn bind(path: &Path) -> Result<Listening, SocketError> {
        let system = |source| SocketError::System { path: path.to_owned(), source };
        if path.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(SocketError::Long { path: path.to_owned() });
        }
        let directory = path.parent().unwrap_or(Path::new("/"));
        check_free(path)?;
        let has_own_directory = directory == directory_of_relays() || !directory.exists();
        let lock = locked(path)?;
        let listener = listen(path).map_err(system)?;
        let made = file_at(path).map_err(system)?;
        Ok(Listening { path: path.to_owned(), listener, has_own_directory, lock, made })
    }

    /// Makes the socket again where somebody has removed it, or its lock; cleaners of `/tmp` do. True when there is a new one
    /// to listen on.
    ///
    /// # Errors
    /// When another relay listens there meanwhile, the directory is not private, or the system refuses.
    pub fn renew(&mut self) -> Result<bool, SocketError> {
        let has_lock = match (fs::metadata(lock_path(&self.path)), self.lock.metadata()) {
            (Ok(there), Ok(own)) => (there.dev(), there.ino()) == (own.dev(), own.ino()),
            _ => false,
        };
        if has_lock && self.is_there() {
            return Ok(false);
        }
        let system = |source| SocketError::System { path: self.path.clone(), source };
        if !has_lock {
            self.lock = locked(&self.path)?;
        }
        check_free(&self.path)?;
        self.listener = listen(&self.path).map_err(system)?;
        self.made = file_at(&self.path).map_err(system)?;
        Ok(true)
    }

    fn is_there(&self) -> bool {
        file_at(&self.path).is_ok_and(|there| there == self.made)
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.path
    }

    // To be called within a runtime.
    pub(crate) fn listener(&self) -> io::Result<UnixListener> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // What cannot be removed does no harm.
        if self.is_there() {
            let _ = fs::remove_file(&self.path);
            let _ = fs::remove_file(lock_path(&self.path));
        }
        if self.has_own_directory {
            let _ = self.path.parent().map(fs::remove_dir);
        }
    }
}

// Makes the directory of a path, and takes the lock there.
fn locked(path: &Path) -> Result<File, SocketError> {
    let system = |source| SocketError::System { path: path.to_owned(), source };
    let directory = path.parent().unwrap_or(Path::new("/"));
    loop {
        match fs::DirBuilder::new().recursive(true).mode(0o700).create(directory) {
            // What is in the way is looked at like a directory of others.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(system(error)),
            _ => check_private(directory)?,
        }
        // One that ends now may take lock and directory with it.
        match lock(path) {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(SocketError::Taken { path: path.to_owned() });
            }
            Err(error) => return Err(system(error)),
        }
    }
}

// What is no socket was not left by a relay.
fn check_free(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => Err(SocketError::InTheWay { path: path.to_owned() }),
        _ => Ok(()),
    }
}

// Listens in place of the socket that is there; the lock is held.
fn listen(path: &Path) -> io::Result<BlockingListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = BlockingListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn file_at(path: &Path) -> io::Result<(u64, u64)> {
    let there = fs::symlink_metadata(path)?;
    Ok((there.dev(), there.ino()))
}

fn lock_path(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

// Takes the lock; none when the file was removed meanwhile.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let path = lock_path(path);
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let is_same = fs::metadata(&path)?.ino() == file.metadata()?.ino();
    Ok(is_same.then_some(file))
}

fn check_private(directory: &Path) -> Result<(), SocketError> {
    let own = geteuid().as_raw();
    let found = fs::symlink_metadata(directory)
        .map_err(|source| SocketError::System { path: directory.to_owned(), source })?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if found.is_dir() && owner == own && mode & 0o077 == 0 {
        return Ok(());
    }
    Err(SocketError::Exposed { path: directory.to_owned(), owner, mode, own })
}

/// Only this user, and root, may speak to a relay.
pub(crate) fn check_peer(stream: &UnixStream) -> io::Result<()> {
    let own = geteuid().as_raw();
    match socket_peercred(stream)?.uid.as_raw() {
        uid if uid == own || uid == 0 => Ok(()),
        uid => {
            let text = format!("user {uid} has connected to the relay of user {own}");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
    }
}

/// Connects to a relay, and makes sure that it is one of this user.
///
/// # Errors
/// When nobody listens there, or somebody else.
pub fn connect(path: &Path) -> io::Result<std::os::unix::net::UnixStream> {
    let stream = std::os::unix::net::UnixStream::connect(path)?;
    check_listener(&stream)?;
    Ok(stream)
}

/// The same within a runtime.
pub(crate) async fn connect_within(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path).await?;
    check_listener(&stream)?;
    Ok(stream)
}

fn check_listener(stream: &impl AsFd) -> io::Result<()> {
    let own = geteuid().as_raw();
    match socket_peercred(stream)?.uid.as_raw() {
        uid if uid == own || uid == 0 => Ok(()),
        uid => {
            let text = format!("user {uid} listens there in place of a relay of user {own}");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream as BlockingStream;

    use super::*;

    #[test]
    fn one_relay_listens_and_what_a_dead_one_left_is_no_hindrance() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("own/pull-abc123");
        let listening = Listening::bind(&path).expect("a free path");
        let mode = fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert!(matches!(Listening::bind(&path), Err(SocketError::Taken { .. })));
        drop(listening);
        assert!(!path.parent().expect("a directory").exists(), "it was made for the socket");
        // As after SIGKILL: the file is there, and nobody holds the lock.
        fs::DirBuilder::new().mode(0o700).create(dir.path().join("own")).expect("writable");
        drop(BlockingListener::bind(&path).expect("free"));
        assert!(path.exists());
        drop(Listening::bind(&path).expect("what is left is removed"));
        assert!(dir.path().join("own").exists(), "it was there before");
    }

    #[test]
    fn a_socket_that_a_cleaner_removed_is_made_again_unless_another_relay_has_come() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("own/pull-abc123");
        let mut listening = Listening::bind(&path).expect("a free path");
        assert!(!listening.renew().expect("all is there"));
        for removed in [vec![&path], vec![&lock_path(&path)], vec![&path, &lock_path(&path)]] {
            removed.iter().for_each(|file| fs::remove_file(file).expect("there"));
            assert!(listening.renew().expect("nobody else came"), "{removed:?}");
            assert!(BlockingStream::connect(&path).is_ok() && !listening.renew().expect("all is there"));
            assert!(matches!(Listening::bind(&path), Err(SocketError::Taken { .. })));
        }
        fs::remove_dir_all(dir.path().join("own")).expect("there");
        assert!(listening.renew().expect("nobody else came"));
        fs::remove_dir_all(dir.path().join("own")).expect("there");
        let other = Listening::bind(&path).expect("a free path");
        assert!(matches!(listening.renew(), Err(SocketError::Taken { .. })));
        drop(listening);
        assert!(BlockingStream::connect(&path).is_ok(), "the other one's socket stays");
        drop(other);
        assert!(!dir.path().join("own").exists());
    }

    #[test]
    fn a_directory_that_others_can_enter_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let open = dir.path().join("open");
        fs::create_dir(&open).expect("writable");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("ours");
        let error = Listening::bind(&open.join("pull")).expect_err("not private").to_string();
        assert!(error.contains("mode 0755"), "{error}");
        let private = dir.path().join("private");
        fs::DirBuilder::new().mode(0o700).create(&private).expect("writable");
        let file = private.join("pull");
        fs::write(&file, "data").expect("writable");
        let error = Listening::bind(&file).expect_err("a file").to_string();
        assert!(error.contains("is no socket"), "{error}");
        assert_eq!(fs::read(&file).expect("it stays"), b"data");
        let long = dir.path().join("x".repeat(200));
        assert!(matches!(Listening::bind(&long), Err(SocketError::Long { .. })));
    }
}
