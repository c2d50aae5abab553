//! What a worker says first on a new connection: who it is, what it holds, and how far its reports are known.

use std::collections::BTreeMap;

use hq_model::{IdSet, Instance, TaskRef, Timestamp};

use super::{Ending, Link, Running, Worker};
use crate::worker::Effect;
use crate::worker_messages::{FromWorker, Held, TemplateId, WorkerHello};

impl Worker {
    pub(super) fn greet(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.outside.release(None, &mut self.reporting);
        // What happened so far becomes a report: those follow the hello, and say nothing of what it holds.
        self.reporting.starts_are_known();
        // A server that was started again does not know.
        self.node_fault.is_news |= self.node_fault.reason().is_some();
        self.output_waits.is_news |= self.output_waits.why.is_some();
        if let Some(pulling) = &mut self.pulling {
            pulling.forget_told();
        }
        while self.has_news() {
            self.make_report();
        }
        // What follows the hello says what is lent of that.
        self.lending.all().for_each(|task| self.reporting.lends(task));
        self.link = Link::Greeting;
        let hello = WorkerHello {
            config: self.config.clone(),
            started: self.started,
            age: Some(now.since(self.started)),
            known_as: self.id,
            secret: self.secret,
            holds: self.holds(),
            last_report: self.reporting.last_unsaved(),
            follows: self.pulling.is_none(),
            follows_calls: self.pulling.is_none(),
            shows: self.pulling.is_none(),
            stores: self.storing.is_some(),
            relays: self.storing.is_some(),
            objects: self.storing.as_mut().map_or_else(Vec::new, |storing| storing.all()),
        };
        effects.push(Effect::Send(FromWorker::Hello(Box::new(hello))));
    }

    fn holds(&self) -> Vec<Held> {
        type Key = (TemplateId, Instance, Option<u32>);
        let mut holds: BTreeMap<Key, Held> = BTreeMap::new();
        let held = |(template, instance, variant): Key| Held {
            template,
            instance,
            variant,
            queued: IdSet::new(),
            running: IdSet::new(),
            started: Vec::new(),
        };
        let armed = self.armed.values().filter(|armed| !armed.is_superseded()).map(|armed| &armed.batch);
        for batch in self.queue.values().chain(self.followers.values()).chain(armed) {
            let key = (batch.template, batch.instance, None);
            holds.entry(key).or_insert_with(|| held(key)).queued.union_with(&batch.left);
        }
        // Sorted, so that the order of the map does not show.
        let mut running: Vec<(&TaskRef, &Running)> =
            self.running.iter().filter(|(_, run)| run.ending != Some(Ending::Superseded)).collect();
        running.sort_unstable_by_key(|entry| *entry.0);
        for (task, run) in running {
            let key = (run.template, run.instance, run.variant);
            let held = holds.entry(key).or_insert_with(|| held(key));
            held.running.insert(task.task);
            held.started.push(run.since);
        }
        holds.into_values().collect()
    }
}
