//! A thread that does what waits for disks, one after the other, for those that must not wait themselves.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};

use tokio::sync::oneshot;

type Work = Box<dyn FnOnce() + Send>;

/// The thread. It begins with the first work, and ends with the last of these, when everything is done.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    name: &'static str,
    // None where the system refused a thread.
    queue: Arc<OnceLock<Option<Sender<Work>>>>,
}

impl Disk {
    pub(crate) fn new(name: &'static str) -> Disk {
        Disk { name, queue: Arc::default() }
    }

    /// Has something done; nobody waits for it. Without a thread it is done at once.
    pub(crate) fn order(&self, work: impl FnOnce() + Send + 'static) {
        match self.queue.get_or_init(|| start(self.name)) {
            // The thread ends only when the queue does.
            Some(queue) => drop(queue.send(Box::new(work))),
            None => work(),
        }
    }

    /// Has something done, and waits for what comes of it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.begin(work).await.ok()
    }

    /// Has something done meanwhile; what comes of it can be waited for.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (answer, told) = oneshot::channel();
        self.order(move || drop(answer.send(work())));
        told
    }
}

fn start(name: &str) -> Option<Sender<Work>> {
    let (queue, works) = mpsc::channel::<Work>();
    let body = move || works.into_iter().for_each(|work| work());
    std::thread::Builder::new().name(name.into()).spawn(body).ok()?;
    Some(queue)
}
