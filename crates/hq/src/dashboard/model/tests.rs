//! An example of everything that the dashboard shows, and what keys and answers change.

use std::time::Duration;

use hq_core::alloc::messages::{AllocResponse, DemandLine, QueueExplanation, QueueStatus};
use hq_core::cause::{FailureCause, JobFailures};
use hq_core::client_messages::{ClientResponse, JobSummary, Overview};
use hq_core::explanation::{Reason, ReasonKind, TaskExplanation};
use hq_core::job_shape::{Bar, JobShape, Layer, SlowTask, Timeline};
use hq_core::load_history::LoadHistory;
use hq_core::output_messages::{Output, OutputState};
use hq_core::overview::{Ended, ResourceUse, WorkerCounts};
use hq_core::record::FailureKind;
use hq_model::allocation::AllocationState;
use hq_model::job::Counters;
use hq_model::{
    Amount, Channel, Epoch, Instance, JobId, JobState, TaskId, TaskRef, TaskState, Timestamp, WorkerId,
};

use super::super::wants::{Action, Want};
use super::{Key, Link, Mode, Model, Order, Screen};
use crate::render::tests::alloc::{allocation, queue};
use crate::render::tests::{at, away_worker, detail, task, worker};

/// Counts of a campaign, so many seconds after its begin.
pub(crate) fn overview(seconds: u64) -> Overview {
    let resource = |name: &str, taken, offered| ResourceUse {
        name: name.into(),
        offered: Amount::whole(offered),
        taken: Amount::whole(taken),
    };
    let finished = seconds * 1200;
    Overview {
        change: seconds,
        now: at(seconds),
        started: at(0),
        epoch: Epoch(1),
        uid: "a1B2c3".into(),
        version: "0.1.0".into(),
        jobs: JobState::ALL.into_iter().zip([0, 1, 2, 5, 1, 0, 1]).collect(),
        tasks: Counters {
            waiting: 1_000_000 - finished - 4096,
            running: 4096,
            finished,
            failed: 17,
            ..Counters::default()
        },
        ready: 870_000,
        ended: Ended { finished, failed: 17, restarted: 3, ..Ended::default() },
        workers: WorkerCounts { active: 32, closed: 1, away: 1, idle: 2 },
        resources: vec![
            resource("cpus", 3_968, 4_096),
            resource("gpus/nvidia", 96, 128),
            resource("mem", 8_000_000, 16_777_216),
        ],
        nodes: crate::render::load::tests::history(at(3600)).nodes,
        ..Overview::default()
    }
}

fn job(id: u32, name: &str, counters: Counters) -> JobSummary {
    let name = name.into();
    JobSummary {
        job: JobId(id),
        name,
        is_open: false,
        counters,
        cancel_reason: None,
        unrunnable: 0,
        fed_end: Default::default(),
        stalled: None,
    }
}

fn jobs() -> Vec<JobSummary> {
    let c = Counters::default();
    vec![
        job(1, "prepare", Counters { finished: 100, ..c }),
        job(2, "dock", Counters { finished: 119_983, failed: 17, running: 4_096, waiting: 875_904, ..c }),
        job(3, "evil \u{1b}[31m\u{202e}name\nof two lines", Counters { failed: 3, ..c }),
        job(4, "collect", Counters { waiting: 1, ..c }),
        job(5, "stopped", Counters { finished: 20, canceled: 80, ..c }),
    ]
}

fn cause(text: &str, count: u64, first: u32) -> (FailureCause, Instance) {
    let cause = FailureCause {
        kind: FailureKind::Exit(1),
        text: text.into(),
        count,
        workers: [WorkerId(4)].into(),
        first: TaskId(first),
        first_worker: Some(WorkerId(4)),
        first_error: text.into(),
    };
    (cause, Instance(0))
}

/// A model that knows a campaign.
pub(crate) fn campaign() -> Model {
    let mut model = Model::new(Link::Connecting);
    for second in 0..100 {
        model.hear_overview(second * 1000, overview(second));
    }
    model
}

// A graph of three layers, and how it went in 99 s.
fn shape(job: JobId) -> JobShape {
    let c = Counters::default();
    let layer = |number, task, counters| Layer { first: number, last: number, task: TaskId(task), counters };
    let layers = vec![
        layer(1, 1, Counters { finished: 100_000, failed: 2, ..c }),
        layer(2, 100_003, Counters { finished: 19_983, failed: 15, running: 4_096, waiting: 775_903, ..c }),
        layer(3, 900_000, Counters { waiting: 100_001, ..c }),
    ];
    let bar = |second: u64| Bar {
        running_milli: 4_096_000 * (second + 1).min(20) / 20,
        ended: 1_200,
        failed: u32::from(second.is_multiple_of(30)),
    };
    let timeline = Timeline {
        from: at(0),
        step: Duration::from_secs(1),
        bars: (0..99).map(bar).collect(),
        attempts: 120_000,
        is_complete: true,
    };
    let slow = |task, seconds, state| SlowTask {
        task: TaskId(task),
        took: Duration::from_secs(seconds),
        worker: Some(WorkerId(2)),
        state,
    };
    let slowest = vec![
        slow(119_001, 61, TaskState::Finished),
        slow(7, 48, TaskState::Failed),
        slow(11, 12, TaskState::Canceled),
    ];
    JobShape { job, now: at(99), depth: 3, layers, timeline, slowest }
}

/// What a server that knows the example answers.
pub(crate) fn answer(want: Want) -> ClientResponse {
    match want {
        Want::Jobs => ClientResponse::JobList(jobs()),
        Want::Job(id) => {
            let mut detail = detail();
            detail.ended = None;
            detail.summary = jobs().into_iter().find(|job| job.job == id).expect("a job of the example");
            ClientResponse::JobDetails { jobs: vec![detail], next: None, now: None }
        }
        Want::Failures(job) => {
            let causes = vec![
                cause("Program terminated with exit code 1.", 15, 55),
                cause("killed: out of memory", 2, 78),
            ];
            let failures = JobFailures {
                job,
                tasks: 1_000_000,
                failed: 17,
                causes,
                aborted: None,
                first_stderr: Vec::new(),
                stopped: None,
            };
            ClientResponse::Failures { jobs: vec![failures], next: None }
        }
        Want::Shape(job) => ClientResponse::JobShape(Box::new(shape(job))),
        Want::Tasks(job) => {
            let states = [TaskState::Running, TaskState::Failed, TaskState::Finished, TaskState::Waiting];
            let tasks = (1..=40).map(|id| (job, task(id, states[id as usize % 4])));
            let next = Some(TaskRef::new(job, TaskId(40)));
            ClientResponse::Tasks { tasks: tasks.collect(), groups: Vec::new(), next, now: None }
        }
        Want::Running(job) => {
            let tasks = [4, 8, 12, 16].map(|id| (job, task(id, TaskState::Running)));
            ClientResponse::Tasks { tasks: tasks.into(), groups: Vec::new(), next: None, now: None }
        }
        Want::Task(wanted) => {
            let states = [TaskState::Running, TaskState::Failed, TaskState::Finished, TaskState::Waiting];
            let info = task(wanted.task.0, states[wanted.task.0 as usize % 4]);
            let tasks = vec![(wanted.job, info)];
            ClientResponse::Tasks { tasks, groups: Vec::new(), next: None, now: None }
        }
        Want::Output(..) => ClientResponse::Output(Output {
            instance: Instance(0),
            offset: 0,
            length: 60,
            bytes: b"reading ligand 17\n\x1b[2Jscore\t-7.3\n".to_vec(),
            state: OutputState::More,
        }),
        Want::Reasons(task) => {
            let text = "All CPUs are busy; the first task of those that run ends in 3 minutes or so.";
            let reasons = vec![Reason::new(ReasonKind::Busy, text)];
            ClientResponse::Explained(Box::new(TaskExplanation {
                task,
                state: TaskState::Waiting,
                dependencies: 0,
                unresolved: 0,
                reasons,
                workers: Vec::new(),
            }))
        }
        Want::Workers => ClientResponse::Workers(vec![
            taken(worker(1), &[4, 1, 60_000, 3, 0]),
            taken(worker(2), &[1, 0, 100, 0, 0]),
            away_worker(7),
        ]),
        Want::OnWorker(_) => {
            let on = |id, state| (JobId(2), task(id, state));
            let tasks = [(4, TaskState::Running), (8, TaskState::Running), (11, TaskState::Waiting)];
            let tasks = tasks.map(|(id, state)| on(id, state)).into();
            ClientResponse::Tasks { tasks, groups: Vec::new(), next: None, now: None }
        }
        Want::Load(worker) => {
            let history = crate::render::load::tests::history(at(3600));
            ClientResponse::Load(Box::new(LoadHistory { worker, ..history }))
        }
        Want::Queues => ClientResponse::Alloc(AllocResponse::Queues(vec![
            queue(1, QueueStatus::Active),
            queue(2, QueueStatus::Paused(at(5), "3 submissions in a row were refused".into())),
        ])),
        Want::Queue(id) => {
            let states = [AllocationState::Finished, AllocationState::Running, AllocationState::Queued];
            let allocations = (2..).zip(states).map(|(number, state)| allocation(number, state)).collect();
            ClientResponse::Alloc(AllocResponse::Details {
                queue: Box::new(queue(id.0, QueueStatus::Active)),
                allocations,
            })
        }
        Want::Explanation(id) => {
            let demand = DemandLine {
                request: "cpus: 1".into(),
                priority: 0,
                waiting: 875_904,
                coming: 64,
                new: 0,
                elsewhere: 0,
                why_not: Some("The queue has 2 allocations waiting, as many as --backlog allows.".into()),
            };
            ClientResponse::Alloc(AllocResponse::Explained(Box::new(QueueExplanation {
                queue: queue(id.0, QueueStatus::Active),
                next: "It asks for nothing now.".into(),
                facts: vec!["At most 20 workers; 8 are there or were asked for.".into()],
                demand: vec![demand],
                decisions: Vec::new(),
            })))
        }
    }
}

fn taken(
    mut worker: hq_core::client_messages::WorkerInfo,
    amounts: &[u64],
) -> hq_core::client_messages::WorkerInfo {
    worker.taken = amounts.iter().map(|amount| Amount::whole(*amount)).collect();
    worker
}

/// Answers everything that the model wants to know at this time, until it wants nothing more.
pub(crate) fn settle(model: &mut Model, now_ms: u64) -> Vec<Want> {
    let mut all = Vec::new();
    loop {
        let due = model.due(now_ms);
        if due.is_empty() {
            return all;
        }
        for want in due {
            model.hear(now_ms, want, Ok(answer(want)));
            all.push(want);
        }
    }
}

/// Presses keys.
pub(crate) fn press(model: &mut Model, keys: &[Key]) -> Vec<Order> {
    keys.iter().filter_map(|key| model.key(*key)).collect()
}

const DOCK: JobId = JobId(2);

#[test]
fn screens_are_opened_and_left() {
    let mut model = campaign();
    press(&mut model, &[Key::Char('2')]);
    settle(&mut model, 0);
    // The latest first: 5 4 3 2 1.
    press(&mut model, &[Key::Down, Key::Down, Key::Down, Key::Enter]);
    assert_eq!(model.screen(), Screen::Job(DOCK));
    settle(&mut model, 0);
    press(&mut model, &[Key::End, Key::Enter]);
    assert_eq!(model.screen(), Screen::Task(TaskRef::new(DOCK, TaskId(40))));
    press(&mut model, &[Key::Escape]);
    assert_eq!(model.screen(), Screen::Job(DOCK));
    press(&mut model, &[Key::Escape]);
    assert_eq!((model.screen(), model.line()), (Screen::Jobs, 3), "the line is where it was");
    press(&mut model, &[Key::Escape]);
    assert_eq!(model.screen(), Screen::Overview);
    assert_eq!(press(&mut model, &[Key::Char('q')]), [Order::Quit]);
}

#[test]
fn nothing_is_asked_twice_before_it_is_answered_and_nothing_while_nothing_changes() {
    let mut model = campaign();
    assert_eq!(model.due(0), [Want::Load(None)], "the overview asks for nothing else");
    model.hear(0, Want::Load(None), Ok(answer(Want::Load(None))));
    press(&mut model, &[Key::Char('2')]);
    assert_eq!(model.due(0), [Want::Jobs]);
    assert_eq!(model.due(60_000), []);
    assert_eq!(model.waits_ms(60_000), 60_000);
    model.hear(60_000, Want::Jobs, Ok(answer(Want::Jobs)));
    assert_eq!(model.due(120_000), [], "nothing has changed");
    model.hear_overview(120_000, overview(120));
    assert_eq!(model.due(120_000), [Want::Jobs]);
    model.hear(120_000, Want::Jobs, Ok(answer(Want::Jobs)));
    model.hear_overview(120_500, overview(121));
    assert_eq!(model.due(120_500), [], "not so soon");
    assert_eq!(model.due(121_000), [Want::Jobs]);
}

#[test]
fn what_a_task_prints_is_asked_again_while_it_runs() {
    let mut model = campaign();
    model.screens.push(Screen::Task(TaskRef::new(DOCK, TaskId(4))));
    let output = Want::Output(TaskRef::new(DOCK, TaskId(4)), Channel::Stdout);
    assert!(settle(&mut model, 0).contains(&output));
    assert_eq!(model.due(1_000), [output]);
    model.hear(1_000, output, Ok(answer(output)));
    press(&mut model, &[Key::Char('e')]);
    assert_eq!(model.due(1_000), [Want::Output(TaskRef::new(DOCK, TaskId(4)), Channel::Stderr)]);
}

#[test]
fn what_changes_something_is_asked_before() {
    for (keys, action) in [
        (&[Key::Char('2')][..], Action::Cancel(JobId(5))),
        (&[Key::Char('2'), Key::Down], Action::Cancel(JobId(4))),
    ] {
        let mut model = campaign();
        press(&mut model, keys);
        settle(&mut model, 0);
        press(&mut model, &keys[1..]);
        assert_eq!(press(&mut model, &[Key::Char('c')]), []);
        assert_eq!(model.mode, Mode::Confirm(action));
        assert_eq!(press(&mut model, &[Key::Enter]), [], "not by the key that opens");
        assert_eq!(press(&mut model, &[Key::Char('n'), Key::Char('y')]), []);
        assert_eq!(press(&mut model, &[Key::Char('c'), Key::Char('y')]), [Order::Act(action)]);
    }
    let mut model = campaign();
    press(&mut model, &[Key::Char('3')]);
    settle(&mut model, 0);
    assert_eq!(
        press(&mut model, &[Key::Char('d'), Key::Char('y')]),
        [Order::Act(Action::Drain(WorkerId(1)))]
    );
    press(&mut model, &[Key::Char('4')]);
    settle(&mut model, 0);
    let orders =
        press(&mut model, &[Key::Char('p'), Key::Char('y'), Key::Down, Key::Char('p'), Key::Char('y')]);
    let queue = hq_model::QueueId;
    assert_eq!(orders, [Order::Act(Action::Pause(queue(1))), Order::Act(Action::Resume(queue(2)))]);
    model.is_read_only = true;
    assert_eq!(press(&mut model, &[Key::Char('p'), Key::Char('y')]), [], "the past cannot be changed");
}

#[test]
fn jobs_are_sorted_filtered_and_searched_and_the_chosen_one_stays() {
    let mut model = campaign();
    press(&mut model, &[Key::Char('2')]);
    settle(&mut model, 0);
    let order = |model: &Model| model.jobs.iter().map(|job| job.job.0).collect::<Vec<_>>();
    assert_eq!(order(&model), [5, 4, 3, 2, 1]);
    let mut orders = Vec::new();
    for _ in 0..4 {
        press(&mut model, &[Key::Char('s')]);
        orders.push(order(&model));
    }
    assert_eq!(orders, [[4, 2, 3, 1, 5], [2, 4, 5, 3, 1], [2, 3, 5, 4, 1], [5, 4, 3, 2, 1]]);
    press(&mut model, &[Key::Down]);
    let mut more = jobs();
    more.push(job(6, "new", Counters { waiting: 1, ..Counters::default() }));
    model.hear_overview(1_000, overview(100));
    assert_eq!(model.due(1_000), [Want::Jobs]);
    model.hear(1_000, Want::Jobs, Ok(ClientResponse::JobList(more)));
    assert_eq!(model.jobs[model.line()].job, JobId(4));
    press(
        &mut model,
        &[Key::Char('/'), Key::Char('d'), Key::Char('o'), Key::Char('q'), Key::Backspace, Key::Enter],
    );
    assert_eq!((model.search.as_str(), &model.mode), ("do", &Mode::Choose));
    assert_eq!(model.due(1_000), [Want::Jobs], "a search is asked at once");
    press(&mut model, &[Key::Char('f')]);
    assert_eq!(model.states, [JobState::Running, JobState::Waiting, JobState::Opened]);
}

#[test]
fn a_server_that_is_lost_and_comes_back_is_asked_anew() {
    let mut model = campaign();
    press(&mut model, &[Key::Char('2')]);
    assert_eq!(model.due(0), [Want::Jobs]);
    model.hear_lost(1_000, "connection refused".into());
    model.hear_lost(5_000, "connection refused".into());
    assert_eq!(model.link, Link::Lost("connection refused".into(), 1_000), "since it was lost first");
    let restarted = Overview { epoch: Epoch(2), ended: Ended::default(), ..overview(200) };
    model.hear_overview(6_000, restarted);
    assert_eq!(model.link, Link::Live);
    assert!(model.message.as_ref().is_some_and(|(text, _)| text.contains("restarted")));
    // The answer of the time before is none.
    model.hear(6_000, Want::Jobs, Ok(answer(Want::Jobs)));
    assert!(model.jobs.is_empty());
    assert_eq!(model.due(6_000), [Want::Jobs]);
}

#[test]
fn a_clock_that_is_wrong_here_changes_no_times() {
    let model = campaign();
    assert_eq!(model.time(99_000), at(99));
    assert_eq!(model.time(101_500), Timestamp(at(99).0 + 2_500_000));
}
