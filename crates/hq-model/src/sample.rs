//! What a node does at one moment, as its worker sees it.

/// Most CPUs of a node that a sample may name.
pub const SAMPLED_CPUS_MAX: usize = 8192;

/// Most GPUs of a node that a sample may name.
pub const SAMPLED_GPUS_MAX: usize = 256;

/// How busy a node is, with all that runs there, whoever started it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSample {
    /// Of each CPU of the node, in per mille: the part of the time since the sample before in which it worked; of a first
    /// sample, since the worker started.
    pub cpus: Vec<u16>,
    /// Memory of the node, bytes.
    pub memory_total: u64,
    /// Memory that programs could still get, bytes.
    pub memory_free: u64,
    /// What went over its network interfaces, but for the one to itself.
    pub network: NetworkCounts,
    /// What was read from its disks and written to them.
    pub disk: DiskCounts,
    /// Its GPUs, of each vendor whose GPUs the worker offers and whose tool answers.
    pub gpus: Vec<GpuSample>,
    /// Energy that the node has used since the worker looked first, as far as it is counted; nothing where nobody counts.
    pub energy: Option<NodeEnergy>,
}

/// Energy that a node has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEnergy {
    /// How much, µJ.
    pub used_uj: u64,
    /// Of what.
    pub of: EnergyOf,
}

/// What counts in the energy of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EnergyOf {
    /// Its processors and their memory, counted by RAPL.
    #[default]
    Processors,
    /// These, and its GPUs, whose tool tells their power.
    ProcessorsAndGpus,
    /// Its GPUs alone.
    Gpus,
    /// The whole node, which has a meter of its own.
    Node,
}

impl EnergyOf {
    /// In words for people.
    pub fn words(self) -> &'static str {
        match self {
            EnergyOf::Processors => "RAPL",
            EnergyOf::ProcessorsAndGpus => "RAPL and GPUs",
            EnergyOf::Gpus => "GPUs alone",
            EnergyOf::Node => "meter of the node",
        }
    }

    /// In one word, for programs.
    pub fn word(self) -> &'static str {
        match self {
            EnergyOf::Processors => "processors",
            EnergyOf::ProcessorsAndGpus => "processors-and-gpus",
            EnergyOf::Gpus => "gpus",
            EnergyOf::Node => "node",
        }
    }
}

impl NodeSample {
    /// The part of the time in which its CPUs worked, in per mille.
    pub fn cpus_busy(&self) -> u16 {
        let sum: u64 = self.cpus.iter().map(|cpu| u64::from(*cpu)).sum();
        u16::try_from(sum / (self.cpus.len() as u64).max(1)).unwrap_or(u16::MAX)
    }
}

/// Counts of all network interfaces together, since the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounts {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Errors while receiving.
    pub rx_errors: u64,
    /// Errors while sending.
    pub tx_errors: u64,
}

/// Counts of all disks together, since the node started. File systems of other machines are network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// Who made a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuVendor {
    /// NVIDIA: asked with `nvidia-smi`.
    Nvidia,
    /// AMD: asked with `rocm-smi`.
    Amd,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuSample {
    /// Who made it.
    pub vendor: GpuVendor,
    /// Its address on the PCI bus.
    pub id: String,
    /// The part of the time in which it worked, in per mille.
    pub processor: u16,
    /// The part of its memory that is taken, in per mille.
    pub memory: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_busy_on_average() {
        let of = |cpus: &[u16]| NodeSample { cpus: cpus.to_vec(), ..NodeSample::default() }.cpus_busy();
        assert_eq!((of(&[1000, 0, 500, 500]), of(&[]), of(&[1000; 8192])), (500, 0, 1000));
    }
}
