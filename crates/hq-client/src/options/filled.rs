//! What placeholders of entries become: whether each task can have what they stand for.
//!
//! The client has all entries, so what a worker would have to say of one task after the other is said here, before
//! anything is sent.

use hq_model::entry::is_of_entry;
use hq_model::pattern::{self, Pattern};
use hq_model::{ByteString, Entry, IdSet, TaskSpec};

use super::error::OptionsError;
use crate::limits::{ARGUMENT_BYTES_MAX, PATH_BYTES_MAX};

/// The texts of a template in which placeholders stand for entries.
pub(super) struct Filled {
    names: Vec<String>,
    texts: Vec<Text>,
}

struct Text {
    what: String,
    pattern: Pattern,
    bytes_max: usize,
    is_path: bool,
}

impl Filled {
    /// Those of these tasks.
    pub(super) fn new(spec: &TaskSpec) -> Filled {
        let mut names = spec.names_of_entry();
        names.extend(spec.locality.iter().flat_map(|key| pattern::names(key)));
        names.retain(|name| is_of_entry(name));
        let mut texts = Vec::new();
        if !names.is_empty() {
            let mut add = |what: String, text: &[u8], bytes_max: usize, is_path: bool| {
                let pattern = Pattern::new(text);
                if pattern.names().any(is_of_entry) {
                    texts.push(Text { what, pattern, bytes_max, is_path });
                }
            };
            // The end mark counts.
            let (argument, path) = (ARGUMENT_BYTES_MAX - 1, PATH_BYTES_MAX - 1);
            for (i, arg) in spec.body.texts().iter().enumerate() {
                add(argument_name(i), arg, argument, false);
            }
            for (key, value) in &spec.env {
                let key_bytes = key.len() + 1;
                add(variable_name(key), value, argument.saturating_sub(key_bytes), false);
            }
            add("--cwd".into(), &spec.cwd, path, true);
            for (option, sink) in [("--stdout", &spec.stdout), ("--stderr", &spec.stderr)] {
                if let Some(text) = sink.path() {
                    add(option.into(), text, path, true);
                }
            }
            spec.outputs.iter().for_each(|text| add("--output".into(), text, path, true));
            let left = spec.output_objects.iter();
            left.for_each(|object| add("--output-object".into(), &object.path, path, true));
            let taken = spec.input_objects.iter();
            taken.for_each(|object| add("--input-object".into(), object.path(), path, true));
            spec.result.path().into_iter().for_each(|text| add("--result".into(), text, path, true));
        }
        Filled { names, texts }
    }

    /// How many bytes arguments and variables get by this entry.
    ///
    /// # Errors
    /// When a placeholder stands for nothing in it, or for what Linux does not take.
    pub(super) fn bytes(&self, number: u32, text: &[u8]) -> Result<usize, OptionsError> {
        if self.names.is_empty() {
            return Ok(0);
        }
        let entry = Entry::new(text);
        entry.check(&self.names).map_err(|error| OptionsError::Entry { entry: number, error })?;
        let mut total = 0;
        let mut filled = ByteString::new();
        for Text { what, pattern, bytes_max, is_path } in &self.texts {
            filled.clear();
            pattern.expand_into(&mut filled, &|name, out| entry.append(name, out));
            if filled.len() > *bytes_max {
                let (what, bytes, max) = (what.clone(), filled.len(), *bytes_max);
                return Err(OptionsError::FilledTooLong { what, entry: number, bytes, max });
            }
            if *is_path && filled.is_empty() {
                return Err(OptionsError::FilledEmpty { what: what.clone(), entry: number });
            }
            total += if *is_path { 0 } else { filled.len() };
        }
        Ok(total)
    }
}

/// What an argument is called.
pub(super) fn argument_name(place: usize) -> String {
    if place == 0 { "the command".to_owned() } else { format!("argument {place} of the command") }
}

/// What a variable is called.
pub(super) fn variable_name(key: &[u8]) -> String {
    format!("the variable {}", String::from_utf8_lossy(key))
}

/// What users call an entry: that of an array by its number in the file, others by their place.
pub(super) fn entry_number(numbers: Option<&IdSet>, place: usize) -> u32 {
    let number = numbers.and_then(|numbers| numbers.iter().nth(place)).map(|id| id.0);
    number.unwrap_or(u32::try_from(place).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use hq_model::{Body, OnClose, OutputSink};

    use super::*;

    fn check(change: impl FnOnce(&mut TaskSpec), entry: &str, expected: Result<usize, &str>) {
        let mut spec = TaskSpec { body: Body::program(["cmd"]), cwd: b"d".to_vec(), ..TaskSpec::default() };
        change(&mut spec);
        let told = Filled::new(&spec).bytes(3, entry.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(told, expected.map_err(str::to_owned), "{entry}");
    }

    #[test]
    fn what_stands_for_nothing_is_told_with_the_entry() {
        let field = |spec: &mut TaskSpec| spec.body = Body::program(["cmd", "x%{ENTRY.name}"]);
        check(field, r#"{"name":"ab"}"#, Ok(3));
        check(
            field,
            r#"{"names":1}"#,
            Err(
                "entry 3 (the first is 0): %{ENTRY.name} has no value: there is no field `name`; there are `names`",
            ),
        );
        check(
            field,
            "ab",
            Err(
                "entry 3 (the first is 0): %{ENTRY.name} has no value: the entry is not valid JSON (byte 0: \
                 not a value)",
            ),
        );
        check(|spec| spec.locality = Some(b"%{ENTRY.1}".to_vec()), "[1,2]", Ok(0));
        let item = |spec: &mut TaskSpec| spec.locality = Some(b"%{ENTRY.2}".to_vec());
        let told =
            "entry 3 (the first is 0): %{ENTRY.2} has no value: there is no item `2`; there are 0 to 1";
        check(item, "[1,2]", Err(told));
        check(|spec| spec.env = vec![(b"A".to_vec(), b"%{ENTRY_2}%{TASK_ID}".to_vec())], "a bc", Ok(12));
    }

    #[test]
    fn what_linux_does_not_take_is_told_with_the_entry() {
        let long = "x".repeat(ARGUMENT_BYTES_MAX / 2);
        check(|spec| spec.body = Body::program(["cmd", "%{ENTRY}"]), &long, Ok(65_536));
        check(
            |spec| spec.body = Body::program(["cmd", "%{ENTRY}%{ENTRY}"]),
            &long,
            Err(
                "argument 1 of the command has 131072 bytes with entry 3 (the first is 0); Linux accepts at most \
                 131071 there. Put it in a file, and use the name of the file in the entry",
            ),
        );
        check(
            |spec| spec.outputs = vec![b"%{ENTRY}".to_vec()],
            &"x".repeat(4096),
            Err(
                "--output has 4096 bytes with entry 3 (the first is 0); Linux accepts at most 4095 there. Put it in \
                a file, and use the name of the file in the entry",
            ),
        );
        let path = OutputSink::File { path: b"%{ENTRY_2}".to_vec(), on_close: OnClose::Keep };
        check(|spec| spec.stdout = path, "a", Err("--stdout is empty with entry 3 (the first is 0)"));
    }
}
