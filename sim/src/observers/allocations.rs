//! Allocations never exceed backlog and worker limits, none is submitted twice, and each one is ended or known.

use std::collections::BTreeSet;

use hq_core::mark;
use hq_core::server::state::State;
use hq_model::AllocationRef;
use hq_model::allocation::BatchState;

use crate::batch::BatchSystem;
use crate::nodes::Node;

/// Allocations that were ever submitted.
#[derive(Debug, Default)]
pub struct Allocations {
    submitted: BTreeSet<AllocationRef>,
}

impl Allocations {
    /// The batch system has taken one more.
    ///
    /// # Errors
    /// When it was there before, or is one too many.
    pub fn submitted(
        &mut self,
        batch: &BatchSystem,
        allocation: AllocationRef,
        nodes: &[Node],
    ) -> Result<(), String> {
        if !self.submitted.insert(allocation) {
            return Err(format!("allocation {allocation} was submitted twice"));
        }
        let of_queue = || batch.jobs.values().filter(|job| job.allocation.queue == allocation.queue);
        // Queues have their ids in the order in which they were made; requests may overtake each other.
        let waiting = of_queue().filter(|job| job.state == BatchState::Queued).count() as u32;
        let backlog = batch.queues.iter().map(|params| params.backlog).max().unwrap_or(0);
        if waiting > backlog {
            return Err(format!("{waiting} allocations of queue {} wait, {backlog} may", allocation.queue));
        }
        let limits = batch.queues.iter().map(|params| params.max_worker_count.unwrap_or(u32::MAX));
        let limit = limits.max().unwrap_or(0);
        let workers = |job: &crate::batch::BatchJob| match job.state {
            BatchState::Queued => u64::from(job.workers),
            BatchState::Running => {
                job.nodes.iter().filter(|node| nodes[**node].worker.is_some()).count() as u64
            }
            _ => 0,
        };
        let workers: u64 = of_queue().map(workers).sum();
        if workers > u64::from(limit) {
            return Err(format!("queue {} has {workers} workers, {limit} are allowed", allocation.queue));
        }
        Ok(())
    }

    /// What lives in the batch system is known to the server.
    ///
    /// # Errors
    /// When something was forgotten.
    pub fn check(&self, batch: &BatchSystem, state: &State, nodes: &[Node]) -> Result<(), String> {
        for (id, job) in &batch.jobs {
            let lives = matches!(job.state, BatchState::Queued | BatchState::Running) && !job.is_ending;
            let known =
                state.alloc.allocation(job.allocation).is_some_and(hq_core::alloc::Allocation::is_active);
            // One whose workers have just left is over for the server a moment before it is, and then a queue that was
            // removed goes with it.
            let is_empty = || job.nodes.iter().all(|node| nodes[*node].worker.is_none());
            let is_leaving = job.state == BatchState::Running
                && match state.alloc.allocation(job.allocation) {
                    Some(one) => one.last_left.is_some(),
                    None => !state.alloc.queues.contains_key(&job.allocation.queue) && is_empty(),
                };
            mark!("a canceled allocation has a moment to end", job.is_ending && !known);
            if lives && !known && !is_leaving {
                return Err(format!(
                    "batch job {id} of allocation {} lives and is forgotten",
                    job.allocation
                ));
            }
        }
        Ok(())
    }
}
