//! How every report looks, from reports made by hand.

use std::collections::VecDeque;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::CommandFactory;
use hq_core::client_messages::{JobDetail, JobSummary, ServerInfo, SubmitInfo, TaskInfo, WorkerInfo};
use hq_core::limit_value::LimitValue;
use hq_core::object_messages::ObjectsHeld;
use hq_core::worker_messages::WorkerEnd;
use hq_model::job::Counters;
use hq_model::request::WEIGHT_NEUTRAL;
use hq_model::task::{CrashLimit, Pin, Retry, RetryOn, SpeculateFactor, Warning};
use hq_model::worker::{Manager, SpillConfig, StoreConfig, WorkerConfig};
use hq_model::{
    Amount, AmountRequest, Body, Compression, Epoch, IdSet, Instance, JobId, JobState, OnClose, OutputSink,
    Policy, PoolKind, Request, ResourcePool, ResourceRequest, TaskId, TaskRef, TaskSpec, TaskState,
    Timestamp, Usage, WorkerId, WorkerResources,
};

use hq_worker::discovery::Detected;

use super::{Report, Style};
use crate::error::HqError;
use crate::jobs::{JobPages, JobStream};
use crate::report::*;
use crate::tasks::{Page, Pages, TaskStream, TaskSubmit};

const T0: u64 = 1_790_000_000_000_000;

pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp(T0 + seconds * 1_000_000)
}

fn show(report: &mut dyn Report) -> String {
    let mut out = Vec::new();
    let shown = report.cli(&mut out, Style::default());
    text(out, shown)
}

fn json(report: &mut dyn Report) -> String {
    let mut out = Vec::new();
    let shown = report.json(&mut out);
    let text = text(out, shown);
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(&text);
    assert!(parsed.is_ok(), "one document: {text}");
    text
}

fn quiet(report: &mut dyn Report) -> String {
    let mut out = Vec::new();
    let shown = report.quiet(&mut out);
    text(out, shown)
}

fn text(mut out: Vec<u8>, shown: Result<(), HqError>) -> String {
    if let Err(error) = shown {
        write!(out, "error: {}", error.text).expect("memory");
    }
    String::from_utf8(out).expect("text")
}

fn summary(job: u32, name: &str, counters: Counters) -> JobSummary {
    JobSummary {
        job: JobId(job),
        name: name.into(),
        is_open: false,
        counters,
        cancel_reason: None,
        unrunnable: 0,
        fed_end: Default::default(),
        stalled: None,
    }
}

fn jobs() -> Vec<JobSummary> {
    let mut canceled = summary(2, "b", Counters { canceled: 2, finished: 1, ..Counters::default() });
    canceled.cancel_reason = Some("wrong input".into());
    let mut open = summary(3, "sweep", Counters::default());
    open.is_open = true;
    let mut hopeless = summary(4, "gpu", Counters { waiting: 3, ..Counters::default() });
    hopeless.unrunnable = 3;
    vec![
        summary(1, "score", Counters { running: 2, waiting: 98, ..Counters::default() }),
        canceled,
        open,
        hopeless,
    ]
}

pub(crate) fn spec() -> TaskSpec {
    let resource = |name: &str, amount| ResourceRequest { name: name.into(), amount };
    TaskSpec {
        output_objects: Vec::new(),
        input_objects: Vec::new(),
        rebuilds: None,
        compression: Compression::None,
        body: Body::program(["./score.sh", "a b", "%{TASK_ID}"]),
        env: vec![(b"A".to_vec(), b"1".to_vec()), (b"B".to_vec(), b"x y".to_vec())],
        stdin: b"input".to_vec(),
        cwd: b"%{SUBMIT_DIR}".to_vec(),
        stdout: OutputSink::File {
            path: b"%{CWD}/job-%{JOB_ID}/%{TASK_ID}.stdout".to_vec(),
            on_close: OnClose::Keep,
        },
        stderr: OutputSink::File { path: b"err".to_vec(), on_close: OnClose::RemoveIfFinished },
        stream: None,
        outputs: vec![b"result".to_vec()],
        service: false,
        requests: vec![Request {
            nodes: 0,
            ranks: 0,
            exclusive: false,
            resources: vec![
                resource("cpus", AmountRequest::Some(Amount::whole(2), Policy::CompactStrict)),
                resource("gpus", AmountRequest::Some(Amount(5_000), Policy::Compact)),
                resource("mem", AmountRequest::Some(Amount::whole(4096), Policy::Compact)),
                resource("x", AmountRequest::All),
            ],
            time_request: Duration::from_secs(90),
            weight: WEIGHT_NEUTRAL * 3 / 2,
        }],
        pin: Pin::Omp,
        priority: -5,
        time_limit: Some(Duration::from_secs(3600)),
        kill_grace: Duration::from_secs(5),
        end_by: Some(hq_model::task::EndBy::Within(Duration::from_secs(3600))),
        output_patience: Duration::ZERO,
        result: hq_model::result::ResultFrom::LastLine,
        warning: Some(Warning { signal: 10, before: Duration::from_secs(60) }),
        crash_limit: CrashLimit::Times(5),
        on_walltime: hq_model::task::OnWalltime::Wait,
        retry: Retry {
            max: 3,
            delay: Duration::from_secs(10),
            on: RetryOn { codes: vec![75], signal: true, timeout: false },
        },
        speculate: SpeculateFactor::from_thousandths(2500),
        expected: Some(Duration::from_secs(1800)),
        locality: Some(b"%{ENTRY_2}".to_vec()),
        task_dir: true,
        launcher: String::new(),
    }
}

fn usage() -> Usage {
    Usage {
        wall_us: 2_500_000,
        user_us: 1_200_000,
        system_us: 300_000,
        rss_max_kib: 300 * 1024,
        blocks_read: 0,
        blocks_written: 4096,
    }
}

pub(crate) fn detail() -> JobDetail {
    JobDetail {
        summary: summary(1, "score", Counters { finished: 2, failed: 1, ..Counters::default() }),
        max_fails: Some(3),
        share: None,
        budget: None,
        notices: Vec::new(),
        submitted: at(0),
        ended: Some(at(75)),
        submits: vec![SubmitInfo {
            index: 0,
            ids: IdSet::range(1, 3),
            spec: Arc::new(spec().without_stdin()),
            stdin_bytes: 5,
            submit_dir: b"/home/user/work".to_vec(),
            submitted: at(0),
        }],
        usage: usage(),
        workers: vec![WorkerId(1), WorkerId(4)],
        feed: None,
        ending: Some(0),
    }
}

pub(crate) fn task(id: u32, state: TaskState) -> TaskInfo {
    let ran = !matches!(state, TaskState::Waiting);
    let over = state.is_terminal();
    TaskInfo {
        task: TaskId(id),
        submit: 0,
        state,
        instance: Instance(u32::from(state == TaskState::Failed)),
        crashes: 0,
        worker: ran.then_some(WorkerId(4)),
        started: ran.then(|| at(10)),
        ended: over.then(|| at(12)),
        usage: over.then(usage),
        error: (state == TaskState::Failed).then(|| "Program terminated with exit code 3.".into()),
        dependencies: Vec::new(),
        key: None,
        nodes: Vec::new(),
        failure: (state == TaskState::Failed).then_some(hq_core::record::FailureKind::Exit(3)),
        entry: None,
        entry_gone: false,
        load: (state == TaskState::Running).then(|| Box::new(super::load::tests::used(at(10)))),
        too_late: None,
        attempts: Vec::new(),
    }
}

struct Given(VecDeque<Result<Vec<(JobId, TaskInfo)>, HqError>>);

impl Pages for Given {
    fn next_page(&mut self) -> Result<Option<Page>, HqError> {
        let tasks = self.0.pop_front().transpose()?;
        let submit = Rc::new(TaskSubmit::new(detail().submits.remove(0), "a1B2c3"));
        let submits = [1, 2].map(|job| ((JobId(job), 0), Rc::clone(&submit)));
        Ok(tasks.map(|tasks| Page { tasks, submits: submits.into(), ..Page::default() }))
    }
}

fn stream(pages: Vec<Result<Vec<(JobId, TaskInfo)>, HqError>>) -> TaskStream {
    TaskStream::begin(Given(pages.into())).expect("a first page")
}

fn three_tasks() -> TaskStream {
    let of = |id, state| (JobId(1), task(id, state));
    stream(vec![
        Ok(vec![of(1, TaskState::Finished), of(2, TaskState::Running)]),
        Ok(Vec::new()),
        Ok(vec![of(3, TaskState::Failed), of(7, TaskState::Waiting)]),
    ])
}

struct GivenJobs(VecDeque<Result<Vec<JobDetail>, HqError>>);

impl JobPages for GivenJobs {
    fn next_page(&mut self) -> Result<Option<Vec<JobDetail>>, HqError> {
        self.0.pop_front().transpose()
    }

    fn skip(&mut self, _job: JobId) {}
}

fn job_stream(pages: Vec<Result<Vec<JobDetail>, HqError>>) -> JobStream {
    JobStream::begin(GivenJobs(pages.into())).expect("a first page")
}

fn details(job: JobDetail, tasks: Option<TaskStream>) -> JobDetails {
    JobDetails {
        jobs: job_stream(vec![Ok(vec![job])]),
        server_uid: "uid".into(),
        failed: Box::new(|_| Ok(vec![task(3, TaskState::Failed)])),
        tasks,
        now: at(100),
    }
}

fn tasks(verbose: bool) -> Tasks {
    Tasks { jobs: vec![JobId(1), JobId(2)], tasks: three_tasks(), verbose, now: at(100) }
}

fn pools() -> WorkerResources {
    let pool = |name: &str, kind| ResourcePool { name: name.into(), kind };
    let group = |labels: &[&str]| labels.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
    let coupling = hq_model::resources::parse_coupling("cpus[0]:gpus/nvidia[0]").expect("a coupling");
    let pools = vec![
        pool("cpus", PoolKind::Groups(vec![group(&["0", "1"]), group(&["2", "3"])])),
        pool("gpus/nvidia", PoolKind::Groups(vec![group(&["0", "GPU-1"])])),
        pool("mem", PoolKind::Sum(Amount::whole(64 * 1024))),
        pool("slots", PoolKind::Range { first: 1, last: 8 }),
        pool("x", PoolKind::Sum(Amount(25_000))),
    ];
    WorkerResources::new(pools, coupling).expect("resources")
}

pub(crate) fn worker(id: u32) -> WorkerInfo {
    let config = WorkerConfig {
        hostname: "node7".into(),
        work_dir: "/tmp/hq-worker".into(),
        time_limit: Some(Duration::from_secs(7200)),
        time_reserve: Duration::from_secs(30),
        min_utilization: 5_000,
        pid: 4711,
        object_store: Some(StoreConfig {
            dir: "/dev/shm/hq-objects-4711-0".into(),
            size: 64 << 30,
            spill: Some(SpillConfig { dir: "/scratch/hq-objects-4711-0".into(), size: 1 << 40 }),
        }),
        ..WorkerConfig::new(pools())
    };
    WorkerInfo {
        tasks_assigned: 5,
        tasks_running: 2,
        last_task: Some((TaskRef::new(JobId(3), TaskId(17)), at(50))),
        idle_timeout: Some(Duration::from_secs(300)),
        objects: ObjectsHeld { count: 3, bytes: 5 << 30 },
        spilled: ObjectsHeld { count: 1, bytes: 2 << 30 },
        ..WorkerInfo::new(WorkerId(id), config, at(0))
    }
}

fn lost_worker(id: u32) -> WorkerInfo {
    let mut lost = worker(id);
    lost.ended = Some((at(90), WorkerEnd::HeartbeatLost));
    lost.config.allocation = Some((Manager::Slurm, "12345".into()));
    lost
}

pub(crate) fn away_worker(id: u32) -> WorkerInfo {
    WorkerInfo { away_until: Some(at(120)), is_draining: true, ..worker(id) }
}

fn busy_worker(id: u32) -> WorkerInfo {
    let tasks = super::load::tests::history(at(3600)).nodes.tasks;
    let sample = Some((at(60), Box::new(super::sample::tests::busy_node())));
    WorkerInfo { sample, tasks: Some(tasks), ..worker(id) }
}

fn worker_details(workers: Vec<WorkerInfo>) -> WorkerDetails {
    let history = |worker: &WorkerInfo| match worker.tasks {
        Some(_) => super::load::tests::history(at(3600)),
        None => hq_core::load_history::LoadHistory::default(),
    };
    let histories = workers.iter().map(history).collect();
    WorkerDetails { workers, histories }
}

fn stopping_worker(id: u32) -> WorkerInfo {
    WorkerInfo { is_stopping: true, is_draining: true, ..worker(id) }
}

fn server() -> Server {
    Server {
        server_dir: "/home/user/.hq-server".into(),
        info: ServerInfo {
            uid: "a1B2c3".into(),
            epoch: Epoch(3),
            started: at(0),
            pid: 99,
            version: "0.1.0".into(),
            client_host: "login1".into(),
            client_port: 7001,
            worker_host: "login1".into(),
            worker_port: 7002,
            server_dir: b"/home/user/.hq-server/003".to_vec(),
            journal_trouble: None,
            clock_gap: None,
            internal_errors: 0,
            output_reads: 0,
            load_bytes: 3 << 20,
            relayed: Some(hq_core::client_messages::Relayed { transfers: 2, bytes: 5 << 20 }),
            stop_waits: None,
            journal: Some(b"/home/user/.hq-server/journal".to_vec()),
            limits: vec![
                ("frame".into(), LimitValue::Bytes(128 << 20)),
                ("clients".into(), LimitValue::Count(1000)),
                ("handshake time".into(), LimitValue::Time(Duration::from_millis(1_500))),
                ("jobs".into(), LimitValue::None),
                ("of another release".into(), LimitValue::Text("a few".into())),
            ],
        },
        rows: ServerRows::default(),
    }
}

fn waited() -> Waited {
    let jobs = vec![
        summary(1, "a", Counters { finished: 3, ..Counters::default() }),
        summary(2, "b", Counters { finished: 3, failed: 1, aborted: 2, ..Counters::default() }),
    ];
    Waited { jobs, duration: Duration::from_millis(2_034) }
}

macro_rules! snapshots {
    ($($name:ident: $report:expr;)*) => {
        $(#[test]
        fn $name() {
            let shown = format!(
                "cli:\n{}\njson:\n{}\nquiet:\n{}",
                show(&mut $report), json(&mut $report), quiet(&mut $report)
            );
            insta::assert_snapshot!(stringify!($name), shown);
        })*
    };
}

pub(crate) mod alloc;
mod bench;
mod explain;
mod failures;
mod narrow;
mod object;

snapshots! {
    nothing: Nothing;
    sentence: Sentence("The server is stopping".into());
    answer: Answer { name: "address", text: "node7".into() };
    server_info: server();
    server_started: Server { rows: ServerRows { directory: true, ..ServerRows::default() }, ..server() };
    server_with_everything: Server { rows: ServerRows { directory: true, inside: true, limits: true }, ..server() };
    server_with_internal_errors: {
        let mut server = server();
        server.info.internal_errors = 2;
        server
    };
    submitted: Submitted { job: JobId(7), together: Vec::new(), feeders: Vec::new(), broadcasts: Vec::new(), existing: 0, warnings: Vec::new() };
    submitted_before: Submitted { job: JobId(7), together: Vec::new(), feeders: Vec::new(), broadcasts: Vec::new(), existing: 3, warnings: Vec::new() };
    submitted_with_warnings: Submitted { job: JobId(7), together: Vec::new(), feeders: Vec::new(), broadcasts: Vec::new(), existing: 0, warnings: vec!["look".into()] };
    submitted_behind_a_broadcast: Submitted { job: JobId(7), together: Vec::new(), feeders: Vec::new(), broadcasts: vec![(JobId(6), "genome".parse().expect("a name"))], existing: 0, warnings: Vec::new() };
    submitted_together: Submitted {
        job: JobId(9),
        together: vec![(JobId(7), "chains".into()), (JobId(9), "lookup".into())],
        feeders: vec![
            Feeders { job: JobId(7), generator: JobId(5), reducer: Some(JobId(6)) },
            Feeders { job: JobId(9), generator: JobId(8), reducer: None },
        ],
        broadcasts: Vec::new(),
        existing: 0,
        warnings: Vec::new(),
    };
    submitted_with_generator: Submitted {
        job: JobId(3),
        together: Vec::new(),
        feeders: vec![Feeders { job: JobId(3), generator: JobId(1), reducer: Some(JobId(2)) }],
        broadcasts: Vec::new(),
        existing: 0,
        warnings: Vec::new(),
    };
    opened: Opened(Submitted { job: JobId(8), together: Vec::new(), feeders: Vec::new(), broadcasts: Vec::new(), existing: 0, warnings: Vec::new() });
    submit_waited: SubmitWaited {
        submitted: Submitted { job: JobId(7), together: Vec::new(), feeders: Vec::new(), broadcasts: Vec::new(), existing: 0, warnings: Vec::new() },
        waited: waited(),
    };
    wait: waited();
    wait_for_nothing: Waited { jobs: Vec::new(), duration: Duration::ZERO };
    run_ended: RunEnded {
        waited: Waited { jobs: waited().jobs.split_off(1), duration: Duration::from_millis(2_034) },
        outputs: vec![("Stdout", "/work/job-1/%{TASK_ID}.stdout".into())],
        failed: vec![task(3, TaskState::Failed)],
        failures: None,
    };
    job_list: Jobs { jobs: jobs(), verbose: false, total: 4 };
    job_list_verbose: Jobs { jobs: jobs(), verbose: true, total: 4 };
    job_list_empty: Jobs { jobs: Vec::new(), verbose: false, total: 1 };
    job_summary: JobCounts(vec![(JobState::Waiting, 2), (JobState::Failed, 1), (JobState::Opened, 1)]);
    job_summary_empty: JobCounts(Vec::new());
    job_info: details(detail(), Some(three_tasks()));
    job_cancel: Canceled { jobs: vec![(JobId(1), IdSet::range(1, 3), 2), (JobId(2), IdSet::new(), 5)], of_tasks: false, closed: IdSet::new(), open: IdSet::single(TaskId(2)), over: IdSet::new(), unknown: IdSet::new() };
    job_cancel_fed: Canceled { jobs: vec![(JobId(1), IdSet::single(TaskId(0)), 0), (JobId(3), IdSet::new(), 5)], of_tasks: false, closed: IdSet::single(TaskId(3)), open: IdSet::new(), over: IdSet::new(), unknown: IdSet::new() };
    job_cancel_tasks: Canceled { jobs: vec![(JobId(1), IdSet::range(1, 3), 2)], of_tasks: true, closed: IdSet::new(), open: IdSet::new(), over: IdSet::new(), unknown: IdSet::new() };
    job_cancel_open: Canceled { jobs: vec![(JobId(1), IdSet::new(), 2), (JobId(2), IdSet::new(), 5)], of_tasks: false, closed: IdSet::new(), open: IdSet::range(1, 2), over: IdSet::new(), unknown: IdSet::new() };
    job_cancel_many: Canceled { jobs: (1..=5).map(|job| (JobId(job), if job == 2 { IdSet::range(1, 2) } else { IdSet::new() }, 4)).collect(), of_tasks: false, closed: IdSet::new(), open: IdSet::single(TaskId(2)), over: IdSet::new(), unknown: IdSet::new() };
    job_cancel_over: Canceled { jobs: vec![(JobId(1), IdSet::new(), 1), (JobId(2), IdSet::new(), 0)], of_tasks: false, closed: IdSet::new(), open: IdSet::new(), over: IdSet::single(TaskId(1)), unknown: IdSet::range(7, 9) };
    job_close: JobsDone { jobs: vec![JobId(1), JobId(2)], done: "closed" };
    job_close_nothing: JobsDone { jobs: Vec::new(), done: "closed" };
    job_forget: JobsForgotten { forgotten: IdSet::single(TaskId(21)), ignored: 0 };
    job_forget_many: JobsForgotten { forgotten: [4, 5, 9].into_iter().map(TaskId).collect(), ignored: 2 };
    task_ids: TaskIds { jobs: vec![(JobId(1), IdSet::range(3, 5))], are_several: false };
    task_ids_of_several: TaskIds {
        jobs: vec![(JobId(1), IdSet::range(3, 5)), (JobId(2), IdSet::new())],
        are_several: true,
    };
    task_ids_of_those_that_are_there: TaskIds { jobs: vec![(JobId(1), IdSet::range(3, 5))], are_several: true };
    task_list: tasks(false);
    task_list_verbose: tasks(true);
    task_info: TaskDetails {
        job: JobId(1),
        tasks: stream(vec![Ok(vec![
            (JobId(1), task(3, TaskState::Failed)),
            (JobId(1), TaskInfo { entry: Some("a\tb ".repeat(60).into()), ..task(7, TaskState::Waiting) }),
        ])]),
        left: None,
        now: at(100),
    };
    worker_list: Workers(vec![worker(1), lost_worker(2), away_worker(3), stopping_worker(4)]);
    worker_info: worker_details(vec![worker(1), lost_worker(2), away_worker(3), stopping_worker(4), busy_worker(5)]);
    worker_stop: WorkersStopped { workers: vec![WorkerId(1), WorkerId(2)], away: vec![WorkerId(2)], stopping: vec![], drain: false, alone: vec!["1@0:parts".parse().expect("an object")], alone_count: 1, relays: vec![WorkerId(3)] };
    worker_stop_many: WorkersStopped { workers: (1..=1000).map(WorkerId).collect(), away: vec![WorkerId(2), WorkerId(7)], stopping: vec![WorkerId(500)], drain: false, alone: vec![], alone_count: 0, relays: vec![] };
    worker_drain: WorkersStopped { workers: vec![WorkerId(1), WorkerId(2)], away: vec![], stopping: vec![WorkerId(2)], drain: true, alone: vec!["1@0:parts".parse().expect("an object")], alone_count: 3, relays: vec![] };
    hardware: Hardware(Detected { resources: pools(), notes: vec!["a limit".into()] });
}

#[test]
fn ids_with_many_gaps_are_told_in_short() {
    let mut job = detail();
    job.submits[0].ids = "1-100000:2".parse().expect("ids");
    let shown = show(&mut details(job, None));
    assert!(shown.contains("Ids: 1,3,5,7,") && shown.contains(",39 and 49980 more "), "{shown}");
}

#[test]
fn several_submits_show_what_differs() {
    let mut job = detail();
    let mut other = spec();
    other.priority = 1;
    job.submits.push(SubmitInfo {
        index: 1,
        ids: IdSet::range(10, 12),
        spec: Arc::new(other),
        ..job.submits[0].clone()
    });
    let shown = show(&mut details(job, None));
    assert!(shown.contains("| Priority               | 1-3: -5"), "{shown}");
    assert!(shown.contains("|                        | 10-12: 1"), "{shown}");
    assert_eq!(shown.matches("./score.sh").count(), 1, "what they share is shown once: {shown}");
}

#[test]
fn a_list_that_breaks_is_an_error() {
    let lost = || HqError::failed("server-lost", "The server was lost");
    let broken = || stream(vec![Ok(vec![(JobId(1), task(1, TaskState::Finished))]), Err(lost())]);
    let list = || Tasks { tasks: broken(), ..tasks(false) };
    let mut out = Vec::new();
    assert_eq!(list().cli(&mut out, Style::default()).expect_err("lost").code, "server-lost");
    assert_eq!(list().json(&mut out).expect_err("lost").code, "server-lost");
    let mut info = details(detail(), Some(broken()));
    assert_eq!(info.json(&mut out).expect_err("lost").code, "server-lost");
    let broken = || job_stream(vec![Ok(vec![detail()]), Err(lost())]);
    let info = || JobDetails { jobs: broken(), ..details(detail(), Some(three_tasks())) };
    assert_eq!(info().cli(&mut out, Style::default()).expect_err("lost").code, "server-lost");
    assert_eq!(info().json(&mut out).expect_err("lost").code, "server-lost");
}

#[test]
fn of_many_submits_some_are_shown() {
    let submit = |index: u32| {
        let spec = TaskSpec { body: Body::program([format!("part-{index}")]), ..spec() };
        let one = detail().submits.remove(0);
        SubmitInfo { index, ids: IdSet::range(index, index), spec: Arc::new(spec), ..one }
    };
    let page = |submits: Vec<SubmitInfo>| Ok(vec![JobDetail { submits, ..detail() }]);
    let pages = vec![page((0..30).map(submit).collect()), page((30..100).map(submit).collect())];
    let mut report = JobDetails { jobs: job_stream(pages), ..details(detail(), None) };
    let shown = show(&mut report);
    assert!(shown.contains("| Command                | 0: part-0"), "{shown}");
    assert!(shown.contains("| … and 90 more submits"), "{shown}");
    assert!(shown.contains("Ids: 0-99"), "{shown}");
    assert_eq!(shown.matches("part-").count(), 10, "{shown}");
}

#[test]
fn errors() {
    let error = HqError::failed("no-job", "Job 7 not found.").hint("look");
    let (mut cli, mut json) = (Vec::new(), Vec::new());
    super::error::cli(&mut cli, &error).expect("memory");
    super::error::json(&mut json, &error).expect("memory");
    insta::assert_snapshot!(format!("{}{}", String::from_utf8_lossy(&cli), String::from_utf8_lossy(&json)));
}

#[test]
fn colors_are_only_where_they_are_wanted() {
    let style = Style { has_colors: true, ..Style::default() };
    let mut out = Vec::new();
    Jobs { jobs: jobs(), verbose: false, total: 4 }.cli(&mut out, style).expect("memory");
    assert!(String::from_utf8(out).expect("text").contains("\x1b[33mRUNNING\x1b[0m"));
    assert!(!show(&mut Jobs { jobs: jobs(), verbose: false, total: 4 }).contains('\x1b'));
}

#[test]
fn help_texts() {
    let mut root = crate::cli::Cli::command().term_width(100);
    root.build();
    let mut all = String::new();
    help(&mut root, &mut all);
    insta::assert_snapshot!(all);
}

fn help(command: &mut clap::Command, all: &mut String) {
    if !command.is_hide_set() && command.get_name() != "help" {
        let text = command.render_help();
        all.push_str(&format!("=== {}\n{text}\n", command.get_bin_name().unwrap_or("hq")));
    }
    for sub in command.get_subcommands_mut() {
        help(sub, all);
    }
}

#[test]
fn the_tree_of_commands_is_sound() {
    crate::cli::Cli::command().debug_assert();
}
