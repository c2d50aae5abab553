//! The options that say what a job is, which tasks it has, and how its submitter waits for it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use hq_model::job::Share;
use hq_model::{ByteString, IdSet, JobSpec};

use super::notices::NoticeOptions;
use super::{id_file, values};

const JOB: &str = "Job";
const TASKS: &str = "Tasks";
const WAITING: &str = "Waiting";

/// Name and limits of a job.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = JOB)]
pub struct JobOptions {
    /// Name of the job [default: the name of the command]
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    pub name: Option<String>,

    /// Abort the remaining tasks when more than N tasks have failed [default: never]
    ///
    /// Example: `--max-fails 0` gives up at the first failure.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::count::<u64>)]
    pub max_fails: Option<u64>,

    /// Number of tasks that run at once: at least MIN if there is room, at most MAX
    ///
    /// Either can be omitted. Jobs of equal priority that have shares first get their minimum, then equal parts of
    /// the rest up to their maximum; if there is not enough room for all minimums, each job gets a part in proportion
    /// to its own.
    ///
    /// Examples: `--share 10..50`, `--share ..8`.
    #[arg(long, allow_hyphen_values = true, value_name = "MIN..MAX", value_parser = values::share)]
    pub share: Option<Share>,

    /// Weight of the job when room above the minimums is divided [default: 1]
    ///
    /// A job of weight 2 gets twice as much as one of weight 1.
    #[arg(long, allow_hyphen_values = true, value_name = "NUMBER", value_parser = values::weight)]
    pub share_weight: Option<u32>,

    /// Maximum node hours for the tasks of the job; when they are used up, no more tasks start
    ///
    /// A task uses its run time multiplied by its share of the node: the largest of its shares of the worker's CPUs,
    /// memory and GPUs; with --nodes, all of each node. It counts when it ends, so tasks that are running when the
    /// budget is used up continue and may exceed it. `hq job budget` changes the budget.
    ///
    /// Example: `--budget 50`.
    #[arg(long, allow_hyphen_values = true, value_name = "NODEHOURS", value_parser = values::node_hours)]
    pub budget: Option<Duration>,

    /// Who is told of it.
    #[command(flatten)]
    pub notices: NoticeOptions,
}

impl JobOptions {
    pub(super) fn over(self, script: JobOptions) -> JobOptions {
        JobOptions {
            name: self.name.or(script.name),
            max_fails: self.max_fails.or(script.max_fails),
            share: self.share.or(script.share),
            share_weight: self.share_weight.or(script.share_weight),
            budget: self.budget.or(script.budget),
            notices: self.notices.over(script.notices),
        }
    }

    /// The job described, with a name for one that has none.
    pub fn spec(&self, default_name: &str) -> JobSpec {
        JobSpec {
            name: self.name.clone().unwrap_or_else(|| default_name.to_owned()),
            max_fails: self.max_fails,
            share: share(self.share, self.share_weight),
            budget: self.budget,
            is_draft: false,
            notices: self.notices.rules(),
            stall_after: self.notices.stall_after,
            linger: None,
            directory: ByteString::new(),
        }
    }
}

/// A weight alone is a share without bounds.
pub(super) fn share(bounds: Option<Share>, weight: Option<u32>) -> Option<Share> {
    match (bounds, weight) {
        (bounds, None) => bounds,
        (bounds, Some(weight)) => Some(Share { weight, ..bounds.unwrap_or_default() }),
    }
}

/// Which tasks a submit makes.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = TASKS)]
pub struct ArrayOptions {
    /// One task for each of these ids
    ///
    /// A comma-separated list of numbers, ranges and ranges with a step. The id is in HQ_TASK_ID and replaces
    /// %{TASK_ID} in arguments and paths. With --each-line or --from-json, it selects lines or elements, counted from
    /// 0. On a `#HQ` line, it is ignored if the command line gives a file of entries.
    ///
    /// `@FILE` reads them from a file, separated by commas, blanks or line breaks: an argument has room for some 20 000
    /// ids.
    ///
    /// Examples: `--array 1-1000`, `--array 0-100:10,7`, `--array "$(hq job task-ids last --filter failed)"`.
    #[arg(long, allow_hyphen_values = true, value_name = "IDS", value_parser = id_file::ids_some)]
    pub array: Option<IdSet>,

    /// One task for each line of FILE
    ///
    /// The line is in HQ_ENTRY and replaces %{ENTRY} in arguments, variables and paths; its words replace %{ENTRY_1},
    /// %{ENTRY_2} and so on. `-` reads standard input.
    ///
    /// Example: `hq submit --each-line ligands.smi --stdout 'out/%{ENTRY_1}' -- ./dock.sh '%{ENTRY}'`.
    #[arg(long, value_name = "FILE", conflicts_with = "from_json")]
    pub each_line: Option<PathBuf>,

    /// One task for each element of the JSON array in FILE
    ///
    /// The element, as compact JSON, is in HQ_ENTRY and replaces %{ENTRY} in arguments, variables and paths;
    /// %{ENTRY.name} and %{ENTRY.list.0} select parts of it. `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub from_json: Option<PathBuf>,

    /// Give the task a key: submitting it to the same job again creates no duplicate
    ///
    /// A key is unique in its job. An existing task with the same definition is left unchanged; if the definition
    /// differs, the submission is refused. `--after JOB@KEY` refers to the task. With several tasks, use %{ENTRY} or
    /// %{TASK_ID} to make the keys unique.
    ///
    /// Examples: `--key rank`, `--each-line ligands.txt --key 'dock-%{ENTRY}'`.
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub key: Option<String>,
}

impl ArrayOptions {
    pub(super) fn over(self, script: ArrayOptions) -> ArrayOptions {
        let key = self.key.or(script.key);
        // A file of entries named here replaces the script's, of whatever kind that is, and the script's ids with it:
        // they were not written for this file, and would leave out lines of it unseen.
        if self.each_line.is_some() || self.from_json.is_some() {
            return ArrayOptions { key, ..self };
        }
        let (each_line, from_json) = (script.each_line, script.from_json);
        ArrayOptions { array: self.array.or(script.array), each_line, from_json, key }
    }
}

/// How the submitter waits.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = WAITING)]
pub struct WaitOptions {
    /// Wait until the job has ended; exit with 1 unless all tasks finished
    #[arg(long, conflicts_with = "progress")]
    pub wait: bool,

    /// Like --wait, with a progress bar
    #[arg(long)]
    pub progress: bool,

    /// When waiting, print the output of tasks as they run
    ///
    /// Standard output and standard error go to the respective channels. If there are several tasks, each line begins
    /// with the job, task and channel.
    #[arg(long, requires = "wait", conflicts_with_all = ["progress", "on_notify"])]
    pub follow: bool,

    /// When waiting, exit with 0 even if tasks failed
    #[arg(long)]
    pub allow_failures: bool,

    /// When waiting, run a command here for each `hq task notify` message
    ///
    /// The message is its last argument; HQ_JOB_ID, HQ_TASK_ID and HQ_WORKER_ID identify the sender.
    ///
    /// Example: `--wait --on-notify 'notify-send -u low'`.
    #[arg(long, value_name = "COMMAND", value_parser = values::shell_command)]
    pub on_notify: Option<String>,

    /// How long to try to reconnect if the server is lost while waiting [default: 10m]
    ///
    /// If the server was killed, the command waits for it to come back. If the server was stopped, the command ends,
    /// unless this option is given.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub reconnect_timeout: Option<Duration>,
}

impl WaitOptions {
    /// True when the submitter waits at all.
    pub fn waits(&self) -> bool {
        self.wait || self.progress
    }

    pub(super) fn over(self, script: WaitOptions) -> WaitOptions {
        let own = self.waits();
        WaitOptions {
            wait: if own { self.wait } else { script.wait },
            progress: if own { self.progress } else { script.progress },
            follow: self.follow || script.follow,
            allow_failures: self.allow_failures || script.allow_failures,
            on_notify: self.on_notify.or(script.on_notify),
            reconnect_timeout: self.reconnect_timeout.or(script.reconnect_timeout),
        }
    }
}
