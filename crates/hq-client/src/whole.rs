//! Submitting all tasks of a job file, or none of them.

use hq_core::client_messages::{ClientRequest, ClientResponse, NewJob, RequestError};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, JobSpec, ObjectName, TaskId};

use crate::blocks::blocks;
use crate::error::ClientError;
use crate::options::{PreparedFile, behind};
use crate::session::{Session, request_key};
use crate::too_large::TooLarge;

/// What was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmittedFile {
    /// The job.
    pub job: JobId,
    /// How many of its tasks were there before.
    pub existing: usize,
    /// What the user should know: first what the file says by itself, then what the server adds.
    pub warnings: Vec<String>,
}

/// Why tasks of a file were not submitted.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct NotSubmitted {
    /// What failed.
    pub error: ClientError,
    /// So many tasks are in the job all the same, and perhaps more: only of an open job.
    pub new: u64,
    /// There was more than one request, of which some may have been done: only of an open job.
    pub is_in_parts: bool,
}

impl<E: Into<ClientError>> From<E> for NotSubmitted {
    fn from(error: E) -> NotSubmitted {
        NotSubmitted { error: error.into(), new: 0, is_in_parts: false }
    }
}

impl Session {
    /// Submits the tasks of a job file to a new job behind these, which leave what is broadcast to its tasks. All of them are
    /// made, or none.
    ///
    /// # Errors
    /// When the server refuses or is lost.
    pub fn submit_behind(
        &mut self,
        file: PreparedFile,
        broadcasts: Vec<(NewJob, ObjectName)>,
    ) -> Result<SubmittedFile, NotSubmitted> {
        let PreparedFile { job: spec, submits, mut warnings } = file;
        let jobs = behind(broadcasts, spec, submits);
        match self.request(ClientRequest::SubmitJobs { key: request_key()?, jobs })? {
            ClientResponse::JobsSubmitted { jobs, warnings: more, .. } => {
                warnings.extend(more);
                let job = jobs.last().copied().ok_or(ClientError::Unexpected)?;
                Ok(SubmittedFile { job, existing: 0, warnings })
            }
            _ => Err(ClientError::Unexpected.into()),
        }
    }

    /// Submits the tasks of a job file, to the open job `open` or a new one. Those that do not fit into one request go into
    /// a draft, which counts when it is closed: so all of them are submitted or none. What was in an open job before stays
    /// there, so its tasks come in as many parts as there are requests.
    ///
    /// `tell` hears what the server warns of, at once.
    ///
    /// # Errors
    /// When the server refuses or is lost.
    pub fn submit_file(
        &mut self,
        file: PreparedFile,
        open: Option<JobId>,
        tell: &mut dyn FnMut(&[String]),
    ) -> Result<SubmittedFile, NotSubmitted> {
        let PreparedFile { job: spec, mut submits, mut warnings } = file;
        if submits.len() == 1 {
            let request = ClientRequest::Submit { key: request_key()?, submit: Box::new(submits.remove(0)) };
            return match self.request(request)? {
                ClientResponse::Submitted { job, existing, warnings: more, .. } => {
                    tell(&more);
                    warnings.extend(more);
                    Ok(SubmittedFile { job, existing: existing.len(), warnings })
                }
                _ => Err(ClientError::Unexpected.into()),
            };
        }
        TooLarge::check_each(&submits).map_err(ClientError::from)?;
        let (job, opening) = match open {
            Some(job) => (job, None),
            None => open_draft(self, spec).map(|(job, opening)| (job, Some(opening)))?,
        };
        let requests = blocks(job, submits)?;
        let is_in_parts = open.is_some() && requests.len() > 1;
        let refused = |error: ClientError, new| NotSubmitted { error, new, is_in_parts };
        // Requests behind a refused one may have been done.
        let answers =
            self.request_all_behind(opening.as_ref(), &requests).map_err(|error| refused(error, 0))?;
        let (mut existing, mut new) = (0, 0);
        for answer in answers {
            match answer {
                ClientResponse::Submitted { ids, warnings: more, existing: known, .. } => {
                    let unknown: Vec<String> =
                        more.into_iter().filter(|text| !warnings.contains(text)).collect();
                    tell(&unknown);
                    warnings.extend(unknown);
                    existing += known.len();
                    new += ids.len();
                }
                ClientResponse::Error(error) => {
                    if open.is_none() {
                        // The server would drop it as well, some time after this client.
                        let _ = withdraw(self, job);
                        new = 0;
                    }
                    return Err(refused(error.into(), new));
                }
                _ => return Err(ClientError::Unexpected.into()),
            }
        }
        if let Some(opening) = &opening {
            close_draft(self, job, opening)?;
        }
        Ok(SubmittedFile { job, existing, warnings })
    }
}

fn only(job: JobId) -> Selector {
    Selector::Ids(IdSet::single(TaskId(job.0)))
}

// Beside the draft, what opened it: with that its maker shows itself over another connection.
fn open_draft(session: &mut Session, spec: JobSpec) -> Result<(JobId, ClientRequest), ClientError> {
    let spec = JobSpec { is_draft: true, ..spec };
    let opening = ClientRequest::OpenJob { key: request_key()?, spec };
    match session.request(opening.clone())? {
        ClientResponse::Submitted { job, .. } => Ok((job, opening)),
        _ => Err(ClientError::Unexpected),
    }
}

// Takes back what was submitted so far.
fn withdraw(session: &mut Session, job: JobId) -> Result<(), ClientError> {
    session.request(ClientRequest::Cancel { jobs: only(job), tasks: None, reason: None })?;
    session.request(ClientRequest::CloseJobs { jobs: only(job) })?;
    session.request(ClientRequest::ForgetJobs { jobs: only(job), states: Vec::new() })?;
    Ok(())
}

// Nobody else closes it: one that is closed already was closed by a request whose answer was lost.
fn close_draft(session: &mut Session, job: JobId, opening: &ClientRequest) -> Result<(), ClientError> {
    let close = ClientRequest::CloseJobs { jobs: only(job) };
    match session.request_all_behind(Some(opening), &[close])?.pop() {
        Some(ClientResponse::Jobs(_) | ClientResponse::Error(RequestError::JobNotOpen(_))) => Ok(()),
        Some(ClientResponse::Error(error)) => Err(error.into()),
        _ => Err(ClientError::Unexpected),
    }
}
