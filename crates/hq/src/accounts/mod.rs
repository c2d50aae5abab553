//! Where the time of workers went: what each worker offered, in CPU and GPU time, divided into what it was used for and
//! why it was idle. The parts add up to what was offered, exactly.

mod budgets;
mod energy;
mod gather;
mod lanes;
mod profile;
mod shapes;
mod sums;
#[cfg(test)]
mod tests;
mod traces;
mod waiting;

pub(crate) use energy::EnergySum;
pub(crate) use gather::Gathered;
pub(crate) use lanes::Lanes;
pub(crate) use sums::{Account, Accounts};
pub(crate) use waiting::Step;

use hq_model::amount::UNITS;
use hq_model::{JobId, TaskId, Timestamp, WorkerId};

/// What offered time was used for, or why it was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Attempts that finished their tasks.
    Work,
    /// Attempts that ended their tasks otherwise: failed, or canceled while they ran.
    Failed,
    /// Attempts whose tasks ran again or elsewhere: crashes, retries, lost workers, second attempts.
    Lost,
    /// Between the moment when a task could start and its start.
    Starting,
    /// Tasks were ready, and what they ask for was not free there.
    NoRoom,
    /// The only tasks that were ready are of jobs whose budgets were spent.
    OverBudget,
    /// Tasks waited for others, and none was ready.
    Dependencies,
    /// Tasks were ready, and the worker got nothing more before it ended.
    Leaving,
    /// There was no task.
    NoWork,
    /// At a time of which the journal was compacted: idle, or spent on what is forgotten.
    Unknown,
}

/// All parts, in the order in which they are shown.
pub(crate) const PARTS: [Part; 10] = [
    Part::Work,
    Part::Failed,
    Part::Lost,
    Part::Starting,
    Part::NoRoom,
    Part::OverBudget,
    Part::Dependencies,
    Part::Leaving,
    Part::NoWork,
    Part::Unknown,
];

impl Part {
    /// A word that never changes, for programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Part::Work => "work",
            Part::Failed => "failed",
            Part::Lost => "lost",
            Part::Starting => "starting",
            Part::NoRoom => "no_room",
            Part::OverBudget => "over_budget",
            Part::Dependencies => "dependencies",
            Part::Leaving => "leaving",
            Part::NoWork => "no_work",
            Part::Unknown => "unknown",
        }
    }
}

/// The resources whose time is accounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The pool `cpus`.
    Cpus,
    /// All pools of GPUs together.
    Gpus,
}

/// Both.
const KINDS: [Kind; 2] = [Kind::Cpus, Kind::Gpus];

/// Amounts of both kinds, in 1/10000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    cpus: u64,
    gpus: u64,
}

impl Amounts {
    /// How many CPUs.
    pub(crate) fn cpus(self) -> f64 {
        self.cpus as f64 / UNITS as f64
    }

    /// How many GPUs.
    pub(crate) fn gpus(self) -> f64 {
        self.gpus as f64 / UNITS as f64
    }

    fn plus(self, other: Amounts) -> Amounts {
        Amounts { cpus: self.cpus.saturating_add(other.cpus), gpus: self.gpus.saturating_add(other.gpus) }
    }

    fn of(self, kind: Kind) -> u64 {
        match kind {
            Kind::Cpus => self.cpus,
            Kind::Gpus => self.gpus,
        }
    }
}

/// One attempt of a task, on one worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    /// Where.
    pub(crate) worker: WorkerId,
    /// The job.
    pub(crate) job: JobId,
    /// The task.
    pub(crate) task: TaskId,
    /// What became of it: work, failed or lost.
    pub(crate) part: Part,
    /// When the worker got it; as `start` when that is not known.
    pub(crate) leased: Timestamp,
    /// When it started; when the worker got it, of what was lost.
    pub(crate) start: Timestamp,
    /// When it ended.
    pub(crate) end: Timestamp,
    /// False for the further nodes of a task on several nodes.
    pub(crate) leads: bool,
}

/// A worker, and what it offered.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// Its node.
    pub(crate) hostname: String,
    /// The allocation that it belonged to: number of queue and allocation, or the id in the batch system.
    pub(crate) allocation: Option<String>,
    /// The job of Slurm in which it ran.
    slurm_job: Option<String>,
    /// When it came.
    pub(crate) joined: Timestamp,
    /// When it left.
    pub(crate) ended: Option<Timestamp>,
    /// It left because its time was over or somebody stopped it.
    was_sent_away: bool,
    /// What it offered.
    pub(crate) amounts: Amounts,
}
