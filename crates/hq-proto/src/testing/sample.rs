//! Generators of what nodes do.

use hq_model::NodeSample;
use hq_model::sample::{GpuSample, GpuVendor, NetworkCounts};
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
    (vec(any::<u16>(), 0..4), any::<(u64, u64)>(), network, vec(gpu, 0..3)).prop_map(
        |(cpus, (memory_total, memory_free), network, gpus)| NodeSample {
            cpus,
            memory_total,
            memory_free,
            network,
            gpus,
        },
    )
}
