//! Any task that is shown.

use hq_core::attempt::{AttemptEnd, PastAttempt};
use hq_core::client_messages::{AlikeTasks, TaskInfo};
use hq_core::task_use::TaskUse;

use super::*;

/// Any tasks that are told together.
pub(super) fn alike_tasks() -> impl Strategy<Value = AlikeTasks> {
    (job(), task_info(), finished_span(), any::<bool>()).prop_map(|(job, common, span, is_measured)| {
        AlikeTasks { job, ids: span.ids, common, measures: is_measured.then_some(span.measures) }
    })
}

/// Any task.
pub(super) fn task_info() -> impl Strategy<Value = TaskInfo> {
    let numbers = (edgy_id(), any::<u32>(), instance(), any::<u32>());
    let times = (of(timestamp()), of(timestamp()));
    let state = select(TaskState::ALL.to_vec());
    let failure = of(failure().prop_map(|failure| failure.kind));
    let waits = (
        dependencies().prop_map(|dependencies| dependencies.after),
        vec(worker(), 0..3),
        of(text()),
        failure,
        (of(byte_string()), any::<bool>(), of(timestamp()), of(load::task_use(WorkerId(0), Instance(0)))),
        vec(past_attempt(), 0..3),
    );
    (numbers, state, of(worker()), times, of(usage()), of(text()), waits).prop_map(
        |((task, submit, instance, crashes), state, worker, (started, ended), usage, error, waits)| {
            let (dependencies, nodes, key, failure, (entry, entry_gone, too_late, load), attempts) = waits;
            // They are those of the task.
            let load =
                load.map(|load| Box::new(TaskUse { worker: worker.unwrap_or_default(), instance, ..load }));
            TaskInfo {
                task: TaskId(task),
                submit,
                state,
                instance,
                crashes,
                worker,
                started,
                ended,
                usage,
                error,
                dependencies,
                key,
                nodes,
                failure,
                entry,
                entry_gone,
                load,
                too_late,
                attempts,
            }
        },
    )
}

/// Any attempt that did not end its task.
pub(super) fn past_attempt() -> impl Strategy<Value = PastAttempt> {
    let ends = vec![
        AttemptEnd::WorkerLost,
        AttemptEnd::WorkerLeft,
        AttemptEnd::Walltime,
        AttemptEnd::Objects,
        AttemptEnd::PutBack,
        AttemptEnd::Superseded,
        AttemptEnd::EndedEarly,
    ];
    let end = prop_oneof![failure().prop_map(|failure| AttemptEnd::Failed(failure.kind)), select(ends)];
    (failure(), timestamp(), end).prop_map(|(failure, ended, end)| PastAttempt {
        task: failure.task,
        instance: failure.instance,
        worker: failure.worker,
        nodes: failure.nodes,
        started: failure.started,
        ended,
        end,
        error: failure.error,
    })
}
