//! Builds the program and the benchmarks with optimization, and runs the benchmarks.

use crate::exec;
use crate::place::Place;

/// Runs the benchmarks named in `arguments`, or all.
///
/// # Errors
/// When something does not build or a benchmark cannot be done.
pub(crate) fn run(place: &Place, arguments: &[String]) -> Result<(), String> {
    let mut build = place.cargo("build");
    build.args(["--locked", "--release", "--package", "hq", "--package", "hq-bench"]);
    exec::watched(&mut build)?;
    let mut command = place.command(place.target.join("release/hq-bench"));
    command.arg("--hq").arg(place.target.join("release/hq")).args(arguments);
    exec::watched(&mut command)
}
