//! Whether a process is told to end for the first time, once more, or the same thing twice.
//!
//! Whoever ends a batch job, and `timeout`, may tell each process of it, and launchers in it pass that on once more. People who
//! press Ctrl-C twice mean it.

use std::time::Duration;

use crate::limits::INTERRUPT_ECHO;

/// What a signal that asks a process to end means to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// It is to end in order.
    First,
    /// It was told so a moment ago.
    Echo,
    /// It is to end at once.
    Again,
}

/// When a process was told to end for the last time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interruptions(Option<Duration>);

impl Interruptions {
    /// It is told to end, so long after some moment that is always the same; by SIGTERM, as programs do, or otherwise.
    pub fn hear(&mut self, at: Duration, is_sigterm: bool) -> Interrupt {
        match self.0.replace(at) {
            None => Interrupt::First,
            Some(before) if is_sigterm && at.saturating_sub(before) <= INTERRUPT_ECHO => Interrupt::Echo,
            Some(_) => Interrupt::Again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sigterm_that_is_passed_on_is_no_second_one() {
        let check = |told: &[(u64, bool)], expected: Interrupt| {
            let mut interrupts = Interruptions::default();
            let heard = told
                .iter()
                .map(|(ms, is_sigterm)| interrupts.hear(Duration::from_millis(5000 + ms), *is_sigterm));
            assert_eq!(heard.last(), Some(expected), "{told:?}");
        };
        check(&[(0, true)], Interrupt::First);
        check(&[(0, false)], Interrupt::First);
        check(&[(0, true), (1, true)], Interrupt::Echo);
        check(&[(0, true), (1, true), (900, true)], Interrupt::Echo);
        check(&[(0, false), (1, true)], Interrupt::Echo);
        check(&[(0, true), (1, false)], Interrupt::Again);
        check(&[(0, false), (1, false)], Interrupt::Again);
        check(&[(0, true), (2000, true)], Interrupt::Again);
    }
}
