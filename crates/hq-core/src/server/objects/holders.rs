//! The workers that store an object: mostly one, of which a server keeps very many, and seldom several.

use std::collections::BTreeSet;

use hq_model::WorkerId;

/// Workers, in order.
#[expect(clippy::box_collection, reason = "several are rare, and each object has the size of this")]
#[derive(Clone, Debug, Default)]
pub(super) enum Workers {
    /// None.
    #[default]
    Nobody,
    /// This one.
    One(WorkerId),
    /// More; never fewer than two.
    Many(Box<BTreeSet<WorkerId>>),
}

impl Workers {
    /// Adds one. False when it is among them already.
    pub(super) fn insert(&mut self, worker: WorkerId) -> bool {
        match self {
            Workers::Nobody => *self = Workers::One(worker),
            Workers::One(before) if *before == worker => return false,
            Workers::One(before) => *self = Workers::Many(Box::new([*before, worker].into())),
            Workers::Many(many) => return many.insert(worker),
        }
        true
    }

    /// Takes one out. False when it is not among them.
    pub(super) fn remove(&mut self, worker: WorkerId) -> bool {
        match self {
            Workers::One(before) if *before == worker => *self = Workers::Nobody,
            Workers::Nobody | Workers::One(_) => return false,
            Workers::Many(many) => {
                let is_removed = many.remove(&worker);
                if let (1, Some(last)) = (many.len(), many.first()) {
                    *self = Workers::One(*last);
                }
                return is_removed;
            }
        }
        true
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = WorkerId> {
        let (one, many) = match self {
            Workers::Nobody => (None, None),
            Workers::One(one) => (Some(*one), None),
            Workers::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flat_map(|many| many.iter().copied()))
    }

    /// How many they are.
    pub(super) fn len(&self) -> usize {
        match self {
            Workers::Nobody => 0,
            Workers::One(_) => 1,
            Workers::Many(many) => many.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_come_and_go() {
        let mut workers = Workers::default();
        let check = |workers: &Workers, expected: &[u32]| {
            let all: Vec<u32> = workers.iter().map(|worker| worker.0).collect();
            assert_eq!((&all[..], workers.len()), (expected, expected.len()));
        };
        assert!(!workers.remove(WorkerId(1)));
        for (worker, is_new, all) in [
            (3, true, &[3][..]),
            (3, false, &[3]),
            (1, true, &[1, 3]),
            (3, false, &[1, 3]),
            (2, true, &[1, 2, 3]),
        ] {
            assert_eq!(workers.insert(WorkerId(worker)), is_new);
            check(&workers, all);
        }
        for (worker, is_there, left) in [
            (9, false, &[1, 2, 3][..]),
            (1, true, &[2, 3]),
            (3, true, &[2]),
            (3, false, &[2]),
            (2, true, &[]),
        ] {
            assert_eq!(workers.remove(WorkerId(worker)), is_there);
            check(&workers, left);
        }
    }
}
