//! What of a program is kept as the result of its task.

use std::fmt;
use std::str::FromStr;

use crate::ByteString;

/// Most bytes of the result of a program.
pub const TEXT_BYTES_MAX: usize = 4096;

/// Where the result of a program comes from when it has ended with success. Functions have theirs anyhow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResultFrom {
    /// It has none.
    #[default]
    Nothing,
    /// The last line of its standard output that is not empty.
    LastLine,
    /// All of its standard output.
    Stdout,
    /// A file, relative to the working directory; a path with placeholders.
    File(ByteString),
}

impl ResultFrom {
    /// True when there is to be one.
    pub fn is_some(&self) -> bool {
        *self != ResultFrom::Nothing
    }

    /// True when it is read from what the program prints.
    pub fn is_printed(&self) -> bool {
        matches!(self, ResultFrom::LastLine | ResultFrom::Stdout)
    }

    /// The path of the file that it is in, if it is in one of its own.
    pub fn path(&self) -> Option<&ByteString> {
        match self {
            ResultFrom::File(path) => Some(path),
            ResultFrom::Nothing | ResultFrom::LastLine | ResultFrom::Stdout => None,
        }
    }
}

/// As `--result` has it.
impl fmt::Display for ResultFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResultFrom::Nothing => f.write_str("none"),
            ResultFrom::LastLine => f.write_str("last-line"),
            ResultFrom::Stdout => f.write_str("stdout"),
            ResultFrom::File(path) => write!(f, "file:{}", String::from_utf8_lossy(path)),
        }
    }
}

impl FromStr for ResultFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<ResultFrom, String> {
        match text {
            "none" => Ok(ResultFrom::Nothing),
            "last-line" => Ok(ResultFrom::LastLine),
            "stdout" => Ok(ResultFrom::Stdout),
            _ => match text.strip_prefix("file:") {
                Some("") => Err("`file:` must be followed by a path, for example file:score.txt".to_owned()),
                Some(path) => Ok(ResultFrom::File(path.into())),
                None => Err(format!("`{text}` is neither none, last-line, stdout nor file:PATH")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read_as_it_is_written() {
        for text in ["none", "last-line", "stdout", "file:out/%{TASK_ID}", "file:a:b"] {
            assert_eq!(text.parse::<ResultFrom>().map(|from| from.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "file", "file:", "last", "Stdout"] {
            assert!(text.parse::<ResultFrom>().is_err(), "{text}");
        }
    }
}
