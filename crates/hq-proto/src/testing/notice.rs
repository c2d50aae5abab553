//! Any notice.

use hq_core::client_messages::NoticeInfo;
use hq_core::record::{NoticeChange, Record};
use hq_model::notice::{Moment, NoticeEvent, Told, ToldEnd};
use hq_model::{JobId, JobState, Notice, NoticeRule, NoticeTarget, TaskId};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::{byte_string, counters, duration, edgy_id, text, timestamp};

fn target() -> impl Strategy<Value = NoticeTarget> {
    prop_oneof![
        vec("[a-z '$\"\n]{1,8}", 1..4).prop_map(NoticeTarget::Command),
        "https?://[a-z]{1,8}(:8080)?(/[a-z?=]{0,8})?".prop_map(NoticeTarget::Url),
        "[a-z]{1,8}@[a-z]{1,8}".prop_map(NoticeTarget::Mail),
    ]
}

fn moment() -> impl Strategy<Value = Moment> {
    proptest::sample::select(&Moment::ALL[..])
}

/// Any rule of a job.
pub(super) fn rule() -> impl Strategy<Value = NoticeRule> {
    (moment(), target()).prop_map(|(on, target)| NoticeRule { on, target })
}

/// What became of any notice.
pub(super) fn told() -> impl Strategy<Value = Told> {
    let end = (timestamp(), of(text())).prop_map(|(at, error)| ToldEnd { at, error });
    (timestamp(), of(end)).prop_map(|(since, end)| Told { since, end })
}

/// A rule with what became of it.
pub(super) fn info() -> impl Strategy<Value = NoticeInfo> {
    (rule(), of(told()), of(text())).prop_map(|(rule, told, trouble)| NoticeInfo { rule, told, trouble })
}

/// Any change of a notice.
pub(super) fn record() -> impl Strategy<Value = Record> {
    let event = prop_oneof![
        Just(NoticeEvent::End),
        (edgy_id(), text(), byte_string()).prop_map(|(task, error, stderr)| NoticeEvent::Failure {
            task: TaskId(task),
            error,
            stderr
        }),
        (duration(), text()).prop_map(|(quiet, explanation)| NoticeEvent::Stall { quiet, explanation }),
    ];
    let about = (
        text(),
        target(),
        timestamp(),
        proptest::sample::select(&JobState::ALL[..]),
        counters(),
        byte_string(),
        event,
    );
    let change = prop_oneof![about.prop_map(Some).prop_map(Ok), Just(Ok(None)), text().prop_map(Err),];
    (edgy_id().prop_map(JobId), any::<u32>(), change).prop_map(|(job, rule, change)| {
        let change = match change {
            Err(error) => NoticeChange::GivenUp(error),
            Ok(None) => NoticeChange::Sent,
            Ok(Some((name, target, at, state, counters, submit_dir, event))) => {
                let notice = Notice { job, name, rule, target, at, state, counters, submit_dir, event };
                NoticeChange::Due(Box::new(notice))
            }
        };
        Record::Notice { job, rule, change }
    })
}
