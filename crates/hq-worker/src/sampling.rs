//! Looks every now and then at what the node does and what tasks use, on a thread of its own: the tool of a vendor may take
//! its time.

mod energy;
mod tasks;

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc as signals;
use std::time::{Duration, Instant};

use hq_model::sample::{DiskCounts, GpuSample, GpuVendor, NetworkCounts, SAMPLED_CPUS_MAX, SAMPLED_GPUS_MAX};
use hq_model::worker::WorkerConfig;
use hq_model::{NodeSample, TaskSample};
use procfs::net::{DeviceStatus, dev_status};
use procfs::{CpuTime, Current, CurrentSI, KernelStats, Meminfo, ProcResult};
use tokio::sync::mpsc;
use tracing::warn;

use crate::discovery::ask::output;
use crate::limits::{GPU_LOOK_INTERVAL, SAMPLE_FIRST};

use energy::{Energy, NODE_METER, POWERCAP_DIR};
pub(crate) use tasks::TaskLooks;

/// What was seen at one look.
#[derive(Debug)]
pub(crate) struct Sampled {
    pub(crate) node: NodeSample,
    pub(crate) tasks: Vec<TaskSample>,
}

/// Samples of the node of a worker that is to look; else nothing comes.
pub(crate) struct Sampling {
    samples: mpsc::Receiver<Sampled>,
    // The thread ends when this is gone.
    _stop: Option<signals::Sender<()>>,
}

impl Sampling {
    /// Looks as often as the configuration says, else as often as is usual.
    ///
    /// # Errors
    /// When there can be no thread for it.
    pub(crate) fn start(
        config: &WorkerConfig,
        usual: Option<Duration>,
        tasks: TaskLooks,
    ) -> io::Result<Sampling> {
        let (sender, samples) = mpsc::channel(1);
        let Some(interval) = config.overview_interval.or(usual) else {
            return Ok(Sampling { samples, _stop: None });
        };
        let (stop, stopped) = signals::channel();
        let offers = |name| config.resources.pools.iter().any(|pool| pool.name == name);
        let gpus = Gpus { has_nvidia: offers("gpus/nvidia"), has_amd: offers("gpus/amd") };
        // Who asks for samples wants the GPUs in each.
        let gpu_interval =
            if config.overview_interval.is_some() { Duration::ZERO } else { GPU_LOOK_INTERVAL };
        let body = move || {
            let energy = Energy::find(Path::new(NODE_METER), Path::new(POWERCAP_DIR));
            look(interval, Looks { gpus, gpu_interval, seen: None, energy, tasks }, &stopped, &sender);
        };
        std::thread::Builder::new().name("sampling".into()).spawn(body)?;
        Ok(Sampling { samples, _stop: Some(stop) })
    }

    /// The next sample; never, when none is taken.
    pub(crate) async fn next(&mut self) -> Sampled {
        match self.samples.recv().await {
            Some(sample) => sample,
            None => std::future::pending().await,
        }
    }
}

/// What is looked at, beside the CPUs.
struct Looks {
    gpus: Gpus,
    gpu_interval: Duration,
    // What the tools of vendors said last.
    seen: Option<(Instant, Vec<GpuSample>)>,
    energy: Energy,
    tasks: TaskLooks,
}

fn look(
    interval: Duration,
    mut looks: Looks,
    stopped: &signals::Receiver<()>,
    samples: &mpsc::Sender<Sampled>,
) {
    let mut before = cpu_times().unwrap_or_default();
    let mut was_told = false;
    // The first one comes soon, so that something is known.
    let mut wait = interval.min(SAMPLE_FIRST);
    while stopped.recv_timeout(wait) == Err(signals::RecvTimeoutError::Timeout) {
        wait = interval;
        let sample = cpu_times().and_then(|now| {
            let cpus = busy(&before, &now);
            before = now;
            let gpus = looks.gpus(Instant::now());
            Ok(NodeSample { energy: looks.energy.used(), ..sample(cpus, gpus)? })
        });
        match sample {
            // Who has not taken the one before misses this one.
            Ok(node) => drop(samples.try_send(Sampled { node, tasks: looks.tasks.look() })),
            Err(error) if !was_told => {
                warn!(%error, "what the node does cannot be sampled");
                was_told = true;
            }
            Err(_) => {}
        }
    }
}

impl Looks {
    // Their tools take long, so they are not asked each time.
    fn gpus(&mut self, now: Instant) -> Vec<GpuSample> {
        match &self.seen {
            Some((at, seen)) if now.duration_since(*at) < self.gpu_interval => seen.clone(),
            _ => {
                let (seen, watts) = self.gpus.sample();
                self.energy.gpus_draw(now, watts);
                self.seen = Some((now, seen.clone()));
                seen
            }
        }
    }
}

fn sample(cpus: Vec<u16>, gpus: Vec<GpuSample>) -> ProcResult<NodeSample> {
    let memory = Meminfo::current()?;
    Ok(NodeSample {
        cpus,
        memory_total: memory.mem_total,
        memory_free: memory.mem_available.unwrap_or(memory.mem_free),
        network: network(dev_status()?.values()),
        disk: disks(&fs::read_to_string("/proc/diskstats").unwrap_or_default(), &is_disk),
        gpus,
        energy: None,
    })
}

/// Time of a CPU since the node started, in ticks.
#[derive(Clone, Copy, Default)]
struct CpuTicks {
    busy: u64,
    idle: u64,
}

fn cpu_times() -> ProcResult<Vec<CpuTicks>> {
    Ok(KernelStats::current()?.cpu_time.iter().take(SAMPLED_CPUS_MAX).map(ticks).collect())
}

fn ticks(time: &CpuTime) -> CpuTicks {
    let others = [time.irq, time.softirq, time.steal];
    CpuTicks {
        busy: time.user + time.nice + time.system + others.iter().flatten().sum::<u64>(),
        idle: time.idle + time.iowait.unwrap_or(0),
    }
}

// A CPU that was not there before counts from its start, and one that was taken away and came back, too.
fn busy(before: &[CpuTicks], now: &[CpuTicks]) -> Vec<u16> {
    let parts = now.iter().enumerate().map(|(cpu, now)| {
        let before = before.get(cpu).copied().unwrap_or_default();
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let (busy, idle) = (since(now.busy, before.busy), since(now.idle, before.idle));
        per_mille(busy, busy + idle)
    });
    parts.collect()
}

fn network<'a>(devices: impl Iterator<Item = &'a DeviceStatus>) -> NetworkCounts {
    devices.filter(|device| device.name != "lo").fold(NetworkCounts::default(), |sum, device| NetworkCounts {
        rx_bytes: sum.rx_bytes + device.recv_bytes,
        tx_bytes: sum.tx_bytes + device.sent_bytes,
        rx_packets: sum.rx_packets + device.recv_packets,
        tx_packets: sum.tx_packets + device.sent_packets,
        rx_errors: sum.rx_errors + device.recv_errs,
        tx_errors: sum.tx_errors + device.sent_errs,
    })
}

// Parts of disks, and disks made of others, would count twice.
fn is_disk(name: &str) -> bool {
    let is_made = ["loop", "ram", "zram", "dm-", "md"].iter().any(|prefix| name.starts_with(prefix));
    !is_made && fs::exists(format!("/sys/block/{name}")).unwrap_or(false)
}

fn disks(text: &str, is_disk: &dyn Fn(&str) -> bool) -> DiskCounts {
    const SECTOR_BYTES: u64 = 512;
    text.lines().fold(DiskCounts::default(), |sum, line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let bytes =
            |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * SECTOR_BYTES;
        if !words.get(2).is_some_and(|name| is_disk(name)) {
            return sum;
        }
        DiskCounts { read_bytes: sum.read_bytes + bytes(5), written_bytes: sum.written_bytes + bytes(9) }
    })
}

/// Whose GPUs the worker offers.
#[derive(Clone, Copy)]
struct Gpus {
    has_nvidia: bool,
    has_amd: bool,
}

impl Gpus {
    // Also the power that all of them draw, in watts, as far as they tell.
    fn sample(self) -> (Vec<GpuSample>, Option<f64>) {
        let fields = "--query-gpu=pci.bus_id,utilization.gpu,memory.used,memory.total,power.draw";
        let ask_nvidia =
            || output(Command::new("nvidia-smi").args([fields, "--format=csv,noheader,nounits"]));
        let asked = ["--showuse", "--showmemuse", "--showbus", "--showpower", "--json"];
        let ask_amd = || output(Command::new("rocm-smi").args(asked));
        let nvidia = self.has_nvidia.then(ask_nvidia).flatten().unwrap_or_default();
        let amd = self.has_amd.then(ask_amd).flatten().unwrap_or_default();
        let found = nvidia.lines().filter_map(nvidia_gpu).chain(amd_gpus(&amd)).take(SAMPLED_GPUS_MAX);
        let (gpus, watts): (Vec<GpuSample>, Vec<Option<f64>>) = found.unzip();
        (gpus, watts.into_iter().flatten().reduce(|sum, watts| sum + watts))
    }
}

// A GPU and the watts that it draws. What it does not tell counts as nothing.
fn nvidia_gpu(line: &str) -> Option<(GpuSample, Option<f64>)> {
    let mut fields = line.split(',').map(str::trim);
    let id = fields.next().filter(|id| !id.is_empty())?.to_owned();
    let mut number = || fields.next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let (processor, used, total) = (number(), number(), number());
    let watts = fields.next().and_then(watts_of);
    let vendor = GpuVendor::Nvidia;
    let gpu = GpuSample { vendor, id, processor: per_mille(processor, 100), memory: per_mille(used, total) };
    Some((gpu, watts))
}

// Likewise. Releases differ in how they call the part of the memory, and the power.
fn amd_gpus(text: &str) -> Vec<(GpuSample, Option<f64>)> {
    let Ok(serde_json::Value::Object(cards)) = serde_json::from_str(text) else { return Vec::new() };
    let gpu = |(name, card): (&String, &serde_json::Value)| {
        let text = |names: &[&str]| names.iter().find_map(|name| card.get(*name)?.as_str());
        let part = |names: &[&str]| {
            let percent: f64 = text(names).and_then(|text| text.trim().parse().ok()).unwrap_or(0.0);
            (percent.clamp(0.0, 100.0) * 10.0).round() as u16
        };
        let gpu = || GpuSample {
            vendor: GpuVendor::Amd,
            id: text(&["PCI Bus"]).unwrap_or(name).to_owned(),
            processor: part(&["GPU use (%)"]),
            memory: part(&["GPU Memory Allocated (VRAM%)", "GPU memory use (%)"]),
        };
        let names = [
            "Average Graphics Package Power (W)",
            "Current Socket Graphics Package Power (W)",
            "Average Socket Power (W)",
        ];
        name.starts_with("card").then(|| (gpu(), text(&names).and_then(watts_of)))
    };
    cards.iter().filter_map(gpu).collect()
}

// A power that can be one.
fn watts_of(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|watts: &f64| watts.is_finite() && (0.0..1e5).contains(watts))
}

fn per_mille(part: u64, whole: u64) -> u16 {
    let parts = u128::from(part) * 1000 / u128::from(whole.max(1));
    u16::try_from(parts.min(1000)).unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_was_busy_for_the_part_of_the_time_in_which_it_worked() {
        let ticks = |busy, idle| CpuTicks { busy, idle };
        let before = [ticks(100, 900), ticks(0, 0), ticks(500, 500)];
        let now = [ticks(130, 970), ticks(0, 100), ticks(10, 10), ticks(1, 0)];
        assert_eq!(
            busy(&before, &now),
            [300, 0, 500, 1000],
            "the third one started anew, the last one is new"
        );
        assert_eq!(busy(&now, &now), [0; 4], "no time has passed");
    }

    #[test]
    fn whole_disks_are_added_up() {
        let text = "   8       0 sda 10 0 100 5 20 0 200 6 0 0 0\n   8       1 sda1 9 0 90 5 20 0 200 6 0 0 0\n\
                    259 0 nvme0n1 1 0 1 0 1 0 2 0\nodd\n";
        let counts = disks(text, &|name| !name.ends_with("a1"));
        assert_eq!((counts.read_bytes, counts.written_bytes), (101 * 512, 202 * 512));
    }

    #[test]
    fn gpus_of_nvidia_are_read() {
        let text = "00000000:07:00.0, 75, 20480, 40960, 251.50\n00000000:0F:00.0, [N/A], 0, [N/A], [N/A]\n\n";
        let gpus: Vec<_> = text.lines().filter_map(nvidia_gpu).collect();
        let read: Vec<_> =
            gpus.iter().map(|(gpu, watts)| (&*gpu.id, gpu.processor, gpu.memory, *watts)).collect();
        assert_eq!(read, [("00000000:07:00.0", 750, 500, Some(251.5)), ("00000000:0F:00.0", 0, 0, None)]);
    }

    #[test]
    fn gpus_of_amd_are_read_as_releases_name_them() {
        let text = r#"{"card0": {"GPU use (%)": "12", "GPU Memory Allocated (VRAM%)": "3", "PCI Bus": "0000:C1:00.0",
                "Average Graphics Package Power (W)": "95.0"},
            "card1": {"GPU use (%)": "100", "GPU memory use (%)": "50"}, "system": {"Driver version": "6.1"}}"#;
        let gpus = amd_gpus(text);
        let read: Vec<_> =
            gpus.iter().map(|(gpu, watts)| (&*gpu.id, gpu.processor, gpu.memory, *watts)).collect();
        assert_eq!(read, [("0000:C1:00.0", 120, 30, Some(95.0)), ("card1", 1000, 500, None)]);
        assert_eq!(amd_gpus("no JSON"), []);
    }

    #[test]
    fn this_node_is_sampled() {
        let times = cpu_times().expect("times");
        let taken = sample(busy(&[], &times), Vec::new()).expect("a sample");
        assert!(!taken.cpus.is_empty() && taken.cpus.iter().all(|cpu| *cpu <= 1000));
        assert!(taken.memory_total > taken.memory_free && taken.memory_free > 0);
    }
}
