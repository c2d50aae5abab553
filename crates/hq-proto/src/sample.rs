//! What nodes do.

use hq_model::sample::{
    DiskCounts, EnergyOf, GpuSample, GpuVendor, NetworkCounts, NodeEnergy, SAMPLED_CPUS_MAX, SAMPLED_GPUS_MAX,
};
use hq_model::task_sample::SAMPLED_TASKS_MAX;
use hq_model::{Instance, NodeSample, TaskLoad, TaskSample, TasksSample};

use crate::ProtoError;
use crate::error::{rule, short};
use crate::generated as form;
use crate::limits::GPU_ID_BYTES_MAX;
use crate::wire::{Wire, list_from_wire, list_to_wire, required, wire_enum};

wire_enum!(EnergyOf = EnergyOf, "what counts in an energy": Processors, ProcessorsAndGpus, Gpus, Node);

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
            disk_read_bytes: self.disk.read_bytes,
            disk_written_bytes: self.disk.written_bytes,
            energy_uj: self.energy.map(|energy| energy.used_uj),
            energy_of: self.energy.map_or(form::EnergyOf::Unspecified as i32, |energy| energy.of.to_wire()),
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
            disk: DiskCounts { read_bytes: sample.disk_read_bytes, written_bytes: sample.disk_written_bytes },
            gpus: list_from_wire(sample.gpus)?,
            energy: match (sample.energy_uj, sample.energy_of) {
                (Some(used_uj), of) if of == form::EnergyOf::Unspecified as i32 => {
                    Some(NodeEnergy { used_uj, of: EnergyOf::Processors })
                }
                (Some(used_uj), of) => Some(NodeEnergy { used_uj, of: EnergyOf::from_wire(of)? }),
                (None, _) => None,
            },
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

impl Wire for TaskLoad {
    type Form = form::TaskLoad;

    fn to_wire(&self) -> form::TaskLoad {
        let TaskLoad { cpus, memory_bytes, cpu_us, read_bytes, written_bytes, processes } = *self;
        form::TaskLoad { cpus, memory_bytes, cpu_us, read_bytes, written_bytes, processes }
    }

    fn from_wire(load: form::TaskLoad) -> Result<TaskLoad, ProtoError> {
        let form::TaskLoad { cpus, memory_bytes, cpu_us, read_bytes, written_bytes, processes } = load;
        Ok(TaskLoad { cpus, memory_bytes, cpu_us, read_bytes, written_bytes, processes })
    }
}

impl Wire for TaskSample {
    type Form = form::TaskSample;

    fn to_wire(&self) -> form::TaskSample {
        form::TaskSample {
            task: Some(self.task.to_wire()),
            instance: self.instance.0,
            load: Some(self.load.to_wire()),
        }
    }

    fn from_wire(sample: form::TaskSample) -> Result<TaskSample, ProtoError> {
        Ok(TaskSample {
            task: required("task of a sample", sample.task)?,
            instance: Instance(sample.instance),
            load: required("load of a task", sample.load)?,
        })
    }
}

impl Wire for TasksSample {
    type Form = form::TasksSample;

    fn to_wire(&self) -> form::TasksSample {
        form::TasksSample {
            count: self.count,
            sum: Some(self.sum.to_wire()),
            tasks: list_to_wire(&self.tasks),
        }
    }

    fn from_wire(sample: form::TasksSample) -> Result<TasksSample, ProtoError> {
        rule("tasks of a sample", sample.tasks.len() <= SAMPLED_TASKS_MAX, "are at most 256")?;
        Ok(TasksSample {
            count: sample.count,
            sum: required("sum of a sample", sample.sum)?,
            tasks: list_from_wire(sample.tasks)?,
        })
    }
}
