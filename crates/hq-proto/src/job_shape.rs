//! Layers and timelines of jobs, as clients are told.

use std::time::Duration;

use hq_core::job_shape::{Bar, JobShape, Layer, SlowTask, Timeline};
use hq_model::{JobId, TaskId, TaskState, Timestamp, WorkerId};

use crate::ProtoError;
use crate::error::rule;
use crate::generated as form;
use crate::wire::{Wire, list_from_wire, list_to_wire, nanos, required};

impl Wire for Layer {
    type Form = form::Layer;

    fn to_wire(&self) -> form::Layer {
        let Layer { first, last, task, ref counters } = *self;
        form::Layer { first, last, task: task.0, counters: Some(counters.to_wire()) }
    }

    fn from_wire(layer: form::Layer) -> Result<Layer, ProtoError> {
        let form::Layer { first, last, task, counters } = layer;
        Ok(Layer { first, last, task: TaskId(task), counters: required("counters of a layer", counters)? })
    }
}

impl Wire for SlowTask {
    type Form = form::SlowTask;

    fn to_wire(&self) -> form::SlowTask {
        let SlowTask { task, took, worker, state } = *self;
        form::SlowTask {
            task: task.0,
            took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            worker: worker.map(|worker| worker.0),
            state: state.to_wire(),
        }
    }

    fn from_wire(slow: form::SlowTask) -> Result<SlowTask, ProtoError> {
        let form::SlowTask { task, took_us, worker, state } = slow;
        let took = Duration::from_micros(took_us);
        Ok(SlowTask {
            task: TaskId(task),
            took,
            worker: worker.map(WorkerId),
            state: TaskState::from_wire(state)?,
        })
    }
}

impl Wire for JobShape {
    type Form = form::JobShape;

    fn to_wire(&self) -> form::JobShape {
        let Timeline { from, step, bars, attempts, is_complete } = &self.timeline;
        form::JobShape {
            job: self.job.0,
            now_us: self.now.0,
            depth: self.depth,
            layers: list_to_wire(&self.layers),
            from_us: from.0,
            step_ns: nanos(*step),
            running: bars.iter().map(|bar| bar.running_milli).collect(),
            ended: bars.iter().map(|bar| bar.ended).collect(),
            failed: bars.iter().map(|bar| bar.failed).collect(),
            attempts: *attempts,
            is_complete: *is_complete,
            slowest: list_to_wire(&self.slowest),
        }
    }

    fn from_wire(shape: form::JobShape) -> Result<JobShape, ProtoError> {
        let count = shape.running.len();
        rule(
            "bars of a timeline",
            shape.ended.len() == count && shape.failed.len() == count,
            "have all numbers",
        )?;
        let numbers = shape.running.into_iter().zip(shape.ended).zip(shape.failed);
        let bar = |((running_milli, ended), failed)| Bar { running_milli, ended, failed };
        let timeline = Timeline {
            from: Timestamp(shape.from_us),
            step: Duration::from_nanos(shape.step_ns),
            bars: numbers.map(bar).collect(),
            attempts: shape.attempts,
            is_complete: shape.is_complete,
        };
        Ok(JobShape {
            job: JobId(shape.job),
            now: Timestamp(shape.now_us),
            depth: shape.depth,
            layers: list_from_wire(shape.layers)?,
            timeline,
            slowest: list_from_wire(shape.slowest)?,
        })
    }
}
