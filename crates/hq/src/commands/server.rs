//! `hq server …`.

use std::time::{Duration, Instant};

use hq_client::{ClientError, Session, limits};
use hq_core::client_messages::{ClientRequest, ClientResponse};

use super::{Context, Done, unexpected};
use crate::cli::server::{GenerateAccessArgs, StartArgs, WaitArgs};
use crate::error::HqError;
use crate::report::{Nothing, Sentence, Server};
use hq_model::duration;

pub(super) fn start(_context: &Context, _args: StartArgs) -> Result<u8, HqError> {
    Err(HqError::usage("not yet"))
}

pub(super) fn stop(context: &Context) -> Result<Done, HqError> {
    match context.ask(ClientRequest::StopServer)? {
        ClientResponse::Done => Done::ok(Sentence("The server is stopping".into())),
        _ => unexpected(),
    }
}

pub(super) fn info(context: &Context) -> Result<Done, HqError> {
    match context.ask(ClientRequest::ServerInfo)? {
        ClientResponse::ServerInfo(info) => Done::ok(Server { server_dir: context.server_dir.clone(), info }),
        _ => unexpected(),
    }
}

// The access file may appear on a file system that tells no one of it, so it is looked for again and again, quickly at first.
pub(super) fn wait(context: &Context, args: WaitArgs) -> Result<Done, HqError> {
    let begin = Instant::now();
    let mut delay = limits::RECONNECT_DELAY;
    loop {
        let error = match Session::connect(&context.server_dir) {
            Ok(_) => return Done::ok(Nothing),
            Err(error) if may_come(&error) => error,
            Err(error) => return Err(error.into()),
        };
        let left = args.timeout.saturating_sub(begin.elapsed());
        if left.is_zero() {
            let waited = duration::format(args.timeout);
            let mut error = HqError::from(error);
            error.text = format!("Timeout after {waited}: {}", error.text);
            return Err(error);
        }
        std::thread::sleep(delay.min(left));
        delay = (delay * 2).min(limits::RECONNECT_DELAY_MAX);
    }
}

fn may_come(error: &ClientError) -> bool {
    matches!(error, ClientError::Access(_) | ClientError::Connect(_))
}

pub(super) fn generate_access(_args: GenerateAccessArgs) -> Result<Done, HqError> {
    let _ = Duration::ZERO;
    Err(HqError::usage("not yet"))
}
