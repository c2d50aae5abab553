//! Limits of the control groups that this process is in, versions 1 and 2, also both at once.
//!
//! A limit of any group on the way up counts. Inside a container the path in `/proc/self/cgroup` may be
//! that of the host and not be there; then the groups that are there are the container's own.

use super::tree::{Tree, number_list};

const MOUNT: &str = "sys/fs/cgroup";

/// What the groups allow; `None` without a limit.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Limits {
    /// CPU time per time.
    pub(super) cpus: Option<f64>,
    /// CPUs that may be used.
    pub(super) cpu_set: Option<Vec<u32>>,
    /// Bytes of memory.
    pub(super) memory_bytes: Option<u64>,
}

/// Reads all limits.
pub(super) fn limits(tree: &Tree) -> Limits {
    let membership = tree.text("proc/self/cgroup").unwrap_or_default();
    let mut limits = Limits::default();
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        if controllers.is_empty() {
            // Version 2, alone or beside version 1.
            for mount in [MOUNT.to_owned(), format!("{MOUNT}/unified")] {
                for group in groups(tree, &mount, path) {
                    version_2(tree, &group, &mut limits);
                }
            }
            continue;
        }
        for controller in controllers.split(',') {
            // The controllers of one hierarchy share a directory under their joint name, each with a link.
            for mount in [format!("{MOUNT}/{controller}"), format!("{MOUNT}/{controllers}")] {
                for group in groups(tree, &mount, path) {
                    version_1(tree, controller, &group, &mut limits);
                }
            }
        }
    }
    limits
}

/// The group's directory and those above it, up to the mount; the deepest first.
fn groups(tree: &Tree, mount: &str, path: &str) -> Vec<String> {
    let mut groups = Vec::new();
    let mut rest = path.trim_matches('/');
    while !rest.is_empty() {
        groups.push(format!("{mount}/{rest}"));
        rest = rest.rsplit_once('/').map_or("", |(above, _)| above);
    }
    groups.push(mount.to_owned());
    groups.retain(|group| tree.has(group));
    groups
}

fn version_2(tree: &Tree, group: &str, limits: &mut Limits) {
    if let Some(text) = tree.text(&format!("{group}/cpu.max")) {
        let mut words = text.split_whitespace().map(str::parse::<f64>);
        // The first word is `max` without a limit.
        if let (Some(Ok(quota)), Some(Ok(period))) = (words.next(), words.next())
            && period > 0.0
        {
            lower(&mut limits.cpus, quota / period);
        }
    }
    if let Some(bytes) = tree.text(&format!("{group}/memory.max")).and_then(|text| text.parse().ok()) {
        lower(&mut limits.memory_bytes, bytes);
    }
    cpu_set(tree, &[format!("{group}/cpuset.cpus.effective")], limits);
}

fn version_1(tree: &Tree, controller: &str, group: &str, limits: &mut Limits) {
    let number = |name: &str| tree.text(&format!("{group}/{name}")).and_then(|text| text.parse::<i64>().ok());
    match controller {
        "cpu" => {
            if let (Some(quota @ 1..), Some(period @ 1..)) =
                (number("cpu.cfs_quota_us"), number("cpu.cfs_period_us"))
            {
                lower(&mut limits.cpus, quota as f64 / period as f64);
            }
        }
        "memory" => {
            // Without a limit it says a number near 2^63.
            if let Some(bytes @ 1..) = number("memory.limit_in_bytes").filter(|bytes| *bytes < 1 << 60) {
                lower(&mut limits.memory_bytes, bytes as u64);
            }
        }
        "cpuset" => {
            let files = ["cpuset.effective_cpus", "cpuset.cpus"].map(|name| format!("{group}/{name}"));
            cpu_set(tree, &files, limits);
        }
        _ => {}
    }
}

/// The deepest group that says something decides: it cannot have more than those above.
fn cpu_set(tree: &Tree, files: &[String], limits: &mut Limits) {
    if limits.cpu_set.is_none() {
        let lists = files.iter().filter_map(|file| tree.text(file)).map(|text| number_list(&text));
        limits.cpu_set = lists.into_iter().find(|list| !list.is_empty());
    }
}

fn lower<T: PartialOrd + Copy>(limit: &mut Option<T>, value: T) {
    if limit.is_none_or(|limit| value < limit) {
        *limit = Some(value);
    }
}
