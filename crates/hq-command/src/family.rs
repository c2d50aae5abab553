//! Who descends from a process, as the kernel shows it.

use std::collections::BTreeMap;
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};

/// Looks that are taken until all stand still.
const LOOKS_MAX: u32 = 200;

/// Makes a process stand still, and all that descend from it in whatever group or session, but for those that have lost a
/// parent in between. They are all there is then: who is stalled starts nobody.
pub(crate) fn frozen(root: Pid) -> Vec<Pid> {
    let mut family = vec![root];
    for _ in 0..LOOKS_MAX {
        let running = running(root, &mut family);
        if running.is_empty() {
            break;
        }
        for process in running {
            let _ = kill_process(process, Signal::STOP);
        }
        thread::yield_now();
    }
    family
}

// Finds the family as it is now. Those of it that run.
fn running(root: Pid, family: &mut Vec<Pid>) -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let mut states: BTreeMap<i32, char> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read(entry.path().join("stat")).unwrap_or_default();
        if let Some((state, parent)) = state_and_parent(&stat) {
            children.entry(parent).or_default().push(pid);
            states.insert(pid, state);
        }
    }
    family.clear();
    let (mut running, mut next) = (Vec::new(), vec![root.as_raw_nonzero().get()]);
    while let Some(pid) = next.pop() {
        next.extend(children.remove(&pid).unwrap_or_default());
        let Some(process) = Pid::from_raw(pid) else { continue };
        family.push(process);
        // Stopped, traced, a zombie, dead.
        if states.get(&pid).is_some_and(|state| !"TtZX".contains(*state)) {
            running.push(process);
        }
    }
    running
}

// The command in parentheses may hold anything; the fields follow the last one.
fn state_and_parent(stat: &[u8]) -> Option<(char, i32)> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let text = String::from_utf8_lossy(&stat[end + 1..]);
    let mut fields = text.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_of_a_process_is_read_whatever_it_is_called() {
        assert_eq!(state_and_parent(b"7 (a) b (c) S 12 3 4"), Some(('S', 12)));
        assert_eq!(state_and_parent(b""), None);
    }
}
