//! Times and use of finished tasks, bounded: the packed spans as workers sent them, oldest dropped first.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{IdSet, JobId, TaskId, Timestamp, Usage, WorkerId};

use crate::limits::DETAIL_BYTES_MAX;
use crate::record::FinishedSpan;

/// What is kept of finished tasks of all jobs.
#[derive(Clone, Debug, Default)]
pub struct Details {
    spans: BTreeMap<u64, (WorkerId, FinishedSpan)>,
    by_job: BTreeMap<JobId, BTreeSet<u64>>,
    next: u64,
    bytes: usize,
}

/// What is known of one finished task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Where it ran.
    pub worker: WorkerId,
    /// When it started.
    pub started: Timestamp,
    /// What it used.
    pub usage: Usage,
}

// The numbers of spans say their order and nothing else.
impl PartialEq for Details {
    fn eq(&self, other: &Details) -> bool {
        self.bytes == other.bytes && self.spans.values().eq(other.spans.values())
    }
}

impl Details {
    /// Adds a span and drops the oldest over the bound.
    pub fn add(&mut self, worker: WorkerId, span: FinishedSpan) {
        self.bytes += size(&span);
        self.by_job.entry(span.job).or_default().insert(self.next);
        self.spans.insert(self.next, (worker, span));
        self.next += 1;
        while self.bytes > DETAIL_BYTES_MAX {
            let Some((&oldest, _)) = self.spans.first_key_value() else { break };
            self.remove(oldest);
        }
    }

    /// Drops all of a job.
    pub fn forget(&mut self, job: JobId) {
        for span in self.by_job.remove(&job).unwrap_or_default() {
            self.remove(span);
        }
    }

    /// What is known of those of `ids` that have finished; later attempts win.
    pub fn find(&self, job: JobId, ids: &IdSet) -> BTreeMap<TaskId, Detail> {
        let mut found = BTreeMap::new();
        for index in self.by_job.get(&job).into_iter().flatten() {
            let Some((worker, span)) = self.spans.get(index) else { continue };
            if !span.ids.intersects(ids) {
                continue;
            }
            for (task, (started, usage)) in span.ids.iter().zip(span.measures.iter()) {
                if ids.contains(task) {
                    found.insert(task, Detail { worker: *worker, started, usage });
                }
            }
        }
        found
    }

    /// All spans with the workers they came from, oldest first.
    pub fn spans(&self) -> impl DoubleEndedIterator<Item = &(WorkerId, FinishedSpan)> {
        self.spans.values()
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove(&mut self, index: u64) {
        let Some((_, span)) = self.spans.remove(&index) else { return };
        self.bytes -= size(&span);
        if let Some(spans) = self.by_job.get_mut(&span.job) {
            spans.remove(&index);
            if spans.is_empty() {
                self.by_job.remove(&span.job);
            }
        }
    }
}

// The map entries and vectors around the packed bytes count, too.
fn size(span: &FinishedSpan) -> usize {
    192 + span.ids.range_count() * 8 + span.measures.bytes().len()
}
