//! Files that are made from others: the Rust types of the wire, and the reference of the command line.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::r#gen::{self, Outcome};
use crate::place::Place;

/// The reference of the command line, below the workspace.
const CLI_REFERENCE: &str = "docs/reference/cli.md";

/// Writes the generated files, or with `check_only` says which are stale.
///
/// # Errors
/// When one is stale, or could not be made.
pub(crate) fn run(place: &Place, check_only: bool) -> Result<(), String> {
    // The program may need the types that are generated now.
    let types = r#gen::run(&place.root, check_only).map_err(|error| error.to_string())?;
    build(place)?;
    let mut changed = make(place, check_only).map_err(|error| error.to_string())?;
    if let Outcome::Changed(paths) = types {
        changed.extend(paths);
    }
    changed.sort();
    changed.dedup();
    for path in &changed {
        println!("{} {}", if check_only { "stale:" } else { "wrote" }, path.display());
    }
    if check_only && !changed.is_empty() { Err("run `cargo xtask gen`".to_owned()) } else { Ok(()) }
}

/// The generated files that are not what their sources give; written unless `check_only`. The program
/// must be built.
pub(crate) fn make(place: &Place, check_only: bool) -> io::Result<Vec<PathBuf>> {
    let mut changed = match r#gen::run(&place.root, check_only)? {
        Outcome::Fresh => Vec::new(),
        Outcome::Changed(paths) => paths,
    };
    let output = place.command(place.program("hq")).arg("generate-reference").output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let path = place.root.join(CLI_REFERENCE);
    if fs::read(&path).ok().as_ref() != Some(&output.stdout) {
        if !check_only {
            fs::create_dir_all(path.parent().unwrap_or(&place.root))?;
            fs::write(&path, &output.stdout)?;
        }
        changed.push(path);
    }
    Ok(changed)
}

/// Builds the program.
///
/// # Errors
/// When it does not build.
pub(crate) fn build(place: &Place) -> Result<(), String> {
    let mut command = place.cargo("build");
    command.args(["--quiet", "--locked", "--package", "hq"]);
    let log = place.target.join("xtask-logs/build.log");
    crate::exec::demand(&mut command, Duration::from_secs(1200), &log, &place.mark).map(drop)
}
