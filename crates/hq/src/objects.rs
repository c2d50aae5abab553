//! Objects of jobs as a stream: read from the server a page at a time, so that a list of any length needs the memory of a page.

use std::collections::VecDeque;

use hq_client::{ClientError, Session};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::object_messages::{ObjectPage, ObjectPhase, ObjectRequest, ObjectView};
use hq_model::selector::Selector;
use hq_model::{IdSet, ObjectId, TaskId};

use crate::cli::object::ObjectArg;
use crate::error::HqError;

/// Where pages come from.
pub(crate) trait ObjectPages {
    /// The next page; `None` after the last one.
    fn next_page(&mut self) -> Result<Option<Vec<ObjectView>>, HqError>;
}

/// Pages of a server.
pub(crate) struct ServerObjects {
    session: Session,
    jobs: Selector,
    phases: Vec<ObjectPhase>,
    // Only these of them.
    only: Option<ObjectArg>,
    after: Option<ObjectId>,
    is_done: bool,
}

impl ServerObjects {
    /// Some objects of a job, in one of these states, or in any where none is named.
    pub(crate) fn of(session: Session, objects: ObjectArg, phases: Vec<ObjectPhase>) -> ServerObjects {
        let jobs = objects.job.map_or(Selector::Last, |job| Selector::Ids(IdSet::single(TaskId(job.0))));
        ServerObjects { only: Some(objects), ..ServerObjects::new(session, jobs, phases) }
    }

    /// Objects of these jobs in one of these states, or in any where none is named.
    pub(crate) fn new(session: Session, jobs: Selector, phases: Vec<ObjectPhase>) -> ServerObjects {
        ServerObjects { session, jobs, phases, only: None, after: None, is_done: false }
    }
}

/// One request about objects that is answered by some of them.
pub(crate) fn ask(session: &mut Session, request: ObjectRequest) -> Result<ObjectPage, HqError> {
    match session.request(ClientRequest::Objects(request))? {
        ClientResponse::Objects(page) => Ok(*page),
        _ => Err(ClientError::Unexpected.into()),
    }
}

impl ObjectPages for ServerObjects {
    fn next_page(&mut self) -> Result<Option<Vec<ObjectView>>, HqError> {
        if self.is_done {
            return Ok(None);
        }
        let (jobs, phases) = (self.jobs.clone(), self.phases.clone());
        let list = ObjectRequest::List { jobs, phases, after: self.after.clone() };
        let mut page = ask(&mut self.session, list)?;
        page.objects.retain(|view| self.only.as_ref().is_none_or(|only| only.means(&view.copy.object)));
        // A page that does not move on would be asked for again without end.
        if page.next.is_some() && page.next <= self.after {
            return Err(ClientError::Unexpected.into());
        }
        self.is_done = page.next.is_none();
        self.after = page.next;
        Ok(Some(page.objects))
    }
}

/// A stream of objects.
pub(crate) struct ObjectStream {
    pages: Box<dyn ObjectPages>,
    page: VecDeque<ObjectView>,
}

impl ObjectStream {
    /// A stream of these pages, of which the first is read now: when there is none, nothing has been printed yet.
    pub(crate) fn begin(mut pages: impl ObjectPages + 'static) -> Result<ObjectStream, HqError> {
        let page = pages.next_page()?.unwrap_or_default().into();
        Ok(ObjectStream { pages: Box::new(pages), page })
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Result<Option<ObjectView>, HqError> {
        loop {
            if let Some(object) = self.page.pop_front() {
                return Ok(Some(object));
            }
            match self.pages.next_page()? {
                Some(page) => self.page = page.into(),
                None => return Ok(None),
            }
        }
    }
}
