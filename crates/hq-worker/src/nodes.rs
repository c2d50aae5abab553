//! The files that tell a task on several nodes where they are.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hq_core::worker_messages::TaskNode;

/// Names without domains, a line each, the task's own node first.
pub(crate) const NODE_FILE: &str = "nodes";
/// The names as workers gave them.
pub(crate) const HOST_FILE: &str = "hosts";

/// Writes both into a directory, which is made.
///
/// # Errors
/// The text for people.
pub(crate) fn write(dir: &[u8], nodes: &[TaskNode]) -> Result<(), String> {
    let dir = Path::new(OsStr::from_bytes(dir));
    let lines = |name: &dyn Fn(&TaskNode) -> String| -> String {
        nodes.iter().map(|node| format!("{}\n", name(node))).collect()
    };
    let short = lines(&|node| short_name(&node.hostname).to_owned());
    let full = lines(&|node| node.hostname.clone());
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        fs::write(dir.join(NODE_FILE), short)?;
        fs::write(dir.join(HOST_FILE), full)
    };
    write().map_err(|error| {
        let path = dir.join(NODE_FILE);
        format!("cannot write the list of the task's nodes to {}: {error}", path.display())
    })
}

/// Addresses stay as they are.
pub(crate) fn short_name(hostname: &str) -> &str {
    if hostname.parse::<std::net::IpAddr>().is_ok() {
        return hostname;
    }
    hostname.split('.').next().unwrap_or(hostname)
}

#[cfg(test)]
mod tests {
    use hq_model::WorkerId;

    use super::*;

    fn node(hostname: &str) -> TaskNode {
        TaskNode { worker: WorkerId(1), hostname: hostname.into(), address: String::new() }
    }

    #[test]
    fn lists_have_short_and_full_names() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let dir = dir.path().join("nodes-1-0-0");
        let nodes = ["n1.cluster.example", "n2", "10.0.0.7"].map(node);
        write(dir.as_os_str().as_bytes(), &nodes).expect("writable");
        let read = |name: &str| fs::read_to_string(dir.join(name)).expect("written");
        assert_eq!(read(NODE_FILE), "n1\nn2\n10.0.0.7\n");
        assert_eq!(read(HOST_FILE), "n1.cluster.example\nn2\n10.0.0.7\n");
    }

    #[test]
    fn a_full_disk_is_named() {
        let error = write(b"/dev/full", &[node("n1")]).expect_err("no directory");
        assert!(
            error.starts_with("cannot write the list of the task's nodes to /dev/full/nodes: "),
            "{error}"
        );
    }
}
