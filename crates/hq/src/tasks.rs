//! Tasks of jobs as a stream: read from the server a page at a time, so that a list of a million needs the memory of a page.

use std::collections::VecDeque;

use hq_client::limits::TASK_PAGE;
use hq_client::{ClientError, Session};
use hq_core::client_messages::{ClientRequest, ClientResponse, TaskInfo};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskId, TaskRef, TaskState};

use crate::error::HqError;

/// Where pages come from.
pub(crate) trait Pages {
    /// The next page, ascending; `None` after the last one.
    fn next_page(&mut self) -> Result<Option<Vec<(JobId, TaskInfo)>>, HqError>;
}

/// Pages of a server.
pub(crate) struct ServerPages {
    session: Session,
    jobs: Selector,
    tasks: Option<IdSet>,
    states: Vec<TaskState>,
    after: Option<TaskRef>,
    is_done: bool,
}

impl ServerPages {
    /// Tasks of these jobs: only `tasks`, only those in `states` (all when empty).
    pub(crate) fn new(
        session: Session,
        jobs: &[JobId],
        tasks: Option<IdSet>,
        states: Vec<TaskState>,
    ) -> ServerPages {
        let ids: IdSet = jobs.iter().map(|job| TaskId(job.0)).collect();
        ServerPages {
            session,
            jobs: Selector::Ids(ids),
            tasks,
            states,
            after: None,
            is_done: jobs.is_empty(),
        }
    }
}

impl Pages for ServerPages {
    fn next_page(&mut self) -> Result<Option<Vec<(JobId, TaskInfo)>>, HqError> {
        if self.is_done {
            return Ok(None);
        }
        let request = ClientRequest::ListTasks {
            jobs: self.jobs.clone(),
            tasks: self.tasks.clone(),
            states: self.states.clone(),
            after: self.after,
            limit: TASK_PAGE,
        };
        let ClientResponse::Tasks { tasks, next } = self.session.request(request)? else {
            return Err(ClientError::Unexpected.into());
        };
        // A page that does not move on would be asked for again without end.
        if next.is_some() && next <= self.after {
            return Err(ClientError::Unexpected.into());
        }
        self.is_done = next.is_none();
        self.after = next;
        Ok(Some(tasks))
    }
}

/// A stream of tasks, job by job.
pub(crate) struct TaskStream {
    pages: Box<dyn Pages>,
    page: VecDeque<(JobId, TaskInfo)>,
}

impl TaskStream {
    /// A stream of these pages.
    pub(crate) fn new(pages: impl Pages + 'static) -> TaskStream {
        TaskStream { pages: Box::new(pages), page: VecDeque::new() }
    }

    /// The next task of that job, `None` when the stream has gone on to a later one or ended.
    pub(crate) fn next_of(&mut self, job: JobId) -> Result<Option<TaskInfo>, HqError> {
        while self.page.is_empty() {
            match self.pages.next_page()? {
                Some(page) => self.page = page.into(),
                None => return Ok(None),
            }
        }
        match self.page.front() {
            Some((first, _)) if *first == job => Ok(self.page.pop_front().map(|(_, task)| task)),
            _ => Ok(None),
        }
    }
}
