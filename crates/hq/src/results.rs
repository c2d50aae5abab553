//! What finished tasks left behind, read page by page.

use std::collections::VecDeque;

use hq_client::ClientError;
use hq_core::client_messages::{ClientRequest, ClientResponse, JobResults};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskRef};

use crate::error::HqError;
use crate::jobs::SharedSession;

/// The result of one task.
pub(crate) struct TaskResult {
    /// The task.
    pub task: TaskRef,
    /// What it left behind: JSON.
    pub result: Vec<u8>,
}

/// Results of jobs, ascending.
pub(crate) struct ResultStream {
    session: SharedSession,
    jobs: Selector,
    tasks: Option<IdSet>,
    from: Option<TaskRef>,
    page: VecDeque<TaskResult>,
    // Tasks that were asked about and have none, of the job that is being read and of those before.
    asked: Option<(JobId, u64)>,
    found: u64,
    missing: u64,
    is_done: bool,
}

impl ResultStream {
    /// A stream of which the first page is read now: when there is none, nothing has been printed yet.
    pub(crate) fn begin(
        session: SharedSession,
        jobs: Selector,
        tasks: Option<IdSet>,
    ) -> Result<ResultStream, HqError> {
        let mut stream = ResultStream {
            session,
            jobs,
            tasks,
            from: None,
            page: VecDeque::new(),
            asked: None,
            found: 0,
            missing: 0,
            is_done: false,
        };
        stream.read()?;
        Ok(stream)
    }

    /// How many tasks had a result and how many had none, once all was read.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.found, self.missing)
    }

    /// How many tasks were asked about, when none of them has a result.
    pub(crate) fn none_of(&self) -> Option<u64> {
        (self.is_done && self.found == 0 && self.missing > 0).then_some(self.missing)
    }

    fn read(&mut self) -> Result<(), HqError> {
        let (jobs, tasks, from) = (self.jobs.clone(), self.tasks.clone(), self.from);
        let request = ClientRequest::Results { jobs, tasks, from };
        let ClientResponse::Results { jobs, next } = self.session.borrow_mut().request(request)? else {
            return Err(ClientError::Unexpected.into());
        };
        // A page that does not move on would be asked for again without end.
        if next.is_some() && next <= self.from {
            return Err(ClientError::Unexpected.into());
        }
        self.is_done = next.is_none();
        self.from = next;
        for JobResults { job, asked, ids, results } in jobs {
            // A page that begins within a job counts only what is left of it.
            let is_new = self.asked.is_none_or(|(known, _)| known != job);
            self.missing += if is_new { asked } else { 0 };
            self.missing = self.missing.saturating_sub(ids.len());
            self.found += ids.len();
            self.asked = Some((job, asked));
            let results = ids.iter().zip(results.iter());
            let results = results.map(|(task, result)| (TaskRef::new(job, task), result.to_vec()));
            self.page.extend(results.map(|(task, result)| TaskResult { task, result }));
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
}

impl Iterator for ResultStream {
    type Item = Result<TaskResult, HqError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_result().transpose()
    }
}
