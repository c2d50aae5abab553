//! `cargo xtask python`: builds the Python package as a wheel, with the program in it, and installs it.
//!
//! Everything lies in `target/python`: maturin, what pip has fetched, the wheel, and an environment that has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::place::Place;
use crate::{exec, generated};

/// How long one step may take.
const LIMIT: Duration = Duration::from_secs(1200);
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
