//! In which order ready tasks go, and where: long paths, locality keys, room for large tasks.

use hq_model::dependency::{Dependencies, Edges};

use super::*;
use crate::limits::{OVERTAKEN_MAX, PASSED_OVER_TIME_MAX, PASSED_OVER_TIMES_MAX};
use crate::worker_messages::TemplateId;

fn expecting(seconds: u64) -> impl FnOnce(&mut TaskSpec) {
    move |spec| spec.expected = Some(Duration::from_secs(seconds))
}

fn done(job: JobId, task: u32, wall_ms: u64) -> impl FnOnce(&mut Report) {
    move |report| {
        let mut measures = MeasuresWriter::new(true);
        measures.push(Timestamp(0), &Usage { wall_us: wall_ms * 1000, ..Usage::default() });
        let ids = IdSet::single(TaskId(task));
        report.finished.push(FinishedSpan {
            job,
            instance: Instance(0),
            ids,
            measures: measures.finish(),
            results: Entries::default(),
            variant: None,
        });
    }
}

impl World {
    // Ten tasks of its kind have ended: it is known how long they take.
    fn learns_320_ms(&mut self) {
        let first = self.submit(10, |_| {});
        for task in 0..10 {
            self.starts(1, first, task);
            self.reports(1, done(first, task, 320));
        }
    }

    pub(super) fn starts(&mut self, connection: u64, job: JobId, task: u32) {
        let at = self.now;
        self.reports(connection, |report| {
            report.started.push(Started {
                job,
                task: TaskId(task),
                instance: Instance(0),
                at,
                variant: None,
            });
        });
    }
}

#[test]
fn longer_tasks_go_first_and_equal_ones_by_age() {
    let mut world = World::new();
    for seconds in [1, 60, 1, 3600, 70] {
        world.submit(1, expecting(seconds));
    }
    world.worker(1, 3);
    assert_eq!(world.sent(1), "2:0/0 4:0/0 5:0/0", "70 s are about as long as 60 s");
}

// Task 0 of a job was just handed to worker 2.
fn given(job: JobId, variant: Option<u32>) -> [Effect; 1] {
    let batch = RunBatch {
        template: TemplateId { job, submit: 0 },
        content: None,
        ids: IdSet::single(TaskId(0)),
        instance: Instance(0),
        entries: Entries::default(),
        nodes: Vec::new(),
        services: Vec::new(),
        after: None,
        variant,
        head_start: Duration::ZERO,
        inputs: Vec::new(),
        objects: Vec::new(),
    };
    let message = ToWorker::Run(vec![batch]);
    [Effect::ToWorker { connection: ConnectionId(2), message, gate: Gate::Open }]
}

#[test]
fn the_observer_of_turns_sees_what_is_passed_over_for_longer_than_it_may() {
    let mut world = World::new();
    let later = world.submit(1, |_| {});
    world.worker(2, 1);
    assert_eq!(world.sent(2), "1:0/0");
    let mut since = std::collections::BTreeMap::new();
    let run = given(later, Some(0));
    let sees = |world: &World, since: &mut _| world.server.gives_turns(world.now, &run, since);
    assert_eq!((sees(&world, &mut since), since.len()), (Ok(()), 0), "nothing else waits");
    let first = world.submit(1, |spec| {
        spec.crash_limit = CrashLimit::NeverRestart;
        spec.expected = Some(Duration::from_secs(3600));
        spec.requests[0].time_request = Duration::from_secs(1);
    });
    assert_eq!((sees(&world, &mut since), since.len()), (Ok(()), 1), "it is seen");
    (0..PASSED_OVER_TIMES_MAX).for_each(|_| assert_eq!(sees(&world, &mut since), Ok(()), "not for long"));
    world.wait(PASSED_OVER_TIME_MAX + OVERTAKEN_MAX);
    let found = sees(&world, &mut since).expect_err("it is passed over");
    assert!(found.contains("took the room of") && found.ends_with("on worker 1"), "{found}");
    world.server.has_turns(&given(first, None), &mut since);
    assert!(since.is_empty(), "it gets some");
}

#[test]
fn the_observer_of_the_order_sees_lower_priority_in_the_room_of_higher() {
    let mut world = World::new();
    let job = world.submit(1, |_| {});
    world.worker(2, 1);
    assert_eq!(world.sent(2), "1:0/0");
    assert_eq!(
        world.server.passes_nothing_over(world.now, &given(job, Some(0))),
        Ok(()),
        "nothing else waits"
    );
    // One that may never run twice waits on the server until there is room.
    world.submit(1, |spec| (spec.priority, spec.crash_limit) = (1, CrashLimit::NeverRestart));
    let found =
        world.server.passes_nothing_over(world.now, &given(job, Some(0))).expect_err("it is passed over");
    assert!(found.contains("worker 1 got tasks of lower priority in room for"), "{found}");
    assert_eq!(
        world.server.passes_nothing_over(world.now, &given(job, None)),
        Ok(()),
        "it has no room, but waits"
    );
}

#[test]
fn what_ended_teaches_how_long_the_others_take() {
    let mut world = World::new();
    let short = world.submit(20, |_| {});
    let long = world.submit(20, |_| {});
    world.worker(1, 1);
    for task in 0..5 {
        let sent = world.sent(1);
        assert!(sent.is_empty() || sent.starts_with(&format!("{short}:")), "too little is known: {sent}");
        world.reports(1, done(short, task, 250));
    }
    assert_eq!(world.sent(1), format!("{long}:0/0"), "a second is assumed of what is not known");
}

#[test]
fn a_restarted_server_still_knows_how_long_tasks_take() {
    let mut world = World::new();
    let short = world.submit(20, |_| {});
    let long = world.submit(20, |_| {});
    world.worker(1, 1);
    world.sent(1);
    world.reports(1, done(short, 0, 250));
    world.reports(1, done(short, 1, 250));
    let expected = |world: &World, job| {
        world
            .server
            .run_time(crate::worker_messages::TemplateId { job, submit: 0 })
            .map(|estimate| estimate.us / 1000)
    };
    let world = World { server: graphs::restarted(world.server.state()), ..world };
    assert_eq!((expected(&world, short), expected(&world, long)), (Some(250), Some(250)));
}

#[test]
fn the_task_with_the_longest_way_to_the_end_goes_first() {
    let mut world = World::new();
    // 0 and 1 wait for nothing; 2 to 9 are a chain behind 1.
    let lists = (0..10).map(|at: u32| if at < 2 { vec![] } else { vec![TaskId(at - 1)] });
    let edges = Edges::new(lists.collect::<Vec<_>>()).expect("few");
    let submit = Submit {
        dependencies: Arc::new(Dependencies { edges, ..Dependencies::default() }),
        ..Submit::new(
            Target::New(JobSpec { name: "graph".into(), ..JobSpec::default() }),
            TaskIds::Next(10),
            TaskSpec { expected: Some(Duration::from_secs(1)), ..one_cpu() },
        )
    };
    world.answer_to(submit);
    world.submit(1, expecting(1));
    world.submit(1, expecting(3600));
    world.worker(1, 2);
    assert_eq!(world.sent(1), "1:1/0 3:0/0", "an hour, then eight of a second one after the other");
}

#[test]
fn a_later_submit_makes_the_paths_of_those_it_waits_for_longer() {
    let mut world = World::new();
    world.submit(1, expecting(4));
    let first = world.submit(1, |_| {});
    let after = hq_model::dependency::After {
        job: first,
        tasks: None,
        key: None,
        condition: Default::default(),
        mapping: Default::default(),
    };
    let submit = Submit {
        dependencies: Arc::new(Dependencies { after: vec![after], ..Dependencies::default() }),
        ..Submit::new(
            Target::New(JobSpec { name: "later".into(), ..JobSpec::default() }),
            TaskIds::Next(5),
            TaskSpec { expected: Some(Duration::from_secs(60)), ..one_cpu() },
        )
    };
    world.answer_to(submit);
    world.worker(1, 1);
    assert_eq!(world.sent(1), "2:0/0");
}

#[test]
fn tasks_go_where_their_key_has_run_and_new_keys_to_whoever_has_least_to_do() {
    let mut world = World::new();
    world.worker(1, 2);
    world.worker(2, 2);
    let lines = ["a", "a", "b", "b", "a", "b", "a", "b"];
    let spec = TaskSpec {
        locality: Some(b"%{ENTRY}".to_vec()),
        expected: Some(Duration::from_secs(60)),
        ..one_cpu()
    };
    let submit = Submit {
        entries: Entries::new(lines.map(str::as_bytes)).expect("short"),
        ..Submit::new(
            Target::New(JobSpec { name: "near".into(), ..JobSpec::default() }),
            TaskIds::Next(8),
            spec,
        )
    };
    world.answer_to(submit);
    assert_eq!((world.sent(1), world.sent(2)), ("1:0-1/0".into(), "1:2-3/0".into()));
    world.reports(2, done(JobId(1), 2, 60_000));
    assert_eq!(world.sent(2), "1:5/0", "the next one of its key");
    world.reports(2, done(JobId(1), 3, 60_000));
    world.reports(2, done(JobId(1), 5, 60_000));
    assert_eq!(world.sent(2), "1:7/0 1:4/0", "nobody idles for the sake of a key");
}

#[test]
fn room_is_kept_for_a_large_task_that_smaller_ones_of_lower_priority_overtook() {
    let mut world = World::new();
    world.worker(1, 2);
    let small = world.submit(20, |spec| {
        spec.expected = Some(Duration::from_secs(60));
    });
    let large = world.submit(1, |spec| {
        spec.requests = vec![cpus(2)];
        spec.priority = 1;
        spec.expected = Some(Duration::from_secs(60));
    });
    assert_eq!(world.sent(1), format!("{small}:0-1/0"));
    world.reports(1, done(small, 0, 60_000));
    assert_eq!(world.sent(1), format!("{small}:2/0"), "it fits, and the large one does not");
    world.wait(Duration::from_secs(2));
    world.reports(1, done(small, 1, 60_000));
    assert_eq!(world.sent(1), "", "the CPU is kept");
    world.reports(1, done(small, 2, 60_000));
    assert_eq!(world.sent(1), format!("{large}:0/0"));
}

#[test]
fn room_is_kept_for_a_second_large_task_where_it_is_of_no_use_to_the_first() {
    let mut world = World::new();
    world.worker(1, 8);
    let large = |world: &mut World, n| {
        world.submit(1, |spec| {
            spec.requests = vec![cpus(n)];
            spec.expected = Some(Duration::from_secs(60));
        })
    };
    let long = large(&mut world, 5);
    assert_eq!(world.sent(1), format!("{long}:0/0"));
    world.worker(2, 4);
    let before = world.submit(7, expecting(60));
    let (on_first, on_second) = (world.sent(1), world.sent(2));
    assert_eq!((on_first, on_second), (format!("{before}:0-2/0"), format!("{before}:3-6/0")));
    let (whole, half) = (large(&mut world, 8), large(&mut world, 4));
    // Whenever one of them ends, another one like it has just come.
    let mut small: std::collections::VecDeque<(JobId, u32)> = (3..7).map(|task| (before, task)).collect();
    let mut given = Vec::new();
    while let Some((job, task)) = small.pop_front().filter(|_| !given.contains(&half)) {
        world.wait(Duration::from_secs(2));
        world.submit(1, expecting(60));
        world.reports(2, done(job, task, 60_000));
        let sent = world.sent(2);
        let jobs = sent.split_whitespace().filter_map(|batch| batch.split_once(":0/0")?.0.parse().ok());
        given = jobs.map(JobId).collect::<Vec<_>>();
        small.extend(given.iter().map(|job| (*job, 0)));
        assert!(world.now < Timestamp(300_000_000), "nobody waits for so long");
    }
    assert_eq!(given, [half], "{whole} waits for the end of {long} on the other worker");
    let said = super::explanations::explained(&mut world, whole, 0);
    let is_told = |said: &String| said.ends_with("; what becomes free of that is kept for this task");
    assert!(said.iter().any(is_told), "{said:?}");
    assert!(crate::mark::take().contains("a worker is kept for a second class"));
}

#[test]
fn no_cpus_are_kept_for_a_task_while_the_gpu_that_it_lacks_is_used_as_well() {
    let mut world = World::new();
    placement::worker_with(&mut world, 1, 4, &[("gpus/nvidia", 1)]);
    let on_gpu = |world: &mut World, n: u64| {
        world.submit(1, |spec| {
            spec.requests = vec![placement::request(&[("cpus", n), ("gpus/nvidia", 1)])];
            spec.expected = Some(Duration::from_secs(60));
        })
    };
    let long = on_gpu(&mut world, 1);
    assert_eq!(world.sent(1), format!("{long}:0/0"));
    let small = world.submit(20, expecting(60));
    assert_eq!(world.sent(1), format!("{small}:0-2/0"));
    let large = on_gpu(&mut world, 3);
    for (task, next) in [(0, 3), (1, 4), (2, 5)] {
        world.wait(2 * OVERTAKEN_MAX);
        world.reports(1, done(small, task, 60_000));
        assert_eq!(world.sent(1), format!("{small}:{next}/0"), "without the GPU the CPU is of no use");
    }
    world.reports(1, done(long, 0, 60_000));
    for task in [3, 4] {
        world.reports(1, done(small, task, 60_000));
    }
    assert_eq!(world.sent(1), format!("{large}:0/0"), "now the CPUs are kept");
}

#[test]
fn of_a_worker_that_is_kept_only_what_is_lacking_is_kept() {
    let mut world = World::new();
    placement::worker_with(&mut world, 1, 2, &[("gpus/nvidia", 1)]);
    let on_gpu = |spec: &mut TaskSpec| {
        spec.requests = vec![placement::request(&[("cpus", 1), ("gpus/nvidia", 1)])];
        spec.priority = 1;
        spec.expected = Some(Duration::from_secs(60));
    };
    let small = world.submit(20, expecting(60));
    assert_eq!(world.sent(1), format!("{small}:0-1/0"));
    let first = world.submit(2, on_gpu);
    world.reports(1, done(small, 0, 60_000));
    assert_eq!(world.sent(1), format!("{first}:0/0"));
    world.wait(2 * OVERTAKEN_MAX);
    world.reports(1, done(small, 1, 60_000));
    assert_eq!(world.sent(1), format!("{small}:2/0"), "the second one waits for the GPU");
    world.reports(1, done(first, 0, 60_000));
    assert_eq!(world.sent(1), format!("{first}:1/0"));
}

// One of two CPUs is free, and kept for a task that needs both: with the jobs of the small tasks and of the large one.
fn kept_for_a_large_task() -> (World, JobId, JobId) {
    let mut world = World::new();
    world.worker(1, 2);
    let small = world.submit(20, expecting(60));
    let large = world.submit(1, |spec| {
        spec.requests = vec![cpus(2)];
        spec.priority = 1;
        spec.expected = Some(Duration::from_secs(60));
    });
    world.reports(1, done(small, 0, 60_000));
    world.sent(1);
    world.wait(Duration::from_secs(2));
    world.reports(1, done(small, 1, 60_000));
    assert_eq!(world.sent(1), "", "the CPU is kept");
    (world, small, large)
}

#[test]
fn a_worker_is_not_kept_for_ever() {
    let (mut world, small, _) = kept_for_a_large_task();
    let until = world.server.next_wakeup().expect("it has an end");
    assert!(until <= world.now.after(crate::limits::KEPT_MAX));
    world.now = until;
    world.step(Input::Tick);
    assert_eq!(world.sent(1), format!("{small}:3/0"), "the other one has run for all that time");
}

#[test]
fn nothing_is_kept_when_the_last_worker_is_lost() {
    let (mut world, ..) = kept_for_a_large_task();
    world.step(Input::WorkerGone { connection: ConnectionId(1), is_closed: true });
    for _ in 0..10 {
        world.wait(crate::limits::KEPT_MAX);
        assert!(
            world.server.next_wakeup().is_none_or(|at| at > world.now),
            "it asks to be woken in the past"
        );
    }
}

#[test]
fn a_worker_that_is_kept_for_a_task_that_goes_is_filled_at_once() {
    let (mut world, small, large) = kept_for_a_large_task();
    let jobs = Selector::Ids(IdSet::single(TaskId(large.0)));
    world.ask(ClientRequest::Cancel { jobs, tasks: None, reason: None });
    assert_eq!(world.sent(1), format!("{small}:3/0"));
}

#[test]
fn a_task_gets_the_worker_that_is_kept_for_it_as_a_whole() {
    let mut world = World::new();
    world.worker(1, 2);
    world.worker(2, 1);
    let small = world.submit(3, expecting(60));
    let large = world.submit(1, |spec| {
        spec.requests = vec![cpus(2)];
        spec.expected = Some(Duration::from_secs(60));
    });
    assert_eq!((world.sent(1), world.sent(2)), (format!("{small}:0-1/0"), format!("{small}:2/0")));
    // Another one has room, and never enough: the first one is kept.
    world.reports(2, done(small, 2, 60_000));
    world.wait(OVERTAKEN_MAX);
    world.reports(1, |report| {
        done(small, 0, 60_000)(report);
        done(small, 1, 60_000)(report);
    });
    assert_eq!(world.sent(1), format!("{large}:0/0"));
}

#[test]
fn a_worker_on_which_more_is_about_to_end_is_left_alone_for_a_moment() {
    let mut world = World::new();
    world.worker(1, 2);
    world.learns_320_ms();
    world.sent(1);
    let pair = world.submit(2, |_| {});
    world.starts(1, pair, 0);
    world.starts(1, pair, 1);
    let large = world.submit(1, |spec| {
        spec.requests = vec![cpus(2)];
        spec.priority = 1;
    });
    let small = world.submit(1, |_| {});
    world.sent(1);
    world.now = world.now.after(Duration::from_millis(314));
    world.reports(1, done(pair, 0, 320));
    assert_eq!(world.sent(1), "", "the other one ends in a moment");
    world.reports(1, done(pair, 1, 320));
    assert_eq!(world.sent(1), format!("{large}:0/0 {small}:0/0"), "the small one waits behind it");
}

#[test]
fn a_worker_that_was_left_alone_is_filled_when_the_end_does_not_come() {
    let mut world = World::new();
    world.worker(1, 2);
    world.learns_320_ms();
    let pair = world.submit(2, |_| {});
    world.starts(1, pair, 0);
    world.starts(1, pair, 1);
    world.submit(1, |spec| {
        spec.requests = vec![cpus(2)];
        spec.priority = 1;
    });
    let small = world.submit(1, |_| {});
    world.sent(1);
    world.now = world.now.after(Duration::from_millis(314));
    world.reports(1, done(pair, 0, 320));
    let until = world.server.next_wakeup().expect("it is looked at again");
    assert!(until < world.now.after(Duration::from_millis(30)), "soon");
    world.now = until;
    world.step(Input::Tick);
    assert_eq!(world.sent(1), format!("{small}:0/0"));
}

#[test]
fn many_distinct_requests_leave_nothing_behind() {
    let mut world = World::new();
    world.is_unchecked = true;
    world.worker(1, 2);
    let jobs: Vec<JobId> = (1..=3000)
        .map(|at| world.submit(1, |spec| spec.requests[0].time_request = Duration::from_secs(at)))
        .collect();
    assert!(world.server.queue.class_count() >= 2998);
    let all = jobs.iter().map(|job| TaskId(job.0)).collect();
    world.ask(ClientRequest::Cancel { jobs: Selector::Ids(all), tasks: None, reason: None });
    let held = world.server.live.values().flat_map(|live| live.held());
    let held: Vec<(JobId, IdSet)> = held.map(|(template, held)| (template.job, held.ids.clone())).collect();
    world.reports(1, |report| report.canceled.extend(held));
    assert_eq!(world.server.queue.class_count(), 0);
}

#[test]
fn a_worker_is_left_alone_each_time_that_more_is_about_to_end() {
    let mut world = World::new();
    world.worker(1, 2);
    world.learns_320_ms();
    let pair = world.submit(2, |_| {});
    let large = world.submit(1, |spec| {
        spec.requests = vec![cpus(2)];
        spec.priority = 1;
    });
    let small = world.submit(1, |_| {});
    let pairs = [pair, world.submit(2, |spec| spec.priority = 2)];
    world.sent(1);
    for (pair, next) in pairs.into_iter().zip([format!("{}:0-1/0", pairs[1]), format!("{large}:0/0")]) {
        world.starts(1, pair, 0);
        world.starts(1, pair, 1);
        world.now = world.now.after(Duration::from_millis(314));
        world.reports(1, done(pair, 0, 320));
        assert_eq!(world.sent(1), "", "the other one of {pair} ends in a moment");
        world.reports(1, done(pair, 1, 320));
        assert_eq!(world.sent(1).split(' ').next(), Some(&*next), "before {small}");
    }
}
