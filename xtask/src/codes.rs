//! Every error code of the program has its line in the documentation, and the page knows no other.

use std::collections::BTreeSet;
use std::fs;

use crate::place::Place;
use crate::tidy::Findings;

/// The page, below the workspace.
const PAGE: &str = "docs/reference/error-codes.md";
/// Where errors that users see get their codes.
const SOURCES: [&str; 6] = [
    "crates/hq/src",
    "crates/hq-make/src",
    "crates/hq-client/src",
    "crates/hq-core/src",
    "crates/hq-server/src",
    "crates/hq-worker/src",
];
/// What stands before a code, and how far behind it the code may be.
const BEFORE: [(&str, usize); 4] =
    [("HqError::failed(", 40), ("code: \"", 0), ("_RULE: &str = \"", 0), ("RULE_CYCLE: &str = \"", 0)];

/// Compares page and sources.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn check(place: &Place, findings: &mut Findings) -> Result<(), String> {
    let read = |path: &std::path::Path| {
        fs::read_to_string(place.root.join(path)).map_err(|error| format!("{}: {error}", path.display()))
    };
    let mut used = BTreeSet::new();
    for directory in SOURCES {
        for path in place.files(directory, ".rs").map_err(|error| error.to_string())? {
            if !path.ends_with("tests.rs") {
                used.extend(codes(&read(&path)?));
            }
        }
    }
    let page = read(PAGE.as_ref())?;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let told: BTreeSet<String> = rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned())).collect();
    for code in used.union(&told) {
        findings.note(told.contains(code), || format!("{PAGE}: the code `{code}` is missing"));
        findings.note(used.contains(code), || format!("{PAGE}: no error has the code `{code}`"));
    }
    Ok(())
}

// The codes that a source gives to errors.
fn codes(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in text.split("fn code(&self) -> &'static str {").skip(1) {
        let body = part.split("\n    }\n").next().unwrap_or_default();
        found.extend(body.split('"').skip(1).step_by(2).map(str::to_owned));
    }
    for (before, distance) in BEFORE {
        for part in text.split(before).skip(1) {
            let literal = if distance == 0 {
                Some(part)
            } else {
                part.split_once('"')
                    .filter(|(gap, _)| gap.len() <= distance && gap.trim().is_empty())
                    .map(|(_, rest)| rest)
            };
            found.extend(literal.and_then(|rest| rest.split('"').next()).map(str::to_owned));
        }
    }
    found.retain(|code| !code.is_empty() && code.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_in_sources() {
        let source = "fn code(&self) -> &'static str {\n        match self { A => \"no-a\", B => b.code() }\n    }\n\
                      HqError::failed(\n    \"no-b\", x); HqError::failed(code, \"a text\"); E { code: \"usage\", y }";
        assert_eq!(codes(source).into_iter().collect::<Vec<_>>(), ["no-a", "no-b", "usage"]);
    }
}
