//! A queue between the core's thread and the writer of a connection, bounded by bytes.
//!
//! The core never waits: when the other side does not read, the queue fills, and the connection is
//! closed instead of the server growing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

/// The queue holds as much as it may: the peer does not read, and must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes are waiting to be sent, and the limit is {limit}")]
pub struct Full {
    /// Bytes in the queue.
    pub bytes: usize,
    /// Its limit.
    pub limit: usize,
}

/// The end that never waits.
#[derive(Debug)]
pub struct QueueSender<T> {
    items: mpsc::UnboundedSender<(T, WaitingBytes)>,
    counts: Arc<Counts>,
    limit: usize,
}

/// The end that is waited at.
#[derive(Debug)]
pub struct QueueReceiver<T> {
    items: mpsc::UnboundedReceiver<(T, WaitingBytes)>,
}

/// The bytes of an item: they count as waiting until this is dropped.
#[derive(Debug)]
pub struct WaitingBytes {
    bytes: usize,
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct Counts {
    /// Bytes of this queue, and of it and others together.
    own: AtomicUsize,
    total: Arc<AtomicUsize>,
}

impl Drop for WaitingBytes {
    fn drop(&mut self) {
        self.counts.own.fetch_sub(self.bytes, Ordering::Relaxed);
        self.counts.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A queue that takes items while fewer than `limit` bytes wait in it, so it holds at most `limit`
/// bytes and one item more. An item counts as at least its own size, whatever is said of it.
pub fn bounded_bytes<T>(limit: usize) -> (QueueSender<T>, QueueReceiver<T>) {
    counted_bytes(limit, Arc::default())
}

/// As [`bounded_bytes`]; what waits is counted in `total`, too, together with what waits in other queues.
pub fn counted_bytes<T>(limit: usize, total: Arc<AtomicUsize>) -> (QueueSender<T>, QueueReceiver<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let counts = Arc::new(Counts { own: AtomicUsize::new(0), total });
    (QueueSender { items: sender, counts, limit }, QueueReceiver { items: receiver })
}

impl<T> QueueSender<T> {
    /// Adds an item of `bytes` bytes, without waiting. When the receiver is gone, the item is dropped:
    /// the end of the connection is told elsewhere.
    ///
    /// # Errors
    /// When the queue is full; the item is dropped.
    pub fn try_push(&self, item: T, bytes: usize) -> Result<(), Full> {
        let waiting = self.bytes();
        if waiting >= self.limit {
            return Err(Full { bytes: waiting, limit: self.limit });
        }
        let bytes = bytes.max(size_of::<T>());
        self.counts.own.fetch_add(bytes, Ordering::Relaxed);
        self.counts.total.fetch_add(bytes, Ordering::Relaxed);
        let _ = self.items.send((item, WaitingBytes { bytes, counts: self.counts.clone() }));
        Ok(())
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.counts.own.load(Ordering::Relaxed)
    }

    /// True when what waits is counted there.
    pub fn counts_in(&self, total: &Arc<AtomicUsize>) -> bool {
        Arc::ptr_eq(&self.counts.total, total)
    }

    /// True when the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.items.is_closed()
    }
}

impl<T> Clone for QueueSender<T> {
    fn clone(&self) -> Self {
        QueueSender { items: self.items.clone(), counts: self.counts.clone(), limit: self.limit }
    }
}

impl<T> QueueReceiver<T> {
    /// The next item; `None` when all senders are gone and nothing is left. Dropping the future loses nothing.
    pub async fn recv(&mut self) -> Option<T> {
        Some(self.recv_counted().await?.0)
    }

    /// The next item, if there is one now.
    pub fn try_recv(&mut self) -> Option<T> {
        Some(self.try_recv_counted()?.0)
    }

    /// As [`QueueReceiver::recv`], for who wants an item to count until it is done with it.
    pub async fn recv_counted(&mut self) -> Option<(T, WaitingBytes)> {
        self.items.recv().await
    }

    /// As [`QueueReceiver::try_recv`], likewise.
    pub fn try_recv_counted(&mut self) -> Option<(T, WaitingBytes)> {
        self.items.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_says_so_and_takes_more_when_it_was_read() {
        let (sender, mut receiver) = bounded_bytes::<u64>(100);
        assert_eq!(sender.try_push(1, 60), Ok(()));
        assert_eq!(sender.try_push(2, 60), Ok(()));
        assert_eq!(sender.try_push(3, 1), Err(Full { bytes: 120, limit: 100 }));
        assert_eq!(receiver.try_recv(), Some(1));
        assert_eq!(sender.try_push(4, 1), Ok(()));
        drop(sender);
        assert_eq!((receiver.try_recv(), receiver.try_recv(), receiver.try_recv()), (Some(2), Some(4), None));
    }

    #[test]
    fn many_items_of_no_bytes_fill_it_too() {
        let (sender, _receiver) = bounded_bytes::<u64>(800);
        let taken = (0..1000).take_while(|&i| sender.try_push(i, 0).is_ok()).count();
        assert_eq!(taken, 100);
    }

    #[test]
    fn one_large_item_passes_an_empty_queue() {
        let (sender, mut receiver) = bounded_bytes::<u8>(10);
        assert_eq!(sender.try_push(1, 1000), Ok(()));
        assert!(sender.try_push(2, 1).is_err());
        assert_eq!(receiver.try_recv(), Some(1));
        assert_eq!(sender.bytes(), 0);
    }

    #[test]
    fn what_several_queues_hold_is_counted_together_and_given_back_however_they_end() {
        let total = Arc::new(AtomicUsize::new(0));
        let (one, mut receiver) = counted_bytes::<u64>(100, total.clone());
        let (other, gone) = counted_bytes::<u64>(100, total.clone());
        for sender in [&one, &other, &one] {
            assert_eq!(sender.try_push(1, 10), Ok(()));
        }
        assert_eq!(total.load(Ordering::Relaxed), 30);
        let (_, waiting) = receiver.try_recv_counted().expect("an item");
        assert_eq!((one.bytes(), total.load(Ordering::Relaxed)), (20, 30));
        drop(waiting);
        drop(gone);
        assert_eq!(other.try_push(1, 10), Ok(()));
        assert_eq!((other.bytes(), total.load(Ordering::Relaxed)), (0, 10));
    }

    #[test]
    fn nothing_waits_for_a_receiver_that_is_gone() {
        let (sender, receiver) = bounded_bytes::<u8>(1);
        drop(receiver);
        assert_eq!(sender.try_push(1, 1), Ok(()));
        assert!(sender.is_closed());
    }
}
