//! Lines: workers that share a connection. To the deciding thread each is a connection of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hq_core::server::{ConnectionId, Input};
use hq_proto::OnLine;

use crate::inbox::{Event, Inbox, Room};
use crate::limits::LINES_MAX;
use crate::outbox::Outbox;

/// Those of one connection.
#[derive(Debug)]
pub(crate) struct Lines {
    inbox: Arc<Inbox>,
    // Ids are unique over all ports.
    last_id: Arc<AtomicU64>,
    // What is said of no line.
    first: ConnectionId,
    outbox: Arc<Outbox>,
    open: BTreeMap<u32, Line>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    speaker: ConnectionId,
    // Who speaks there is behind the other end of the connection.
    is_passed: bool,
}

/// A connection has so many lines that it may have no more.
#[derive(Debug, thiserror::Error)]
#[error("it opens more than {LINES_MAX} lines")]
pub(crate) struct TooMany;

impl Lines {
    /// Those of a connection that has only just come: none but its own.
    pub(crate) fn new(
        inbox: Arc<Inbox>,
        last_id: Arc<AtomicU64>,
        first: ConnectionId,
        outbox: Arc<Outbox>,
    ) -> Lines {
        Lines { inbox, last_id, first, outbox, open: BTreeMap::new() }
    }

    /// Who speaks on a line, which is opened where it is new. None where it has ended.
    ///
    /// # Errors
    /// When it is one too many.
    pub(crate) fn speaker(
        &mut self,
        OnLine { line, ends, is_passed }: OnLine,
    ) -> Result<Option<ConnectionId>, TooMany> {
        if ends {
            self.end(line, !is_passed);
            return Ok(None);
        }
        if line == 0 {
            return Ok(Some(self.first));
        }
        if let Some(open) = self.open.get(&line) {
            return Ok(Some(open.speaker));
        }
        if self.open.len() >= LINES_MAX {
            return Err(TooMany);
        }
        let speaker = ConnectionId(self.last_id.fetch_add(1, Ordering::Relaxed) + 1);
        self.open.insert(line, Line { speaker, is_passed });
        self.inbox.push(Event::Opened(speaker, Arc::new(self.outbox.of_line(line))), Room::none());
        Ok(Some(speaker))
    }

    fn end(&mut self, line: u32, is_closed: bool) {
        if let Some(Line { speaker: connection, .. }) = self.open.remove(&line) {
            self.inbox.push(Event::input(Input::WorkerGone { connection, is_closed }), Room::none());
        }
    }

    /// The connection is gone, and all of its lines with it. Who closed it was not those who are behind it: they may live.
    pub(crate) fn all_gone(self, is_closed: bool) {
        for Line { speaker: connection, is_passed } in self.open.into_values() {
            let is_closed = is_closed && !is_passed;
            self.inbox.push(Event::input(Input::WorkerGone { connection, is_closed }), Room::none());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Lines {
        let (outbox, _) = Outbox::new("peer".to_owned(), 1 << 20, Arc::default());
        Lines::new(Arc::new(Inbox::new()), Arc::new(AtomicU64::new(7)), ConnectionId(7), Arc::new(outbox))
    }

    fn speaker(lines: &mut Lines, line: u32) -> ConnectionId {
        lines.speaker(OnLine { line, ends: false, is_passed: false }).expect("room").expect("it goes on")
    }

    // What the deciding thread hears.
    fn heard(lines: &Lines) -> Vec<String> {
        let mut entries = Vec::new();
        lines.inbox.take(&mut entries, Some(std::time::Instant::now()));
        let told = entries.into_iter().map(|entry| match entry.into_parts().1 {
            Event::Opened(connection, _) => format!("{} opened", connection.0),
            Event::Input(input) => match *input {
                Input::WorkerGone { connection, is_closed: true } => format!("{} closed", connection.0),
                other => format!("{other:?}"),
            },
            Event::Broken => "broken".to_owned(),
        });
        told.collect()
    }

    #[test]
    fn each_line_is_a_connection_until_it_ends_or_all_do() {
        let mut lines = lines();
        assert_eq!(speaker(&mut lines, 0), ConnectionId(7), "nothing is said of lines");
        let (one, other) = (speaker(&mut lines, 1), speaker(&mut lines, 9));
        assert_eq!((one, other, speaker(&mut lines, 1)), (ConnectionId(8), ConnectionId(9), one));
        assert_eq!(lines.speaker(OnLine { line: 1, ends: true, is_passed: false }).expect("no harm"), None);
        assert_eq!(
            lines.speaker(OnLine { line: 5, ends: true, is_passed: false }).expect("no harm"),
            None,
            "it never was"
        );
        assert_eq!(heard(&lines), ["8 opened", "9 opened", "8 closed"]);
        let inbox = Arc::clone(&lines.inbox);
        lines.all_gone(true);
        let mut entries = Vec::new();
        inbox.take(&mut entries, None);
        assert_eq!(entries.len(), 1, "the other one is gone, and the first is told by whoever serves it");
    }

    #[test]
    fn whoever_is_behind_a_connection_does_not_end_with_it() {
        let mut lines = lines();
        speaker(&mut lines, 1);
        for line in [2, 3] {
            lines.speaker(OnLine { line, ends: false, is_passed: true }).expect("room");
        }
        lines.speaker(OnLine { line: 3, ends: true, is_passed: true }).expect("no harm");
        let inbox = Arc::clone(&lines.inbox);
        lines.all_gone(true);
        let mut entries = Vec::new();
        inbox.take(&mut entries, None);
        let ends = entries.into_iter().filter_map(|entry| match entry.into_parts().1 {
            Event::Input(input) => match *input {
                Input::WorkerGone { connection, is_closed } => Some((connection.0, is_closed)),
                _ => None,
            },
            _ => None,
        });
        assert_eq!(ends.collect::<Vec<_>>(), [(10, false), (8, true), (9, false)]);
    }

    #[test]
    fn a_connection_cannot_open_lines_without_end() {
        let mut lines = lines();
        for line in 1..=LINES_MAX as u32 {
            speaker(&mut lines, line);
        }
        let one_too_many = OnLine { line: u32::MAX, ends: false, is_passed: false };
        assert_eq!(
            lines.speaker(one_too_many).expect_err("too many").to_string(),
            "it opens more than 16384 lines"
        );
        lines.speaker(OnLine { line: 3, ends: true, is_passed: false }).expect("no harm");
        assert!(lines.speaker(one_too_many).is_ok());
    }
}
