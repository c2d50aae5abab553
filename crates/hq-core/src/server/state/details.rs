//! Times and use of finished tasks, bounded: the packed spans as workers sent them, oldest dropped first.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{IdSet, JobId, TaskId, Timestamp, Usage, WorkerId};

use crate::limits::DETAIL_BYTES_MAX;
use crate::never;
use crate::record::FinishedSpan;

/// What is kept of finished tasks of all jobs.
#[derive(Clone, Debug, Default)]
pub struct Details {
    spans: BTreeMap<u64, Kept>,
    by_job: BTreeMap<JobId, BTreeSet<u64>>,
    next: u64,
    bytes: usize,
    has_dropped: bool,
}

/// A span of finished tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Where they ran.
    pub worker: WorkerId,
    /// Which and how.
    pub span: FinishedSpan,
    /// Of those that were on several nodes, the workers; the first one led.
    pub nodes: Vec<(TaskId, Vec<WorkerId>)>,
}

/// What is known of one finished task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Where it ran.
    pub worker: WorkerId,
    /// All its workers, where it was on several nodes.
    pub nodes: Vec<WorkerId>,
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
    pub fn add(&mut self, worker: WorkerId, span: FinishedSpan, nodes: Vec<(TaskId, Vec<WorkerId>)>) {
        let kept = Kept { worker, span, nodes };
        self.bytes += kept.bytes();
        self.by_job.entry(kept.span.job).or_default().insert(self.next);
        self.spans.insert(self.next, kept);
        self.next += 1;
        while self.bytes > DETAIL_BYTES_MAX {
            let Some((&oldest, _)) = self.spans.first_key_value() else { break };
            self.has_dropped = true;
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
            let Some(Kept { worker, span, nodes }) = self.spans.get(index) else {
                never!("span {index} of finished tasks of job {job} is listed and is not there");
                continue;
            };
            if !span.ids.intersects(ids) {
                continue;
            }
            for (task, (started, usage)) in span.ids.iter().zip(span.measures.iter()) {
                if ids.contains(task) {
                    let nodes = nodes.iter().find(|nodes| nodes.0 == task);
                    let nodes = nodes.map_or_else(Vec::new, |nodes| nodes.1.clone());
                    found.insert(task, Detail { worker: *worker, nodes, started, usage });
                }
            }
        }
        found
    }

    /// True when none was dropped since they were read from a journal, but with its job.
    pub fn has_all(&self) -> bool {
        !self.has_dropped
    }

    /// All spans, oldest first.
    pub fn spans(&self) -> impl DoubleEndedIterator<Item = &Kept> + ExactSizeIterator {
        self.spans.values()
    }

    /// Those of a job, oldest first, with their numbers, from a number on.
    pub fn spans_of(&self, job: JobId, from: u64) -> impl Iterator<Item = (u64, &Kept)> {
        let numbers = self.by_job.get(&job).into_iter().flat_map(move |numbers| numbers.range(from..));
        numbers.filter_map(|number| Some((*number, self.spans.get(number)?)))
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove(&mut self, index: u64) {
        let Some(kept) = self.spans.remove(&index) else {
            return never!("span {index} of finished tasks is dropped and is not there");
        };
        self.bytes -= kept.bytes();
        if let Some(spans) = self.by_job.get_mut(&kept.span.job) {
            spans.remove(&index);
            if spans.is_empty() {
                self.by_job.remove(&kept.span.job);
            }
        }
    }
}

impl Kept {
    // The map entries and vectors around the packed bytes count, too.
    fn bytes(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(|(_, workers)| 48 + workers.len() * 4).sum();
        224 + self.span.ids.range_count() * 8 + self.span.measures.bytes().len() + nodes
    }
}
