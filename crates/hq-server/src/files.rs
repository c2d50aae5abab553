//! The thread that looks for files which tasks wait for. No system tells of files that other machines make on a shared
//! file system, so it looks again and again; on a thread of its own, because file systems may take their time.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use hq_core::server::Input;
use hq_model::ByteString;

use crate::inbox::{Event, Inbox, Room};
use crate::limits::FILES_INTERVAL;

/// The way to the thread, which ends when this is dropped.
pub(crate) struct Files(Arc<Asked>);

/// What is to be looked for. While the thread waits for a file system, what was asked for last takes the place of what was
/// asked for before: so nothing piles up.
#[derive(Default)]
struct Asked {
    last: Mutex<Last>,
    is_news: Condvar,
}

#[derive(Default)]
struct Last {
    // Not taken yet.
    paths: Option<Vec<ByteString>>,
    is_over: bool,
}

impl Asked {
    fn tell(&self, tell: impl FnOnce(&mut Last)) {
        tell(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
        self.is_news.notify_one();
    }

    /// What is asked for anew, within this time if there is one. `Err` when nothing will be any more.
    fn take(&self, time: Option<Duration>) -> Result<Option<Vec<ByteString>>, Over> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |last: &mut Last| last.paths.is_none() && !last.is_over;
        let mut last = match time {
            None => self.is_news.wait_while(last, is_old).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let waited = self.is_news.wait_timeout_while(last, time, is_old);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        if last.is_over { Err(Over) } else { Ok(last.paths.take()) }
    }
}

struct Over;

impl Files {
    /// The way, and what the thread runs.
    pub(crate) fn new(inbox: Arc<Inbox>) -> (Files, impl FnOnce() + Send) {
        let asked = Arc::<Asked>::default();
        let files = Files(Arc::clone(&asked));
        let run = move || {
            let mut wanted: Vec<ByteString> = Vec::new();
            while let Ok(news) = asked.take((!wanted.is_empty()).then_some(FILES_INTERVAL)) {
                if let Some(paths) = news {
                    wanted = paths;
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
        (files, run)
    }

    /// Looks for these from now on, and for no others.
    pub(crate) fn watch(&self, paths: Vec<ByteString>) {
        self.0.tell(|last| last.paths = Some(paths));
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.0.tell(|last| last.is_over = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_piles_up_while_a_file_system_does_not_answer() {
        let files = Files(Arc::default());
        for number in 0..100_000_u32 {
            files.watch(vec![number.to_string().into_bytes(); 100]);
        }
        let asked = Arc::clone(&files.0);
        let Ok(Some(paths)) = asked.take(None) else { panic!("what was asked for last") };
        assert_eq!(paths, vec![b"99999".to_vec(); 100]);
        assert!(matches!(asked.take(Some(Duration::ZERO)), Ok(None)), "it was alone");
        drop(files);
        assert!(asked.take(None).is_err());
    }
}
