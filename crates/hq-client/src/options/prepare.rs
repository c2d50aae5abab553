//! From options to a submit: reads the script, the entries and standard input, checks what can be checked
//! here, and collects what the user should be warned of.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hq_core::client_messages::NewJob;
use hq_model::job::{Target, TaskIds};
use hq_model::request::{CPUS, GPUS, MEM, WEIGHT_NEUTRAL};
use hq_model::task::{Pin, Retry};
use hq_model::{
    Amount, AmountRequest, Body, ByteString, Compression, Entries, IdSet, ObjectName, OnClose, OutputSink,
    Policy, Request, ResourceRequest, Stream, Submit, TaskSpec, pattern,
};

use super::broadcast;
use super::checks::{
    check, check_end_by, check_lengths, check_locality, check_result, check_stdin, check_stream,
    check_warning,
};
use super::directives::{self, Defaults, Directives};
use super::entries;
use super::error::OptionsError;
use super::feed::Fed;
use super::function;
use super::job::WaitOptions;
use super::placeholders::of_text;
use super::same_paths;
use super::submit::{CommonOptions, DirectivesArg, SubmitOptions};
use super::task::{ExecutionOptions, FailureOptions, OutputOptions, ResourceOptions, TaskOptions};
use super::values::{OutputArg, StdinArg};
use super::warnings::{hints, is_in_path, warnings};
use crate::limits;

/// Time between SIGTERM and SIGKILL of tasks that say nothing of it.
const KILL_GRACE: Duration = Duration::from_secs(5);
const CWD_DEFAULT: &[u8] = b"%{SUBMIT_DIR}";
const STDOUT_DEFAULT: &[u8] = b"%{CWD}/job-%{JOB_ID}/%{TASK_ID}.stdout";
const STDERR_DEFAULT: &[u8] = b"%{CWD}/job-%{JOB_ID}/%{TASK_ID}.stderr";

/// Where a submit is made.
pub struct Surroundings<'a> {
    /// The current directory, absolute.
    pub submit_dir: PathBuf,
    /// Standard input.
    pub stdin: &'a mut dyn Read,
    /// What holds where neither the options nor the script say it.
    pub defaults: Defaults,
}

/// A submit that is ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// What is sent.
    pub submit: Submit,
    /// What is sent instead where a generator makes such tasks.
    pub fed: Option<Fed>,
    /// Jobs that leave what is broadcast to its tasks, made together with it, and the names of that.
    pub broadcasts: Vec<(NewJob, ObjectName)>,
    /// How the submitter waits.
    pub wait: WaitOptions,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// What a person may have meant instead.
    pub hints: Vec<String>,
}

/// Turns options into a submit.
///
/// # Errors
/// When options contradict each other, or a file they name is not what it has to be.
pub fn prepare(options: SubmitOptions, around: &mut Surroundings) -> Result<Prepared, OptionsError> {
    let mode = options.command.directives.unwrap_or_default();
    check_stdin(&options, mode)?;
    let function = function::of_options(&options)?;
    let on_ranks = function::OnRanks { mpi: options.command.mpi, gathers: options.command.gather };
    check_target(&options)?;
    let script = Script::read(&options, mode, around)?;
    let defaults = std::mem::take(&mut around.defaults);
    let common = options.common.over(script.directives.common.clone());
    // What is set here is set nowhere else.
    let named: Vec<ByteString> = common.task.execution.env.iter().map(|own| own.key.clone()).collect();
    let mut beside = defaults.common;
    beside.task.execution.env.retain(|other| !named.contains(&other.key));
    // That of a configuration file is for those submits that have use for it.
    let is_default_python = common.task.execution.python.is_none();
    if common.task.outputs.place().or(beside.task.outputs.place()).is_none() {
        // In a configuration file it is for the submits to which it can apply.
        beside.task.outputs.compress = None;
    }
    if common.task.outputs.output.is_empty() && beside.task.outputs.output.is_empty() {
        beside.task.outputs.output_patience = None;
    }
    if function.is_some() {
        // It is for programs.
        beside.task.outputs.result = None;
    }
    let common = common.over(beside);
    let wait = options.wait.over(script.directives.wait.clone()).over(defaults.wait);
    check(&common, &wait)?;

    let CommonOptions { job, array, dependencies, mut task, feed } = common;
    let unused = without_effect(&mut task);
    let is_fed = feed.generate.is_some();
    if is_fed && array != Default::default() {
        return Err(OptionsError::Conflict(
            "--generate",
            "--array, --each-line, --from-json or --key: it makes the tasks",
        ));
    }
    let (ids, entries) = task_ids(&array, around)?;
    if task.execution.service && array.key.is_none() {
        return Err(OptionsError::Needs("--service", "--key"));
    }
    let keys = entries::keys(array.key.as_deref(), &ids, &entries)?;
    let without_interpreter = script.without_interpreter(&options.command.command);
    let hints = hints(&options.command.command, &around.submit_dir, &script.directives);
    let (name, mut body) = match function {
        Some((name, arguments)) => {
            function::check(&task)?;
            let python = task.execution.python.as_ref().map(|python| python.0.clone());
            (name.clone(), function::body(name, arguments, python, array.from_json.is_some()))
        }
        None if task.execution.python.is_some() && !is_default_python => {
            return Err(OptionsError::Needs("--python", "--function"));
        }
        None => {
            let words = Some(&options.command.command).filter(|words| !words.is_empty());
            let name = job_name(words.unwrap_or(&script.directives.interpreter));
            (
                name,
                Body::Program { args: command(options.command.command, &script, &task.execution, around)? },
            )
        }
    };
    let stdin = match (&task.execution.stdin, script.stdin) {
        (_, Some(content)) => content,
        (Some(stdin), None) => read_stdin(stdin, around)?,
        (None, None) => Vec::new(),
    };
    let requests = vec![request(&task.resources)?];
    let launcher = task.execution.launcher.as_deref().unwrap_or_default();
    function::set_ranks(&mut body, &requests, launcher, on_ranks)?;
    let stream = task.outputs.place();
    let broadcasts = std::mem::take(&mut task.objects.broadcasts);
    task.objects.taken.extend(broadcast::taken(&broadcasts));
    let spec = spec(body, stdin, task, requests)?;
    check_lengths(&spec, &entries, numbers_of(&ids))?;
    check_locality(&spec, &entries)?;
    check_warning(&spec)?;
    let size = (task_count(&ids), is_fed || !entries.is_empty());
    let shown = broadcast::with_paths(&spec, &broadcasts);
    let mut warnings = warnings(&shown, size, job.name.as_deref(), array.key.as_deref());
    warnings.extend(same_paths::of_entries(&spec, &entries, numbers_of(&ids)));
    warnings.extend(without_entries(array.array.as_ref(), &ids));
    warnings.extend(job.notices.warnings());
    warnings.extend(without_interpreter);
    warnings.extend(unused);
    if let Some(unused) = stream.filter(|_| spec.stream.is_none()) {
        let (what, path) = match &unused {
            Stream::Directory(path) => ("stream", path),
            Stream::Log(path) => ("log", path),
        };
        let path = String::from_utf8_lossy(path);
        warnings.push(format!(
            "nothing would be written to the {what} {path}: --stdout and --stderr are both redirected elsewhere; \
             omit one of them"
        ));
    }
    let target = match options.job {
        Some(id) => Target::Open(id),
        None => Target::New(job.spec(&name)),
    };
    let submit_dir = around.submit_dir.as_os_str().as_bytes().to_vec();
    let dependencies = Arc::new(dependencies.dependencies(&submit_dir)?);
    warnings.extend(dependencies.files.iter().flat_map(|file| of_text(file, "--after-file", &[])));
    let submit = Submit { target, ids, entries, keys, dependencies, spec: Arc::new(spec), submit_dir };
    let broadcasts = broadcast::jobs(&broadcasts, &submit);
    broadcast::check_new(&submit, is_fed, &broadcasts)?;
    let fed = feed.fed(&submit)?;
    warnings.extend(feed.warnings());
    Ok(Prepared { submit, fed, broadcasts, wait, warnings, hints })
}

// What is known of the script before options are merged.
#[derive(Default)]
struct Script {
    directives: Directives,
    // Its path when it is the command.
    is_command: bool,
    // Its content when it came from standard input.
    stdin: Option<ByteString>,
}

impl Script {
    fn read(
        options: &SubmitOptions,
        mode: DirectivesArg,
        around: &mut Surroundings,
    ) -> Result<Script, OptionsError> {
        let command = &options.command.command;
        match mode {
            DirectivesArg::Off => Ok(Script::default()),
            DirectivesArg::Auto => match command.first() {
                Some(path) if path.as_bytes().ends_with(b".sh") => {
                    let may_be_elsewhere = options.common.task.execution.cwd.is_some()
                        || path.as_bytes().windows(2).any(|pair| pair == b"%{")
                        || is_in_path(path);
                    Script::from_file(path, may_be_elsewhere, around)
                }
                _ => Ok(Script::default()),
            },
            DirectivesArg::File => {
                Script::from_file(command.first().ok_or(OptionsError::NoCommand)?, false, around)
            }
            DirectivesArg::Stdin => {
                let content = read_stdin(&StdinArg::Inherited, around)?;
                let directives = directives::parse("standard input", content.as_slice())?;
                Ok(Script { directives, is_command: false, stdin: Some(content) })
            }
        }
    }

    // What to say of a script that names no interpreter: it is executed as any program, which most likely fails.
    fn without_interpreter(&self, command: &[OsString]) -> Option<String> {
        let script = command.first()?.to_string_lossy();
        let is_without =
            self.is_command && self.directives.has_lines && self.directives.interpreter.is_empty();
        is_without.then(|| {
            format!(
                "{script} has #HQ lines but no `#!` line naming an interpreter, such as #!/bin/bash: it is \
                executed as a program, so it must exist on the node and be executable"
            )
        })
    }

    fn from_file(path: &OsString, may_miss: bool, around: &Surroundings) -> Result<Script, OptionsError> {
        let full = around.submit_dir.join(path);
        match File::open(&full) {
            Ok(file) => {
                let directives = directives::parse(&path.to_string_lossy(), BufReader::new(file))?;
                Ok(Script { directives, is_command: true, stdin: None })
            }
            // The worker finds it in another directory.
            Err(e) if may_miss && e.kind() == io::ErrorKind::NotFound => Ok(Script::default()),
            Err(source) => Err(OptionsError::Script { path: path.into(), source }),
        }
    }
}

// What belongs to a new job is not given for one that is there.
fn check_target(options: &SubmitOptions) -> Result<(), OptionsError> {
    let job = &options.common.job;
    let of_new = [
        (job.name.is_some(), "--name"),
        (job.max_fails.is_some(), "--max-fails"),
        (job.share.is_some(), "--share"),
        (job.share_weight.is_some(), "--share-weight"),
        (job.budget.is_some(), "--budget"),
        (job.notices.stall_after.is_some(), "--stall-after"),
        (!job.notices.on_finish.is_empty(), "--on-finish"),
        (!job.notices.on_failure.is_empty(), "--on-failure"),
        (!job.notices.on_stall.is_empty(), "--on-stall"),
        (!job.notices.notify.is_empty(), "--notify"),
    ];
    match of_new.iter().find(|(is_given, _)| *is_given && options.job.is_some()) {
        Some((_, option)) => Err(OptionsError::OfNewJob(option)),
        None => Ok(()),
    }
}

// Tasks on several nodes have these whole.
fn without_effect(task: &mut TaskOptions) -> Option<String> {
    let resources = &mut task.resources;
    let is_whole = resources.nodes.is_some_and(|nodes| nodes > 0)
        && resources.ranks_per_node.or(resources.ranks).unwrap_or(0) == 0;
    if !is_whole || resources.resources.is_empty() {
        return None;
    }
    resources.resources.clear();
    Some("--resource is ignored with --nodes: such a task has exclusive use of its nodes".to_owned())
}

fn command(
    command: Vec<OsString>,
    script: &Script,
    execution: &ExecutionOptions,
    around: &Surroundings,
) -> Result<Vec<ByteString>, OptionsError> {
    let interpreter = &script.directives.interpreter;
    let mut args = Vec::with_capacity(interpreter.len() + command.len());
    let mut rest = command.into_iter();
    if script.is_command && !interpreter.is_empty() {
        args.extend(interpreter.iter().cloned());
        let path = rest.next().ok_or(OptionsError::NoCommand)?;
        // The interpreter looks for the script from the task's working directory.
        let moves = execution.cwd.is_some();
        args.push(if moves { around.submit_dir.join(path).into_os_string() } else { path });
    }
    args.extend(rest);
    if args.is_empty() && script.stdin.is_some() {
        args.extend(interpreter.iter().cloned());
    }
    if args.is_empty() {
        return Err(OptionsError::NoCommand);
    }
    Ok(args.into_iter().map(OsString::into_vec).collect())
}

/// A job is called like its program, not like what starts that.
pub(super) fn job_name(command: &[OsString]) -> String {
    let program = match command {
        [launcher, program, ..] if launcher == "%{MPIRUN}" && !program.as_bytes().starts_with(b"-") => {
            program
        }
        [program, ..] => program,
        [] => return String::new(),
    };
    let name = Path::new(program).file_name().unwrap_or_default();
    // No file is called like that when it is longer, and there are limits of names.
    hq_model::notice::cut(
        &name.to_string_lossy().replace(['\n', '\t', '\r', '\0'], " "),
        limits::FILE_NAME_BYTES_MAX,
    )
}

fn task_ids(
    array: &super::job::ArrayOptions,
    around: &mut Surroundings,
) -> Result<(TaskIds, Entries), OptionsError> {
    let subset = array.array.as_ref();
    let (ids, entries) = if let Some(path) = &array.each_line {
        let content = read_entries(path, around)?;
        entries::each_line(path, &content, subset)?
    } else if let Some(path) = &array.from_json {
        let content = read_entries(path, around)?;
        entries::from_json(path, &content, subset)?
    } else {
        let ids = match &array.array {
            Some(ids) => TaskIds::Given(ids.clone()),
            None => TaskIds::Next(1),
        };
        return Ok((ids, Entries::default()));
    };
    if subset.is_some() {
        return Ok((TaskIds::Given(ids), entries));
    }
    let count = ids.len();
    let next = u32::try_from(count).map_err(|_| OptionsError::TooManyTasks { count })?;
    Ok((TaskIds::Next(next), entries))
}

// Ids that were asked for and have no entry: these tasks are not made.
fn without_entries(asked: Option<&IdSet>, ids: &TaskIds) -> Option<String> {
    let (Some(asked), TaskIds::Given(made)) = (asked, ids) else { return None };
    let beyond = asked.difference(made);
    let (tasks, are, they) =
        if beyond.len() == 1 { ("task", "is", "it has") } else { ("tasks", "are", "they have") };
    let why = "the first entry is that of task 0";
    (!beyond.is_empty())
        .then(|| format!("{tasks} {beyond} of --array {are} not submitted: {they} no entry; {why}"))
}

// The numbers of entries in their file, where not all of them are taken.
fn numbers_of(ids: &TaskIds) -> Option<&IdSet> {
    match ids {
        TaskIds::Given(ids) => Some(ids),
        TaskIds::Next(_) => None,
    }
}

fn task_count(ids: &TaskIds) -> u64 {
    match ids {
        TaskIds::Given(ids) => IdSet::len(ids),
        TaskIds::Next(count) => u64::from(*count),
    }
}

fn read_entries(path: &Path, around: &mut Surroundings) -> Result<Vec<u8>, OptionsError> {
    let is_stdin = path == Path::new("-");
    read(is_stdin, path, "the entries in", limits::ENTRIES_BYTES_MAX, around)
}

fn read_stdin(stdin: &StdinArg, around: &mut Surroundings) -> Result<Vec<u8>, OptionsError> {
    let (is_stdin, path) = match stdin {
        StdinArg::Inherited => (true, Path::new("-")),
        StdinArg::File(path) => (false, path.as_path()),
    };
    read(is_stdin, path, "the tasks' standard input", limits::STDIN_BYTES_MAX, around)
}

fn read(
    is_stdin: bool,
    path: &Path,
    what: &'static str,
    max: u64,
    around: &mut Surroundings,
) -> Result<Vec<u8>, OptionsError> {
    let mut content = Vec::new();
    let result = if is_stdin {
        (&mut *around.stdin).take(max + 1).read_to_end(&mut content)
    } else {
        File::open(around.submit_dir.join(path)).and_then(|f| f.take(max + 1).read_to_end(&mut content))
    };
    result.map_err(|source| OptionsError::Read { what, path: path.into(), source })?;
    if content.len() as u64 > max {
        let what = if is_stdin { "standard input".into() } else { path.display().to_string() };
        return Err(OptionsError::TooLarge { what, max });
    }
    Ok(content)
}

pub(super) fn spec(
    body: Body,
    stdin: ByteString,
    task: TaskOptions,
    requests: Vec<Request>,
) -> Result<TaskSpec, OptionsError> {
    let TaskOptions { resources, execution, outputs, objects, failures } = task;
    let cwd = execution.cwd.map_or(CWD_DEFAULT.to_vec(), OsString::into_vec);
    if pattern::names(&cwd).iter().any(|name| name == "CWD") {
        return Err(OptionsError::CwdInCwd);
    }
    let stream = outputs.place();
    let OutputOptions {
        stdout,
        stderr,
        output: declared,
        output_patience,
        result,
        stream: _,
        log: _,
        compress,
    } = outputs;
    stream.as_ref().map(check_stream).transpose()?;
    let is_streamed = stream.is_some();
    let is_used = is_streamed && (stdout.is_none() || stderr.is_none());
    let (priority, pin) = (resources.priority, resources.pin);
    let FailureOptions {
        time_limit,
        end_by,
        signal,
        kill_grace,
        retry,
        retry_delay,
        retry_on,
        crash_limit,
        on_walltime,
        speculate,
    } = failures;
    let spec = TaskSpec {
        input_objects: objects.all_taken(),
        output_objects: objects.left,
        rebuilds: None,
        body,
        env: execution.env.into_iter().map(|e| (e.key, e.value)).collect(),
        stdin,
        cwd,
        // With both in files of their own there is nothing left for it.
        compression: if is_used { compress.unwrap_or_default() } else { Compression::None },
        stream: stream.filter(|_| is_used),
        stdout: output(stdout, is_streamed, STDOUT_DEFAULT),
        stderr: output(stderr, is_streamed, STDERR_DEFAULT),
        outputs: declared.into_iter().map(String::into_bytes).collect(),
        output_patience: output_patience.unwrap_or_default(),
        result: result.unwrap_or_default(),
        requests,
        pin: pin.map_or(Pin::None, Pin::from),
        priority: priority.unwrap_or(0),
        time_limit,
        end_by,
        kill_grace: kill_grace.unwrap_or(KILL_GRACE),
        warning: signal,
        crash_limit: crash_limit.unwrap_or_default(),
        on_walltime: on_walltime.unwrap_or_default(),
        retry: Retry {
            max: retry.unwrap_or(0),
            delay: retry_delay.unwrap_or_default(),
            on: retry_on.unwrap_or_default(),
        },
        speculate,
        expected: resources.expect,
        locality: resources.locality.map(OsString::into_vec),
        task_dir: execution.task_dir,
        service: execution.service,
        launcher: execution.launcher.unwrap_or_default(),
    };
    check_end_by(&spec)?;
    check_result(&spec)?;
    Ok(spec)
}

fn output(arg: Option<OutputArg>, is_streamed: bool, default: &[u8]) -> OutputSink {
    match arg {
        Some(OutputArg::None) => OutputSink::None,
        Some(OutputArg::File { path, on_close }) => {
            OutputSink::File { path: path.unwrap_or_else(|| default.to_vec()), on_close }
        }
        None if is_streamed => OutputSink::Stream,
        None => OutputSink::File { path: default.to_vec(), on_close: OnClose::Keep },
    }
}

fn ranks_on_each(ranks: u32, nodes: u32) -> Result<u32, OptionsError> {
    match ranks % nodes {
        0 => Ok(ranks / nodes),
        _ => Err(OptionsError::Ranks { ranks, nodes }),
    }
}

pub(super) fn request(options: &ResourceOptions) -> Result<Request, OptionsError> {
    let ranks = match options.ranks {
        Some(ranks) => ranks_on_each(ranks, options.nodes.unwrap_or(1).max(1))?,
        None => options.ranks_per_node.unwrap_or(0),
    };
    let nodes = options.nodes.unwrap_or(0).max(u32::from(ranks > 0));
    let request = Request {
        nodes,
        ranks,
        exclusive: options.exclusive,
        time_request: options.time_request.unwrap_or_default(),
        weight: options.weight.unwrap_or(WEIGHT_NEUTRAL),
        ..Request::default()
    };
    if nodes > 0 && ranks == 0 {
        return checked(request);
    }
    let mut resources = options.resources.clone();
    let has_cpus = resources.iter().any(|r| r.name == CPUS);
    for (name, amount) in [(GPUS, options.gpus), (GPUS, options.gpus_per_rank), (MEM, options.mem)] {
        resources.extend(amount.map(|amount| ResourceRequest { name: name.into(), amount }));
    }
    let cpus = match options.cpus.or(options.cpus_per_rank) {
        Some(amount) => Some(amount),
        None if has_cpus => None,
        None => Some(AmountRequest::Some(Amount::whole(1), Policy::default())),
    };
    if let Some(amount) = cpus {
        resources.push(ResourceRequest { name: CPUS.into(), amount });
    }
    resources.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = resources.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(OptionsError::ResourceTwice(pair[0].name.clone()));
    }
    let is_of_vendor =
        |r: &&ResourceRequest| r.name.strip_prefix(GPUS).is_some_and(|rest| rest.starts_with('/'));
    if let (true, Some(vendor)) =
        (resources.iter().any(|r| r.name == GPUS), resources.iter().find(is_of_vendor))
    {
        return Err(OptionsError::GpusTwice(vendor.name.clone()));
    }
    checked(Request { resources, ..request })
}

fn checked(request: Request) -> Result<Request, OptionsError> {
    request.check_nodes().map(|()| request).map_err(|error| OptionsError::Request(error.to_string()))
}
