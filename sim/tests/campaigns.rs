//! The allocator on a simulated cluster: the short form of what `cargo xtask bench allocations campaign` measures.

use hq_sim::campaign::{Campaign, Measured, play};

fn played(campaign: Campaign) -> Measured {
    play(campaign).unwrap_or_else(|failure| panic!("{failure:#?}"))
}

/// A campaign that was served badly once, with its story.
const BADLY_SERVED: [(u64, &str); 1] = [(
    165,
    "tasks waited on a busy worker behind those of another job, nobody took them back, and one allocation after the \
     other was asked for and stayed idle",
)];

#[test]
fn no_more_is_asked_for_than_what_waits_would_fill() {
    let badly_served = BADLY_SERVED.map(|(seed, _)| seed);
    for seed in (0..12).chain(badly_served) {
        let one = played(Campaign::draw(seed));
        assert!(one.excess <= one.backlog, "seed {seed}: {one:#?}");
        assert!(one.ideal_us * 10 > one.took_us * 6, "seed {seed}: {one:#?}");
    }
}

#[test]
fn a_long_campaign_needs_few_commands() {
    let one = played(Campaign::long(1));
    assert!((95..=105).contains(&one.started), "{one:#?}");
    // What waits when all tasks are over is canceled, and never starts.
    assert!(i64::from(one.submits - one.started) <= one.backlog, "{one:#?}");
    // One when the workers of an allocation have left: its batch job may go on.
    assert!(one.questions < one.started + 10, "{one:#?}");
}
