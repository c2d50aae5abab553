//! Where scripts, ids and outputs of allocations are: below the server's directory, wherever that is now.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hq_model::{AllocationRef, ByteString, QueueId};

use crate::alloc::{Allocation, BatchOrder, QueueState};
use crate::limits::ALLOCATION_DIRECTORIES_KEPT;
use crate::server::machine::Server;
use crate::server::{Effect, Gate};

/// Below the server's directory.
const ALLOCATIONS: &str = "autoalloc";

impl Server {
    /// A directory for allocations.
    pub(super) fn directory_of(&self, name: &str) -> ByteString {
        let server = OsStr::from_bytes(&self.options.info.server_dir);
        Path::new(server).join(ALLOCATIONS).join(name).as_os_str().as_bytes().to_vec()
    }

    /// Where the directory of an allocation is now: below that of the start of the server that made it, beside which the
    /// present start has its own. All of them may have been moved.
    pub(super) fn directory_now(&self, directory: &[u8]) -> ByteString {
        let before = Path::new(OsStr::from_bytes(directory));
        let mut above =
            before.ancestors().filter(|path| path.file_name().is_some_and(|name| name == ALLOCATIONS));
        let now = Path::new(OsStr::from_bytes(&self.options.info.server_dir)).parent();
        let moved = above.next().and_then(|allocations| {
            let start = allocations.parent()?.parent()?;
            Some(now?.join(before.strip_prefix(start).ok()?))
        });
        moved.map_or_else(|| directory.to_vec(), |path| path.as_os_str().as_bytes().to_vec())
    }

    /// What an allocation that ended long ago left is removed.
    pub(super) fn remove_old_directory(&self, id: QueueId, effects: &mut Vec<Effect>) {
        let Some(queue) = self.state.alloc.queues.get(&id) else { return };
        let ended = queue.allocations.values().rev().filter(|one| !one.is_active());
        if let Some(one) = ended.skip(ALLOCATION_DIRECTORIES_KEPT).find(|one| !one.directory.is_empty()) {
            let (manager, directory) = (queue.params.manager.clone(), one.directory.clone());
            let directory = self.directory_now(&directory);
            effects
                .push(Effect::Batch { order: BatchOrder::Remove { manager, directory }, gate: Gate::Open });
        }
    }

    /// Has an allocation looked for of which it is not known whether it was submitted.
    pub(super) fn recover(&self, which: AllocationRef, queue: &QueueState, one: &Allocation) -> BatchOrder {
        let (params, directory) = (queue.params.clone(), self.directory_now(&one.directory));
        BatchOrder::Recover { allocation: which, params, directory }
    }
}
