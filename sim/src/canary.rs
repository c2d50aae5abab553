//! Planted bugs. A simulator that does not find them proves nothing.

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
}

impl Canary {
    /// All of them.
    pub const ALL: [Canary; 7] = [
        Canary::AnswersBeforeSync,
        Canary::RunsBeforeWrite,
        Canary::LosesRecords,
        Canary::StartsTwice,
        Canary::LosesEnds,
        Canary::ReportsWrongInstance,
        Canary::LosesOrder,
    ];

    /// What a worker hears instead.
    pub fn changes(self, mut message: ToWorker) -> ToWorker {
        if let (Canary::LosesOrder, ToWorker::Run(batches)) = (self, &mut message) {
            batches.iter_mut().for_each(|batch| batch.after = None);
        }
        message
    }
}
