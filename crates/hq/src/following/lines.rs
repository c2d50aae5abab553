//! What several tasks print, line by line, each with a prefix that says of which task it is.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use hq_model::{Channel, TaskRef};

use crate::error::HqError;

// What is longer of a line waits for its end in a file, so that no line of another task comes between.
const LINE_MAX: usize = 1 << 20;
// A line that is longer is printed in parts.
const LINE_SPILLED_MAX: u64 = 256 << 20;

/// How the outputs of tasks are told apart.
#[derive(Clone, Copy, Debug)]
pub(super) enum Prefix {
    /// There is but one: its bytes are printed as they are.
    None,
    /// As `hq output-log show` does, with task ids of so many digits.
    Task { digits: usize },
}

/// What is left of the line that an output has begun.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// What is before the rest, and how much that is.
    spilled: Option<(File, u64)>,
    rest: Vec<u8>,
}

impl Line {
    /// Prints the lines that are whole.
    pub(super) fn print(
        &mut self,
        prefix: Prefix,
        (task, channel): (TaskRef, Channel),
        bytes: &[u8],
        out: &mut dyn Write,
    ) -> Result<(), HqError> {
        let Prefix::Task { digits } = prefix else { return Ok(out.write_all(bytes)?) };
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(part);
            // Where there is no room for it, it is printed in parts.
            if part.ends_with(b"\n") || self.rest.len() >= LINE_MAX && self.spill().is_err() {
                self.write(digits, task, channel, out)?;
            }
        }
        Ok(())
    }

    /// Prints what is left: the output has ended, or begins anew.
    pub(super) fn end(
        &mut self,
        prefix: Prefix,
        (task, channel): (TaskRef, Channel),
        out: &mut dyn Write,
    ) -> Result<(), HqError> {
        match prefix {
            Prefix::Task { digits } if !self.rest.is_empty() || self.spilled.is_some() => {
                self.write(digits, task, channel, out)
            }
            _ => Ok(()),
        }
    }

    fn spill(&mut self) -> io::Result<()> {
        let (file, bytes) = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert((tempfile::tempfile()?, 0)),
        };
        if *bytes + self.rest.len() as u64 > LINE_SPILLED_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if let Err(error) = file.write_all(&self.rest) {
            // A part of it is not to be there twice.
            file.seek(io::SeekFrom::Start(*bytes))?;
            return Err(error);
        }
        *bytes += self.rest.len() as u64;
        self.rest.clear();
        Ok(())
    }

    fn write(
        &mut self,
        digits: usize,
        task: TaskRef,
        channel: Channel,
        out: &mut dyn Write,
    ) -> Result<(), HqError> {
        write!(out, "{}.{:0digits$}:{}> ", task.job, task.task.0, channel.number())?;
        if let Some((mut file, bytes)) = self.spilled.take() {
            file.rewind()?;
            io::copy(&mut file.take(bytes), out)?;
        }
        if !self.rest.ends_with(b"\n") {
            self.rest.push(b'\n');
        }
        out.write_all(&self.rest)?;
        self.rest.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hq_model::{JobId, TaskId};

    use super::*;

    #[test]
    fn lines_are_printed_whole_and_say_of_which_task_they_are() {
        let print = |prefix, parts: &[&str]| {
            let (mut line, mut out) = (Line::default(), Vec::new());
            let of = (TaskRef::new(JobId(3), TaskId(7)), Channel::Stderr);
            for part in parts {
                line.print(prefix, of, part.as_bytes(), &mut out).expect("printed");
            }
            let before = out.len();
            line.end(prefix, of, &mut out).expect("printed");
            (String::from_utf8_lossy(&out).into_owned(), out.len() - before)
        };
        let prefix = Prefix::Task { digits: 2 };
        assert_eq!(print(prefix, &["a\nb", "c\n\n"]), ("3.07:1> a\n3.07:1> bc\n3.07:1> \n".into(), 0));
        assert_eq!(print(prefix, &["a\nb"]), ("3.07:1> a\n3.07:1> b\n".into(), 10));
        assert_eq!(print(Prefix::None, &["a\nb", "c"]), ("a\nbc".into(), 0));
    }

    #[test]
    fn a_long_line_is_whole_although_others_are_printed_meanwhile() {
        let of = |task| (TaskRef::new(JobId(3), TaskId(task)), Channel::Stdout);
        let prefix = Prefix::Task { digits: 1 };
        let (mut long, mut other, mut out) = (Line::default(), Line::default(), Vec::new());
        let part = "x".repeat(700 << 10);
        for _ in 0..10 {
            long.print(prefix, of(1), part.as_bytes(), &mut out).expect("printed");
            other.print(prefix, of(2), b"short\n", &mut out).expect("printed");
            assert!(long.rest.len() <= LINE_MAX + part.len(), "memory is bounded");
        }
        long.print(prefix, of(1), b"end\nnext\n", &mut out).expect("printed");
        // One that has no end is printed with the end of its task.
        long.print(prefix, of(1), part.repeat(2).as_bytes(), &mut out).expect("printed");
        long.end(prefix, of(1), &mut out).expect("printed");
        let expected = format!(
            "{}3.1:0> {}end\n3.1:0> next\n3.1:0> {}\n",
            "3.2:0> short\n".repeat(10),
            part.repeat(10),
            part.repeat(2)
        );
        assert!(String::from_utf8(out).expect("a text") == expected);
    }

    #[test]
    fn a_line_that_is_too_long_to_be_kept_is_printed_in_parts() {
        let of = (TaskRef::new(JobId(3), TaskId(1)), Channel::Stdout);
        let full = File::options().write(true).open("/dev/full").expect("a device");
        let (mut line, mut out) = (Line { spilled: Some((full, 0)), rest: Vec::new() }, Vec::new());
        line.print(Prefix::Task { digits: 1 }, of, &vec![b'x'; LINE_MAX], &mut out).expect("printed");
        assert_eq!(out.len(), "3.1:0> \n".len() + LINE_MAX);
        let (mut line, mut out) = (Line::default(), Vec::new());
        line.spilled = Some((tempfile::tempfile().expect("a file"), LINE_SPILLED_MAX));
        line.print(Prefix::Task { digits: 1 }, of, &vec![b'x'; LINE_MAX], &mut out).expect("printed");
        assert!(line.rest.is_empty() && line.spilled.is_none());
    }
}
