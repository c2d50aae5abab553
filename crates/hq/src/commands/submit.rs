//! `hq submit`.

use hq_client::options::{Prepared, SubmitOptions, Surroundings, WaitOptions, prepare};
use hq_client::{Session, request_key};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskId};

use super::{Context, Done, exit_of, unexpected};
use crate::cli::OutputMode;
use crate::error::HqError;
use crate::progress::Progress;
use crate::report::{SubmitWaited, Submitted};
use crate::waiting::{Follow, NotifyCommand, follow};

pub(super) fn submit(context: &Context, options: SubmitOptions) -> Result<Done, HqError> {
    let Prepared { submit, wait, warnings } = prepared(options)?;
    let on_notify = wait.on_notify.as_deref().map(NotifyCommand::parse).transpose()?;
    context.printer.warn(&warnings);
    let mut session = context.connect()?;
    let submitted = send(context, &mut session, submit, warnings)?;
    if !wait.waits() {
        return Done::ok(submitted);
    }
    wait_for(context, &mut session, submitted, wait, on_notify)
}

/// A submit of what the user said, in the present directory.
pub(super) fn prepared(options: SubmitOptions) -> Result<Prepared, HqError> {
    let submit_dir = std::env::current_dir().map_err(hq_client::options::OptionsError::NoDirectory)?;
    let mut stdin = std::io::stdin().lock();
    Ok(prepare(options, &mut Surroundings { submit_dir, stdin: &mut stdin })?)
}

/// Sends a submit, and shows what the server warns of.
pub(super) fn send(
    context: &Context,
    session: &mut Session,
    submit: hq_model::Submit,
    mut warnings: Vec<String>,
) -> Result<Submitted, HqError> {
    let request = ClientRequest::Submit { key: request_key()?, submit: Box::new(submit) };
    match session.request(request)? {
        ClientResponse::Submitted { job, warnings: more, .. } => {
            context.printer.warn(&more);
            warnings.extend(more);
            Ok(Submitted { job, warnings })
        }
        _ => unexpected(),
    }
}

/// The selector of one job.
pub(super) fn only(job: JobId) -> Selector {
    Selector::Ids(IdSet::single(TaskId(job.0)))
}

fn wait_for(
    context: &Context,
    session: &mut Session,
    mut submitted: Submitted,
    wait: WaitOptions,
    on_notify: Option<NotifyCommand>,
) -> Result<Done, HqError> {
    context.printer.announce(&mut submitted)?;
    let shows = wait.progress && context.printer.mode == OutputMode::Cli;
    let progress = if shows { Progress::shown() } else { Progress::hidden() };
    // Whoever submits to an open job waits for its tasks; others may add more later.
    let follow_ = Follow { jobs: only(submitted.job), until_closed: false, on_notify, progress };
    let waited = follow(session, follow_)?;
    let exit = exit_of(&waited, wait.allow_failures);
    Ok(Done::ok(SubmitWaited { submitted, waited })?.exit(exit))
}
