//! Notices that are to be sent. They have all that is told, so nothing of their jobs need be kept for them.

use std::collections::BTreeMap;

use hq_model::notice::{Moment, Told, ToldEnd};
use hq_model::{JobId, Notice, Timestamp};

use crate::record::{JobProgress, NoticeChange};

/// A notice by its job and the rule that it is for.
pub type NoticeId = (JobId, u32);

/// Notices that are to be sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notices {
    pending: BTreeMap<NoticeId, Notice>,
    bytes: usize,
}

impl Notices {
    /// One of them.
    pub fn get(&self, id: NoticeId) -> Option<&Notice> {
        self.pending.get(&id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (NoticeId, &Notice)> {
        self.pending.iter().map(|(id, notice)| (*id, notice))
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn apply(&mut self, id: NoticeId, change: &NoticeChange) {
        let before = match change {
            NoticeChange::Due(notice) => {
                self.bytes += notice.bytes();
                self.pending.insert(id, Notice::clone(notice))
            }
            NoticeChange::Sent | NoticeChange::GivenUp(_) => self.pending.remove(&id),
        };
        self.bytes -= before.map_or(0, |before| before.bytes());
    }
}

/// Notes with a job what becomes of a notice about it.
pub(super) fn note(progress: &mut JobProgress, at: Timestamp, rule: u32, change: &NoticeChange) {
    let error = match change {
        NoticeChange::Due(notice) => {
            progress.is_stalled |= notice.event.moment() == Moment::Stall;
            progress.told.insert(rule, Told { since: notice.at, end: None });
            return;
        }
        NoticeChange::Sent => None,
        NoticeChange::GivenUp(error) => Some(error.clone()),
    };
    if let Some(told) = progress.told.get_mut(&rule) {
        told.end = Some(ToldEnd { at, error });
    }
}
