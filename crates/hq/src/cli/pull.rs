//! `hq pull …`: tasks that any program takes, by itself or through these commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, OsStringValueParser};
use clap::{Args, Subcommand};
use hq_client::options::values;

/// Create and take tasks from programs in any language
#[derive(Subcommand, Debug)]
pub(crate) enum PullCommand {
    Open(OpenArgs),
    Create(CreateArgs),
    Addfile(AddfileArgs),
    Steal(StealArgs),
    Complete(CompleteArgs),
    Fail(FailArgs),
    Defer(DeferArgs),
    Release(HeldArgs),
    Extend(ExtendArgs),
    Exit(ExitArgs),
    Status(StatusArgs),
    Look(LookArgs),
    Close(CloseArgs),
    Wait(WaitArgs),
    Run(RunArgs),
    Env(EnvArgs),
    Relay(RelayArgs),
}

/// Which bag.
#[derive(Args, Clone, Debug)]
pub(crate) struct BagOption {
    /// Bag, by name or by the id of its job [default: pull] [env: HQ_PULL_BAG]
    #[arg(long, value_name = "BAG", value_parser = NonEmptyStringValueParser::new())]
    pub bag: Option<String>,
}

/// Which bag names of tasks are of.
#[derive(Args, Clone, Debug)]
pub(crate) struct OfBagOption {
    /// Bag that the task names belong to, by name or by the id of its job [default: all bags from which the worker
    /// has tasks] [env: HQ_PULL_BAG]
    #[arg(long, value_name = "BAG", value_parser = NonEmptyStringValueParser::new())]
    pub bag: Option<String>,
}

/// Who takes tasks.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkerOption {
    /// Name of the worker that holds the tasks [default: this host's name] [env: HQ_PULL_WORKER]
    #[arg(long = "as", value_name = "WORKER", value_parser = NonEmptyStringValueParser::new())]
    pub worker: Option<String>,
}

/// What whoever takes tasks can do.
#[derive(Args, Clone, Debug)]
pub(crate) struct TagOption {
    /// Also take tasks that need this tag; can be repeated
    #[arg(long = "tag", value_name = "TAG", value_parser = NonEmptyStringValueParser::new())]
    pub tags: Vec<String>,
}

/// Create a bag, unless one with this name is open
///
/// A bag is an open job, so `hq job info`, `hq job cancel` and the other job commands work on it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull open dock\n  hq pull open dock --max-fails 10")]
pub(crate) struct OpenArgs {
    /// Name of the bag [default: pull] [env: HQ_PULL_BAG]
    #[arg(value_name = "BAG", conflicts_with = "bag", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// The same.
    #[command(flatten)]
    pub bag: BagOption,
    /// Abort the remaining tasks when more than N tasks have failed
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = values::count::<u64>)]
    pub max_fails: Option<u64>,
}

/// Create a task
///
/// Creating a task that already exists has no effect.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq pull create dock-1 --payload 'ligand 1'\n  hq pull create report dock-1 dock-2 --bag dock"
)]
pub(crate) struct CreateArgs {
    /// Name of the task, unique in the bag; must not be - or look like an id such as 4@17
    #[arg(value_name = "TASK", value_parser = NonEmptyStringValueParser::new())]
    pub task: String,
    /// Tasks of the bag that must finish first
    #[arg(value_name = "DEPENDENCY", value_parser = NonEmptyStringValueParser::new())]
    pub after: Vec<String>,
    /// Description of the work: text, @FILE, or - for standard input
    #[arg(long, allow_hyphen_values = true, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub payload: Option<String>,
    /// Tasks with a higher priority go first
    #[arg(long, allow_hyphen_values = true, value_name = "NUMBER", value_parser = values::priority)]
    pub priority: Option<i32>,
    /// Number of retries if it fails
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = values::count::<u32>)]
    pub retry: Option<u32>,
    /// Tag that whoever takes the task must have; can be repeated
    #[arg(long, value_name = "TAG", value_parser = NonEmptyStringValueParser::new())]
    pub needs: Vec<String>,
    /// Treat dependencies that do not exist as finished
    #[arg(long)]
    pub missing_is_done: bool,
    /// The bag.
    #[command(flatten)]
    pub bag: BagOption,
}

/// Create a task for each line of a file
///
/// Each line contains the name of a task, followed by the names of tasks that must finish first, separated by commas.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull addfile tasks.txt\n  seq 1000 | hq pull addfile -")]
pub(crate) struct AddfileArgs {
    /// The file, or - for standard input
    #[arg(value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub file: String,
    /// Tag that whoever takes the tasks must have; can be repeated
    #[arg(long, value_name = "TAG", value_parser = NonEmptyStringValueParser::new())]
    pub needs: Vec<String>,
    /// Treat dependencies that do not exist as finished
    #[arg(long)]
    pub missing_is_done: bool,
    /// The bag.
    #[command(flatten)]
    pub bag: BagOption,
}

/// Take tasks
///
/// The bag must exist; `hq pull open` creates an empty one.
///
/// Exits with 1 if no task is ready now, with 4 if no more will come (the bag is closed and all of its tasks have
/// ended), and with 5 if the request is refused, for example because the bag does not exist.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  while t=$(hq pull steal -q --wait); do if ./work \"$t\"; then hq pull complete \"$t\"; else hq pull fail \"$t\"; fi; done\n  hq pull steal -n 16 --output-mode json"
)]
pub(crate) struct StealArgs {
    /// Name of the worker that takes them [default: as for --as]
    #[arg(value_name = "WORKER", conflicts_with = "worker", value_parser = NonEmptyStringValueParser::new())]
    pub by: Option<String>,
    /// Maximum number of tasks to take
    #[arg(short = 'n', long, allow_hyphen_values = true, value_name = "N", default_value = "1", value_parser = values::at_least_one)]
    pub count: u32,
    /// Print names only
    #[arg(short, long)]
    pub quiet: bool,
    /// Wait until a task is available, or for this long
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "1d", value_parser = values::duration)]
    pub wait: Option<Duration>,
    /// Return the tasks automatically if nothing is heard for this long [default: 1h]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub lease: Option<Duration>,
    /// What it can do.
    #[command(flatten)]
    pub tag: TagOption,
    /// Who has them.
    #[command(flatten)]
    pub worker: WorkerOption,
    /// The bag.
    #[command(flatten)]
    pub bag: BagOption,
}

/// Report tasks as finished
///
/// Returns once the server has written this to disk.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq pull complete dock-1 --result '-7.3'\n  ./names-of-done | hq pull complete -"
)]
pub(crate) struct CompleteArgs {
    /// Names, or ids such as 4@17; - reads names from standard input, one per line
    #[arg(value_name = "TASK", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub tasks: Vec<String>,
    /// Result of the tasks, at most 4096 bytes
    #[arg(long, allow_hyphen_values = true, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub result: Option<String>,
    /// Who has them.
    #[command(flatten)]
    pub worker: WorkerOption,
    /// Which bag.
    #[command(flatten)]
    pub bag: OfBagOption,
}

/// Report tasks as failed
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull fail dock-1 --message 'no such ligand'")]
pub(crate) struct FailArgs {
    /// Names, or ids such as 4@17
    #[arg(value_name = "TASK", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub tasks: Vec<String>,
    /// Reason for the failure
    #[arg(long, allow_hyphen_values = true, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub message: Option<String>,
    /// Who has them.
    #[command(flatten)]
    pub worker: WorkerOption,
    /// Which bag.
    #[command(flatten)]
    pub bag: OfBagOption,
}

/// Return a task and make it depend on other tasks of its bag
///
/// It can be taken again when those tasks have finished.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull create part-1 && hq pull defer whole --after part-1")]
pub(crate) struct DeferArgs {
    /// Name or id of the task
    #[arg(value_name = "TASK", value_parser = NonEmptyStringValueParser::new())]
    pub task: String,
    /// Tasks that must finish first
    #[arg(long, value_name = "TASK", required = true, num_args = 1.., value_parser = NonEmptyStringValueParser::new())]
    pub after: Vec<String>,
    /// Who has it.
    #[command(flatten)]
    pub worker: WorkerOption,
    /// Which bag.
    #[command(flatten)]
    pub bag: OfBagOption,
}

/// Return tasks to their bag
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull release dock-1")]
pub(crate) struct HeldArgs {
    /// Names, or ids such as 4@17
    #[arg(value_name = "TASK", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub tasks: Vec<String>,
    /// Who has them.
    #[command(flatten)]
    pub worker: WorkerOption,
    /// Which bag.
    #[command(flatten)]
    pub bag: OfBagOption,
}

/// Extend the lease of tasks that are still being worked on
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull extend dock-1 --lease 10m")]
pub(crate) struct ExtendArgs {
    /// Names, or ids such as 4@17
    #[arg(value_name = "TASK", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub tasks: Vec<String>,
    /// New lease, from now [default: as when they were taken]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub lease: Option<Duration>,
    /// Who has them.
    #[command(flatten)]
    pub worker: WorkerOption,
    /// Which bag.
    #[command(flatten)]
    pub bag: OfBagOption,
}

/// Return all tasks that a worker holds
///
/// Can be called by anyone, for example for a worker that has died.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull exit node17")]
pub(crate) struct ExitArgs {
    /// The worker [default: as for --as]
    #[arg(value_name = "WORKER", value_parser = NonEmptyStringValueParser::new())]
    pub worker: Option<String>,
}

/// Show bags, and which workers on this node hold tasks from them
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Bags to show [default: those used on this node]
    #[arg(value_name = "BAG", value_parser = NonEmptyStringValueParser::new())]
    pub bags: Vec<String>,
    /// One more.
    #[command(flatten)]
    pub bag: BagOption,
}

/// Show the states and results of tasks
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull look dock-1 dock-2")]
pub(crate) struct LookArgs {
    /// Names
    #[arg(value_name = "TASK", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub tasks: Vec<String>,
    /// The bag.
    #[command(flatten)]
    pub bag: BagOption,
}

/// Close a bag: no more tasks will come
#[derive(Args, Debug)]
pub(crate) struct CloseArgs {
    /// Its name, or the id of its job [default: pull] [env: HQ_PULL_BAG]
    #[arg(value_name = "BAG", conflicts_with = "bag", value_parser = NonEmptyStringValueParser::new())]
    pub named: Option<String>,
    /// The same.
    #[command(flatten)]
    pub bag: BagOption,
}

/// Wait until all tasks of a bag have ended
///
/// The bag must be closed for this to happen. Exits with 1 unless all of its tasks finished.
#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// Its name, or the id of its job [default: pull] [env: HQ_PULL_BAG]
    #[arg(value_name = "BAG", conflicts_with = "bag", value_parser = NonEmptyStringValueParser::new())]
    pub named: Option<String>,
    /// The same.
    #[command(flatten)]
    pub bag: BagOption,
}

/// Take tasks and run a program for each, until the bag is closed and empty
///
/// The bag must exist, with or without tasks; `hq pull open` creates one. As long as it is open, the command waits
/// for more tasks.
///
/// The program receives the payload on its standard input, and HQ_PULL_NAME, HQ_PULL_ID and HQ_PULL_ATTEMPT in its
/// environment. If it exits with 0, the task has finished; otherwise it has failed. After SIGINT or SIGTERM, no more
/// tasks are started, running programs may end, and tasks that did not finish are returned; a second signal, or the
/// end of this process, kills the programs. If this process is killed, its tasks are given to others 10 seconds
/// later. If the relay is killed, the running programs are killed, because their tasks are given to others; then
/// another relay is started, or awaited if HQ_PULL_SOCKET is set. The process id is appended to the worker name.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull run -j 4 -- ./dock.sh\n  hq pull run --last-line -- wc -c")]
pub(crate) struct RunArgs {
    /// Number of programs to run at once
    #[arg(short = 'j', long, allow_hyphen_values = true, value_name = "N", default_value = "1", value_parser = values::at_least_one)]
    pub jobs: u32,
    /// Number of tasks to take with one request
    #[arg(long, allow_hyphen_values = true, value_name = "N", default_value = "1", value_parser = values::at_least_one)]
    pub block: u32,
    /// Use the last line that a program prints as the result of its task
    #[arg(long)]
    pub last_line: bool,
    /// Exit if no task was ready for this long [default: never]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub patience: Option<Duration>,
    /// What the program can do.
    #[command(flatten)]
    pub tag: TagOption,
    /// Who has the tasks.
    #[command(flatten)]
    pub worker: WorkerOption,
    /// The bag.
    #[command(flatten)]
    pub bag: BagOption,
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true, value_parser = OsStringValueParser::new())]
    pub command: Vec<OsString>,
}

/// Print environment variables for programs in other languages, for a shell to evaluate
///
/// Starts a relay if none is running.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  eval \"$(hq pull env)\"; curl --unix-socket \"$HQ_PULL_SOCKET\" http://hq/v1/pull/status"
)]
pub(crate) struct EnvArgs {}

/// Run the relay of this node
///
/// All `hq pull` commands, and programs in any language, talk to the relay. Commands start one automatically if none
/// is running; it ends when it has not been used for ten minutes, or together with its server.
///
/// With --parent, it reaches the server through another relay and not by connections of its own. With --socket, it then
/// needs no access file.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq pull relay &\n  hq pull relay --socket /run/user/1000/dock\n  hq pull relay --parent /run/user/1000/dock --socket /run/user/1000/dock-2"
)]
pub(crate) struct RelayArgs {
    /// Path of the socket, in a directory that you own [default: in $XDG_RUNTIME_DIR or /tmp]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Socket of a running relay that passes everything on to the server [default: connect to the server]
    #[arg(long, value_name = "PATH")]
    pub parent: Option<PathBuf>,
    /// Exit if it has not been used for this long [default: never]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub idle_timeout: Option<Duration>,
    /// Exit when standard input is closed
    #[arg(long, hide = true)]
    pub lifeline: bool,
    /// As started by other commands: reports on standard output when it listens, and has no terminal
    #[arg(long, hide = true)]
    pub background: bool,
}
