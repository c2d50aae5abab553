//! Which GPUs are beside which CPUs: the memory node of each device, from its place on the PCI bus.

use hq_model::request::CPUS;
use hq_model::resources::{COUPLING_WEIGHT, Coupling};

use super::gpus::{self, KFD, NVIDIA_PROC};
use super::tree::{Tree, trailing_number};
use super::{AMD, DetectOptions, INTEL, intel};

/// Puts devices of one memory node together, and couples them with the group of CPUs of that node. `None`, and nothing
/// is to be grouped, where the node of a device is not known, or where there is only one group of both.
pub(super) fn beside(
    options: &DetectOptions,
    tree: &Tree,
    name: &str,
    labels: &[String],
    cpu_nodes: &[Option<u32>],
) -> Option<(Vec<Vec<String>>, Vec<Coupling>)> {
    let pci = |label: &String| match name {
        AMD => amd_address(tree, label),
        INTEL => intel::address(options, tree, label),
        _ => nvidia_address(options, tree, label),
    };
    let node = |label: &String| {
        let text = tree.text(&format!("sys/bus/pci/devices/{}/numa_node", pci(label)?.to_lowercase()))?;
        // The system says -1 where it does not know.
        text.parse::<u32>().ok()
    };
    let nodes: Vec<u32> = labels.iter().map(node).collect::<Option<_>>()?;
    let mut distinct = nodes.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let of_node = |node: &u32| {
        let labels = labels.iter().zip(&nodes).filter(|(_, other)| *other == node);
        labels.map(|(label, _)| label.clone()).collect::<Vec<_>>()
    };
    let coupling: Vec<Coupling> = distinct
        .iter()
        .enumerate()
        .filter_map(|(group, node)| {
            let cpus = cpu_nodes.iter().position(|other| *other == Some(*node))?;
            let (left, right) = ((CPUS.to_owned(), cpus as u32), (name.to_owned(), group as u32));
            Some(Coupling { left, right, weight: COUPLING_WEIGHT })
        })
        .collect();
    let is_any = !coupling.is_empty() && (distinct.len() > 1 || cpu_nodes.len() > 1);
    is_any.then(|| (distinct.iter().map(of_node).collect(), coupling))
}

// The PCI address of a device by its index, its UUID, or the UUID of a slice of it.
fn nvidia_address(options: &DetectOptions, tree: &Tree, label: &str) -> Option<String> {
    let addresses = tree.names(NVIDIA_PROC);
    let listed = options.nvidia_smi.as_deref().map(gpus::listing).unwrap_or_default();
    let of_uuid = |uuid: &str| {
        let has = |address: &&String| {
            let text = tree.text(&format!("{NVIDIA_PROC}/{address}/information")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.trim().strip_prefix("GPU UUID:"));
            line.is_some_and(|known| known.trim().starts_with(uuid))
        };
        addresses.iter().find(has).cloned()
    };
    // A process that may see some of the devices counts those alone; the driver lists all.
    let of_index = |index: usize| {
        let by_uuid = listed.get(index).and_then(|gpu| of_uuid(gpu.uuid.as_deref()?));
        let is_same = listed.is_empty() || listed.len() == addresses.len();
        by_uuid.or_else(|| addresses.get(index).filter(|_| is_same).cloned())
    };
    if let Ok(index) = label.parse::<usize>() {
        return of_index(index);
    }
    if let Some(index) = listed.iter().position(|gpu| gpu.slices.iter().any(|slice| slice == label)) {
        return of_index(index);
    }
    // Before driver 470 a slice was named after its device: MIG-GPU-<uuid>/1/0.
    let uuid =
        label.strip_prefix("MIG-GPU-").map(|rest| format!("GPU-{}", rest.split('/').next().unwrap_or(rest)));
    of_uuid(uuid.as_deref().unwrap_or(label))
}

// From the driver's topology: the nodes that are no CPUs, counted from 0, or by their unique numbers.
fn amd_address(tree: &Tree, label: &str) -> Option<String> {
    let nodes = tree.names(KFD).into_iter().filter(|name| trailing_number(name).is_some());
    let devices: Vec<String> = nodes
        .filter(|name| {
            tree.text(&format!("{KFD}/{name}/gpu_id")).is_some_and(|id| id != "0" && !id.is_empty())
        })
        .map(|name| tree.text(&format!("{KFD}/{name}/properties")).unwrap_or_default())
        .collect();
    let number = |properties: &str, name: &str| {
        let mut words = properties.lines().filter_map(|line| line.split_once(' '));
        words.find(|(key, _)| *key == name)?.1.trim().parse::<u64>().ok()
    };
    let properties = match label.parse::<usize>() {
        Ok(index) => devices.get(index)?,
        Err(_) => {
            let wanted = u64::from_str_radix(label.strip_prefix("GPU-")?, 16).ok()?;
            devices.iter().find(|one| number(one, "unique_id") == Some(wanted))?
        }
    };
    let place = number(properties, "location_id")?;
    let domain = number(properties, "domain").unwrap_or(0);
    Some(format!("{domain:04x}:{:02x}:{:02x}.{}", place >> 8 & 0xff, place >> 3 & 0x1f, place & 7))
}
