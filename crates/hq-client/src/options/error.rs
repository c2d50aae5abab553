//! What can be wrong with the options of a submit beyond the form of a single value.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hq_model::entry::EntryError;

use crate::limits::{DIRECTIVES_BYTES_MAX, ENTRIES_BYTES_MAX, JSON_DEPTH_MAX};

/// Why options make no submit.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// Nothing to run.
    #[error("no command was given; put it after the options, for example: -- ./score.sh '%{{TASK_ID}}'")]
    NoCommand,
    /// A function and a command.
    #[error(
        "--function calls a function, so the command `{0}` cannot be given: pass arguments of the function with \
         --args-json"
    )]
    FunctionAndCommand(String),
    /// A command without a name.
    #[error("the command is an empty string; is a shell variable empty?")]
    EmptyCommand,
    /// Two options that contradict each other.
    #[error("{0} cannot be used together with {1}")]
    Conflict(&'static str, &'static str),
    /// An option of a new job beside an open one.
    #[error("Parameter {0} is not allowed when submitting to an open job.")]
    OfNewJob(&'static str),
    /// Notices that cannot be.
    #[error("{0}")]
    Notices(String),
    /// A request that cannot be.
    #[error("{0}")]
    Request(String),
    /// An option that needs another one.
    #[error("{0} works only together with {1}")]
    Needs(&'static str, &'static str),
    /// A job file that cannot be read as TOML, or has a key that is not known.
    #[error("{}: {message}", path.display())]
    JobFile {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// A job file with something wrong in one of its tables.
    #[error("{}: {table}: {message}", path.display())]
    JobFileTable {
        /// The file.
        path: PathBuf,
        /// The table, such as `task 3`.
        table: String,
        /// What is wrong.
        message: String,
    },
    /// A key that cannot be.
    #[error("--key: {message}")]
    Key {
        /// What is wrong.
        message: String,
    },
    /// Objects that do not go together.
    #[error("{option}: {message}")]
    Objects {
        /// The option that says them.
        option: &'static str,
        /// What is wrong.
        message: String,
    },
    /// A resource was asked for twice.
    #[error("Resource '{0}' defined more than once; give one amount for it")]
    ResourceTwice(String),
    /// GPUs of any vendor and of one were asked for.
    #[error(
        "both `gpus` and `{0}` are requested, which would assign GPUs for each: `gpus` means GPUs of any vendor; \
         request only one of the two"
    )]
    GpusTwice(String),
    /// A placeholder where it cannot be.
    #[error(
        "Working directory path cannot contain the working directory placeholder `%{{CWD}}`: it is what --cwd sets"
    )]
    CwdInCwd,
    /// A placeholder that the path of a stream cannot have.
    #[error("%{{{name}}} cannot be used in {option}; %{{JOB_ID}}, %{{SUBMIT_DIR}} and %{{SERVER_UID}} can")]
    StreamPlaceholder {
        /// The option.
        option: &'static str,
        /// The placeholder.
        name: String,
    },
    /// A stream without a path.
    #[error("{option} needs the path of a {what}, but it is empty")]
    StreamNowhere {
        /// The option.
        option: &'static str,
        /// What it names.
        what: &'static str,
    },
    /// A stream that is to go to standard output.
    #[error(
        "{option}: `-` is no standard output here: give the path of a {what}, or `./-` for one of this name; \
         without it hq run prints what tasks print, as hq submit --wait --follow does"
    )]
    StreamToStdout {
        /// The option.
        option: &'static str,
        /// What it names.
        what: &'static str,
    },
    /// A placeholder that a locality key cannot have.
    #[error(
        "%{{{0}}} cannot be used in a locality key; %{{JOB_ID}}, %{{TASK_ID}}, %{{ENTRY}}, the entry's words %{{ENTRY_1}}, \
         %{{ENTRY_2}} and its fields %{{ENTRY.name}} can"
    )]
    LocalityPlaceholder(String),
    /// A locality key made of entries that are not there.
    #[error(
        "%{{{0}}} in a locality key needs --each-line or --from-json: without them tasks have no entries"
    )]
    LocalityWithoutEntries(String),
    /// A retry rule for no retry.
    #[error("{0} needs --retry: without it, nothing is retried")]
    RetryWithoutCount(&'static str),
    /// A signal that would come with the start.
    #[error(
        "the signal would be sent {} before the time limit of {}, which is as soon as the task has started: send it \
         later, or increase the time limit",
        hq_model::duration::format(*before),
        hq_model::duration::format(*limit)
    )]
    WarningAtStart {
        /// How long before the limit.
        before: Duration,
        /// The limit.
        limit: Duration,
    },
    /// A variable whose name no environment can hold.
    #[error("`{0}` is not a valid variable name: it must not be empty or contain `=`")]
    Variable(String),
    /// A `#HQ` line that cannot be split into words.
    #[error("line {line} of {script} has an unclosed quote: each #HQ line is parsed separately")]
    DirectiveQuotes {
        /// The script.
        script: String,
        /// The number of its line.
        line: u32,
    },
    /// A `#HQ` line that is meant to go on in the next.
    #[error(
        "line {line} of {script} ends with a backslash, but a #HQ line cannot continue on the next line: remove the \
         backslash, and begin the next line with #HQ as well"
    )]
    DirectiveGoesOn {
        /// The script.
        script: String,
        /// The number of its line.
        line: u32,
    },
    /// `#HQ` lines that go on beyond what is read of them.
    #[error(
        "the #HQ lines of {script} extend beyond its first {} KiB: move them up, before other comments, or give \
         these options on the command line",
        DIRECTIVES_BYTES_MAX / 1024
    )]
    DirectivesTooLong {
        /// The script.
        script: String,
    },
    /// `#HQ` lines with something wrong in them.
    #[error(
        "Could not parse directives from {script}: You have used invalid parameter(s) after a #HQ directive: {message}"
    )]
    Directive {
        /// The script.
        script: String,
        /// What is wrong.
        message: String,
    },
    /// The script cannot be read.
    #[error("Could not parse directives from {}: {source}", path.display())]
    Script {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read {what} {}: {source}", path.display())]
    Read {
        /// What it is for.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Two readers of one standard input.
    #[error("standard input can be read only once, but both {0} and {1} need it")]
    StdinTwice(&'static str, &'static str),
    /// Too much.
    #[error("{what} is larger than {} MiB, the maximum for one submission{}", max >> 20, in_parts(*max))]
    TooLarge {
        /// What.
        what: String,
        /// The limit, in bytes: whole MiB.
        max: u64,
    },
    /// A file without entries.
    #[error("{} is empty: there is no {unit} to create a task from", shown(path))]
    NoEntries {
        /// The file.
        path: PathBuf,
        /// What an entry is.
        unit: &'static str,
    },
    /// A subset that chooses nothing.
    #[error("--array {ids} selects nothing: {} has {count} {unit}s, counted from 0", shown(path))]
    NothingChosen {
        /// The subset.
        ids: String,
        /// The file.
        path: PathBuf,
        /// What an entry is.
        unit: &'static str,
        /// How many there are.
        count: usize,
    },
    /// A JSON file that holds something else than an array.
    #[error("The top element of the provided JSON file has to be an array: {} holds {found}", shown(path))]
    JsonNoArray {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: &'static str,
    },
    /// A file that is no JSON.
    #[error("{} is not valid JSON: {message}", shown(path))]
    Json {
        /// The file.
        path: PathBuf,
        /// What and where.
        message: String,
    },
    /// Ranks that cannot be as many on each node.
    #[error(
        "--ranks {ranks} is the total number of ranks, which cannot be divided evenly among {nodes} nodes: give a \
         multiple of {nodes}, or --ranks-per-node"
    )]
    Ranks {
        /// Those asked for.
        ranks: u32,
        /// The nodes.
        nodes: u32,
    },
    /// An element of such a file that programs cannot read.
    #[error(
        "{}: element {place} (the first is 0) is nested {depth} levels deep, but programs that read it accept at \
         most {}: make it flatter, or put it in a file and use the path as the element",
        shown(path),
        JSON_DEPTH_MAX
    )]
    JsonDepth {
        /// The file.
        path: PathBuf,
        /// Which element.
        place: usize,
        /// How deep it is.
        depth: usize,
    },
    /// More tasks than ids.
    #[error("{count} tasks are more than the maximum for a job ({})", u32::MAX)]
    TooManyTasks {
        /// How many.
        count: u64,
    },
    /// An argument that no system takes.
    #[error(
        "{what} has {bytes} bytes; Linux passes at most {max} in one argument or variable. Put it in a file, or \
         pass it with --stdin"
    )]
    ArgumentTooLong {
        /// The argument or variable that is too long.
        what: String,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// An entry that no system takes as a variable.
    #[error(
        "entry {entry} has {bytes} bytes; Linux passes at most {max} in one argument or variable. Put it in a \
         separate file, and use the name of the file as the entry"
    )]
    EntryTooLong {
        /// Which.
        entry: usize,
        /// Its length, with the name of the variable.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A placeholder that stands for nothing in an entry.
    #[error("entry {entry} (the first is 0): {error}")]
    Entry {
        /// Which.
        entry: u32,
        /// Why.
        error: EntryError,
    },
    /// What becomes too long by an entry.
    #[error(
        "{what} has {bytes} bytes with entry {entry} (the first is 0); Linux accepts at most {max} there. Put it in \
         a file, and use the name of the file in the entry"
    )]
    FilledTooLong {
        /// What.
        what: String,
        /// By which entry.
        entry: u32,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A path of which an entry leaves nothing.
    #[error("{what} is empty with entry {entry} (the first is 0)")]
    FilledEmpty {
        /// The path.
        what: String,
        /// By which entry.
        entry: u32,
    },
    /// More arguments than any system takes.
    #[error(
        "the command's arguments and variables have {bytes} bytes in total; Linux passes at most about {max} to a \
         program. Put them in a file, or pass them with --stdin"
    )]
    ArgumentsTooLong {
        /// Their length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// An entry with a NUL byte.
    #[error("{what} contains a NUL byte, which cannot be passed to a program")]
    Nul {
        /// The argument or variable that holds it.
        what: String,
    },
    /// The current directory is gone.
    #[error("the current directory cannot be determined: {0}")]
    NoDirectory(io::Error),
}

/// A file of entries, as people know it.
pub(super) fn shown(path: &Path) -> Cow<'_, str> {
    if path == Path::new("-") { "standard input".into() } else { path.to_string_lossy() }
}

impl OptionsError {
    /// What a user can do, beside what the error says, or nothing.
    pub fn hint(&self) -> &'static str {
        match self {
            OptionsError::Script { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "the script is read for #HQ lines before it is submitted, so it must exist here: check its path or, \
                 if it exists only on the workers, add --directives off"
            }
            _ => "",
        }
    }

    /// True when the arguments themselves are wrong, false when a file they name is.
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            OptionsError::Script { .. }
                | OptionsError::DirectivesTooLong { .. }
                | OptionsError::Read { .. }
                | OptionsError::NoEntries { .. }
                | OptionsError::JsonNoArray { .. }
                | OptionsError::Json { .. }
                | OptionsError::JsonDepth { .. }
                | OptionsError::JobFile { .. }
                | OptionsError::JobFileTable { .. }
                | OptionsError::TooLarge { .. }
                | OptionsError::Nul { .. }
                | OptionsError::EntryTooLong { .. }
                | OptionsError::Entry { .. }
                | OptionsError::FilledTooLong { .. }
                | OptionsError::FilledEmpty { .. }
                | OptionsError::NoDirectory(_)
        )
    }
}

// What helps where the entries of tasks are too many.
fn in_parts(max: u64) -> &'static str {
    if max == ENTRIES_BYTES_MAX {
        "; open a job with `hq job open`, and submit parts of it with --job"
    } else {
        ""
    }
}
