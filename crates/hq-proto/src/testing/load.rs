//! Generators of what nodes do and tasks use.

use hq_core::load_history::LoadHistory;
use hq_core::overview::NodesLoad;
use hq_core::series::{LoadPoint, NodeLoad};
use hq_core::task_use::{TaskPoint, TaskUse, TasksSum};
use hq_model::{Instance, WorkerId};

use super::sample::task_load;
use super::*;

fn node_load() -> impl Strategy<Value = NodeLoad> {
    any::<[u32; 6]>().prop_map(|[cpus, memory_mib, gpus, gpu_memory, network_kib, disk_kib]| NodeLoad {
        cpus,
        memory_mib,
        gpus,
        gpu_memory,
        network_kib,
        disk_kib,
    })
}

/// What tasks may use together.
pub(super) fn tasks_sum() -> impl Strategy<Value = TasksSum> {
    (any::<u64>(), task_load()).prop_map(|(count, load)| TasksSum { count, load })
}

/// What all nodes may do.
pub(super) fn nodes_load() -> impl Strategy<Value = NodesLoad> {
    (any::<[u64; 4]>(), node_load(), tasks_sum()).prop_map(
        |([nodes, cpus_total, memory_total_mib, gpus_total], load, tasks)| NodesLoad {
            nodes,
            load,
            cpus_total,
            memory_total_mib,
            gpus_total,
            tasks,
        },
    )
}

/// Any step.
pub(super) fn point() -> impl Strategy<Value = LoadPoint> {
    (timestamp(), any::<u32>(), node_load(), node_load()).prop_map(|(start, count, mean, max)| LoadPoint {
        start,
        count,
        mean,
        max,
    })
}

/// Any history.
pub(super) fn history() -> impl Strategy<Value = LoadHistory> {
    (of(worker()), timestamp(), nodes_load(), duration(), vec(point(), 0..4))
        .prop_map(|(worker, now, nodes, step, points)| LoadHistory { worker, now, nodes, step, points })
}

/// What an attempt may use.
pub(super) fn task_use(worker: WorkerId, instance: Instance) -> impl Strategy<Value = TaskUse> {
    let point = any::<(u32, u32)>().prop_map(|(cpus, memory_kib)| TaskPoint { cpus, memory_kib });
    let numbers = any::<(u64, u64, u32, u32)>();
    (timestamp(), timestamp(), task_load(), numbers, vec(point, 0..4)).prop_map(
        move |(from, at, load, (cpus_max, memory_max, stride, last_count), points)| TaskUse {
            worker,
            instance,
            from,
            at,
            load,
            cpus_max,
            memory_max,
            points,
            stride,
            last_count,
        },
    )
}
