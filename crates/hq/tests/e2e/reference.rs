//! The committed reference of the command line is what the program prints.

use std::path::Path;

use crate::cluster::Place;

#[test]
fn the_reference_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let printed = Place::new().ok("generate-reference");
    assert!(
        committed == printed,
        "docs/reference/cli.md is not what the program says: run `cargo xtask gen`"
    );
}

#[test]
fn completions_know_the_commands() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = place.ok(&format!("generate-completion {shell}"));
        assert!(script.contains("each-line"), "{shell}");
    }
}

#[test]
fn version_and_help_are_answers() {
    let place = Place::new();
    assert_eq!(place.ok("--version"), format!("hq {}\n", env!("CARGO_PKG_VERSION")));
    assert!(place.ok("submit --help").ends_with("job.sh\n"));
}
