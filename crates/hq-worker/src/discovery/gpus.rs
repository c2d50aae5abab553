//! GPUs of three vendors.
//!
//! Variables that narrow what programs see come first, as programs themselves do; then what the drivers
//! show. Slurm sets the variables of all vendors at once for the same devices, so a variable counts only for
//! a vendor whose driver is there, or, when none is, for one vendor.

use super::tree::{Tree, trailing_number};
use super::{DetectOptions, Kinds, intel};

/// Labels of the devices by vendor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Gpus {
    pub(super) nvidia: Vec<String>,
    pub(super) amd: Vec<String>,
    pub(super) intel: Vec<String>,
}

/// The topology of AMD's driver.
pub(super) const KFD: &str = "sys/class/kfd/kfd/topology/nodes";
/// A directory for each device of NVIDIA's driver.
pub(super) const NVIDIA_PROC: &str = "proc/driver/nvidia/gpus";

pub(super) fn detect(options: &DetectOptions, tree: &Tree, notes: &mut Vec<String>) -> Gpus {
    if options.kinds == (Kinds { nvidia: false, amd: false, intel: false, ..options.kinds }) {
        return Gpus::default();
    }
    let nvidia_there = nvidia_devices(options, tree);
    let amd_there = amd_devices(tree);
    let intel_there = intel::devices(options, tree, notes);
    let (has_nvidia, has_amd) = (!nvidia_there.is_empty(), !amd_there.is_empty());
    let has_intel = !intel_there.is_empty();
    let variable = |name: &str, count: usize| {
        let text = options.environment.get(name)?;
        Some(visible(text, if count == 0 { usize::MAX } else { count }))
    };
    let cuda = variable("CUDA_VISIBLE_DEVICES", physical_count(options, tree));
    let rocr = variable("ROCR_VISIBLE_DEVICES", amd_there.len());
    let hip = variable("HIP_VISIBLE_DEVICES", rocr.as_ref().unwrap_or(&amd_there).len());

    let mut gpus = Gpus::default();
    if has_nvidia || !(has_amd || has_intel) {
        gpus.nvidia = match cuda {
            Some(labels) => {
                notes.push(format!("gpus/nvidia: {} by CUDA_VISIBLE_DEVICES", labels.len()));
                labels
            }
            None => nvidia_there,
        };
    }
    let is_amd = has_amd || !(has_nvidia || has_intel) && gpus.nvidia.is_empty();
    if is_amd {
        gpus.amd = match (rocr, hip) {
            (Some(rocr), None) => {
                notes.push(format!("gpus/amd: {} by ROCR_VISIBLE_DEVICES", rocr.len()));
                rocr
            }
            (rocr, Some(hip)) if rocr.is_some() || has_amd => {
                notes.push(format!("gpus/amd: {} by HIP_VISIBLE_DEVICES", hip.len()));
                // Its indices count what the other variable left.
                let left = rocr.unwrap_or(amd_there);
                let at = |label: String| label.parse::<usize>().map_or(Some(label), |i| left.get(i).cloned());
                hip.into_iter().map_while(at).collect()
            }
            _ => amd_there,
        };
    } else if options.environment.contains_key("ROCR_VISIBLE_DEVICES") && !gpus.nvidia.is_empty() {
        notes
            .push("gpus/amd: ROCR_VISIBLE_DEVICES names the same devices as CUDA_VISIBLE_DEVICES".to_owned());
    }
    if has_intel || !(has_nvidia || has_amd) && gpus.nvidia.is_empty() && gpus.amd.is_empty() {
        gpus.intel = intel::visible(options, intel_there, notes);
    }
    gpus
}

/// The devices that a variable leaves: indices, UUIDs or beginnings of them. As in the vendors' libraries, an entry that
/// makes no sense ends the list.
fn visible(text: &str, count: usize) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for entry in text.split(',').map(str::trim) {
        let is_device = match entry.parse::<usize>() {
            Ok(index) => index < count,
            Err(_) => entry.starts_with("GPU-") || entry.starts_with("MIG-"),
        };
        if !is_device || labels.iter().any(|label| label == entry) {
            break;
        }
        labels.push(entry.to_owned());
    }
    labels
}

fn physical_count(options: &DetectOptions, tree: &Tree) -> usize {
    let listed = options.nvidia_smi.as_deref().map_or(0, |text| listing(text).len());
    listed.max(tree.names(NVIDIA_PROC).len())
}

/// NVIDIA's devices: whole ones by index, slices of a divided one by their UUIDs.
fn nvidia_devices(options: &DetectOptions, tree: &Tree) -> Vec<String> {
    let listed = options.nvidia_smi.as_deref().map(listing).unwrap_or_default();
    if listed.is_empty() {
        // One directory a device; slices are not listed there.
        return (0..tree.names(NVIDIA_PROC).len()).map(|index| index.to_string()).collect();
    }
    let labels = |gpu: Listed| if gpu.slices.is_empty() { vec![gpu.index] } else { gpu.slices };
    listed.into_iter().flat_map(labels).collect()
}

/// A device that `nvidia-smi` lists.
pub(super) struct Listed {
    index: String,
    pub(super) uuid: Option<String>,
    pub(super) slices: Vec<String>,
}

/// What `nvidia-smi -L` says: `GPU 0: NVIDIA A100 (UUID: GPU-…)`, below it perhaps
/// `  MIG 3g.20gb     Device  0: (UUID: MIG-…)`.
pub(super) fn listing(text: &str) -> Vec<Listed> {
    let mut gpus: Vec<Listed> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("GPU ") {
            if let Some((index, name)) = rest.split_once(':')
                && index.parse::<u32>().is_ok()
            {
                let uuid = name.split_once("(UUID: ").map(|(_, uuid)| uuid.trim_end_matches(')').to_owned());
                gpus.push(Listed { index: index.to_owned(), uuid, slices: Vec::new() });
            }
        } else if line.starts_with("MIG ")
            && let Some(gpu) = gpus.last_mut()
            && let Some((_, uuid)) = line.split_once("(UUID: ")
        {
            gpu.slices.push(uuid.trim_end_matches(')').to_owned());
        }
    }
    gpus
}

/// AMD's devices: the nodes of the driver's topology that are no CPUs, counted from 0.
fn amd_devices(tree: &Tree) -> Vec<String> {
    let nodes = tree.names(KFD).into_iter().filter(|name| trailing_number(name).is_some());
    let is_gpu = |name: &String| {
        tree.text(&format!("{KFD}/{name}/gpu_id")).is_some_and(|id| id != "0" && !id.is_empty())
    };
    let count = nodes.filter(is_gpu).count();
    (0..count).map(|index| index.to_string()).collect()
}
