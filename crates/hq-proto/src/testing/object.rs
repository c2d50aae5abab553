//! Any objects. They are boxed: what holds them would take much of a stack.

use hq_core::object_messages::{
    GiveObject, ObjectChange, ObjectCopy, ObjectEnd, ObjectNews, ObjectPage, ObjectPhase, ObjectRequest,
    ObjectSource, ObjectState, ObjectView, ObjectsHeld, Unfetched,
};
use hq_core::worker_messages::TaskNode;
use hq_model::object::{ObjectRef, ObjectTask};
use hq_model::task::Rebuild;
use hq_model::{InputObject, ObjectId, ObjectName, OutputObject, TaskId};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::{instance, job, selector, task_ref, text, worker};

pub(super) fn name() -> impl Strategy<Value = ObjectName> {
    select(vec!["a", "parts", "x y", "é"]).prop_map(|name| name.parse().expect("a name"))
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    vec(1..=255_u8, 1..5)
}

pub(super) fn object_id() -> BoxedStrategy<ObjectId> {
    (task_ref(), name()).prop_map(|(task, name)| ObjectId { task, name }).boxed()
}

/// What tasks of a submit leave and take.
pub(super) fn of_spec() -> BoxedStrategy<(Vec<OutputObject>, Vec<InputObject>, Option<Rebuild>)> {
    let output = (name(), path()).prop_map(|(name, path)| OutputObject { name, path });
    let input = (of(job()), of(any::<u32>()), name(), name(), of(path())).prop_map(
        |(job, task, name, object, path)| {
            let task = task.map_or(ObjectTask::Same, |task| ObjectTask::One(TaskId(task)));
            InputObject { name, from: ObjectRef { job, task, name: object }, path }
        },
    );
    let rebuild = (job(), instance()).prop_map(|(job, instance)| Rebuild { job, instance });
    (vec(output, 0..2), vec(input, 0..2), of(rebuild))
        .prop_map(|(outputs, inputs, rebuilds)| match hq_model::object::check_objects(&outputs, &inputs) {
            Ok(()) => (outputs, inputs, rebuilds),
            Err(_) => (outputs, Vec::new(), rebuilds),
        })
        .boxed()
}

pub(super) fn copy() -> BoxedStrategy<ObjectCopy> {
    (object_id(), instance(), any::<u64>(), any::<u64>(), any::<bool>())
        .prop_map(|(object, instance, size, checksum, is_dir)| ObjectCopy {
            object,
            instance,
            size,
            checksum,
            is_dir,
        })
        .boxed()
}

fn node() -> impl Strategy<Value = TaskNode> {
    (worker(), text(), text()).prop_map(|(worker, hostname, address)| TaskNode { worker, hostname, address })
}

pub(super) fn source() -> BoxedStrategy<ObjectSource> {
    (copy(), path(), vec(node(), 0..3))
        .prop_map(|(copy, path, holders)| ObjectSource { copy, path, holders })
        .boxed()
}

pub(super) fn news() -> BoxedStrategy<ObjectNews> {
    let unfetched = (task_ref(), instance(), object_id(), vec(worker(), 0..3), text(), any::<u64>());
    let unfetched = unfetched.prop_map(|(task, instance, object, holders, reason, wanted)| Unfetched {
        task,
        instance,
        object,
        holders,
        reason,
        wanted,
    });
    let gone = (vec(object_id(), 0..3), vec(object_id(), 0..3));
    let spilled = of((any::<u64>(), any::<u64>()).prop_map(|(count, bytes)| ObjectsHeld { count, bytes }));
    (vec(copy(), 0..3), (gone, spilled), vec(unfetched, 0..3), vec((object_id(), text()), 0..3))
        .prop_map(|(stored, ((lost, damaged), spilled), unfetched, refused)| ObjectNews {
            stored,
            lost,
            damaged,
            spilled,
            unfetched,
            refused,
        })
        .boxed()
}

fn end() -> impl Strategy<Value = ObjectEnd> {
    prop_oneof![Just(ObjectEnd::Dropped), text().prop_map(ObjectEnd::Lost)]
}

pub(super) fn change() -> BoxedStrategy<ObjectChange> {
    prop_oneof![
        vec(copy(), 0..3).prop_map(ObjectChange::Stored),
        vec(object_id(), 0..3).prop_map(ObjectChange::Kept),
        vec(object_id(), 0..3).prop_map(ObjectChange::Released),
        (vec(object_id(), 0..3), end()).prop_map(|(objects, why)| ObjectChange::Gone { objects, why }),
    ]
    .boxed()
}

pub(super) fn request() -> BoxedStrategy<ObjectRequest> {
    prop_oneof![
        (selector(), vec(select(&ObjectPhase::ALL[..]), 0..3), of(object_id()))
            .prop_map(|(jobs, phases, after)| ObjectRequest::List { jobs, phases, after }),
        object_id().prop_map(ObjectRequest::Info),
        vec(object_id(), 1..3).prop_map(ObjectRequest::Keep),
        vec(object_id(), 1..3).prop_map(ObjectRequest::Drop),
        vec(object_id(), 1..3).prop_map(ObjectRequest::Release),
        (prop_oneof![job().prop_map(Ok), text().prop_map(Err)], name(), worker(), any::<bool>()).prop_map(
            |(job, name, worker, is_dir)| {
                let file = "c17".to_owned();
                ObjectRequest::Give(Box::new(GiveObject { job, name, worker, file, is_dir }))
            }
        ),
    ]
    .boxed()
}

pub(super) fn page() -> BoxedStrategy<ObjectPage> {
    let lost = (text(), of(job())).prop_map(|(words, rebuilt_by)| ObjectState::Lost { words, rebuilt_by });
    let state = prop_oneof![
        Just(ObjectState::Awaited),
        Just(ObjectState::Stored),
        lost,
        end().prop_map(ObjectState::Gone)
    ];
    let held = (any::<u64>(), vec(node(), 0..3), any::<bool>(), any::<u64>(), vec(job(), 0..3));
    let view =
        (copy(), state, held).prop_map(|(copy, state, (copies, holders, is_kept, reader_count, readers))| {
            ObjectView { copy, state, copies, holders, is_kept, reader_count, readers }
        });
    (vec(view, 0..3), of(object_id())).prop_map(|(objects, next)| ObjectPage { objects, next }).boxed()
}
