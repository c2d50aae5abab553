//! Whether a request can run on workers of a kind, and what they lack for it: the one answer for workers that are there
//! and for those that a queue of allocations may bring.

use std::time::Duration;

use crate::request::PULLED;
use crate::{Amount, AmountRequest, Request, WorkerResources};

/// Workers of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Kind<'a> {
    /// What each of them offers.
    pub resources: &'a WorkerResources,
    /// Nothing else: what is not named there is not there.
    pub is_all: bool,
    /// How long it lives from now on, nothing once its time is over; `None` without an end.
    pub left: Option<Duration>,
    /// How many of them a task on several nodes can have.
    pub group: u32,
}

/// What a worker can never give to a variant of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Too little of a resource, perhaps nothing.
    Resource {
        /// Its name.
        name: String,
        /// What is asked for.
        request: AmountRequest,
        /// All that the worker has.
        has: Amount,
    },
    /// Too little time.
    Time {
        /// What is asked for.
        request: Duration,
        /// What is left of the worker's.
        left: Duration,
    },
    /// Too few workers in its group.
    Group {
        /// Nodes that are asked for.
        nodes: u32,
        /// Workers of the group.
        size: u32,
    },
}

impl Kind<'_> {
    /// What lacks for a request; nothing where it can run.
    pub fn lacks(&self, request: &Request) -> Vec<Lack> {
        let mut lacks = Vec::new();
        for resource in &request.resources {
            let giver = self.resources.giver(&resource.name);
            if giver.is_none() && !self.is_all && !resource.name.starts_with(PULLED) {
                continue;
            }
            let has = giver.map_or(Amount::ZERO, |pool| self.resources.pools[pool].kind.total());
            let asked = request.on_node(resource.amount);
            let is_enough = match asked {
                AmountRequest::All => has > Amount::ZERO,
                AmountRequest::Some(amount, _) => giver.is_some() && amount <= has,
            };
            if !is_enough {
                lacks.push(Lack::Resource { name: resource.name.clone(), request: asked, has });
            }
        }
        if let Some(left) = self.left.filter(|left| left.is_zero() || *left < request.time_request) {
            lacks.push(Lack::Time { request: request.time_request, left });
        }
        if self.group < request.nodes {
            lacks.push(Lack::Group { nodes: request.nodes, size: self.group });
        }
        lacks
    }
}

impl Request {
    /// What all its ranks on a node take together where each takes so much.
    pub fn on_node(&self, each: AmountRequest) -> AmountRequest {
        match each {
            AmountRequest::All => AmountRequest::All,
            AmountRequest::Some(amount, policy) => {
                let ranks = u64::from(self.ranks.max(1));
                AmountRequest::Some(Amount(amount.0.saturating_mul(ranks)), policy)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResourceRequest;
    use crate::request::parse_amount;
    use crate::resources::parse_pool;

    #[test]
    fn what_lacks_is_named() {
        let pools = [("cpus", "4"), ("gpus/nvidia", "[a,b]")];
        let pools = pools.map(|(name, text)| parse_pool(name, text).expect("a pool")).to_vec();
        let resources = WorkerResources::new(pools, Vec::new()).expect("resources");
        let hour = Duration::from_secs(3600);
        let check = |is_all, nodes: (u32, u32), hours: u32, asked: &[(&str, &str)], expected: &[&str]| {
            let kind = Kind { resources: &resources, is_all, left: Some(hour * 2), group: 2 };
            let part = |(name, text): &(&str, &str)| ResourceRequest {
                name: (*name).into(),
                amount: parse_amount(name, text).expect("an amount"),
            };
            let request = Request {
                nodes: nodes.0,
                ranks: nodes.1,
                time_request: hour * hours,
                resources: asked.iter().map(part).collect(),
                ..Request::default()
            };
            let said = kind.lacks(&request).into_iter().map(|lack| match lack {
                Lack::Resource { name, request, has } => format!("{name}: {request} of {has}"),
                Lack::Time { left, .. } => format!("{} s", left.as_secs()),
                Lack::Group { size, .. } => format!("{size} workers"),
            });
            assert_eq!(said.collect::<Vec<_>>(), expected, "{request}");
        };
        check(true, (0, 0), 2, &[("cpus", "4"), ("gpus", "2")], &[]);
        check(true, (0, 0), 3, &[("cpus", "5"), ("gpus", "0.5")], &["cpus: 5 compact of 4", "7200 s"]);
        check(true, (2, 4), 0, &[("cpus", "1")], &[]);
        check(true, (3, 5), 0, &[("cpus", "1")], &["cpus: 5 compact of 4", "2 workers"]);
        check(true, (0, 0), 0, &[("cpus", "all"), ("fpgas", "1")], &["fpgas: 1 compact of 0"]);
        check(false, (0, 0), 0, &[("cpus", "all"), ("fpgas", "1")], &[]);
        check(true, (0, 0), 0, &[("fpgas", "all")], &["fpgas: all of 0"]);
    }
}
