//! Runs the examples that work on real input; each checks its own result.

use std::path::Path;
use std::time::Duration;

use crate::place::Place;
use crate::steps::{Outcome, StepResult};
use crate::{demo, exec, packages};

/// How long an example may take.
const LIMIT: Duration = Duration::from_secs(600);

/// Reads of the lambda phage, aligned in chunks and as a whole.
///
/// # Errors
/// When the two differ.
pub(crate) fn bowtie2(place: &Place, log: &Path) -> StepResult {
    for program in ["bowtie2", "python3"] {
        if !packages::is_there(program) {
            return Ok(Outcome::LeftOut(format!("{program} is not installed")));
        }
    }
    let data = match packages::bowtie2_data(place, log) {
        Ok(data) => data,
        Err(why) => return Ok(Outcome::LeftOut(why)),
    };
    let mut command = demo::example(place, "examples/bowtie2/run.sh");
    command.env("BOWTIE2_EXAMPLES", data);
    let ended = exec::demand(&mut command, LIMIT, log, &place.mark)?;
    let last = ended.text.lines().last().unwrap_or_default().to_owned();
    Ok(Outcome::Passed(1, last))
}

/// Drugs, docked into the protease of HIV and ranked.
///
/// # Errors
/// When not all are ranked, or small ones bind more strongly than large ones.
pub(crate) fn screening(place: &Place, log: &Path) -> StepResult {
    docking(place, log, "examples/screening/run.sh")
}

/// The same by rules, also when what it is made from has changed.
///
/// # Errors
/// When something else is made than what is needed.
pub(crate) fn make(place: &Place, log: &Path) -> StepResult {
    docking(place, log, "examples/make/run.sh")
}

fn docking(place: &Place, log: &Path, script: &str) -> StepResult {
    for needed in ["obabel", "vina", packages::OPENBABEL_PYTHON, packages::PROTEASE] {
        if !packages::is_there(needed) {
            return Ok(Outcome::LeftOut(format!("{needed} is not installed")));
        }
    }
    let mut command = demo::example(place, script);
    let ended = exec::demand(&mut command, LIMIT, log, &place.mark)?;
    let last = ended.text.lines().last().unwrap_or_default().to_owned();
    Ok(Outcome::Passed(1, last))
}

/// An MPI program over three workers, with each MPI that is installed.
///
/// # Errors
/// When ranks are missing, or not where they should be.
pub(crate) fn mpi(place: &Place, log: &Path) -> StepResult {
    if !["mpicc.openmpi", "mpicc.mpich"].iter().any(|program| packages::is_there(program)) {
        return Ok(Outcome::LeftOut("no MPI is installed".into()));
    }
    let mut command = demo::example(place, "examples/mpi/run.sh");
    let ended = exec::demand(&mut command, LIMIT, log, &place.mark)?;
    let last = ended.text.lines().last().unwrap_or_default().to_owned();
    Ok(Outcome::Passed(1, last))
}

/// The example behind `cargo xtask demo`.
///
/// # Errors
/// When its result is not the known one.
pub(crate) fn motif(place: &Place, log: &Path) -> StepResult {
    demo::check(place, LIMIT, log)?;
    Ok(Outcome::passed())
}
