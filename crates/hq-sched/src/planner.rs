//! One round: classes in order, priority by priority.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::bins::{self, Bin};
use crate::fill;
use crate::hold::{self, HeldWorker};
use crate::limits::{CLASSES_MAX, HOLDS_MAX};
use crate::need::Need;
use crate::pack::{self, Item, Supply};
use crate::plan::{Hold, Line, NodesLine, Plan, Waiting, WaitingClass};
use crate::shares::{self, Share};
use crate::snapshot::{Class, ClassId, Options, PoolFree, Snapshot, all_free};
use crate::waiting;

/// Plans a round. Equal snapshots and options give equal plans.
pub fn plan(snapshot: &Snapshot, options: &Options) -> Plan {
    Round::new(snapshot, options).run()
}

struct Round<'a> {
    snapshot: &'a Snapshot,
    options: &'a Options,
    times: Vec<u64>,
    empty: Vec<Vec<PoolFree>>,
    // By shape, the most units any worker has free of each pool.
    most_free: Vec<Vec<u64>>,
    bins: Vec<Bin>,
    held: Vec<HeldWorker>,
    steps: u64,
    // By share group, tasks that may start: by its share, and by its maximum.
    room: Vec<u64>,
    room_max: Vec<u64>,
    placed: FxHashMap<(u32, usize, u32), u64>,
    // Class that placed tasks in this round, the first of each priority.
    first_placed: Option<ClassId>,
    plan: Plan,
}

// A class that is planned, with its variants resolved.
struct Resolved {
    class: usize,
    needs: Vec<Vec<Option<Need>>>,
}

impl<'a> Round<'a> {
    fn new(snapshot: &'a Snapshot, options: &'a Options) -> Round<'a> {
        let mut times: Vec<u64> = vec![0];
        times.extend(
            snapshot.classes.iter().flat_map(|c| &c.variants).map(|v| v.time_request.as_micros() as u64),
        );
        times.sort_unstable();
        times.dedup();
        let empty: Vec<Vec<PoolFree>> = snapshot.shapes.iter().map(all_free).collect();
        let bins = bins::group(snapshot, &times);
        let mut most_free: Vec<Vec<u64>> = empty.iter().map(|pools| vec![0; pools.len()]).collect();
        for bin in &bins {
            let units = bins::units(&bin.free);
            most_free[bin.shape].iter_mut().zip(units).for_each(|(most, free)| *most = free.max(*most));
        }
        Round {
            snapshot,
            options,
            times,
            empty,
            most_free,
            bins,
            held: Vec::new(),
            steps: options.steps,
            room: Vec::new(),
            room_max: Vec::new(),
            placed: FxHashMap::default(),
            first_placed: None,
            plan: Plan::default(),
        }
    }

    fn run(mut self) -> Plan {
        let classes = &self.snapshot.classes;
        let mut order: Vec<usize> = (0..classes.len()).filter(|&c| classes[c].ready > 0).collect();
        order.sort_by_cached_key(|&c| {
            let class = &classes[c];
            let weight = class.variants.iter().map(|v| v.weight).max();
            (Reverse(class.priority), Reverse(weight), Reverse(class.path_us), class.age, class.id, c)
        });
        self.divide_shares();
        // Classes too large for what is free are only explained; they do not use up the round.
        let mut planned: Vec<Resolved> = Vec::new();
        let mut explained = 0;
        for class in order {
            let resolved = self.resolve(class);
            let nodes = classes[class].variants.iter().any(|v| v.nodes > 0);
            let is_possible = nodes || resolved.needs.iter().flatten().any(Option::is_some);
            if !is_possible {
                let reason = waiting::never(self.snapshot, &classes[class]);
                self.wait(class, classes[class].ready, reason);
            } else if !nodes && !self.may_fit(&resolved) && explained >= CLASSES_MAX / 4 {
                let reason = waiting::busy(self.snapshot, &classes[class], &resolved.needs, false);
                self.wait(class, classes[class].ready, reason);
            } else if planned.len() < self.options.classes_max {
                explained += usize::from(!self.may_fit(&resolved));
                planned.push(resolved);
            } else {
                self.plan.deferred += 1;
            }
        }
        let mut rest = &planned[..];
        while let Some(first) = rest.first() {
            let priority = classes[first.class].priority;
            let end = rest.iter().position(|r| classes[r.class].priority != priority).unwrap_or(rest.len());
            let (level, others) = rest.split_at(end);
            self.level(level, others.is_empty());
            rest = others;
        }
        self.finish()
    }

    fn resolve(&self, class: usize) -> Resolved {
        let variants = &self.snapshot.classes[class].variants;
        let needs = variants.iter().map(|variant| {
            let need = |shape| if variant.nodes > 0 { None } else { Need::new(shape, variant) };
            self.snapshot.shapes.iter().map(need).collect()
        });
        Resolved { class, needs: needs.collect() }
    }

    fn may_fit(&self, resolved: &Resolved) -> bool {
        let enough = |shape: usize, need: &Need| {
            need.parts.iter().all(|part| self.most_free[shape][part.pool] >= part.units)
        };
        resolved.needs.iter().any(|needs| {
            needs
                .iter()
                .enumerate()
                .any(|(shape, need)| need.as_ref().is_some_and(|need| enough(shape, need)))
        })
    }

    fn time_rank(&self, class: usize, variant: usize) -> usize {
        let wanted = self.snapshot.classes[class].variants[variant].time_request.as_micros() as u64;
        self.times.partition_point(|t| *t < wanted)
    }

    // One priority.
    fn level(&mut self, level: &[Resolved], is_last: bool) {
        let snapshot = self.snapshot;
        let class = |at: usize| &snapshot.classes[level[at].class];
        let items = self.items(level);
        let mut supply = Supply {
            ready: (0..level.len()).map(|at| class(at).ready).collect(),
            share: (0..level.len()).map(|at| class(at).share.map(|s| s as usize)).collect(),
            room: self.room.clone(),
        };
        let before = supply.ready.clone();
        self.place_nodes(level, &mut supply);
        for at in 0..level.len() {
            if class(at).waiting_us >= self.options.patience_us && !self.fits_now(&items, at) {
                self.hold(level, &items, at, &supply);
            }
        }
        // Beside large tasks first: what ends in time there leaves room elsewhere for what does not.
        self.backfill(level, &items, &mut supply);
        self.place_near_keys(level, &items, &mut supply);
        self.pack(level, &items, &mut supply);
        if !snapshot.shares.is_empty() {
            // What shares leave idle is for everybody, up to the maxima.
            let started = |at: usize| self.room[at] - supply.room[at];
            let left: Vec<u64> = (0..self.room.len()).map(|at| self.room_max[at] - started(at)).collect();
            let started: Vec<u64> = (0..self.room.len()).map(started).collect();
            supply.room = left;
            let before = supply.room.clone();
            self.pack(level, &items, &mut supply);
            for (at, started) in started.into_iter().enumerate() {
                let more = before[at] - supply.room[at];
                self.room_max[at] = supply.room[at];
                self.room[at] = self.room[at].saturating_sub(started + more);
            }
        }
        for (at, &before) in before.iter().enumerate() {
            if supply.of(at) > 0 && supply.ready[at] == before && !is_last {
                self.hold(level, &items, at, &supply);
            }
            if supply.ready[at] < before && self.first_placed.is_none() {
                self.first_placed = Some(class(at).id);
            }
        }
        for (at, resolved) in level.iter().enumerate() {
            if supply.ready[at] > 0 {
                let reason = self.reason(resolved, &items, at, &supply);
                self.wait(resolved.class, supply.ready[at], reason);
            }
        }
    }

    fn items(&self, level: &[Resolved]) -> Vec<Item> {
        let mut items = Vec::new();
        for (at, resolved) in level.iter().enumerate() {
            for (variant, needs) in resolved.needs.iter().enumerate() {
                if needs.iter().all(Option::is_none) {
                    continue;
                }
                let units = |(shape, need): (usize, &Option<Need>)| {
                    let mut units = vec![0; self.empty[shape].len()];
                    need.iter().flat_map(|n| &n.parts).for_each(|part| units[part.pool] += part.units);
                    units
                };
                let weight = self.snapshot.classes[resolved.class].variants[variant].weight;
                items.push(Item {
                    class: at,
                    variant: variant as u32,
                    value: u64::from(weight.clamp(1, 1_000_000_000)) * 16,
                    time: self.time_rank(resolved.class, variant),
                    needs: needs.clone(),
                    units: needs.iter().enumerate().map(units).collect(),
                });
            }
        }
        items
    }

    fn pack(&mut self, level: &[Resolved], items: &[Item], supply: &mut Supply) {
        let pieces = pack::pack(&self.bins, &self.empty, items, supply, &mut self.steps);
        let mut new = Vec::new();
        for piece in pieces {
            if piece.placed.is_empty() {
                continue;
            }
            let Bin { shape, life, .. } = self.bins[piece.bin];
            let workers: Vec<u32> = self.bins[piece.bin].workers.drain(..piece.count as usize).collect();
            for &(item, count) in &piece.placed {
                for &worker in &workers {
                    let item = &items[item];
                    *self.placed.entry((worker, level[item.class].class, item.variant)).or_default() += count;
                }
            }
            new.push(Bin { shape, life, free: piece.free, workers });
        }
        if !new.is_empty() {
            self.bins.extend(new);
            self.bins = bins::merge(std::mem::take(&mut self.bins));
        }
    }

    // Tasks with a locality key: first on workers that ran it; a new key opens on the least loaded worker.
    fn place_near_keys(&mut self, level: &[Resolved], items: &[Item], supply: &mut Supply) {
        let snapshot = self.snapshot;
        let key = |at: usize| snapshot.classes[level[at].class].key;
        if !(0..level.len()).any(|at| key(at).is_some()) {
            return;
        }
        let mut homes: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
        for (at, worker) in snapshot.workers.iter().enumerate() {
            worker.keys.iter().for_each(|key| homes.entry(*key).or_default().push(at as u32));
        }
        let mut alone: BTreeMap<u32, Bin> = BTreeMap::new();
        for bin in std::mem::take(&mut self.bins) {
            for &worker in &bin.workers {
                alone.insert(worker, Bin { workers: vec![worker], free: bin.free.clone(), ..bin });
            }
        }
        for is_new in [false, true] {
            for item in items {
                let Some(key) = key(item.class) else { continue };
                let known = homes.get(&key);
                let least_loaded;
                let targets: &[u32] = match known {
                    Some(homes) if !is_new => homes,
                    None if is_new => {
                        let load = |w: &u32| Reverse(bins::units(&alone[w].free).first().copied());
                        least_loaded = alone.keys().copied().min_by_key(|w| (load(w), *w));
                        least_loaded.as_slice()
                    }
                    _ => continue,
                };
                let targets = targets.to_vec();
                for worker in targets {
                    let Some(bin) = alone.get_mut(&worker).filter(|bin| bin.life > item.time) else {
                        continue;
                    };
                    let Some(need) = &item.needs[bin.shape] else { continue };
                    let count =
                        fill::take(&mut bin.free, &self.empty[bin.shape], need, supply.of(item.class));
                    if count > 0 {
                        supply.take(item.class, count);
                        let class = level[item.class].class;
                        *self.placed.entry((worker, class, item.variant)).or_default() += count;
                        if is_new {
                            homes.entry(key).or_default().push(worker);
                        }
                    }
                }
            }
        }
        self.bins = bins::merge(alone.into_values().collect());
    }

    fn place_nodes(&mut self, level: &[Resolved], supply: &mut Supply) {
        for (at, resolved) in level.iter().enumerate() {
            let class = &self.snapshot.classes[resolved.class];
            for (variant, request) in class.variants.iter().enumerate().filter(|(_, v)| v.nodes > 0) {
                let time = self.time_rank(resolved.class, variant);
                while supply.of(at) > 0 {
                    let Some(workers) = self.idle(time, request.nodes as usize) else { break };
                    for bin in &mut self.bins {
                        bin.workers.retain(|w| !workers.contains(w));
                    }
                    supply.take(at, 1);
                    let workers = workers.iter().map(|w| self.snapshot.workers[*w as usize].id).collect();
                    self.plan.nodes.push(NodesLine { class: class.id, variant: variant as u32, workers });
                }
            }
        }
    }

    // Idle workers of the group in which the fewest stay over.
    fn idle(&self, time: usize, nodes: usize) -> Option<Vec<u32>> {
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for bin in self.bins.iter().filter(|b| b.life > time && b.free == self.empty[b.shape]) {
            for &worker in &bin.workers {
                groups.entry(self.snapshot.workers[worker as usize].group).or_default().push(worker);
            }
        }
        let fitting = groups.into_iter().filter(|(_, workers)| workers.len() >= nodes);
        let (_, mut workers) = fitting.min_by_key(|(group, workers)| (workers.len(), *group))?;
        workers.sort_unstable();
        workers.truncate(nodes);
        Some(workers)
    }

    fn fits_now(&self, items: &[Item], class: usize) -> bool {
        items.iter().filter(|item| item.class == class).any(|item| {
            self.bins.iter().any(|bin| {
                let need = item.needs[bin.shape].as_ref().filter(|_| bin.life > item.time);
                need.is_some_and(|need| fill::fits(&bin.free, &self.empty[bin.shape], need))
            })
        })
    }

    fn hold(&mut self, level: &[Resolved], items: &[Item], at: usize, supply: &Supply) {
        let class = level[at].class;
        if self.plan.holds.len() >= HOLDS_MAX
            || supply.of(at) == 0
            || self.held.iter().any(|h| h.class == class)
        {
            return;
        }
        let nodes = self.snapshot.classes[class].variants[0].nodes as usize;
        if nodes > 0 {
            let time = self.time_rank(class, 0);
            return self.hold_nodes(class, nodes, time);
        }
        let Some(item) = items.iter().find(|item| item.class == at) else { return };
        if let Some(held) = hold::hold(self.snapshot, &mut self.bins, &self.empty, item, class) {
            self.keep(held);
        }
    }

    fn keep(&mut self, held: HeldWorker) {
        self.plan.holds.push(Hold {
            worker: self.snapshot.workers[held.worker as usize].id,
            class: self.snapshot.classes[held.class].id,
            until_us: held.until_us,
        });
        self.held.push(held);
    }

    // The workers of one group that are wholly free first.
    fn hold_nodes(&mut self, class: usize, nodes: usize, time: usize) {
        let mut groups: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
        for bin in self.bins.iter().filter(|bin| bin.life > time) {
            let needed = bins::units(&self.empty[bin.shape]);
            for &at in &bin.workers {
                let worker = &self.snapshot.workers[at as usize];
                groups.entry(worker.group).or_default().push((hold::earliest(worker, &needed), at));
            }
        }
        let best = groups.into_values().filter(|g| g.len() >= nodes).map(|mut group| {
            group.sort_unstable();
            group.truncate(nodes);
            group
        });
        let Some(best) = best.min_by_key(|group| {
            (group.last().map(|w| w.0), group.iter().map(|w| u128::from(w.0)).sum::<u128>(), group[0].1)
        }) else {
            return;
        };
        let when = best.last().map_or(u64::MAX, |w| w.0);
        for (_, worker) in best {
            let Some(bin) = self.bins.iter_mut().find(|bin| bin.workers.contains(&worker)) else { continue };
            bin.workers.retain(|w| *w != worker);
            let Bin { shape, life, .. } = *bin;
            let (free, beside) = (bin.free.clone(), vec![0; bin.free.len()]);
            let until_us = (when != u64::MAX).then_some(when);
            self.keep(HeldWorker { worker, class, until_us, shape, life, free, beside });
        }
    }

    fn backfill(&mut self, level: &[Resolved], items: &[Item], supply: &mut Supply) {
        let snapshot = self.snapshot;
        let expected = |at: usize| snapshot.classes[level[at].class].expected_us;
        for held in &mut self.held {
            for (item, count) in hold::backfill(held, &self.empty, items, &expected, supply) {
                let item = &items[item];
                *self.placed.entry((held.worker, level[item.class].class, item.variant)).or_default() +=
                    count;
            }
        }
    }

    fn divide_shares(&mut self) {
        let groups = &self.snapshot.shares;
        if groups.is_empty() {
            return;
        }
        let mut ready = vec![0u64; groups.len()];
        let mut slots = 0;
        for (index, class) in self.snapshot.classes.iter().enumerate() {
            let Some(share) = class.share else { continue };
            ready[share as usize] += class.ready;
            if slots == 0 {
                slots = self.slots(index);
            }
        }
        let running: u64 = groups.iter().map(|g| g.running).sum();
        let most = |at: usize| groups[at].max.unwrap_or(u64::MAX);
        let share = |at: usize| {
            let max = most(at).min(groups[at].running + ready[at]);
            Share { min: groups[at].min, max, weight: groups[at].weight, carried: groups[at].carried }
        };
        let wanted: Vec<Share> = (0..groups.len()).map(share).collect();
        let given = shares::divide(running + slots, &wanted);
        self.room = given.iter().zip(groups).map(|(given, g)| given.0.saturating_sub(g.running)).collect();
        self.room_max = (0..groups.len()).map(|at| most(at).saturating_sub(groups[at].running)).collect();
        self.plan.carried = given.iter().map(|given| given.1).collect();
    }

    // Tasks of a class that would fit now if there were no others.
    fn slots(&self, class: usize) -> u64 {
        let resolved = self.resolve(class);
        let fitting = |bin: &Bin| {
            let room = |needs: &Vec<Option<Need>>| {
                let need = needs[bin.shape].as_ref()?;
                Some(fill::take(&mut bin.free.clone(), &self.empty[bin.shape], need, 1 << 20))
            };
            resolved.needs.iter().filter_map(room).max().unwrap_or(0) * bin.workers.len() as u64
        };
        self.bins.iter().map(fitting).sum()
    }

    fn reason(&self, resolved: &Resolved, items: &[Item], at: usize, supply: &Supply) -> Waiting {
        let class = &self.snapshot.classes[resolved.class];
        if supply.of(at) == 0 {
            return Waiting::Share;
        }
        let lives = self.bins.iter().map(|bin| bin.life).chain(self.held.iter().map(|held| held.life));
        let longest = lives.max().unwrap_or(0);
        if (0..class.variants.len()).all(|variant| self.time_rank(resolved.class, variant) >= longest) {
            return waiting::busy(self.snapshot, class, &resolved.needs, false);
        }
        let fitting = |held: &&HeldWorker| {
            items.iter().filter(|item| item.class == at).any(|item| {
                item.needs[held.shape]
                    .as_ref()
                    .is_some_and(|n| fill::fits(&held.free, &self.empty[held.shape], n))
            })
        };
        if let Some(held) = self.held.iter().filter(|h| h.class != resolved.class).find(fitting) {
            return Waiting::Held { class: self.snapshot.classes[held.class].id };
        }
        match self.first_placed {
            Some(first) if self.may_fit(resolved) && first != class.id => Waiting::Behind { class: first },
            _ => waiting::busy(self.snapshot, class, &resolved.needs, self.plan.waiting.len() < 1_000),
        }
    }

    fn wait(&mut self, class: usize, count: u64, reason: Waiting) {
        let class: &Class = &self.snapshot.classes[class];
        self.plan.waiting.push(WaitingClass { class: class.id, count, reason });
    }

    fn finish(mut self) -> Plan {
        let line = |(&(worker, class, variant), &count): (&(u32, usize, u32), &u64)| Line {
            worker: self.snapshot.workers[worker as usize].id,
            class: self.snapshot.classes[class].id,
            variant,
            count,
        };
        self.plan.lines = self.placed.iter().map(line).collect();
        self.plan.lines.sort_unstable();
        self.plan
    }
}
