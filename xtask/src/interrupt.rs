//! Ctrl-C ends the step that runs; what was begun is then cleaned up as after any failure.

#![expect(unsafe_code, reason = "handles signals")]

use std::sync::atomic::{AtomicBool, Ordering};

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    IS_INTERRUPTED.store(true, Ordering::Relaxed);
}

/// From now on SIGINT and SIGTERM are noted. Programs that are started later die of them as usual.
pub(crate) fn watch() {
    let handler: extern "C" fn(libc::c_int) = note;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic, which is allowed in a signal handler.
        unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
    }
}

/// Whether someone wants the program to end.
pub(crate) fn happened() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}
