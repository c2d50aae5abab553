//! Several resources, variants, weights, requests of time and picky workers: in a third of the seeds, drawn from a stream
//! of their own, so that the other seeds keep their meaning.

use std::time::Duration;

use hq_model::request::{WEIGHT_NEUTRAL, parse_amount};
use hq_model::resources::parse_pool;
use hq_model::worker::WorkerConfig;
use hq_model::{Request, ResourceRequest, TaskSpec};

use crate::rng::Rng;

/// True when a seed has variety.
pub fn has_variety(seed: u64) -> bool {
    matches!(seed % 12, 1 | 5 | 7 | 8)
}

/// The chances of a node.
pub fn of_node(seed: u64, node: u64) -> Rng {
    Rng::new(seed.rotate_left(32) ^ node)
}

/// What a worker offers beside the usual.
pub fn offer(rng: &mut Rng, config: &mut WorkerConfig) {
    let gpus = ["", "0", "0,1", "0,1,2,3"][rng.between(0, 3) as usize];
    add_pool(config, "gpus", &format!("[{gpus}]"), !gpus.is_empty());
    let has_licences = rng.chance(300);
    add_pool(config, "licences", "sum(4)", has_licences);
    if rng.chance(150) {
        config.min_utilization = rng.between(2, 10) as u32 * 1_000;
    }
}

/// What a worker offers on which everything can run.
pub fn offer_all(config: &mut WorkerConfig) {
    add_pool(config, "gpus", "[0,1]", true);
    add_pool(config, "licences", "sum(4)", true);
}

fn add_pool(config: &mut WorkerConfig, name: &str, kind: &str, is_wanted: bool) {
    config.resources.pools.extend(parse_pool(name, kind).ok().filter(|_| is_wanted));
}

/// Changes what the tasks of a submit ask for.
pub fn ask(key: u64, spec: &mut TaskSpec) {
    let mut rng = Rng::new(key ^ 0x5eed);
    let with = |parts: &[(&str, &str)], weight: u32| {
        let parts = parts.iter().filter_map(|(name, text)| {
            let amount = parse_amount(name, text).ok()?;
            Some(ResourceRequest { name: (*name).into(), amount })
        });
        Request { resources: parts.collect(), weight, ..Request::default() }
    };
    spec.requests = match rng.between(0, 9) {
        0 | 1 => vec![with(&[("cpus", "1"), ("gpus", "1")], WEIGHT_NEUTRAL)],
        2 => vec![with(&[("cpus", "0.5"), ("gpus", "2")], WEIGHT_NEUTRAL)],
        3 => vec![
            with(&[("cpus", "1"), ("gpus", "1")], WEIGHT_NEUTRAL),
            with(&[("cpus", "4")], WEIGHT_NEUTRAL),
        ],
        4 => vec![
            with(&[("cpus", "2")], WEIGHT_NEUTRAL),
            with(&[("cpus", "1"), ("gpus", "1")], 2 * WEIGHT_NEUTRAL),
            with(&[("cpus", "1"), ("licences", "2")], WEIGHT_NEUTRAL),
        ],
        5 => vec![with(&[("cpus", "1"), ("licences", "3")], 3 * WEIGHT_NEUTRAL)],
        6 => vec![with(&[("gpus", "1")], WEIGHT_NEUTRAL)],
        _ => std::mem::take(&mut spec.requests),
    };
    if rng.chance(200) {
        let time = Duration::from_secs(rng.between(1, 60));
        spec.requests.iter_mut().for_each(|request| request.time_request = time);
    }
    if rng.chance(200) {
        spec.expected = Some(Duration::from_secs(rng.between(1, 60)));
    }
}
