//! How much energy the node has used since the worker looked first, as far as somebody counts it: its processors and their memory
//! by RAPL, below `/sys/class/powercap`, which root alone may read on many nodes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::limits::ENERGY_ZONES_MAX;

/// Where the kernel shows counters of energy.
pub(super) const POWERCAP_DIR: &str = "/sys/class/powercap";

/// Counters that can be read, and what they have counted.
#[derive(Debug)]
pub(super) struct Energy {
    zones: Vec<Zone>,
    used_uj: u64,
}

#[derive(Debug)]
struct Zone {
    counter: PathBuf,
    // It begins anew behind this value.
    max_uj: u64,
    last_uj: u64,
}

impl Energy {
    /// Finds the counters in a directory.
    pub(super) fn find(dir: &Path) -> Energy {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let zones = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("intel-rapl:"));
        let zones = zones.filter_map(|entry| Zone::open(&entry.path())).take(ENERGY_ZONES_MAX);
        Energy { zones: zones.collect(), used_uj: 0 }
    }

    /// What was used up to now, in µJ; nothing where nobody counts.
    pub(super) fn used_uj(&mut self) -> Option<u64> {
        for zone in &mut self.zones {
            self.used_uj = self.used_uj.saturating_add(zone.since_last_uj());
        }
        (!self.zones.is_empty()).then_some(self.used_uj)
    }
}

impl Zone {
    // Of a package, or of its memory, which that does not contain. Other zones are parts of these, or have them as parts.
    fn open(dir: &Path) -> Option<Zone> {
        let name = fs::read_to_string(dir.join("name")).ok()?;
        if !name.starts_with("package") && name.trim() != "dram" {
            return None;
        }
        let counter = dir.join("energy_uj");
        let last_uj = number(&counter)?;
        Some(Zone { max_uj: number(&dir.join("max_energy_range_uj"))?, counter, last_uj })
    }

    fn since_last_uj(&mut self) -> u64 {
        let Some(now_uj) = number(&self.counter) else { return 0 };
        let since_uj = match now_uj.checked_sub(self.last_uj) {
            Some(since_uj) => since_uj,
            None => self.max_uj.saturating_sub(self.last_uj).saturating_add(now_uj),
        };
        self.last_uj = now_uj;
        since_uj
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sys(tempfile::TempDir);

    impl Sys {
        fn zone(&self, zone: &str, name: &str, energy_uj: u64) {
            let dir = self.0.path().join(zone);
            fs::create_dir_all(&dir).expect("a directory");
            fs::write(dir.join("name"), format!("{name}\n")).expect("a name");
            fs::write(dir.join("max_energy_range_uj"), "1000\n").expect("a range");
            fs::write(dir.join("energy_uj"), format!("{energy_uj}\n")).expect("a counter");
        }
    }

    #[test]
    fn packages_and_their_memory_are_counted_once() {
        let sys = Sys(tempfile::tempdir().expect("a directory"));
        let set = |energy_uj| {
            sys.zone("intel-rapl:0", "package-0", energy_uj);
            sys.zone("intel-rapl:0:0", "core", energy_uj);
            sys.zone("intel-rapl:0:1", "dram", energy_uj);
            sys.zone("intel-rapl:1", "psys", energy_uj);
            sys.zone("intel-rapl-mmio:0", "package-0", energy_uj);
        };
        set(500);
        let mut energy = Energy::find(sys.0.path());
        assert_eq!(energy.used_uj(), Some(0), "what was used before counts for nothing");
        set(600);
        assert_eq!(energy.used_uj(), Some(200));
        set(900);
        set(50);
        assert_eq!(energy.used_uj(), Some(1100), "two counters began anew behind 1000");
    }

    #[test]
    fn nothing_is_said_where_nobody_counts() {
        let sys = Sys(tempfile::tempdir().expect("a directory"));
        assert_eq!(Energy::find(sys.0.path()).used_uj(), None);
        assert_eq!(Energy::find(&sys.0.path().join("missing")).used_uj(), None);
        sys.zone("intel-rapl:0", "package-0", 5);
        fs::remove_file(sys.0.path().join("intel-rapl:0/energy_uj")).expect("it was there");
        assert_eq!(Energy::find(sys.0.path()).used_uj(), None);
    }

    #[test]
    fn a_counter_that_cannot_be_read_any_more_adds_nothing() {
        let sys = Sys(tempfile::tempdir().expect("a directory"));
        sys.zone("intel-rapl:0", "package-0", 5);
        let mut energy = Energy::find(sys.0.path());
        fs::remove_file(sys.0.path().join("intel-rapl:0/energy_uj")).expect("it was there");
        assert_eq!(energy.used_uj(), Some(0));
        sys.zone("intel-rapl:0", "package-0", 45);
        assert_eq!(energy.used_uj(), Some(40));
    }
}
