//! Python scripts with packages from PyPI, in virtual environments beside the program under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::Bench;
use crate::row::BoxError;

/// No case may take longer, in seconds.
const CASE_LIMIT_S: &str = "300";

/// A case of a script with the package under test, to which its arguments are added.
pub(crate) fn case(bench: &Bench, interpreter: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.arg(CASE_LIMIT_S).arg(interpreter).stdin(Stdio::null());
    command.env("HQ_BINARY", &bench.hq).env_remove("PYTHONPATH");
    command
}

/// Runs a case; gives what it says.
///
/// # Errors
/// When it says nothing that can be read; then with the last line of its errors.
pub(crate) fn said(case: &str, command: &mut Command) -> Result<Value, BoxError> {
    let output = command.output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(printed.trim()).map_err(|_| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().last().unwrap_or("Python said nothing").to_owned();
        format!("case {case}: {last}").into()
    })
}

/// A number of what a case has said.
pub(crate) fn number(said: &Value, name: &str) -> Result<f64, BoxError> {
    said[name].as_f64().ok_or_else(|| format!("there is no {name} in {said}").into())
}

/// Runs a script; gives what it prints.
///
/// # Errors
/// When there is no Python, the packages cannot be had, or the script fails.
pub(crate) fn run(
    bench: &Bench,
    packages: &[&str],
    script: &str,
    arguments: &[String],
) -> Result<String, BoxError> {
    let place = bench.hq.parent().and_then(Path::parent).ok_or("the program lies in no build directory")?;
    let environment = place.join("bench-python").join(packages.join("-").replace("==", "-"));
    let python = environment.join("bin/python");
    if !environment.join("complete").exists() {
        quiet(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        quiet(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages))?;
        fs::write(environment.join("complete"), "")?;
    }
    let work = tempfile::tempdir()?;
    let path: PathBuf = work.path().join("script.py");
    fs::write(&path, script)?;
    let mut command = Command::new("timeout");
    command.arg("300").arg(&python).arg(&path).args(arguments);
    // What a tool leaves there goes with it.
    command.current_dir(work.path()).env("HOME", work.path()).env("TMPDIR", work.path());
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(errors.lines().last().unwrap_or("it failed without a word").to_owned().into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The interpreter that has the package of `cargo xtask python`.
///
/// # Errors
/// When there is none.
pub(crate) fn package(bench: &Bench) -> Result<PathBuf, BoxError> {
    let target = bench.hq.parent().and_then(Path::parent).ok_or("the program lies in no build directory")?;
    let python = target.join("python/venv/bin/python");
    if python.exists() {
        Ok(python)
    } else {
        Err("there is no Python package: run `cargo xtask python` first".into())
    }
}

/// Installs packages from PyPI for an interpreter of a virtual environment.
///
/// # Errors
/// When they cannot be had.
pub(crate) fn install(python: &Path, packages: &[&str]) -> Result<(), BoxError> {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    quiet(&mut pip)
}

fn quiet(command: &mut Command) -> Result<(), BoxError> {
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().last().unwrap_or("it said nothing").to_owned();
    Err(format!("{last} (after {:.0?})", begun.elapsed().max(Duration::from_millis(1))).into())
}
