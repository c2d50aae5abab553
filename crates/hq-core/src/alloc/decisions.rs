//! What was decided about a queue lately, and why: for whoever asks later.

use std::collections::VecDeque;

use hq_model::Timestamp;

use crate::limits::DECISIONS_KEPT;

/// Something that was decided, perhaps again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When first.
    pub first: Timestamp,
    /// When last.
    pub last: Timestamp,
    /// How often, with at most one other in between.
    pub count: u64,
    /// What and why.
    pub text: String,
}

/// The last decisions about a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions(VecDeque<Decision>);

impl Decisions {
    /// Notes one. The same as the last, or as the last but one, is counted and becomes the last: what is tried and refused
    /// again and again takes two places, not all.
    pub fn note(&mut self, now: Timestamp, text: impl Into<String>) {
        let text = text.into();
        let again = self.0.iter().rev().take(2).position(|one| one.text == text);
        if let Some(mut one) = again.and_then(|back| self.0.remove(self.0.len() - 1 - back)) {
            one.last = now;
            one.count += 1;
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
            decisions.note(Timestamp(at), at.to_string());
        }
        assert_eq!(decisions.iter().count(), DECISIONS_KEPT);
    }
}
