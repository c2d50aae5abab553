//! Gives memory back to the system after a load has ended: allocators keep what was freed, and what one thread has
//! allocated and another one freed may stay for ever where the first one has nothing to do.

#![expect(unsafe_code, reason = "asks the allocators of C libraries")]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::{FREE_KEPT_BYTES, GIVE_BACK_BYTES, LARGE_PIECE_BYTES};

// How often memory was given back.
static ROUNDS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static SEEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Watches how much is held, and says when so much was freed that giving it back is worth it.
#[derive(Debug, Default)]
pub(crate) struct HighWater {
    most: usize,
}

impl HighWater {
    /// So many bytes are held now.
    pub(crate) fn sees(&mut self, bytes: usize) {
        self.most = self.most.max(bytes);
    }

    /// So many bytes are held now. True when far less than before.
    pub(crate) fn is_far_less(&mut self, bytes: usize) -> bool {
        self.sees(bytes);
        let is_far_less = self.most - bytes >= GIVE_BACK_BYTES;
        if is_far_less {
            self.most = bytes;
        }
        is_far_less
    }
}

/// Memory of this process that is in use, in bytes, where the system says it.
pub(crate) fn in_use() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = status.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// To be called before there are threads: what they free is given back as soon as it is much.
pub(crate) fn begin() {
    keep_little();
}

/// Gives back what this thread and, where the allocator can, the others have freed.
pub(crate) fn give_back() {
    ROUNDS.fetch_add(1, Ordering::Relaxed);
    collect();
}

/// A thread for connections is about to sleep: what it had allocated may have been freed by others.
pub(crate) fn before_sleep() {
    let rounds = ROUNDS.load(Ordering::Relaxed);
    if SEEN.replace(rounds) != rounds {
        collect();
    }
}

// By itself the allocator keeps more for each thread the larger the pieces were that it has freed, up to 64 MiB; and what is free
// at the end of the memory of a thread it gives back at no other time.
#[cfg(target_env = "gnu")]
fn keep_little() {
    for (what, bytes) in
        [(libc::M_TRIM_THRESHOLD, FREE_KEPT_BYTES), (libc::M_MMAP_THRESHOLD, LARGE_PIECE_BYTES)]
    {
        // SAFETY: it may be called at any time, from any thread.
        unsafe { libc::mallopt(what, bytes) };
    }
}

#[cfg(not(target_env = "gnu"))]
fn keep_little() {}

#[cfg(target_env = "gnu")]
fn collect() {
    // SAFETY: it may be called at any time, from any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(target_env = "musl")]
fn collect() {
    // The program's allocator, whose library is linked with it.
    use mimalloc as _;
    unsafe extern "C" {
        fn mi_collect(force: bool);
    }
    // SAFETY: it may be called at any time, from any thread.
    unsafe { mi_collect(true) };
}

#[cfg(not(any(target_env = "gnu", target_env = "musl")))]
fn collect() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_that_was_freed_is_kept_for_later() {
        let mut held = HighWater::default();
        let mut seen = |bytes: usize| held.is_far_less(bytes);
        assert!(!seen(GIVE_BACK_BYTES * 3));
        assert!(!seen(GIVE_BACK_BYTES * 2 + 1));
        assert!(seen(GIVE_BACK_BYTES * 2));
        assert!(!seen(GIVE_BACK_BYTES + 1));
        assert!(seen(0));
    }
}
