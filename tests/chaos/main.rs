//! Real processes, killed at random moments while arrays are submitted, run, canceled and pruned.
//!
//! Every task appends its id and instance to a file of its job. When everything has ended: what was
//! acknowledged and not canceled ran, no instance of a task ran twice, and a task whose worker was not
//! killed ran once. `HQ_CHAOS_ROUNDS` says how many rounds to play (a short form by default), and
//! `HQ_CHAOS_SEED` what chance is made of. `cargo xtask chaos` plays all of it.

// A chaos says what it did.
#![allow(clippy::print_stderr)]

mod attack;
mod cluster;
mod net;
#[path = "../patience.rs"]
mod patience;
mod pulling;
mod relay;
mod soak;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::{Cluster, Submit, Where};
use net::LinkFault;

/// Rounds when nobody says how many.
const ROUNDS: u64 = 12;
/// Tasks of each round.
const TASKS: u32 = 40;

/// Chance, from a seed.
struct Chance(u64);

impl Chance {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}

/// Who is killed in the rounds of a play.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Server,
    Worker,
    /// A worker that stands still for longer than its grace.
    Frozen,
    /// The link of a worker.
    Link,
    /// The disk of the journal: it is full.
    Disk,
    /// Connections through a slow relay.
    Relay,
}

impl Victim {
    // Where that can be done.
    fn place(self) -> Where {
        match self {
            Victim::Server | Victim::Worker | Victim::Frozen => Where::Here,
            Victim::Link => Where::Net,
            Victim::Disk => Where::SmallDisk,
            Victim::Relay => Where::Relayed,
        }
    }

    // Whether workers live through it, and are to be waited for.
    fn spares_workers(self) -> bool {
        matches!(self, Victim::Server | Victim::Disk | Victim::Relay)
    }

    // How long a worker is waited for: where it comes back, a busy machine must not make one of it that is gone.
    fn grace(self) -> Duration {
        Duration::from_secs(if self.spares_workers() { 30 } else { 2 })
    }
}

/// What a round left behind.
struct Round {
    submit: Submit,
    may_be_canceled: bool,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seed() -> u64 {
    // A commit's hash is a seed, too.
    let text = std::env::var("HQ_CHAOS_SEED").unwrap_or_default();
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn servers_are_killed_and_nothing_acknowledged_is_lost_or_done_twice() {
    play(Victim::Server, number("HQ_CHAOS_ROUNDS").unwrap_or(ROUNDS));
}

#[test]
fn workers_are_killed_and_every_task_runs() {
    play(Victim::Worker, number("HQ_CHAOS_ROUNDS").map_or(ROUNDS, |rounds| rounds * 2 / 5));
}

#[test]
fn workers_stand_still_and_their_late_reports_change_nothing() {
    play(Victim::Frozen, number("HQ_CHAOS_ROUNDS").map_or(2, |rounds| rounds.div_ceil(25)));
}

#[test]
fn links_are_cut_slow_and_lossy_and_every_task_runs() {
    play(Victim::Link, number("HQ_CHAOS_ROUNDS").map_or(3, |rounds| rounds.div_ceil(10)));
}

#[test]
fn the_disk_is_full_and_what_is_acknowledged_runs_once() {
    play(Victim::Disk, number("HQ_CHAOS_ROUNDS").map_or(4, |rounds| rounds.div_ceil(10)));
}

#[test]
fn connections_are_slow_and_cut_and_every_task_runs_once() {
    play(Victim::Relay, number("HQ_CHAOS_ROUNDS").map_or(4, |rounds| rounds.div_ceil(10)));
}

fn play(victim: Victim, rounds: u64) {
    let begin = Instant::now();
    let mut chance = Chance(seed());
    let mut cluster = match Cluster::start(victim.place(), victim.grace()) {
        Ok(cluster) => cluster,
        Err(refused) => return eprintln!("left out, for this system does not permit it: {refused}"),
    };
    let faults = if victim == Victim::Link { LinkFault::all() } else { Vec::new() };
    let mut left: Vec<Round> = Vec::new();
    for round in 0..rounds {
        let submit = cluster.submit(round, TASKS);
        // Before, while and after it is taken in, and while its tasks run.
        pause(chance.below(150));
        let order = match (victim, chance.below(6)) {
            (Victim::Server, 0) => Some(cluster.hq(&["journal", "prune"])),
            (Victim::Server, 1) => Some(cluster.hq(&["job", "cancel", "last"])),
            _ => None,
        };
        let cancels = order.as_ref().is_some_and(|order| order.is("cancel"));
        if order.is_some() {
            pause(chance.below(60));
        }
        match victim {
            Victim::Server => cluster.kill_server(),
            Victim::Worker => cluster.kill_worker(chance.below(2) as usize),
            Victim::Frozen => cluster.freeze_worker(chance.below(2) as usize),
            Victim::Link => {
                let what = faults[chance.below(faults.len() as u64) as usize];
                let time = Duration::from_millis(300 + chance.below(3000));
                cluster.break_link(chance.below(2) as usize, what, time);
            }
            Victim::Disk => cluster.fill_disk(Duration::from_millis(100 + chance.below(1500))),
            Victim::Relay => {
                pause(chance.below(800));
                cluster.cut_relay();
            }
        }
        if let Some(mut order) = order {
            // It may have been done or not; both are right.
            order.wait();
        }
        // The last job is that of this round or, if it has not arrived yet, that of the one before.
        if let Some(before) = left.last_mut() {
            before.may_be_canceled |= cancels;
        }
        left.push(Round { submit, may_be_canceled: cancels });
        // A worker that is killed again and again shall not fail tasks by the crash limit alone.
        if chance.below(4) == 0 {
            cluster.wait_for_all();
        }
    }
    for round in &mut left {
        round.submit.finish();
    }
    cluster.wait_for_all();
    let (mut acknowledged, mut executions) = (0u64, 0u64);
    for (number, round) in left.iter().enumerate() {
        let runs = cluster.runs(number as u64);
        check(victim, number, round, &runs);
        acknowledged += u64::from(round.submit.job().is_some());
        executions += runs.values().map(|instances| instances.len() as u64).sum::<u64>();
    }
    let s = begin.elapsed().as_secs_f64();
    eprintln!("{rounds} rounds, {acknowledged} submits acknowledged, {executions} executions, {s:.0} s");
}

// What ran of a round: instances by task.
fn check(victim: Victim, number: usize, round: &Round, runs: &BTreeMap<u32, Vec<u32>>) {
    for (task, instances) in runs {
        let mut unique = instances.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(
            unique.len(),
            instances.len(),
            "round {number}, task {task}: an instance ran twice: {instances:?}"
        );
        if victim.spares_workers() {
            // A higher instance than 0 is one that was handed out again because the first never arrived.
            assert_eq!(
                instances.len(),
                1,
                "round {number}, task {task} ran as {instances:?}, its worker lived"
            );
        }
    }
    if round.submit.job().is_some() && !round.may_be_canceled {
        let missing: Vec<u32> = (1..=TASKS).filter(|task| !runs.contains_key(task)).collect();
        assert!(missing.is_empty(), "round {number}: tasks of an acknowledged submit never ran: {missing:?}");
    }
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}
