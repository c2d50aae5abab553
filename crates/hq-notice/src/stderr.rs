//! The last line that a failed task wrote to its standard error, from its file, where whoever sends can read that.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hq_model::Notice;
use hq_model::notice::{NoticeEvent, cut, with_escapes};
use rustix::fs::OFlags;

use crate::limits::{SAID_BYTES, STDERR_BYTES};

/// The line, bounded and with escapes in the place of what terminals obey.
pub(crate) fn last_line(notice: &Notice) -> Option<String> {
    let NoticeEvent::Failure { stderr, .. } = &notice.event else { return None };
    if stderr.is_empty() {
        return None;
    }
    let tail = tail(Path::new(OsStr::from_bytes(stderr)))?;
    let text = String::from_utf8_lossy(&tail);
    // A file with holes reads as zeros there.
    let is_nothing = |c: char| c.is_whitespace() || c == '\0';
    let line = text.lines().rev().map(|line| line.trim_matches(is_nothing)).find(|line| !line.is_empty())?;
    Some(cut(&with_escapes(line), SAID_BYTES))
}

// What looks like a file may be something that gives no end, or waits for a writer.
fn tail(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    let data = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    file.seek(SeekFrom::Start(data.len().saturating_sub(STDERR_BYTES))).ok()?;
    let mut tail = Vec::new();
    file.take(STDERR_BYTES).read_to_end(&mut tail).ok()?;
    Some(tail)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use hq_model::job::Counters;
    use hq_model::{JobId, JobState, NoticeTarget, TaskId, Timestamp};

    use super::*;

    fn said(path: &Path) -> Option<String> {
        let stderr = path.as_os_str().to_owned().into_vec();
        last_line(&Notice {
            job: JobId(7),
            name: "score".into(),
            rule: 0,
            target: NoticeTarget::Mail("me".into()),
            at: Timestamp(0),
            state: JobState::Running,
            counters: Counters::default(),
            submit_dir: b"/".to_vec(),
            event: NoticeEvent::Failure { task: TaskId(3), error: "exit code 1".into(), stderr },
        })
    }

    #[test]
    fn the_last_line_that_says_something_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("stderr");
        let long = "x".repeat(100_000);
        for (content, expected) in [
            (&b"first\nlast one\n\n \n"[..], Some("last one")),
            (b"no end of line", Some("no end of line")),
            (b"\x1b[31mred\x07\n\0\0", Some("\\u{1b}[31mred\\u{7}")),
            (b"", None),
            (b"\n\n", None),
        ] {
            std::fs::write(&path, content).expect("a file");
            assert_eq!(said(&path).as_deref(), expected);
        }
        std::fs::write(&path, &long).expect("a file");
        assert!(said(&path).is_some_and(|line| line.len() <= SAID_BYTES + 4));
    }

    #[test]
    fn what_is_no_file_says_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .expect("a pipe with a name");
        for path in [dir.path(), &fifo, Path::new("/dev/zero"), Path::new("/nonexistent"), Path::new("")] {
            assert_eq!(said(path), None, "{}", path.display());
        }
    }
}
