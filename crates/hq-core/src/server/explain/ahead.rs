//! Which ready tasks go before one, of which jobs, and why they do.

use hq_model::{IdSet, TaskId, TaskRef, counted_are};

use super::super::fleet::Fleet;
use super::super::machine::Server;
use super::super::queue::{ClassId, Place};
use super::named;
use crate::explanation::{Reason, ReasonKind};
use crate::limits::{AHEAD_LOOKED_AT_MAX, AHEAD_NAMED_MAX, AHEAD_SUBMITS_MAX};
use crate::worker_messages::TemplateId;

// Tasks that go before one for the same reason.
struct Ahead {
    why: String,
    count: u64,
    jobs: IdSet,
    // There are more jobs than were looked at.
    has_more_jobs: bool,
}

// All of them, the first reason first.
#[derive(Default)]
struct AllAhead {
    found: Vec<Ahead>,
    submits: usize,
}

impl AllAhead {
    fn add(&mut self, why: &str, count: u64, template: TemplateId) {
        let at = self.found.iter().position(|ahead| ahead.why == why).unwrap_or_else(|| {
            let why = why.to_owned();
            self.found.push(Ahead { why, count: 0, jobs: IdSet::new(), has_more_jobs: false });
            self.found.len() - 1
        });
        let ahead = &mut self.found[at];
        ahead.count += count;
        let job = TaskId(template.job.0);
        if self.submits < AHEAD_SUBMITS_MAX {
            self.submits += 1;
            ahead.jobs.insert(job);
        } else {
            ahead.has_more_jobs |= !ahead.jobs.contains(job);
        }
    }
}

impl Ahead {
    fn told(&self) -> String {
        let jobs = if self.has_more_jobs { "many jobs".into() } else { named("job", &self.jobs) };
        format!("{} of {jobs} ({})", self.count, self.why)
    }
}

impl Server {
    /// Which ready tasks come earlier in the order, of those that some worker could run.
    pub(super) fn ahead(
        &self,
        fleet: &Fleet<'_>,
        class: ClassId,
        task: TaskRef,
        template: TemplateId,
    ) -> Option<Reason> {
        let place = self.queue.place_of(class, template, task.task)?;
        let mut all = AllAhead::default();
        for (at, (head, other)) in self.earlier(class, place).into_iter().enumerate() {
            let key = self.queue.key(other);
            if at < AHEAD_LOOKED_AT_MAX && (!fleet.could_run(&key.requests) || self.share_room(other) == 0) {
                continue;
            }
            let by_class = if head.0 < place.0 {
                Some(format!("priority {} against {}", head.0.0, place.0.0))
            } else if self.queue.is_multi_node(other) && !self.queue.is_multi_node(class) {
                Some("on several nodes".into())
            } else {
                (head.1 < place.1).then(|| "by weight".into())
            };
            for (due, other, ids) in self.queue.groups(other) {
                let why = match &by_class {
                    Some(why) => why,
                    None if (due, other) > (place.2, place.3) => break,
                    None if self.is_older(other, template) => "older",
                    None => "more work until its end",
                };
                all.add(why, ids.len(), other);
            }
        }
        let (mut longer, mut older) = (0, 0);
        for (due, other, ids) in self.queue.groups(class) {
            if (due, other) == (place.2, template) {
                older += ids.rank(task.task).unwrap_or(0);
                break;
            }
            let count = if self.is_older(other, template) { &mut older } else { &mut longer };
            *count += ids.len();
        }
        let total = all.found.iter().map(|ahead| ahead.count).sum::<u64>() + longer + older;
        if total == 0 {
            return None;
        }
        let mut parts: Vec<String> = all.found.iter().take(AHEAD_NAMED_MAX).map(Ahead::told).collect();
        let others: u64 = all.found.iter().skip(AHEAD_NAMED_MAX).map(|ahead| ahead.count).sum();
        for (count, what) in [
            (longer, " like it, with more work until the end of their job"),
            (older, " like it, older"),
            (others, " others"),
        ] {
            if count > 0 {
                parts.push(format!("{count}{what}"));
            }
        }
        let goes = counted_are(total, "ready task", "goes", "go");
        Some(Reason::new(ReasonKind::Priority, format!("{goes} before it: {}", parts.join(", "))))
    }

    // A submit came before another one, or with it and its job is older: a longer way is not what brings its tasks forward.
    fn is_older(&self, one: TemplateId, other: TemplateId) -> bool {
        let came =
            |id: TemplateId| Some(self.state.jobs.get(&id.job)?.submits.get(id.submit as usize)?.submitted);
        (came(one), one) < (came(other), other)
    }

    // Other classes that are placed before a task. Among those of equal priority the ones on several nodes go first.
    fn earlier(&self, class: ClassId, place: Place) -> Vec<(Place, ClassId)> {
        let is_multi_node = self.queue.is_multi_node(class);
        let not_own = |(_, other): &(Place, ClassId)| *other != class;
        let same = self.queue.before(place).filter(not_own);
        if self.queue.pulled_resource(class).is_some() {
            return same.collect();
        }
        if is_multi_node {
            return same.chain(self.queue.within_worker_above(place.0.0)).collect();
        }
        self.queue.multi_node_of(place.0.0).chain(same).collect()
    }
}
