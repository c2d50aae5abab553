//! Keys: names of tasks that are unique in their job, so that creating a task twice makes it once.

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 200;
/// Longest name of a pulled task, in bytes.
pub const PULLED_NAME_BYTES_MAX: usize = 4096;

/// A text that is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing.
    #[error("a key is empty")]
    Empty,
    /// Too much.
    #[error("the key `{start}…` has {bytes} bytes, but at most {most} are allowed")]
    Long {
        /// How it begins.
        start: String,
        /// Its length.
        bytes: usize,
        /// What is allowed.
        most: usize,
    },
    /// Could be taken for ids of tasks.
    #[error("the key `{0}` begins with a digit like a task id; put a letter in front")]
    Digit(String),
    /// Is an id of a task.
    #[error("`{0}` looks like the id of a task; put a letter in front")]
    Id(String),
    /// Stands for standard input.
    #[error("`-` means standard input; use another name")]
    Dash,
    /// Would break lines and tables.
    #[error(
        "the key `{0}` is not plain text: control characters and bytes that are not UTF-8 are not allowed"
    )]
    Unprintable(String),
}

/// Checks a key: text of 1 to [`KEY_BYTES_MAX`] bytes without control characters that does not begin with a digit.
///
/// # Errors
/// When it is none.
pub fn check_key(key: &[u8]) -> Result<(), KeyError> {
    if key.first().is_some_and(u8::is_ascii_digit) && key.len() <= KEY_BYTES_MAX {
        return Err(KeyError::Digit(shown(key)));
    }
    check_text(key, KEY_BYTES_MAX)
}

/// Checks the name of a pulled task, which is its key: text of 1 to [`PULLED_NAME_BYTES_MAX`] bytes without control
/// characters. It may begin with a digit, but not look like an id such as `4@17`, nor be `-`: commands take these for
/// something else.
///
/// # Errors
/// When it is none.
pub fn check_pulled_name(name: &[u8]) -> Result<(), KeyError> {
    if name == b"-" {
        return Err(KeyError::Dash);
    }
    if is_task_id(name) {
        return Err(KeyError::Id(shown(name)));
    }
    check_text(name, PULLED_NAME_BYTES_MAX)
}

/// True of `4@17`: digits, an `@`, and digits.
pub fn is_task_id(text: &[u8]) -> bool {
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let at = text.iter().position(|byte| *byte == b'@');
    at.is_some_and(|at| is_number(&text[..at]) && is_number(&text[at + 1..]))
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

fn check_text(key: &[u8], most: usize) -> Result<(), KeyError> {
    if key.is_empty() {
        return Err(KeyError::Empty);
    }
    if key.len() > most {
        return Err(KeyError::Long { start: shown(&key[..32]), bytes: key.len(), most });
    }
    let is_plain = if key.is_ascii() {
        key.iter().all(|byte| !byte.is_ascii_control())
    } else {
        std::str::from_utf8(key).is_ok_and(|text| !text.contains(char::is_control))
    };
    if is_plain { Ok(()) } else { Err(KeyError::Unprintable(shown(key))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_short_plain_texts() {
        for key in ["a", "dock-17", "CC(=O)Oc1ccccc1C(=O)O", "ligand 3, again", "é"] {
            assert_eq!(check_key(key.as_bytes()), Ok(()), "{key}");
        }
        for (key, expected) in [
            (&b""[..], "a key is empty"),
            (b"17", "the key `17` begins with a digit like a task id; put a letter in front"),
            (
                b"a\nb",
                "the key `a\\nb` is not plain text: control characters and bytes that are not UTF-8 are not allowed",
            ),
            (
                b"a\xff",
                "the key `a\u{fffd}` is not plain text: control characters and bytes that are not UTF-8 are not allowed",
            ),
        ] {
            assert_eq!(check_key(key).expect_err("no key").to_string(), expected);
        }
        for name in [&b"17"[..], b"echo 1", "größe".as_bytes(), &[b'x'; 4096]] {
            assert_eq!(check_pulled_name(name), Ok(()));
        }
        assert_eq!(check_pulled_name(b""), Err(KeyError::Empty));
        for name in ["4@17x", "a@1", "4@", "@4", "--", "4@1@7"] {
            assert_eq!(check_pulled_name(name.as_bytes()), Ok(()), "{name}");
        }
        let told = |name: &[u8]| check_pulled_name(name).expect_err("taken for something else").to_string();
        assert_eq!(told(b"4@17"), "`4@17` looks like the id of a task; put a letter in front");
        assert_eq!(told(b"-"), "`-` means standard input; use another name");
        assert!(check_pulled_name(b"a\0b").is_err() && check_pulled_name(&[b'x'; 4097]).is_err());
        let long = check_key(&[b'x'; 201]).expect_err("too long").to_string();
        assert!(long.contains("has 201 bytes, but at most 200 are allowed"), "{long}");
    }
}
