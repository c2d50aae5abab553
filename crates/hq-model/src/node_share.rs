//! Which part of a node a task takes: what its node time is counted by.

use crate::request::{CPUS, GPUS, MEM};
use crate::{AmountRequest, Request, WorkerResources};

/// A whole node, in the parts that shares are told in.
pub const WHOLE_NODE: u64 = 1_000_000;

/// The part of the nodes of a worker like this that a task takes which asks for one of these, in millionths of a node: the
/// largest of its parts of the CPUs, the memory and the GPUs there. A task on several nodes takes all of each. Of several
/// variants the first one counts that the worker has enough for.
pub fn node_share(requests: &[Request], resources: &WorkerResources) -> u64 {
    let fits = |request: &&Request| {
        let mut parts = request.resources.iter().map(|asked| part(asked.amount, &asked.name, 1, resources));
        parts.all(|part| part.is_some_and(|part| part <= WHOLE_NODE))
    };
    let Some(request) = requests.iter().find(fits).or(requests.first()) else { return 0 };
    if request.nodes > 0 || request.exclusive {
        return WHOLE_NODE * u64::from(request.nodes.max(1));
    }
    let counts = |name: &str| [CPUS, MEM, GPUS].contains(&name) || name.starts_with("gpus/");
    let counted = request.resources.iter().filter(|asked| counts(&asked.name));
    let parts = counted.filter_map(|asked| part(asked.amount, &asked.name, request.ranks.max(1), resources));
    parts.max().unwrap_or(0).min(WHOLE_NODE)
}

/// How long nodes are taken, in microseconds, by a task that ran for so long.
pub fn node_time_us(wall_us: u64, share: u64) -> u64 {
    let time = u128::from(wall_us) * u128::from(share) / u128::from(WHOLE_NODE);
    u64::try_from(time).unwrap_or(u64::MAX)
}

// The part of a resource. `None` where the worker has none.
fn part(amount: AmountRequest, name: &str, ranks: u32, resources: &WorkerResources) -> Option<u64> {
    let pool = &resources.pools[resources.giver(name)?];
    let total = u128::from(pool.kind.total().0);
    let asked = match amount {
        AmountRequest::All => total,
        AmountRequest::Some(amount, _) => u128::from(amount.0) * u128::from(ranks),
    };
    let part = (asked * u128::from(WHOLE_NODE)).checked_div(total)?;
    u64::try_from(part).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::UNITS;
    use crate::resources::{PoolKind, ResourcePool};
    use crate::{Amount, Policy, ResourceRequest};

    fn node() -> WorkerResources {
        let pool =
            |name: &str, count| ResourcePool { name: name.into(), kind: PoolKind::Sum(Amount::whole(count)) };
        let pools = vec![
            pool("cpus", 64),
            pool("gpus/amd", 4),
            pool("io", 1),
            pool("licenses", 1),
            pool("mem", 1024),
        ];
        WorkerResources { pools, coupling: Vec::new() }
    }

    fn request(asked: &[(&str, u64)]) -> Request {
        let one = |(name, units): &(&str, u64)| ResourceRequest {
            name: (*name).into(),
            amount: match units {
                0 => AmountRequest::All,
                units => AmountRequest::Some(Amount(*units), Policy::Compact),
            },
        };
        Request { resources: asked.iter().map(one).collect(), ..Request::default() }
    }

    #[test]
    fn the_largest_part_of_cpus_memory_and_gpus_counts() {
        for (asked, share) in [
            (request(&[("cpus", 16 * UNITS)]), 250_000),
            (request(&[("cpus", UNITS / 2)]), 7_812),
            (request(&[("cpus", UNITS), ("mem", 512 * UNITS)]), 500_000),
            (request(&[("cpus", UNITS), ("gpus", UNITS)]), 250_000),
            (request(&[("cpus", UNITS), ("gpus/amd", 2 * UNITS)]), 500_000),
            (request(&[("cpus", 0)]), WHOLE_NODE),
            // Neither is a part of the node that others lack.
            (request(&[("io", UNITS)]), 0),
            (request(&[("cpus", 16 * UNITS), ("licenses", UNITS)]), 250_000),
            (Request { exclusive: true, ..request(&[("cpus", UNITS)]) }, WHOLE_NODE),
            (Request { nodes: 3, ..Request::default() }, 3 * WHOLE_NODE),
            (Request { nodes: 2, ranks: 4, ..request(&[("cpus", UNITS)]) }, 2 * WHOLE_NODE),
            // More than there is.
            (request(&[("cpus", 128 * UNITS)]), WHOLE_NODE),
        ] {
            assert_eq!(node_share(std::slice::from_ref(&asked), &node()), share, "{asked}");
        }
    }

    #[test]
    fn of_variants_the_first_counts_that_fits() {
        let variants = [request(&[("gpus/nvidia", UNITS)]), request(&[("cpus", 32 * UNITS)])];
        assert_eq!(node_share(&variants, &node()), 500_000);
        assert_eq!(node_share(&variants[..1], &node()), 0, "nobody knows of what");
        assert_eq!(node_share(&[], &node()), 0);
    }

    #[test]
    fn node_time_is_a_part_of_the_time() {
        assert_eq!(node_time_us(3_600_000_000, 250_000), 900_000_000);
        assert_eq!(node_time_us(u64::MAX, 3 * WHOLE_NODE), u64::MAX);
    }
}
