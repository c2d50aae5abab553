//! What a run with `--state` keeps beside its journal: which command it is, so that another one is not taken for it, and its
//! job until somebody was told how that ended.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use hq_client::Session;
use hq_core::client_messages::{ClientRequest, ClientResponse, JobSummary};
use hq_make::Digests;
use hq_model::{JobId, Submit, counted_are};
use serde::{Deserialize, Serialize};

use crate::commands::unexpected;
use crate::embedded::StateDir;
use crate::error::HqError;
use crate::make::{Sha256, hex};
use crate::render::text;

/// Name of the file in the directory.
const FILE: &str = "run.json";

/// The command of the last run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    command: String,
    digest: String,
    // Its job, as long as its end was not told.
    #[serde(default)]
    untold: Option<u32>,
}

impl Kept {
    /// Of a submit, with its command as people know it.
    pub(super) fn new(submit: &Submit) -> Kept {
        let request = ClientRequest::Submit { key: 0, submit: Box::new(submit.clone()) };
        let bytes = hq_proto::encode_client_request(0, &request);
        let digest = hex(&Sha256.of_text(&bytes));
        let words = submit.spec.body.texts().iter().map(|word| String::from_utf8_lossy(word).into_owned());
        let command = text::one_line(&words.collect::<Vec<_>>().join(" ")).to_string();
        Kept { command, digest, untold: None }
    }

    /// What the directory has.
    pub(super) fn load(state: &StateDir) -> Option<Kept> {
        serde_json::from_slice(&fs::read(file(state)).ok()?).ok()
    }

    /// Puts it there: whole or not at all.
    pub(super) fn save(&self, state: &StateDir) -> Result<(), HqError> {
        let mut file_new = tempfile::NamedTempFile::new_in(state.path())?;
        serde_json::to_writer(&mut file_new, self).map_err(std::io::Error::from)?;
        file_new.flush()?;
        file_new.persist(file(state)).map_err(|error| HqError::from(error.error))?;
        Ok(())
    }

    /// Notes the job of the run, or that its end was told.
    pub(super) fn note(state: &StateDir, untold: Option<JobId>) -> Result<(), HqError> {
        match Kept::load(state) {
            Some(kept) => Kept { untold: untold.map(|job| job.0), ..kept }.save(state),
            None => Ok(()),
        }
    }

    // The job of this command, or of whichever it was, of whose end nobody was told.
    fn untold_job(state: &StateDir, now: Option<&Kept>) -> Option<JobId> {
        let before = Kept::load(state)?;
        let is_same = now.is_none_or(|now| now.digest == before.digest);
        before.untold.map(JobId).filter(|_| is_same)
    }

    /// Refuses another command while tasks of this one are left.
    pub(super) fn check_same(
        before: Option<&Kept>,
        now: &Kept,
        job: &JobSummary,
        state: &StateDir,
    ) -> Result<(), HqError> {
        if before.is_some_and(|before| before.digest == now.digest) {
            return Ok(());
        }
        let dir = state.path().display();
        let of = match before {
            Some(before) if before.command == now.command => {
                format!(" of `{}` with other tasks, files or options", before.command)
            }
            Some(before) => format!(" of `{}`", before.command),
            None => String::new(),
        };
        let (done, total) = (job.counters.terminal(), job.counters.total());
        Err(HqError::failed(
            "interrupted-run",
            format!(
                "{dir} holds an interrupted run{of}: {done} of {} ended",
                counted_are(total, "task", "has", "have")
            ),
        )
        .hint(format!(
            "to resume it, run `hq run --state {}` without a command; use another directory for a \
             different run, or remove {dir} to discard the interrupted one",
            text::path_word(state.path())
        )))
    }
}

fn file(state: &StateDir) -> PathBuf {
    state.path().join(FILE)
}

/// The job that was interrupted, if one was: it has not ended, or this command has and never said so.
pub(super) fn interrupted_job(
    session: &mut Session,
    state: &StateDir,
    now: Option<&Kept>,
) -> Result<Option<JobSummary>, HqError> {
    let ClientResponse::JobList(jobs) = session.request(ClientRequest::ListJobs { states: Vec::new() })?
    else {
        return unexpected();
    };
    let untold = Kept::untold_job(state, now);
    let goes_on = |job: &JobSummary| {
        let is_over = !job.is_open && job.counters.terminal() == job.counters.total();
        !is_over || untold == Some(job.job)
    };
    Ok(jobs.into_iter().rfind(goes_on))
}
