//! The shape of jobs that somebody looks at: the layers of their graphs, their timelines, and what took longest.
//!
//! What has been found is kept for the jobs that were asked about last, so that the next question costs what has happened since.
//! Nothing here is durable, and nothing is decided by it.

mod layers;
mod timeline;

use std::collections::BTreeMap;

use hq_model::selector::Selector;
use hq_model::{JobId, Timestamp};

use super::machine::{Answer, Server};
use crate::client_messages::ClientResponse;
use crate::job_shape::JobShape;
use crate::limits::{SHAPES_MAX, TIMELINE_ATTEMPTS_PER_QUESTION};

use layers::Layers;
use timeline::Buckets;

/// What is known of the jobs that were asked about last.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    jobs: BTreeMap<JobId, Shape>,
    questions: u64,
}

#[derive(Debug)]
struct Shape {
    layers: Layers,
    buckets: Buckets,
    // The number of the last question about it.
    asked: u64,
}

impl Shapes {
    // What is known of a job, which is now the last one that was asked about.
    fn of(&mut self, job: JobId, submitted: Timestamp) -> &mut Shape {
        self.questions += 1;
        if !self.jobs.contains_key(&job) && self.jobs.len() >= SHAPES_MAX {
            let oldest = self.jobs.iter().min_by_key(|(_, shape)| shape.asked).map(|(job, _)| *job);
            oldest.and_then(|job| self.jobs.remove(&job));
        }
        let asked = self.questions;
        let fresh = || Shape { layers: Layers::default(), buckets: Buckets::new(submitted), asked };
        let shape = self.jobs.entry(job).or_insert_with(fresh);
        shape.asked = asked;
        shape
    }
}

impl Server {
    /// The layers and the timeline of a job.
    pub(super) fn job_shape(&mut self, now: Timestamp, id: JobId) -> Answer {
        self.select_jobs(&Selector::Ids(hq_model::IdSet::single(hq_model::TaskId(id.0))))?;
        let job = &self.state.jobs[&id];
        let running = self.running.of_job(id);
        let shape = self.shapes.of(id, job.submitted);
        let (depth, layers) = shape.layers.count(id, job, running.keys().copied());
        shape.buckets.add_ended(now, (id, job), &self.state.details, TIMELINE_ATTEMPTS_PER_QUESTION);
        let timeline = shape.buckets.timeline(now, job, running.values().map(|run| run.since));
        let slowest = shape.buckets.slowest().to_vec();
        Ok(ClientResponse::JobShape(Box::new(JobShape { job: id, now, depth, layers, timeline, slowest })))
    }
}
