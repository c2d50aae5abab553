//! Why tasks of a class were not placed.

use hq_model::{Amount, AmountRequest, Request};

use crate::hold;
use crate::limits::WITNESSES_MAX;
use crate::need::Need;
use crate::plan::Waiting;
use crate::snapshot::{Class, Snapshot};

/// A variant no shape can run: what is short of it on the shape that comes closest.
pub(crate) fn never(snapshot: &Snapshot, class: &Class) -> Waiting {
    let request = &class.variants[0];
    if request.nodes > 0 {
        let largest = largest_group(snapshot);
        let wanted = Some(Amount::whole(u64::from(request.nodes)));
        return Waiting::NoWorkerEver { missing: "nodes".into(), wanted, offered: Amount::whole(largest) };
    }
    let short = |request: &Request| {
        request.resources.iter().find_map(|resource| {
            let offers =
                snapshot.workers.iter().map(|w| w.shape as usize).collect::<std::collections::BTreeSet<_>>();
            let offers = offers.iter().map(|&s| &snapshot.shapes[s]);
            let offered =
                offers.filter_map(|s| s.giver(&resource.name).map(|at| s.pools[at].kind.total())).max();
            let (is_short, wanted) = match resource.amount {
                AmountRequest::All => (offered.is_none(), None),
                AmountRequest::Some(amount, _) => (offered.is_none_or(|o| o < amount), Some(amount)),
            };
            let offered = offered.unwrap_or(Amount::ZERO);
            is_short.then(|| Waiting::NoWorkerEver { missing: resource.name.clone(), wanted, offered })
        })
    };
    // Each resource is offered, but not all of them by the same worker.
    let apart = || {
        let last = request.resources.last();
        let wanted = last
            .and_then(|r| if let AmountRequest::Some(amount, _) = r.amount { Some(amount) } else { None });
        let missing = last.map_or_else(String::new, |r| r.name.clone());
        Waiting::NoWorkerEver { missing, wanted, offered: Amount::ZERO }
    };
    class.variants.iter().find_map(short).unwrap_or_else(apart)
}

fn largest_group(snapshot: &Snapshot) -> u64 {
    let mut sizes = std::collections::BTreeMap::<u32, u64>::new();
    snapshot.workers.iter().for_each(|w| *sizes.entry(w.group).or_default() += 1);
    sizes.into_values().max().unwrap_or(0)
}

/// What running tasks hold, and when they let go of it. `with_ends`: look at estimated ends, too.
pub(crate) fn busy(
    snapshot: &Snapshot,
    class: &Class,
    needs: &[Vec<Option<Need>>],
    with_ends: bool,
) -> Waiting {
    let request = &class.variants[0];
    if request.nodes > 0 {
        return Waiting::Busy { resource: "nodes".into(), earliest_us: None };
    }
    let mut least: Option<(u64, u64, String)> = None;
    let mut longest_us = None;
    let mut is_alive = false;
    let mut seen = 0;
    for worker in &snapshot.workers {
        let shape = worker.shape as usize;
        for (request, needs) in class.variants.iter().zip(needs) {
            let Some(need) = &needs[shape] else { continue };
            let wanted = request.time_request.as_micros() as u64;
            if worker.life_us.is_some_and(|life| life < wanted) {
                longest_us = longest_us.max(worker.life_us);
                continue;
            }
            is_alive = true;
            seen += 1;
            let mut units = vec![0; worker.free.len()];
            need.parts.iter().for_each(|part| units[part.pool] += part.units);
            let free = crate::bins::units(&worker.free);
            // The pool of which the largest part is missing, in thousandths of what is asked.
            let missing = |p: usize| units[p].saturating_sub(free[p]) * 1000 / units[p].max(1);
            let scarce = (0..units.len()).max_by_key(|&p| (missing(p), std::cmp::Reverse(p)));
            let Some(scarce) = scarce else { continue };
            let when = if with_ends { hold::earliest(worker, &units) } else { u64::MAX };
            // Enough in sum, but not as it is asked for: whole indices, or few groups.
            let when = if when == 0 { u64::MAX } else { when };
            let found = (when, missing(scarce), snapshot.shapes[shape].pools[scarce].name.clone());
            if least.as_ref().is_none_or(|least| found < *least) {
                least = Some(found);
            }
        }
        if seen >= WITNESSES_MAX {
            break;
        }
    }
    if !is_alive {
        let wanted_us = class.variants.iter().map(|v| v.time_request.as_micros() as u64).min().unwrap_or(0);
        return Waiting::TimeLimit { wanted_us, longest_us: longest_us.unwrap_or(0) };
    }
    let (when, _, resource) = least.unwrap_or_default();
    Waiting::Busy { resource, earliest_us: (when != u64::MAX).then_some(when) }
}
