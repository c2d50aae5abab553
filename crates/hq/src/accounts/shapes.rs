//! How much CPU and GPU time the tasks of jobs ask for and workers offer.

use std::collections::BTreeMap;

use hq_model::amount::UNITS;
use hq_model::request::{CPUS, GPUS};
use hq_model::{AmountRequest, IdSet, Request, ResourcePool, TaskId};

use super::{Amounts, Kind};

/// What tasks of one submit ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shape {
    cpus: Ask,
    gpus: Ask,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Some(u64),
    All,
}

impl Default for Ask {
    fn default() -> Ask {
        Ask::Some(0)
    }
}

impl Shape {
    /// Of the first variant: which one was taken is not in the journal.
    pub(crate) fn new(requests: &[Request]) -> Shape {
        let Some(request) = requests.first() else {
            return Shape { cpus: Ask::Some(UNITS), gpus: Ask::default() };
        };
        if request.nodes > 0 && request.takes_whole_nodes() {
            return Shape { cpus: Ask::All, gpus: Ask::All };
        }
        let mut shape = Shape::default();
        for resource in &request.resources {
            let ask = match resource.amount {
                AmountRequest::All => Ask::All,
                AmountRequest::Some(amount, _) => {
                    Ask::Some(amount.0.saturating_mul(u64::from(request.ranks.max(1))))
                }
            };
            if resource.name == CPUS {
                shape.cpus = ask;
            } else if is_gpu(&resource.name) {
                shape.gpus = match (shape.gpus, ask) {
                    (Ask::Some(first), Ask::Some(second)) => Ask::Some(first.saturating_add(second)),
                    _ => Ask::All,
                };
            }
        }
        shape
    }

    /// Whether there is anything of this kind in it.
    pub(super) fn asks_for(self, kind: Kind) -> bool {
        let ask = match kind {
            Kind::Cpus => self.cpus,
            Kind::Gpus => self.gpus,
        };
        !matches!(ask, Ask::Some(0))
    }

    /// On a worker that offers this much.
    pub(crate) fn on(self, offered: Amounts) -> Amounts {
        let take = |ask, all| match ask {
            Ask::Some(amount) => amount,
            Ask::All => all,
        };
        Amounts { cpus: take(self.cpus, offered.cpus), gpus: take(self.gpus, offered.gpus) }
    }
}

/// What is in the pools of a worker.
pub(crate) fn offered(pools: &[ResourcePool]) -> Amounts {
    let sum = |of: fn(&str) -> bool| {
        pools.iter().filter(|pool| of(&pool.name)).map(|pool| pool.kind.total().0).sum()
    };
    Amounts { cpus: sum(|name| name == CPUS), gpus: sum(is_gpu) }
}

fn is_gpu(name: &str) -> bool {
    name.strip_prefix(GPUS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What the tasks of one job ask for, by intervals.
#[derive(Default)]
pub(super) struct Shapes {
    by_first: BTreeMap<u32, (u32, Shape)>,
}

impl Shapes {
    pub(super) fn add(&mut self, ids: &IdSet, shape: Shape) {
        for range in ids.ranges() {
            self.by_first.insert(*range.start(), (*range.end(), shape));
        }
    }

    pub(super) fn of(&self, task: TaskId) -> Shape {
        let before = self.by_first.range(..=task.0).next_back();
        before.filter(|(_, (last, _))| task.0 <= *last).map_or(Shape::new(&[]), |(_, (_, shape))| *shape)
    }
}
