//! Which of what happens a client wants to hear of.

use std::borrow::Cow;

use hq_model::{Entries, IdSet, ObjectId, TaskId, Usage};

use crate::measures::Measures;
use crate::object_messages::{ObjectChange, ObjectCopy};
use crate::record::{Failure, FinishedSpan, Record};

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
    pub fn of(record: &Record) -> EventKind {
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
            | Record::AttemptsEnded { .. }
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
    /// What a client hears of a record: nothing where it does not want to. Of records that count together it hears all when it
    /// wants one. Who wants to hear of jobs and not of tasks is told which tasks ended, since jobs end with them, and no more.
    pub fn part<'a>(&self, record: &'a Record) -> Option<Cow<'a, Record>> {
        if let Record::Together { records } = record {
            let wants = |record: &Record| self.part(record).is_some();
            return records.iter().any(wants).then_some(Cow::Borrowed(record));
        }
        let kind = EventKind::of(record);
        let of_jobs = self.jobs.as_ref();
        if let (Record::Objects(change), Some(jobs)) = (record, of_jobs) {
            let is_wanted = self.kinds.is_empty() || self.kinds.contains(&kind);
            let change = objects_of(change, jobs).filter(|_| is_wanted)?;
            return Some(Cow::Owned(Record::Objects(Box::new(change))));
        }
        if !of_jobs.is_none_or(|jobs| record.job().is_some_and(|job| jobs.contains(TaskId(job.0)))) {
            return None;
        }
        match self.kinds.is_empty() || self.kinds.contains(&kind) {
            true => Some(Cow::Borrowed(record)),
            false if kind == EventKind::Task && self.hears_ends_alone() => end_alone(record).map(Cow::Owned),
            false => None,
        }
    }

    /// True for who is told of tasks only that they ended.
    pub fn hears_ends_alone(&self) -> bool {
        self.kinds.contains(&EventKind::Job) && !self.kinds.contains(&EventKind::Task)
    }

    /// Puts the ends of a record to those of the one before, where a client is told nothing else of either. False when they stay
    /// apart.
    pub fn joins(&self, before: &mut Record, record: &Record) -> bool {
        match (before, record) {
            (Record::Finished { span: before, .. }, Record::Finished { span, .. })
                if self.hears_ends_alone() && before.job == span.job && before.instance == span.instance =>
            {
                before.ids.union_with(&span.ids);
                true
            }
            _ => false,
        }
    }
}

// What a change says of objects of some jobs.
fn objects_of(change: &ObjectChange, jobs: &IdSet) -> Option<ObjectChange> {
    let is_of = |object: &ObjectId| jobs.contains(TaskId(object.task.job.0));
    let some = |objects: &[ObjectId]| {
        let own: Vec<ObjectId> = objects.iter().filter(|object| is_of(object)).cloned().collect();
        (!own.is_empty()).then_some(own)
    };
    match change {
        ObjectChange::Stored(copies) => {
            let own: Vec<ObjectCopy> = copies.iter().filter(|copy| is_of(&copy.object)).cloned().collect();
            (!own.is_empty()).then_some(ObjectChange::Stored(own))
        }
        ObjectChange::Kept(objects) => some(objects).map(ObjectChange::Kept),
        ObjectChange::Released(objects) => some(objects).map(ObjectChange::Released),
        ObjectChange::Gone { objects, why } => {
            some(objects).map(|objects| ObjectChange::Gone { objects, why: why.clone() })
        }
    }
}

// Which tasks a record ends, and nothing else of it.
fn end_alone(record: &Record) -> Option<Record> {
    match record {
        Record::Finished { worker, span } => {
            let (measures, results) = (Measures::default(), Entries::default());
            let (ids, variant) = (span.ids.clone(), None);
            let span =
                FinishedSpan { job: span.job, instance: span.instance, ids, measures, results, variant };
            Some(Record::Finished { worker: *worker, span })
        }
        Record::Failed { job, failure } => {
            let failure = Failure {
                task: failure.task,
                instance: failure.instance,
                worker: failure.worker,
                kind: failure.kind,
                error: String::new(),
                started: None,
                usage: Usage::default(),
                nodes: Vec::new(),
                result: Default::default(),
                variant: None,
            };
            Some(Record::Failed { job: *job, failure })
        }
        Record::Canceled { .. } | Record::Aborted { .. } => Some(record.clone()),
        _ => None,
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
            let takes = [&closed, &leased, &gone, &both].map(|record| filter.part(record).is_some());
            assert_eq!(takes, taken, "{filter:?}");
        }
    }

    #[test]
    fn of_objects_those_of_its_jobs_are_told() {
        let object = |job| format!("{job}@0:parts").parse::<ObjectId>().expect("an object");
        let record = Record::Objects(Box::new(ObjectChange::Kept(vec![object(3), object(4)])));
        let of = |job, kinds: &[EventKind]| EventFilter {
            jobs: Some(IdSet::single(TaskId(job))),
            kinds: kinds.to_vec(),
        };
        let kept = Record::Objects(Box::new(ObjectChange::Kept(vec![object(3)])));
        assert_eq!(of(3, &[]).part(&record).as_deref(), Some(&kept));
        assert_eq!(of(3, &[EventKind::Task]).part(&record).as_deref(), Some(&kept));
        assert_eq!(of(3, &[EventKind::Job]).part(&record), None);
        assert_eq!(of(5, &[]).part(&record), None);
    }

    #[test]
    fn who_wants_to_hear_of_jobs_hears_which_tasks_ended_and_no_more() {
        let finished = |job, from, to| {
            let mut writer = crate::measures::MeasuresWriter::new(true);
            (from..=to).for_each(|_| writer.push(hq_model::Timestamp(7), &Usage::default()));
            let span = FinishedSpan {
                job: JobId(job),
                instance: hq_model::Instance(0),
                ids: IdSet::range(from, to),
                measures: writer.finish(),
                results: Entries::new([b"result".as_slice()]).expect("few"),
                variant: Some(1),
            };
            Record::Finished { worker: WorkerId(1), span }
        };
        let filter = EventFilter { jobs: None, kinds: vec![EventKind::Job] };
        let part = |record: &Record| filter.part(record).expect("an end").into_owned();
        let mut first = part(&finished(3, 0, 9));
        let Record::Finished { span, .. } = &first else { panic!("{first:?}") };
        assert_eq!((span.measures.clone(), span.results.is_empty()), (Measures::default(), true));
        assert!(filter.joins(&mut first, &part(&finished(3, 10, 19))));
        assert!(!filter.joins(&mut first, &part(&finished(4, 0, 9))), "of another job");
        let Record::Finished { span, .. } = &first else { panic!("{first:?}") };
        assert_eq!(span.ids.to_string(), "0-19");
        let all = EventFilter::default();
        assert_eq!(all.part(&finished(3, 0, 9)).as_deref(), Some(&finished(3, 0, 9)));
        assert!(!all.joins(&mut finished(3, 0, 9), &finished(3, 10, 19)), "it wants their times");
    }
}
