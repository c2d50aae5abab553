//! What several tasks print, line by line, each with a prefix that says of which task it is.

use std::io::Write;

use hq_model::{Channel, TaskRef};

use crate::error::HqError;

// A line that is longer is printed in parts.
const LINE_MAX: usize = 1 << 20;

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
pub(super) struct Line(Vec<u8>);

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
            self.0.extend_from_slice(part);
            if part.ends_with(b"\n") || self.0.len() >= LINE_MAX {
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
            Prefix::Task { digits } if !self.0.is_empty() => self.write(digits, task, channel, out),
            _ => Ok(()),
        }
    }

    fn write(
        &mut self,
        digits: usize,
        task: TaskRef,
        channel: Channel,
        out: &mut dyn Write,
    ) -> Result<(), HqError> {
        write!(out, "{}.{:0digits$}:{}> ", task.job, task.task.0, channel.number())?;
        if !self.0.ends_with(b"\n") {
            self.0.push(b'\n');
        }
        out.write_all(&self.0)?;
        self.0.clear();
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
}
