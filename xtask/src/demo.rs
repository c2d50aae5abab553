//! `cargo xtask demo`: a small real job on the cluster that `hq run` embeds, with nothing but what the
//! repository ships.

use std::time::Duration;

use crate::place::Place;
use crate::{exec, generated};

/// The script that does it, below the workspace.
const SCRIPT: &str = "examples/motif/run.sh";

/// Builds the program and shows the job and its result.
///
/// # Errors
/// When the program does not build or the result is not the known one.
pub(crate) fn run(place: &Place) -> Result<(), String> {
    println!("Building hq (the first time takes a few minutes) ...");
    generated::build(place)?;
    exec::watched(&mut example(place, SCRIPT))
}

/// A command that runs an example with the program that was built.
pub(crate) fn example(place: &Place, script: &str) -> std::process::Command {
    let search = std::env::var("PATH").unwrap_or_default();
    let mut command = place.command("bash");
    command
        .arg(place.root.join(script))
        .env("PATH", format!("{}:{search}", place.target.join("debug").display()));
    command
}

/// Does the same as a step of the tests.
///
/// # Errors
/// When the result is not the known one.
pub(crate) fn check(place: &Place, limit: Duration, log: &std::path::Path) -> Result<(), String> {
    exec::demand(&mut example(place, SCRIPT), limit, log, &place.mark).map(drop)
}
