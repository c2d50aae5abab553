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
    /// A number, perhaps with a policy after it, or `all`. A task gets CPUs of its own: nothing else
    /// that Headquarters runs uses them meanwhile. Policies choose among NUMA groups: `compact` (the
    /// default, as few as possible, evenly), `compact!` (the same, and waits for them), `tight` and
    /// `tight!` (as few as possible, the largest filled first), `scatter` (spread).
    ///
    /// Examples: `--cpus 4`, `--cpus "8 compact!"`, `--cpus all`.
    #[arg(long, allow_hyphen_values = true, value_name = "REQUEST", value_parser = values::cpus)]
    pub cpus: Option<AmountRequest>,

    /// GPUs of each task, of any vendor; a part of one, such as 0.5, shares it
    ///
    /// As `--resource gpus=REQUEST`. CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or ZE_AFFINITY_MASK name those that it got.
    ///
    /// Examples: `--gpus 1`, `--gpus 0.5`.
    #[arg(long, allow_hyphen_values = true, value_name = "REQUEST", value_parser = values::gpus)]
    pub gpus: Option<AmountRequest>,

    /// Memory of each task
    ///
    /// As `--resource mem=REQUEST`: with a unit, or in MiB. `hq worker start --enforce memory` holds tasks to it.
    ///
    /// Example: `--mem 4GiB`.
    #[arg(long, allow_hyphen_values = true, value_name = "REQUEST", value_parser = values::mem)]
    pub mem: Option<AmountRequest>,

    /// Another resource of each task; may be repeated
    ///
    /// NAME is what workers offer: `mem`, `gpus/nvidia`, `gpus/amd`, `gpus/intel`, `gpus` (of any vendor) or whatever
    /// `hq worker start --resource` declared. The amount is a number with up to four decimals, or
    /// `all`. Memory takes units.
    ///
    /// Examples: `--resource mem=4GiB`, `--resource gpus=0.5`, `--resource "gpus/nvidia=2 scatter"`.
    #[arg(long = "resource", value_name = "NAME=REQUEST", value_parser = values::resource)]
    pub resources: Vec<ResourceRequest>,

    /// Several nodes for each task
    ///
    /// A task gets N whole workers of one group (usually those of one allocation) for itself, and its program runs on
    /// the first of them. HQ_NODE_FILE and HQ_HOST_FILE name files that list them; HQ_NUM_NODES is their number.
    /// With --ranks-per-node, it gets what its ranks take of N workers.
    ///
    /// Example: `--nodes 4`.
    #[arg(long, allow_hyphen_values = true, value_name = "N", conflicts_with = "cpus", value_parser = values::count::<u32>)]
    pub nodes: Option<u32>,

    /// Run each task as so many processes on each of its nodes [default of --nodes then: 1]
    ///
    /// --cpus-per-rank, --gpus-per-rank and --resource say what each rank takes. Where the command holds %{MPIRUN}, it
    /// runs once, and that stands for the start of an MPI program with these ranks. Else Headquarters starts the
    /// command itself as all ranks, on all nodes: see HQ_RANK, HQ_RANKS, HQ_NODE_RANK and HQ_LOCAL_RANK.
    ///
    /// Examples: `hq submit --nodes 2 --ranks-per-node 4 -- %{MPIRUN} ./solver`,
    /// `hq submit --ranks-per-node 4 --cpus-per-rank 2 -- ./worker`.
    #[arg(long, allow_hyphen_values = true, value_name = "N", conflicts_with = "cpus", value_parser = values::at_least_one)]
    pub ranks_per_node: Option<u32>,

    /// Run each task as so many processes in all, as many on each of its nodes
    ///
    /// As --ranks-per-node, which says how many each node has.
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

    /// Nothing else runs on the nodes of a task with ranks
    #[arg(long)]
    pub exclusive: bool,

    /// Start a task only on workers that will live at least this long
    ///
    /// A worker knows when it ends from `--time-limit` or from its batch system.
    ///
    /// Examples: `--time-request 90m`, `--time-request 1:30:00`.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub time_request: Option<Duration>,

    /// How much the scheduler values this request [default: 1]
    ///
    /// Where tasks compete for a worker, one of weight 2 counts as much as two of weight 1.
    #[arg(long, allow_hyphen_values = true, value_name = "NUMBER", value_parser = values::weight)]
    pub weight: Option<u32>,

    /// Tasks with a larger number go first [default: 0]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, value_parser = values::priority)]
    pub priority: Option<i32>,

    /// How long a task is expected to run
    ///
    /// Of tasks with equal priority and weight those go first that have the longest way to the end: their own time and that
    /// of what waits for them. So a few long tasks do not end up running alone. Without it, a second is assumed. Once
    /// five tasks of the submit have ended, their times count instead.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::expect)]
    pub expect: Option<Duration>,

    /// Tasks with the same key like to run on the same workers
    ///
    /// A worker first gets tasks whose key it has run, because what they read is there; then a key that nobody has
    /// run; and any other one rather than nothing. KEY may hold `%{JOB_ID}`, `%{TASK_ID}`, `%{ENTRY}` (the task's line or
    /// item), `%{ENTRY_1}`, `%{ENTRY_2}` (its first, its second word, and so on) and `%{ENTRY.name}` (a field of its JSON). Equal keys of different jobs are the same.
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
    /// Working directory; created where it is missing [default: the present directory]
    ///
    /// Relative to the present directory. Placeholders are allowed, but for %{CWD}.
    ///
    /// Example: `--cwd 'runs/%{JOB_ID}/%{TASK_ID}'`.
    #[arg(long, value_name = "PATH", value_parser = OsStringValueParser::new().try_map(values::path))]
    pub cwd: Option<OsString>,

    /// A variable of each task; may be repeated
    ///
    /// The environment of `hq submit` is not passed on, only what is named here. A KEY alone passes on the value that it has
    /// here; one that is not set is an error.
    ///
    /// Examples: `--env THREADS=4`, `--env PATH`, `--env EMPTY=`.
    #[arg(long = "env", value_name = "KEY[=VALUE]", value_parser = OsStringValueParser::new().try_map(values::env))]
    pub env: Vec<EnvArg>,

    /// Feed standard input, or FILE, to every task
    ///
    /// It is read once, now.
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

    /// Give each task a private directory, removed afterwards
    ///
    /// Its path is in HQ_TASK_DIR. A failing task may write why into the file named by
    /// HQ_ERROR_FILENAME; that text is shown as its error.
    #[arg(long)]
    pub task_dir: bool,

    /// The task is a service: those that wait for it start when it says `hq task ready`, not when it ends
    ///
    /// Needs --key: they find what it said in HQ_SERVICE_KEY.
    ///
    /// Example: `--service --key db -- ./database.sh`.
    #[arg(long)]
    pub service: bool,
    /// How the ranks of a task are started [default: by what is found on its first node]
    ///
    /// What %{MPIRUN} stands for: `direct` (by Headquarters itself), `openmpi5`, `openmpi4`, `mpich`, `srun`, `pals`,
    /// `prrte`, `flux`, `jsrun`, or a launcher of your own. With `none`, a command without %{MPIRUN} runs once, on the
    /// first node.
    #[arg(long, value_name = "NAME", value_parser = values::launcher)]
    pub launcher: Option<String>,
    /// The interpreter for --function [default: python3]
    ///
    /// A program and arguments for it, split as a shell does. Python 3.8 or later; nothing of ours has to be installed there.
    ///
    /// Examples: `--python venv/bin/python`, `--python 'apptainer exec lab.sif python3'`.
    #[arg(long, value_name = "COMMAND", value_parser = values::Python::parse)]
    pub python: Option<values::Python>,
}

/// Where outputs go.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = OUTPUTS)]
pub struct OutputOptions {
    /// Where standard output of each task goes [default: %{CWD}/job-%{JOB_ID}/%{TASK_ID}.stdout]
    ///
    /// A path or `none`. `:rm-if-finished` after the path, or alone, removes the file of a task that finished;
    /// `:rm-if-empty` that of any task that printed nothing. Relative paths start at the task's working directory.
    /// Placeholders: %{JOB_ID}, %{TASK_ID}, %{INSTANCE_ID}, %{SUBMIT_DIR}, %{CWD}, %{SERVER_UID}; of tasks with entries
    /// %{ENTRY}, %{ENTRY_1}, %{ENTRY.name}.
    ///
    /// Examples: `--stdout none`, `--stdout 'out/%{TASK_ID}.txt'`, `--stderr :rm-if-empty`.
    #[arg(long, value_name = "SPEC", value_parser = OsStringValueParser::new().try_map(values::output))]
    pub stdout: Option<OutputArg>,

    /// Where standard error of each task goes [default: %{CWD}/job-%{JOB_ID}/%{TASK_ID}.stderr]
    ///
    /// As for --stdout.
    #[arg(long, value_name = "SPEC", value_parser = OsStringValueParser::new().try_map(values::output))]
    pub stderr: Option<OutputArg>,

    /// A file or directory that each task leaves behind; may be given several times
    ///
    /// A task that exits with 0 and has not made all of them has failed. What an attempt leaves there that failed, was canceled
    /// or was ended is moved aside, to PATH.failed-INSTANCE; except a directory at a path without %{TASK_ID}, what all tasks
    /// of an array have in common, and a link that was there before.
    /// Relative paths start at the task's working directory; placeholders as for --stdout.
    ///
    /// Example: `--output 'poses/%{TASK_ID}.pdbqt'`.
    #[arg(long, value_name = "PATH", value_parser = NonEmptyStringValueParser::new())]
    pub output: Vec<String>,

    /// How long what --output names may be late
    ///
    /// Network file systems may show a file some seconds after the task that made it has ended. So long, the worker looks again
    /// before it says that an output is missing; the task counts as running meanwhile, and keeps its CPUs and its time limit.
    ///
    /// Example: `--output result.dat --output-patience 30s`.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub output_patience: Option<Duration>,

    /// What of a program is kept as the result of its task: none, last-line, stdout, or file:PATH [default: none]
    ///
    /// The last line of standard output that is not empty, all of standard output, or what is in a file; without the line ends
    /// behind it, and at most 4096 bytes: what is longer, or a file that is not there, is a failure. It is read when the
    /// program has exited with 0, and `hq job result` shows it. A task that prints into a stream or a log has none of what it
    /// prints; with `--stdout none` that is read and kept nowhere else. PATH is as for --output.
    ///
    /// Examples: `--result last-line`, `--result 'file:scores/%{TASK_ID}'`.
    #[arg(long, value_name = "FROM", value_parser = values::result)]
    pub result: Option<ResultFrom>,

    /// Collect the outputs of all tasks in a few files in this directory, one for each worker
    ///
    /// Both channels go there, unless --stdout or --stderr says otherwise of one. The directory is made if it is missing, and
    /// workers must see it. Relative paths start at the submit directory. Placeholders: %{JOB_ID}, %{SUBMIT_DIR},
    /// %{SERVER_UID}. Read it with `hq output-log DIR`.
    ///
    /// Example: `--stream 'outputs-%{JOB_ID}'`.
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(values::path))]
    pub stream: Option<OsString>,

    /// Collect the outputs of all tasks in one file, which the server writes
    ///
    /// As --stream, without a file system that workers share: what tasks print goes through the server. The file is made with
    /// the directories that are missing, on the machine of the server; one that is there already is appended to if a log of
    /// this server is in it. Relative paths start at the submit directory. Placeholders as for --stream. Read it with
    /// `hq output-log FILE`.
    ///
    /// Example: `--log 'job-%{JOB_ID}.log'`.
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(values::path))]
    pub log: Option<OsString>,

    /// Compress what goes to --stream or --log: zstd, zstd:LEVEL, or none
    ///
    /// Levels are from 1 (fastest) to 19 (smallest), 3 if none is given. What a program prints as text usually needs a fifth of the
    /// room or less; what would not become smaller is stored as it is. All commands read it as they read the rest; releases
    /// before this one say that they cannot.
    ///
    /// Example: `--compress zstd:9`.
    #[arg(long, value_name = "METHOD", value_parser = values::compression)]
    pub compress: Option<Compression>,
}

/// What happens when tasks fail, crash or take long.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = FAILURES)]
pub struct FailureOptions {
    /// End a task that runs longer; it counts as failed
    ///
    /// Examples: `--time-limit 90s`, `--time-limit 1:30:00`.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::time_limit)]
    pub time_limit: Option<Duration>,

    /// Start nothing that could not have ended by then
    ///
    /// A time of day (`18:00`; tomorrow's where today's has passed), a date and a time (`2026-12-24 18:00`, with an offset for
    /// another time zone), or a duration from the submit (`8h`). A task starts only while as much time is left as it takes: its
    /// --expect, else its --time-request. What runs is left alone; what has not started by then is canceled, and what waits for
    /// that to succeed is aborted.
    ///
    /// Examples: `--end-by 18:00 --expect 20m`, `--end-by 8h --time-request 1h`.
    #[arg(long, allow_hyphen_values = true, value_name = "TIME|DURATION", value_parser = values::end_by)]
    pub end_by: Option<EndBy>,

    /// Send a signal this long before --time-limit, or before the worker ends for want of time
    ///
    /// Whichever comes first. The task may then save its state and end by itself.
    ///
    /// Example: `--time-limit 1h --signal USR1@2m`.
    #[arg(long, value_name = "NAME@DURATION", value_parser = values::warning)]
    pub signal: Option<Warning>,

    /// Time between SIGTERM and SIGKILL for a task that has to end [default: 5s]
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
    /// A comma list of exit codes and ranges of them, `signal` (the task died from one) and `timeout`
    /// (it reached its time limit).
    ///
    /// Example: `--retry 3 --retry-delay 10s --retry-on 75,100-110,signal`.
    #[arg(long, value_name = "LIST", value_parser = values::retry_on)]
    pub retry_on: Option<RetryOn>,

    /// A task fails when it was lost together with its worker this often [default: 5]
    ///
    /// A number from 1 (the first loss), `never-restart` or `unlimited`. A worker that was stopped, or ended at its time
    /// limit, does not count; but with `never-restart` a task does not run again even then.
    #[arg(long, allow_hyphen_values = true, value_name = "N|never-restart|unlimited", value_parser = values::crash_limit)]
    pub crash_limit: Option<CrashLimit>,

    /// What becomes of a task that takes longer than its workers live [default: wait]
    ///
    /// Attempts that began with a worker and were ended with its time are counted. After two of them the task waits for
    /// workers that live longer (`wait`), or fails (`fail`).
    #[arg(long, value_name = "wait|fail", value_parser = values::on_walltime)]
    pub on_walltime: Option<OnWalltime>,

    /// Start a task that takes long a second time, on another worker
    ///
    /// Long is: FACTOR times the median of the finished tasks of its submit, once five of them have finished, and more
    /// than a second. The first attempt that finishes wins, and the other one is ended. Only for tasks that
    /// may run twice at the same time; see %{INSTANCE_ID}.
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
