//! How many connections may be in the middle of proving their key.
//!
//! Anyone on the network can begin a handshake and stop. So places are limited; when all are taken, one that
//! waits for its peer must go: the oldest of the source that has most. Who waits for us, because many came at
//! once, keeps its place, so a reconnect storm of honest peers passes at the speed of their handshakes.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::limits::{HALF_OPEN_GRACE, half_open_max};

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    places_max: usize,
    places: Mutex<Places>,
    left: Notify,
}

#[derive(Debug, Default)]
struct Places {
    /// By the order in which they were taken.
    taken: BTreeMap<u64, Place>,
    last_number: u64,
}

#[derive(Debug)]
struct Place {
    source: IpAddr,
    /// Since when it is the peer's turn.
    waits_since: Option<Instant>,
    cut_short: Arc<Notify>,
}

/// A place; free again when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    half_open: Arc<HalfOpen>,
    number: u64,
    cut_short: Arc<Notify>,
}

impl Default for HalfOpen {
    fn default() -> HalfOpen {
        HalfOpen { places_max: half_open_max(), places: Mutex::default(), left: Notify::new() }
    }
}

impl HalfOpen {
    /// A place for a connection from there, if there is one now.
    pub(crate) fn enter(self: &Arc<Self>, source: IpAddr) -> Option<Permit> {
        let mut places = self.lock();
        if places.taken.len() >= self.places_max {
            let number = places.dispensable(Instant::now())?;
            if let Some(place) = places.taken.remove(&number) {
                place.cut_short.notify_one();
            }
        }
        places.last_number += 1;
        let number = places.last_number;
        let cut_short = Arc::new(Notify::new());
        places.taken.insert(number, Place { source, waits_since: None, cut_short: cut_short.clone() });
        Some(Permit { half_open: self.clone(), number, cut_short })
    }

    /// Returns when it makes sense to ask for a place again.
    pub(crate) async fn left(&self) {
        // Either way it is looked again.
        let _ = timeout(HALF_OPEN_GRACE, self.left.notified()).await;
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    // Whose peer has had its time, the oldest of the source that has most of them.
    fn dispensable(&self, now: Instant) -> Option<u64> {
        let mut sources: HashMap<IpAddr, (usize, u64)> = HashMap::new();
        for (&number, place) in &self.taken {
            if place.waits_since.is_some_and(|since| now.saturating_duration_since(since) >= HALF_OPEN_GRACE)
            {
                sources.entry(place.source).or_insert((0, number)).0 += 1;
            }
        }
        let most = sources.into_values().max_by_key(|&(count, oldest)| (count, u64::MAX - oldest));
        most.map(|(_, oldest)| oldest)
    }
}

impl Permit {
    /// It is the peer's turn.
    pub(crate) fn waits(&self) {
        if let Some(place) = self.half_open.lock().taken.get_mut(&self.number) {
            place.waits_since.get_or_insert_with(Instant::now);
        }
    }

    /// Ready when the place is needed for another.
    pub(crate) async fn cut_short(&self) {
        self.cut_short.notified().await;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.half_open.lock().taken.remove(&self.number);
        self.half_open.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn places(count: usize) -> Arc<HalfOpen> {
        Arc::new(HalfOpen { places_max: count, ..HalfOpen::default() })
    }

    fn enter(places: &Arc<HalfOpen>, source: IpAddr) -> Permit {
        let permit = places.enter(source).expect("a place");
        permit.waits();
        permit
    }

    async fn is_cut(permit: &Permit) -> bool {
        timeout(Duration::from_millis(1), permit.cut_short()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_us_keeps_its_place_until_one_leaves() {
        let places = places(2);
        let mut permits: Vec<_> = (0..2).map(|_| places.enter(NEAR).expect("a place")).collect();
        advance(HALF_OPEN_GRACE * 2).await;
        assert!(places.enter(FAR).is_none());
        permits.pop();
        assert!(places.enter(FAR).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_the_source_that_has_most_must_go() {
        let places = places(4);
        let lone = enter(&places, FAR);
        let many: Vec<_> = (0..3).map(|_| enter(&places, NEAR)).collect();
        assert!(places.enter(NEAR).is_none(), "none has had its time");
        advance(HALF_OPEN_GRACE).await;
        let late = enter(&places, NEAR);
        assert!(is_cut(&many[0]).await);
        for kept in [&lone, &many[1], &many[2], &late] {
            assert!(!is_cut(kept).await);
        }
        drop(many);
        assert_eq!(places.lock().taken.len(), 2);
    }
}
