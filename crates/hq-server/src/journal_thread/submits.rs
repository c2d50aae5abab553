//! Submits while a journal is compacted: they come out as they went in, so that nothing of them but the ids of their tasks needs to
//! be unpacked a second time. A job of many different tasks is mostly that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hq_core::record::Record;
use hq_core::server::job::drop_entries;
use hq_core::server::state::State;
use hq_model::{Dependencies, JobId, TaskSpec, Timestamp};
use hq_proto::{decode_record, encode_record};

/// The records of submits of all jobs, as a snapshot has them.
#[derive(Debug, Default)]
pub(super) struct Submits {
    of: BTreeMap<JobId, VecDeque<Box<[u8]>>>,
    // What stands for what was taken out.
    task: Arc<TaskSpec>,
    dependencies: Arc<Dependencies>,
}

impl Submits {
    /// Keeps what a record submits, and takes out of it what has no part in how a job goes on.
    pub(super) fn take_out(&mut self, at: Timestamp, record: &mut Record) {
        match record {
            Record::Together { records } => records.iter_mut().for_each(|record| self.take_out(at, record)),
            Record::Submitted {
                job,
                ids,
                entries,
                entries_gone,
                keys,
                dependencies,
                task,
                submit_dir,
                ..
            } => {
                let kept = Record::Submitted {
                    job: *job,
                    key: 0,
                    spec: None,
                    ids: ids.clone(),
                    entries: std::mem::take(entries),
                    entries_gone: entries_gone.clone(),
                    keys: std::mem::take(keys),
                    dependencies: std::mem::replace(dependencies, Arc::clone(&self.dependencies)),
                    task: std::mem::replace(task, Arc::clone(&self.task)),
                    submit_dir: std::mem::take(submit_dir),
                };
                self.of.entry(*job).or_default().push_back(encode_record(at, &kept).into());
            }
            Record::JobForgotten { job } => drop(self.of.remove(job)),
            _ => {}
        }
    }

    /// Drops entries that a record drops. `state` has the submits to whose tasks they belong.
    ///
    /// # Errors
    /// When what was kept is not to be read.
    pub(super) fn drop_entries(&mut self, state: &State, record: &Record) -> Result<(), String> {
        for part in record.parts() {
            let Record::EntriesDropped { job: id, ids } = part else { continue };
            let (Some(job), Some(kept)) = (state.jobs.get(id), self.of.get_mut(id)) else { continue };
            for (index, dropped) in job.by_submit(ids) {
                let Some(bytes) = kept.get_mut(index as usize) else { continue };
                let (at, mut record) = decode_record(bytes).map_err(|error| error.to_string())?;
                if let Record::Submitted { ids, entries, entries_gone, .. } = &mut record {
                    drop_entries(ids, entries, entries_gone, &dropped);
                }
                *bytes = encode_record(at, &record).into();
            }
        }
        Ok(())
    }

    /// A record of a snapshot in bytes: of a submit, what was taken out of it; each is asked for once, in order.
    pub(super) fn encode(&mut self, at: Timestamp, record: &Record) -> Result<Box<[u8]>, String> {
        let Record::Submitted { job, .. } = record else { return Ok(encode_record(at, record).into()) };
        let kept = self.of.get_mut(job).and_then(VecDeque::pop_front);
        kept.ok_or_else(|| format!("a submit to job {job} is not among those that were read"))
    }
}

#[cfg(test)]
mod tests {
    use hq_core::record::{Failure, FailureKind, RestartCause};
    use hq_model::{Body, Entries, IdSet, Instance, JobSpec, Request, TaskId, Usage, WorkerId};

    use super::*;

    fn submitted(job: u32, ids: (u32, u32), is_new: bool) -> Record {
        let named = |prefix: &str| {
            let texts: Vec<String> = (ids.0..=ids.1).map(|id| format!("{prefix}{id}")).collect();
            Entries::new(texts.iter().map(|text| text.as_bytes())).expect("few")
        };
        let task = TaskSpec {
            body: Body::program(["run", &format!("{job}-{}", ids.0)]),
            requests: vec![Request::default()],
            ..TaskSpec::default()
        };
        let after = vec![format!("{}", job + 7).parse().expect("a dependency")];
        Record::Submitted {
            job: JobId(job),
            key: u128::from(job),
            spec: is_new.then(JobSpec::default),
            ids: IdSet::range(ids.0, ids.1),
            entries: named("entry "),
            entries_gone: Box::default(),
            keys: named("key-"),
            dependencies: Arc::new(Dependencies { after, ..Dependencies::default() }),
            task: Arc::new(task),
            submit_dir: b"/home/me".to_vec(),
        }
    }

    fn failed(task: u32) -> Record {
        let failure = Failure {
            task: TaskId(task),
            instance: Instance(0),
            worker: Some(WorkerId(1)),
            kind: FailureKind::Exit(1),
            error: "why".into(),
            started: Some(Timestamp(3)),
            usage: Usage::default(),
            nodes: Vec::new(),
            result: Vec::new(),
            variant: None,
        };
        Record::Failed { job: JobId(1), failure }
    }

    #[test]
    fn a_snapshot_is_the_same_as_one_of_the_whole_state() {
        let job = JobId(1);
        let records = [
            Record::JobOpened { job, key: 1, spec: JobSpec::default() },
            Record::Together { records: vec![submitted(1, (0, 4), false), submitted(1, (5, 5), false)] },
            submitted(2, (0, 9), true),
            Record::Leased { worker: WorkerId(1), job, ids: IdSet::range(0, 5) },
            failed(1),
            submitted(3, (0, 0), true),
            Record::JobForgotten { job: JobId(2) },
            Record::Restarted {
                job,
                ids: IdSet::range(2, 3),
                instance: Instance(1),
                cause: RestartCause::Crash,
            },
            submitted(1, (20, 22), false),
            Record::EntriesDropped { job, ids: "1-2,4-6,20-22".parse().expect("ids") },
            Record::EntriesDropped { job, ids: IdSet::range(3, 3) },
            // Of a job that is not there.
            submitted(9, (0, 0), false),
        ];
        let (mut whole, mut lean, mut submits) = (State::default(), State::default(), Submits::default());
        for (at, mut record) in (1..).map(Timestamp).zip(records) {
            whole.apply(at, &record);
            submits.take_out(at, &mut record);
            submits.drop_entries(&lean, &record).expect("to be read");
            lean.apply(at, &record);
        }
        let (mut expected, mut given) = (Vec::new(), Vec::new());
        let all = whole.snapshot::<()>(&mut |at, record| {
            expected.push(encode_record(at, &record).into_boxed_slice());
            Ok(())
        });
        assert_eq!(all, Ok(()));
        let all = lean.snapshot(&mut |at, record| {
            given.push(submits.encode(at, &record)?);
            Ok::<_, String>(())
        });
        assert_eq!(all, Ok(()));
        assert_eq!(given, expected);
        assert!(lean.submits_bytes < whole.submits_bytes);
    }
}
