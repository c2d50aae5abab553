//! What tasks print, followed while they run: asked of the server, which asks their workers. What has ended is read from its
//! file where this machine sees it, and else from the worker that ran it.

mod job;
mod lines;
mod local;
mod reader;
mod task;

pub(crate) use job::{JobFollow, follow_job};
pub(crate) use task::tail;

use std::time::{Duration, Instant};

/// What is said of a pipe or a device that tasks print into.
pub(crate) const NOTHING_KEPT: &str =
    "a pipe or a device keeps nothing: whoever reads it has what was printed";

/// How long one request waits for something to be printed.
const WAIT: Duration = Duration::from_secs(25);
/// Time between two looks at the files of streams that are followed.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// When those files were looked at.
#[derive(Debug, Default)]
struct Watching(Option<Instant>);

impl Watching {
    /// True when they are to be looked at now.
    fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|last| last.elapsed() >= WATCH_PAUSE);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}
