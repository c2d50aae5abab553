//! `hq worker …`, but for deploying.

use hq_core::client_messages::{ClientRequest, ClientResponse, WorkerFilter, WorkerInfo};
use hq_model::selector::Selector;
use hq_model::{IdSet, TaskId};

use super::{Context, Done, unexpected};
use crate::cli::worker::{
    AddressArgs, FilterArg, HwdetectArgs, InfoArgs, ListArgs, StartArgs, StopArgs, WaitArgs,
};
use crate::error::HqError;
use crate::report::{Answer, Nothing, WorkerDetails, Workers, WorkersStopped};

pub(super) fn start(_context: &Context, _args: StartArgs) -> Result<u8, HqError> {
    Err(HqError::usage("not yet"))
}

pub(super) fn hwdetect(_args: HwdetectArgs) -> Result<Done, HqError> {
    Err(HqError::usage("not yet"))
}

pub(super) fn stop(context: &Context, args: StopArgs) -> Result<Done, HqError> {
    let StopArgs { workers, drain } = args;
    match context.ask(ClientRequest::StopWorkers { workers, drain })? {
        ClientResponse::WorkersStopped(workers) => Done::ok(WorkersStopped { workers, drain }),
        _ => unexpected(),
    }
}

pub(super) fn list(context: &Context, args: ListArgs) -> Result<Done, HqError> {
    let filter = match (args.all, args.filter) {
        (true, _) => WorkerFilter::All,
        (false, Some(FilterArg::Offline)) => WorkerFilter::Offline,
        (false, Some(FilterArg::Running) | None) => WorkerFilter::Running,
    };
    Done::ok(Workers(workers(context, Selector::All, filter)?))
}

pub(super) fn info(context: &Context, args: InfoArgs) -> Result<Done, HqError> {
    Done::ok(WorkerDetails(workers(context, args.workers, WorkerFilter::All)?))
}

fn workers(context: &Context, workers: Selector, filter: WorkerFilter) -> Result<Vec<WorkerInfo>, HqError> {
    match context.ask(ClientRequest::ListWorkers { workers, filter })? {
        ClientResponse::Workers(workers) => Ok(workers),
        _ => unexpected(),
    }
}

pub(super) fn address(context: &Context, args: AddressArgs) -> Result<Done, HqError> {
    let only = Selector::Ids(IdSet::single(TaskId(args.worker.0)));
    match workers(context, only, WorkerFilter::All)?.as_slice() {
        [worker] => Done::ok(Answer { name: "address", text: worker.config.hostname.clone() }),
        _ => unexpected(),
    }
}

pub(super) fn wait(context: &Context, args: WaitArgs) -> Result<Done, HqError> {
    match context.ask(ClientRequest::WaitWorkers { count: args.count })? {
        ClientResponse::Done => Done::ok(Nothing),
        _ => unexpected(),
    }
}
