//! Any generators and reducers. They are boxed: what holds them would take much of a stack.

use hq_core::client_messages::{NewJob, NewTasks, TakenBroadcast};
use hq_core::feed::{Feed, FeedChange, FeedOrder, FeedRequest, FeedState};
use hq_model::job::FedEnd;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::object;
use super::{byte_string, dependencies, id_set, ids_with_entries, instance, job, job_spec, submit, task_ref};

/// Any end.
pub(super) fn fed_end() -> impl Strategy<Value = FedEnd> {
    prop_oneof![
        Just(FedEnd::ByTasks),
        Just(FedEnd::Enough),
        Just(FedEnd::Canceled),
        Just(FedEnd::Aborted),
        Just(FedEnd::Failed)
    ]
}

/// What is kept of one.
pub(super) fn feed() -> BoxedStrategy<Feed> {
    let texts = (of(byte_string()), of(byte_string()));
    let jobs = (job(), of(job()), vec(job(), 0..3));
    (jobs, texts, any::<u64>(), any::<bool>(), fed_end(), id_set())
        .prop_map(|(jobs, (cursor, state), cursor_at, is_decomposed, end, reduced)| Feed {
            generator: jobs.0,
            reducer: jobs.1,
            earlier: jobs.2,
            cursor,
            cursor_at,
            is_decomposed,
            end,
            state,
            reduced,
        })
        .boxed()
}

/// Any new job.
pub(super) fn new_job() -> BoxedStrategy<NewJob> {
    let fed = (submit().boxed(), of(submit().boxed())).prop_map(|(generator, reducer)| NewTasks::Fed {
        generator: Box::new(generator),
        reducer: reducer.map(Box::new),
    });
    let tasks = prop_oneof![vec(submit().boxed(), 0..3).prop_map(NewTasks::Submits), fed];
    let takes = (any::<u32>(), object::name()).prop_map(|(job, name)| TakenBroadcast { job, name });
    (job_spec(), dependencies(), vec(takes, 0..2), tasks)
        .prop_map(|(spec, waits, takes, tasks)| NewJob { spec, after: waits.after, takes, tasks })
        .boxed()
}

/// Any change.
pub(super) fn feed_change() -> BoxedStrategy<FeedChange> {
    use FeedChange::{Fed, Made, Reduced};
    prop_oneof![
        (job(), of(job())).prop_map(|(generator, reducer)| Made { generator, reducer }),
        (of(byte_string()), any::<bool>()).prop_map(|(cursor, is_decomposed)| Fed { cursor, is_decomposed }),
        (id_set(), of(byte_string()), any::<bool>()).prop_map(|(ids, state, is_enough)| Reduced {
            ids,
            state,
            is_enough
        }),
        fed_end().prop_map(FeedChange::GivenUp),
    ]
    .boxed()
}

/// Any request.
pub(super) fn feed_request() -> BoxedStrategy<FeedRequest> {
    use FeedOrder::{Add, AwaitRoom, Entries, Look, Save};
    let order = prop_oneof![
        Just(Look),
        any::<u64>().prop_map(|below| AwaitRoom { below }),
        (any::<u64>(), vec(submit().boxed(), 0..3), of(byte_string()), any::<bool>())
            .prop_map(|(at, submits, cursor, is_last)| Add { at, submits, cursor, is_last }),
        (id_set(), of(byte_string()), any::<bool>()).prop_map(|(ids, state, is_enough)| Save {
            ids,
            state,
            is_enough
        }),
        id_set().prop_map(|ids| Entries { ids }),
    ];
    (task_ref(), instance(), order)
        .prop_map(|(by, instance, order)| FeedRequest { by, instance, order })
        .boxed()
}

/// Any state.
pub(super) fn feed_state() -> BoxedStrategy<FeedState> {
    (job(), feed(), any::<[u64; 5]>(), any::<[bool; 2]>(), ids_with_entries())
        .prop_map(
            |(
                job,
                feed,
                [made, waiting, ended, slots, unreduced_bytes],
                [is_open, is_keyed],
                (ids, entries),
            )| {
                FeedState {
                    job,
                    feed,
                    made,
                    is_open,
                    waiting,
                    ended,
                    slots,
                    unreduced_bytes,
                    entries,
                    entries_gone: ids,
                    is_keyed,
                }
            },
        )
        .boxed()
}
