//! Planted bugs. A simulator that does not find them proves nothing.

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
}

impl Canary {
    /// All of them.
    pub const ALL: [Canary; 6] = [
        Canary::AnswersBeforeSync,
        Canary::RunsBeforeWrite,
        Canary::LosesRecords,
        Canary::StartsTwice,
        Canary::LosesEnds,
        Canary::ReportsWrongInstance,
    ];
}
