//! The options that say what a job is, which tasks it has, and how its submitter waits for it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use hq_model::job::Share;
use hq_model::{ByteString, IdSet, JobSpec};

use super::notices::NoticeOptions;
use super::values;

const JOB: &str = "Job";
const TASKS: &str = "Tasks";
const WAITING: &str = "Waiting";

/// Name and limits of a job.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = JOB)]
pub struct JobOptions {
    /// Name of the job, shown in lists [default: the name of the command]
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    pub name: Option<String>,

    /// Abort the rest of the job when more than N tasks have failed [default: never]
    ///
    /// Example: `--max-fails 0` gives up at the first failure.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::count::<u64>)]
    pub max_fails: Option<u64>,

    /// How many tasks of the job run at once: at least MIN where there is room, never more than MAX
    ///
    /// Either may be left out. Jobs of one priority that have shares get their minima first, and equal parts of the
    /// rest up to their maxima; without room for all minima, each gets a part in proportion to its own.
    ///
    /// Examples: `--share 10..50`, `--share ..8`.
    #[arg(long, allow_hyphen_values = true, value_name = "MIN..MAX", value_parser = values::share)]
    pub share: Option<Share>,

    /// The part of what is left over all minima that the job gets [default: 1]
    ///
    /// A job of weight 2 gets twice as much of it as one of weight 1.
    #[arg(long, allow_hyphen_values = true, value_name = "NUMBER", value_parser = values::weight)]
    pub share_weight: Option<u32>,

    /// Node hours that the tasks of the job may use: when they are spent, no more of them start
    ///
    /// A task uses its run time, times its part of the node: the largest of its parts of the CPUs, the memory and the GPUs of its
    /// worker; with --nodes all of each. It counts when it ends, so what runs then goes on, and may use more. `hq job
    /// budget` gives the job another budget.
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
    /// A comma list of numbers, ranges and ranges with a step. The id is in HQ_TASK_ID and replaces
    /// %{TASK_ID} in arguments and paths. With --each-line or --from-json it chooses lines or elements,
    /// counted from 0. On a `#HQ` line it means nothing when the command line names a file of entries.
    ///
    /// Examples: `--array 1-1000`, `--array 0-100:10,7`, `--array "$(hq job task-ids last --filter failed)"`.
    #[arg(long, allow_hyphen_values = true, value_name = "IDS", value_parser = values::ids_some)]
    pub array: Option<IdSet>,

    /// One task for each line of FILE
    ///
    /// The line is in HQ_ENTRY, and replaces %{ENTRY} in arguments, values of variables and paths, as its words replace
    /// %{ENTRY_1}, %{ENTRY_2} and so on. `-` reads standard input.
    ///
    /// Example: `hq submit --each-line ligands.smi --stdout 'out/%{ENTRY_1}' -- ./dock.sh '%{ENTRY}'`.
    #[arg(long, value_name = "FILE", conflicts_with = "from_json")]
    pub each_line: Option<PathBuf>,

    /// One task for each element of the JSON array in FILE
    ///
    /// The element, as JSON without blanks, is in HQ_ENTRY, and replaces %{ENTRY} in arguments, values of variables and
    /// paths; %{ENTRY.name} and %{ENTRY.list.0} stand for parts of it. `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub from_json: Option<PathBuf>,

    /// Name the task: submitting it again into the same job makes no second one
    ///
    /// A key is unique in its job. A task that is there already, defined in the same way, is left as it is; with another
    /// definition the submit is refused. `--after JOB@KEY` waits for it. With several tasks, %{ENTRY} or
    /// %{TASK_ID} in the key tells them apart.
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

    /// As --wait, with a progress bar
    #[arg(long)]
    pub progress: bool,

    /// Print what the tasks print while they run, when waiting
    ///
    /// Standard output to standard output, standard error to standard error; of several tasks each line begins with
    /// job, task and output.
    #[arg(long, requires = "wait", conflicts_with_all = ["progress", "on_notify"])]
    pub follow: bool,

    /// Exit with 0 although tasks failed, when waiting
    #[arg(long)]
    pub allow_failures: bool,

    /// Run a command here for each `hq task notify` of the tasks, when waiting
    ///
    /// The text is its last argument; HQ_JOB_ID, HQ_TASK_ID and HQ_WORKER_ID say where it comes from.
    ///
    /// Example: `--wait --on-notify 'notify-send -u low'`.
    #[arg(long, value_name = "COMMAND", value_parser = values::shell_command)]
    pub on_notify: Option<String>,

    /// How long to look for a server that was lost while waiting [default: 10m]
    ///
    /// A server that was killed is waited for and the wait goes on; one that was stopped ends it, unless
    /// this option is given.
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
