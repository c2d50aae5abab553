//! What tasks left behind, read page by page.

use std::collections::VecDeque;

use hq_client::ClientError;
use hq_core::client_messages::{ClientRequest, ClientResponse, JobResults};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskRef};

use crate::error::HqError;
use crate::jobs::{SharedSession, only};

/// What one task left behind.
pub(crate) struct TaskResult {
    /// The task.
    pub task: TaskRef,
    /// What it left behind: a text, JSON, or what a packed call leaves.
    pub result: Vec<u8>,
    /// It is a text, and not what a function left.
    pub is_text: bool,
}

/// Tasks of a job that have no result.
#[derive(Default)]
pub(crate) struct Missing {
    /// Functions that failed.
    pub failed: IdSet,
    /// Functions that finished, and whose results are not kept any more.
    pub dropped: IdSet,
    /// Others, which have none or not yet.
    pub without: IdSet,
    /// How many have one.
    pub found: u64,
}

/// Results of jobs, ascending.
pub(crate) struct ResultStream {
    session: SharedSession,
    jobs: Selector,
    tasks: Option<IdSet>,
    from: Option<TaskRef>,
    with_failed: bool,
    page: VecDeque<TaskResult>,
    missing: Vec<(JobId, Missing)>,
    is_done: bool,
}

impl ResultStream {
    /// A stream of which the first page is read now: when there is none, nothing has been printed yet.
    pub(crate) fn begin(
        session: SharedSession,
        jobs: Selector,
        tasks: Option<IdSet>,
    ) -> Result<ResultStream, HqError> {
        let mut stream = ResultStream::new(session, jobs, tasks);
        stream.read()?;
        Ok(stream)
    }

    fn new(session: SharedSession, jobs: Selector, tasks: Option<IdSet>) -> ResultStream {
        ResultStream {
            session,
            jobs,
            tasks,
            from: None,
            with_failed: false,
            page: VecDeque::new(),
            missing: Vec::new(),
            is_done: false,
        }
    }

    /// The tasks without results, as far as was read, by their jobs.
    pub(crate) fn missing(&self) -> &[(JobId, Missing)] {
        &self.missing
    }

    /// True when all was read, and no task has a result.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_done && self.missing.iter().all(|(_, of)| of.found == 0)
    }

    fn read(&mut self) -> Result<(), HqError> {
        let (jobs, tasks, from, with_failed) =
            (self.jobs.clone(), self.tasks.clone(), self.from, self.with_failed);
        let request = ClientRequest::Results { jobs, tasks, from, with_failed };
        let ClientResponse::Results { jobs, next } = self.session.borrow_mut().request(request)? else {
            return Err(ClientError::Unexpected.into());
        };
        // A page that does not move on would be asked for again without end.
        if next.is_some() && next <= self.from {
            return Err(ClientError::Unexpected.into());
        }
        self.is_done = next.is_none();
        self.from = next;
        for JobResults { job, ids, results, texts, failed, dropped, without } in jobs {
            if self.missing.last().is_none_or(|(known, _)| *known != job) {
                self.missing.push((job, Missing::default()));
            }
            if let Some((_, of)) = self.missing.last_mut() {
                of.failed.union_with(&failed);
                of.dropped.union_with(&dropped);
                of.without.union_with(&without);
                of.found += ids.len();
            }
            let results = ids.iter().zip(results.iter());
            self.page.extend(results.map(|(task, result)| TaskResult {
                task: TaskRef::new(job, task),
                result: result.to_vec(),
                is_text: texts.contains(task),
            }));
        }
        Ok(())
    }

    fn next_result(&mut self) -> Result<Option<TaskResult>, HqError> {
        loop {
            if let Some(result) = self.page.pop_front() {
                return Ok(Some(result));
            }
            if self.is_done {
                return Ok(None);
            }
            self.read()?;
        }
    }

    // What this task left, of tasks that are asked for in ascending order.
    fn of(&mut self, task: TaskRef) -> Result<Option<TaskResult>, HqError> {
        loop {
            while self.page.front().is_some_and(|first| first.task < task) {
                self.page.pop_front();
            }
            if let Some(first) = self.page.front() {
                let is_it = first.task == task;
                return Ok(if is_it { self.page.pop_front() } else { None });
            }
            if self.is_done || self.from.is_some_and(|next| next > task) {
                return Ok(None);
            }
            // What lies between is of no interest.
            self.from = Some(task);
            self.read()?;
            self.missing.clear();
        }
    }
}

impl Iterator for ResultStream {
    type Item = Result<TaskResult, HqError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_result().transpose()
    }
}

/// What ended tasks left behind, finished and failed ones, read beside a list of them and only when one is asked for.
pub(crate) struct LeftReader(ResultStream);

impl LeftReader {
    /// Of tasks of these jobs.
    pub(crate) fn new(session: SharedSession, jobs: &[JobId], tasks: Option<IdSet>) -> LeftReader {
        let stream = ResultStream::new(session, only(jobs.iter().copied()), tasks);
        LeftReader(ResultStream { with_failed: true, ..stream })
    }

    /// What a task left. Tasks are asked for in ascending order.
    pub(crate) fn of(&mut self, task: TaskRef) -> Result<Option<TaskResult>, HqError> {
        self.0.of(task)
    }
}
