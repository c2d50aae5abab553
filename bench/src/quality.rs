//! How good plans are: the instances of the planner's tests, whose optimum an exact solver has bounded.

use std::path::PathBuf;
use std::time::Instant;

use crate::cluster::Bench;
use crate::row::{BoxError, Row};

#[path = "../../crates/hq-sched/tests/common/instance.rs"]
mod instance;

/// What plans are worth against what is possible.
///
/// # Errors
/// When the instances cannot be read.
pub(crate) fn run(_: &Bench) -> Result<Vec<Row>, BoxError> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/hq-sched/tests/instances"));
    let mut ratios = Vec::new();
    let begun = Instant::now();
    for file in std::fs::read_dir(&folder)? {
        let (snapshot, bound) = instance::read(&std::fs::read_to_string(file?.path())?);
        if bound > 0 {
            ratios.push(instance::value(&snapshot) as f64 / bound as f64);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let average = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
    let worst = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let name = format!("quality: {} instances", ratios.len());
    let value = format!(
        "{:.2} % of the optimum, {:.1} ms each",
        average * 100.0,
        seconds * 1e3 / ratios.len() as f64
    );
    Ok(vec![
        Row::at_most(&name, value, "98 % on average", 0.98 / average, 1.0),
        Row::at_most("quality: the worst", format!("{:.2} %", worst * 100.0), "95 %", 0.95 / worst, 1.0),
    ])
}
