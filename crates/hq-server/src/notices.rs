//! Notices about jobs: each is sent on a thread of its own, of which the machine bounds the number, and what came of it is told
//! to the machine. Nothing else waits for whoever is told.

use std::path::Path;
use std::sync::Arc;

use hq_command::Stop;
use hq_core::server::Input;
use hq_model::Notice;
use tracing::{info, warn};

use crate::inbox::{Event, Inbox, Room};

/// The way out for notices.
#[derive(Debug)]
pub(crate) struct Notices {
    inbox: Arc<Inbox>,
    // Where programs find the server.
    server_dir: Arc<Path>,
    stop: Stop,
}

impl Notices {
    /// No thread yet.
    pub(crate) fn new(inbox: Arc<Inbox>, server_dir: Arc<Path>) -> Notices {
        Notices { inbox, server_dir, stop: Stop::default() }
    }

    /// Sends a notice, and tells the machine when that has ended.
    pub(crate) fn send(&self, notice: Box<Notice>) {
        let (job, rule) = (notice.job, notice.rule);
        let (inbox, dir, stop) = (self.inbox.clone(), self.server_dir.clone(), self.stop.clone());
        let work = move || {
            // Whatever happens in there, the machine hears of it.
            let sent = std::panic::catch_unwind(|| hq_notice::send(&notice, Some(&dir), &stop));
            let result = sent.unwrap_or_else(|_| Err("the server could not send it".to_owned()));
            let (reason, target) = (notice.event.moment().word(), notice.target.shown());
            match &result {
                Ok(()) => info!(job = %notice.job, reason, target, "notice sent"),
                Err(error) => warn!(job = %notice.job, reason, target, error, "notice not sent"),
            }
            inbox.push(Event::input(Input::NoticeSent { job, rule, result }), Room::none());
        };
        if let Err(error) = std::thread::Builder::new().name("hq-notice".into()).spawn(work) {
            let result = Err(format!("the server has no thread for it: {error}"));
            self.inbox.push(Event::input(Input::NoticeSent { job, rule, result }), Room::none());
        }
    }

    /// Ends the programs that tell now, with what they have started. To be called when nobody hears of it any more: what they tell is
    /// in the journal as not told, and the next server tells it.
    pub(crate) fn end(&self) {
        self.stop.end();
    }
}
