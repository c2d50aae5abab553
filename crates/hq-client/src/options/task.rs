//! The options that say what a task is: resources, environment, outputs, limits, failures.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use hq_model::request::{GPUS, MEM};
use hq_model::result::ResultFrom;
use hq_model::task::{CrashLimit, EndBy, OnWalltime, Pin, RetryOn, SpeculateFactor, Warning};
use hq_model::{AmountRequest, Compression, ResourceRequest, Stream};

use super::objects::ObjectOptions;
use super::values::{self, EnvArg, OutputArg, StdinArg};

const RESOURCES: &str = "Resources";
const EXECUTION: &str = "Execution";
const OUTPUTS: &str = "Outputs";
const FAILURES: &str = "Failures and time";

/// What each task asks for.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = RESOURCES)]
pub struct ResourceOptions {
    /// CPUs of each task [default: 1]
    ///
    /// A number, optionally followed by a policy, or `all`. CPUs are exclusive: no other task of Headquarters uses
    /// them at the same time. Policies select NUMA groups: `compact` (the default: as few groups as possible,
    /// evenly), `compact!` (the same, but waits until possible), `tight` and `tight!` (as few as possible, filling
    /// the largest first), `scatter` (spread).
    ///
    /// Examples: `--cpus 4`, `--cpus "8 compact!"`, `--cpus all`.
    #[arg(long, allow_hyphen_values = true, value_name = "REQUEST", value_parser = values::cpus)]
    pub cpus: Option<AmountRequest>,

    /// GPUs of each task, of any vendor; a fraction such as 0.5 shares a GPU
    ///
    /// Same as `--resource gpus=REQUEST`. CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or ZE_AFFINITY_MASK contains the
    /// assigned GPUs.
    ///
    /// Examples: `--gpus 1`, `--gpus 0.5`.
    #[arg(long, allow_hyphen_values = true, value_name = "REQUEST", value_parser = values::gpus)]
    pub gpus: Option<AmountRequest>,

    /// Memory of each task
    ///
    /// Same as `--resource mem=REQUEST`; with a unit, or in MiB. `hq worker start --enforce memory` makes it a limit.
    ///
    /// Example: `--mem 4GiB`.
    #[arg(long, allow_hyphen_values = true, value_name = "REQUEST", value_parser = values::mem)]
    pub mem: Option<AmountRequest>,

    /// Another resource of each task; can be repeated
    ///
    /// NAME is a resource that workers offer: `mem`, `gpus/nvidia`, `gpus/amd`, `gpus/intel`, `gpus` (of any vendor)
    /// or one declared with `hq worker start --resource`. The amount is a number with up to four decimals, or `all`.
    /// Memory can have a unit.
    ///
    /// Examples: `--resource mem=4GiB`, `--resource gpus=0.5`, `--resource "gpus/nvidia=2 scatter"`.
    #[arg(long = "resource", value_name = "NAME=REQUEST", value_parser = values::resource)]
    pub resources: Vec<ResourceRequest>,

    /// Number of nodes for each task
    ///
    /// Each task gets exclusive use of N workers of one group (usually of one allocation), and its program runs on
    /// the first of them. HQ_NODE_FILE and HQ_HOST_FILE are the paths of files that list the nodes; HQ_NUM_NODES is
    /// their number. With --ranks-per-node, the task only gets the resources of its ranks on N workers.
    ///
    /// Example: `--nodes 4`.
    #[arg(long, allow_hyphen_values = true, value_name = "N", conflicts_with = "cpus", value_parser = values::count::<u32>)]
    pub nodes: Option<u32>,

    /// Run each task as N processes on each of its nodes [--nodes then defaults to 1]
    ///
    /// --cpus-per-rank, --gpus-per-rank and --resource set the resources of each rank. If the command contains
    /// %{MPIRUN}, it runs once, and %{MPIRUN} is replaced by a launcher for an MPI program with these ranks.
    /// Otherwise, Headquarters starts the command once per rank, on all nodes: see HQ_RANK, HQ_RANKS, HQ_NODE_RANK
    /// and HQ_LOCAL_RANK.
    ///
    /// Examples: `hq submit --nodes 2 --ranks-per-node 4 -- %{MPIRUN} ./solver`,
    /// `hq submit --ranks-per-node 4 --cpus-per-rank 2 -- ./worker`.
    #[arg(long, allow_hyphen_values = true, value_name = "N", conflicts_with = "cpus", value_parser = values::at_least_one)]
    pub ranks_per_node: Option<u32>,

    /// Run each task as N processes in total, the same number on each of its nodes
    ///
    /// Like --ranks-per-node, which sets the number per node instead.
    ///
    /// Examples: `hq submit --ranks 4 -- %{MPIRUN} ./solver`, `hq submit --function heat:solve --ranks 4`.
    #[arg(long, allow_hyphen_values = true, value_name = "N", conflicts_with_all = ["cpus", "ranks_per_node"], value_parser = values::at_least_one)]
    pub ranks: Option<u32>,

    /// CPUs of each rank [default: 1]
    #[arg(long, allow_hyphen_values = true, value_name = "REQUEST", value_parser = values::cpus)]
    pub cpus_per_rank: Option<AmountRequest>,

    /// GPUs of each rank, of any vendor
    #[arg(long, allow_hyphen_values = true, value_name = "REQUEST", value_parser = values::gpus)]
    pub gpus_per_rank: Option<AmountRequest>,

    /// Run nothing else on the nodes of a task with ranks
    #[arg(long)]
    pub exclusive: bool,

    /// Start a task only on workers that will live for at least this long
    ///
    /// A worker knows its end from its `--time-limit` or its batch system.
    ///
    /// Examples: `--time-request 90m`, `--time-request 1:30:00`.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub time_request: Option<Duration>,

    /// Weight of this request in scheduling [default: 1]
    ///
    /// When tasks compete for a worker, one task of weight 2 counts as much as two of weight 1.
    #[arg(long, allow_hyphen_values = true, value_name = "NUMBER", value_parser = values::weight)]
    pub weight: Option<u32>,

    /// Priority; tasks with a higher number start first [default: 0]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, value_parser = values::priority)]
    pub priority: Option<i32>,

    /// Expected run time of a task
    ///
    /// Among tasks of equal priority and weight, those with the longest remaining path start first: their own time
    /// plus that of the tasks that depend on them. This avoids a few long tasks running alone at the end. Without
    /// this option, one second is assumed. Once five tasks of the submission have ended, their run times are used
    /// instead.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::expect)]
    pub expect: Option<Duration>,

    /// Prefer to run tasks with the same key on the same workers
    ///
    /// A worker first gets tasks whose key it has already run, because their data is there; then tasks whose key no
    /// worker has run; and other tasks rather than none. KEY can contain `%{JOB_ID}`, `%{TASK_ID}`, `%{ENTRY}` (the
    /// task's line or element), `%{ENTRY_1}`, `%{ENTRY_2}` (its first word, its second word, and so on) and
    /// `%{ENTRY.name}` (a field of its JSON). Equal keys of different jobs are treated as the same key.
    ///
    /// Example: `--each-line pairs.txt --locality '%{ENTRY_2}'`.
    #[arg(long, value_name = "KEY", value_parser = OsStringValueParser::new().try_map(values::locality))]
    pub locality: Option<OsString>,

    /// Bind each task to its CPUs
    #[arg(long, value_name = "HOW")]
    pub pin: Option<PinArg>,
}

/// How tasks are bound to CPUs.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinArg {
    /// By the affinity mask of the process
    Taskset,
    /// By OMP_PLACES and OMP_PROC_BIND, for programs that use OpenMP
    Omp,
}

impl From<PinArg> for Pin {
    fn from(pin: PinArg) -> Pin {
        match pin {
            PinArg::Taskset => Pin::Taskset,
            PinArg::Omp => Pin::Omp,
        }
    }
}

/// How each task is executed.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = EXECUTION)]
pub struct ExecutionOptions {
    /// Working directory; created if missing [default: the current directory]
    ///
    /// Relative to the current directory. Placeholders are allowed, except %{CWD}.
    ///
    /// Example: `--cwd 'runs/%{JOB_ID}/%{TASK_ID}'`.
    #[arg(long, value_name = "PATH", value_parser = OsStringValueParser::new().try_map(values::path))]
    pub cwd: Option<OsString>,

    /// Environment variable of each task; can be repeated
    ///
    /// The environment of `hq submit` is not passed to tasks, except for variables named here. KEY alone passes on
    /// the current value; it is an error if the variable is not set.
    ///
    /// Examples: `--env THREADS=4`, `--env PATH`, `--env EMPTY=`.
    #[arg(long = "env", value_name = "KEY[=VALUE]", value_parser = OsStringValueParser::new().try_map(values::env))]
    pub env: Vec<EnvArg>,

    /// Pass standard input, or FILE, to every task
    ///
    /// It is read once, at submission.
    ///
    /// Examples: `hq submit --stdin -- sort < data`, `hq submit --stdin=data -- sort`.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "-",
        value_parser = OsStringValueParser::new().try_map(values::stdin)
    )]
    pub stdin: Option<StdinArg>,

    /// Give each task a private directory that is removed afterwards
    ///
    /// Its path is in HQ_TASK_DIR. A failing task can write an error message to the file named by HQ_ERROR_FILENAME,
    /// which is shown as its error.
    #[arg(long)]
    pub task_dir: bool,

    /// Make the task a service: dependent tasks start when it calls `hq task ready`, not when it ends
    ///
    /// Needs --key: dependent tasks find the text that it reported in HQ_SERVICE_KEY.
    ///
    /// Example: `--service --key db -- ./database.sh`.
    #[arg(long)]
    pub service: bool,
    /// Launcher that starts the ranks of a task [default: detected on its first node]
    ///
    /// Replaces %{MPIRUN}: `direct` (by Headquarters itself), `openmpi5`, `openmpi4`, `mpich`, `srun`, `pals`,
    /// `prrte`, `flux`, `jsrun`, or a custom launcher. With `none`, a command without %{MPIRUN} runs once, on the
    /// first node.
    #[arg(long, value_name = "NAME", value_parser = values::launcher)]
    pub launcher: Option<String>,
    /// Python interpreter for --function [default: python3]
    ///
    /// A program and its arguments, split like in a shell. Requires Python 3.8 or later; no Headquarters package has
    /// to be installed.
    ///
    /// Examples: `--python venv/bin/python`, `--python 'apptainer exec lab.sif python3'`.
    #[arg(long, value_name = "COMMAND", value_parser = values::Python::parse)]
    pub python: Option<values::Python>,
}

/// Where outputs go.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = OUTPUTS)]
pub struct OutputOptions {
    /// Destination of each task's standard output [default: %{CWD}/job-%{JOB_ID}/%{TASK_ID}.stdout]
    ///
    /// A path or `none`. `:rm-if-finished`, after the path or alone, removes the file if the task finished;
    /// `:rm-if-empty` removes it if the task printed nothing. Paths are relative to the task's working directory.
    /// Placeholders: %{JOB_ID}, %{TASK_ID}, %{INSTANCE_ID}, %{SUBMIT_DIR}, %{CWD}, %{SERVER_UID}; for tasks with
    /// entries also %{ENTRY}, %{ENTRY_1}, %{ENTRY.name}.
    ///
    /// Examples: `--stdout none`, `--stdout 'out/%{TASK_ID}.txt'`, `--stderr :rm-if-empty`.
    #[arg(long, value_name = "SPEC", value_parser = OsStringValueParser::new().try_map(values::output))]
    pub stdout: Option<OutputArg>,

    /// Destination of each task's standard error [default: %{CWD}/job-%{JOB_ID}/%{TASK_ID}.stderr]
    ///
    /// As for --stdout.
    #[arg(long, value_name = "SPEC", value_parser = OsStringValueParser::new().try_map(values::output))]
    pub stderr: Option<OutputArg>,

    /// A file or directory that each task must create; can be repeated
    ///
    /// A task that exits with 0 without having created all of them has failed. If an attempt failed, was canceled or
    /// was ended, what it left there is moved to PATH.failed-INSTANCE, except a directory at a path without
    /// %{TASK_ID}, a path shared by all tasks of an array, and a link that existed before. Paths are relative to the
    /// task's working directory; placeholders as for --stdout.
    ///
    /// Example: `--output 'poses/%{TASK_ID}.pdbqt'`.
    #[arg(long, value_name = "PATH", value_parser = NonEmptyStringValueParser::new())]
    pub output: Vec<String>,

    /// How long to wait for late --output files
    ///
    /// On network file systems, a file may appear some seconds after the task that created it has ended. The worker
    /// keeps checking for this long before it reports a missing output. Meanwhile the task counts as running: it
    /// keeps its CPUs, and its time limit applies.
    ///
    /// Example: `--output result.dat --output-patience 30s`.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub output_patience: Option<Duration>,

    /// Where to take the result of a task from: none, last-line, stdout, or file:PATH [default: none]
    ///
    /// The last non-empty line of standard output, all of standard output, or the contents of a file, without
    /// trailing newlines. A result longer than 4096 bytes, or a missing file, is a failure. The result is read when
    /// the program has exited with 0; `hq job result` shows it. Output that goes to a stream or a log cannot be a
    /// result; with `--stdout none`, the output is read for the result and stored nowhere else. PATH is as for
    /// --output.
    ///
    /// Examples: `--result last-line`, `--result 'file:scores/%{TASK_ID}'`.
    #[arg(long, value_name = "FROM", value_parser = values::result)]
    pub result: Option<ResultFrom>,

    /// Collect the output of all tasks in a few files in this directory, one per worker
    ///
    /// Both channels go there, except one that --stdout or --stderr redirects. The directory is created if missing,
    /// and must be visible to the workers. Paths are relative to the submit directory. Placeholders: %{JOB_ID},
    /// %{SUBMIT_DIR}, %{SERVER_UID}. Read it with `hq output-log DIR`.
    ///
    /// Example: `--stream 'outputs-%{JOB_ID}'`.
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(values::path))]
    pub stream: Option<OsString>,

    /// Collect the output of all tasks in one file, written by the server
    ///
    /// Like --stream, but without a shared file system: the output is sent through the server. The file, with missing
    /// directories, is created on the machine of the server; an existing log of this server is appended to. Paths are
    /// relative to the submit directory. Placeholders as for --stream. Read it with `hq output-log FILE`.
    ///
    /// Example: `--log 'job-%{JOB_ID}.log'`.
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(values::path))]
    pub log: Option<OsString>,

    /// Compress the output in --stream or --log: zstd, zstd:LEVEL, or none
    ///
    /// Levels range from 1 (fastest) to 19 (smallest); the default is 3. Text output usually shrinks to a fifth or
    /// less; data that would not get smaller is stored uncompressed. All commands read compressed output; older
    /// releases report that they cannot.
    ///
    /// Example: `--compress zstd:9`.
    #[arg(long, value_name = "METHOD", value_parser = values::compression)]
    pub compress: Option<Compression>,
}

/// What happens when tasks fail, crash or take long.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = FAILURES)]
pub struct FailureOptions {
    /// End a task that runs longer than this; it counts as failed
    ///
    /// Examples: `--time-limit 90s`, `--time-limit 1:30:00`.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::time_limit)]
    pub time_limit: Option<Duration>,

    /// Do not start tasks that could not end by this time
    ///
    /// A time of day (`18:00`; tomorrow if it has passed today), a date and time (`2026-12-24 18:00`, with an offset
    /// for another time zone), or a duration from submission (`8h`). A task starts only if enough time is left for
    /// its --expect or, without that, its --time-request. Running tasks are not stopped. Tasks that have not started
    /// by this time are canceled, and tasks that depend on their success are aborted.
    ///
    /// Examples: `--end-by 18:00 --expect 20m`, `--end-by 8h --time-request 1h`.
    #[arg(long, allow_hyphen_values = true, value_name = "TIME|DURATION", value_parser = values::end_by)]
    pub end_by: Option<EndBy>,

    /// Send a signal this long before --time-limit or the end of the worker
    ///
    /// Whichever comes first. The task can then save its state and exit.
    ///
    /// Example: `--time-limit 1h --signal USR1@2m`.
    #[arg(long, value_name = "NAME@DURATION", value_parser = values::warning)]
    pub signal: Option<Warning>,

    /// Time between SIGTERM and SIGKILL when a task is ended [default: 5s]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub kill_grace: Option<Duration>,

    /// Run a failed task again, up to N times [default: 0]
    ///
    /// Each run is a new instance of the task: see %{INSTANCE_ID} and HQ_INSTANCE_ID.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::count::<u32>)]
    pub retry: Option<u32>,

    /// Wait before the first retry [default: 0s]
    ///
    /// The wait doubles with each further retry, up to an hour.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub retry_delay: Option<Duration>,

    /// Retry only these failures [default: all]
    ///
    /// A comma-separated list of exit codes and ranges, `signal` (the task was killed by a signal) and `timeout` (it
    /// reached its time limit).
    ///
    /// Example: `--retry 3 --retry-delay 10s --retry-on 75,100-110,signal`.
    #[arg(long, value_name = "LIST", value_parser = values::retry_on)]
    pub retry_on: Option<RetryOn>,

    /// How many times a task may be lost with its worker before it fails [default: 5]
    ///
    /// A number (1 means that it fails at the first loss), `never-restart` or `unlimited`. A worker that was stopped
    /// or reached its time limit does not count, but with `never-restart` the task is not restarted even then.
    #[arg(long, allow_hyphen_values = true, value_name = "N|never-restart|unlimited", value_parser = values::crash_limit)]
    pub crash_limit: Option<CrashLimit>,

    /// What to do with a task that takes longer than its workers live [default: wait]
    ///
    /// Counts attempts that started together with a worker and were ended by the worker's time limit. After two of
    /// them, the task waits for workers that live longer (`wait`), or fails (`fail`).
    #[arg(long, value_name = "wait|fail", value_parser = values::on_walltime)]
    pub on_walltime: Option<OnWalltime>,

    /// Start a second attempt of a slow task on another worker
    ///
    /// A task is slow if it has run for FACTOR times the median run time of its submission's finished tasks (at least
    /// five), and for more than a second. The first attempt to finish wins, and the other one is ended. Use this only
    /// for tasks that can safely run twice at the same time; see %{INSTANCE_ID}.
    ///
    /// Example: `--speculate 3`.
    #[arg(long, allow_hyphen_values = true, value_name = "FACTOR", value_parser = values::speculate)]
    pub speculate: Option<SpeculateFactor>,
}

/// All options of a task.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct TaskOptions {
    /// Resources.
    #[command(flatten)]
    pub resources: ResourceOptions,
    /// Execution.
    #[command(flatten)]
    pub execution: ExecutionOptions,
    /// Outputs.
    #[command(flatten)]
    pub outputs: OutputOptions,
    /// Objects.
    #[command(flatten)]
    pub objects: ObjectOptions,
    /// Failures.
    #[command(flatten)]
    pub failures: FailureOptions,
}

impl TaskOptions {
    /// These options over those of a script: single values here win, `--env` and `--resource` are
    /// appended to those with other names.
    pub fn over(self, script: TaskOptions) -> TaskOptions {
        TaskOptions {
            resources: self.resources.over(script.resources),
            execution: self.execution.over(script.execution),
            outputs: self.outputs.over(script.outputs),
            objects: self.objects.over(script.objects),
            failures: self.failures.over(script.failures),
        }
    }
}

impl ResourceOptions {
    fn over(self, script: ResourceOptions) -> ResourceOptions {
        let mut resources = script.resources;
        let own = |name: &str| self.resources.iter().any(|own| own.name == name);
        let (gpus, mem) = (self.gpus.is_some(), self.mem.is_some());
        resources.retain(|r| !(own(&r.name) || gpus && r.name == GPUS || mem && r.name == MEM));
        let script_gpus = script.gpus.filter(|_| !own(GPUS));
        let script_mem = script.mem.filter(|_| !own(MEM));
        resources.extend(self.resources);
        ResourceOptions {
            cpus: self.cpus.or(script.cpus),
            gpus: self.gpus.or(script_gpus),
            mem: self.mem.or(script_mem),
            resources,
            // 0 is as good as none.
            nodes: self.nodes.or(script.nodes).filter(|nodes| *nodes > 0),
            // Two ways to say the same.
            ranks_per_node: self.ranks_per_node.or(script.ranks_per_node.filter(|_| self.ranks.is_none())),
            ranks: self.ranks.or(script.ranks.filter(|_| self.ranks_per_node.is_none())),
            cpus_per_rank: self.cpus_per_rank.or(script.cpus_per_rank),
            gpus_per_rank: self.gpus_per_rank.or(script.gpus_per_rank),
            exclusive: self.exclusive || script.exclusive,
            time_request: self.time_request.or(script.time_request),
            weight: self.weight.or(script.weight),
            priority: self.priority.or(script.priority),
            expect: self.expect.or(script.expect),
            locality: self.locality.or(script.locality),
            pin: self.pin.or(script.pin),
        }
    }
}

impl ExecutionOptions {
    fn over(self, script: ExecutionOptions) -> ExecutionOptions {
        let mut env = script.env;
        env.retain(|other| !self.env.iter().any(|own| own.key == other.key));
        env.extend(self.env);
        ExecutionOptions {
            cwd: self.cwd.or(script.cwd),
            env,
            stdin: self.stdin.or(script.stdin),
            task_dir: self.task_dir || script.task_dir,
            service: self.service || script.service,
            launcher: self.launcher.or(script.launcher),
            python: self.python.or(script.python),
        }
    }
}

impl OutputOptions {
    /// Where outputs go together, if they do.
    pub(super) fn place(&self) -> Option<Stream> {
        let bytes = |path: &OsString| path.clone().into_vec();
        let log = self.log.as_ref().map(|path| Stream::Log(bytes(path)));
        self.stream.as_ref().map(|path| Stream::Directory(bytes(path))).or(log)
    }

    fn over(self, mut script: OutputOptions) -> OutputOptions {
        // One place is chosen.
        if self.stream.is_some() || self.log.is_some() {
            (script.stream, script.log) = (None, None);
        }
        OutputOptions {
            stdout: self.stdout.or(script.stdout),
            stderr: self.stderr.or(script.stderr),
            output: [script.output, self.output].concat(),
            output_patience: self.output_patience.or(script.output_patience),
            result: self.result.or(script.result),
            stream: self.stream.or(script.stream),
            log: self.log.or(script.log),
            compress: self.compress.or(script.compress),
        }
    }
}

impl FailureOptions {
    fn over(self, script: FailureOptions) -> FailureOptions {
        FailureOptions {
            time_limit: self.time_limit.or(script.time_limit),
            end_by: self.end_by.or(script.end_by),
            signal: self.signal.or(script.signal),
            kill_grace: self.kill_grace.or(script.kill_grace),
            retry: self.retry.or(script.retry),
            retry_delay: self.retry_delay.or(script.retry_delay),
            retry_on: self.retry_on.or(script.retry_on),
            crash_limit: self.crash_limit.or(script.crash_limit),
            on_walltime: self.on_walltime.or(script.on_walltime),
            speculate: self.speculate.or(script.speculate),
        }
    }
}
