//! Files with a task on each line, as `hq pull addfile` reads them: its name, and the names of those that it waits for.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use serde_json::{Value, json};

use crate::error::HqError;

/// Longest line, in bytes.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// The lines of a file. No more of it is in memory than one request takes.
pub(super) struct TaskLines<'a> {
    file: String,
    from: Box<dyn BufRead + 'a>,
    // The line read last, and those given last with their numbers.
    last: u64,
    given: Vec<(u64, Value)>,
}

impl<'a> TaskLines<'a> {
    pub(super) fn new(file: &str, from: Box<dyn BufRead + 'a>) -> TaskLines<'a> {
        TaskLines { file: file.to_owned(), from, last: 0, given: Vec::new() }
    }

    /// At most so many of the next tasks; none at the end.
    pub(super) fn some(&mut self, most: usize) -> Result<Vec<Value>, HqError> {
        self.given.clear();
        let mut lines_of: BTreeMap<String, u64> = BTreeMap::new();
        let mut tasks = Vec::new();
        while tasks.len() < most
            && let Some(line) = self.next()?
        {
            if line.is_empty() {
                continue;
            }
            let names: Vec<&str> = line.split(',').collect();
            if names.iter().any(|name| name.is_empty()) {
                return Err(self.wrong("a name is empty"));
            }
            if names.iter().any(|name| name.contains(char::is_control)) {
                return Err(self.wrong("a name has control characters"));
            }
            if let Some(other) = lines_of.insert(names[0].to_owned(), self.last) {
                return Err(self.wrong(&format!("`{}` is also the name in line {other}", names[0])));
            }
            let task = json!({"name": names[0], "after": names[1..]});
            self.given.push((self.last, task.clone()));
            tasks.push(task);
        }
        Ok(tasks)
    }

    /// An error with the tasks that were given last: with the line, where it names something that is there.
    pub(super) fn at_fault(&self, error: HqError) -> HqError {
        let named = |task: &Value| {
            let after = task["after"].as_array().into_iter().flatten();
            let names: Vec<&Value> = match error.code {
                "unknown-name" => after.collect(),
                _ => vec![&task["name"]],
            };
            names
                .iter()
                .any(|name| name.as_str().is_some_and(|name| error.text.contains(&format!("`{name}`"))))
        };
        let at = self.given.iter().find(|(_, task)| named(task)).map(|(line, _)| *line);
        let first = self.given.first().map_or(self.last, |(line, _)| *line);
        let last = self.given.last().map_or(self.last, |(line, _)| *line);
        let place = match at {
            Some(line) => format!("Line {line}"),
            None if first == last => format!("Line {first}"),
            None => format!("Lines {first} to {last}"),
        };
        HqError { text: format!("{place} of {}: {}", self.file, error.text), ..error }
    }

    fn next(&mut self) -> Result<Option<String>, HqError> {
        let mut line = Vec::new();
        let read = self.from.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line);
        read.map_err(|error| super::cannot_read(&self.file, &error))?;
        if line.is_empty() {
            return Ok(None);
        }
        self.last += 1;
        if line.len() as u64 > LINE_BYTES_MAX {
            return Err(self.wrong(&format!("it has more than {LINE_BYTES_MAX} bytes")));
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            line.pop_if(|byte| *byte == b'\r');
        }
        String::from_utf8(line).map(Some).map_err(|_| self.wrong("it is not UTF-8"))
    }

    fn wrong(&self, what: &str) -> HqError {
        HqError::failed("bad-input", format!("Line {} of {}: {what}", self.last, self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], most: usize) -> Result<Vec<usize>, String> {
        let mut lines = TaskLines::new("f", Box::new(text));
        let mut counts = Vec::new();
        loop {
            match lines.some(most).map_err(|error| error.text)?.len() {
                0 => return Ok(counts),
                count => counts.push(count),
            }
        }
    }

    #[test]
    fn lines_are_read_in_blocks_and_faults_named_by_them() {
        assert_eq!(read(b"a\nb,a\r\n\nc", 2), Ok(vec![2, 1]));
        let long = vec![0_u8; LINE_BYTES_MAX as usize + 5];
        for (text, expected) in [
            (&b"a\n,\n"[..], "Line 2 of f: a name is empty"),
            (b"a\nb,c\0d\n", "Line 2 of f: a name has control characters"),
            (b"a\n\na,b\n", "Line 3 of f: `a` is also the name in line 1"),
            (b"\xff\n", "Line 1 of f: it is not UTF-8"),
            (&long, "Line 1 of f: it has more than 4194304 bytes"),
        ] {
            assert_eq!(read(text, 10), Err(expected.to_owned()));
        }
    }

    #[test]
    fn what_the_server_refuses_is_told_with_its_line() {
        let mut lines = TaskLines::new("f", Box::new(&b"a\n\nb,x,a\nc\n"[..]));
        lines.some(10).expect("lines");
        for (code, text, expected) in [
            (
                "unknown-name",
                "no task of bag 1 has the name `x`: …",
                "Line 3 of f: no task of bag 1 has the name `x`: …",
            ),
            ("name-taken", "bag 1 has a task `c` already", "Line 4 of f: bag 1 has a task `c` already"),
            ("job-not-open", "bag 1 is closed", "Lines 1 to 4 of f: bag 1 is closed"),
        ] {
            assert_eq!(lines.at_fault(HqError::failed(code, text)).text, expected);
        }
    }
}
