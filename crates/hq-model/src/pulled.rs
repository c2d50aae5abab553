//! The entry of a pulled task: its name, and what is to be done with it.
//!
//! Whoever takes such a task is told both. Relays know tasks by what they are handed, and that is the entry: so the name,
//! which is the key of the task in its job, is in the entry, too.

use crate::{ByteString, key};

/// Longest payload, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;

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
