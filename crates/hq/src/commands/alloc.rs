//! `hq alloc …`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use hq_core::alloc::messages::{AllocRequest, AllocResponse, AllocationInfo, QueueInfo, QueueStatus};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::limits::ALLOCATION_DIRECTORIES_KEPT;
use hq_model::QueueId;
use hq_model::allocation::{Goal, QueueParams, node_hours};
use serde_json::json;

use super::worker_args;
use super::{Context, Done, unexpected};
use crate::cli::OutputMode;
use crate::cli::alloc::{
    AddArgs, AllocCommand, EditArgs, InfoArgs, LogArgs, NewQueue, QueueArg, QueueOptions, RemoveArgs,
    UnsetArg,
};
use crate::error::HqError;
use crate::render::{Report, style::Style};
use crate::report::{Allocations, Changed, ExplainedQueue, QueueAdded, Queues, Sentence};

/// A worker without tasks for longer than this wastes node time.
const IDLE_TIMEOUT_LONG: Duration = Duration::from_secs(10 * 60);

pub(super) fn run(context: &Context, command: AllocCommand) -> Result<Done, HqError> {
    match command {
        AllocCommand::Add(args) => add(context, *args),
        AllocCommand::List => list(context),
        AllocCommand::Info(args) => info(context, args),
        AllocCommand::Log(args) => log(context, &args),
        AllocCommand::DryRun(args) => dry_run(context, args.queue),
        AllocCommand::Explain(QueueArg { queue }) => explain(context, queue),
        AllocCommand::Pause(QueueArg { queue }) => {
            done(context, AllocRequest::Pause { queue }, queue, "successfully paused", "paused")
        }
        AllocCommand::Resume(QueueArg { queue }) => {
            done(context, AllocRequest::Resume { queue }, queue, "successfully resumed", "resumed")
        }
        AllocCommand::Drain(QueueArg { queue }) => done(
            context,
            AllocRequest::Drain { queue },
            queue,
            "will request no more allocations; existing ones continue",
            "drained",
        ),
        AllocCommand::Remove(args) => remove(context, &args),
        AllocCommand::Edit(args) => edit(context, *args),
    }
}

fn ask(context: &Context, request: AllocRequest) -> Result<ClientResponse, HqError> {
    context.ask(ClientRequest::Alloc(request))
}

// Told in a sentence, and in a word for programs.
fn done(
    context: &Context,
    request: AllocRequest,
    queue: QueueId,
    what: &str,
    word: &str,
) -> Result<Done, HqError> {
    match ask(context, request)? {
        ClientResponse::Done => {
            Done::ok(changed(queue, format!("Allocation queue {queue} {what}"), Some(word)))
        }
        _ => unexpected(),
    }
}

fn changed(queue: QueueId, text: String, word: Option<&str>) -> Changed {
    Changed { text, document: json!({ "id": queue.0, "change": word }) }
}

fn remove(context: &Context, args: &RemoveArgs) -> Result<Done, HqError> {
    let (queue, force) = (args.queue, args.force);
    match done(context, AllocRequest::Remove { queue, force }, queue, "successfully removed", "removed") {
        Err(error) if error.code == "queue-busy" => {
            let running = details(context, queue)?.0.counts[1];
            Err(HqError::failed("queue-busy", busy_told(queue, running)).hint(format!(
                "--force cancels running ones as well; `hq alloc drain {queue}` stops requesting allocations and \
                 lets running ones end"
            )))
        }
        other => other,
    }
}

// Begins in the words that scripts know.
fn busy_told(queue: QueueId, running: u64) -> String {
    let allocations = if running == 1 { "allocation runs" } else { "allocations run" };
    format!(
        "Allocation queue has running jobs, so it will not be removed: {running} {allocations} in queue {queue}"
    )
}

fn add(context: &Context, args: AddArgs) -> Result<Done, HqError> {
    let params = Box::new(params(context, args.queue)?);
    match ask(context, AllocRequest::Add { params, dry_run: !args.no_dry_run })? {
        ClientResponse::Alloc(AllocResponse::Added(queue)) => Done::ok(QueueAdded(queue)),
        _ => unexpected(),
    }
}

fn dry_run(context: &Context, queue: NewQueue) -> Result<Done, HqError> {
    let params = Box::new(params(context, queue)?);
    match ask(context, AllocRequest::DryRun { params })? {
        ClientResponse::Done => Done::ok(Sentence(
            "A trial allocation was submitted successfully. It was immediately canceled to avoid wasting resources."
                .into(),
        )),
        _ => unexpected(),
    }
}

fn list(context: &Context) -> Result<Done, HqError> {
    match ask(context, AllocRequest::List)? {
        ClientResponse::Alloc(AllocResponse::Queues(queues)) => Done::ok(Queues(queues)),
        _ => unexpected(),
    }
}

fn details(context: &Context, queue: QueueId) -> Result<(QueueInfo, Vec<AllocationInfo>), HqError> {
    match ask(context, AllocRequest::Info { queue })? {
        ClientResponse::Alloc(AllocResponse::Details { queue, allocations }) => Ok((*queue, allocations)),
        _ => unexpected(),
    }
}

fn info(context: &Context, args: InfoArgs) -> Result<Done, HqError> {
    let (queue, mut allocations) = details(context, args.queue)?;
    allocations.retain(|one| args.filter.is_empty() || args.filter.contains(&one.state));
    Done::ok(Allocations { queue, allocations, verbose: args.verbose, cost: args.cost })
}

fn explain(context: &Context, queue: QueueId) -> Result<Done, HqError> {
    match ask(context, AllocRequest::Explain { queue })? {
        ClientResponse::Alloc(AllocResponse::Explained(explanation)) => {
            Done::ok(ExplainedQueue(*explanation))
        }
        _ => unexpected(),
    }
}

// The file is read here, so this machine must see the server's directory.
fn log(context: &Context, args: &LogArgs) -> Result<Done, HqError> {
    if context.printer.mode == OutputMode::Json {
        return Err(HqError::usage(
            "hq alloc log prints a file unchanged and has no JSON output; use another --output-mode",
        ));
    }
    let request = AllocRequest::Find { id: args.allocation.clone() };
    let ClientResponse::Alloc(AllocResponse::Found(found)) = ask(context, request)? else {
        return unexpected();
    };
    let path =
        Path::new(OsStr::from_bytes(&found.directory)).join(hq_model::Channel::from(args.channel).word());
    let is_removed = found.ended.is_some() && is_removed(&path);
    match File::open(&path) {
        Ok(file) => Done::ok(Output(Some(file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_removed => {
            let words = format!("Allocation {} has written nothing to {}", args.allocation, path.display());
            context.printer.warn(&[format!("{words}: {}", no_output_hint(false))]);
            Done::ok(Output(None))
        }
        Err(error) => {
            let text = format!("cannot read the output {}: {error}", path.display());
            Err(HqError::failed("no-output", text).hint(no_output_hint(is_removed)))
        }
    }
}

// The directory of the allocation is not there, while that of its queue is seen from here.
fn is_removed(file: &Path) -> bool {
    let mut above = file.ancestors().skip(1);
    above.next().is_some_and(|own| !own.exists()) && above.next().is_some_and(Path::exists)
}

fn no_output_hint(is_removed: bool) -> String {
    if is_removed {
        return format!(
            "its files have been removed: only those of the last {ALLOCATION_DIRECTORIES_KEPT} ended allocations of \
             a queue are kept"
        );
    }
    "a batch job that has not started has no output; some batch systems write the output only at the end"
        .into()
}

// What there is of it.
struct Output(Option<File>);

impl Output {
    fn copy(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        if let Some(file) = &mut self.0 {
            io::copy(file, out)?;
        }
        Ok(())
    }
}

impl Report for Output {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        self.copy(out)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        self.copy(out)
    }
}

fn params(context: &Context, queue: NewQueue) -> Result<QueueParams, HqError> {
    let mut params = QueueParams {
        name: queue.name,
        manager: queue.manager,
        time_limit: queue.time_limit,
        backlog: queue.backlog,
        max_workers_per_alloc: queue.max_workers_per_alloc,
        ..QueueParams::default()
    };
    put(&mut params, queue.options)?;
    checked(context, params)
}

fn checked(context: &Context, params: QueueParams) -> Result<QueueParams, HqError> {
    params.check().and_then(|()| params.check_budget()).map_err(|error| HqError::usage(error.to_string()))?;
    if params.idle_timeout.is_some_and(|timeout| timeout > IDLE_TIMEOUT_LONG) {
        let text = "You have set an idle timeout longer than 10 minutes. This can result in wasted allocation \
            duration: a worker without tasks keeps its node, which is charged, for this long.";
        context.printer.warn(&[text.to_owned()]);
    }
    Ok(params)
}

fn edit(context: &Context, args: EditArgs) -> Result<Done, HqError> {
    let queue = args.queue;
    let (info, _) = details(context, queue)?;
    let before = info.params.clone();
    let dry_run = !args.no_dry_run;
    let params = Box::new(checked(context, edited(info.params, args)?)?);
    if *params == before {
        let text = format!("Allocation queue {queue} already has these settings; nothing was changed");
        return Done::ok(changed(queue, text, None));
    }
    let ClientResponse::Done = ask(context, AllocRequest::Edit { queue, params, dry_run })? else {
        return unexpected();
    };
    let is_paused = matches!(details(context, queue)?.0.status, QueueStatus::Paused(..));
    Done::ok(changed(queue, edited_told(queue, is_paused), Some("edited")))
}

// What failures have paused asks again: who is paused then was paused by a user.
fn edited_told(queue: QueueId, is_paused: bool) -> String {
    let paused = format!("; it is still paused by a user: `hq alloc resume {queue}` resumes it");
    format!("Allocation queue {queue} successfully edited{}", if is_paused { paused.as_str() } else { "" })
}

fn edited(mut params: QueueParams, args: EditArgs) -> Result<QueueParams, HqError> {
    if let Some(budget) = args.options.budget.filter(|_| args.unset.contains(&UnsetArg::Budget)) {
        let text = format!(
            "--budget {} and --unset budget contradict each other: give one of them",
            node_hours(budget)
        );
        return Err(HqError::usage(text));
    }
    for option in &args.unset {
        match option {
            UnsetArg::MaxWorkerCount => params.max_worker_count = None,
            UnsetArg::Chain => params.chain = false,
            UnsetArg::KeepWaiting => params.keep_waiting = false,
            UnsetArg::ForAnyTask => params.for_any_task = false,
            UnsetArg::Goal => params.goal = Goal::default(),
            UnsetArg::Budget => params.budget = None,
            UnsetArg::Worker => worker_args::unset(&mut params),
            UnsetArg::WorkerTimeLimit => params.worker_time_limit = None,
            UnsetArg::WorkerStartCmd => params.start_command = None,
            UnsetArg::WorkerStopCmd => params.stop_command = None,
            UnsetArg::WorkerWrapCmd => params.wrap_command = None,
            UnsetArg::ManagerArgs => params.manager_args.clear(),
        }
    }
    params.time_limit = args.time_limit.unwrap_or(params.time_limit);
    params.backlog = args.backlog.unwrap_or(params.backlog);
    params.max_workers_per_alloc = args.max_workers_per_alloc.unwrap_or(params.max_workers_per_alloc);
    put(&mut params, args.options)?;
    Ok(params)
}

// What is given replaces what was there.
fn put(params: &mut QueueParams, given: QueueOptions) -> Result<(), HqError> {
    params.max_worker_count = given.max_worker_count.or(params.max_worker_count);
    params.chain |= given.chain;
    params.keep_waiting |= given.keep_waiting;
    params.for_any_task |= given.for_any_task;
    params.goal = given.goal.unwrap_or(params.goal);
    params.budget = given.budget.or(params.budget);
    params.worker_time_limit = given.worker_time_limit.or(params.worker_time_limit);
    params.start_command = given.worker_start_cmd.or(params.start_command.take());
    params.stop_command = given.worker_stop_cmd.or(params.stop_command.take());
    params.wrap_command = given.worker_wrap_cmd.or(params.wrap_command.take());
    if !given.manager_args.is_empty() {
        params.manager_args = given.manager_args.into_iter().map(OsString::into_vec).collect();
    }
    worker_args::put(params, &given.worker, given.on_server_lost)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: EditArgs,
    }

    fn edit_of(line: &str) -> Result<QueueParams, String> {
        let args =
            Line::try_parse_from(["edit", "1"].into_iter().chain(line.split(' '))).expect("a line").args;
        let before = QueueParams { budget: Some(Duration::from_secs(3600)), ..QueueParams::default() };
        edited(before, args).map_err(|error| error.text)
    }

    #[test]
    fn an_edit_says_that_a_queue_stays_paused() {
        assert_eq!(edited_told(QueueId(2), false), "Allocation queue 2 successfully edited");
        let text = "Allocation queue 2 successfully edited; it is still paused by a user: `hq alloc resume 2` \
            resumes it";
        assert_eq!(edited_told(QueueId(2), true), text);
    }

    #[test]
    fn what_cannot_be_done_is_told_with_its_values() {
        let text =
            "Allocation queue has running jobs, so it will not be removed: 1 allocation runs in queue 3";
        assert_eq!(busy_told(QueueId(3), 1), text);
        assert!(busy_told(QueueId(3), 2).ends_with("2 allocations run in queue 3"));
        assert!(no_output_hint(true).contains("the last 20 ended allocations"));
        assert!(no_output_hint(false).contains("has not started"));
    }

    #[test]
    fn a_budget_is_given_or_taken_away_and_not_both() {
        assert_eq!(edit_of("--budget 2").map(|params| params.budget), Ok(Some(Duration::from_secs(7200))));
        assert_eq!(edit_of("--unset budget").map(|params| params.budget), Ok(None));
        let text = "--budget 2 and --unset budget contradict each other: give one of them";
        assert_eq!(edit_of("--budget 2 --unset budget").map(|params| params.budget), Err(text.into()));
    }
}
