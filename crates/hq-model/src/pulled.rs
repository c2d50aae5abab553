//! The entry of a pulled task: its name, and what is to be done with it.
//!
//! Whoever takes such a task is told both. Relays know tasks by what they are handed, and that is the entry: so the name,
//! which is the key of the task in its job, is in the entry, too.

use std::collections::BTreeSet;

use crate::{ByteString, key};

/// Longest payload, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// Tags of a task, and of whoever takes tasks, at most.
pub const TAGS_MAX: usize = 16;
/// Longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 64;

/// Tags in order, each once.
///
/// # Errors
/// Says what is wrong with one, or that there are too many.
pub fn tags_of(tags: &[String]) -> Result<Vec<String>, String> {
    let is_plain = |tag: &&String| {
        tag.len() <= TAG_BYTES_MAX
            && tag.starts_with(|c: char| c.is_ascii_alphanumeric())
            && tag.chars().all(is_in_tag)
    };
    if let Some(bad) = tags.iter().find(|tag| !is_plain(tag)) {
        return Err(format!(
            "`{}` is no tag: use 1 to {TAG_BYTES_MAX} letters, digits, `_`, `-`, `.` or `:`, beginning with a letter or digit",
            bad.escape_debug()
        ));
    }
    let tags: BTreeSet<&String> = tags.iter().collect();
    if tags.len() > TAGS_MAX {
        return Err(format!("{} tags are too many: the limit is {TAGS_MAX}", tags.len()));
    }
    Ok(tags.into_iter().cloned().collect())
}

fn is_in_tag(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
}

/// Puts a name and a payload into one entry: the length of the name in two bytes, the name, the payload.
///
/// # Panics
/// When the name is longer than any name may be.
pub fn entry_of(name: &[u8], payload: &[u8]) -> ByteString {
    assert!(name.len() <= key::PULLED_NAME_BYTES_MAX, "names of pulled tasks are checked before");
    let mut entry = ByteString::with_capacity(2 + name.len() + payload.len());
    entry.extend_from_slice(&(name.len() as u16).to_be_bytes());
    entry.extend_from_slice(name);
    entry.extend_from_slice(payload);
    entry
}

/// The name and the payload in an entry; `None` when it is of no pulled task.
pub fn parts_of(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = entry.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_plain_words_in_order() {
        let told = |tags: &[&str]| tags_of(&tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>());
        assert_eq!(told(&["gpu", "cuda:12.4", "gpu"]), Ok(vec!["cuda:12.4".to_owned(), "gpu".to_owned()]));
        for bad in ["", "a b", "a/b", "-a", "größe", "a\n", &"x".repeat(65)] {
            let error = told(&["a", bad]).expect_err(bad);
            assert!(error.contains("is no tag: use 1 to 64 letters"), "{error}");
        }
        let many: Vec<String> = (0..17).map(|tag| tag.to_string()).collect();
        assert_eq!(tags_of(&many), Err("17 tags are too many: the limit is 16".to_owned()));
    }

    #[test]
    fn an_entry_holds_a_name_and_a_payload() {
        for (name, payload) in [("a", ""), ("a", "ligand 1"), ("echo 1", "\n\0"), ("größe", "x")] {
            let entry = entry_of(name.as_bytes(), payload.as_bytes());
            assert_eq!(parts_of(&entry), Some((name.as_bytes(), payload.as_bytes())));
        }
        let long = [b'x'; key::PULLED_NAME_BYTES_MAX];
        assert_eq!(parts_of(&entry_of(&long, b"p")), Some((&long[..], &b"p"[..])));
    }

    #[test]
    fn what_is_cut_off_is_no_entry() {
        for bytes in [&b""[..], b"\0", b"\0\x02a", b"\xff\xffabc"] {
            assert_eq!(parts_of(bytes), None, "{bytes:?}");
        }
    }
}
