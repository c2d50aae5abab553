//! What a node does, as its worker saw it.

use hq_model::sample::{GpuVendor, NetworkCounts};
use hq_model::{NodeSample, Timestamp};
use serde_json::{Value, json};

use super::text;

/// As JSON, in the form of `worker-overview` events.
pub(crate) fn state(at: Timestamp, sample: &NodeSample) -> Value {
    let NetworkCounts { rx_bytes, tx_bytes, rx_packets, tx_packets, rx_errors, tx_errors } = sample.network;
    json!({
        "timestamp": at.0 / 1_000_000,
        "cpu_usage": {
            "cpu_per_core_percent_usage": sample.cpus.iter().map(|cpu| percent(*cpu)).collect::<Vec<_>>(),
        },
        "memory_usage": { "total": sample.memory_total, "free": sample.memory_free },
        "network_usage": {
            "rx_bytes": rx_bytes,
            "tx_bytes": tx_bytes,
            "rx_packets": rx_packets,
            "tx_packets": tx_packets,
            "rx_errors": rx_errors,
            "tx_errors": tx_errors,
        },
        "disk_usage": {
            "read_bytes": sample.disk.read_bytes,
            "written_bytes": sample.disk.written_bytes,
        },
        "nvidia_gpus": gpus(sample, GpuVendor::Nvidia),
        "amd_gpus": gpus(sample, GpuVendor::Amd),
        "energy_joules": sample.energy.map(|energy| energy.used_uj as f64 / 1e6),
        "energy_of": sample.energy.map(|energy| energy.of.word()),
    })
}

fn gpus(sample: &NodeSample, vendor: GpuVendor) -> Value {
    let of_vendor = sample.gpus.iter().filter(|gpu| gpu.vendor == vendor);
    let gpus: Vec<Value> = of_vendor
        .map(|gpu| {
            json!({ "id": gpu.id, "processor_usage": percent(gpu.processor), "mem_usage": percent(gpu.memory) })
        })
        .collect();
    if gpus.is_empty() { Value::Null } else { json!({ "gpus": gpus }) }
}

/// The use of CPUs and memory, and of GPUs where there are some, in words.
pub(crate) fn words(sample: &NodeSample) -> String {
    let taken = sample.memory_total.saturating_sub(sample.memory_free);
    let mut lines = vec![
        format!("CPUs: {}% of {}", percent(sample.cpus_busy()), sample.cpus.len()),
        format!("memory: {} of {}", text::size_of(taken), text::size_of(sample.memory_total)),
    ];
    lines.extend(sample.gpus.iter().map(|gpu| {
        format!("GPU {}: {}%, {}% of its memory", gpu.id, percent(gpu.processor), percent(gpu.memory))
    }));
    lines.extend(sample.energy.map(|energy| {
        let joules = text::energy(energy.used_uj as f64 / 1e6);
        format!("energy: {joules} measured ({}) since the worker started", energy.of.words())
    }));
    lines.join("\n")
}

fn percent(per_mille: u16) -> f64 {
    f64::from(per_mille) / 10.0
}

#[cfg(test)]
pub(crate) mod tests {
    use hq_model::sample::GpuSample;

    use super::*;

    pub(crate) fn busy_node() -> NodeSample {
        let gpu = GpuSample {
            vendor: GpuVendor::Nvidia,
            id: "00000000:07:00.0".into(),
            processor: 750,
            memory: 505,
        };
        NodeSample {
            cpus: vec![1000, 125, 0, 0],
            memory_total: 64 << 30,
            memory_free: 40 << 30,
            network: NetworkCounts {
                rx_bytes: 1000,
                tx_bytes: 2000,
                rx_packets: 3,
                ..NetworkCounts::default()
            },
            disk: hq_model::sample::DiskCounts { read_bytes: 4096, written_bytes: 8192 },
            gpus: vec![gpu],
            energy: Some(hq_model::sample::NodeEnergy {
                used_uj: 5_400_000_000,
                of: hq_model::sample::EnergyOf::Processors,
            }),
        }
    }

    #[test]
    fn a_sample_is_shown() {
        insta::assert_snapshot!(words(&busy_node()));
        insta::assert_json_snapshot!(state(Timestamp(1_700_000_000_500_000), &busy_node()));
    }
}
