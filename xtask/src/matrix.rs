//! Plays the long form of the matrix of commands that read, whose short form is among the end-to-end tests.

use crate::exec;
use crate::place::Place;

/// Builds with optimization, and asks about jobs of so many tasks.
///
/// # Errors
/// When it does not build, or a command is wrong about a job or takes too much memory.
pub(crate) fn run(place: &Place, sizes: &[u32]) -> Result<(), String> {
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let mut command = place.cargo("test");
    command.args(["--quiet", "--locked", "--release", "--package", "hq", "--test", "e2e", "matrix"]);
    command.args(["--", "--nocapture", "--test-threads", "1"]).env("HQ_MATRIX_SIZES", sizes.join(","));
    exec::watched(&mut command)
}
