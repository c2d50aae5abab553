//! Values of job files that can be written in several ways.

use std::fmt::{Display, Formatter, Result};

use serde::Deserialize;

/// A number, or a text as on the command line.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Word {
    Whole(i64),
    Number(f64),
    Text(String),
}

impl Display for Word {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Word::Whole(number) => number.fmt(f),
            Word::Number(number) => number.fmt(f),
            Word::Text(text) => text.fmt(f),
        }
    }
}

/// What a task reads: a text, or bytes one by one.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Stdin {
    Text(String),
    Bytes(Vec<u8>),
}

impl Stdin {
    /// Its bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self {
            Stdin::Text(text) => text.into_bytes(),
            Stdin::Bytes(bytes) => bytes,
        }
    }
}
