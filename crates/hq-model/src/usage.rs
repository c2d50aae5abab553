//! What a task used, as the kernel measured it (`wait4`'s rusage of the task and all descendants it waited for).

use std::time::Duration;

/// The measured use of one task, or the sum (maximum, for memory) over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time between start and end, µs.
    pub wall_us: u64,
    /// CPU time in user mode, µs.
    pub user_us: u64,
    /// CPU time in the kernel, µs.
    pub system_us: u64,
    /// Peak resident memory of the largest process, KiB. Over several tasks: the largest.
    pub rss_max_kib: u64,
    /// Blocks of 512 bytes read from block devices.
    pub blocks_read: u64,
    /// Blocks of 512 bytes written to block devices.
    pub blocks_written: u64,
}

impl Usage {
    /// Adds another task's use. Saturates: the numbers come from peers.
    pub fn add(&mut self, other: &Usage) {
        self.wall_us = self.wall_us.saturating_add(other.wall_us);
        self.user_us = self.user_us.saturating_add(other.user_us);
        self.system_us = self.system_us.saturating_add(other.system_us);
        self.rss_max_kib = self.rss_max_kib.max(other.rss_max_kib);
        self.blocks_read = self.blocks_read.saturating_add(other.blocks_read);
        self.blocks_written = self.blocks_written.saturating_add(other.blocks_written);
    }

    /// CPU time in both modes.
    pub fn cpu(&self) -> Duration {
        Duration::from_micros(self.user_us.saturating_add(self.system_us))
    }
}
