//! What `hq job info` says of generators and reducers.

use hq_core::feed::FeedState;
use hq_model::counted;
use serde_json::{Value, json};

use super::table::Cell;

/// Rows of a job that has a generator.
pub(super) fn rows(state: &FeedState) -> Vec<(&'static str, Cell)> {
    let feed = &state.feed;
    let made = counted(state.made, "task");
    let mut rows =
        vec![("Generator", Cell::from(format!("job {}, {}, {made} made", feed.generator, word(state))))];
    if let Some(reducer) = feed.reducer {
        let reduced = counted(feed.reduced.len(), "task");
        let behind = match state.unreduced() {
            0 => "none behind".to_owned(),
            count => format!("{count} behind"),
        };
        rows.push(("Reducer", format!("job {reducer}, {reduced} reduced, {behind}").into()));
    }
    rows
}

/// The same in JSON.
pub(super) fn value(state: &FeedState) -> Value {
    let feed = &state.feed;
    let text = |text: &Option<Vec<u8>>| text.as_ref().map(|text| String::from_utf8_lossy(text).into_owned());
    json!({
        "generator": feed.generator.0,
        "reducer": feed.reducer.map(|job| job.0),
        "state": word(state),
        "made": state.made,
        "cursor": text(&feed.cursor),
        "reduced": feed.reduced.len(),
        "unreduced": state.unreduced(),
        "unreduced_bytes": state.unreduced_bytes,
        "reducer_state": text(&feed.state),
    })
}

fn word(state: &FeedState) -> &'static str {
    if state.feed.is_decomposed || !state.is_open { "decomposed" } else { "decomposing" }
}
