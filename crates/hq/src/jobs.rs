//! Jobs as a stream: read from the server a page at a time, so that a job of any number of different tasks needs the memory
//! of a page.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use hq_client::{ClientError, Session};
use hq_core::client_messages::{ClientRequest, ClientResponse, JobDetail, JobPage, PageStart, SubmitInfo};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskId, Timestamp};

use crate::error::HqError;
use crate::logging;

/// A session that several streams read from, in turn.
pub(crate) type SharedSession = Rc<RefCell<Session>>;

/// Where pages of jobs come from.
pub(crate) trait JobPages {
    /// The next page; `None` after the last one. A job with submits on several pages is on each of them.
    fn next_page(&mut self) -> Result<Option<Vec<JobDetail>>, HqError>;

    /// Nothing more of this job is wanted.
    fn skip(&mut self, job: JobId);

    /// The time of the server when it told the latest page, if it says.
    fn now(&self) -> Option<Timestamp> {
        None
    }
}

/// Pages of a server.
pub(crate) struct ServerJobs {
    session: SharedSession,
    jobs: Selector,
    tasks: Option<IdSet>,
    from: Option<PageStart>,
    now: Option<Timestamp>,
    is_done: bool,
}

impl ServerJobs {
    /// These jobs with all their submits.
    pub(crate) fn new(session: SharedSession, jobs: Selector) -> ServerJobs {
        let is_done = matches!(&jobs, Selector::Ids(ids) if ids.is_empty());
        ServerJobs { session, jobs, tasks: None, from: None, now: None, is_done }
    }

    /// Only the submits of these tasks.
    pub(crate) fn of_tasks(self, tasks: IdSet) -> ServerJobs {
        ServerJobs { tasks: Some(tasks), ..self }
    }

    /// Without their submits, unless the server is of a release that tells all or nothing.
    pub(crate) fn without_submits(self) -> ServerJobs {
        self.of_tasks(IdSet::new())
    }
}

impl JobPages for ServerJobs {
    fn next_page(&mut self) -> Result<Option<Vec<JobDetail>>, HqError> {
        if self.is_done {
            return Ok(None);
        }
        let page = JobPage { tasks: self.tasks.clone(), from: self.from };
        let request = ClientRequest::JobInfo { jobs: self.jobs.clone(), page: Some(page) };
        let ClientResponse::JobDetails { jobs, next, now } = self.session.borrow_mut().request(request)?
        else {
            return Err(ClientError::Unexpected.into());
        };
        self.now = now;
        // A page that does not move on would be asked for again without end.
        if next.is_some() && next <= self.from {
            return Err(ClientError::Unexpected.into());
        }
        if self.jobs == Selector::Last {
            // Soon it may be another one.
            self.jobs = only(jobs.iter().map(|job| job.summary.job));
        }
        self.is_done = next.is_none();
        self.from = next;
        Ok(Some(jobs))
    }

    fn skip(&mut self, job: JobId) {
        if let Some(from) = &mut self.from
            && from.job == job
        {
            match job.0.checked_add(1) {
                Some(next) => *from = PageStart::of(JobId(next)),
                None => self.is_done = true,
            }
        }
    }

    fn now(&self) -> Option<Timestamp> {
        self.now
    }
}

// Of no job.
impl JobPages for () {
    fn next_page(&mut self) -> Result<Option<Vec<JobDetail>>, HqError> {
        Ok(None)
    }

    fn skip(&mut self, _: JobId) {}
}

/// The selector of these jobs.
pub(crate) fn only(jobs: impl IntoIterator<Item = JobId>) -> Selector {
    Selector::Ids(jobs.into_iter().map(|job| TaskId(job.0)).collect())
}

/// A stream of jobs, each with its submits.
pub(crate) struct JobStream {
    pages: Box<dyn JobPages>,
    page: VecDeque<JobDetail>,
    job: Option<JobId>,
    submits: VecDeque<SubmitInfo>,
}

impl JobStream {
    /// A stream of these pages, of which the first is read now: when there is none, nothing has been printed yet.
    pub(crate) fn begin(mut pages: impl JobPages + 'static) -> Result<JobStream, HqError> {
        let page = pages.next_page()?.unwrap_or_default().into();
        Ok(JobStream { pages: Box::new(pages), page, job: None, submits: VecDeque::new() })
    }

    /// The time of the server when it told the latest page; that of this machine where it does not say.
    pub(crate) fn now(&self) -> Timestamp {
        self.pages.now().unwrap_or_else(logging::now)
    }

    /// The next job, whose submits follow one by one. Those of the job before that were not asked for are passed over.
    pub(crate) fn next_job(&mut self) -> Result<Option<JobDetail>, HqError> {
        let before = self.job.take();
        if let Some(job) = before {
            self.pages.skip(job);
        }
        loop {
            self.page.retain(|next| Some(next.summary.job) != before);
            if !self.page.is_empty() {
                break;
            }
            match self.pages.next_page()? {
                Some(page) => self.page = page.into(),
                None => return Ok(None),
            }
        }
        Ok(self.page.pop_front().map(|mut detail| {
            self.job = Some(detail.summary.job);
            self.submits = std::mem::take(&mut detail.submits).into();
            detail
        }))
    }

    /// The next submit of the job that was told last.
    pub(crate) fn next_submit(&mut self) -> Result<Option<SubmitInfo>, HqError> {
        loop {
            if let Some(submit) = self.submits.pop_front() {
                return Ok(Some(submit));
            }
            match self.page.front() {
                Some(next) if self.job == Some(next.summary.job) => {
                    self.submits = self.page.pop_front().map(|next| next.submits.into()).unwrap_or_default();
                }
                Some(_) => return Ok(None),
                None => match self.pages.next_page()? {
                    Some(page) => self.page = page.into(),
                    None => return Ok(None),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::detail;

    struct Given(VecDeque<Vec<JobDetail>>, Rc<RefCell<Vec<JobId>>>);

    impl JobPages for Given {
        fn next_page(&mut self) -> Result<Option<Vec<JobDetail>>, HqError> {
            Ok(self.0.pop_front())
        }

        fn skip(&mut self, job: JobId) {
            self.1.borrow_mut().push(job);
        }
    }

    fn job(id: u32, submits: std::ops::Range<u32>) -> JobDetail {
        let mut detail = detail();
        detail.summary.job = JobId(id);
        let one = detail.submits.remove(0);
        detail.submits = submits.map(|index| SubmitInfo { index, ..one.clone() }).collect();
        detail
    }

    fn stream() -> (JobStream, Rc<RefCell<Vec<JobId>>>) {
        let pages = [
            vec![job(1, 0..2), job(2, 0..1)],
            vec![job(2, 1..3)],
            Vec::new(),
            vec![job(2, 3..4), job(3, 0..0), job(4, 0..1)],
        ];
        let skipped = Rc::default();
        (JobStream::begin(Given(pages.into(), Rc::clone(&skipped))).expect("pages"), skipped)
    }

    #[test]
    fn submits_follow_their_job_over_pages() {
        let (mut stream, _) = stream();
        let mut told = Vec::new();
        while let Some(job) = stream.next_job().expect("pages") {
            told.push(format!("job {}", job.summary.job));
            while let Some(submit) = stream.next_submit().expect("pages") {
                told.push(submit.index.to_string());
            }
        }
        assert_eq!(told.join(" "), "job 1 0 1 job 2 0 1 2 3 job 3 job 4 0");
    }

    #[test]
    fn what_is_left_of_a_job_is_passed_over() {
        let (mut stream, skipped) = stream();
        let mut told = Vec::new();
        while let Some(job) = stream.next_job().expect("pages") {
            let first = stream.next_submit().expect("pages");
            told.push(format!("{}: {:?}", job.summary.job, first.map(|submit| submit.index)));
        }
        assert_eq!(told.join(", "), "1: Some(0), 2: Some(0), 3: None, 4: Some(0)");
        assert_eq!(skipped.borrow().as_slice(), [JobId(1), JobId(2), JobId(3), JobId(4)]);
    }
}
