//! What is said of a full disk: that it is full, and, once that is over for a while, that there is room again. Each once.

use std::time::Instant;

use crate::limits::STREAM_ROOM_QUIET;

/// When it was full for the last time, if that was said and is not over yet.
#[derive(Debug, Default)]
pub(super) struct Room(Option<Instant>);

impl Room {
    /// It is full. True when that is news.
    pub(super) fn is_full(&mut self, now: Instant) -> bool {
        self.0.replace(now).is_none()
    }

    /// Something was written. True when it is news that this goes well.
    pub(super) fn is_written(&mut self, now: Instant) -> bool {
        let is_over = |last: &mut Instant| now.saturating_duration_since(*last) >= STREAM_ROOM_QUIET;
        self.0.take_if(is_over).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_disk_that_takes_a_little_now_and_then_is_full_once() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut room = Room::default();
        assert!(!room.is_written(at(0)), "nobody was told otherwise");
        assert!(room.is_full(at(1)));
        for minute in 1..100 {
            // The tasks of a minute ago have failed; the first words of the next ones fit.
            assert!(!room.is_written(at(60 * minute)), "minute {minute}");
            assert!(!room.is_full(at(60 * minute + 1)), "minute {minute}");
        }
        let last = 60 * 99 + 1;
        assert!(!room.is_written(at(last + 119)));
        assert!(room.is_written(at(last + 120)));
        assert!(!room.is_written(at(last + 121)), "it was said");
        assert!(room.is_full(at(last + 122)), "and is news when it is full again");
    }
}
