//! Lists of the Python package: on the ranks of an MPI program, in turns with mpi_list, and on workers, in turns with plain calls.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cluster::Bench;
use crate::python;
use crate::row::{BoxError, Row};

const PROGRAM: &str = include_str!("lists.py");
const ON_WORKERS: &str = include_str!("lists_workers.py");
const KERNELS: &str = include_str!("lists_kernels.py");
/// Kernels for each of eight workers.
const KERNELS_OF_WORKER: u32 = 1024;
/// How long workers wait at the end of a phase, beside a list with a slice for each worker.
const IDLE_MAX: f64 = 0.2;
/// Slices of a list on workers.
const SLICES: u32 = 64;
/// MPI, and what is measured beside ours.
const PACKAGES: [&str; 3] = ["mpi4py", "mpich", "mpi_list==0.4.0"];
/// Numbers that are mapped and reduced.
const NUMBERS: u32 = 1_000_000;
/// New elements of a group.
const KEYS: u32 = 100_000;
const ROUNDS: u32 = 5;
/// No case may take longer, in seconds.
const LIMIT_S: &str = "300";

/// All cases.
///
/// # Errors
/// When there is no package, MPI cannot be had, or a case fails.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let interpreter = python::package(bench)?;
    python::install(&interpreter, &PACKAGES)?;
    let place = tempfile::tempdir()?;
    let program = place.path().join("lists.py");
    fs::write(&program, PROGRAM)?;
    let measure = |case: &str, ranks: u32, count: u32| -> Result<(f64, String), BoxError> {
        let (ours, theirs) = both(&case_of(&interpreter, &program, case, ranks, count)?)?;
        Ok((ours / theirs, format!("{:.0} ms; mpi_list {:.0} ms", ours * 1e3, theirs * 1e3)))
    };
    let (reduce, reduce_text) = measure("reduced", 2, bench.tasks(NUMBERS))?;
    let (group, group_text) = measure("grouped", 8, bench.tasks(KEYS))?;
    let (once, once_text) = measure("grouped_once", 8, bench.tasks(KEYS))?;
    fs::write(&program, ON_WORKERS)?;
    let mut command = Command::new("timeout");
    command.arg(LIMIT_S).arg(&interpreter).arg(&program);
    command.args([bench.tasks(SLICES).to_string(), ROUNDS.to_string()]);
    let (list, calls) = both(&said_by(&mut command, "on workers")?)?;
    fs::write(&program, KERNELS)?;
    let mut command = Command::new("timeout");
    command.arg(LIMIT_S).arg(&interpreter).arg(&program);
    command.args([bench.tasks(KERNELS_OF_WORKER).to_string(), ROUNDS.to_string()]);
    let said = said_by(&mut command, "kernels")?;
    let (idle, idle_static) = (number(&said, "ours")?, number(&said, "static")?);
    let (whole, whole_static) = (number(&said, "ours_whole")?, number(&said, "static_whole")?);
    let idle_text = format!(
        "{:.0} ms of {:.2} s; with a slice for each worker {:.0} ms of {:.2} s",
        idle * 1e3,
        whole,
        idle_static * 1e3,
        whole_static
    );
    let workers_text = format!("{:.1} ms; a call for each slice {:.1} ms", list * 1e3, calls * 1e3);
    Ok(vec![
        Row::at_most("lists: on workers", workers_text, "twice a call for each slice", list / calls, 2.0),
        Row::at_most(
            "lists: idle at the end",
            idle_text,
            "a fifth of a slice for each",
            idle / idle_static / IDLE_MAX,
            1.0,
        ),
        Row::at_most("lists: map, reduce", reduce_text, "1.05 times mpi_list", reduce, 1.05),
        Row::at_most("lists: group", group_text, "half of mpi_list", group, 0.5),
        Row::shown("lists: group, each key once", once_text, once),
    ])
}

fn both(said: &Value) -> Result<(f64, f64), BoxError> {
    Ok((number(said, "ours")?, number(said, "theirs")?))
}

fn number(said: &Value, name: &str) -> Result<f64, BoxError> {
    said[name].as_f64().ok_or_else(|| format!("there is no {name} in {said}").into())
}

// Runs a case as so many ranks; gives what the first says.
fn case_of(
    interpreter: &Path,
    program: &Path,
    case: &str,
    ranks: u32,
    count: u32,
) -> Result<Value, BoxError> {
    let mut command = Command::new("timeout");
    // The launcher of the wheel lies beside the interpreter.
    command.arg(LIMIT_S).arg(interpreter.with_file_name("mpiexec")).args(["-n", &ranks.to_string()]);
    command.arg(interpreter).arg(program).args([case, &count.to_string(), &ROUNDS.to_string()]);
    said_by(&mut command, case)
}

fn said_by(command: &mut Command, case: &str) -> Result<Value, BoxError> {
    let output = command.env_remove("PYTHONPATH").stdin(Stdio::null()).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(printed.trim()).map_err(|_| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().last().unwrap_or("Python said nothing").to_owned();
        format!("case {case}: {last}").into()
    })
}
