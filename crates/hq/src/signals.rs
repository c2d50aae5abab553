//! Signals that a command takes in itself, to end in order or to pass them on.

#![expect(unsafe_code, reason = "holds signals back, takes one, and asks which are ignored")]

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Instant;

use hq_core::interrupt::{Interrupt, Interruptions};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Those that end a command which waits.
const ENDING: [SignalKind; 4] =
    [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::quit(), SignalKind::hangup()];

/// A stream of signals.
pub(crate) struct Signals {
    all: Vec<(u8, Signal)>,
    // Of those that end what waits: since when they are heard, and what was heard.
    ends: Option<(Instant, Interruptions)>,
}

impl Signals {
    /// From now on those that end a command no longer end the process. To be called within a runtime.
    pub(crate) fn catch() -> io::Result<Signals> {
        let ends = Some((Instant::now(), Interruptions::default()));
        Ok(Signals { ends, ..Signals::of(&ENDING)? })
    }

    /// From now on these are in the stream, but for those that whoever started us made us ignore, as `nohup` does.
    pub(crate) fn of(kinds: &[SignalKind]) -> io::Result<Signals> {
        let mut all = Vec::with_capacity(kinds.len());
        for kind in kinds {
            if !is_ignored(*kind)? {
                all.push((kind.as_raw_value() as u8, signal(*kind)?));
            }
        }
        Ok(Signals { all, ends: None })
    }

    /// The number of the next one. One that ends what waits, and is told twice in one moment, comes once.
    pub(crate) async fn next(&mut self) -> u8 {
        loop {
            let number = self.received().await;
            let Some((begun, interrupts)) = &mut self.ends else { return number };
            if interrupts.hear(begun.elapsed(), i32::from(number) == libc::SIGTERM) != Interrupt::Echo {
                return number;
            }
        }
    }

    async fn received(&mut self) -> u8 {
        poll_fn(|context| {
            let mut ready = self.all.iter_mut().filter_map(|(number, signal)| {
                matches!(signal.poll_recv(context), Poll::Ready(Some(()))).then_some(*number)
            });
            ready.next().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// From here on a write beyond the largest size of a file (`ulimit -f`) fails as one to a full disk does, and does not end this
/// process. To be called before there are threads.
pub(crate) fn outlive_large_files() {
    extern "C" fn nothing(_: libc::c_int) {}
    let kind = SignalKind::from_raw(libc::SIGXFSZ);
    // Ignored it would stay so in programs that are started from here; what takes it does not outlast their start.
    if !is_ignored(kind).unwrap_or(true) {
        // SAFETY: the function does nothing, and so may be called at any time.
        unsafe {
            libc::signal(kind.as_raw_value(), nothing as extern "C" fn(libc::c_int) as libc::sighandler_t);
        }
    }
}

fn is_ignored(kind: SignalKind) -> io::Result<bool> {
    // SAFETY: all-zero bytes are a valid value of this plain structure, which the kernel fills in; nothing is changed.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        match libc::sigaction(kind.as_raw_value(), std::ptr::null(), &mut action) {
            0 => Ok(action.sa_sigaction == libc::SIG_IGN),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// SIGINT, SIGTERM, SIGQUIT and SIGHUP, held back until somebody can act on them. Threads made meanwhile never see them.
pub(crate) struct HeldSignals {
    before: libc::sigset_t,
}

impl HeldSignals {
    /// Holds them back.
    pub(crate) fn hold() -> io::Result<HeldSignals> {
        // SAFETY: both sets are initialized before they are read: one by sigemptyset, the other by pthread_sigmask.
        unsafe {
            let mut held: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut held);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP] {
                libc::sigaddset(&mut held, signal);
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, &held, &mut before) {
                0 => Ok(HeldSignals { before }),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }

    /// Lets them through in this thread; those that came meanwhile come now.
    pub(crate) fn release(self) -> io::Result<()> {
        // SAFETY: the set was filled by the kernel in `hold`.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}
