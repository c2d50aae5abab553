//! Planted bugs. A simulator that does not find them proves nothing.

use hq_core::worker::Input;
use hq_core::worker_messages::ToWorker;

/// A bug in the shells around the machines, switched on by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Clients are answered before their records are on disk.
    AnswersBeforeSync,
    /// Workers are sent tasks before the lease is written.
    RunsBeforeWrite,
    /// Now and then a record never reaches the journal.
    LosesRecords,
    /// A worker starts a task twice.
    StartsTwice,
    /// Ends of tasks are lost between the processes and the worker.
    LosesEnds,
    /// A worker repeats a report under a new number, as another instance.
    ReportsWrongInstance,
    /// A worker does not heed that a task is to start after another one.
    LosesOrder,
    /// Of a block of submits the journal gets the first one only.
    TearsBlocks,
    /// Now and then a worker is not told what it is to run.
    LosesRuns,
    /// A worker names another variant than the one as which a task runs.
    MisnamesVariants,
    /// A launcher starts what it has given back.
    StartsRecalled,
    /// Now and then a server is not told to act on what it has heard.
    LeavesServerUnsettled,
    /// The same of a worker.
    LeavesWorkerUnsettled,
    /// A worker takes what the server counts on it for as what may go.
    ForgetsGuards,
}

impl Canary {
    /// All of them.
    pub const ALL: [Canary; 14] = [
        Canary::AnswersBeforeSync,
        Canary::RunsBeforeWrite,
        Canary::LosesRecords,
        Canary::StartsTwice,
        Canary::LosesEnds,
        Canary::ReportsWrongInstance,
        Canary::LosesOrder,
        Canary::TearsBlocks,
        Canary::LosesRuns,
        Canary::MisnamesVariants,
        Canary::StartsRecalled,
        Canary::LeavesServerUnsettled,
        Canary::LeavesWorkerUnsettled,
        Canary::ForgetsGuards,
    ];

    /// Words of the observer that is to find it; any of them when there are none.
    pub fn found_by(self) -> &'static str {
        match self {
            // A part of a block that is lost is a broken promise of its own.
            Canary::TearsBlocks => "submits of block",
            Canary::LeavesServerUnsettled => "does not get them",
            Canary::LeavesWorkerUnsettled => "wait and fit",
            Canary::ForgetsGuards => "that the server counted on for",
            _ => "",
        }
    }

    /// Only observers find it that are strict.
    pub fn needs_strict(self) -> bool {
        use Canary::{LeavesServerUnsettled, LeavesWorkerUnsettled, LosesRuns, MisnamesVariants};
        matches!(self, LosesRuns | MisnamesVariants | LeavesServerUnsettled | LeavesWorkerUnsettled)
    }

    /// What the machine of a worker hears instead, while observers hear what was said.
    pub fn mishears(self, input: &mut Input) {
        if let (Canary::ForgetsGuards, Input::Server(ToWorker::GuardObjects { guard, release })) =
            (self, input)
        {
            release.append(guard);
        }
    }

    /// What a worker hears instead.
    pub fn changes(self, mut message: ToWorker) -> ToWorker {
        if let (Canary::LosesOrder, ToWorker::Run(batches)) = (self, &mut message) {
            batches.iter_mut().for_each(|batch| batch.after = None);
        }
        message
    }
}
