//! The variables by which libraries find GPUs: a task sees those that it was given, and none of the others of its worker.
//!
//! Tasks that have nodes as a whole see all of them. Slurm sets the variables of all vendors, whosever GPUs they are.

use hq_core::worker::Grant;
use hq_model::ByteString;
use hq_model::request::GPUS;

use super::{Block, Node};
use crate::discovery::intel::{HIERARCHY, MASK, NO_DEVICE};
use crate::discovery::{AMD, INTEL, NVIDIA};

const CUDA: &str = "CUDA_VISIBLE_DEVICES";
const ROCR: &str = "ROCR_VISIBLE_DEVICES";
const HIP: &str = "HIP_VISIBLE_DEVICES";
const ORDINAL: &str = "GPU_DEVICE_ORDINAL";

/// Of which vendors a variant may be given GPUs.
#[derive(Debug)]
pub(super) struct GpuVariables {
    nvidia: bool,
    amd: bool,
    intel: bool,
    /// Which vendor it is differs from task to task.
    is_of_any: bool,
}

impl GpuVariables {
    /// Puts what is the same for all tasks of a variant into a block, and the names of what each gets.
    pub(super) fn new(
        asked: &[&str],
        is_whole: bool,
        is_free: &impl Fn(&str) -> bool,
        node: &Node,
        block: &mut Block,
    ) -> GpuVariables {
        let is_of_any = asked.contains(&GPUS);
        let asks = |name: &str| is_of_any || asked.contains(&name);
        let (nvidia, amd, intel) = (asks(NVIDIA), asks(AMD), asks(INTEL));
        let variables = GpuVariables { nvidia, amd, intel, is_of_any: is_of_any && !is_whole };
        variables.give(is_free, node, block);
        if !is_whole {
            variables.hide(is_free, node, block);
        }
        variables
    }

    // Whoever asks for GPUs sees those that it was given, whatever the user says: others run on the rest.
    fn give(&self, is_free: &impl Fn(&str) -> bool, node: &Node, block: &mut Block) {
        if self.nvidia && is_free("CUDA_DEVICE_ORDER") {
            block.set("CUDA_DEVICE_ORDER", b"PCI_BUS_ID");
        }
        if self.intel
            && node.offers(INTEL)
            && let Some(hierarchy) = hierarchy(node)
        {
            block.set_bytes(HIERARCHY.as_bytes(), hierarchy);
        }
        for (is_set, name) in [
            (self.nvidia, CUDA),
            (self.amd, ROCR),
            // Those of the worker would be applied to what is left by the one above.
            (self.amd && is_free(HIP), HIP),
            (self.amd && is_free(ORDINAL), ORDINAL),
            (self.amd && is_free(CUDA), CUDA),
            (self.intel, MASK),
        ] {
            if is_set {
                block.names.push(name.into());
            }
        }
    }

    // What it does not ask for it does not see.
    fn hide(&self, is_free: &impl Fn(&str) -> bool, node: &Node, block: &mut Block) {
        let asks_none = !(self.nvidia || self.amd || self.intel);
        let has_some = [NVIDIA, AMD, INTEL].iter().any(|name| node.offers(name));
        let hides = |name: &str, variable: &str| {
            node.offers(name) || asks_none && has_some && node.base_value(variable).is_some()
        };
        // AMD's library goes by the variable of NVIDIA, too.
        if !self.nvidia && !self.amd && hides(NVIDIA, CUDA) && is_free(CUDA) {
            block.set(CUDA, b"");
        }
        if !self.amd && hides(AMD, ROCR) {
            for (name, none) in [(ROCR, &b""[..]), (HIP, b"-1"), (ORDINAL, b"")] {
                if is_free(name) && (name != ORDINAL || node.base_value(ORDINAL).is_some()) {
                    block.set(name, none);
                }
            }
        }
        if !self.intel && hides(INTEL, MASK) && is_free(MASK) {
            block.set(MASK, NO_DEVICE.to_string().as_bytes());
        }
    }

    /// What names the GPUs of a pool to a task that was given some, with `=` behind it.
    pub(super) fn variable(&self, pool: &str) -> Option<&'static [u8]> {
        match pool {
            NVIDIA if self.nvidia => Some(b"CUDA_VISIBLE_DEVICES="),
            AMD if self.amd => Some(b"ROCR_VISIBLE_DEVICES="),
            INTEL if self.intel => Some(b"ZE_AFFINITY_MASK="),
            _ => None,
        }
    }

    /// Appends what hides the GPUs of other vendors from a task that asked for those of any.
    pub(super) fn append_hidden(&self, grant: &Grant, node: &Node, out: &mut ByteString) {
        if !self.is_of_any {
            return;
        }
        let has_got = |name: &str| {
            let mut pools = grant.resources.iter().filter_map(|one| node.pools.get(one.pool as usize));
            pools.any(|pool| pool.name == name)
        };
        let is_hidden = |name: &str| node.offers(name) && !has_got(name);
        if is_hidden(NVIDIA) && !has_got(AMD) {
            out.extend_from_slice(b"CUDA_VISIBLE_DEVICES=\0");
        }
        if is_hidden(AMD) {
            out.extend_from_slice(b"ROCR_VISIBLE_DEVICES=\0");
        }
        if is_hidden(INTEL) {
            out.extend_from_slice(format!("{MASK}={NO_DEVICE}\0").as_bytes());
        }
    }
}

// What the numbers of Intel's devices count: whoever started the worker may say it. It counted as its library does by itself
// where it was given numbers, and cards where it looked for itself.
fn hierarchy(node: &Node) -> Option<&[u8]> {
    let is_numbered = node.base_value(MASK).is_some_and(|mask| !mask.is_empty());
    node.base_value(HIERARCHY).or((!is_numbered).then_some(&b"COMPOSITE"[..]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::variables_from;
    use super::*;
    use hq_model::request::CPUS;

    /// What a task sees that asked for `asked` and got the first of a pool.
    fn check(base: &[&str], offered: &[&str], asked: &str, pool: &str, expected: &[&str]) {
        let at = offered.iter().position(|name| *name == pool).expect("an offered pool");
        let variables = variables_from(base, offered, asked, at as u32, &[]);
        let told = variables.iter().filter(|variable| !variable.starts_with("OMP_"));
        assert_eq!(told.collect::<Vec<_>>(), expected, "{base:?} {offered:?} {asked}");
    }

    #[test]
    fn devices_of_intel() {
        let offered = [CPUS, INTEL];
        check(&[], &offered, CPUS, CPUS, &["ZE_AFFINITY_MASK=65535"]);
        let given = ["ZE_AFFINITY_MASK=4", "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE"];
        check(&[], &offered, INTEL, INTEL, &given);
        check(&[], &offered, GPUS, INTEL, &["CUDA_DEVICE_ORDER=PCI_BUS_ID", given[0], given[1]]);
        check(&["ZE_AFFINITY_MASK="], &offered, INTEL, INTEL, &given);
        // Numbers that the worker was given are of what they were given for.
        check(&["ZE_AFFINITY_MASK=4,5"], &offered, INTEL, INTEL, &["ZE_AFFINITY_MASK=4"]);
        let flat = "ZE_FLAT_DEVICE_HIERARCHY=FLAT";
        check(&["ZE_AFFINITY_MASK=4,5", flat], &offered, INTEL, INTEL, &["ZE_AFFINITY_MASK=4", flat]);
        check(&[flat], &offered, INTEL, INTEL, &["ZE_AFFINITY_MASK=4", flat]);
    }

    #[test]
    fn a_task_without_gpus_sees_none_whoever_names_them() {
        let slurm = [
            "CUDA_VISIBLE_DEVICES=4,5",
            "GPU_DEVICE_ORDINAL=4,5",
            "ROCR_VISIBLE_DEVICES=4,5",
            "ZE_AFFINITY_MASK=4,5",
        ];
        let none = [
            "CUDA_VISIBLE_DEVICES=",
            "GPU_DEVICE_ORDINAL=",
            "HIP_VISIBLE_DEVICES=-1",
            "ROCR_VISIBLE_DEVICES=",
            "ZE_AFFINITY_MASK=65535",
        ];
        for vendor in [NVIDIA, AMD, INTEL] {
            check(&slurm, &[CPUS, vendor], CPUS, CPUS, &none);
        }
        check(&slurm, &[CPUS], CPUS, CPUS, &slurm);
    }

    #[test]
    fn who_asks_for_any_vendor_sees_only_the_one_it_was_given() {
        let offered = [CPUS, AMD, INTEL, NVIDIA];
        let order = "CUDA_DEVICE_ORDER=PCI_BUS_ID";
        let composite = "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE";
        let no_intel = "ZE_AFFINITY_MASK=65535";
        let (cuda, rocr) = ("CUDA_VISIBLE_DEVICES=4", "ROCR_VISIBLE_DEVICES=4");
        check(&[], &offered, GPUS, NVIDIA, &[order, cuda, "ROCR_VISIBLE_DEVICES=", no_intel, composite]);
        // The variable of NVIDIA would hide them from AMD's library, too.
        check(&[], &offered, GPUS, AMD, &[order, rocr, no_intel, composite]);
        let of_intel =
            [order, "CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=", "ZE_AFFINITY_MASK=4", composite];
        check(&[], &offered, GPUS, INTEL, &of_intel);
    }
}
