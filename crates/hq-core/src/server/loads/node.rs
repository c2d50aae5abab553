//! From samples of a node to numbers that can be added.

use std::time::Duration;

use hq_model::NodeSample;

use crate::series::NodeLoad;

/// How loaded a node is, as a sample says. What is counted since the node started needs the sample before, and how long ago
/// that was heard; without it nothing is known.
pub(super) fn load_of(now: &NodeSample, before: Option<(Duration, &NodeSample)>) -> NodeLoad {
    let rate = |count: fn(&NodeSample) -> u64| {
        let Some((time, before)) = before else { return 0 };
        // After a restart of the node its counts begin anew.
        let bytes = u128::from(count(now).saturating_sub(count(before)));
        // Two that were held up on their way come at once: a second is the shortest that counts.
        let ms = time.as_millis().max(1000);
        small(bytes * 1000 / 1024 / ms)
    };
    let sum = |parts: &mut dyn Iterator<Item = u16>| parts.map(u32::from).sum();
    NodeLoad {
        cpus: sum(&mut now.cpus.iter().copied()),
        memory_mib: small(u128::from(now.memory_total.saturating_sub(now.memory_free) >> 20)),
        gpus: sum(&mut now.gpus.iter().map(|gpu| gpu.processor)),
        gpu_memory: sum(&mut now.gpus.iter().map(|gpu| gpu.memory)),
        network_kib: rate(|node| node.network.rx_bytes.saturating_add(node.network.tx_bytes)),
        disk_kib: rate(|node| node.disk.read_bytes.saturating_add(node.disk.written_bytes)),
    }
}

fn small(number: u128) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use hq_model::sample::{DiskCounts, NetworkCounts};

    use super::*;

    fn sample(network: u64, disk: u64) -> NodeSample {
        NodeSample {
            cpus: vec![1000, 500],
            memory_total: 8 << 30,
            memory_free: 6 << 30,
            network: NetworkCounts { rx_bytes: network, ..NetworkCounts::default() },
            disk: DiskCounts { read_bytes: 0, written_bytes: disk },
            gpus: Vec::new(),
            energy: None,
        }
    }

    #[test]
    fn counts_become_rates() {
        let (before, now) = (sample(5 << 20, 1 << 30), sample(25 << 20, 1 << 10));
        let load = load_of(&now, Some((Duration::from_secs(10), &before)));
        assert_eq!((load.cpus, load.memory_mib), (1500, 2048));
        assert_eq!((load.network_kib, load.disk_kib), (2048, 0), "the disk's counts began anew");
        let first = load_of(&now, None);
        assert_eq!((first.cpus, first.network_kib), (1500, 0));
        assert_eq!(load_of(&now, Some((Duration::ZERO, &before))).network_kib, 20 << 10, "at once");
    }
}
