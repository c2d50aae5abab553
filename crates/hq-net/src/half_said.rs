//! What peers have said of messages that are not complete: so many bytes for all of them together.
//!
//! Where there would be more, those go, the oldest first, which have stopped in the middle. While all others come on, who wants
//! more room waits, and is not read from: messages become whole in the order in which they began. Small ones wait for nobody.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::limits::{HALF_SAID_SMALL, HALF_SAID_STEP};

/// All of it.
#[derive(Debug)]
pub struct HalfSaid {
    bytes_max: usize,
    grace: Duration,
    parts: Mutex<Parts>,
    has_changed: Notify,
}

#[derive(Debug, Default)]
struct Parts {
    // In the order in which they began.
    coming: BTreeMap<u64, One>,
    last_number: u64,
    // Of all of them.
    bytes: usize,
}

#[derive(Debug)]
struct One {
    bytes: usize,
    // Since when its peer has said nothing to speak of, and how much it had said then; `None` while it waits for us.
    silent_since: Option<Instant>,
    come: usize,
    cut: Arc<Notify>,
}

/// A message of which a part has come. It counts until it is dropped.
#[derive(Debug)]
pub struct Part {
    all: Arc<HalfSaid>,
    number: u64,
    cut: Arc<Notify>,
}

/// There was no room, and the message had stopped in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutShort;

impl HalfSaid {
    /// At most so many bytes, and one message more. A peer that has said nothing to speak of for so long has stopped.
    pub fn new(bytes_max: usize, grace: Duration) -> Arc<HalfSaid> {
        Arc::new(HalfSaid { bytes_max, grace, parts: Mutex::default(), has_changed: Notify::new() })
    }

    /// A message begins.
    pub fn begin(self: &Arc<Self>) -> Part {
        let cut = Arc::new(Notify::new());
        let mut parts = self.lock();
        parts.last_number += 1;
        let number = parts.last_number;
        let one = One { bytes: 0, silent_since: Some(Instant::now()), come: 0, cut: Arc::clone(&cut) };
        parts.coming.insert(number, one);
        Part { all: Arc::clone(self), number, cut }
    }

    /// How many bytes it is, and of how many messages.
    pub fn size(&self) -> (usize, usize) {
        let parts = self.lock();
        (parts.bytes, parts.coming.len())
    }

    // A part wants to take so many bytes. False when it has to wait.
    fn takes(&self, number: u64, bytes: usize, come: usize) -> bool {
        let now = Instant::now();
        let parts = &mut *self.lock();
        // One that has to go may not have heard of it.
        let Some(one) = parts.coming.get_mut(&number) else { return true };
        if one.silent_since.is_none() || come >= one.come.saturating_add(HALF_SAID_STEP) {
            (one.silent_since, one.come) = (Some(now), come);
        }
        let more = bytes.saturating_sub(one.bytes);
        while parts.bytes + more > self.bytes_max
            && let Some(stopped) = parts.stopped(now, self.grace)
        {
            parts.remove(stopped);
            self.has_changed.notify_waiters();
        }
        let is_first = parts.unfinished().next().is_some_and(|(first, _)| *first == number);
        let has_room = parts.bytes + more <= self.bytes_max || bytes <= HALF_SAID_SMALL || is_first;
        let Some(one) = parts.coming.get_mut(&number) else { return true };
        if has_room {
            one.bytes += more;
            parts.bytes += more;
        } else {
            one.silent_since = None;
        }
        has_room
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    // Those that are not complete: what is complete has no room to wait for.
    fn unfinished(&self) -> impl Iterator<Item = (&u64, &One)> {
        self.coming.iter().filter(|(_, one)| one.come < usize::MAX)
    }

    fn stopped(&self, now: Instant, grace: Duration) -> Option<u64> {
        let has_stopped = |one: &One| one.silent_since.is_some_and(|since| now - since >= grace);
        self.coming.iter().find(|(_, one)| has_stopped(one)).map(|(number, _)| *number)
    }

    fn remove(&mut self, number: u64) {
        if let Some(one) = self.coming.remove(&number) {
            self.bytes -= one.bytes;
            one.cut.notify_one();
        }
    }
}

impl Part {
    /// It takes so many bytes now, and so many have come. Waits until there is room for them.
    ///
    /// # Errors
    /// When it has to go.
    pub async fn takes(&self, bytes: usize, come: usize) -> Result<(), CutShort> {
        loop {
            let mut changed = pin!(self.all.has_changed.notified());
            // What changes from here on is heard.
            changed.as_mut().enable();
            if self.all.takes(self.number, bytes, come) {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = self.cut.notified() => return Err(CutShort),
                // Those that come on now may have stopped then.
                _ = timeout(self.all.grace, changed) => {}
            }
        }
    }

    /// For whoever reads: is notified once when it has to go.
    pub fn cut(&self) -> Arc<Notify> {
        Arc::clone(&self.cut)
    }

    /// All of it has come. It counts on, and can no more have stopped.
    pub fn is_whole(&self) {
        let mut parts = self.all.lock();
        if let Some(one) = parts.coming.get_mut(&self.number) {
            (one.silent_since, one.come) = (None, usize::MAX);
        }
        drop(parts);
        self.all.has_changed.notify_waiters();
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.all.lock().remove(self.number);
        self.all.has_changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(2);
    const SOON: Duration = Duration::from_millis(1);
    const LARGE: usize = 4 * HALF_SAID_STEP;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime")
            .block_on(test);
    }

    // Without a wait: whether there is room.
    async fn takes(part: &Part, bytes: usize) -> bool {
        timeout(SOON, part.takes(bytes, bytes)).await.is_ok_and(|taken| taken.is_ok())
    }

    #[test]
    fn who_comes_on_keeps_its_room_and_who_wants_more_waits_until_the_first_is_whole() {
        run(async {
            let all = HalfSaid::new(2 * LARGE, GRACE);
            let (first, second, third) = (all.begin(), all.begin(), all.begin());
            assert!(takes(&first, LARGE).await && takes(&second, LARGE).await);
            assert!(!takes(&third, LARGE).await, "there is no room");
            assert!(takes(&third, HALF_SAID_SMALL).await, "a small one waits for nobody");
            assert!(takes(&first, 2 * LARGE).await, "the oldest always goes on");
            first.is_whole();
            assert!(!takes(&third, LARGE).await, "what is whole and not heard counts");
            assert!(takes(&second, 2 * LARGE).await, "now this is the oldest");
            drop((first, second));
            assert!(takes(&third, LARGE).await);
            drop(third);
            assert_eq!(all.size(), (0, 0));
        });
    }

    #[test]
    fn who_has_stopped_in_the_middle_goes_when_another_needs_its_room() {
        run(async {
            let all = HalfSaid::new(2 * LARGE, GRACE);
            let (first, second, third) = (all.begin(), all.begin(), all.begin());
            assert!(takes(&first, LARGE).await && takes(&second, LARGE).await);
            tokio::time::advance(GRACE).await;
            // A byte now and then is nothing to speak of.
            first.takes(LARGE, LARGE + 1).await.expect("there is room");
            second.takes(LARGE, LARGE + HALF_SAID_STEP).await.expect("there is room");
            third.takes(LARGE, LARGE).await.expect("there is room");
            assert_eq!(all.size(), (2 * LARGE, 2));
            first.cut().notified().await;
            // It may ask before it has heard.
            first.takes(2 * LARGE, LARGE + 1).await.expect("it hears of it when it reads");
            assert_eq!(all.size(), (2 * LARGE, 2));
        });
    }

    #[test]
    fn who_waits_for_room_gets_it_when_another_has_stopped_and_has_not_stopped_itself() {
        run(async {
            let all = HalfSaid::new(LARGE, GRACE);
            let (first, second, third) = (all.begin(), all.begin(), all.begin());
            assert!(takes(&first, LARGE).await && takes(&second, HALF_SAID_SMALL).await);
            // All stand still: the first one goes, the second one after it has got room and used none of it.
            second.takes(LARGE, HALF_SAID_SMALL).await.expect("the first one has stopped");
            let began = Instant::now();
            third.takes(LARGE, HALF_SAID_STEP).await.expect("the second one has stopped");
            assert!(began.elapsed() >= GRACE);
            assert_eq!(all.size(), (LARGE, 1));
        });
    }
}
