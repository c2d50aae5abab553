//! A worker that dies with objects which are needed: how much runs again.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::rig::Rig;
use crate::cluster::Bench;
use crate::row::{BoxError, Row};

const WORKERS: u32 = 4;
/// Tasks that leave an object each.
const TASKS: u32 = 4_000;
/// Tasks that may run again for each object that was lost.
const AGAIN_MAX: f64 = 1.1;
/// Until the server counts a killed worker as lost.
const NOTICE_LIMIT: Duration = Duration::from_secs(120);
/// Each run of a task leaves a line.
const LEAVE: &str = "echo $HQ_TASK_ID >> runs; echo $HQ_TASK_ID > part-$HQ_TASK_ID";
const TAKE: &str = "test \"$(cat in/$HQ_TASK_ID)\" = $HQ_TASK_ID";

/// One of four workers is killed when all objects are left; then a task takes each of them, and fails where it is wrong.
///
/// # Errors
/// When something is wrong, or nothing is lost.
pub(super) fn run(bench: &Bench) -> Result<Row, BoxError> {
    let tasks = bench.tasks(TASKS);
    let mut rig = Rig::start(bench, WORKERS)?;
    let leave = ["--output-object=part=part-%{TASK_ID}".to_owned()];
    let (from, _) = rig.job(tasks, "cpus", &leave, &["sh", "-c", LEAVE])?;
    rig.cluster.kill_worker(0)?;
    let lost = await_lost(&rig)?;
    let take = [format!("--input-object=part={from}@%{{TASK_ID}}:part->in/%{{TASK_ID}}")];
    rig.job(tasks, "cpus", &take, &["sh", "-c", TAKE])?;
    let runs = fs::read_to_string(rig.cluster.home().join("runs"))?.lines().count() as f64;
    let again = runs - f64::from(tasks);
    let value = format!("{again:.0} ran again, {lost:.0} of {tasks} lost");
    let target = format!("{AGAIN_MAX} for each");
    Ok(Row::at_most("objects: loss", value, &target, again / lost / AGAIN_MAX, 1.0))
}

// How many objects are lost, when that is known.
fn await_lost(rig: &Rig) -> Result<f64, BoxError> {
    let until = Instant::now() + NOTICE_LIMIT;
    while Instant::now() < until {
        let listed = rig.cluster.read(&["object", "list", "--state", "lost", "--output-mode", "quiet"])?;
        if listed.lines().next().is_some() {
            return Ok(listed.lines().count() as f64);
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err("the killed worker was not missed".into())
}
