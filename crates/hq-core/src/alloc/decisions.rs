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
    /// How often in a row.
    pub count: u64,
    /// What and why.
    pub text: String,
}

/// The last decisions about a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions(VecDeque<Decision>);

impl Decisions {
    /// Notes one. The same again is counted.
    pub fn note(&mut self, now: Timestamp, text: impl Into<String>) {
        let text = text.into();
        if let Some(last) = self.0.back_mut().filter(|last| last.text == text) {
            last.last = now;
            last.count += 1;
            return;
        }
        if self.0.len() >= DECISIONS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Decision { first: now, last: now, count: 1, text });
    }

    /// The oldest first.
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
        for at in 0..DECISIONS_KEPT as u64 + 3 {
            decisions.note(Timestamp(at), at.to_string());
        }
        assert_eq!(decisions.iter().count(), DECISIONS_KEPT);
    }
}
