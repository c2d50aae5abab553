//! Files that tasks wait for: which the shell is to look for, and what follows when they are there.

use std::collections::BTreeSet;

use hq_model::{ByteString, IdSet, JobId, TaskId, Timestamp};

use super::Effect;
use super::machine::Server;
use crate::limits::FILES_WATCHED_MAX;
use crate::record::Record;

impl Server {
    /// Says which files to look for, when they are others than before.
    pub(super) fn watch_files(&mut self, effects: &mut Vec<Effect>) {
        if !std::mem::take(&mut self.waits.files_changed) {
            return;
        }
        let mut wanted: BTreeSet<ByteString> = BTreeSet::new();
        for (id, files) in &self.waits.files {
            let submit = self.state.jobs.get(&id.job).map(|job| &job.submits[id.submit as usize].ids);
            let blocked = self.waits.blocked(id.job);
            if submit.zip(blocked).is_some_and(|(ids, blocked)| ids.intersects(blocked)) {
                wanted.extend(files.iter().cloned());
            }
        }
        // The others come when these are there.
        let paths: Vec<ByteString> = wanted.into_iter().take(FILES_WATCHED_MAX).collect();
        if paths != self.watched_files {
            self.watched_files.clone_from(&paths);
            effects.push(Effect::WatchFiles { paths });
        }
    }

    /// Files exist.
    pub(super) fn files_found(&mut self, now: Timestamp, paths: &[ByteString], effects: &mut Vec<Effect>) {
        let mut jobs: Vec<(JobId, Vec<ByteString>)> = Vec::new();
        for (id, files) in &self.waits.files {
            let found = paths.iter().filter(|path| files.contains(*path)).cloned();
            match jobs.last_mut().filter(|(job, _)| *job == id.job) {
                Some((_, all)) => all.extend(found),
                None => jobs.push((id.job, found.collect())),
            }
        }
        for (job, mut files) in jobs {
            files.sort();
            files.dedup();
            if files.is_empty() {
                continue;
            }
            self.record(now, Record::FilesFound { job, files: files.clone() }, effects);
            let ready = self.waits.found(&self.state, job, &files);
            self.make_ready(job, &ready);
        }
    }

    /// Files that a task waits for, told from the durable state alone.
    pub(super) fn files_missing(&self, id: JobId, task: TaskId) -> Vec<ByteString> {
        let Some(job) = self.state.jobs.get(&id) else { return Vec::new() };
        let submit = job.submit_of(task).map(|submit| &job.submits[submit as usize]);
        let files = submit.into_iter().flat_map(|submit| &submit.dependencies.files);
        let is_queued = job.queued.intersects(&IdSet::single(task));
        files.filter(|file| is_queued && !job.files.contains(*file)).cloned().collect()
    }
}
