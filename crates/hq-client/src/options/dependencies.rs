//! What the tasks of a submit wait for, as options.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use hq_model::Dependencies;
use hq_model::dependency::{After, Condition, Mapping};

use super::error::OptionsError;
use super::values;

/// Tasks and jobs that go before.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Dependencies")]
pub struct DependencyOptions {
    /// Start when this job, or these tasks of it, have finished
    ///
    /// Can be repeated. If one of them ends without success, the dependent tasks are aborted, with that task as the
    /// reason. A whole job must also be closed.
    ///
    /// Examples: `--after 3`, `--after last`, `--after 3@0-9,17`.
    #[arg(long, allow_hyphen_values = true, value_name = "JOB[@TASKS]")]
    pub after: Vec<After>,

    /// Start when this job, or these tasks of it, have ended, successfully or not
    #[arg(long, allow_hyphen_values = true, value_name = "JOB[@TASKS]")]
    pub after_any: Vec<After>,

    /// Start when this file or directory exists, as the server sees it
    ///
    /// Can be repeated. The server checks once a second. The path is relative to the current directory.
    #[arg(long, value_name = "PATH", value_parser = OsStringValueParser::new().try_map(values::path))]
    pub after_file: Vec<OsString>,

    /// Wait task by task: the first task for the first one of --after, the second for the second, and so on
    ///
    /// Both sides must have the same number of tasks.
    #[arg(long, conflicts_with = "window")]
    pub each: bool,

    /// Wait task by task, including K neighbors on both sides
    #[arg(long, allow_hyphen_values = true, value_name = "K")]
    pub window: Option<u32>,
}

impl DependencyOptions {
    pub(super) fn over(self, script: DependencyOptions) -> DependencyOptions {
        let mapped = self.each || self.window.is_some();
        DependencyOptions {
            after: [script.after, self.after].concat(),
            after_any: [script.after_any, self.after_any].concat(),
            after_file: [script.after_file, self.after_file].concat(),
            each: if mapped { self.each } else { script.each },
            window: if mapped { self.window } else { script.window },
        }
    }

    /// The dependencies described; relative paths of files start at `dir`.
    ///
    /// # Errors
    /// When tasks are to be mapped to nothing.
    pub(super) fn dependencies(self, dir: &[u8]) -> Result<Dependencies, OptionsError> {
        let mapping = match (self.each, self.window) {
            (false, None) => Mapping::All,
            (true, _) => Mapping::Window(0),
            (false, Some(size)) => Mapping::Window(size),
        };
        let with = |condition| move |after: After| After { condition, mapping, ..after };
        let after = self.after.into_iter().map(with(Condition::Success));
        let after: Vec<After> =
            after.chain(self.after_any.into_iter().map(with(Condition::AnyEnd))).collect();
        if after.is_empty() && mapping != Mapping::All {
            let option = if self.each { "--each" } else { "--window" };
            return Err(OptionsError::Needs(option, "--after or --after-any"));
        }
        let dir = Path::new(OsStr::from_bytes(dir));
        let files = self.after_file.iter().map(|file| dir.join(file).into_os_string().into_vec()).collect();
        Ok(Dependencies { after, files, ..Dependencies::default() })
    }
}
