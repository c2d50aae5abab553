//! Jobs that a generator feeds and a reducer drains: what is kept of both, and what their tasks say to the server.
//!
//! Generator and reducer are tasks of jobs of their own. Each line of the generator becomes a task of the fed job, in order,
//! so the number of a line is the id of its task.

use hq_model::job::FedEnd;
use hq_model::{ByteString, Entries, IdSet, Instance, JobId, Submit, TaskRef};

/// What is kept of a fed job beside its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feed {
    /// The job whose task makes its tasks.
    pub generator: JobId,
    /// The job whose task takes their results.
    pub reducer: Option<JobId>,
    /// Jobs that did so before they were submitted again.
    pub earlier: Vec<JobId>,
    /// Where the generator goes on after a restart; nothing before it said so.
    pub cursor: Option<ByteString>,
    /// How many tasks were made up to there.
    pub cursor_at: u64,
    /// There are no more to come.
    pub is_decomposed: bool,
    /// What its state is made of, beside its tasks.
    pub end: FedEnd,
    /// What the reducer has made of the tasks that it acknowledged; nothing before it said so.
    pub state: Option<ByteString>,
    /// These.
    pub reduced: IdSet,
}

/// A change of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedChange {
    /// These jobs feed and drain it.
    Made {
        /// The generator's.
        generator: JobId,
        /// The reducer's.
        reducer: Option<JobId>,
    },
    /// The generator is somewhere else.
    Fed {
        /// Where; nothing when it has not said so.
        cursor: Option<ByteString>,
        /// It has ended.
        is_decomposed: bool,
    },
    /// The reducer has more tasks in its state.
    Reduced {
        /// These.
        ids: IdSet,
        /// The state; nothing when it has not said so.
        state: Option<ByteString>,
        /// It wants no more.
        is_enough: bool,
    },
    /// No more tasks are made, although there were more to come, and it has not succeeded.
    GivenUp(FedEnd),
}

/// What a generator or a reducer asks, as the present attempt of its task.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedRequest {
    /// Its task.
    pub by: TaskRef,
    /// Its instance.
    pub instance: Instance,
    /// What it asks.
    pub order: FeedOrder,
}

/// What is asked. Each is answered by how the job is after it.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedOrder {
    /// Nothing.
    Look,
    /// To be answered when the generator may go on: fewer tasks wait than that, and the reducer is not far behind; or when no more
    /// are wanted.
    AwaitRoom {
        /// So many.
        below: u64,
    },
    /// More tasks, by one record with the place of the generator.
    Add {
        /// How many there were before: a request that is repeated changes nothing.
        at: u64,
        /// The tasks. Their ids go on from those that are there, without a gap. Those with keys that are there already are no new
        /// ones; all tasks of a job have keys or none.
        submits: Vec<Submit>,
        /// Where the generator is after them, if it has said so.
        cursor: Option<ByteString>,
        /// It has ended.
        is_last: bool,
    },
    /// The reducer has these in its state, by one record with that.
    Save {
        /// Tasks that have ended.
        ids: IdSet,
        /// The state, if it has said so.
        state: Option<ByteString>,
        /// It wants no more: the rest is canceled, and the generator ended.
        is_enough: bool,
    },
    /// Answered with the entries of these tasks, or of the first of them that have room.
    Entries {
        /// These.
        ids: IdSet,
    },
}

/// How a fed job is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedState {
    /// The job.
    pub job: JobId,
    /// What is kept of it.
    pub feed: Feed,
    /// Tasks made so far.
    pub made: u64,
    /// It takes more.
    pub is_open: bool,
    /// Tasks that wait.
    pub waiting: u64,
    /// Tasks that have ended.
    pub ended: u64,
    /// CPUs of all workers that are there.
    pub slots: u64,
    /// Bytes of results that no reducer has acknowledged yet.
    pub unreduced_bytes: u64,
    /// Entries that were asked for, in order of ids; those that are not kept any more are empty.
    pub entries: Entries,
    /// The tasks of these.
    pub entries_gone: IdSet,
    /// Its tasks have keys: one that is made again is the same task.
    pub is_keyed: bool,
}

impl FeedState {
    /// Tasks that have ended, and that its reducer has not acknowledged.
    pub fn unreduced(&self) -> u64 {
        self.feed.unreduced(self.ended)
    }

    /// True when nobody wants more tasks.
    pub fn wants_no_more(&self) -> bool {
        !self.is_open || self.feed.is_decomposed
    }
}

impl Feed {
    /// Of so many tasks that have ended those that its reducer has not acknowledged.
    pub fn unreduced(&self, ended: u64) -> u64 {
        if self.reducer.is_some() { ended.saturating_sub(self.reduced.len()) } else { 0 }
    }

    /// All jobs whose tasks make its tasks or take their results, or did.
    pub fn own_jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        [Some(self.generator), self.reducer].into_iter().flatten().chain(self.earlier.iter().copied())
    }

    /// `made` is how many tasks there are now.
    pub fn apply(&mut self, change: &FeedChange, made: u64) {
        match change {
            FeedChange::Made { generator, reducer } => {
                let before = [Some(self.generator), self.reducer].into_iter().flatten();
                let is_replaced = |own: &JobId| own.0 > 0 && own != generator && Some(*own) != *reducer;
                self.earlier.extend(before.filter(is_replaced));
                (self.generator, self.reducer) = (*generator, *reducer);
            }
            FeedChange::Fed { cursor, is_decomposed } => {
                if let Some(cursor) = cursor {
                    (self.cursor, self.cursor_at) = (Some(cursor.clone()), made);
                }
                self.is_decomposed |= is_decomposed;
            }
            FeedChange::Reduced { ids, state, is_enough } => {
                self.reduced.union_with(ids);
                if state.is_some() {
                    self.state.clone_from(state);
                }
                self.is_decomposed |= is_enough;
                if *is_enough {
                    self.end = FedEnd::Enough;
                }
            }
            FeedChange::GivenUp(end) => self.end = *end,
        }
    }
}
