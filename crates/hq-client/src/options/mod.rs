//! The one definition of every option of a submit: read from flags and from `#HQ` lines alike, and
//! turned into the model's [`Submit`](hq_model::Submit) in one place.

mod broadcast;
mod call;
mod checks;
mod dependencies;
mod directives;
mod entries;
mod error;
pub mod feed;
mod filled;
mod function;
mod graph;
pub mod id_file;
mod job;
mod job_feed;
mod job_file;
mod job_group;
mod job_tables;
mod job_values;
pub mod notices;
mod objects;
mod opened;
mod packed;
mod placeholders;
mod prepare;
mod same_paths;
mod submit;
mod task;
pub mod values;
mod warnings;
mod word;

pub use broadcast::behind;
pub use call::call_spec;
pub use dependencies::DependencyOptions;
pub use directives::{Defaults, Directives, message, parse as parse_directives};
pub use entries::{each_line, from_json};
pub use error::OptionsError;
pub use job::{ArrayOptions, JobOptions, WaitOptions};
pub use job_file::{PreparedFile, prepare_file, prepare_json};
pub use job_group::{JobFile, PreparedJobs, prepare_job_file};
pub use opened::open_spec;
pub use packed::PackedCall;
pub use prepare::{Prepared, Surroundings, prepare};
pub use submit::{CommandOptions, CommonOptions, DirectivesArg, RunOptions, SubmitOptions};
pub use task::{ExecutionOptions, FailureOptions, OutputOptions, PinArg, ResourceOptions, TaskOptions};

#[cfg(test)]
mod tests;
