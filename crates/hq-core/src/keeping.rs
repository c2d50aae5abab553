//! Rules that server and worker go by alike, so that the server counts what the worker does: which variant of a request is
//! preferred, whose turn it is among those that wait on a worker, and how long one of these keeps others from the room that it lacks.

use std::cmp::Reverse;
use std::time::Duration;

use hq_model::{Request, Timestamp};

use crate::limits::{HEAD_START_MAX, KEPT_MAX, OVERTAKEN_MAX};

/// When it is the turn of a task that came to a worker at this moment, and counts as having come so much earlier: of those of
/// equal priority the earliest one goes first. So none is overtaken by what comes more than [`HEAD_START_MAX`] later.
pub fn turn_of(came: Timestamp, head_start: Duration) -> Timestamp {
    came.after(HEAD_START_MAX.saturating_sub(head_start))
}

/// True when a task that has waited for so long keeps others from what it lacks: those of lower priority at once, those
/// of equal priority when they have overtaken it for long. When that has lasted for long they may overtake it again for a
/// while, so that nothing is kept for ever.
pub fn keeps_room(waited: Duration, from_equal: bool) -> bool {
    keeps_room_for(waited, from_equal).is_some()
}

/// For how much longer it does. Where those of lower priority may overtake it, those of equal priority may, too.
pub fn keeps_room_for(waited: Duration, from_equal: bool) -> Option<Duration> {
    let left_of = |waited: Duration| {
        let kept = waited.as_micros() % (KEPT_MAX + OVERTAKEN_MAX).as_micros();
        KEPT_MAX.checked_sub(Duration::from_micros(kept as u64)).filter(|left| !left.is_zero())
    };
    let from_lower = left_of(waited)?;
    let from_equal_ones = || left_of(waited.checked_sub(OVERTAKEN_MAX)?);
    if from_equal { Some(from_equal_ones()?.min(from_lower)) } else { Some(from_lower) }
}

/// After how much more time a task that has waited for so long stops to keep room from anybody.
pub fn stops_keeping_in(waited: Duration) -> Duration {
    let period = (KEPT_MAX + OVERTAKEN_MAX).as_micros();
    let (over, stops) = (waited.as_micros() % period, KEPT_MAX.as_micros());
    let left = if over < stops { stops - over } else { stops + period - over };
    Duration::from_micros(left as u64)
}

/// The places of variants in the order of preference: larger weights first, then what is named first.
pub fn by_preference(requests: &[Request]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..requests.len() as u32).collect();
    order.sort_by_key(|variant| Reverse(requests[*variant as usize].weight));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_start_overtakes_what_has_not_waited_for_much_longer() {
        let turn = |came_s: u64, head_start_s| {
            turn_of(Timestamp(came_s * 1_000_000), Duration::from_secs(head_start_s))
        };
        assert!(turn(14, 5) < turn(10, 0) && turn(16, 5) > turn(10, 0));
        assert!(turn(31, 1000) > turn(10, 0), "nobody waits for ever");
    }

    #[test]
    fn room_is_kept_from_lower_ones_at_once_from_equal_ones_later_and_never_for_ever() {
        let seconds = Duration::from_secs;
        for (waited, from_lower, from_equal) in [
            (0, true, false),
            (9, true, false),
            (10, true, true),
            (605, false, false),
            (612, true, false),
            (621, true, true),
        ] {
            let found = [false, true].map(|from_equal| keeps_room(seconds(waited), from_equal));
            assert_eq!(found, [from_lower, from_equal], "after {waited} s");
        }
    }

    #[test]
    fn it_is_known_when_room_is_not_kept_any_more() {
        for waited in [0, 9, 599, 600, 605, 609, 610, 611, 1209, 1210, 1219, 1220, 100_000] {
            let waited = Duration::from_secs(waited);
            let stops = |at: Duration| {
                [false, true].iter().any(|from_equal| {
                    let kept = |at| keeps_room(at, *from_equal);
                    kept(at - Duration::from_micros(1)) && !kept(at)
                })
            };
            let next = (1..=610).map(|s| waited + Duration::from_secs(s)).find(|at| stops(*at));
            assert_eq!(Some(waited + stops_keeping_in(waited)), next, "after {waited:?}");
        }
    }
}
