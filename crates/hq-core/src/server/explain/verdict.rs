//! Why a task does not start on one worker now, and who holds there what it needs, until when.

use std::time::Duration;

use hq_model::{Amount, Request, TaskId, TaskRef, Timestamp, WorkerId, counted_are, duration};

use super::super::capacity::Needs;
use super::super::fleet::{IS_OVER, kind_of, shown, told};
use super::super::holds::Hold;
use super::super::live::{Choice, LiveWorker};
use super::super::machine::Server;
use super::super::queue::ClassId;
use crate::explanation::{Lack, Reason, ReasonKind};
use crate::limits::EXPLAINED_HOLDERS_MAX;
use crate::worker::lending::lending_max;
use crate::worker_messages::TemplateId;

// The index of a pool, what is free of it, and what a task takes of it in one way or another.
type Lacking = (usize, Amount, Vec<Amount>);

// Something that runs on a worker and holds some of a pool.
struct Holder {
    task: TaskRef,
    units: u64,
    since: Timestamp,
    // When it ends if it takes as long as others of its submit did, or as was said of it. Nothing is known of one that
    // takes longer.
    expected: Option<Timestamp>,
    // When its time limit ends it.
    limit: Option<Timestamp>,
}

impl Server {
    /// Why a ready task with these requests does not start on a worker; `by_whom` adds who holds what it needs.
    pub(super) fn verdict(
        &self,
        now: Timestamp,
        worker: WorkerId,
        live: &LiveWorker,
        group: u32,
        (class, requests): (Option<ClassId>, &[Request]),
        by_whom: bool,
    ) -> Reason {
        let reason = |kind, text: String| Reason::new(kind, text).on(worker);
        // A group of workers that leave counts none: that they leave is what matters of it.
        let kind = kind_of(live, if live.is_draining || live.is_over(now) { u32::MAX } else { group });
        let variants: Vec<String> = requests
            .iter()
            .filter_map(|request| {
                let lacks = kind.lacks(request);
                (!lacks.is_empty()).then(|| lacks.iter().map(told).collect::<Vec<_>>().join(", "))
            })
            .collect();
        if variants.len() == requests.len() {
            return reason(ReasonKind::Lacks, variants.join("; as another variant: "));
        }
        if class.is_some_and(ClassId::needs_store) && !live.stores {
            let text = "it keeps no objects, which tasks that leave or take some need, and calls that take what others return \
                 (`--no-object-store`)";
            return reason(ReasonKind::Lacks, text.to_owned());
        }
        if let Some(reason) = away(now, worker, live) {
            return reason;
        }
        if let Some(text) = leaving(now, live) {
            return reason(ReasonKind::Closed, text);
        }
        if let Some(trouble) = &live.trouble {
            return reason(ReasonKind::Closed, format!("it cannot start tasks at the moment: {trouble}"));
        }
        let gives_way = |reserved| class.is_none_or(|class| self.queue.key(class).priority <= reserved);
        if live.reserved.is_some_and(gives_way) && requests.iter().all(|request| request.nodes == 0) {
            return reason(ReasonKind::Closed, "it is kept free for a task on several nodes".into());
        }
        if !live.takes_tasks() {
            let text = if live.whole.is_some() {
                "a task on several nodes has it as a whole"
            } else {
                "it has just come back, and says first what it holds"
            };
            return reason(ReasonKind::Closed, text.into());
        }
        let choices = live.ways(class, requests);
        if choices.is_empty() {
            let text = "it has as much as the task needs, and can never give it to all its parts at once";
            return reason(ReasonKind::Lacks, text.into());
        }
        let ways = in_time(now, live, &choices);
        if ways.is_empty() {
            return too_late(now, worker, live, &choices);
        }
        if requests.iter().all(|request| request.nodes > 0) {
            let goes_behind = |class| self.go_before_on_node(now, live, class, &choices);
            let (kind, text) = if live.capacity().is_free() {
                (ReasonKind::Room, "it is free, and waits for others of its group to be free, too")
            } else if class.is_some_and(goes_behind) {
                (ReasonKind::Busy, "it has tasks, and others of higher priority wait for it, which go first")
            } else {
                (ReasonKind::Busy, "it has tasks, and a task on several nodes takes it as a whole")
            };
            return reason(kind, text.into());
        }
        if live.is_idle_and_picky() {
            let percent = f64::from(live.min_utilization) / 100.0;
            return reason(
                ReasonKind::Utilization,
                format!("it is idle, and starts nothing before {percent} % of its CPUs would be used"),
            );
        }
        if let Some(needs) = ways.iter().find(|needs| live.capacity().room(needs) > 0) {
            let hold = class.and_then(|class| self.hold_on(now, worker, live, class, needs));
            return reason(ReasonKind::Room, self.told_of_hold(hold));
        }
        let mut busy = self.busy(now, worker, live, &ways, by_whom);
        match class.and_then(|class| self.reserve.keeps_for(now, worker, class)) {
            Some(true) => busy.text.push_str("; what becomes free of that is kept for this task"),
            Some(false) => {
                busy.text.push_str("; what becomes free of that is kept from tasks of lower priority")
            }
            None => {}
        }
        busy
    }

    // Why a worker with room does not get a task.
    fn told_of_hold(&self, hold: Option<Hold>) -> String {
        let job_of = |class: ClassId| self.queue.head(class).map(|(_, template)| template.job);
        match hold {
            Some(Hold::Plan { .. }) => {
                "it has room, and where tasks of this priority go is being planned".into()
            }
            Some(Hold::Gathering { .. }) => {
                "it has room, and is left alone for a moment because more is about to end there".into()
            }
            Some(Hold::Kept { class, .. }) => match job_of(class) {
                Some(job) => format!("it has room, which is kept for a larger task of job {job}"),
                None => "it has room, which is kept for a larger task".into(),
            },
            Some(Hold::Waits { template, .. }) => {
                format!("it has room, which is kept for a task of job {} that waits there", template.job)
            }
            Some(Hold::Attempt) => "it has room, and an earlier attempt has not ended yet".into(),
            Some(Hold::Share) => "it has room, and the share of the job is used up".into(),
            Some(Hold::Nodes) => "it is kept free for a task on several nodes".into(),
            Some(Hold::Picky) | None => "it has room, which tasks before this one take".into(),
        }
    }

    /// What is in use of what a task needs on a worker, in whichever of these ways it runs, by whom, and until when at the
    /// earliest.
    pub(super) fn busy(
        &self,
        now: Timestamp,
        id: WorkerId,
        live: &LiveWorker,
        ways: &[&Needs],
        by_whom: bool,
    ) -> Reason {
        // Ways that lack the same resources are told together.
        let mut scarce: Vec<(Vec<usize>, Vec<Lacking>)> = Vec::new();
        for needs in ways {
            let lacking = live.capacity().lacking(needs);
            let pools: Vec<usize> = lacking.iter().map(|lacking| lacking.0).collect();
            if let Some((_, all)) = scarce.iter_mut().find(|(others, _)| *others == pools) {
                for ((.., wanted), (.., more)) in all.iter_mut().zip(lacking) {
                    if !wanted.contains(&more) {
                        wanted.push(more);
                    }
                }
            } else {
                let one = |(pool, free, wanted)| (pool, free, vec![wanted]);
                scarce.push((pools, lacking.into_iter().map(one).collect()));
            }
        }
        let told = scarce.iter().map(|(_, all)| {
            let (texts, untils): (Vec<String>, Vec<Option<Timestamp>>) =
                all.iter().map(|lacking| self.in_use(now, id, live, lacking, by_whom)).unzip();
            // All that lacks is there when the last of it is.
            let until = untils.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
            (texts.join("; and "), until)
        });
        let (texts, until): (Vec<String>, Vec<Option<Timestamp>>) = told.unzip();
        let mut text = texts.join("; as another variant: ");
        let lent: usize = live.held().values().map(|held| held.lent_count()).sum();
        if lent >= lending_max(&live.resources) {
            text.push_str(&format!(
                "; {} there for others, and no more of them lend their CPUs: return the futures of these instead of waiting \
                 for them, or start another worker",
                counted_are(lent, "call", "waits", "wait")
            ));
        }
        let reason = Reason::new(ReasonKind::Busy, text).on(id);
        reason.until(until.into_iter().flatten().min())
    }

    // What is in use of a pool of which a task needs one of these amounts.
    fn in_use(
        &self,
        now: Timestamp,
        id: WorkerId,
        live: &LiveWorker,
        (pool, free, wanted): &Lacking,
        by_whom: bool,
    ) -> (String, Option<Timestamp>) {
        let (pool, free) = (*pool, *free);
        let Some(of) = live.resources.pools.get(pool) else { return ("it is busy".into(), None) };
        let name = &of.name;
        let total = of.kind.total();
        let needed = wanted.iter().map(|wanted| {
            let together = if free >= *wanted { " together" } else { "" };
            format!("{}{together}", shown(name, *wanted))
        });
        let mut text = format!(
            "{name}: {} of {} are free, the task needs {}",
            shown(name, free),
            shown(name, total),
            needed.collect::<Vec<_>>().join(" or, as another variant, ")
        );
        if !by_whom {
            return (text, None);
        }
        let holders = self.holders(now, id, live, pool);
        if holders.is_empty() {
            text.push_str("; the rest is given to tasks that start there soon");
            return (text, None);
        }
        let used: u64 = holders.iter().map(|holder| holder.units).sum();
        let least = wanted.iter().min().copied().unwrap_or_default();
        let missing = least.0.saturating_sub(total.0.saturating_sub(used));
        let until = earliest(&holders, missing, now, |holder| holder.expected);
        let latest = earliest(&holders, missing, now, |holder| holder.limit);
        // The one that has held most for longest stands for all.
        let Some(first) = holders.iter().min_by_key(|holder| (u64::MAX - holder.units, holder.since)) else {
            return (text, None);
        };
        let (task, held) = (first.task, about(now.since(first.since)));
        text.push_str(&match holders.len() {
            1 => format!("; task {task} has run there for {held}"),
            more => format!("; {more} tasks run there, {task} for {held}"),
        });
        if let Some(at) = until {
            let about = match at.since(now) {
                short if short < SECOND => about(short),
                long => format!("about {}", about(long)),
            };
            text.push_str(&format!(", free at the earliest in {about}"));
        }
        match latest {
            Some(at) if until.is_none_or(|until| until < at) => {
                text.push_str(&format!(", at the latest in {} by time limits", about(at.since(now))));
            }
            _ => {}
        }
        (text, until)
    }

    // What runs on a worker and holds some of a pool; the first few where there are many.
    fn holders(&self, now: Timestamp, id: WorkerId, live: &LiveWorker, pool: usize) -> Vec<Holder> {
        let mut found = Vec::new();
        let mut looked_at = 0;
        for (template, held) in live.held() {
            let TemplateId { job, submit } = *template;
            let running = self.running.of_job(job);
            if running.is_empty() {
                continue;
            }
            let limit = self.state.jobs.get(&job).and_then(|job| job.submits.get(submit as usize));
            let limit = limit.and_then(|submit| submit.task.time_limit);
            // What the program took in other submits says too little: many programs are a shell.
            let wall = self.forecast.own_run_time(&self.state, *template);
            let units = |task: TaskId| held.needs_of(task).map_or(0, |needs| needs.units_of(pool));
            for task in held.ids.iter() {
                looked_at += 1;
                if looked_at > EXPLAINED_HOLDERS_MAX {
                    return found;
                }
                let Some(run) = running.get(&task).filter(|run| run.worker == id) else { continue };
                let units = units(task);
                if units > 0 {
                    found.push(Holder {
                        task: TaskRef::new(job, task),
                        units,
                        since: run.since,
                        expected: wall.map(|wall| run.since.after(wall)).filter(|end| *end > now),
                        limit: limit.map(|limit| run.since.after(limit)),
                    });
                }
            }
        }
        found
    }
}

/// That a worker has no connection, and until when it is waited for.
pub(super) fn away(now: Timestamp, worker: WorkerId, live: &LiveWorker) -> Option<Reason> {
    let until = about(live.lost_at.since(now));
    let text = format!("it is disconnected, and counts as lost in {until} unless it comes back");
    let reason = Reason::new(ReasonKind::Closed, text).on(worker).until(Some(live.lost_at));
    live.connection.is_none().then_some(reason)
}

/// Why a worker that is connected takes nothing new any more, if it does not.
pub(super) fn leaving(now: Timestamp, live: &LiveWorker) -> Option<String> {
    match () {
        // Whether it has said so yet or not.
        () if live.stop.is_none() && live.is_over(now) => Some(IS_OVER.into()),
        () if live.ends_tasks() => Some("it is stopping, ends what runs there and takes nothing new".into()),
        () if live.is_draining => Some("it finishes what runs there and takes nothing new".into()),
        () => None,
    }
}

/// What a worker has left of its time, where that is too little for each way to run a task there.
pub(super) fn too_late(now: Timestamp, worker: WorkerId, live: &LiveWorker, choices: &[Choice]) -> Reason {
    let request = choices.iter().map(|choice| choice.time_request).min().unwrap_or_default();
    let lack = Lack::Time { request, left: live.life_left(now).unwrap_or_default() };
    let kind = if live.is_over(now) { ReasonKind::Closed } else { ReasonKind::Life };
    Reason::new(kind, told(&lack)).on(worker)
}

// When `missing` units are free if holders end as `end` says; `None` when that cannot be told.
fn earliest(
    holders: &[Holder],
    missing: u64,
    now: Timestamp,
    end: impl Fn(&Holder) -> Option<Timestamp>,
) -> Option<Timestamp> {
    let mut ends: Vec<(Timestamp, u64)> =
        holders.iter().filter_map(|holder| Some((end(holder)?.max(now), holder.units))).collect();
    ends.sort_unstable();
    let mut freed = 0;
    ends.into_iter().find_map(|(at, units)| {
        freed += units;
        (freed >= missing.max(1)).then_some(at)
    })
}

/// What a task takes on a worker, in each way to run it there for which that has enough time left.
pub(super) fn in_time<'a>(now: Timestamp, live: &LiveWorker, choices: &'a [Choice]) -> Vec<&'a Needs> {
    let in_time = choices.iter().filter(|choice| live.has_time(now, choice.time_request));
    in_time.map(|choice| &choice.needs).collect()
}

const SECOND: Duration = Duration::from_secs(1);

/// A time for people: as precise as anybody wants to know it.
pub(in crate::server) fn about(time: Duration) -> String {
    let seconds = time.as_secs();
    let step = match seconds {
        0 => return "less than a second".into(),
        1..3_600 => 1,
        _ => 60,
    };
    duration::format(Duration::from_secs(seconds / step * step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_precisely_as_anybody_wants_to_know_them() {
        for (micros, told) in [
            (0, "less than a second"),
            (164, "less than a second"),
            (999_999, "less than a second"),
            (1_234_567, "1s"),
            (83_456_789, "1m 23s"),
            (7_283_456_789, "2h 1m"),
        ] {
            assert_eq!(about(Duration::from_micros(micros)), told);
        }
    }

    #[test]
    fn what_is_missing_is_free_when_enough_of_the_holders_have_ended() {
        let holder = |units, expected| Holder {
            task: TaskRef::new(hq_model::JobId(1), TaskId(0)),
            units,
            since: Timestamp(0),
            expected,
            limit: None,
        };
        let at = |seconds: u64| Some(Timestamp(seconds * 1_000_000));
        let holders = [holder(2, at(9)), holder(1, at(3)), holder(1, None), holder(4, at(20))];
        let now = Timestamp(5_000_000);
        for (missing, free) in [(0, at(5)), (1, at(5)), (2, at(9)), (3, at(9)), (7, at(20)), (8, None)] {
            assert_eq!(earliest(&holders, missing, now, |h| h.expected), free, "{missing}");
        }
    }
}
