//! Ends programs that run, from another thread.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;

use crate::kill_all;

/// Ends all programs that run with it, and lets no more begin.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Mutex<Running>>);

#[derive(Debug, Default)]
struct Running {
    has_ended: bool,
    // Children that nobody has reaped.
    programs: HashSet<Pid>,
}

impl Stop {
    /// Kills what runs, with all that it has started.
    pub fn end(&self) {
        let mut running = self.running();
        running.has_ended = true;
        running.programs.iter().copied().for_each(kill_all);
    }

    /// True when nothing may run any more.
    pub fn has_ended(&self) -> bool {
        self.running().has_ended
    }

    /// A program has begun.
    pub(crate) fn begin(&self, child: Pid) {
        let mut running = self.running();
        running.programs.insert(child);
        if running.has_ended {
            kill_all(child);
        }
    }

    /// A program has ended, and is about to be reaped. True when it may have been killed from here.
    pub(crate) fn end_of(&self, child: Pid) -> bool {
        let mut running = self.running();
        running.programs.remove(&child);
        running.has_ended
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
