//! What the node offers: CPUs, memory and GPUs, within the limits that this process is under.
//!
//! [`detect`] is a function of a directory tree, an environment and a few facts given as arguments; what asks
//! the running system is in [`ask`].

pub mod ask;
pub mod batch;
mod cgroup;
mod cpus;
mod gpus;
pub(crate) mod intel;
mod memory;
mod topology;
mod tree;

use std::collections::BTreeMap;
use std::path::PathBuf;

use hq_model::request::{CPUS, MEM};
use hq_model::{Amount, PoolKind, ResourcePool, WorkerResources};

use tree::Tree;

/// Name of the pool of NVIDIA's GPUs.
pub const NVIDIA: &str = "gpus/nvidia";
/// Name of the pool of AMD's GPUs.
pub const AMD: &str = "gpus/amd";
/// Name of the pool of Intel's GPUs.
pub const INTEL: &str = "gpus/intel";

/// Which kinds of resources to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// `cpus`
    pub cpus: bool,
    /// `mem`
    pub mem: bool,
    /// `gpus/nvidia`
    pub nvidia: bool,
    /// `gpus/amd`
    pub amd: bool,
    /// `gpus/intel`
    pub intel: bool,
}

impl Kinds {
    /// Everything.
    pub const ALL: Kinds = Kinds { cpus: true, mem: true, nvidia: true, amd: true, intel: true };
    /// Nothing.
    pub const NONE: Kinds = Kinds { cpus: false, mem: false, nvidia: false, amd: false, intel: false };

    /// These pools; names that cannot be looked for are left out.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Kinds {
        let mut kinds = Kinds::NONE;
        for name in names {
            match name {
                CPUS => kinds.cpus = true,
                MEM => kinds.mem = true,
                NVIDIA => kinds.nvidia = true,
                AMD => kinds.amd = true,
                INTEL => kinds.intel = true,
                _ => {}
            }
        }
        kinds
    }
}

/// Where to look, and what cannot be read there.
#[derive(Clone, Debug)]
pub struct DetectOptions {
    /// The directory that holds `proc`, `sys` and `dev`: `/`, or a fixture.
    pub root: PathBuf,
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
    /// CPUs that this process may run on, ascending; empty for all that are online.
    pub affinity: Vec<u32>,
    /// Count every thread of a core; else only the first one that may be used.
    pub hyper_threading: bool,
    /// What to look for.
    pub kinds: Kinds,
    /// What `nvidia-smi -L` prints, where there is such a program.
    pub nvidia_smi: Option<String>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detected {
    /// The pools.
    pub resources: WorkerResources,
    /// For people: where it comes from and what limits it, one sentence each.
    pub notes: Vec<String>,
}

/// Looks at a node. A part that cannot be read is not there; without any knowledge of CPUs there is one.
pub fn detect(options: &DetectOptions) -> Detected {
    let tree = Tree::new(&options.root);
    let mut found = Detected::default();
    let mut cpu_nodes = Vec::new();
    if options.kinds.cpus {
        let kind;
        (kind, cpu_nodes) = cpus::detect(options, &tree, &mut found.notes);
        found.resources.pools.push(ResourcePool { name: CPUS.to_owned(), kind });
    }
    let gpus = gpus::detect(options, &tree, &mut found.notes);
    let mut indexed = |name: &str, labels: Vec<String>| {
        if !labels.is_empty() {
            let near = topology::beside(options, &tree, name, &labels, &cpu_nodes);
            let (groups, coupling) = near.unwrap_or_else(|| (vec![labels], Vec::new()));
            found.resources.coupling.extend(coupling);
            let pool = ResourcePool { name: name.to_owned(), kind: indexed_pool(groups) };
            found.resources.pools.push(pool);
        }
    };
    if options.kinds.amd {
        indexed(AMD, gpus.amd);
    }
    if options.kinds.intel {
        indexed(INTEL, gpus.intel);
    }
    if options.kinds.nvidia {
        indexed(NVIDIA, gpus.nvidia);
    }
    if options.kinds.mem
        && let Some(mib) = memory::detect(options, &tree, &mut found.notes)
    {
        let kind = PoolKind::Sum(Amount::whole(mib));
        found.resources.pools.push(ResourcePool { name: MEM.to_owned(), kind });
    }
    found
}

/// The plainest way to say these groups.
fn indexed_pool(groups: Vec<Vec<String>>) -> PoolKind {
    if let [labels] = groups.as_slice() {
        let numbers: Option<Vec<u32>> = labels.iter().map(|label| label.parse().ok()).collect();
        if let Some(numbers) = numbers
            && let (Some(first), Some(last)) = (numbers.first(), numbers.last())
            && numbers.windows(2).all(|pair| Some(pair[1]) == pair[0].checked_add(1))
            && numbers.iter().zip(labels).all(|(number, label)| number.to_string() == *label)
        {
            return PoolKind::Range { first: *first, last: *last };
        }
    }
    PoolKind::Groups(groups)
}

#[cfg(test)]
mod tests;
