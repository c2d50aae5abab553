//! A thread that does what waits for disks, one after the other, for those that must not wait themselves.

use std::io;
use std::sync::mpsc;

use tokio::sync::oneshot;

type Work = Box<dyn FnOnce() + Send>;

/// The thread. It ends with the last of these, when everything is done.
#[derive(Clone, Debug)]
pub(crate) struct Disk(mpsc::Sender<Work>);

impl Disk {
    /// Starts it.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn start(name: &str) -> io::Result<Disk> {
        let (queue, works) = mpsc::channel::<Work>();
        let body = move || works.into_iter().for_each(|work| work());
        std::thread::Builder::new().name(name.into()).spawn(body)?;
        Ok(Disk(queue))
    }

    /// Has something done; nobody waits for it.
    pub(crate) fn order(&self, work: impl FnOnce() + Send + 'static) {
        // The thread ends only when the queue does.
        let _ = self.0.send(Box::new(work));
    }

    /// Has something done, and waits for what comes of it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, told) = oneshot::channel();
        self.order(move || drop(answer.send(work())));
        told.await.ok()
    }
}
