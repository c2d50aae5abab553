//! What holds for every plan: capacities, strict priorities, lives of workers, sums, determinism, any step budget.

use std::collections::BTreeMap;
use std::time::Duration;

use hq_model::amount::UNITS;
use hq_model::{
    Amount, AmountRequest, Policy, PoolKind, Request, ResourcePool, ResourceRequest, WorkerId,
    WorkerResources,
};
use hq_sched::{
    Class, ClassId, End, Options, Plan, PoolFree, ShareGroup, Snapshot, Waiting, Worker, all_free, plan,
};
use proptest::prelude::*;

const POOLS: [&str; 3] = ["cpus", "mem", "gpus/nvidia"];

// Pools are CPUs, memory and GPUs, in this order; without groups there is one group each.
fn shape(is_rich: bool) -> impl Strategy<Value = WorkerResources> {
    let groups = if is_rich { 1..4u32 } else { 1..2u32 };
    (groups, 1..9u32, 1..100u64, 0..3u32).prop_map(|(groups, cpus, mem, gpus)| {
        let grouped = |size: u32| {
            let group = |g: u32| (0..size).map(|i| format!("{}", g * size + i)).collect();
            PoolKind::Groups((0..groups).map(group).collect())
        };
        let mut kinds = vec![grouped(cpus), PoolKind::Sum(Amount::whole(mem))];
        if gpus > 0 {
            kinds.push(grouped(gpus));
        }
        let pool = |(name, kind): (&&str, PoolKind)| ResourcePool { name: (*name).into(), kind };
        WorkerResources { pools: POOLS.iter().zip(kinds).map(pool).collect(), coupling: Vec::new() }
    })
}

fn amount(is_rich: bool, most: u64) -> impl Strategy<Value = AmountRequest> {
    let policy = prop_oneof![
        3 => Just(Policy::Compact),
        1 => Just(Policy::CompactStrict),
        1 => Just(Policy::Tight),
        1 => Just(Policy::TightStrict),
        1 => Just(Policy::Scatter)
    ];
    (1..=most, 0..4u64, policy, 0..12u32).prop_map(move |(whole, quarters, policy, all)| match all {
        0 if is_rich => AmountRequest::All,
        _ if is_rich => AmountRequest::Some(Amount(whole * UNITS - quarters * UNITS / 4), policy),
        _ => AmountRequest::Some(Amount::whole(whole), Policy::Compact),
    })
}

fn request(is_rich: bool) -> impl Strategy<Value = Request> {
    let pools =
        (amount(is_rich, 6), prop::option::of(amount(false, 40)), prop::option::of(amount(is_rich, 2)));
    (pools, 1..50_000u32, prop_oneof![3 => Just(0), 1 => 1..100u64]).prop_map(
        |((cpus, mem, gpus), weight, time)| {
            let part = |(name, amount): (&&str, Option<AmountRequest>)| {
                Some(ResourceRequest { name: (*name).into(), amount: amount? })
            };
            let resources = POOLS.iter().zip([Some(cpus), mem, gpus]).filter_map(part).collect();
            Request { resources, weight, time_request: Duration::from_secs(time), ..Request::default() }
        },
    )
}

fn class(is_rich: bool) -> impl Strategy<Value = Class> {
    let variants = prop_oneof![
        6 => prop::collection::vec(request(is_rich), 1..4),
        1 => (1..4u32).prop_map(|nodes| vec![Request { nodes, ..Request::default() }]),
    ];
    let times = (prop::option::of(1..100_000_000u64), prop_oneof![Just(0), Just(60_000_000)]);
    let extras = (prop::option::weighted(0.2, 0..2u32), prop::option::weighted(0.2, 0..4u64));
    (1..20u64, -2..3i32, variants, times, extras).prop_map(
        |(ready, priority, variants, (expected_us, waiting_us), (share, key))| Class {
            id: ClassId(0),
            ready,
            priority,
            path_us: 0,
            age: 0,
            variants,
            share,
            key,
            expected_us,
            waiting_us,
        },
    )
}

fn snapshot(is_rich: bool) -> impl Strategy<Value = Snapshot> {
    let worker = (0..3usize, 0..5u32, 0..50u64, prop::option::weighted(0.3, 1..100u64), 0..2u32);
    (
        prop::collection::vec(shape(is_rich), 3),
        prop::collection::vec(worker, 0..8),
        prop::collection::vec(class(is_rich), 0..8),
        prop::collection::vec((0..3u64, 0..5u64, prop::option::of(5..9u64)), 2),
    )
        .prop_map(|(shapes, workers, mut classes, shares)| {
            let worker =
                |(at, (shape, cpus, mem, life, group)): (usize, (usize, u32, u64, Option<u64>, u32))| {
                    let mut free = all_free(&shapes[shape]);
                    let mut ends = Vec::new();
                    if let PoolFree::Groups(groups) = &mut free[0] {
                        let taken = groups[0].whole.min(cpus);
                        groups[0].whole -= taken;
                        ends.push(End { in_us: life, frees: vec![(0, Amount::whole(u64::from(taken)))] });
                    }
                    if let PoolFree::Sum(amount) = &mut free[1] {
                        amount.0 -= (mem * UNITS).min(amount.0);
                    }
                    Worker {
                        id: WorkerId(at as u32 + 1),
                        shape: shape as u32,
                        free,
                        life_us: life.map(|s| s * 1_000_000),
                        group,
                        ends,
                        keys: if at % 2 == 0 { vec![at as u64] } else { vec![] },
                    }
                };
            let workers = workers.into_iter().enumerate().map(worker).collect();
            for (at, class) in classes.iter_mut().enumerate() {
                class.id = ClassId(at as u32);
                class.age = at as u64;
            }
            let share = |(running, min, max)| ShareGroup { running, min, max, weight: 10_000, carried: 0 };
            Snapshot { shapes, workers, classes, shares: shares.into_iter().map(share).collect() }
        })
}

// Free units, whole indices and units by group of a pool.
fn sizes(free: &PoolFree) -> (u64, u64, Vec<u64>) {
    match free {
        PoolFree::Sum(amount) => (amount.0, u64::MAX, vec![amount.0]),
        PoolFree::Groups(groups) => {
            let whole = groups.iter().map(|g| u64::from(g.whole)).sum();
            let units: Vec<u64> = groups.iter().map(|g| u64::from(g.whole) * UNITS).collect();
            (units.iter().sum(), whole, units)
        }
    }
}

fn taken(request: &Request, shape: &WorkerResources, pool: usize) -> Option<(u64, bool)> {
    let part = request.resources.iter().find(|r| r.name == shape.pools[pool].name)?;
    Some(match part.amount {
        AmountRequest::All => (shape.pools[pool].kind.total().0, false),
        AmountRequest::Some(amount, policy) => {
            (amount.0, matches!(policy, Policy::CompactStrict | Policy::TightStrict))
        }
    })
}

fn check(snapshot: &Snapshot, plan: &Plan) {
    let class = |id: ClassId| &snapshot.classes[id.0 as usize];
    let mut used: BTreeMap<WorkerId, &str> = BTreeMap::new();
    for line in &plan.nodes {
        let nodes = class(line.class).variants[line.variant as usize].nodes;
        assert_eq!(line.workers.len(), nodes as usize, "as many workers as asked for");
        let groups: Vec<u32> =
            line.workers.iter().map(|w| snapshot.workers[w.0 as usize - 1].group).collect();
        assert!(groups.windows(2).all(|pair| pair[0] == pair[1]), "all of one group");
        for worker in &line.workers {
            assert!(used.insert(*worker, "nodes").is_none(), "a node runs one of these tasks");
            let at = &snapshot.workers[worker.0 as usize - 1];
            assert_eq!(at.free, all_free(&snapshot.shapes[at.shape as usize]), "nodes are idle");
        }
    }
    for (index, worker) in snapshot.workers.iter().enumerate() {
        let lines: Vec<_> = plan.lines.iter().filter(|line| line.worker.0 as usize == index + 1).collect();
        assert!(lines.is_empty() || !used.contains_key(&worker.id), "nothing starts beside a node");
        let shape = &snapshot.shapes[worker.shape as usize];
        let request = |line: &hq_sched::Line| &class(line.class).variants[line.variant as usize];
        for line in &lines {
            let needed = request(line).time_request.as_micros() as u64;
            assert!(worker.life_us.is_none_or(|life| life >= needed), "it lives long enough");
            for part in &request(line).resources {
                assert!(shape.giver(&part.name).is_some(), "it offers {}", part.name);
            }
        }
        for pool in 0..shape.pools.len() {
            let (units, whole, groups) = sizes(&worker.free[pool]);
            let of = |line: &&&hq_sched::Line| taken(request(line), shape, pool).map(|t| (t, line.count));
            let all: Vec<((u64, bool), u64)> = lines.iter().filter_map(|line| of(&line)).collect();
            let sum: u64 = all.iter().map(|((units, _), count)| units * count).sum();
            assert!(sum <= units, "{} of worker {}: {sum} of {units}", shape.pools[pool].name, index + 1);
            let wholes: u64 = all.iter().map(|((units, _), count)| units / UNITS * count).sum();
            assert!(whole == u64::MAX || wholes <= whole, "whole indices");
            if matches!(worker.free[pool], PoolFree::Groups(_)) {
                // More than half of an index cannot share it with another such part.
                let halves =
                    all.iter().map(|((units, _), count)| u64::from(units % UNITS > UNITS / 2) * count);
                assert!(wholes + halves.sum::<u64>() <= whole, "indices with their parts");
                let size = shape.pools[pool].kind.total().0 / groups.len() as u64;
                for &((units, is_strict), count) in all.iter().filter(|a| a.0.0 <= size) {
                    let room: u64 = groups.iter().map(|g| g / units).sum();
                    assert!(!is_strict || count <= room, "{count} within one group each, room for {room}");
                }
            }
        }
    }
    for class in &snapshot.classes {
        let lines: u64 = plan.lines.iter().filter(|l| l.class == class.id).map(|l| l.count).sum();
        let nodes = plan.nodes.iter().filter(|l| l.class == class.id).count() as u64;
        let waiting: u64 = plan.waiting.iter().filter(|w| w.class == class.id).map(|w| w.count).sum();
        assert_eq!(lines + nodes + waiting, class.ready, "each ready task starts or waits: {class:?}");
    }
    for (at, share) in snapshot.shares.iter().enumerate() {
        let of = |id: ClassId| class(id).share == Some(at as u32);
        let started = plan.lines.iter().filter(|l| of(l.class)).map(|l| l.count).sum::<u64>()
            + plan.nodes.iter().filter(|l| of(l.class)).count() as u64;
        let room = share.max.map_or(u64::MAX, |max| max.saturating_sub(share.running));
        assert!(started <= room, "{started} of share {at} that has room for {room}");
    }
}

// On one-group workers with whole amounts: nothing that waits would fit beside what is of its priority or a higher one.
fn check_priorities(snapshot: &Snapshot, plan: &Plan) {
    let held: Vec<WorkerId> = plan.holds.iter().map(|hold| hold.worker).collect();
    let nodes: Vec<WorkerId> = plan.nodes.iter().flat_map(|line| line.workers.clone()).collect();
    let class = |id: ClassId| &snapshot.classes[id.0 as usize];
    for waiting in plan.waiting.iter().filter(|w| w.reason != Waiting::Share) {
        let waits = class(waiting.class);
        if waits.share.is_some() {
            continue;
        }
        for worker in snapshot.workers.iter().filter(|w| !held.contains(&w.id) && !nodes.contains(&w.id)) {
            let shape = &snapshot.shapes[worker.shape as usize];
            for request in waits.variants.iter().filter(|v| v.nodes == 0) {
                let life = request.time_request.as_micros() as u64;
                let is_offered = request.resources.iter().all(|r| shape.giver(&r.name).is_some());
                if !is_offered || worker.life_us.is_some_and(|l| l < life) {
                    continue;
                }
                let fits = (0..shape.pools.len()).all(|pool| {
                    let before = plan.lines.iter().filter(|line| {
                        line.worker == worker.id && class(line.class).priority >= waits.priority
                    });
                    let used: u64 = before
                        .filter_map(|line| {
                            let request = &class(line.class).variants[line.variant as usize];
                            Some(taken(request, shape, pool)?.0 * line.count)
                        })
                        .sum();
                    let wanted = taken(request, shape, pool).map_or(0, |t| t.0);
                    sizes(&worker.free[pool]).0 >= used + wanted
                });
                assert!(!fits, "{waiting:?} is passed over on worker {}", worker.id);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_keeps_to_what_there_is(snapshot in snapshot(true)) {
        check(&snapshot, &plan(&snapshot, &Options::default()));
    }

    #[test]
    fn no_task_is_passed_over_for_one_of_lower_priority(snapshot in snapshot(false)) {
        let plan = plan(&snapshot, &Options::default());
        check(&snapshot, &plan);
        check_priorities(&snapshot, &plan);
    }

    #[test]
    fn any_step_budget_gives_a_plan_that_keeps_the_rules(snapshot in snapshot(false), steps in 0u64..5_000) {
        let plan = plan(&snapshot, &Options { steps, ..Options::default() });
        check(&snapshot, &plan);
        check_priorities(&snapshot, &plan);
    }

    #[test]
    fn equal_snapshots_give_equal_plans(snapshot in snapshot(true)) {
        let again = snapshot.clone();
        prop_assert_eq!(plan(&snapshot, &Options::default()), plan(&again, &Options::default()));
    }
}
