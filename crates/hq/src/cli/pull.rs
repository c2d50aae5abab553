//! `hq pull …`: tasks that any program takes, by itself or through these commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, OsStringValueParser};
use clap::{Args, Subcommand};
use hq_client::options::values;

/// Let programs in any language create tasks and take them
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
    /// The bag: its name, or the id of its job [default: pull] [env: HQ_PULL_BAG]
    #[arg(long, value_name = "BAG", value_parser = NonEmptyStringValueParser::new())]
    pub bag: Option<String>,
}

/// Which bag names of tasks are of.
#[derive(Args, Clone, Debug)]
pub(crate) struct OfBagOption {
    /// The bag that names are of: its name, or the id of its job [default: all that the worker has tasks of] [env: HQ_PULL_BAG]
    #[arg(long, value_name = "BAG", value_parser = NonEmptyStringValueParser::new())]
    pub bag: Option<String>,
}

/// Who takes tasks.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkerOption {
    /// Who has the tasks [default: the name of this host] [env: HQ_PULL_WORKER]
    #[arg(long = "as", value_name = "WORKER", value_parser = NonEmptyStringValueParser::new())]
    pub worker: Option<String>,
}

/// Make a bag, unless one of this name is open
///
/// A bag is an open job: `hq job info`, `hq job cancel` and all others work on it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull open dock\n  hq pull open dock --max-fails 10")]
pub(crate) struct OpenArgs {
    /// Its name [default: pull] [env: HQ_PULL_BAG]
    #[arg(value_name = "BAG", conflicts_with = "bag", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// The same.
    #[command(flatten)]
    pub bag: BagOption,
    /// Abort the rest when more than so many tasks have failed
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = values::count::<u64>)]
    pub max_fails: Option<u64>,
}

/// Create a task
///
/// Creating a task again that is there changes nothing.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq pull create dock-1 --payload 'ligand 1'\n  hq pull create report dock-1 dock-2 --bag dock"
)]
pub(crate) struct CreateArgs {
    /// Its name, unique in the bag; not -, and nothing like 4@17, which is an id
    #[arg(value_name = "TASK", value_parser = NonEmptyStringValueParser::new())]
    pub task: String,
    /// Tasks of the bag that must finish before
    #[arg(value_name = "DEPENDENCY", value_parser = NonEmptyStringValueParser::new())]
    pub after: Vec<String>,
    /// What is to be done: a text, @FILE, or - for standard input
    #[arg(long, allow_hyphen_values = true, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub payload: Option<String>,
    /// Tasks of larger priority go first
    #[arg(long, allow_hyphen_values = true, value_name = "NUMBER", value_parser = values::priority)]
    pub priority: Option<i32>,
    /// Try it so often again when it fails
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = values::count::<u32>)]
    pub retry: Option<u32>,
    /// Take dependencies that no task is named for done
    #[arg(long)]
    pub missing_is_done: bool,
    /// The bag.
    #[command(flatten)]
    pub bag: BagOption,
}

/// Create a task for each line of a file
///
/// A line is the name of a task, and the names of those that must finish before, with commas between.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull addfile tasks.txt\n  seq 1000 | hq pull addfile -")]
pub(crate) struct AddfileArgs {
    /// The file, or - for standard input
    #[arg(value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub file: String,
    /// Take dependencies that no task is named for done
    #[arg(long)]
    pub missing_is_done: bool,
    /// The bag.
    #[command(flatten)]
    pub bag: BagOption,
}

/// Take tasks
///
/// The bag must be there: `hq pull open` makes one without tasks.
///
/// Exits with 1 when none is ready now, with 4 when none will come (the bag is closed and all of its tasks have ended), and
/// with 5 when it is refused, as where there is no such bag.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  while t=$(hq pull steal -q --wait); do if ./work \"$t\"; then hq pull complete \"$t\"; else hq pull fail \"$t\"; fi; done\n  hq pull steal -n 16 --output-mode json"
)]
pub(crate) struct StealArgs {
    /// Who has them then [default: as with --as]
    #[arg(value_name = "WORKER", conflicts_with = "worker", value_parser = NonEmptyStringValueParser::new())]
    pub by: Option<String>,
    /// At most so many
    #[arg(short = 'n', long, allow_hyphen_values = true, value_name = "N", default_value = "1", value_parser = values::at_least_one)]
    pub count: u32,
    /// Print nothing but names
    #[arg(short, long)]
    pub quiet: bool,
    /// Wait until there are some, or for this long
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "1d", value_parser = values::duration)]
    pub wait: Option<Duration>,
    /// Give them back by themselves when nothing is heard for so long [default: 1h]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub lease: Option<Duration>,
    /// Who has them.
    #[command(flatten)]
    pub worker: WorkerOption,
    /// The bag.
    #[command(flatten)]
    pub bag: BagOption,
}

/// Say that tasks have finished
///
/// Returns when the server has that on its disk.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq pull complete dock-1 --result '-7.3'\n  ./names-of-done | hq pull complete -"
)]
pub(crate) struct CompleteArgs {
    /// Names, or ids such as 4@17; - reads names from standard input, one a line
    #[arg(value_name = "TASK", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub tasks: Vec<String>,
    /// What they leave behind, at most 4096 bytes
    #[arg(long, allow_hyphen_values = true, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub result: Option<String>,
    /// Who has them.
    #[command(flatten)]
    pub worker: WorkerOption,
    /// Which bag.
    #[command(flatten)]
    pub bag: OfBagOption,
}

/// Say that tasks have failed
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull fail dock-1 --message 'no such ligand'")]
pub(crate) struct FailArgs {
    /// Names, or ids such as 4@17
    #[arg(value_name = "TASK", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub tasks: Vec<String>,
    /// Why
    #[arg(long, allow_hyphen_values = true, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub message: Option<String>,
    /// Who has them.
    #[command(flatten)]
    pub worker: WorkerOption,
    /// Which bag.
    #[command(flatten)]
    pub bag: OfBagOption,
}

/// Put a task back behind others of its bag
///
/// It can be taken again when they have finished.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull create part-1 && hq pull defer whole --after part-1")]
pub(crate) struct DeferArgs {
    /// Its name, or its id
    #[arg(value_name = "TASK", value_parser = NonEmptyStringValueParser::new())]
    pub task: String,
    /// Behind these tasks
    #[arg(long, value_name = "TASK", required = true, num_args = 1.., value_parser = NonEmptyStringValueParser::new())]
    pub after: Vec<String>,
    /// Who has it.
    #[command(flatten)]
    pub worker: WorkerOption,
    /// Which bag.
    #[command(flatten)]
    pub bag: OfBagOption,
}

/// Give tasks back
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

/// Say that somebody is still at work on tasks
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull extend dock-1 --lease 10m")]
pub(crate) struct ExtendArgs {
    /// Names, or ids such as 4@17
    #[arg(value_name = "TASK", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub tasks: Vec<String>,
    /// For so long from now on [default: as they were taken]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub lease: Option<Duration>,
    /// Who has them.
    #[command(flatten)]
    pub worker: WorkerOption,
    /// Which bag.
    #[command(flatten)]
    pub bag: OfBagOption,
}

/// Give back all that a worker has
///
/// Anybody may say so, of one that has died.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull exit node17")]
pub(crate) struct ExitArgs {
    /// The worker [default: as with --as]
    #[arg(value_name = "WORKER", value_parser = NonEmptyStringValueParser::new())]
    pub worker: Option<String>,
}

/// Show bags, and who has tasks of them on this node
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Bags [default: those that were used on this node]
    #[arg(value_name = "BAG", value_parser = NonEmptyStringValueParser::new())]
    pub bags: Vec<String>,
    /// One more.
    #[command(flatten)]
    pub bag: BagOption,
}

/// Show how tasks stand, and what they left behind
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

/// Wait until a bag is over
///
/// It has to be closed. Exits with 1 unless all of its tasks finished.
#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// Its name, or the id of its job [default: pull] [env: HQ_PULL_BAG]
    #[arg(value_name = "BAG", conflicts_with = "bag", value_parser = NonEmptyStringValueParser::new())]
    pub named: Option<String>,
    /// The same.
    #[command(flatten)]
    pub bag: BagOption,
}

/// Take tasks and run a program for each, until the bag is over
///
/// The bag must be there, with tasks or without: `hq pull open` makes one. As long as it is open, more tasks are waited for.
///
/// The program has the payload on its standard input, and HQ_PULL_NAME, HQ_PULL_ID and HQ_PULL_ATTEMPT in its
/// environment. A task whose program exits with 0 has finished, any other has failed. After SIGINT or SIGTERM nothing
/// more is begun, what runs may end, and what has not ended well is given back; a second one kills it, and so does the end
/// of this process. What one that was killed had is given to others 10 seconds later. When the relay is killed, so is what
/// runs, for it is given to others, and another relay is started, or waited for where HQ_PULL_SOCKET names one. Behind the name
/// of who has the tasks comes the number of this process.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull run -j 4 -- ./dock.sh\n  hq pull run --last-line -- wc -c")]
pub(crate) struct RunArgs {
    /// So many at once
    #[arg(short = 'j', long, allow_hyphen_values = true, value_name = "N", default_value = "1", value_parser = values::at_least_one)]
    pub jobs: u32,
    /// Take so many with one question
    #[arg(long, allow_hyphen_values = true, value_name = "N", default_value = "1", value_parser = values::at_least_one)]
    pub block: u32,
    /// The last line that a program prints is what its task leaves behind
    #[arg(long)]
    pub last_line: bool,
    /// End when nothing was ready for so long [default: never]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub patience: Option<Duration>,
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

/// Print what programs in other languages need, for a shell to read
///
/// Starts a relay where there is none.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  eval \"$(hq pull env)\"; curl --unix-socket \"$HQ_PULL_SOCKET\" http://hq/v1/pull/status"
)]
pub(crate) struct EnvArgs {}

/// Run the relay of this node
///
/// All of `hq pull` and programs in any language speak to it. Commands start one by themselves where there is none; it
/// ends when nobody has needed it for ten minutes, or with its server.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq pull relay &\n  hq pull relay --socket /run/user/1000/dock")]
pub(crate) struct RelayArgs {
    /// Where to listen, in a directory of your own [default: in $XDG_RUNTIME_DIR, else in /tmp]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// End when nobody has needed it for so long [default: never]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub idle_timeout: Option<Duration>,
    /// End when standard input does
    #[arg(long, hide = true)]
    pub lifeline: bool,
    /// As commands start it: says on standard output that it listens, and has no terminal
    #[arg(long, hide = true)]
    pub background: bool,
}
