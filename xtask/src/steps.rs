//! Running other programs, and the builds that several chores need.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Trouble;

/// Runs a program in the workspace and shows what it prints; an error when it fails.
pub(crate) fn run<S: AsRef<OsStr>>(root: &Path, program: &str, arguments: &[S]) -> Result<(), Trouble> {
    let status = Command::new(program).args(arguments).current_dir(root).status()?;
    if status.success() {
        return Ok(());
    }
    let words: Vec<String> = arguments.iter().map(|a| a.as_ref().to_string_lossy().into_owned()).collect();
    Err(format!("`{program} {}` ended with {status}", words.join(" ")).into())
}

/// Runs cargo.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<(), Trouble> {
    run(root, &cargo_path(), arguments)
}

/// Builds the `hq` binary and says where it is.
pub(crate) fn build_hq(root: &Path, release: bool) -> Result<PathBuf, Trouble> {
    build(root, "hq", release)
}

/// Explores the simulator.
pub(crate) fn sim(root: &Path, arguments: &[String]) -> Result<(), Trouble> {
    let sim = build(root, "hq-sim", true)?;
    run(root, &sim.to_string_lossy(), arguments)
}

fn build(root: &Path, package: &str, release: bool) -> Result<PathBuf, Trouble> {
    let mut arguments = vec!["build", "--quiet", "--locked", "--package", package];
    if release {
        arguments.push("--release");
    }
    cargo(root, &arguments)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join(if release { "release" } else { "debug" }).join(package))
}

fn cargo_path() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}
