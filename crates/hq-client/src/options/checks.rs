//! What is refused of options before anything is sent: contradictions, and what Linux passes to no program.

use std::path::{Path, PathBuf};

use hq_model::entry::is_of_entry;
use hq_model::task::EndBy;
use hq_model::{Compression, Entries, IdSet, OutputSink, Stream, TaskSpec, duration, pattern};

use super::error::OptionsError;
use super::filled::{Filled, argument_name, entry_number, variable_name};
use super::job::WaitOptions;
use super::submit::{CommonOptions, DirectivesArg, SubmitOptions};
use super::task::TaskOptions;
use super::values::StdinArg;
use crate::limits;

/// What is replaced in the path of a stream.
const STREAM_PLACEHOLDERS: [&str; 3] = ["JOB_ID", "SUBMIT_DIR", "SERVER_UID"];

/// Standard input has one reader at most.
pub(super) fn check_stdin(options: &SubmitOptions, mode: DirectivesArg) -> Result<(), OptionsError> {
    let dash = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    let array = &options.common.array;
    let readers = [
        (mode == DirectivesArg::Stdin, "--directives=stdin"),
        (
            mode != DirectivesArg::Stdin && options.common.task.execution.stdin == Some(StdinArg::Inherited),
            "--stdin",
        ),
        (dash(&array.each_line), "--each-line -"),
        (dash(&array.from_json), "--from-json -"),
    ];
    let mut names = readers.iter().filter(|(reads, _)| *reads).map(|(_, name)| *name);
    match (names.next(), names.next()) {
        (Some(first), Some(second)) => Err(OptionsError::StdinTwice(first, second)),
        _ => Ok(()),
    }
}

/// Options that need or exclude each other.
pub(super) fn check(common: &CommonOptions, wait: &WaitOptions) -> Result<(), OptionsError> {
    let TaskOptions { outputs, objects, failures, .. } = &common.task;
    check_nodes(&common.task)?;
    common.job.notices.check().map_err(OptionsError::Notices)?;
    objects.check()?;
    if !objects.left.is_empty() && failures.speculate.is_some() {
        return Err(OptionsError::Conflict("--output-object", "--speculate"));
    }
    if !objects.left.is_empty() && common.task.execution.service {
        return Err(OptionsError::Conflict("--output-object", "--service"));
    }
    if outputs.log.is_some() && outputs.stream.is_some() {
        return Err(OptionsError::Conflict("--log", "--stream"));
    }
    if outputs.place().is_none() && outputs.compress.is_some_and(|compress| compress != Compression::None) {
        return Err(OptionsError::Needs("--compress", "--stream or --log"));
    }
    if outputs.output.is_empty() && outputs.output_patience.is_some() {
        return Err(OptionsError::Needs("--output-patience", "--output"));
    }
    if failures.retry.is_none() {
        if failures.retry_on.is_some() {
            return Err(OptionsError::RetryWithoutCount("--retry-on"));
        }
        if failures.retry_delay.is_some() {
            return Err(OptionsError::RetryWithoutCount("--retry-delay"));
        }
    }
    if !wait.waits() {
        if wait.on_notify.is_some() {
            return Err(OptionsError::Needs("--on-notify", "--wait or --progress"));
        }
        if wait.allow_failures {
            return Err(OptionsError::Needs("--allow-failures", "--wait or --progress"));
        }
    }
    Ok(())
}

/// The path of a stream is told by what all tasks of a job have in common.
pub(super) fn check_stream(stream: &Stream) -> Result<(), OptionsError> {
    let (option, what) = match stream {
        Stream::Directory(_) => ("--stream", "directory"),
        Stream::Log(_) => ("--log", "file"),
    };
    let is_known = |name: &String| STREAM_PLACEHOLDERS.contains(&name.as_str());
    match pattern::names(stream.path()).into_iter().find(|name| !is_known(name)) {
        Some(name) => Err(OptionsError::StreamPlaceholder { option, name }),
        None if stream.path().is_empty() => Err(OptionsError::StreamNowhere { option, what }),
        None if stream.path() == b"-" => Err(OptionsError::StreamToStdout { option, what }),
        None => Ok(()),
    }
}

/// A locality key holds placeholders of the server only, and those of entries only when there are entries.
pub(super) fn check_locality(spec: &TaskSpec, entries: &Entries) -> Result<(), OptionsError> {
    let Some(key) = &spec.locality else { return Ok(()) };
    for name in pattern::names(key) {
        let is_of_entry = is_of_entry(&name);
        if !is_of_entry && name != "JOB_ID" && name != "TASK_ID" {
            return Err(OptionsError::LocalityPlaceholder(name));
        }
        if is_of_entry && entries.is_empty() {
            return Err(OptionsError::LocalityWithoutEntries(name));
        }
    }
    Ok(())
}

/// A signal ahead of a time limit comes while the task runs.
pub(super) fn check_warning(spec: &TaskSpec) -> Result<(), OptionsError> {
    match (&spec.warning, spec.time_limit) {
        (Some(warning), Some(limit)) if warning.before >= limit => {
            Err(OptionsError::WarningAtStart { before: warning.before, limit })
        }
        _ => Ok(()),
    }
}

fn check_nodes(task: &TaskOptions) -> Result<(), OptionsError> {
    let TaskOptions { resources, failures, execution, .. } = task;
    let has_nodes = resources.nodes.is_some_and(|nodes| nodes > 0);
    let has_ranks = resources.ranks_per_node.or(resources.ranks).is_some_and(|ranks| ranks > 0);
    if has_ranks {
        let excluded = [
            (resources.cpus.is_some(), "--cpus"),
            (resources.gpus.is_some(), "--gpus"),
            (failures.speculate.is_some(), "--speculate"),
        ];
        return match excluded.iter().find(|excluded| excluded.0) {
            Some((_, option)) => Err(OptionsError::Conflict("--ranks-per-node", option)),
            None => Ok(()),
        };
    }
    let of_ranks = [
        (resources.cpus_per_rank.is_some(), "--cpus-per-rank"),
        (resources.gpus_per_rank.is_some(), "--gpus-per-rank"),
        (resources.exclusive, "--exclusive"),
        (execution.launcher.is_some() && !has_nodes, "--launcher"),
    ];
    if let Some((_, option)) = of_ranks.iter().find(|option| option.0) {
        return Err(OptionsError::Needs(option, "--ranks-per-node"));
    }
    let excluded = [
        (resources.cpus.is_some(), "--cpus"),
        (resources.gpus.is_some(), "--gpus"),
        (resources.mem.is_some(), "--mem"),
        (resources.pin.is_some(), "--pin"),
        (failures.speculate.is_some(), "--speculate"),
    ];
    match excluded.iter().find(|excluded| excluded.0 && has_nodes) {
        Some((_, option)) => Err(OptionsError::Conflict("--nodes", option)),
        None => Ok(()),
    }
}

/// Arguments, variables and entries that Linux passes to no program. Entries have their numbers in a file, if there is one.
pub(super) fn check_lengths(
    spec: &TaskSpec,
    entries: &Entries,
    numbers: Option<&IdSet>,
) -> Result<(), OptionsError> {
    // The end mark counts.
    let max = limits::ARGUMENT_BYTES_MAX - 1;
    let check = |what: &dyn Fn() -> String, bytes: usize| {
        if bytes > max { Err(OptionsError::ArgumentTooLong { what: what(), bytes, max }) } else { Ok(()) }
    };
    let args = spec.body.texts();
    if spec.body.name().is_empty() {
        return Err(OptionsError::EmptyCommand);
    }
    let mut total = 0;
    for (i, arg) in args.iter().enumerate() {
        let what = || argument_name(i);
        check(&what, arg.len())?;
        if arg.contains(&0) {
            return Err(OptionsError::Nul { what: what() });
        }
        total += arg.len() + limits::ARGUMENT_COST;
    }
    for (key, value) in &spec.env {
        if key.is_empty() || key.contains(&b'=') {
            return Err(OptionsError::Variable(String::from_utf8_lossy(key).into_owned()));
        }
        let what = || variable_name(key);
        check(&what, key.len() + 1 + value.len())?;
        if key.contains(&0) || value.contains(&0) {
            return Err(OptionsError::Nul { what: what() });
        }
        total += key.len() + 1 + value.len() + limits::ARGUMENT_COST;
    }
    let mut longest = 0;
    let filled = Filled::new(spec);
    for (i, entry) in entries.iter().enumerate() {
        let bytes = b"HQ_ENTRY=".len() + entry.len();
        if bytes > max {
            return Err(OptionsError::EntryTooLong { entry: i, bytes, max });
        }
        if entry.contains(&0) {
            return Err(OptionsError::Nul { what: format!("entry {i}") });
        }
        let filled = filled.bytes(entry_number(numbers, i), entry)?;
        longest = longest.max(entry.len() + filled);
    }
    total += longest;
    if total > limits::ARGUMENTS_BYTES_MAX {
        return Err(OptionsError::ArgumentsTooLong { bytes: total, max: limits::ARGUMENTS_BYTES_MAX });
    }
    Ok(())
}

/// A task that is to end within less than it takes would be canceled at once.
pub(super) fn check_end_by(spec: &TaskSpec) -> Result<(), OptionsError> {
    match spec.end_by {
        Some(EndBy::Within(within)) if spec.time_needed() > within => {
            let (needed, within) = (duration::format(spec.time_needed()), duration::format(within));
            Err(OptionsError::Request(format!(
                "--end-by {within} is too early even for a task that starts now: with --expect or --time-request, \
                 each takes {needed}"
            )))
        }
        _ => Ok(()),
    }
}

/// What goes elsewhere together with what others print is no result, and functions have theirs anyhow.
pub(super) fn check_result(spec: &TaskSpec) -> Result<(), OptionsError> {
    if !spec.result.is_some() {
        return Ok(());
    }
    if spec.body.function().is_some() {
        return Err(OptionsError::Conflict("--result", "--function, whose result is its return value"));
    }
    if spec.result.is_printed() && spec.stdout == OutputSink::Stream {
        return Err(OptionsError::Conflict(
            "--result last-line and stdout",
            "--stream or --log; name a file",
        ));
    }
    if spec.result.is_printed() && spec.starts_ranks() {
        return Err(OptionsError::Conflict(
            "--result last-line and stdout",
            "tasks of several ranks; name a file",
        ));
    }
    Ok(())
}
