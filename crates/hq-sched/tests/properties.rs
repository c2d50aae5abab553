//! What holds for every plan: capacities, lives of workers, shares, nothing passed over, determinism, any step budget.
//!
//! Snapshots are drawn as the server makes them: of a job with a share, what it lacks of its minimum is a class of its own
//! with the same name and larger weights.

use std::collections::BTreeMap;

use hq_model::amount::UNITS;
use hq_model::{Amount, WorkerId};
use hq_sched::limits::STEPS;
use hq_sched::{Class, ClassId, Plan, Shape, ShareGroup, Snapshot, Take, Variant, Worker, plan};
use proptest::prelude::*;

// What tasks ask for: `cpus`, `mem`, `gpus` and `gpus/nvidia`; the last two have one giver.
fn shape() -> impl Strategy<Value = Shape> {
    (1..25u64, 1..100u64, 0..7u64).prop_map(|(cpus, mem, gpus)| {
        let gives = (gpus > 0).then_some(2);
        let mut totals = vec![Amount::whole(cpus), Amount::whole(mem)];
        totals.extend(gives.map(|_| Amount::whole(gpus)));
        Shape { totals, givers: vec![Some(0), Some(1), gives, gives] }
    })
}

fn take(most: u64) -> impl Strategy<Value = Take> {
    (1..=most, 0..4u64, 0..12u32).prop_map(|(whole, quarters, kind)| match kind {
        0 => Take::All,
        1..5 => Take::Some(Amount(whole * UNITS - quarters * UNITS / 4)),
        _ => Take::Some(Amount::whole(whole)),
    })
}

fn variant() -> impl Strategy<Value = Variant> {
    let takes = (
        prop::option::weighted(0.9, take(6)),
        prop::option::of(take(40)),
        prop::option::of(take(2)),
        2..4u32,
    );
    (takes, 1..50_000u32, prop_oneof![3 => Just(0), 1 => 1..100u64]).prop_map(
        |((cpus, mem, gpus, named), weight, time)| {
            let takes = [(0, cpus), (1, mem), (named, gpus)].into_iter();
            let takes = takes.filter_map(|(resource, take)| Some((resource, take?))).collect();
            Variant { weight, takes, time_us: time * 1_000_000 }
        },
    )
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let worker = (0..3usize, 0..25u64, 0..50u64, prop::option::weighted(0.3, 1..100u64));
    let class =
        (1..20u64, prop::collection::vec(variant(), 1..4), prop::option::weighted(0.2, 0..2u32), 0..6u64);
    let share = (0..3u64, 0..5u64, prop::option::of(5..9u64));
    (
        prop::collection::vec(shape(), 3),
        prop::collection::vec(worker, 0..8),
        prop::collection::vec(class, 0..8),
        prop::collection::vec(share, 2),
    )
        .prop_map(|(shapes, workers, classes, shares)| {
            let worker = |(at, (shape, cpus, mem, life)): (u32, (usize, u64, u64, Option<u64>))| {
                let mut free = shapes[shape].totals.clone();
                free[0].0 = free[0].0.saturating_sub(cpus * UNITS / 4);
                free[1].0 = free[1].0.saturating_sub(mem * UNITS);
                let life_us = life.map(|seconds| seconds * 1_000_000);
                Worker { id: WorkerId(at + 1), shape: shape as u32, free, life_us }
            };
            let workers = (0..).zip(workers).map(worker).collect();
            let mut snapshot = Snapshot { shapes, workers, ..Snapshot::default() };
            for (at, (ready, variants, share, missing)) in (0..).zip(classes) {
                let rest = Class { id: ClassId(at), ready, variants, share };
                let missing = share.map_or(0, |_| missing.min(ready));
                let mut first = Class { ready: missing, ..rest.clone() };
                first.variants.iter_mut().for_each(|variant| variant.weight *= 4);
                let rest = Class { ready: ready - missing, ..rest };
                snapshot.classes.extend([first, rest].into_iter().filter(|class| class.ready > 0));
            }
            let share = |(running, min, max)| ShareGroup { running, min, max, weight: 10_000, carried: 0 };
            snapshot.shares = shares.into_iter().map(share).collect();
            snapshot
        })
}

// What one task takes of each pool of a worker; nothing when it could never run there.
fn takes(shape: &Shape, variant: &Variant) -> Option<Vec<u64>> {
    let mut all = vec![0; shape.totals.len()];
    for (resource, take) in &variant.takes {
        let pool = shape.givers[*resource as usize]? as usize;
        all[pool] += match take {
            Take::All => shape.totals[pool].0,
            Take::Some(amount) => amount.0,
        };
    }
    all.iter().zip(&shape.totals).all(|(units, total)| *units <= total.0).then_some(all)
}

// By name: all classes of that name.
fn classes(snapshot: &Snapshot) -> BTreeMap<ClassId, Vec<&Class>> {
    let mut classes: BTreeMap<ClassId, Vec<&Class>> = BTreeMap::new();
    snapshot.classes.iter().for_each(|class| classes.entry(class.id).or_default().push(class));
    classes
}

fn check(snapshot: &Snapshot, plan: &Plan) {
    let classes = classes(snapshot);
    let mut free: Vec<Vec<u64>> =
        snapshot.workers.iter().map(|worker| worker.free.iter().map(|free| free.0).collect()).collect();
    let mut started: BTreeMap<ClassId, u64> = BTreeMap::new();
    for line in &plan.lines {
        let at = line.worker.0 as usize - 1;
        let worker = &snapshot.workers[at];
        let variant = &classes[&line.class][0].variants[line.variant as usize];
        assert!(line.count > 0, "no line says nothing");
        assert!(worker.life_us.is_none_or(|life| life >= variant.time_us), "it lives long enough");
        let takes = takes(&snapshot.shapes[worker.shape as usize], variant).expect("it can run there");
        for (free, units) in free[at].iter_mut().zip(takes) {
            *free = free.checked_sub(units * line.count).expect("no more than is free");
        }
        *started.entry(line.class).or_default() += line.count;
    }
    assert_eq!(plan.carried.len(), snapshot.shares.len(), "a remainder for each share");
    let mut full: Vec<u32> = Vec::new();
    for (at, share) in (0..).zip(&snapshot.shares) {
        let of = |line: &&hq_sched::Line| classes[&line.class][0].share == Some(at);
        let started: u64 = plan.lines.iter().filter(of).map(|line| line.count).sum();
        let room = share.max.map_or(u64::MAX, |max| max.saturating_sub(share.running));
        assert!(started <= room, "{started} of share {at} that has room for {room}");
        full.extend((started == room).then_some(at));
    }
    for (id, classes) in &classes {
        let ready: u64 = classes.iter().map(|class| class.ready).sum();
        let started = started.get(id).copied().unwrap_or(0);
        assert!(started <= ready, "{started} of {ready} ready tasks");
        if started == ready || classes[0].share.is_some_and(|share| full.contains(&share)) {
            continue;
        }
        for (worker, free) in snapshot.workers.iter().zip(&free) {
            for variant in &classes[0].variants {
                let takes = takes(&snapshot.shapes[worker.shape as usize], variant);
                let lives = worker.life_us.is_none_or(|life| life >= variant.time_us);
                let fits =
                    takes.is_some_and(|takes| takes.iter().zip(free).all(|(units, free)| units <= free));
                assert!(!fits || !lives, "{id:?} is passed over on worker {}", worker.id);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_keeps_to_what_there_is_and_passes_nothing_over(snapshot in snapshot()) {
        check(&snapshot, &plan(&snapshot, STEPS));
    }

    #[test]
    fn any_step_budget_gives_a_plan_that_keeps_the_rules(snapshot in snapshot(), steps in 0u64..5_000) {
        check(&snapshot, &plan(&snapshot, steps));
    }

    #[test]
    fn equal_snapshots_give_equal_plans(snapshot in snapshot()) {
        let again = snapshot.clone();
        prop_assert_eq!(plan(&snapshot, STEPS), plan(&again, STEPS));
    }
}
