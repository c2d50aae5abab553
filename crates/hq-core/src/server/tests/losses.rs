//! Tasks that are lost with their workers: what counts, and what must never run twice.

use hq_model::NodeSample;

use super::*;
use crate::record::Record;

fn never(spec: &mut TaskSpec) {
    spec.crash_limit = CrashLimit::NeverRestart;
}

pub(super) fn task(world: &mut World, job: JobId, task: u32) -> crate::client_messages::TaskInfo {
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    let request = ClientRequest::ListTasks {
        jobs,
        tasks: Some(IdSet::single(TaskId(task))),
        states: Vec::new(),
        after: None,
        limit: 1,
        grouped: false,
        with_entries: false,
    };
    match world.ask(request) {
        ClientResponse::Tasks { mut tasks, .. } => tasks.remove(0).1,
        other => panic!("{other:?}"),
    }
}

pub(super) fn lose(world: &mut World, connection: u64) {
    world.step(Input::WorkerGone { connection: ConnectionId(connection), is_closed: false });
    world.wait(Duration::from_secs(31));
}

#[test]
fn a_worker_that_comes_back_hears_which_of_its_tasks_were_tried_elsewhere() {
    let mut world = World::new();
    let job = world.submit(2, |_| {});
    world.worker(2, 2);
    world.reports(2, |r| r.started = vec![started(job, 0, 0), started(job, 1, 0)]);
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    world.ask(ClientRequest::Cancel { jobs, tasks: Some(IdSet::single(TaskId(1))), reason: None });
    world.wait(Duration::from_secs(31));
    world.worker(3, 1);
    assert_eq!(world.sent(3), "1:0/1");
    let held = crate::worker_messages::Held {
        template: crate::worker_messages::TemplateId { job, submit: 0 },
        variant: None,
        instance: Instance(0),
        queued: IdSet::new(),
        running: IdSet::range(0, 1),
        started: vec![Timestamp(9), Timestamp(9)],
    };
    world.to_workers.clear();
    world.worker_saying(4, 2, |hello| {
        hello.known_as = Some(hq_model::WorkerId(1));
        hello.holds = vec![held];
    });
    let canceled = world.to_workers.drain(..).filter_map(|(_, message)| match message {
        ToWorker::Cancel { ids, are_elsewhere, .. } => Some((ids.to_string(), are_elsewhere)),
        _ => None,
    });
    assert_eq!(canceled.collect::<Vec<_>>(), [("1".to_owned(), false), ("0".to_owned(), true)]);
}

fn ran(why: &str) -> String {
    format!(
        "Task was running on a lost worker while never restart flag was set. It was worker 1 (node): {why}."
    )
}

fn may_have_run(worker: u32, why: &str) -> String {
    format!(
        "Task may have been running on a lost worker while never restart flag was set. It was worker {worker} \
         (node): {why}."
    )
}

const LOST: &str = "its connection was lost, and it did not come back in time";

#[test]
fn what_must_never_run_twice_fails_however_its_worker_ends() {
    for (end, why) in [
        (WorkerEnd::Stopped, "it was stopped"),
        (WorkerEnd::Interrupted, "it was asked to end"),
        (WorkerEnd::TimeLimit, "it came to its time limit"),
    ] {
        let mut world = World::new();
        let job = world.submit(2, never);
        let limit = (end == WorkerEnd::TimeLimit).then_some(Duration::from_secs(9));
        world.worker_saying(2, 1, |hello| hello.config.time_limit = limit);
        assert_eq!(world.sent(2), "1:0/0", "no backlog of what fails when nobody knows whether it ran");
        world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
        match end {
            WorkerEnd::Stopped => {
                world.ask(ClientRequest::StopWorkers { workers: Selector::All, drain: false });
            }
            WorkerEnd::TimeLimit => world.wait(Duration::from_secs(9)),
            _ => {}
        }
        world.reports(2, |r| {
            r.is_leaving = true;
            r.interrupted = vec![(job, IdSet::range(0, 0))];
        });
        world.says(2, FromWorker::Leaving { end });
        assert_eq!(world.states(job), "waiting: 1 waiting, 1 failed");
        let info = task(&mut world, job, 0);
        assert_eq!((info.error, info.crashes), (Some(ran(why)), 0), "{end:?}");
    }
}

#[test]
fn what_must_never_run_twice_fails_with_its_launcher_or_its_lost_worker() {
    for (end, error) in [(Some(WorkerEnd::LauncherLost), ran("it lost its launcher")), (None, ran(LOST))] {
        let mut world = World::new();
        let job = world.submit(1, never);
        world.worker(2, 1);
        world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
        match end {
            Some(end) => world.says(2, FromWorker::Leaving { end }),
            None => lose(&mut world, 2),
        }
        assert_eq!(task(&mut world, job, 0).error, Some(error));
    }
}

#[test]
fn what_was_not_heard_of_since_it_was_handed_over_may_have_run() {
    let mut world = World::new();
    let job = world.submit(1, never);
    world.worker(2, 1);
    assert_eq!(world.sent(2), "1:0/0");
    lose(&mut world, 2);
    assert_eq!(task(&mut world, job, 0).error, Some(may_have_run(1, LOST)));
}

#[test]
fn a_server_that_was_restarted_does_not_run_it_again_when_its_worker_stays_away() {
    let mut world = World::new();
    let job = world.submit(1, never);
    world.worker(2, 1);
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    world.restart();
    world.wait(Duration::from_secs(31));
    assert_eq!(task(&mut world, job, 0).error, Some(may_have_run(1, LOST)));
}

#[test]
fn what_certainly_did_not_start_goes_elsewhere() {
    // Given back.
    let mut world = World::new();
    let job = world.submit(1, never);
    world.worker(2, 1);
    world.reports(2, |r| r.returned = vec![(job, IdSet::range(0, 0))]);
    assert_eq!(world.states(job), "waiting: 1 waiting");
    // On the way when the worker said that it leaves: what it had started it would have said before.
    let mut world = World::new();
    let job = world.submit(1, never);
    world.worker(2, 1);
    world.says(2, FromWorker::Leaving { end: WorkerEnd::IdleTimeout });
    assert_eq!(world.states(job), "waiting: 1 waiting");
    // Not among what a worker has that came back.
    let mut world = World::new();
    let job = world.submit(1, never);
    world.worker(2, 1);
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    world.worker_saying(3, 1, |hello| hello.known_as = Some(hq_model::WorkerId(1)));
    assert_eq!(world.sent(3), "1:0/1");
    assert_eq!(world.states(job), "waiting: 1 waiting");
}

#[test]
fn a_lease_of_what_must_never_run_twice_is_on_disk_before_it_leaves() {
    for (limit, gate) in [(CrashLimit::NeverRestart, Gate::Synced), (CrashLimit::Times(1), Gate::Written)] {
        let mut world = World::new();
        world.submit(1, |spec| spec.crash_limit = limit);
        let hello = WorkerHello {
            config: config(1),
            started: world.now,
            age: None,
            known_as: None,
            secret: None,
            holds: Vec::new(),
            last_report: 0,
            follows: true,
            follows_calls: false,
            shows: true,
            stores: true,
            relays: false,
            objects: Vec::new(),
        };
        let (mut effects, connection) = (Vec::new(), ConnectionId(2));
        let message = FromWorker::Hello(Box::new(hello));
        world.server.handle(world.now, Input::Worker { connection, message }, &mut effects);
        world.server.settle(world.now, &mut effects);
        let run = effects.iter().find_map(|effect| match effect {
            Effect::ToWorker { message: ToWorker::Run(_), gate, .. } => Some(*gate),
            _ => None,
        });
        assert_eq!(run, Some(gate), "{limit}");
    }
}

#[test]
fn a_chain_that_must_never_run_twice_is_handed_out_link_by_link() {
    for (limit, sent) in [(CrashLimit::NeverRestart, "1:0/0"), (CrashLimit::Times(1), "1:0/0 1:1/0 after 0")]
    {
        let mut world = World::new();
        world.worker_saying(2, 1, |hello| hello.follows = true);
        let edges = hq_model::dependency::Edges::new([vec![], vec![TaskId(0)]]).expect("few");
        let dependencies = hq_model::Dependencies { edges, ..Default::default() };
        let spec = TaskSpec { crash_limit: limit, ..one_cpu() };
        world.submits(Submit {
            dependencies: dependencies.into(),
            ..Submit::new(Target::New(JobSpec::default()), TaskIds::Next(2), spec)
        });
        assert_eq!(world.sent(2), sent);
    }
}

#[test]
fn a_task_over_its_crash_limit_names_its_last_worker() {
    for (silent, why) in [(false, LOST), (true, "it was silent for too long")] {
        let mut world = World::new();
        let job = world.submit(1, |spec| spec.crash_limit = CrashLimit::Times(1));
        world.worker(2, 1);
        world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
        if silent {
            world.wait(Duration::from_secs(7201));
        } else {
            lose(&mut world, 2);
        }
        let error = format!(
            "Task was running on a worker that was lost; the task has occurred 1 times in this situation and limit \
             was reached. The last one was worker 1 (node): {why}."
        );
        assert_eq!(task(&mut world, job, 0).error, Some(error));
    }
}

#[test]
fn the_crash_that_ends_a_task_is_counted() {
    let mut world = World::new();
    let limits = [CrashLimit::Times(1), CrashLimit::NeverRestart];
    let jobs = limits.map(|limit| world.submit(1, |spec| spec.crash_limit = limit));
    world.worker(2, 2);
    world.reports(2, |r| r.started = jobs.map(|job| started(job, 0, 0)).to_vec());
    lose(&mut world, 2);
    for job in jobs {
        assert_eq!(world.states(job), "failed: 1 failed");
        assert_eq!(task(&mut world, job, 0).crashes, 1);
    }
    world.restart();
    assert_eq!(task(&mut world, jobs[0], 0).crashes, 1);
}

#[test]
fn a_task_with_ranks_on_several_nodes_fails_when_a_part_of_it_is_lost() {
    for end in [WorkerEnd::Stopped, WorkerEnd::ConnectionLost] {
        let mut world = World::new();
        world.worker(2, 1);
        world.worker(3, 1);
        let job = world.submit(1, |spec| {
            never(spec);
            spec.requests = vec![Request { nodes: 2, ranks: 1, exclusive: true, ..cpus(1) }];
        });
        // The start is not heard of: the first worker may have begun.
        let why = match end {
            WorkerEnd::Stopped => {
                world.reports(3, |r| r.returned = vec![(job, IdSet::range(0, 0))]);
                "it does not have the task any more"
            }
            _ => {
                lose(&mut world, 3);
                LOST
            }
        };
        assert_eq!(task(&mut world, job, 0).error, Some(may_have_run(2, why)), "{end:?}");
    }
}

#[test]
fn an_open_job_that_is_canceled_stays_open() {
    let mut world = World::new();
    let spec = JobSpec { name: "open".into(), ..JobSpec::default() };
    world.ask(ClientRequest::OpenJob { key: 77, spec });
    let cancel = |reason: &str| ClientRequest::Cancel {
        jobs: Selector::Last,
        tasks: None,
        reason: Some(reason.to_owned()),
    };
    let count = |world: &World| world.server.state().jobs[&JobId(1)].canceled.len();
    for round in 0..2 {
        world.ask(cancel("of nothing"));
        world.submits(Submit::new(Target::Open(JobId(1)), TaskIds::Next(2), one_cpu()));
        world.ask(cancel(&format!("round {round}")));
        assert_eq!(count(&world), 2 * (round + 1));
    }
    let job = &world.server.state().jobs[&JobId(1)];
    assert_eq!((job.is_open, job.cancel_reason.as_deref()), (true, Some("round 1")));
    // Whoever waits for its tasks waits no longer; whoever waits for its end does.
    let watch =
        |until_closed| ClientRequest::WatchJobs { jobs: Selector::Last, until_closed, notifications: false };
    for (until_closed, is_over) in [(false, true), (true, false)] {
        let answers = world.step(Input::Client { connection: CLIENT, request: 9, body: watch(until_closed) });
        assert_eq!(answers.contains(&ClientResponse::WatchEnded), is_over);
    }
    let mut effects = Vec::new();
    let body = ClientRequest::CloseJobs { jobs: Selector::Last };
    world.server.handle(world.now, Input::Client { connection: CLIENT, request: 2, body }, &mut effects);
    assert!(effects.iter().any(|e| matches!(e, Effect::Persist { record: Record::JobClosed { .. }, .. })));
}

#[test]
fn an_end_of_a_worker_that_is_on_disk_in_part_is_finished_by_the_next_server() {
    for (limit, state) in
        [(CrashLimit::NeverRestart, "failed: 1 failed"), (CrashLimit::Times(1), "waiting: 1 waiting")]
    {
        let mut world = World::new();
        let job = world.submit(1, |spec| spec.crash_limit = limit);
        world.worker(2, 1);
        assert_eq!(world.sent(2), "1:0/0");
        let end =
            Record::WorkerEnded { worker: hq_model::WorkerId(1), end: WorkerEnd::Stopped, is_away: false };
        world.fold.apply(world.now, &end);
        world.restart();
        assert_eq!(world.states(job), state);
        world.worker(3, 1);
        assert_eq!(world.sent(3), if state.starts_with("failed") { "" } else { "1:0/1" });
    }
}

#[test]
fn a_part_that_never_arrived_may_belong_to_a_task_that_ran() {
    for (limit, state) in
        [(CrashLimit::NeverRestart, "failed: 1 failed"), (CrashLimit::Times(1), "waiting: 1 waiting")]
    {
        let mut world = World::new();
        for connection in [2, 3] {
            world.worker(connection, 1);
        }
        let job = world.submit(1, |spec| {
            spec.requests = vec![Request { nodes: 2, ..Request::default() }];
            spec.crash_limit = limit;
        });
        assert_eq!((world.sent(2), world.sent(3)), ("1:0/0".into(), "1:0/0".into()));
        world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
        world.restart();
        world.worker_saying(4, 1, |hello| hello.known_as = Some(hq_model::WorkerId(2)));
        assert_eq!(world.states(job), state);
    }
}

fn stop(world: &mut World, drain: bool) -> ClientResponse {
    world.ask(ClientRequest::StopWorkers { workers: Selector::Last, drain })
}

#[test]
fn the_last_task_of_a_worker_is_known_when_it_was_short_and_when_the_worker_has_ended() {
    let mut world = World::new();
    let job = world.submit(2, |_| {});
    world.worker(2, 1);
    assert_eq!(worker_info(&mut world).last_task, None);
    world.reports(2, |r| r.finished = vec![finished(job, 0, 1, 0)]);
    let last = worker_info(&mut world).last_task.map(|last| last.0);
    assert_eq!(last, Some(hq_model::TaskRef::new(job, TaskId(1))));
    world.says(2, FromWorker::Leaving { end: WorkerEnd::Interrupted });
    assert_eq!(worker_info(&mut world).last_task.map(|last| last.0), last);
}

fn worker_info(world: &mut World) -> crate::client_messages::WorkerInfo {
    let filter = crate::client_messages::WorkerFilter::All;
    match world.ask(ClientRequest::ListWorkers { workers: Selector::Last, filter }) {
        ClientResponse::Workers(mut workers) => workers.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_node_does_is_kept_of_workers_that_are_to_look() {
    let mut world = World::new();
    let interval = Some(Duration::from_secs(1));
    world.worker_saying(2, 1, |hello| hello.config.overview_interval = interval);
    let sample = |cpu| Box::new(NodeSample { cpus: vec![cpu], ..NodeSample::default() });
    let told = |world: &mut World, connection, cpu| {
        let (message, mut effects) = (FromWorker::Sampled { node: sample(cpu), tasks: None }, Vec::new());
        let input = Input::Worker { connection: ConnectionId(connection), message };
        world.server.handle(world.now, input, &mut effects);
        let records = effects.into_iter().filter_map(|effect| match effect {
            Effect::Persist { record: Record::WorkerSampled { sample, .. }, .. } => Some(sample.cpus[0]),
            _ => None,
        });
        let kept: Vec<u16> = records.collect();
        (kept, worker_info(world).sample.map(|(_, sample)| sample.cpus[0]))
    };
    assert_eq!(told(&mut world, 2, 100), (vec![100], Some(100)));
    world.step(Input::JournalFails { error: "no space".into() });
    assert_eq!(told(&mut world, 2, 200), (vec![], Some(200)), "it is shown, and not kept");
    world.step(Input::JournalWorks);
    world.worker(3, 1);
    assert_eq!(told(&mut world, 3, 300), (vec![], Some(300)), "nobody asked for events");
}

#[test]
fn a_worker_that_was_killed_is_given_up_soon() {
    let mut world = World::new();
    let job = world.submit(1, |_| {});
    world.worker(2, 1);
    world.worker(3, 1);
    assert_eq!(world.sent(2), "1:0/0");
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: true });
    world.wait(Duration::from_secs(4));
    assert_eq!(world.sent(3), "");
    world.wait(Duration::from_secs(1));
    assert_eq!(world.sent(3), "1:0/1");
}

#[test]
fn a_worker_that_is_away_is_shown_so_and_can_be_stopped() {
    for (limit, state) in
        [(CrashLimit::NeverRestart, "failed: 2 failed"), (CrashLimit::Times(1), "waiting: 2 waiting")]
    {
        let mut world = World::new();
        let job = world.submit(2, |spec| spec.crash_limit = limit);
        world.worker(2, 2);
        // Whether the other one has started is not known.
        world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
        assert_eq!(worker_info(&mut world).away_until, None);
        world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
        let until = world.now.after(Duration::from_secs(30));
        assert_eq!(worker_info(&mut world).away_until, Some(until));
        let worker = hq_model::WorkerId(1);

        let away = crate::client_messages::RequestError::WorkerAway { worker, until };
        assert_eq!(stop(&mut world, true), ClientResponse::Error(away));
        let stopped = ClientResponse::WorkersStopped {
            workers: vec![worker],
            away: vec![worker],
            stopping: Vec::new(),
            alone: vec![],
            alone_count: 0,
        };
        assert_eq!(stop(&mut world, false), stopped);
        assert_eq!(world.states(job), state);
        let info = worker_info(&mut world);
        assert_eq!((info.away_until, info.ended.map(|ended| ended.1)), (None, Some(WorkerEnd::Stopped)));
        if limit == CrashLimit::NeverRestart {
            assert_eq!(task(&mut world, job, 0).error, Some(ran("it was stopped")));
        } else {
            assert_eq!(task(&mut world, job, 0).crashes, 0, "no fault of the task");
        }

        // A restart of the server does not make it forget that.
        world.restart();
        world.worker_saying(3, 2, |hello| hello.known_as = Some(worker));
        assert_eq!(world.sent(3), "stop");
        assert_eq!(world.states(job), state, "it gets nothing");
    }
}

#[test]
fn a_worker_that_lost_its_connection_when_it_was_stopped_is_told_again() {
    for drain in [false, true] {
        let mut world = World::new();
        world.worker(2, 1);
        stop(&mut world, drain);
        let info = worker_info(&mut world);
        assert_eq!((info.is_draining, info.is_stopping), (true, !drain));
        world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
        world.worker_saying(3, 1, |hello| hello.known_as = Some(hq_model::WorkerId(1)));
        let told =
            world.to_workers.iter().any(|(to, message)| *to == 3 && *message == ToWorker::Stop { drain });
        assert!(told, "{:?}", world.to_workers);
    }
}

#[test]
fn a_worker_that_is_stopping_cannot_be_made_to_finish_what_runs() {
    let mut world = World::new();
    let job = world.submit(1, |_| {});
    world.worker(2, 1);
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    let worker = hq_model::WorkerId(1);
    let answer = |stopping| ClientResponse::WorkersStopped {
        workers: vec![worker],
        away: vec![],
        stopping,
        alone: vec![],
        alone_count: 0,
    };
    for (drain, stopping, is_stopping) in
        [(true, vec![], false), (false, vec![], true), (true, vec![worker], true), (false, vec![], true)]
    {
        world.to_workers.clear();
        assert_eq!(stop(&mut world, drain), answer(stopping.clone()));
        assert_eq!(worker_info(&mut world).is_stopping, is_stopping);
        assert_eq!(world.to_workers.is_empty(), !stopping.is_empty(), "{:?}", world.to_workers);
    }
    // One that is leaving by itself ends what runs, too.
    let mut world = World::new();
    world.worker(2, 1);
    world.reports(2, |r| r.is_leaving = true);
    assert_eq!(stop(&mut world, true), answer(vec![worker]));
    assert!(worker_info(&mut world).is_stopping);
    // One that a server before this one had told to finish what runs says so.
    let mut world = World::new();
    world.worker(2, 1);
    world.reports(2, |r| (r.is_leaving, r.is_draining) = (true, true));
    let info = worker_info(&mut world);
    assert_eq!((info.is_draining, info.is_stopping), (true, false));
}

#[test]
fn a_task_that_ran_when_it_was_canceled_or_given_up_says_where_and_when() {
    let cancel = ClientRequest::Cancel { jobs: Selector::Last, tasks: None, reason: Some("no".into()) };
    for (state, max_fails) in [(TaskState::Canceled, None), (TaskState::Aborted, Some(0))] {
        let mut world = World::new();
        let job = world.submit_as(JobSpec { max_fails, ..JobSpec::default() }, 4, |_| {});
        world.worker(2, 2);
        let joined = world.now;
        world.reports(2, |r| r.started = vec![started(job, 0, 0), started(job, 1, 0)]);
        match max_fails {
            None => {
                world.ask(cancel.clone());
            }
            Some(_) => world.reports(2, |r| r.failed = vec![(job, failed(0, 0, 1))]),
        }
        let ended = world.now;
        for round in ["live", "restarted"] {
            let info = task(&mut world, job, 1);
            assert_eq!(info.state, state, "{round}");
            assert!(info.error.is_some(), "{round}");
            assert_eq!(
                (info.worker, info.started, info.ended),
                (Some(hq_model::WorkerId(1)), Some(joined), Some(ended)),
                "{round}"
            );
            let info = task(&mut world, job, 3);
            assert_eq!((info.state, info.worker, info.started, info.ended), (state, None, None, None));
            world.restart();
        }
        let workers = &world.server.state().jobs[&job].workers;
        assert_eq!(workers.len(), 1, "the job knows who ran its tasks");
    }
}

#[test]
fn a_start_that_is_heard_of_after_the_task_was_given_up_says_where_and_when() {
    let mut world = World::new();
    let job = world.submit_as(JobSpec { max_fails: Some(0), ..JobSpec::default() }, 6, |_| {});
    world.worker(2, 4);
    let joined = world.now;
    // The failure overtakes the starts of those beside it.
    world.reports(2, |r| r.failed = vec![(job, failed(0, 0, 1))]);
    world.wait(Duration::from_secs(1));
    // One is being ended, one has ended; the last is of an attempt that was never asked for.
    world.reports(2, |r| {
        r.started = vec![started(job, 1, 0), started(job, 2, 0), started(job, 3, 1)];
        r.canceled = vec![(job, IdSet::single(TaskId(2)))];
    });
    let ended = world.now;
    world.wait(Duration::from_secs(1));
    // Said again, it changes nothing.
    world.reports(2, |r| {
        r.started = vec![started(job, 1, 0)];
        r.canceled = vec![(job, "1,3".parse().expect("ids"))];
    });
    for round in ["live", "restarted"] {
        for (id, ran) in [(1, true), (2, true), (3, false), (5, false)] {
            let info = task(&mut world, job, id);
            assert_eq!(info.state, TaskState::Aborted, "{round}: {id}");
            let told = info.worker.zip(info.started).zip(info.ended);
            let expected = ran.then_some(((hq_model::WorkerId(1), joined), ended));
            assert_eq!(told, expected, "{round}: {id}");
        }
        world.restart();
    }
}

#[test]
fn a_task_that_had_ended_before_its_cancellation_arrived_says_where_and_when() {
    let cancel = ClientRequest::Cancel { jobs: Selector::Last, tasks: None, reason: None };
    let mut world = World::new();
    let job = world.submit(6, |_| {});
    world.worker(2, 4);
    world.worker(3, 1);
    let here = world.server.state().jobs[&job].leased[&hq_model::WorkerId(1)].clone();
    assert!(here.contains_all(&IdSet::range(0, 3)), "{here}");
    // Nothing is known of what runs.
    world.ask(cancel);
    world.reports(3, |r| r.finished = vec![finished(job, 3, 3, 0)]);
    world.reports(2, |r| {
        r.finished = vec![finished(job, 0, 0, 0), finished(job, 2, 2, 1)];
        r.failed = vec![(job, failed(1, 0, 1))];
        r.canceled = vec![(job, IdSet::range(2, 3))];
    });
    let one_second = Timestamp(1_000_005);
    for round in ["live", "restarted"] {
        for (id, end) in [(0, Some(one_second)), (1, Some(Timestamp(5))), (2, None), (3, None)] {
            let info = task(&mut world, job, id);
            assert_eq!(info.state, TaskState::Canceled, "{round}");
            let ran = end.map(|end| ((hq_model::WorkerId(1), Timestamp(5)), end));
            assert_eq!(info.worker.zip(info.started).zip(info.ended), ran, "{round}: {id}");
        }
        world.restart();
    }
}
