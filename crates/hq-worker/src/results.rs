//! The result of a program that has ended with success: a few bytes of what it printed, or of a file that it left.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hq_model::ByteString;
use hq_model::result::{ResultFrom, TEXT_BYTES_MAX};
use tracing::warn;

use crate::prepare::ignore_missing;

/// So much of the end of a file is looked at for its last line: a line that has no room in it is too long.
const TAIL_BYTES: u64 = 2 * TEXT_BYTES_MAX as u64;

/// Where the result of one attempt is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResultFile {
    pub(crate) from: ResultFrom,
    pub(crate) path: ByteString,
    /// It is the worker's own, for what would go nowhere, and is removed.
    pub(crate) is_own: bool,
}

impl ResultFile {
    /// What is in it.
    ///
    /// # Errors
    /// The text for people when that cannot be a result.
    pub(crate) fn read(&self) -> Result<ByteString, String> {
        let path = Path::new(OsStr::from_bytes(&self.path));
        let found = match self.from {
            ResultFrom::LastLine => last_line(path),
            _ => whole(path),
        };
        match found {
            Ok((result, _)) if result.len() <= TEXT_BYTES_MAX => Ok(result),
            Ok((_, bytes)) => Err(format!(
                "Its result, {}, has {}{bytes} bytes, but at most {TEXT_BYTES_MAX} are kept: write the data to a \
                 file, and use its path as the result",
                self.words(),
                // No more of a line is looked at.
                if self.from == ResultFrom::LastLine && bytes >= TAIL_BYTES { "at least " } else { "" },
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!(
                "Its result, {}, is missing, although the program exited with code 0",
                self.words()
            )),
            Err(error) => Err(format!("Its result, {}, cannot be read: {error}", self.words())),
        }
    }

    /// Removes what nobody else looks for.
    pub(crate) fn forget(&self) {
        let path = Path::new(OsStr::from_bytes(&self.path));
        if self.is_own
            && let Err(error) = ignore_missing(fs::remove_file(path))
        {
            warn!(path = %path.display(), %error, "what a task printed for its result could not be removed");
        }
    }

    fn words(&self) -> String {
        match &self.from {
            ResultFrom::LastLine => "the last line of its standard output".to_owned(),
            ResultFrom::Stdout => "its standard output".to_owned(),
            _ => format!("the file {}", String::from_utf8_lossy(&self.path)),
        }
    }
}

// A device or a pipe may have no end.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok((File::open(path)?, found.len()))
}

// What is there without the line ends behind it, as `$(…)` in a shell has it, and how many bytes that is. What is too long is
// not read to its end.
fn whole(path: &Path) -> io::Result<(ByteString, u64)> {
    let (file, bytes) = open(path)?;
    let mut text = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut text)?;
    if bytes <= TAIL_BYTES {
        text.truncate(without_line_ends(&text));
    }
    let bytes = if bytes <= TAIL_BYTES { text.len() as u64 } else { bytes };
    Ok((text, bytes))
}

fn last_line(path: &Path) -> io::Result<(ByteString, u64)> {
    let (mut file, mut end) = open(path)?;
    let mut before = |end: u64| {
        let start = end.saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut text = Vec::new();
        file.by_ref().take(end - start).read_to_end(&mut text)?;
        io::Result::Ok(text)
    };
    // Empty lines behind it are passed over, however many there are.
    let mut line = loop {
        let text = before(end)?;
        let (bytes, left) = (text.len() as u64, without_line_ends(&text) as u64);
        end -= bytes - left.min(bytes);
        if left > 0 || bytes == 0 {
            break before(end)?;
        }
    };
    if let Some(at) = line.iter().rposition(|byte| *byte == b'\n') {
        line.drain(..=at);
    }
    let bytes = line.len() as u64;
    Ok((line, bytes))
}

fn without_line_ends(text: &[u8]) -> usize {
    text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(from: ResultFrom, content: &[u8]) -> String {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("out");
        fs::write(&path, content).expect("writable");
        let file = ResultFile { from, path: path.into_os_string().into_encoded_bytes(), is_own: true };
        let read = match file.read() {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(text) => text,
        };
        file.forget();
        assert!(fs::read_dir(dir.path()).expect("readable").next().is_none(), "its own file is gone");
        read
    }

    #[test]
    fn the_last_line_is_found_in_any_output() {
        let long = "x".repeat(TEXT_BYTES_MAX);
        for (content, expected) in [
            (String::new(), ""),
            ("\n\n".into(), ""),
            ("42".into(), "42"),
            ("a\nb\n".into(), "b"),
            ("a\r\nb\r\n\r\n".into(), "b"),
            (format!("{long}{long}{long}\n7\n"), "7"),
            (format!("first\n{long}\n"), &long),
            // What ends before empty lines begins before them, too.
            (format!("first\nlast{}", "\n".repeat(100_000)), "last"),
            (format!("first\n{long}{}", "\n".repeat(TAIL_BYTES as usize - 5)), &long),
        ] {
            let what = format!("{} bytes", content.len());
            assert_eq!(read(ResultFrom::LastLine, content.as_bytes()), expected, "{what}");
        }
        let error = read(ResultFrom::LastLine, format!("a\n{long}y\n").as_bytes());
        let expected = "Its result, the last line of its standard output, has 4097 bytes, but at most 4096 are \
            kept: write the data to a file, and use its path as the result";
        assert_eq!(error, expected);
        let error = read(ResultFrom::LastLine, "x".repeat(9000).as_bytes());
        assert!(error.contains("has at least 8192 bytes, but at most 4096 are kept"), "{error}");
    }

    #[test]
    fn all_of_it_is_what_a_shell_would_take() {
        let stdout = |content: &[u8]| read(ResultFrom::Stdout, content);
        assert_eq!(stdout(b"a\nb\n\n"), "a\nb");
        assert_eq!(stdout(b"\xff1\n"), "\u{fffd}1", "any bytes are a result");
        let long = "x".repeat(TEXT_BYTES_MAX);
        assert_eq!(stdout(format!("{long}\n\n").as_bytes()), long);
        assert!(stdout(format!("{long}y").as_bytes()).contains("its standard output, has 4097 bytes"));
        assert!(stdout("x".repeat(1 << 20).as_bytes()).contains("has 1048576 bytes"));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let error = |path: &Path| {
            let path = path.as_os_str().as_bytes().to_vec();
            let from = ResultFrom::File(b"score".to_vec());
            ResultFile { from, path, is_own: false }.read().expect_err("no result")
        };
        let missing = dir.path().join("score");
        let place = dir.path().display();
        assert_eq!(
            error(&missing),
            format!(
                "Its result, the file {place}/score, is missing, although the program exited with code 0"
            )
        );
        assert_eq!(
            error(dir.path()),
            format!(
                "Its result, the file {place}, cannot be read: it is not a regular \
            file"
            )
        );
        assert_eq!(
            error(Path::new("/dev/zero")),
            "Its result, the file /dev/zero, cannot be read: it is not a regular file"
        );
    }
}
