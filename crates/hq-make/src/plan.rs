//! The plan: which runs of rules are wanted, which of them are needed, and why.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use hq_model::{Amount, AmountRequest};

use crate::problem::{Place, Problem};

/// When a run whose outputs are there is needed all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rerun {
    /// Never: the search stops at files that exist, even where their inputs do not.
    #[default]
    Exists,
    /// An input is newer, or will be made anew, or the text of the script differs.
    Mtime,
    /// The content of an input, or the text of the script, differs from what it was when the outputs were made.
    Hash,
}

/// What is made although it need not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// Nothing.
    #[default]
    None,
    /// All that the targets ask for.
    All,
    /// These rules, or what makes these files; and what is made from them.
    Named(Vec<String>),
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The directory that names of directories and files are relative to: absolute.
    pub base: Vec<u8>,
    /// These targets; all if empty.
    pub targets: Vec<String>,
    /// Only these files: relative to `base`, or to the directory of a target.
    pub only: Vec<String>,
    /// What is made although it need not be.
    pub force: Force,
    /// When a run whose outputs are there is needed all the same.
    pub rerun: Rerun,
    /// Where all scripts and logs go, instead of each into the directory of its target: absolute.
    pub workdir: Option<Vec<u8>>,
    /// Look also at rules that nobody asks for.
    pub check: bool,
    /// Look also at what is behind files that are there, which mode `exists` does not: to show it.
    pub look_behind: bool,
    /// Files that are missing and that no rule makes are waited for, not reported.
    pub wait_inputs: bool,
}

/// A run of the plan: its place in [`Plan::runs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u32);

impl RunId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A file of the plan: its place in [`Plan::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

impl FileId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why a run is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An output is missing.
    Missing(FileId),
    /// It was asked for by [`Wanted::force`].
    Forced,
    /// An input is newer than an output.
    Newer {
        /// The input.
        input: FileId,
        /// The oldest output.
        output: FileId,
    },
    /// An input will be made anew.
    MadeAnew {
        /// The input.
        input: FileId,
    },
    /// The text of the script differs from the one that made the outputs.
    TextDiffers,
    /// An input holds something else than when the outputs were made.
    ContentDiffers(FileId),
    /// It has other inputs than when the outputs were made.
    OtherInputs,
}

impl Reason {
    /// The word of JSON documents.
    pub fn word(&self) -> &'static str {
        match self {
            Reason::Missing(_) => "missing",
            Reason::Forced => "forced",
            Reason::Newer { .. } => "newer",
            Reason::MadeAnew { .. } => "made-anew",
            Reason::TextDiffers => "text-differs",
            Reason::ContentDiffers(_) => "content-differs",
            Reason::OtherInputs => "other-inputs",
        }
    }
}

/// How a run stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Its outputs are there and up to date.
    There,
    /// It must run.
    Needed(Reason),
    /// Mode `hash`: it must run if an input that is made before it comes out different: see [`Run::expected`].
    Perhaps(Reason),
    /// Mode `exists`: an output is missing, and nobody asks for it.
    Unasked,
    /// It is needed, and cannot run: this input is missing and cannot be made.
    Cannot(FileId),
}

/// How a file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// It is there, and stays as it is.
    There,
    /// A run of this plan makes it, or perhaps does.
    Made,
    /// It is missing, no rule makes it, and it is waited for.
    Awaited,
    /// It is missing, and cannot be made: [`Plan::missing`] says why.
    Unmakable,
}

/// A file of the plan.
#[derive(Clone, Debug)]
pub struct WantedFile {
    /// Its absolute path, lexically normalised.
    pub path: Arc<[u8]>,
    /// Where in the path what is shown of it begins.
    pub(crate) shown_at: u32,
    /// The run that has it among its outputs, as far as the plan looked.
    pub maker: Option<RunId>,
    /// A target asks for it.
    pub is_target: bool,
    /// How it stands.
    pub state: FileState,
}

impl WantedFile {
    /// How it is shown: relative to the directory of the call where it is below it.
    pub fn shown(&self) -> Cow<'_, str> {
        match &self.path[self.shown_at as usize..] {
            [] => Cow::Borrowed("."),
            shown => String::from_utf8_lossy(shown),
        }
    }
}

/// A request for each of `nrs` resource sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Resource sets.
    pub nrs: u32,
    /// Ranks of each set.
    pub ranks: u32,
    /// CPUs of each set; one per rank where nothing is said.
    pub cpu: u32,
    /// GPUs of each set.
    pub gpu: u32,
    /// Memory of each set, in MiB.
    pub mem: Option<AmountRequest>,
    /// Other resources of each set, by name.
    pub others: Vec<(String, AmountRequest)>,
    /// How long it takes.
    pub time: Option<Duration>,
}

impl Default for Resources {
    fn default() -> Resources {
        Resources { nrs: 1, ranks: 1, cpu: 1, gpu: 0, mem: None, others: Vec::new(), time: None }
    }
}

impl Resources {
    /// Ranks of all sets together.
    pub fn ranks_total(&self) -> u64 {
        u64::from(self.nrs) * u64::from(self.ranks)
    }

    /// CPUs of all sets together.
    pub fn cpus_total(&self) -> u64 {
        u64::from(self.nrs) * u64::from(self.cpu)
    }

    /// Memory of each set, where an amount is named.
    pub fn mem_amount(&self) -> Option<Amount> {
        match self.mem {
            Some(AmountRequest::Some(amount, _)) => Some(amount),
            _ => None,
        }
    }
}

/// A run: a rule with all its variables bound, for one directory.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its place in [`Plan::runs`].
    pub id: RunId,
    /// The rule.
    pub rule: Arc<str>,
    /// The targets that asked for it first: those of its attributes.
    pub targets: Arc<[Arc<str>]>,
    /// The directory in which it runs: absolute.
    pub dir: Arc<[u8]>,
    /// The directory as it is shown: relative to the directory of the call where it is below it.
    pub dir_shown: Arc<str>,
    /// The template variables of its outputs with their values, in order.
    pub vars: Vec<(Arc<str>, String)>,
    /// The name of its script and log without their ending: `an.7`.
    pub name: String,
    /// The files it needs.
    pub inputs: Vec<FileId>,
    /// The files it makes.
    pub outputs: Vec<FileId>,
    /// The text of its script: what is written to [`Run::script_path`] and run by bash.
    pub script: Vec<u8>,
    /// Where the script is written.
    pub script_path: Vec<u8>,
    /// Where both output channels go.
    pub log_path: Vec<u8>,
    /// What it asks for.
    pub resources: Resources,
    /// How often it is tried again.
    pub retry: Option<u32>,
    /// When it is ended.
    pub time_limit: Option<Duration>,
    /// Variables of its environment.
    pub env: Vec<(String, String)>,
    /// Its locality keys.
    pub locality: Vec<String>,
    /// The runs that are needed, too, and whose outputs it takes.
    pub after: Vec<RunId>,
    /// Inputs that are missing and waited for.
    pub awaited: Vec<FileId>,
    /// How it stands.
    pub state: RunState,
    /// When it is needed all the same: that of the call, or of the rule.
    pub rerun: Rerun,
    /// In state [`RunState::Perhaps`]: the digests that its inputs have if it need not run.
    pub expected: Vec<(FileId, [u8; 32])>,
    /// Where its rule begins.
    pub place: Place,
    /// Where in the script what counts as its text begins: what stands before depends on the place, not on the rule.
    pub(crate) text_at: usize,
    /// Per input, which file of its rule it is one of: those of a loop have one number.
    pub(crate) families: Vec<u32>,
}

impl Run {
    /// What tells whether the rule still says the same: environment, `setup` and `script`.
    pub fn text(&self) -> &[u8] {
        &self.script[self.text_at..]
    }

    /// Whether it is to run, or perhaps is.
    pub fn is_to_run(&self) -> bool {
        matches!(self.state, RunState::Needed(_) | RunState::Perhaps(_))
    }
}

/// What is to be done, and what cannot be.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The directory that shown names are relative to.
    pub base: Vec<u8>,
    /// All runs that the plan looked at, those that are not needed included; each stands after those it takes files from.
    pub runs: Vec<Run>,
    /// All files that it looked at.
    pub files: Vec<WantedFile>,
    /// The files that targets ask for, in order.
    pub targets: Vec<FileId>,
    /// What cannot be made: the rest may go on.
    pub missing: Vec<Problem>,
    /// What is odd.
    pub warnings: Vec<Problem>,
    /// What is to be remembered at once, even if nothing runs: lines for the file of [`crate::Known`].
    pub adopted: Vec<u8>,
}

impl Plan {
    /// The runs that are needed, or perhaps are, in an order in which they could run one by one.
    pub fn needed(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.is_to_run())
    }

    /// A run.
    pub fn run(&self, id: RunId) -> &Run {
        &self.runs[id.index()]
    }

    /// A file.
    pub fn file(&self, id: FileId) -> &WantedFile {
        &self.files[id.index()]
    }

    /// Whether all that is wanted is there, and stays as it is.
    pub fn is_done(&self) -> bool {
        self.missing.is_empty() && self.needed().next().is_none()
    }
}
