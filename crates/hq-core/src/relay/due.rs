//! Which bags are to be settled: a relay may have thousands, and somebody speaks of one of them.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{JobId, Timestamp};

/// All that is known of that.
#[derive(Debug, Default)]
pub(super) struct Due {
    // Something has happened to their workers.
    touched: BTreeSet<JobId>,
    // When their workers want to be settled even if nothing happens.
    wakeups: BTreeMap<JobId, Timestamp>,
    in_order: BTreeSet<(Timestamp, JobId)>,
}

impl Due {
    /// Something happened to the worker of a bag.
    pub(super) fn touch(&mut self, bag: JobId) {
        self.touched.insert(bag);
    }

    /// Those to be settled now. Nothing has happened to them after that.
    pub(super) fn take(&mut self, now: Timestamp) -> BTreeSet<JobId> {
        let mut due = std::mem::take(&mut self.touched);
        due.extend(self.in_order.iter().take_while(|(at, _)| *at <= now).map(|(_, bag)| *bag));
        due
    }

    /// The worker of a bag was settled, and wants that again then. A bag that is not there any more never does.
    pub(super) fn settled(&mut self, bag: JobId, wakeup: Option<Timestamp>) {
        let before = match wakeup {
            Some(at) => self.wakeups.insert(bag, at),
            None => self.wakeups.remove(&bag),
        };
        if before == wakeup {
            return;
        }
        if let Some(at) = before {
            self.in_order.remove(&(at, bag));
        }
        if let Some(at) = wakeup {
            self.in_order.insert((at, bag));
        }
    }

    /// When the first one wants to be settled.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.in_order.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bag_is_due_when_something_happened_or_its_time_has_come() {
        let mut due = Due::default();
        let bags = |bags: &[u32]| bags.iter().map(|bag| JobId(*bag)).collect::<BTreeSet<_>>();
        due.touch(JobId(3));
        due.settled(JobId(1), Some(Timestamp(10)));
        due.settled(JobId(2), Some(Timestamp(20)));
        assert_eq!((due.take(Timestamp(9)), due.next()), (bags(&[3]), Some(Timestamp(10))));
        assert_eq!(due.take(Timestamp(10)), bags(&[1]));
        due.settled(JobId(1), Some(Timestamp(30)));
        assert_eq!((due.take(Timestamp(20)), due.next()), (bags(&[2]), Some(Timestamp(20))));
        due.settled(JobId(2), None);
        assert_eq!((due.take(Timestamp(29)), due.next()), (bags(&[]), Some(Timestamp(30))));
    }
}
