//! How much energy the node has used since the worker looked first, as far as somebody counts it: the whole node where it has a
//! meter that users may read; else its processors and their memory by RAPL, below `/sys/class/powercap`, which root alone may read
//! on many nodes, and its GPUs by the power that their tools tell.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hq_model::sample::{EnergyOf, NodeEnergy};

use crate::limits::ENERGY_ZONES_MAX;

/// Where the meter of a node is, in HPE Cray machines: `1234 J 1697030405123456 us`.
pub(super) const NODE_METER: &str = "/sys/cray/pm_counters/energy";
/// Where the kernel shows counters of energy.
pub(super) const POWERCAP_DIR: &str = "/sys/class/powercap";

/// Counters that can be read, and what they have counted.
#[derive(Debug)]
pub(super) struct Energy {
    node: Option<Meter>,
    zones: Vec<Zone>,
    used_uj: u64,
    // When GPUs told their power last, and how many watts that was.
    gpus: Option<(Instant, f64)>,
    gpus_uj: f64,
}

// Of a whole node, and what it has shown last.
#[derive(Debug)]
struct Meter {
    file: PathBuf,
    last_j: u64,
}

#[derive(Debug)]
struct Zone {
    counter: PathBuf,
    // It begins anew behind this value.
    max_uj: u64,
    last_uj: u64,
}

impl Energy {
    /// Finds the meter of the node, or the counters in a directory.
    pub(super) fn find(meter: &Path, dir: &Path) -> Energy {
        let node = joules(meter).map(|last_j| Meter { file: meter.to_owned(), last_j });
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let zones = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("intel-rapl:"));
        let zones = zones.filter_map(|entry| Zone::open(&entry.path())).take(ENERGY_ZONES_MAX);
        let zones = if node.is_none() { zones.collect() } else { Vec::new() };
        Energy { node, zones, used_uj: 0, gpus: None, gpus_uj: 0.0 }
    }

    /// GPUs draw so many watts now, as far as they tell. Between two looks they draw the mean of both.
    pub(super) fn gpus_draw(&mut self, now: Instant, watts: Option<f64>) {
        let Some(watts) = watts else { return };
        if let Some((at, before)) = self.gpus {
            self.gpus_uj += now.duration_since(at).as_secs_f64() * (before + watts) / 2.0 * 1e6;
        }
        self.gpus = Some((now, watts));
    }

    /// What was used up to now; nothing where nobody counts.
    pub(super) fn used(&mut self) -> Option<NodeEnergy> {
        if let Some(Meter { file, last_j }) = &mut self.node {
            if let Some(now_j) = joules(file) {
                // One that begins anew has counted nothing yet.
                let since_uj = now_j.saturating_sub(*last_j).saturating_mul(1_000_000);
                self.used_uj = self.used_uj.saturating_add(since_uj);
                *last_j = now_j;
            }
            return Some(NodeEnergy { used_uj: self.used_uj, of: EnergyOf::Node });
        }
        for zone in &mut self.zones {
            self.used_uj = self.used_uj.saturating_add(zone.since_last_uj());
        }
        let of = match (self.zones.is_empty(), self.gpus.is_some()) {
            (true, false) => return None,
            (true, true) => EnergyOf::Gpus,
            (false, true) => EnergyOf::ProcessorsAndGpus,
            (false, false) => EnergyOf::Processors,
        };
        // The fraction of a microjoule is nothing.
        Some(NodeEnergy { used_uj: self.used_uj.saturating_add(self.gpus_uj as u64), of })
    }
}

fn joules(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.split_ascii_whitespace().next()?.parse().ok()
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

    const NOWHERE: &str = "/nowhere/energy";

    struct Sys(tempfile::TempDir);

    fn find(sys: &Sys) -> Energy {
        Energy::find(NOWHERE.as_ref(), sys.0.path())
    }

    fn used_uj(energy: &mut Energy) -> Option<u64> {
        energy.used().map(|energy| energy.used_uj)
    }

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
        let mut energy = find(&sys);
        assert_eq!(used_uj(&mut energy), Some(0), "what was used before counts for nothing");
        set(600);
        assert_eq!(used_uj(&mut energy), Some(200));
        set(900);
        set(50);
        assert_eq!(used_uj(&mut energy), Some(1100), "two counters began anew behind 1000");
    }

    #[test]
    fn nothing_is_said_where_nobody_counts() {
        let sys = Sys(tempfile::tempdir().expect("a directory"));
        assert_eq!(used_uj(&mut find(&sys)), None);
        assert_eq!(
            Energy::find(NOWHERE.as_ref(), &sys.0.path().join("missing")).used().map(|energy| energy.used_uj),
            None
        );
        sys.zone("intel-rapl:0", "package-0", 5);
        fs::remove_file(sys.0.path().join("intel-rapl:0/energy_uj")).expect("it was there");
        assert_eq!(used_uj(&mut find(&sys)), None);
    }

    #[test]
    fn a_counter_that_cannot_be_read_any_more_adds_nothing() {
        let sys = Sys(tempfile::tempdir().expect("a directory"));
        sys.zone("intel-rapl:0", "package-0", 5);
        let mut energy = find(&sys);
        fs::remove_file(sys.0.path().join("intel-rapl:0/energy_uj")).expect("it was there");
        assert_eq!(used_uj(&mut energy), Some(0));
        sys.zone("intel-rapl:0", "package-0", 45);
        assert_eq!(used_uj(&mut energy), Some(40));
    }

    #[test]
    fn gpus_are_counted_by_their_power_beside_processors_or_alone() {
        let sys = Sys(tempfile::tempdir().expect("a directory"));
        sys.zone("intel-rapl:0", "package-0", 5);
        let begin = Instant::now();
        for (dir, of) in [
            (sys.0.path().to_owned(), EnergyOf::ProcessorsAndGpus),
            (sys.0.path().join("missing"), EnergyOf::Gpus),
        ] {
            let mut energy = Energy::find(NOWHERE.as_ref(), &dir);
            energy.gpus_draw(begin, Some(100.0));
            energy.gpus_draw(begin + std::time::Duration::from_secs(5), None);
            energy.gpus_draw(begin + std::time::Duration::from_secs(10), Some(300.0));
            assert_eq!(energy.used(), Some(NodeEnergy { used_uj: 2_000_000_000, of }));
        }
    }

    #[test]
    fn the_meter_of_a_node_counts_alone() {
        let sys = Sys(tempfile::tempdir().expect("a directory"));
        sys.zone("intel-rapl:0", "package-0", 5);
        let meter = sys.0.path().join("energy");
        let shows = |text: &str| fs::write(&meter, text).expect("a meter");
        shows("1000 J 1697030405123456 us\n");
        let mut energy = Energy::find(&meter, sys.0.path());
        energy.gpus_draw(Instant::now(), Some(100.0));
        shows("1500 J 1697030406123456 us\n");
        assert_eq!(energy.used(), Some(NodeEnergy { used_uj: 500_000_000, of: EnergyOf::Node }));
        shows("20 J 1697030407123456 us\n");
        assert_eq!(used_uj(&mut energy), Some(500_000_000), "it began anew");
        shows("30 J 1697030408123456 us\n");
        assert_eq!(used_uj(&mut energy), Some(510_000_000));
    }
}
