//! Marks: names of places in the code that a run of the simulator, or a test, must come by. A seed that is kept
//! because it broke a promise once shows by them that it still reaches the place where that was mended. A release has
//! none.

use std::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    static REACHED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// Notes that a mark was reached, on this thread. For [`mark!`](crate::mark!).
#[cold]
pub fn reach(name: &'static str) {
    REACHED.with_borrow_mut(|reached| reached.insert(name));
}

/// The marks that were reached on this thread since this was asked last.
pub fn take() -> BTreeSet<&'static str> {
    REACHED.take()
}

/// Says that the branch in which it stands was reached; or, with a condition, that it was when this held.
#[macro_export]
macro_rules! mark {
    ($name:literal) => {
        if cfg!(debug_assertions) {
            $crate::mark::reach($name);
        }
    };
    ($name:literal, $condition:expr) => {
        if cfg!(debug_assertions) && $condition {
            $crate::mark::reach($name);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_of_one_thread_and_asked_for_once() {
        take();
        let reached = |name: &'static str| reach(name);
        reached("two of these");
        reached("one of these");
        reached("two of these");
        assert!(std::thread::spawn(take).join().is_ok_and(|others| others.is_empty()));
        assert_eq!(take(), BTreeSet::from(["one of these", "two of these"]));
        assert_eq!(take(), BTreeSet::new());
    }
}
