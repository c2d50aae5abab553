//! The timeline: attempts on lanes of workers, so many of them to a bar that a page has room for all bars.

use std::collections::BTreeMap;

use hq_model::{JobId, TaskId, Timestamp, WorkerId};

use crate::accounts::{Attempt, Part};

/// Bars of a page: about 15 bytes each.
pub(super) const BARS_MAX: usize = 250_000;
/// Attempts of which each has a bar at first.
const ATTEMPTS_MAX: usize = 4_000_000;
/// Into how many parts the time is cut where there are more.
const PARTS: u64 = 1 << 16;

/// Attempts behind one another on a lane that together last no longer than the resolution, or a single one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bar {
    /// Of the first.
    pub(super) start: Timestamp,
    /// Of the last.
    pub(super) end: Timestamp,
    /// How long they ran together, in µs.
    pub(super) busy_us: u64,
    /// How many there are.
    pub(super) count: u32,
    /// How many of them failed.
    pub(super) failed: u32,
    /// How many were lost.
    pub(super) lost: u32,
    /// The job of the first.
    pub(super) job: JobId,
    /// The first task.
    pub(super) task: TaskId,
}

/// Bars by worker and lane.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// The bars of each lane, in order.
    pub(super) workers: BTreeMap<WorkerId, Vec<Vec<Bar>>>,
    /// How long a bar of several attempts is at most, in µs; 0 where each attempt has its own.
    pub(super) resolution_us: u64,
    /// Attempts for whose lanes there is no room.
    pub(super) left_out: u64,
}

impl Timeline {
    /// Of attempts in order of workers and starts, with their lanes, which lie in a span of this length.
    pub(super) fn new(attempts: &[Attempt], lanes: &[u32], span_us: u64, bars_max: usize) -> Timeline {
        let resolution_us = if attempts.len() > ATTEMPTS_MAX { span_us / PARTS } else { 0 };
        let mut timeline = Timeline { resolution_us, ..Timeline::default() };
        let workers = attempts.chunk_by(|one, next| one.worker == next.worker).count();
        let lanes_max = (bars_max / workers.max(1)).max(1);
        for (attempt, lane) in attempts.iter().zip(lanes) {
            let lanes = timeline.workers.entry(attempt.worker).or_default();
            let lane = *lane as usize;
            if lane >= lanes_max {
                timeline.left_out += 1;
                continue;
            }
            if lanes.len() <= lane {
                lanes.resize_with(lane + 1, Vec::new);
            }
            add(&mut lanes[lane], Bar::of(attempt), resolution_us);
        }
        let mut resolution = (span_us / (1 << 24)).max(1);
        while timeline.bars() > bars_max && resolution < span_us.saturating_mul(2) {
            timeline.fold(resolution);
            resolution = resolution.saturating_mul(2);
        }
        timeline
    }

    /// How many there are.
    pub(super) fn bars(&self) -> usize {
        self.workers.values().flatten().map(Vec::len).sum()
    }

    fn fold(&mut self, resolution_us: u64) {
        self.resolution_us = resolution_us;
        for lane in self.workers.values_mut().flatten() {
            let mut folded = Vec::new();
            for bar in lane.drain(..) {
                add(&mut folded, bar, resolution_us);
            }
            *lane = folded;
        }
    }
}

// Into the last bar, where they are no longer together than the resolution.
fn add(lane: &mut Vec<Bar>, bar: Bar, resolution_us: u64) {
    match lane.last_mut() {
        Some(last) if bar.end.0.saturating_sub(last.start.0) <= resolution_us && resolution_us > 0 => {
            last.end = last.end.max(bar.end);
            last.busy_us += bar.busy_us;
            last.count += bar.count;
            last.failed += bar.failed;
            last.lost += bar.lost;
        }
        _ => lane.push(bar),
    }
}

impl Bar {
    fn of(attempt: &Attempt) -> Bar {
        Bar {
            start: attempt.start,
            end: attempt.end,
            busy_us: attempt.end.0 - attempt.start.0,
            count: 1,
            failed: u32::from(attempt.part == Part::Failed),
            lost: u32::from(attempt.part == Part::Lost),
            job: attempt.job,
            task: attempt.task,
        }
    }
}

/// The lanes of a worker as a text, which the page reads: for each lane how many bars it has, and for each bar the
/// distance to the one before and its length, in units after `from`, twice its count and one more where some failed or were lost (then how many
/// failed and were lost), how much of it nothing ran where there are several, and job and task relative to those of the bar before.
pub(super) fn text_of(lanes: &[Vec<Bar>], from: Timestamp, unit_us: u64) -> String {
    let mut text = String::new();
    let (mut job, mut task) = (0, 0);
    for lane in lanes {
        put(&mut text, lane.len() as u64);
        let mut before = 0;
        for bar in lane {
            let start = bar.start.0.saturating_sub(from.0) / unit_us;
            let end = bar.end.0.saturating_sub(from.0) / unit_us;
            let has_bad = bar.failed + bar.lost > 0;
            put(&mut text, start.saturating_sub(before));
            put(&mut text, end.saturating_sub(start));
            put(&mut text, u64::from(bar.count) << 1 | u64::from(has_bad));
            if has_bad {
                put(&mut text, bar.failed.into());
                put(&mut text, bar.lost.into());
            }
            if bar.count > 1 {
                put(&mut text, (end.saturating_sub(start)).saturating_sub(bar.busy_us / unit_us));
            }
            put_signed(&mut text, i64::from(bar.job.0) - job);
            put_signed(&mut text, i64::from(bar.task.0) - task);
            (job, task, before) = (bar.job.0.into(), bar.task.0.into(), end);
        }
    }
    text
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Letters of five bits each, the lowest ones first; the sixth bit says that more follow. Source maps have numbers like that.
fn put(text: &mut String, mut value: u64) {
    loop {
        let more = value >> 5;
        let letter = (value & 31) | if more > 0 { 32 } else { 0 };
        text.push(char::from(LETTERS[letter as usize]));
        if more == 0 {
            return;
        }
        value = more;
    }
}

// The sign is the lowest bit.
fn put_signed(text: &mut String, value: i64) {
    put(text, value.unsigned_abs() << 1 | u64::from(value < 0));
}

/// How long a unit of time is in the texts, in µs: short enough that nobody sees it.
pub(super) fn unit_us(span_us: u64) -> u64 {
    let mut unit = 1;
    while span_us / unit > 100_000_000 {
        unit *= 10;
    }
    unit
}
