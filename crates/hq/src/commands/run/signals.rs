//! Signals that end a run in order.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A stream of SIGINT, SIGTERM and SIGHUP.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// From now on they no longer end the process. To be called within a runtime.
    pub(super) fn catch() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The number of the next one.
    pub(super) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            _ = self.hangup.recv() => 1,
        }
    }
}

/// SIGINT, SIGTERM and SIGHUP, held back until somebody can act on them. Threads made meanwhile never see them.
pub(super) struct HeldSignals {
    before: libc::sigset_t,
}

impl HeldSignals {
    /// Holds them back.
    pub(super) fn hold() -> std::io::Result<HeldSignals> {
        // SAFETY: both sets are initialised before they are read: one by sigemptyset, the other by pthread_sigmask.
        unsafe {
            let mut held: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut held);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&mut held, signal);
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, &held, &mut before) {
                0 => Ok(HeldSignals { before }),
                error => Err(std::io::Error::from_raw_os_error(error)),
            }
        }
    }

    /// Lets them through in this thread; those that came meanwhile come now.
    pub(super) fn release(self) -> std::io::Result<()> {
        // SAFETY: the set was filled by the kernel in `hold`.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) } {
            0 => Ok(()),
            error => Err(std::io::Error::from_raw_os_error(error)),
        }
    }
}
