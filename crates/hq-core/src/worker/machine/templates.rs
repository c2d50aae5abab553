//! Templates that a worker keeps: those of tasks that are here, and some more.

use std::collections::BTreeSet;

use super::Worker;
use crate::limits::{TEMPLATES_KEPT_BYTES, TEMPLATES_KEPT_MAX};
use crate::worker_messages::TemplateId;

impl Worker {
    /// Drops those of which nothing is here, when they are too many. The server is asked for one that is missing.
    pub(super) fn drop_templates(&mut self) {
        let (count_max, bytes_max) = self.templates_max;
        if self.templates.len() < count_max && self.templates_bytes < bytes_max {
            return;
        }
        let queued = self.queue.values().chain(self.followers.values()).map(|batch| batch.template);
        let armed = self.armed.values().map(|armed| armed.batch.template);
        let used: BTreeSet<TemplateId> =
            queued.chain(armed).chain(self.running.values().map(|run| run.template)).collect();
        self.templates.retain(|template, _| used.contains(template));
        self.templates_bytes = self.templates.values().map(|known| known.template.spec.bytes()).sum();
        // Where most are in use, nobody looks again soon.
        let (count, bytes) = (self.templates.len(), self.templates_bytes);
        self.templates_max = (TEMPLATES_KEPT_MAX.max(2 * count), TEMPLATES_KEPT_BYTES.max(2 * bytes));
    }
}
