//! What was decided about a queue lately, and why: for whoever asks later.

use std::collections::VecDeque;

use hq_model::Timestamp;

use crate::limits::{DECISIONS_IN_TURN, DECISIONS_KEPT};

/// Something that was decided, perhaps again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When first.
    pub first: Timestamp,
    /// When last.
    pub last: Timestamp,
    /// How often, with few others in between.
    pub count: u64,
    /// What and why, with the numbers that it had the last time.
    pub text: String,
}

/// The last decisions about a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions(VecDeque<Decision>);

impl Decisions {
    /// Notes one. The same as one of the last few is counted and becomes the last, whatever numbers it names: what is tried
    /// and refused again and again takes a place for each step, not all.
    pub fn note(&mut self, now: Timestamp, text: impl Into<String>) {
        let text = text.into();
        let again = self.0.iter().rev().take(DECISIONS_IN_TURN).position(|one| are_alike(&one.text, &text));
        if let Some(mut one) = again.and_then(|back| self.0.remove(self.0.len() - 1 - back)) {
            one.last = now;
            one.count += 1;
            one.text = text;
            self.0.push_back(one);
            return;
        }
        if self.0.len() >= DECISIONS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Decision { first: now, last: now, count: 1, text });
    }

    /// By when they were decided last, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Decision> {
        self.0.iter()
    }
}

// But for numbers, and with them moments, amounts and ids.
fn are_alike(one: &str, other: &str) -> bool {
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let without = |text: &str| -> Vec<u8> {
        let kinds = text.bytes().map(|byte| if is_number(&byte) { b'0' } else { byte });
        let mut kinds: Vec<u8> = kinds.collect();
        kinds.dedup_by(|one, before| *one == b'0' && *before == b'0');
        kinds
    };
    one == other || without(one) == without(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_again_is_counted_and_old_ones_leave() {
        let mut decisions = Decisions::default();
        decisions.note(Timestamp(1), "nothing waits");
        decisions.note(Timestamp(2), "nothing waits");
        let all: Vec<_> = decisions.iter().map(|d| (d.first.0, d.last.0, d.count)).collect();
        assert_eq!(all, [(1, 2, 2)]);
        for at in 3..9 {
            decisions.note(Timestamp(at), if at % 2 == 1 { "it is canceled" } else { "that is refused" });
        }
        let all: Vec<_> = decisions.iter().map(|d| (d.text.as_str(), d.last.0, d.count)).collect();
        assert_eq!(all, [("nothing waits", 2, 2), ("it is canceled", 7, 3), ("that is refused", 8, 3)]);
        for at in 0..DECISIONS_KEPT as u64 + 3 {
            decisions.note(Timestamp(at), "x".repeat(at as usize + 1));
        }
        assert_eq!(decisions.iter().count(), DECISIONS_KEPT);
    }

    #[test]
    fn numbers_make_no_other_decision() {
        let mut decisions = Decisions::default();
        for at in 1..13 {
            decisions.note(Timestamp(at), "asks for 1 allocation");
            decisions.note(Timestamp(at), format!("allocation 1.{at} is over: `sbatch` failed"));
            decisions.note(
                Timestamp(at),
                format!("the last {at} failed; the next one is at 2026-11-29T10:{at:02}:00Z"),
            );
        }
        let all: Vec<_> = decisions.iter().map(|d| (d.text.as_str(), d.first.0, d.last.0, d.count)).collect();
        let expected = [
            ("asks for 1 allocation", 1, 12, 12),
            ("allocation 1.12 is over: `sbatch` failed", 1, 12, 12),
            ("the last 12 failed; the next one is at 2026-11-29T10:12:00Z", 1, 12, 12),
        ];
        assert_eq!(all, expected);
        decisions.note(Timestamp(13), "allocation 1.13 is over: a user canceled it");
        assert_eq!(decisions.iter().count(), 4, "another end is another decision");
    }
}
