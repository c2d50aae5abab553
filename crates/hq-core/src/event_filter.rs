//! Which of what happens a client wants to hear of.

use hq_model::{IdSet, TaskId};

use crate::record::Record;

/// As a cursor: only what happens from now on.
pub const FROM_NOW: u64 = u64::MAX;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// The server itself.
    Server,
    /// A job: it is made, gets tasks, is closed or forgotten.
    Job,
    /// Tasks.
    Task,
    /// A worker.
    Worker,
    /// A queue or an allocation.
    Allocation,
}

impl EventKind {
    /// All of them.
    pub const ALL: [EventKind; 5] =
        [EventKind::Server, EventKind::Job, EventKind::Task, EventKind::Worker, EventKind::Allocation];

    /// What a record is about.
    fn of(record: &Record) -> EventKind {
        match record {
            Record::ServerStarted { .. }
            | Record::IdsGiven { .. }
            | Record::TimeSkipped { .. }
            | Record::LoadKept { .. }
            | Record::Answered { .. } => EventKind::Server,
            Record::JobOpened { .. }
            | Record::Submitted { .. }
            | Record::EntriesDropped { .. }
            | Record::JobClosed { .. }
            | Record::JobLeft { .. }
            | Record::Budget { .. }
            | Record::JobForgotten { .. }
            | Record::Feed { .. }
            | Record::Notice { .. }
            | Record::JobKept { .. } => EventKind::Job,
            Record::WorkerJoined { .. }
            | Record::WorkerSampled { .. }
            | Record::WorkerEnded { .. }
            | Record::WorkerForgotten { .. } => EventKind::Worker,
            Record::Alloc(_) => EventKind::Allocation,
            Record::Leased { .. }
            | Record::LeasedNodes { .. }
            | Record::Returned { .. }
            | Record::Restarted { .. }
            | Record::Deferred { .. }
            | Record::ServiceReady { .. }
            | Record::FilesFound { .. }
            | Record::Speculated { .. }
            | Record::AttemptDropped { .. }
            | Record::Finished { .. }
            | Record::DetailKept { .. }
            | Record::Failed { .. }
            | Record::FailureKept { .. }
            | Record::Canceled { .. }
            | Record::Aborted { .. }
            | Record::EndedEarly { .. }
            | Record::ResultsKept { .. }
            | Record::Objects(_)
            | Record::Together { .. } => EventKind::Task,
        }
    }
}

/// A filter; the default lets everything through.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventFilter {
    /// Only events about one of these jobs, by their numbers.
    pub jobs: Option<IdSet>,
    /// Only events of one of these kinds; all when empty.
    pub kinds: Vec<EventKind>,
}

impl EventFilter {
    /// True when a client wants to hear of this. Of records that count together, of all when it wants one.
    pub fn takes(&self, record: &Record) -> bool {
        if let Record::Together { records } = record {
            return records.iter().any(|record| self.takes(record));
        }
        let of_kind = self.kinds.is_empty() || self.kinds.contains(&EventKind::of(record));
        of_kind
            && self
                .jobs
                .as_ref()
                .is_none_or(|jobs| record.job().is_some_and(|job| jobs.contains(TaskId(job.0))))
    }
}

#[cfg(test)]
mod tests {
    use hq_model::{JobId, WorkerId};

    use super::*;

    #[test]
    fn a_filter_takes_what_is_about_its_jobs_and_of_its_kinds() {
        let closed = Record::JobClosed { job: JobId(3) };
        let leased = Record::Leased { worker: WorkerId(1), job: JobId(3), ids: IdSet::range(1, 5) };
        let gone = Record::WorkerForgotten { worker: WorkerId(3) };
        let both = Record::Together { records: vec![closed.clone(), leased.clone()] };
        let of = |job| Some(IdSet::single(TaskId(job)));
        let filter = |jobs, kinds: &[EventKind]| EventFilter { jobs, kinds: kinds.to_vec() };
        for (filter, taken) in [
            (EventFilter::default(), [true, true, true, true]),
            (filter(None, &[EventKind::Job]), [true, false, false, true]),
            (filter(None, &[EventKind::Worker, EventKind::Task]), [false, true, true, true]),
            (filter(of(3), &[]), [true, true, false, true]),
            (filter(of(4), &[]), [false; 4]),
            (filter(of(3), &[EventKind::Worker]), [false; 4]),
        ] {
            let takes = [&closed, &leased, &gone, &both].map(|record| filter.takes(record));
            assert_eq!(takes, taken, "{filter:?}");
        }
    }
}
