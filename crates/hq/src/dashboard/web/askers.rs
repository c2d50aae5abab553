//! Threads with a session each that ask the server what requests over HTTP want to know: few, so that a browser cannot keep
//! the server busy, and more than one, so that a slow answer holds up nobody else.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::source::{self, Asker};
use crate::error::HqError;

/// Threads that ask.
const ASKERS: usize = 3;
/// Questions that wait for one of them; more are refused.
const WAITING_MAX: usize = 64;
/// How long an answer may take.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(30);

type Question = Box<dyn FnOnce(&mut Asker) + Send>;

/// The threads.
pub(super) struct Askers(SyncSender<Question>);

impl Askers {
    /// Starts them, for the server of a directory. They end with the last of those who ask.
    pub(super) fn start(server_dir: &Path) -> Result<Askers, HqError> {
        let (ask, asked) = sync_channel(WAITING_MAX);
        let asked = Arc::new(Mutex::new(asked));
        for _ in 0..ASKERS {
            let (dir, asked, session) =
                (server_dir.to_owned(), Arc::clone(&asked), source::open(server_dir)?);
            let run = move || {
                let mut asker = Asker::new(dir, session);
                while let Some(question) = next(&asked) {
                    question(&mut asker);
                }
            };
            thread::Builder::new().name("hq-ask".to_owned()).spawn(run)?;
        }
        Ok(Askers(ask))
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Asker) -> Result<T, HqError> + Send + 'static,
    ) -> Result<T, HqError> {
        let (tell, answer) = oneshot::channel();
        let asked: Question = Box::new(move |asker| {
            // Who has gone need not be told.
            if !tell.is_closed() {
                drop(tell.send(question(asker)));
            }
        });
        self.0.try_send(asked).map_err(|_| {
            HqError::failed("busy", format!("{WAITING_MAX} requests are already waiting for the server"))
                .hint("try again in a moment")
        })?;
        match timeout(ANSWER_TIME, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(HqError::failed("internal", "the request was lost: try again")),
            Err(_) => {
                let text = format!("the server has not answered for {} s", ANSWER_TIME.as_secs());
                Err(HqError::failed("no-answer", text).hint("check it with `hq server info`"))
            }
        }
    }
}

fn next(asked: &Mutex<Receiver<Question>>) -> Option<Question> {
    asked.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
