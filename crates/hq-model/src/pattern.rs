//! Placeholders: `%{NAME}` in texts, expanded for each task. What is no known name stays as it is.

use crate::ByteString;
use crate::entry::ENTRY;

/// Every name that is expanded for all tasks; those of entries are [another matter](crate::entry).
pub const KNOWN: [&str; 6] = ["SERVER_UID", "JOB_ID", "TASK_ID", "INSTANCE_ID", "SUBMIT_DIR", "CWD"];

/// A text with its placeholders found beforehand: expanding costs a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(ByteString),
    Name(String),
}

impl Pattern {
    /// Finds the placeholders of a text.
    pub fn new(text: &[u8]) -> Pattern {
        let mut parts = Vec::new();
        let mut plain = ByteString::new();
        let mut rest = text;
        while let Some((&byte, after)) = rest.split_first() {
            if let Some((name, after)) = placeholder(rest) {
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Name(name.into()));
                rest = after;
            } else {
                plain.push(byte);
                rest = after;
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Pattern { parts }
    }

    /// The names in the text, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Name(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// True when `name` occurs.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Appends the text with its placeholders replaced; `lookup` appends a value and says whether it had one.
    pub fn expand_into(&self, out: &mut ByteString, lookup: &dyn Fn(&str, &mut ByteString) -> bool) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Name(name) => {
                    if !lookup(name, out) {
                        out.extend_from_slice(b"%{");
                        out.extend_from_slice(name.as_bytes());
                        out.push(b'}');
                    }
                }
            }
        }
    }

    /// Replaces what is known now and keeps the rest as placeholders.
    pub fn partial(&self, lookup: &dyn Fn(&str) -> Option<ByteString>) -> Pattern {
        let mut text = ByteString::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.extend_from_slice(plain),
                Part::Name(name) => match lookup(name) {
                    Some(value) => text.extend_from_slice(&value),
                    None => {
                        text.extend_from_slice(b"%{");
                        text.extend_from_slice(name.as_bytes());
                        text.push(b'}');
                    }
                },
            }
        }
        Pattern::new(&text)
    }
}

/// Expands a text once.
pub fn expand(text: &[u8], lookup: &dyn Fn(&str) -> Option<Vec<u8>>) -> ByteString {
    let mut out = ByteString::new();
    Pattern::new(text).expand_into(&mut out, &|name, out| match lookup(name) {
        Some(value) => {
            out.extend_from_slice(&value);
            true
        }
        None => false,
    });
    out
}

/// The placeholder names in a text, in order.
pub fn names(text: &[u8]) -> Vec<String> {
    Pattern::new(text).names().map(str::to_owned).collect()
}

fn placeholder(text: &[u8]) -> Option<(&str, &[u8])> {
    let rest = text.strip_prefix(b"%{")?;
    let end = rest.iter().position(|b| *b == b'}')?;
    let name = std::str::from_utf8(&rest[..end]).ok()?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    // Names of fields are whatever users call them. Told in another case they are no placeholder, but may be meant as one.
    let is_of_json = name.split_once('.').is_some_and(|(entry, _)| entry.eq_ignore_ascii_case(ENTRY));
    (is_name || is_of_json).then_some((name, &rest[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_replaced_and_others_stay() {
        let lookup = |name: &str| (name == "TASK_ID").then(|| b"7".to_vec());
        for (text, expanded) in [
            ("%{TASK_ID}", "7"),
            ("a%{TASK_ID}b%{TASK_ID}", "a7b7"),
            ("%{OTHER}/%{TASK_ID}", "%{OTHER}/7"),
            ("100%", "100%"),
            ("%{TASK_ID", "%{TASK_ID"),
            ("%%{TASK_ID}", "%7"),
            ("%{}", "%{}"),
            ("%{ENTRY.a-b c.0}%{TASK_ID}", "%{ENTRY.a-b c.0}7"),
        ] {
            assert_eq!(String::from_utf8(expand(text.as_bytes(), &lookup)), Ok(expanded.into()), "{text}");
        }
    }

    #[test]
    fn fields_of_entries_have_any_name() {
        let found = names("%{ENTRY.a-b c.0} %{entry.é} %{ENTRY.} %{ENTRY-x} %{OTHER.x}".as_bytes());
        assert_eq!(found, ["ENTRY.a-b c.0", "entry.é", "ENTRY."]);
    }

    proptest::proptest! {
        #[test]
        fn text_without_known_names_stays_byte_for_byte(text: Vec<u8>) {
            proptest::prop_assert_eq!(expand(&text, &|_| None), text);
        }
    }
}
