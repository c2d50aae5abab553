//! Which branches are to be settled: a relay may have thousands, and somebody speaks of one of them.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::Timestamp;

use super::Branch;

/// All that is known of that.
#[derive(Debug, Default)]
pub(super) struct Due {
    // Something has happened to these.
    touched: BTreeSet<Branch>,
    // When these want to be settled even if nothing happens.
    wakeups: BTreeMap<Branch, Timestamp>,
    in_order: BTreeSet<(Timestamp, Branch)>,
}

impl Due {
    /// Something happened to a branch.
    pub(super) fn touch(&mut self, branch: Branch) {
        self.touched.insert(branch);
    }

    /// Those to be settled now. Nothing has happened to them after that.
    pub(super) fn take(&mut self, now: Timestamp) -> BTreeSet<Branch> {
        let mut due = std::mem::take(&mut self.touched);
        due.extend(self.in_order.iter().take_while(|(at, _)| *at <= now).map(|(_, branch)| *branch));
        due
    }

    /// A branch was settled, and wants that again then. One that is not there any more never does.
    pub(super) fn settled(&mut self, branch: Branch, wakeup: Option<Timestamp>) {
        let before = match wakeup {
            Some(at) => self.wakeups.insert(branch, at),
            None => self.wakeups.remove(&branch),
        };
        if before == wakeup {
            return;
        }
        if let Some(at) = before {
            self.in_order.remove(&(at, branch));
        }
        if let Some(at) = wakeup {
            self.in_order.insert((at, branch));
        }
    }

    /// When the first one wants to be settled.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.in_order.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use hq_model::JobId;

    use super::*;

    #[test]
    fn a_bag_is_due_when_something_happened_or_its_time_has_come() {
        let mut due = Due::default();
        let bags = |bags: &[u32]| bags.iter().map(|bag| Branch::from(JobId(*bag))).collect::<BTreeSet<_>>();
        due.touch(JobId(3).into());
        due.settled(JobId(1).into(), Some(Timestamp(10)));
        due.settled(JobId(2).into(), Some(Timestamp(20)));
        assert_eq!((due.take(Timestamp(9)), due.next()), (bags(&[3]), Some(Timestamp(10))));
        assert_eq!(due.take(Timestamp(10)), bags(&[1]));
        due.settled(JobId(1).into(), Some(Timestamp(30)));
        assert_eq!((due.take(Timestamp(20)), due.next()), (bags(&[2]), Some(Timestamp(20))));
        due.settled(JobId(2).into(), None);
        assert_eq!((due.take(Timestamp(29)), due.next()), (bags(&[]), Some(Timestamp(30))));
    }
}
