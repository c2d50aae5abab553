//! `rules.yaml` and `targets.yaml`: what they say, which runs they ask for, which of them are needed and why.
//!
//! Everything here is pure: texts, the state of files, digests and Python come in as arguments, and plans, texts and
//! pictures come out. [`read`] makes a [`Makefile`] of the two files, [`plan`](plan()) makes a [`Plan`] of it, of what is
//! [`Wanted`] and of the [`World`]; [`mod@explain`], [`picture`] and [`summary`] show plans, and [`order`] says what goes first.

pub mod explain;
mod expression;
mod format;
#[doc(hidden)]
pub mod fuzzing;
pub mod known;
pub mod limits;
mod makefile;
pub mod order;
mod paths;
mod pattern;
pub mod picture;
mod plan;
mod problem;
pub mod python;
mod read;
mod search;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod value;
mod world;
mod yaml;

pub use explain::{explain, files_called, why};
pub use known::Known;
pub use makefile::Makefile;
pub use plan::{
    FileId, FileState, Force, Plan, Reason, Rerun, Resources, Run, RunId, RunState, Wanted, WantedFile,
};
pub use problem::{AMBIGUOUS_RULE, BAD_INPUT, NO_RULE, Place, Problem, RULE_CYCLE};
pub use read::{Source, read};
pub use search::plan;
pub use value::Value;
pub use world::{Digests, Facts, Files, Python, World};
