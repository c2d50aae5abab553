//! What tasks have said while nobody listened, kept for a while: after a server was away, workers may be back before
//! those who wait for jobs.

use std::collections::VecDeque;

use hq_model::{JobId, Timestamp, WorkerId};

use crate::limits::{UNHEARD_BYTES_MAX, UNHEARD_TIME_MAX};
use crate::worker_messages::TaskWords;

/// Those words, the oldest first.
#[derive(Debug, Default)]
pub(in crate::server) struct Unheard {
    words: VecDeque<(Timestamp, WorkerId, TaskWords)>,
    bytes: usize,
}

impl Unheard {
    /// Keeps what a task on `worker` has said.
    pub(in crate::server) fn keep(&mut self, now: Timestamp, worker: WorkerId, words: TaskWords) {
        self.bytes += words.bytes();
        self.words.push_back((now, worker, words));
        self.drop_old(now);
    }

    /// Takes what tasks of these jobs have said.
    pub(in crate::server) fn take(&mut self, now: Timestamp, jobs: &[JobId]) -> Vec<(WorkerId, TaskWords)> {
        self.drop_old(now);
        let (taken, left) = std::mem::take(&mut self.words)
            .into_iter()
            .partition(|(_, _, words): &(_, _, TaskWords)| jobs.contains(&words.task.job));
        self.words = left;
        self.bytes = self.words.iter().map(|(_, _, words)| words.bytes()).sum();
        let taken: VecDeque<(Timestamp, WorkerId, TaskWords)> = taken;
        taken.into_iter().map(|(_, worker, words)| (worker, words)).collect()
    }

    fn drop_old(&mut self, now: Timestamp) {
        let is_over = |since: Timestamp| since.after(UNHEARD_TIME_MAX) <= now;
        while self.bytes > UNHEARD_BYTES_MAX || self.words.front().is_some_and(|first| is_over(first.0)) {
            let Some((_, _, words)) = self.words.pop_front() else { return };
            self.bytes -= words.bytes();
        }
    }
}
