//! `hq submit`, `hq job submit` and `hq run`: the options come from the client library.

use clap::Args;
use hq_client::options::{RunOptions, SubmitOptions};

/// Submit a job.
///
/// The server keeps the job and workers run it, even if this terminal is closed. Without --array, --each-line or
/// --from-json, the job has a single task, with id 0.
#[derive(Args, Debug)]
#[command(after_help = SUBMIT_EXAMPLES)]
pub(crate) struct SubmitCommand {
    /// All of them.
    #[command(flatten)]
    pub options: SubmitOptions,
}

const SUBMIT_EXAMPLES: &str = "\
Examples:
  One task:
    hq submit -- ./simulate --steps 1000
  A thousand tasks with four CPUs each, and wait for them:
    hq submit --array 1-1000 --cpus 4 --wait -- ./score.sh '%{TASK_ID}'
  One task for each line of a file:
    hq submit --each-line ligands.smi -- ./dock.sh '%{ENTRY}'
  Run failed tasks again:
    hq job resubmit last --failed
  With options in the script, on lines that begin with #HQ:
    hq submit job.sh";

/// Run tasks on this machine and wait for them.
///
/// A server and a worker run inside this process, in a private temporary directory that is removed at the end. They
/// can be reached only from this machine, with keys from that directory. Accepts the options of `hq submit`. Ctrl-C
/// ends the tasks. Exits with 0 only if all tasks finished.
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunCommand {
    /// All of them.
    #[command(flatten)]
    pub options: RunOptions,
}

const RUN_EXAMPLES: &str = "\
Examples:
  hq run -- ./simulate --steps 1000
  hq run --array 1-100 -- ./score.sh '%{TASK_ID}'
  hq run --each-line ligands.smi --stdout 'out/%{TASK_ID}.txt' -- ./dock.sh";
