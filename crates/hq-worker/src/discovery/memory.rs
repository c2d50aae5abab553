//! Memory in MiB: what the node has, its control group allows and the batch system gave, whichever is least.

use super::tree::Tree;
use super::{DetectOptions, cgroup};

pub(super) fn detect(options: &DetectOptions, tree: &Tree, notes: &mut Vec<String>) -> Option<u64> {
    let total = total_mib(tree);
    let group = cgroup::limits(tree).memory_bytes.map(|bytes| bytes >> 20);
    let candidates = [
        (total, "the node"),
        (group, "the limit of its control group"),
        (slurm_mib(options), "the batch system"),
    ];
    // Zero is what Slurm says for "all of the node".
    let known =
        candidates.into_iter().filter_map(|(mib, by)| mib.filter(|mib| *mib > 0).map(|mib| (mib, by)));
    let (mib, by) = known.min_by_key(|(mib, _)| *mib)?;
    if let Some(total) = total.filter(|total| *total != mib) {
        notes.push(format!("mem: {mib} MiB of {total} MiB, by {by}"));
    }
    Some(mib)
}

fn total_mib(tree: &Tree) -> Option<u64> {
    let text = tree.text("proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib >> 10)
}

fn slurm_mib(options: &DetectOptions) -> Option<u64> {
    let number = |name: &str| options.environment.get(name)?.trim().parse::<u64>().ok();
    number("SLURM_MEM_PER_NODE")
        .or_else(|| number("SLURM_MEM_PER_CPU")?.checked_mul(number("SLURM_CPUS_ON_NODE")?))
}
