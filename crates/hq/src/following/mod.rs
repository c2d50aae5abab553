//! What tasks print, followed while they run: asked of the server, which asks their workers. What has ended is read from its
//! file where this machine sees it, and else from the worker that ran it.

mod job;
mod lines;
mod local;
mod reader;
mod task;

pub(crate) use job::{JobFollow, follow_job};
pub(crate) use task::tail;

use std::time::Duration;

/// How long one request waits for something to be printed.
const WAIT: Duration = Duration::from_secs(25);
