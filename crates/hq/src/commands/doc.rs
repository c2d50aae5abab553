//! `hq doc`: prints a page of the documentation, or says which there are.

use super::Done;
use crate::error::HqError;
use crate::pages::{PAGES, Page};
use crate::report::Answer;

pub(super) fn doc(topic: Option<Page>) -> Result<Done, HqError> {
    let text = match topic {
        Some(page) => page.to_read(),
        None => contents(),
    };
    Done::ok(Answer { name: "page", text })
}

fn contents() -> String {
    let width = PAGES.iter().map(|page| page.topic.len()).max().unwrap_or(0);
    let lines = PAGES.iter().map(|page| format!("  {:width$}  {}", page.topic, page.title()));
    let lines: Vec<String> = lines.collect();
    format!("Pages, which you can read with `hq doc TOPIC`:\n{}", lines.join("\n"))
}
