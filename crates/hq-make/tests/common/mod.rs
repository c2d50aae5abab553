//! What oracles share.

use hq_make::{Makefile, Source};

/// These rules, and one target that wants these files.
pub(crate) fn read(rules: &str, wanted: &[String]) -> Makefile {
    let targets = format!("all: {{out: [{}]}}\n", wanted.join(", "));
    hq_make::read(
        Source { name: "rules.yaml", text: rules.as_bytes() },
        Source { name: "targets.yaml", text: targets.as_bytes() },
    )
    .expect("good files")
}
