//! Whether this machine has what each task asks for.

use hq_model::request::{GPUS, MEM};
use hq_model::{Amount, AmountRequest, Request, WorkerResources, memory, similar};

use crate::error::HqError;

/// Refuses a job that can never start here, on so many nodes of which each has this: it would be waited for without end.
pub(crate) fn check_fits(offered: &WorkerResources, nodes: u32, requests: &[Request]) -> Result<(), HqError> {
    let mut reason = None;
    for request in requests {
        match lacks(offered, nodes, request) {
            Some(text) => reason = Some(text),
            None => return Ok(()),
        }
    }
    match reason {
        Some(text) => Err(HqError::failed("no-room", text)
            .hint("request less, or submit to a server with workers that have it")),
        None => Ok(()),
    }
}

fn lacks(offered: &WorkerResources, nodes: u32, request: &Request) -> Option<String> {
    if request.nodes > nodes {
        let asked = request.nodes;
        return Some(match nodes {
            1 => format!("This machine is one node, but each task requests {asked}"),
            nodes => format!("This batch job has {nodes} nodes, but each task requests {asked}"),
        });
    }
    request.resources.iter().find_map(|r| {
        let amount = match &r.amount {
            // Of several ranks none asks for all.
            AmountRequest::Some(each, policy) if request.ranks > 1 => {
                &AmountRequest::Some(Amount(each.0.saturating_mul(request.ranks.into())), *policy)
            }
            amount => amount,
        };
        let text = missing(offered, &r.name, amount)?;
        Some(if request.ranks > 1 { format!("{text} in {} ranks", request.ranks) } else { text })
    })
}

fn missing(offered: &WorkerResources, name: &str, amount: &AmountRequest) -> Option<String> {
    let of_any_vendor =
        |pool: &str| name == GPUS && pool.strip_prefix(GPUS).is_some_and(|rest| rest.starts_with('/'));
    let most = offered
        .pools
        .iter()
        .filter(|pool| pool.name == name || of_any_vendor(&pool.name))
        .map(|pool| pool.kind.total())
        .max()
        .unwrap_or(Amount::ZERO);
    let fits = match amount {
        AmountRequest::All => most > Amount::ZERO,
        AmountRequest::Some(amount, _) => *amount <= most,
    };
    let asked = match amount {
        AmountRequest::All => "all".to_owned(),
        AmountRequest::Some(amount, _) => amount_of(name, *amount),
    };
    let meant = if most == Amount::ZERO {
        similar::hint(name, *amount, offered.pools.iter().map(|pool| pool.name.as_str()))
    } else {
        None
    };
    let meant = meant.map_or_else(String::new, |meant| format!(" ({meant})"));
    let there = match most {
        Amount::ZERO => format!("no {name}"),
        most if name == MEM => format!("{} of memory", memory::format(most)),
        most => format!("{most} {name}"),
    };
    (!fits).then(|| format!("This machine has {there}{meant}, but each task requests {asked}"))
}

// With its unit, if it has one.
fn amount_of(name: &str, amount: Amount) -> String {
    if name == MEM { memory::format(amount) } else { amount.to_string() }
}

#[cfg(test)]
mod tests {
    use hq_model::request::ResourceRequest;
    use hq_model::{Policy, resources::parse_pool};

    use super::*;

    fn machine() -> WorkerResources {
        let pools = [("cpus", "2x2"), ("mem", "sum(1000)"), ("gpus/nvidia", "[0]")];
        let pools = pools.map(|(name, text)| parse_pool(name, text).expect("a pool"));
        WorkerResources::new(pools.into(), Vec::new()).expect("resources")
    }

    #[test]
    fn nodes_and_ranks_count() {
        let check = |nodes, ranks, cpus, expected: Option<&str>| {
            let amount = AmountRequest::Some(Amount::whole(cpus), Policy::Compact);
            let resources = vec![ResourceRequest { name: "cpus".into(), amount }];
            let request = Request { nodes, ranks, resources, ..Request::default() };
            assert_eq!(lacks(&machine(), 1, &request).as_deref(), expected);
        };
        check(0, 0, 4, None);
        check(1, 4, 1, None);
        check(1, 2, 2, None);
        check(1, 5, 1, Some("This machine has 4 cpus, but each task requests 5 in 5 ranks"));
        check(1, 3, 2, Some("This machine has 4 cpus, but each task requests 6 in 3 ranks"));
        check(2, 1, 1, Some("This machine is one node, but each task requests 2"));
    }

    #[test]
    fn what_cannot_fit_is_said() {
        let offered = machine();
        let ask = |name: &str, wholes: u64| {
            missing(&offered, name, &AmountRequest::Some(Amount::whole(wholes), Policy::Compact))
        };
        assert_eq!(ask("cpus", 4), None);
        assert_eq!(ask("gpus", 1), None);
        assert_eq!(ask("cpus", 5).as_deref(), Some("This machine has 4 cpus, but each task requests 5"));
        assert_eq!(
            ask("gpu", 1).as_deref(),
            Some("This machine has no gpu (did you mean `gpus`?), but each task requests 1")
        );
        assert_eq!(
            ask("nodes", 3).as_deref(),
            Some("This machine has no nodes (did you mean `--nodes 3`?), but each task requests 3")
        );
        assert!(ask("gpus", 2).is_some() && ask("x", 1).is_some());
        assert!(missing(&offered, "mem", &AmountRequest::All).is_none());
    }
}
