//! What a worker does when its node cannot start tasks: no processes, no memory, no place for their directories.
//!
//! That is no fault of the tasks: they go back, and the worker asks for none for a while. Then it tries again; if the next
//! task cannot be started either, the pause is twice as long. And what it says when what tasks print finds no room.

use std::time::Duration;

use hq_model::Timestamp;

use crate::limits::{NODE_FAULT_PAUSE_MAX, NODE_FAULT_PAUSE_MIN};

#[derive(Debug, Default)]
pub(super) struct NodeFault {
    // Why, and until when nothing is started.
    present: Option<(String, Timestamp)>,
    pause: Duration,
    last: Timestamp,
    // The server does not know yet what it is now.
    pub(super) is_news: bool,
}

impl NodeFault {
    /// A task could not be started.
    pub(super) fn begin(&mut self, now: Timestamp, reason: String) {
        if self.present.is_none() {
            self.pause = (self.pause * 2).clamp(NODE_FAULT_PAUSE_MIN, NODE_FAULT_PAUSE_MAX);
            self.present = Some((reason, now.after(self.pause)));
            self.last = now;
            self.is_news = true;
        }
    }

    /// A task has run that was started at this time.
    pub(super) fn ran(&mut self, since: Timestamp) {
        if since > self.last {
            self.pause = Duration::ZERO;
        }
    }

    /// It is time to try again.
    pub(super) fn pass(&mut self, now: Timestamp) {
        if self.present.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.present = None;
            self.is_news = true;
        }
    }

    /// Why nothing is started now.
    pub(super) fn reason(&self) -> Option<&str> {
        self.present.as_ref().map(|(reason, _)| reason.as_str())
    }

    /// When it is tried again.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.present.as_ref().map(|(_, until)| *until)
    }
}

/// What tasks print into streams and logs, where some of it finds no room.
#[derive(Debug, Default)]
pub(super) struct OutputWaits {
    /// Why it waits.
    pub(super) why: Option<String>,
    /// The server does not know yet what it is now.
    pub(super) is_news: bool,
}

impl OutputWaits {
    /// It finds no room, or does again.
    pub(super) fn hear(&mut self, why: Option<String>) {
        self.why = why;
        self.is_news = true;
    }
}
