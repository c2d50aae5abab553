//! How tests wait for what nobody announces: a batch system, and the server's view of one, must be asked.

use std::time::{Duration, Instant};

/// How long what others do by themselves may take.
const PATIENCE: Duration = Duration::from_secs(150);
/// How often they are asked meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// Asks until it is so; panics with the last answer when patience ends.
pub(crate) fn until(what: &str, mut ask: impl FnMut() -> Result<(), String>) {
    let begun = Instant::now();
    while let Err(answer) = ask() {
        assert!(begun.elapsed() < PATIENCE, "{what}: {answer}");
        std::thread::sleep(PAUSE);
    }
}
