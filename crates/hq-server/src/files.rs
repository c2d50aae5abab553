//! The thread that looks for files which tasks wait for. No system tells of files that other machines make on a shared
//! file system, so it looks again and again; on a thread of its own, because file systems may take their time.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};

use hq_core::server::Input;
use hq_model::ByteString;

use crate::inbox::{Event, Inbox, Room};
use crate::limits::FILES_INTERVAL;

/// The way to the thread, which ends when this is dropped.
pub(crate) struct Files(Sender<Vec<ByteString>>);

impl Files {
    /// The way, and what the thread runs.
    pub(crate) fn new(inbox: Arc<Inbox>) -> (Files, impl FnOnce() + Send) {
        let (sender, asked) = mpsc::channel::<Vec<ByteString>>();
        let run = move || {
            let mut wanted: Vec<ByteString> = Vec::new();
            loop {
                let news = if wanted.is_empty() {
                    asked.recv().map_err(|_| RecvTimeoutError::Disconnected)
                } else {
                    asked.recv_timeout(FILES_INTERVAL)
                };
                match news {
                    Ok(paths) => wanted = paths,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                let exists = |path: &ByteString| fs::metadata(OsStr::from_bytes(path)).is_ok();
                let (paths, missing) = wanted.into_iter().partition(exists);
                wanted = missing;
                let paths: Vec<ByteString> = paths;
                if !paths.is_empty() {
                    inbox.push(Event::input(Input::FilesFound { paths }), Room::none());
                }
            }
        };
        (Files(sender), run)
    }

    /// Looks for these from now on, and for no others.
    pub(crate) fn watch(&self, paths: Vec<ByteString>) {
        // Without the thread nothing is found: the server would be about to end.
        let _ = self.0.send(paths);
    }
}
