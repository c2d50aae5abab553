//! What workers get in one settling: it is put together, sent, or taken back before it was sent.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hq_model::{IdSet, Timestamp, WorkerId};

use crate::mark;
use crate::object_messages::TaskObjects;
use crate::record::Record;
use crate::server::Effect;
use crate::server::lease::Lease;
use crate::server::machine::Server;
use crate::worker_messages::{RunBatch, TemplateId};

/// Tasks of a template, as the variant as which they were placed; nothing is said of what waits, which comes last.
pub(in crate::server) type Lot = (TemplateId, Reverse<Option<u32>>);

/// What each worker gets in one settling.
pub(in crate::server) type Batches = BTreeMap<WorkerId, BTreeMap<Lot, IdSet>>;

impl Server {
    /// What was to be handed out is ready again.
    pub(super) fn take_back(&mut self, batches: Batches) {
        let mut returned = Vec::new();
        for (worker, lots) in batches {
            for ((template, _), ids) in lots {
                let Some(live) = self.live.get_mut(&worker) else { break };
                live.drop_held(template, &ids);
                if let Some(&class) = self.classes.get(&template) {
                    self.queue_up(class, template, &ids);
                    returned.push((class, ids.len()));
                }
            }
        }
        returned.into_iter().for_each(|(class, count)| self.give_share_back(class, count));
    }

    /// Hands it out. Says whether what waits on a worker keeps other room from others now.
    pub(super) fn send(&mut self, now: Timestamp, batches: Batches, effects: &mut Vec<Effect>) -> bool {
        let mut lets_room = false;
        for (worker, lots) in batches {
            // What waits there may fit as another variant, and leave to others what it has waited for.
            if self.presume_starts(now, worker) {
                mark!("what waits on a worker leaves room to others");
                self.changes.of_worker(worker);
                lets_room = true;
            }
            let mut run = Vec::new();
            let gate = self.gate_of_run(lots.keys().map(|lot| &lot.0));
            // A worker starts what comes first: what has room goes before what waits, whatever their templates.
            let (placed, waits): (Vec<_>, Vec<_>) = lots.into_iter().partition(|(lot, _)| lot.1.0.is_some());
            for ((template, variant), ids) in placed.into_iter().chain(waits) {
                self.lease(now, worker, (template, variant), &ids, &mut run, effects);
                self.may_lead(worker, template.job, &ids);
                self.may_be_late(worker, template);
            }
            self.send_run(worker, run, gate, effects);
        }
        lets_room
    }

    pub(in crate::server) fn lease(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        (template, Reverse(variant)): Lot,
        ids: &IdSet,
        run: &mut Vec<RunBatch>,
        effects: &mut Vec<Effect>,
    ) {
        let job = template.job;
        let parts = self.by_services(template, ids);
        let objects = self.objects_for(worker, template, ids);
        self.record(now, Record::Leased { worker, job, ids: ids.clone() }, effects);
        for (services, ids) in parts {
            for (instance, ids) in self.state.jobs[&job].by_instance(&ids) {
                for (head_start, ids) in
                    self.forecast.head_starts(&self.state, template, &ids).into_iter().rev()
                {
                    let objects = TaskObjects::of(&objects, &ids);
                    let lease = Lease {
                        variant,
                        head_start,
                        services: services.clone(),
                        objects,
                        ..Lease::of(template, ids, instance)
                    };
                    run.extend(self.told(worker, lease));
                }
            }
        }
    }
}

/// Puts what workers get together.
pub(super) fn join(batches: &mut Batches, more: Batches) {
    for (worker, lots) in more {
        let batch = batches.entry(worker).or_default();
        for (lot, ids) in lots {
            batch.entry(lot).or_default().union_with(&ids);
        }
    }
}
