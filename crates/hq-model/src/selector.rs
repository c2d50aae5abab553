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
            ids => match of_task(ids) {
                Some((job, task)) => Err(IdSetError::OfTask { text: ids.into(), job, task }),
                None => ids.parse().map(Selector::Ids),
            },
        }
    }
}

// A task, as this program (`17@5`) and batch systems (`17_5`) write it. `1_000` is a number.
fn of_task(text: &str) -> Option<(u32, u32)> {
    let (job, task) = text.split_once(['@', '_'])?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_thousands = text.contains('_') && text.parse::<IdSet>().is_ok();
    if is_thousands || !is_number(job) || !is_number(task) {
        return None;
    }
    Some((job.parse().ok()?, task.parse().ok()?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_not_taken_for_a_job() {
        for (text, read) in [
            ("17", "17"),
            ("1_000", "1000"),
            ("all", "all"),
            (
                "17_5",
                "`17_5` is task 5 of job 17, and what is selected here are jobs: give 17, and `--tasks 5` where the command has that",
            ),
            (
                "31@0",
                "`31@0` is task 0 of job 31, and what is selected here are jobs: give 31, and `--tasks 0` where the command has that",
            ),
            ("5_", "`5_` is neither an id nor a range: use 5, 1-10 or 1-10:2"),
        ] {
            let said =
                text.parse::<Selector>().map_or_else(|error| error.to_string(), |read| read.to_string());
            assert_eq!(said, read);
        }
    }
}
