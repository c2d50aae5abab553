//! Which crate may import which: the architecture, as ARCHITECTURE.md draws it.
//!
//! The line between two crates is where a property changes (pure, bytes, asynchronous, for people),
//! so what a crate must not know it cannot import.

use std::path::Path;

use serde_json::Value;

use crate::place::Place;
use crate::tidy::Findings;

/// Per crate: the crates of this workspace it may use, and what it must not use from elsewhere.
const RULES: [(&str, &[&str], &[&str]); 22] = [
    ("hq-model", &[], IMPURE),
    ("hq-core", &["hq-model", "hq-sched"], IMPURE),
    ("hq-sched", &["hq-model"], IMPURE),
    ("hq-journal", &[], &["tokio", "clap", "serde", "prost"]),
    ("hq-proto", &["hq-model", "hq-core"], &["tokio", "clap", "serde", "rustls"]),
    ("hq-net", &["hq-core", "hq-proto"], &["clap"]),
    ("hq-command", &[], &["tokio", "clap", "serde", "prost", "rustls"]),
    ("hq-notice", &["hq-model", "hq-command"], &["tokio", "clap", "prost"]),
    ("hq-batch", &["hq-model", "hq-command"], &["tokio", "clap", "prost", "rustls"]),
    ("hq-make", &["hq-model"], IMPURE),
    ("hq-stream", &["hq-model"], &["tokio", "clap", "serde", "prost", "rustls"]),
    (
        "hq-server",
        &[
            "hq-model",
            "hq-core",
            "hq-sched",
            "hq-proto",
            "hq-net",
            "hq-pull",
            "hq-journal",
            "hq-batch",
            "hq-command",
            "hq-stream",
            "hq-notice",
        ],
        &["clap"],
    ),
    ("hq-worker", &["hq-model", "hq-core", "hq-proto", "hq-net", "hq-stream"], &["clap"]),
    ("hq-pull", &["hq-model", "hq-core", "hq-proto", "hq-net"], &["clap"]),
    ("hq-client", &["hq-model", "hq-core", "hq-proto", "hq-net"], &[]),
    (
        "hq",
        &[
            "hq-model",
            "hq-core",
            "hq-proto",
            "hq-net",
            "hq-client",
            "hq-server",
            "hq-worker",
            "hq-journal",
            "hq-stream",
            "hq-batch",
            "hq-command",
            "hq-make",
            "hq-pull",
            "hq-notice",
        ],
        &[],
    ),
    ("hq-py", &["hq-model", "hq-core", "hq-client", "hq-net", "hq-worker"], &["clap"]),
    ("hq-sim", &["hq-model", "hq-core", "hq-sched"], &["tokio", "rustls"]),
    (
        "hq-bench",
        &[
            "hq-model",
            "hq-core",
            "hq-sched",
            "hq-sim",
            "hq-journal",
            "hq-proto",
            "hq-net",
            "hq-client",
            "hq-stream",
            "hq-browser",
        ],
        &[],
    ),
    ("hq-browser", &[], &["tokio", "clap", "prost", "rustls"]),
    ("hq-fuzz", &["hq-model", "hq-core", "hq-proto", "hq-net", "hq-stream", "hq-make"], &[]),
    ("xtask", &[], &["tokio"]),
];

/// What brings input, output, time, chance or a foreign format into a crate that must be pure.
const IMPURE: &[&str] = &[
    "tokio",
    "clap",
    "serde",
    "serde_json",
    "prost",
    "rustls",
    "rustix",
    "libc",
    "tracing",
    "getrandom",
    "tempfile",
];

/// Checks every crate of the workspace.
///
/// # Errors
/// When cargo cannot say what the crates are.
pub(crate) fn check(place: &Place, findings: &mut Findings) -> Result<(), String> {
    let metadata = metadata(place, true)?;
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let manifest = manifest.strip_prefix(&place.root).unwrap_or(manifest).display();
        let Some((_, may, must_not)) = RULES.iter().find(|(of, _, _)| *of == name) else {
            findings
                .errors
                .push(format!("{manifest}: nobody has said what `{name}` may import (xtask/src/imports.rs)"));
            continue;
        };
        for used in dependencies(package) {
            let is_ours = used.starts_with("hq-") || used == "hq";
            let is_fine = if is_ours { may.contains(&used) } else { !must_not.contains(&used) };
            findings.note(is_fine, || format!("{manifest}: `{name}` must not import `{used}`"));
        }
    }
    Ok(())
}

/// What cargo says of the workspace and, unless `ours_only`, of everything it depends on.
///
/// # Errors
/// When it cannot say.
pub(crate) fn metadata(place: &Place, ours_only: bool) -> Result<Value, String> {
    let mut command = place.cargo("metadata");
    command.args(["--format-version", "1", "--locked"]);
    if ours_only {
        command.arg("--no-deps");
    }
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

// Those of the library or program; tests may use what they like.
fn dependencies(package: &Value) -> impl Iterator<Item = &str> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    all.filter(|used| used["kind"].is_null()).filter_map(|used| used["name"].as_str())
}
