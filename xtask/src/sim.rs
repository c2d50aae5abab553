//! Calls the simulator: to explore for as long as a person asks, or for a few minutes in a test, with
//! the commit as seed.

use std::path::Path;
use std::time::Duration;

use crate::exec;
use crate::place::Place;
use crate::steps::{Outcome, StepResult};

/// How long the tests let it explore.
const EXPLORE: Duration = Duration::from_secs(180);
/// How much longer it may take until it has ended.
const GRACE: Duration = Duration::from_secs(120);

/// Builds the simulator, with optimization and every check, and runs it.
///
/// # Errors
/// When it does not build, or finds something.
pub(crate) fn run(place: &Place, arguments: &[String]) -> Result<(), String> {
    let mut command = place.cargo("run");
    command.args(["--quiet", "--locked", "--profile", "sim", "--package", "hq-sim", "--"]).args(arguments);
    exec::watched(&mut command)
}

/// Explores for some minutes, with the hash of the commit as seed.
///
/// # Errors
/// When it finds something; the output says how to see it again.
pub(crate) fn explore(place: &Place, log: &Path) -> StepResult {
    let mut build = place.cargo("build");
    build.args(["--quiet", "--locked", "--profile", "sim", "--package", "hq-sim", "--bin", "hq-sim"]);
    exec::demand(&mut build, Duration::from_secs(900), log, &place.mark)?;
    let commit = commit(place);
    let mut command = place.command(place.target.join("sim/hq-sim"));
    command.args(["--seconds", &EXPLORE.as_secs().to_string(), "--seed", &commit]);
    let ended = exec::demand(&mut command, EXPLORE + GRACE, log, &place.mark)?;
    let summary = ended.text.lines().find(|line| line.contains("seeds")).unwrap_or_default().to_owned();
    Ok(Outcome::Passed(1, summary))
}

/// The commit that is checked out; zeros where there is no git.
pub(crate) fn commit(place: &Place) -> String {
    let output = place.command("git").args(["rev-parse", "HEAD"]).output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "0".repeat(40),
    }
}
