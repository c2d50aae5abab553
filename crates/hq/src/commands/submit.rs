//! `hq submit`.

use hq_client::options::{Prepared, SubmitOptions, Surroundings, prepare};
use hq_client::{Session, Watch, request_key};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, Submit, TaskId};

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
