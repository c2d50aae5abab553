//! What nodes do and tasks use, as clients are told.

use std::time::Duration;

use hq_core::load_history::LoadHistory;
use hq_core::overview::NodesLoad;
use hq_core::series::{LoadPoint, NodeLoad};
use hq_core::task_use::{TaskPoint, TaskUse, TasksSum};
use hq_model::{Instance, Timestamp, WorkerId};

use crate::ProtoError;
use crate::error::rule;
use crate::generated as form;
use crate::wire::{Wire, list_from_wire, list_to_wire, nanos, required};

impl Wire for NodeLoad {
    type Form = form::NodeLoad;

    fn to_wire(&self) -> form::NodeLoad {
        let NodeLoad { cpus, memory_mib, gpus, gpu_memory, network_kib, disk_kib } = *self;
        form::NodeLoad { cpus, memory_mib, gpus, gpu_memory, network_kib, disk_kib }
    }

    fn from_wire(load: form::NodeLoad) -> Result<NodeLoad, ProtoError> {
        let form::NodeLoad { cpus, memory_mib, gpus, gpu_memory, network_kib, disk_kib } = load;
        Ok(NodeLoad { cpus, memory_mib, gpus, gpu_memory, network_kib, disk_kib })
    }
}

impl Wire for TasksSum {
    type Form = form::TasksSum;

    fn to_wire(&self) -> form::TasksSum {
        form::TasksSum { count: self.count, load: Some(self.load.to_wire()) }
    }

    fn from_wire(sum: form::TasksSum) -> Result<TasksSum, ProtoError> {
        Ok(TasksSum { count: sum.count, load: required("load of tasks", sum.load)? })
    }
}

impl Wire for NodesLoad {
    type Form = form::NodesLoad;

    fn to_wire(&self) -> form::NodesLoad {
        form::NodesLoad {
            nodes: self.nodes,
            load: Some(self.load.to_wire()),
            cpus_total: self.cpus_total,
            memory_total_mib: self.memory_total_mib,
            gpus_total: self.gpus_total,
            tasks: Some(self.tasks.to_wire()),
        }
    }

    fn from_wire(nodes: form::NodesLoad) -> Result<NodesLoad, ProtoError> {
        Ok(NodesLoad {
            nodes: nodes.nodes,
            load: required("load of nodes", nodes.load)?,
            cpus_total: nodes.cpus_total,
            memory_total_mib: nodes.memory_total_mib,
            gpus_total: nodes.gpus_total,
            tasks: required("load of tasks", nodes.tasks)?,
        })
    }
}

impl Wire for LoadPoint {
    type Form = form::LoadPoint;

    fn to_wire(&self) -> form::LoadPoint {
        form::LoadPoint {
            start_us: self.start.0,
            count: self.count,
            mean: Some(self.mean.to_wire()),
            max: Some(self.max.to_wire()),
        }
    }

    fn from_wire(point: form::LoadPoint) -> Result<LoadPoint, ProtoError> {
        Ok(LoadPoint {
            start: Timestamp(point.start_us),
            count: point.count,
            mean: required("mean of a point", point.mean)?,
            max: required("maximum of a point", point.max)?,
        })
    }
}

impl Wire for LoadHistory {
    type Form = form::LoadHistory;

    fn to_wire(&self) -> form::LoadHistory {
        form::LoadHistory {
            worker: self.worker.map(|worker| worker.0),
            now_us: self.now.0,
            nodes: Some(self.nodes.to_wire()),
            step_ns: nanos(self.step),
            points: list_to_wire(&self.points),
        }
    }

    fn from_wire(history: form::LoadHistory) -> Result<LoadHistory, ProtoError> {
        Ok(LoadHistory {
            worker: history.worker.map(WorkerId),
            now: Timestamp(history.now_us),
            nodes: required("nodes of a history", history.nodes)?,
            step: Duration::from_nanos(history.step_ns),
            points: list_from_wire(history.points)?,
        })
    }
}

/// The form of what a task uses, beside which stand its worker and its instance.
pub(crate) fn use_to_wire(used: &TaskUse) -> form::TaskUse {
    form::TaskUse {
        from_us: used.from.0,
        at_us: used.at.0,
        load: Some(used.load.to_wire()),
        cpus_max: used.cpus_max,
        memory_max: used.memory_max,
        cpus: used.points.iter().map(|point| point.cpus).collect(),
        memory_kib: used.points.iter().map(|point| point.memory_kib).collect(),
        stride: used.stride,
        last_count: used.last_count,
    }
}

/// What a task uses, of which these are the worker and the instance.
pub(crate) fn use_from_wire(
    (worker, instance): (WorkerId, Instance),
    used: form::TaskUse,
) -> Result<TaskUse, ProtoError> {
    rule("points of a task", used.cpus.len() == used.memory_kib.len(), "have both numbers")?;
    let points = used.cpus.into_iter().zip(used.memory_kib);
    Ok(TaskUse {
        worker,
        instance,
        from: Timestamp(used.from_us),
        at: Timestamp(used.at_us),
        load: required("load of a task", used.load)?,
        cpus_max: used.cpus_max,
        memory_max: used.memory_max,
        points: points.map(|(cpus, memory_kib)| TaskPoint { cpus, memory_kib }).collect(),
        stride: used.stride,
        last_count: used.last_count,
    })
}
