//! A Unix socket in the worker's directory that comes back when somebody removes it, and the directory with it, as
//! those do that clean up directories for temporary files.

use std::fs;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::limits::SOCKET_PAUSE;

#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    listener: UnixListener,
    // Says that something happened to the path; `None` where the system has no room for that.
    watch: Option<AsyncFd<OwnedFd>>,
}

impl Socket {
    /// Listens at a path. To be called within a tokio runtime.
    pub(crate) fn bind(path: &Path) -> io::Result<Socket> {
        let listener = UnixListener::bind(path)?;
        let watch = watch(path).inspect_err(|error| {
            info!(%error, path = %path.display(), "the socket is not watched, and does not come back when it is removed");
        });
        Ok(Socket { path: path.to_owned(), listener, watch: watch.ok() })
    }

    /// The next connection.
    pub(crate) async fn accept(&mut self) -> io::Result<UnixStream> {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => return Ok(accepted?.0),
                () = happened(self.watch.as_ref()) => self.come_back().await,
            }
        }
    }

    async fn come_back(&mut self) {
        while !fs::symlink_metadata(&self.path).is_ok_and(|found| found.file_type().is_socket()) {
            let made = make_private(self.path.parent().unwrap_or(&self.path));
            match made.and_then(|()| Socket::bind(&self.path)) {
                Ok(socket) => {
                    warn!(path = %self.path.display(), "the socket for tasks was removed, and is made again");
                    *self = socket;
                }
                Err(error) => {
                    warn!(path = %self.path.display(), %error, "the socket for tasks was removed and cannot be made again");
                    sleep(SOCKET_PAUSE).await;
                }
            }
        }
    }
}

/// Whoever listens at a socket of our worker is this user, or root: another one has put something in its place.
///
/// # Errors
/// When it is somebody else.
pub(crate) fn check_listener(uid: u32) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    if uid == own || uid == 0 {
        return Ok(());
    }
    let text = format!("user {uid} listens there in place of the worker of user {own}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Makes a directory that only this user can enter, and those above it, where they are missing.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Watches a descriptor. To be called within a tokio runtime.
#[expect(unsafe_code, reason = "that a descriptor stays open while it is watched cannot be said by types")]
pub(crate) fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned by what watches it, and never replaced.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}

// A socket that is removed while somebody listens there stays as a file without a name: its attributes change.
fn watch(path: &Path) -> io::Result<AsyncFd<OwnedFd>> {
    let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&fd, path, WatchFlags::ATTRIB | WatchFlags::MOVE_SELF)?;
    register(fd, Interest::READABLE)
}

async fn happened(watch: Option<&AsyncFd<OwnedFd>>) {
    let Some(watch) = watch else { return pending().await };
    let Ok(mut guard) = watch.readable().await else { return pending().await };
    let mut events = [0; 512];
    // What the events are does not matter.
    while rustix::io::read(watch, &mut events).is_ok_and(|bytes| bytes > 0) {}
    guard.clear_ready();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_listens_in_place_of_a_worker() {
        let own = rustix::process::geteuid().as_raw();
        for uid in [own, 0] {
            check_listener(uid).expect("one's own worker");
        }
        let error = check_listener(own + 1).expect_err("somebody else").to_string();
        assert!(error.ends_with(&format!("listens there in place of the worker of user {own}")), "{error}");
    }

    #[tokio::test]
    async fn a_socket_comes_back_with_its_directory() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let own = dir.path().join("own");
        make_private(&own).expect("writable");
        let path = own.join("socket");
        let mut socket = Socket::bind(&path).expect("a free path");
        let accepted = tokio::spawn(async move {
            socket.accept().await.expect("a connection");
        });
        fs::remove_dir_all(&own).expect("there");
        while UnixStream::connect(&path).await.is_err() {
            tokio::task::yield_now().await;
        }
        accepted.await.expect("no panic");
    }
}
