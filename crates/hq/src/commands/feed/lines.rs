//! The lines that a generator or a reducer prints, read by a thread and only as far as somebody takes them.

use std::io::{BufRead, BufReader, Read};
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// Most bytes of a line that is no entry of a task but text for us: the text itself has 64 KiB at most.
pub(super) const LINE_BYTES_MAX: usize = 128 << 10;
/// Lines that the thread hands over together: no more, and none that would have to be waited for.
const TOGETHER: usize = 4096;
/// So often it does that ahead.
const AHEAD: usize = 1;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line of the command.
    Plain(Vec<u8>),
    /// A line for us: the word behind `#hq`, and the rest.
    Order(String, Vec<u8>),
    /// The last line, without an end: it counts only if the command ends well.
    Cut(Vec<u8>),
    /// One that is too long, by its number from 1.
    TooLong(u64),
    /// It could not be read.
    Broken(String),
}

/// Lines of a command, as they come.
pub(super) struct Lines {
    taken: std::vec::IntoIter<Line>,
    coming: Receiver<Vec<Line>>,
}

impl Lines {
    /// The next one, when it is there; nothing when there is none any more.
    pub(super) fn next(&mut self) -> Option<Line> {
        if let Some(line) = self.taken.next() {
            return Some(line);
        }
        self.taken = self.coming.recv().ok()?.into_iter();
        self.taken.next()
    }

    /// The next one, if it is there.
    ///
    /// # Errors
    /// When it is not, or there is none any more.
    pub(super) fn next_now(&mut self) -> Result<Line, TryRecvError> {
        if self.taken.as_slice().is_empty() {
            self.taken = self.coming.try_recv()?.into_iter();
        }
        self.taken.next().ok_or(TryRecvError::Empty)
    }
}

/// Starts the thread. It ends with the output, or when nobody takes lines any more.
pub(super) fn read(out: ChildStdout) -> std::io::Result<Lines> {
    let (sender, coming) = sync_channel(AHEAD);
    std::thread::Builder::new().name("lines".into()).spawn(move || {
        let mut out = BufReader::with_capacity(LINE_BYTES_MAX, out);
        let mut number = 1;
        loop {
            let lines = together(&mut out, number);
            number += lines.len() as u64;
            let is_end = lines
                .last()
                .is_none_or(|last| matches!(last, Line::Cut(_) | Line::TooLong(_) | Line::Broken(_)));
            if (!lines.is_empty() && sender.send(lines).is_err()) || is_end {
                return;
            }
        }
    })?;
    Ok(Lines { taken: Vec::new().into_iter(), coming })
}

// The next line, with those behind it that have been read already. Nothing at the end.
fn together(out: &mut BufReader<impl Read>, number: u64) -> Vec<Line> {
    let mut lines = Vec::new();
    while let Some(line) = next(out, number + lines.len() as u64) {
        let is_end = matches!(line, Line::Cut(_) | Line::TooLong(_) | Line::Broken(_));
        lines.push(line);
        if is_end || lines.len() == TOGETHER || !out.buffer().contains(&b'\n') {
            break;
        }
    }
    lines
}

fn next(out: &mut impl BufRead, number: u64) -> Option<Line> {
    let mut line = Vec::new();
    let read = out.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line);
    match read {
        Err(error) => return Some(Line::Broken(error.to_string())),
        Ok(0) => return None,
        Ok(_) => {}
    }
    if line.last() != Some(&b'\n') {
        return Some(if line.len() > LINE_BYTES_MAX { Line::TooLong(number) } else { Line::Cut(line) });
    }
    line.pop();
    Some(of(line))
}

/// A whole line, without its end.
pub(super) fn of(line: Vec<u8>) -> Line {
    let Some(rest) = line.strip_prefix(b"#hq ") else { return Line::Plain(line) };
    let (word, text) = match rest.iter().position(|byte| *byte == b' ') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &[][..]),
    };
    Line::Order(String::from_utf8_lossy(word).into_owned(), text.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_there_come_together_and_no_other_is_waited_for() {
        let counts = |text: &[u8], buffer: usize| {
            let mut out = BufReader::with_capacity(buffer, text);
            let (mut counts, mut all) = (Vec::new(), Vec::new());
            loop {
                let lines = together(&mut out, all.len() as u64 + 1);
                if lines.is_empty() {
                    return (counts, all);
                }
                counts.push(lines.len());
                all.extend(lines);
            }
        };
        let text = b"a\nb\nc\nlong line\nd";
        let (together, all) = counts(text, 100);
        assert_eq!(together, [4, 1], "the last one has no end");
        assert_eq!(counts(text, 5), (vec![2, 1, 1, 1], all), "as far as they are in the buffer");
        let (many, _) = counts(&b"x\n".repeat(TOGETHER + 1), 4 * TOGETHER);
        assert_eq!(many, [TOGETHER, 1]);
    }

    fn lines(text: &[u8]) -> Vec<Line> {
        let mut out = BufReader::with_capacity(7, text);
        let mut found = Vec::new();
        while let Some(line) = next(&mut out, found.len() as u64 + 1) {
            let is_end = matches!(line, Line::TooLong(_));
            found.push(line);
            if is_end {
                break;
            }
        }
        found
    }

    #[test]
    fn lines_and_orders_are_told_apart() {
        let plain = |text: &str| Line::Plain(text.into());
        let order = |word: &str, text: &str| Line::Order(word.into(), text.into());
        assert_eq!(lines(b"a b\n\n#hq\n"), [plain("a b"), plain(""), plain("#hq")]);
        assert_eq!(
            lines(b"#hq cursor 7 of 9\n#hq end\n#hqx\n"),
            [order("cursor", "7 of 9"), order("end", ""), plain("#hqx")]
        );
        assert_eq!(lines(b"\xff\nhalf"), [Line::Plain(vec![0xff]), Line::Cut(b"half".to_vec())]);
        let long = "x".repeat(LINE_BYTES_MAX);
        assert_eq!(lines(format!("{}\n", &long[1..]).as_bytes()), [plain(&long[1..])]);
        assert_eq!(lines(format!("a\n{long}{long}").as_bytes()), [plain("a"), Line::TooLong(2)]);
    }
}
