//! The server has taken the worker in.

use hq_core::worker_messages::Welcome;
use tracing::info;

use super::Turns;
use crate::options::Registered;

impl Turns {
    pub(super) fn welcomed(&mut self, welcome: &Welcome) {
        info!(worker = %welcome.worker, server = %welcome.server_uid, "the server took the worker in");
        self.supervisor.set_server_uid(&welcome.server_uid);
        self.supervisor.set_worker(welcome.worker);
        self.nodes.set_own(welcome.worker);
        self.supervisor.set_linked(true);
        self.has_given_up_logs = false;
        if let Some(tell) = self.registered.take() {
            let (worker, config) = (welcome.worker, self.machine.config().clone());
            // Whoever started it may listen no more.
            let _ = tell.send(Registered { worker, config, idle_timeout: welcome.idle_timeout });
        }
    }
}
