//! Generators of layers and timelines.

use std::time::Duration;

use hq_core::job_shape::{Bar, JobShape, Layer, SlowTask, Timeline};

use super::*;

fn layer() -> impl Strategy<Value = Layer> {
    (any::<[u32; 3]>(), counters()).prop_map(|([first, last, task], counters)| Layer {
        first,
        last,
        task: TaskId(task),
        counters,
    })
}

fn timeline() -> impl Strategy<Value = Timeline> {
    let bar = any::<(u64, u32, u32)>().prop_map(|(running_milli, ended, failed)| Bar {
        running_milli,
        ended,
        failed,
    });
    (timestamp(), duration(), vec(bar, 0..4), any::<(u64, bool)>()).prop_map(
        |(from, step, bars, (attempts, is_complete))| Timeline { from, step, bars, attempts, is_complete },
    )
}

fn slow_task() -> impl Strategy<Value = SlowTask> {
    (any::<(u32, u64, Option<u32>)>(), select(TaskState::ALL.to_vec())).prop_map(
        |((task, took_us, worker), state)| SlowTask {
            task: TaskId(task),
            took: Duration::from_micros(took_us),
            worker: worker.map(WorkerId),
            state,
        },
    )
}

/// The shape of a job.
pub(super) fn job_shape() -> impl Strategy<Value = JobShape> {
    (job(), timestamp(), any::<u32>(), vec(layer(), 0..4), timeline(), vec(slow_task(), 0..4)).prop_map(
        |(job, now, depth, layers, timeline, slowest)| JobShape {
            job,
            now,
            depth,
            layers,
            timeline,
            slowest,
        },
    )
}
