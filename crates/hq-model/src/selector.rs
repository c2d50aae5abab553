//! Which jobs, tasks or workers a command means: `1,3-5`, `all`, `last`.

use std::fmt;
use std::str::FromStr;

use crate::IdSet;
use crate::idset::IdSetError;

/// A selection of jobs or workers. Ids are held as an [`IdSet`] whatever they count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Everything there is.
    All,
    /// The one with the largest id.
    Last,
    /// These; never empty.
    Ids(IdSet),
}

impl FromStr for Selector {
    type Err = IdSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "all" => Ok(Selector::All),
            "last" => Ok(Selector::Last),
            ids => ids.parse().map(Selector::Ids),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::All => f.write_str("all"),
            Selector::Last => f.write_str("last"),
            Selector::Ids(ids) => ids.fmt(f),
        }
    }
}
