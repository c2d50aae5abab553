//! GPUs of Intel: cards that are no part of a processor, as level zero counts them.
//!
//! A card may have several tiles. `ZE_FLAT_DEVICE_HIERARCHY` says which of both numbers are of: of cards with `COMPOSITE`,
//! of tiles with `FLAT` and `COMBINED`. Where nobody says it cards are counted, and tasks are told so.

use super::DetectOptions;
use super::tree::Tree;

/// What programs may use: numbers of devices, perhaps with the number of a tile, as `0.1`.
pub(crate) const MASK: &str = "ZE_AFFINITY_MASK";
/// Whether these numbers are of cards or of tiles.
pub(crate) const HIERARCHY: &str = "ZE_FLAT_DEVICE_HIERARCHY";

/// A number that no device has: an empty mask leaves all of them.
pub(crate) const NO_DEVICE: u32 = 65_535;

const CARDS: &str = "sys/class/drm";

struct Card {
    // On the PCI bus.
    address: String,
    tiles: usize,
}

/// The numbers of all devices.
pub(super) fn devices(options: &DetectOptions, tree: &Tree, notes: &mut Vec<String>) -> Vec<String> {
    if !options.kinds.intel {
        return Vec::new();
    }
    let (integrated, cards): (Vec<Card>, Vec<Card>) = cards(tree).into_iter().partition(Card::is_integrated);
    if !integrated.is_empty() && !cards.is_empty() && mask(options).is_none() {
        notes.push(format!(
            "gpus/intel: {} ignored, because it is not known which number the processor's GPU has: set {MASK}, or \
             use --resource gpus/intel=[...]",
            cards.len()
        ));
        return Vec::new();
    }
    let each = |card: &Card| if counts_tiles(options) { card.tiles } else { 1 };
    (0..cards.iter().map(each).sum::<usize>()).map(|index| index.to_string()).collect()
}

/// The devices that the variable leaves. As in Intel's library an empty one leaves all, and an entry that makes no sense is
/// none.
pub(super) fn visible(options: &DetectOptions, there: Vec<String>, notes: &mut Vec<String>) -> Vec<String> {
    let Some(mask) = mask(options).filter(|_| options.kinds.intel) else { return there };
    let count = if there.is_empty() { NO_DEVICE } else { there.len() as u32 };
    let mut labels: Vec<String> = Vec::new();
    for entry in mask.split(',').map(str::trim) {
        let (device, tile) = entry.split_once('.').unwrap_or((entry, "0"));
        let is_device = device.parse().is_ok_and(|number: u32| number < count) && tile.parse::<u32>().is_ok();
        if is_device && !labels.iter().any(|label| label == entry) {
            labels.push(entry.to_owned());
        }
    }
    notes.push(format!("gpus/intel: {} by {MASK}", labels.len()));
    labels
}

/// The PCI address of a device.
pub(super) fn address(options: &DetectOptions, tree: &Tree, label: &str) -> Option<String> {
    let cards = cards(tree);
    if cards.iter().any(Card::is_integrated) {
        return None;
    }
    let repeated = |card: Card| {
        let times = if counts_tiles(options) { card.tiles } else { 1 };
        std::iter::repeat_n(card.address, times)
    };
    let device = label.split('.').next().unwrap_or(label);
    cards.into_iter().flat_map(repeated).nth(device.parse().ok()?)
}

fn mask(options: &DetectOptions) -> Option<&String> {
    options.environment.get(MASK).filter(|mask| !mask.is_empty())
}

fn counts_tiles(options: &DetectOptions) -> bool {
    let said = options.environment.get(HIERARCHY);
    // What drivers do by themselves.
    let unsaid = mask(options).is_some();
    said.map_or(unsaid, |said| ["FLAT", "COMBINED"].contains(&said.to_uppercase().as_str()))
}

impl Card {
    // Its place is the same in all processors.
    fn is_integrated(&self) -> bool {
        self.address.ends_with(":00:02.0")
    }
}

// By address, as far as programs may use them.
fn cards(tree: &Tree) -> Vec<Card> {
    let names = tree.names(CARDS);
    let numbered = names
        .iter()
        .filter(|name| name.strip_prefix("card").is_some_and(|number| number.parse::<u32>().is_ok()));
    let mut cards: Vec<Card> = numbered.filter_map(|name| card(tree, name)).collect();
    cards.sort_by(|a, b| a.address.cmp(&b.address));
    cards
}

fn card(tree: &Tree, name: &str) -> Option<Card> {
    let device = format!("{CARDS}/{name}/device");
    let about = tree.text(&format!("{device}/uevent"))?;
    let value = |key: &str| about.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let is_there = |render: &String| render.starts_with("renderD") && tree.has(&format!("dev/dri/{render}"));
    if !value("PCI_ID")?.starts_with("8086:") || !tree.names(&format!("{device}/drm")).iter().any(is_there) {
        return None;
    }
    let count = |directory: &str, of: &str| {
        let of_tile =
            |name: &&String| name.strip_prefix(of).is_some_and(|number| number.parse::<u32>().is_ok());
        tree.names(directory).iter().filter(of_tile).count()
    };
    // One driver shows tiles, the other the parts that compute.
    let tiles = count(&device, "tile").max(count(&format!("{CARDS}/{name}/gt"), "gt")).max(1);
    Some(Card { address: value("PCI_SLOT_NAME")?.to_owned(), tiles })
}
