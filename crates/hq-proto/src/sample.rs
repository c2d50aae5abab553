//! What nodes do.

use hq_model::NodeSample;
use hq_model::sample::{GpuSample, GpuVendor, NetworkCounts, SAMPLED_CPUS_MAX, SAMPLED_GPUS_MAX};

use crate::ProtoError;
use crate::error::{rule, short};
use crate::generated as form;
use crate::limits::GPU_ID_BYTES_MAX;
use crate::wire::{Wire, list_from_wire, list_to_wire};

impl Wire for NodeSample {
    type Form = form::NodeSample;

    fn to_wire(&self) -> form::NodeSample {
        let NetworkCounts { rx_bytes, tx_bytes, rx_packets, tx_packets, rx_errors, tx_errors } = self.network;
        form::NodeSample {
            cpus: self.cpus.iter().map(|cpu| u32::from(*cpu)).collect(),
            memory_total: self.memory_total,
            memory_free: self.memory_free,
            rx_bytes,
            tx_bytes,
            rx_packets,
            tx_packets,
            rx_errors,
            tx_errors,
            gpus: list_to_wire(&self.gpus),
        }
    }

    fn from_wire(sample: form::NodeSample) -> Result<NodeSample, ProtoError> {
        rule("CPUs of a sample", sample.cpus.len() <= SAMPLED_CPUS_MAX, "are at most 8192")?;
        rule("GPUs of a sample", sample.gpus.len() <= SAMPLED_GPUS_MAX, "are at most 256")?;
        let cpus = sample.cpus.into_iter().map(|cpu| short("use of a CPU", cpu));
        Ok(NodeSample {
            cpus: cpus.collect::<Result<_, _>>()?,
            memory_total: sample.memory_total,
            memory_free: sample.memory_free,
            network: NetworkCounts {
                rx_bytes: sample.rx_bytes,
                tx_bytes: sample.tx_bytes,
                rx_packets: sample.rx_packets,
                tx_packets: sample.tx_packets,
                rx_errors: sample.rx_errors,
                tx_errors: sample.tx_errors,
            },
            gpus: list_from_wire(sample.gpus)?,
        })
    }
}

impl Wire for GpuSample {
    type Form = form::GpuSample;

    fn to_wire(&self) -> form::GpuSample {
        form::GpuSample {
            is_amd: self.vendor == GpuVendor::Amd,
            id: self.id.clone(),
            processor: self.processor.into(),
            memory: self.memory.into(),
        }
    }

    fn from_wire(gpu: form::GpuSample) -> Result<GpuSample, ProtoError> {
        rule("address of a GPU", gpu.id.len() <= GPU_ID_BYTES_MAX, "has at most 256 bytes")?;
        Ok(GpuSample {
            vendor: if gpu.is_amd { GpuVendor::Amd } else { GpuVendor::Nvidia },
            id: gpu.id,
            processor: short("use of a GPU", gpu.processor)?,
            memory: short("memory of a GPU that is taken", gpu.memory)?,
        })
    }
}
