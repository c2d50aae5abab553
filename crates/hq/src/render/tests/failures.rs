//! How the causes of failures look.

use hq_core::cause::{Aborted, FailureCause, JobFailures};
use hq_core::record::FailureKind;

use super::*;
use crate::failures::{Cause, FailedJob, Told};

fn cause(kind: FailureKind, text: &str, count: u64, workers: &[u32]) -> Cause {
    let workers = workers.iter().copied().map(WorkerId);
    let cause = FailureCause {
        kind,
        text: text.into(),
        count,
        first_worker: workers.clone().next(),
        workers: workers.collect(),
        first: TaskId(17),
        first_error: text.replace('#', "17"),
    };
    let ran = cause.first_worker.is_some();
    Cause {
        cause,
        instance: Instance(1),
        stderr: ran.then(|| "/w/17.stderr".into()),
        last_line: ran.then(|| "KeyError: 'x'".into()),
        told: Told::Whole,
    }
}

fn job(job: u32, failed: u64, causes: Vec<Cause>) -> FailedJob {
    let told = causes.iter().map(|cause| (cause.cause.clone(), cause.instance)).collect();
    let failures = JobFailures {
        job: JobId(job),
        tasks: 1000,
        failed,
        causes: told,
        aborted: None,
        first_stderr: Vec::new(),
        stopped: None,
    };
    FailedJob { failures, causes }
}

fn failures(are_several: bool) -> Failures {
    let many: Vec<u32> = (1..20).map(|id| 3 * id).collect();
    let causes = vec![
        cause(FailureKind::Exit(1), "Program terminated with exit code 1.", 790, &[1, 2, 5]),
        cause(FailureKind::Exit(3), "cannot open in/#.dat\ngiving up", 20, &many),
        cause(FailureKind::Signal(9), "", 1, &[4]),
        cause(FailureKind::Start, "cannot start \"x\": no such file or directory", 1, &[]),
    ];
    let mut jobs = vec![job(3, 822, causes)];
    if are_several {
        jobs.push(job(4, 0, Vec::new()));
        jobs.push(job(5, 7, Vec::new()));
    }
    Failures { jobs: Box::new(jobs.into_iter().map(Ok)), are_several }
}

#[test]
fn causes_of_failures() {
    insta::assert_snapshot!("failures", show(&mut failures(false)));
    insta::assert_snapshot!("failures_several", show(&mut failures(true)));
    insta::assert_snapshot!("failures_json", json(&mut failures(false)));
    insta::assert_snapshot!("failures_quiet", quiet(&mut failures(false)));
    insta::assert_snapshot!("failures_several_quiet", quiet(&mut failures(true)));
    let apart = || {
        let exit = |told, count| Cause { told, ..cause(FailureKind::Exit(1), "exit code 1.", count, &[1]) };
        let is_estimate = true;
        let causes =
            vec![exit(Told::ByLastLine { is_estimate }, 500), exit(Told::Various { is_estimate }, 17)];
        Failures { jobs: Box::new(std::iter::once(Ok(job(6, 517, causes)))), are_several: false }
    };
    insta::assert_snapshot!("failures_apart", show(&mut apart()));
    insta::assert_snapshot!("failures_apart_quiet", quiet(&mut apart()));
    let none =
        |are_several| Failures { jobs: Box::new(std::iter::once(Ok(job(1, 0, Vec::new())))), are_several };
    assert_eq!(show(&mut none(false)), "Job 1: no task failed\n");
    assert_eq!(show(&mut none(true)), "No task of these jobs failed\n");
    assert_eq!(quiet(&mut none(false)), "");
    let notes = |failed, causes| crate::render::failures::note(&job(3, failed, causes));
    let exit = || cause(FailureKind::Exit(3), "cannot open in/#.dat\ngiving up", 20, &[1]);
    insta::assert_snapshot!(
        "failures_notes",
        [
            notes(20, vec![exit()]),
            notes(1, vec![cause(FailureKind::Start, "no x", 1, &[])]),
            notes(7, Vec::new())
        ]
        .join("\n")
    );
    let breaks = || Err(HqError::usage("the server is gone"));
    let mut broken = Failures { jobs: Box::new(std::iter::once_with(breaks)), are_several: false };
    assert_eq!(show(&mut broken), "error: the server is gone");
}

#[test]
fn why_tasks_were_aborted_is_told_where_none_failed() {
    let aborted = || {
        let mut job = job(4, 0, Vec::new());
        let reason = "task 3@0, which they wait for,\nfailed".into();
        job.failures.aborted = Some(Aborted { count: 999, first: TaskId(1), reason });
        job
    };
    let one = |are_several| Failures { jobs: Box::new(std::iter::once(Ok(aborted()))), are_several };
    let words = "999 tasks of job 4 were aborted, task 1 first: task 3@0, which they wait for, failed";
    for are_several in [false, true] {
        assert_eq!(show(&mut one(are_several)), format!("Job 4: no task failed; {words}\n"));
    }
    assert_eq!(quiet(&mut one(false)), format!("4 999 {words}\n"));
    assert_eq!(crate::render::failures::note(&aborted()), words);
    let document: serde_json::Value = serde_json::from_str(&json(&mut one(false))).expect("JSON");
    assert_eq!(
        (&document[0]["aborted"]["count"], &document[0]["aborted"]["first"]),
        (&999.into(), &1.into())
    );
}

#[test]
fn tasks_that_were_aborted_are_told_beside_those_that_failed() {
    let of = || {
        let mut job = job(4, 1, vec![cause(FailureKind::Start, "no x", 1, &[])]);
        let reason = "more than 0 tasks failed".into();
        job.failures.aborted = Some(Aborted { count: 99, first: TaskId(1), reason });
        job
    };
    let one = || Failures { jobs: Box::new(std::iter::once(Ok(of()))), are_several: false };
    let words = "99 tasks of job 4 were aborted, task 1 first: more than 0 tasks failed";
    let table = show(&mut one());
    assert!(table.starts_with("Job 4: 1 of ") && table.ends_with(&format!("{words}\n")), "{table}");
    let note = crate::render::failures::note(&of());
    assert!(note.contains("no x") && note.contains(&format!("\n  {words}\n")), "{note}");
    assert!(quiet(&mut one()).ends_with(&format!("4 99 {words}\n")));
}
