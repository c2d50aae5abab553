//! The machine.
use super::{Effect, Input};
use hq_model::Timestamp;
use hq_model::worker::WorkerConfig;

/// The worker's state machine.
#[derive(Debug)]
pub struct Worker {}

impl Worker {
    /// A worker that has not yet spoken; `started` is when its process began.
    pub fn new(_config: WorkerConfig, _started: Timestamp) -> Self {
        Worker {}
    }
    /// Takes one input.
    pub fn handle(&mut self, _now: Timestamp, _input: Input, _effects: &mut Vec<Effect>) {}
    /// Acts after a batch of inputs: starts what fits, sends reports. To be called before the shell waits for more.
    pub fn settle(&mut self, _now: Timestamp, _effects: &mut Vec<Effect>) {}
    /// When the machine wants [`Input::Tick`] even if nothing happens.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        None
    }
}
