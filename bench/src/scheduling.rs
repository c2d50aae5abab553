//! What is decided, in virtual time: how close to the ideal a mixed load ends, how fast tasks are placed on a large
//! machine, how well shares are kept, and what locality keys gain.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hq_core::worker::Start;
use hq_model::job::Share;
use hq_model::request::WEIGHT_NEUTRAL;
use hq_model::{Entries, JobId};

use crate::cluster::Bench;
use crate::row::{BoxError, Row};
use crate::virtual_cluster::{VirtualCluster, array};

/// Numbers that look drawn and are the same in each run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// The next one below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// 60 000 tasks of 1, 2, 4, 8, 16 and 32 s on 1 200 slots.
///
/// # Errors
/// When something does not end.
pub(crate) fn mixed(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let bound = 114.3;
    let mut rows = Vec::new();
    for (name, least, is_hinted, is_shuffled) in [
        ("mixed: six arrays", 109.0, false, false),
        ("mixed: one shuffled array", 109.0, false, true),
        ("mixed: six arrays, --expect", 113.0, true, false),
    ] {
        let each = if bench.is_quick { 1_000 } else { 10_000 };
        let mut order: Vec<u64> = (0..6 * each).map(|at| 1 << (at % 6)).collect();
        let mut numbers = Numbers(1);
        for at in (1..order.len()).rev() {
            order.swap(at, numbers.below(at as u64 + 1) as usize);
        }
        let run_time = move |_: usize, start: &Start| {
            let kind = start.task.job.0 - 1;
            let of_array = 1_u64 << kind;
            Duration::from_secs(if is_shuffled { order[start.task.task.0 as usize] } else { of_array })
        };
        let slots = if bench.is_quick { 120 } else { 1_200 };
        let mut cluster = VirtualCluster::new(slots / 30, 30, Box::new(run_time));
        let begun = cluster.elapsed();
        if is_shuffled {
            cluster.submit(array(6 * each, 1, |_, _| {}));
        } else {
            for kind in 0..6 {
                let expected = is_hinted.then(|| Duration::from_secs(1 << kind));
                cluster.submit(array(each, 1, |spec, _| spec.expected = expected));
            }
        }
        let tasks = u64::from(6 * each);
        if !cluster.run_until_ended(tasks) {
            return Err(format!("{} of {tasks} tasks ended", cluster.ended).into());
        }
        let seconds = (cluster.elapsed() - begun).as_secs_f64();
        let rate = tasks as f64 / seconds * if bench.is_quick { 10.0 } else { 1.0 };
        let value = format!("{rate:.1} tasks/s, bound {bound}");
        rows.push(Row::at_most(name, value, &format!("{least:.0} tasks/s"), least / rate, 1.0));
    }
    Ok(rows)
}

/// Tasks on 131 072 cores: how many are placed in a second of deciding.
///
/// # Errors
/// When something does not end.
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn placement(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let mut rows = Vec::new();
    let sizes: &[usize] = if bench.is_quick { &[128] } else { &[512, 2_048] };
    for &workers in sizes {
        for cores in [1, 32] {
            let slots = workers as u64 * 64 / u64::from(cores);
            let mut numbers = Numbers(7);
            let run_time = move |_: usize, _: &Start| Duration::from_millis(60_000 + numbers.below(60_000));
            let mut cluster = VirtualCluster::new(workers, 64, Box::new(run_time));
            let name = |what: &str| format!("placement: {what}, {} cores, {cores}-core", workers * 64);
            let before = cluster.deciding;
            cluster.submit(array((slots * 4) as u32, cores, |_, _| {}));
            cluster.run_for(Duration::from_secs(30));
            let started: u64 = cluster.started.iter().sum();
            rows.push(rate_row(&name("filling"), started, cluster.deciding - before));
            // Full now; what ends is replaced.
            let before = cluster.deciding;
            cluster.run_for(Duration::from_secs(120));
            let more = cluster.started.iter().sum::<u64>() - started;
            rows.push(rate_row(&name("while others end"), more, cluster.deciding - before));
        }
    }
    Ok(rows)
}

fn rate_row(name: &str, tasks: u64, deciding: Duration) -> Row {
    let rate = tasks as f64 / deciding.as_secs_f64().max(1e-9);
    let value = format!("{tasks} tasks, {:.0} 000 a second", rate / 1e3);
    Row::at_most(name, value, "100 000 a second", 100_000.0 / rate, 1.0)
}

/// Four jobs with minima 800, 800, 400 and 400 on too few and on enough slots.
///
/// # Errors
/// When something does not end.
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn shares(_: &Bench) -> Result<Vec<Row>, BoxError> {
    let minima = [800, 800, 400, 400];
    let mut rows = Vec::new();
    for slots in [1_200_u64, 3_600] {
        let mut numbers = Numbers(3);
        let run_time = move |_: usize, _: &Start| Duration::from_millis(8_000 + numbers.below(4_000));
        let mut cluster = VirtualCluster::new(slots as usize / 24, 24, Box::new(run_time));
        for min in minima {
            cluster.submit(array(40_000, 1, |_, job| {
                job.share = Some(Share { min, max: None, weight: WEIGHT_NEUTRAL });
            }));
        }
        // With room for all each gets its minimum and an equal part of the rest; else it goes by the minima.
        let rest = slots.saturating_sub(2_400) / 4;
        let fluid = minima.map(|min| if slots < 2_400 { min * slots / 2_400 } else { min + rest });
        cluster.run_for(Duration::from_secs(60));
        let mut sums = [0_u64; 4];
        let rounds = 200;
        for _ in 0..rounds {
            cluster.run_for(Duration::from_millis(500));
            for (at, sum) in sums.iter_mut().enumerate() {
                let job = &cluster.server.state().jobs[&JobId(at as u32 + 1)];
                *sum += job.leased_count();
            }
        }
        let off = sums.iter().zip(fluid).map(|(sum, fluid)| {
            let mean = *sum as f64 / f64::from(rounds);
            (mean - fluid as f64).abs() / fluid as f64
        });
        let worst = off.fold(0.0, f64::max);
        let value = format!("{:.2} % off at worst", worst * 100.0);
        rows.push(Row::at_most(&format!("shares: {slots} slots"), value, "2 %", worst / 0.02, 1.0));
    }
    Ok(rows)
}

// Blocks that a worker keeps, the latest ones.
struct Cache {
    blocks: VecDeque<u64>,
    most: usize,
}

impl Cache {
    // True when it had to be fetched.
    fn misses(&mut self, block: u64) -> bool {
        let known = self.blocks.iter().position(|known| *known == block);
        if let Some(at) = known {
            self.blocks.remove(at);
        }
        self.blocks.push_back(block);
        if self.blocks.len() > self.most {
            self.blocks.pop_front();
        }
        known.is_none()
    }
}

/// 4 347 searches over 63 shared blocks on 8 workers, each with room for some blocks; and what keys cost where nothing
/// is shared.
///
/// # Errors
/// When something does not end.
pub(crate) fn locality(_: &Bench) -> Result<Vec<Row>, BoxError> {
    let (tasks, blocks) = (4_347_u32, 63);
    let mut found = Vec::new();
    for key in [None, Some(b"%{ENTRY_2}".to_vec())] {
        let mut numbers = Numbers(11);
        let lines: Vec<(String, u64)> = (0..u64::from(tasks))
            .map(|at| {
                let block = numbers.below(blocks);
                (format!("query{at} block{block}"), block)
            })
            .collect();
        let of_task: Vec<u64> = lines.iter().map(|line| line.1).collect();
        let mut caches: BTreeMap<usize, Cache> = BTreeMap::new();
        let run_time = move |worker: usize, start: &Start| {
            let cache = caches.entry(worker).or_insert_with(|| Cache { blocks: VecDeque::new(), most: 10 });
            let is_missing = cache.misses(of_task[start.task.task.0 as usize]);
            // A search takes 2 s, and 3 s more when its block has to be fetched.
            Duration::from_secs(if is_missing { 5 } else { 2 })
        };
        let mut cluster = VirtualCluster::new(8, 4, Box::new(run_time));
        let begun = cluster.elapsed();
        let mut submit = array(tasks, 1, |spec, _| spec.locality = key);
        submit.entries = Entries::new(lines.iter().map(|line| line.0.as_bytes())).unwrap_or_default();
        cluster.submit(submit);
        if !cluster.run_until_ended(u64::from(tasks)) {
            return Err(format!("{} of {tasks} tasks ended", cluster.ended).into());
        }
        found.push((cluster.elapsed() - begun).as_secs_f64());
    }
    let gain = found[0] / found[1];
    let value = format!("{:.0} s with keys, {:.0} s without", found[1], found[0]);
    let mut rows = vec![Row::at_most("locality: shared blocks", value, "1.7 times as fast", 1.7 / gain, 1.0)];
    let mut uniform = Vec::new();
    for key in [None, Some(b"%{ENTRY}".to_vec())] {
        let mut numbers = Numbers(13);
        let run_time = move |_: usize, _: &Start| Duration::from_millis(1_500 + numbers.below(1_000));
        let mut cluster = VirtualCluster::new(8, 4, Box::new(run_time));
        let begun = cluster.elapsed();
        let mut submit = array(tasks, 1, |spec, _| spec.locality = key);
        let lines: Vec<String> = (0..tasks).map(|at| format!("part{}", at % 40)).collect();
        submit.entries = Entries::new(lines.iter().map(String::as_bytes)).unwrap_or_default();
        cluster.submit(submit);
        if !cluster.run_until_ended(u64::from(tasks)) {
            return Err(format!("{} of {tasks} tasks ended", cluster.ended).into());
        }
        uniform.push((cluster.elapsed() - begun).as_secs_f64());
    }
    let value = format!("{:.1} s with keys, {:.1} s without", uniform[1], uniform[0]);
    rows.push(Row::at_most("locality: uniform work", value, "2 % slower", uniform[1] / uniform[0], 1.02));
    Ok(rows)
}

/// The tasks of [`crate::distinct`], in virtual time: what is lost by deciding alone.
///
/// # Errors
/// When something does not end.
pub(crate) fn distinct(_: &Bench) -> Result<Vec<Row>, BoxError> {
    let mut rows = Vec::new();
    for (tasks, workers, cores, has_priorities) in [(200_u32, 4, 16_u32, true), (600, 16, 32, false)] {
        let mut numbers = Numbers(5);
        // What it takes to start a program and to tell its end varies a little.
        let run_time = move |_: usize, _: &Start| Duration::from_micros(200_000 + numbers.below(3_000));
        let mut cluster = VirtualCluster::new(workers, cores, Box::new(run_time));
        let begun = cluster.elapsed();
        let wanted = |at: u32| 1 + at * 7 % cores;
        for at in 0..tasks {
            cluster.submit(array(1, wanted(at), |spec, _| {
                spec.requests[0].time_request = Duration::from_secs(u64::from(at) + 1);
                spec.priority = if has_priorities { (at * 31 % 211) as i32 } else { 0 };
            }));
            cluster.run_for(Duration::from_micros(500));
        }
        if !cluster.run_until_ended(u64::from(tasks)) {
            return Err(format!("{} of {tasks} tasks ended", cluster.ended).into());
        }
        let seconds = (cluster.elapsed() - begun).as_secs_f64();
        let slots = workers as u32 * cores;
        let ideal = f64::from((0..tasks).map(wanted).sum::<u32>()) * 0.2 / f64::from(slots);
        let value = format!("{seconds:.2} s, ideal {ideal:.2} s");
        let name = format!("distinct: {tasks} tasks, virtual");
        rows.push(Row::at_most(&name, value, "within 8 % of the ideal", seconds / ideal, 1.08));
    }
    Ok(rows)
}
