//! The entry of one task, and what placeholders say of it: all of it, one of its words, or a part of its JSON.

use std::borrow::Cow;
use std::sync::OnceLock;

use crate::json::{Json, JsonError, NotThere};
use crate::{ByteString, TaskSpec, pattern};

/// Longest entry of which parts are read as JSON; of a longer one they are not there.
pub const JSON_BYTES_MAX: usize = 1 << 20;

/// The entry of a task. Its JSON is read when a part of it is asked for first, and once.
#[derive(Clone, Debug, Default)]
pub struct Entry<'a> {
    text: Cow<'a, [u8]>,
    json: OnceLock<Result<Json, JsonError>>,
}

/// What a placeholder says of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    /// `ENTRY`: all of it.
    Whole,
    /// `ENTRY_K`: a word of it, counted from 0 here and from 1 by users. Nothing where there are not so many.
    Word(usize),
    /// `ENTRY.NAME.NAME…`: a part of its JSON.
    Json(&'a str),
}

impl Part<'_> {
    fn of(name: &str) -> Option<Part<'_>> {
        let rest = name.strip_prefix(ENTRY)?;
        if rest.is_empty() {
            return Some(Part::Whole);
        }
        if let Some(path) = rest.strip_prefix('.') {
            return Some(Part::Json(path));
        }
        let number = rest.strip_prefix('_')?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<usize>().ok().filter(|_| is_number)?.checked_sub(1).map(Part::Word)
    }
}

/// How names of placeholders for entries begin.
pub const ENTRY: &str = "ENTRY";

/// Why a placeholder stands for nothing in an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It is no JSON.
    #[error("%{{{name}}} has no value: the entry is not valid JSON ({error})")]
    NoJson {
        /// The placeholder.
        name: String,
        /// Why.
        error: JsonError,
    },
    /// It is JSON, without such a part.
    #[error("%{{{name}}} has no value: {error}")]
    NotThere {
        /// The placeholder.
        name: String,
        /// What is there instead.
        error: NotThere,
    },
    /// No program can be given that.
    #[error("%{{{name}}} is a value with a NUL byte, which cannot be passed to a program")]
    Nul {
        /// The placeholder.
        name: String,
    },
}

impl<'a> Entry<'a> {
    /// Of this text.
    pub fn new(text: impl Into<Cow<'a, [u8]>>) -> Entry<'a> {
        Entry { text: text.into(), json: OnceLock::new() }
    }

    /// All of it.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// What the placeholder stands for; `None` when that is of no entry.
    ///
    /// # Errors
    /// Why it stands for nothing.
    pub fn value(&self, name: &str) -> Option<Result<&[u8], EntryError>> {
        Some(match Part::of(name)? {
            Part::Whole => Ok(self.text()),
            Part::Word(place) => {
                let mut words = self.text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
                Ok(words.nth(place).unwrap_or_default())
            }
            Part::Json(path) => self.part(name, path),
        })
    }

    fn part(&self, name: &str, path: &str) -> Result<&[u8], EntryError> {
        let parse = || {
            let is_short = self.text.len() <= JSON_BYTES_MAX;
            let too_long = JsonError { place: JSON_BYTES_MAX, what: "at most 1 MiB is read" };
            if is_short { Json::parse(&self.text) } else { Err(too_long) }
        };
        let json = self.json.get_or_init(parse).as_ref();
        let json = json.map_err(|error| EntryError::NoJson { name: name.into(), error: error.clone() })?;
        let path = Some(path).filter(|path| !path.is_empty()).into_iter().flat_map(|path| path.split('.'));
        let found = json.find(path).map_err(|error| EntryError::NotThere { name: name.into(), error })?;
        Ok(found.word(&self.text))
    }

    /// Whether a program can be given what these placeholders stand for.
    ///
    /// # Errors
    /// Why not.
    pub fn check<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> Result<(), EntryError> {
        for name in names {
            match self.value(name) {
                Some(Ok(value)) if value.contains(&0) => return Err(EntryError::Nul { name: name.clone() }),
                Some(Err(error)) => return Err(error),
                Some(Ok(_)) | None => {}
            }
        }
        Ok(())
    }

    /// Appends what the placeholder stands for, and says whether it stands for anything.
    pub fn append(&self, name: &str, out: &mut ByteString) -> bool {
        let Some(Ok(value)) = self.value(name) else { return false };
        out.extend_from_slice(value);
        true
    }
}

// What was read of it changes nothing.
impl PartialEq for Entry<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Entry<'_> {}

/// True of the name of a placeholder that stands for something of an entry.
pub fn is_of_entry(name: &str) -> bool {
    Part::of(name).is_some()
}

impl TaskSpec {
    /// The placeholders for entries in all that is replaced for each task.
    pub fn names_of_entry(&self) -> Vec<String> {
        let values = self.env.iter().map(|(_, value)| value);
        names(self.body.texts().iter().chain(values).chain(self.path_texts()))
    }

    /// True when where its tasks work or print, or what they leave behind, depends on their entries.
    pub fn has_paths_of_entry(&self) -> bool {
        !names(self.path_texts()).is_empty()
    }

    fn path_texts(&self) -> impl Iterator<Item = &ByteString> {
        let sinks = [self.stdout.path(), self.stderr.path()];
        [&self.cwd]
            .into_iter()
            .chain(sinks.into_iter().flatten())
            .chain(&self.outputs)
            .chain(self.result.path())
            .chain(self.output_objects.iter().map(|object| &object.path))
            .chain(self.input_objects.iter().filter_map(|object| object.path.as_ref()))
    }
}

fn names<'a>(texts: impl Iterator<Item = &'a ByteString>) -> Vec<String> {
    // Nearly none has any, and that is soon seen.
    const MARK: &[u8] = b"%{ENTRY";
    let texts = texts.filter(|text| text.windows(MARK.len()).any(|part| part == MARK));
    let mut names: Vec<String> = texts.flat_map(|text| pattern::names(text)).collect();
    names.retain(|name| is_of_entry(name));
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Body;

    fn check(entry: &str, name: &str, expected: &str) {
        let entry = Entry::new(entry.as_bytes());
        let told = match entry.value(name) {
            None => "no name".to_owned(),
            Some(Ok(value)) => String::from_utf8_lossy(value).into_owned(),
            Some(Err(error)) => error.to_string(),
        };
        assert_eq!(told, expected, "{name} of {entry:?}");
    }

    #[test]
    fn placeholders_say_all_of_it_a_word_or_a_part() {
        for (entry, name, expected) in [
            ("query1  block2", "ENTRY", "query1  block2"),
            ("query1  block2", "ENTRY_1", "query1"),
            ("query1\t block2", "ENTRY_2", "block2"),
            ("query1", "ENTRY_2", ""),
            ("query1", "ENTRY_0", "no name"),
            ("query1", "ENTRY_x", "no name"),
            ("query1", "ENTRY_+1", "no name"),
            ("query1", "ENTRY_", "no name"),
            ("query1", "ENTRYX", "no name"),
            ("query1", "TASK_ID", "no name"),
            (r#""a b""#, "ENTRY", r#""a b""#),
            (r#""a b""#, "ENTRY.", "a b"),
            (r#"{"a":{"b":[1,"x"]}}"#, "ENTRY.a.b.1", "x"),
            (r#"{"a":{"b":[1,"x"]}}"#, "ENTRY.a.b", r#"[1,"x"]"#),
            (r#"{"a":null}"#, "ENTRY.a", ""),
            (r#"{"my-key":2}"#, "ENTRY.my-key", "2"),
            (
                "query1",
                "ENTRY.a",
                "%{ENTRY.a} has no value: the entry is not valid JSON (byte 0: not a value)",
            ),
            (r#"{"a":1}"#, "ENTRY.b", "%{ENTRY.b} has no value: there is no field `b`; there are `a`"),
        ] {
            check(entry, name, expected);
        }
    }

    #[test]
    fn a_nul_byte_is_given_to_no_program() {
        let names = ["ENTRY".to_owned(), "ENTRY.a".to_owned()];
        let entry = Entry::new(&br#"{"a":"x\u0000"}"#[..]);
        assert_eq!(entry.check(&names[..1]), Ok(()));
        assert_eq!(entry.check(&names), Err(EntryError::Nul { name: "ENTRY.a".into() }));
        assert_eq!(Entry::new(&b"a\0"[..]).check(&names[..1]), Err(EntryError::Nul { name: "ENTRY".into() }));
    }

    #[test]
    fn a_long_entry_is_not_read_as_json() {
        let long = format!("[{}1]", "1,".repeat(JSON_BYTES_MAX / 2));
        let error = Entry::new(long.into_bytes()).value("ENTRY.0").expect("a name").expect_err("too long");
        assert_eq!(
            error.to_string(),
            "%{ENTRY.0} has no value: the entry is not valid JSON (byte 1048576: at most 1 MiB is read)"
        );
    }

    #[test]
    fn what_depends_on_entries_is_found() {
        let spec = |cwd: &str| TaskSpec {
            body: Body::program(["cmd", "%{ENTRY_2}", "%{TASK_ID}", "%{entry}"]),
            env: vec![(b"%{ENTRY_9}".to_vec(), b"x%{ENTRY}".to_vec())],
            cwd: cwd.into(),
            ..TaskSpec::default()
        };
        assert_eq!(spec("d").names_of_entry(), ["ENTRY", "ENTRY_2"]);
        assert!(!spec("d").has_paths_of_entry() && !spec("%{ENTRYX}").has_paths_of_entry());
        assert!(spec("%{ENTRY.dir}").has_paths_of_entry());
    }
}
