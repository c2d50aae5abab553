//! What is handed out in a round of placement, to whom: what fits, or some more.

use hq_model::{Timestamp, WorkerId};

use crate::server::capacity::Needs;
use crate::server::live::{Choice, LiveWorker};
use crate::server::locality::Near;
use crate::server::queue::ClassId;
use crate::server::reserve::Reserve;

/// How much of a class a worker gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) count: u64,
    pub(super) near: Near,
    /// But nothing for which its store had no room before.
    pub(super) has_doubt: bool,
}

impl Share {
    pub(super) fn of(count: u64, near: Near) -> Share {
        Share { count, near, has_doubt: false }
    }
}

/// What a round hands out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Round {
    /// What fits, as the variant of this rank: the preferred one everywhere before the next one.
    Room { rank: usize },
    /// Some more, as the variant preferred there.
    Backlog,
}

impl Round {
    pub(super) fn pick(self, choices: &[Choice]) -> Option<&Choice> {
        match self {
            Round::Room { rank } => choices.iter().find(|choice| choice.rank == rank),
            Round::Backlog => choices.first(),
        }
    }

    /// What tasks of a class would take on a worker is kept for others.
    pub(super) fn is_kept(
        self,
        now: Timestamp,
        reserve: &Reserve,
        (worker, live): (WorkerId, &LiveWorker),
        of: (ClassId, i32),
        needs: &Needs,
    ) -> bool {
        let at = (worker, live.capacity());
        match self {
            Round::Room { .. } => {
                reserve.keeps_from(now, at, of, needs).is_some() || live.kept_from(now, of.1, needs).is_some()
            }
            Round::Backlog => reserve.keeps_from_backlog(now, at, of, needs),
        }
    }
}
