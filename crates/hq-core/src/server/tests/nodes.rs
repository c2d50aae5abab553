//! Tasks on several nodes: who gets them, what is kept free for them, how they end.

use super::*;

fn nodes(count: u32) -> impl FnOnce(&mut TaskSpec) {
    move |spec| spec.requests = vec![Request { nodes: count, ..Request::default() }]
}

fn ranks(nodes: u32, ranks: u32, cpus: u64, exclusive: bool) -> impl FnOnce(&mut TaskSpec) {
    let request = Request { nodes, ranks, exclusive, ..super::cpus(cpus) };
    move |spec| spec.requests = vec![request]
}

fn worker_of(world: &mut World, connection: u64, cpus: u32, group: &str) {
    let config = WorkerConfig { group: group.into(), ..config(cpus) };
    world.worker_saying(connection, cpus, |hello| hello.config = config);
}

fn sent(world: &mut World, connections: std::ops::RangeInclusive<u64>) -> Vec<String> {
    connections.map(|connection| world.sent(connection)).collect()
}

// Why a task does not start.
fn reasons(world: &mut World, job: JobId, task: u32) -> String {
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    match world.ask(ClientRequest::ExplainTask { jobs, task: TaskId(task) }) {
        ClientResponse::Explained(told) => {
            told.reasons.iter().map(|reason| reason.text.clone()).collect::<Vec<_>>().join("; ")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_nodes_are_of_one_group_and_the_first_one_ends_the_task() {
    let mut world = World::new();
    worker_of(&mut world, 1, 4, "a");
    worker_of(&mut world, 2, 4, "b");
    worker_of(&mut world, 3, 4, "b");
    let job = world.submit(1, nodes(2));
    assert_eq!(sent(&mut world, 1..=3), ["", "1:0/0", "1:0/0"]);
    world.reports(2, |report| report.started = vec![started(job, 0, 0)]);
    assert_eq!(world.states(job), "running: 1 running");
    world.submit(1, |spec| spec.requests = vec![cpus(4)]);
    world.submit(1, |spec| spec.requests = vec![cpus(4)]);
    assert_eq!(sent(&mut world, 1..=3), ["2:0/0", "", ""], "its nodes are its own");
    // What another node says of it changes nothing.
    world.reports(2, |report| report.finished = vec![finished(job, 0, 0, 0)]);
    assert_eq!(world.states(job), "finished: 1 finished");
    assert_eq!(sent(&mut world, 1..=3), ["", "3:0/0", "-1:0"]);
}

#[test]
fn ranks_share_nodes_unless_they_want_them_alone() {
    let mut world = World::new();
    worker_of(&mut world, 1, 4, "a");
    worker_of(&mut world, 2, 4, "a");
    world.submit(1, ranks(2, 2, 1, false));
    world.submit(1, ranks(2, 1, 2, false));
    assert_eq!(sent(&mut world, 1..=2), ["1:0/0 2:0/0", "1:0/0 2:0/0"]);
    let alone = world.submit(1, ranks(2, 1, 1, true));
    assert_eq!(sent(&mut world, 1..=2), ["", ""]);
    for job in [JobId(1), JobId(2)] {
        world.reports(1, |report| report.finished = vec![finished(job, 0, 0, 0)]);
    }
    assert_eq!(sent(&mut world, 1..=2), ["", "-1:0 -2:0"]);
    world.reports(2, |report| {
        report.canceled = vec![(JobId(1), IdSet::range(0, 0)), (JobId(2), IdSet::range(0, 0))];
    });
    assert_eq!(sent(&mut world, 1..=2), ["3:0/0", "3:0/0"]);
    assert_eq!(world.states(alone), "waiting: 1 waiting");
}

#[test]
fn small_tasks_do_not_starve_a_task_on_several_nodes() {
    let mut world = World::new();
    worker_of(&mut world, 1, 1, "a");
    worker_of(&mut world, 2, 1, "a");
    let small = world.submit(100, |_| {});
    assert_eq!(sent(&mut world, 1..=2), ["1:0,2/0", "1:1,3/0"]);
    world.reports(1, |report| report.started = vec![started(small, 0, 0)]);
    world.reports(2, |report| report.started = vec![started(small, 1, 0)]);
    let large = world.submit(1, nodes(2));
    assert_eq!(sent(&mut world, 1..=2), ["<1:2", "<1:3"], "what waits there is asked back");
    world.reports(1, |report| report.returned = vec![(small, IdSet::range(2, 2))]);
    world.reports(2, |report| report.returned = vec![(small, IdSet::range(3, 3))]);
    world.reports(1, |report| report.finished = vec![finished(small, 0, 0, 0)]);
    assert_eq!(sent(&mut world, 1..=2), ["", ""], "kept free");
    let urgent = world.submit(1, |spec| spec.priority = 1);
    assert_eq!(sent(&mut world, 1..=2), ["3:0/0", ""], "but not from what is more urgent");
    world.reports(1, |report| report.finished = vec![finished(urgent, 0, 0, 0)]);
    world.reports(2, |report| report.finished = vec![finished(small, 1, 1, 0)]);
    assert_eq!(sent(&mut world, 1..=2), ["2:0/0", "2:0/0"]);
    world.reports(1, |report| report.finished = vec![finished(large, 0, 0, 0)]);
    assert_eq!(sent(&mut world, 1..=2), ["1:2/0", "-2:0"]);
}

#[test]
fn two_tasks_on_several_nodes_keep_the_workers_that_are_kept_for_them() {
    let mut world = World::new();
    for connection in 1..=4 {
        worker_of(&mut world, connection, 1, if connection <= 2 { "a" } else { "b" });
    }
    world.submit(4, |_| {});
    world.submit(1, |spec| {
        nodes(1)(spec);
        spec.priority = 1;
    });
    world.submit(1, nodes(2));
    let kept = |world: &World| {
        let kept = world.server.live.values().map(|live| live.reserved);
        kept.collect::<Vec<Option<i32>>>()
    };
    let first = kept(&world);
    assert_eq!(first.iter().flatten().count(), 3, "{first:?}");
    for _ in 0..3 {
        world.submit(1, |spec| spec.priority = -1);
        assert_eq!(kept(&world), first);
    }
}

#[test]
fn what_was_kept_free_is_given_back_when_nobody_wants_it_any_more() {
    let mut world = World::new();
    worker_of(&mut world, 1, 1, "a");
    worker_of(&mut world, 2, 1, "a");
    let small = world.submit(1, |_| {});
    assert_eq!(sent(&mut world, 1..=2), ["1:0/0", ""]);
    let large = world.submit(1, nodes(2));
    world.submit(1, |_| {});
    assert_eq!(sent(&mut world, 1..=2), ["", ""]);
    let jobs = Selector::Ids(IdSet::single(TaskId(large.0)));
    world.ask(ClientRequest::Cancel { jobs, tasks: None, reason: None });
    assert_eq!(sent(&mut world, 1..=2), ["", "3:0/0"]);
    assert_eq!(world.states(small), "waiting: 1 waiting");
}

#[test]
fn the_loss_of_any_node_restarts_a_task_with_ranks() {
    let mut world = World::new();
    for connection in 1..=3 {
        worker_of(&mut world, connection, 1, "a");
    }
    let job = world.submit(1, ranks(2, 1, 1, true));
    world.reports(1, |report| report.started = vec![started(job, 0, 0)]);
    assert_eq!(sent(&mut world, 1..=3), ["1:0/0", "1:0/0", ""]);
    world.says(2, FromWorker::Leaving { end: WorkerEnd::HeartbeatLost });
    assert_eq!(sent(&mut world, 1..=3), ["-1:0", "", ""]);
    assert_eq!(world.states(job), "waiting: 1 waiting");
    world.reports(1, |report| report.canceled = vec![(job, IdSet::range(0, 0))]);
    assert_eq!(sent(&mut world, 1..=3), ["1:0/1", "", "1:0/1"], "as the next instance");
    assert_eq!(world.server.state().jobs[&job].crashes.get(&TaskId(0)), Some(&1));
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    assert_eq!(sent(&mut world, 3..=3), ["-1:0"]);
    assert_eq!(world.server.state().jobs[&job].crashes.get(&TaskId(0)), Some(&1), "it had not started");
}

#[test]
fn a_program_on_the_first_node_goes_on_without_the_others() {
    let ends: [fn(&mut World, JobId); 3] = [
        |world, _| world.says(2, FromWorker::Leaving { end: WorkerEnd::HeartbeatLost }),
        |world, job| {
            world.reports(2, |report| {
                report.is_leaving = true;
                report.interrupted = vec![(job, IdSet::range(0, 0))];
            });
            world.says(2, FromWorker::Leaving { end: WorkerEnd::Stopped });
        },
        |world, job| {
            world.reports(2, |report| {
                report.is_leaving = true;
                report.returned = vec![(job, IdSet::range(0, 0))];
            });
        },
    ];
    for end in ends {
        let mut world = World::new();
        for connection in 1..=3 {
            worker_of(&mut world, connection, 1, "a");
        }
        let job = world.submit(1, |spec| {
            nodes(2)(spec);
            spec.crash_limit = CrashLimit::NeverRestart;
        });
        assert_eq!(sent(&mut world, 1..=3), ["1:0/0", "1:0/0", ""]);
        world.reports(1, |report| report.started = vec![started(job, 0, 0)]);
        end(&mut world, job);
        assert_eq!(sent(&mut world, 1..=1), [""]);
        assert_eq!(world.states(job), "running: 1 running");
        world.reports(1, |report| report.finished = vec![finished(job, 0, 0, 0)]);
        assert_eq!(world.states(job), "finished: 1 finished");
    }
}

#[test]
fn a_program_that_goes_on_is_known_to_the_next_server() {
    let mut world = World::new();
    worker_of(&mut world, 1, 1, "a");
    worker_of(&mut world, 2, 1, "a");
    let job = world.submit(1, nodes(2));
    world.says(2, FromWorker::Leaving { end: WorkerEnd::HeartbeatLost });
    world.restart();
    assert!(world.server.state().jobs[&job].nodes.contains_key(&TaskId(0)), "as it was");
    assert_eq!(world.states(job), "waiting: 1 waiting", "until its worker says that it runs");
    assert!(world.server.state().jobs[&job].queued.is_empty());
}

#[test]
fn a_launcher_in_the_command_needs_all_nodes() {
    let mut world = World::new();
    worker_of(&mut world, 1, 1, "a");
    worker_of(&mut world, 2, 1, "a");
    let job = world.submit(1, |spec| {
        nodes(2)(spec);
        spec.body = Body::program(["%{MPIRUN}", "solver"]);
    });
    sent(&mut world, 1..=2);
    world.reports(1, |report| report.started = vec![started(job, 0, 0)]);
    world.says(2, FromWorker::Leaving { end: WorkerEnd::HeartbeatLost });
    assert_eq!(sent(&mut world, 1..=1), ["-1:0"]);
}

#[test]
fn a_task_that_fails_while_a_node_is_missing_runs_again() {
    let mut world = World::new();
    for connection in 1..=3 {
        worker_of(&mut world, connection, 1, "a");
    }
    let job = world.submit(1, nodes(2));
    sent(&mut world, 1..=3);
    world.reports(1, |report| report.started = vec![started(job, 0, 0)]);
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    world.reports(1, |report| report.failed = vec![(job, failed(0, 0, 1))]);
    assert_eq!(sent(&mut world, 1..=3), ["1:0/1", "", "1:0/1"]);
    assert_eq!(world.server.state().jobs[&job].crashes.get(&TaskId(0)), Some(&1));
    world.reports(1, |report| report.failed = vec![(job, failed(0, 1, 1))]);
    assert_eq!(world.states(job), "failed: 1 failed");
}

#[test]
fn a_node_that_gives_its_part_back_restarts_the_task() {
    let mut world = World::new();
    worker_of(&mut world, 1, 1, "a");
    worker_of(&mut world, 2, 1, "a");
    let job = world.submit(1, nodes(2));
    sent(&mut world, 1..=2);
    world.reports(1, |report| report.started = vec![started(job, 0, 0)]);
    world.reports(2, |report| report.interrupted = vec![(job, IdSet::range(0, 0))]);
    assert_eq!(sent(&mut world, 1..=2), ["-1:0", ""]);
    world.reports(1, |report| report.canceled = vec![(job, IdSet::range(0, 0))]);
    assert_eq!(sent(&mut world, 1..=2), ["1:0/1", "1:0/1"]);
    let request = ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None };
    world.ask(request);
    assert_eq!(sent(&mut world, 1..=2), ["-1:0 -1:0", "-1:0"]);
}

#[test]
fn a_cancellation_reaches_all_nodes() {
    let mut world = World::new();
    for connection in 1..=3 {
        worker_of(&mut world, connection, 1, "a");
    }
    let job = world.submit(1, nodes(3));
    sent(&mut world, 1..=3);
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    for words in sent(&mut world, 1..=3) {
        assert!(words.starts_with("-1:0"), "{words}");
    }
    assert_eq!(world.states(job), "canceled: 1 canceled");
}

#[test]
fn a_group_that_is_too_small_is_named() {
    let mut world = World::new();
    worker_of(&mut world, 1, 4, "a");
    worker_of(&mut world, 2, 4, "b");
    let spec = |spec: &mut TaskSpec| ranks(2, 8, 1, false)(spec);
    let mut task = TaskSpec { body: Body::program(["x"]), ..TaskSpec::default() };
    spec(&mut task);
    let submit = Submit::new(
        Target::New(JobSpec { name: "x".into(), ..JobSpec::default() }),
        TaskIds::Next(1),
        task.clone(),
    );
    let mut smaller = submit.clone();
    task.requests[0].ranks = 4;
    smaller.spec = Arc::new(task);
    let few = "2 nodes asked for, no group has more than 1";
    for (submit, lacks) in [
        (submit, format!("cpus: 8 asked for, the most that any worker has is 4, {few}")),
        (smaller, few.to_owned()),
    ] {
        let answer = world.answer_to(submit);
        let ClientResponse::Submitted { job, warnings, .. } = answer else { panic!("{answer:?}") };
        assert!(warnings[0].contains(&lacks), "{warnings:?}");
        let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
        let answer = world.ask(ClientRequest::ExplainTask { jobs, task: TaskId(0) });
        let ClientResponse::Explained(explained) = answer else { panic!("{answer:?}") };
        assert!(explained.reasons[0].text.contains(&lacks), "{:?}", explained.reasons);
    }
}

#[test]
fn all_workers_of_an_ended_task_are_told() {
    use hq_model::WorkerId;
    let mut world = World::new();
    (1..=3).for_each(|connection| worker_of(&mut world, connection, 4, "a"));
    for state in [TaskState::Finished, TaskState::Failed] {
        let job = world.submit(1, nodes(3));
        world.reports(1, |report| match state {
            TaskState::Finished => report.finished = vec![finished(job, 0, 0, 0)],
            _ => report.failed = vec![(job, failed(0, 0, 1))],
        });
        for connection in 2..=3 {
            world.reports(connection, |report| report.canceled = vec![(job, IdSet::range(0, 0))]);
        }
        for _ in 0..2 {
            let request = ClientRequest::ListTasks {
                jobs: Selector::Ids(IdSet::single(TaskId(job.0))),
                tasks: None,
                states: Vec::new(),
                after: None,
                limit: 1,
                grouped: false,
                with_entries: false,
            };
            let ClientResponse::Tasks { tasks, .. } = world.ask(request) else { panic!("tasks") };
            let (info, all) = (&tasks[0].1, [1, 2, 3].map(WorkerId));
            assert_eq!((info.state, info.worker, &info.nodes[..]), (state, Some(WorkerId(1)), &all[..]));
            if state == TaskState::Failed {
                world.restart();
            }
        }
    }
}

#[test]
fn what_goes_before_a_task_on_several_nodes_is_not_told_that_workers_are_kept_for_it() {
    let mut world = World::new();
    worker_of(&mut world, 1, 2, "a");
    worker_of(&mut world, 2, 1, "a");
    let urgent = world.submit(1, |spec| {
        spec.requests = vec![cpus(2)];
        spec.priority = 1;
    });
    world.submit(1, nodes(2));
    // As large as no worker that is left.
    let next = world.submit(1, |spec| {
        spec.requests = vec![cpus(2)];
        spec.priority = 0;
    });
    let behind = world.submit(1, |_| {});
    assert!(reasons(&mut world, behind, 0).contains("kept free for a task on several nodes"));
    assert!(reasons(&mut world, next, 0).contains("kept free for a task on several nodes"));
    world.reports(1, |report| report.finished = vec![finished(urgent, 0, 0, 0)]);
    assert_eq!(sent(&mut world, 1..=2), ["1:0/0 2:0/0", "2:0/0"]);
    let more = world.submit(1, |spec| {
        spec.requests = vec![cpus(2)];
        spec.priority = 1;
    });
    let told = reasons(&mut world, more, 0);
    assert!(told.contains("has it as a whole") && !told.contains("kept free"), "{told}");
}

#[test]
fn nothing_is_kept_for_a_task_on_several_nodes_while_others_go_first_on_one_of_them() {
    let mut world = World::new();
    worker_of(&mut world, 1, 2, "a");
    worker_of(&mut world, 2, 1, "a");
    let urgent = world.submit(2, |spec| {
        spec.requests = vec![cpus(2)];
        spec.priority = 1;
    });
    let large = world.submit(1, nodes(2));
    let small = world.submit(1, |_| {});
    assert_eq!(sent(&mut world, 1..=2), ["1:0/0", "3:0/0"], "nothing idles for it");
    let told = reasons(&mut world, large, 0);
    assert!(told.contains("1 ready task goes before it: 1 of job 1 (priority 1 against 0)"), "{told}");
    assert!(told.contains("others of higher priority wait for it"), "{told}");
    // When nobody goes first any more, it is its turn.
    world.reports(1, |report| report.finished = vec![finished(urgent, 0, 0, 0)]);
    world.reports(2, |report| report.finished = vec![finished(small, 0, 0, 0)]);
    world.submit(1, |_| {});
    assert_eq!(sent(&mut world, 1..=2), ["1:1/0", ""]);
    world.reports(1, |report| report.finished = vec![finished(urgent, 1, 1, 0)]);
    assert_eq!(sent(&mut world, 1..=2), ["2:0/0", "2:0/0"]);
}

#[test]
fn a_task_on_several_nodes_takes_those_that_nobody_wants_before_it() {
    let mut world = World::new();
    worker_of(&mut world, 1, 2, "a");
    worker_of(&mut world, 2, 1, "a");
    worker_of(&mut world, 3, 1, "a");
    let urgent = |spec: &mut TaskSpec| {
        spec.requests = vec![cpus(2)];
        spec.priority = 1;
    };
    world.submit(2, urgent);
    let small = world.submit(1, |_| {});
    assert_eq!(sent(&mut world, 1..=3), ["1:0/0", "2:0/0", ""]);
    world.submit(1, nodes(2));
    world.submit(1, |_| {});
    assert_eq!(sent(&mut world, 1..=3), ["", "", ""], "the third one is kept");
    world.reports(2, |report| report.finished = vec![finished(small, 0, 0, 0)]);
    assert_eq!(sent(&mut world, 1..=3), ["", "3:0/0", "3:0/0"]);
}
