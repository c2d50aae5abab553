//! The form of the sources: what every file promises its readers.

use std::fs;
use std::path::Path;

use crate::place::Place;
use crate::{codes, imports, licences};

/// Lines a file may have before its reader is warned, and before it is refused.
const LINES_WARN: usize = 500;
const LINES_MAX: usize = 700;
/// Suffixes of the files whose lines are looked at.
const TEXTS: [&str; 9] = [".rs", ".md", ".toml", ".sh", ".py", ".proto", ".awk", ".json", "run"];
/// What no source may contain; put together here, so that this file may name it.
const UNFINISHED: [&str; 4] =
    [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("d", "bg!("), concat!("#[ig", "nore")];

/// What was found.
#[derive(Default)]
pub(crate) struct Findings {
    /// Checks that passed.
    pub passed: u32,
    /// What must change.
    pub errors: Vec<String>,
    /// What should.
    pub warnings: Vec<String>,
}

impl Findings {
    /// Notes how a check ended.
    pub(crate) fn note(&mut self, is_fine: bool, error: impl FnOnce() -> String) {
        if is_fine { self.passed += 1 } else { self.errors.push(error()) }
    }
}

/// Does all checks and prints what they found.
///
/// # Errors
/// When something must change.
pub(crate) fn run(place: &Place) -> Result<(), String> {
    let findings = check(place)?;
    for warning in &findings.warnings {
        println!("warning: {warning}");
    }
    for error in &findings.errors {
        println!("error: {error}");
    }
    println!("{} passed, {} failed", findings.passed, findings.errors.len());
    if findings.errors.is_empty() { Ok(()) } else { Err(String::new()) }
}

/// Does all checks.
///
/// # Errors
/// When they could not be done.
pub(crate) fn check(place: &Place) -> Result<Findings, String> {
    let mut findings = Findings::default();
    for suffix in TEXTS {
        for path in place.files(".", suffix).map_err(|error| error.to_string())? {
            let text = fs::read_to_string(place.root.join(&path));
            let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
            if !is_generated(&path) {
                check_text(&path, &text, &mut findings);
            }
        }
    }
    imports::check(place, &mut findings)?;
    licences::check(place, &mut findings)?;
    codes::check(place, &mut findings)?;
    Ok(findings)
}

fn is_generated(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "generated" || part.as_os_str() == "corpus")
        || path.ends_with("docs/reference/cli.md")
}

fn check_text(path: &Path, text: &str, findings: &mut Findings) {
    let show = path.display();
    for (number, line) in text.lines().enumerate() {
        if line.trim_end() != line {
            findings.errors.push(format!("{show}:{}: ends with a space", number + 1));
        }
    }
    findings.note(text.is_empty() || text.ends_with('\n'), || format!("{show}: the last line has no end"));
    if path.extension().is_none_or(|extension| extension != "rs") {
        return;
    }
    let lines = text.lines().count();
    findings
        .note(lines <= LINES_MAX, || format!("{show}: {lines} lines; split it, {LINES_MAX} are the most"));
    if lines > LINES_WARN && lines <= LINES_MAX {
        findings.warnings.push(format!("{show}: {lines} lines; {LINES_WARN} are enough for one idea"));
    }
    findings
        .note(opens_well(text), || format!("{show}: does not open with a `//!` sentence on what it is for"));
    for word in UNFINISHED {
        findings.note(!text.contains(word), || format!("{show}: contains `{word}`"));
    }
}

// A first line of `//!` that says something.
fn opens_well(text: &str) -> bool {
    // Fuzz targets have no choice but to begin with an attribute.
    let text = text.strip_prefix("#![no_main]\n").unwrap_or(text);
    text.strip_prefix("//! ").is_some_and(|rest| rest.lines().next().unwrap_or_default().len() > 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, errors: &[&str]) {
        let mut findings = Findings::default();
        check_text(Path::new(path), text, &mut findings);
        assert_eq!(findings.errors, errors);
    }

    #[test]
    fn a_source_says_what_it_is_for() {
        check("a.rs", "//! Says what it is for.\n", &[]);
        check("a.rs", "//! x\n", &["a.rs: does not open with a `//!` sentence on what it is for"]);
        check("a.rs", "fn a() {}\n", &["a.rs: does not open with a `//!` sentence on what it is for"]);
        check("a.md", "# A page\n", &[]);
    }

    #[test]
    fn lines_end_where_their_text_ends() {
        check("a.md", "one \ntwo", &["a.md:1: ends with a space", "a.md: the last line has no end"]);
    }

    #[test]
    fn long_files_are_refused() {
        let text = "//! Says what it is for.\n".repeat(LINES_MAX + 1);
        check("a.rs", &text, &["a.rs: 701 lines; split it, 700 are the most"]);
    }
}
