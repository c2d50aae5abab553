//! The planning thread: it plans what the deciding thread asks for, and puts the plan into the inbox.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};

use hq_core::server::Input;
use hq_sched::Snapshot;
use hq_sched::limits::STEPS;
use tracing::error;

use crate::inbox::{Event, Inbox, Room};

/// The way to the planning thread, which ends when this is dropped.
pub(crate) struct Planner(SyncSender<(u64, Box<Snapshot>)>);

impl Planner {
    /// A planner, and what its thread runs.
    pub(crate) fn new(inbox: Arc<Inbox>) -> (Planner, impl FnOnce() + Send) {
        let (sender, asked) = mpsc::sync_channel::<(u64, Box<Snapshot>)>(1);
        let run = move || {
            for (number, snapshot) in asked {
                // A plan that says nothing does no harm.
                let planned = catch_unwind(AssertUnwindSafe(|| hq_sched::plan(&snapshot, STEPS)));
                let plan = planned.unwrap_or_else(|_| {
                    error!(
                        classes = snapshot.classes.len(),
                        workers = snapshot.workers.len(),
                        "planning broke"
                    );
                    hq_sched::Plan::default()
                });
                inbox.push(Event::input(Input::Planned { number, plan: Box::new(plan) }), Room::none());
            }
        };
        (Planner(sender), run)
    }

    /// Has this planned. At most one is under way: the machine asks for no more.
    pub(crate) fn plan(&self, number: u64, snapshot: Box<Snapshot>) {
        // Without the thread, or with one that does not take it, the machine goes on when it has waited long enough.
        let _ = self.0.try_send((number, snapshot));
    }
}
