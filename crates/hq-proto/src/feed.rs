//! Generators and reducers on the wire and in the journal.

use hq_core::client_messages::{NewJob, NewTasks, TakenBroadcast};
use hq_core::feed::{Feed, FeedChange, FeedOrder, FeedRequest, FeedState};
use hq_core::record::Record;
use hq_model::job::FedEnd;
use hq_model::{Instance, JobId, Submit};
use prost::Message;

use crate::ProtoError;
use crate::error::present;
use crate::generated::{self as form, feed_change::Kind, feed_request::Order};
use crate::idset;
use crate::object::object_name;
use crate::task::{entries_from_wire, entries_to_wire};
use crate::wire::{Wire, decode, list_from_wire, list_to_wire, required};

impl Wire for FedEnd {
    type Form = i32;

    fn to_wire(&self) -> i32 {
        let form = match self {
            FedEnd::ByTasks => form::FedEnd::ByTasks,
            FedEnd::Enough => form::FedEnd::Enough,
            FedEnd::Canceled => form::FedEnd::Canceled,
            FedEnd::Aborted => form::FedEnd::Aborted,
            FedEnd::Failed => form::FedEnd::Failed,
        };
        form as i32
    }

    fn from_wire(value: i32) -> Result<FedEnd, ProtoError> {
        match form::FedEnd::try_from(value) {
            Ok(form::FedEnd::ByTasks) => Ok(FedEnd::ByTasks),
            Ok(form::FedEnd::Enough) => Ok(FedEnd::Enough),
            Ok(form::FedEnd::Canceled) => Ok(FedEnd::Canceled),
            Ok(form::FedEnd::Aborted) => Ok(FedEnd::Aborted),
            Ok(form::FedEnd::Failed) => Ok(FedEnd::Failed),
            Err(_) => Err(ProtoError::UnknownValue { field: "end of a fed job", value }),
        }
    }
}

impl Wire for NewJob {
    type Form = form::NewJob;

    fn to_wire(&self) -> form::NewJob {
        let (submits, generator, reducer) = match &self.tasks {
            NewTasks::Submits(submits) => (list_to_wire(submits), None, None),
            NewTasks::Fed { generator, reducer } => {
                (Vec::new(), Some(generator.to_wire()), reducer.as_ref().map(|reducer| reducer.to_wire()))
            }
        };
        let (spec, after) = (Some(self.spec.to_wire()), list_to_wire(&self.after));
        let takes = list_to_wire(&self.takes);
        form::NewJob { spec, after, submits, generator, reducer, takes }
    }

    fn from_wire(job: form::NewJob) -> Result<NewJob, ProtoError> {
        let tasks = match job.generator {
            Some(generator) => NewTasks::Fed {
                generator: Box::new(Wire::from_wire(generator)?),
                reducer: job.reducer.map(Wire::from_wire).transpose()?.map(Box::new),
            },
            None => NewTasks::Submits(list_from_wire(job.submits)?),
        };
        Ok(NewJob {
            spec: required("spec of a job", job.spec)?,
            after: list_from_wire(job.after)?,
            takes: list_from_wire(job.takes)?,
            tasks,
        })
    }
}

impl Wire for TakenBroadcast {
    type Form = form::Broadcast;

    fn to_wire(&self) -> form::Broadcast {
        form::Broadcast { job: self.job, name: self.name.to_string() }
    }

    fn from_wire(broadcast: form::Broadcast) -> Result<TakenBroadcast, ProtoError> {
        Ok(TakenBroadcast { job: broadcast.job, name: object_name(&broadcast.name)? })
    }
}

/// A submit as bytes, for a generator to take along.
pub fn encode_submit(submit: &Submit) -> Vec<u8> {
    submit.to_wire().encode_to_vec()
}

/// The submit in `bytes`.
///
/// # Errors
/// When they are none.
pub fn decode_submit(bytes: &[u8]) -> Result<Submit, ProtoError> {
    Submit::from_wire(decode("submit", bytes)?)
}

pub(crate) fn change_to_wire(job: JobId, change: &FeedChange) -> form::FeedChange {
    let kind = match change {
        FeedChange::Made { generator, reducer } => {
            Kind::Made(form::FeedMade { generator: generator.0, reducer: reducer.map(|job| job.0) })
        }
        FeedChange::Fed { cursor, is_decomposed } => {
            Kind::Fed(form::Fed { cursor: cursor.clone(), is_decomposed: *is_decomposed })
        }
        FeedChange::Reduced { ids, state, is_enough } => Kind::Reduced(form::Reduced {
            ids: idset::to_wire(ids),
            state: state.clone(),
            is_enough: *is_enough,
        }),
        FeedChange::GivenUp(end) => Kind::GivenUp(form::FeedGivenUp { end: end.to_wire() }),
    };
    form::FeedChange { job: job.0, kind: Some(kind) }
}

pub(crate) fn change_from_wire(change: form::FeedChange) -> Result<Record, ProtoError> {
    let kind = match present("change of a fed job", change.kind)? {
        Kind::Made(made) => {
            FeedChange::Made { generator: JobId(made.generator), reducer: made.reducer.map(JobId) }
        }
        Kind::Fed(fed) => FeedChange::Fed { cursor: fed.cursor, is_decomposed: fed.is_decomposed },
        Kind::Reduced(reduced) => FeedChange::Reduced {
            ids: idset::from_wire("ids of reduced tasks", &reduced.ids)?,
            state: reduced.state,
            is_enough: reduced.is_enough,
        },
        Kind::GivenUp(given_up) => FeedChange::GivenUp(FedEnd::from_wire(given_up.end)?),
    };
    Ok(Record::Feed { job: JobId(change.job), change: Box::new(kind) })
}

impl Wire for Feed {
    type Form = form::Feed;

    fn to_wire(&self) -> form::Feed {
        form::Feed {
            generator: self.generator.0,
            reducer: self.reducer.map(|job| job.0),
            cursor: self.cursor.clone(),
            cursor_at: self.cursor_at,
            is_decomposed: self.is_decomposed,
            state: self.state.clone(),
            reduced: idset::to_wire(&self.reduced),
            end: self.end.to_wire(),
            earlier: self.earlier.iter().map(|job| job.0).collect(),
        }
    }

    fn from_wire(feed: form::Feed) -> Result<Feed, ProtoError> {
        Ok(Feed {
            generator: JobId(feed.generator),
            reducer: feed.reducer.map(JobId),
            cursor: feed.cursor,
            cursor_at: feed.cursor_at,
            is_decomposed: feed.is_decomposed,
            state: feed.state,
            reduced: idset::from_wire("ids of reduced tasks", &feed.reduced)?,
            end: FedEnd::from_wire(feed.end)?,
            earlier: feed.earlier.into_iter().map(JobId).collect(),
        })
    }
}

impl Wire for FeedRequest {
    type Form = form::FeedRequest;

    fn to_wire(&self) -> form::FeedRequest {
        let order = match &self.order {
            FeedOrder::Look => Order::Look(form::FeedLook {}),
            FeedOrder::AwaitRoom { below } => Order::AwaitRoom(*below),
            FeedOrder::Add { at, submits, cursor, is_last } => Order::Add(form::FeedAdd {
                at: *at,
                submits: list_to_wire(submits),
                cursor: cursor.clone(),
                is_last: *is_last,
            }),
            FeedOrder::Save { ids, state, is_enough } => Order::Save(form::Reduced {
                ids: idset::to_wire(ids),
                state: state.clone(),
                is_enough: *is_enough,
            }),
            FeedOrder::Entries { ids } => Order::Entries(form::FeedEntries { ids: idset::to_wire(ids) }),
        };
        form::FeedRequest { by: Some(self.by.to_wire()), instance: self.instance.0, order: Some(order) }
    }

    fn from_wire(request: form::FeedRequest) -> Result<FeedRequest, ProtoError> {
        let order = match present("order of a generator or reducer", request.order)? {
            Order::Look(form::FeedLook {}) => FeedOrder::Look,
            Order::AwaitRoom(below) => FeedOrder::AwaitRoom { below },
            Order::Add(add) => FeedOrder::Add {
                at: add.at,
                submits: list_from_wire(add.submits)?,
                cursor: add.cursor,
                is_last: add.is_last,
            },
            Order::Save(save) => FeedOrder::Save {
                ids: idset::from_wire("ids of reduced tasks", &save.ids)?,
                state: save.state,
                is_enough: save.is_enough,
            },
            Order::Entries(of) => {
                FeedOrder::Entries { ids: idset::from_wire("ids of tasks with entries", &of.ids)? }
            }
        };
        Ok(FeedRequest {
            by: required("task of a generator or reducer", request.by)?,
            instance: Instance(request.instance),
            order,
        })
    }
}

impl Wire for FeedState {
    type Form = form::FeedState;

    fn to_wire(&self) -> form::FeedState {
        form::FeedState {
            job: self.job.0,
            feed: Some(self.feed.to_wire()),
            made: self.made,
            is_open: self.is_open,
            waiting: self.waiting,
            ended: self.ended,
            slots: self.slots,
            unreduced_bytes: self.unreduced_bytes,
            entries: entries_to_wire(&self.entries),
            entries_gone: idset::to_wire(&self.entries_gone),
            is_keyed: self.is_keyed,
        }
    }

    fn from_wire(state: form::FeedState) -> Result<FeedState, ProtoError> {
        let count = state.entries.as_ref().map_or(0, |entries| entries.lengths.len() as u64);
        Ok(FeedState {
            job: JobId(state.job),
            feed: required("what is kept of a fed job", state.feed)?,
            made: state.made,
            is_open: state.is_open,
            waiting: state.waiting,
            ended: state.ended,
            slots: state.slots,
            unreduced_bytes: state.unreduced_bytes,
            entries: entries_from_wire(state.entries, count)?,
            entries_gone: idset::from_wire("tasks without entries", &state.entries_gone)?,
            is_keyed: state.is_keyed,
        })
    }
}
