//! What is asked for, against the best number of workers in hindsight: many small random workloads, with short tasks and
//! bursts among them, on a cluster that lets wait. A fixed choice asks for a worker whenever one is missing, up to its number.
//! Of half of the workloads nothing is known before a task of the same length has ended.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

use hq_core::alloc::worth::{Cost, Slots, Work, worthwhile};
use hq_core::limits::START_UP_TIME;
use hq_model::allocation::Goal;

/// Numbers of workers that a fixed choice may have.
const FIXED: [u64; 10] = [1, 2, 3, 4, 6, 8, 16, 32, 64, 128];
const SECOND: u64 = 1_000_000;

struct Rng(u64);

impl Rng {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn one_of(&mut self, values: &[u64]) -> u64 {
        values[self.draw(values.len() as u64) as usize]
    }
}

struct Workload {
    seed: u64,
    // When, how many tasks, how long each takes: all in µs.
    bursts: Vec<(u64, u64, u64)>,
    wait_us: u64,
    idle_us: u64,
    slots: u64,
    backlog: u64,
    is_known: bool,
}

/// What came out of workloads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    /// Node time, s.
    pub cost: u64,
    /// Node time of the best fixed choices that take no more than a tenth longer, s.
    pub least: u64,
    /// Workloads that cost no more than a tenth more than that, in percent.
    pub as_good: u64,
    /// Workloads that cost no more than a tenth more than the best fixed choice that takes no longer, in percent.
    pub as_soon: u64,
    /// Workloads that no fixed choice beats by more than a tenth in both, time and node time, in percent.
    pub unbeaten: u64,
    /// How much time they take in the mean of that with plenty of workers, in percent.
    pub longer: u64,
    /// The workloads with the largest excess, in percent of the least node time, with their seeds.
    pub worst: [(u64, u64); 3],
}

#[derive(Clone, Copy)]
enum Asks {
    Fixed(u64),
    What(Goal),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Burst(usize),
    Comes,
    Ends(u64, u64),
    // Nothing: it is looked whether what is not known has become long.
    Looks,
    MayLeave(u64),
}

#[derive(Clone, Copy)]
struct Worker {
    asked_at: u64,
    free: u64,
    idle_since: u64,
}

fn workload(seed: u64) -> Workload {
    let mut rng = Rng(seed);
    rng.draw(2);
    // From a third of a second to half an hour.
    let each = SECOND / 3 * (1 << rng.draw(13)) * (8 + rng.draw(8)) / 8;
    let mut bursts = Vec::new();
    match rng.draw(3) {
        0 => bursts.push((0, rng.one_of(&[5, 20, 200, 1000]), each)),
        1 => {
            let mut at = 0;
            for _ in 0..2 + rng.draw(6) {
                bursts.push((at, rng.one_of(&[5, 20, 100]), each));
                at += SECOND * rng.one_of(&[5, 60, 400, 1200]);
            }
        }
        _ => {
            bursts.push((0, rng.one_of(&[20, 200]), each));
            bursts.push((SECOND, rng.one_of(&[5, 20]), each * rng.one_of(&[10, 30])));
        }
    }
    Workload {
        seed,
        bursts,
        wait_us: SECOND * rng.one_of(&[1, 10, 60, 600, 1800]),
        idle_us: SECOND * rng.one_of(&[10, 60, 300]),
        slots: rng.one_of(&[1, 4, 16]),
        backlog: rng.one_of(&[4, 32]),
        is_known: rng.draw(2) == 0,
    }
}

// The time until the last task has ended, and the node time, µs.
fn played(workload: &Workload, asks: Asks) -> (u64, u64) {
    let mut rng = Rng(workload.seed ^ 0x5eed);
    let mut events: BinaryHeap<Reverse<(u64, Happens)>> = BinaryHeap::new();
    for (at, burst) in workload.bursts.iter().enumerate() {
        events.push(Reverse((burst.0, Happens::Burst(at))));
    }
    let mut queue: VecDeque<(u64, u64)> = VecDeque::new();
    let mut workers: BTreeMap<u64, Worker> = BTreeMap::new();
    let mut with_room: BTreeSet<u64> = BTreeSet::new();
    let (mut last, mut node_us, mut end) = (0, 0, 0);
    // When each was asked for that has not come.
    let mut pending: VecDeque<u64> = VecDeque::new();
    let mut queued_us: u128 = 0;
    // Which lengths are known, since when others run that are not.
    let mut known: BTreeSet<u64> = BTreeSet::new();
    let mut running: BTreeMap<u64, u64> = BTreeMap::new();
    let mut waits: Vec<u64> = Vec::new();
    while let Some(Reverse((now, what))) = events.pop() {
        match what {
            Happens::Burst(at) => {
                let (_, tasks, each) = workload.bursts[at];
                for _ in 0..tasks {
                    let takes = each / 10 * (8 + rng.draw(5));
                    queue.push_back((takes, each));
                    queued_us += u128::from(each);
                }
            }
            Happens::Comes => {
                waits.extend(pending.pop_front().map(|asked| now - asked));
                last += 1;
                workers.insert(last, Worker { asked_at: now, free: workload.slots, idle_since: now });
                with_room.insert(last);
                events.push(Reverse((now + workload.idle_us, Happens::MayLeave(last))));
            }
            Happens::Looks => {}
            Happens::Ends(id, each) => {
                known.insert(each);
                if let Some(worker) = workers.get_mut(&id) {
                    worker.free += 1;
                    with_room.insert(id);
                    end = now;
                    if worker.free == workload.slots {
                        worker.idle_since = now;
                        events.push(Reverse((now + workload.idle_us, Happens::MayLeave(id))));
                    }
                }
            }
            Happens::MayLeave(id) => {
                let is_idle = |worker: &&Worker| {
                    worker.free == workload.slots && worker.idle_since + workload.idle_us <= now
                };
                if let Some(worker) = workers.get(&id).filter(is_idle) {
                    node_us += now - worker.asked_at;
                    workers.remove(&id);
                    with_room.remove(&id);
                }
            }
        }
        while let (Some(id), Some((takes, each))) = (with_room.first().copied(), queue.front().copied()) {
            queue.pop_front();
            queued_us -= u128::from(each);
            if let Some(worker) = workers.get_mut(&id) {
                worker.free -= 1;
                if worker.free == 0 {
                    with_room.remove(&id);
                }
            }
            running.entry(each).or_insert(now);
            events.push(Reverse((now + takes, Happens::Ends(id, each))));
        }
        let tasks = queue.len() as u64;
        if tasks == 0 {
            continue;
        }
        let there = workers.len() as u64;
        let asked = pending.len() as u64;
        let left = tasks.saturating_sub(asked * workload.slots);
        let wanted = match asks {
            Asks::Fixed(most) => left.div_ceil(workload.slots).min(most.saturating_sub(there + asked)),
            Asks::What(goal) => {
                let is_known = workload.is_known || queue.iter().all(|(_, each)| known.contains(each));
                let each = Duration::from_micros((queued_us / u128::from(tasks)) as u64);
                let since = queue.iter().filter_map(|(_, each)| running.get(each)).min();
                let ran = Duration::from_micros(since.map_or(0, |since| now - since));
                let here = vec![Slots::lasting(there * workload.slots)];
                let work = match is_known {
                    true => Work { tasks, each: Some(each), here, ..Work::default() },
                    false => Work { tasks, ran, here, ..Work::default() },
                };
                if !is_known && since.is_some() {
                    events.push(Reverse((now + 5 * SECOND, Happens::Looks)));
                }
                // Learned from those that have come.
                let usual = Duration::from_micros(waits.iter().copied().max().unwrap_or(0));
                let wait = usual + START_UP_TIME;
                let slots = |asked: &u64| {
                    let from = usual.saturating_sub(Duration::from_micros(now - asked));
                    Slots { from, ..Slots::lasting(workload.slots) }
                };
                let coming: Vec<Slots> = pending.iter().map(slots).collect();
                let waited = Duration::from_micros(pending.front().map_or(0, |asked| now - asked));
                let idle = Duration::from_micros(workload.idle_us);
                let cost = Cost { wait, together: 1, waited, idle, goal };
                worthwhile(&work, &coming, (left, workload.slots), &cost).0
            }
        };
        for _ in 0..wanted.min(workload.backlog - asked) {
            pending.push_back(now);
            let wait = workload.wait_us / 10 * (7 + rng.draw(7)) + SECOND;
            events.push(Reverse((now + wait, Happens::Comes)));
        }
    }
    (end, node_us)
}

/// Plays workloads, and compares them with the best fixed choices.
pub fn compared(goal: Goal, workloads: u64) -> Compared {
    let mut all = Compared::default();
    let mut excess = Vec::new();
    for seed in 0..workloads {
        let workload = workload(seed);
        let (took, cost) = played(&workload, Asks::What(goal));
        let fixed: Vec<(u64, u64)> = FIXED.iter().map(|most| played(&workload, Asks::Fixed(*most))).collect();
        // What the cheapest costs that takes no longer than so many hundredths of the time.
        let least_in = |hundredths: u64| {
            let in_time = fixed.iter().filter(|(fixed, _)| fixed * 100 <= took * hundredths);
            in_time.map(|(_, cost)| *cost).min().unwrap_or(cost)
        };
        let is_good = |least: u64| u64::from(cost * 10 <= least * 11);
        let least = least_in(110);
        let soonest = fixed.iter().map(|(fixed, _)| *fixed).min().unwrap_or(took).max(1);
        all.cost += cost / SECOND;
        all.least += least / SECOND;
        all.as_good += is_good(least);
        all.as_soon += is_good(least_in(100));
        // A tenth added to the time of the fixed choice, and not to ours.
        all.unbeaten += is_good(least_in(91));
        all.longer += took * 100 / soonest;
        excess.push((cost.saturating_sub(least) * 100 / least.max(1), seed));
    }
    for part in [&mut all.as_good, &mut all.as_soon, &mut all.unbeaten] {
        *part = *part * 100 / workloads.max(1);
    }
    all.longer /= workloads.max(1);
    excess.sort_unstable_by_key(|worst| Reverse(*worst));
    all.worst.iter_mut().zip(excess).for_each(|(worst, one)| *worst = one);
    all
}

/// Time until the last task has ended, and node time, of fixed numbers of workers, each of which runs so many tasks at once,
/// comes after about two seconds and leaves after so much idle time. Bursts are when, how many tasks, and how long each takes.
pub fn fixed(
    bursts: &[(Duration, u64, Duration)],
    (workers_max, slots): (u64, u64),
    idle: Duration,
) -> Vec<(Duration, Duration)> {
    let us = |time: Duration| time.as_micros() as u64;
    let bursts = bursts.iter().map(|(at, tasks, each)| (us(*at), *tasks, us(*each))).collect();
    let (seed, wait_us, idle_us, backlog, is_known) = (1, SECOND, us(idle), 32, true);
    let workload = Workload { seed, bursts, wait_us, idle_us, slots, backlog, is_known };
    let all = (1..=workers_max).map(|most| played(&workload, Asks::Fixed(most)));
    all.map(|(end, node)| (Duration::from_micros(end), Duration::from_micros(node))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_time_is_that_of_the_best_fixed_choice_and_a_tenth_at_most() {
        for (goal, as_good_least, unbeaten_least) in [(Goal::Makespan, 62, 94), (Goal::NodeHours, 80, 90)] {
            let told = compared(goal, 300);
            assert!(told.cost * 10 <= told.least * 11, "{goal:?}: {told:?}");
            assert!(told.as_good >= as_good_least, "{goal:?}: {told:?}");
            assert!(told.unbeaten >= unbeaten_least, "{goal:?}: {told:?}");
            if goal == Goal::Makespan {
                assert!(told.longer <= 150, "{told:?}");
            }
        }
    }
}
