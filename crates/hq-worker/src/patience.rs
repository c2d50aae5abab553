//! Attempts that ended well and whose outputs are not there yet: file systems of a network may show a file late.
//!
//! They wait here, all of them on the thread that looks after what has ended, and others pass them by. Looks become rarer
//! the longer an attempt has waited.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hq_core::worker::{Ends, Input, Outcome};
use hq_model::TaskRef;

use crate::limits::{PATIENCE_PAUSE_MAX, PATIENCE_PAUSE_MIN};
use crate::outputs::Aftermath;

/// Those that wait, by when they are looked at next.
#[derive(Debug, Default)]
pub(crate) struct Patient {
    waiting: BTreeMap<(Instant, u64), Waiting>,
    last_number: u64,
}

#[derive(Debug)]
struct Waiting {
    aftermath: Aftermath,
    until: Instant,
    pause: Duration,
}

impl Patient {
    /// An attempt has ended. It is given back unless it waits for outputs.
    pub(crate) fn take_in(&mut self, now: Instant, aftermath: Aftermath) -> Option<Aftermath> {
        let is_success = matches!(aftermath.input, Input::Ended { outcome: Outcome::Finished, .. });
        let patience = aftermath.promised.patience();
        if !is_success || patience.is_zero() || aftermath.promised.is_settled() {
            return Some(aftermath);
        }
        // Nobody waits for longer than that.
        let until = now.checked_add(patience).unwrap_or(now + Duration::from_secs(1 << 30));
        self.wait(now, Waiting { aftermath, until, pause: PATIENCE_PAUSE_MIN });
        None
    }

    /// A task is being ended. It is given back if its attempt waits here.
    pub(crate) fn is_ended(&mut self, task: TaskRef, ends: Ends) -> Option<Aftermath> {
        let is_it = |waiting: &Waiting| matches!(waiting.aftermath.input, Input::Ended { task: waits, .. } if waits == task);
        let place = self.waiting.iter().find(|(_, waiting)| is_it(waiting)).map(|(place, _)| *place)?;
        let mut aftermath = self.waiting.remove(&place)?.aftermath;
        aftermath.promised.is_ended(ends);
        Some(aftermath)
    }

    /// Those that need not wait any more: their outputs are there, or their time is over.
    pub(crate) fn look(&mut self, now: Instant) -> Vec<Aftermath> {
        let mut done = Vec::new();
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= now) {
            let waiting = first.remove();
            if waiting.until <= now || waiting.aftermath.promised.is_settled() {
                done.push(waiting.aftermath);
            } else {
                self.wait(now, waiting);
            }
        }
        done
    }

    /// When to look next.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(place, _)| place.0)
    }

    /// All of them: nobody waits any more.
    pub(crate) fn into_all(self) -> impl Iterator<Item = Aftermath> {
        self.waiting.into_values().map(|waiting| waiting.aftermath)
    }

    fn wait(&mut self, now: Instant, mut waiting: Waiting) {
        let next = (now + waiting.pause).min(waiting.until);
        waiting.pause = (waiting.pause * 2).min(PATIENCE_PAUSE_MAX);
        self.last_number += 1;
        self.waiting.insert((next, self.last_number), waiting);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hq_core::record::FailureKind;
    use hq_model::{Instance, JobId, TaskId, Usage};

    use super::*;
    use crate::declared::{Declared, Promised, Writers};

    fn ended(dir: &Path, task: u32, patience_ms: u64, outcome: Outcome) -> Aftermath {
        let path = dir.join(task.to_string()).into_os_string().into_encoded_bytes();
        let declared = vec![Declared::new(path, Writers::Submit)];
        let task = TaskRef::new(JobId(1), TaskId(task));
        Aftermath {
            input: Input::ended(task, outcome, Usage::default()),
            task_dir: Vec::new(),
            nodes_dir: Vec::new(),
            sinks: Vec::new(),
            promised: Promised::new(declared, Instance(0), Duration::from_millis(patience_ms)),
            result: None,
            leaves: None,
        }
    }

    fn tasks(done: Vec<Aftermath>) -> Vec<u32> {
        let task = |aftermath: Aftermath| match aftermath.input {
            Input::Ended { task, .. } => task.task.0,
            other => panic!("{other:?}"),
        };
        done.into_iter().map(task).collect()
    }

    #[test]
    fn what_is_late_is_waited_for_and_others_pass_by() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (begin, mut patient) = (Instant::now(), Patient::default());
        let at = |ms: u64| begin + Duration::from_millis(ms);
        std::fs::write(dir.path().join("3"), "").expect("writable");
        let failed = Outcome::Failed(FailureKind::Exit(1), String::new());
        let mut take_in = |task, patience, outcome| {
            tasks(patient.take_in(begin, ended(dir.path(), task, patience, outcome)).into_iter().collect())
        };
        assert_eq!(take_in(1, 10_000, Outcome::Finished), [0; 0]);
        assert_eq!(take_in(2, 1000, Outcome::Finished), [0; 0]);
        assert_eq!(take_in(3, 1000, Outcome::Finished), [3], "it is there");
        assert_eq!(take_in(4, 0, Outcome::Finished), [4], "nobody said that it may be late");
        assert_eq!(take_in(5, 1000, failed), [5], "there is nothing to wait for");
        assert_eq!(patient.next(), Some(at(100)));
        assert_eq!(tasks(patient.look(at(99))), [0; 0]);
        assert_eq!(tasks(patient.look(at(100))), [0; 0]);
        assert_eq!(patient.next(), Some(at(300)), "looks become rarer");
        std::fs::write(dir.path().join("1"), "").expect("writable");
        assert_eq!(tasks(patient.look(at(300))), [1]);
        assert_eq!(tasks(patient.look(at(700))), [0; 0]);
        assert_eq!(patient.next(), Some(at(1000)), "the last look is at the end");
        assert_eq!(tasks(patient.look(at(1000))), [2]);
        assert_eq!((patient.next(), patient.into_all().count()), (None, 0));
    }

    #[test]
    fn looks_are_never_too_rare() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (mut now, mut patient) = (Instant::now(), Patient::default());
        assert!(patient.take_in(now, ended(dir.path(), 1, 3_600_000, Outcome::Finished)).is_none());
        let mut looks = 0;
        while patient.look(now).is_empty() {
            let next = patient.next().expect("it waits");
            assert!(next - now <= PATIENCE_PAUSE_MAX);
            (now, looks) = (next, looks + 1);
        }
        assert!(looks < 3_600_000 / PATIENCE_PAUSE_MAX.as_millis() + 10, "{looks}");
    }

    #[test]
    fn who_is_ended_waits_no_more() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (now, mut patient) = (Instant::now(), Patient::default());
        for task in [1, 2] {
            assert!(patient.take_in(now, ended(dir.path(), task, 1000, Outcome::Finished)).is_none());
        }
        let task = TaskRef::new(JobId(1), TaskId(2));
        assert_eq!(tasks(patient.is_ended(task, Ends::Anyhow).into_iter().collect()), [2]);
        assert!(patient.is_ended(task, Ends::Anyhow).is_none());
        assert_eq!(tasks(patient.into_all().collect()), [1]);
    }
}
