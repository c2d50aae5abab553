//! Who descends from a process, as the kernel shows it.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::Pid;

/// All that descend from a process, in whatever group or session, but for those that have lost a parent in between.
pub(crate) fn descendants(of: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut found, mut next) = (Vec::new(), vec![of.as_raw_nonzero().get()]);
    while let Some(pid) = next.pop() {
        let of_it = children.remove(&pid).unwrap_or_default();
        found.extend(of_it.iter().filter_map(|pid| Pid::from_raw(*pid)));
        next.extend(of_it);
    }
    found
}

// The command in parentheses may hold anything; the fields follow the last one.
fn parent(stat: &[u8]) -> Option<i32> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let text = String::from_utf8_lossy(&stat[end + 1..]);
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_of_a_process_is_read_whatever_it_is_called() {
        assert_eq!(parent(b"7 (a) b (c) S 12 3 4"), Some(12));
        assert_eq!(parent(b""), None);
    }
}
