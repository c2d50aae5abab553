//! What observers in the simulator ask of a worker that has settled: whether something waits beside room for it, and what
//! runs there.

use std::cmp::Reverse;

use hq_model::{TaskRef, Timestamp};

use super::Grant;
use super::arming::Armed;
use super::machine::{Link, Worker};
use super::starting::{has_time, in_time, ways};
use crate::keeping::keeps_room;
use crate::mark;

impl Worker {
    /// Looks for something that waits here, fits and does not start, although nothing is kept for others that go before
    /// it.
    ///
    /// # Errors
    /// Names a task.
    pub fn wastes_nothing(&self, now: Timestamp) -> Result<(), String> {
        let is_held_up = self.reporting.is_stuck() || self.node_fault.reason().is_some() || self.has_more;
        if self.pulling.is_some()
            || self.leaving.is_some()
            || is_held_up
            || self.running.values().any(|run| run.has_node)
        {
            return Ok(());
        }
        let life = self.config.life(self.started);
        let mut kept: Vec<(i32, Timestamp, u64)> = Vec::new();
        for ((Reverse(priority), ..), batch) in &self.queue {
            let known = &self.templates[&batch.template];
            let job = batch.template.job;
            let Some(placed) = in_time(known, batch, life, now) else { continue };
            // Beside an idle runner, which may not serve it, a call is tried, and what it lacks is kept for it.
            let awaits_runner = self.runners.are_awaited(&known.template);
            if awaits_runner && !self.runners.has_idle(&known.template) {
                continue;
            }
            let mut tasks = batch.left.iter().map(|task| TaskRef::new(job, task));
            let is_ending =
                tasks.any(|task| self.running.contains_key(&task) || self.armed.contains_key(&task));
            for way in ways(known, placed, 0).filter(|_| !is_ending && batch.nodes.is_empty()) {
                let request = &known.template.spec.requests[way.variant as usize];
                let is_kept = kept.iter().any(|(other, since, scarce)| {
                    placed.is_none()
                        && way.pools & scarce != 0
                        && keeps_room(now.since(*since), other == priority)
                });
                let is_kept = is_kept || way.pools & self.lending.kept() != 0;
                let may = request.nodes == 0 && !awaits_runner && !is_kept && has_time(life, now, request);
                // There may be enough of each, and not together.
                let fits = may && self.pools.scarce(&way.needs) == 0;
                if fits && self.pools.clone().take(&way.needs, &mut Grant::default()) {
                    let story = self.story();
                    return Err(format!("tasks {job}@{} wait and fit as {request}: {story}", batch.left));
                }
            }
            if let Some(way) = ways(known, placed, 0).next() {
                kept.push((*priority, batch.since, self.pools.scarce(&way.needs)));
            }
        }
        Ok(())
    }

    /// True when a task runs and nothing ends it.
    pub fn lets_run(&self, task: TaskRef) -> bool {
        self.running.get(&task).is_some_and(|run| run.ending.is_none())
    }

    /// What tasks have of this worker, those included that take over what the one before them had.
    pub fn grants(&self) -> impl Iterator<Item = (TaskRef, &Grant)> {
        let running = self
            .running
            .iter()
            .flat_map(|(task, run)| run.ranks.iter().chain([&run.grant]).map(|grant| (*task, grant)));
        let taken_over =
            self.armed.iter().filter_map(|(task, armed)| Some((*task, &armed.after.as_ref()?.grant)));
        let taken_over = taken_over.inspect(|_| mark!("an armed task has what the one before it had"));
        running.chain(taken_over)
    }

    /// True when a task is armed and called back.
    pub fn calls_back(&self, task: TaskRef) -> bool {
        self.armed.get(&task).is_some_and(Armed::is_called_back)
    }

    /// What waits and what runs here: for the stories of the simulator.
    pub fn story(&self) -> String {
        let waits = self.queue.values().map(|batch| {
            let (job, left) = (batch.template.job, &batch.left);
            let requests = &self.templates[&batch.template].template.spec.requests;
            let requests: Vec<String> = requests.iter().map(ToString::to_string).collect();
            format!("{job}@{left} ({}, placed as {:?}) waits", requests.join(" or "), batch.variant)
        });
        let runs = self.running.iter().map(|(task, run)| format!("{task} has {:?}", run.grant));
        let runs: std::collections::BTreeSet<String> = runs.collect();
        waits.chain(runs).collect::<Vec<_>>().join(", ")
    }

    /// What is taken of each pool, in units.
    pub fn taken(&self) -> Vec<u64> {
        self.pools.taken()
    }

    /// True when the server was told of all that happened here, and nothing that was placed here waits.
    pub fn has_started_all(&self) -> bool {
        // What has exited has nothing here, and still is promised something there.
        let is_ending = self.running.values().any(|run| run.ending.is_some() || run.has_exited);
        let is_open = self.link == Link::Up && self.leaving.is_none() && !self.reporting.is_stuck();
        let has_told = !self.has_news() && self.outside.next().is_none();
        // A node of a task that was to have room, which something else was quicker to take.
        let waits_for_node = self.queue.values().any(|batch| !batch.nodes.is_empty());
        self.pulling.is_none()
            && is_open
            && has_told
            && !is_ending
            && self.armed.is_empty()
            && !self.has_more
            && !waits_for_node
            && !self.keeps_something_back()
    }

    // Something that waits here would fit and is kept back for others, whose order the server may not know after this worker
    // has come back; or there is enough for it, but in pieces, while the server counts amounts.
    fn keeps_something_back(&self) -> bool {
        self.queue.values().any(|batch| {
            let known = &self.templates[&batch.template];
            ways(known, batch.variant, 0)
                .any(|way| self.pools.scarce(&way.needs) == 0 || self.pools.is_in_pieces(&way.needs))
        })
    }
}
