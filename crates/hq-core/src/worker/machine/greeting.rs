//! What a worker says first on a new connection: who it is, what it holds, and how far its reports are known.

use std::collections::BTreeMap;

use hq_model::{IdSet, Instance, TaskRef};

use super::{Ending, Link, Running, Worker};
use crate::worker::Effect;
use crate::worker_messages::{FromWorker, Held, TemplateId, WorkerHello};

impl Worker {
    pub(super) fn greet(&mut self, effects: &mut Vec<Effect>) {
        self.outside.release(None, &mut self.reporting);
        // What happened so far becomes a report: those follow the hello, and say nothing of what it holds.
        self.reporting.starts_are_known();
        if self.reporting.has_news() {
            self.make_report();
        }
        self.link = Link::Greeting;
        let hello = WorkerHello {
            config: self.config.clone(),
            started: self.started,
            known_as: self.id,
            holds: self.holds(),
            last_report: self.reporting.last_unsaved(),
            follows: true,
        };
        effects.push(Effect::Send(FromWorker::Hello(Box::new(hello))));
    }

    fn holds(&self) -> Vec<Held> {
        let mut holds: BTreeMap<(TemplateId, Instance), Held> = BTreeMap::new();
        let held = |template: TemplateId, instance: Instance| Held {
            template,
            instance,
            queued: IdSet::new(),
            running: IdSet::new(),
            started: Vec::new(),
        };
        for batch in self.queue.values().chain(self.followers.values()) {
            let key = (batch.template, batch.instance);
            holds.entry(key).or_insert_with(|| held(key.0, key.1)).queued.union_with(&batch.left);
        }
        // Sorted, so that the order of the map does not show.
        let mut running: Vec<(&TaskRef, &Running)> =
            self.running.iter().filter(|(_, run)| run.ending != Some(Ending::Superseded)).collect();
        running.sort_unstable_by_key(|entry| *entry.0);
        for (task, run) in running {
            let key = (run.template, run.instance);
            let held = holds.entry(key).or_insert_with(|| held(key.0, key.1));
            held.running.insert(task.task);
            held.started.push(run.since);
        }
        holds.into_values().collect()
    }
}
