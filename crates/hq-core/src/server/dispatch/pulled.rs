//! Pulled tasks compete with nothing else: relays have room for those of their bag alone, and for as many as they say. So
//! they wait for no plan, and for no other ends.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{Timestamp, WorkerId};

use super::{Batches, Round};
use crate::server::live::LiveWorker;
use crate::server::machine::Server;
use crate::server::queue::ClassId;

impl Server {
    /// Hands out what relays have room for.
    pub(super) fn hand_out_pulled(
        &mut self,
        now: Timestamp,
        changed_workers: &BTreeSet<WorkerId>,
        changed_classes: &BTreeSet<ClassId>,
        batches: &mut Batches,
    ) {
        if self.queue.pulled().next().is_none() {
            return;
        }
        let changed: BTreeSet<&str> =
            changed_classes.iter().filter_map(|class| self.queue.pulled_resource(*class)).collect();
        let mut relays: BTreeMap<String, BTreeSet<WorkerId>> = BTreeMap::new();
        let mut add = |id: WorkerId, live: &LiveWorker| {
            for pool in live.resources.pools.iter().filter(|_| live.is_relay) {
                relays.entry(pool.name.clone()).or_default().insert(id);
            }
        };
        if changed.is_empty() {
            let live = changed_workers.iter().filter_map(|id| Some((*id, self.live.get(id)?)));
            live.for_each(|(id, live)| add(id, live));
        } else {
            let is_asked = |id: &WorkerId, live: &LiveWorker| {
                let mut names = live.resources.pools.iter().map(|pool| pool.name.as_str());
                changed_workers.contains(id) || names.any(|name| changed.contains(name))
            };
            self.live.iter().filter(|(id, live)| is_asked(id, live)).for_each(|(id, live)| add(*id, live));
        }
        for (resource, relays) in relays {
            for class in self.queue.of_bag(&resource).collect::<Vec<_>>() {
                self.fill(now, &relays, class, Round::Room { rank: 0 }, batches);
            }
        }
    }
}
