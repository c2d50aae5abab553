//! The directories into which runs write: they are made before anything starts, and whoever cannot be written to is said.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hq_make::{Makefile, Plan, Run};

use crate::error::HqError;

/// Makes those that are missing.
///
/// # Errors
/// When one cannot be made, or nothing can be written into it.
pub(super) fn prepare(make: &Makefile, plan: &Plan, workdir: Option<&Path>) -> Result<(), HqError> {
    if let Some(workdir) = workdir {
        usable(workdir).map_err(|error| {
            HqError::failed("io", format!("the directory {} of --workdir {error}", workdir.display()))
        })?;
    }
    let mut last: Option<&Run> = None;
    for run in plan.needed() {
        // Most runs are in the directory of the one before.
        if last.replace(run).is_some_and(|last| last.dir == run.dir) {
            continue;
        }
        usable(Path::new(OsStr::from_bytes(&run.dir))).map_err(|error| {
            let place = run
                .targets
                .first()
                .and_then(|target| Some(format!("{}: the target {target}: ", make.place_of_target(target)?)));
            let dir = &run.dir_shown;
            HqError::failed("io", format!("{}the directory {dir} {error}", place.unwrap_or_default()))
        })?;
    }
    Ok(())
}

// What is wrong follows its name in a sentence.
fn usable(dir: &Path) -> Result<(), String> {
    if let Err(error) = fs::create_dir_all(dir) {
        return Err(match error.kind() {
            io::ErrorKind::AlreadyExists => "is a file".to_owned(),
            _ => format!("cannot be created: {error}"),
        });
    }
    // Rights do not tell all: a file system may take nothing.
    tempfile::tempfile_in(dir).map(drop).map_err(|error| format!("cannot be written to: {error}"))
}
