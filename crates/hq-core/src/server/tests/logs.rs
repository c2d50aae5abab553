//! What tasks print into a log goes to the file of their submit, and only from their worker.

use hq_model::{OutputSink, Stream, TaskRef, WorkerId};

use super::*;
use crate::log::{LogBatch, LogEntry, LogPiece};
use crate::worker_messages::{Held, TemplateId};

impl World {
    fn logging(&mut self, count: u32, path: &str) -> JobId {
        let mut spec = one_cpu();
        spec.stdout = OutputSink::Stream;
        spec.stream = Some(Stream::Log(path.into()));
        let job = JobSpec { name: "true".into(), ..JobSpec::default() };
        let submit = Submit::new(Target::New(job), TaskIds::Next(count), spec);
        self.submits(Submit { submit_dir: b"/home/u".to_vec(), ..submit })
    }

    // Where it goes, and how many pieces of it: `path:pieces`.
    fn logs(&mut self, connection: u64, tasks: &[(JobId, u32)]) -> String {
        let piece = |(job, task): &(JobId, u32)| LogPiece {
            task: TaskRef::new(*job, TaskId(*task)),
            instance: Instance(0),
            at: Timestamp(5),
            entry: LogEntry::End { stdout: true, stderr: false },
        };
        let pieces = tasks.iter().map(piece).collect();
        self.says(connection, FromWorker::Log(Box::new(LogBatch { pieces, ..LogBatch::default() })));
        let parts = std::mem::take(&mut self.logged).into_iter();
        let words = parts.map(|(path, pieces)| format!("{}:{pieces}", path.as_deref().unwrap_or("nowhere")));
        words.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn a_log_is_stored_as_each_submit_says() {
    let mut world = World::new();
    world.worker(2, 2);
    let mut jobs = Vec::new();
    for compression in ["none", "zstd:7"] {
        let mut spec = one_cpu();
        spec.stdout = OutputSink::Stream;
        spec.stream = Some(Stream::Log(b"/log".to_vec()));
        spec.compression = compression.parse().expect("a compression");
        let job = JobSpec { name: "true".into(), ..JobSpec::default() };
        jobs.push(world.submits(Submit::new(Target::New(job), TaskIds::Next(1), spec)));
    }
    assert_eq!(
        world.logs(2, &[(jobs[0], 0), (jobs[1], 0), (jobs[1], 0)]),
        "/log:1 /log:2",
        "one file, and what is stored in another way apart"
    );
}

#[test]
fn only_who_has_a_task_writes_into_the_log_of_its_submit() {
    let mut world = World::new();
    world.worker(2, 2);
    world.worker(3, 2);
    let first = world.logging(2, "j%{JOB_ID}");
    assert_eq!(world.sent(2), "1:0-1/0");
    let second = world.logging(2, "/tmp/%{SERVER_UID}");
    assert_eq!(world.sent(3), "2:0-1/0");
    let plain = world.submit(1, |_| {});
    assert_eq!(world.logs(2, &[(first, 0), (first, 0), (first, 1)]), "/home/u/j1:3");
    assert_eq!(
        world.logs(3, &[(second, 1), (first, 0), (second, 0)]),
        "/tmp/abc123:1 nowhere:1 /tmp/abc123:1"
    );
    assert_eq!(world.logs(2, &[(plain, 0), (JobId(99), 0)]), "nowhere:2");
    assert_eq!(world.logs(9, &[(first, 0)]), "", "a stranger is not heard");
}

#[test]
fn a_canceled_task_says_its_last_words_and_an_ended_one_nothing() {
    let mut world = World::new();
    world.worker(2, 2);
    let job = world.logging(2, "log");
    world.reports(2, |r| r.started = vec![started(job, 0, 0), started(job, 1, 0)]);
    let jobs = Selector::Ids(IdSet::range(1, 1));
    world.ask(ClientRequest::Cancel { jobs, tasks: Some(IdSet::single(TaskId(0))), reason: None });
    assert_eq!(world.logs(2, &[(job, 0), (job, 1)]), "/home/u/log:2");
    world.reports(2, |r| r.canceled = vec![(job, IdSet::single(TaskId(0)))]);
    assert_eq!(world.logs(2, &[(job, 0), (job, 1)]), "nowhere:1 /home/u/log:1");
}

#[test]
fn after_a_restart_the_log_is_known_and_what_a_worker_only_claims_is_not_believed() {
    let mut world = World::new();
    world.worker(2, 2);
    let job = world.logging(4, "log");
    world.reports(2, |r| r.started = vec![started(job, 0, 0), started(job, 1, 0)]);
    world.restart();
    let holds = |running: IdSet| Held {
        template: TemplateId { job, submit: 0 },
        variant: None,
        instance: Instance(0),
        queued: IdSet::new(),
        started: running.iter().map(|_| Timestamp(9)).collect(),
        running,
    };
    world.worker_saying(5, 2, |hello| hello.holds = vec![holds(IdSet::range(0, 3))]);
    assert_eq!(world.logs(5, &[(job, 0), (job, 3)]), "nowhere:2");
    world.worker_saying(4, 2, |hello| {
        hello.known_as = Some(WorkerId(1));
        hello.holds = vec![holds(IdSet::range(0, 1))];
        hello.last_report = 1;
    });
    assert_eq!(world.logs(4, &[(job, 0), (job, 1), (job, 3)]), "/home/u/log:2 nowhere:1");
}
