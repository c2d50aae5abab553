//! Generators of what is said of what tasks print.

use hq_core::output_messages::{
    Output, OutputRead, OutputState, ReadAnswer, ReadFrom, ReadOrder, ReadState, Seen,
};
use hq_model::Channel;

use super::*;

fn channel() -> impl Strategy<Value = Channel> {
    select(Channel::ALL.to_vec())
}

fn from() -> impl Strategy<Value = ReadFrom> {
    prop_oneof![any::<u64>().prop_map(ReadFrom::Offset), any::<u32>().prop_map(ReadFrom::Lines)]
}

/// Any read of a client.
pub(super) fn output_read() -> impl Strategy<Value = OutputRead> {
    let seen =
        prop_oneof![Just(Seen::Nothing), instance().prop_map(Seen::Part), instance().prop_map(Seen::All)];
    (task_ref(), channel(), seen, from(), any::<u32>(), duration(), any::<bool>()).prop_map(
        |(task, channel, seen, from, bytes_max, wait, even_ended)| OutputRead {
            task,
            channel,
            seen,
            from,
            bytes_max,
            wait,
            even_ended,
        },
    )
}

/// Any answer to it.
pub(super) fn output() -> impl Strategy<Value = Output> {
    use OutputState::*;
    let state = prop_oneof![
        select(vec![More, Complete, Waits, Ended, Nowhere]),
        worker().prop_map(Away),
        text().prop_map(Unreadable)
    ];
    (instance(), any::<u64>(), any::<u64>(), byte_string(), state).prop_map(
        |(instance, offset, length, bytes, state)| Output { instance, offset, length, bytes, state },
    )
}

/// Any read that a worker is asked for.
pub(super) fn read_order() -> impl Strategy<Value = ReadOrder> {
    let entry = proptest::option::of(byte_string());
    (any::<u64>(), task_ref(), instance(), entry, channel(), from(), any::<u32>(), duration()).prop_map(
        |(number, task, instance, entry, channel, from, bytes_max, wait)| ReadOrder {
            number,
            task,
            instance,
            entry,
            channel,
            from,
            bytes_max,
            wait,
        },
    )
}

/// Any answer to it.
pub(super) fn read_answer() -> impl Strategy<Value = ReadAnswer> {
    use ReadState::*;
    let state = prop_oneof![select(vec![More, Complete]), text().prop_map(Unreadable)];
    (any::<u64>(), any::<u64>(), any::<u64>(), byte_string(), state).prop_map(
        |(number, offset, length, bytes, state)| ReadAnswer { number, offset, length, bytes, state },
    )
}
