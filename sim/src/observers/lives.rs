//! A task that asks for time starts only where it has that: told from when workers began and how long they live.

use std::time::Duration;

use hq_core::worker::Start;
use hq_model::worker::WorkerConfig;

/// A worker that has been there for some time starts something.
///
/// # Errors
/// When its limit is over before the time that the task has asked for.
pub fn lives_long_enough(passed: Duration, config: &WorkerConfig, start: &Start) -> Result<(), String> {
    let Some(limit) = config.time_limit.filter(|_| !start.is_part) else { return Ok(()) };
    let request = start.template.spec.requests.get(start.variant as usize);
    let asked = request.map(|request| request.time_request).unwrap_or_default();
    // What passes while a worker greets the server does not count.
    let passed = passed.saturating_sub(limit / 100);
    match passed + asked > limit {
        true => Err(format!(
            "task {} asks for {asked:?} of {limit:?}, of which {passed:?} have passed",
            start.task
        )),
        false => Ok(()),
    }
}
