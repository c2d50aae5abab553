//! How tests wait for what nobody announces: processes that end, a batch system, and the server's view of one, must be
//! asked.

use std::time::{Duration, Instant};

/// How long what others do by themselves may take.
const PATIENCE: Duration = Duration::from_secs(150);
/// How often they are asked meanwhile, at first and after a while.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// Asks until it is so; panics with the last answer when patience ends.
#[track_caller]
pub(crate) fn until(what: &str, ask: impl FnMut() -> Result<(), String>) {
    if let Err(answer) = answer(ask) {
        panic!("{what}: {answer}");
    }
}

/// Asks until there is an answer. The error is the last one when patience ends.
pub(crate) fn answer<T, E>(mut ask: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let begun = Instant::now();
    let mut pause = PAUSE.0;
    loop {
        match ask() {
            Err(_) if begun.elapsed() < PATIENCE => std::thread::sleep(pause),
            answer => return answer,
        }
        pause = (pause * 2).min(PAUSE.1);
    }
}
