//! Which jobs, tasks or workers a command means: `1,3-5`, `all`, `last`.

use crate::IdSet;

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
