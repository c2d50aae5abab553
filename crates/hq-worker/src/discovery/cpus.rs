//! CPUs in groups of one memory node each.

use std::collections::BTreeSet;

use hq_model::PoolKind;
use hq_model::worker::Manager;

use super::tree::{Tree, number_list, trailing_number};
use super::{DetectOptions, cgroup, indexed_pool};

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";

/// The CPUs, and the memory node of each group of them.
pub(super) fn detect(
    options: &DetectOptions,
    tree: &Tree,
    notes: &mut Vec<String>,
) -> (PoolKind, Vec<Option<u32>>) {
    let online: BTreeSet<u32> = match tree.text(&format!("{CPU}/online")).map(|text| number_list(&text)) {
        Some(online) if !online.is_empty() => online.into_iter().collect(),
        _ if !options.affinity.is_empty() => options.affinity.iter().copied().collect(),
        _ => BTreeSet::from([0]),
    };
    let mut usable = online.clone();
    restrict(&mut usable, &options.affinity, "the affinity mask of this process", notes);
    let limits = cgroup::limits(tree);
    restrict(&mut usable, &limits.cpu_set.unwrap_or_default(), "the cpuset of its control group", notes);
    if !options.hyper_threading {
        let before = usable.len();
        usable = first_threads(tree, &usable);
        if usable.len() < before {
            notes.push(format!("cpus: {} cores with {before} threads; the first of each core", usable.len()));
        }
    }
    let mut groups = groups(tree, &usable);
    if let Some(quota) = limits.cpus {
        let count = (quota.floor() as usize).max(1);
        if count < usable.len() {
            notes.push(format!("cpus: {count} of {}, by the CPU quota of its control group", usable.len()));
            keep(&mut groups, count);
        }
    }
    if let Some(count) = granted(options) {
        let usable: usize = groups.iter().map(|group| group.cpus.len()).sum();
        if count < usable {
            notes.push(format!("cpus: {count} of {usable}, by the batch system"));
            keep(&mut groups, count);
        }
    }
    let nodes = groups.iter().map(|group| group.node).collect();
    let labels = groups.into_iter().map(|group| group.cpus.iter().map(u32::to_string).collect());
    (indexed_pool(labels.collect()), nodes)
}

// CPUs of this node that the batch system gave to its job. Not every site binds jobs to theirs.
fn granted(options: &DetectOptions) -> Option<usize> {
    let number = |name: &str| options.environment.get(name)?.trim().parse::<usize>().ok();
    let name = match super::batch::allocation(&options.environment)?.0 {
        Manager::Slurm => "SLURM_CPUS_ON_NODE",
        Manager::Pbs => "NCPUS",
    };
    number(name).filter(|count| *count > 0)
}

struct Group {
    node: Option<u32>,
    cpus: Vec<u32>,
}

fn restrict(usable: &mut BTreeSet<u32>, allowed: &[u32], by: &str, notes: &mut Vec<String>) {
    let left: BTreeSet<u32> = allowed.iter().copied().filter(|cpu| usable.contains(cpu)).collect();
    // A limit that leaves nothing is of another machine: this process does run somewhere.
    if !left.is_empty() && left.len() < usable.len() {
        notes.push(format!("cpus: {} of {}, by {by}", left.len(), usable.len()));
        *usable = left;
    }
}

/// Of each core the first thread that may be used.
fn first_threads(tree: &Tree, usable: &BTreeSet<u32>) -> BTreeSet<u32> {
    let is_first = |cpu: &&u32| {
        let siblings = tree.text(&format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"));
        let siblings = siblings.map(|text| number_list(&text)).unwrap_or_default();
        siblings.into_iter().find(|sibling| usable.contains(sibling)).is_none_or(|first| first == **cpu)
    };
    usable.iter().filter(is_first).copied().collect()
}

/// The CPUs by memory node; those of no node come last, as a group of their own.
fn groups(tree: &Tree, usable: &BTreeSet<u32>) -> Vec<Group> {
    let mut left = usable.clone();
    let mut groups = Vec::new();
    for name in tree.names(NODE) {
        let Some(node) = name.strip_prefix("node").and_then(trailing_number) else { continue };
        let list = tree.text(&format!("{NODE}/{name}/cpulist")).unwrap_or_default();
        let cpus: Vec<u32> = number_list(&list).into_iter().filter(|cpu| left.remove(cpu)).collect();
        if !cpus.is_empty() {
            groups.push(Group { node: Some(node), cpus });
        }
    }
    if !left.is_empty() {
        groups.push(Group { node: None, cpus: left.into_iter().collect() });
    }
    groups
}

fn keep(groups: &mut Vec<Group>, mut count: usize) {
    for group in groups.iter_mut() {
        group.cpus.truncate(count);
        count -= group.cpus.len();
    }
    groups.retain(|group| !group.cpus.is_empty());
}
