//! Jobs as users describe and see them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::request::WEIGHT_NEUTRAL;
use crate::task::WordError;
use crate::{ByteString, Dependencies, Entries, IdSet, JobId, NoticeRule, TaskSpec};

/// What a job is made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSpec {
    /// Shown in lists; no newline or tab.
    pub name: String,
    /// The rest of the job is aborted when more than this many tasks have failed.
    pub max_fails: Option<u64>,
    /// How many of its tasks run at once, where it is said.
    pub share: Option<Share>,
    /// Node time that its tasks may use: when it is spent, no more of them are started.
    pub budget: Option<Duration>,
    /// An open job that counts when it is closed: until then none of its tasks is handed out, and when the client that
    /// makes it goes before, it is dropped.
    pub is_draft: bool,
    /// Who is told of it, and when: at most [`RULES_MAX`](crate::notice::RULES_MAX).
    pub notices: Vec<NoticeRule>,
    /// How long nothing of it has to run before it is stalled; `None` for the usual time.
    pub stall_after: Option<Duration>,
    /// An open job is closed when none of its tasks is left and no client has waited for their ends for so long; `None` when
    /// it stays open whoever leaves.
    pub linger: Option<Duration>,
    /// Where it was opened: programs that are told of it run there. Empty for a job that a submit makes: they run where that was.
    pub directory: ByteString,
}

impl JobSpec {
    /// True when more than room decides how many of its tasks run: they are handed out only where they can start.
    pub fn is_rationed(&self) -> bool {
        self.share.is_some() || self.budget.is_some()
    }
}

/// The part of the cluster that a job gets, in tasks that run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// So many go before tasks of other jobs of their priority.
    pub min: u64,
    /// Never more than these; at least 1 and not below `min`.
    pub max: Option<u64>,
    /// Its part of what is left over the minima of all, in 1/10000; at least 1.
    pub weight: u32,
}

impl Default for Share {
    fn default() -> Self {
        Share { min: 0, max: None, weight: WEIGHT_NEUTRAL }
    }
}

/// Reads `MIN..MAX`, `MIN..` or `..MAX`, with a neutral weight.
impl FromStr for Share {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || WordError::new(text, "a share: use MIN..MAX, MIN.. or ..MAX, as in 10..50");
        let (min, max) = text.trim().split_once("..").ok_or_else(bad)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| bad());
        let min = if min.is_empty() { 0 } else { number(min)? };
        let max = if max.is_empty() { None } else { Some(number(max)?) };
        if max.is_some_and(|max| max < min.max(1)) {
            return Err(WordError::new(
                text,
                "a share: the maximum must be at least 1 and not less than the minimum",
            ));
        }
        Ok(Share { min, max, weight: WEIGHT_NEUTRAL })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", self.min)?;
        if let Some(max) = self.max {
            write!(f, "{max}")?;
        }
        if self.weight != WEIGHT_NEUTRAL {
            write!(f, " (weight {})", f64::from(self.weight) / f64::from(WEIGHT_NEUTRAL))?;
        }
        Ok(())
    }
}

/// Where a submit goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A job of its own.
    New(JobSpec),
    /// An open job.
    Open(JobId),
}

/// Which ids the tasks of a submit get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskIds {
    /// These; never empty.
    Given(IdSet),
    /// So many, from 0 in a new job, else from the largest id of the job + 1; at least 1.
    Next(u32),
}

/// A batch of tasks with one template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submit {
    /// Where it goes.
    pub target: Target,
    /// The ids.
    pub ids: TaskIds,
    /// One entry a task, in ascending order of ids; empty when the tasks have none.
    pub entries: Entries,
    /// One key a task, in ascending order of ids, unique in the job; empty when the tasks have none. A task whose key
    /// is there already is not made again.
    pub keys: Entries,
    /// What they wait for.
    pub dependencies: Arc<Dependencies>,
    /// What each task executes.
    pub spec: Arc<TaskSpec>,
    /// Directory of the submitting process, absolute.
    pub submit_dir: ByteString,
}

impl Submit {
    /// Tasks that are all alike and wait for nothing, submitted in `/`.
    pub fn new(target: Target, ids: TaskIds, spec: impl Into<Arc<TaskSpec>>) -> Submit {
        Submit {
            target,
            ids,
            entries: Entries::default(),
            keys: Entries::default(),
            dependencies: Arc::default(),
            spec: spec.into(),
            submit_dir: b"/".to_vec(),
        }
    }
}

/// The state of a job: a view over the counters of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// Open, and nothing to do at the moment.
    Opened,
    /// Nothing runs yet.
    Waiting,
    /// Something runs.
    Running,
    /// All tasks finished.
    Finished,
    /// Ended, some task failed.
    Failed,
    /// Ended, some task was aborted and none failed.
    Aborted,
    /// Ended, some task was canceled.
    Canceled,
}

impl JobState {
    /// All states, in the order tables show them.
    pub const ALL: [JobState; 7] = [
        JobState::Opened,
        JobState::Waiting,
        JobState::Running,
        JobState::Finished,
        JobState::Failed,
        JobState::Aborted,
        JobState::Canceled,
    ];

    /// The lower-case word used in filters and JSON.
    pub fn word(self) -> &'static str {
        match self {
            JobState::Opened => "opened",
            JobState::Waiting => "waiting",
            JobState::Running => "running",
            JobState::Finished => "finished",
            JobState::Failed => "failed",
            JobState::Aborted => "aborted",
            JobState::Canceled => "canceled",
        }
    }

    /// True when the job has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, JobState::Finished | JobState::Failed | JobState::Aborted | JobState::Canceled)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How many tasks of a job are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Not started.
    pub waiting: u64,
    /// Reported as started.
    pub running: u64,
    /// Ended with success.
    pub finished: u64,
    /// Ended without.
    pub failed: u64,
    /// Ended by the user.
    pub canceled: u64,
    /// Given up by the server.
    pub aborted: u64,
}

impl Counters {
    /// All tasks.
    pub fn total(&self) -> u64 {
        self.waiting + self.running + self.terminal()
    }

    /// Counts the tasks of another job as well.
    pub fn add(&mut self, other: &Counters) {
        self.waiting += other.waiting;
        self.running += other.running;
        self.finished += other.finished;
        self.failed += other.failed;
        self.canceled += other.canceled;
        self.aborted += other.aborted;
    }

    /// Tasks that have ended.
    pub fn terminal(&self) -> u64 {
        self.finished + self.failed + self.canceled + self.aborted
    }

    /// The state of a job with these counters: the first in this order that one of its tasks has.
    pub fn state(&self, is_open: bool) -> JobState {
        if self.running > 0 {
            JobState::Running
        } else if self.waiting > 0 {
            JobState::Waiting
        } else if self.failed > 0 {
            JobState::Failed
        } else if self.aborted > 0 {
            JobState::Aborted
        } else if self.canceled > 0 {
            JobState::Canceled
        } else if is_open {
            JobState::Opened
        } else {
            JobState::Finished
        }
    }
}

/// What the state of a job that a generator feeds is made of, beside its tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FedEnd {
    /// Nothing else.
    #[default]
    ByTasks,
    /// Its reducer had enough: what was canceled for that is no want of success.
    Enough,
    /// It was canceled before all of its tasks were made.
    Canceled,
    /// It was given up before all of its tasks were made.
    Aborted,
    /// It was closed after its generator or its reducer had failed.
    Failed,
}

impl FedEnd {
    /// The state of a job with these counters.
    pub fn state_of(self, counters: &Counters, is_open: bool) -> JobState {
        match (self, counters.state(is_open)) {
            (FedEnd::Enough, _) => Counters { canceled: 0, ..*counters }.state(is_open),
            (FedEnd::Canceled, JobState::Finished) => JobState::Canceled,
            (FedEnd::Aborted, JobState::Finished | JobState::Canceled) => JobState::Aborted,
            (FedEnd::Failed, JobState::Finished | JobState::Canceled | JobState::Aborted) => JobState::Failed,
            (_, state) => state,
        }
    }
}

impl FromStr for JobState {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = text.trim().to_ascii_lowercase();
        let found = JobState::ALL.into_iter().find(|state| state.word() == word);
        found.ok_or_else(|| {
            WordError::new(
                text,
                "a job state: use opened, waiting, running, finished, failed, aborted or canceled",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_shown() {
        for text in ["10..50", "10..", "0..50"] {
            assert_eq!(text.parse::<Share>().map(|share| share.to_string()), Ok(text.into()));
        }
        assert_eq!("..50".parse::<Share>(), Ok(Share { max: Some(50), ..Share::default() }));
        for text in ["", "10", "50..10", "0..0", "a..b", "-1..5", "1...5"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        let heavy = Share { min: 1, max: None, weight: 25_000 };
        assert_eq!(heavy.to_string(), "1.. (weight 2.5)");
    }
}
