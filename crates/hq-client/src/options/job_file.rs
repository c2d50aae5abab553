//! Job files in TOML: an array, or tasks one by one, each with one or several resource requests. The values are
//! those of the options of the same names, read by the same functions.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;

use hq_model::body::Function;
use hq_model::dependency::After;
use hq_model::job::{Target, TaskIds};
use hq_model::{
    Body, ByteString, Compression, Dependencies, Entries, IdSet, JobId, JobSpec, Stream, Submit, TaskSpec,
    counted,
};
use serde::Deserialize;

use super::call::wrong_table;
use super::checks::{check_lengths, check_locality, check_warning};
use super::dependencies::DependencyOptions;
use super::error::OptionsError;
use super::function::{self, OnRanks};
use super::graph::Dep;
use super::job_feed::FeedCommand;
use super::job_group::{JobFile, prepare_job_file};
use super::job_tables::Tables;
use super::job_values::{Output, RequestTable, named, option, output, path, requests};
use super::notices::NoticeKeys;
use super::objects::TableObjects;
use super::placeholders::of_text;
use super::prepare::{job_name, spec};
use super::same_paths;
use super::task::{ExecutionOptions, FailureOptions, OutputOptions, PinArg, ResourceOptions, TaskOptions};
use super::values::{self, EnvArg};
use super::warnings::warnings;
use super::word::{Stdin, Texts, Word};

/// What a service without a key is told.
pub(super) const SERVICE_WITHOUT_KEY: &str = "a service needs a key";

// What does not go where the tasks of one job are expected.
const ONE_JOB: &str = "[[job]] tables and generators are for `hq job submit-file`";

/// A job file, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedFile {
    /// The job to make, when the tasks do not go to an open one.
    pub job: JobSpec,
    /// Its tasks, in the order of the file.
    pub submits: Vec<Submit>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    name: Option<String>,
    max_fails: Option<u64>,
    share: Option<String>,
    share_weight: Option<Word>,
    budget: Option<Word>,
    on_finish: Option<Texts>,
    on_failure: Option<Texts>,
    on_stall: Option<Texts>,
    notify: Option<Texts>,
    stall_after: Option<Word>,
    pub(super) stream: Option<String>,
    pub(super) log: Option<String>,
    compress: Option<String>,
    // Some files have it; it never meant anything.
    #[serde(rename = "data_layer")]
    _data_layer: Option<toml::Value>,
    pub(super) task: Option<Vec<Task>>,
    pub(super) array: Option<Task>,
    /// Jobs of their own instead.
    pub(super) job: Option<Vec<toml::Table>>,
    // Of a job among several.
    pub(super) after: Option<Vec<String>>,
    pub(super) after_any: Option<Vec<String>>,
    pub(super) generate: Option<FeedCommand>,
    #[serde(default)]
    pub(super) generate_json: bool,
    pub(super) ahead: Option<Word>,
    pub(super) reduce: Option<FeedCommand>,
    #[serde(default)]
    pub(super) reduce_failed: bool,
    pub(super) reduce_order: Option<String>,
}

/// What a file says of the outputs of all its tasks.
#[derive(Clone, Default)]
pub(super) struct Together {
    stream: Option<Stream>,
    compress: Option<Compression>,
}

impl File {
    // Where the outputs of all its tasks go together.
    fn place(&self) -> Option<Stream> {
        let log = self.log.as_ref().map(|path| Stream::Log(path.clone().into_bytes()));
        self.stream.as_ref().map(|path| Stream::Directory(path.clone().into_bytes())).or(log)
    }

    /// Where they go, and how they are stored there.
    ///
    /// # Errors
    /// When that is no compression, or there is nothing to compress.
    pub(super) fn together(&self) -> Result<Together, String> {
        let compress = option("compress", self.compress.clone(), values::compression)?;
        let stream = self.place();
        if stream.is_none() && compress.is_some_and(|compress| compress != Compression::None) {
            return Err("compress needs stream or log".into());
        }
        Ok(Together { stream, compress })
    }

    /// What the job waits for, taken out: those that must finish, and those that must end.
    pub(super) fn take_after(&mut self) -> [Vec<String>; 2] {
        [self.after.take().unwrap_or_default(), self.after_any.take().unwrap_or_default()]
    }

    /// What a file says of its job that has jobs of their own.
    pub(super) fn beside_jobs(&self) -> Option<&'static str> {
        let keys = [
            ("name", self.name.is_some()),
            ("max_fails", self.max_fails.is_some()),
            ("share", self.share.is_some()),
            ("share_weight", self.share_weight.is_some()),
            ("budget", self.budget.is_some()),
            ("stream", self.stream.is_some()),
            ("log", self.log.is_some()),
            ("compress", self.compress.is_some()),
            ("array", self.array.is_some()),
            ("after", self.after.is_some()),
            ("after_any", self.after_any.is_some()),
            ("generate", self.generate.is_some()),
            ("generate_json", self.generate_json),
            ("ahead", self.ahead.is_some()),
            ("reduce", self.reduce.is_some()),
            ("reduce_failed", self.reduce_failed),
            ("reduce_order", self.reduce_order.is_some()),
        ];
        keys.into_iter()
            .find(|(_, is_there)| *is_there)
            .map(|(key, _)| key)
            .or_else(|| self.notices().first())
    }

    fn notices(&self) -> NoticeKeys {
        NoticeKeys {
            on_finish: self.on_finish.clone(),
            on_failure: self.on_failure.clone(),
            on_stall: self.on_stall.clone(),
            notify: self.notify.clone(),
            stall_after: self.stall_after.clone(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    pub(super) id: Option<u32>,
    pub(super) ids: Option<String>,
    pub(super) entries: Option<Vec<String>>,
    /// The program and its arguments, unless there is a function.
    #[serde(default)]
    pub(super) command: Vec<String>,
    /// The function that is called instead.
    pub(super) function: Option<String>,
    /// Its arguments.
    args: Option<toml::Value>,
    python: Option<String>,
    /// Which world its ranks are.
    mpi: Option<String>,
    /// It returns what each of its ranks returned.
    #[serde(default)]
    gather: bool,
    #[serde(default)]
    env: BTreeMap<String, String>,
    stdout: Option<Output>,
    stderr: Option<Output>,
    #[serde(default)]
    outputs: Vec<String>,
    output_patience: Option<Word>,
    #[serde(default)]
    output_objects: Vec<String>,
    #[serde(default)]
    input_objects: Vec<String>,
    #[serde(default)]
    broadcast: Vec<String>,
    result: Option<String>,
    cwd: Option<String>,
    stdin: Option<Stdin>,
    #[serde(default)]
    task_dir: bool,
    #[serde(default)]
    pub(super) service: bool,
    pin: Option<String>,
    time_limit: Option<Word>,
    end_by: Option<Word>,
    signal: Option<String>,
    kill_grace: Option<Word>,
    priority: Option<i32>,
    expect: Option<Word>,
    locality: Option<String>,
    crash_limit: Option<Word>,
    on_walltime: Option<Word>,
    retry: Option<u32>,
    retry_delay: Option<Word>,
    retry_on: Option<Word>,
    /// Names it in `deps` of this file.
    pub(super) name: Option<String>,
    /// Names it in its job, so that it is made once.
    pub(super) key: Option<String>,
    #[serde(default)]
    pub(super) deps: Vec<Dep>,
    #[serde(default)]
    after: Vec<String>,
    #[serde(default)]
    after_any: Vec<String>,
    #[serde(default)]
    after_files: Vec<String>,
    #[serde(default)]
    each: bool,
    window: Option<u32>,
    speculate: Option<Word>,
    launcher: Option<String>,
    #[serde(default)]
    request: Vec<RequestTable>,
}

/// Reads a job file with this content. Its tasks go to the open job `job`, or to a new one. Tasks without an id are
/// numbered on from the largest one of the file, from 0 when none has one.
///
/// # Errors
/// When it is no TOML, has keys that are not known, or values that are none; the file and the table are named.
pub fn prepare_file(
    path: &Path,
    content: &str,
    job: Option<JobId>,
    submit_dir: &[u8],
) -> Result<PreparedFile, OptionsError> {
    match prepare_job_file(path, content, job, submit_dir)? {
        JobFile::One(file) => Ok(file),
        JobFile::Jobs(_) => Err(OptionsError::JobFile { path: path.into(), message: ONE_JOB.into() }),
    }
}

/// As [`prepare_file`], of what a program has made: JSON with the keys and values of a job file. `name` stands for its path
/// where something is wrong.
///
/// # Errors
/// As there.
pub fn prepare_json(
    name: &str,
    content: &str,
    job: Option<JobId>,
    submit_dir: &[u8],
) -> Result<PreparedFile, OptionsError> {
    let path = Path::new(name);
    let file: File = serde_json::from_str(content).map_err(|error| {
        // Where it is in what a program has made tells nobody anything.
        let message = wrong_table(content).unwrap_or_else(|| error.to_string());
        OptionsError::JobFile { path: path.into(), message }
    })?;
    let (file, tables) = Tables::of(path, file, submit_dir)?;
    if file.job.is_some() || file.generate.is_some() {
        return Err(OptionsError::JobFile { path: path.into(), message: ONE_JOB.into() });
    }
    prepared(path, file, tables, (job, false), submit_dir)
}

pub(super) fn prepared(
    path: &Path,
    file: File,
    tables: Tables,
    (job, is_fed): (Option<JobId>, bool),
    submit_dir: &[u8],
) -> Result<PreparedFile, OptionsError> {
    let in_file = |message: String| OptionsError::JobFile { path: path.into(), message };
    file.check_feed().map_err(in_file)?;
    let shares = file.share.is_some() || file.share_weight.is_some() || file.budget.is_some();
    if job.is_some() && (file.name.is_some() || file.max_fails.is_some() || shares) {
        let what = "name, max_fails, share, share_weight and budget belong to a new job";
        return Err(in_file(format!("{what}; leave them out with --job")));
    }
    let keys_of_notices = file.notices();
    if let Some(key) = keys_of_notices.first().filter(|_| job.is_some()) {
        return Err(in_file(format!("{key} belongs to a new job; leave it out with --job")));
    }
    let first = file.array.as_ref().map(Task::job_name).or_else(|| tables.first_name().map(str::to_owned));
    let Some(name) = first else {
        return Err(in_file("there are no tasks: write [[task]] tables, or one [array]".into()));
    };
    let together = file.together().map_err(in_file)?;
    let given = option("name", file.name, values::name).map_err(in_file)?;
    let name = given.unwrap_or(name);
    let bounds = file.share.map(|text| values::share(&text)).transpose().map_err(in_file)?;
    let weight = option("share_weight", file.share_weight, values::weight).map_err(in_file)?;
    let share = super::job::share(bounds, weight);
    let (notices, stall_after) = keys_of_notices.read().map_err(in_file)?;
    let budget = option("budget", file.budget, values::node_hours).map_err(in_file)?;
    let max_fails = file.max_fails;
    let directory = ByteString::new();
    let new = JobSpec {
        name,
        max_fails,
        share,
        budget,
        is_draft: false,
        notices,
        stall_after,
        linger: None,
        directory,
    };
    let target = job.map_or(Target::New(new.clone()), Target::Open);
    if file.stream.is_some() && file.log.is_some() {
        return Err(in_file("stream and log cannot be used together".into()));
    }
    let of = SubmitsOf { path, target, submit_dir, is_fed };
    let (submits, warnings) = match file.array {
        Some(_) if !tables.is_empty() => {
            return Err(in_file(
                "Definition of array job and individual task cannot be mixed: [array] and [[task]]".into(),
            ));
        }
        Some(array) => {
            let (submit, warnings) = array_submit(array, together, &of)?;
            (vec![submit], warnings)
        }
        None => tables.submits(&of, job)?,
    };
    Ok(PreparedFile { job: new, submits, warnings })
}

// The submit of an array, with warnings.
fn array_submit(
    array: Task,
    together: Together,
    of: &SubmitsOf<'_>,
) -> Result<(Submit, Vec<String>), OptionsError> {
    let wrong = |message: String| of.wrong("array", message);
    let (ids, entries) = array.ids().map_err(wrong)?;
    let dependencies = array.dependencies(of.submit_dir).map_err(wrong)?;
    if array.service && array.key.is_none() {
        return Err(wrong(SERVICE_WITHOUT_KEY.into()));
    }
    if array.key.is_some() {
        return Err(wrong("key belongs to [[task]]".into()));
    }
    if array.name.is_some() || !array.deps.is_empty() {
        return Err(wrong("name and deps belong to [[task]]; an array has after".into()));
    }
    if array.objects().map_err(wrong)?.names_tasks() {
        return Err(wrong("input_objects: only a [[task]] names another one of its file".into()));
    }
    let spec = array.spec(together).map_err(wrong)?;
    let mut warnings = checked(&spec, &entries, (ids.len(), of.is_fed)).map_err(wrong)?;
    warnings.extend(dependencies.files.iter().flat_map(|file| of_text(file, "after_files", &[])));
    let submit = of.submit(ids, Arc::new(spec), Arc::new(dependencies));
    Ok((Submit { entries, ..submit }, warnings))
}

/// Checks what so many tasks have in common, and gives what the user should know.
pub(super) fn checked(
    spec: &TaskSpec,
    entries: &Entries,
    (tasks, is_fed): (u64, bool),
) -> Result<Vec<String>, String> {
    check_lengths(spec, entries, None).map_err(|error| error.to_string())?;
    check_locality(spec, entries).map_err(|error| error.to_string())?;
    check_warning(spec).map_err(|error| error.to_string())?;
    let mut found = warnings(spec, (tasks, is_fed || !entries.is_empty()), None, None);
    found.extend(same_paths::of_entries(spec, entries, None));
    Ok(found)
}

/// What all submits of a file have in common.
pub(super) struct SubmitsOf<'a> {
    pub(super) path: &'a Path,
    target: Target,
    submit_dir: &'a [u8],
    /// A generator makes such tasks, and each has an entry.
    is_fed: bool,
}

impl SubmitsOf<'_> {
    pub(super) fn submit(&self, ids: IdSet, spec: Arc<TaskSpec>, dependencies: Arc<Dependencies>) -> Submit {
        Submit {
            target: self.target.clone(),
            ids: TaskIds::Given(ids),
            entries: Entries::default(),
            keys: Entries::default(),
            dependencies,
            spec,
            submit_dir: self.submit_dir.to_vec(),
        }
    }

    pub(super) fn wrong(&self, table: &str, message: String) -> OptionsError {
        OptionsError::JobFileTable { path: self.path.into(), table: table.into(), message }
    }
}

impl Task {
    // The ids and entries of an array.
    fn ids(&self) -> Result<(IdSet, Entries), String> {
        if self.id.is_some() {
            return Err("an array has ids, not id".into());
        }
        let given = self.ids.as_deref().map(values::ids_some).transpose()?;
        let Some(texts) = &self.entries else {
            return Ok((given.unwrap_or_else(|| IdSet::range(0, 0)), Entries::default()));
        };
        let count = u32::try_from(texts.len()).ok().filter(|count| *count > 0).ok_or("entries is empty")?;
        let ids = given.unwrap_or_else(|| IdSet::range(0, count - 1));
        if ids.len() != u64::from(count) {
            return Err(format!("there are {} and {}", counted(ids.len(), "id"), counted(count, "entry")));
        }
        let entries = Entries::new(texts.iter().map(String::as_bytes));
        Ok((ids, entries.ok_or("the entries are too long together")?))
    }

    pub(super) fn dependencies(&self, dir: &[u8]) -> Result<Dependencies, String> {
        let list = |key: &str, texts: &[String]| -> Result<Vec<After>, String> {
            texts.iter().map(|text| text.parse().map_err(|error| format!("{key}: {error}"))).collect()
        };
        if self.each && self.window.is_some() {
            return Err("each is a window of 0; leave one of them out".into());
        }
        let file = |text: &String| path("after_files", text);
        let options = DependencyOptions {
            after: list("after", &self.after)?,
            after_any: list("after_any", &self.after_any)?,
            after_file: self.after_files.iter().map(file).collect::<Result<_, _>>()?,
            each: self.each,
            window: self.window,
        };
        options.dependencies(dir).map_err(|_| "each and window need after or after_any".into())
    }

    /// What its job is called when nothing is said.
    pub(super) fn job_name(&self) -> String {
        let words = || self.command.iter().map(OsString::from).collect::<Vec<_>>();
        self.function.clone().unwrap_or_else(|| job_name(&words()))
    }

    /// The objects that it leaves and takes.
    pub(super) fn objects(&self) -> Result<TableObjects, String> {
        TableObjects::read(&self.output_objects, &self.input_objects, &self.broadcast)
    }

    // What it executes.
    fn body(&mut self) -> Result<Body, String> {
        let command = std::mem::take(&mut self.command);
        let Some(name) = self.function.take() else {
            if self.args.is_some() || self.python.is_some() {
                return Err("args and python belong to a function".into());
            }
            if command.is_empty() {
                return Err("there is no command: write command = [\"PROGRAM\", \"ARGUMENT\"]".into());
            }
            return Ok(Body::program(command));
        };
        if !command.is_empty() {
            return Err("command and function cannot be used together".into());
        }
        let name = named("function", function::name(&name))?;
        let python = self.python.take().map(|words| named("python", function::python(&words))).transpose()?;
        let args =
            self.args.take().map(|args| serde_json::to_string(&args).map_err(|error| error.to_string()));
        let args = args.transpose()?.map(|args| named("args", function::arguments(&args))).transpose()?;
        Ok(function::body(name, args, python, false))
    }

    /// `together` is what the file says of that.
    pub(super) fn spec(mut self, together: Together) -> Result<TaskSpec, String> {
        let body = self.body()?;
        self.spec_of(body, together)
    }

    /// What it executes is said elsewhere, and what it prints goes nowhere unless that is said.
    pub(super) fn spec_of_call(mut self, function: Function) -> Result<TaskSpec, String> {
        for output in [&mut self.stdout, &mut self.stderr] {
            output.get_or_insert_with(|| Output::Text("none".to_owned()));
        }
        self.spec_of(Body::Function(function), Together::default())
    }

    fn spec_of(self, mut body: Body, together: Together) -> Result<TaskSpec, String> {
        let (stream, log) = match together.stream {
            Some(Stream::Directory(path)) => (Some(OsString::from_vec(path)), None),
            Some(Stream::Log(path)) => (None, Some(OsString::from_vec(path))),
            None => (None, None),
        };
        let objects = self.objects()?;
        let requests = requests(self.request)?;
        let mpi = option("mpi", self.mpi, function::mpi)?;
        let said = OnRanks { mpi, gathers: self.gather };
        let launcher = self.launcher.as_deref().unwrap_or_default();
        function::set_ranks(&mut body, &requests, launcher, said).map_err(|error| error.to_string())?;
        self.outputs.iter().try_for_each(|output| path("outputs", output).map(|_| ()))?;
        let output_patience = option("output_patience", self.output_patience, values::duration)?;
        if self.outputs.is_empty() && output_patience.is_some() {
            return Err("output_patience needs outputs: it says how long these may be late".into());
        }
        let pin = match self.pin.as_deref() {
            None | Some("none") => None,
            Some("taskset") => Some(PinArg::Taskset),
            Some("omp") => Some(PinArg::Omp),
            Some(other) => return Err(format!("pin: `{other}` is neither none, taskset nor omp")),
        };
        let env = self.env.into_iter().map(|(key, value)| EnvArg { key: key.into(), value: value.into() });
        let task = TaskOptions {
            resources: ResourceOptions {
                priority: self.priority,
                expect: option("expect", self.expect, values::expect)?,
                locality: self
                    .locality
                    .map(|key| named("locality", values::locality(key.into())))
                    .transpose()?,
                pin,
                ..ResourceOptions::default()
            },
            execution: ExecutionOptions {
                cwd: self.cwd.map(|cwd| path("cwd", &cwd)).transpose()?,
                env: env.collect(),
                stdin: None,
                task_dir: self.task_dir,
                service: self.service,
                launcher: option("launcher", self.launcher, values::launcher)?,
                python: None,
            },
            outputs: OutputOptions {
                stdout: output("stdout", self.stdout)?,
                stderr: output("stderr", self.stderr)?,
                output: self.outputs,
                output_patience,
                result: self
                    .result
                    .as_deref()
                    .map(|text| named("result", values::result(text)))
                    .transpose()?,
                stream,
                log,
                compress: together.compress,
            },
            objects: objects.options,
            failures: FailureOptions {
                time_limit: option("time_limit", self.time_limit, values::time_limit)?,
                end_by: option("end_by", self.end_by, values::end_by)?,
                signal: option("signal", self.signal, values::warning)?,
                kill_grace: option("kill_grace", self.kill_grace, values::duration)?,
                retry: self.retry,
                retry_delay: option("retry_delay", self.retry_delay, values::duration)?,
                retry_on: option("retry_on", self.retry_on, values::retry_on)?,
                crash_limit: option("crash_limit", self.crash_limit, values::crash_limit)?,
                on_walltime: option("on_walltime", self.on_walltime, values::on_walltime)?,
                speculate: option("speculate", self.speculate, values::speculate)?,
            },
        };
        if task.failures.signal.is_some() && task.failures.time_limit.is_none() {
            return Err("signal needs time_limit: it says how long before that limit the signal comes".into());
        }
        if self.retry.is_none() && (task.failures.retry_delay.is_some() || task.failures.retry_on.is_some()) {
            return Err("retry_delay and retry_on need retry: without it, nothing is retried".into());
        }
        task.objects.check().map_err(|error| error.to_string())?;
        if body.function().is_some() {
            function::check(&task).map_err(|error| error.to_string())?;
        }
        let stdin = self.stdin.map(Stdin::into_bytes).unwrap_or_default();
        if body.function().is_some() && !stdin.is_empty() {
            return Err("stdin: a function has no standard input".into());
        }
        spec(body, stdin, task, requests).map_err(|error| error.to_string())
    }
}
