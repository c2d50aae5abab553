//! Tasks on several nodes have workers of one group, each once; and where a task has a node for itself, nothing else
//! runs: told from what workers start, not from what the server believes.

use std::collections::{BTreeMap, BTreeSet};

use hq_core::record::Record;
use hq_core::server::Effect;
use hq_core::worker::Start;
use hq_model::{TaskRef, WorkerId};

use crate::nodes::Process;

/// Groups of workers, and how many such tasks were handed out.
#[derive(Debug, Default)]
pub struct Nodes {
    groups: BTreeMap<WorkerId, String>,
    /// So far.
    pub leased: u64,
}

impl Nodes {
    /// True when nothing else may run on the nodes of a task.
    pub fn wants_alone(start: &Start) -> bool {
        start.template.spec.requests.iter().all(hq_model::Request::takes_whole_nodes)
    }

    /// True when it runs beside any other, as it takes nothing.
    pub fn is_beside(start: &Start) -> bool {
        start.template.spec.requests.iter().all(hq_model::Request::takes_nothing)
    }

    /// Looks at what a server does.
    ///
    /// # Errors
    /// Names a task whose workers do not go together.
    pub fn persisted(&mut self, effects: &[Effect]) -> Result<(), String> {
        for effect in effects {
            let Effect::Persist { record, .. } = effect else { continue };
            match record {
                Record::WorkerJoined { worker, config, .. } => {
                    self.groups.insert(*worker, config.group.clone());
                }
                Record::LeasedNodes { job, task, workers } => {
                    self.leased += 1;
                    let groups: BTreeSet<_> = workers.iter().map(|worker| self.groups.get(worker)).collect();
                    let distinct: BTreeSet<&WorkerId> = workers.iter().collect();
                    if groups.len() != 1 || groups.contains(&None) || distinct.len() != workers.len() {
                        return Err(format!(
                            "task {job}@{task} has workers {workers:?} of groups {groups:?}"
                        ));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A worker starts something beside what runs there.
    ///
    /// # Errors
    /// When one of them is to be alone.
    pub fn starts(&self, start: &Start, running: &BTreeMap<TaskRef, Process>) -> Result<(), String> {
        let wants_alone = Nodes::wants_alone(start);
        let mut taking = running.iter().filter(|(_, process)| !Nodes::is_beside(start) && !process.is_beside);
        let alone = taking.find(|(_, process)| process.is_alone || wants_alone);
        match alone {
            Some((other, _)) => Err(format!("task {} starts on a node where {other} runs", start.task)),
            None => Ok(()),
        }
    }
}
