//! Who asks a worker to end.

use std::future::pending;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tracing::debug;

use crate::options::Interrupts;

// Who tells a worker to end.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Interrupter {
    // Ctrl-C, or the program the worker is part of.
    Person,
    // SIGTERM.
    BatchSystem,
}

pub(super) enum InterruptSource {
    Signals { terminate: Signal, interrupt: Signal, hangup: Signal },
    Channel(mpsc::UnboundedReceiver<()>),
}

impl InterruptSource {
    pub(super) fn new(interrupts: Interrupts) -> std::io::Result<InterruptSource> {
        Ok(match interrupts {
            Interrupts::Channel(receiver) => InterruptSource::Channel(receiver),
            Interrupts::Signals => InterruptSource::Signals {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                hangup: signal(SignalKind::hangup())?,
            },
        })
    }

    pub(super) async fn next(&mut self) -> Interrupter {
        match self {
            InterruptSource::Channel(receiver) => match receiver.recv().await {
                Some(()) => Interrupter::Person,
                None => pending().await,
            },
            InterruptSource::Signals { terminate, interrupt, hangup } => loop {
                tokio::select! {
                    _ = terminate.recv() => return Interrupter::BatchSystem,
                    _ = interrupt.recv() => return Interrupter::Person,
                    _ = hangup.recv() => debug!("hangup ignored"),
                }
            },
        }
    }
}
