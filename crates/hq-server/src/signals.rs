//! What signals do to a server process: the first SIGTERM, SIGINT or SIGQUIT ends it cleanly, the second at
//! once, SIGHUP is survived. SIGTERM that comes twice in one moment is one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use hq_core::interrupt::{Interrupt, Interruptions};
use hq_core::server::Input;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::error::ServerError;
use crate::inbox::{Event, Inbox, Room};
use crate::journal_thread::queue::JournalQueue;

const SIGTERM: &str = "SIGTERM";

/// The signals of this process.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
}

impl Signals {
    /// Catches them from now on. To be called within a tokio runtime.
    pub(crate) fn catch() -> Result<Signals, ServerError> {
        let catch = |kind| signal(kind).map_err(ServerError::system("signals cannot be caught"));
        Ok(Signals {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
            quit: catch(SignalKind::quit())?,
            hangup: catch(SignalKind::hangup())?,
        })
    }

    /// Handles signals for ever. `access` is removed before an end at once.
    pub(crate) async fn handle(
        mut self,
        inbox: Arc<Inbox>,
        journal_queue: Option<Arc<JournalQueue>>,
        access: PathBuf,
    ) {
        let (begun, mut interrupts) = (Instant::now(), Interruptions::default());
        let mut hear = |signal| interrupts.hear(begun.elapsed(), signal == SIGTERM);
        let signal = self.next().await;
        hear(signal);
        info!(signal, "asked to end; once more ends at once");
        if let Some(journal_queue) = journal_queue {
            journal_queue.stop();
        }
        inbox.push(Event::input(Input::Stop), Room::none());
        let signal = loop {
            let signal = self.next().await;
            if hear(signal) == Interrupt::Again {
                break signal;
            }
        };
        warn!(signal, "ended at once");
        // A stale access file does no harm.
        let _ = std::fs::remove_file(access);
        std::process::exit(1);
    }

    async fn next(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return SIGTERM,
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.quit.recv() => return "SIGQUIT",
                _ = self.hangup.recv() => info!("SIGHUP ignored"),
            }
        }
    }
}
