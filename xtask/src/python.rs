//! `cargo xtask python`: builds the Python package as a wheel, with the program in it, and installs it.
//!
//! Everything lies in `target/python`: maturin, what pip has fetched, the wheel, and an environment that has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::place::Place;
use crate::steps::{Failure, Outcome};
use crate::{exec, generated};

/// How long one step may take.
const LIMIT: Duration = Duration::from_secs(1200);
/// How long one part of the tests may take.
const TESTS_LIMIT: Duration = Duration::from_secs(600);
/// Releases of Python on which the wheel is tried, beside the one that `python3` is.
const RELEASES: [&str; 4] = ["3.10", "3.12", "3.13", "3.14"];
/// Examples, and what each needs from PyPI.
const EXAMPLES: [(&str, &str); 4] = [
    ("molecules.py", "rdkit"),
    ("grid_search.py", "scikit-learn"),
    ("tables.py", "pyarrow"),
    ("heat.py", "numpy"),
];
/// What the tests need from PyPI; the wheel of MPI brings its launcher.
const TEST_PACKAGES: [&str; 6] = ["pytest", "mypy", "pyright", "numpy", "mpi4py", "mpich"];
/// What builds the wheel.
const MATURIN: &str = "maturin>=1.9,<2";
/// Where the program lies for maturin, below the workspace.
const SCRIPTS: &str = "python/wheel/scripts";

/// Builds the wheel, and an environment that has it: `target/python/venv`.
///
/// # Errors
/// When a step fails.
pub(crate) fn run(place: &Place) -> Result<(), String> {
    println!("Building the wheel (the first time takes a few minutes) ...");
    let log = place.target.join("xtask-logs/python.log");
    generated::build(place)?;
    let wheel = wheel(place, &log)?;
    let venv = home(place).join("venv");
    if !venv.join("bin/python").exists() {
        make_venv(place, Path::new("python3"), &venv, &log)?;
    }
    install(place, &venv, &[&wheel.display().to_string()], &log)?;
    println!("{}\nRun {}/bin/python.", wheel.display(), venv.display());
    Ok(())
}

/// Builds the wheel from the program as it is in the build directory.
///
/// # Errors
/// When maturin cannot be fetched, or does not succeed.
pub(crate) fn wheel(place: &Place, log: &Path) -> Result<PathBuf, String> {
    let tools = home(place).join("tools");
    if !tools.join("bin/maturin").exists() {
        make_venv(place, Path::new("python3"), &tools, log)?;
        install(place, &tools, &[MATURIN], log)?;
    }
    let scripts = place.root.join(SCRIPTS);
    fs::create_dir_all(&scripts).map_err(|error| format!("{}: {error}", scripts.display()))?;
    // What is for debuggers is more than half of the file, and a wheel is compressed.
    let mut strip = place.command("strip");
    strip.args(["--strip-debug", "-o"]).arg(scripts.join("hq")).arg(place.program("hq"));
    exec::demand(&mut strip, LIMIT, log, &place.mark)?;
    let dist = home(place).join("dist");
    let _ = fs::remove_dir_all(&dist);
    let mut build = place.command(tools.join("bin/maturin"));
    build.args(["build", "--quiet", "--locked", "--out"]).arg(&dist).current_dir(place.root.join("python"));
    exec::demand(&mut build, LIMIT, log, &place.mark)?;
    let entries = fs::read_dir(&dist).map_err(|error| format!("{}: {error}", dist.display()))?;
    let mut wheels = entries.flatten().map(|entry| entry.path());
    wheels.find(|path| path.extension().is_some_and(|end| end == "whl")).ok_or("there is no wheel".to_owned())
}

/// Makes an environment of this interpreter.
///
/// # Errors
/// When that fails.
pub(crate) fn make_venv(place: &Place, python: &Path, venv: &Path, log: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(venv);
    let mut make = outside(place, python);
    make.args(["-m", "venv"]).arg(venv);
    exec::demand(&mut make, LIMIT, log, &place.mark).map(drop)
}

/// Installs packages into an environment; wheels of the workspace in place of what is there.
///
/// # Errors
/// When that fails.
pub(crate) fn install(place: &Place, venv: &Path, packages: &[&str], log: &Path) -> Result<(), String> {
    let pip = |arguments: &[&str]| {
        let mut pip = outside(place, &venv.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(arguments);
        pip.env("PIP_CACHE_DIR", home(place).join("cache"));
        exec::demand(&mut pip, LIMIT, log, &place.mark).map(drop)
    };
    pip(packages)?;
    let wheels: Vec<&str> = packages.iter().copied().filter(|name| name.ends_with(".whl")).collect();
    if wheels.is_empty() { Ok(()) } else { pip(&[&["--force-reinstall", "--no-deps"], &wheels[..]].concat()) }
}

/// Where all of it lies.
pub(crate) fn home(place: &Place) -> PathBuf {
    place.target.join("python")
}

/// A command that does not find the sources of the package.
pub(crate) fn outside(place: &Place, program: &Path) -> Command {
    let mut command = place.command(program);
    command.current_dir(&place.tmp).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
    command
}

/// Builds the wheel, installs it into a fresh environment, and tests it there: with pytest, on the other releases of Python
/// that are found, and with two type checkers. The program must be built.
///
/// # Errors
/// When something fails.
pub(crate) fn check(place: &Place, log: &Path) -> Result<Outcome, Failure> {
    let wheel = wheel(place, log)?.display().to_string();
    let fresh = home(place).join("fresh");
    make_venv(place, Path::new("python3"), &fresh, log)?;
    install(place, &fresh, &[&[wheel.as_str()], &TEST_PACKAGES[..]].concat(), log)?;
    let sources = place.root.join("python");
    let in_fresh = |module: &str| {
        let mut command = outside(place, &fresh.join("bin/python"));
        command.args(["-m", module]).env("PYRIGHT_PYTHON_CACHE_DIR", home(place).join("pyright"));
        command.env("PATH", path_with(&fresh.join("bin")));
        command
    };
    let mut pytest = in_fresh("pytest");
    // A test that hangs says where.
    pytest
        .args(["-q", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=100"])
        .arg("--basetemp")
        .arg(home(place).join("pytest"));
    pytest.arg(sources.join("tests"));
    let tested = exec::demand(&mut pytest, TESTS_LIMIT, log, &place.mark)?;
    let mut passed = passed(&tested.text);
    let mut releases = Vec::new();
    for (release, python) in others() {
        let venv = home(place).join(format!("venv-{release}"));
        make_venv(place, &python, &venv, log)?;
        install(place, &venv, &[&wheel], log)?;
        let mut smoke = outside(place, &venv.join("bin/python"));
        smoke.arg(sources.join("tests/smoke.py"));
        exec::demand(&mut smoke, TESTS_LIMIT, log, &place.mark)?;
        passed += 1;
        releases.push(release);
    }
    let mut mypy = in_fresh("mypy");
    mypy.args(["--strict", "--cache-dir"]).arg(home(place).join("mypy")).args(["headquarters", "examples"]);
    exec::demand(mypy.current_dir(&sources), TESTS_LIMIT, log, &place.mark)?;
    exec::demand(in_fresh("pyright").current_dir(&sources), TESTS_LIMIT, log, &place.mark)?;
    install(place, &fresh, &EXAMPLES.map(|example| example.1), log)?;
    for (example, _) in EXAMPLES {
        let mut run = outside(place, &fresh.join("bin/python"));
        run.arg(sources.join("examples").join(example));
        exec::demand(&mut run, TESTS_LIMIT, log, &place.mark)?;
        passed += 1;
    }
    let remark = if releases.is_empty() { "no other release of Python" } else { "also on" };
    Ok(Outcome::Passed(passed + 2, format!("{remark} {}", releases.join(", ")).trim_end().to_owned()))
}

fn path_with(first: &Path) -> String {
    format!("{}:{}", first.display(), std::env::var("PATH").unwrap_or_default())
}

// The number in `23 passed in 1.20s`.
fn passed(text: &str) -> u32 {
    let counts = text.lines().rev().find_map(|line| line.split_once(" passed").map(|(before, _)| before));
    counts.and_then(|before| before.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

// Interpreters of other releases: those of pyenv, and those on the path.
fn others() -> Vec<(&'static str, PathBuf)> {
    let versions = std::env::var_os("PYENV_ROOT").map(|root| Path::new(&root).join("versions"));
    let pyenv = versions.and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = pyenv.map(|entry| entry.path()).collect();
    found.sort();
    let mut pythons = Vec::new();
    for release in RELEASES {
        let is_of = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.strip_prefix(release).is_some_and(|rest| rest.starts_with('.'))
        };
        if let Some(version) = found.iter().find(is_of) {
            pythons.push((release, version.join("bin/python3")));
        } else if Path::new(&format!("/usr/bin/python{release}")).exists() {
            pythons.push((release, PathBuf::from(format!("/usr/bin/python{release}"))));
        }
    }
    pythons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pytest_says_is_counted() {
        assert_eq!(passed("....\n23 passed in 1.20s\n"), 23);
        assert_eq!(passed("1 failed, 22 passed in 1.20s"), 22);
        assert_eq!(passed("no tests ran"), 0);
    }
}
