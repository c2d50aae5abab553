//! The index of a job's tasks by their keys.

use hq_model::TaskId;

use super::job::{Job, SubmitState};

impl Job {
    /// The task with this key.
    pub fn task_of_key(&self, key: &[u8]) -> Option<TaskId> {
        let hash = hash_of(key);
        let alike = self.keys.range((hash, TaskId(0))..=(hash, TaskId(u32::MAX)));
        alike.map(|(_, task)| *task).find(|task| self.key_of(*task) == Some(key))
    }

    /// The key of a task.
    pub fn key_of(&self, task: TaskId) -> Option<&[u8]> {
        let submit = &self.submits[self.submit_of(task)? as usize];
        submit.keys.get(usize::try_from(submit.ids.rank(task)?).ok()?)
    }

    /// Takes in the keys of a submit; they are new.
    pub(super) fn index_keys(&mut self, submit: &SubmitState) {
        self.keys.extend(index_of(submit));
    }
}

/// The keys of a submit as they are looked up.
pub(super) fn index_of(submit: &SubmitState) -> impl Iterator<Item = (u64, TaskId)> {
    submit.keys.iter().map(hash_of).zip(submit.ids.iter())
}

/// FNV-1a. Keys with equal hashes are told apart by their texts.
pub(in crate::server) fn hash_of(key: &[u8]) -> u64 {
    key.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
