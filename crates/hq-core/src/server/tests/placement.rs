//! Which task goes where: variants, weights, any vendor's GPUs.

use super::*;
use crate::mark;
use crate::server::live::Held;

pub(super) fn request(parts: &[(&str, u64)]) -> Request {
    let resource = |&(name, count): &(&str, u64)| ResourceRequest {
        name: name.into(),
        amount: AmountRequest::Some(Amount::whole(count), Policy::Compact),
    };
    let weight = hq_model::request::WEIGHT_NEUTRAL;
    Request { resources: parts.iter().map(resource).collect(), weight, ..Request::default() }
}

pub(super) fn worker_with(world: &mut World, connection: u64, cpus: u32, others: &[(&str, u32)]) {
    let mut config = config(cpus);
    for (name, count) in others {
        let kind = PoolKind::Range { first: 0, last: count - 1 };
        config.resources.pools.push(ResourcePool { name: (*name).into(), kind });
    }
    world.worker_saying(connection, cpus, |hello| hello.config = config);
}

#[test]
fn the_preferred_variant_is_used_where_it_fits_and_the_next_one_where_not() {
    let mut world = World::new();
    worker_with(&mut world, 1, 4, &[]);
    worker_with(&mut world, 2, 4, &[("gpus/nvidia", 1)]);
    let variants = || vec![request(&[("cpus", 1), ("gpus/nvidia", 1)]), request(&[("cpus", 4)])];
    // One on the GPU, one on the CPUs of the other; a third one waits behind the GPU as backlog.
    world.submit(2, |spec| spec.requests = variants());
    assert_eq!((world.sent(1), world.sent(2)), ("1:1/0".into(), "1:0/0".into()));
    world.reports(2, |report| report.finished.push(finished(JobId(1), 0, 0, 0)));
    world.reports(1, |report| report.finished.push(finished(JobId(1), 1, 1, 0)));
    assert_eq!(world.states(JobId(1)), "finished: 2 finished");
}

#[test]
fn a_larger_weight_makes_a_variant_preferred() {
    let mut world = World::new();
    worker_with(&mut world, 1, 4, &[("gpus/nvidia", 4)]);
    world.submit(4, |spec| {
        let on_gpu = Request { weight: 20_000, ..request(&[("cpus", 1), ("gpus/nvidia", 1)]) };
        spec.requests = vec![request(&[("cpus", 4)]), on_gpu];
    });
    assert_eq!(world.sent(1), "1:0-3/0", "four fit with a GPU each, one would with all CPUs");
}

#[test]
fn of_equal_priority_the_heavier_request_goes_first() {
    let mut world = World::new();
    world.submit(70, |_| {});
    world.submit(1, |spec| spec.requests[0].weight = 20_000);
    worker_with(&mut world, 1, 1, &[]);
    assert_eq!(world.sent(1), "1:0/0 2:0/0", "it has the CPU, and the older job comes next");
    let at_once = world.server.state().jobs[&JobId(2)].leased.len();
    assert_eq!(at_once, 1);
}

#[test]
fn gpus_are_those_of_any_vendor() {
    let mut world = World::new();
    worker_with(&mut world, 1, 4, &[]);
    worker_with(&mut world, 2, 4, &[("gpus/amd", 2)]);
    worker_with(&mut world, 3, 4, &[("gpus/nvidia", 2)]);
    world.submit(4, |spec| spec.requests = vec![request(&[("cpus", 1), ("gpus", 1)])]);
    assert_eq!(
        (world.sent(1), world.sent(2), world.sent(3)),
        ("".into(), "1:0-1/0".into(), "1:2-3/0".into())
    );
}

#[test]
fn requests_that_cannot_be_are_refused() {
    let mut world = World::new();
    let submit = |requests: Vec<Request>| {
        Submit::new(
            Target::New(JobSpec { name: "true".into(), ..JobSpec::default() }),
            TaskIds::Next(1),
            TaskSpec { body: Body::program(["true"]), requests, ..TaskSpec::default() },
        )
    };
    let mixed = vec![request(&[("cpus", 1)]), Request { nodes: 2, ..Request::default() }];
    for (requests, expected) in [
        (Vec::new(), "A task needs a resource request."),
        (mixed, "single-node and multi-node variants cannot be mixed"),
        (vec![request(&[("cpus", 1)]); 33], "33 resource variants are too many"),
    ] {
        let answer = world.answer_to(submit(requests));
        assert!(
            matches!(&answer, ClientResponse::Error(error) if error.to_string().contains(expected)),
            "{answer:?}"
        );
    }
}

#[test]
fn many_distinct_requests_are_served_one_after_the_other() {
    let mut world = World::new();
    for memory in 1..=300 {
        world.submit(1, |spec| spec.requests = vec![request(&[("cpus", 1), ("mem", memory)])]);
    }
    worker_with(&mut world, 1, 2, &[("mem", 1000)]);
    for job in 1..=300 {
        assert_eq!(world.states(JobId(job)), "waiting: 1 waiting");
        world.reports(1, |report| report.finished.push(finished(JobId(job), 0, 0, 0)));
        assert_eq!(world.states(JobId(job)), "finished: 1 finished");
    }
}

#[test]
fn a_picky_worker_starts_when_enough_of_it_is_used() {
    let mut world = World::new();
    let hello = WorkerHello {
        config: WorkerConfig { min_utilization: 5_000, ..config(4) },
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
    world.says(1, FromWorker::Hello(Box::new(hello)));
    let job = world.submit(1, |_| {});
    assert_eq!(world.sent(1), "", "a quarter is not enough");
    let why = "1: it is idle, and starts nothing before 50 % of its CPUs would be used";
    assert_eq!(super::explanations::explained(&mut world, job, 0), [why]);
    world.submit(1, |_| {});
    assert_eq!(world.sent(1), "1:0/0 2:0/0");
    world.submit(1, |_| {});
    assert_eq!(world.sent(1), "3:0/0", "it is not idle any more");
    world.worker(2, 1);
    world.submit(1, |_| {});
    assert_eq!(world.sent(1), "4:0/0");
}

#[test]
fn what_a_picky_worker_does_not_start_goes_elsewhere() {
    let mut world = World::new();
    let hello = WorkerHello {
        config: WorkerConfig { min_utilization: 10_000, ..config(4) },
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
    world.says(1, FromWorker::Hello(Box::new(hello)));
    world.worker(2, 2);
    world.submit(2, |_| {});
    assert_eq!((world.sent(1), world.sent(2)), ("".into(), "1:0-1/0".into()));
}

fn picky(world: &mut World, connection: u64, cpus: u32, min_utilization: u32) {
    world.worker_saying(connection, cpus, |hello| hello.config.min_utilization = min_utilization);
}

#[test]
fn a_picky_worker_gets_the_set_that_uses_it_and_is_worth_most() {
    // Priority, CPUs (none: all), weight, count of each job; what runs at once on so many CPUs of which all must be used.
    let check = |cpus: u32, jobs: &[(i32, Option<u64>, u32, u32)], expected: &str| {
        for joins_first in [true, false] {
            let mut world = World::new();
            if joins_first {
                picky(&mut world, 1, cpus, 10_000);
            }
            for (priority, cpus, weight, count) in jobs {
                let amount = match cpus {
                    Some(cpus) => AmountRequest::Some(Amount::whole(*cpus), Policy::Compact),
                    None => AmountRequest::All,
                };
                world.submit(*count, |spec| {
                    spec.priority = *priority;
                    let resources = vec![ResourceRequest { name: "cpus".into(), amount }];
                    spec.requests =
                        vec![Request { resources, weight: weight * 10_000, ..Request::default() }];
                });
            }
            if !joins_first {
                picky(&mut world, 1, cpus, 10_000);
            }
            let live = &world.server.live[&hq_model::WorkerId(1)];
            let placed =
                live.held().iter().filter(|(_, held)| !held.placed.is_empty()).map(|(template, held)| {
                    let count: u64 = held.placed.iter().map(|(_, ids)| ids.len()).sum();
                    format!("{}:{count}", template.job)
                });
            assert_eq!(placed.collect::<Vec<_>>().join(" "), expected, "{jobs:?}");
        }
    };
    // Nine of twelve are less than asked.
    check(12, &[(0, Some(3), 2, 3), (0, None, 1, 1)], "2:1");
    check(12, &[(0, Some(3), 2, 3), (0, Some(6), 1, 3)], "1:2 2:1");
    check(6, &[(1, Some(4), 1, 1), (0, Some(3), 1, 2)], "2:2");
    check(7, &[(1, Some(3), 1, 2), (0, Some(4), 9, 2)], "1:1 2:1");
    check(7, &[(0, Some(2), 1, 9)], "");
}

// An older job with one task of six CPUs, a younger one with two of five.
fn compete(world: &mut World) {
    world.submit(1, |spec| spec.requests = vec![request(&[("cpus", 6)])]);
    world.submit(2, |spec| spec.requests = vec![request(&[("cpus", 5)])]);
}

#[test]
fn where_classes_compete_the_planner_decides() {
    let mut world = World::new();
    compete(&mut world);
    world.worker(1, 10);
    let runs = world.to_workers.iter().filter_map(|(_, message)| match message {
        ToWorker::Run(batches) => Some(batches.iter().map(|run| format!("{}:{}", run.template.job, run.ids))),
        _ => None,
    });
    assert_eq!(
        runs.flatten().collect::<Vec<_>>(),
        ["2:0-1", "1:0"],
        "what is planned goes before what waits"
    );
    assert!(world.sent(1).starts_with("1:0/0 2:0-1/0"), "no CPU stays idle; the other task comes next");
    let held = &world.server.live[&hq_model::WorkerId(1)];
    assert!(held.has_backlog());
}

// Of which kind tasks run in each second, small ones that are due first (1) or large ones of an endless job (2), until all the
// small ones have ended. Each second all end that run or wait on the worker; it says that they took so long.
fn turns(comes_late: bool, small_ms: u64, large_ms: u64) -> String {
    let mut world = World::new();
    let small = |world: &mut World| {
        world.submit(40, |spec| {
            spec.requests = vec![request(&[("cpus", 1)])];
            spec.expected = comes_late.then_some(Duration::from_secs(20));
        })
    };
    let large =
        |world: &mut World| world.submit(100_000, |spec| spec.requests = vec![request(&[("cpus", 4)])]);
    let small = if comes_late {
        large(&mut world);
        world.worker(1, 8);
        world.wait(Duration::from_secs(1));
        small(&mut world)
    } else {
        let small = small(&mut world);
        world.wait(Duration::from_secs(1));
        large(&mut world);
        world.worker(1, 8);
        small
    };
    let (mut turns, mut left) = (String::new(), 40);
    while left > 0 && turns.len() < 200 {
        let held = world.server.live[&hq_model::WorkerId(1)].held().clone();
        let ids = |held: &Held| {
            let placed = held.placed.iter().map(|(_, ids)| ids);
            let waiting = held.waiting.clone();
            placed.fold(waiting, |mut all, ids| {
                all.union_with(ids);
                all
            })
        };
        let all: Vec<(JobId, IdSet)> =
            held.iter().map(|(template, held)| (template.job, ids(held))).collect();
        let ended = all.iter().filter(|(job, _)| *job == small).map(|(_, ids)| ids.len()).sum::<u64>();
        left -= ended;
        turns.push(if ended > 0 { '1' } else { '2' });
        let wall_us = |job| 1000 * if job == small { small_ms } else { large_ms };
        world.wait(Duration::from_secs(1));
        world.reports(1, |report| {
            let ends = all.iter().flat_map(|(job, ids)| ids.iter().map(|task| (*job, task.0)));
            let ends = ends.map(|(job, task)| finished_within(wall_us(job), job, task, task, 0));
            report.finished.extend(ends);
        });
    }
    turns
}

#[test]
fn what_plans_pass_over_has_its_turn_after_ten_seconds() {
    mark::take();
    assert_eq!(turns(false, 500, 500), "222222222211111");
    assert!(mark::take().contains("what plans have passed over for long has its turn"));
}

#[test]
fn what_short_tasks_that_wait_on_workers_pass_over_has_its_turn_after_ten_seconds() {
    assert_eq!(turns(true, 20_000, 1), "2222222222211111");
}

#[test]
fn nothing_that_competes_starts_before_the_plan_and_what_goes_first_does() {
    let mut world = World::new();
    world.plans_later = true;
    compete(&mut world);
    world.worker(1, 10);
    assert_eq!(world.sent(1), "", "it waits for the plan");
    world.submit(1, |spec| spec.priority = 1);
    assert_eq!(world.sent(1), "3:0/0", "a higher priority does not wait");
    world.plans_later = false;
    world.planned();
    assert!(world.sent(1).contains("2:0"), "one of the planned tasks still fits, the others are its backlog");
}

#[test]
fn room_that_is_no_longer_kept_is_offered_once_the_plan_is_there() {
    let mut world = World::new();
    let long = |spec: &mut TaskSpec, seconds: u64| {
        spec.expected = Some(Duration::from_secs(60));
        spec.requests[0].time_request = Duration::from_secs(seconds);
    };
    world.worker(1, 2);
    let first = world.submit(1, |spec| long(spec, 0));
    world.starts(1, first, 0);
    let pair = |world: &mut World, seconds| {
        world.submit(1, |spec| {
            spec.requests = vec![request(&[("cpus", 2)])];
            long(spec, seconds);
        })
    };
    pair(&mut world, 1);
    world.wait(Duration::from_secs(2));
    world.sent(1);
    world.submit(9, |spec| {
        spec.priority = -2;
        long(spec, 0);
    });
    assert_eq!(world.sent(1), "", "its CPU is kept for the pair");
    // Two classes compete for another worker: one has it, and nothing has waited for long any more.
    pair(&mut world, 2);
    world.worker(2, 2);
    assert_eq!((world.sent(1), world.sent(2)), ("3:0/0".into(), "2:0/0".into()));
    assert_eq!(world.server.wastes_nothing(world.now), Ok(()));
}

#[test]
fn room_that_was_kept_for_a_task_which_starts_elsewhere_is_offered_once_the_plan_is_there() {
    let mut world = World::new();
    let long = |spec: &mut TaskSpec, priority: i32, seconds: u64| {
        spec.priority = priority;
        spec.expected = Some(Duration::from_secs(60));
        spec.requests[0].time_request = Duration::from_secs(seconds);
    };
    world.worker(1, 2);
    let first = world.submit(1, |spec| long(spec, 0, 0));
    world.starts(1, first, 0);
    world.submit(1, |spec| {
        spec.requests = vec![request(&[("cpus", 2)])];
        long(spec, 1, 0);
    });
    world.wait(Duration::from_secs(2));
    world.sent(1);
    world.submit(9, |spec| long(spec, -2, 0));
    world.submit(1, |spec| long(spec, 0, 1));
    world.submit(1, |spec| long(spec, 0, 2));
    assert_eq!(world.sent(1), "", "its CPU is kept for the pair");
    world.plans_later = true;
    world.worker(2, 1);
    assert_eq!(world.sent(2), "", "two want it, which is planned");
    world.worker(3, 3);
    assert_eq!((world.sent(1), world.sent(3)), (String::new(), "2:0/0".into()), "the pair starts elsewhere");
    world.planned();
    assert_eq!(
        (world.sent(2), world.sent(1), world.sent(3)),
        ("4:0/0".into(), "5:0/0".into(), "3:0/0".into())
    );
    assert_eq!(world.server.wastes_nothing(world.now), Ok(()));
}

#[test]
fn a_plan_for_a_worker_that_has_become_idle_and_starts_only_for_enough_is_not_followed_there() {
    let mut world = World::new();
    for seconds in [1, 2] {
        world.submit(1, |spec| spec.requests[0].time_request = Duration::from_secs(seconds));
    }
    world.plans_later = true;
    world.worker(1, 1);
    world.worker_saying(2, 4, |hello| hello.config.min_utilization = 10_000);
    world.worker(3, 1);
    let (number, mut plan) = world.plans.remove(0);
    plan.lines.iter_mut().for_each(|line| line.worker = hq_model::WorkerId(2));
    world.step(Input::Planned { number, plan });
    assert_eq!(world.sent(2), "");
    assert!(!world.sent(1).is_empty() && !world.sent(3).is_empty(), "each has room for one");
    assert_eq!(world.server.wastes_nothing(world.now), Ok(()));
}

#[test]
fn without_a_plan_the_order_decides_after_a_while() {
    let mut world = World::new();
    world.plans_later = true;
    compete(&mut world);
    world.worker(1, 10);
    assert_eq!(world.sent(1), "");
    world.wait(Duration::from_millis(900));
    assert_eq!(world.sent(1), "");
    world.wait(Duration::from_millis(200));
    assert!(world.sent(1).starts_with("1:0/0"), "the older job has its CPUs");
    world.planned();
    assert_eq!(world.sent(1), "", "a late plan says nothing");
}

#[test]
fn one_plan_at_most_is_under_way_and_the_next_one_is_of_what_is_so_then() {
    let mut world = World::new();
    world.plans_later = true;
    compete(&mut world);
    world.worker(1, 10);
    assert_eq!(world.plans.len(), 1);
    // It is slow. What competes meanwhile is placed in order, and nothing more is asked.
    for connection in 2..6 {
        world.wait(Duration::from_secs(2));
        compete(&mut world);
        world.worker(connection, 10);
        assert!(!world.sent(connection).is_empty(), "in order");
        assert_eq!(world.plans.len(), 1, "the slow one is still under way");
    }
    world.planned();
    compete(&mut world);
    world.worker(6, 10);
    assert_eq!(world.plans.len(), 1, "a new one");
}

#[test]
fn a_plan_for_workers_and_tasks_that_are_gone_is_harmless() {
    let mut world = World::new();
    world.plans_later = true;
    compete(&mut world);
    world.worker(1, 10);
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    world.step(Input::WorkerGone { connection: ConnectionId(1), is_closed: false });
    world.planned();
    assert_eq!(world.sent(1), "");
    world.plans_later = false;
    world.worker(2, 10);
    let job = world.submit(1, |_| {});
    assert_eq!(world.sent(2), format!("{job}:0/0"));
}

#[test]
fn no_more_is_handed_over_as_fitting_than_groups_let_start() {
    for (asked, expected) in [("2 compact!", ["1:0-1/0", "1:2/0"]), ("2", ["1:0-2/0", ""])] {
        let mut world = World::new();
        for connection in [2, 3] {
            world.worker_saying(connection, 6, |hello| {
                let pool = hq_model::resources::parse_pool("cpus", "2x3").expect("a pool");
                hello.config.resources = WorkerResources::new(vec![pool], Vec::new()).expect("resources");
            });
        }
        let amount = hq_model::request::parse_amount("cpus", asked).expect("an amount");
        world.submit(3, |spec| spec.requests[0].resources[0].amount = amount);
        assert_eq!([world.sent(2), world.sent(3)], expected, "{asked}");
    }
}
