//! What workers are told of their reports without being woken up for it.
//!
//! Without a journal a report is saved when it is handled. Its worker only has to know at some time, so that it keeps the report no
//! longer: the word goes along with the next message, which an idle worker gets with its next task, or after a moment. With a
//! journal many reports are saved together, and nothing is held here.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hq_core::server::ConnectionId;
use hq_core::worker_messages::ToWorker;

/// How long it waits for another message.
pub(crate) const ACK_DELAY: Duration = Duration::from_millis(2);

/// The last saved report of each worker that was not told.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    held: BTreeMap<ConnectionId, u64>,
    // When the first of them was held.
    due: Option<Instant>,
}

impl Acks {
    /// Holds what would be said over this connection now: that this report is saved, and all before it.
    pub(crate) fn hold(&mut self, connection: ConnectionId, report: u64, now: Instant) {
        self.held.insert(connection, report);
        self.due.get_or_insert(now + ACK_DELAY);
    }

    /// What goes along with another message over this connection.
    pub(crate) fn take(&mut self, connection: ConnectionId) -> Option<ToWorker> {
        let report = self.held.remove(&connection)?;
        if self.held.is_empty() {
            self.due = None;
        }
        Some(ToWorker::Saved { report })
    }

    /// When it is said without another message.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// All that is held, once it is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<(ConnectionId, ToWorker)> {
        if self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.take_all()
    }

    /// All that is held.
    pub(crate) fn take_all(&mut self) -> Vec<(ConnectionId, ToWorker)> {
        self.due = None;
        let held = std::mem::take(&mut self.held).into_iter();
        held.map(|(connection, report)| (connection, ToWorker::Saved { report })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_report_is_told_with_another_message_or_after_a_moment() {
        let (mut acks, now) = (Acks::default(), Instant::now());
        let (one, two) = (ConnectionId(1), ConnectionId(2));
        assert_eq!((acks.due(), acks.take(one)), (None, None));
        acks.hold(one, 5, now);
        acks.hold(one, 6, now + ACK_DELAY / 2);
        assert_eq!(acks.due(), Some(now + ACK_DELAY), "it waits no longer for a further one");
        assert_eq!(acks.take(one), Some(ToWorker::Saved { report: 6 }));
        assert_eq!((acks.due(), acks.take(one)), (None, None));
        acks.hold(one, 7, now);
        acks.hold(two, 1, now + ACK_DELAY / 2);
        assert!(acks.take_due(now + ACK_DELAY / 2).is_empty());
        let due = [(one, ToWorker::Saved { report: 7 }), (two, ToWorker::Saved { report: 1 })];
        assert_eq!(acks.take_due(now + ACK_DELAY), due);
        assert_eq!(acks.due(), None);
        assert!(acks.take_all().is_empty());
    }
}
