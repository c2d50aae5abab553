//! What only a fault of our own can bring about. It is counted and told, and the work goes on without the part concerned;
//! in tests and in the simulator it is a panic.

use std::fmt::Arguments;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::NEVER_TOLD_MAX;

static COUNT: AtomicU64 = AtomicU64::new(0);
static TELL: OnceLock<fn(&Never)> = OnceLock::new();

/// Something that can never happen, and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Never {
    /// The so-many-th of this process, from 1.
    pub number: u64,
    /// The place in the source.
    pub place: &'static str,
    /// What happened, with the story of the task or job concerned.
    pub text: String,
}

/// How often it happened in this process. No decision depends on it.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Has what happens told, by the log of a process. The first call in a process counts.
pub fn tell_by(tell: fn(&Never)) {
    let _ = TELL.set(tell);
}

/// Counts and tells, the first of them with their texts. For [`never!`](crate::never!).
#[cold]
pub fn happened(place: &'static str, text: Arguments<'_>) {
    let number = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    if let Some(tell) = TELL.get().filter(|_| number <= NEVER_TOLD_MAX) {
        tell(&Never { number, place, text: text.to_string() });
    }
}

/// Says that this place can never be reached; what is missing there is left out. The text is made only when it is.
#[macro_export]
macro_rules! never {
    ($($text:tt)+) => {
        if cfg!(debug_assertions) {
            panic!("this can never happen: {}", format_args!($($text)+))
        } else {
            $crate::never::happened(concat!(file!(), ":", line!()), format_args!($($text)+))
        }
    };
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    static TOLD: Mutex<Vec<Never>> = Mutex::new(Vec::new());

    #[test]
    fn what_happens_is_counted_and_told_within_bounds() {
        tell_by(|never| TOLD.lock().unwrap().push(never.clone()));
        for task in 0..NEVER_TOLD_MAX + 5 {
            happened("here:1", format_args!("task 3@{task} is nowhere"));
        }
        assert_eq!(count(), NEVER_TOLD_MAX + 5);
        let told = TOLD.lock().unwrap();
        assert_eq!(told.len() as u64, NEVER_TOLD_MAX);
        let first = Never { number: 1, place: "here:1", text: "task 3@0 is nowhere".into() };
        assert_eq!(told.first(), Some(&first));
    }

    #[test]
    #[should_panic(expected = "this can never happen: task 3@1 is in 2 sets")]
    fn tests_panic() {
        never!("task {} is in {} sets", "3@1", 2);
    }
}
