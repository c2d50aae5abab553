//! How explanations look.

use hq_core::explanation::{
    JobExplanation, Lack, Reason, ReasonKind, TaskExplanation, TaskGroup, WorkerMatch,
};
use hq_model::QueueId;

use super::*;

fn lacks_gpus() -> Lack {
    let request = AmountRequest::Some(Amount::whole(2), Policy::Compact);
    Lack::Resource { name: "gpus".into(), request, has: Amount::ZERO }
}

pub(super) fn task() -> Explained {
    let busy = "cpus: 0 of 4 are free, the task needs 2; 4 tasks run there, 1@0 for 48s, free at the earliest in \
                about 12s";
    let short = Lack::Time { request: Duration::from_secs(7200), left: Duration::from_secs(1800) };
    let over = Lack::Time { request: Duration::ZERO, left: Duration::ZERO };
    Explained::from(Box::new(TaskExplanation {
        task: TaskRef::new(JobId(3), TaskId(7)),
        state: TaskState::Waiting,
        dependencies: 2,
        unresolved: 0,
        reasons: vec![
            Reason::new(ReasonKind::Priority, "2 ready tasks go before it: 2 of job 1 (older)"),
            Reason::new(
                ReasonKind::Queue,
                "allocation queue 1 (big): workers that are on their way will take 5 of these tasks",
            )
            .of(QueueId(1)),
            Reason::new(ReasonKind::Busy, busy).on(WorkerId(1)).until(Some(at(12))),
            Reason::new(ReasonKind::Lacks, "it has no gpus").on(WorkerId(2)),
        ],
        workers: vec![
            WorkerMatch { worker: WorkerId(1), variants: vec![vec![lacks_gpus()], Vec::new()] },
            WorkerMatch { worker: WorkerId(3), variants: vec![vec![over.clone()], vec![over]] },
            WorkerMatch {
                worker: WorkerId(2),
                variants: vec![vec![lacks_gpus(), short.clone()], vec![short]],
            },
        ],
    }))
}

fn jobs() -> ExplainedJobs {
    let group = |first, last, reasons| TaskGroup { ids: IdSet::range(first, last), reasons };
    let running = Reason::new(ReasonKind::Running, "they run on workers 1-2");
    let unfit = "no worker could ever run it, not even one that a queue may start: no worker has gpus";
    let delay = Reason::new(ReasonKind::Delay, "it failed and is tried again, in 29s").until(Some(at(29)));
    ExplainedJobs(vec![JobExplanation {
        job: JobId(3),
        state: JobState::Running,
        reasons: vec![Reason::new(ReasonKind::Dependency, "it gets more tasks from its generator, job 1")],
        groups: vec![
            group(0, 3, vec![running]),
            group(4, 4, vec![delay]),
            group(5, 9, vec![Reason::new(ReasonKind::Unfit, unfit)]),
            group(10, 11, Vec::new()),
        ],
        others: 17,
    }])
}

#[test]
fn an_open_job_without_tasks_says_what_it_waits_for() {
    let job = JobExplanation {
        job: JobId(3),
        state: JobState::Opened,
        reasons: Vec::new(),
        groups: Vec::new(),
        others: 0,
    };
    assert_eq!(
        show(&mut ExplainedJobs(vec![job])),
        "Job 3 is open\n- no task of it waits or runs: it ends once it is closed with `hq job close 3`\n"
    );
}

#[test]
fn explanations() {
    insta::assert_snapshot!("explain_task", show(&mut task()));
    insta::assert_snapshot!("explain_task_json", json(&mut task()));
    insta::assert_snapshot!("explain_task_quiet", quiet(&mut task()));
    insta::assert_snapshot!("explain_job", show(&mut jobs()));
    insta::assert_snapshot!("explain_job_json", json(&mut jobs()));
    insta::assert_snapshot!("explain_job_quiet", quiet(&mut jobs()));
}
