//! A Unix socket in the worker's directory that comes back when somebody removes it, and the directory with it, as
//! those do that clean up directories for temporary files.

use std::fs;
use std::future::pending;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::limits::{REMOVALS_MAX, SOCKET_PAUSE_MAX, SOCKET_PAUSE_MIN, SOCKET_WAIT};

#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    listener: UnixListener,
    // Says that something happened to the path; `None` where the system has no room for that.
    watch: Option<AsyncFd<OwnedFd>>,
    // Connections that were made before the socket was removed.
    early: Vec<UnixStream>,
}

impl Socket {
    /// Listens at a path. To be called within a tokio runtime.
    pub(crate) fn bind(path: &Path) -> io::Result<Socket> {
        let listener = UnixListener::bind(path)?;
        let watch = watch(path).inspect_err(|error| {
            info!(%error, path = %path.display(), "the socket is not watched, and does not come back when it is removed");
        });
        Ok(Socket { path: path.to_owned(), listener, watch: watch.ok(), early: Vec::new() })
    }

    /// The next connection.
    pub(crate) async fn accept(&mut self) -> io::Result<UnixStream> {
        loop {
            if let Some(stream) = self.early.pop() {
                return Ok(stream);
            }
            tokio::select! {
                accepted = self.listener.accept() => return Ok(accepted?.0),
                () = happened(self.watch.as_ref()) => self.come_back().await,
            }
        }
    }

    async fn come_back(&mut self) {
        // Who removes it may not have ended: it is made again soon, and less often where that goes on.
        let mut pause = SOCKET_PAUSE_MIN;
        while !fs::symlink_metadata(&self.path).is_ok_and(|found| found.file_type().is_socket()) {
            let made = make_private(self.path.parent().unwrap_or(&self.path));
            match made.and_then(|()| Socket::bind(&self.path)) {
                Ok(socket) => {
                    warn!(path = %self.path.display(), "the socket for tasks was removed, and is made again");
                    let removed = mem::replace(self, socket);
                    self.early = removed.waiting();
                }
                Err(error) => {
                    warn!(path = %self.path.display(), %error, "the socket for tasks was removed and cannot be made again");
                    sleep(pause).await;
                    pause = (2 * pause).min(SOCKET_PAUSE_MAX);
                }
            }
        }
    }

    // Who has come, and was not accepted. The listener that is given up here would let them go.
    fn waiting(mut self) -> Vec<UnixStream> {
        let Ok(listener) = self.listener.into_std() else { return self.early };
        while let Ok((stream, _)) = listener.accept() {
            let stream = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream));
            self.early.extend(stream);
        }
        self.early
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

/// Whether a socket of a worker that could not be reached may be there in a moment, as it was removed and is made
/// again. A worker that has ended cannot be told from that: callers wait for `SOCKET_WAIT` at most.
pub(crate) fn may_come_back(error: &io::Error, since: Instant) -> bool {
    error.kind() == io::ErrorKind::NotFound && since.elapsed() < SOCKET_WAIT
}

/// Makes a directory that only this user can enter, and those above it, where they are missing; also while somebody
/// removes them.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    despite_removal(|| fs::DirBuilder::new().recursive(true).mode(0o700).create(path))
}

/// Makes something again where what it stands on, or it itself, was removed in between.
pub(crate) fn despite_removal(make: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let is_removed =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists);
    for _ in 1..REMOVALS_MAX {
        match make() {
            Err(error) if is_removed(&error) => {}
            made => return made,
        }
    }
    make()
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
    use std::cell::Cell;

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

    #[test]
    fn a_directory_is_made_while_another_removes_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (above, path) = (dir.path().join("own"), dir.path().join("own/tasks/1"));
        let removed = Cell::new(0);
        let made = despite_removal(|| {
            make_private(&above)?;
            // Another one comes between, three times.
            if removed.replace(removed.get() + 1) < 3 {
                fs::remove_dir_all(&above)?;
            }
            fs::create_dir(above.join("tasks")).and_then(|()| fs::create_dir(&path))
        });
        made.expect("made at last");
        assert!(path.is_dir());
    }

    #[test]
    fn what_is_in_the_way_of_a_directory_is_named() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("file");
        fs::write(&path, "").expect("writable");
        let error = make_private(&path).expect_err("a file is there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[tokio::test]
    async fn who_came_before_a_socket_was_removed_is_heard() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("socket");
        let mut socket = Socket::bind(&path).expect("a free path");
        let _early =
            [UnixStream::connect(&path).await, UnixStream::connect(&path).await].map(|s| s.expect("heard"));
        fs::remove_file(&path).expect("there");
        socket.come_back().await;
        let _late = UnixStream::connect(&path).await.expect("it is back");
        for _ in 0..3 {
            socket.accept().await.expect("a connection");
        }
    }

    #[tokio::test]
    async fn a_socket_comes_back_with_its_directory() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let own = dir.path().join("own");
        make_private(&own).expect("writable");
        let path = own.join("socket");
        let mut socket = Socket::bind(&path).expect("a free path");
        if socket.watch.is_none() {
            // Others of this user watch all that the system lets them: it is not to come back.
            return;
        }
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
