//! How outputs that many tasks have in common are made smaller on the disk, and how users write it.

use std::fmt;
use std::str::FromStr;

/// How what goes to a stream is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    /// As it was printed.
    #[default]
    None,
    /// Each block as a frame of zstd.
    Zstd(ZstdLevel),
}

/// How hard zstd tries: from 1 to 19.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZstdLevel(u8);

/// What is no compression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    /// Another word.
    #[error("`{0}` is not a compression method: use zstd, zstd:LEVEL or none")]
    Unknown(String),
    /// Another level.
    #[error("`{0}` is not a zstd level: use a whole number from 1 to {max}", max = ZstdLevel::MAX.0)]
    Level(String),
}

impl ZstdLevel {
    /// What zstd itself takes where no level is named.
    pub const DEFAULT: ZstdLevel = ZstdLevel(3);
    /// Beyond it, zstd needs more memory than what it saves is worth in blocks as short as those of streams.
    pub const MAX: ZstdLevel = ZstdLevel(19);

    /// A level, if it is one.
    pub fn new(level: u32) -> Option<ZstdLevel> {
        u8::try_from(level).ok().filter(|level| (1..=ZstdLevel::MAX.0).contains(level)).map(ZstdLevel)
    }

    /// The number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl FromStr for Compression {
    type Err = CompressionError;

    fn from_str(text: &str) -> Result<Compression, CompressionError> {
        let level = match text.split_once(':') {
            None if text == "none" => return Ok(Compression::None),
            None if text == "zstd" => return Ok(Compression::Zstd(ZstdLevel::DEFAULT)),
            Some(("zstd", level)) => level,
            _ => return Err(CompressionError::Unknown(text.to_owned())),
        };
        let parsed = level.parse().ok().and_then(ZstdLevel::new);
        parsed.map(Compression::Zstd).ok_or_else(|| CompressionError::Level(level.to_owned()))
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::None => f.write_str("none"),
            Compression::Zstd(level) => write!(f, "zstd:{}", level.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_users_of_other_tools_write_it() {
        let table = [
            ("none", "none"),
            ("zstd", "zstd:3"),
            ("zstd:1", "zstd:1"),
            ("zstd:19", "zstd:19"),
            ("zstd:0", "`0` is not a zstd level: use a whole number from 1 to 19"),
            ("zstd:20", "`20` is not a zstd level: use a whole number from 1 to 19"),
            ("zstd:", "`` is not a zstd level: use a whole number from 1 to 19"),
            ("gzip", "`gzip` is not a compression method: use zstd, zstd:LEVEL or none"),
            ("gzip:9", "`gzip:9` is not a compression method: use zstd, zstd:LEVEL or none"),
            ("", "`` is not a compression method: use zstd, zstd:LEVEL or none"),
        ];
        for (text, expected) in table {
            let parsed = text.parse::<Compression>();
            assert_eq!(parsed.map_or_else(|error| error.to_string(), |own| own.to_string()), expected);
        }
    }
}
