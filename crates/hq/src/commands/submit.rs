//! `hq submit`.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hq_client::limits::JOB_FILE_BYTES_MAX;
use hq_client::options::{OptionsError, Prepared, SubmitOptions, Surroundings, prepare, prepare_file};
use hq_client::{ClientError, Session, Watch, blocks, request_key};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, Submit, TaskId};

use super::{Context, Done, exit_of, unexpected};
use crate::cli::OutputMode;
use crate::cli::job::SubmitFileArgs;
use crate::error::HqError;
use crate::progress::Progress;
use crate::report::{SubmitWaited, Submitted};
use crate::waiting::{Follow, NotifyCommand, follow};

pub(super) fn submit(context: &Context, options: SubmitOptions) -> Result<Done, HqError> {
    let Prepared { submit, wait, warnings } = prepared(options)?;
    let on_notify = wait.on_notify.as_deref().map(NotifyCommand::parse).transpose()?;
    context.printer.warn(&warnings);
    let mut session = context.connect()?;
    if !wait.waits() {
        let response = session.request(request(submit)?)?;
        return Done::ok(submitted(context, response, warnings)?);
    }
    session.wait_for_lost_server(wait.reconnect_timeout);
    let (mut submitted, mut watch) =
        send_and_watch(context, &mut session, submit, warnings, on_notify.is_some())?;
    context.printer.announce(&mut submitted)?;
    let shows = wait.progress && context.printer.mode == OutputMode::Cli;
    let progress = if shows { Progress::shown() } else { Progress::hidden() };
    let waited = follow(&mut watch, Follow { on_notify, progress })?;
    let exit = exit_of(&waited, wait.allow_failures);
    Ok(Done::ok(SubmitWaited { submitted, waited })?.exit(exit))
}

/// Submits the tasks of a job file: a job is opened, gets them in as few requests as they fit into, and is closed.
pub(super) fn submit_file(context: &Context, args: SubmitFileArgs) -> Result<Done, HqError> {
    let submit_dir = std::env::current_dir().map_err(OptionsError::NoDirectory)?;
    let content = read_job_file(&args.file)?;
    let file = prepare_file(&args.file, &content, args.job, submit_dir.as_os_str().as_bytes())?;
    context.printer.warn(&file.warnings);
    let mut session = context.connect()?;
    let mut submits = file.submits;
    if submits.len() == 1 {
        let response = session.request(request(submits.remove(0))?)?;
        return Done::ok(submitted(context, response, file.warnings)?);
    }
    let (job, is_new) = match args.job {
        Some(job) => (job, false),
        None => match session.request(ClientRequest::OpenJob { key: request_key()?, spec: file.job })? {
            ClientResponse::Submitted { job, .. } => (job, true),
            _ => return unexpected(),
        },
    };
    let mut warnings = file.warnings;
    let mut existing = 0;
    for answer in session.request_all(&blocks(job, submits)?)? {
        match answer {
            ClientResponse::Submitted { warnings: more, existing: known, .. } => {
                let new: Vec<String> = more.into_iter().filter(|text| !warnings.contains(text)).collect();
                context.printer.warn(&new);
                warnings.extend(new);
                existing += known.len();
            }
            ClientResponse::Error(error) => {
                // Half a job is of no use; what was in an open job before stays.
                if is_new {
                    let reason = Some("its job file could not be submitted as a whole".to_owned());
                    session.request(ClientRequest::Cancel { jobs: only(job), tasks: None, reason })?;
                }
                return Err(ClientError::from(error).into());
            }
            _ => return unexpected(),
        }
    }
    if is_new {
        session.request(ClientRequest::CloseJobs { jobs: only(job) })?;
    }
    Done::ok(Submitted { job, existing, warnings })
}

fn read_job_file(path: &Path) -> Result<String, HqError> {
    let what = "the job file";
    let failed = |source| OptionsError::Read { what, path: path.into(), source };
    let open = || -> std::io::Result<Box<dyn Read>> {
        Ok(if path == Path::new("-") { Box::new(std::io::stdin()) } else { Box::new(File::open(path)?) })
    };
    let mut content = Vec::new();
    let max = JOB_FILE_BYTES_MAX;
    open().and_then(|file| file.take(max + 1).read_to_end(&mut content)).map_err(failed)?;
    if content.len() as u64 > max {
        return Err(OptionsError::TooLarge { what: path.display().to_string(), max }.into());
    }
    let message = "it is not text in UTF-8".to_owned();
    Ok(String::from_utf8(content).map_err(|_| OptionsError::JobFile { path: path.into(), message })?)
}

/// A submit of what the user said, in the present directory.
pub(super) fn prepared(options: SubmitOptions) -> Result<Prepared, HqError> {
    let submit_dir = std::env::current_dir().map_err(hq_client::options::OptionsError::NoDirectory)?;
    let mut stdin = std::io::stdin().lock();
    Ok(prepare(options, &mut Surroundings { submit_dir, stdin: &mut stdin })?)
}

/// Sends a submit and follows its tasks, from before the first of them can say something.
pub(super) fn send_and_watch<'a>(
    context: &Context,
    session: &'a mut Session,
    submit: Submit,
    warnings: Vec<String>,
    notifications: bool,
) -> Result<(Submitted, Watch<'a>), HqError> {
    let (response, watch) = session.submit_and_watch(request(submit)?, notifications)?;
    Ok((submitted(context, response, warnings)?, watch))
}

fn request(submit: Submit) -> Result<ClientRequest, HqError> {
    Ok(ClientRequest::Submit { key: request_key()?, submit: Box::new(submit) })
}

// Shows what the server warns of.
fn submitted(
    context: &Context,
    response: ClientResponse,
    mut warnings: Vec<String>,
) -> Result<Submitted, HqError> {
    match response {
        ClientResponse::Submitted { job, existing, warnings: more, .. } => {
            context.printer.warn(&more);
            warnings.extend(more);
            Ok(Submitted { job, existing: existing.len(), warnings })
        }
        _ => unexpected(),
    }
}

/// The selector of one job.
pub(super) fn only(job: JobId) -> Selector {
    Selector::Ids(IdSet::single(TaskId(job.0)))
}
