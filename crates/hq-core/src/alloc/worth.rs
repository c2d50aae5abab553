//! How many new workers are worth their node time: what waits must keep each of them busy for a part of what its start and
//! its idle timeout cost, and what is there or on its way must not be done with it before.

use hq_model::counted_are;
use std::time::Duration;

use hq_model::allocation::Goal;

use crate::limits::{PROBED_FEW, PROBED_MAX, PROBED_PART, PROBED_WAIT, START_UP_TIME};

/// What waits for room, all of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Tasks: those that wait, and those that wait on busy workers.
    pub tasks: u64,
    /// How long each is known to take.
    pub each: Option<Duration>,
    /// How long one of them has run by now, at the longest: each takes as long at least where nothing is known.
    pub ran: Duration,
    /// Workers that are there.
    pub here: Vec<Slots>,
    /// Some of them have taken longer than workers with so much time.
    pub outlasted: Duration,
}

/// Workers that are there or on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// How many of the tasks run at once there.
    pub count: u64,
    /// From when on, from now.
    pub from: Duration,
    /// Until when tasks are taken, from now.
    pub until: Duration,
}

impl Slots {
    /// On workers that are there, and stay.
    pub const fn lasting(count: u64) -> Slots {
        Slots { count, from: Duration::ZERO, until: Duration::MAX }
    }

    // Work that is done there before another worker could start, µs.
    fn done_us(&self, wait: Duration) -> u128 {
        u128::from(self.count) * self.until.min(wait).saturating_sub(self.from).as_micros()
    }
}

impl Work {
    /// How many of the tasks run at once on workers that are there.
    pub fn slots_here(&self) -> u64 {
        self.here.iter().map(|slots| slots.count).sum()
    }
}

/// What a worker costs in which nothing is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// How long one that is asked for now is waited for.
    pub wait: Duration,
    /// So many come together, at most.
    pub together: u32,
    /// How long one has been waited for by now, at the longest.
    pub waited: Duration,
    /// It leaves after so long without a task.
    pub idle: Duration,
    /// What matters.
    pub goal: Goal,
}

/// Why no more workers are asked for, although tasks are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// What is there or on its way will be done with them before another worker could start.
    DoneSooner(Duration),
    /// So much work would be left for each; it has to be this at least.
    TooLittle(Duration, Duration),
    /// It is not known how long they take: so many workers show it.
    Probing(u64),
}

impl Held {
    /// For people.
    pub fn told(&self) -> String {
        use hq_model::duration::format;
        match self {
            Held::DoneSooner(left) => format!(
                "workers that are there or on their way will have finished this ({} of work) before another could start",
                format(whole(*left))
            ),
            Held::TooLittle(busy, least) => format!(
                "one more worker would have {} of work, and is worth its start and its idle time from {} on",
                format(whole(*busy)),
                format(whole(*least))
            ),
            Held::Probing(workers) => format!(
                "it is not known yet how long the tasks take: {}, and more are asked for the longer they run",
                counted_are(*workers, "worker", "shows it", "show it")
            ),
        }
    }
}

impl Cost {
    /// How long a worker has to be busy at least.
    pub fn busy_least(&self) -> Duration {
        let cost = START_UP_TIME + self.idle;
        match self.goal {
            // Of 1 000 simulated campaigns a half of it did 93.5 % of what could be done, an eighth 95.4 %, for 1 % more
            // node time.
            Goal::Makespan => cost / 8,
            Goal::NodeHours => cost * 2,
        }
    }

    // How many workers show how long tasks take that would fill so many.
    fn probed_max(&self, filled: u64) -> u64 {
        let waits = self.wait.saturating_sub(START_UP_TIME).max(self.waited);
        let most = if waits >= PROBED_WAIT { PROBED_MAX } else { PROBED_FEW };
        match self.goal {
            // A smaller allocation would be in the way of the next. Of 1 000 simulated workloads whose few tasks bring fewer,
            // 63 % instead of 59 % cost no more than a tenth more than the best fixed number, and take 2 % longer.
            Goal::Makespan => most.min(filled.div_ceil(PROBED_PART)).max(self.together.into()),
            Goal::NodeHours => 1,
        }
    }
}

/// So many more workers, each of which runs `slots` at once, are worth it for the tasks that are left, beside those to come.
/// With why it is no more, when that is less than what is left would fill.
///
/// What is there or comes sooner works until another worker could start; what lives longer shares the rest with it.
pub fn worthwhile(
    work: &Work,
    coming: &[Slots],
    (left, slots): (u64, u64),
    cost: &Cost,
) -> (u64, Option<Held>) {
    let slots = slots.max(1);
    let wanted = left.div_ceil(slots);
    let all = || work.here.iter().chain(coming);
    // Nobody else would do it.
    let first = u64::from(all().all(|slots| slots.count == 0));
    if work.each.is_none() && work.ran >= cost.busy_least() {
        return (wanted, None);
    }
    let Some(each) = work.each else {
        let probing: u64 = all().map(|of| of.count.div_ceil(slots)).sum();
        let probed = cost.probed_max(wanted + probing).saturating_sub(probing).max(first).min(wanted);
        // What has run for some time goes on for as long again, as far as anybody can tell.
        let (worth, _) = worth_it(work, coming, (work.ran.saturating_mul(2), wanted, slots), cost);
        let workers = probed.max(worth);
        return (workers, (workers < wanted).then(|| Held::Probing(workers + probing)));
    };
    let (worth, left_us) = worth_it(work, coming, (each, wanted, slots), cost);
    let workers = worth.max(first).min(wanted);
    let micros = |us: u128| Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX));
    let held = (workers < wanted).then(|| match left_us {
        0 => Held::DoneSooner(each.saturating_mul(u32::try_from(work.tasks).unwrap_or(u32::MAX))),
        _ => {
            let beside: u64 = all().filter(|slots| slots.until > cost.wait).map(|slots| slots.count).sum();
            let shared_by = beside + (workers + 1).saturating_mul(slots);
            Held::TooLittle(micros(left_us / u128::from(shared_by.max(1))), cost.busy_least())
        }
    });
    (workers, held)
}

// How many workers would be busy for long enough if each task took so long, and the work that is left when they start, µs.
fn worth_it(
    work: &Work,
    coming: &[Slots],
    (each, wanted, slots): (Duration, u64, u64),
    cost: &Cost,
) -> (u64, u128) {
    let all = || work.here.iter().chain(coming);
    let work_us = u128::from(work.tasks) * each.as_micros();
    let done_us: u128 = all().map(|slots| slots.done_us(cost.wait)).sum();
    let left_us = work_us.saturating_sub(done_us);
    let beside: u64 = all().filter(|slots| slots.until > cost.wait).map(|slots| slots.count).sum();
    // Each is busy for what is left, divided by all.
    let worth = u64::try_from(left_us / cost.busy_least().as_micros().max(1)).unwrap_or(u64::MAX);
    ((worth.saturating_sub(beside) / slots).min(wanted), left_us)
}

// To the second, where it is some.
fn whole(time: Duration) -> Duration {
    if time.as_secs() > 0 {
        Duration::from_secs(time.as_secs())
    } else {
        Duration::from_millis(time.as_millis() as u64)
    }
}

#[cfg(test)]
mod tests;
