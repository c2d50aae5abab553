//! Why running tasks are ended, and the moments at which something is due for them.

use crate::worker::Ends;

/// Why a running task is being ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::worker) enum Ending {
    Timeout,
    Canceled,
    /// The worker stops.
    Stopped,
    /// A higher instance of the same task was handed over.
    Superseded,
    /// Another attempt of the same task is or was elsewhere; told like a canceled one.
    Elsewhere,
}

impl Ending {
    // What the end of an attempt means that is ended for this.
    pub(super) fn ends(self) -> Ends {
        match self {
            Ending::Stopped => Ends::IfUnfinished,
            Ending::Timeout | Ending::Canceled => Ends::Anyhow,
            Ending::Superseded | Ending::Elsewhere => Ends::ForAnother,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::worker) enum Deadline {
    Warning,
    TimeLimit,
    /// Whoever has taken it was silent for too long.
    Lease,
    Kill,
    /// It was killed long ago and lives.
    Unkillable,
}
