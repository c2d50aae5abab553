//! Generators of what nodes do.

use hq_model::sample::{DiskCounts, EnergyOf, GpuSample, GpuVendor, NetworkCounts, NodeEnergy};
use hq_model::{Instance, NodeSample, TaskLoad, TaskSample, TasksSample};
use proptest::collection::vec;
use proptest::prelude::*;

use super::text;

/// Any sample of a node.
pub(super) fn node_sample() -> impl Strategy<Value = NodeSample> {
    let gpu =
        (any::<bool>(), text(), any::<u16>(), any::<u16>()).prop_map(|(is_amd, id, processor, memory)| {
            let vendor = if is_amd { GpuVendor::Amd } else { GpuVendor::Nvidia };
            GpuSample { vendor, id, processor, memory }
        });
    let network =
        any::<[u64; 6]>().prop_map(|[rx_bytes, tx_bytes, rx_packets, tx_packets, rx_errors, tx_errors]| {
            NetworkCounts { rx_bytes, tx_bytes, rx_packets, tx_packets, rx_errors, tx_errors }
        });
    let disk =
        any::<(u64, u64)>().prop_map(|(read_bytes, written_bytes)| DiskCounts { read_bytes, written_bytes });
    let all = [EnergyOf::Processors, EnergyOf::ProcessorsAndGpus, EnergyOf::Gpus, EnergyOf::Node];
    let energy = (any::<u64>(), proptest::sample::select(all.to_vec()));
    let energy = energy.prop_map(|(used_uj, of)| NodeEnergy { used_uj, of });
    (vec(any::<u16>(), 0..4), any::<(u64, u64)>(), network, disk, vec(gpu, 0..3), super::of(energy)).prop_map(
        |(cpus, (memory_total, memory_free), network, disk, gpus, energy)| NodeSample {
            cpus,
            memory_total,
            memory_free,
            network,
            disk,
            gpus,
            energy,
        },
    )
}

/// What a task may use.
pub(super) fn task_load() -> impl Strategy<Value = TaskLoad> {
    any::<[u64; 6]>().prop_map(|[cpus, memory_bytes, cpu_us, read_bytes, written_bytes, processes]| {
        TaskLoad { cpus, memory_bytes, cpu_us, read_bytes, written_bytes, processes }
    })
}

/// Any sample of tasks.
pub(super) fn tasks_sample() -> impl Strategy<Value = TasksSample> {
    let task = (super::task_ref(), any::<u32>(), task_load()).prop_map(|(task, instance, load)| TaskSample {
        task,
        instance: Instance(instance),
        load,
    });
    (any::<u64>(), task_load(), vec(task, 0..4)).prop_map(|(count, sum, tasks)| TasksSample {
        count,
        sum,
        tasks,
    })
}
