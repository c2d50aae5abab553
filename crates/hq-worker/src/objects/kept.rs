//! Connections to other workers that are kept for the next object: a new one costs more than a small object.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hq_model::WorkerId;
use hq_net::{FrameReceiver, FrameSender};
use tokio::time::{Instant, sleep_until, timeout};

use crate::limits::{KEPT_MAX, KEPT_OF_ONE_MAX, KEPT_TIME};

/// Both ways of a connection.
pub(crate) type Connection = (FrameSender, FrameReceiver);

/// Those that nobody uses now.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    // The oldest first.
    idle: Mutex<VecDeque<Idle>>,
}

#[derive(Debug)]
struct Idle {
    worker: WorkerId,
    since: Instant,
    connection: Connection,
}

impl Kept {
    /// One to a worker, unless there is none that is of use. It may break all the same: then the worker has not heard what was
    /// asked, or it does no harm to ask again.
    pub(crate) async fn take(&self, worker: WorkerId) -> Option<Connection> {
        loop {
            let (sender, mut receiver) = self.pop(worker)?;
            // Nothing is said before something is asked: what can be read is the end.
            if timeout(Duration::ZERO, receiver.next()).await.is_err() {
                return Some((sender, receiver));
            }
        }
    }

    /// Keeps one for a while, on which nothing more is to come. With too many, the oldest ends.
    pub(crate) fn keep(self: &Arc<Kept>, worker: WorkerId, connection: Connection) {
        if self.add(Instant::now(), worker, connection) {
            tokio::spawn(self.clone().end_them());
        }
    }

    // True when it is the only one.
    fn add(&self, now: Instant, worker: WorkerId, connection: Connection) -> bool {
        let mut idle = self.idle();
        let is_of_this = |other: &Idle| other.worker == worker;
        if idle.iter().filter(|other| is_of_this(other)).count() >= KEPT_OF_ONE_MAX {
            let oldest = idle.iter().position(is_of_this);
            oldest.and_then(|oldest| idle.remove(oldest));
        } else if idle.len() >= KEPT_MAX {
            idle.pop_front();
        }
        idle.push_back(Idle { worker, since: now, connection });
        idle.len() == 1
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.idle().len()
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The one that was used last.
    fn pop(&self, worker: WorkerId) -> Option<Connection> {
        let mut idle = self.idle();
        let place = idle.iter().rposition(|other| other.worker == worker)?;
        idle.remove(place).map(|idle| idle.connection)
    }

    // When their time is over, as long as there are some.
    async fn end_them(self: Arc<Kept>) {
        while let Some(next) = self.end_old(Instant::now()) {
            sleep_until(next).await;
        }
    }

    // Those whose time is over; when the next one's is.
    fn end_old(&self, now: Instant) -> Option<Instant> {
        let mut idle = self.idle();
        idle.retain(|idle| now < idle.since + KEPT_TIME);
        idle.front().map(|idle| idle.since + KEPT_TIME)
    }
}

#[cfg(test)]
mod tests {
    use hq_net::{Role, frames_over};
    use tokio::io::{DuplexStream, duplex, split};

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(test);
    }

    fn connection() -> (Connection, DuplexStream) {
        let (near, far) = duplex(1 << 10);
        let (read, write) = split(near);
        (frames_over(read, write, Role::Worker), far)
    }

    #[test]
    fn a_connection_is_taken_again_unless_it_has_ended() {
        run(async {
            let kept = Arc::new(Kept::default());
            let (first, first_far) = connection();
            let (second, second_far) = connection();
            kept.keep(WorkerId(1), first);
            kept.keep(WorkerId(1), second);
            assert!(kept.take(WorkerId(2)).await.is_none(), "that is another one");
            drop(second_far);
            assert!(kept.take(WorkerId(1)).await.is_some(), "the first one is there");
            assert!(kept.take(WorkerId(1)).await.is_none());
            drop(first_far);
        });
    }

    #[test]
    fn what_says_something_that_nobody_asked_for_is_not_taken() {
        run(async {
            let kept = Arc::new(Kept::default());
            let (near, far) = connection();
            let (_read, write) = split(far);
            let (mut sender, _) = frames_over(tokio::io::empty(), write, Role::Worker);
            sender.send(b"word").await.expect("room");
            sender.flush().await.expect("room");
            kept.keep(WorkerId(1), near);
            assert!(kept.take(WorkerId(1)).await.is_none());
        });
    }

    #[test]
    fn they_end_after_a_while() {
        run(async {
            let (kept, begin) = (Kept::default(), Instant::now());
            let half = KEPT_TIME / 2;
            let (first, _first_far) = connection();
            let (second, _second_far) = connection();
            assert!(kept.add(begin, WorkerId(1), first));
            assert!(!kept.add(begin + half, WorkerId(2), second));
            assert_eq!(kept.end_old(begin + half), Some(begin + KEPT_TIME));
            assert_eq!(kept.end_old(begin + KEPT_TIME), Some(begin + half + KEPT_TIME));
            assert_eq!(kept.count(), 1);
            assert_eq!(kept.end_old(begin + half + KEPT_TIME), None);
            let (third, _third_far) = connection();
            assert!(kept.add(begin + 2 * KEPT_TIME, WorkerId(1), third), "it is looked after again");
        });
    }

    #[test]
    fn there_are_never_too_many() {
        run(async {
            let kept = Arc::new(Kept::default());
            let mut ends = Vec::new();
            let mut keep = |worker| {
                let (near, far) = connection();
                kept.keep(WorkerId(worker), near);
                ends.push(far);
            };
            (0..2 * KEPT_OF_ONE_MAX).for_each(|_| keep(1));
            assert_eq!(kept.count(), KEPT_OF_ONE_MAX);
            (0..2 * KEPT_MAX as u32).for_each(|worker| keep(10 + worker));
            assert_eq!(kept.count(), KEPT_MAX);
            assert!(kept.take(WorkerId(1)).await.is_none(), "the oldest have ended");
        });
    }
}
